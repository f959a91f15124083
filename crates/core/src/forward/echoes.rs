//! Requests for an echo (ping) and their replies: who asked gets what came back, and what the network says of it.

use super::{Output, Packet};
use crate::time::{Duration, Instant};
use crate::wire::ip::icmp::{self, Trouble};
use crate::wire::ip::{Header, header_len, write};
use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;

/// How long a reply may take. 60 s: RFC 5508, REQ-1.
const LIFETIME: Duration = Duration::from_secs(60);
/// Askers at a time; whose last request is oldest makes room.
const MOST: usize = 256;

/// Who has asked whom, by the number of the program's requests, and when last.
#[derive(Debug, Default)]
pub(super) struct Echoes {
    asked: BTreeMap<(IpAddr, u16), (IpAddr, Instant)>,
}

impl Echoes {
    /// An ICMP message of a program; what is no request for an echo is left out.
    pub fn packet(&mut self, now: Instant, header: &Header, message: &[u8], out: &mut VecDeque<Output>) -> bool {
        let Some(id) = icmp::echo_request(header.destination.is_ipv4(), message) else { return false };
        self.asked.retain(|_, (_, last)| now.since(*last) < LIFETIME);
        if self.asked.len() >= MOST {
            let oldest = self.asked.iter().min_by_key(|(_, (_, last))| *last).map(|(key, _)| *key);
            oldest.and_then(|key| self.asked.remove(&key));
        }
        self.asked.insert((header.destination, id), (header.source, now));
        out.push_back(Output::Echo {
            to: header.destination,
            message: message.to_vec(),
            traffic_class: header.traffic_class,
            hop_limit: header.hop_limit,
        });
        true
    }

    /// A reply.
    pub fn received(&self, now: Instant, from: IpAddr, message: Vec<u8>, out: &mut VecDeque<Output>) {
        let Some(id) = icmp::echo_reply(from.is_ipv4(), &message) else { return };
        let Some((app, last)) = self.asked.get(&(from, id)) else { return };
        if now.since(*last) < LIFETIME {
            out.push_back(Output::Packet(Packet::finished(icmp::packet_of(from, *app, 0, message))));
        }
    }

    /// The network says what became of a request.
    pub fn failed(
        &self,
        to: IpAddr,
        reporter: Option<IpAddr>,
        message: &[u8],
        trouble: Trouble,
        out: &mut VecDeque<Output>,
    ) {
        let Some(id) = icmp::echo_request(to.is_ipv4(), message) else { return };
        let Some((app, _)) = self.asked.get(&(to, id)) else { return };
        let ip = header_len(to);
        let message = &message[..message.len().min(icmp::MOST_QUOTED - ip)];
        let mut quoted = vec![0; ip];
        let protocol = if to.is_ipv4() { crate::wire::ip::ICMP } else { crate::wire::ip::ICMP_V6 };
        let header = Header {
            source: *app,
            destination: to,
            protocol,
            traffic_class: 0,
            hop_limit: 1,
            whole: false,
            fragment: None,
        };
        write(&header, message.len(), &mut quoted);
        quoted.extend(message);
        let reporter = reporter.filter(|ip| ip.is_ipv4() == to.is_ipv4()).unwrap_or(to);
        let error = icmp::error(reporter, *app, trouble, &quoted);
        out.extend(error.map(|packet| Output::Packet(Packet::finished(packet))));
    }
}
