//! Whether a channel is there, and how long it is: a small packet now and then, which the other end sends back.
//!
//! Only an echo counts, since only that shows both directions. While packets are steered probes are frequent, so that a channel
//! that goes is missed soon; at rest they only keep the way open, since each of them wakes a radio (docs/decisions/0048). What was
//! measured of a channel before a rest may be outdated: the first packet after it probes at once, and until the answer the channel
//! is in doubt. A channel that is thought dead is asked as soon as the other end asks over it: an end that sends no probes at rest learns so
//! that the other one has come, and need not find out by its first packet.

use crate::time::{Duration, Instant};
use std::collections::VecDeque;

/// How channels are probed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbeSettings {
    /// Between probes while packets are steered.
    pub busy: Duration,
    /// Between probes for two seconds after the last packet, and while the channel is dead and packets are steered.
    pub idle: Duration,
    /// Between probes from then on; none, if there is nothing to be kept open from this end.
    pub rest: Option<Duration>,
    /// A probe that is missing for so long, and for three of its round trips, is lost.
    pub patience: Duration,
}

impl Default for ProbeSettings {
    /// 50 ms while busy, patience of 120 ms: a channel that is lost is left within 170 ms, so that no program stalls for more than 300.
    /// 100 s at rest: address translators keep a mapping of UDP for two minutes at least (RFC 4787, REQ-5).
    fn default() -> Self {
        Self {
            busy: Duration::from_millis(50),
            idle: Duration::from_millis(500),
            rest: Some(Duration::from_secs(100)),
            patience: Duration::from_millis(120),
        }
    }
}

/// For how long after a packet a channel counts as busy.
const LINGERS: Duration = Duration::from_millis(500);
/// After so long without a packet channels are at rest. Ours: a fifth of the 11 s for which an LTE radio stays awake after a packet.
const RESTS: Duration = Duration::from_secs(2);
/// Probes under way that are kept in mind.
const MOST: usize = 64;

/// A change of a channel's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    Lost,
    Back,
}

/// What an echo says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Echo {
    pub round_trip: Duration,
    /// Packets that were given to the channel before the probe.
    pub sent: u64,
    /// The channel is back.
    pub turn: Option<Turn>,
}

#[derive(Debug)]
pub(super) struct Prober {
    settings: ProbeSettings,
    next: Option<Instant>,
    number: u16,
    under_way: VecDeque<(u16, Instant, u64)>,
    last_used: Option<Instant>,
    last_echo: Option<Instant>,
    /// As [`Prober::is_unsure`].
    unsure: bool,
    alive: bool,
}

impl Prober {
    pub fn new(settings: ProbeSettings) -> Self {
        Self {
            settings,
            next: Some(Instant::ZERO),
            number: 0,
            under_way: VecDeque::new(),
            last_used: None,
            last_echo: None,
            unsure: false,
            alive: true,
        }
    }

    /// A packet is steered: the next probe is not far, and after a rest it is now.
    pub fn used(&mut self, now: Instant) {
        let (was_busy, rested) = (self.busy(now), self.rests(now));
        self.last_used = Some(now);
        if was_busy {
            return;
        }
        let soon = if rested && (self.under_way.is_empty() || !self.alive) {
            now
        } else if self.alive {
            now + self.settings.busy
        } else {
            now + self.settings.idle
        };
        self.at_latest(soon);
        self.unsure = rested && self.last_echo.is_some_and(|at| now.since(at) >= RESTS);
    }

    /// The other end probes this channel, so that one way of it works.
    pub fn heard(&mut self, now: Instant) {
        if !self.alive {
            self.at_latest(self.under_way.back().map_or(now, |(_, last, _)| now.max(*last + self.settings.busy)));
        }
    }

    fn at_latest(&mut self, soon: Instant) {
        self.next = Some(self.next.map_or(soon, |next| next.min(soon)));
    }

    fn busy(&self, now: Instant) -> bool {
        self.last_used.is_some_and(|at| now.since(at) < LINGERS)
    }

    fn rests(&self, now: Instant) -> bool {
        self.last_used.is_none_or(|at| now.since(at) >= RESTS)
    }

    fn due(&self, probe_timeout: Duration) -> Option<Instant> {
        let patience = self.settings.patience.max(probe_timeout);
        self.under_way.front().filter(|_| self.alive).map(|(_, at, _)| *at + patience)
    }

    /// Whether a probe is missed by now that took at most `round_trip` of late, though the channel is not given up yet.
    pub fn is_late(&self, now: Instant, round_trip: Duration) -> bool {
        self.under_way.front().is_some_and(|(_, at, _)| now.since(*at) > round_trip)
    }

    /// Whether packets are steered again after a rest, and no probe was answered since.
    pub fn is_unsure(&self) -> bool {
        self.unsure
    }

    /// When to call [`Prober::handle_timeout`].
    pub fn deadline(&self, probe_timeout: Duration) -> Option<Instant> {
        self.due(probe_timeout).into_iter().chain(self.next).min()
    }

    /// What has become of the channel that was given `sent` packets, and the probe that is due.
    pub fn handle_timeout(&mut self, now: Instant, probe_timeout: Duration, sent: u64) -> (Option<Turn>, Option<u16>) {
        let lost = self.due(probe_timeout).is_some_and(|due| due <= now);
        if lost {
            self.alive = false;
            self.at_latest(now + self.settings.busy);
        }
        if self.next.is_none_or(|next| now < next) {
            return (lost.then_some(Turn::Lost), None);
        }
        let between = if self.alive && self.busy(now) {
            Some(self.settings.busy)
        } else if self.rests(now) {
            self.settings.rest
        } else {
            Some(self.settings.idle)
        };
        self.next = between.map(|between| now + between);
        self.number = self.number.wrapping_add(1);
        if self.under_way.len() == MOST {
            self.under_way.pop_front();
        }
        self.under_way.push_back((self.number, now, sent));
        (lost.then_some(Turn::Lost), Some(self.number))
    }

    /// An echo: what it says, if it is of a probe that is still awaited.
    pub fn echo(&mut self, now: Instant, number: u16) -> Option<Echo> {
        let at = self.under_way.iter().position(|(n, ..)| *n == number)?;
        let (_, probed, sent) = self.under_way[at];
        self.under_way.drain(..=at);
        let back = !std::mem::replace(&mut self.alive, true);
        (self.last_echo, self.unsure) = (Some(now), false);
        Some(Echo { round_trip: now.since(probed), sent, turn: back.then_some(Turn::Back) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(millis: u64) -> Instant {
        Instant::from_millis(millis)
    }

    /// Probes until `until` on a channel that is dead within `dead`; when it was lost and when it was back.
    fn turns(dead: std::ops::Range<u64>, until: u64) -> Vec<(u64, Turn)> {
        let (mut prober, mut turns, mut echoes) = (Prober::new(ProbeSettings::default()), Vec::new(), VecDeque::new());
        for milli in 0..until {
            prober.used(ms(milli));
            while echoes.front().is_some_and(|(at, _)| *at <= milli) {
                let Some((_, number)) = echoes.pop_front() else { break };
                turns.extend(prober.echo(ms(milli), number).and_then(|echo| echo.turn).map(|turn| (milli, turn)));
            }
            let (turn, probe) = prober.handle_timeout(ms(milli), Duration::from_millis(30), 0);
            turns.extend(turn.map(|turn| (milli, turn)));
            echoes.extend(probe.filter(|_| !dead.contains(&milli)).map(|number| (milli + 10, number)));
        }
        turns
    }

    #[test]
    fn a_dead_channel_is_left_within_170_ms_and_taken_again_within_a_probe() {
        let turns = turns(1_000..3_000, 5_000);
        assert_eq!(turns.len(), 2, "{turns:?}");
        assert!(turns[0].1 == Turn::Lost && (1_100..=1_170).contains(&turns[0].0), "{turns:?}");
        assert!(turns[1].1 == Turn::Back && (3_000..=3_520).contains(&turns[1].0), "{turns:?}");
    }

    #[test]
    fn a_channel_that_was_never_there_is_left_as_soon_and_one_that_is_there_never() {
        assert_eq!(turns(0..9_000, 2_000).first().map(|(at, turn)| (*at <= 170, *turn)), Some((true, Turn::Lost)));
        assert_eq!(turns(0..0, 5_000), []);
    }

    #[test]
    fn an_echo_that_comes_late_brings_its_channel_back() {
        let mut prober = Prober::new(ProbeSettings::default());
        prober.used(ms(0));
        let (_, number) = prober.handle_timeout(ms(0), Duration::ZERO, 0);
        prober.handle_timeout(ms(50), Duration::ZERO, 0);
        assert_eq!(prober.handle_timeout(ms(120), Duration::ZERO, 0).0, Some(Turn::Lost));
        let echo = prober.echo(ms(150), number.unwrap()).unwrap();
        assert_eq!((echo.round_trip, echo.turn), (Duration::from_millis(150), Some(Turn::Back)));
        // From now on it is known how long to wait for the others.
        assert_eq!(prober.handle_timeout(ms(199), echo.round_trip, 0).0, None);
    }

    #[test]
    fn a_probe_that_takes_longer_than_they_did_is_missed_before_its_channel_is_lost() {
        let mut prober = Prober::new(ProbeSettings::default());
        let (_, number) = prober.handle_timeout(ms(10), Duration::ZERO, 0);
        let late = |prober: &Prober, at| prober.is_late(ms(at), Duration::from_millis(30));
        assert_eq!([40, 41].map(|at| late(&prober, at)), [false, true]);
        prober.echo(ms(42), number.unwrap());
        assert!(!late(&prober, 50));
    }

    /// Milliseconds at which a channel is probed after packets until 1 s and then none; each probe comes back.
    fn probed_at_rest(settings: ProbeSettings, until: u64) -> Vec<u64> {
        let (mut prober, mut probes) = (Prober::new(settings), Vec::new());
        for milli in 0..until {
            if milli <= 1_000 {
                prober.used(ms(milli));
            }
            if let (_, Some(number)) = prober.handle_timeout(ms(milli), Duration::ZERO, 0) {
                prober.echo(ms(milli), number).unwrap();
                probes.extend((milli > 1_500).then_some(milli));
            }
        }
        probes
    }

    #[test]
    fn at_rest_a_channel_is_kept_open_by_one_end_and_left_alone_by_the_other() {
        let settings = ProbeSettings::default();
        assert_eq!(probed_at_rest(settings, 250_000), [2_000, 2_500, 3_000, 103_000, 203_000]);
        let silent = ProbeSettings { rest: None, ..settings };
        assert_eq!(probed_at_rest(silent, 250_000), [2_000, 2_500, 3_000]);
    }

    #[test]
    fn after_a_rest_a_channel_is_asked_at_once_and_in_doubt_until_it_answers() {
        let mut prober = Prober::new(ProbeSettings { rest: None, ..ProbeSettings::default() });
        prober.used(ms(0));
        let (_, number) = prober.handle_timeout(ms(0), Duration::ZERO, 0);
        // Nothing was known that could have changed.
        assert!(!prober.is_unsure());
        prober.echo(ms(10), number.unwrap());
        for at in [50, 600, 1_100, 1_600, 2_100] {
            if let (_, Some(number)) = prober.handle_timeout(ms(at), Duration::ZERO, 0) {
                prober.echo(ms(at), number).unwrap();
            }
        }
        assert_eq!(prober.deadline(Duration::ZERO), None);
        prober.used(ms(60_000));
        assert_eq!(prober.deadline(Duration::ZERO), Some(ms(60_000)));
        assert!(prober.is_unsure());
        let (turn, number) = prober.handle_timeout(ms(60_000), Duration::ZERO, 0);
        assert_eq!(turn, None);
        prober.echo(ms(60_010), number.unwrap());
        assert!(!prober.is_unsure());
    }

    #[test]
    fn a_dead_channel_is_asked_at_rest_when_the_other_end_asks_and_by_the_first_packet() {
        let settings = ProbeSettings { rest: None, ..ProbeSettings::default() };
        let dead_at_rest = || {
            // As at a gateway: it asks before any host has come, once and when it gives the channel up, and then no more.
            let mut prober = Prober::new(settings);
            let mut probes = Vec::new();
            for milli in 0..5_000 {
                probes.extend(prober.handle_timeout(ms(milli), Duration::ZERO, 0).1.map(|_| milli));
            }
            assert_eq!((probes, prober.deadline(Duration::ZERO)), (vec![0, 170], None));
            prober
        };
        let mut prober = dead_at_rest();
        prober.heard(ms(5_000));
        assert_eq!(prober.deadline(Duration::ZERO), Some(ms(5_000)));
        let (_, number) = prober.handle_timeout(ms(5_000), Duration::ZERO, 0);
        prober.heard(ms(5_001));
        assert_eq!(prober.deadline(Duration::ZERO), Some(ms(5_050)), "no more often than while packets are steered");
        assert_eq!(prober.echo(ms(5_010), number.unwrap()).unwrap().turn, Some(Turn::Back));
        let mut prober = dead_at_rest();
        prober.used(ms(5_000));
        assert_eq!(prober.deadline(Duration::ZERO), Some(ms(5_000)));
        let mut alive = Prober::new(settings);
        let (_, number) = alive.handle_timeout(ms(0), Duration::ZERO, 0);
        alive.echo(ms(10), number.unwrap());
        alive.heard(ms(20));
        assert_eq!(alive.deadline(Duration::ZERO), None, "what is known is not asked again");
    }

    #[test]
    fn what_was_never_asked_is_no_echo() {
        let mut prober = Prober::new(ProbeSettings::default());
        let (_, number) = prober.handle_timeout(ms(1), Duration::ZERO, 77);
        assert_eq!(prober.echo(ms(2), number.unwrap() + 1), None);
        let echo = Echo { round_trip: Duration::from_millis(1), sent: 77, turn: None };
        assert_eq!(prober.echo(ms(2), number.unwrap()), Some(echo));
        assert_eq!(prober.echo(ms(3), number.unwrap()), None);
    }

    #[test]
    fn the_first_packet_after_a_pause_has_its_probe_soon_and_at_once_after_a_rest_unless_one_is_under_way() {
        let settings = ProbeSettings { idle: Duration::from_secs(30), rest: None, ..ProbeSettings::default() };
        let paused = |answered: bool, used: u64| {
            let mut prober = Prober::new(settings);
            prober.used(ms(0));
            let (_, number) = prober.handle_timeout(ms(600), Duration::MAX, 0);
            if answered {
                prober.echo(ms(610), number.unwrap()).unwrap();
            }
            prober.used(ms(used));
            prober.next
        };
        assert_eq!((paused(true, 700), paused(true, 2_000)), (Some(ms(750)), Some(ms(2_000))));
        assert_eq!(paused(false, 2_000), Some(ms(2_050)), "what is asked already is not asked again at once");
        // A dead one is asked less often, if there was no rest.
        let mut dead = Prober::new(settings);
        dead.used(ms(0));
        dead.handle_timeout(ms(0), Duration::ZERO, 0);
        dead.handle_timeout(ms(600), Duration::ZERO, 0);
        dead.next = None;
        dead.used(ms(1_000));
        assert_eq!((dead.alive, dead.next), (false, Some(ms(31_000))));
    }
}
