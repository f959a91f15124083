//! The condition `phone` of `measure-throughput`: a TUN interface as Android's VpnService makes it (1500 bytes, no super-packets), and
//! what its forwarder reaches beside others there; and how much memory a day of such a device takes.
//!
//! The day is compressed: 5000 connections follow each other as fast as they can. What a forwarder lets go of after a time it has
//! not let go of then, so that the peak of its memory is that of a day at least.

use super::super::arm::{BARE, Stage, number};
use super::super::beside::{PHONE, SING_BOX_1_13, TUN2SOCKS, found};
use super::{DOWN, Load, UP, costs, order, reach};
use crate::experiment::target::Target;
use crate::experiment::{Context, Outcome, Row, Series};
use crate::stats::{Pairing, Statistic};
use serde_json::{Value, json};
use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};

/// The condition.
pub const CONDITION: &str = "phone";
/// What a probe is asked for.
pub const DAY: &str = "day";
/// Of the throughput of the best other forwarder.
const OF_THE_BEST: Target = Target::AtLeast(0.9);
const PEAK_MB: Target = Target::AtMost(100.0);
/// Connections of a day, those at a time, and those that stay open and silent, as apps that wait for news have them.
const CONNECTIONS: usize = 5000;
const AT_ONCE: usize = 16;
const SILENT: usize = 20;
/// Bytes of each connection: half of them up, half down.
const BYTES: usize = 64 * 1024;

/// Opens the connections of a day; how many there were.
pub fn day(to: SocketAddr) -> io::Result<Value> {
    let open = || TcpStream::connect(to);
    let silent = (0..SILENT).map(|_| open()).collect::<io::Result<Vec<_>>>()?;
    std::thread::scope(|scope| {
        let row = |first: usize| {
            move || (first..CONNECTIONS).step_by(AT_ONCE).try_for_each(|n| exchange(open()?, n % 2 == 0))
        };
        let threads: Vec<_> = (0..AT_ONCE).map(|first| scope.spawn(row(first))).collect();
        threads.into_iter().try_for_each(|t| t.join().unwrap_or_else(|_| Err(io::Error::other("died"))))
    })?;
    drop(silent);
    Ok(json!({ "connections": SILENT + CONNECTIONS }))
}

fn exchange(mut stream: TcpStream, up: bool) -> io::Result<()> {
    let mut bytes = vec![7; BYTES];
    if up {
        stream.write_all(&[UP])?;
        stream.write_all(&bytes)?;
        // Until the peer has it all, and says so.
        stream.shutdown(Shutdown::Write)?;
        stream.read_to_end(&mut Vec::new()).map(drop)
    } else {
        stream.write_all(&[DOWN])?;
        stream.read_exact(&mut bytes)
    }
}

/// Runs the condition; `to` is a peer that serves throughput.
pub fn run(cx: &Context, outcome: &mut Outcome, stage: &Stage<'_>, to: SocketAddr) -> anyhow::Result<()> {
    let about = "One and eight connections over a veth pair and an interface of 1500 bytes without super-packets, as Android makes \
                 it; and the memory that 5000 connections take.";
    outcome.condition(CONDITION, about);
    let arms: Vec<&str> = [BARE, PHONE].into_iter().chain(found(&[TUN2SOCKS, SING_BOX_1_13])).collect();
    for (metric, flows, up) in [
        ("throughput, one flow up", 1, true),
        ("throughput, one flow down", 1, false),
        ("throughput, eight flows up", 8, true),
        ("throughput, eight flows down", 8, false),
    ] {
        let load = Load { condition: CONDITION, metric, flows, up };
        let turns = order(&arms, if cx.quick { 3 } else { 7 }, 0);
        let Some(reached) = reach(cx, outcome, stage, to, &load, (&arms, &turns))? else { return Ok(()) };
        let series = |n: usize| Series::new(CONDITION, metric, "Mbit/s", arms[n], reached[n].rate.iter().copied());
        for n in 1..arms.len() {
            outcome.rows.push(Row::compare(&series(n), &series(0), Statistic::Median, Pairing::Unpaired, cx.seed)?);
        }
        let medians = (0..arms.len()).map(|n| Statistic::Median.of(&series(n).present()));
        outcome.notes.push(beside_the_best(metric, &arms, &medians.collect::<Result<Vec<_>, _>>()?));
        outcome.samples.extend((0..arms.len()).map(series));
        costs(outcome, &load, &arms, &reached, cx.seed)?;
    }
    for arm in &arms[1..] {
        cx.progress.step(0, 1, &format!("{CONDITION}, a day, {arm}"));
        let said = stage.say(arm, &[DAY.into(), to.to_string()])?;
        let peak = number(&said, "peak_mb")?;
        let metric = format!("peak memory of {} connections", said["connections"]);
        outcome
            .notes
            .extend((*arm == PHONE).then(|| PEAK_MB.note(&format!("{CONDITION}, {arm}, {metric}"), peak, "MB")));
        outcome.rows.push(Row::measured(CONDITION, &metric, "MB", arm, peak));
    }
    Ok(())
}

/// Ours, the second of `arms`, beside the best of those behind it. Without others nothing is judged.
fn beside_the_best(metric: &str, arms: &[&str], medians: &[f64]) -> String {
    let others = arms.iter().zip(medians).skip(2);
    match others.max_by(|a, b| a.1.total_cmp(b.1)) {
        Some((name, best)) => {
            OF_THE_BEST.note(&format!("{CONDITION}, {}, {metric}, of that of {name}", arms[1]), medians[1] / best, "x")
        }
        None => {
            format!("{CONDITION}, {metric}: no other forwarder was given; `cargo xtask peers` builds two and compares.")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::serve;
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn ours_is_judged_by_the_best_of_the_others_and_by_nobody_if_there_is_none() {
        let arms = [BARE, PHONE, TUN2SOCKS, SING_BOX_1_13];
        let note = |ours| beside_the_best("m", &arms, &[5000.0, ours, 400.0, 1000.0]);
        assert_eq!(note(900.0), "phone, ours-phone, m, of that of sing-box-1.13: 0.90 x, target at least 0.9 x: met");
        assert!(note(890.0).ends_with("MISSED"), "{}", note(890.0));
        let alone = beside_the_best("m", &arms[..2], &[5000.0, 1.0]);
        assert!(alone.contains("no other forwarder was given") && !alone.contains("target"), "{alone}");
    }

    #[test]
    fn a_day_has_all_its_connections() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let to = listener.local_addr().unwrap();
        std::thread::spawn(move || serve(&listener));
        assert_eq!(day(to).unwrap()["connections"], 5020);
    }
}
