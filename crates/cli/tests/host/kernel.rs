//! `up --measure --via ebpf`: every program of the host is seen, nothing is led anywhere, and whatever ends the daemon detaches all.

use crate::scene::{Ended, HEADSTART, PEERS, Scene, as_user, found, inside, others_are_mapped, run, send, until};
use headstart_io::board;
use headstart_io::cgroup;
use headstart_io::forward::board::Board;
use headstart_io::forward::ebpf::lacking;
use headstart_io::sys::bpf::{HOOKS, attached};
use rustix::process::Signal;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};

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
    let ran = |what: &str| scene.status()["measuring"]["ran"][what].as_u64();
    until("what it costs is counted all the same", || ran("times") > Some(0) && ran("ns") > Some(0));
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

inside!(a_daemon_that_never_had_more_rights_measures_and_says_why_its_cost_is_not_known, || {
    let Some(scene) = Scene::new() else { return };
    let Some(()) = found("setpriv", "util-linux") else { return };
    if let Some(why) = lacking().unwrap() {
        return println!("skipped: {why}");
    }
    let words = ["up", "--foreground", "--measure", "--via", "ebpf"];
    let mut command = Command::new("setpriv");
    command.args(["--bounding-set", "-all,+net_admin,+bpf,+perfmon", HEADSTART]).args(words);
    let theirs = scene.headstart(&words);
    command.envs(theirs.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let (mut daemon, up) = Scene::begun(command);
    assert!(up);
    assert!(rights(daemon.id()).iter().all(|rights| *rights == [NEEDED; 2]));
    let is_counted = fs::read_to_string("/proc/sys/kernel/bpf_stats_enabled").unwrap().trim() == "1";
    assert_eq!(scene.status()["measuring"]["ran"].is_object(), is_counted);
    let status = scene.says(&["status"]);
    assert_eq!(status.out.contains("kernel.bpf_stats_enabled = 1"), !is_counted, "{status:?}");
    let (near, _far) = scene.connect(PEERS[0].parse().unwrap());
    let local = near.local_addr().unwrap().to_string();
    let is_told = |board: Board| board.connections.iter().any(|line| line.local == local);
    until("it is measured", || board::ask::<Board>(daemon.id()).is_ok_and(is_told));
    send(&daemon, Signal::TERM);
    assert!(daemon.wait().unwrap().success());
});

inside!(a_user_is_told_of_its_own_programs_and_root_and_the_group_of_all, || {
    let Some(scene) = Scene::new() else { return };
    let Some(()) = found("setpriv", "util-linux") else { return };
    if let Some(why) = lacking().unwrap() {
        return println!("skipped: {why}");
    }
    if !others_are_mapped() {
        return;
    }
    let groups = fs::read_to_string("/etc/group").unwrap_or_default();
    let mut groups = groups.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let named = groups.find_map(|line| {
        let number = line.get(2)?.parse::<u32>().ok().filter(|number| (1..60_000).contains(number))?;
        Some((line[0].to_owned(), number))
    });
    let Some((name, number)) = named else { return println!("skipped: there is no group but root's") };
    let mut command = scene.headstart(&["up", "--foreground", "--measure", "--via", "ebpf"]);
    command.env("HEADSTART_HOST__GROUP", name);
    let (mut daemon, up) = Scene::begun(command);
    assert!(up);
    let peer: IpAddr = PEERS[0].parse().unwrap();
    let (user, another) = (47_110, 47_111);
    // One that ends and one that stays, of root's and of a user's.
    let roots = [scene.connect(peer), scene.connect(peer)];
    let theirs = [(); 2].map(|()| {
        let listener = scene.on_peers(|| TcpListener::bind(SocketAddr::new(peer, 0)).unwrap());
        let to = listener.local_addr().unwrap();
        let near = as_user(user, &[], || TcpStream::connect(to).unwrap());
        (near, listener.accept().unwrap().0)
    });
    let local = |pair: &(TcpStream, TcpStream)| pair.0.local_addr().unwrap().to_string();
    let [(roots_ended, roots_open), (ended, open)] = [&roots, &theirs].map(|[one, other]| (local(one), local(other)));
    let kept = [roots, theirs].map(|[ends, stays]| {
        drop(ends);
        stays
    });
    let pid = daemon.id();
    let sees = |board: &Board| {
        let open: BTreeSet<String> = board.connections.iter().map(|line| line.local.clone()).collect();
        let ended: BTreeSet<String> = board.ended.iter().map(|ended| ended.line.local.clone()).collect();
        (open, ended)
    };
    // Who asks too often gets nothing for a moment.
    until("all have been seen", || {
        let Ok(everything) = board::ask::<Board>(pid) else { return false };
        let (open_now, ended_now) = sees(&everything);
        [&roots_open, &open].iter().all(|local| open_now.contains(*local))
            && [&roots_ended, &ended].iter().all(|local| ended_now.contains(*local))
    });
    let of = |user: u32, groups: &[u32]| {
        let mut told = None;
        until("a user is answered", || {
            told = as_user(user, groups, || board::ask::<Board>(pid).ok());
            told.is_some()
        });
        told.unwrap()
    };
    let own = of(user, &[another]);
    assert_eq!(sees(&own), ([open].into(), [ended].into()), "{own:?}");
    assert_eq!((own.of_user, own.apps.len(), own.apps[0].connections), (Some(user), 1, 2), "{own:?}");
    let counted: u64 = own.timings.iter().map(|timed| timed.histogram.count()).sum();
    assert_eq!(counted, 2, "{:?}", own.timings);
    assert!(own.ran.is_none() && own.wakeups.is_empty(), "{own:?}");
    let nothing = of(another, &[]);
    assert!(sees(&nothing) == <(_, _)>::default() && nothing.apps.is_empty() && nothing.counts.is_empty());
    let member = of(another, &[another, number]);
    let (open_now, ended_now) = sees(&member);
    assert!(member.of_user.is_none() && open_now.contains(&roots_open) && ended_now.contains(&roots_ended));
    let mut top = Command::new("setpriv");
    let who = another.to_string();
    top.args(["--reuid", &who, "--regid", &who, "--clear-groups", HEADSTART, "top", "--once", "--interval", "0.1"]);
    let top = Ended::of(top.output().unwrap());
    assert!(top.code == Some(0) && top.out.contains(&format!("only of user {another}")), "{top:?}");
    drop(kept);
    send(&daemon, Signal::TERM);
    assert!(daemon.wait().unwrap().success());
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
