//! The same delay for every packet.

use headstart_core::time::{Duration, Instant};

use super::{Delay, DelaySpec};
use crate::quantity;
use crate::spec::split;
use crate::{BadModel, Entry, Files};

const NAME: &str = "constant";
const FORM: &str = "DELAY";

pub(super) const ENTRY: Entry<dyn Delay> = Entry {
    name: NAME,
    what: "the same delay for every packet",
    source: "propagation; mahimahi's mm-delay",
    parameters: FORM,
    example: "15ms",
    parse,
};

/// The same delay for every packet.
pub fn constant(delay: Duration) -> DelaySpec {
    DelaySpec::new(NAME, quantity::show_duration(delay), move || Box::new(Constant(delay)))
}

fn parse(text: &str, _: &mut Files<'_>) -> Result<DelaySpec, BadModel> {
    let parts = split(text, NAME, FORM, 1..=1)?;
    Ok(constant(quantity::duration(&parts[0])?))
}

struct Constant(Duration);

impl Delay for Constant {
    fn draw(&mut self, _: Instant, _: &mut fastrand::Rng) -> Duration {
        self.0
    }

    fn least(&self) -> Duration {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_packet_takes_the_same_time() {
        let mut model = constant(Duration::from_micros(200)).build();
        let mut rng = fastrand::Rng::with_seed(1);
        assert!((0..10).all(|_| model.draw(Instant::ZERO, &mut rng) == Duration::from_micros(200)));
    }
}
