//! QUIC in virtual time: quinn-proto as it is, over the link models, beside bulk TCP.
//!
//! A [`Stage`] has one server and one client, joined by one link a direction; background flows (`sim::tcp`, CUBIC)
//! share it, as in a dumbbell whose other links are never in the way. The server starts its connections by a
//! [`CarefulResume`]. The same seed gives the same times to the nanosecond, although TLS draws its keys anew.

mod host;
mod tls;

pub use host::{Ended, transport};
pub use tls::{Identity, NAME};

use super::Driven;
use super::tcp::{self, Segment, Tcp};
use headstart_core::time::{Duration, Instant};
use headstart_link::loss::GilbertElliott;
use headstart_link::network::{LinkId, NodeId};
use headstart_link::{Counters, LinkSpec, Network, Packet, loss, queue};
use headstart_quic::{CarefulResume, Watch};
use host::Host;
use std::net::SocketAddr;

/// IPv4 and UDP.
const HEADERS: usize = 28;

/// What the links carry.
#[derive(Clone, Debug)]
pub enum Cargo {
    /// A QUIC datagram.
    Quic(Vec<u8>),
    /// A segment of a background flow.
    Tcp(usize, Segment),
}

impl Packet for Cargo {
    fn wire_len(&self) -> usize {
        match self {
            Self::Quic(bytes) => HEADERS + bytes.len(),
            Self::Tcp(_, segment) => segment.wire_len(),
        }
    }
}

/// Moments of the standard library for moments of virtual time.
#[derive(Clone, Copy, Debug)]
pub struct Times(std::time::Instant);

impl Times {
    /// Virtual time begins at `origin`, which is no real clock's time afterwards.
    pub fn new(origin: std::time::Instant) -> Self {
        Self(origin)
    }

    /// Of quinn's kind.
    pub fn std(self, at: Instant) -> std::time::Instant {
        self.0 + at.since(Instant::ZERO)
    }

    fn ours(self, at: std::time::Instant) -> Instant {
        Instant::ZERO + at.saturating_duration_since(self.0)
    }
}

/// A way between the two hosts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Path {
    /// Bits per second toward the client.
    pub rate: u64,
    /// The round trip without queues; half of it each way.
    pub rtt: Duration,
    /// Room of the queue before it, as a multiple of rate by round trip.
    pub queue: f64,
    /// Share of packets that are lost at random toward the client …
    pub data_loss: f64,
    /// … so many in a row on average; each by itself if it is 1.
    pub burst: f64,
    /// Share of packets that are lost toward the server, each by itself.
    pub ack_loss: f64,
}

impl Path {
    /// One on which nothing is lost at random, with room for as much as it carries in a round trip.
    pub const fn lossless(rate: u64, rtt: Duration) -> Self {
        Self { rate, rtt, queue: 1.0, data_loss: 0.0, burst: 1.0, ack_loss: 0.0 }
    }

    /// Bytes that it carries in a round trip.
    pub fn product(&self) -> f64 {
        self.rate as f64 / 8.0 * self.rtt.as_secs_f64()
    }

    /// Bytes that may wait before it.
    pub fn room(&self) -> usize {
        (self.product() * self.queue).max(3000.0) as usize
    }

    fn links(&self) -> (LinkSpec, LinkSpec) {
        let down = LinkSpec::constant(self.rate, self.rtt / 2).with_queue(queue::drop_tail(None, Some(self.room())));
        // Toward the server there is always room: acknowledgements are small.
        let up = LinkSpec::constant(self.rate, self.rtt / 2).with_queue(queue::infinite());
        let lossy =
            |spec: LinkSpec, share: f64| if share > 0.0 { spec.with_loss(loss::bernoulli(share)) } else { spec };
        let down = match self.bursts() {
            Some(chances) => down.with_loss(loss::gilbert_elliott(chances)),
            None => lossy(down, self.data_loss),
        };
        (down, lossy(up, self.ack_loss))
    }

    /// The chances under which data are lost in runs; none where each packet is lost by itself.
    pub fn bursts(&self) -> Option<GilbertElliott> {
        let to_good = 1.0 / self.burst;
        let to_bad = to_good * self.data_loss / (1.0 - self.data_loss);
        let in_runs = self.burst > 1.0 && self.data_loss > 0.0;
        in_runs.then_some(GilbertElliott { to_bad, to_good, loss_in_bad: 1.0, loss_in_good: 0.0 })
    }
}

/// What came of a transfer.
#[derive(Clone, Copy, Debug)]
pub struct Fetched {
    /// From the first packet of the client to the last byte; `None` if it did not come to an end in time.
    pub took: Option<Duration>,
    /// Packets that the server sent, and those that it took for lost.
    pub server: Ended,
}

struct Flow {
    from: Tcp,
    to: Tcp,
    begins: Instant,
    begun: bool,
    received: u64,
}

impl Flow {
    fn deadline(&self) -> Option<Instant> {
        let begins = (!self.begun).then_some(self.begins);
        [begins, self.from.deadline(), self.to.deadline()].into_iter().flatten().min()
    }

    fn handle_timeout(&mut self, now: Instant) {
        if !self.begun && self.begins <= now {
            self.begun = true;
            self.from.write_for_ever();
        }
        for end in [&mut self.from, &mut self.to] {
            if end.deadline().is_some_and(|at| at <= now) {
                end.timeout(now);
            }
        }
    }
}

/// A server, a client, a link each way. See the module.
pub struct Stage {
    network: Network<Cargo>,
    nodes: [NodeId; 2],
    bottleneck: LinkId,
    server: Host,
    client: Host,
    identity: Identity,
    early: Option<quinn_proto::ClientConfig>,
    flows: Vec<Flow>,
    now: Instant,
    addresses: [SocketAddr; 2],
    /// When the server sent how many bytes, if that is recorded.
    record: Option<Vec<(Instant, usize)>>,
    mark: Option<Mark>,
}

/// A moment up to which is counted.
#[derive(Clone, Copy, Debug)]
struct Mark {
    at: Instant,
    /// What had been dropped and received by then, once it is over.
    counted: Option<(u64, u64)>,
}

impl Driven for Stage {
    fn deadline(&mut self) -> Option<Instant> {
        let mark = self.mark.filter(|mark| mark.counted.is_none()).map(|mark| mark.at);
        let own = [mark, self.network.poll_timeout().map(|d| d.at), self.server.deadline(), self.client.deadline()];
        own.into_iter().flatten().chain(self.flows.iter().filter_map(Flow::deadline)).min()
    }

    fn woken(&mut self, now: Instant) {
        self.now = self.now.max(now);
        // What happens at this very moment comes after it.
        if let Some(mark) = self.mark.filter(|mark| mark.counted.is_none() && mark.at <= self.now) {
            self.mark = Some(Mark { counted: Some(self.counted()), ..mark });
        }
        while let Some((_, node, cargo)) = self.network.poll(self.now) {
            self.arrived(node, cargo);
            self.flush();
        }
        self.server.timeout(self.now);
        self.client.timeout(self.now);
        self.flows.iter_mut().for_each(|flow| flow.handle_timeout(self.now));
        self.flush();
    }
}

impl Stage {
    /// A stage at `began`. `memory` is the server's; `times` its clock's origin. `flows` background flows begin within the
    /// first second.
    pub fn new(
        path: &Path,
        memory: &CarefulResume,
        times: Times,
        began: Instant,
        flows: usize,
        seed: u64,
    ) -> anyhow::Result<Self> {
        let identity = Identity::new()?;
        let mut network = Network::new();
        let nodes = [network.add_node("server"), network.add_node("client")];
        let (down, up) = path.links();
        let (bottleneck, _) = network.connect(nodes[0], nodes[1], &down, &up, seed);
        let mut rng = fastrand::Rng::with_seed(seed ^ 0x6261_636b);
        let flow = |_| Flow {
            from: Tcp::new(tcp::MODERN, path.rtt),
            to: Tcp::new(tcp::MODERN, path.rtt),
            begins: began + Duration::from_micros(rng.u64(..1_000_000)),
            begun: false,
            received: 0,
        };
        Ok(Self {
            network,
            nodes,
            bottleneck,
            server: Host::new(times, seed ^ 1, Some(identity.server()?), Some(memory.clone())),
            client: Host::new(times, seed ^ 2, None, None),
            identity,
            early: None,
            flows: (0..flows).map(flow).collect(),
            now: began,
            addresses: [([192, 0, 2, 1], 443).into(), ([198, 51, 100, 1], 40_000).into()],
            record: None,
            mark: None,
        })
    }

    /// The background flows, which must not have begun, are of this kind.
    pub fn flows_by(&mut self, stack: tcp::Stack, rtt: Duration) {
        for flow in &mut self.flows {
            (flow.from, flow.to) = (Tcp::new(stack, rtt), Tcp::new(stack, rtt));
        }
    }

    /// At this moment it is written down what was dropped and received: [`Stage::counted`].
    pub fn count_until(&mut self, at: Instant) {
        self.mark = Some(Mark { at, counted: None });
    }

    /// Packets that the bottleneck had dropped and bytes that the background flows had received when the moment came; now, if it
    /// has not.
    pub fn counted(&self) -> (u64, u64) {
        let now = (self.bottleneck().packets_dropped, self.background());
        self.mark.and_then(|mark| mark.counted).unwrap_or(now)
    }

    /// The moment.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// From now on what the server sends is written down.
    pub fn record(&mut self) {
        self.record = Some(Vec::new());
    }

    /// What was written down: when the server sent how many bytes.
    pub fn recorded(&mut self) -> Vec<(Instant, usize)> {
        self.record.take().unwrap_or_default()
    }

    /// What the bottleneck has carried and dropped, of all flows.
    pub fn bottleneck(&self) -> Counters {
        self.network.counters(self.bottleneck)
    }

    /// Bytes that the background flows have received.
    pub fn background(&self) -> u64 {
        self.flows.iter().map(|flow| flow.received).sum()
    }

    /// A look at the server's connections that are open.
    pub fn watches(&self) -> Vec<Watch> {
        self.server.watches().cloned().collect()
    }

    /// The path changes into another; what is under way is lost with the old one.
    pub fn change_path(&mut self, path: &Path, seed: u64) {
        let mut network = Network::new();
        self.nodes = [network.add_node("server"), network.add_node("client")];
        let (down, up) = path.links();
        (self.bottleneck, _) = network.connect(self.nodes[0], self.nodes[1], &down, &up, seed);
        self.network = network;
    }

    /// Fetches `bytes` and closes the connection; gives up after `limit`.
    pub fn fetch(&mut self, bytes: u64, limit: Duration) -> anyhow::Result<Fetched> {
        self.fetch_many(bytes, limit, 1, false).map(|mut all| all.remove(0))
    }

    /// As [`Stage::fetch`], by a session that is kept from one time to the next: early data, if the server knows it.
    pub fn fetch_early(&mut self, bytes: u64, limit: Duration) -> anyhow::Result<Fetched> {
        self.fetch_many(bytes, limit, 1, true).map(|mut all| all.remove(0))
    }

    /// Sends `bytes` from the client, whose connections begin by `memory`, in early data if the server knows it. From the first packet
    /// to the last byte at the server; `None` if that takes longer than `limit`.
    pub fn send_early(
        &mut self,
        memory: &CarefulResume,
        bytes: u64,
        limit: Duration,
    ) -> anyhow::Result<Option<Duration>> {
        self.client.remember(memory.clone());
        (self.client.question, self.server.asked) = (bytes, None);
        let began = self.now;
        self.fetch_early(1, limit)?;
        Ok(self.server.asked.map(|asked| asked - began))
    }

    /// `count` connections at once, of one client; each fetches `bytes`.
    pub fn fetch_many(
        &mut self,
        bytes: u64,
        limit: Duration,
        count: usize,
        early: bool,
    ) -> anyhow::Result<Vec<Fetched>> {
        self.server.answer = bytes;
        self.server.ended.clear();
        let (began, end) = (self.now, self.now + limit);
        let mut ids = Vec::new();
        for _ in 0..count {
            let config = match (&self.early, early) {
                (Some(config), true) => config.clone(),
                (_, early) => self.identity.client(early)?,
            };
            if early {
                self.early = Some(config.clone());
            }
            ids.push(self.client.connect(self.now, config, self.addresses[0])?);
        }
        self.flush();
        self.run(end, |stage| ids.iter().all(|id| stage.client.done(*id).is_some()));
        let took: Vec<_> = ids.iter().map(|id| self.client.done(*id).map(|done| done - began)).collect();
        ids.iter().for_each(|id| self.client.close(self.now, *id));
        self.flush();
        // A second at most: what closes a connection may be lost.
        let end = self.now + Duration::from_secs(1);
        self.run(end, |stage| stage.server.open() == 0);
        self.server.forget();
        let mut ended = self.server.ended.iter().copied();
        Ok(took.into_iter().map(|took| Fetched { took, server: ended.next().unwrap_or_default() }).collect())
    }

    /// Lets time pass until `at`.
    pub fn run_until(&mut self, at: Instant) {
        self.run(at, |_| false);
    }

    /// Something has come to the client or to the server.
    fn arrived(&mut self, node: NodeId, cargo: Cargo) {
        let at_client = node == self.nodes[1];
        match cargo {
            Cargo::Quic(bytes) if at_client => self.client.receive(self.now, self.addresses[0], &bytes),
            Cargo::Quic(bytes) => self.server.receive(self.now, self.addresses[1], &bytes),
            Cargo::Tcp(id, segment) => {
                let Some(flow) = self.flows.get_mut(id) else { return };
                if at_client {
                    flow.received += segment.len as u64;
                    flow.to.receive(self.now, &segment);
                    // What a bulk flow brings is not read.
                    flow.to.read();
                } else {
                    flow.from.receive(self.now, &segment);
                }
            }
        }
    }

    /// Everything that the hosts have to say goes onto the links.
    fn flush(&mut self) {
        let [server, client] = self.nodes;
        for (_, cargo) in self.server.out.drain(..) {
            if let Some(record) = &mut self.record {
                record.push((self.now, cargo.wire_len()));
            }
            // What the link drops, it counts.
            let _ = self.network.send(self.now, server, client, cargo);
        }
        for (_, cargo) in self.client.out.drain(..) {
            let _ = self.network.send(self.now, client, server, cargo);
        }
        for (id, flow) in self.flows.iter_mut().enumerate().filter(|(_, flow)| flow.begun) {
            while let Some(segment) = flow.from.poll(self.now) {
                let _ = self.network.send(self.now, server, client, Cargo::Tcp(id, segment));
            }
            while let Some(segment) = flow.to.poll(self.now) {
                let _ = self.network.send(self.now, client, server, Cargo::Tcp(id, segment));
            }
        }
    }
}

#[cfg(test)]
mod tests;
