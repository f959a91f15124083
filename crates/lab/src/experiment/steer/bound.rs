//! What no steering can beat: one channel in the place of two.
//!
//! It has the rates of both together and the shorter of their delays; nothing is lost on it, nothing jitters, and no tunnel
//! adds a byte. Whatever a policy does with a packet, it arrives no sooner than here. The transport's own luck stays: CUBIC may
//! leave slow start elsewhere on a shorter path (docs/decisions/0025), so that a single page may still be ahead of it.

use super::network::Network;
use crate::experiment::target::Target;
use crate::sim::mean_rate;
use headstart_link::{ParseError, parse, quantity};

/// That channel of `network`, as a text of `headstart_link`.
pub fn pooled(network: &Network) -> Result<String, ParseError> {
    let (fat, fast) = (parse(network.fat)?.0, parse(network.fast)?.0);
    let rate = quantity::show_rate(mean_rate(&fat) + mean_rate(&fast));
    let delay = fat.least_delay().min(fast.least_delay()).as_nanos();
    Ok(format!("rate={rate},delay={delay}ns,queue=infinite"))
}

/// The verdict on a target of at least `goal`, where the bound has `most`: a goal beyond the bound is said to be out of reach.
pub fn note(what: &str, value: f64, goal: f64, most: f64, unit: &str) -> String {
    if value < goal && most < goal {
        return format!(
            "{what}: {value:.2} {unit}, target at least {goal} {unit}: beyond the bound, which has {most:.2} {unit}"
        );
    }
    Target::AtLeast(goal).note(what, value, unit)
}

#[cfg(test)]
mod tests {
    use super::super::network::{BASE, SWEEP};
    use super::*;

    #[test]
    fn it_has_the_rates_of_both_and_the_shorter_delay_and_loses_nothing() {
        // A rate is told by what a megabyte takes, in whole nanoseconds.
        let (link, _) = parse(&pooled(&BASE).unwrap()).unwrap();
        assert!(mean_rate(&link).abs_diff(1_502_000_000) < 1_000 && link.least_delay().as_nanos() == 2_500_000);
        for network in SWEEP {
            let (up, down) = parse(&pooled(&network).unwrap()).unwrap();
            let channels = [network.fat, network.fast].map(|text| parse(text).unwrap());
            for (link, channel) in channels.iter().flat_map(|(u, d)| [(&up, u), (&down, d)]) {
                assert!(mean_rate(link) > mean_rate(channel) && link.least_delay() <= channel.least_delay());
            }
        }
    }

    #[test]
    fn a_target_is_missed_only_where_it_could_have_been_reached() {
        assert!(note("x", 3.0, 5.0, 4.5, "points").ends_with("beyond the bound, which has 4.50 points"));
        assert!(note("x", 3.0, 5.0, 6.0, "points").ends_with("MISSED"));
        assert!(note("x", 5.5, 5.0, 4.5, "points").ends_with("met"));
    }
}
