//! `up --measure`: what programs of the host begin is measured, nothing else is touched, and nothing is left of it.

use crate::scene::{PEERS, Scene, as_user, found, inside, others_are_mapped, send, until};
use crate::schema::must_hold;
use headstart_io::board;
use headstart_io::forward::board::Board;
use headstart_io::sys::netns::NetNs;
use rustix::process::Signal;
use serde_json::Value;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};

/// No daemon has more steps.
const MOST_STEPS: u32 = 120;

/// A byte there and back.
fn talks(near: &mut TcpStream, far: &mut TcpStream) {
    let mut byte = [0];
    near.write_all(b"x").unwrap();
    far.read_exact(&mut byte).unwrap();
    far.write_all(&byte).unwrap();
    near.read_exact(&mut byte).unwrap();
    assert_eq!(byte, *b"x");
}

/// Whether this kernel can mark connections; if not, a line that says so.
pub fn can_capture(scene: &Scene) -> bool {
    if found("nft", "nftables").is_none() {
        return false;
    }
    let (mut daemon, up) = scene.daemon(&["--measure", "--capture", "203.0.113.0/24"]);
    send(&daemon, Signal::TERM);
    let ended = daemon.wait().unwrap();
    if !up {
        println!("skipped: this kernel's nftables cannot mark connections ({ended})");
    }
    up
}

fn lines(scene: &Scene) -> Vec<Value> {
    let text = fs::read_to_string(scene.path("flows")).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn peers() -> [IpAddr; 3] {
    PEERS.map(|peer| peer.parse().unwrap())
}

inside!(a_user_is_told_of_its_own_forwarded_connections_alone, || {
    let Some(scene) = Scene::new() else { return };
    if !others_are_mapped() || !can_capture(&scene) {
        return;
    }
    let (mut daemon, up) = scene.daemon(&["--measure", "--capture-default"]);
    assert!(up);
    let (peer, pid) = (peers()[0], daemon.id());
    let listener = scene.on_peers(|| TcpListener::bind(SocketAddr::new(peer, 0)).unwrap());
    let to = listener.local_addr().unwrap();
    let (one, other) = (TcpStream::connect(to).unwrap(), as_user(47_110, &[], || TcpStream::connect(to).unwrap()));
    let [roots, own] = [&one, &other].map(|stream| stream.local_addr().unwrap().to_string());
    let locals = |board: Board| board.connections.into_iter().map(|line| line.local).collect::<Vec<_>>();
    until("root is told of both", || {
        let told = board::ask::<Board>(pid).map(locals).unwrap_or_default();
        [&roots, &own].iter().all(|local| told.contains(*local))
    });
    let mut told = None;
    // Who asks too often gets nothing for a moment.
    until("a user is answered", || {
        told = as_user(47_110, &[], || board::ask::<Board>(pid).ok());
        told.is_some()
    });
    let told = told.unwrap();
    assert_eq!((told.of_user, told.packets, told.apps.len()), (Some(47_110), 0, 1), "{told:?}");
    assert_eq!(locals(told), [own]);
    send(&daemon, Signal::TERM);
    assert!(daemon.wait().unwrap().success());
});

inside!(what_programs_begin_is_measured_and_what_was_there_or_comes_from_others_is_left_alone, || {
    let Some(scene) = Scene::new() else { return };
    if !others_are_mapped() || !can_capture(&scene) {
        return;
    }
    let before = scene.look();
    let (mut near, mut far) = scene.connect(peers()[0]);
    let flows = scene.path("flows");
    let (mut daemon, up) = scene.daemon(&["--measure", "--capture-default", "--flows", flows.to_str().unwrap()]);
    assert!(up);
    talks(&mut near, &mut far);
    for peer in peers() {
        let (mut near, mut far) = scene.connect(peer);
        assert_eq!(far.peer_addr().unwrap().ip().is_ipv4(), peer.is_ipv4());
        talks(&mut near, &mut far);
        let local = near.local_addr().unwrap();
        assert_ne!(far.peer_addr().unwrap().port(), local.port(), "the forwarder has a socket of its own");
        assert_eq!(far.peer_addr().unwrap().ip(), local.ip(), "with the address of the host");
        drop((near, far));
        let is_it = |line: &Value| line["local"] == local.to_string() && line["end"] == "finished";
        until("it is written down", || lines(&scene).iter().any(is_it));
        let line = lines(&scene).into_iter().find(is_it).unwrap();
        assert!(line["connect_ms"].as_f64().unwrap() > 0.0 && line["up_bytes"] == 1, "{line}");
        assert_eq!(line["pid"], std::process::id(), "{line}");
    }
    // Who comes in is served as ever, over TCP and UDP.
    let listener = TcpListener::bind("192.0.2.1:0").unwrap();
    let server = listener.local_addr().unwrap();
    let client = scene.on_peers(|| TcpStream::connect(server).unwrap());
    let (mut served, from) = listener.accept().unwrap();
    assert_eq!(from, client.local_addr().unwrap());
    talks(&mut served, &mut { client });
    let (host, peer) =
        (UdpSocket::bind("192.0.2.1:0").unwrap(), scene.on_peers(|| UdpSocket::bind((peers()[0], 0)).unwrap()));
    peer.send_to(b"ask", host.local_addr().unwrap()).unwrap();
    let mut word = [0; 8];
    let (_, asker) = host.recv_from(&mut word).unwrap();
    host.send_to(b"answer", asker).unwrap();
    assert_eq!(peer.recv_from(&mut word).unwrap(), (6, host.local_addr().unwrap()));
    // What the host asks is measured, and answered.
    host.send_to(b"ask", SocketAddr::new(peers()[1], 9)).unwrap();
    let listed: Vec<String> = lines(&scene).iter().map(|line| line["peer"].to_string()).collect();
    assert_eq!(listed.len(), 3, "{listed:?}");
    let status = scene.status();
    assert_eq!(status["measuring"]["captured"], serde_json::json!(["default"]), "{status}");
    assert_eq!(status["measuring"]["looks_out"], true, "{status}");
    let top = scene.says(&["top", "--once", "--interval", "0.1", "--json"]);
    must_hold("top", &top.out);
    let top: Value = serde_json::from_str(&top.out).unwrap_or_else(|e| panic!("{e}: {top:?}"));
    assert_eq!(top["board"]["apps"][0]["connections"], 3, "{top}");
    let words = scene.says(&["top", "--once", "--interval", "0.1"]);
    assert!(words.code == Some(0) && words.out.contains("CONNECT"), "{words:?}");
    talks(&mut near, &mut far);
    drop((near, far, served, listener));
    send(&daemon, Signal::TERM);
    assert_eq!(daemon.wait().unwrap().code(), Some(0));
    fs::remove_file(flows).unwrap();
    scene.must_be_as(&before, "after the end");
});

inside!(what_is_not_asked_for_is_not_captured, || {
    let Some(scene) = Scene::new() else { return };
    if !can_capture(&scene) {
        return;
    }
    let flows = scene.path("flows");
    let words = ["--measure", "--capture", "198.51.100.0/24", "--flows", flows.to_str().unwrap(), "--no-lookout"];
    let (mut daemon, up) = scene.daemon(&words);
    assert!(up);
    assert_eq!(scene.status()["measuring"]["looks_out"], false);
    let of = |peer| {
        let (mut near, mut far) = scene.connect(peer);
        talks(&mut near, &mut far);
        near.local_addr().unwrap().port() == far.peer_addr().unwrap().port()
    };
    assert_eq!(peers().map(of), [true, false, true]);
    until("one is written down", || lines(&scene).len() == 1);
    send(&daemon, Signal::TERM);
    assert_eq!(daemon.wait().unwrap().code(), Some(0));
    for wrong in [&["--measure"][..], &["--capture-default"], &["--measure", "--capture", "x/8"]] {
        let refused = scene.says(&[&["up", "--foreground"], wrong].concat());
        assert_eq!(refused.code, Some(2), "{refused:?}");
    }
});

/// Answers one question for addresses with these two.
fn answer(server: &UdpSocket, addresses: [[u8; 4]; 2]) {
    let mut bytes = vec![0; 512];
    let (len, from) = server.recv_from(&mut bytes).unwrap();
    bytes.truncate(len);
    (bytes[2], bytes[7]) = (0x81, 2);
    for address in addresses {
        bytes.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4]);
        bytes.extend(address);
    }
    server.send_to(&bytes, from).unwrap();
}

inside!(accelerated_a_captured_connection_goes_to_another_address_of_the_name_that_was_asked_for, || {
    let Some(scene) = Scene::new() else { return };
    if !can_capture(&scene) {
        return;
    }
    let flows = scene.path("flows");
    let words = ["--measure", "--capture-default", "--accelerate", "--flows", flows.to_str().unwrap()];
    let (mut daemon, up) = scene.daemon(&words);
    assert!(up && scene.status()["measuring"]["accelerated"] == true);
    let server = scene.on_peers(|| UdpSocket::bind((peers()[0], 53)).unwrap());
    let listener = scene.on_peers(|| TcpListener::bind((peers()[0], 0)).unwrap());
    let there = listener.local_addr().unwrap();
    // Nobody listens at the address that is wanted.
    let wanted = SocketAddr::new(peers()[1], there.port());
    assert!(TcpStream::connect(wanted).is_err(), "nothing was asked yet, and it is as it is");
    let asker = UdpSocket::bind("192.0.2.1:0").unwrap();
    let query = [&[0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0][..], b"\x04peer\x07example\x00\x00\x01\x00\x01"].concat();
    asker.send_to(&query, server.local_addr().unwrap()).unwrap();
    answer(&server, [[198, 51, 100, 9], [192, 0, 2, 2]]);
    asker.recv(&mut [0; 512]).unwrap();
    let mut near = TcpStream::connect(wanted).unwrap();
    let (mut far, _) = listener.accept().unwrap();
    talks(&mut near, &mut far);
    assert_eq!(near.peer_addr().unwrap(), wanted);
    let board = scene.says(&["top", "--once", "--interval", "0.1"]);
    assert!(board.out.contains("raced"), "{board:?}");
    drop((near, far));
    until("it is written down", || lines(&scene).iter().any(|line| line["end"] == "finished"));
    let line = lines(&scene).into_iter().find(|line| line["end"] == "finished").unwrap();
    assert_eq!(
        (&line["accelerated"], &line["peer"]),
        (&there.to_string().into(), &wanted.to_string().into()),
        "{line}"
    );
    assert!(line["connect_ms"].is_null(), "{line}");
    send(&daemon, Signal::TERM);
    assert_eq!(daemon.wait().unwrap().code(), Some(0));
});

inside!(a_host_whose_measuring_daemon_was_killed_at_any_step_is_reached_and_recovered, || {
    let Some(scene) = Scene::new() else { return };
    if !can_capture(&scene) {
        return;
    }
    let before = scene.look();
    let mut survived = false;
    for step in 1..MOST_STEPS {
        let at = step.to_string();
        let (mut daemon, up) = scene.daemon(&["--measure", "--capture-default", "--die-at-step", &at]);
        if up {
            send(&daemon, Signal::TERM);
        }
        survived = daemon.wait().unwrap().code() == Some(0);
        if survived {
            break;
        }
        // Nobody need recover for programs to be served.
        let (mut near, mut far) = scene.connect(peers()[1]);
        talks(&mut near, &mut far);
        drop((near, far));
        let recovered = scene.says(&["recover"]);
        assert_eq!(recovered.code, Some(0), "at step {step}: {recovered:?}");
        scene.must_be_as(&before, &format!("after a kill at step {step}"));
    }
    assert!(survived, "a daemon that is never killed ends");
    // In the middle of its work.
    let (mut daemon, up) = scene.daemon(&["--measure", "--capture-default"]);
    assert!(up);
    let (mut near, mut far) = scene.connect(peers()[1]);
    talks(&mut near, &mut far);
    send(&daemon, Signal::KILL);
    daemon.wait().unwrap();
    drop((near, far));
    let (mut near, mut far) = scene.connect(peers()[1]);
    talks(&mut near, &mut far);
    drop((near, far));
    assert!(!NetNs::current().unwrap().run(|| fs::exists("/sys/class/net/headstart0").unwrap_or(false)).unwrap());
    until("it is recovered", || scene.says(&["recover"]).code == Some(0));
    scene.must_be_as(&before, "after a kill");
});
