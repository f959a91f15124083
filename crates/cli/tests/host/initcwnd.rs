//! `up --initcwnd`: connections begin with a larger window, and afterwards nothing tells that they ever did.

use crate::scene::{PEERS, Scene, found, inside, run, send, until};
use headstart_io::cgroup;
use headstart_io::forward::ebpf::lacking;
use headstart_io::sys::bpf::{HOOKS, attached};
use rustix::process::Signal;
use std::collections::BTreeSet;

/// The window of a fresh connection to `peer`, as ss(8) prints it.
fn window(scene: &Scene, peer: &str) -> u32 {
    let (_stream, _server) = scene.connect(peer.parse().unwrap());
    let told = run(&["ss", "-Htin", "state", "established", "dst", &format!("[{peer}]")]);
    let word = told.split_whitespace().find_map(|word| word.strip_prefix("cwnd:"));
    word.and_then(|n| n.parse().ok()).unwrap_or_else(|| panic!("no window in {told:?}"))
}

inside!(connections_to_known_peers_begin_with_a_larger_window_until_down, || {
    let Some(scene) = Scene::new() else { return };
    let Some(()) = found("ss", "iproute2") else { return };
    scene.teach(3);
    let before = scene.look();
    assert!(PEERS.iter().all(|peer| window(&scene, peer) == 10), "the kernel's own, without us");
    let plan = scene.says(&["plan", "--initcwnd"]);
    scene.must_be_as(&before, "after a plan");
    let up = scene.says(&["up", "--initcwnd"]);
    assert_eq!(up.code, Some(0), "{up:?}");
    for peer in PEERS {
        assert_eq!(window(&scene, peer), 32, "{peer}");
        println!("{peer}: cwnd 10, then 32");
    }
    let status = scene.status();
    let changes: Vec<_> = status["changes"].as_array().unwrap().iter().map(|c| c.as_str().unwrap()).collect();
    let mut planned: Vec<_> = plan.out.lines().collect();
    let mut made = changes.clone();
    planned.sort_unstable();
    made.sort_unstable();
    assert_eq!(planned, made, "what was planned is what was made");
    assert_eq!((&status["up"], &status["initial_windows"], &status["version"]), (&true.into(), &3.into(), &1.into()));
    let down = scene.says(&["down"]);
    assert!(down.code == Some(0) && down.out.contains("5 changes undone"), "{down:?}");
    scene.must_be_as(&before, "after down");
    assert!(PEERS.iter().all(|peer| window(&scene, peer) == 10), "and without us again");
    for folder in ["state", "run"] {
        let left = std::fs::read_dir(scene.path(folder)).unwrap().map(|entry| entry.unwrap().file_name());
        let others: Vec<_> = left.filter(|name| !name.to_string_lossy().starts_with("lock-")).collect();
        assert!(others.is_empty(), "no socket and no record is left in {folder}: {others:?}");
    }
});

inside!(a_window_follows_its_way_and_goes_with_it, || {
    let Some(scene) = Scene::new() else { return };
    scene.teach(2);
    assert_eq!(scene.says(&["up", "--initcwnd"]).code, Some(0));
    let route = || run(&["ip", "route", "show", "table", "18515"]);
    assert!(route().contains("198.51.100.9 via 192.0.2.2 dev uplink proto 72 initcwnd 32"), "{}", route());
    run(&["ip", "route", "add", "198.51.100.0/24", "via", "192.0.2.77", "dev", "uplink", "advmss", "1200"]);
    until("the window follows the better way", || {
        route().contains("198.51.100.9 via 192.0.2.77 dev uplink proto 72 advmss 1200 initcwnd 32")
    });
    // An administrator's own window is better than ours.
    run(&["ip", "route", "replace", "198.51.100.0/24", "via", "192.0.2.77", "dev", "uplink", "initcwnd", "14"]);
    until("ours gives way", || !route().contains("198.51.100.9"));
    run(&["ip", "link", "set", "dev", "uplink", "down"]);
    until("nothing is left without a link", || scene.status()["initial_windows"] == 0);
    let down = scene.says(&["down"]);
    assert_eq!(down.code, Some(0), "{down:?}");
    assert_eq!(run(&["ip", "rule", "show", "lookup", "18515"]), "");
});

/// Programs of sock_ops that are attached to the whole host.
fn programs() -> BTreeSet<u32> {
    let group = cgroup::whole_host().unwrap();
    HOOKS
        .iter()
        .filter(|(name, _)| *name == "sock_ops")
        .flat_map(|(_, kind)| attached(&group, *kind).unwrap())
        .collect()
}

inside!(a_program_in_the_kernel_gives_windows_without_a_route_and_ends_with_its_daemon, || {
    let Some(scene) = Scene::new() else { return };
    let Some(()) = found("ss", "iproute2") else { return };
    if let Some(why) = lacking().unwrap() {
        return println!("skipped: {why}");
    }
    scene.teach(3);
    let before = scene.look();
    let plan = scene.says(&["plan", "--initcwnd", "ebpf"]);
    for path in ["192.0.2.2/32", "198.51.100.9/32", "2001:db8:9::2/128", "2001:db8:9::/56", "192.0.2.0/24"] {
        assert!(plan.out.contains(&format!("{path} begins with at most ")), "{plan:?}");
    }
    for signal in [Signal::TERM, Signal::KILL] {
        let others = programs();
        let (mut daemon, up) = scene.daemon(&["--initcwnd", "ebpf"]);
        assert!(up);
        let ours: BTreeSet<u32> = programs().difference(&others).copied().collect();
        assert_eq!(ours.len(), 1);
        scene.must_be_unchanged_but_for_the_daemon(&before);
        // The link has no delay: what a path carried under load it may not carry in so short a round trip.
        let windows = PEERS.map(|peer| window(&scene, peer));
        let status = scene.status();
        let given = windows.iter().filter(|window| **window > 10).count();
        assert!(windows.iter().all(|window| (10..=32).contains(window)), "{windows:?}");
        assert_eq!((&status["starts"]["given"], &status["initial_windows"]), (&given.into(), &3.into()), "{status}");
        assert_eq!(status["changes"], serde_json::json!([]), "nothing that must be undone");
        send(&daemon, signal);
        daemon.wait().unwrap();
        until("nothing of ours is attached", || programs().is_disjoint(&ours));
        scene.says(&["recover"]);
    }
    scene.must_be_as(&before, "after the end");
});
