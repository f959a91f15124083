//! What the streams of a condition say: each arm beside plain.

use super::condition::Condition;
use super::{Arm, PLAIN};
use crate::experiment::{Claims, Outcome, Row, Series};
use crate::sim::messages::TOUCH;
use crate::stats::{Pairing, Statistic, StatsError, pooled_quantile, pooled_ratio};

/// What ITU-T Y.1541, class 0, allows, in ms.
const BOUND: f64 = 100.0;
/// What a message may take more than the fastest of its condition without having been held up, in ms: timers and schedulers
/// of the kernel's TCP.
const JITTER: f64 = 2.0;
const P95: Statistic = Statistic::Quantile(0.95);
/// The paper's metric.
const OF_STREAM: &str = "delay of a stream";

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

fn total(of: impl Iterator<Item = u64>) -> f64 {
    of.sum::<u64>() as f64
}

impl Arm {
    fn delays(&self) -> Vec<Vec<f64>> {
        self.streams.iter().map(|s| s.delays.clone()).collect()
    }

    fn ages(&self) -> Vec<Vec<f64>> {
        self.streams.iter().map(|s| s.ages.clone()).collect()
    }

    /// Per message that was made, whether it was sent or not.
    fn each(&self, of: impl Iterator<Item = u64>) -> f64 {
        total(of) / (self.streams.len() as f64 * f64::from(TOUCH.messages))
    }

    fn packets(&self) -> f64 {
        self.each(self.streams.iter().map(|s| s.packets))
    }

    fn bytes(&self) -> f64 {
        self.each(self.streams.iter().map(|s| s.bytes))
    }

    fn of_streams(&self, condition: &str) -> Series {
        Series::new(condition, OF_STREAM, "ms", self.name, self.streams.iter().map(|s| mean(&s.delays)))
    }

    fn of_bytes(&self, condition: &str) -> Series {
        Series::new(condition, "bytes sent", "bytes", self.name, self.streams.iter().map(|s| s.bytes as f64))
    }

    /// Of its messages, how many took longer, in percent.
    fn above(&self, bound: f64) -> f64 {
        let delays = self.streams.iter().flat_map(|s| &s.delays);
        100.0 * delays.clone().filter(|d| **d > bound).count() as f64 / delays.count().max(1) as f64
    }

    /// Of its streams, how many have a message that took longer, in percent.
    fn hit(&self, bound: f64) -> f64 {
        let hit = self.streams.iter().filter(|s| s.delays.iter().any(|d| *d > bound)).count();
        100.0 * hit as f64 / self.streams.len().max(1) as f64
    }
}

fn prices(outcome: &mut Outcome, condition: &str, arms: &[Arm]) {
    for arm in arms {
        let mut price = |what: &str, unit: &str, amount| {
            outcome.price(condition, arm.name, what, unit, amount);
        };
        price("packets a message", "", arm.packets());
        price("bytes a message", "bytes", arm.bytes());
        price("packets back a message", "", arm.each(arm.streams.iter().map(|s| s.back)));
    }
}

/// A quantile over the messages of all streams, beside that of plain; whole streams are resampled.
fn pooled(
    (condition, metric, arm): (&str, &str, &str),
    (ours, theirs): (&[Vec<f64>], &[Vec<f64>]),
    p: f64,
    seed: u64,
) -> Result<Row, StatsError> {
    let estimate = pooled_ratio(ours, theirs, p, seed)?;
    let row = Row::measured(condition, metric, "ms", arm, pooled_quantile(ours, p)?);
    Ok(Row {
        ratio: Some(estimate.value),
        interval: estimate.interval,
        ..row.beside(PLAIN, pooled_quantile(theirs, p)?)
    })
}

/// The message's own metrics.
pub fn of_messages(outcome: &mut Outcome, condition: &str, arms: &[Arm], seed: u64) -> anyhow::Result<()> {
    let Some(plain) = arms.iter().find(|arm| arm.name == PLAIN) else { return Ok(()) };
    let (delays, ages) = (plain.delays(), plain.ages());
    let fastest =
        arms.iter().flat_map(|arm| &arm.streams).flat_map(|s| &s.delays).copied().fold(f64::INFINITY, f64::min);
    for arm in arms.iter().filter(|arm| arm.name != PLAIN) {
        for (metric, p, ours, theirs) in [
            ("message delay, p95", 0.95, arm.delays(), &delays),
            ("message delay, p99", 0.99, arm.delays(), &delays),
            ("age of information, p95", 0.95, arm.ages(), &ages),
        ] {
            outcome.rows.push(pooled((condition, metric, arm.name), (&ours, theirs), p, seed)?);
        }
        let late = fastest + JITTER;
        for (metric, unit, ours, theirs) in [
            ("messages above 100 ms", "%", arm.above(BOUND), plain.above(BOUND)),
            ("messages held up", "%", arm.above(late), plain.above(late)),
            ("streams hit", "%", arm.hit(late), plain.hit(late)),
            ("packets a message", "", arm.packets(), plain.packets()),
            ("bytes a message", "bytes", arm.bytes(), plain.bytes()),
        ] {
            outcome.rows.push(Row::measured(condition, metric, unit, arm.name, ours).beside(PLAIN, theirs));
        }
    }
    prices(outcome, condition, arms);
    outcome.samples.extend(arms.iter().map(|arm| arm.of_streams(condition)));
    Ok(())
}

/// The paper's metric: the 95th percentile over streams of their mean delay.
pub fn of_the_paper(
    outcome: &mut Outcome,
    condition: &str,
    about: &Condition,
    arms: &[Arm],
    quiet: Option<&Arm>,
    claims: Option<&Claims>,
    seed: u64,
) -> anyhow::Result<()> {
    let Some(plain) = arms.iter().find(|arm| arm.name == PLAIN) else { return Ok(()) };
    let base = plain.of_streams(condition);
    let serving = |row: Row, id: &str, case: &str| match claims {
        Some(claims) if !about.case.is_empty() => row.serving(claims, id, case),
        _ => Ok(row),
    };
    if let Some(quiet) = quiet {
        let without = Series { arm: "no-bulk".into(), ..quiet.of_streams(condition) };
        outcome.rows.push(serving(Row::compare(&base, &without, P95, Pairing::Unpaired, seed)?, "P4.1", "bulk")?);
    }
    for arm in arms.iter().filter(|arm| arm.name != PLAIN) {
        let row = Row::compare(&arm.of_streams(condition), &base, P95, Pairing::Paired, seed)?;
        let signal = about.case;
        let row = match arm.name {
            "reduction-50" => serving(row, "P4.2", &format!("{signal}-50"))?,
            "reduction-66" => serving(row, "P4.2", &format!("{signal}-66"))?,
            "trigger" => serving(row, "P4.3", signal)?,
            "echo" => serving(row, "P4.4", signal)?,
            "reduction-50+trigger" | "reduction-50+echo" | "trigger+echo" => {
                serving(row, "P4.5", &format!("{signal}-{}", arm.name))?
            }
            _ => row,
        };
        let holds = Row {
            claim: row.claim.as_ref().map(|_| "P4.6".to_owned()),
            ..Row::measured(condition, "within 100 ms (1: yes)", "", arm.name, f64::from(u8::from(row.ours < BOUND)))
        };
        outcome.rows.extend([row, holds]);
        let age = (condition, "age of information, p95", arm.name);
        outcome.rows.push(pooled(age, (&arm.ages(), &plain.ages()), 0.95, seed)?);
        if arm.name == "trigger+echo" {
            let (ours, theirs) = (arm.of_bytes(condition), plain.of_bytes(condition));
            let bytes = Row::compare(&ours, &theirs, Statistic::Mean, Pairing::Paired, seed)?;
            outcome.rows.push(serving(bytes, "P4.6", "bytes")?);
        }
    }
    prices(outcome, condition, arms);
    outcome.samples.extend(arms.iter().map(|arm| arm.of_streams(condition)));
    Ok(())
}
