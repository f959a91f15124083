//! The names of remotes in a memory: a keyed hash of network and address, of network and prefix.
//!
//! Keyed, so that what is stored names no host without the secret, and no outsider can choose names that collide. 64 bits:
//! among a million names two are alike with a chance of 1 to 37 million, and then share a record.

use crate::path::NetworkId;
use crate::path::identity::prefix;
use siphasher::sip::SipHasher24;
use std::fmt;
use std::net::IpAddr;

/// Prefixes that share a way: what a provider gives a customer or a site.
pub const PREFIX_V4: u8 = 24;
/// The same of IPv6.
pub const PREFIX_V6: u8 = 56;

/// The name of an address or a prefix on a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key(pub u64);

/// The two names of a remote.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Keys {
    /// Of its address.
    pub exact: Key,
    /// Of its prefix.
    pub prefix: Key,
}

/// Makes names.
#[derive(Clone, Copy)]
pub struct Secret(SipHasher24);

impl Secret {
    /// Out of 16 random bytes that the installation keeps to itself.
    pub fn new(secret: [u8; 16]) -> Self {
        Self(SipHasher24::new_with_key(&secret))
    }

    /// The names of `remote` on `network`. IPv4 addresses in IPv6 clothes are IPv4 addresses.
    pub fn keys(&self, network: NetworkId, remote: IpAddr) -> Keys {
        let remote = remote.to_canonical();
        let length = if remote.is_ipv4() { PREFIX_V4 } else { PREFIX_V6 };
        Keys { exact: self.name(network, remote, 255), prefix: self.name(network, prefix(remote, length), length) }
    }

    fn name(&self, network: NetworkId, address: IpAddr, length: u8) -> Key {
        // Of one size for each family, and the families differ in size: no two remotes have the same bytes.
        let mut bytes = [0; 25];
        bytes[..8].copy_from_slice(&network.0.to_le_bytes());
        bytes[8] = length;
        let used = match address {
            IpAddr::V4(ip) => {
                bytes[9..13].copy_from_slice(&ip.octets());
                13
            }
            IpAddr::V6(ip) => {
                bytes[9..25].copy_from_slice(&ip.octets());
                25
            }
        };
        Key(self.0.hash(&bytes[..used]))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(secret: u8, network: u64, remote: &str) -> Keys {
        Secret::new([secret; 16]).keys(NetworkId(network), remote.parse().unwrap())
    }

    #[test]
    fn a_name_says_which_address_on_which_network_and_nothing_without_the_secret() {
        let all = [
            keys(1, 1, "192.0.2.1").exact,
            keys(1, 1, "192.0.2.2").exact,
            keys(1, 2, "192.0.2.1").exact,
            keys(2, 1, "192.0.2.1").exact,
            keys(1, 1, "192.0.2.0").exact,
            keys(1, 1, "192.0.2.0").prefix,
            keys(1, 1, "2001:db8::1").exact,
        ];
        assert!((1..all.len()).all(|at| !all[..at].contains(&all[at])), "{all:?}");
        assert_eq!(keys(1, 1, "::ffff:192.0.2.1"), keys(1, 1, "192.0.2.1"));
        assert!(!format!("{:?}", Secret::new([7; 16])).contains('7'));
    }

    #[test]
    fn neighbours_share_a_prefix() {
        assert_eq!(keys(1, 1, "192.0.2.1").prefix, keys(1, 1, "192.0.2.200").prefix);
        assert_ne!(keys(1, 1, "192.0.2.1").prefix, keys(1, 1, "192.0.3.1").prefix);
        assert_eq!(keys(1, 1, "2001:db8:0:ff::1").prefix, keys(1, 1, "2001:db8::2").prefix);
        assert_ne!(keys(1, 1, "2001:db8:0:100::1").prefix, keys(1, 1, "2001:db8::2").prefix);
    }
}
