//! What travels in the simulation: packets by meaning, with the sizes that they would have on the wire.
//!
//! Sizes are those of IP packets: headers of IPv4 and IPv6 (RFC 791, RFC 8200), UDP, TCP with the options of a Linux SYN,
//! DNS with an EDNS record (RFC 6891). Bytes themselves are never made: nothing here could be parsed.

use headstart_core::connect::LookupResult;
use headstart_core::wire::record::{RecordType, Service};
use headstart_link::Packet as WirePacket;
use std::net::IpAddr;

const IPV4: usize = 20;
const IPV6: usize = 40;
const UDP: usize = 8;
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

/// A packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Packet {
    /// Bytes of the IP packet.
    pub bytes: usize,
    /// What it means.
    pub body: Body,
}

/// What a packet means. Numbers are those of the client: of a query, or of a socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Body {
    /// A question to the DNS server; `site` is its index in the world, none for a name that is not there.
    Question { query: u64, site: Option<usize>, record: RecordType, over_tcp: bool },
    /// What the DNS server says.
    Response { query: u64, says: Says },
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
    /// The last packet of a handshake: nobody answers it.
    Ack,
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

fn ip(to: IpAddr) -> usize {
    if to.is_ipv4() { IPV4 } else { IPV6 }
}

/// Bytes of an HTTPS record's data (RFC 9460, section 2.2), the configuration for ECH left out: nobody reads it here.
fn service(service: &Service) -> usize {
    let param = |len: usize| if len > 0 { 4 + len } else { 0 };
    let target = service.target.as_ref().map_or(1, |t| t.len() + 2);
    let alpn = service.alpn.iter().map(|name| 1 + name.len()).sum();
    let hints = param(4 * service.ipv4hint.len()) + param(16 * service.ipv6hint.len());
    2 + target + param(alpn) + if service.port.is_some() { param(2) } else { 0 } + hints
}

impl Packet {
    /// A question about a name of `name_len` characters; the server is asked over IPv4.
    pub fn question(query: u64, site: Option<usize>, name_len: usize, record: RecordType, over_tcp: bool) -> Self {
        // A name takes a byte more for each of its ends; over TCP a message comes behind two bytes of length.
        let bytes = IPV4 + if over_tcp { TCP + 2 } else { UDP } + DNS + name_len + 2;
        Self { bytes, body: Body::Question { query, site, record, over_tcp } }
    }

    /// What the server says to a question of `question` bytes.
    pub fn response(query: u64, question: usize, says: Says) -> Self {
        let records = match &says {
            Says::Result(LookupResult::Addresses(list, _)) => {
                list.iter().map(|a| RECORD + if a.is_ipv4() { 4 } else { 16 }).sum()
            }
            Says::Result(LookupResult::Services(list, _)) => list.iter().map(|s| RECORD + service(s)).sum(),
            _ => 0,
        };
        Self { bytes: question + records, body: Body::Response { query, says } }
    }

    /// The first packet of a connection to the DNS server.
    pub fn dns_syn(query: u64) -> Self {
        Self { bytes: IPV4 + TCP_SYN, body: Body::DnsSyn { query } }
    }

    /// The DNS server's answer to it.
    pub fn dns_syn_ack(query: u64) -> Self {
        Self { bytes: IPV4 + TCP_SYN, body: Body::DnsSynAck { query } }
    }

    /// The first packet of a connection.
    pub fn syn(socket: u64, to: IpAddr) -> Self {
        Self { bytes: ip(to) + TCP_SYN, body: Body::Syn { socket, to } }
    }

    /// The host's answer to it.
    pub fn syn_ack(socket: u64, from: IpAddr) -> Self {
        Self { bytes: ip(from) + TCP_SYN, body: Body::SynAck { socket, from } }
    }

    /// A refusal, in the family of `peer`.
    pub fn rst(socket: u64, peer: IpAddr) -> Self {
        Self { bytes: ip(peer) + TCP_RST, body: Body::Rst { socket } }
    }

    /// The third packet of a handshake with `to`.
    pub fn ack(to: IpAddr) -> Self {
        Self { bytes: ip(to) + TCP, body: Body::Ack }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use headstart_core::time::Duration;

    #[test]
    fn sizes_are_those_of_real_packets() {
        let v6 = IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, 1]);
        let v4 = IpAddr::from([198, 19, 0, 1]);
        // As tcpdump shows them: a Linux SYN is 60 bytes over IPv4 and 80 over IPv6, its third packet 52 and 72.
        assert_eq!([Packet::syn(0, v4).bytes, Packet::syn(0, v6).bytes], [60, 80]);
        assert_eq!([Packet::ack(v4).bytes, Packet::ack(v6).bytes, Packet::rst(0, v4).bytes], [52, 72, 40]);
        let asked = Packet::question(0, None, "example.org".len(), RecordType::Aaaa, false);
        assert_eq!(asked.bytes, 28 + 12 + 13 + 4 + 11);
        let said = LookupResult::Addresses(vec![v6, v6], Duration::ZERO);
        assert_eq!(Packet::response(0, asked.bytes, Says::Result(said)).bytes, asked.bytes + 2 * 28);
    }
}
