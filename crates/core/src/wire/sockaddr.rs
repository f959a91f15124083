//! Socket addresses as programs hand them to connect(2): `struct sockaddr_in` and `struct sockaddr_in6` of Linux
//! (ip(7), ipv6(7)), read from foreign bytes.

use crate::path::Family;
use std::net::{IpAddr, SocketAddr};

/// AF_INET of Linux.
const AF_INET: u16 = 2;
/// AF_INET6 of Linux.
const AF_INET6: u16 = 10;
/// The size of a `struct sockaddr_in`.
const V4_BYTES: usize = 16;
/// The size of a `struct sockaddr_in6` without its scope, which the kernel takes too (RFC 2133).
const V6_BYTES: usize = 24;
/// The size of a `struct sockaddr_storage`; the kernel takes no more.
pub const MAX_BYTES: usize = 128;

/// Where a connect with this address goes, if it goes where TCP and UDP go. v4-mapped addresses are unwrapped. `None` for
/// other families, for what is too short, and for IPv6 addresses with a scope or a flow label, which nothing but the
/// program's own socket can stand for.
pub fn destination(bytes: &[u8]) -> Option<SocketAddr> {
    let word = |at: usize| Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    let family = u16::from_ne_bytes(bytes.get(..2)?.try_into().ok()?);
    let port = u16::from_be_bytes(bytes.get(2..4)?.try_into().ok()?);
    match family {
        AF_INET if bytes.len() >= V4_BYTES => {
            let ip = <[u8; 4]>::try_from(&bytes[4..8]).ok()?;
            Some(SocketAddr::new(IpAddr::from(ip), port))
        }
        AF_INET6 if bytes.len() >= V6_BYTES => {
            if word(4)? != 0 || word(24).is_some_and(|scope| scope != 0) {
                return None;
            }
            let ip = <[u8; 16]>::try_from(&bytes[8..24]).ok()?;
            Some(SocketAddr::new(IpAddr::from(ip).to_canonical(), port))
        }
        _ => None,
    }
}

/// Whether the kernel takes this address for a TCP socket of `domain`; of another family it takes none, v4-mapped or not.
pub fn is_for(bytes: &[u8], domain: Family) -> bool {
    let family = match domain {
        Family::V4 => AF_INET,
        Family::V6 => AF_INET6,
    };
    bytes.starts_with(&family.to_ne_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn v6(ip: std::net::Ipv6Addr, port: u16, flow: u32, scope: u32) -> Vec<u8> {
        let mut bytes = AF_INET6.to_ne_bytes().to_vec();
        bytes.extend(port.to_be_bytes());
        bytes.extend(flow.to_ne_bytes());
        bytes.extend(ip.octets());
        bytes.extend(scope.to_ne_bytes());
        bytes
    }

    #[test]
    fn an_ipv4_address_is_read_whatever_follows_it() {
        let mut bytes = AF_INET.to_ne_bytes().to_vec();
        bytes.extend([0x1f, 0x90, 192, 0, 2, 7]);
        bytes.resize(V4_BYTES, 0xff);
        assert_eq!(destination(&bytes), Some("192.0.2.7:8080".parse().unwrap()));
        assert!(is_for(&bytes, Family::V4) && !is_for(&bytes, Family::V6) && !is_for(&[], Family::V4));
        bytes.resize(MAX_BYTES, 0xff);
        assert_eq!(destination(&bytes), Some("192.0.2.7:8080".parse().unwrap()));
        assert_eq!(destination(&bytes[..V4_BYTES - 1]), None);
    }

    #[test]
    fn an_ipv6_address_is_read_unless_it_has_a_scope_or_a_flow() {
        let ip = "2001:db8::7".parse().unwrap();
        assert_eq!(destination(&v6(ip, 80, 0, 0)), Some("[2001:db8::7]:80".parse().unwrap()));
        assert_eq!(destination(&v6(ip, 80, 0, 0)[..V6_BYTES]), Some("[2001:db8::7]:80".parse().unwrap()));
        assert_eq!(destination(&v6(ip, 80, 0, 0)[..V6_BYTES - 1]), None, "cut");
        assert_eq!(destination(&v6(ip, 80, 1, 0)), None);
        assert_eq!(destination(&v6(ip, 80, 0, 2)), None);
        let mapped = "::ffff:192.0.2.7".parse().unwrap();
        assert_eq!(destination(&v6(mapped, 80, 0, 0)), Some("192.0.2.7:80".parse().unwrap()), "as Java has it");
    }

    proptest! {
        #[test]
        fn foreign_bytes_are_an_address_or_none_and_no_panic(bytes in proptest::collection::vec(any::<u8>(), 0..=MAX_BYTES)) {
            let _ = destination(&bytes);
        }

        #[test]
        fn bytes_of_an_internet_family_never_panic(family in prop_oneof![Just(AF_INET), Just(AF_INET6)], rest in proptest::collection::vec(any::<u8>(), 0..=126)) {
            let _ = destination(&[&family.to_ne_bytes()[..], &rest].concat());
        }
    }
}
