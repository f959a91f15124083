//! The law of docs/decisions/0055 on what was seen of real programs: what connects bare connects under headstart, no later, with
//! no storm of SYNs.

use super::round::{CUT, Seen};
use headstart_core::time::Duration;
use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;

/// Later than bare by no more than this, or by [`SHARE`] if that is more.
const LATER: Duration = Duration::from_millis(50);
const SHARE: u32 = 10;
/// Two SYNs to one address that are closer than this come within a second: the kernel repeats one after a second, less what its
/// timer is early by.
const SECOND: Duration = Duration::from_millis(950);

/// A way to break the law.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Breach {
    /// Bare it reaches a host, and not under headstart.
    Reaches,
    /// It reaches a host, or gives up, later than bare.
    InTime,
    /// It sends a second SYN within a second to an address that does not answer, and more of them there than bare.
    OneSynASecond,
    /// It reaches nothing, and sends more SYNs than bare and one an address.
    NoStorm,
    /// It ends well bare, and not under headstart.
    EndsWell,
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Reaches => "does not reach a host",
            Self::InTime => "is later",
            Self::OneSynASecond => "sends a second SYN within a second to an address that does not answer",
            Self::NoStorm => "sends too many SYNs",
            Self::EndsWell => "does not end well",
        })
    }
}

/// The latest that is not late.
fn allowed(bare: Duration) -> Duration {
    bare + LATER.max(bare / SHARE)
}

/// How a run breaks the law beside the run of the program alone. `addresses` are those of the host.
pub fn judge(bare: &Seen, ours: &Seen, addresses: usize) -> Vec<Breach> {
    let reaches = bare.sent.is_some() && ours.sent.is_none();
    let late = match (bare.sent, ours.sent) {
        (Some(bare), Some(ours)) => ours > allowed(bare),
        // What gives up, gives up in time; but one that has tried a part of the addresses alone may take as long as all of them do.
        (None, None) if tried(bare) == addresses => {
            bare.ended.is_some_and(|bare| ours.ended.unwrap_or(CUT) > allowed(bare))
        }
        _ => false,
    };
    // Where there is an answer, a second connection is the program's own: under headstart it comes sooner.
    let again = repeated(ours).filter(|to| !ours.answered.contains(to)).any(|to| to_one(ours, to) > to_one(bare, to));
    let storm = bare.sent.is_none() && ours.sent.is_none() && ours.syns.len() > bare.syns.len() + addresses;
    let badly = bare.well == Some(true) && ours.well == Some(false) && !reaches;
    let all = [
        (reaches, Breach::Reaches),
        (late, Breach::InTime),
        (again, Breach::OneSynASecond),
        (storm, Breach::NoStorm),
        (badly, Breach::EndsWell),
    ];
    all.into_iter().filter(|(is, _)| *is).map(|(_, breach)| breach).collect()
}

/// Addresses that had a SYN.
fn tried(seen: &Seen) -> usize {
    seen.syns.iter().map(|(to, _)| to).collect::<BTreeSet<_>>().len()
}

/// Addresses that had two SYNs within a second.
fn repeated(seen: &Seen) -> impl Iterator<Item = IpAddr> {
    let soon = |(n, (to, at)): (usize, &(IpAddr, Duration))| {
        let before = seen.syns[..n].iter().rev().find(|(other, _)| other == to);
        before.is_some_and(|(_, before)| at.saturating_sub(*before) < SECOND).then_some(*to)
    };
    seen.syns.iter().enumerate().filter_map(soon)
}

/// SYNs to one address. A program that connects there twice does so sooner under headstart, and no more often.
fn to_one(seen: &Seen, addr: IpAddr) -> usize {
    seen.syns.iter().filter(|(to, _)| *to == addr).count()
}

/// Of several runs of one program, the one that was done first: what the machine did meanwhile only ever adds.
pub fn quickest<'a>(runs: impl IntoIterator<Item = &'a Seen>) -> Option<&'a Seen> {
    runs.into_iter().min_by_key(|seen| (seen.sent.is_none(), seen.sent.or(seen.ended).unwrap_or(CUT)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    fn sent(after: u64) -> Seen {
        Seen { sent: Some(ms(after)), ended: Some(ms(after)), well: Some(true), ..Seen::default() }
    }

    fn gave_up(after: u64, syns: &[(u8, u64)]) -> Seen {
        let syns = syns.iter().map(|(n, at)| (IpAddr::from([198, 19, 0, *n]), ms(*at))).collect();
        Seen { sent: None, ended: Some(ms(after)), well: Some(false), syns, ..Seen::default() }
    }

    #[test]
    fn who_connects_bare_connects_and_no_later_than_is_allowed() {
        assert_eq!(judge(&sent(100), &sent(150), 2), []);
        assert_eq!(judge(&sent(100), &sent(151), 2), [Breach::InTime]);
        assert_eq!(judge(&sent(1000), &sent(1100), 2), [], "a tenth of a second is a tenth");
        assert_eq!(judge(&sent(100), &gave_up(100, &[]), 2), [Breach::Reaches]);
        assert_eq!(judge(&gave_up(100, &[]), &sent(5000), 2), [], "more able is no breach");
        let all = [(1, 0), (2, 30)];
        assert_eq!(judge(&gave_up(100, &all), &Seen::default(), 2), [Breach::InTime], "cut");
        assert_eq!(judge(&gave_up(100, &all[..1]), &gave_up(500, &all), 2), [], "it tries what the program does not");
        let badly = Seen { well: Some(false), ..sent(100) };
        assert_eq!(judge(&sent(100), &badly, 2), [Breach::EndsWell]);
    }

    #[test]
    fn the_quickest_of_several_runs_is_the_first_that_was_heard() {
        let (silent, slow, quick) = (gave_up(5, &[]), sent(90), sent(80));
        assert_eq!(quickest([&silent, &slow, &quick]), Some(&quick));
        assert_eq!(quickest([&silent]), Some(&silent));
    }

    #[test]
    fn syns_are_judged_beside_those_of_the_program_alone() {
        let (once, twice, later) = ([(1, 0), (2, 0)], [(1, 0), (1, 500)], [(1, 0), (1, 1000)]);
        assert_eq!(judge(&gave_up(9, &once), &gave_up(9, &twice), 2), [Breach::OneSynASecond]);
        assert_eq!(judge(&gave_up(9, &twice), &gave_up(9, &twice), 2), []);
        let answered = Seen { answered: [IpAddr::from([198, 19, 0, 1])].into(), ..gave_up(9, &twice) };
        assert_eq!(judge(&gave_up(9, &once), &answered, 2), [], "two connections");
        assert_eq!(judge(&gave_up(9, &once), &gave_up(9, &later), 2), []);
        let sooner = [(1, 0), (1, 100)];
        assert_eq!(judge(&gave_up(9, &later), &gave_up(9, &sooner), 2), [], "as many as alone, and sooner");
        let many: Vec<_> = (1..=5).map(|n| (n, 0)).collect();
        assert_eq!(judge(&gave_up(9, &once), &gave_up(9, &many), 2), [Breach::NoStorm]);
        assert_eq!(judge(&gave_up(9, &once), &gave_up(9, &many), 3), []);
    }
}
