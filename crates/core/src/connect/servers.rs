//! The DNS servers that a host may ask (resolv.conf(5)): how soon each usually answers, and which are silent.
//!
//! The C library asks the first, and the second after 5 s, at every lookup. Ours asks the first that is not known to be silent,
//! and the next one too as soon as that takes longer than usual, as unbound does (its timeouts are those of RFC 6298, with
//! 376 ms where nothing is known). A server that was silent for so long while another answered the same question is passed
//! over from then on; every now and then it is asked beside the others, and one answer brings it back to its place.
//!
//! What never happens here: a server passed over that has not been seen to be silent where another answered; a different
//! order than that of the file among those that answer.

use super::QueryId;
use crate::time::{Duration, Instant};

/// What a server is waited for of which nothing is known: unbound's UNKNOWN_SERVER_NICENESS.
const UNKNOWN: Duration = Duration::from_millis(376);
/// The shortest wait: TCP's shortest timeout on Linux. Most of what is not in a resolver's cache takes less.
const SHORTEST: Duration = Duration::from_millis(200);
/// The longest: RFC 6298, section 2, for what is not known at all.
const LONGEST: Duration = Duration::from_secs(1);
/// How soon a silent server is asked again, and how seldom in the end: each time after twice as long.
const PROBE_EVERY: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(60)];

#[derive(Clone, Copy, Debug)]
struct Silent {
    /// When it is asked again, and how long after that.
    next: Instant,
    every: Duration,
    /// The question that it has been asked, and when.
    probe: Option<(QueryId, Instant)>,
}

#[derive(Clone, Debug, Default)]
struct Server {
    /// Smoothed time of its answers, and their variation (RFC 6298).
    usual: Option<(Duration, Duration)>,
    /// When it last answered anything.
    last_answer: Option<Instant>,
    silent: Option<Silent>,
}

impl Server {
    /// When it was asked question `id`, if it is silent and that is awaited.
    fn probed_by(&self, id: QueryId) -> Option<Instant> {
        self.silent?.probe.filter(|(probe, _)| *probe == id).map(|(_, at)| at)
    }

    fn answered(&mut self, now: Instant, took: Option<Duration>) {
        self.silent = None;
        self.last_answer = Some(now);
        let Some(took) = took else { return };
        self.usual = Some(match self.usual {
            None => (took, took / 2),
            Some((mean, variation)) => {
                let off = mean.max(took) - mean.min(took);
                ((mean * 7 + took) / 8, (variation * 3 + off) / 4)
            }
        });
    }
}

/// All servers of the host's network.
#[derive(Debug)]
pub(super) struct Servers(Vec<Server>);

impl Default for Servers {
    fn default() -> Self {
        Self(vec![Server::default()])
    }
}

impl Servers {
    /// There are so many now, of which nothing is known. The questions that silent ones were still awaited for.
    pub fn are(&mut self, count: u32) -> Vec<QueryId> {
        let before = std::mem::replace(&mut self.0, vec![Server::default(); count.max(1) as usize]);
        before.iter().filter_map(|server| server.silent?.probe.map(|(id, _)| id)).collect()
    }

    /// How many there are.
    pub fn count(&self) -> u32 {
        self.0.len() as u32
    }

    /// Which one a number that counts up is.
    pub fn number(&self, server: u32) -> u32 {
        server % self.count()
    }

    fn get_mut(&mut self, server: u32) -> &mut Server {
        let at = self.number(server) as usize;
        &mut self.0[at]
    }

    /// Whether server number `server` is passed over.
    pub fn is_silent(&self, server: u32) -> bool {
        self.0.get(server as usize).is_some_and(|server| server.silent.is_some())
    }

    /// Which server to ask instead of `wanted`: that, or the next that is not silent.
    pub fn instead_of(&self, wanted: u32) -> u32 {
        let mut all = (0..self.count()).map(|n| wanted + n);
        all.find(|server| self.0[self.number(*server) as usize].silent.is_none()).unwrap_or(wanted)
    }

    /// After how long another is asked besides.
    pub fn wait(&self, server: u32) -> Duration {
        let usual = self.0[self.number(server) as usize].usual;
        usual.map_or(UNKNOWN, |(mean, variation)| (mean + variation * 4).clamp(SHORTEST, LONGEST))
    }

    /// It has answered a question; `took` is how long that took, if it was asked once.
    pub fn answered(&mut self, now: Instant, server: u32, took: Option<Duration>) {
        self.get_mut(server).answered(now, took);
    }

    /// Another has answered what this one was asked then, as question `id`: it is still awaited from one that may only be slow, whose late
    /// answer brings it back. One that has answered something else since is there: the network, or the server, swallows this question.
    pub fn was_silent(&mut self, now: Instant, id: QueryId, server: u32, asked: Instant) {
        let last_answer = self.get_mut(server).last_answer;
        if now - asked >= self.wait(server) && last_answer.is_none_or(|at| at < asked) {
            let (every, probe) = (PROBE_EVERY[0], Some((id, asked)));
            self.get_mut(server).silent.get_or_insert(Silent { next: now + every, every, probe });
        }
    }

    /// A silent server that is to be asked once more, as question `id`, and the question before it, which is given up.
    pub fn probe(&mut self, now: Instant, id: QueryId) -> Option<(u32, Option<QueryId>)> {
        let due = |server: &Server| server.silent.is_some_and(|silent| silent.next <= now);
        let at = self.0.iter().position(due)?;
        let silent = self.0[at].silent.as_mut()?;
        silent.every = (silent.every * 2).min(PROBE_EVERY[1]);
        silent.next = now + silent.every;
        Some((at as u32, silent.probe.replace((id, now)).map(|(before, _)| before)))
    }

    /// Whether question `id` is one that a silent server was asked.
    pub fn is_probed_by(&self, id: QueryId) -> bool {
        self.0.iter().any(|server| server.probed_by(id).is_some())
    }

    /// `server` has answered question `id`: whether that is one that it was silent to.
    pub fn is_probe(&mut self, now: Instant, id: QueryId, server: u32) -> bool {
        let server = self.get_mut(server);
        let asked = server.probed_by(id);
        asked.map(|at| server.answered(now, Some(now - at))).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }
    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn a_silent_server_is_passed_over_until_it_answers_once_more() {
        let mut s = Servers::default();
        s.are(3);
        assert_eq!((s.instead_of(0), s.instead_of(4)), (0, 4));
        let was_silent = |s: &mut Servers, now, server, asked| s.was_silent(at(now), QueryId(now), server, at(asked));
        was_silent(&mut s, 375, 0, 0);
        assert_eq!(s.instead_of(0), 0, "no longer than usual");
        was_silent(&mut s, 376, 0, 0);
        assert_eq!((s.instead_of(0), s.instead_of(1), s.instead_of(3)), (1, 1, 4));
        (1..3).for_each(|n| was_silent(&mut s, 400, n, 0));
        assert_eq!(s.instead_of(0), 0, "all are silent");
        s.answered(at(500), 1, None);
        assert_eq!(s.instead_of(0), 1);
        was_silent(&mut s, 900, 1, 450);
        assert_eq!(s.instead_of(0), 1, "it has answered another question since");
    }

    #[test]
    fn it_is_asked_again_after_a_second_and_then_ever_more_seldom() {
        let mut s = Servers::default();
        s.are(2);
        s.was_silent(at(400), QueryId(1000), 0, at(0));
        let mut asked = Vec::new();
        for second in 0..200 {
            if let Some((server, before)) = s.probe(at(second * 1000 + 400), QueryId(second)) {
                asked.push((second, server, before.map(|QueryId(n)| n)));
            }
        }
        let seconds: Vec<_> = asked.iter().map(|(second, ..)| *second).collect();
        assert_eq!(seconds, [1, 3, 7, 15, 31, 63, 123, 183]);
        let before = [1000].into_iter().chain(seconds);
        assert!(asked.iter().zip(before).all(|((_, n, given_up), before)| *n == 0 && *given_up == Some(before)));
        assert!(!s.is_probe(at(200_000), QueryId(3), 0) && !s.is_probe(at(184_100), QueryId(183), 1));
        assert!(s.is_probed_by(QueryId(183)) && s.is_probe(at(184_100), QueryId(183), 0));
        assert!(!s.is_probed_by(QueryId(183)));
        assert_eq!(s.instead_of(0), 0);
        assert_eq!(s.wait(0), ms(1000), "it takes 700 ms to answer");
    }

    #[test]
    fn the_late_answer_of_a_slow_server_brings_it_back() {
        let mut s = Servers::default();
        s.are(2);
        s.was_silent(at(400), QueryId(7), 0, at(0));
        assert!(s.is_probed_by(QueryId(7)) && s.is_probe(at(765), QueryId(7), 0));
        assert_eq!((s.instead_of(0), s.wait(0)), (0, ms(1000)), "it takes 765 ms to answer");
        assert_eq!(s.are(2), []);
        s.was_silent(at(400), QueryId(8), 1, at(0));
        assert_eq!(s.are(2), [QueryId(8)]);
    }

    #[test]
    fn what_is_usual_is_learned_and_bounded() {
        let mut s = Servers::default();
        s.are(2);
        assert_eq!(s.wait(0), ms(376));
        (0..50).for_each(|_| s.answered(at(0), 0, Some(ms(1))));
        assert_eq!(s.wait(0), ms(200));
        (0..50).for_each(|_| s.answered(at(0), 0, Some(ms(300))));
        assert!(s.wait(0) >= ms(300) && s.wait(0) < ms(400), "{:?}", s.wait(0));
        s.answered(at(0), 1, Some(ms(9000)));
        assert_eq!(s.wait(1), ms(1000));
    }

    #[test]
    fn the_wait_is_the_usual_time_and_four_times_its_variation() {
        let mut s = Servers::default();
        s.answered(at(0), 0, Some(ms(100)));
        assert_eq!(s.wait(0), ms(100 + 4 * 50));
        // An eighth of the difference, and a quarter of that of the variation.
        s.answered(at(0), 0, Some(ms(180)));
        assert_eq!(s.wait(0), ms(110 + 150 + 80));
    }

    #[test]
    fn a_server_that_answered_before_it_was_asked_may_be_silent_since() {
        let mut s = Servers::default();
        s.are(2);
        s.answered(at(100), 0, None);
        s.was_silent(at(1000), QueryId(1), 0, at(200));
        assert!(s.is_silent(0) && !s.is_silent(1));
        s.answered(at(1100), 0, None);
        assert!(!s.is_silent(0));
    }
}
