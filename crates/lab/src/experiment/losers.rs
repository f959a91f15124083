//! The pages that lose: a mean that gains may hide some that are slower than without anything.

use super::target::Target;
use super::{Outcome, Row, Series};
use crate::stats::{self, Pairing, Statistic};

/// A page that is slower by less is not slower, in percent.
pub const SLOWER: f64 = 1.0;

/// By how much each page is slower than under the baseline, in percent; pages that failed under either are left out.
pub fn percent(ours: &Series, bare: &Series) -> Vec<f64> {
    let pairs = ours.values.iter().zip(&bare.values).filter_map(|(a, b)| (*a).zip(*b));
    pairs.filter(|(_, b)| *b > 0.0).map(|(a, b)| 100.0 * (a / b - 1.0)).collect()
}

/// The page that loses most, and the share of those that lose more than [`SLOWER`]; nothing without pages.
pub fn rows(ours: &Series, bare: &Series) -> Vec<Row> {
    let percent = percent(ours, bare);
    let Some(worst) = percent.iter().copied().max_by(f64::total_cmp) else { return Vec::new() };
    let share = 100.0 * percent.iter().filter(|p| **p > SLOWER).count() as f64 / percent.len() as f64;
    let row = |metric: &str, value: f64| Row::measured(&ours.condition, metric, "%", &ours.arm, value);
    vec![
        row("slower than bare, the page that loses most", worst),
        row("pages slower than bare by more than 1 %", share),
    ]
}

/// How many pages are surely slower, those whose interval of the paired ratio lies wholly above 1.01, and the geometric mean of all pages'
/// ratios. The values of each page, so many as `loads` says, follow each other; a page needs enough of them for an interval.
pub fn surely_slower(outcome: &mut Outcome, (ours, bare): (&Series, &Series), loads: &[usize], seed: u64) {
    let (mut at, mut slower, mut ratios) = (0, 0, Vec::new());
    for loads in loads {
        let page = at..at + loads;
        at = page.end;
        let pairs = ours.values[page.clone()].iter().zip(&bare.values[page]).filter_map(|(a, b)| (*a).zip(*b));
        let (a, b): (Vec<f64>, Vec<f64>) = pairs.unzip();
        let Ok(ratio) = stats::ratio(&a, &b, Statistic::Mean, Pairing::Paired, seed) else { continue };
        let Some(interval) = ratio.interval else { continue };
        slower += u64::from(interval.lo > 1.0 + SLOWER / 100.0);
        ratios.push(ratio.value.ln());
    }
    if ratios.is_empty() {
        return;
    }
    let (condition, arm) = (&ours.condition, &ours.arm);
    let mean = (ratios.iter().sum::<f64>() / ratios.len() as f64).exp();
    let row = |metric: &str, value| Row::measured(condition, metric, "", arm, value);
    outcome.rows.push(row("pages whose interval lies wholly above 1.01", slower as f64));
    outcome.rows.push(row("ratio to the baseline, geometric mean of all pages", mean));
    let what = format!("{condition}, {arm}, pages of {} whose interval lies wholly above 1.01", ratios.len());
    outcome.notes.push(Target::AtMost(0.0).note(&what, slower as f64, "pages"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_page_and_the_share_of_slower_ones_are_told_and_failed_pages_are_left_out() {
        let of = |arm: &str, values: [Option<f64>; 5]| Series::with_failures("c", "page load time", "ms", arm, values);
        let bare = of("bare", [Some(100.0), Some(200.0), None, Some(100.0), Some(100.0)]);
        let ours = of("all", [Some(103.0), Some(100.0), Some(1e6), Some(100.5), None]);
        let told: Vec<_> = rows(&ours, &bare).into_iter().map(|row| (row.arm, row.ours.round())).collect();
        assert_eq!(told, [("all".to_owned(), 3.0), ("all".to_owned(), 33.0)]);
        assert!(rows(&of("all", [None; 5]), &bare).is_empty());
    }

    #[test]
    fn a_page_that_is_surely_slower_is_counted_and_one_that_may_be_is_not() {
        let of = |arm: &str, values: Vec<f64>| Series::new("c", "page load time", "ms", arm, values);
        let near = |around: f64, far: f64| (0..8).map(move |n| around + if n % 2 == 0 { far } else { -far });
        let bare = of("bare", near(100.0, 1.0).chain(near(100.0, 1.0)).collect());
        let ours = of("all", near(121.0, 1.0).chain(near(100.0, 60.0)).collect());
        let mut outcome = Outcome::new("x", 1);
        surely_slower(&mut outcome, (&ours, &bare), &[8, 8], 1);
        let told: Vec<_> = outcome.rows.iter().map(|row| (row.ours * 100.0).round()).collect();
        assert_eq!(told, [100.0, 110.0]);
        let mut outcome = Outcome::new("x", 1);
        surely_slower(&mut outcome, (&of("all", vec![1.0]), &of("bare", vec![1.0])), &[1], 1);
        assert!(outcome.rows.is_empty(), "one load has no interval");
    }
}
