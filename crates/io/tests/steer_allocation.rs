//! Both ends of a tunnel that have found their stride allocate nothing a packet, sessions and frames and all, and once a probe:
//! counted by an allocator of this process's own.
#![forbid(unsafe_code)]

use headstart_core::steer::Channel;
use headstart_core::time::{Duration, Instant};
use headstart_io::steer::keys::SecretKey;
use headstart_io::steer::{Act, Config, End, Role};
use std::net::SocketAddr;

/// A tunnel whose networks hand everything over at once.
struct Pair {
    ends: [End; 2],
    came: u64,
    bytes: Vec<u8>,
}

fn address(end: usize, channel: Channel) -> SocketAddr {
    let port = 7000 + channel.index() as u16;
    SocketAddr::from(if end == 1 { ([192, 0, 2, 1], port) } else { ([198, 51, 100, 7], port) })
}

impl Pair {
    fn new() -> Self {
        let keys = [SecretKey::generate().unwrap(), SecretKey::generate().unwrap()];
        let file = |n: usize, own: &str, peers: &str| -> Config {
            let text = format!(
                "[Interface]\nPrivateKey = {}\nAddress = 10.77.0.{}/24\nFastRate = 2mbit\nFastCap = 9gb/24h\n{own}\n[Peer]\nPublicKey = {}\nAllowedIPs = 10.77.0.0/24\n{peers}\n",
                keys[n].reveal(),
                2 - n,
                keys[1 - n].public()
            );
            text.parse().unwrap()
        };
        let host = file(0, "", "FatEndpoint = 192.0.2.1:7000\nFastEndpoint = 192.0.2.1:7001");
        let gateway = file(1, "FatListen = 7000\nFastListen = 7001", "");
        let host = End::new(&host, Role::Host, [1, 2, 3 << 32 | 3]);
        let gateway = End::new(&gateway, Role::Gateway, [4, 5, 6 << 32 | 6]);
        let mut pair = Self { ends: [host, gateway], came: 0, bytes: Vec::with_capacity(2_000) };
        pair.ends[0].open();
        pair.run_until_idle(Instant::ZERO);
        assert!(Channel::ALL.iter().all(|channel| pair.ends[0].is_alive(*channel)));
        pair
    }

    fn run_until_idle(&mut self, now: Instant) {
        let mut quiet = false;
        while !quiet {
            quiet = true;
            for end in 0..2 {
                while let Some(act) = self.ends[end].poll() {
                    quiet = false;
                    let buffer = match act {
                        Act::Deliver(packet) => {
                            self.came += 1;
                            packet
                        }
                        Act::Send(channel, _, datagram) => {
                            self.ends[1 - end].datagram(now, channel, address(end, channel), &datagram);
                            datagram
                        }
                    };
                    self.ends[end].recycle(buffer);
                }
            }
        }
    }

    /// A segment of TCP, or an acknowledgement, from one end to the other.
    fn send(&mut self, now: Instant, end: usize, n: u32, payload: usize) {
        let (from, to, ports) = if end == 0 { (2, 1, [40_000u16, 443]) } else { (1, 2, [443, 40_000]) };
        let length = (52 + payload) as u16;
        let bytes = &mut self.bytes;
        bytes.clear();
        bytes.extend_from_slice(&[0x45, 0]);
        bytes.extend_from_slice(&length.to_be_bytes());
        bytes.extend_from_slice(&[0, 0, 0x40, 0, 64, 6, 0, 0, 10, 77, 0, from, 10, 77, 0, to]);
        ports.iter().for_each(|port| bytes.extend_from_slice(&port.to_be_bytes()));
        bytes.extend_from_slice(&(n * 1_000).to_be_bytes());
        bytes.extend_from_slice(&(n * 900).to_be_bytes());
        bytes.extend_from_slice(&[0x80, 0x10, 1, 0, 0, 0, 0, 0, 1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2]);
        bytes.resize(length.into(), 7);
        self.ends[end].packet(now, &self.bytes);
        self.run_until_idle(now);
        self.ends.iter_mut().for_each(|end| end.timeout(now));
        self.run_until_idle(now);
    }
}

#[test]
fn a_packet_through_both_ends_costs_no_allocation_and_a_probe_one() {
    let mut pair = Pair::new();
    let (mut now, mut n) = (Instant::from_millis(1), 0);
    let mut rounds = |pair: &mut Pair, count: u32| {
        for _ in 0..count {
            now += Duration::from_millis(2);
            n += 1;
            pair.send(now, 0, n, 300);
            pair.send(now, 1, n, 1_340);
            pair.send(now, 0, n, 0);
        }
    };
    rounds(&mut pair, 2_000);
    let before = pair.came;
    let counted = allocation_counter::measure(|| rounds(&mut pair, 1_000));
    println!("{} packets, {} allocations", pair.came - before, counted.count_total);
    assert!(pair.came - before > 2_900);
    // Twenty probes a second, over two channels, from both ends, for two seconds.
    assert!(counted.count_total <= 20 * 2 * 2 * 2, "{}", counted.count_total);
}
