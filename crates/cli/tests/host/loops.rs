//! `forward` beside an interface that takes everything, with a rule that leads its own packets elsewhere.

use crate::scene::{PEERS, Scene, inside, run, send};
use crate::schema::must_hold;
use headstart_io::sys::netlink::Netlink;
use headstart_io::sys::tun::Tun;
use rustix::process::Signal;
use std::io::{Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::process::Child;

/// An interface that all of the host's connections go to, and a forwarder behind it.
pub fn forwarder(scene: &Scene) -> (Tun, Child) {
    let tun = Tun::create("everything", 500).unwrap();
    let mut netlink = Netlink::open().unwrap();
    let index = netlink.index("everything").unwrap();
    netlink.address(index, "10.9.0.1".parse().unwrap(), 24).unwrap();
    netlink.up(index).unwrap();
    run(&["ip", "route", "replace", "default", "dev", "everything"]);
    // Inherited: a copy is not closed on exec.
    let copy = rustix::io::dup(&tun).unwrap();
    let child = scene.headstart(&["forward", "--tun-fd", &copy.as_raw_fd().to_string()]).spawn().unwrap();
    (tun, child)
}

inside!(a_forwarder_whose_marked_connections_are_led_elsewhere_needs_no_protector, || {
    let Some(scene) = Scene::new() else { return };
    run(&["ip", "route", "add", "default", "via", PEERS[0], "dev", "uplink", "table", "77"]);
    run(&["ip", "rule", "add", "fwmark", "18516", "lookup", "77"]);
    let (_tun, mut child) = forwarder(&scene);
    let (mut near, mut far) = scene.connect(PEERS[1].parse().unwrap());
    let mut byte = [0];
    near.write_all(b"x").unwrap();
    far.read_exact(&mut byte).unwrap();
    assert_eq!(far.peer_addr().unwrap().ip().to_string(), "192.0.2.1");
    assert_eq!(near.local_addr().unwrap().ip().to_string(), "10.9.0.1", "it went through the forwarder");
    drop((near, far));
    send(&child, Signal::TERM);
    assert_eq!(child.wait().unwrap().code(), Some(0));
});

inside!(up_tells_the_process_that_stays, || {
    let Some(scene) = Scene::new() else { return };
    scene.teach(1);
    let up = scene.says(&["up", "--initcwnd", "--json"]);
    must_hold("up", &up.out);
    let up: serde_json::Value = serde_json::from_str(&up.out).unwrap_or_else(|e| panic!("{e}: {up:?}"));
    let status = scene.status();
    assert!(status["pid"].as_u64().is_some_and(|pid| pid > 0));
    assert_eq!(up["pid"], status["pid"]);
    must_hold("plan", &scene.says(&["plan", "--initcwnd", "--json"]).out);
    let down = scene.says(&["down", "--json"]);
    assert_eq!(down.code, Some(0), "{down:?}");
    must_hold("down", &down.out);
    must_hold("down", &scene.says(&["down", "--json"]).out);
    must_hold("status", &scene.says(&["status", "--json"]).out);
    must_hold("recover", &scene.says(&["recover", "--json"]).out);
});
