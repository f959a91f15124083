//! Addresses of the lab: which belong to links, which to the servers, and how nested labs share them out.
//!
//! IPv4 from the benchmark range 198.18.0.0/15 (RFC 2544), IPv6 from the documentation range 2001:db8::/32 (RFC 3849):
//! never routed on the Internet, yet global unicast to address selection (RFC 6724), so that `getaddrinfo` puts IPv6
//! first and browsers see a host with both families, as on a real network. Unique local addresses would come last.
//!
//! Links take 198.18.0.0/16 and 2001:db8:ff00::/48. The outermost lab owns all of it as its [`Block`] and hands an
//! eighth to each of up to seven labs inside it, so every lab routes "below me" with one route a family.

use headstart_core::path::Family;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// Address of the DNS server, as in resolv.conf.
pub const DNS_V4: Ipv4Addr = Ipv4Addr::new(198, 19, 255, 53);
/// The same server over IPv6.
pub const DNS_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0xff01, 0, 0, 0, 0, 0x53);

/// DNS servers that a client can have: what the C library reads of resolv.conf (MAXNS).
pub const MOST_DNS_SERVERS: usize = 3;

/// Address of DNS server number `n` of a client's list; number 0 is [`DNS_V4`] or [`DNS_V6`].
///
/// # Panics
///
/// If `n` is not below [`MOST_DNS_SERVERS`].
pub fn dns_server(n: usize, family: Family) -> IpAddr {
    assert!(n < MOST_DNS_SERVERS, "a client has at most {MOST_DNS_SERVERS} DNS servers");
    match family {
        Family::V4 => Ipv4Addr::from(u32::from(DNS_V4) + n as u32).into(),
        Family::V6 => Ipv6Addr::from(u128::from(DNS_V6) + n as u128).into(),
    }
}

/// Bits that one level of nesting takes: seven labs side by side, and zero for the link of the lab itself.
const LEVEL: u8 = 3;
/// Deepest level; the block of that level has room for just its link.
const DEEPEST: u8 = 4;

/// The addresses of a lab's link and of the labs inside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// Low half of the IPv4 network, and subnet number of the IPv6 network.
    base: u16,
    depth: u8,
}

/// The two ends of a link in one family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ends {
    /// The server's side: the client's default gateway.
    pub gateway: IpAddr,
    /// The client.
    pub client: IpAddr,
    /// Length of the link's prefix.
    pub prefix: u8,
    /// The network of the whole block, for routes back to the client and all that is behind it.
    pub block: IpAddr,
    /// Length of the block's prefix.
    pub block_prefix: u8,
}

impl Block {
    /// The block of the outermost lab.
    pub const OUTERMOST: Self = Self { base: 0, depth: 0 };

    /// How many labs are around this one.
    pub fn depth(self) -> u8 {
        self.depth
    }

    /// Blocks for labs inside this one; empty at the deepest level.
    pub fn inner(self) -> impl Iterator<Item = Self> {
        let count = if self.depth < DEEPEST { 1 << LEVEL } else { 1 };
        let depth = self.depth + 1;
        (1..count).map(move |i| Self { base: self.base + (i << (16 - LEVEL * depth)), depth })
    }

    /// Position among its siblings, 1 to 7; 0 for the outermost.
    pub fn position(self) -> u16 {
        if self.depth == 0 { 0 } else { (self.base >> (16 - LEVEL * self.depth)) & ((1 << LEVEL) - 1) }
    }

    /// The link's ends, IPv4 then IPv6.
    pub fn ends(self) -> [Ends; 2] {
        let length = LEVEL * self.depth;
        let v4 = |host: u16| {
            let [high, low] = (self.base | host).to_be_bytes();
            IpAddr::V4(Ipv4Addr::new(198, 18, high, low))
        };
        let v6 = |host: u16| IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0xff00, self.base, 0, 0, 0, host));
        [
            Ends { gateway: v4(1), client: v4(2), prefix: 30, block: v4(0), block_prefix: 16 + length },
            Ends { gateway: v6(1), client: v6(2), prefix: 64, block: v6(0), block_prefix: 48 + length },
        ]
    }

    fn network_v4(self) -> (IpAddr, u8) {
        let [v4, _] = self.ends();
        (v4.block, v4.block_prefix)
    }
}

impl fmt::Display for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (network, prefix) = self.network_v4();
        write!(f, "{network}/{prefix}")
    }
}

/// The text is not the IPv4 network of a block.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a block of lab addresses: {0:?}")]
pub struct NotABlock(String);

impl FromStr for Block {
    type Err = NotABlock;

    fn from_str(text: &str) -> Result<Self, NotABlock> {
        let parse = || {
            let (network, prefix) = text.split_once('/')?;
            let [198, 18, high, low] = network.parse::<Ipv4Addr>().ok()?.octets() else { return None };
            let length = prefix.parse::<u8>().ok()?.checked_sub(16)?;
            let block = Self { base: u16::from_be_bytes([high, low]), depth: length / LEVEL };
            let whole = block.depth <= DEEPEST && block.base.trailing_zeros() >= u32::from(16 - LEVEL * block.depth);
            (whole && block.to_string() == text).then_some(block)
        };
        parse().ok_or_else(|| NotABlock(text.to_owned()))
    }
}

/// Whether a world may give this address to a host: not one of the links', the DNS server's, or one that no packet can
/// be sent to.
pub fn free_for_hosts(ip: IpAddr) -> bool {
    let for_dns = |n| [Family::V4, Family::V6].map(|family| dns_server(n, family)).contains(&ip);
    let reserved = (0..MOST_DNS_SERVERS).any(for_dns)
        || match ip {
            IpAddr::V4(ip) => {
                ip.octets()[..2] == [198, 18]
                    || ip.is_loopback()
                    || ip.is_multicast()
                    || ip.is_broadcast()
                    || ip.is_link_local()
                    || ip.is_unspecified()
            }
            IpAddr::V6(ip) => {
                ip.segments()[..3] == [0x2001, 0xdb8, 0xff00]
                    || ip.is_loopback()
                    || ip.is_multicast()
                    || ip.is_unicast_link_local()
                    || ip.is_unspecified()
                    || ip.to_ipv4_mapped().is_some()
            }
        };
    !reserved
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether two blocks share an address.
    fn overlap(a: Block, b: Block) -> bool {
        let shorter = LEVEL * a.depth.min(b.depth);
        shorter == 0 || a.base >> (16 - shorter) == b.base >> (16 - shorter)
    }

    #[test]
    fn the_outermost_lab_has_the_whole_range() {
        assert_eq!(Block::OUTERMOST.to_string(), "198.18.0.0/16");
        let [v4, v6] = Block::OUTERMOST.ends();
        assert_eq!((v4.gateway.to_string(), v4.client.to_string()), ("198.18.0.1".into(), "198.18.0.2".into()));
        assert_eq!((v6.client.to_string(), v6.block_prefix), ("2001:db8:ff00::2".into(), 48));
    }

    #[test]
    fn labs_side_by_side_never_share_an_address_nor_the_link_of_the_one_around_them() {
        let mut level = vec![Block::OUTERMOST];
        for _ in 0..DEEPEST {
            let parent = level[level.len() - 1];
            let children: Vec<_> = parent.inner().collect();
            assert_eq!(children.len(), 7);
            for (i, a) in children.iter().enumerate() {
                assert_eq!(usize::from(a.position()), i + 1);
                assert!(children[i + 1..].iter().all(|b| !overlap(*a, *b)), "{a}");
                assert!(overlap(*a, parent) && a.ends()[0].client != parent.ends()[0].client);
                // The /30 of the parent's link lies below the first child's block.
                assert!(a.base > parent.base | 3, "{a} in {parent}");
            }
            level = children;
        }
        assert_eq!(level[0].inner().count(), 0, "no room below the deepest level");
    }

    #[test]
    fn a_block_survives_its_text() {
        for block in Block::OUTERMOST.inner().flat_map(Block::inner).chain([Block::OUTERMOST]) {
            assert_eq!(block.to_string().parse(), Ok(block));
        }
        for wrong in ["", "198.18.0.0", "198.18.0.0/17", "198.18.0.1/16", "10.0.0.0/16", "198.18.0.0/31"] {
            assert_eq!(wrong.parse::<Block>(), Err(NotABlock(wrong.into())));
        }
    }

    #[test]
    fn hosts_may_not_sit_on_the_links() {
        for taken in [
            "198.18.3.4",
            "198.19.255.53",
            "198.19.255.55",
            "2001:db8:ff01::54",
            "2001:db8:ff00:1::9",
            "fe80::1",
            "::ffff:192.0.2.1",
            "127.0.0.1",
        ] {
            assert!(!free_for_hosts(taken.parse().unwrap()), "{taken}");
        }
        for free in ["198.19.0.1", "192.0.2.1", "2001:db8:1::1", "203.0.113.9"] {
            assert!(free_for_hosts(free.parse().unwrap()), "{free}");
        }
    }
}
