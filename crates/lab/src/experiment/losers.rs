//! The pages that lose: a mean that gains may hide some that are slower than without anything.

use super::{Row, Series};

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
}
