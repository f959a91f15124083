//! `steer-pages` and `steer-object` with real packets: the kernel's TCP, unmodified Chromium, our tunnel's two ends, emulated
//! channels between.
//!
//! `ideal` conditions have what the kernel does without a tunnel: TCP over the fat channel, and its Multipath TCP over both, which
//! virtual time has not. `tunnel` ones have ours, end to end. All arms take turns, so that a disturbance meets all.

pub mod document;
mod multipath;
pub mod pages;
mod stage;

use super::{FAT, OURS, STATE, rows};
use crate::experiment::{Outcome, Row, Series};

use headstart_core::steer::Channel;
use stage::Carrier;

/// The kernel's own way over two channels.
const MULTIPATH: &str = "mptcp";
/// TCP over the fat channel, beside a tunnel.
const NO_TUNNEL: &str = "no-tunnel";

/// A way, and what rows call it.
#[derive(Clone, Copy, Debug)]
struct Arm {
    /// Whether its packets go through the tunnel.
    tunnel: bool,
    name: &'static str,
    way: Carrier,
}

const fn ideal(name: &'static str, way: Carrier) -> Arm {
    Arm { tunnel: false, name, way }
}

const fn tunnel(name: &'static str) -> Arm {
    Arm { tunnel: true, name, way: Carrier::Tunnel(name) }
}

/// What pages are loaded by.
const ARMS: [Arm; 5] = [
    ideal(FAT, Carrier::Alone(Channel::Fat)),
    ideal(MULTIPATH, Carrier::Multipath),
    tunnel(FAT),
    tunnel(STATE),
    tunnel(OURS),
];

/// Values of each arm, in the order of the trials.
struct Taken<'a> {
    arms: &'a [Arm],
    values: Vec<Vec<Option<f64>>>,
    /// The shares of bytes over the fast channel, in percent.
    shares: Vec<Vec<f64>>,
}

impl<'a> Taken<'a> {
    fn new(arms: &'a [Arm]) -> Self {
        Self { arms, values: vec![Vec::new(); arms.len()], shares: vec![Vec::new(); arms.len()] }
    }

    fn add(&mut self, arm: usize, value: Option<f64>, bytes: [u64; 2]) {
        self.values[arm].push(value);
        self.shares[arm].push(100.0 * bytes[1] as f64 / (bytes[0] + bytes[1]).max(1) as f64);
    }

    /// The values of an arm, under a name of the reader's.
    fn series(&self, tunnel: bool, name: &str, (condition, metric, called): (&str, &str, &str)) -> Option<Series> {
        let n = self.arms.iter().position(|arm| arm.tunnel == tunnel && arm.name == name)?;
        let series = Series::with_failures(condition, metric, "ms", called, self.values[n].iter().copied());
        (!series.present().is_empty()).then_some(series)
    }

    /// Each arm beside the fat channel alone of its kind, ours beside Multipath TCP, the tunnel beside none.
    fn compare(
        &self,
        outcome: &mut Outcome,
        (how, metric): (&str, &str),
        serving: impl Fn(Row) -> anyhow::Result<Row>,
    ) -> anyhow::Result<()> {
        for tunnel in [false, true] {
            let condition = format!("{}-{how}", if tunnel { "tunnel" } else { "ideal" });
            let of = |tunnel, name, called| self.series(tunnel, name, (&condition, metric, called));
            let Some(base) = of(tunnel, FAT, FAT) else { continue };
            let all: Vec<Series> = self
                .arms
                .iter()
                .filter(|arm| arm.tunnel == tunnel)
                .filter_map(|arm| of(tunnel, arm.name, arm.name))
                .collect();
            let mut pairs: Vec<(Series, Series)> =
                all.iter().filter(|s| s.arm != FAT).map(|s| (s.clone(), base.clone())).collect();
            if tunnel {
                pairs.extend(of(false, FAT, NO_TUNNEL).map(|none| (base.clone(), none)));
                pairs.extend(of(true, OURS, OURS).zip(of(false, MULTIPATH, MULTIPATH)));
            }
            for (ours, baseline) in &pairs {
                rows::compare(outcome, ours, baseline, &serving)?;
            }
            outcome.samples.extend(all);
        }
        Ok(())
    }

    /// The share of bytes that each arm has spent on the fast channel.
    fn shares(
        &self,
        outcome: &mut Outcome,
        how: &str,
        serving: impl Fn(Row) -> anyhow::Result<Row>,
    ) -> anyhow::Result<()> {
        for (arm, shares) in self.arms.iter().zip(&self.shares).filter(|(_, shares)| !shares.is_empty()) {
            let condition = format!("{}-{how}", if arm.tunnel { "tunnel" } else { "ideal" });
            let share = shares.iter().sum::<f64>() / shares.len() as f64;
            let metric = "share of bytes over the fast channel, mean";
            outcome.rows.push(serving(Row::measured(&condition, metric, "%", arm.name, share))?);
        }
        Ok(())
    }
}

/// What readers must know of both experiments.
const METHOD: &str = "With real packets (`--speed netns`) the channels are emulated links between two namespaces, one of them \
                      with every server and the DNS server in it; endless queues, IPv4, CUBIC where the kernel grants it. \
                      `ideal`: no tunnel; `single-fat` is the kernel's TCP over the fat channel, and `mptcp` its Multipath TCP \
                      over both, with the default scheduler, started over the fat channel; browsers use it through `mptcpize`. \
                      `tunnel`: headstart's tunnel, both ends on this host, one WireGuard session per channel, with probes; \
                      `single-fat` goes through it too. Arms take turns. Shares of bytes are those of the host's interfaces, with \
                      every header and probe. The first contentful paint is Chromium's own (Paint Timing); loads that had not \
                      painted sixty frames after the load event have none. In virtual time `mptcp` is left out: only the kernel has it.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_arm_stands_beside_the_fat_channel_of_its_kind_and_ours_beside_multipath() {
        let mut taken = Taken::new(&ARMS);
        for trial in 0..6 {
            for (n, ms) in [100.0, 110.0, 120.0, 108.0, 90.0].into_iter().enumerate() {
                taken.add(n, (n != 3 || trial > 0).then_some(ms), [900, 100]);
            }
        }
        let mut outcome = Outcome::new("x", 1);
        taken.compare(&mut outcome, ("paper-loader", "page load time"), Ok).unwrap();
        taken.shares(&mut outcome, "paper-loader", Ok).unwrap();
        let shares = outcome.rows.iter().filter(|r| r.metric.starts_with("share of bytes"));
        assert_eq!(shares.map(|r| r.ours).collect::<Vec<_>>(), [10.0; 5]);
        let ratio = |condition: &str, arm: &str, baseline: &str| {
            let is = |r: &&Row| r.condition == condition && r.arm == arm && r.baseline_arm.as_deref() == Some(baseline);
            let ratio = outcome.rows.iter().find(is).and_then(|r| r.ratio);
            (ratio.unwrap_or_default() * 100.0).round()
        };
        assert_eq!(ratio("ideal-paper-loader", MULTIPATH, FAT), 110.0);
        assert_eq!(ratio("tunnel-paper-loader", OURS, FAT), 75.0);
        assert_eq!(ratio("tunnel-paper-loader", STATE, FAT), 90.0);
        assert_eq!(ratio("tunnel-paper-loader", OURS, MULTIPATH), 82.0);
        assert_eq!(ratio("tunnel-paper-loader", FAT, NO_TUNNEL), 120.0);
        let failed: Vec<_> = outcome.rows.iter().filter(|r| r.metric.ends_with("failed")).map(|r| &r.arm).collect();
        assert_eq!(failed, [STATE]);
        assert!(outcome.check().is_ok());
    }
}
