//! No rate limit: a packet is through the moment it starts, so nothing ever waits in the queue.

use headstart_core::time::Instant;

use super::{Rate, RateSpec};
use crate::spec::split;
use crate::{BadModel, Entry, Files};

const NAME: &str = "unlimited";

pub(super) const ENTRY: Entry<dyn Rate> = Entry {
    name: NAME,
    what: "no limit: packets never queue",
    source: "mahimahi's mm-delay, which delays and does not limit",
    parameters: "",
    example: "",
    parse,
};

/// No rate limit.
pub fn unlimited() -> RateSpec {
    RateSpec::new(NAME, String::new(), || Box::new(Unlimited))
}

fn parse(text: &str, _: &mut Files<'_>) -> Result<RateSpec, BadModel> {
    split(text, NAME, "", 0..=0)?;
    Ok(unlimited())
}

struct Unlimited;

impl Rate for Unlimited {
    fn start(&self, ready: Instant) -> Instant {
        ready
    }

    fn serve(&mut self, start: Instant, _: usize) -> Instant {
        start
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_jumbo_packet_takes_no_time() {
        let mut server = unlimited().build();
        let at = Instant::from_millis(7);
        assert_eq!(server.start(at), at);
        assert_eq!(server.serve(at, 65_535), at);
    }
}
