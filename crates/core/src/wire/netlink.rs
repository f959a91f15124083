//! Netlink's attributes, and the routes and rules of rtnetlink(7), kept as the bytes that they are.
//!
//! A route that is copied must lose nothing that the kernel said of it, known here or not: what is not changed is never
//! interpreted. Integers are in the host's order, addresses in the network's. Malformed bytes are an error, never a panic.

use std::net::{IpAddr, Ipv4Addr};

/// AF_INET of Linux.
pub const AF_INET: u8 = 2;
/// AF_INET6 of Linux.
pub const AF_INET6: u8 = 10;
/// RT_TABLE_MAIN (rtnetlink.h).
pub const TABLE_MAIN: u32 = 254;
/// RT_TABLE_LOCAL: addresses of the host itself.
pub const TABLE_LOCAL: u32 = 255;
/// RTN_UNICAST (rtnetlink.h).
const UNICAST: u8 = 1;
/// RTN_BLACKHOLE (rtnetlink.h).
const BLACKHOLE: u8 = 6;
/// RT_SCOPE_LINK (rtnetlink.h).
const LINK: u8 = 253;
/// RTNH_F_DEAD, RTNH_F_LINKDOWN (rtnetlink.h): nothing can be sent there now.
const UNUSABLE: u32 = 1 | 16;
/// RTNH_F_ONLINK (rtnetlink.h), the one flag of a route that a program sets and not the kernel.
const ONLINK: u32 = 4;
/// FR_ACT_TO_TBL (fib_rules.h).
const TO_TABLE: u8 = 1;
/// The bits of an attribute's type that are not its type: nested, network byte order (netlink.h).
const TYPE_FLAGS: u16 = 0xc000;
/// Length of `struct rtmsg` and of `struct fib_rule_hdr`.
const HEADER: usize = 12;

/// Attributes of routes (rtnetlink.h).
pub mod rta {
    #![allow(missing_docs)]
    pub const DST: u16 = 1;
    pub const SRC: u16 = 2;
    pub const IIF: u16 = 3;
    pub const OIF: u16 = 4;
    pub const GATEWAY: u16 = 5;
    pub const PRIORITY: u16 = 6;
    pub const METRICS: u16 = 8;
    pub const MULTIPATH: u16 = 9;
    pub const CACHEINFO: u16 = 12;
    pub const TABLE: u16 = 15;
    pub const MFC_STATS: u16 = 17;
    pub const VIA: u16 = 18;
    pub const ENCAP_TYPE: u16 = 21;
    pub const ENCAP: u16 = 22;
    pub const EXPIRES: u16 = 23;
    pub const PAD: u16 = 24;
    pub const UID: u16 = 25;
    pub const NH_ID: u16 = 30;
}

/// RTAX_INITCWND (rtnetlink.h).
const INITCWND: u16 = 11;

/// Attributes of rules (fib_rules.h).
mod fra {
    pub const PRIORITY: u16 = 6;
    pub const FWMARK: u16 = 10;
    pub const TABLE: u16 = 15;
    pub const FWMASK: u16 = 16;
    pub const PROTOCOL: u16 = 21;
}

/// Bytes that are not what they should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed(&'static str);

impl std::fmt::Display for Malformed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "malformed netlink bytes: {}", self.0)
    }
}

impl std::error::Error for Malformed {}

/// One attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attribute {
    /// Its type as written, flags included.
    pub raw_kind: u16,
    /// What it holds.
    pub value: Vec<u8>,
}

impl Attribute {
    /// An attribute of this type.
    pub fn new(kind: u16, value: impl Into<Vec<u8>>) -> Self {
        Self { raw_kind: kind, value: value.into() }
    }

    /// A number of 32 bits.
    pub fn u32(kind: u16, value: u32) -> Self {
        Self::new(kind, value.to_ne_bytes())
    }

    /// Its type, without flags.
    pub fn kind(&self) -> u16 {
        self.raw_kind & !TYPE_FLAGS
    }

    /// The number that it holds, if it holds one of 32 bits.
    pub fn as_u32(&self) -> Option<u32> {
        Some(u32::from_ne_bytes(self.value.as_slice().try_into().ok()?))
    }

    /// The number that it holds, if it holds one of 64 bits.
    pub fn as_u64(&self) -> Option<u64> {
        Some(u64::from_ne_bytes(self.value.as_slice().try_into().ok()?))
    }

    /// The address that it holds, if it holds one.
    pub fn as_ip(&self) -> Option<IpAddr> {
        let v4 = <[u8; 4]>::try_from(self.value.as_slice()).map(IpAddr::from).ok();
        v4.or_else(|| <[u8; 16]>::try_from(self.value.as_slice()).map(IpAddr::from).ok())
    }
}

/// Reads attributes.
pub fn attributes(mut bytes: &[u8]) -> Result<Vec<Attribute>, Malformed> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let [a, b, c, d, ..] = *bytes else { return Err(Malformed("an attribute without a header")) };
        let (length, raw_kind) = (usize::from(u16::from_ne_bytes([a, b])), u16::from_ne_bytes([c, d]));
        let value = bytes.get(4..length).ok_or(Malformed("an attribute longer than its message"))?;
        found.push(Attribute { raw_kind, value: value.to_vec() });
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(found)
}

/// Writes attributes. Those that are too long for their length field do not occur: they came from one.
pub fn encode(attributes: &[Attribute]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for attribute in attributes {
        let length = u16::try_from(attribute.value.len() + 4).unwrap_or(u16::MAX);
        bytes.extend_from_slice(&length.to_ne_bytes());
        bytes.extend_from_slice(&attribute.raw_kind.to_ne_bytes());
        bytes.extend_from_slice(&attribute.value[..usize::from(length) - 4]);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
    }
    bytes
}

fn split(bytes: &[u8]) -> Result<([u8; HEADER], Vec<Attribute>), Malformed> {
    let head = bytes.first_chunk::<HEADER>().ok_or(Malformed("a message without a header"))?;
    Ok((*head, attributes(&bytes[HEADER..])?))
}

fn find(attributes: &[Attribute], kind: u16) -> Option<&Attribute> {
    attributes.iter().find(|attribute| attribute.kind() == kind)
}

/// A route: `struct rtmsg` and its attributes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    head: [u8; HEADER],
    attributes: Vec<Attribute>,
}

impl Route {
    /// The route of everything of a family out of the interface `index`, in `table`, marked as made by `protocol`.
    pub fn everything(family: u8, index: u32, table: u32, protocol: u8) -> Self {
        let mut head = [0; HEADER];
        // What is behind the interface of IPv4 is said to be on the link: there is no gateway.
        let scope = if family == AF_INET { LINK } else { 0 };
        (head[0], head[5], head[6], head[7]) = (family, protocol, scope, UNICAST);
        Self { head, attributes: vec![Attribute::u32(rta::TABLE, table), Attribute::u32(rta::OIF, index)] }
    }

    /// The route that drops what is sent to `address`, in `table`, marked as made by `protocol`.
    pub fn dropping(address: Ipv4Addr, table: u32, protocol: u8) -> Self {
        let mut head = [0; HEADER];
        (head[0], head[1], head[5], head[7]) = (AF_INET, 32, protocol, BLACKHOLE);
        Self { head, attributes: vec![Attribute::new(rta::DST, address.octets()), Attribute::u32(rta::TABLE, table)] }
    }

    /// Reads the payload of a message RTM_NEWROUTE.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let (head, attributes) = split(bytes)?;
        Ok(Self { head, attributes })
    }

    /// Writes it.
    pub fn encode(&self) -> Vec<u8> {
        [self.head.as_slice(), &encode(&self.attributes)].concat()
    }

    /// The attribute of a type, if it is there.
    pub fn attribute(&self, kind: u16) -> Option<&Attribute> {
        find(&self.attributes, kind)
    }

    /// AF_INET or AF_INET6.
    pub fn family(&self) -> u8 {
        self.head[0]
    }

    /// The table that it is in.
    pub fn table(&self) -> u32 {
        self.attribute(rta::TABLE).and_then(Attribute::as_u32).unwrap_or(u32::from(self.head[4]))
    }

    /// The origin of the route (RTPROT_*).
    pub fn protocol(&self) -> u8 {
        self.head[5]
    }

    /// Its destination and the length of the prefix; none if the two do not fit.
    pub fn destination(&self) -> Option<(IpAddr, u8)> {
        let (any, bits) = match self.family() {
            AF_INET => (IpAddr::from([0; 4]), 32),
            AF_INET6 => (IpAddr::from([0; 16]), 128),
            _ => return None,
        };
        let to = self.attribute(rta::DST).map_or(Some(any), Attribute::as_ip)?;
        (to.is_ipv4() == any.is_ipv4() && self.head[1] <= bits).then_some((to, self.head[1]))
    }

    /// Its preference among routes to the same prefix: the least wins.
    pub fn priority(&self) -> u32 {
        self.attribute(rta::PRIORITY).and_then(Attribute::as_u32).unwrap_or(0)
    }

    /// The interface that it leaves by, if it is one.
    pub fn interface(&self) -> Option<u32> {
        self.attribute(rta::OIF).and_then(Attribute::as_u32)
    }

    /// The initial window that it asks for, in segments.
    pub fn initcwnd(&self) -> Option<u32> {
        find(&self.metrics(), INITCWND)?.as_u32()
    }

    fn metrics(&self) -> Vec<Attribute> {
        self.attribute(rta::METRICS).and_then(|nested| attributes(&nested.value).ok()).unwrap_or_default()
    }

    fn flags(&self) -> u32 {
        u32::from_ne_bytes([self.head[8], self.head[9], self.head[10], self.head[11]])
    }

    /// Whether packets to `peer` may take it: an ordinary route that works, whatever their source and type of service.
    pub fn covers(&self, peer: IpAddr) -> bool {
        let [_, _, source_bits, tos, _, _, _, kind, ..] = self.head;
        let ordinary = source_bits == 0 && tos == 0 && kind == UNICAST && self.flags() & UNUSABLE == 0;
        ordinary && self.contains(peer)
    }

    /// Whether `peer` is in its prefix, whatever kind of route it is.
    pub fn contains(&self, peer: IpAddr) -> bool {
        self.destination().is_some_and(|(to, bits)| is_in(peer, to, bits))
    }

    /// The same way for `peer` alone, in `table`, marked as made by `protocol`, with an initial window of `segments`. All that
    /// leads there is kept as it is: gateway, interface, preferred source, other metrics, next hops.
    pub fn narrowed(&self, peer: IpAddr, table: u32, protocol: u8, segments: u32) -> Self {
        // What identifies the wider route, and what the kernel alone says.
        const NOT_KEPT: &[u16] = &[
            rta::DST,
            rta::SRC,
            rta::IIF,
            rta::PRIORITY,
            rta::METRICS,
            rta::CACHEINFO,
            rta::TABLE,
            rta::MFC_STATS,
            rta::EXPIRES,
            rta::PAD,
            rta::UID,
        ];
        // Where a next hop is an object of its own, it says all of this, and the kernel refuses to hear it twice.
        const OF_A_NEXT_HOP: &[u16] = &[rta::OIF, rta::GATEWAY, rta::MULTIPATH, rta::VIA, rta::ENCAP, rta::ENCAP_TYPE];
        let (address, bits) = match peer {
            IpAddr::V4(ip) => (ip.octets().to_vec(), 32),
            IpAddr::V6(ip) => (ip.octets().to_vec(), 128),
        };
        let mut head = self.head;
        (head[1], head[4], head[5]) = (bits, 0, protocol);
        head[8..].copy_from_slice(&(self.flags() & ONLINK).to_ne_bytes());
        let mut metrics = self.metrics();
        metrics.retain(|metric| metric.kind() != INITCWND);
        metrics.push(Attribute::u32(INITCWND, segments));
        let by_object = self.attribute(rta::NH_ID).is_some();
        let kept = self.attributes.iter().filter(|attribute| {
            !(NOT_KEPT.contains(&attribute.kind()) || by_object && OF_A_NEXT_HOP.contains(&attribute.kind()))
        });
        let mut attributes = vec![Attribute::new(rta::DST, address), Attribute::u32(rta::TABLE, table)];
        attributes.extend(kept.cloned());
        attributes.push(Attribute::new(rta::METRICS, encode(&metrics)));
        Self { head, attributes }
    }
}

/// Whether `peer` is in the prefix `to`/`bits`.
fn is_in(peer: IpAddr, to: IpAddr, bits: u8) -> bool {
    let same = |a: u128, b: u128, unused: u32| (a ^ b).checked_shr(unused).unwrap_or(0) == 0;
    match (peer, to) {
        (IpAddr::V4(a), IpAddr::V4(b)) => {
            same(a.to_bits().into(), b.to_bits().into(), 32u32.saturating_sub(bits.into()))
        }
        (IpAddr::V6(a), IpAddr::V6(b)) => same(a.to_bits(), b.to_bits(), 128u32.saturating_sub(bits.into())),
        _ => false,
    }
}

/// A rule that sends every packet of a family through a table: `struct fib_rule_hdr` and its attributes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    head: [u8; HEADER],
    attributes: Vec<Attribute>,
}

impl Rule {
    /// A rule for all packets of `family`.
    pub fn through(family: u8, table: u32, priority: u32, protocol: u8) -> Self {
        let mut head = [0; HEADER];
        (head[0], head[7]) = (family, TO_TABLE);
        let attributes = vec![
            Attribute::u32(fra::PRIORITY, priority),
            Attribute::u32(fra::TABLE, table),
            Attribute::new(fra::PROTOCOL, [protocol]),
        ];
        Self { head, attributes }
    }

    /// The same for packets with this mark alone.
    pub fn with_mark(mut self, mark: u32) -> Self {
        self.attributes.push(Attribute::u32(fra::FWMARK, mark));
        self.attributes.push(Attribute::u32(fra::FWMASK, u32::MAX));
        self
    }

    /// The mark that packets must have, if one is asked for.
    pub fn mark(&self) -> Option<u32> {
        find(&self.attributes, fra::FWMARK).and_then(Attribute::as_u32)
    }

    /// Reads the payload of a message RTM_NEWRULE.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let (head, attributes) = split(bytes)?;
        Ok(Self { head, attributes })
    }

    /// Writes it.
    pub fn encode(&self) -> Vec<u8> {
        [self.head.as_slice(), &encode(&self.attributes)].concat()
    }

    /// AF_INET or AF_INET6.
    pub fn family(&self) -> u8 {
        self.head[0]
    }

    /// Its place: the least comes first.
    pub fn priority(&self) -> u32 {
        find(&self.attributes, fra::PRIORITY).and_then(Attribute::as_u32).unwrap_or(0)
    }

    /// The table that it leads to.
    pub fn table(&self) -> u32 {
        find(&self.attributes, fra::TABLE).and_then(Attribute::as_u32).unwrap_or(u32::from(self.head[4]))
    }

    /// The origin of the rule (RTPROT_*).
    pub fn protocol(&self) -> u8 {
        find(&self.attributes, fra::PROTOCOL).and_then(|a| a.value.first().copied()).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A route to 192.0.2.0/24 via 198.51.100.1 on interface 7 with an MTU and an unknown attribute.
    fn sample() -> Route {
        let mut head = [0; HEADER];
        (head[0], head[1], head[4], head[5], head[7]) = (AF_INET, 24, 254, 4, UNICAST);
        // ONLINK, and "offloaded", which is the kernel's remark.
        head[8..].copy_from_slice(&(ONLINK | 8).to_ne_bytes());
        let attributes = vec![
            Attribute::u32(rta::TABLE, 254),
            Attribute::new(rta::DST, [192, 0, 2, 0]),
            Attribute::u32(rta::PRIORITY, 100),
            Attribute::new(rta::METRICS, encode(&[Attribute::u32(2, 1400)])),
            Attribute::new(rta::GATEWAY, [198, 51, 100, 1]),
            Attribute::u32(rta::OIF, 7),
            Attribute { raw_kind: 0x8000 | 99, value: vec![1, 2, 3] },
        ];
        Route { head, attributes }
    }

    #[test]
    fn what_is_read_is_written_again_byte_for_byte() {
        let bytes = sample().encode();
        assert_eq!(Route::decode(&bytes).unwrap().encode(), bytes);
        let rule = Rule::through(AF_INET6, 18515, 32765, 72);
        let read = Rule::decode(&rule.encode()).unwrap();
        assert_eq!((read.family(), read.table(), read.priority(), read.protocol()), (AF_INET6, 18515, 32765, 72));
    }

    #[test]
    fn a_narrowed_route_leads_the_same_way_with_a_window_and_nothing_else_changed() {
        let narrow = sample().narrowed([192, 0, 2, 9].into(), 18515, 72, 20);
        assert_eq!(narrow.destination(), Some(([192, 0, 2, 9].into(), 32)));
        assert_eq!((narrow.table(), narrow.protocol(), narrow.initcwnd()), (18515, 72, Some(20)));
        for kind in [rta::GATEWAY, rta::OIF, 99] {
            assert_eq!(narrow.attribute(kind), sample().attribute(kind), "{kind}");
        }
        assert_eq!(narrow.metrics(), [Attribute::u32(2, 1400), Attribute::u32(INITCWND, 20)]);
        assert_eq!((narrow.attribute(rta::PRIORITY), narrow.flags()), (None, ONLINK));
        assert_eq!(narrow.narrowed([192, 0, 2, 9].into(), 18515, 72, 30).initcwnd(), Some(30));
    }

    #[test]
    fn a_next_hop_that_is_an_object_is_named_and_not_described() {
        let mut route = sample();
        route.attributes.push(Attribute::u32(rta::NH_ID, 5));
        let narrow = route.narrowed([192, 0, 2, 9].into(), 18515, 72, 20);
        assert!(narrow.attribute(rta::NH_ID).is_some());
        assert!(narrow.attribute(rta::GATEWAY).is_none() && narrow.attribute(rta::OIF).is_none());
    }

    #[test]
    fn a_route_covers_its_prefix_and_only_while_it_works() {
        let route = sample();
        assert!(route.covers([192, 0, 2, 255].into()) && !route.covers([192, 0, 3, 0].into()));
        assert!(!route.covers("2001:db8::1".parse().unwrap()));
        let (mut dead, mut hole, mut any) = (sample(), sample(), sample());
        dead.head[8] |= 1;
        hole.head[7] = 6;
        assert!(!dead.covers([192, 0, 2, 1].into()) && !hole.covers([192, 0, 2, 1].into()));
        any.head[1] = 0;
        any.attributes.retain(|attribute| attribute.kind() != rta::DST);
        assert!(any.covers([8, 8, 8, 8].into()));
        let mut six = Route { head: [0; HEADER], attributes: vec![] };
        (six.head[0], six.head[1], six.head[7]) = (AF_INET6, 0, UNICAST);
        assert!(six.covers("2001:db8::1".parse().unwrap()) && !six.covers([8, 8, 8, 8].into()));
        // One of a source or a type of service alone is not for every packet.
        for at in [2, 3] {
            let mut special = sample();
            special.head[at] = 8;
            assert!(!special.covers([192, 0, 2, 1].into()) && special.contains([192, 0, 2, 1].into()));
        }
    }

    #[test]
    fn a_destination_is_of_the_family_of_its_route_and_no_longer_than_its_addresses() {
        let to = |bits, address: &[u8]| {
            let mut route = Route { head: [0; HEADER], attributes: vec![Attribute::new(rta::DST, address)] };
            (route.head[0], route.head[1]) = (AF_INET, bits);
            route.destination()
        };
        assert_eq!(to(32, &[192, 0, 2, 1]), Some(([192, 0, 2, 1].into(), 32)));
        assert_eq!((to(33, &[192, 0, 2, 1]), to(32, &[0; 16]), to(32, &[1; 3])), (None, None, None));
    }

    #[test]
    fn a_route_of_everything_leads_everybody_of_its_family_out_of_its_interface() {
        for (family, peer, scope) in [(AF_INET, "8.8.8.8", LINK), (AF_INET6, "2001:db8::1", 0)] {
            let route = Route::decode(&Route::everything(family, 7, 18515, 72).encode()).unwrap();
            assert_eq!((route.family(), route.table(), route.protocol()), (family, 18515, 72));
            assert_eq!((route.interface(), route.head[6]), (Some(7), scope));
            assert!(route.covers(peer.parse().unwrap()));
        }
    }

    #[test]
    fn a_rule_says_which_mark_it_asks_for() {
        let rule = Rule::through(AF_INET, 18515, 32765, 72);
        assert_eq!(rule.mark(), None);
        assert_eq!(Rule::decode(&rule.with_mark(4711).encode()).unwrap().mark(), Some(4711));
    }

    #[test]
    fn what_is_malformed_is_said_to_be() {
        assert!(Route::decode(&[0; HEADER - 1]).unwrap_err().to_string().contains("without a header"));
        assert!(attributes(&[9, 0, 1, 0]).unwrap_err().to_string().contains("longer than its message"));
    }

    proptest! {
        #[test]
        fn any_bytes_are_routes_and_rules_or_errors(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(route) = Route::decode(&bytes) {
                let _ = (route.table(), route.destination(), route.initcwnd(), route.covers([1, 2, 3, 4].into()));
                prop_assert_eq!(Route::decode(&route.encode()).unwrap(), route.clone());
                let narrow = route.narrowed([1, 2, 3, 4].into(), 1, 2, 3);
                prop_assert_eq!(narrow.initcwnd(), Some(3));
            }
            if let Ok(rule) = Rule::decode(&bytes) {
                let _ = (rule.table(), rule.priority(), rule.protocol());
                prop_assert_eq!(Rule::decode(&rule.encode()).unwrap(), rule);
            }
        }
    }
}
