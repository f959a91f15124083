//! What an event says. An event is one object on one line, never longer than a kilobyte or so, with an id that no other has.

use super::KEY;
use crate::clock::wall;
use crate::forward::Attributed;
use crate::forward::board::UNKNOWN;
use headstart_core::connect::Tally;
use headstart_core::forward::{Flow, Record, meter};
use headstart_core::time::Duration;
use rustix::rand::{GetRandomFlags, getrandom};
use serde_json::{Value, json};
use siphasher::sip128::SipHasher24;
use std::fmt;
use std::net::IpAddr;
use std::time::SystemTime;

/// Version of the events.
pub const VERSION: u32 = 1;

/// How events call programs, hosts and addresses, and this host.
pub struct Names {
    key: SipHasher24,
    plain: bool,
    label: String,
    host: String,
}

impl fmt::Debug for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Names").field("plain", &self.plain).field("host", &self.host).finish_non_exhaustive()
    }
}

impl Names {
    /// By the key of the site; `plain` leaves names as they are. `machine` tells this host from others of the site.
    pub fn new(key: [u8; KEY], plain: bool, label: String, machine: &str) -> Self {
        let key = SipHasher24::new_with_key(&key);
        let host = hashed(&key, "host", machine);
        Self { key, plain, label, host }
    }

    /// What this host is called, in names of files too.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// What stands for `name` of this kind.
    fn name(&self, kind: &str, name: &str) -> String {
        if self.plain { name.to_owned() } else { hashed(&self.key, kind, name) }
    }

    fn event(&self, stamp: Stamp, kind: &str, mut said: Value) -> Value {
        said["version"] = VERSION.into();
        said["kind"] = kind.into();
        said["id"] = format!("{:032x}", stamp.id).into();
        said["host"] = self.host.as_str().into();
        said["label"] = self.label.as_str().into();
        said["time_s"] = stamp.at.into();
        said
    }

    /// What the run of a program came to.
    pub fn run(&self, stamp: Stamp, app: &str, tally: &Tally) -> Value {
        let said = json!({
            "app": self.name("app", app), "resolved": tally.resolved, "unresolved": tally.unresolved,
            "cache_hits": tally.cache_hits, "cache_misses": tally.cache_misses, "attempts": tally.attempts,
            "handed_over": tally.handed_over, "at_once": tally.at_once, "failed": tally.failed, "unused": tally.unused,
            "spares": tally.spares, "spares_taken": tally.spares_taken, "lookup_wait_ms": ms(tally.lookup_wait),
            "connect_wait_ms": ms(tally.connect_wait), "handshakes_ms": ms(tally.handshakes),
        });
        self.event(stamp, "run", said)
    }

    /// What a forwarder saw; `None` for what no event is made of.
    pub fn seen(&self, stamp: Stamp, seen: &Attributed) -> Option<Value> {
        let app = seen.process.as_ref().map_or(UNKNOWN, |process| process.name.as_str());
        match &seen.record {
            Record::Flow(flow) => Some(self.flow(stamp, app, &Connection::from(&**flow))),
            // What no server was asked for took no server's time.
            Record::Dns(lookup) if lookup.cached => None,
            Record::Dns(lookup) => Some(self.lookup(stamp, app, &lookup.name, lookup.took)),
            Record::Udp(_) | Record::Echo(_) => None,
        }
    }

    /// A connection of a program.
    pub fn flow(&self, stamp: Stamp, app: &str, flow: &Connection) -> Value {
        let said = json!({
            "app": self.name("app", app), "peer": self.name("peer", &flow.peer.to_string()),
            "family": if flow.peer.is_ipv4() { 4 } else { 6 }, "accelerated": flow.accelerated,
            "connect_ms": flow.connect.map(ms), "failed_after_ms": flow.failed_after.map(ms), "rtt_ms": flow.rtt_ms,
            "up_bytes": flow.up_bytes, "down_bytes": flow.down_bytes, "end": flow.end,
        });
        self.event(stamp, "flow", said)
    }

    /// A lookup of a program.
    pub fn lookup(&self, stamp: Stamp, app: &str, name: &str, took: Duration) -> Value {
        let said = json!({ "app": self.name("app", app), "name": self.name("name", name), "took_ms": ms(took) });
        self.event(stamp, "lookup", said)
    }

    /// So many events are missing: there was no room.
    pub(super) fn missing(host: &str, count: u64) -> Value {
        let key = SipHasher24::new_with_key(&[0; KEY]);
        let names = Self { key, plain: true, label: String::new(), host: host.to_owned() };
        names.event(Stamp::now(), "missing", json!({ "count": count }))
    }
}

/// Which event, and when: no other event has the id.
#[derive(Clone, Copy, Debug)]
pub struct Stamp {
    /// Which.
    pub id: u128,
    /// Seconds since 1970.
    pub at: u64,
}

impl Stamp {
    /// A random id, and the wall clock.
    pub fn now() -> Self {
        let mut id = [0; 16];
        // The kernel has random bytes as soon as it has booted.
        let _ = getrandom(&mut id, GetRandomFlags::empty());
        let at = wall().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
        Self { id: u128::from_be_bytes(id), at }
    }
}

/// What is said of a connection.
#[derive(Clone, Debug, PartialEq)]
pub struct Connection {
    /// Where the program wanted to go.
    pub peer: IpAddr,
    /// Whether headstart made it.
    pub accelerated: bool,
    /// How long the program waited for it; `None` if it was never there.
    pub connect: Option<Duration>,
    /// How long the program waited for nothing.
    pub failed_after: Option<Duration>,
    /// The smoothed round-trip time at its end.
    pub rtt_ms: Option<f64>,
    /// Bytes of the program.
    pub up_bytes: u64,
    /// Bytes of the peer.
    pub down_bytes: u64,
    /// How it ended, as in the lines of `run --measure --flows`.
    pub end: &'static str,
}

impl From<&Flow> for Connection {
    fn from(flow: &Flow) -> Self {
        let rtt = meter::ALL.iter().find(|meter| meter.name == "rtt_ms").and_then(|meter| (meter.read)(flow));
        Self {
            peer: flow.peer.ip(),
            accelerated: flow.accelerated.is_some(),
            connect: flow.connected.map(|at| at.since(flow.asked)),
            failed_after: flow.ended.filter(|_| flow.connected.is_none()).map(|at| at.since(flow.asked)),
            rtt_ms: rtt.map(|ms| (ms * 1e3).round() / 1e3),
            up_bytes: flow.up.bytes,
            down_bytes: flow.down.bytes,
            end: flow.end.name(),
        }
    }
}

fn hashed(key: &SipHasher24, kind: &str, name: &str) -> String {
    // 64 of the 128 bits: a site has millions of names at most.
    format!("{:016x}", key.hash(format!("{kind} {name}").as_bytes()).h1)
}

fn ms(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round() / 1e3
}
