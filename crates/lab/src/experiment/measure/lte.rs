//! `measure-lte`: what resource blocks of LTE carry by paper 3's equations (claim P3.8). Nothing random, nothing measured.

use crate::experiment::{Context, Entry, Outcome, Row, Speeds};
use headstart_core::forward::lte::{self, USABLE};

/// The experiment.
pub const ENTRY: Entry = Entry {
    name: "measure-lte",
    shows: "The throughput of LTE follows from its resource blocks, its modulation and its code rate",
    claims: &["P3.8"],
    conditions: &["blocks", "packets", "throughput"],
    speeds: Speeds::Virtual,
    run,
};

/// Blocks of 1 ms that a carrier of 5 and of 20 MHz has (3GPP TS 36.101, table 5.6-1).
const CARRIERS: [(&str, u32); 2] = [("5 MHz", 25), ("20 MHz", 100)];
/// The packet of the examples: Ethernet's longest.
const PACKET_BITS: u32 = 1500 * 8;

fn run(cx: &Context) -> anyhow::Result<Outcome> {
    let mut outcome = Outcome::new(ENTRY.name, cx.seed);
    let mut row = |condition: &str, metric: &str, unit: &str, arm: &str, value: f64| {
        if cx.wants(condition) {
            let row = Row::measured(condition, metric, unit, arm, value);
            outcome.rows.push(Row { claim: Some("P3.8".into()), ..row });
        }
    };
    for quality in &lte::ALL {
        let arm = format!("cqi-{}", quality.cqi);
        row("blocks", "bits a resource block", "bits", &arm, quality.block_bits(USABLE).into());
        if let Some(blocks) = quality.blocks(PACKET_BITS, 0, USABLE) {
            row("packets", "resource blocks for 1500 bytes", "", &arm, blocks.into());
        }
        for (carrier, blocks) in CARRIERS {
            let metric = format!("throughput, {carrier}");
            row("throughput", &metric, "Mbit/s", &arm, quality.rate(blocks, USABLE) / 1e6);
        }
    }
    for (name, about) in [
        ("blocks", "Equation 1 with 120 usable resource elements of 168 in 1 ms, by channel quality (Table 2)."),
        ("packets", "Equation 2 for a packet of 1500 bytes, without headers of RLC and MAC."),
        ("throughput", "All blocks of a carrier for one device, one layer."),
    ] {
        if cx.wants(name) {
            outcome.condition(name, about);
        }
    }
    outcome.notes.push(
        "Equation 2 is printed with the bits of a resource element under the line, which does not give a number of blocks; \
         the bits of a block are used. Bits of a block are whole ones, rounded down, as in the paper's example."
            .into(),
    );
    Ok(outcome)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_the_paper_comes_out_and_the_same_each_time() {
        let outcome = ENTRY.start(&Context::new(1)).unwrap();
        let row = outcome.rows.iter().find(|row| row.condition == "blocks" && row.arm == "cqi-11").unwrap();
        assert_eq!((row.ours, row.claim.as_deref()), (398.0, Some("P3.8")));
        assert_eq!(outcome.last_line(), ENTRY.start(&Context::new(1)).unwrap().last_line());
        assert_eq!(outcome.rows.len(), 15 * 4);
    }
}
