//! `measure-semantics`: whether a program can tell a forwarder from no forwarder. An instrument: the paper claims nothing of the
//! kind, but what it calls imperfections are answers of this kind that came out wrong.
//!
//! Each condition is a small program and a peer, run without a TUN and through each forwarder: what the program sees, what the
//! peer sees and what is on the wire are put in words, and an arm is right (1) if its words are those without a TUN.

mod checks;
mod peers;

use super::arm::{self, Stage, Testbed};
use crate::experiment::{Context, Entry, Outcome, Row, Speeds, Steps};
use crate::netns::Network;
use crate::world::{Fate, Host, Site, World};
pub use checks::{Check, Target, find};
use headstart_core::time::Duration;
use headstart_io::sys::netlink::{Netlink, Via};
use peers::Peer;
use std::net::IpAddr;

/// The experiment.
pub const ENTRY: Entry = Entry {
    name: "measure-semantics",
    shows: "Programs cannot detect headstart's forwarder; how they detect others",
    claims: &[],
    conditions: &checks::NAMES,
    speeds: Speeds::Namespaces,
    run,
};

/// 20 ms there and back: what is answered too early is seen to be.
const LINK: &str = "rate=100mbit,delay=10ms";
/// The same words as without a TUN: 1, others: 0.
const METRIC: &str = "as without a TUN (1: yes)";

/// Where the peers are.
pub const V4: &str = "198.19.0.31";
/// Likewise, by the other family.
pub const V6: &str = "2001:db8::31";
/// No host answers there.
pub const SILENT: &str = "198.19.0.32";
/// No way leads there.
pub const UNROUTED: &str = "198.19.99.1";

fn world() -> World {
    let host = |addr: &str, fate| Host { addr: addr.parse().expect("an address"), extra_rtt: Duration::ZERO, fate };
    let sites = vec![
        Site::new("peer.lab.example", vec![host(V4, Fate::Refuses)], vec![host(V6, Fate::Refuses)]),
        Site::new("silent.lab.example", vec![host(SILENT, Fate::BlackHole)], vec![]),
    ];
    World::new(LINK, 9, sites)
}

fn run(cx: &Context) -> anyhow::Result<Outcome> {
    let mut outcome = Outcome::new(ENTRY.name, cx.seed);
    let network = Network::build(&world())?;
    let stage = Stage::new(Testbed::Network(&network), cx.program.clone())?;
    network
        .on_client(|| Netlink::open()?.route(UNROUTED.parse::<IpAddr>().expect("an address"), 32, Via::Nowhere))??;
    let wanted: Vec<&Check> = checks::ALL.iter().filter(|check| cx.wants(check.name)).collect();
    // The flaws need not be shown at length where little time is wanted.
    let arms = arm::and_kernel(arm::all(), &mut outcome);
    let mut steps = Steps::new(cx, wanted.len() * arms.len());
    for check in wanted {
        outcome.condition(check.name, format!("{}.", check.what));
        let mut without = None;
        for arm in &arms {
            if !steps.next(&mut outcome, &format!("{}, {arm}", check.name)) {
                return Ok(outcome);
            }
            let words = once(&stage, check, arm, cx.quick)?;
            let Some(expected) = &without else {
                outcome.notes.push(format!("{}, without a TUN: {words}.", check.name));
                without = Some(words);
                continue;
            };
            let same = words == *expected;
            let value = if same { 1.0 } else { 0.0 };
            outcome.rows.push(Row::measured(check.name, METRIC, "", arm, value));
            if !same {
                outcome.notes.push(format!("{}, {arm}: {words}.", check.name));
            }
        }
    }
    outcome.how(
        "Each check is a program of a few lines, run on the client of an emulated link with a round trip of 20 ms, and a peer \
         behind it: first without a TUN, then through each forwarder. What the program, the peer and a capture in front of the \
         peer saw is described in words that do not depend on the speed of the machine; an arm is right if the words are the same.",
    );
    Ok(outcome)
}

/// One check under one arm, in words: the program's, and the peer's.
fn once(stage: &Stage<'_>, check: &Check, arm: &str, quick: bool) -> anyhow::Result<String> {
    let ip: IpAddr = check.peer_address().parse()?;
    let peer = stage.on_servers(|| Peer::open(ip))??;
    let (tcp, udp) = (peer.tcp_address(), peer.udp_address());
    let mut words = vec![check.name.to_owned(), tcp.to_string(), udp.to_string()];
    words.extend(quick.then(|| "quick".to_owned()));
    let hear = check.peer;
    let (said, heard) = std::thread::scope(|scope| -> anyhow::Result<(String, String)> {
        let listening = scope.spawn(move || {
            let mut peer = peer;
            let heard = hear(&mut peer, quick);
            (peer, heard)
        });
        let said = stage.say(arm, &words)?;
        let (mut peer, heard) = listening.join().map_err(|_| anyhow::anyhow!("a peer has died"))?;
        let heard = heard.unwrap_or_else(|e| format!("{:?}", e.kind()));
        let wire = (check.wire)(&peer.captured());
        Ok((said["said"].as_str().unwrap_or("nothing").to_owned(), [heard, wire].join(" ")))
    })?;
    Ok(format!("the program: {said}; the peer: {}", heard.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_more_than_twenty_checks_and_each_is_a_condition() {
        assert!(checks::ALL.len() > 20);
        let names: Vec<_> = checks::ALL.iter().map(|check| check.name).collect();
        assert_eq!(names, ENTRY.conditions);
        for (n, name) in names.iter().enumerate() {
            assert!(!names[..n].contains(name), "{name} is there twice");
        }
    }
}
