//! Equations 1 to 8 of paper 1, section IV: what the three ways to connect should take, from the times of their parts.
//!
//! Pure arithmetic, as printed. Equation 6 has no number in the paper's text and stands between 5 and 7.

use headstart_core::time::Duration;

/// Resolution delay of equation 3, *rd*: RFC 8305, section 8.
const RESOLUTION_DELAY: Duration = Duration::from_millis(50);
/// Connection attempt delay of equation 6, *cad*: RFC 8305, section 8.
const CONNECTION_ATTEMPT_DELAY: Duration = Duration::from_millis(250);

/// A handshake over one family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handshake {
    /// Until it was over, or had failed.
    pub took: Duration,
    /// Whether there was a connection.
    pub succeeded: bool,
}

/// The parts of connecting to one name, each measured by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parts {
    /// *R_A*: from the A query to its answer.
    pub a: Duration,
    /// *R_AAAA*.
    pub aaaa: Duration,
    /// *t_v4*.
    pub v4: Handshake,
    /// *t_v6*.
    pub v6: Handshake,
}

/// One way to connect, by the name of its race.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectMethod {
    /// Android's (ANDCO): equations 1 and 4.
    Sequential,
    /// iOS's (iHECO): equations 3 and 6.
    HappyEyeballs,
    /// The paper's (NGCO): equations 2 and 5.
    Simultaneous,
}

impl ConnectMethod {
    /// In the order of equation 9, the quickest first.
    pub const ALL: [Self; 3] = [Self::Simultaneous, Self::HappyEyeballs, Self::Sequential];

    /// The race that the equations are about.
    pub fn race(self) -> &'static str {
        match self {
            Self::Sequential => "sequential",
            Self::HappyEyeballs => "happy-eyeballs-v2",
            Self::Simultaneous => "simultaneous",
        }
    }

    /// Equations 1, 2 and 3: time to look a name up.
    pub fn lookup(self, parts: &Parts) -> Duration {
        match self {
            Self::Sequential => parts.aaaa + parts.a,
            Self::Simultaneous => parts.aaaa.max(parts.a),
            Self::HappyEyeballs => parts.aaaa.max(parts.a + RESOLUTION_DELAY),
        }
    }

    /// Equations 4, 5 and 6: time to connect; none if neither family does.
    pub fn connect(self, parts: &Parts) -> Option<Duration> {
        let Parts { v4, v6, .. } = *parts;
        // A family that does not connect is no match for one that does ("along with the history of connection failures").
        let v6_before = |v4_at: Duration| v6.succeeded && (!v4.succeeded || v6.took < v4_at);
        let v4_at = match self {
            Self::Sequential if v6.succeeded => return Some(v6.took),
            Self::Sequential => v4.took + v6.took,
            Self::Simultaneous => v4.took,
            Self::HappyEyeballs => v4.took + CONNECTION_ATTEMPT_DELAY,
        };
        match self {
            Self::Simultaneous | Self::HappyEyeballs if v6_before(v4_at) => Some(v6.took),
            _ => v4.succeeded.then_some(v4_at),
        }
    }

    /// Both together: the connectivity overhead.
    pub fn overhead(self, parts: &Parts) -> Option<Duration> {
        Some(self.lookup(parts) + self.connect(parts)?)
    }
}

/// Equation 7: what `simultaneous` gains over `sequential`, in milliseconds; below zero if it loses.
pub fn gain(parts: &Parts) -> Option<f64> {
    let ms = |way: ConnectMethod| way.overhead(parts).map(|d| d.as_secs_f64() * 1e3);
    Some(ms(ConnectMethod::Sequential)? - ms(ConnectMethod::Simultaneous)?)
}

/// Equation 8: the same in percent of `sequential`.
pub fn gain_percent(parts: &Parts) -> Option<f64> {
    let whole = ConnectMethod::Sequential.overhead(parts)?.as_secs_f64() * 1e3;
    Some(100.0 * gain(parts)? / whole)
}

/// Not the paper's: what `simultaneous` takes as it is described in section III, where each family connects as soon as its
/// own answer is there, and the program is told when both are.
pub fn each_family_by_itself(parts: &Parts) -> Option<Duration> {
    let Parts { a, aaaa, v4, v6 } = *parts;
    let over = |answer: Duration, handshake: Handshake| handshake.succeeded.then_some(answer + handshake.took);
    let connected = [over(a, v4), over(aaaa, v6)].into_iter().flatten().min()?;
    Some(connected.max(a).max(aaaa))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    fn handshake(n: u64) -> Handshake {
        Handshake { took: ms(n), succeeded: true }
    }

    /// A after 30 ms, AAAA after 50; IPv4 60 ms away, IPv6 100.
    fn parts() -> Parts {
        Parts { a: ms(30), aaaa: ms(50), v4: handshake(60), v6: handshake(100) }
    }

    #[test]
    fn lookups_are_the_sum_the_later_and_the_later_with_a_resolution_delay() {
        assert_eq!(ConnectMethod::Sequential.lookup(&parts()), ms(80));
        assert_eq!(ConnectMethod::Simultaneous.lookup(&parts()), ms(50));
        assert_eq!(ConnectMethod::HappyEyeballs.lookup(&parts()), ms(80));
        assert_eq!(ConnectMethod::HappyEyeballs.lookup(&Parts { aaaa: ms(90), ..parts() }), ms(90));
    }

    #[test]
    fn connecting_prefers_ipv6_or_the_faster_or_ipv6_within_the_attempt_delay() {
        let connect = |parts: &Parts| ConnectMethod::ALL.map(|way| way.connect(parts));
        assert_eq!(connect(&parts()), [Some(ms(60)), Some(ms(100)), Some(ms(100))]);
        let slow = Parts { v6: handshake(500), ..parts() };
        assert_eq!(connect(&slow), [Some(ms(60)), Some(ms(310)), Some(ms(500))]);
        let refused = Parts { v6: Handshake { took: ms(20), succeeded: false }, ..parts() };
        assert_eq!(connect(&refused), [Some(ms(60)), Some(ms(310)), Some(ms(80))]);
        let only_v6 = Parts { v4: Handshake { took: ms(20), succeeded: false }, ..parts() };
        assert_eq!(connect(&only_v6), [Some(ms(100)); 3]);
        let neither = Parts { v4: Handshake { took: ms(20), succeeded: false }, ..refused };
        assert_eq!(connect(&neither), [None; 3]);
    }

    #[test]
    fn the_gain_is_the_difference_of_the_two_sums() {
        // 180 ms in sequence, 110 at once.
        assert_eq!(gain(&parts()), Some(70.0));
        assert!((gain_percent(&parts()).unwrap() - 100.0 * 70.0 / 180.0).abs() < 1e-9);
        assert_eq!(each_family_by_itself(&parts()), Some(ms(90)), "30 + 60, and both answers are there at 50");
    }
}
