//! The search behind the conditions `fitted-…` of `realtime-tail`: by which loss and which rate plain TCP takes as long as in
//! paper 4 (docs/decisions/0074).
//!
//! `cargo run --release -p headstart-lab --example fit_realtime`. Some minutes; only plain TCP is looked at.
#![forbid(unsafe_code)]

use headstart_core::time::Duration;
use headstart_lab::sim::messages::{Hop, Sending, TOUCH, play};
use headstart_lab::sim::tcp;
use headstart_lab::stats::quantile;

/// Streams of a value, as in the paper.
const STREAMS: u64 = 300;
/// Losses that are tried, in percent, and rates of 802.11n with one antenna, in Mbit/s (IEEE 802.11-2012, table 20-30).
const LOSSES: [f64; 5] = [1.0, 1.5, 2.0, 2.5, 3.0];
const RATES: [u32; 4] = [26, 39, 52, 65];

/// The 95th percentile over streams of a stream's mean delay, in ms.
fn plain(sender: &str, receiver: &str, bulk: bool) -> Result<f64, Box<dyn std::error::Error>> {
    let hop = |link: &str, bulk| -> Result<Hop, Box<dyn std::error::Error>> {
        Ok(Hop { link: headstart_link::parse_duplex(link)?, rtt: Duration::from_millis(12), fades: None, bulk })
    };
    let hops = [hop(sender, bulk)?, hop(receiver, false)?];
    let sending = Sending::Technique("plain".into());
    let mut means = Vec::new();
    for stream in 0..STREAMS {
        // The draws of the experiment with seed 1.
        let network = fastrand::Rng::with_seed(1 ^ (stream + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)).u64(..);
        let luck = fastrand::Rng::with_seed(network ^ 0xd134_2543_de82_ef95).u64(..);
        let delays = play(&hops, tcp::LEGACY, &sending, TOUCH, network, luck)?.delays;
        means.push(delays.iter().sum::<f64>() / delays.len() as f64);
    }
    Ok(quantile(&means, 0.95)?)
}

/// The sender's WLAN: what goes away from it is lost so often, what comes to it waits in Linux's queue of 1000 packets.
fn sender(loss: f64, rate: u32) -> String {
    let wlan = format!("medium=wlan:{rate}mbit:0,delay=5ms");
    format!("{wlan},loss={loss}%;{wlan}")
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (strong, weak) = ("medium=wlan:strong,delay=5ms", "medium=wlan:weak,delay=5ms");
    println!("without the file transfer (printed: 42 ms)");
    let mut best = (f64::INFINITY, 0.0);
    for loss in LOSSES {
        let found = plain(&sender(loss, 52), strong, false)?;
        println!("  loss {loss} %: {found:.1} ms");
        best = if (found - 42.0).abs() < best.0 { ((found - 42.0).abs(), loss) } else { best };
    }
    println!("with it, at {} % (printed: strong 336 ms, weak 242 ms)", best.1);
    for rate in RATES {
        let of = |receiver| plain(&sender(best.1, rate), receiver, true);
        println!("  {rate} Mbit/s: strong {:.1} ms, weak {:.1} ms", of(strong)?, of(weak)?);
    }
    Ok(())
}
