//! A cluster of Debian's redis-server: slots, a node that moves them, one that stops and one that dies.

use super::super::tests::{LONG, Redis, Scratch, at, free_port, recall, record, sealed_at, window};
use super::super::{Recalled, SharedStore};
use super::*;
use std::collections::BTreeSet;

/// Peers that are asked for: enough that each of three masters has some.
const PEERS: std::ops::RangeInclusive<u8> = 1..=40;

/// A node, and how the test speaks to it.
struct Member {
    scratch: Scratch,
    redis: Redis,
    port: u16,
    bus: u16,
}

impl Member {
    fn start(number: usize) -> Option<Self> {
        let scratch = Scratch::new(&format!("node-{number}-{}", free_port()));
        let (port, bus) = (free_port(), free_port());
        let [at, bus_at] = [port, bus].map(|port| port.to_string());
        let of_cluster = ["--port", &at, "--cluster-enabled", "yes", "--cluster-port", &bus_at];
        let quickly = [
            "--cluster-node-timeout",
            "500",
            "--cluster-require-full-coverage",
            "no",
            "--repl-diskless-sync-delay",
            "0",
        ];
        let redis = Redis::start_with(&scratch, &[&of_cluster[..], &quickly].concat())?;
        Some(Self { scratch, redis, port, bus })
    }

    fn ask<T: FromRedisValue>(&self, words: &[&str]) -> T {
        let mut open = redis::Client::open(self.scratch.url()).unwrap().get_connection().unwrap();
        redis::cmd(words[0]).arg(&words[1..]).query(&mut open).unwrap()
    }

    /// Names of records that it has.
    fn paths(&self) -> BTreeSet<String> {
        self.ask::<Vec<String>>(&["KEYS", "headstart:path:*"]).into_iter().collect()
    }
}

fn wait_for(what: &str, is: impl Fn() -> bool) {
    let clock = Clock::new();
    while !is() {
        assert!(clock.now() < Instant::ZERO + LONG, "{what}");
        clock.sleep(Duration::from_millis(20));
    }
}

/// Three masters with a third of the slots each, and `replicas` of the third one. `None` without the program.
fn cluster(replicas: usize) -> Option<Vec<Member>> {
    let members: Vec<Member> = (0..3 + replicas).map(Member::start).collect::<Option<_>>()?;
    for (member, [first, last]) in members.iter().zip([["0", "5460"], ["5461", "10922"], ["10923", "16383"]]) {
        member.ask::<()>(&["CLUSTER", "ADDSLOTSRANGE", first, last]);
    }
    for member in &members[1..] {
        let [port, bus] = [member.port, member.bus].map(|port| port.to_string());
        members[0].ask::<()>(&["CLUSTER", "MEET", "127.0.0.1", &port, &bus]);
    }
    let info = |member: &Member| member.ask::<String>(&["CLUSTER", "INFO"]);
    let all = format!("cluster_known_nodes:{}", members.len());
    let whole = |text: String| {
        text.contains(&all) && text.contains("cluster_slots_ok:16384") && text.contains("cluster_state:ok")
    };
    wait_for("the cluster does not come up", || members.iter().all(|member| whole(info(member))));
    let third: String = members[2].ask(&["CLUSTER", "MYID"]);
    for replica in &members[3..] {
        replica.ask::<()>(&["CLUSTER", "REPLICATE", &third]);
        let follows = || replica.ask::<String>(&["INFO", "replication"]).contains("master_link_status:up");
        wait_for("the replica never follows", follows);
    }
    Some(members)
}

fn place(members: &[&Member]) -> String {
    let hosts: Vec<String> = members.iter().map(|member| format!("127.0.0.1:{}", member.port)).collect();
    format!("redis://{}", hosts.join(","))
}

fn keep_all(shared: &SharedStore) {
    for last in PEERS {
        shared.keep([192, 0, 2, last].into(), record(480_000), LONG);
        assert_eq!(window(recall(shared, last)), (true, 480_000));
    }
}

#[test]
fn slots_are_those_of_the_specification() {
    for (key, expected) in [("123456789", 0x31C3), ("foo{}{bar}", 8363), ("{user1000}.following", 3443), ("", 0)] {
        assert_eq!(slot(key), expected, "{key}");
    }
}

#[test]
fn each_node_of_a_cluster_has_what_is_in_its_slots_and_all_servers_find_it() {
    let Some(members) = cluster(0) else { return };
    let shared = at(&place(&[&members[0]]));
    keep_all(&shared);
    let held: Vec<BTreeSet<String>> = members.iter().map(Member::paths).collect();
    assert_eq!(held.iter().map(BTreeSet::len).sum::<usize>(), usize::from(*PEERS.end()));
    for (member, names) in members.iter().zip(&held) {
        assert!(!names.is_empty(), "each has some, or this test shows little");
        for name in names {
            assert_eq!(slot(name), member.ask::<u16>(&["CLUSTER", "KEYSLOT", name]));
            let lease = name.replace(":path:", ":lease:");
            assert_eq!(member.ask::<i64>(&["EXISTS", name, &lease]), 2, "both are on one node");
        }
    }
    // By another node, another server; leases are of the whole cluster.
    let other = at(&place(&[&members[2]]));
    assert!(PEERS.into_iter().all(|last| window(recall(&other, last)) == (false, 480_000)));
    shared.release([192, 0, 2, 1].into());
    shared.forget([192, 0, 2, 2].into());
    assert_eq!(recall(&shared, 2), Recalled::Nothing);
    assert_eq!(window(recall(&other, 1)), (true, 480_000));
    // One that was led to a node goes straight there.
    let said = |member: &Member| {
        let text: String = member.ask(&["INFO", "errorstats"]);
        text.lines().find(|line| line.starts_with("errorstat_MOVED")).map(str::to_owned)
    };
    let before: Vec<Option<String>> = members.iter().map(said).collect();
    assert!(before[0].is_some(), "it did lead elsewhere");
    assert!(PEERS.into_iter().all(|last| recall(&shared, last) != Recalled::Gone));
    assert_eq!(members.iter().map(said).collect::<Vec<_>>(), before);
    assert_eq!((shared.notes(), other.notes()), (vec![], vec![]));
}

#[test]
fn a_slot_that_moves_is_asked_for_at_both_nodes() {
    let Some(members) = cluster(0) else { return };
    let shared = sealed_at(&members[0].scratch, &place(&[&members[0]]), "1a");
    shared.keep([192, 0, 2, 1].into(), record(480_000), LONG);
    assert_eq!(window(recall(&shared, 1)), (true, 480_000));
    let from = members.iter().position(|member| !member.paths().is_empty()).unwrap();
    let (from, to) = (&members[from], &members[(from + 1) % 3]);
    let name = from.paths().pop_first().unwrap();
    let moving = slot(&name).to_string();
    let [source, target] = [from, to].map(|member| member.ask::<String>(&["CLUSTER", "MYID"]));
    to.ask::<()>(&["CLUSTER", "SETSLOT", &moving, "IMPORTING", &source]);
    from.ask::<()>(&["CLUSTER", "SETSLOT", &moving, "MIGRATING", &target]);
    let port = to.port.to_string();
    from.ask::<()>(&["MIGRATE", "127.0.0.1", &port, &name, "0", "5000"]);
    // Record and lease are apart for now: as if nothing answered, and no node is blamed.
    assert_eq!(recall(&shared, 1), Recalled::Gone);
    from.ask::<()>(&["MIGRATE", "127.0.0.1", &port, &name.replace(":path:", ":lease:"), "0", "5000"]);
    assert_eq!(window(recall(&shared, 1)), (false, 480_000), "by ASK");
    assert!(from.ask::<String>(&["INFO", "errorstats"]).contains("errorstat_ASK"));
    for member in [to, from] {
        member.ask::<()>(&["CLUSTER", "SETSLOT", &moving, "NODE", &target]);
    }
    assert_eq!(window(recall(&shared, 1)), (false, 480_000), "by MOVED");
    assert_eq!(shared.notes(), Vec::<String>::new());
}

#[test]
fn a_node_that_stops_is_said_once_and_silences_no_other() {
    let Some(members) = cluster(0) else { return };
    let shared = sealed_at(&members[0].scratch, &place(&[&members[0]]), "1a");
    keep_all(&shared);
    let lost = members[2].paths().len();
    // Accepts, and never answers.
    members[2].redis.signal(rustix::process::Signal::STOP);
    let answers = || PEERS.map(|last| recall(&shared, last)).collect::<Vec<_>>();
    let gone = |answers: Vec<Recalled>| answers.iter().filter(|recalled| **recalled == Recalled::Gone).count();
    let clock = Clock::new();
    let begun = clock.now();
    // Until it was tried again, twice: the waits before are of 1 and 2 s.
    while clock.now() < begun + Duration::from_secs(6) {
        assert_eq!(gone(answers()), lost, "of the others everything is known");
    }
    let notes = shared.notes();
    let port = format!("127.0.0.1 port {} of", members[2].port);
    assert!(matches!(&notes[..], [note] if note.contains(&port) && note.contains("start as usual")), "{notes:?}");
    members[2].redis.signal(rustix::process::Signal::CONT);
    wait_for("it is never found again", || gone(answers()) == 0);
    assert!(PEERS.into_iter().all(|last| window(recall(&shared, last)) == (false, 480_000)));
}

#[test]
fn when_a_master_of_a_cluster_dies_its_replica_is_found() {
    let Some(mut members) = cluster(1) else { return };
    // The one that dies is named first.
    let shared = sealed_at(&members[0].scratch, &place(&[&members[2], &members[0]]), "1a");
    keep_all(&shared);
    let names = members[2].paths();
    wait_for("the replica does not follow", || members[3].paths() == names);
    members[2].redis.kill();
    wait_for("what the replica has is never known", || {
        PEERS.into_iter().all(|last| matches!(recall(&shared, last), Recalled::Ours(_) | Recalled::Taken(_)))
    });
    let notes = shared.notes();
    let port = format!("127.0.0.1 port {} of", members[2].port);
    assert!(matches!(&notes[..], [note] if note.contains(&port)), "{notes:?}");
}

#[test]
fn nodes_that_lead_in_a_circle_or_nowhere_count_as_gone() {
    for answer in [
        "-MOVED 1 127.0.0.1:PORT\r\n",
        "-MOVED 1 :PORT\r\n",
        "-MOVED 1 nowhere\r\n",
        "-MOVED\r\n",
        "-ASK 1 [::1]:1\r\n",
    ] {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let answer = answer.replace("PORT", &port.to_string());
        std::thread::spawn(move || {
            while let Ok((mut stream, _)) = listener.accept() {
                let mut asked = [0; 4096];
                while std::io::Read::read(&mut stream, &mut asked).is_ok_and(|read| read > 0) {
                    let _ = std::io::Write::write_all(&mut stream, answer.as_bytes());
                }
            }
        });
        let shared = at(&format!("redis://127.0.0.1:{port}"));
        assert_eq!(recall(&shared, 1), Recalled::Gone);
        assert_eq!(recall(&shared, 2), Recalled::Gone);
        assert!(!shared.notes().is_empty());
    }
}
