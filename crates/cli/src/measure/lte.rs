//! `headstart measure lte`: the calculator of paper 3, section 6. Nothing is measured.

use crate::exit;
use crate::output::{Format, document};
use headstart_core::forward::lte::{self, Quality, USABLE};
use serde_json::{Value, json};

/// Version of the JSON.
const VERSION: u32 = 1;

/// Arguments of `headstart measure lte`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Channel quality indicator, 1 to 15 [default: all].
    #[arg(long, value_name = "CQI")]
    cqi: Option<u8>,
    /// Resource blocks per millisecond: 25 for a 5 MHz carrier, 100 for 20 MHz.
    #[arg(long, value_name = "N", default_value_t = 25, value_parser = clap::value_parser!(u32).range(1..=110))]
    blocks: u32,
    /// Packet size in bytes.
    #[arg(long, value_name = "BYTES", default_value_t = 1500, value_parser = clap::value_parser!(u32).range(1..))]
    packet: u32,
    /// RLC and MAC header size in bits.
    #[arg(long, value_name = "BITS", default_value_t = 0)]
    headers: u32,
    /// Resource elements per block that carry data, out of 168.
    #[arg(long, value_name = "N", default_value_t = USABLE, value_parser = clap::value_parser!(u32).range(1..=168))]
    elements: u32,
    #[command(flatten)]
    format: Format,
}

/// Says what the blocks carry.
pub fn run(args: &Args) -> anyhow::Result<u8> {
    let wanted: Vec<&Quality> = match args.cqi {
        None => lte::ALL.iter().collect(),
        Some(cqi) => vec![lte::find(cqi).ok_or_else(|| exit::Usage(format!("--cqi {cqi}: must be from 1 to 15")))?],
    };
    if args.format.json {
        let rows: Vec<Value> = wanted.iter().map(|quality| row(args, quality)).collect();
        document(VERSION, json!({ "qualities": rows }));
        return Ok(exit::OK);
    }
    for line in lines(args, &wanted) {
        crate::say!("{line}");
    }
    Ok(exit::OK)
}

/// A table of at most 60 columns.
fn lines(args: &Args, wanted: &[&Quality]) -> Vec<String> {
    let title = format!("Packets of {} bytes, {} blocks per subframe", args.packet, args.blocks);
    let head = "CQI modulation code rate bits/block blocks/packet   Mbit/s".to_owned();
    let line = |quality: &&Quality| {
        let blocks = blocks(args, quality).map_or("-".to_owned(), |blocks| blocks.to_string());
        format!(
            "{:>3} {:<10} {:>9.4} {:>10} {blocks:>13} {:>8.3}",
            quality.cqi,
            quality.modulation.name(),
            quality.code_rate(),
            quality.block_bits(args.elements),
            quality.rate(args.blocks, args.elements) / 1e6
        )
    };
    [title, head].into_iter().chain(wanted.iter().map(line)).collect()
}

fn blocks(args: &Args, quality: &Quality) -> Option<u32> {
    quality.blocks(args.packet.saturating_mul(8), args.headers, args.elements)
}

fn row(args: &Args, quality: &Quality) -> Value {
    json!({
        "cqi": quality.cqi, "modulation": quality.modulation.name(), "code_rate": quality.code_rate(),
        "block_bits": quality.block_bits(args.elements), "blocks_a_packet": blocks(args, quality),
        "mbit_s": quality.rate(args.blocks, args.elements) / 1e6,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_aligned_and_narrow() {
        let format = Format { json: false };
        let args = Args { cqi: None, blocks: 110, packet: 65_535, headers: 0, elements: USABLE, format };
        let lines = lines(&args, &lte::ALL.iter().collect::<Vec<_>>());
        assert!(lines.iter().all(|line| line.len() <= 60), "{lines:#?}");
        assert!(lines[1..].iter().all(|line| line.len() == lines[1].len()), "{lines:#?}");
    }

    #[test]
    fn the_example_of_the_paper() {
        let format = Format { json: true };
        let args = Args { cqi: Some(11), blocks: 48, packet: 1500, headers: 0, elements: USABLE, format };
        let row = row(&args, lte::find(11).unwrap());
        assert_eq!(
            (&row["block_bits"], &row["blocks_a_packet"], &row["mbit_s"]),
            (&json!(398), &json!(31), &json!(19.104))
        );
    }
}
