//! IPv4 addresses inside IPv6 ones: the prefixes of translators (RFC 6052), and what a DNS64 says of its prefix when it
//! is asked for the IPv6 addresses of a name that has none (RFC 7050).

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

/// The name that has IPv4 addresses only, so that every IPv6 address of it was made by a DNS64: RFC 7050, section 3.
pub const WELL_KNOWN_NAME: &str = "ipv4only.arpa";
/// Its IPv4 addresses: RFC 7050, section 2.2.
pub const WELL_KNOWN_ADDRESSES: [Ipv4Addr; 2] = [Ipv4Addr::new(192, 0, 0, 170), Ipv4Addr::new(192, 0, 0, 171)];
/// The prefix that every network may use, 64:ff9b::/96: RFC 6052, section 2.1.
pub const WELL_KNOWN_PREFIX: Prefix = Prefix { bits: 0x0064_ff9b << 96, len: 96 };
/// Lengths that a prefix may have, in bits: RFC 6052, section 2.2.
pub const LENGTHS: [u8; 6] = [32, 40, 48, 56, 64, 96];

/// The prefix of a translator.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Prefix {
    /// All 128 bits; those behind the length are zero.
    bits: u128,
    len: u8,
}

impl Prefix {
    /// The prefix of `len` bits of `address`; `None` if prefixes of that length do not exist or its bits 64 to 71 are
    /// not zero (RFC 6052, section 2.2).
    pub fn new(address: Ipv6Addr, len: u8) -> Option<Self> {
        let bits = u128::from(address) & mask(len);
        (LENGTHS.contains(&len) && bits & U_OCTET == 0).then_some(Self { bits, len })
    }

    /// `address` as it is reached through the translator.
    ///
    /// `None` for an address that is not global behind [`WELL_KNOWN_PREFIX`], which must not represent those (RFC 6052,
    /// section 3.1): such an address is not one host's alone.
    pub fn embed(self, address: Ipv4Addr) -> Option<Ipv6Addr> {
        if self == WELL_KNOWN_PREFIX && !is_global(address) {
            return None;
        }
        let octets = address.octets();
        let mut bytes = self.bits.to_be_bytes();
        for (at, octet) in positions(self.len).into_iter().zip(octets) {
            bytes[at] = octet;
        }
        Some(bytes.into())
    }

    /// The IPv4 address that `address` stands for, if it is behind this prefix.
    pub fn extract(self, address: Ipv6Addr) -> Option<Ipv4Addr> {
        let bits = u128::from(address);
        let bytes = bits.to_be_bytes();
        let ours = bits & mask(self.len) == self.bits && bits & U_OCTET == 0;
        ours.then(|| positions(self.len).map(|at| bytes[at]).into())
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", Ipv6Addr::from(self.bits), self.len)
    }
}

impl fmt::Debug for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// The prefixes that `answer`, the IPv6 addresses of [`WELL_KNOWN_NAME`], was made with, each once, in its order.
///
/// RFC 7050, section 3: a well-known IPv4 address is looked for at every place where it may stand. An address that
/// shows it at more than one place shows nothing.
pub fn discover(answer: &[Ipv6Addr]) -> Vec<Prefix> {
    let mut found = Vec::new();
    for address in answer {
        let fits = LENGTHS.iter().filter_map(|len| Prefix::new(*address, *len));
        let mut fits = fits.filter(|p| p.extract(*address).is_some_and(|a| WELL_KNOWN_ADDRESSES.contains(&a)));
        if let (Some(prefix), None) = (fits.next(), fits.next())
            && !found.contains(&prefix)
        {
            found.push(prefix);
        }
    }
    found
}

/// Bits 64 to 71, which are zero in every address that holds an IPv4 one.
const U_OCTET: u128 = 0xff << 56;

fn mask(len: u8) -> u128 {
    u128::MAX.checked_shl(128 - u32::from(len.min(128))).unwrap_or(0)
}

/// Where the four octets stand behind a prefix of `len` bits: from its end on, leaving out octet 8.
fn positions(len: u8) -> [usize; 4] {
    let first = usize::from(len / 8);
    let after = |n: usize| if first <= 8 && first + n >= 8 { first + n + 1 } else { first + n };
    [after(0), after(1), after(2), after(3)]
}

/// Whether `address` means the same host everywhere, as far as this table of RFC 6890 goes: not "this" network, private,
/// shared, loopback, link-local, multicast or reserved.
fn is_global(address: Ipv4Addr) -> bool {
    let [a, b, ..] = address.octets();
    let shared = a == 100 && (64..128).contains(&b);
    !(a == 0 || a >= 224 || shared || address.is_private() || address.is_loopback() || address.is_link_local())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn prefix(text: &str) -> Prefix {
        let (address, len) = text.split_once('/').unwrap();
        Prefix::new(address.parse().unwrap(), len.parse().unwrap()).unwrap()
    }

    #[test]
    fn the_table_of_rfc_6052_section_2_4() {
        for (of, address) in [
            ("2001:db8::/32", "2001:db8:c000:221::"),
            ("2001:db8:100::/40", "2001:db8:1c0:2:21::"),
            ("2001:db8:122::/48", "2001:db8:122:c000:2:2100::"),
            ("2001:db8:122:300::/56", "2001:db8:122:3c0:0:221::"),
            ("2001:db8:122:344::/64", "2001:db8:122:344:c0:2:2100::"),
            ("2001:db8:122:344::/96", "2001:db8:122:344::192.0.2.33"),
            ("64:ff9b::/96", "64:ff9b::192.0.2.33"),
        ] {
            let (v4, v6) = (Ipv4Addr::new(192, 0, 2, 33), address.parse().unwrap());
            assert_eq!(prefix(of).embed(v4), Some(v6), "{of}");
            assert_eq!(prefix(of).extract(v6), Some(v4), "{of}");
        }
        assert_eq!(prefix("64:ff9b::/96"), WELL_KNOWN_PREFIX);
        assert_eq!(WELL_KNOWN_PREFIX.to_string(), "64:ff9b::/96");
    }

    #[test]
    fn the_well_known_prefix_never_stands_for_a_private_address() {
        for private in [[10, 0, 0, 1], [192, 168, 1, 1], [127, 0, 0, 1], [100, 64, 0, 1], [169, 254, 0, 1]] {
            assert_eq!(WELL_KNOWN_PREFIX.embed(private.into()), None);
            assert!(prefix("2001:db8::/96").embed(private.into()).is_some(), "a network's own prefix may");
        }
        for no_host in [[0, 0, 0, 1], [224, 0, 0, 251], [240, 0, 0, 1], [255, 255, 255, 255]] {
            assert_eq!(WELL_KNOWN_PREFIX.embed(no_host.into()), None);
        }
        for public in [[100, 63, 0, 1], [100, 128, 0, 1], [8, 100, 8, 8], [223, 0, 0, 1]] {
            assert!(WELL_KNOWN_PREFIX.embed(public.into()).is_some(), "{public:?}");
        }
    }

    #[test]
    fn a_network_is_found_out_by_the_name_that_has_only_ipv4() {
        let answer = ["64:ff9b::c000:aa", "64:ff9b::c000:ab", "2001:db8:122:344:c0:0:aa00:0", "2001:db8::1"];
        let answer: Vec<Ipv6Addr> = answer.iter().map(|a| a.parse().unwrap()).collect();
        assert_eq!(discover(&answer), [WELL_KNOWN_PREFIX, prefix("2001:db8:122:344::/64")]);
        let twice = "2001:db8:c000:aa::c000:aa".parse().unwrap();
        assert_eq!(discover(&[twice]), [], "at two places");
    }

    #[test]
    fn a_prefix_with_anything_in_bits_64_to_71_is_none() {
        assert_eq!(Prefix::new("2001:db8:0:0:ff00::".parse().unwrap(), 96), None);
        assert_eq!(Prefix::new("2001:db8::".parse().unwrap(), 33), None);
    }

    proptest! {
        #[test]
        fn what_was_embedded_is_extracted(bits: u128, at in 0usize..6, v4: u32) {
            if let Some(p) = Prefix::new(bits.into(), LENGTHS[at])
                && let Some(v6) = p.embed(v4.into())
            {
                prop_assert_eq!(p.extract(v6), Some(v4.into()));
            }
        }

        #[test]
        fn no_answer_makes_the_discovery_panic(answer in proptest::collection::vec(any::<u128>(), 0..6)) {
            let answer: Vec<Ipv6Addr> = answer.into_iter().map(Into::into).collect();
            prop_assert!(discover(&answer).len() <= answer.len());
        }
    }
}
