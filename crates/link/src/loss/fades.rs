//! Fades: periods in which most packets of all flows are lost, as by a shadowed radio, a handover or interference.
//!
//! Fades start by time, not by packet (as Gilbert and Elliott's do). All have the same length; the gaps between them are
//! exponential. Their times come from a seed of their own, so that links with the same seed, and both directions of a link,
//! fade together. Which packets of a fade are lost is drawn per link.

use super::{Loss, LossSpec, share};
use crate::quantity::{self, show_duration, show_fraction};
use crate::spec::split;
use crate::{BadModel, Entry, Files};
use headstart_core::time::{Duration, Instant};

const NAME: &str = "fades";
const FORM: &str = "LENGTH:GAP[:LOSS[:SEED]]";
/// The seed of the spells where none is given.
const SEED: u64 = 1;
/// After so many spells on average the generator begins anew, from the seed and the time: what comes after a long silence is
/// found without playing it, and is the same for a link that was not silent.
const SPELLS: u32 = 64;

pub(super) const ENTRY: Entry<dyn Loss> = Entry {
    name: NAME,
    what: "bursts by time, the same for both directions: each lasts LENGTH, GAP between two on average, LOSS in them (100 %)",
    source: "ours; the bursts of wireless links, see WiFiSeer (MobiSys 2016) and paper 4, section 7",
    parameters: FORM,
    example: "60ms:2s:90%",
    parse,
};

/// Spells and what they take.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fades {
    /// How long one is.
    pub length: Duration,
    /// From the end of one to the beginning of the next, on average.
    pub gap: Duration,
    /// The share of packets that are lost in one.
    pub loss: f64,
    /// What the moments of the spells are drawn from.
    pub seed: u64,
}

/// Spells of loss; a share outside 0 … 1 is clamped, and the gap is at least a microsecond.
pub fn fades(fades: Fades) -> LossSpec {
    let fades = Fades { loss: share(fades.loss), gap: fades.gap.max(Duration::from_micros(1)), ..fades };
    let Fades { length, gap, loss, seed } = fades;
    let text = format!("{}:{}:{}:{seed}", show_duration(length), show_duration(gap), show_fraction(loss));
    LossSpec::new(NAME, text, move || Box::new(Spells::new(fades)))
}

fn parse(text: &str, _: &mut Files<'_>) -> Result<LossSpec, BadModel> {
    let parts = split(text, NAME, FORM, 2..=4)?;
    let senseless = |reason| BadModel::Senseless { model: NAME, reason };
    let gap = quantity::duration(&parts[1])?;
    if gap < Duration::from_micros(1) {
        return Err(senseless(
            "GAP must be at least a microsecond: for a link that is always bad write loss=bernoulli:LOSS",
        ));
    }
    let seed =
        parts.get(3).map_or(Ok(SEED), |part| part.parse().map_err(|_| senseless("SEED must be a whole number")))?;
    let loss = parts.get(2).map_or(Ok(1.0), |part| quantity::fraction(part))?;
    Ok(fades(Fades { length: quantity::duration(&parts[0])?, gap, loss, seed }))
}

struct Spells {
    fades: Fades,
    /// Nanoseconds after which the generator begins anew.
    era: u64,
    /// Which era is played; none before the first packet.
    playing: Option<u64>,
    rng: fastrand::Rng,
    from: Instant,
    to: Instant,
}

impl Spells {
    fn new(fades: Fades) -> Self {
        let era = fades.length.saturating_add(fades.gap).saturating_mul(SPELLS).as_nanos();
        Self {
            fades,
            era: u64::try_from(era).unwrap_or(u64::MAX),
            playing: None,
            rng: fastrand::Rng::with_seed(fades.seed),
            from: Instant::ZERO,
            to: Instant::ZERO,
        }
    }
}

impl Loss for Spells {
    fn loses(&mut self, at: Instant, rng: &mut fastrand::Rng) -> bool {
        let era = at.as_nanos() / self.era;
        if self.playing != Some(era) {
            self.playing = Some(era);
            self.rng = fastrand::Rng::with_seed(self.fades.seed ^ era.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            (self.from, self.to) = (Instant::ZERO, Instant::from_nanos(era * self.era));
        }
        while self.to <= at {
            // 1 - u is in (0, 1].
            let gap = self.fades.gap.mul_f64(-(1.0 - self.rng.f64()).ln()).max(Duration::from_micros(1));
            self.from = self.to + gap;
            self.to = self.from + self.fades.length;
        }
        self.from <= at && rng.f64() < self.fades.loss
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lost(seed: u64, luck: u64, loss: f64) -> Vec<bool> {
        let (length, gap) = (Duration::from_millis(60), Duration::from_secs(2));
        let mut model = fades(Fades { length, gap, loss, seed }).build();
        let mut rng = fastrand::Rng::with_seed(luck);
        (0..2_000_000).map(|millis| model.loses(Instant::from_millis(millis), &mut rng)).collect()
    }

    #[test]
    fn spells_are_as_long_and_as_frequent_as_they_are_said_to_be() {
        let lost = lost(3, 1, 1.0);
        let begins = lost.windows(2).filter(|pair| !pair[0] && pair[1]).count();
        // 971 spells of 2060 ms are expected in 2000 s; the standard deviation is below the root of that.
        assert!((begins as f64 - 971.0).abs() < 4.0 * 31.2, "{begins}");
        let share = lost.iter().filter(|lost| **lost).count() as f64 / lost.len() as f64;
        assert!((share - 0.06 / 2.06).abs() < 0.004, "{share}");
    }

    #[test]
    fn links_of_one_seed_fade_together_and_lose_packets_of_their_own() {
        assert_eq!(lost(3, 1, 1.0), lost(3, 2, 1.0));
        assert_ne!(lost(3, 1, 1.0), lost(4, 1, 1.0));
        let (one, other) = (lost(3, 1, 0.9), lost(3, 2, 0.9));
        assert_ne!(one, other);
        let all = lost(3, 1, 1.0);
        assert!(one.iter().chain(&other).zip(all.iter().chain(&all)).all(|(lost, fades)| *fades || !lost));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        assert!(parse("60ms:1us", &mut |_| Err(String::new())).is_ok());
        let told = |text: &str| parse(text, &mut |_| Err(String::new())).unwrap_err().to_string();
        assert!(told("60ms:0s").contains("GAP must be"));
        assert!(told("60ms:2s:90%:x").contains("SEED must be"));
        assert!(told("60ms").contains(FORM));
    }

    /// A link of that seed, with spells of 60 ms each 2 s.
    fn link(seed: u64) -> Box<dyn Loss> {
        let (length, gap) = (Duration::from_millis(60), Duration::from_secs(2));
        fades(Fades { length, gap, loss: 1.0, seed }).build()
    }

    #[test]
    fn a_link_that_was_silent_for_long_fades_as_one_that_was_not() {
        let rng = &mut fastrand::Rng::with_seed(1);
        let (mut busy, mut silent) = (link(3), link(3));
        let busy: Vec<bool> = (0..500_000).map(|millis| busy.loses(Instant::from_millis(millis), rng)).collect();
        let late = 400_000;
        let silent: Vec<bool> = (late..500_000).map(|millis| silent.loses(Instant::from_millis(millis), rng)).collect();
        assert!(silent.contains(&true) && busy[late as usize..] == silent);
        // Centuries of spells are not played.
        link(3).loses(Instant::from_millis(18_000_000_000_000), rng);
    }

    #[test]
    fn each_stretch_of_time_has_spells_of_its_own_and_so_has_each_seed() {
        let rng = &mut fastrand::Rng::with_seed(1);
        let era = 64 * 2060;
        let mut first = std::collections::BTreeSet::new();
        for seed in 1..9 {
            for stretch in 0..8 {
                let mut link = link(seed);
                // To the microsecond, so that no two are alike by chance.
                let lost = |millis: &u64| link.loses(Instant::from_millis(stretch * era + millis), rng);
                let millis = (0..era).find(lost).unwrap();
                let mut link = self::link(seed);
                let from = (stretch * era + millis) * 1000 - 1000;
                let lost = |micros: &u64| link.loses(Instant::from_nanos((from + micros) * 1000), rng);
                first.insert(millis * 1000 + (0..=1000).find(lost).unwrap());
            }
        }
        assert_eq!(first.len(), 64);
    }
}
