//! A tunnel over two channels between two namespaces: the kernel's own TCP through it, in both families, and channels that are
//! pulled in mid-transfer. Nothing here is about speed; nothing leaves the namespaces that the tests make. Where none may be
//! made, or no TUN interface, a line says that nothing was tested.
#![forbid(unsafe_code)]

use headstart_core::time::{Duration, Instant};
use headstart_io::clock::Clock;
use headstart_io::poll::Poll;
use headstart_io::steer::keys::SecretKey;
use headstart_io::steer::{Config, Role, Status, Tunnel};
use headstart_io::sys::netlink::{LOOPBACK, Netlink, VethEnd};
use headstart_io::sys::netns::NetNs;
use headstart_io::sys::tun::Tun;
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

/// Where the server is: behind the gateway, on no link.
const SERVER: &str = "203.0.113.80:80";
/// The gateway's own address inside the tunnel.
const INSIDE: &str = "[fd77::2]:81";
const BODY: usize = 3_000_000;

/// An end of the tunnel in a thread of its own.
struct End {
    stop: Arc<AtomicBool>,
    status: Arc<Mutex<Option<Status>>>,
    thread: Option<JoinHandle<()>>,
}

impl End {
    fn start(ns: &NetNs, config: Config, role: Role) -> Self {
        let (stop, status) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(None)));
        let (ns, stopped, told) = (ns.try_clone().unwrap(), Arc::clone(&stop), Arc::clone(&status));
        let thread = std::thread::spawn(move || {
            ns.enter().unwrap();
            let clock = Clock::new();
            let mut tunnel = Tunnel::open(&config, role, clock, &std::env::temp_dir()).unwrap();
            let mut poll = Poll::new().unwrap();
            tunnel.listen(&poll, 0).unwrap();
            let mut tokens = Vec::new();
            while !stopped.load(Ordering::Relaxed) {
                let soon = clock.now() + Duration::from_millis(20);
                poll.wait(&clock, Some(tunnel.deadline().map_or(soon, |due| due.at.min(soon))), &mut tokens).unwrap();
                tokens.iter().for_each(|token| tunnel.ready(*token));
                tunnel.timeout();
                *told.lock().unwrap() = Some(tunnel.status());
            }
        });
        Self { stop, status, thread: Some(thread) }
    }

    fn status(&self) -> Status {
        until("an end tells how it is", || self.status.lock().unwrap().is_some());
        self.status.lock().unwrap().clone().unwrap()
    }

    fn alive(&self) -> [bool; 2] {
        let status = self.status();
        [0, 1].map(|n| status.channels[n].alive)
    }
}

impl Drop for End {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let clock = Clock::new();
    while !holds() {
        assert!(clock.now() < Instant::from_millis(30_000), "waited 30 s in vain: {what}");
        clock.sleep(Duration::from_millis(10));
    }
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// Two namespaces joined by two links, a tunnel over both, and servers at its far end.
struct Scene {
    host: NetNs,
    ends: [End; 2],
}

impl Scene {
    fn new(policy: &str) -> Option<Self> {
        let made = NetNs::create().and_then(|ns| {
            ns.run(|| Tun::create("probe0", 1))?.map_err(std::io::Error::other).and_then(|_| Ok([ns, NetNs::create()?]))
        });
        let spaces = match made {
            Ok(spaces) => spaces,
            Err(e) => {
                eprintln!("skipped: no namespace with a TUN interface can be made here: {e}");
                return None;
            }
        };
        for (n, name) in ["fat", "fast"].into_iter().enumerate() {
            let n = n as u8 + 1;
            let end = |last: usize| VethEnd { name, mac: [2, 0, 0, 0, n, last as u8], ns: &spaces[last] };
            Netlink::open().unwrap().veth(end(0), end(1)).unwrap();
            for (last, ns) in spaces.iter().enumerate() {
                ns.run(|| {
                    let mut netlink = Netlink::open().unwrap();
                    netlink.up(LOOPBACK).unwrap();
                    let index = netlink.index(name).unwrap();
                    netlink.address(index, ip(&format!("192.0.{}.{}", n + 1, last + 1)), 24).unwrap();
                    netlink.up(index).unwrap();
                })
                .unwrap();
            }
        }
        let keys = [SecretKey::generate().unwrap(), SecretKey::generate().unwrap()];
        let file = |n: usize, interface: &str, peer: &str| {
            let (own, other) = (keys[n].reveal(), keys[1 - n].public());
            let n = n + 1;
            format!(
                "[Interface]\nPrivateKey = {own}\nAddress = 10.77.0.{n}/24, fd77::{n}/64\nPolicy = {policy}\nFastRate = 2mbit\n\
                 {interface}\n[Peer]\nPublicKey = {other}\n{peer}\n"
            )
        };
        let behind = "AllowedIPs = 10.77.0.0/24, fd77::/64, 203.0.113.0/24";
        let ends = "FatEndpoint = 192.0.2.2:7000\nFastEndpoint = 192.0.3.2:7001";
        let host = file(0, "FatInterface = fat\nFastInterface = fast", &format!("{behind}\n{ends}"));
        let gateway = file(1, "FatListen = 7000\nFastListen = 7001", "AllowedIPs = 10.77.0.1/32, fd77::1/128");
        let [h, g] = &spaces;
        let gateway = End::start(g, gateway.parse().unwrap(), Role::Gateway);
        gateway.status();
        g.run(|| {
            let mut netlink = Netlink::open().unwrap();
            netlink.address(LOOPBACK, SERVER.parse::<SocketAddr>().unwrap().ip(), 32).unwrap();
            for address in [SERVER, INSIDE] {
                let listener = TcpListener::bind(address).unwrap();
                std::thread::spawn(move || serve(&listener));
            }
        })
        .unwrap();
        let host = End::start(h, host.parse().unwrap(), Role::Host);
        let [h, _] = spaces;
        let scene = Self { host: h, ends: [host, gateway] };
        until("both channels are alive", || scene.ends.iter().all(|end| end.alive() == [true, true]));
        Some(scene)
    }

    /// Asks for `word`, and takes what comes: a byte at once, or a lot of them.
    fn fetch(&self, to: &'static str, word: &'static str) -> JoinHandle<usize> {
        let ns = self.host.try_clone().unwrap();
        std::thread::spawn(move || {
            ns.enter().unwrap();
            let mut stream = TcpStream::connect(to).unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
            stream.write_all(word.as_bytes()).unwrap();
            let mut all = Vec::new();
            stream.read_to_end(&mut all).unwrap();
            assert!(all.iter().enumerate().all(|(n, byte)| *byte == (n % 251) as u8), "bytes have changed");
            all.len()
        })
    }

    fn plug(&self, channel: &str, state: &str) {
        let mut command = Command::new("ip");
        command.args(["link", "set", channel, state]);
        self.host.adopt(&mut command).unwrap();
        assert!(command.status().unwrap().success());
    }
}

/// `s` is answered by a hundred bytes, `a` by all, `p` by all in pieces.
fn serve(listener: &TcpListener) {
    for stream in listener.incoming().map_while(Result::ok) {
        std::thread::spawn(move || {
            let (mut stream, mut word) = (stream, [0]);
            if stream.read_exact(&mut word).is_err() {
                return;
            }
            let len = if word == *b"s" { 100 } else { BODY };
            let body: Vec<u8> = (0..len).map(|n| (n % 251) as u8).collect();
            for piece in body.chunks(if word == *b"p" { BODY / 100 } else { BODY }) {
                if stream.write_all(piece).is_err() {
                    return;
                }
                if word == *b"p" {
                    Clock::new().sleep(Duration::from_millis(20));
                }
            }
        });
    }
}

#[test]
#[ignore = "needs network namespaces: cargo xtask test"]
fn tcp_goes_through_both_channels_in_both_families_and_status_tells_how_much_over_each() {
    let Some(scene) = Scene::new("pkt-state") else { return };
    for to in [SERVER, INSIDE] {
        assert_eq!(scene.fetch(to, "s").join().unwrap(), 100);
        assert_eq!(scene.fetch(to, "a").join().unwrap(), BODY);
    }
    let [host, gateway] = [0, 1].map(|n| scene.ends[n].status());
    // The host sends handshakes, requests and acknowledgements, all of it small; the gateway mostly full packets.
    assert!(host.channels[1].packets > 100, "{host:?}");
    assert!(gateway.channels[0].share > 90.0 && gateway.reasons.iter().any(|r| r.why == "full size"), "{gateway:?}");
    assert_eq!(
        (host.refused.datagrams, host.refused.frames, gateway.refused.frames),
        (0, 0, 0),
        "{host:?} {gateway:?}"
    );
}

#[test]
#[ignore = "needs network namespaces: cargo xtask test"]
fn either_channel_may_be_pulled_in_mid_transfer_and_put_back() {
    let Some(scene) = Scene::new("pkt-state") else { return };
    for (n, channel) in ["fat", "fast"].into_iter().enumerate() {
        let transfer = scene.fetch(SERVER, "p");
        Clock::new().sleep(Duration::from_millis(300));
        scene.plug(channel, "down");
        until("the channel is known to be dead", || !scene.ends[0].alive()[n]);
        assert_eq!(scene.fetch(SERVER, "s").join().unwrap(), 100, "without the {channel} channel");
        assert_eq!(transfer.join().unwrap(), BODY, "the {channel} channel was pulled");
        scene.plug(channel, "up");
        until("the channel is back", || scene.ends.iter().all(|end| end.alive() == [true, true]));
    }
    assert_eq!(scene.fetch(SERVER, "a").join().unwrap(), BODY);
}

#[test]
#[ignore = "needs network namespaces: cargo xtask test"]
fn the_kernel_numbers_interfaces_and_none_that_is_there_is_taken_over() {
    let ns = NetNs::create().unwrap();
    ns.run(|| {
        let first = match Tun::create("steer%d", 1) {
            Ok(tun) => tun,
            Err(e) => return eprintln!("skipped: no TUN interfaces here: {e}"),
        };
        let second = Tun::create("steer%d", 1).unwrap();
        assert_eq!((first.name(), second.name()), ("steer0", "steer1"));
        drop(first);
        assert_eq!(Tun::create("steer%d", 1).unwrap().name(), "steer0");
        let refused = Tun::create("steer1", 1).unwrap_err();
        assert_eq!(refused.kind(), std::io::ErrorKind::ResourceBusy);
        assert!(refused.to_string().contains("choose another name"), "{refused}");
    })
    .unwrap();
}
