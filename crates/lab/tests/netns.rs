//! The lab's namespaces, with the kernel's own TCP and real packets.
//!
//! Every test runs inside: it starts this program again in fresh namespaces (`inside`), with itself as the only test.
//! Nothing is sent outside namespaces made here. Lower bounds of times hold on any machine; upper bounds are not tested.
#![forbid(unsafe_code)]

use headstart_core::path::Family;
use headstart_core::time::Duration;
use headstart_io::sys::tcp_info::tcp_info;
use headstart_lab::netns::{DNS_V4, DNS_V6, Network, PortKind, Settings, default_world, inside};
use headstart_lab::world::{Change, Event, Fate, Reply, Resolver, Site, When, World};
use hickory_proto::op::{Message, Query, ResponseCode};
use hickory_proto::rr::{Name, RecordType};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs, UdpSocket};
use std::os::unix::process::CommandExt;
use std::process::Command;

const LINK: &str = "rate=100mbit,delay=15ms";
const RTT: Duration = Duration::from_millis(30);
/// Far longer than any answer takes: waiting it out means that none came.
const LONG: Duration = Duration::from_secs(20);

/// Arguments that make this program run one test.
fn alone(test: &str) -> [&str; 5] {
    [test, "--exact", "--include-ignored", "--nocapture", "--test-threads=1"]
}

fn build(world: &World) -> Network {
    Network::build(world).unwrap_or_else(|e| panic!("{e}"))
}

fn site<'a>(world: &'a mut World, name: &str) -> &'a mut Site {
    let name = format!("{name}.lab.example");
    world.sites.iter_mut().find(|site| site.name == name).expect("a site of the default world")
}

/// Connects from the client; the stream and how long it took.
fn connect(network: &Network, ip: IpAddr) -> (io::Result<TcpStream>, Duration) {
    let clock = network.clock();
    let attempt = || (clock.now(), TcpStream::connect_timeout(&SocketAddr::new(ip, 80), LONG));
    let (before, result) = network.on_client(attempt).unwrap();
    (result, clock.now() - before)
}

/// Asks the lab's DNS server; `None` if no answer came within `patience`.
fn ask(network: &Network, server: IpAddr, name: &str, rtype: RecordType, patience: Duration) -> Option<Message> {
    let mut query = Message::query();
    query.add_query(Query::query(Name::from_ascii(name).unwrap(), rtype));
    let any: IpAddr = if server.is_ipv4() { [0; 4].into() } else { [0; 16].into() };
    let socket = network.on_client(|| UdpSocket::bind((any, 0)).unwrap()).unwrap();
    socket.set_read_timeout(Some(patience)).unwrap();
    socket.send_to(&query.to_vec().unwrap(), (server, 53)).unwrap();
    let mut answer = [0; 1500];
    let len = socket.recv(&mut answer).ok()?;
    Some(Message::from_vec(&answer[..len]).unwrap())
}

/// One request on an open connection; the body.
fn get(stream: &mut TcpStream, path: &str) -> String {
    write!(stream, "GET {path} HTTP/1.1\r\nHost: www.lab.example\r\n\r\n").unwrap();
    let mut reader = BufReader::new(stream);
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        match line.trim_end().split_once(": ") {
            Some(("Content-Length", n)) => length = n.parse().unwrap(),
            None if line.trim_end().is_empty() => break,
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    String::from_utf8(body).unwrap()
}

#[test]
#[ignore = "needs network namespaces: cargo xtask test"]
fn a_connection_takes_a_round_trip_and_is_never_early() {
    inside("a_connection_takes_a_round_trip_and_is_never_early", || {
        let mut world = default_world(LINK);
        let www = site(&mut world, "www").clone();
        let network = build(&world);
        for ip in [www.v4[0].addr, www.v6[0].addr] {
            for _ in 0..5 {
                let (stream, took) = connect(&network, ip);
                let info = tcp_info(stream.unwrap()).unwrap();
                // The kernel measures between the same two events as the test, but inside.
                assert!(took >= RTT && info.rtt >= RTT && info.rtt <= took, "{ip} in {took:?}, {info:?}");
            }
        }
        let stream = connect(&network, www.v6[0].addr).0.unwrap();
        assert_eq!(rustix::net::sockopt::tcp_congestion(&stream).unwrap(), network.client_congestion_control());
        let certificate = network.certificate();
        println!("{certificate:?}");
        // A handshake is at least three packets.
        assert!(certificate.packets >= 30 && certificate.early == 0, "{certificate:?}");
        assert!(certificate.least_delay_us >= 15_000.0, "{certificate:?}");
        assert!(network.emulator_running());
    });
}

#[test]
#[ignore = "needs network namespaces: cargo xtask test"]
fn a_distant_host_is_further_away_by_its_own_round_trip() {
    inside("a_distant_host_is_further_away_by_its_own_round_trip", || {
        let mut world = default_world(LINK);
        let slow = site(&mut world, "slow-v6").clone();
        let network = build(&world);
        let (near, far) = (&slow.v4[0], &slow.v6[0]);
        assert!(far.extra_rtt > near.extra_rtt);
        for host in [near, far] {
            let (stream, took) = connect(&network, host.addr);
            let rtt = tcp_info(stream.unwrap()).unwrap().rtt;
            assert!(took >= RTT + host.extra_rtt && rtt >= RTT + host.extra_rtt, "{took:?}, {rtt:?}");
        }
    });
}

#[test]
#[ignore = "needs network namespaces: cargo xtask test"]
fn a_black_hole_never_answers_and_a_refusal_does() {
    inside("a_black_hole_never_answers_and_a_refusal_does", || {
        let mut world = default_world(LINK);
        let hole = site(&mut world, "black-hole-v6").v6[0].addr;
        let refused = site(&mut world, "refused-v6").v6[0].addr;
        let network = build(&world);
        let (stream, took) = connect(&network, refused);
        assert_eq!(stream.unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
        assert!(took >= RTT, "a refusal takes a round trip: {took:?}");
        let patience = Duration::from_millis(700);
        let result = network.on_client(|| TcpStream::connect_timeout(&SocketAddr::new(hole, 80), patience)).unwrap();
        assert_eq!(result.unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert!(network.certificate().drops.black_hole >= 1);
        assert_eq!(network.accepted()[&hole].connections, 0);
    });
}

#[test]
#[ignore = "needs network namespaces: cargo xtask test"]
fn getaddrinfo_puts_ipv6_first_as_on_a_host_with_both_families() {
    inside("getaddrinfo_puts_ipv6_first_as_on_a_host_with_both_families", || {
        let network = build(&default_world(LINK));
        let resolve = |name: &'static str| {
            network.on_client(move || name.to_socket_addrs().map(|all| all.collect::<Vec<_>>())).unwrap()
        };
        let found = resolve("www.lab.example:80").unwrap();
        assert!(found.len() == 2 && found[0].is_ipv6() && found[1].is_ipv4(), "{found:?}");
        assert!(network.dns_count("www.lab.example", "A") >= 1 && network.dns_count("www.lab.example", "AAAA") >= 1);
        assert!(resolve("nowhere.example:80").is_err());
        let localhost = resolve("localhost:80").unwrap();
        assert!(localhost.iter().all(|address| address.ip().is_loopback()), "{localhost:?}");
        assert_eq!(network.dns_count("localhost", "A"), 0, "localhost comes from the private hosts file");
    });
}

#[test]
#[ignore = "needs network namespaces: cargo xtask test"]
fn a_lost_aaaa_answer_is_lost_and_the_a_answer_is_not() {
    inside("a_lost_aaaa_answer_is_lost_and_the_a_answer_is_not", || {
        let network = build(&default_world(LINK));
        let name = "aaaa-lost.lab.example";
        for server in [IpAddr::from(DNS_V4), IpAddr::from(DNS_V6)] {
            assert!(ask(&network, server, name, RecordType::A, LONG).is_some_and(|m| m.answers.len() == 1));
            assert_eq!(ask(&network, server, name, RecordType::AAAA, Duration::from_millis(400)), None);
        }
        // Asked and answered after them, by the same sockets: the lost questions did reach the server.
        assert!(ask(&network, DNS_V6.into(), name, RecordType::A, LONG).is_some());
        assert_eq!(network.dns_count(name, "AAAA"), 2);
    });
}

#[test]
#[ignore = "needs network namespaces: cargo xtask test"]
fn an_answer_waits_for_the_delay_of_its_record() {
    inside("an_answer_waits_for_the_delay_of_its_record", || {
        let mut world = default_world(LINK);
        let delay = Duration::from_millis(80);
        site(&mut world, "www").aaaa.delay = delay;
        let network = build(&world);
        let before = network.clock().now();
        ask(&network, DNS_V4.into(), "www.lab.example", RecordType::AAAA, LONG).unwrap();
        assert!(network.clock().now() - before >= RTT + delay);
    });
}

#[test]
#[ignore = "needs network namespaces: cargo xtask test"]
fn a_truncated_answer_is_asked_for_again_over_tcp() {
    inside("a_truncated_answer_is_asked_for_again_over_tcp", || {
        let mut world = default_world(LINK);
        site(&mut world, "v4").a.reply = Reply::Truncated;
        let network = build(&world);
        let found = network.on_client(|| "v4.lab.example:80".to_socket_addrs().unwrap().count()).unwrap();
        assert_eq!(found, 1);
        assert!(network.dns_log().iter().any(|query| query.rtype == "A" && query.over_tcp));
    });
}

#[test]
#[ignore = "needs network namespaces: cargo xtask test"]
fn connections_that_nobody_used_are_told_from_those_that_carried_requests() {
    inside("connections_that_nobody_used_are_told_from_those_that_carried_requests", || {
        let mut world = default_world(LINK);
        let www = site(&mut world, "www").clone();
        let network = build(&world);
        let (v4, v6) = (www.v4[0].addr, www.v6[0].addr);
        let unused = [v6, v6, v4].map(|ip| connect(&network, ip).0.unwrap());
        let mut used = connect(&network, v6).0.unwrap();
        assert!(get(&mut used, "/").contains("host: www.lab.example\nfamily: IPv6\n"));
        assert_eq!(get(&mut used, "/bytes/200000").len(), 200_000);
        let accepted = network.accepted();
        // Requests came last over the same link, so the connections before them have been accepted.
        let counts = |ip| (accepted[&ip].connections, accepted[&ip].used, accepted[&ip].requests);
        assert_eq!((counts(v6), counts(v4)), ((3, 1, 2), (1, 0, 0)));
        drop(unused);
    });
}

#[test]
#[ignore = "needs network namespaces: cargo xtask test"]
fn a_download_is_never_faster_than_its_link() {
    inside("a_download_is_never_faster_than_its_link", || {
        let mut world = default_world("rate=20mbit,delay=5ms");
        let www = site(&mut world, "www").v6[0].addr;
        let network = build(&world);
        let mut stream = connect(&network, www).0.unwrap();
        let before = network.clock().now();
        assert_eq!(get(&mut stream, "/bytes/1000000").len(), 1_000_000);
        // 8 Mbit of payload alone take 400 ms at 20 Mbit/s, and the request a round trip.
        let took = network.clock().now() - before;
        assert!(took >= Duration::from_millis(400 + 10), "{took:?}");
        assert!(network.certificate().packets >= 1_000_000 / 1500);
    });
}

#[test]
#[ignore = "needs network namespaces: cargo xtask test"]
fn a_link_that_loses_everything_lets_nothing_through_and_says_so() {
    inside("a_link_that_loses_everything_lets_nothing_through_and_says_so", || {
        let mut world = default_world("delay=1ms,loss=100%");
        let www = site(&mut world, "www").v6[0].addr;
        let network = build(&world);
        let patience = Duration::from_millis(500);
        let result = network.on_client(|| TcpStream::connect_timeout(&SocketAddr::new(www, 80), patience)).unwrap();
        assert_eq!(result.unwrap_err().kind(), io::ErrorKind::TimedOut);
        let certificate = network.certificate();
        assert!(certificate.drops.lost >= 1 && certificate.packets == 0 && certificate.valid, "{certificate:?}");
    });
}

#[test]
#[ignore = "needs network namespaces: cargo xtask test"]
fn a_site_can_change_while_the_network_runs() {
    inside("a_site_can_change_while_the_network_runs", || {
        let mut world = default_world(LINK);
        let network = build(&world);
        let mut www = site(&mut world, "www").clone();
        let (v4, v6) = (www.v4[0].addr, www.v6[0].addr);
        let elsewhere: IpAddr = [198, 19, 9, 9].into();
        assert!(connect(&network, v6).0.is_ok());
        www.v6[0].fate = Fate::Refuses;
        www.v4[0].extra_rtt = Duration::from_millis(100);
        www.a.reply = Reply::NxDomain;
        network.set_site(www.clone()).unwrap();
        assert_eq!(connect(&network, v6).0.unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
        let (stream, took) = connect(&network, v4);
        assert!(stream.is_ok() && took >= RTT + Duration::from_millis(100), "{took:?}");
        let answer = ask(&network, DNS_V4.into(), &www.name, RecordType::A, LONG).unwrap();
        assert_eq!(answer.metadata.response_code, ResponseCode::NXDomain);
        www.v6[0].fate = Fate::Answers;
        www.v4[0].addr = elsewhere;
        network.set_site(www).unwrap();
        assert!(connect(&network, v6).0.is_ok() && connect(&network, elsewhere).0.is_ok());
        let patience = Duration::from_millis(500);
        let old = network.on_client(|| TcpStream::connect_timeout(&SocketAddr::new(v4, 80), patience)).unwrap();
        assert!(old.is_err(), "the old address belongs to nobody now");
    });
}

#[test]
#[ignore = "needs network namespaces: cargo xtask test"]
fn a_world_that_contradicts_itself_is_refused_with_its_fault() {
    inside("a_world_that_contradicts_itself_is_refused_with_its_fault", || {
        let fault = |change: &dyn Fn(&mut World)| {
            let mut world = default_world(LINK);
            change(&mut world);
            Network::build(&world).err().expect("no such world").to_string()
        };
        assert!(fault(&|w| w.sites[0].v4[0].addr = [198, 18, 0, 9].into()).contains("is reserved for the lab"));
        assert!(fault(&|w| w.sites[0].v4[0].addr = w.sites[1].v4[0].addr).contains("belongs to two hosts"));
        assert!(fault(&|w| w.sites[0].v6[0].addr = [198, 19, 7, 7].into()).contains("other family"));
        assert!(fault(&|w| w.link = "no-such-link".into()).contains("no-such-link"));
    });
}

#[test]
#[ignore = "needs network namespaces: cargo xtask test"]
fn two_labs_side_by_side_do_not_meet() {
    inside("two_labs_side_by_side_do_not_meet", || {
        let mut world = default_world(LINK);
        let www = site(&mut world, "www").v6[0].addr;
        let (one, other) = (build(&world), build(&default_world("delay=40ms")));
        let (a, b) = std::thread::scope(|scope| {
            let a = scope.spawn(|| connect(&one, www));
            let b = scope.spawn(|| connect(&other, www));
            (a.join().unwrap(), b.join().unwrap())
        });
        assert!(a.0.is_ok() && a.1 >= RTT, "{:?}", a.1);
        assert!(b.0.is_ok() && b.1 >= Duration::from_millis(80), "{:?}", b.1);
        get(&mut b.0.unwrap(), "/");
        assert_eq!((one.accepted()[&www].requests, other.accepted()[&www].requests), (0, 1));
    });
}

/// What `getent ahosts` says on the client about a name, and how long it took; none if it found nothing.
fn getent(network: &Network, name: &str) -> (Option<String>, Duration) {
    let clock = network.clock();
    let before = clock.now();
    let out = network.command("getent").unwrap().args(["ahosts", name]).output().unwrap();
    (out.status.success().then(|| String::from_utf8(out.stdout).unwrap()), clock.now() - before)
}

#[test]
#[ignore = "needs network namespaces: cargo xtask test"]
fn programs_ask_the_dns_servers_of_their_world_one_after_the_other() {
    inside("programs_ask_the_dns_servers_of_their_world_one_after_the_other", || {
        let world = |fates: &[Fate]| {
            let resolver = |fate: &Fate| Resolver { fate: *fate, ..Resolver::ORDINARY };
            World { resolvers: fates.iter().map(resolver).collect(), ..default_world(LINK) }
        };
        let name = "www.lab.example";
        let silent = build(&world(&[Fate::BlackHole, Fate::Answers]));
        let refusing = build(&world(&[Fate::Refuses, Fate::Answers]));
        let ordinary = build(&default_world(LINK));
        let (found, took) = getent(&silent, name);
        // The C library waits 5 s for a server.
        assert!(found.is_some() && took >= Duration::from_secs(5), "{took:?}");
        assert!(silent.dns_count(name, "A") == 1 && silent.certificate().drops.black_hole >= 2);
        assert!(getent(&refusing, name).0.is_some() && refusing.dns_count(name, "A") == 1);
        assert!(getent(&ordinary, name).0.is_some(), "worlds do not meet");
        let (found, took) = getent(&build(&world(&[Fate::BlackHole])), name);
        assert!(found.is_none() && took >= Duration::from_secs(10), "two attempts of 5 s: {took:?}");
        let none = Network::build(&world(&[])).err().expect("no such world").to_string();
        assert!(none.contains("0 DNS servers"), "{none}");
    });
}

#[test]
#[ignore = "needs network namespaces: cargo xtask test"]
fn a_family_that_leaves_takes_attempts_under_way_with_it_and_comes_back_when_rewound() {
    inside("a_family_that_leaves_takes_attempts_under_way_with_it_and_comes_back_when_rewound", || {
        let mut world = default_world(LINK);
        let www = site(&mut world, "www");
        // The answer to the attempt would be back after 2 s; the address is gone after one.
        www.v6[0].extra_rtt = Duration::from_secs(2);
        let (v4, v6) = (www.v4[0].addr, www.v6[0].addr);
        let asked = When::Asked { name: "WWW.lab.example".into(), later: Duration::from_secs(1) };
        world.timeline.push(Change { when: asked, event: Event::Leaves(Family::V6) });
        let network = build(&world);
        for _ in 0..2 {
            let begin = || {
                "www.lab.example:80".to_socket_addrs().unwrap();
                TcpStream::connect_timeout(&SocketAddr::new(v6, 80), Duration::from_secs(4))
            };
            let lost = network.on_client(begin).unwrap().unwrap_err();
            assert!(matches!(lost.kind(), io::ErrorKind::TimedOut | io::ErrorKind::NetworkUnreachable), "{lost}");
            let gone = connect(&network, v6).0.unwrap_err();
            assert_eq!(gone.kind(), io::ErrorKind::NetworkUnreachable, "{gone}");
            assert!(connect(&network, v4).0.is_ok(), "the other family stays");
            network.rewind().unwrap();
            assert!(connect(&network, v6).0.is_ok(), "back, and not asked about since");
        }
        let mut unasked = default_world(LINK);
        let when = When::Asked { name: "elsewhere.example".into(), later: Duration::ZERO };
        unasked.timeline.push(Change { when, event: Event::Leaves(Family::V4) });
        assert!(Network::build(&unasked).err().expect("no such world").to_string().contains("elsewhere.example"));
    });
}

#[test]
#[ignore = "needs network namespaces: cargo xtask test"]
fn a_family_that_is_not_there_at_first_comes_some_time_after_the_first_question() {
    inside("a_family_that_is_not_there_at_first_comes_some_time_after_the_first_question", || {
        let mut world = default_world(LINK);
        let www = site(&mut world, "www").v4[0].addr;
        world.timeline.push(Change { when: When::AtFirst, event: Event::Leaves(Family::V4) });
        let asked = When::Asked { name: "www.lab.example".into(), later: Duration::from_millis(10) };
        world.timeline.push(Change { when: asked, event: Event::Comes(Family::V4) });
        world.resolvers = vec![Resolver { family: Family::V6, ..Resolver::ORDINARY }];
        let network = build(&world);
        for _ in 0..2 {
            assert_eq!(connect(&network, www).0.unwrap_err().kind(), io::ErrorKind::NetworkUnreachable);
            assert!(getent(&network, "www.lab.example").0.is_some(), "DNS goes over IPv6 here");
            // Whenever that is, it comes.
            while connect(&network, www).0.is_err() {
                network.clock().sleep(Duration::from_millis(10));
            }
            network.rewind().unwrap();
        }
    });
}

#[test]
#[ignore = "needs network namespaces: cargo xtask test"]
fn an_ordinary_user_needs_no_root() {
    const TEST: &str = "an_ordinary_user_needs_no_root";
    const NOBODY: u32 = 65534;
    let root = rustix::process::geteuid().is_root();
    if root && std::process::id() != 2 {
        let as_nobody =
            |words: &[&str]| Command::new(words[0]).args(&words[1..]).uid(NOBODY).gid(NOBODY).current_dir("/").status();
        if !as_nobody(&["unshare", "--user", "--map-root-user", "--net", "true"]).is_ok_and(|status| status.success()) {
            return println!("skipped: user {NOBODY} may have no namespaces here");
        }
        // Descend to an ordinary user, who then runs this test from the start.
        let program = std::env::current_exe().unwrap();
        match Command::new(&program).args(alone(TEST)).uid(NOBODY).gid(NOBODY).current_dir("/").status() {
            Ok(status) => assert!(status.success(), "{TEST} failed as user {NOBODY}; see above"),
            Err(e) => println!("skipped: cannot run {} as user {NOBODY}: {e}", program.display()),
        }
        return;
    }
    inside(TEST, || {
        let mut world = default_world(LINK);
        let www = site(&mut world, "www").clone();
        let network = build(&world);
        let (stream, took) = connect(&network, www.v6[0].addr);
        assert!(took >= RTT && get(&mut stream.unwrap(), "/").contains("IPv6"));
        let found = network.on_client(|| "www.lab.example:80".to_socket_addrs().unwrap().count()).unwrap();
        assert_eq!(found, 2);
        let certificate = network.certificate();
        assert_eq!(certificate.early, 0);
        let (client, server) = (network.client_congestion_control(), network.server_congestion_control());
        // A timeline needs no more than that.
        let change = Change { when: When::AtFirst, event: Event::Leaves(Family::V6) };
        let resolvers = vec![Resolver::ORDINARY; 2];
        let lacking = build(&World { timeline: vec![change], resolvers, ..default_world(LINK) });
        assert!(connect(&lacking, www.v6[0].addr).0.is_err() && getent(&lacking, "www.lab.example").0.is_some());
        println!("as an ordinary user: client {client}, server {server}, {certificate:?}");
    });
}

/// Numbers that do not repeat within 4 GiB, so that whatever is out of place shows.
fn telling_bytes(len: usize) -> Vec<u8> {
    (0..len as u32 / 4).flat_map(u32::to_le_bytes).collect()
}

#[test]
#[ignore = "needs network namespaces: cargo xtask test"]
fn what_super_packets_carry_arrives_whole_although_segments_of_them_are_lost() {
    inside("what_super_packets_carry_arrives_whole_although_segments_of_them_are_lost", || {
        let world = default_world("rate=800mbit,delay=1ms,loss=1%,queue=200p");
        let network = build(&world);
        assert_eq!(network.certificate().ports, PortKind::SuperPackets, "the link is fast");
        let sent = telling_bytes(4 << 20);
        let site = &world.sites[0];
        for ip in [site.v4[0].addr, site.v6[0].addr] {
            let listener = network.on_servers(|| TcpListener::bind((ip, 4000)).unwrap()).unwrap();
            let mut client = network.on_client(|| TcpStream::connect((ip, 4000)).unwrap()).unwrap();
            let mut server = listener.accept().unwrap().0;
            let got = std::thread::scope(|scope| {
                scope.spawn(|| {
                    server.write_all(&sent).unwrap();
                    server.shutdown(Shutdown::Write).unwrap();
                });
                let mut got = Vec::new();
                client.read_to_end(&mut got).unwrap();
                got
            });
            assert!(got == sent, "{} bytes of {} over {ip}, or others", got.len(), sent.len());
        }
        let certificate = network.certificate();
        println!("{certificate:?}");
        let segments = 2 * sent.len() as u64 / 1448;
        assert!(certificate.packets >= segments && certificate.frames < certificate.packets, "{certificate:?}");
        // 1 % of 5800 data packets one way are 58 on average; ten times fewer would be a miracle, all of them a fault.
        assert!((5..600).contains(&certificate.drops.lost), "{certificate:?}");
        assert_eq!((certificate.early, certificate.drops.oversize, certificate.drops.send_failed), (0, 0, 0));
    });
}

#[test]
#[ignore = "needs network namespaces: cargo xtask test"]
fn the_kind_of_port_can_be_chosen_and_carries_both_transports() {
    inside("the_kind_of_port_can_be_chosen_and_carries_both_transports", || {
        for kind in [PortKind::SinglePackets, PortKind::SuperPackets] {
            let world = default_world(LINK);
            let settings = Settings { ports: Some(kind), ..Settings::default() };
            let network = Network::build_with(&world, &settings).unwrap();
            // UDP has its checksum left undone on the ports of super-packets, and TCP has handshakes too.
            let answer = ask(&network, DNS_V6.into(), "www.lab.example", RecordType::A, LONG).unwrap();
            assert_eq!(answer.answers.len(), 1);
            let (stream, took) = connect(&network, world.sites[0].v4[0].addr);
            assert!(took >= RTT && get(&mut stream.unwrap(), "/bytes/300000").len() == 300_000);
            let certificate = network.certificate();
            assert_eq!((certificate.ports, certificate.early), (kind, 0));
            assert!(certificate.least_delay_us >= 15_000.0 && certificate.bytes > 300_000, "{certificate:?}");
            assert!(certificate.packets >= 300_000 / 1448, "{certificate:?}");
        }
    });
}

#[test]
#[ignore = "needs network namespaces: cargo xtask test"]
fn datagrams_that_the_kernel_joins_are_cut_apart_again() {
    inside("datagrams_that_the_kernel_joins_are_cut_apart_again", || {
        let world = default_world("rate=1gbit,delay=1ms");
        let network = build(&world);
        let ip = world.sites[0].v6[0].addr;
        let server = network.on_servers(|| UdpSocket::bind((ip, 4000)).unwrap()).unwrap();
        let client = network.on_client(|| UdpSocket::bind(("::", 0)).unwrap()).unwrap();
        server.set_read_timeout(Some(LONG)).unwrap();
        headstart_io::sys::offload::segment_datagrams(&client, 1000).unwrap();
        let sent = telling_bytes(9500);
        client.send_to(&sent, (ip, 4000)).unwrap();
        let mut got: Vec<u8> = Vec::new();
        let mut buffer = [0; 2000];
        for size in [1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 500] {
            assert_eq!(server.recv(&mut buffer).unwrap(), size);
            got.extend(&buffer[..size]);
        }
        assert_eq!(got, sent);
        assert!(network.certificate().packets >= 10, "{:?}", network.certificate());
    });
}
