//! Servers that remember their clients: the histories of `core::cwnd`, one a host, and the windows that connections
//! start with by them (paper 2).
//!
//! Where there are any, every server's window is the core's: one that remembers nothing starts by the rule `default`,
//! so that arms differ in the memory alone. A history learns when a connection ends, as paper 2 and RFC 9959 have it. A
//! client is known by the address that a server sees; behind a tunnel that is the gateway's.

use headstart_core::cwnd::history::{History, Lease, Medium, Settings};
use headstart_core::cwnd::sender::Sender;
use headstart_core::cwnd::{controller, start};
use headstart_core::path::{Family, NetworkId};
use headstart_core::time::Instant;
use std::collections::HashMap;
use std::net::IpAddr;

/// The network that every server is on: it stays there.
const THERE: NetworkId = NetworkId(1);
/// RFC 6928, in segments: what a connection starts with that remembers nothing.
const INITIAL: u64 = 10;
/// The kernel's TCP lets a window out as it comes.
const PACING: f64 = 1.0;

/// The servers of a world. See the module.
pub(super) struct Servers {
    rule: &'static start::Entry,
    histories: Vec<History>,
    leases: HashMap<u64, (Lease, IpAddr)>,
    /// The client's place, which its addresses are of.
    place: u8,
}

impl Servers {
    /// As many as `hosts`, that start connections by `rule` and remember nothing yet.
    pub fn new(rule: &'static start::Entry, hosts: usize) -> Self {
        let history = |n: usize| History::new(Settings::default(), (n as u128).to_le_bytes());
        Self { rule, histories: (0..hosts).map(history).collect(), leases: HashMap::new(), place: 0 }
    }

    /// The client is elsewhere, under other addresses.
    pub fn client_moves(&mut self, place: u8) {
        self.place = place;
    }

    /// The client's address in the family of `peer`, as servers see it.
    fn client(&self, peer: IpAddr) -> IpAddr {
        match Family::of(peer) {
            Family::V4 => [198, 51, self.place, 1].into(),
            Family::V6 => [0x2001, 0xdb8, 0xff00 | u16::from(self.place), 0, 0, 0, 0, 1].into(),
        }
    }

    /// The window of a new connection to server `host`, whose full segments carry `segment` bytes.
    pub fn window(&self, now: Instant, host: usize, peer: IpAddr, segment: u64) -> Box<Sender> {
        let remembered = self.histories[host].recall(now, THERE, self.client(peer));
        let most = (self.rule.most)(segment);
        let terms = start::Terms { initial: INITIAL * segment, packet: segment, remembered, most, pacing: PACING };
        Box::new(Sender::new(self.rule, &controller::ALL[0], &terms))
    }

    /// After an acknowledgement of connection `socket`: lends what is remembered if it is wanted, and deletes what has misled.
    pub fn attend(&mut self, now: Instant, socket: u64, host: usize, peer: IpAddr, window: &mut Sender) {
        let client = self.client(peer);
        if window.wants_lease() {
            let granted = self.histories[host].lease(now, THERE, client);
            let remembered = granted.as_ref().map(|(_, remembered)| *remembered);
            if let Some((lease, _)) = granted {
                self.leases.insert(socket, (lease, client));
            }
            window.leased(now, remembered);
        }
        if window.take_refuted()
            && let Some((lease, client)) = self.leases.get(&socket)
        {
            self.histories[host].refute(lease, THERE, *client);
        }
    }

    /// Connection `socket` is over: what it has shown is remembered.
    pub fn ended(&mut self, now: Instant, socket: u64, host: usize, peer: IpAddr, window: &Sender) {
        if let Some(sample) = window.sample(Medium::Wired) {
            let client = self.client(peer);
            self.histories[host].learn(now, THERE, client, &sample);
        }
        if let Some((lease, _)) = self.leases.remove(&socket) {
            self.histories[host].release(lease);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use headstart_core::time::Duration;

    const PEER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(198, 19, 0, 1));

    fn ms(millis: u64) -> Instant {
        Instant::from_millis(millis)
    }

    /// Sends and acknowledges full windows for so many round trips of 50 ms; the windows.
    fn rounds(servers: &mut Servers, window: &mut Sender, from: u64, rounds: u64) -> Vec<u64> {
        let mut seen = Vec::new();
        for round in 0..rounds {
            let (sent, heard) = (ms(from + 50 * round), ms(from + 50 * (round + 1)));
            let bytes = window.window();
            seen.push(bytes / 1000);
            (0..bytes / 1000).for_each(|_| window.sent(sent, 1000));
            (0..bytes / 1000).for_each(|_| window.acknowledged(heard, sent, 1000, false));
            window.end_of_acknowledgement(heard, 0, false);
            servers.attend(heard, 7, 0, PEER, window);
        }
        seen
    }

    #[test]
    fn the_second_connection_of_a_client_jumps_after_a_round_trip_and_one_from_elsewhere_does_not() {
        let rule = start::find("careful-resume").unwrap();
        let mut servers = Servers::new(rule, 1);
        let mut first = servers.window(ms(0), 0, PEER, 1000);
        assert_eq!(rounds(&mut servers, &mut first, 0, 5), [10, 20, 40, 80, 160]);
        servers.ended(ms(300), 7, 0, PEER, &first);
        let mut second = servers.window(ms(1000), 0, PEER, 1000);
        let windows = rounds(&mut servers, &mut second, 1000, 2);
        assert_eq!(windows[0], 10);
        assert!(windows[1] >= 70, "half of what the path carried: {windows:?}");
        servers.ended(ms(2000), 7, 0, PEER, &second);
        servers.client_moves(1);
        let mut elsewhere = servers.window(ms(3000), 0, PEER, 1000);
        assert_eq!(rounds(&mut servers, &mut elsewhere, 3000, 3), [10, 20, 40]);
    }

    #[test]
    fn a_server_that_starts_by_default_remembers_and_does_not_use_it() {
        let mut servers = Servers::new(start::find("default").unwrap(), 1);
        for from in [0, 10_000] {
            let mut window = servers.window(ms(from), 0, PEER, 1000);
            assert_eq!(rounds(&mut servers, &mut window, from, 4), [10, 20, 40, 80]);
            servers.ended(ms(from) + Duration::from_secs(1), 7, 0, PEER, &window);
        }
    }
}
