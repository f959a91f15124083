//! What travels in the simulation: packets by meaning, with the sizes that they would have on the wire.
//!
//! Sizes are those of IP packets: headers of IPv4 and IPv6 (RFC 791, RFC 8200), UDP, TCP with the options of a Linux SYN,
//! DNS with an EDNS record (RFC 6891). Bytes themselves are never made: nothing here could be parsed.

use super::company::Carried;
use super::tcp;
use super::transfer::{Data, Ranges};
use headstart_core::connect::LookupResult;
use headstart_core::path::Family;
use headstart_core::wire::record::{RecordType, Service};
use headstart_link::Packet as WirePacket;
use std::net::IpAddr;

const IPV4: usize = 20;
const IPV6: usize = 40;
const UDP: usize = 8;
const ICMP: usize = 8;
/// TCP header with timestamps.
const TCP: usize = 32;
/// TCP header of a SYN: MSS, SACK permitted, timestamps, window scale.
const TCP_SYN: usize = 40;
/// TCP header without options, as a reset has it.
const TCP_RST: usize = 20;
/// DNS header, an EDNS record, and the question but for its name.
const DNS: usize = 12 + 11 + 4;
/// One record behind a compressed name, without its address.
const RECORD: usize = 12;

/// A DNS server: its place in the client's list, and the family of its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Server {
    pub index: usize,
    pub family: Family,
}

/// A packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Packet {
    /// Bytes of the IP packet.
    pub bytes: usize,
    /// Its IP version.
    pub over: Family,
    /// What it means.
    pub body: Body,
}

/// What a packet means. Numbers are those of the client: of a query, or of a socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Body {
    /// A question to a DNS server; `site` is its index in the world, none for a name that is not there.
    Question { query: u64, site: Option<usize>, record: RecordType, over_tcp: bool, server: Server },
    /// What the DNS server says.
    Response { query: u64, says: Says },
    /// No server listens where this query was sent: ICMP, port unreachable.
    NoServer { query: u64 },
    /// The client opens a TCP connection to the DNS server for this query.
    DnsSyn { query: u64 },
    /// The DNS server takes it.
    DnsSynAck { query: u64 },
    /// The client opens a connection to a host.
    Syn { socket: u64, to: IpAddr },
    /// The host takes it.
    SynAck { socket: u64, from: IpAddr },
    /// A refusal of a host; or of the client, of a connection that it no longer wants.
    Rst { socket: u64 },
    /// The last packet of a handshake: it is not answered.
    Ack,
    /// A segment of an open connection.
    Segment(Segment),
    /// What is exchanged beside a page load.
    Company(Carried),
}

/// A segment of an open connection: data, an acknowledgement, or both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    /// Of which connection.
    pub socket: u64,
    /// The peer.
    pub peer: IpAddr,
    /// From the client to the host.
    pub up: bool,
    /// What it carries.
    pub data: Option<Data>,
    /// What it acknowledges.
    pub acknowledges: Option<Ranges>,
}

/// What a DNS server says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Says {
    /// An answer that parses.
    Result(LookupResult),
    /// The answer is too long for UDP.
    Truncated,
    /// Bytes that are no DNS message.
    Malformed,
}

impl WirePacket for Packet {
    fn wire_len(&self) -> usize {
        self.bytes
    }
}

/// The number with these last bits that is nearest to `near`.
fn nearest(near: u64, low: u32) -> u64 {
    near.saturating_add_signed(i64::from(low.wrapping_sub(near as u32) as i32))
}

/// Bytes of an IP header.
fn ip(over: Family) -> usize {
    match over {
        Family::V4 => IPV4,
        Family::V6 => IPV6,
    }
}

/// Bytes of an HTTPS record's data (RFC 9460, section 2.2), without the configuration for ECH, which is not read here.
fn service(service: &Service) -> usize {
    let param = |len: usize| if len > 0 { 4 + len } else { 0 };
    let target = service.target.as_ref().map_or(1, |t| t.len() + 2);
    let alpn = service.alpn.iter().map(|name| 1 + name.len()).sum();
    let hints = param(4 * service.ipv4hint.len()) + param(16 * service.ipv6hint.len());
    2 + target + param(alpn) + if service.port.is_some() { param(2) } else { 0 } + hints
}

impl Packet {
    fn new(over: Family, beyond_ip: usize, body: Body) -> Self {
        Self { bytes: ip(over) + beyond_ip, over, body }
    }

    /// A question to `server` for the records of a name of `name_len` characters.
    pub fn question(
        query: u64,
        (site, name_len): (Option<usize>, usize),
        record: RecordType,
        server: Server,
        over_tcp: bool,
    ) -> Self {
        // A name takes a byte more for each of its ends; over TCP a message comes behind two bytes of length.
        let bytes = if over_tcp { TCP + 2 } else { UDP } + DNS + name_len + 2;
        Self::new(server.family, bytes, Body::Question { query, site, record, over_tcp, server })
    }

    /// What the server says to `question`.
    pub fn response(query: u64, question: &Self, says: Says) -> Self {
        let records = match &says {
            Says::Result(LookupResult::Addresses(list, _)) => {
                list.iter().map(|a| RECORD + if a.is_ipv4() { 4 } else { 16 }).sum()
            }
            Says::Result(LookupResult::Services(list, _)) => list.iter().map(|s| RECORD + service(s)).sum(),
            _ => 0,
        };
        Self { bytes: question.bytes + records, over: question.over, body: Body::Response { query, says } }
    }

    /// What a host without a DNS server says to `question`: ICMP carries the packet that it is about.
    pub fn no_server(query: u64, question: &Self) -> Self {
        Self::new(question.over, ICMP + question.bytes, Body::NoServer { query })
    }

    /// The first packet of a connection to the DNS server.
    pub fn dns_syn(query: u64, server: Server) -> Self {
        Self::new(server.family, TCP_SYN, Body::DnsSyn { query })
    }

    /// The DNS server's answer to it.
    pub fn dns_syn_ack(query: u64, over: Family) -> Self {
        Self::new(over, TCP_SYN, Body::DnsSynAck { query })
    }

    /// The first packet of a connection.
    pub fn syn(socket: u64, to: IpAddr) -> Self {
        Self::new(Family::of(to), TCP_SYN, Body::Syn { socket, to })
    }

    /// The host's answer to it.
    pub fn syn_ack(socket: u64, from: IpAddr) -> Self {
        Self::new(Family::of(from), TCP_SYN, Body::SynAck { socket, from })
    }

    /// A refusal, in the family of `peer`.
    pub fn rst(socket: u64, peer: IpAddr) -> Self {
        Self::new(Family::of(peer), TCP_RST, Body::Rst { socket })
    }

    /// A segment of an open connection.
    pub fn segment(segment: Segment) -> Self {
        let payload = segment.data.map_or(0, |d| d.len as usize);
        Self::new(Family::of(segment.peer), TCP + payload, Body::Segment(segment))
    }

    /// From now on it acknowledges nothing from number `from` on; what it did acknowledge, alone, if it did at all.
    pub fn acknowledge_apart(&mut self, from: u32) -> Option<Self> {
        match &mut self.body {
            Body::Segment(segment) => {
                let all = segment.acknowledges?;
                let from = all[0].map_or(0, |(_, highest)| nearest(highest, from));
                let mut below = all.into_iter().flatten().filter(|(lowest, _)| *lowest < from);
                let below =
                    std::array::from_fn(|_| below.next().map(|(lowest, highest)| (lowest, highest.min(from - 1))));
                segment.acknowledges = Some(below).filter(|ranges: &Ranges| ranges[0].is_some());
                let alone = Segment { data: None, acknowledges: Some(all), ..*segment };
                Some(Self::segment(alone))
            }
            Body::Company(Carried::Message { connection, up, segment }) => {
                let alone = tcp::Segment {
                    seq: segment.seq + segment.len as u64,
                    len: 0,
                    bytes: Vec::new(),
                    ack: segment.ack,
                    sacks: segment.sacks,
                };
                segment.ack = nearest(segment.ack, from);
                Some(Self::company(Carried::Message { connection: *connection, up: *up, segment: alone }))
            }
            _ => None,
        }
    }

    /// What is exchanged beside a page load, over IPv4.
    pub fn company(carried: Carried) -> Self {
        let beyond_ip = match &carried {
            Carried::Datagram { bytes, .. } => UDP + bytes,
            // Its length is one of IPv4 already.
            Carried::Message { segment, .. } => segment.wire_len() - IPV4,
        };
        Self::new(Family::V4, beyond_ip, Body::Company(carried))
    }

    /// The third packet of a handshake with `to`.
    pub fn ack(to: IpAddr) -> Self {
        Self::new(Family::of(to), TCP, Body::Ack)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use headstart_core::time::Duration;

    #[test]
    fn what_is_acknowledged_apart_is_left_out_of_the_segment_and_whole_in_the_other() {
        let peer = IpAddr::from([198, 19, 0, 1]);
        let data = Some(Data { number: 3, at: 0, len: 400 });
        let ranges = |ranges: &[(u64, u64)]| {
            let mut ranges = ranges.iter().copied();
            std::array::from_fn(|_| ranges.next())
        };
        let of = |acknowledges| Packet::segment(Segment { socket: 1, peer, up: true, data, acknowledges });
        let mut request = of(Some(ranges(&[(8, 9), (0, 6)])));
        let alone = request.acknowledge_apart(5).unwrap();
        assert_eq!(request, of(Some(ranges(&[(0, 4)]))));
        assert_eq!(alone.bytes, 52);
        assert!(matches!(
            alone.body,
            Body::Segment(Segment { data: None, acknowledges: Some([Some((8, 9)), ..]), .. })
        ));
        // Nothing is left of it, and there was nothing.
        let mut request = of(Some(ranges(&[(7, 9)])));
        assert!(request.acknowledge_apart(7).is_some());
        assert_eq!(request, of(None));
        assert_eq!(of(None).acknowledge_apart(7), None);
    }

    #[test]
    fn sizes_are_those_of_real_packets() {
        let v6 = IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, 1]);
        let v4 = IpAddr::from([198, 19, 0, 1]);
        // As tcpdump shows them: a Linux SYN is 60 bytes over IPv4 and 80 over IPv6, its third packet 52 and 72.
        assert_eq!([Packet::syn(0, v4).bytes, Packet::syn(0, v6).bytes], [60, 80]);
        assert_eq!([Packet::ack(v4).bytes, Packet::ack(v6).bytes, Packet::rst(0, v4).bytes], [52, 72, 40]);
        let server = |family| Server { index: 0, family };
        let about = (None, "example.org".len());
        let asked = Packet::question(0, about, RecordType::Aaaa, server(Family::V4), false);
        assert_eq!(asked.bytes, 28 + 12 + 13 + 4 + 11);
        assert_eq!(Packet::question(0, about, RecordType::Aaaa, server(Family::V6), false).bytes, asked.bytes + 20);
        assert_eq!(Packet::no_server(0, &asked).bytes, 28 + asked.bytes);
        let said = LookupResult::Addresses(vec![v6, v6], Duration::ZERO);
        assert_eq!(Packet::response(0, &asked, Says::Result(said)).bytes, asked.bytes + 2 * 28);
    }
}
