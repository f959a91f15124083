//! What a network that was asked is worth: grades and figures from round trips, idle and under load.
//!
//! Jitter by RFC 3550 (section 6.4.1, as a plain mean), round trips a minute by draft-ietf-ippm-responsiveness, the grades of
//! added delay that bufferbloat tests give. Pure: round trips in, figures out.

/// Round trips, in milliseconds, in the order in which they were made.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RoundTrips(pub Vec<f64>);

impl RoundTrips {
    /// The value that a share of them does not exceed; none without any.
    pub fn quantile(&self, share: f64) -> Option<f64> {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        let place = (share.clamp(0.0, 1.0) * sorted.len() as f64).ceil() as usize;
        sorted.get(place.saturating_sub(1)).copied()
    }

    /// The middle one.
    pub fn median(&self) -> Option<f64> {
        self.quantile(0.5)
    }

    /// How much one differs from the next, on average.
    pub fn jitter(&self) -> Option<f64> {
        let pairs = self.0.windows(2).map(|pair| (pair[1] - pair[0]).abs());
        (self.0.len() > 1).then(|| pairs.sum::<f64>() / (self.0.len() - 1) as f64)
    }

    /// Round trips a minute: how many one after the other would fit.
    pub fn a_minute(&self) -> Option<f64> {
        let mean = self.0.iter().sum::<f64>() / self.0.len().max(1) as f64;
        (mean > 0.0).then(|| 60_000.0 / mean)
    }
}

/// The grades, from the best: below so many milliseconds of added delay.
pub const GRADES: [(&str, f64); 5] = [("A+", 5.0), ("A", 30.0), ("B", 60.0), ("C", 200.0), ("D", 400.0)];

/// The grade of a network whose round trips take longer by `added` milliseconds while it is busy.
pub fn grade(added: f64) -> &'static str {
    GRADES.iter().find(|(_, below)| added < *below).map_or("F", |(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_round_trips() {
        let trips = RoundTrips(vec![10.0, 14.0, 12.0, 20.0]);
        assert_eq!((trips.median(), trips.quantile(1.0), trips.quantile(0.0)), (Some(12.0), Some(20.0), Some(10.0)));
        assert_eq!(trips.jitter(), Some(14.0 / 3.0));
        assert_eq!(RoundTrips(vec![30.0, 10.0]).a_minute(), Some(3000.0));
    }

    #[test]
    fn of_nothing_nothing_is_known() {
        let none = RoundTrips::default();
        assert_eq!((none.median(), none.jitter(), none.a_minute()), (None, None, None));
        assert_eq!(RoundTrips(vec![1.0]).jitter(), None);
    }

    #[test]
    fn grades_get_worse_with_added_delay() {
        let grades: Vec<_> = [-1.0, 4.9, 5.0, 59.0, 60.0, 399.0, 400.0].map(grade).to_vec();
        assert_eq!(grades, ["A+", "A+", "A", "B", "C", "D", "F"]);
    }
}
