//! The same trials over the kernel: real QUIC endpoints (quinn) in namespaces, real packets through the emulator, and the
//! kernel's own TCP with CUBIC as background.
//!
//! Each trial has a network of its own. What virtual time cannot be asked about here it can (a kernel's CUBIC has its own
//! HyStart, its own pacing, its own limits on what waits in a socket); what it says to the microsecond is true here only as
//! far as the emulator's certificate says. What never happens here: a background flow that goes by anything but CUBIC.

pub mod background;
mod quic;

use super::trial::{Cell, LIMIT, Seen, memory};
use crate::netns::Nodes;
use crate::scenario::routes::End;
use crate::scenario::{Invalid, Scenario};
use crate::sim::quic::Path;
use anyhow::Context as _;
use background::Background;
use headstart_core::path::{Family, NetworkId};
use headstart_core::time::Duration;
use headstart_io::clock::Clock;
use quic::{Client, Server};
use std::net::SocketAddr;

/// Background flows begin within a second and have found their share by then.
const SETTLED: Duration = Duration::from_secs(2);
/// From the end of a transfer to the next.
const PAUSE: Duration = Duration::from_millis(500);
/// Where the server listens, and where the background flows lead to.
const QUIC_PORT: u16 = 4433;
const TCP_PORT: u16 = 5001;

/// What came of a trial.
#[derive(Debug)]
pub struct Played {
    /// As virtual time tells it.
    pub seen: Seen,
    /// Why it may not be believed.
    pub doubts: Vec<String>,
}

/// Two hosts and the link between them.
struct HostPair {
    nodes: Nodes,
    server: Server,
    client: Client,
}

/// Where the server is, and its client.
pub const SERVER: usize = 0;
pub const CLIENT: usize = 1;

/// The address of a side.
pub fn address(side: usize, port: u16) -> SocketAddr {
    SocketAddr::new(End { wire: 0, side }.address(Family::V4), port)
}

impl HostPair {
    fn build(path: &Path, rule: &headstart_quic::CarefulResume, seed: u64) -> anyhow::Result<Self> {
        let nodes = Nodes::build(&scenario(path, seed)?).context("building the network")?;
        let identity = crate::sim::quic::Identity::new()?;
        let server = nodes.on(SERVER, || quic::socket(address(SERVER, QUIC_PORT)))??;
        let client = nodes.on(CLIENT, || quic::socket(address(CLIENT, 0)))??;
        let server = Server::start(server, &identity, rule.clone())?;
        let client = Client::start(client, &identity, address(SERVER, QUIC_PORT))?;
        Ok(Self { nodes, server, client })
    }

    /// Packets that the queue at the bottleneck has dropped so far, of all flows.
    fn drops(&self) -> u64 {
        self.nodes.certificate().drops.queue_full
    }

    fn doubts(&self) -> anyhow::Result<Vec<String>> {
        let mut doubts: Vec<String> = self.nodes.certificate().doubt().into_iter().collect();
        let lost = self.nodes.on(CLIENT, quic::dropped_by_sockets)??;
        if lost > 0 {
            doubts.push(format!("{lost} datagrams were dropped because the client's socket buffer was full"));
        }
        Ok(doubts)
    }
}

/// Plays one trial. Call it inside (see `netns::InnerCommand::enter`).
pub fn play(cell: &Cell, rule: &str, seed: u64) -> anyhow::Result<Played> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let clock = Clock::new();
    let memory = memory(rule, clock.origin())?;
    let played = runtime.block_on(async {
        let mut pair = HostPair::build(&cell.path, &memory, seed)?;
        let mut background = Background::none();
        if cell.flows > 0 {
            background = Background::start(&pair.nodes, cell.flows, seed, clock)?;
            rest(SETTLED).await;
        }
        let mut doubts = Vec::new();
        // A rule without memory needs no past, but for the queues that others fill.
        let before = if rule == super::DEFAULT && cell.flows == 0 { 0 } else { cell.before };
        for _ in 0..before {
            pair.client.fetch(cell.history, LIMIT, clock).await?;
            rest(PAUSE).await;
        }
        if let Some(then) = &cell.then {
            // What is remembered of one path meets another, between the same addresses.
            doubts.extend(pair.doubts()?);
            drop(pair);
            pair = HostPair::build(then, &memory, seed ^ 0x5eed)?;
        }
        if cell.moved {
            memory.move_to(NetworkId(2));
        }
        let (start, drops, came) = (clock.now(), pair.drops(), background.received());
        let took = pair.client.fetch(cell.bytes, LIMIT, clock).await?;
        rest((start + cell.horizon).since(clock.now())).await;
        let spent = clock.now().since(start).as_secs_f64();
        let ended = pair.server.last();
        let seen = Seen {
            ms: took.map(|took| took.as_secs_f64() * 1e3),
            drops: (pair.drops() - drops) as f64,
            lost: 100.0 * ended.lost as f64 / ended.sent.max(1) as f64,
            background: if cell.flows > 0 { (background.received() - came) as f64 * 8e-6 / spent } else { 0.0 },
        };
        doubts.extend(background.end());
        doubts.extend(pair.doubts()?);
        anyhow::Ok(Played { seen, doubts })
    });
    runtime.shutdown_background();
    played
}

async fn rest(time: Duration) {
    tokio::time::sleep(time).await;
}

/// The two hosts of a path: up leads to the client.
pub fn scenario(path: &Path, seed: u64) -> anyhow::Result<Scenario> {
    let half = (path.rtt / 2).as_nanos();
    let loss = |share: f64| if share > 0.0 { format!(",loss={share}") } else { String::new() };
    let link = format!(
        "rate={rate}bit,delay={half}ns,queue=drop-tail:{room}b{down};rate={rate}bit,delay={half}ns,queue=infinite{up}",
        rate = path.rate,
        room = path.room(),
        down = match path.bursts() {
            Some(chances) => format!(",loss=gilbert-elliott:{}:{}", chances.to_bad, chances.to_good),
            None => loss(path.data_loss),
        },
        up = loss(path.ack_loss),
    );
    let text = format!(
        "name = \"window\"\nwhat = \"a server and its client\"\nseed = {}\nhosts = [\"server\", \"client\"]\n\
         [[link]]\nname = \"bottleneck\"\nbetween = [\"server\", \"client\"]\nlink = \"{link}\"\n",
        // Numbers of TOML are of 63 bits.
        seed >> 1,
    );
    let read = Scenario::read("window", &text, &mut |path| Err(format!("{path}: links of the lab need no file")));
    read.map_err(|invalid: Invalid| anyhow::anyhow!("{invalid}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_of_virtual_time_is_a_link_of_the_emulator() {
        let path = Path {
            rate: 100_000_000,
            rtt: Duration::from_millis(38),
            queue: 0.25,
            data_loss: 0.001,
            burst: 1.0,
            ack_loss: 0.02,
        };
        let scenario = scenario(&path, u64::MAX).unwrap();
        let link = scenario.wires[0].link.to_string();
        assert_eq!(scenario.nodes.len(), 2);
        for part in ["rate=constant:100mbit", "19ms", "118750b", "loss=bernoulli:0.001", "loss=bernoulli:0.02"] {
            assert!(link.contains(part), "{part} in {link}");
        }
    }
}
