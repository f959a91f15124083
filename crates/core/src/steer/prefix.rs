//! Addresses with the length of their network's prefix, as WireGuard's file and `ip` write them (RFC 4632, section 3.1).

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// An address with the length of its prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    /// The address; of a network, its first one or any other.
    pub address: IpAddr,
    /// Bits that belong to the network.
    pub bits: u8,
}

impl Prefix {
    /// Whether `ip` is in the network.
    pub fn contains(&self, ip: IpAddr) -> bool {
        match (self.address, ip) {
            (IpAddr::V4(a), IpAddr::V4(b)) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(self.bits)).unwrap_or(0);
                u32::from(a) & mask == u32::from(b) & mask
            }
            (IpAddr::V6(a), IpAddr::V6(b)) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(self.bits)).unwrap_or(0);
                u128::from(a) & mask == u128::from(b) & mask
            }
            _ => false,
        }
    }

    /// The network, by its first address.
    pub fn network(&self) -> Self {
        let address = match self.address {
            IpAddr::V4(a) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(self.bits)).unwrap_or(0);
                IpAddr::V4((u32::from(a) & mask).into())
            }
            IpAddr::V6(a) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(self.bits)).unwrap_or(0);
                IpAddr::V6((u128::from(a) & mask).into())
            }
        };
        Self { address, bits: self.bits }
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

impl FromStr for Prefix {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address.parse().map_err(drop)?, Some(bits.parse().map_err(drop)?)),
            None => (text.parse().map_err(drop)?, None),
        };
        let most = match address {
            IpAddr::V4(_) => 32,
            IpAddr::V6(_) => 128,
        };
        let bits = bits.unwrap_or(most);
        if bits > most { Err(()) } else { Ok(Self { address, bits }) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_holds_what_begins_as_it_does_and_nothing_of_the_other_family() {
        let holds = |network: &str, ip: &str| {
            let network: Prefix = network.parse().unwrap();
            let ip = ip.parse().unwrap();
            assert_eq!(network.contains(ip), network.network().contains(ip), "the same from its first address on");
            network.contains(ip)
        };
        for (network, inside, outside) in [
            ("10.1.2.3/20", ["10.1.0.0", "10.1.15.255"], ["10.1.16.0", "10.0.255.255"]),
            ("10.0.0.1", ["10.0.0.1"; 2], ["10.0.0.0", "10.0.0.3"]),
            ("0.0.0.0/0", ["0.0.0.0", "255.255.255.255"], ["::", "::1"]),
            ("fd00:0:0:f::7/62", ["fd00:0:0:c::", "fd00:0:0:f:8000::"], ["fd00:0:0:b::", "fd00:0:0:10::"]),
            ("fd00::1", ["fd00::1"; 2], ["fd00::", "fd00::3"]),
            ("::/0", ["::", "ffff::1"], ["0.0.0.0", "10.0.0.1"]),
        ] {
            assert!(inside.iter().all(|ip| holds(network, ip)), "{network}");
            assert!(outside.iter().all(|ip| !holds(network, ip)), "{network}");
        }
    }

    #[test]
    fn a_prefix_is_written_as_it_is_read_and_has_no_more_bits_than_its_address() {
        for text in ["10.0.0.0/8", "10.0.0.1/32", "fd00::/0", "fd00::1/128"] {
            assert_eq!(text.parse::<Prefix>().map(|prefix| prefix.to_string()), Ok(text.to_owned()));
        }
        for (text, network) in [("10.1.2.3/20", "10.1.0.0/20"), ("fd00:0:0:f::7/62", "fd00:0:0:c::/62")] {
            assert_eq!(text.parse::<Prefix>().map(|prefix| prefix.network().to_string()), Ok(network.to_owned()));
        }
        for bad in ["10.0.0.0/33", "fd00::/129", "10.0.0/8", "10.0.0.0/", "10.0.0.0/-1", ""] {
            assert_eq!(bad.parse::<Prefix>(), Err(()), "{bad}");
        }
    }
}
