//! `forward` beside an interface that takes everything, its own packets too: what comes back to it must not go round without end. And
//! clients of the daemon's socket that say nothing, and of a measurement that ask without end.

use crate::attack::Attack;
use crate::loops::forwarder;
use crate::measure::can_capture;
use crate::scene::{PEERS, Scene, as_user, inside, others_are_mapped, run, send, until};
use headstart_io::board;
use headstart_io::forward::board::Board;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use rustix::process::Signal;
use std::io::Read as _;
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::Child;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Descriptors of a forwarder that serves a few programs. One that feeds on its own connections had 14,226 after a second.
const MOST: usize = 64;

/// The forwarder ends by itself, and says how its packets are excluded; a row of the most descriptors that it had.
fn ends(attack: &'static str, mut child: Child) {
    let mut most = 0;
    until("the forwarder ends", || {
        let open = std::fs::read_dir(format!("/proc/{}/fd", child.id()));
        most = most.max(open.map_or(0, Iterator::count));
        child.try_wait().unwrap().is_some()
    });
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(1), "{said}");
    assert!(said.contains("--protect") && said.contains("ip rule add fwmark 18516"), "{said}");
    Attack { attack, listener: "forward" }.at_most("descriptors", MOST as f64, most as f64);
}

inside!(a_forwarder_whose_own_connections_come_back_to_it_ends_and_says_how_to_exclude_them, || {
    let Some(scene) = Scene::new() else { return };
    let (_tun, child) = forwarder(&scene);
    let to = SocketAddr::new(PEERS[1].parse().unwrap(), 80);
    let program = std::thread::spawn(move || TcpStream::connect(to).is_err());
    ends("own connections that come back", child);
    // The program is not kept by what has ended.
    run(&["ip", "link", "set", "everything", "down"]);
    drop(program);
});

inside!(a_forwarder_whose_own_datagrams_come_back_to_it_ends_and_says_how_to_exclude_them, || {
    let Some(scene) = Scene::new() else { return };
    // Of a flow and of a lookup, from a program that stays and from one that leaves its port to the forwarder.
    for (port, stays) in [(9, true), (53, true), (9, false)] {
        let (tun, child) = forwarder(&scene);
        let program = UdpSocket::bind("0.0.0.0:0").unwrap();
        program.send_to(&[7; 40], SocketAddr::new(PEERS[1].parse().unwrap(), port)).unwrap();
        let program = Some(program).filter(|_| stays);
        ends("own datagrams that come back", child);
        drop((tun, program));
    }
});

/// Clients of the daemon at a time, as many as it accepts in one go before it closes those that make room, and descriptors for what it does on
/// the way.
const CLIENTS: usize = 16 + 16;
const BESIDES: usize = 8;

inside!(a_daemon_is_asked_beside_a_thousand_clients_that_say_nothing, || {
    let Some(scene) = Scene::new() else { return };
    let (mut daemon, up) = scene.daemon(&["--initcwnd"]);
    assert!(up);
    let files = || std::fs::read_dir(format!("/proc/{}/fd", daemon.id())).unwrap().count();
    let before = files();
    let sockets = std::fs::read_dir(scene.path("run")).unwrap().flatten().map(|entry| entry.path());
    let is_one = |path: &std::path::PathBuf| path.file_name().unwrap().to_string_lossy().starts_with("control-");
    let address = SocketAddrUnix::new(sockets.into_iter().find(is_one).expect("the daemon has a socket")).unwrap();
    let (mut silent, mut most, mut refused) = (Vec::new(), 0, 0);
    for n in 0..1000 {
        let client = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
        connect(&client, &address).unwrap();
        silent.push(client);
        most = most.max(files());
        if n % 250 == 249 {
            refused += usize::from(scene.says(&["status", "--json"]).code != Some(0));
        }
    }
    let row = Attack { attack: "1,000 clients that say nothing", listener: "control socket of up" };
    row.at_most("descriptors beyond those without", (CLIENTS + BESIDES) as f64, most.saturating_sub(before) as f64);
    row.at_most("requests of others that are not answered, of 4", 0.0, refused as f64);
    send(&daemon, Signal::TERM);
    assert_eq!(daemon.wait().unwrap().code(), Some(0));
});

/// An ordinary user's threads that ask for its part of what is measured, and what others do beside them.
const ASKERS: usize = 4;
const BESIDE: usize = 50;

inside!(a_user_who_asks_for_its_part_without_end_keeps_nobody_from_being_measured, || {
    let Some(scene) = Scene::new() else { return };
    if !others_are_mapped() || !can_capture(&scene) {
        return;
    }
    let (mut daemon, up) = scene.daemon(&["--measure", "--capture-default"]);
    assert!(up);
    let pid = daemon.id();
    let listener = scene.on_peers(|| TcpListener::bind(SocketAddr::new(PEERS[0].parse().unwrap(), 0)).unwrap());
    let to = listener.local_addr().unwrap();
    let (over, answered, refused) = (AtomicBool::new(false), AtomicUsize::new(0), AtomicUsize::new(0));
    let asks = || {
        let _own = TcpStream::connect(to).unwrap();
        while !over.load(Ordering::Relaxed) {
            let told = if board::ask::<Board>(pid).is_ok() { &answered } else { &refused };
            told.fetch_add(1, Ordering::Relaxed);
        }
    };
    let (mut failed, mut untold) = (0, 0);
    std::thread::scope(|scope| {
        let askers: Vec<_> = (0..ASKERS).map(|_| scope.spawn(|| as_user(47_110, &[], asks))).collect();
        until("they ask", || refused.load(Ordering::Relaxed) > 0);
        let mut open = Vec::new();
        for _ in 0..BESIDE {
            match TcpStream::connect(to) {
                Ok(stream) => open.push(stream),
                Err(_) => failed += 1,
            }
            untold += usize::from(board::ask::<Board>(pid).is_err());
        }
        let locals: Vec<String> = open.iter().map(|stream| stream.local_addr().unwrap().to_string()).collect();
        until("all of them are measured", || {
            let told = board::ask::<Board>(pid).map(|board| board.connections).unwrap_or_default();
            locals.iter().all(|local| told.iter().any(|line| line.local == *local))
        });
        over.store(true, Ordering::Relaxed);
        askers.into_iter().for_each(|asker| asker.join().unwrap());
    });
    println!("{answered:?} answers to the user, {refused:?} refused");
    let row = Attack { attack: "questions without end of an ordinary user", listener: "up --measure" };
    row.at_most("connections of others that fail, of 50", 0.0, failed as f64);
    row.at_most("questions of root that are not answered, of 50", 0.0, untold as f64);
    send(&daemon, Signal::TERM);
    assert!(daemon.wait().unwrap().success());
});
