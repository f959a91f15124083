//! Echo requests (ping) and their replies: the program that asked gets what came back, and what the network says of it.

use super::echo_flow::EchoFlow;
use super::{Output, Packet, Record};
use crate::time::{Duration, Instant};
use crate::wire::ip::icmp::{self, Trouble};
use crate::wire::ip::{Header, header_len, write};
use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;

/// How long a reply may take. 60 s: RFC 5508, REQ-1.
const LIFETIME: Duration = Duration::from_secs(60);
/// Askers at a time; whose last request is oldest makes room.
const MOST: usize = 256;

/// Which program has asked which peer, by the number of the program's requests.
#[derive(Debug, Default)]
pub(super) struct Echoes {
    asked: BTreeMap<(IpAddr, u16), EchoFlow>,
}

impl Echoes {
    /// An ICMP message of a program; what is no request for an echo is left out.
    pub fn packet(&mut self, now: Instant, header: &Header, message: &[u8], out: &mut VecDeque<Output>) -> bool {
        let Some(id) = icmp::echo_request(header.destination.is_ipv4(), message) else { return false };
        let key = (header.destination, id);
        let is_new = self.asked.get(&key).is_none_or(|flow| flow.app != header.source);
        if is_new {
            let old: Vec<_> = self.asked.iter().filter(|(_, flow)| now.since(flow.last) >= LIFETIME).collect();
            let mut old: Vec<_> = old.into_iter().map(|(key, _)| *key).chain([key]).collect();
            if self.asked.len() >= MOST {
                old.extend(self.asked.iter().min_by_key(|(_, flow)| flow.last).map(|(key, _)| *key));
            }
            let old = old.into_iter().filter_map(|key| self.asked.remove(&key));
            out.extend(old.map(|flow| Output::Record(Record::Echo(flow))));
        }
        let flow = self.asked.entry(key).or_insert_with(|| EchoFlow::new(now, header.source, header.destination, id));
        flow.requested(now, message);
        out.push_back(Output::Echo {
            to: header.destination,
            message: message.to_vec(),
            traffic_class: header.traffic_class,
            hop_limit: header.hop_limit,
            whole: header.whole,
        });
        true
    }

    /// What was seen so far.
    pub fn flows(&self) -> impl Iterator<Item = &EchoFlow> {
        self.asked.values()
    }

    /// A reply.
    pub fn received(
        &mut self,
        now: Instant,
        from: IpAddr,
        (message, hop_limit): (Vec<u8>, u8),
        out: &mut VecDeque<Output>,
    ) {
        let Some(id) = icmp::echo_reply(from.is_ipv4(), &message) else { return };
        let Some(flow) = self.asked.get_mut(&(from, id)) else { return };
        if now.since(flow.last) < LIFETIME {
            flow.replied(now, &message);
            let packet = icmp::packet_of(from, flow.app, (0, hop_limit), message);
            out.push_back(Output::Packet(Packet::finished(packet)));
        }
    }

    /// The network reports the outcome of a request.
    pub fn failed(
        &mut self,
        to: IpAddr,
        (reporter, trouble, hop_limit): (Option<IpAddr>, Trouble, u8),
        message: &[u8],
        out: &mut VecDeque<Output>,
    ) {
        let Some(id) = icmp::echo_request(to.is_ipv4(), message) else { return };
        let Some(flow) = self.asked.get_mut(&(to, id)) else { return };
        flow.icmp_errors += 1;
        let app = flow.app;
        let ip = header_len(to);
        let message = &message[..message.len().min(icmp::most_quoted(to.is_ipv4()) - ip)];
        let mut quoted = vec![0; ip];
        let protocol = if to.is_ipv4() { crate::wire::ip::ICMP } else { crate::wire::ip::ICMP_V6 };
        let header = Header {
            source: app,
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
        let error = icmp::error(reporter, app, trouble, &quoted, hop_limit);
        out.extend(error.map(|packet| Output::Packet(Packet::finished(packet))));
    }
}
