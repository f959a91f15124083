//! Where a relay may connect to: what its clients ask for, and the list that says which of it they get.
//!
//! Nothing is allowed that no pattern names. A name is decided twice: before it is resolved, so that no DNS server is asked for
//! what will be refused, and with each address that it resolves to. `*` and `*.name` lead to public addresses only: the server
//! that answers for a name could otherwise point it at the relay's own services, or at its neighbours. What never happens here: a
//! name is resolved.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;
use std::str::FromStr;

/// Longest name, in bytes (RFC 1035, section 2.3.4, in text).
pub const MAX_NAME: usize = 253;
/// Longest label of a name, in bytes (RFC 1035, section 2.3.4).
const MAX_LABEL: usize = 63;

/// A host that is asked for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Host {
    /// By name, in small letters, without a dot at its end.
    Name(String),
    /// By address; an IPv4 address inside an IPv6 one is taken out.
    Address(IpAddr),
}

/// What a client wants to be connected to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Destination {
    /// The host.
    pub host: Host,
    /// The port, never zero.
    pub port: u16,
}

/// Why a text is no destination or no pattern.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AccessError {
    /// No colon before a port.
    #[error("{0:?} has no port: write HOST:PORT, and an IPv6 address in brackets, as in [2001:db8::1]:22")]
    NoPort(String),
    /// The port is none.
    #[error("{0:?} is not a valid port: write a number from 1 to 65535{1}")]
    Port(String, &'static str),
    /// The host is none.
    #[error("{0:?} is not a valid host: write a name, an IPv4 address, or an IPv6 address in brackets{1}")]
    Host(String, &'static str),
}

const ALSO_PORTS: &str = ", a range as in 8000-8100, or * for all";
const ALSO_HOSTS: &str = ", with /LENGTH for a network, *.NAME for all names below one, or * for all that is public";

/// Cuts HOST:PORT in two; the brackets of an IPv6 address are removed; the flag says whether there were any.
fn cut(text: &str) -> Result<(&str, bool, &str), AccessError> {
    let none = || AccessError::NoPort(text.to_owned());
    if let Some(rest) = text.strip_prefix('[') {
        let (host, port) = rest.split_once("]:").ok_or_else(none)?;
        return Ok((host, true, port));
    }
    let (host, port) = text.rsplit_once(':').ok_or_else(none)?;
    // Several colons without brackets: ambiguous, the last one may or may not begin a port.
    if host.contains(':') { Err(none()) } else { Ok((host, false, port)) }
}

fn port(text: &str) -> Option<u16> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    text.parse().ok().filter(|port| digits && *port > 0)
}

/// A name as it is compared: small letters, without a dot at its end.
fn name(text: &str) -> Option<String> {
    let name = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
    let plain = |label: &str| {
        (1..=MAX_LABEL).contains(&label.len())
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
    };
    // What ends in a number would be read as an address by one resolver or another (WHATWG URL, section 3.5).
    let numeric = name
        .rsplit('.')
        .next()
        .is_some_and(|last| last.bytes().all(|b| b.is_ascii_digit()) || last.strip_prefix("0x").is_some());
    (name.len() <= MAX_NAME && name.split('.').all(plain) && !numeric).then_some(name)
}

fn host(text: &str, bracketed: bool) -> Option<Host> {
    if bracketed {
        return text.parse::<Ipv6Addr>().ok().map(|v6| Host::Address(IpAddr::V6(v6).to_canonical()));
    }
    text.parse::<Ipv4Addr>().map(|v4| Host::Address(v4.into())).ok().or_else(|| name(text).map(Host::Name))
}

impl FromStr for Destination {
    type Err = AccessError;

    fn from_str(text: &str) -> Result<Self, AccessError> {
        let (host_text, bracketed, port_text) = cut(text)?;
        let port = port(port_text).ok_or_else(|| AccessError::Port(port_text.to_owned(), ""))?;
        let host = host(host_text, bracketed).ok_or_else(|| AccessError::Host(host_text.to_owned(), ""))?;
        Ok(Self { host, port })
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            Host::Name(name) => write!(f, "{name}:{}", self.port),
            Host::Address(IpAddr::V4(v4)) => write!(f, "{v4}:{}", self.port),
            Host::Address(IpAddr::V6(v6)) => write!(f, "[{v6}]:{}", self.port),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Hosts {
    /// `*`
    Public,
    /// `*.name`; kept with its dot.
    Below(String),
    Name(String),
    Network(IpAddr, u8),
}

/// One line of the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    hosts: Hosts,
    ports: RangeInclusive<u16>,
}

impl FromStr for Pattern {
    type Err = AccessError;

    fn from_str(text: &str) -> Result<Self, AccessError> {
        let (host_text, bracketed, port_text) = cut(text)?;
        let ports = match port_text.split_once('-') {
            _ if port_text == "*" => Some(1..=u16::MAX),
            Some((first, last)) => port(first).zip(port(last)).map(|(a, b)| a..=b).filter(|range| !range.is_empty()),
            None => port(port_text).map(|port| port..=port),
        };
        let ports = ports.ok_or_else(|| AccessError::Port(port_text.to_owned(), ALSO_PORTS))?;
        let hosts = hosts(host_text, bracketed).ok_or_else(|| AccessError::Host(host_text.to_owned(), ALSO_HOSTS))?;
        Ok(Self { hosts, ports })
    }
}

fn hosts(text: &str, bracketed: bool) -> Option<Hosts> {
    if text == "*" {
        return (!bracketed).then_some(Hosts::Public);
    }
    if let Some(suffix) = text.strip_prefix("*.").filter(|_| !bracketed) {
        return Some(Hosts::Below(format!(".{}", name(suffix)?)));
    }
    let (address, length) = match text.split_once('/') {
        Some((address, length)) => (address, Some(length)),
        None => (text, None),
    };
    match (host(address, bracketed)?, length) {
        (Host::Name(_), Some(_)) => None,
        (Host::Name(name), None) => Some(Hosts::Name(name)),
        (Host::Address(ip), None) => Some(Hosts::Network(ip, width(ip))),
        (Host::Address(ip), Some(length)) => {
            let digits = !length.is_empty() && length.bytes().all(|b| b.is_ascii_digit());
            let length: u8 = length.parse().ok().filter(|length| digits && *length <= width(ip))?;
            // Bits beyond the length would say that something else was meant.
            (masked(ip, length) == bits(ip)).then_some(Hosts::Network(ip, length))
        }
    }
}

fn width(ip: IpAddr) -> u8 {
    if ip.is_ipv4() { 32 } else { 128 }
}

fn bits(ip: IpAddr) -> u128 {
    match ip {
        IpAddr::V4(v4) => u128::from(v4.to_bits()),
        IpAddr::V6(v6) => v6.to_bits(),
    }
}

fn masked(ip: IpAddr, length: u8) -> u128 {
    let low = u32::from(width(ip) - length);
    if low >= 128 { 0 } else { bits(ip) >> low << low }
}

/// Whether an address is one of the public internet (IANA's registries of special-purpose addresses, RFC 6890).
pub fn is_public(ip: IpAddr) -> bool {
    match ip.to_canonical() {
        IpAddr::V4(v4) => {
            let [a, b, c, _] = v4.octets();
            let special = v4.is_loopback()
                || v4.is_private()
                || v4.is_link_local()
                || v4.is_documentation()
                || v4.is_multicast()
                || a == 0
                || a >= 240
                // Carriers' own (RFC 6598), protocol assignments (RFC 6890), benchmarks (RFC 2544).
                || (a == 100 && b & 0xc0 == 64)
                || (a == 192 && b == 0 && c == 0)
                || (a == 198 && b & 0xfe == 18);
            !special
        }
        IpAddr::V6(v6) => {
            let [first, second, ..] = v6.segments();
            // Global unicast is 2000::/3; of it, documentation, and what holds an IPv4 address of anyone's choice: Teredo, 6to4.
            let in_disguise = (first == 0x2001 && (second == 0 || second == 0xdb8)) || first == 0x2002;
            first & 0xe000 == 0x2000 && !in_disguise
        }
    }
}

impl Pattern {
    fn names(&self, name: &str) -> bool {
        match &self.hosts {
            Hosts::Public => true,
            Hosts::Below(suffix) => name.len() > suffix.len() && name.ends_with(suffix.as_str()),
            Hosts::Name(own) => own == name,
            Hosts::Network(..) => false,
        }
    }

    fn allows(&self, to: &Destination, address: IpAddr) -> bool {
        let named = || matches!(&to.host, Host::Name(name) if self.names(name));
        self.ports.contains(&to.port)
            && match &self.hosts {
                Hosts::Public => is_public(address),
                Hosts::Below(_) => named() && is_public(address),
                Hosts::Name(_) => named(),
                Hosts::Network(network, length) => {
                    network.is_ipv4() == address.is_ipv4() && masked(address, *length) == bits(*network)
                }
            }
    }
}

/// The destinations that are allowed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Access(Vec<Pattern>);

impl Access {
    /// What any of `patterns` allows; of none: nothing.
    pub fn new(patterns: Vec<Pattern>) -> Self {
        Self(patterns)
    }

    /// Whether some address of `to` might be allowed, so that it may be resolved.
    pub fn may_resolve(&self, to: &Destination) -> bool {
        self.0.iter().any(|pattern| match &to.host {
            Host::Address(address) => pattern.allows(to, *address),
            // A name may lead into a network that is allowed.
            Host::Name(name) => {
                let network = matches!(pattern.hosts, Hosts::Network(..));
                pattern.ports.contains(&to.port) && (network || pattern.names(name))
            }
        })
    }

    /// Whether a connection to `address` may be made for `to`, which is it or has been resolved to it.
    pub fn allows(&self, to: &Destination, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.0.iter().any(|pattern| pattern.allows(to, address))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn list(patterns: &[&str]) -> Access {
        Access::new(patterns.iter().map(|p| p.parse().unwrap()).collect())
    }

    fn allows(patterns: &[&str], to: &str, address: &str) -> bool {
        list(patterns).allows(&to.parse().unwrap(), address.parse().unwrap())
    }

    #[test]
    fn an_empty_list_allows_nothing() {
        assert!(!allows(&[], "example.org:443", "93.184.216.34"));
        assert!(!list(&[]).may_resolve(&"example.org:443".parse().unwrap()));
    }

    #[test]
    fn a_named_host_is_reached_wherever_it_is_and_only_on_its_ports() {
        let patterns = ["desk.example.org:22", "desk.example.org:8000-8010"];
        assert!(allows(&patterns, "Desk.Example.Org.:22", "10.0.0.7"));
        assert!(allows(&patterns, "desk.example.org:8010", "::1"));
        assert!(!allows(&patterns, "desk.example.org:8011", "10.0.0.7"));
        assert!(!allows(&patterns, "other.example.org:22", "10.0.0.7"));
    }

    #[test]
    fn a_wildcard_never_leads_to_an_address_that_is_not_public() {
        for inside in [
            "127.0.0.1",
            "10.1.2.3",
            "192.168.0.1",
            "169.254.169.254",
            "100.64.0.1",
            "0.0.0.0",
            "::1",
            "fe80::1",
            "fd00::1",
            "::ffff:127.0.0.1",
            "2002:7f00:1::1",
            "64:ff9b::7f00:1",
            "224.0.0.1",
            "100.127.255.255",
            "192.0.0.9",
            "198.18.0.1",
            "198.19.255.255",
            "2001::1",
            "2001:db8::1",
        ] {
            assert!(!allows(&["*:*", "*.example.org:*"], "a.example.org:80", inside), "{inside}");
        }
        // Beside each of those.
        for outside in [
            "100.63.0.1",
            "100.128.0.1",
            "93.64.0.1",
            "192.1.0.1",
            "192.0.1.1",
            "193.0.0.9",
            "198.20.0.1",
            "199.18.0.1",
            "2001:470::1",
            "2600::1",
            "2600:db8::1",
        ] {
            assert!(is_public(outside.parse().unwrap()), "{outside}");
        }
        assert!(allows(&["*:443"], "example.org:443", "93.184.216.34"));
        assert!(allows(&["*.example.org:443"], "a.b.example.org:443", "2606:2800::1"));
        assert!(!allows(&["*.example.org:443"], "example.org:443", "93.184.216.34"));
        assert!(!allows(&["*.example.org:443"], "badexample.org:443", "93.184.216.34"));
    }

    #[test]
    fn a_network_holds_its_addresses_whatever_they_are_called_by() {
        let patterns = ["10.0.0.0/8:22", "[fd00::/8]:*"];
        assert!(allows(&patterns, "10.2.3.4:22", "10.2.3.4"));
        assert!(allows(&patterns, "any.name:22", "10.2.3.4"));
        assert!(allows(&patterns, "[fd00::1]:9", "fd00::1"));
        assert!(!allows(&patterns, "11.0.0.1:22", "11.0.0.1"));
        assert!(list(&patterns).may_resolve(&"any.name:22".parse().unwrap()));
        assert!(!list(&["10.0.0.0/8:22"]).may_resolve(&"any.name:23".parse().unwrap()));
    }

    /// Found by fuzzing: with a large X it was a name, and a resolver would have made an address of it.
    #[test]
    fn a_number_is_no_name_in_whatever_letters() {
        for text in ["0x7f000001:22", "0X7f000001:22", "0X7F.0X1:22", "a.0X1.:22", "2130706433:22", "[0X7f000001]:22"] {
            assert!(text.parse::<Destination>().is_err(), "{text}");
            assert!(text.parse::<Pattern>().is_err(), "{text}");
        }
        assert_eq!("0X7.Example:22".parse::<Destination>().unwrap().to_string(), "0x7.example:22");
    }

    #[test]
    fn every_refusal_of_a_text_says_what_to_write() {
        for (text, says) in [
            ("example.org", "HOST:PORT"),
            ("2001:db8::1:22", "brackets"),
            ("example.org:0", "1 to 65535"),
            ("example.org:+1", "1 to 65535"),
            ("exa mple.org:1", "not a valid host"),
            ("0x7f.1:80", "not a valid host"),
            ("1.2.3:80", "not a valid host"),
            ("[example.org]:80", "not a valid host"),
            (".:80", "not a valid host"),
        ] {
            let error = text.parse::<Destination>().unwrap_err().to_string();
            assert!(error.contains(says), "{text}: {error}");
        }
        for text in
            ["*.*.org:1", "10.0.0.1/8:1", "10.0.0.0/+8:1", "10.0.0.0/33:1", "a:2-1", "[*]:1", "name/8:1", "*:1-"]
        {
            assert!(text.parse::<Pattern>().is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_destination_that_reads_back_or_an_error(text in "[a-zX0-9.:\\[\\]*/_-]{0,24}") {
            if let Ok(to) = text.parse::<Destination>() {
                prop_assert_eq!(to.to_string().parse::<Destination>(), Ok(to));
            }
            let _ = text.parse::<Pattern>();
        }

        #[test]
        fn what_is_allowed_may_be_resolved(pattern in "(\\*|\\*\\.a|b\\.a|10\\.0\\.0\\.0/8):(\\*|1-3|2)",
                                           to in "(b\\.a|c|10\\.0\\.0\\.1|9\\.9\\.9\\.9):[1-4]", address: u32) {
            let list = list(&[&pattern]);
            let to: Destination = to.parse().unwrap();
            let address = match to.host { Host::Address(a) => a, Host::Name(_) => Ipv4Addr::from_bits(address).into() };
            prop_assert!(!list.allows(&to, address) || list.may_resolve(&to));
        }
    }
}
