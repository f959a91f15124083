//! What strangers and users take of a relay's room: descriptors where it has few, and memory by streams that nobody takes.

use super::{SOURCES, begin_silent, network};
use crate::attack::{Attack, raise_files};
use crate::many::resident;
use crate::scene::{Folder, HEADSTART, Running, inside, until};
use headstart_core::time::{Duration, Instant};
use headstart_io::clock::Clock;
use headstart_realtime::admission::lengthen;
use headstart_realtime::keys::SecretKey;
use headstart_realtime::relay::Client;
use headstart_realtime::{Config, Kind, Listener};
use std::io::Write as _;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt as _;
use std::process::Command;

/// Descriptors that the relay may have, connections that say nothing, and how many of those it may hold.
const FILES: usize = 1024;
const SILENT: usize = 1500;

inside!(where_a_relay_may_have_few_descriptors_strangers_do_not_take_the_last, || {
    network();
    let folder = Folder::new();
    let limited = format!("ulimit -n {FILES}; exec \"$0\" \"$@\"");
    let words = folder.serve("192.0.2.1:0", "192.0.2.1:*");
    let mut relay = Running::start(Command::new("sh").args(["-c", &limited, HEADSTART]).args(words));
    let (at, pid) = (relay.address(2), relay.child.id());
    let (key, public) = (SecretKey::read(&folder.path("client")).unwrap(), folder.key("relay").1);
    let client = Client::new(&at, &key, public.parse().unwrap()).unwrap();
    let to: SocketAddr = at.parse().unwrap();
    let files = || std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count();
    let (mut flood, mut most) = (Vec::new(), 0);
    for n in 0..SILENT {
        flood.extend(begin_silent(n % SOURCES, to));
        if n % 50 == 49 {
            Clock::new().sleep(Duration::from_millis(5));
            most = most.max(files());
        }
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let door = Listener::bind("192.0.2.1:0").await.unwrap();
        let config = Config { technique: "plain".into(), interval: None, ..Config::default() };
        let near = client.session(door.address().unwrap().to_string().parse().unwrap(), config).await.unwrap();
        near.lane(0, Kind::Event).send(b"hello").await.unwrap();
        assert_eq!(door.accept().await.unwrap().receive().await.unwrap().bytes, b"hello");
    });
    let row =
        Attack { attack: "1,500 silent connections where 1,024 descriptors are allowed", listener: "relay serve" };
    row.at_most("descriptors", FILES as f64 / 2.0, most.max(files()) as f64);
});

/// Streams of one user, and what each may cost: its sure window here, what the relay keeps for its program, and six connections by TLS.
const STREAMS: usize = 300;
const BUDGET: f64 = 32.0;
const EACH: f64 = 0.25;
/// What a process of a test build has when it does nothing.
const IDLE: f64 = 25.0;

inside!(streams_that_nobody_takes_cost_a_bounded_part_of_memory, || {
    network();
    raise_files();
    let folder = Folder::new();
    let mut relay = Running::headstart(folder.serve("127.0.0.1:0", "127.0.0.1:*"));
    let at = relay.address(2);
    // The kernel takes its connections in, and nothing takes what comes over them.
    let sink = TcpListener::bind("127.0.0.1:0").unwrap();
    lengthen(&sink);
    let to = format!("0={}", sink.local_addr().unwrap());
    let words = ["relay", "ports", "--forward", &to].map(str::to_owned).into_iter().chain(folder.through(&at));
    let mut ports = Running::headstart(words);
    let door: SocketAddr = ports.address(0).parse().unwrap();
    let mut streams: Vec<TcpStream> = (0..STREAMS).map(|_| TcpStream::connect(door).unwrap()).collect();
    let (chunk, clock) = ([7; 65_536], Clock::new());
    streams.iter().for_each(|stream| stream.set_nonblocking(true).unwrap());
    let mut moved = Instant::ZERO;
    until("nothing more is taken", || {
        let taken = streams.iter_mut().filter_map(|stream| stream.write(&chunk).ok()).sum::<usize>();
        if taken > 0 {
            moved = clock.now();
        }
        clock.now().since(moved) > Duration::from_secs(2)
    });
    let row = Attack { attack: "300 streams into a program that takes nothing", listener: "relay ports" };
    let megabytes = |running: &Running| resident(running.child.id()) as f64 / 1e6;
    row.at_most("MB", IDLE + BUDGET + EACH * STREAMS as f64, megabytes(&ports));
    row.at_most("MB at the relay", IDLE + EACH * STREAMS as f64, megabytes(&relay));
});

/// Connections of one user, and how many of them are served.
const CLIENTS: usize = 5000;
const PART: usize = 4096 / 4;
/// Descriptors that a process of a relay has besides: of its runtime, and one that is about to be reset.
const OTHERS: usize = 64;
/// A user of this host that the flood does not come from.
const OTHER_USER: u32 = 65534;
/// A client of SOCKS5 that wants no authentication; it prints the answer.
const GREETS: &str = r"exec 3<>/dev/tcp/$0/$1 && printf '\5\1\0' >&3 && head -c 2 <&3 | od -An -tx1";

inside!(connections_of_one_user_by_the_thousand_leave_places_to_another, || {
    network();
    raise_files();
    let folder = Folder::new();
    // No client says where it wants to go, so that the relay is not asked for anything.
    let words = ["relay", "ports", "--socks", "127.0.0.1:0"].map(str::to_owned).into_iter();
    let mut ports = Running::headstart(words.chain(folder.through("127.0.0.1:9")));
    let (door, pid): (SocketAddr, _) = (ports.address(0).parse().unwrap(), ports.child.id());
    let files = || std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count();
    let (mut clients, mut most) = (Vec::new(), 0);
    for n in 0..CLIENTS {
        // One that is too many may be reset before connect(2) returns.
        clients.extend(TcpStream::connect(door));
        if n % 100 == 99 {
            most = most.max(files());
        }
    }
    let greets = |_: &u8| {
        let (address, port) = (door.ip().to_string(), door.port().to_string());
        let mut bash = Command::new("bash");
        let output = bash.args(["-c", GREETS, &address, &port]).uid(OTHER_USER).output().unwrap();
        String::from_utf8_lossy(&output.stdout).trim() == "05 00"
    };
    let refused = 4 - (0..4).filter(greets).count();
    let row = Attack { attack: "5,000 connections of one user", listener: "relay ports" };
    row.at_most("descriptors", (PART + OTHERS) as f64, most.max(files()) as f64);
    row.at_most("connections of another user that are refused, of 4", 0.0, refused as f64);
});
