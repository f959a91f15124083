//! The clock: the only place of headstart that reads time or waits for it.
//!
//! A [`Clock`] turns the monotonic clock of the kernel into the moments of `headstart_core::time`, counted from its own
//! creation. Copies share the origin, so moments of one clock may be compared across threads.

use headstart_core::time::{Duration, Instant};
use std::time::SystemTime;

/// Below this distance a wait spins instead of sleeping. 60 us: wake-ups of an idle virtual machine come 15-50 us late
/// (measured; see the emulator), so sleeping any closer to the target would overshoot it.
pub const SPIN: Duration = Duration::from_micros(60);

/// A monotonic clock whose origin is its creation.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    origin: std::time::Instant,
}

impl Default for Clock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock {
    /// A clock that starts at zero now.
    #[allow(clippy::disallowed_methods)]
    pub fn new() -> Self {
        Self { origin: std::time::Instant::now() }
    }

    /// The origin, for libraries that count in the standard library's moments. Virtual time may start there too: what is added
    /// to it is no real clock's time.
    pub fn origin(&self) -> std::time::Instant {
        self.origin
    }

    /// The time since the origin.
    pub fn now(&self) -> Instant {
        Instant::from_nanos(u64::try_from(self.origin.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    /// The moment of this clock at which the wall clock showed `stamp` (time since the Unix epoch), for timestamps that
    /// the kernel took a short while ago. Never before that moment, and never in the future: the wall clock is read first, so a
    /// pause between the two readings can only make the answer later.
    pub fn moment_of(&self, stamp: Duration) -> Instant {
        let wall = wall().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let now = self.now();
        // A stamp from the future means that the wall clock was set meanwhile.
        let age = wall.checked_sub(stamp).unwrap_or_default();
        Instant::from_nanos(now.as_nanos().saturating_sub(u64::try_from(age.as_nanos()).unwrap_or(0)))
    }

    /// Sleeps until `at`; returns at once if that is past. Never returns early; may return late (see [`Self::wait_until`]).
    #[allow(clippy::disallowed_methods)]
    pub fn sleep_until(&self, at: Instant) {
        loop {
            let left = at.since(self.now());
            if left.is_zero() {
                return;
            }
            std::thread::sleep(left);
        }
    }

    /// Sleeps until [`SPIN`] before `at` and spins the rest. Never returns early.
    pub fn wait_until(&self, at: Instant) {
        let doze = at.since(self.now()).saturating_sub(SPIN);
        if !doze.is_zero() {
            self.sleep_until(self.now() + doze);
        }
        while self.now() < at {
            std::hint::spin_loop();
        }
    }

    /// Sleeps for `d`.
    pub fn sleep(&self, d: Duration) {
        self.sleep_until(self.now() + d);
    }
}

/// The wall clock, for dates in reports; never for intervals.
#[allow(clippy::disallowed_methods)]
pub fn wall() -> SystemTime {
    SystemTime::now()
}

/// Time that the host has slept since it was started: CLOCK_BOOTTIME counts it, CLOCK_MONOTONIC (and every [`Clock`]) does
/// not (clock_gettime(2)). Zero within the resolution of two readings where it has not.
pub fn slept() -> Duration {
    use rustix::time::{ClockId, clock_gettime};
    let since_boot = |id| {
        let time = clock_gettime(id);
        Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
    };
    let awake = since_boot(ClockId::Monotonic);
    since_boot(ClockId::Boottime).saturating_sub(awake)
}

/// Time that the calling thread has spent on a processor, in its own code and in the kernel's.
pub fn thread_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_never_ends_before_its_moment() {
        let clock = Clock::new();
        for micros in [0, 10, 100, 2000] {
            let at = clock.now() + Duration::from_micros(micros);
            clock.wait_until(at);
            assert!(clock.now() >= at);
        }
    }

    #[test]
    fn a_timestamp_of_the_wall_clock_is_never_taken_for_an_earlier_moment() {
        let clock = Clock::new();
        let before = clock.now();
        let stamp = wall().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        clock.sleep(Duration::from_millis(2));
        // 1 ms: the two clocks may drift apart by a little while one of them is being adjusted.
        let moment = clock.moment_of(stamp);
        assert!(moment + Duration::from_millis(1) >= before && moment <= clock.now());
        assert!(clock.moment_of(stamp + Duration::from_secs(3600)) <= clock.now(), "nothing comes from the future");
    }

    #[test]
    fn a_host_that_stays_awake_has_slept_no_longer_than_before() {
        let before = slept();
        let clock = Clock::new();
        clock.sleep(Duration::from_millis(2));
        // The two clocks are read one after the other, and a busy host may pause us in between; not every time.
        assert!((0..1000).any(|_| slept().abs_diff(before) < Duration::from_secs(1)));
    }

    #[test]
    fn copies_of_a_clock_share_its_origin() {
        let clock = Clock::new();
        let copy = clock;
        let before = clock.now();
        clock.sleep(Duration::from_millis(1));
        assert!(copy.now() - before >= Duration::from_millis(1));
    }
}
