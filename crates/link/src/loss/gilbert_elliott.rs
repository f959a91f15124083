//! Bursty loss: a good and a bad state, each with its own chance of loss.
//!
//! Gilbert (Bell System Technical Journal, 1960) and Elliott (1963), with the letters of netem's `gemodel`: P from good
//! to bad, R from bad to good, each judged once a packet after the packet itself. The first state is drawn from the
//! chain's own balance, so that the mean holds from the first packet on. The chain never moves by time, only by packets.

use super::{Loss, LossSpec, share};
use crate::quantity::{self, show_fraction};
use crate::spec::split;
use crate::{BadModel, Entry, Files};
use headstart_core::time::Instant;

const NAME: &str = "gilbert-elliott";
const FORM: &str = "P:R[:LOSS-IN-BAD[:LOSS-IN-GOOD]]";

pub(super) const ENTRY: Entry<dyn Loss> = Entry {
    name: NAME,
    what: "bursty loss: probabilities per packet of turning bad (P) and good again (R), and of loss in each state (100 %, 0 %)",
    source: "Gilbert (1960) and Elliott (1963), Bell System Technical Journal; netem's `loss gemodel`",
    parameters: FORM,
    example: "1%:30%",
    parse,
};

/// The four chances, each between 0 and 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GilbertElliott {
    /// From good to bad, a packet.
    pub to_bad: f64,
    /// From bad to good, a packet; bad spells last `1 / to_good` packets on average.
    pub to_good: f64,
    /// Of loss in the bad state.
    pub loss_in_bad: f64,
    /// Of loss in the good state.
    pub loss_in_good: f64,
}

impl GilbertElliott {
    /// The share of packets that meet the bad state.
    pub fn share_bad(&self) -> f64 {
        let both = self.to_bad + self.to_good;
        if both > 0.0 { self.to_bad / both } else { 0.0 }
    }

    /// The share of packets lost in the long run.
    pub fn mean_loss(&self) -> f64 {
        let bad = self.share_bad();
        bad * self.loss_in_bad + (1.0 - bad) * self.loss_in_good
    }
}

/// Bursty loss; chances outside 0 … 1 are clamped.
pub fn gilbert_elliott(chances: GilbertElliott) -> LossSpec {
    let chances = GilbertElliott {
        to_bad: share(chances.to_bad),
        to_good: share(chances.to_good),
        loss_in_bad: share(chances.loss_in_bad),
        loss_in_good: share(chances.loss_in_good),
    };
    let parts = [chances.to_bad, chances.to_good, chances.loss_in_bad, chances.loss_in_good];
    let text = parts.map(show_fraction).join(":");
    LossSpec::new(NAME, text, move || Box::new(Chain { chances, bad: None }))
}

fn parse(text: &str, _: &mut Files<'_>) -> Result<LossSpec, BadModel> {
    let parts = split(text, NAME, FORM, 2..=4)?;
    let read = |index: usize, default: f64| match parts.get(index) {
        Some(part) => quantity::fraction(part),
        None => Ok(default),
    };
    let chances = GilbertElliott {
        to_bad: read(0, 0.0)?,
        to_good: read(1, 0.0)?,
        loss_in_bad: read(2, 1.0)?,
        loss_in_good: read(3, 0.0)?,
    };
    if chances.to_bad > 0.0 && chances.to_good == 0.0 {
        return Err(BadModel::Senseless {
            model: NAME,
            reason: "with an R of zero it never turns good again: increase R",
        });
    }
    Ok(gilbert_elliott(chances))
}

struct Chain {
    chances: GilbertElliott,
    /// `None` before the first packet.
    bad: Option<bool>,
}

impl Loss for Chain {
    fn loses(&mut self, _: Instant, rng: &mut fastrand::Rng) -> bool {
        let bad = self.bad.unwrap_or_else(|| rng.f64() < self.chances.share_bad());
        let (loss, leave) = if bad {
            (self.chances.loss_in_bad, self.chances.to_good)
        } else {
            (self.chances.loss_in_good, self.chances.to_bad)
        };
        let lost = rng.f64() < loss;
        let leaves = rng.f64() < leave;
        self.bad = Some(bad != leaves);
        lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bursts_last_and_the_mean_is_as_the_chances_say() {
        let chances = GilbertElliott { to_bad: 0.01, to_good: 0.25, loss_in_bad: 1.0, loss_in_good: 0.0 };
        let mut model = gilbert_elliott(chances).build();
        let mut rng = fastrand::Rng::with_seed(13);
        let (mut lost, mut bursts, mut before) = (0u32, 0u32, false);
        let count = 1_000_000;
        for _ in 0..count {
            let now = model.loses(Instant::ZERO, &mut rng);
            lost += u32::from(now);
            bursts += u32::from(now && !before);
            before = now;
        }
        // About 9600 bursts of geometric length with mean 4 and sd 3.46: four standard errors of the mean are 0.14.
        let length = f64::from(lost) / f64::from(bursts);
        assert!((length - 4.0).abs() < 0.14, "{length}");
        // The mean is 1/26; consecutive packets correlate by 0.74, so that the standard error is sqrt((1.74/0.26) *
        // p(1-p)/n) = 0.0005.
        let mean = f64::from(lost) / f64::from(count);
        assert!((mean - chances.mean_loss()).abs() < 0.002, "{mean}");
    }

    #[test]
    fn losses_in_either_state_add_up() {
        let chances = GilbertElliott { to_bad: 0.1, to_good: 0.1, loss_in_bad: 0.4, loss_in_good: 0.02 };
        assert!((chances.mean_loss() - 0.21).abs() < 1e-12);
        let mut model = gilbert_elliott(chances).build();
        let mut rng = fastrand::Rng::with_seed(17);
        let lost = (0..400_000).filter(|_| model.loses(Instant::ZERO, &mut rng)).count();
        assert!((lost as f64 / 400_000.0 - 0.21).abs() < 0.006, "{lost}");
    }

    #[test]
    fn a_chain_that_cannot_leave_the_bad_state_is_refused() {
        let told = parse("1%:0", &mut |_| Err(String::new())).unwrap_err().to_string();
        assert_eq!(told, "`gilbert-elliott`: with an R of zero it never turns good again: increase R");
    }

    #[test]
    fn the_long_run_is_the_balance_of_the_chain() {
        let chances = GilbertElliott { to_bad: 0.1, to_good: 0.3, loss_in_bad: 0.5, loss_in_good: 0.02 };
        assert!((chances.share_bad() - 0.25).abs() < 1e-12 && (chances.mean_loss() - 0.14).abs() < 1e-12);
        let still = GilbertElliott { to_bad: 0.0, to_good: 0.0, ..chances };
        assert_eq!((still.share_bad(), still.mean_loss()), (0.0, 0.02));
        let read = |text: &str| parse(text, &mut |_| Err(String::new())).unwrap().to_string();
        assert_eq!(read("1%:30%"), "gilbert-elliott:0.01:0.3:1:0");
        assert_eq!(read("0:0:40%:5%"), "gilbert-elliott:0:0:0.4:0.05");
    }

    #[test]
    fn the_first_packets_meet_the_bad_state_as_often_as_later_ones() {
        let chances = GilbertElliott { to_bad: 0.01, to_good: 0.03, loss_in_bad: 1.0, loss_in_good: 0.0 };
        let spec = gilbert_elliott(chances);
        let lost = |seed| spec.build().loses(Instant::ZERO, &mut fastrand::Rng::with_seed(seed));
        // Binomial, 4000 draws at 1/4: five standard deviations are 137.
        let found = (0..4000).filter(|&seed| lost(seed)).count();
        assert!(found.abs_diff(1000) < 137, "{found}");
    }
}
