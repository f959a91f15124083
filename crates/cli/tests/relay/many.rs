//! What a session costs a relay: its memory, and its processor's time for a message.
//!
//! `HEADSTART_RELAY_SESSIONS=5000` measures the number that the project promises (5 000 sessions in at most 200 MB, on the one
//! thread that a relay has); the default is what shows a session that has become too large. Six connections a session through a
//! relay are twelve descriptors of its: where the hard limit is lower (`ulimit -Hn`, 60 200 are enough), as many sessions are opened
//! as there is room for, in two halves that must cost the same, and what the number comes to is reckoned from there.

use crate::scene::{Folder, Running};
use headstart_core::time::Duration;
use headstart_realtime::keys::SecretKey;
use headstart_realtime::relay::Client;
use headstart_realtime::{Config, Kind, Listener, Session};

/// 200 MB for 5 000 sessions.
const MOST_BYTES: u64 = 200_000_000 / 5_000;
/// Descriptors of a process that are not for sessions.
const OTHERS: u64 = 200;
/// Sessions from which on both halves can be told from what an allocator takes at a time.
const MANY: u64 = 1000;
/// Sessions that are opened together.
const AT_ONCE: usize = 25;
/// Nothing here is about speed, and there may be thirty thousand handshakes.
const PATIENCE: Duration = Duration::from_secs(1500);

/// Resident memory of a process, in bytes.
pub fn resident(pid: u32) -> u64 {
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
        let cost = cost(count, technique);
        assert!(cost.each <= MOST_BYTES, "{} bytes a session by {technique}", cost.each);
        let all = cost.before + cost.each * count;
        println!("{count} sessions by {technique}: {:.1} MB", all as f64 / 1e6);
        assert!(count < MANY || all <= MOST_BYTES * count, "{all} bytes for {count} sessions by {technique}");
    }
}

/// What sessions take of a relay's memory, in bytes.
struct Cost {
    /// Before the first of them.
    before: u64,
    /// One of them.
    each: u64,
}

/// As many descriptors as this process may have.
fn descriptors() -> u64 {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let raised = rustix::process::Rlimit { current: limit.maximum, maximum: limit.maximum };
    rustix::process::setrlimit(rustix::process::Resource::Nofile, raised).unwrap();
    limit.maximum.unwrap_or(u64::MAX)
}

/// What `asked` sessions take, or as many of them as there are descriptors for.
fn cost(asked: u64, technique: &str) -> Cost {
    let wanted = headstart_realtime::technique::find(technique).unwrap().connections();
    // Two of the relay's for each connection, and both ends of it here.
    let room = (descriptors() - OTHERS) / (2 * wanted as u64);
    let count = asked.min(room);
    if count < asked {
        println!("descriptors for {count} sessions of the {asked} by {technique}");
    }
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
            let config = Config { technique: technique.into(), ..Config::default() };
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
        let mut half = before.0;
        for part in [count / 2, count - count / 2] {
            half = resident(pid);
            for begun in (0..part).step_by(AT_ONCE) {
                let together = AT_ONCE.min((part - begun) as usize);
                for _ in 0..together {
                    sessions.push(open().await);
                }
                // A session opens the others of its connections when it knows that its peer is one of ours. Of those that have
                // not said who they are a relay keeps so many and no more: on a slow machine they must not pile up.
                let latest = &sessions[sessions.len() - together..];
                while latest.iter().any(|(near, _): &(Session, Session)| near.connections() < wanted) {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            }
        }
        let opened = (resident(pid), busy_ms(pid));
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
        let halves =
            [half.saturating_sub(before.0) / (count / 2).max(1), opened.0.saturating_sub(half) / (count - count / 2)];
        let connections: usize = sessions.iter().map(|(near, _)| near.connections()).sum();
        println!(
            "{count} sessions by {technique} ({connections} connections): {each} bytes each ({} and {} by halves, before the first \
             message), {:.1} MB in all; {} ms of processor to open them, {} ms for {messages} messages",
            halves[0],
            halves[1],
            after.0 as f64 / 1e6,
            opened.1 - before.1,
            after.1 - opened.1,
        );
        // Straight, or what more of them take is not known.
        let straight = count < MANY || halves[1] <= halves[0] * 5 / 4;
        assert!(straight, "the first half by {technique} took {} bytes each, the second {}", halves[0], halves[1]);
        Cost { before: before.0, each }
    };
    runtime.block_on(async { tokio::time::timeout(PATIENCE, patiently).await.expect("far too long") })
}
