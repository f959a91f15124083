//! `up --measure --via ebpf`: every program of the host is seen, nothing is led anywhere, and whatever ends the daemon detaches all.

use crate::scene::{PEERS, Scene, inside, send, until};
use headstart_io::cgroup;
use headstart_io::forward::ebpf::Programs;
use headstart_io::sys::bpf::{HOOKS, attached};
use rustix::process::Signal;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::IpAddr;

/// Programs that are attached to the whole host.
fn list() -> BTreeSet<u32> {
    let group = cgroup::whole_host().unwrap();
    HOOKS.iter().flat_map(|(_, kind)| attached(&group, *kind).unwrap()).collect()
}

inside!(programs_in_the_kernel_see_every_program_and_nothing_is_left_of_them, || {
    let Some(scene) = Scene::new() else { return };
    if let Err(why) = Programs::load() {
        return println!("skipped: {why}");
    }
    let before = scene.look();
    let flows = scene.path("flows");
    let lines = || -> Vec<Value> {
        let text = fs::read_to_string(scene.path("flows")).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    for signal in [Signal::TERM, Signal::KILL] {
        let others = list();
        let (mut early, mut late) = scene.connect(PEERS[0].parse().unwrap());
        early.write_all(&[7; 3000]).unwrap();
        late.read_exact(&mut [0; 3000]).unwrap();
        let (mut daemon, up) = scene.daemon(&["--measure", "--via", "ebpf", "--flows", flows.to_str().unwrap()]);
        assert!(up);
        let ours: BTreeSet<u32> = list().difference(&others).copied().collect();
        assert!(ours.len() >= 10, "{ours:?}");
        for peer in PEERS.map(|peer| peer.parse::<IpAddr>().unwrap()) {
            let (near, far) = scene.connect(peer);
            let (local, peer) = (near.local_addr().unwrap(), near.peer_addr().unwrap());
            assert_eq!(far.peer_addr().unwrap(), local, "nothing is between");
            drop(near);
            drop(far);
            let is_it = |line: &Value| line["local"] == local.to_string() && line["peer"] == peer.to_string();
            until("it is written down", || lines().iter().any(is_it));
            let line = lines().into_iter().find(is_it).unwrap();
            assert!(line["connect_ms"].as_f64().is_some_and(|ms| ms > 0.0) && line["end"] == "finished", "{line}");
            assert_eq!((&line["pid"], &line["accepted"]), (&std::process::id().into(), &false.into()), "{line}");
            // The peer is a program of this host too: it accepted.
            let accepts = |line: &Value| line["local"] == peer.to_string() && line["peer"] == local.to_string();
            until("the other end is, too", || lines().iter().any(accepts));
            let line = lines().into_iter().find(accepts).unwrap();
            assert_eq!((&line["accepted"], &line["connect_ms"]), (&true.into(), &Value::Null), "{line}");
        }
        let local = early.local_addr().unwrap().to_string();
        early.write_all(&[7; 200]).unwrap();
        late.read_exact(&mut [0; 200]).unwrap();
        drop((early, late));
        let is_early = |line: &Value| line["local"] == local;
        until("what was open before is written down", || lines().iter().any(is_early));
        let line = lines().into_iter().find(is_early).unwrap();
        assert_eq!(
            (&line["before"], &line["connect_ms"], &line["up_bytes"]),
            (&true.into(), &Value::Null, &200.into()),
            "{line}"
        );
        assert_eq!(&line["pid"], &std::process::id(), "{line}");
        let status = scene.status();
        let ran = &status["measuring"]["ran"];
        assert!(ran["times"].as_u64() > Some(0) && ran["ns"].as_u64() > Some(0), "{status}");
        assert_eq!(status["measuring"]["via"], "ebpf", "{status}");
        let top = scene.says(&["top", "--once", "--interval", "0.1"]);
        assert!(top.code == Some(0) && top.out.contains("in the kernel (eBPF)"), "{top:?}");
        send(&daemon, signal);
        daemon.wait().unwrap();
        until("nothing of ours is attached", || list().is_disjoint(&ours));
        scene.says(&["recover"]);
    }
    fs::remove_file(flows).unwrap();
    scene.must_be_as(&before, "after the end");
});
