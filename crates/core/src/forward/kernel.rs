//! What headstart's programs in the kernel tell (eBPF, `crates/io/bpf`; docs/decisions/0088): their bytes to the records that the forwarder
//! makes, so that meters, lines and summaries are the same in both ways to measure.
//!
//! Structures are those of `crates/io/bpf/flow.h`, field by field; sizes are checked on both sides. What is cut off is no record. Nothing
//! is kept but questions of DNS that wait for their answers, and what is kept of them is bounded.

use super::lookups::Lookups;
use super::observed::{Direction, Gaps, Limits, Side, TRIPS, TcpStats, Transfer, Trips};
use super::record::DnsExchange;
use super::stream::Stream;
use super::udp_flow::Quic;
use super::{Facts, Flow, FlowEnd, FlowId, Record, UdpFlow};
use crate::time::{Duration, Instant};
use crate::wire::quic;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// Bytes of `struct flow`.
pub const FLOW: usize = 928;
/// Bytes of `struct datagrams`.
pub const DATAGRAMS: usize = 456;
/// Bytes of `struct pair`, the key of datagrams.
pub const PAIR: usize = 32;
/// Bytes of the first datagram that are reported.
const BEGINNING: usize = 48;
/// Less at a time has no rate: `TRANSFER` there, and `io::forward` of the forwarder's own.
const TRANSFER: u64 = 8192;
/// More at a time is no request: `REQUEST` there.
const REQUEST: u64 = 16384;
/// Sockets whose questions wait for answers.
const MOST_SOCKETS: usize = 1024;
/// Kinds of records.
const KIND_FLOW: u32 = 1;
const KIND_LOOKUP: u32 = 2;
const KIND_PEER: u32 = 3;
const KIND_CLOSED: u32 = 4;
const KIND_DATAGRAMS: u32 = 5;
/// The program has said its end; the peer has, before the program did.
const BY_PROGRAM: u32 = 1;
const PEER_FIRST: u32 = 4;
/// How a connection began, if the program did not open it: accepted from its peer, or open before it was measured.
const ACCEPTED: u32 = 1;
const BEFORE: u32 = 2;

/// Whose a socket is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Whose {
    /// The process; zero if it is not known.
    pub pid: i32,
    /// Its user.
    pub user: u32,
    /// The number of its control group.
    pub cgroup: u64,
    /// Its name, as the kernel has it (15 bytes at most).
    pub name: String,
}

/// What one record of the ring says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Something has ended, and whose it was.
    Record(Record, Whose),
    /// Lookups were answered: one by a datagram, and however many by a segment of TCP.
    Answered(Vec<DnsExchange>, Whose),
    /// A socket speaks to a peer that it has not spoken to before.
    Peer {
        /// The socket.
        socket: u64,
        /// The key under which it is counted.
        key: [u8; PAIR],
    },
    /// A socket with datagrams was closed.
    Closed {
        /// The socket.
        socket: u64,
    },
    /// A question, a part of one, or an answer to none.
    Nothing,
}

/// Reads the records.
#[derive(Debug)]
pub struct Reader {
    /// The kernel's clock at the beginning of ours, in nanoseconds.
    origin: u64,
    /// The kernel's unit of time (a jiffy).
    tick: Duration,
    /// By socket: when it asked last, and what.
    lookups: BTreeMap<u64, Asking>,
}

/// A socket that asks servers of DNS.
#[derive(Debug, Default)]
struct Asking {
    last: Instant,
    known: Lookups,
    /// Over TCP, what it sends and what it is sent.
    streams: [Stream; 2],
}

impl Reader {
    /// `origin` is what the kernel's monotonic clock showed when ours began, in nanoseconds; `tick` is its unit of time (a jiffy).
    pub fn new(origin: u64, tick: Duration) -> Self {
        Self { origin, tick, lookups: BTreeMap::new() }
    }

    /// A record of the ring; none if it is not whole.
    pub fn event(&mut self, bytes: &[u8]) -> Option<Event> {
        let kind = Fields(bytes).u32()?;
        match kind {
            KIND_FLOW => {
                let (flow, whose) = self.flow(bytes)?;
                self.lookups.remove(&flow.id.0);
                Some(Event::Record(Record::Flow(Box::new(flow)), whose))
            }
            KIND_LOOKUP => self.message(bytes),
            KIND_PEER | KIND_CLOSED => {
                let key: [u8; PAIR] = *bytes.get(8..)?.first_chunk()?;
                let socket = u64::from_ne_bytes(*key.first_chunk()?);
                if kind == KIND_PEER {
                    return Some(Event::Peer { socket, key });
                }
                self.lookups.remove(&socket);
                Some(Event::Closed { socket })
            }
            _ => None,
        }
    }

    /// A connection, open or ended (`struct flow`).
    pub fn flow(&self, bytes: &[u8]) -> Option<(Flow, Whose)> {
        let mut fields = Fields(bytes.get(..FLOW)?);
        let (kind, error) = (fields.u32()?, fields.u32()?);
        let id = FlowId(fields.u64()?);
        let whose = fields.whose()?;
        let (app, peer) = fields.ends()?;
        let [asked, syn, connected, ended, hello_up, hello_down] = fields.u64s()?;
        let [origin, fins, lost, reordered, token, _again, _lost, _reordered] = fields.u32s()?;
        let ([_sent, _received], up) = (fields.u64s()?, self.way(&mut fields)?);
        let ([run, run_began, _asking, limited_at], [_next, _unheard]) = (fields.u64s()?, fields.u32s()?);
        let (limited, [segment], down) = (fields.u32s::<3>()?, fields.u32s()?, self.way(&mut fields)?);
        let [answers_ns, longest_answer, bytes, took] = fields.u64s()?;
        let [run_acknowledged, run_at, count, total, longest] = fields.u64s()?;
        let [answers, rtt, min_rtt, retransmissions, segments, segments_us] = fields.u32s()?;
        let trips = (0..TRIPS).map(|_| fields.u32()).collect::<Option<Vec<u32>>>()?;
        let mut delivered = Transfer { bytes, took: Duration::from_nanos(took) };
        let mut requests = trips_of(count, total, longest);
        if run_acknowledged >= TRANSFER {
            delivered.more(run_acknowledged, Duration::from_nanos(run_at.saturating_sub(run_began)));
        }
        let request = (run > 0 && run <= REQUEST && run == run_acknowledged).then(|| self.moment(run_at).zip(up.last));
        if let Some((at, last)) = request.flatten() {
            requests.trip(at.since(last));
        }
        let facts = Facts {
            rtt: Duration::from_micros(rtt.into()),
            min_rtt: Some(Duration::from_micros(min_rtt.into())).filter(|_| min_rtt > 0 && min_rtt < u32::MAX),
            retransmissions,
        };
        let end = if ended == 0 { FlowEnd::Open } else { end_of(connected > 0, syn > 0, error, fins) };
        let flow = Flow {
            connected: self.moment(connected),
            handshake: (syn > 0 && connected > 0).then(|| Duration::from_nanos(connected.saturating_sub(syn))),
            up,
            down,
            hello: (self.moment(hello_up), self.moment(hello_down)),
            delivered,
            facts: (rtt > 0).then_some(facts),
            requests,
            kernel_stats: Some(Box::new(TcpStats {
                accepted: origin == ACCEPTED,
                before: origin == BEFORE,
                lost,
                reordered,
                closed_by: if connected > 0 { closed_by(end, fins) } else { None },
                answers: trips_of(answers.into(), answers_ns, longest_answer),
                limits: (connected > 0 && limited_at > 0 && origin != BEFORE)
                    .then(|| self.limits(limited_at, connected, limited)),
                delivery: (segments_us > 0)
                    .then(|| (u64::from(segments) * u64::from(segment), Duration::from_micros(segments_us.into()))),
                mptcp: (token > 0).then_some(token),
                trips,
            })),
            end,
            ended: self.moment(ended),
            ..Flow::new(id, (app, peer), self.moment(asked)?)
        };
        (kind == KIND_FLOW).then_some((flow, whose))
    }

    /// What a connection waited for from its handshake until `now`, in nanoseconds of the kernel's clock.
    fn limits(&self, now: u64, connected: u64, limited: [u32; 3]) -> Limits {
        let [network, receiver, buffer] = limited.map(|jiffies| self.tick.saturating_mul(jiffies));
        let all = Duration::from_nanos(now.saturating_sub(connected));
        let application = all.saturating_sub(network).saturating_sub(receiver).saturating_sub(buffer);
        Limits { application, network, receiver, buffer }
    }

    /// Datagrams between two ends (`struct datagrams`).
    pub fn datagrams(&self, bytes: &[u8]) -> Option<(UdpFlow, Whose)> {
        let mut fields = Fields(bytes.get(..DATAGRAMS)?);
        let (kind, first_len) = (fields.u32()?, fields.u32()?);
        let whose = fields.whose()?;
        let (app, peer) = fields.ends()?;
        let [began, answered] = fields.u64s()?;
        let (up, down) = (self.way(&mut fields)?, self.way(&mut fields)?);
        let [_edge, count, total, longest] = fields.u64s()?;
        let [_spin, first_up] = fields.u32s()?;
        // As long as it was: the length says whether it may be QUIC's first. A datagram is 64 KiB at most.
        let mut first = fields.take(BEGINNING)?.to_vec();
        first.resize((first_len as usize).clamp(BEGINNING, 1 << 16), 0);
        let began = self.moment(began)?;
        let quic = (first_up > 0).then(|| quic::initial(&first)).flatten();
        let quic = quic.map(|(version, id)| {
            let mut quic = Quic::new(began, version, id);
            quic.handshake = self.moment(answered).map(|at| at.since(began));
            quic.spins = trips_of(count, total, longest);
            quic
        });
        let flow = UdpFlow { up, down, icmp_errors: None, quic, ..UdpFlow::new(began, app, peer) };
        (kind == KIND_DATAGRAMS).then_some((flow, whose))
    }

    /// A message of DNS (`struct lookup`).
    fn message(&mut self, bytes: &[u8]) -> Option<Event> {
        let mut fields = Fields(bytes);
        let [_kind, up] = fields.u32s()?;
        let at = fields.u64()?;
        let whose = fields.whose()?;
        let (app, server) = fields.ends()?;
        let socket = fields.u64()?;
        let [len, segment, sequence, _unused] = fields.u32s()?;
        let bytes = fields.take(usize::try_from(len).ok()?)?;
        let now = self.moment(at)?;
        if up > 0 && !self.lookups.contains_key(&socket) {
            if self.lookups.len() >= MOST_SOCKETS {
                let oldest = self.lookups.iter().min_by_key(|(_, asking)| asking.last).map(|(socket, _)| *socket);
                oldest.and_then(|socket| self.lookups.remove(&socket));
            }
            self.lookups.insert(socket, Asking::default());
        }
        let Some(asking) = self.lookups.get_mut(&socket) else { return Some(Event::Nothing) };
        let messages = match segment {
            0 => vec![bytes.to_vec()],
            _ => asking.streams[usize::from(up == 0)].take(sequence, segment, bytes),
        };
        if up > 0 {
            asking.last = now;
            messages.iter().for_each(|message| asking.known.asked(now, server, message));
            return Some(Event::Nothing);
        }
        let answered = messages.iter().filter_map(|message| asking.known.answered(now, app, server, message, false));
        let exchanges: Vec<_> = answered.collect();
        Some(if exchanges.is_empty() { Event::Nothing } else { Event::Answered(exchanges, whose) })
    }

    fn way(&self, fields: &mut Fields<'_>) -> Option<Direction> {
        let [bytes, packets, first, last, counted, took, count, total, longest] = fields.u64s()?;
        let last = self.moment(last);
        let (total, longest) = (Duration::from_nanos(total), Duration::from_nanos(longest));
        Some(Direction {
            bytes,
            packets,
            first: self.moment(first),
            last,
            gaps: Gaps { last, count, total, longest, histogram: fields.u32s()? },
            without_pauses: Transfer { bytes: counted, took: Duration::from_nanos(took) },
        })
    }

    /// A moment of the kernel's clock; zero is none. What was before ours began is its beginning.
    fn moment(&self, at: u64) -> Option<Instant> {
        (at > 0).then(|| Instant::from_nanos(at.saturating_sub(self.origin)))
    }
}

/// Times that were summed in nanoseconds.
fn trips_of(count: u64, total: u64, longest: u64) -> Trips {
    Trips { count, total: Duration::from_nanos(total), longest: Duration::from_nanos(longest) }
}

/// How a connection ended, by the error that the program got (errno) and the sides that have sent a FIN.
fn end_of(connected: bool, sent: bool, error: u32, fins: u32) -> FlowEnd {
    /// Numbers of Linux (asm-generic/errno.h).
    const NETWORK_DOWN: u32 = 100;
    const NETWORK_UNREACHABLE: u32 = 101;
    const RESET: u32 = 104;
    const BROKEN_PIPE: u32 = 32;
    const TIMED_OUT: u32 = 110;
    const REFUSED: u32 = 111;
    const HOST_DOWN: u32 = 112;
    const HOST_UNREACHABLE: u32 = 113;
    match error {
        0 if connected && fins & BY_PROGRAM != 0 => FlowEnd::Finished,
        // The program has gone without a word, or before there was a connection.
        0 if sent || connected => FlowEnd::ResetByProgram,
        RESET | REFUSED | BROKEN_PIPE if connected => FlowEnd::ResetByPeer,
        RESET | REFUSED => FlowEnd::Refused,
        TIMED_OUT => FlowEnd::Silent,
        NETWORK_DOWN | NETWORK_UNREACHABLE | HOST_DOWN | HOST_UNREACHABLE => FlowEnd::Unreachable,
        _ => FlowEnd::Failed,
    }
}

/// Who ended a connection first, if anybody did.
fn closed_by(end: FlowEnd, fins: u32) -> Option<Side> {
    match end {
        _ if fins & PEER_FIRST != 0 => Some(Side::Peer),
        _ if fins & BY_PROGRAM != 0 => Some(Side::Program),
        FlowEnd::ResetByPeer => Some(Side::Peer),
        FlowEnd::ResetByProgram => Some(Side::Program),
        _ => None,
    }
}

/// Fields one after the other, as the kernel's own machine has them.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    fn chunk<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*taken)
    }

    fn u16(&mut self) -> Option<u16> {
        self.chunk().map(u16::from_ne_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.chunk().map(u32::from_ne_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.chunk().map(u64::from_ne_bytes)
    }

    fn u32s<const N: usize>(&mut self) -> Option<[u32; N]> {
        let mut all = [0; N];
        for one in &mut all {
            *one = self.u32()?;
        }
        Some(all)
    }

    fn u64s<const N: usize>(&mut self) -> Option<[u64; N]> {
        let mut all = [0; N];
        for one in &mut all {
            *one = self.u64()?;
        }
        Some(all)
    }

    fn whose(&mut self) -> Option<Whose> {
        let cgroup = self.u64()?;
        let [pid, user] = self.u32s()?;
        let name = self.take(16)?;
        let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
        let name = String::from_utf8_lossy(name).into_owned();
        Some(Whose { pid: i32::try_from(pid).unwrap_or_default(), user, cgroup, name })
    }

    fn ends(&mut self) -> Option<(SocketAddr, SocketAddr)> {
        let [local, peer]: [[u8; 16]; 2] = [self.chunk()?, self.chunk()?];
        let (local_port, peer_port) = (self.u16()?, self.u16()?);
        self.u32()?;
        let end = |ip: [u8; 16], port| SocketAddr::new(IpAddr::V6(Ipv6Addr::from(ip)).to_canonical(), port);
        Some((end(local, local_port), end(peer, peer_port)))
    }
}

#[cfg(test)]
mod tests;
