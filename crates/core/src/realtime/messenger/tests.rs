//! Stories of two messengers and connections that carry, hold up or lose what is written on them, in virtual time.

mod bounds;
mod spread;
mod told;
mod written;

use super::*;
use crate::machine::Machine;
use crate::realtime::frame::{Counts, Frame, FrameError, Proof};
use crate::realtime::lane::WINDOW;

const EVENT: LaneId = LaneId(1);
const STATE: LaneId = LaneId(2);

/// Bytes on their way: when they arrive, to which end, over which connection.
type Parcel = (Instant, usize, Connection, Vec<u8>);

/// Two ends and what is between them.
struct Pair {
    now: Instant,
    ends: [Messenger; 2],
    one_way: Duration,
    parcels: Vec<Parcel>,
    /// Connections that lost a segment, of one end or of both: nothing arrives until that moment.
    held: Vec<(Connection, Option<usize>, Instant)>,
    /// What is written on a connection before the first moment is held up, with all after it, until the second.
    spell: Vec<(Connection, Instant, Instant)>,
    /// Messages that arrived at each end, with their moments.
    got: [Vec<(Instant, Delivered, Vec<u8>)>; 2],
    writes: [usize; 2],
    /// What the first end has written, and when.
    log: Vec<(Instant, Vec<u8>)>,
}

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn settings(name: &str) -> Settings {
    Settings { interval: Some(ms(30)), ..Settings::new(name).unwrap() }
}

impl Pair {
    fn new(name: &str) -> Self {
        Self::over(name, ms(5))
    }

    fn over(name: &str, one_way: Duration) -> Self {
        let end = || Messenger::new(SessionId([1; 16]), settings(name));
        let mut pair = Self {
            now: Instant::from_millis(1000),
            ends: [end(), end()],
            one_way,
            parcels: Vec::new(),
            held: Vec::new(),
            spell: Vec::new(),
            got: Default::default(),
            writes: [0; 2],
            log: Vec::new(),
        };
        pair.connect(0);
        pair.run(one_way * 4);
        for id in 1..pair.ends[0].connections_wanted() as u32 {
            pair.connect(id);
        }
        pair.run(one_way * 4);
        pair.writes = [0; 2];
        pair
    }

    fn connect(&mut self, id: u32) {
        for (end, introduce) in [(0, true), (1, false)] {
            let input = Input::Opened { connection: Connection(id), rtt: Some(self.one_way * 2), introduce };
            self.ends[end].handle_input(self.now, input);
            self.drain(end);
        }
    }

    fn drain(&mut self, end: usize) {
        while let Some(output) = self.ends[end].poll_output() {
            match output {
                Output::Write(connection) => {
                    let mut bytes = Vec::new();
                    while self.ends[end].transmit(self.now, connection, &mut bytes) {
                        let spell = self.spell.iter().find(|(c, until, _)| *c == connection && self.now < *until);
                        self.held.extend(spell.map(|(c, _, again)| (*c, Some(end), *again)));
                        let is_held = |from: &Option<usize>| from.is_none_or(|from| from == end);
                        let held = self.held.iter().filter(|(c, from, _)| *c == connection && is_held(from));
                        let held = held.map(|(_, _, until)| *until).max().unwrap_or(self.now);
                        let at = (self.now + self.one_way).max(held);
                        let messages = written::messages(&bytes);
                        let longest = drive::ONE_SEGMENT + drive::ON_TOP;
                        assert!(bytes.len() < longest || messages.len() <= 1, "{messages:?} in one write");
                        if end == 0 {
                            self.log.push((self.now, bytes.clone()));
                        }
                        self.parcels.push((at, 1 - end, connection, std::mem::take(&mut bytes)));
                        self.writes[end] += 1;
                    }
                }
                Output::Deliver => {
                    let mut bytes = Vec::new();
                    while let Some(what) = self.ends[end].receive(&mut bytes) {
                        self.got[end].push((self.now, what, bytes.clone()));
                    }
                }
            }
        }
    }

    fn run(&mut self, time: Duration) {
        let end_of_run = self.now + time;
        loop {
            let parcel = self.parcels.iter().enumerate().min_by_key(|(k, p)| (p.0, *k)).map(|(k, p)| (p.0, k));
            let timeouts = [0, 1].map(|end| self.ends[end].poll_timeout().map(|d| d.at.max(self.now)));
            let timeout = timeouts.iter().flatten().min().copied();
            let next = parcel.map(|p| p.0).into_iter().chain(timeout).min().unwrap_or(Instant::FAR_FUTURE);
            if next > end_of_run {
                self.now = end_of_run;
                return;
            }
            self.now = next;
            if let Some((_, k)) = parcel.filter(|(at, _)| *at <= next) {
                let (_, to, connection, bytes) = self.parcels.remove(k);
                self.ends[to].received(self.now, connection, &bytes).unwrap();
                self.drain(to);
            } else {
                for end in 0..2 {
                    self.ends[end].handle_timeout(self.now);
                    self.drain(end);
                    let again = self.ends[end].poll_timeout();
                    assert!(again.is_none_or(|d| d.at > self.now), "{again:?} at {:?} has done nothing", self.now);
                }
            }
        }
    }

    fn event(&mut self, number: u8) {
        self.ends[0].send(self.now, EVENT, Kind::Event, 0, &[number; 50]).unwrap();
        self.drain(0);
    }

    fn events(&mut self, numbers: std::ops::Range<u8>) {
        for number in numbers {
            self.event(number);
            self.run(ms(30));
        }
    }

    /// Loses a segment on each connection that is in use now: it is there again after `time`.
    fn lose_segment(&mut self, time: Duration) {
        let connection = Connection(self.ends[0].primary.unwrap());
        self.held.push((connection, None, self.now + time));
    }

    fn numbers(&self, end: usize) -> Vec<u8> {
        self.got[end].iter().map(|(_, _, bytes)| bytes[0]).collect()
    }

    /// Nothing that the first end writes on connections below `connections` arrives for ten seconds.
    fn black_hole(&mut self, connections: u32) {
        self.held.extend((0..connections).map(|id| (Connection(id), Some(0), self.now + ms(10_000))));
    }

    /// How long after `since` the event `number` was written, each time.
    fn written(&self, number: u8, since: Instant) -> Vec<Duration> {
        let has = |bytes: &[u8]| bytes.windows(50).any(|part| part == [number; 50]);
        self.log.iter().filter(|(_, bytes)| has(bytes)).map(|(at, _)| at.since(since)).collect()
    }

    /// The delay of the message that carries `number`, sent at `sent`.
    fn arrival(&self, number: u8) -> Instant {
        self.got[1].iter().find(|(_, _, bytes)| bytes[0] == number).unwrap().0
    }
}

#[test]
fn plain_is_one_write_a_message_and_nothing_back() {
    let mut pair = Pair::new("plain");
    for end in &mut pair.ends {
        end.settings.resume = false;
    }
    pair.events(0..20);
    assert_eq!(pair.numbers(1), (0..20).collect::<Vec<_>>());
    assert_eq!(pair.writes, [20, 0]);
    assert_eq!(pair.ends[0].on_their_way(), 0);
}

#[test]
fn a_session_that_may_resume_is_told_of_arrivals_now_and_then() {
    let mut pair = Pair::new("plain");
    pair.events(0..20);
    pair.run(ms(400));
    assert_eq!(pair.ends[0].on_their_way(), 0);
    assert!((2..=6).contains(&pair.writes[1]), "{:?}", pair.writes);
}

#[test]
fn an_overdue_message_goes_again_on_a_clean_connection_and_those_after_it_pass_by() {
    let mut pair = Pair::new("hedge");
    pair.events(0..10);
    pair.lose_segment(ms(200));
    let lost = pair.now;
    pair.events(10..14);
    // Overdue after 14 ms, and five more to get there.
    assert_eq!(pair.arrival(10), lost + ms(19));
    assert_eq!(pair.arrival(11), lost + ms(35));
    pair.run(ms(300));
    assert_eq!(pair.numbers(1), (0..14).collect::<Vec<_>>(), "each once");
    let stats = pair.ends[0].stats(pair.now);
    assert_eq!((stats.stalls, stats.copies), (1, 1));
    // The copy was acknowledged after 24 ms; what was lost arrives after 200 ms, which is known 5 ms later.
    assert_eq!((stats.ahead, stats.saved), (1, ms(181)));
    assert_eq!((stats.bytes % stats.written, stats.bytes_again), (0, stats.bytes / stats.written));
    assert_eq!(pair.ends[1].stats(pair.now).copies_received, 1);
}

#[test]
fn a_spell_that_takes_everything_leaves_a_clean_connection_for_its_end() {
    let mut pair = Pair::new("hedge");
    pair.events(0..10);
    let began = pair.now;
    // Whatever is written in the next 150 ms is lost, and TCP needs 400 ms to notice on each connection.
    for id in 0..6 {
        pair.spell.push((Connection(id), began + ms(150), began + ms(400)));
    }
    pair.events(10..20);
    for number in 10..20 {
        assert!(pair.arrival(number) < began + ms(330), "{number} came {:?} after", pair.arrival(number) - began);
    }
    assert_eq!(pair.numbers(1).len(), 20);
}

#[test]
fn what_the_peers_kernel_has_is_not_overdue() {
    let mut pair = Pair::new("hedge");
    pair.events(0..10);
    pair.lose_segment(ms(200));
    pair.event(10);
    for _ in 0..20 {
        let connection = Connection(pair.ends[0].primary.unwrap());
        pair.ends[0].handle_input(pair.now, Input::Unacknowledged { connection, bytes: 0 });
        pair.run(ms(5));
    }
    assert_eq!(pair.ends[0].stats(pair.now).stalls, 0);
}

#[test]
fn what_is_lost_comes_with_the_next_message_over_another_connection() {
    // Longer than the time between messages: each goes where nothing is on its way.
    let mut pair = Pair::over("auto", ms(20));
    pair.events(0..10);
    // The first loss is found when it is overdue, after 44 ms; after it each message takes the one before along.
    for (first, intervals) in [(10, 2), (20, 1)] {
        let (writes, stalls) = (pair.writes[0], pair.ends[0].stats(pair.now).stalls);
        pair.lose_segment(ms(400));
        let lost = pair.now;
        pair.ends[0].choose(pair.now);
        pair.held.last_mut().unwrap().0 = Connection(pair.ends[0].primary.unwrap());
        pair.events(first..first + 10);
        assert_eq!(pair.arrival(first), lost + ms(30 * intervals + 20));
        for number in first + 1..first + 10 {
            assert_eq!(pair.arrival(number), lost + ms(30 * u64::from(number - first) + 20), "{number}");
        }
        let stats = pair.ends[0].stats(pair.now);
        assert_eq!((pair.writes[0] - writes, stats.stalls - stalls), (10, 1), "no write but those of the messages");
        assert_eq!(stats.state, State::Lossy);
    }
    pair.run(ms(2500));
    assert_eq!(pair.ends[0].stats(pair.now).state, State::Clean);
    assert_eq!(pair.numbers(1).len(), 30, "each once");
}

#[test]
fn where_nothing_is_lost_nothing_goes_twice_however_long_the_way() {
    for one_way in [5, 30, 50] {
        let mut pair = Pair::over("auto", ms(one_way));
        pair.events(0..100);
        pair.run(ms(200));
        assert_eq!((pair.writes[0], pair.ends[0].stats(pair.now).copies), (100, 0), "{one_way} ms");
    }
}

#[test]
fn a_peer_that_does_not_prove_itself_is_none() {
    let (session, id) = (SessionId([1; 16]), Connection(3));
    let hello = |goes_on| {
        let mut bytes = Vec::new();
        let (interval_micros, technique) = (0, "auto");
        Frame::Hello(Hello { session, connection: 3, interval_micros, technique, goes_on }).encode(&mut bytes);
        bytes
    };
    let said = |frame: Frame<'_>| {
        let mut bytes = Vec::new();
        frame.encode(&mut bytes);
        bytes
    };
    let message = said(Frame::Message { lane: EVENT, kind: Kind::Event, seq: 0, key: 0, payload: b"x" });
    let welcome = said(Frame::Welcome(Proof::welcome(session, 3)));
    let hears = |introduce, words: &[&[u8]]| {
        let mut end = Messenger::new(session, settings("auto"));
        end.handle_input(Instant::ZERO, Input::Opened { connection: id, rtt: None, introduce });
        let heard = words.iter().try_for_each(|words| end.received(Instant::ZERO, id, words));
        (heard.err(), end.peer_is_ours(), end.answered(), end.untaken())
    };
    assert_eq!(hears(true, &[&hello(false)]), (Some(FrameError::Echoed), false, 0, 0));
    assert_eq!(hears(true, &[&said(Frame::Gone(Proof::gone(session, 3)))]), (Some(FrameError::Gone), false, 0, 0));
    for words in [&message, &said(Frame::Welcome(Proof::welcome(session, 4))), &said(Frame::Welcome(Proof(0)))] {
        let (error, ours, answered, untaken) = hears(true, &[words]);
        assert!(error.is_some() && !ours && answered == 0 && untaken == 0, "{error:?}");
    }
    assert!(matches!(hears(true, &[&welcome, &message]), (None, true, 1, 1..)));
    // The side that was connected to: greeted once, and by nothing else.
    assert!(matches!(hears(false, &[&hello(false), &message]), (None, true, 1, 1..)));
    for words in [&[&welcome[..]][..], &[&message], &[&hello(false), &hello(false)], &[&hello(false), &welcome]] {
        assert!(hears(false, words).0.is_some());
    }
}

#[test]
fn an_answer_that_the_session_is_unknown_ends_it_only_where_there_is_no_other() {
    let gone = |id: u32| {
        let mut bytes = Vec::new();
        Frame::Gone(Proof::gone(SessionId([1; 16]), id)).encode(&mut bytes);
        bytes
    };
    let mut pair = Pair::new("auto");
    let open = |pair: &mut Pair, id| {
        let input = Input::Opened { connection: Connection(id), rtt: None, introduce: true };
        pair.ends[0].handle_input(pair.now, input);
        assert_eq!(pair.ends[0].received(pair.now, Connection(id), &gone(id)), Err(FrameError::Gone));
        pair.ends[0].handle_input(pair.now, Input::Closed(Connection(id)));
    };
    open(&mut pair, 50);
    assert!(!pair.ends[0].peer_has_forgotten());
    assert_eq!(pair.ends[0].connections_wanted(), 1, "others would lead there as well");
    for id in 0..6 {
        pair.ends[0].handle_input(pair.now, Input::Closed(Connection(id)));
    }
    open(&mut pair, 51);
    assert!(pair.ends[0].peer_has_forgotten());
}

#[test]
fn after_a_spell_the_first_message_to_get_through_brings_all_that_were_lost() {
    let mut pair = Pair::over("auto", ms(10));
    pair.events(0..10);
    let began = pair.now;
    for id in 0..6 {
        pair.spell.push((Connection(id), began + ms(150), began + ms(600)));
    }
    pair.events(10..20);
    for number in 10..16 {
        assert!(pair.arrival(number) <= began + ms(180), "{number} came {:?} after", pair.arrival(number) - began);
    }
    pair.run(ms(1000));
    assert_eq!(pair.numbers(1).len(), 20, "each once");
}

/// Round trips of two intervals: when the spell begins, a connection is waiting for an acknowledgement that it takes, and the
/// messages that it takes are on all others.
#[test]
fn where_a_spell_has_taken_a_message_on_every_connection_the_next_goes_where_only_the_answer_is_missing() {
    let mut pair = Pair::over("auto", ms(30));
    pair.events(0..20);
    // Half an interval after a message, so that it arrives within the spell's first 15 ms and its answer does not.
    pair.event(20);
    pair.run(ms(15));
    let began = pair.now;
    for id in 0..6 {
        pair.spell.push((Connection(id), began + ms(150), began + ms(900)));
    }
    pair.run(ms(15));
    pair.events(21..30);
    pair.run(ms(500));
    // 26 is the first that is made after it, and takes its way; with it and the next come those that were lost, and none waits for TCP.
    assert_eq!(pair.arrival(26), began + ms(165 + 30));
    for number in 21..=26 {
        assert!(pair.arrival(number) <= began + ms(300), "{number} came {:?} after", pair.arrival(number) - began);
    }
    pair.run(ms(1500));
    assert_eq!(pair.numbers(1).len(), 30, "each once");
}

/// Round trips of more than three intervals: the first answer comes when three more have been sent.
#[test]
fn what_is_sent_before_the_end_of_a_spell_is_known_goes_where_the_first_got_through_as_well() {
    let mut pair = Pair::over("auto", ms(50));
    pair.events(0..20);
    let began = pair.now;
    for id in 0..6 {
        pair.spell.push((Connection(id), began + ms(150), began + ms(900)));
    }
    let writes = pair.writes[0];
    pair.events(20..32);
    let written = pair.writes[0] - writes;
    pair.run(ms(100));
    for number in 20..32u8 {
        // 25 is the first that is made after it, and brings those before it.
        let made = began + ms(30 * u64::from(number.max(25) - 20));
        assert_eq!(pair.arrival(number), made + ms(50), "{number}");
    }
    // Twelve messages, eight of them twice, from when the spell was noticed until an answer comes; none went again by itself.
    assert!(written <= 20, "{written}");
    pair.run(ms(1500));
    assert_eq!(pair.numbers(1).len(), 32, "each once");
}

/// The last message of a gesture has none after it that would take along what is overdue.
#[test]
fn in_a_spell_the_last_message_goes_again_by_itself() {
    let mut pair = Pair::over("auto", ms(10));
    pair.events(0..20);
    let began = pair.now;
    for id in 0..6 {
        pair.spell.push((Connection(id), began + ms(100), began + ms(900)));
    }
    pair.events(20..24);
    pair.run(ms(400));
    for number in 20..24 {
        assert!(pair.arrival(number) <= began + ms(250), "{number} came {:?} after", pair.arrival(number) - began);
    }
}

#[test]
fn what_was_only_late_makes_patience_longer() {
    let mut pair = Pair::new("hedge");
    pair.events(0..20);
    for (number, stalls) in [(20, 1), (30, 1)] {
        // Acknowledged after 16 ms, where 14 are expected.
        pair.lose_segment(ms(11));
        pair.events(number..number + 10);
        let stats = pair.ends[0].stats(pair.now);
        assert_eq!((stats.stalls, stats.late), (stalls, 1));
    }
    assert_ne!(pair.ends[0].stats(pair.now).state, State::Lossy);
}

#[test]
fn auto_holds_back_where_round_trips_are_inflated() {
    let mut pair = Pair::new("auto");
    pair.events(0..10);
    pair.one_way = ms(60);
    pair.events(10..40);
    assert_eq!(pair.ends[0].stats(pair.now).state, State::Queued);
    let before = pair.ends[0].stats(pair.now).copies;
    pair.events(40..90);
    assert!(pair.ends[0].stats(pair.now).copies - before <= 1);
}

#[test]
fn reduction_sends_every_second_value_and_never_loses_the_last() {
    let mut pair = Pair::new("reduction-50");
    for number in 0..20u8 {
        pair.ends[0].send(pair.now, STATE, Kind::Latest, 0, &[number]).unwrap();
        pair.drain(0);
        pair.run(ms(30));
    }
    pair.run(ms(100));
    let mut expected: Vec<u8> = (0..20).step_by(2).collect();
    expected.push(19);
    assert_eq!(pair.numbers(1), expected);
    let delays: Vec<_> =
        pair.got[1][..10].iter().enumerate().map(|(k, g)| g.0 - pair.got[1][0].0 - ms(60) * k as u32).collect();
    assert!(delays.iter().all(|d| d.is_zero()), "what is sent is new: {delays:?}");
    assert_eq!(pair.ends[0].stats(pair.now).conflated, 9);
}

#[test]
fn reduction_leaves_events_alone() {
    let mut pair = Pair::new("reduction-66");
    pair.events(0..10);
    assert_eq!(pair.numbers(1), (0..10).collect::<Vec<_>>());
}

#[test]
fn a_receiver_that_misses_a_message_says_so_once_and_gets_three_tiny_segments() {
    let mut pair = Pair::new("trigger");
    for end in &mut pair.ends {
        end.settings.resume = false;
    }
    pair.events(0..5);
    let written = pair.writes[0];
    // The fifth came 25 ms ago; it is missed 50 ms after it came.
    pair.run(ms(24));
    assert_eq!(pair.writes[1], 0);
    pair.run(ms(500));
    assert_eq!(pair.writes[1], 1);
    assert_eq!(pair.writes[0] - written, 3);
    assert_eq!(pair.numbers(1).len(), 5);
}

#[test]
fn echo_sends_something_back_for_each_message() {
    let mut pair = Pair::new("echo");
    pair.ends[1].settings.resume = false;
    pair.events(0..10);
    assert_eq!(pair.writes, [10, 10]);
}

#[test]
fn nothing_is_lost_or_doubled_when_all_connections_are_lost_and_made_anew() {
    for name in ["plain", "hedge", "auto"] {
        let mut pair = Pair::new(name);
        for round in 0..3u8 {
            pair.events(round * 20..round * 20 + 10);
            // What is on its way now is lost with its connections.
            pair.event(round * 20 + 10);
            pair.parcels.clear();
            let ids: Vec<u32> = pair.ends[0].wires.iter().map(|wire| wire.id).collect();
            for id in &ids {
                for end in 0..2 {
                    pair.ends[end].handle_input(pair.now, Input::Closed(Connection(*id)));
                    pair.drain(end);
                }
            }
            for number in round * 20 + 11..round * 20 + 20 {
                pair.event(number);
            }
            pair.run(ms(50));
            pair.connect(100 + u32::from(round));
            pair.run(ms(300));
        }
        let mut numbers = pair.numbers(1);
        numbers.sort_unstable();
        assert_eq!(numbers, (0..60).collect::<Vec<_>>(), "{name}");
        assert_eq!(pair.ends[0].on_their_way(), 0, "{name}");
    }
}

#[test]
fn a_peer_that_is_not_ours_gets_one_connection() {
    let mut lonely = Messenger::new(SessionId::default(), settings("auto"));
    let input = Input::Opened { connection: Connection(0), rtt: None, introduce: true };
    lonely.handle_input(Instant::ZERO, input);
    assert_eq!(lonely.connections_wanted(), 1);
    assert!(lonely.received(Instant::ZERO, Connection(0), b"HTTP/1.1 400 Bad Request\r\n\r\n").is_err());
    assert_eq!(lonely.connections_wanted(), 1);
    assert_eq!(Pair::new("auto").ends[0].connections_wanted(), 6);
}

#[test]
fn where_nothing_can_be_written_values_are_replaced_and_events_push_back() {
    let mut blocked = Messenger::new(SessionId::default(), settings("plain"));
    let now = Instant::ZERO;
    for number in 0..5000u32 {
        blocked.send(now, STATE, Kind::Latest, u64::from(number % 3), &number.to_be_bytes()).unwrap();
    }
    assert_eq!(blocked.stats(now).conflated, 4997);
    for _ in 0..WINDOW {
        blocked.send(now, EVENT, Kind::Event, 0, &[0; 50]).unwrap();
    }
    assert_eq!(blocked.send(now, EVENT, Kind::Event, 0, &[0; 50]), Err(SendError::Full(1)));
    assert!(blocked.on_their_way() <= 2 * WINDOW);
}

#[test]
fn impossible_wishes_are_refused() {
    let mut end = Messenger::new(SessionId::default(), settings("plain"));
    let now = Instant::ZERO;
    assert_eq!(end.send(now, LaneId(64), Kind::Event, 0, &[]), Err(SendError::NoLane(64)));
    assert_eq!(
        end.send(now, EVENT, Kind::Event, 0, &vec![0; MAX_MESSAGE + 1]),
        Err(SendError::TooLong(MAX_MESSAGE + 1))
    );
    end.send(now, EVENT, Kind::Event, 0, &[]).unwrap();
    assert_eq!(end.send(now, EVENT, Kind::Ordered, 0, &[]), Err(SendError::OtherKind(1)));
}

#[test]
fn an_acknowledgement_of_what_was_never_sent_is_refused() {
    let mut pair = Pair::new("hedge");
    let mut counts = Counts::default();
    counts.push(0, 7);
    let mut bytes = Vec::new();
    Frame::Ack(counts).encode(&mut bytes);
    assert!(pair.ends[0].received(pair.now, Connection(0), &bytes).is_err());
}
