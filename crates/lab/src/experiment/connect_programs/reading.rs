//! What a reader may conclude from an outcome of `connect-programs`: the same words and figures for the terminal and the page of
//! `headstart demo`.

use super::{AGAIN, BARE, CUT, ENTRY, NETWORKS, OURS, TestNetwork};
use crate::experiment::{Outcome, Row, Series};
use crate::stats::median;
use std::fmt;

/// A comparison with the bare program, as readers see it: a network and the arm.
#[derive(Clone, Copy, Debug)]
pub struct View {
    tested: &'static TestNetwork,
    /// The arm under headstart.
    pub arm: &'static str,
}

/// All of them, those with most to gain first.
pub fn views() -> impl Iterator<Item = View> {
    let first = NETWORKS.iter().map(|tested| View { tested, arm: OURS });
    first.chain(NETWORKS.iter().filter(|tested| !tested.hard).map(|tested| View { tested, arm: AGAIN }))
}

impl View {
    /// What a reader calls it.
    pub fn title(&self) -> String {
        let later = if self.is_later() { ", later visits" } else { "" };
        format!("{}{later}", self.tested.title)
    }

    /// Whether it is about later visits.
    pub fn is_later(&self) -> bool {
        self.arm == AGAIN
    }

    /// The program of a condition of this network; none if it is another network's.
    pub fn program<'a>(&self, condition: &'a str) -> Option<&'a str> {
        condition.strip_prefix(self.tested.network)?.strip_prefix('-')
    }

    /// The conditions of this network with their programs, in the order in which rows are shown.
    pub fn programs(self) -> impl Iterator<Item = (&'static str, &'static str)> {
        ENTRY.conditions.iter().filter_map(move |condition| Some((*condition, self.program(condition)?)))
    }

    /// The rows of this comparison, with their programs.
    pub fn rows(self, outcome: &Outcome) -> impl Iterator<Item = (&str, &Row)> {
        let of_arm = outcome.rows.iter().filter(move |row| row.arm == self.arm && row.unit == "ms");
        of_arm.filter_map(move |row| Some((self.program(&row.condition)?, row)))
    }
}

/// The comparison where there is nothing to gain: first visits on the healthy network.
pub fn healthy() -> Option<View> {
    views().find(|view| !view.tested.hard && !view.is_later())
}

/// What a reader calls a program.
pub fn called(program: &str) -> &str {
    if program == "client" { "test client" } else { program }
}

/// Whether a program was stopped after so many milliseconds.
pub fn is_cut(ms: f64) -> bool {
    ms >= CUT.as_secs_f64() * 1e3
}

/// A time that people read: `64 ms`, `15.1 s`; one that was cut is at least that long: `> 20 s`.
pub fn time(ms: f64) -> String {
    match ms {
        ms if is_cut(ms) => format!("> {:.0} s", CUT.as_secs_f64()),
        ms if ms >= 1e3 => format!("{:.1} s", ms / 1e3),
        ms => format!("{ms:.0} ms"),
    }
}

/// How a program with headstart compares with the same one alone.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Effect {
    /// So many times faster; at least that if the bare program was cut.
    Faster(f64, bool),
    /// So many times slower.
    Slower(f64),
    /// The interval of the ratio contains 1, or the machine was busy and runs of the bare program differed by as much.
    NoDifference,
}

/// What a row of `outcome` says; none without a ratio.
pub fn change(row: &Row, outcome: &Outcome) -> Option<Effect> {
    let ratio = row.ratio.filter(|ratio| *ratio > 0.0)?;
    let contains_one = row.interval.is_some_and(|i| (i.lo..=i.hi).contains(&1.0));
    let difference = row.baseline.map(|baseline| (row.ours - baseline).abs());
    let is_noise = || difference <= spread(outcome, |condition| condition == row.condition).or_else(|| noise(outcome));
    Some(match ratio {
        _ if contains_one || !outcome.valid && is_noise() => Effect::NoDifference,
        r if r < 1.0 => Effect::Faster(1.0 / r, row.baseline.is_some_and(is_cut)),
        r => Effect::Slower(r),
    })
}

/// At most 19 characters: what a line of 80 has room for.
impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Faster(times, cut) => {
                let at_least = if cut { "> " } else { "" };
                let digits = [1.1, 10.0].iter().filter(|limit| times < **limit).count();
                write!(f, "{at_least}{times:.digits$}x faster")
            }
            Self::Slower(times) => write!(f, "{times:.2}x slower"),
            Self::NoDifference => f.write_str("no clear difference"),
        }
    }
}

/// What a first visit costs where there is nothing to gain, in milliseconds: the median over the programs. On a busy machine it is as good
/// as [`noise`] is small.
pub fn price(outcome: &Outcome) -> Option<f64> {
    let rows = healthy()?;
    let longer: Vec<f64> = rows.rows(outcome).filter_map(|(_, row)| Some(row.ours - row.baseline?)).collect();
    median(&longer).ok()
}

/// By how much runs of one bare program on the healthy network differed, in milliseconds: that of the program that differed most.
/// Nothing was different between these runs, so this is the size of noise.
pub fn noise(outcome: &Outcome) -> Option<f64> {
    let view = healthy()?;
    spread(outcome, |condition| view.program(condition).is_some())
}

/// By how much runs of a bare program differed in one of the conditions; none if none was run twice.
fn spread(outcome: &Outcome, conditions: impl Fn(&str) -> bool) -> Option<f64> {
    let alike = outcome.samples.iter().filter(|s| s.arm == BARE && conditions(&s.condition));
    let spread = |series: &Series| {
        let values = series.present();
        let (least, most) = (values.iter().copied().reduce(f64::min)?, values.iter().copied().reduce(f64::max)?);
        (values.len() > 1).then_some(most - least)
    };
    alike.filter_map(spread).reduce(f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Interval;

    fn row(baseline: f64, ours: f64) -> Row {
        let ratio = ours / baseline;
        Row {
            baseline: Some(baseline),
            ratio: Some(ratio),
            interval: Some(Interval { lo: 0.98 * ratio, hi: 1.02 * ratio }),
            ..Row::measured("healthy-curl", "time to fetch a page, median", "ms", OURS, ours)
        }
    }

    fn outcome(valid: bool) -> Outcome {
        let mut outcome = Outcome::new(ENTRY.name, 1);
        outcome.samples = vec![Series::new("healthy-curl", "time", "ms", BARE, [64.0, 60.0, 80.0])];
        if !valid {
            outcome.invalidate("busy");
        }
        outcome
    }

    fn change_text(baseline: f64, ours: f64, valid: bool) -> String {
        change(&row(baseline, ours), &outcome(valid)).unwrap().to_string()
    }

    #[test]
    fn a_time_that_was_cut_is_at_least_that_long_and_so_is_the_gain() {
        assert_eq!([time(64.4), time(15_080.0), time(20_003.0)], ["64 ms", "15.1 s", "> 20 s"]);
        assert_eq!(change_text(20_003.0, 313.0, true), "> 64x faster");
        assert_eq!(change_text(15_080.0, 114.0, true), "132x faster");
    }

    #[test]
    fn a_ratio_whose_interval_contains_one_is_no_difference() {
        let unclear = Row { interval: Some(Interval { lo: 0.9, hi: 1.1 }), ..row(64.0, 65.0) };
        assert_eq!(change(&unclear, &outcome(true)), Some(Effect::NoDifference));
        assert_eq!(change(&unclear, &outcome(false)), Some(Effect::NoDifference));
        assert_eq!([change_text(60.0, 66.0, true), change_text(66.0, 36.0, true)], ["1.10x slower", "1.8x faster"]);
        assert_eq!(change_text(287.0, 275.0, true), "1.04x faster");
    }

    #[test]
    fn while_the_machine_is_busy_what_bare_runs_differ_by_says_nothing() {
        assert_eq!([change_text(64.0, 84.0, false), change_text(64.0, 50.0, false)], ["no clear difference"; 2]);
        assert_eq!([change_text(64.0, 40.0, false), change_text(64.0, 160.0, false)], ["1.6x faster", "2.50x slower"]);
        assert_eq!(
            [change_text(15_080.0, 114.0, false), change_text(64.0, 84.0, true)],
            ["132x faster", "1.31x slower"]
        );
        assert!(
            [change_text(64.0, 84.0, false), change_text(20_003.0, 20.0, true)].iter().all(|words| words.len() <= 19)
        );
    }

    #[test]
    fn the_price_is_the_median_program_s_and_noise_is_what_bare_runs_differ_by() {
        let mut outcome = Outcome::new(ENTRY.name, 1);
        outcome.rows = [65.0, 66.0, 90.0].map(|ours| row(64.0, ours)).to_vec();
        let series = |condition: &str, arm: &str, values: [f64; 3]| Series::new(condition, "time", "ms", arm, values);
        outcome.samples = vec![
            series("healthy-curl", BARE, [64.0, 60.0, 71.0]),
            series("healthy-wget", BARE, [64.0, 64.0, 65.0]),
            series("healthy-curl", OURS, [64.0, 60.0, 900.0]),
            series("ipv6-black-hole-curl", BARE, [64.0, 60.0, 900.0]),
        ];
        assert_eq!((price(&outcome), noise(&outcome)), (Some(2.0), Some(11.0)));
    }

    #[test]
    fn every_condition_is_shown_once_as_a_first_visit() {
        let first: Vec<_> = views().filter(|view| !view.is_later()).flat_map(View::programs).collect();
        let mut conditions: Vec<_> = first.iter().map(|(condition, _)| *condition).collect();
        conditions.sort_unstable();
        let mut all = ENTRY.conditions.to_vec();
        all.sort_unstable();
        assert_eq!(conditions, all);
    }
}
