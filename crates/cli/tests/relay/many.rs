//! What a session costs a relay: its memory, and its processor's time for a message.
//!
//! `HEADSTART_RELAY_SESSIONS=5000` measures the number that the project promises (5 000 sessions in at most 200 MB, on the one
//! thread that a relay has); the default is what shows a session that has become too large. With six connections a session it takes
//! more descriptors and local ports than hosts give: `ulimit -n 300000`, `net.ipv4.ip_local_port_range` from 1024 on.

use crate::scene::{Folder, Running};
use headstart_core::time::Duration;
use headstart_realtime::keys::SecretKey;
use headstart_realtime::relay::Client;
use headstart_realtime::{Config, Kind, Listener, Session};

/// 200 MB for 5 000 sessions.
const MOST_BYTES: u64 = 200_000_000 / 5_000;
/// Nothing here is about speed, and there may be thirty thousand handshakes.
const PATIENCE: Duration = Duration::from_secs(1500);

/// Resident memory of a process, in bytes.
fn resident(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.split_whitespace().next().unwrap().parse::<u64>().unwrap() * 1024
}

/// Time of a processor that a process has had, in milliseconds (USER_HZ is 100 on every Linux).
fn busy_ms(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    (fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()) * 10
}

/// By one connection, and by as many as a session has at most.
#[test]
fn a_session_through_a_relay_costs_it_no_more_memory_than_was_promised() {
    let count: u64 = std::env::var("HEADSTART_RELAY_SESSIONS").map_or(100, |n| n.parse().unwrap());
    for technique in ["plain", "auto"] {
        let each = bytes_each(count, technique);
        assert!(each <= MOST_BYTES, "{each} bytes a session by {technique}");
    }
}

/// What one of `count` sessions takes.
fn bytes_each(count: u64, technique: &str) -> u64 {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let raised = rustix::process::Rlimit { current: limit.maximum, maximum: limit.maximum };
    rustix::process::setrlimit(rustix::process::Resource::Nofile, raised).unwrap();
    let folder = Folder::new();
    let mut relay = Running::headstart(folder.serve("127.0.0.1:0", "127.0.0.1:*"));
    let (at, pid) = (relay.address(2), relay.child.id());
    let (key, public) = (SecretKey::read(&folder.path("client")).unwrap(), folder.key("relay").1);
    let client = Client::new(&at, &key, public.parse().unwrap()).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let patiently = async {
        let door = Listener::bind("127.0.0.1:0").await.unwrap();
        let to = door.address().unwrap().to_string();
        let open = async || {
            let config = Config { technique: technique.into(), interval: None };
            let near = client.session(to.parse().unwrap(), config).await.unwrap();
            near.lane(0, Kind::Event).send(b"hello").await.unwrap();
            let far = door.accept().await.unwrap();
            assert_eq!(far.receive().await.unwrap().bytes, b"hello");
            (near, far)
        };
        // What a relay needs for the first is not what it needs for each.
        let mut sessions = Vec::new();
        for _ in 0..10 {
            sessions.push(open().await);
        }
        let before = (resident(pid), busy_ms(pid));
        for _ in 0..count {
            sessions.push(open().await);
        }
        // A session opens the others of its connections when it knows that its peer is one of ours.
        let wanted = headstart_realtime::technique::find(technique).unwrap().connections();
        while sessions.iter().any(|(near, _): &(Session, Session)| near.connections() < wanted) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let opened = busy_ms(pid);
        // All of them at work: what is held while they are idle is not all that they may need.
        let mut messages = 0u64;
        for _ in 0..3 {
            for (near, _) in &sessions {
                near.lane(0, Kind::Event).send(&[7; 50]).await.unwrap();
            }
            for (_, far) in &sessions {
                far.receive().await.unwrap();
                messages += 1;
            }
        }
        let after = (resident(pid), busy_ms(pid));
        let each = (after.0 - before.0.min(after.0)) / count;
        let connections: usize = sessions.iter().map(|(near, _)| near.connections()).sum();
        println!(
            "{count} sessions by {technique} ({connections} connections): {each} bytes each, {:.1} MB in all; {} ms of processor \
             to open them, {} ms for {messages} messages",
            after.0 as f64 / 1e6,
            opened - before.1,
            after.1 - opened,
        );
        each
    };
    runtime.block_on(async { tokio::time::timeout(PATIENCE, patiently).await.expect("far too long") })
}
