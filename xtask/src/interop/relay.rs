//! What lies between a client and a server: datagrams over loopback, of which some are lost, or whose sender's address changes.
//!
//! It looks at the first byte of a packet, to know a Retry (RFC 9000, section 17.2.5), and at nothing else.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{JoinHandle, spawn};
use std::time::Duration;

/// How often a thread looks whether it is to end.
const GLANCE: Duration = Duration::from_millis(20);
/// Bytes of the largest datagram over loopback.
const LARGEST: usize = 65_536;

/// What becomes of datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weather {
    /// All arrive.
    Fair,
    /// So many of a thousand are lost, in each direction.
    Lossy(u64),
    /// After so many datagrams of the server, what a client sends comes from another port, and the old one is gone: a NAT that has
    /// forgotten (RFC 9308, section 3.4).
    Moves(u64),
}

/// Decides what is lost: by chance, but the same each time.
struct Dice(u64);

impl Dice {
    fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// Whether it falls among so many of a thousand (xorshift64*).
    fn falls(&mut self, per_mille: u64) -> bool {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32) % 1000 < per_mille
    }
}

/// What was seen.
#[derive(Debug, Default)]
struct Seen {
    retries: AtomicU64,
    moves: AtomicU64,
}

/// A relay until this is dropped.
pub struct Relay {
    port: u16,
    seen: Arc<Seen>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Relay {
    /// A relay to the server at `port`. `seed`: of what is lost.
    pub fn new(port: u16, weather: Weather, seed: u64) -> std::io::Result<Self> {
        let front = bound()?;
        let own = front.local_addr()?.port();
        let (stop, seen) = (Arc::new(AtomicBool::new(false)), Arc::new(Seen::default()));
        let toward = Toward {
            front: Arc::new(front),
            server: (Ipv4Addr::LOCALHOST, port).into(),
            weather,
            seed,
            seen: seen.clone(),
            stop: stop.clone(),
        };
        Ok(Self { port: own, seen, stop, thread: Some(spawn(move || toward.carry())) })
    }

    /// Where clients find it.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Retries that the server sent.
    pub fn retries(&self) -> u64 {
        self.seen.retries.load(Ordering::Relaxed)
    }

    /// How often a client's address changed.
    pub fn moves(&self) -> u64 {
        self.seen.moves.load(Ordering::Relaxed)
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn bound() -> std::io::Result<UdpSocket> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    socket.set_read_timeout(Some(GLANCE))?;
    Ok(socket)
}

/// The way to the server.
struct Toward {
    front: Arc<UdpSocket>,
    server: SocketAddr,
    weather: Weather,
    seed: u64,
    seen: Arc<Seen>,
    stop: Arc<AtomicBool>,
}

/// The way back to one client.
struct Way {
    socket: Arc<UdpSocket>,
    gone: Arc<AtomicBool>,
    came: Arc<AtomicU64>,
    has_moved: bool,
    thread: JoinHandle<()>,
}

impl Toward {
    fn carry(self) {
        let (mut ways, mut old) = (HashMap::<SocketAddr, Way>::new(), Vec::new());
        let (mut dice, mut buffer) = (Dice::new(self.seed), vec![0; LARGEST]);
        while !self.stop.load(Ordering::Relaxed) {
            let Ok((length, client)) = self.front.recv_from(&mut buffer) else { continue };
            if let Weather::Moves(after) = self.weather
                && ways.get(&client).is_some_and(|way| !way.has_moved && way.came.load(Ordering::Relaxed) >= after)
                && let Some(way) = ways.remove(&client)
            {
                way.gone.store(true, Ordering::Relaxed);
                old.push(way.thread);
                self.seen.moves.fetch_add(1, Ordering::Relaxed);
                ways.extend(self.way(client, true).ok().map(|way| (client, way)));
            }
            if !ways.contains_key(&client) {
                ways.extend(self.way(client, false).ok().map(|way| (client, way)));
            }
            let is_lost = matches!(self.weather, Weather::Lossy(share) if dice.falls(share));
            if let Some(way) = ways.get(&client).filter(|_| !is_lost) {
                // A server that has ended refuses.
                let _ = way.socket.send_to(&buffer[..length], self.server);
            }
        }
        old.extend(ways.into_values().map(|way| way.thread));
        old.into_iter().for_each(|thread| drop(thread.join()));
    }

    fn way(&self, client: SocketAddr, has_moved: bool) -> std::io::Result<Way> {
        let socket = Arc::new(bound()?);
        let (gone, came) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (from, to, stop, seen) = (socket.clone(), self.front.clone(), self.stop.clone(), self.seen.clone());
        let (ends, counted, weather) = (gone.clone(), came.clone(), self.weather);
        let mut dice = Dice::new(!self.seed);
        let thread = spawn(move || {
            let mut buffer = vec![0; LARGEST];
            while !stop.load(Ordering::Relaxed) && !ends.load(Ordering::Relaxed) {
                let Ok((length, _)) = from.recv_from(&mut buffer) else { continue };
                counted.fetch_add(1, Ordering::Relaxed);
                if is_retry(&buffer[..length]) {
                    seen.retries.fetch_add(1, Ordering::Relaxed);
                }
                if !matches!(weather, Weather::Lossy(share) if dice.falls(share)) {
                    let _ = to.send_to(&buffer[..length], client);
                }
            }
        });
        Ok(Way { socket, gone, came, has_moved, thread })
    }
}

/// A long header of version 1, of type 3.
fn is_retry(packet: &[u8]) -> bool {
    packet.first().is_some_and(|first| first & 0xf0 == 0xf0) && packet.get(1..5) == Some(&[0, 0, 0, 1])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_of_a_hundred_are_lost_the_same_each_time() {
        let lost = |seed| {
            let mut dice = Dice::new(seed);
            (0..100_000).filter(|_| dice.falls(20)).count()
        };
        assert!((1_800..=2_200).contains(&lost(1)) && lost(1) == lost(1) && lost(1) != lost(2), "{}", lost(1));
    }

    #[test]
    fn a_client_whose_address_changes_goes_on_from_another_port_and_hears_the_answer() {
        let server = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let relay = Relay::new(server.local_addr().unwrap().port(), Weather::Moves(2), 1).unwrap();
        let client = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let mut ports = Vec::new();
        let retry = [0xf0, 0, 0, 0, 1];
        for _ in 0..4 {
            client.send_to(b"?", (Ipv4Addr::LOCALHOST, relay.port())).unwrap();
            let (_, from) = server.recv_from(&mut [0; 8]).unwrap();
            ports.push(from.port());
            server.send_to(&retry, from).unwrap();
            assert_eq!(client.recv(&mut [0; 8]).unwrap(), retry.len());
        }
        assert!(ports[0] == ports[1] && ports[1] != ports[2] && ports[2] == ports[3], "{ports:?}");
        assert_eq!((relay.moves(), relay.retries()), (1, 4));
    }

    #[test]
    fn a_retry_is_known_by_its_first_byte_and_the_version() {
        assert!(is_retry(&[0xff, 0, 0, 0, 1, 9]) && is_retry(&[0xf0, 0, 0, 0, 1]));
        assert!(!is_retry(&[0xc0, 0, 0, 0, 1]) && !is_retry(&[0x7f, 0, 0, 0, 1]) && !is_retry(&[]));
        assert!(!is_retry(&[0xf0, 0, 0, 0, 0]), "a version negotiation");
    }
}
