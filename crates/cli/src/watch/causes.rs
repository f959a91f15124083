//! What is wrong with a network, by what was seen in the last looks. Pure: looks come in, causes that begin and end come out.

use crate::observe::Sources;
use headstart_core::timing::{Timed, What};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Looks that what is counted is compared over.
const WINDOW: usize = 6;
/// Looks in a row without a cause after which it is over.
const OVER: u32 = 3;
/// Lookups without an answer, in the window, below which a share says nothing.
const FEW: u64 = 3;
/// The share of them that is bad.
const SHARE: f64 = 0.2;
/// Retransmissions, in the window, below which a share says nothing.
const FEW_SEGMENTS: u64 = 10;
/// The share of them that is bad: TCP's throughput suffers from about 1 % on (Mathis et al. 1997); well above that.
const LOSS: f64 = 0.03;
/// Bytes of a segment, about.
const SEGMENT: u64 = 1400;
/// A round trip so many times the least, and so much longer in milliseconds, stands in a queue that is too long.
const BLOAT: (f64, f64) = (4.0, 100.0);

/// Something that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// What it is, the same as long as it lasts.
    pub key: String,
    /// What is wrong, in words without a full stop.
    pub words: String,
    /// What to do.
    pub fix: String,
}

/// Sees causes come and go.
#[derive(Debug, Default)]
pub struct Watcher {
    looks: VecDeque<Arc<Sources>>,
    /// Causes that were reported, and the number of looks since each was last seen.
    reported: BTreeMap<String, (Cause, u32)>,
}

impl Watcher {
    /// Takes in a look; the causes that have begun (`true`) or are over.
    pub fn look(&mut self, now: Arc<Sources>) -> Vec<(Cause, bool)> {
        if self.looks.len() > WINDOW {
            self.looks.pop_front();
        }
        self.looks.push_back(now);
        let (Some(before), Some(now)) = (self.looks.front(), self.looks.back()) else { return vec![] };
        let seen = causes(before, now);
        let mut news = Vec::new();
        for cause in &seen {
            match self.reported.get_mut(&cause.key) {
                Some((_, missing)) => *missing = 0,
                None => {
                    self.reported.insert(cause.key.clone(), (cause.clone(), 0));
                    news.push((cause.clone(), true));
                }
            }
        }
        self.reported.retain(|key, (cause, missing)| {
            *missing += u32::from(seen.iter().all(|seen| seen.key != *key));
            let over = *missing >= OVER;
            if over {
                news.push((cause.clone(), false));
            }
            !over
        });
        news
    }
}

fn causes(before: &Sources, now: &Sources) -> Vec<Cause> {
    let mut all = families(now);
    // What a record type without answers leads to is the same cause.
    if !all.iter().any(|cause| cause.key == "silent") {
        all.extend(lookups(before, now));
    }
    all.extend(loss(before, now));
    all.extend(bloat(now));
    all.extend(channels(now));
    all
}

fn cause(key: String, words: String, fix: &str) -> Cause {
    Cause { key, words, fix: fix.to_owned() }
}

fn families(now: &Sources) -> Vec<Cause> {
    let families = || now.supervisor.iter().flat_map(|o| &o.families);
    let suspended = families().filter(|family| family.suspended_ms > 0.0).map(|family| {
        let (name, other) = (&*family.family, if family.family == "IPv6" { "IPv4" } else { "IPv6" });
        let words = format!("{name} does not work on this network; programs under headstart use {other}");
        let fix = "Restart the router or switch the family off; `headstart explain HOST` shows which addresses fail";
        cause(format!("suspended {name}"), words, fix)
    });
    let silent: Vec<_> = families().filter(|family| family.unanswered).map(|family| &*family.family).collect();
    let words = match &silent[..] {
        [] => None,
        [name] => {
            let record = if *name == "IPv6" { "AAAA" } else { "A" };
            Some(format!("DNS queries for {name} addresses ({record}) get no answer on this network"))
        }
        _ => Some("DNS queries get no answer on this network".to_owned()),
    };
    // One server answers none of them: the second family is no news.
    let fix = "Use another DNS server; `headstart doctor` names this host's";
    suspended.chain(words.map(|words| cause("silent".to_owned(), words, fix))).collect()
}

/// Durations counted by program: those that `which` counts, and all.
fn counted(timed: &[Timed], which: impl Fn(&Timed) -> bool) -> BTreeMap<&str, (u64, u64)> {
    let mut all: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for one in timed.iter().filter(|one| one.key.what == What::Lookup) {
        let sums = all.entry(&one.key.program).or_default();
        sums.0 += if which(one) { one.histogram.count() } else { 0 };
        sums.1 += one.histogram.count();
    }
    all
}

fn lookups(before: &Sources, now: &Sources) -> Vec<Cause> {
    let (Some(before), Some(now)) = (&before.supervisor, &now.supervisor) else { return vec![] };
    let unanswered = |timed: &Timed| timed.key.outcome == "unanswered";
    // Another supervisor has counted from the beginning.
    let old = if before.pid == now.pid { counted(&before.timings, unanswered) } else { BTreeMap::new() };
    let bad = counted(&now.timings, unanswered).into_iter().filter_map(|(program, (bad, all))| {
        let (bad_before, all_before) = old.get(program).copied().unwrap_or_default();
        let (bad, all) = (bad.saturating_sub(bad_before), all.saturating_sub(all_before));
        (bad >= FEW && bad as f64 >= SHARE * all as f64).then_some((program, bad, all))
    });
    let fix = "Check the connection and the DNS servers: `headstart doctor`";
    together(bad.collect())
        .map(|(programs, bad, all)| {
            cause("lookups".to_owned(), format!("{programs}: {bad} of {all} DNS lookups got no answer"), fix)
        })
        .into_iter()
        .collect()
}

/// Programs that the same is wrong with, as one: they share the network. The worst of them by name, and the sums of both counts.
fn together(mut bad: Vec<(&str, u64, u64)>) -> Option<(String, u64, u64)> {
    bad.sort_by_key(|(program, bad, _)| (std::cmp::Reverse(*bad), *program));
    let (worst, ..) = *bad.first()?;
    let programs = match bad.len() {
        1 => worst.to_owned(),
        2 => format!("{worst} and another program"),
        n => format!("{worst} and {} other programs", n - 1),
    };
    let sums = bad.iter().fold((0, 0), |sums, (_, bad, all)| (sums.0 + bad, sums.1 + all));
    Some((programs, sums.0, sums.1))
}

fn loss(before: &Sources, now: &Sources) -> Vec<Cause> {
    let old: BTreeMap<_, _> = before.measured.counts().map(|(program, what, n)| ((program, what), n)).collect();
    let since =
        |program: &str, what: &str, n: u64| n.saturating_sub(old.get(&(program, what)).copied().unwrap_or_default());
    let sent: BTreeMap<_, _> =
        now.measured.counts().filter(|(_, what, _)| *what == "up_bytes").map(|(p, _, n)| (p, n)).collect();
    let repeated = now.measured.counts().filter(|(_, what, _)| *what == "retransmissions");
    let bad = repeated.filter_map(|(program, what, n)| {
        let repeated = since(program, what, n);
        let segments = since(program, "up_bytes", sent.get(program).copied().unwrap_or_default()) / SEGMENT + repeated;
        let is_bad = repeated >= FEW_SEGMENTS && repeated as f64 >= LOSS * segments as f64;
        is_bad.then_some((program, repeated, segments))
    });
    let fix = "Move closer to the access point or use a cable; for small messages, `headstart relay`";
    together(bad.collect())
        .map(|(programs, repeated, segments)| {
            let share = 100.0 * repeated as f64 / segments.max(1) as f64;
            cause("loss".to_owned(), format!("{programs}: {share:.0} % of packets sent are lost"), fix)
        })
        .into_iter()
        .collect()
}

fn bloat(now: &Sources) -> Vec<Cause> {
    let mut worst: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
    for line in now.boards.iter().flat_map(|board| &board.connections) {
        let (Some(rtt), Some(least)) = (line.meters.get("rtt_ms"), line.meters.get("least_rtt_ms")) else { continue };
        if *rtt >= BLOAT.0 * least && rtt - least >= BLOAT.1 {
            let known = worst.entry(&line.app).or_default();
            *known = if rtt > &known.1 { (*least, *rtt) } else { *known };
        }
    }
    let all = worst.into_iter().map(|(program, (least, rtt))| {
        let words =
            format!("{program}: round trips have grown from {least:.0} to {rtt:.0} ms under load (bufferbloat)");
        let fix = "Pause the largest transfers (`headstart top`), or have the router manage its queue (SQM, fq_codel)";
        // All programs stand in the same queue.
        cause("bloat".to_owned(), words, fix)
    });
    all.take(1).collect()
}

fn channels(now: &Sources) -> Vec<Cause> {
    let all = now.daemon.iter().filter_map(|daemon| daemon.steering.as_ref()).flat_map(|tunnel| &tunnel.channels);
    let down = all.filter(|channel| !channel.alive).map(|channel| {
        let words =
            format!("the {} channel of the tunnel does not answer; all packets use the other one", channel.channel);
        cause(format!("channel {}", channel.channel), words, "Check the interface behind it: `headstart status`")
    });
    down.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use headstart_core::connect::explain::FamilyReport;
    use headstart_core::time::Duration;
    use headstart_core::timing::Timings;
    use headstart_io::control::Observation;
    use headstart_io::forward::board::{Board, FlowLine};

    fn look(suspended: bool, silent: bool, unanswered: u64) -> Arc<Sources> {
        let mut timings = Timings::default();
        for _ in 0..unanswered {
            timings.note(What::Lookup, "curl", None, "unanswered", Duration::from_secs(5));
        }
        timings.note(What::Lookup, "curl", None, "ok", Duration::from_millis(5));
        let family = FamilyReport {
            family: "IPv6".into(),
            has_route: true,
            suspended_ms: if suspended { 1000.0 } else { 0.0 },
            rtt_ms: None,
            lookup_ms: None,
            unanswered: silent,
        };
        let supervisor =
            Observation { pid: 1, families: vec![family], timings: timings.snapshot(), ..Observation::default() };
        Arc::new(Sources { supervisor: Some(supervisor), ..Sources::default() })
    }

    fn keys(news: &[(Cause, bool)]) -> Vec<(&str, bool)> {
        news.iter().map(|(cause, began)| (cause.key.as_str(), *began)).collect()
    }

    #[test]
    fn a_cause_is_told_once_and_its_end_once_after_a_while() {
        let mut watcher = Watcher::default();
        assert_eq!(keys(&watcher.look(look(true, false, 0))), [("suspended IPv6", true)]);
        for _ in 0..5 {
            assert_eq!(watcher.look(look(true, false, 0)), []);
            // Gone for a moment.
            assert_eq!(watcher.look(look(false, false, 0)), []);
        }
        assert_eq!(watcher.look(look(false, false, 0)), []);
        assert_eq!(keys(&watcher.look(look(false, false, 0))), [("suspended IPv6", false)]);
        assert_eq!(watcher.look(look(false, false, 0)), []);
    }

    #[test]
    fn lookups_without_answer_are_compared_with_those_before_and_are_no_second_alarm_of_a_silent_family() {
        let mut watcher = Watcher::default();
        assert_eq!(watcher.look(look(false, false, 50)), [], "what was before it looked is not news");
        assert_eq!(watcher.look(look(false, false, 52)), []);
        let news = watcher.look(look(false, false, 53));
        assert_eq!(keys(&news), [("lookups", true)]);
        assert!(news[0].0.words.contains("3 of 3"), "{news:?}");
        let mut watcher = Watcher::default();
        watcher.look(look(false, true, 0));
        assert_eq!(watcher.look(look(false, true, 9)), []);
    }

    #[test]
    fn a_server_that_answers_neither_family_and_programs_on_one_bad_network_are_one_cause() {
        let of = |families: &[(&'static str, bool)], programs: &[&str]| {
            let mut timings = Timings::default();
            for program in programs {
                (0..4).for_each(|_| timings.note(What::Lookup, program, None, "unanswered", Duration::from_secs(5)));
            }
            let family = |(name, unanswered): &(&'static str, bool)| FamilyReport {
                family: (*name).into(),
                has_route: true,
                suspended_ms: 0.0,
                rtt_ms: None,
                lookup_ms: None,
                unanswered: *unanswered,
            };
            let families = families.iter().map(family).collect();
            let supervisor = Observation { pid: 1, families, timings: timings.snapshot(), ..Observation::default() };
            Arc::new(Sources { supervisor: Some(supervisor), ..Sources::default() })
        };
        let mut watcher = Watcher::default();
        let news = watcher.look(of(&[("IPv4", false), ("IPv6", true)], &[]));
        assert!(keys(&news) == [("silent", true)] && news[0].0.words.contains("AAAA"), "{news:?}");
        assert_eq!(watcher.look(of(&[("IPv4", true), ("IPv6", true)], &[])), [], "the same server");
        let news = Watcher::default().look(of(&[("IPv4", true), ("IPv6", true)], &[]));
        assert!(keys(&news) == [("silent", true)] && news[0].0.words.starts_with("DNS queries get no"), "{news:?}");

        let mut watcher = Watcher::default();
        assert_eq!(watcher.look(of(&[], &[])), []);
        let news = watcher.look(of(&[], &["curl", "git", "wget"]));
        assert_eq!(keys(&news), [("lookups", true)]);
        assert!(news[0].0.words.starts_with("curl and 2 other programs: 12 of 12"), "{news:?}");
    }

    #[test]
    fn loss_and_long_queues_of_measured_programs_are_seen() {
        let measured = |retransmissions: u64, rtt: f64| {
            let mut measured = Timings::default();
            measured.count("scp", "up_bytes", retransmissions * 10 * SEGMENT);
            measured.count("scp", "retransmissions", retransmissions);
            let meters: BTreeMap<_, _> = [("rtt_ms".to_owned(), rtt), ("least_rtt_ms".to_owned(), 20.0)].into();
            let line = |app: &str| FlowLine { app: app.into(), meters: meters.clone(), ..FlowLine::default() };
            let boards = vec![Board { connections: vec![line("scp"), line("curl")], ..Board::default() }];
            Arc::new(Sources { measured, boards, ..Sources::default() })
        };
        let mut watcher = Watcher::default();
        assert_eq!(watcher.look(measured(0, 70.0)), [], "60 ms are no long queue");
        let news = watcher.look(measured(20, 300.0));
        assert_eq!(keys(&news), [("loss", true), ("bloat", true)]);
        assert!(news[0].0.words.contains("9 %") && news[1].0.words.contains("from 20 to 300 ms"), "{news:?}");
    }
}
