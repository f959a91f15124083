//! What is done ahead, over the sockets of a namespace; the time is the test's own.

use super::*;
use crate::clock::Clock;
use crate::sys::netlink::Netlink;
use crate::sys::netns::NetNs;
use headstart_core::connect::race;
use headstart_core::wire::dns::encode_query;
use headstart_core::wire::record::RecordType;
use headstart_core::wire::relay::Question;
use rustix::event::{PollFd, PollFlags};
use std::collections::HashSet;
use std::io::Write as _;
use std::net::{Ipv4Addr, TcpListener, TcpStream};

const SERVER: &str = "198.18.0.53:53";
const OURS: u32 = 7;

/// An accelerator, and what its connections lead to.
struct Rig {
    accelerator: Accelerator,
    poll: Poll,
    now: Instant,
    /// Attempts whose end is known.
    seen: HashSet<u64>,
    next: u64,
    listeners: [TcpListener; 2],
}

fn ip(n: usize) -> Ipv4Addr {
    Ipv4Addr::new(198, 18, 0, n as u8)
}

fn peer(n: usize) -> SocketAddr {
    (ip(n), 443).into()
}

/// The question for the n-th name, spelled in this way.
fn query(n: usize) -> Vec<u8> {
    encode_query(0x1234, &format!("n{n}.Example"), RecordType::A).unwrap()
}

impl Rig {
    /// In the namespace of this thread.
    fn new() -> Self {
        let mut netlink = Netlink::open().unwrap();
        let lo = netlink.index("lo").unwrap();
        netlink.up(lo).unwrap();
        let listeners = [1, 2].map(|n| {
            netlink.address(lo, ip(n).into(), 32).unwrap();
            TcpListener::bind(peer(n)).unwrap()
        });
        let settings = Settings { ahead: Ahead::ON, explore: 0.0, ..Settings::of(race::find("adaptive").unwrap()) };
        let (accelerator, poll) = (Accelerator::of_program(settings), Poll::new().unwrap());
        let now = Instant::ZERO + Duration::from_secs(1);
        let mut rig = Self { accelerator, poll, now, seen: HashSet::new(), next: 0, listeners };
        rig.is_on(1);
        rig
    }

    fn is_on(&mut self, network: u64) {
        let (id, addresses) = (NetworkId(network), Vec::new());
        let here = Here { id, families: (true, false), captive: false, addresses };
        self.accelerator.network_changed(self.now, &self.poll, &here);
    }

    /// A program of this user has received the address of the n-th name, for a day.
    fn learns(&mut self, n: usize) {
        let ttl = 86_400u32;
        let mut reply = query(n);
        (reply[2], reply[3], reply[7]) = (0x81, 0x80, 1);
        reply.extend([0xc0, 12, 0, 1, 0, 1]);
        reply.extend(ttl.to_be_bytes());
        reply.extend([0, 4]);
        reply.extend(ip(n).octets());
        let answer = Answer::Addresses(vec![ip(n).into()], Duration::from_secs(ttl.into()));
        let (app, server) = ("10.77.0.1:5353".parse().unwrap(), SERVER.parse().unwrap());
        let (name, asked, took) = (format!("n{n}.example"), self.now, Duration::ZERO);
        let answer = Some((RecordType::A, answer));
        let lookup = DnsExchange { app, server, name, asked, took, answer, reply, cached: false };
        self.accelerator.on_dns_answer(self.now, &self.poll, OURS, &lookup);
    }

    fn asks(&mut self, user: u32, server: &str, n: usize) -> Option<Vec<u8>> {
        let question = Question::read(&query(n)).unwrap();
        let said = self.accelerator.ask(self.now, &self.poll, user, server.parse().unwrap(), &question);
        self.settle();
        said
    }

    /// Until it is known what has become of each attempt.
    fn settle(&mut self) {
        let mut tokens = Vec::new();
        while self.accelerator.attempts.keys().any(|number| !self.seen.contains(number)) {
            self.poll.wait(&Clock::new(), None, &mut tokens).unwrap();
            for token in &tokens {
                self.seen.insert(token - ATTEMPTS);
                self.accelerator.event(self.now, &self.poll, token - ATTEMPTS);
            }
        }
    }

    fn after(&mut self, seconds: u64) {
        let until = self.now + Duration::from_secs(seconds);
        while let Some(due) = self.accelerator.deadline().filter(|due| due.at <= until) {
            self.now = self.now.max(due.at);
            self.accelerator.timeout(self.now, &self.poll);
            self.settle();
        }
        self.now = until;
    }

    fn is_ahead(&self, user: u32, n: usize) -> bool {
        self.accelerator.is_ahead(self.now, user, peer(n))
    }

    /// The program connects; what it is given.
    fn connects(&mut self, n: usize) -> Ended {
        self.next += 1;
        let whose = Whose::default();
        let (flow, app) = (FlowId(self.next), "10.77.0.1:4000".parse().unwrap());
        let waiting = Waiting { flow, app, peer: peer(n), traffic_class: 0, no_delay: true, whose };
        self.accelerator.race(self.now, &self.poll, OURS, waiting);
        self.settle();
        self.accelerator.ended().expect("it has ended").1
    }

    fn goes_itself(&mut self, n: usize) {
        self.accelerator.goes_itself(self.now, &self.poll, OURS, peer(n));
    }

    /// The server's end of the next connection.
    fn accepted(&self, n: usize) -> TcpStream {
        self.listeners[n - 1].accept().unwrap().0
    }

    /// Until all that a server has done to our connections to it has come here.
    fn hears(&self, n: usize) {
        for attempt in self.accelerator.attempts.values().filter(|attempt| attempt.to == peer(n)) {
            rustix::event::poll(&mut [PollFd::new(&attempt.socket, PollFlags::IN)], None).unwrap();
        }
    }
}

/// In a namespace of its own.
fn with_rig(test: impl FnOnce(Rig) + Send) {
    let Ok(namespace) = NetNs::create() else { return println!("skipped: no network namespace may be made") };
    namespace.run(|| test(Rig::new())).unwrap();
}

#[test]
#[ignore = "needs network namespaces: cargo xtask test"]
fn an_answer_is_given_to_its_user_by_its_server_as_it_is_asked_for_and_not_on_another_network() {
    with_rig(|mut rig| {
        rig.learns(1);
        rig.after(100);
        let answer = rig.asks(OURS, SERVER, 1).unwrap();
        assert_eq!(
            (&answer[..2], &answer[12..22]),
            (&query(1)[..2], &query(1)[12..22]),
            "its number, as it was spelled"
        );
        assert_eq!(answer[answer.len() - 10..answer.len() - 6], (86_400u32 - 100).to_be_bytes());
        assert_eq!(rig.asks(OURS + 1, SERVER, 1), None, "another user");
        assert_eq!(rig.asks(OURS, "198.18.0.54:53", 1), None, "another server");
        assert_eq!(rig.asks(OURS, SERVER, 2), None, "another name");
        rig.is_on(2);
        assert_eq!(rig.asks(OURS, SERVER, 1), None, "another network");
        rig.learns(1);
        assert!(rig.asks(OURS, SERVER, 1).is_some());
        rig.after(86_400);
        assert_eq!(rig.asks(OURS, SERVER, 1), None, "its time is over");
    });
}

#[test]
#[ignore = "needs network namespaces: cargo xtask test"]
fn a_connection_that_was_begun_ahead_is_its_users_while_the_server_has_left_it_alone() {
    for what in ["nothing", "speaks", "closes"] {
        with_rig(|mut rig| {
            rig.learns(1);
            rig.asks(OURS, SERVER, 1);
            rig.goes_itself(1);
            rig.after(1);
            assert!(!rig.is_ahead(OURS, 1), "nothing is opened but for a question");
            rig.asks(OURS, SERVER, 1);
            assert!(rig.is_ahead(OURS, 1) && !rig.is_ahead(OURS + 1, 1));
            let mut server = rig.accepted(1);
            let kept = match what {
                "speaks" => server.write_all(b"!").map(|()| Some(server)).unwrap(),
                "closes" => {
                    drop(server);
                    None
                }
                _ => Some(server),
            };
            if what != "nothing" {
                rig.hears(1);
            }
            rig.now += Duration::from_millis(1);
            let given = rig.connects(1);
            let is_given = matches!(&given, Ended::Connected(_, to, true) if *to == peer(1));
            assert!(
                is_given == (what == "nothing") && (is_given || matches!(given, Ended::NotRun)),
                "{what}: {given:?}"
            );
            drop(kept);
        });
    }
}

#[test]
#[ignore = "needs network namespaces: cargo xtask test"]
fn what_starts_have_wanted_is_open_with_the_first_question_of_the_next_and_closed_where_data_costs() {
    with_rig(|mut rig| {
        let mut servers = Vec::new();
        let mut start = |rig: &mut Rig| {
            for n in [1, 2] {
                rig.learns(n);
                rig.asks(OURS, SERVER, n);
                rig.goes_itself(n);
                rig.after(1);
            }
            for n in 0..2 {
                rig.listeners[n].set_nonblocking(true).unwrap();
                servers.extend(std::iter::from_fn(|| rig.listeners[n].accept().ok()));
            }
            // Longer than a connection is left alone to learn of its server, and than a start is silent.
            rig.after(120);
        };
        (0..5).for_each(|_| start(&mut rig));
        rig.asks(OURS, SERVER, 1);
        // Longer than what is begun with a question waits.
        rig.after(4);
        assert!(rig.is_ahead(OURS, 2), "a spare: its app has not asked for that name yet");
        assert!(matches!(rig.connects(2), Ended::Connected(_, to, true) if to == peer(2)));
        rig.after(120);
        rig.asks(OURS, SERVER, 1);
        rig.after(4);
        assert!(rig.is_ahead(OURS, 2));
        rig.accelerator.may_be_ahead(rig.now, &rig.poll, false);
        assert!(!rig.is_ahead(OURS, 2) && rig.accelerator.attempts.is_empty(), "closed");
        assert!(rig.accelerator.deadline().is_none(), "and nothing wakes it any more");
        rig.after(120);
        assert!(
            rig.asks(OURS, SERVER, 1).is_some() && rig.accelerator.attempts.is_empty(),
            "it is answered all the same"
        );
    });
}
