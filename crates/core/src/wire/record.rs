//! The record types that are asked for, and what an HTTPS record says (RFC 9460). Meaning only: the bytes are in
//! `dns`, what may be done with it for a program that knows nothing of it in `connect`.

use crate::path::Family;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

/// A record type that is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RecordType {
    /// Service parameters of an origin: RFC 9460, section 9.
    Https,
    /// IPv6 addresses: RFC 3596.
    Aaaa,
    /// IPv4 addresses: RFC 1035.
    A,
}

impl RecordType {
    /// Every type, in the order in which they are asked back to back (draft-ietf-happy-happyeyeballs-v3, section 4).
    pub const ALL: [Self; 3] = [Self::Https, Self::Aaaa, Self::A];

    /// The family whose addresses it holds; `None` for HTTPS, which may hint at both.
    pub fn family(self) -> Option<Family> {
        match self {
            Self::Https => None,
            Self::Aaaa => Some(Family::V6),
            Self::A => Some(Family::V4),
        }
    }
}

impl RecordType {
    /// Its name in zone files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Https => "HTTPS",
            Self::Aaaa => "AAAA",
            Self::A => "A",
        }
    }
}

impl From<Family> for RecordType {
    fn from(family: Family) -> Self {
        match family {
            Family::V4 => Self::A,
            Family::V6 => Self::Aaaa,
        }
    }
}

impl fmt::Display for RecordType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A key of a service parameter: RFC 9460, section 14.3.2.
pub mod key {
    /// `alpn`: application protocols.
    pub const ALPN: u16 = 1;
    /// `port`: of the endpoint.
    pub const PORT: u16 = 3;
    /// `ipv4hint`.
    pub const IPV4_HINT: u16 = 4;
    /// `ipv6hint`.
    pub const IPV6_HINT: u16 = 6;
}

/// One HTTPS record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Service {
    /// SvcPriority: 0 makes it an alias (AliasMode), else the lower the better (ServiceMode).
    pub priority: u16,
    /// Where the service is: lower case, without final dot; `None` for the name that was asked for itself.
    pub target: Option<Arc<str>>,
    /// TCP or UDP port of the endpoint, if it is not the scheme's.
    pub port: Option<u16>,
    /// Application protocols beyond the default one.
    pub alpn: Vec<String>,
    /// The default protocol (HTTP/1.1 over TLS over TCP) is not spoken there.
    pub no_default_alpn: bool,
    /// Addresses of the target, according to the origin's zone.
    pub ipv4hint: Vec<Ipv4Addr>,
    /// Addresses of the target, according to the origin's zone.
    pub ipv6hint: Vec<Ipv6Addr>,
    /// A configuration for Encrypted Client Hello is there (RFC 9849).
    pub ech: bool,
    /// Numbers of keys without which the record must not be used (section 8), whether this program knows them or not.
    pub mandatory: Vec<u16>,
    /// Addresses of the target that the server sent along (section 4.2), IPv4 and IPv6.
    pub addresses: Vec<IpAddr>,
}

impl Service {
    /// Whether it only says where the service is to be looked for.
    pub fn is_alias(&self) -> bool {
        self.priority == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_is_shown_by_its_name_in_columns_too() {
        assert_eq!(RecordType::ALL.map(|record| record.to_string()), ["HTTPS", "AAAA", "A"]);
        assert_eq!(format!("{:>6}|{:<6}|", RecordType::Aaaa, RecordType::A), "  AAAA|A     |");
    }
}
