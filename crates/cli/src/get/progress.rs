//! How far a fetch is, on standard error: a bar with rate and time left, on a terminal only.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// With a known length, and without one.
const KNOWN: &str = "[{bar:24}] {percent:>3} % of {decimal_total_bytes}, {decimal_bytes_per_sec}, {eta} left";
const UNKNOWN: &str = "{decimal_bytes}, {decimal_bytes_per_sec}";

/// The bar of a fetch that begins now, with `before` bytes of `whole` there already.
pub fn bar(quiet: bool, before: u64, whole: Option<u64>) -> ProgressBar {
    // On anything but a terminal it draws nothing by itself.
    let target = if quiet { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr_with_hz(10) };
    let bar = ProgressBar::with_draw_target(whole, target).with_position(before);
    let style = ProgressStyle::with_template(if whole.is_some() { KNOWN } else { UNKNOWN });
    // Of the bytes that come now: those that were there before say nothing about the rate.
    bar.reset_eta();
    style.map_or(bar.clone(), |style| bar.with_style(style.progress_chars("##.")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_are_understood_and_what_was_there_counts() {
        for template in [KNOWN, UNKNOWN] {
            assert!(ProgressStyle::with_template(template).is_ok(), "{template}");
        }
        let bar = bar(true, 500, Some(1000));
        bar.set_position(750);
        assert_eq!((bar.position(), bar.length(), bar.is_hidden()), (750, Some(1000), true));
    }
}
