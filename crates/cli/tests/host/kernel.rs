//! `up --measure --via ebpf`: every program of the host is seen, nothing is led anywhere, and whatever ends the daemon detaches all.

use crate::scene::{PEERS, Scene, inside, run, send, until};
use headstart_io::cgroup;
use headstart_io::forward::ebpf::lacking;
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

/// The rights that each thread of a process has now, and could have again by executing a program, as `/proc` has them: in bits of
/// linux/capability.h.
fn rights(pid: u32) -> Vec<[u64; 2]> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap().map(|task| task.unwrap().path());
    let of = |text: &str, name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        u64::from_str_radix(line.trim(), 16).unwrap()
    };
    let both = |text: String| [of(&text, "CapPrm:"), of(&text, "CapBnd:")];
    tasks.filter_map(|task| fs::read_to_string(task.join("status")).ok()).map(both).collect()
}

/// CAP_NET_ADMIN, CAP_PERFMON and CAP_BPF.
const NEEDED: u64 = 1 << 12 | 1 << 38 | 1 << 39;

inside!(a_daemon_that_measures_in_the_kernel_keeps_three_rights_and_undoes_all_the_same, || {
    let Some(scene) = Scene::new() else { return };
    if let Some(why) = lacking().unwrap() {
        return println!("skipped: {why}");
    }
    scene.teach(3);
    let before = scene.look();
    let flows = scene.path("flows");
    let measured = ["--measure", "--via", "ebpf", "--flows", flows.to_str().unwrap()];
    // Routes, their table's rules, and a change of each other kind: all is made, kept up and undone with what is left.
    let (mut daemon, up) = scene.daemon(&[&["--initcwnd", "--drill"], &measured[..]].concat());
    assert!(up);
    until("the thread that measures is there", || rights(daemon.id()).len() == 2);
    assert_eq!(rights(daemon.id()), [[NEEDED; 2]; 2]);
    assert_eq!(scene.status()["initial_windows"], 3);
    let peer: IpAddr = PEERS[0].parse().unwrap();
    let local = scene.connect(peer).0.local_addr().unwrap().to_string();
    until("it is written down", || fs::read_to_string(&flows).unwrap_or_default().contains(&local));
    run(&["ip", "route", "add", "198.51.100.0/24", "via", "192.0.2.77", "dev", "uplink", "advmss", "1200"]);
    until("a window follows its way", || run(&["ip", "route", "show", "table", "18515"]).contains("192.0.2.77"));
    run(&["ip", "route", "del", "198.51.100.0/24", "via", "192.0.2.77"]);
    let top = scene.says(&["top", "--once", "--interval", "0.1"]);
    assert!(top.code == Some(0) && top.out.contains("in the kernel (eBPF)"), "{top:?}");
    send(&daemon, Signal::TERM);
    assert!(daemon.wait().unwrap().success());
    fs::remove_file(flows).unwrap();
    scene.must_be_as(&before, "after the end");
});

inside!(programs_in_the_kernel_see_every_program_and_nothing_is_left_of_them, || {
    let Some(scene) = Scene::new() else { return };
    if let Some(why) = lacking().unwrap() {
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
