//! Controlled delay: drops from the head once packets have waited too long for too long.
//!
//! RFC 8289, section 5. The queue may stand above `target` for `interval` before the first drop; while it stays above,
//! drops come closer together by the inverse square root of their count, so that the rate of one loss-based flow falls in
//! proportion. A next bad spell soon after the last begins where that ended. What never happens here: the last packet of a
//! queue is never dropped, nor one that waited less than `target`.

use headstart_core::time::{Duration, Instant};

use super::{Backlog, DEFAULT_PACKETS, Head, Queue, QueueSpec};
use crate::quantity::{self, Room};
use crate::spec::split;
use crate::{BadModel, Entry, Files};

const NAME: &str = "codel";
const FORM: &str = "[TARGET:INTERVAL[:ROOM]]";
/// 5 ms: RFC 8289, section 4.2, 5 to 10 % of the interval.
pub const TARGET: Duration = Duration::from_millis(5);
/// 100 ms: RFC 8289, section 4.3, about the largest usual round-trip time.
pub const INTERVAL: Duration = Duration::from_millis(100);
/// A spell that starts within so many intervals after the last drop time goes on from its count: RFC 8289, section 5.5.
const REMEMBERED_INTERVALS: u32 = 16;

pub(super) const ENTRY: Entry<dyn Queue> = Entry {
    name: NAME,
    what: "drops from the head once packets have waited more than TARGET (5ms) for INTERVAL (100ms); ROOM of 1000p",
    source: "RFC 8289; Linux's `codel` for the room",
    parameters: FORM,
    example: "5ms:100ms:1000p",
    parse,
};

/// Controlled delay with `room` beyond which it drops what comes.
pub fn codel(target: Duration, interval: Duration, room: Room) -> QueueSpec {
    let shown = match room {
        Room::Packets(limit) => format!("{limit}p"),
        Room::Bytes(limit) => format!("{limit}b"),
    };
    let text = format!("{}:{}:{shown}", quantity::show_duration(target), quantity::show_duration(interval));
    QueueSpec::new(NAME, text, move || Box::new(Codel::new(target, interval, room)))
}

fn parse(text: &str, _: &mut Files<'_>) -> Result<QueueSpec, BadModel> {
    let parts = split(text, NAME, FORM, 0..=3)?;
    let read = |index: usize, default: Duration| parts.get(index).map_or(Ok(default), |part| quantity::duration(part));
    if parts.len() == 1 {
        return Err(BadModel::Arity { model: NAME, form: FORM, got: 1 });
    }
    let (target, interval) = (read(0, TARGET)?, read(1, INTERVAL)?);
    if interval.is_zero() || target > interval {
        let reason = "the interval must be above zero and not below the target: write e.g. codel:5ms:100ms";
        return Err(BadModel::Senseless { model: NAME, reason });
    }
    let room = parts.get(2).map_or(Ok(Room::Packets(DEFAULT_PACKETS)), |part| quantity::room(part))?;
    Ok(codel(target, interval, room))
}

/// The names are those of the RFC's pseudo-code.
struct Codel {
    target: Duration,
    interval: Duration,
    room: Room,
    /// The largest packet seen, in bytes; the RFC would have the interface's MTU.
    max_packet: usize,
    /// When the sojourn time will have been above the target for an interval; `None` while it is below.
    first_above_time: Option<Instant>,
    /// Whether a spell of drops is on.
    dropping: bool,
    /// When the next drop of the spell, or of the last one, is due.
    drop_next: Instant,
    /// Drops since the spell began.
    count: u32,
    /// `count` as the spell began.
    last_count: u32,
}

impl Codel {
    fn new(target: Duration, interval: Duration, room: Room) -> Self {
        Self {
            target,
            interval,
            room,
            max_packet: 0,
            first_above_time: None,
            dropping: false,
            drop_next: Instant::ZERO,
            count: 0,
            last_count: 0,
        }
    }

    /// Whether `head` may be dropped at `now`; also keeps track of how long the queue has been bad.
    fn ok_to_drop(&mut self, now: Instant, head: Option<Head>) -> bool {
        let bad = head.is_some_and(|head| {
            self.max_packet = self.max_packet.max(head.bytes);
            now.since(head.arrival) >= self.target && head.behind.bytes > self.max_packet
        });
        if !bad {
            self.first_above_time = None;
            return false;
        }
        match self.first_above_time {
            None => {
                self.first_above_time = Some(now + self.interval);
                false
            }
            Some(time) => now >= time,
        }
    }

    /// The drop after one at `at`, the `count`-th of its spell.
    fn control_law(&self, at: Instant) -> Instant {
        let nanos = self.interval.as_nanos() as f64 / f64::from(self.count.max(1)).sqrt();
        at + Duration::from_nanos(nanos.round() as u64)
    }
}

impl Queue for Codel {
    fn admits(&mut self, _: Instant, bytes: usize, backlog: Backlog) -> bool {
        match self.room {
            Room::Packets(limit) => backlog.packets < limit,
            Room::Bytes(limit) => backlog.bytes.saturating_add(bytes) <= limit,
        }
    }

    fn drops_heads(&self) -> bool {
        true
    }

    fn drops(&mut self, now: Instant, heads: &mut dyn Iterator<Item = Head>) -> usize {
        let mut drops = 0;
        let mut ok = self.ok_to_drop(now, heads.next());
        if self.dropping {
            self.dropping = ok;
            while self.dropping && now >= self.drop_next {
                drops += 1;
                self.count = self.count.saturating_add(1);
                ok = self.ok_to_drop(now, heads.next());
                self.dropping = ok;
                if ok {
                    self.drop_next = self.control_law(self.drop_next);
                }
            }
        } else if ok {
            drops = 1;
            self.ok_to_drop(now, heads.next());
            self.dropping = true;
            let delta = self.count.saturating_sub(self.last_count);
            let recent = now.since(self.drop_next) < self.interval.saturating_mul(REMEMBERED_INTERVALS);
            self.count = if delta > 1 && recent { delta } else { 1 };
            self.drop_next = self.control_law(now);
            self.last_count = self.count;
        }
        drops
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn at(millis: f64) -> Instant {
        Instant::from_nanos((millis * MS as f64) as u64)
    }

    fn fresh() -> Codel {
        Codel::new(TARGET, INTERVAL, Room::Packets(1000))
    }

    /// Takes the head at `now` from a long queue whose packets have all waited `sojourn_ms`; says how many went before.
    fn take(queue: &mut Codel, now: Instant, sojourn_ms: u64) -> usize {
        let arrival = Instant::from_nanos(now.as_nanos() - sojourn_ms * MS);
        let behind = Backlog { packets: 100, bytes: 150_000 };
        queue.drops(now, &mut std::iter::repeat(Head { arrival, bytes: 1500, behind }))
    }

    #[test]
    fn a_queue_below_its_target_never_drops() {
        let mut queue = fresh();
        assert!((1..5000).all(|ms| take(&mut queue, at(1000.0 + ms as f64), 4) == 0));
        assert!(!queue.dropping);
    }

    #[test]
    fn the_first_drop_comes_an_interval_after_the_queue_went_above() {
        let mut queue = fresh();
        assert!((0..100).all(|ms| take(&mut queue, at(1000.0 + f64::from(ms)), 5) == 0));
        assert_eq!(take(&mut queue, at(1100.0), 5), 1);
        assert!(queue.dropping);
    }

    #[test]
    fn one_packet_below_the_target_starts_the_interval_anew() {
        let mut queue = fresh();
        assert!((0..99).all(|ms| take(&mut queue, at(1000.0 + f64::from(ms)), 50) == 0));
        assert_eq!(take(&mut queue, at(1099.0), 4), 0);
        assert!((0..100).all(|ms| take(&mut queue, at(1100.0 + f64::from(ms)), 50) == 0));
        assert_eq!(take(&mut queue, at(1200.0), 50), 1);
    }

    #[test]
    fn drops_come_closer_by_the_square_root_of_their_count() {
        let mut queue = fresh();
        let mut drops = Vec::new();
        for tenth in 0..10_000u32 {
            let now = at(1000.0 + f64::from(tenth) / 10.0);
            drops.extend(std::iter::repeat_n(now, take(&mut queue, now, 20)));
        }
        // The first at 100 ms; then each 100 / sqrt(n) ms, seen at the next tenth of a millisecond.
        let mut due = 1100.0;
        for (n, seen) in drops.iter().enumerate() {
            let late = seen.as_millis_f64() - due;
            assert!((-1e-6..0.11).contains(&late), "drop {n} is {late} ms late");
            due += 100.0 / ((n + 1) as f64).sqrt();
        }
        // The sum of 1/sqrt(k) to n is about 2 sqrt(n) - 1.46: 900 ms make some 26.
        assert!((25..=28).contains(&drops.len()), "{}", drops.len());
    }

    #[test]
    fn overdue_drops_are_made_up_for_at_once() {
        let mut queue = fresh();
        take(&mut queue, at(1000.0), 20);
        assert_eq!(take(&mut queue, at(1100.0), 20), 1);
        // Due at 1200, 1270.7 and 1328.4: all three at the next dequeue.
        assert_eq!(take(&mut queue, at(1330.0), 20), 3);
        assert_eq!((queue.count, queue.dropping), (4, true));
        assert!((queue.drop_next.as_millis_f64() - 1378.45).abs() < 0.01, "{:?}", queue.drop_next);
    }

    #[test]
    fn the_spell_ends_with_the_first_packet_below_the_target_and_a_soon_next_one_goes_on_from_its_count() {
        let spell = |queue: &mut Codel, from: f64, length: u32| {
            (0..=length).map(|ms| take(queue, at(from + f64::from(ms)), 20)).sum::<usize>()
        };
        let mut queue = fresh();
        assert_eq!(spell(&mut queue, 1000.0, 400), 5);
        assert_eq!(take(&mut queue, at(1401.0), 1), 0);
        assert!(!queue.dropping);
        let mut later = Codel { first_above_time: None, ..queue };
        let mut soon = Codel { ..later };
        // Soon: four drops after the spell's first, so the next spell starts at a count of four: the second drop comes
        // after 50 ms.
        assert_eq!(spell(&mut soon, 1500.0, 100), 1);
        assert_eq!((soon.count, soon.last_count), (4, 4));
        assert_eq!(spell(&mut soon, 1601.0, 50), 1);
        // Sixteen intervals later it starts from one: after 100 ms.
        assert_eq!(spell(&mut later, 3400.0, 100), 1);
        assert_eq!((later.count, later.last_count), (1, 1));
        assert_eq!(spell(&mut later, 3501.0, 50), 0);
    }

    #[test]
    fn what_makes_up_less_than_a_packet_behind_the_head_is_never_dropped() {
        let mut queue = fresh();
        for ms in 0..1000 {
            let now = at(1000.0 + f64::from(ms));
            let head = |behind| Head { arrival: Instant::ZERO, bytes: 1500, behind };
            let mut heads = [head(Backlog { packets: 1, bytes: 1500 }), head(Backlog::default())].into_iter();
            assert_eq!(queue.drops(now, &mut heads), 0);
        }
    }

    #[test]
    fn an_emptied_queue_is_below_its_target() {
        let mut queue = fresh();
        take(&mut queue, at(1000.0), 20);
        assert_eq!(queue.drops(at(1050.0), &mut std::iter::empty()), 0);
        assert_eq!(take(&mut queue, at(1100.0), 20), 0);
    }

    #[test]
    fn parameters_have_the_defaults_of_the_rfc_and_nonsense_is_refused() {
        let read = |text| parse(text, &mut |_| Err(String::new()));
        assert_eq!(read(""), Ok(codel(TARGET, INTERVAL, Room::Packets(1000))));
        assert_eq!(read("").unwrap().to_string(), "codel:5ms:100ms:1000p");
        assert_eq!(read("1ms:20ms:64kb"), Ok(codel(TARGET / 5, INTERVAL / 5, Room::Bytes(64_000))));
        assert!(read("5ms:5ms").is_ok());
        assert!(read("5ms").is_err());
        assert!(read("5ms:1ms").is_err());
        assert!(read("0:0").is_err());
        assert!(read("5ms:100ms:0p").is_err());
    }

    #[test]
    fn what_finds_no_room_is_refused() {
        let admits =
            |room, packets, bytes| Codel::new(TARGET, INTERVAL, room).admits(at(0.0), 1500, Backlog { packets, bytes });
        assert!(admits(Room::Packets(3), 2, 1 << 30) && !admits(Room::Packets(3), 3, 0));
        assert!(admits(Room::Bytes(4000), 99, 2500) && !admits(Room::Bytes(4000), 0, 2501));
    }
}
