//! How much the emulator carries, at what cost, by either kind of port; and how true a rate of the kernel's own is.
//!
//! One TCP flow each, from the lab's web server to a client that throws everything away: server, client and emulator share
//! the machine.

use super::{PROCESSOR_TIME, Rates, THROUGH, address, at_ip, download, judge};
use crate::experiment::target::Target;
use crate::experiment::{Context, Outcome, Row};
use crate::netns::{Network, PortKind, Settings, default_world};
use crate::world::World;
use headstart_core::path::Family;
use headstart_core::time::Duration;
use std::process::{Command, Stdio};

/// The condition on paper 5's fat channel.
pub const FAST: &str = "rate-1500mbit";
/// The condition without a limit.
pub const UNLIMITED: &str = "rate-unlimited";
/// The condition that is fast, and still certified.
pub const TWO_GBIT: &str = "rate-2gbit";
/// The condition of the kernel's own rate limit.
pub const TBF: &str = "rate-kernel";

/// A queue of one product of rate and RTT, so that one flow fills the link.
const FAST_LINK: &str = "rate=1500mbit,delay=15ms,queue=5600kb";
const TWO_GBIT_LINK: &str = "rate=2gbit,delay=5ms,queue=2500kb";
const UNLIMITED_LINK: &str = "delay=5ms";
/// The kernel limits; the emulator does nothing but pass packets on.
const NO_LINK: &str = "delay=0ms";

/// 98 % of 1500 Mbit/s.
const FAST_THROUGH: Target = Target::AtLeast(1470.0);
const UNLIMITED_THROUGH: Target = Target::AtLeast(1800.0);
const SINGLE_THROUGH: Target = Target::AtLeast(1100.0);
const COST: Target = Target::AtMost(1.2);

const METRIC: &str = "rate of one flow at the IP layer, mean after 2 s";

/// One download by ports of one kind.
struct Flow<'a> {
    condition: &'a str,
    link: &'a str,
    kind: PortKind,
    /// The configured rate of the link, in Mbit/s.
    configured: Option<f64>,
    through: Target,
    cost: Option<Target>,
    /// Whether lateness speaks against the run: not where the flow goes as fast as the machine can.
    timed: bool,
}

/// Runs the conditions that `cx` wants.
pub fn run(cx: &Context, outcome: &mut Outcome) -> anyhow::Result<()> {
    use PortKind::{SinglePackets, SuperPackets};
    let time = if cx.quick { Duration::from_secs(5) } else { Duration::from_secs(15) };
    let flow = |condition, link, kind, through| Flow {
        condition,
        link,
        kind,
        configured: None,
        through,
        cost: None,
        timed: false,
    };
    let flows = [
        Flow { configured: Some(1500.0), timed: true, ..flow(FAST, FAST_LINK, SuperPackets, FAST_THROUGH) },
        Flow {
            configured: Some(2000.0),
            timed: true,
            ..flow(TWO_GBIT, TWO_GBIT_LINK, SuperPackets, UNLIMITED_THROUGH)
        },
        Flow { cost: Some(COST), ..flow(UNLIMITED, UNLIMITED_LINK, SuperPackets, UNLIMITED_THROUGH) },
        flow(UNLIMITED, UNLIMITED_LINK, SinglePackets, SINGLE_THROUGH),
    ];
    for (condition, about) in [
        (FAST, format!("{FAST_LINK}: paper 5's fat channel; a queue of one product of rate and RTT")),
        (TWO_GBIT, format!("{TWO_GBIT_LINK}: a queue of one product of rate and RTT")),
        (UNLIMITED, format!("{UNLIMITED_LINK}: as fast as the machine goes")),
    ] {
        if cx.wants(condition) {
            outcome.condition(condition, about);
        }
    }
    for flow in flows.iter().filter(|flow| cx.wants(flow.condition)) {
        cx.progress.step(0, 1, &format!("one flow over {}, {}", flow.link, flow.kind));
        if !cx.goes_on(outcome) {
            return Ok(());
        }
        carry(cx, flow, time, outcome)?;
    }
    if cx.wants(TBF) {
        kernel(cx, time, outcome)?;
    }
    Ok(())
}

fn carry(cx: &Context, flow: &Flow<'_>, time: Duration, outcome: &mut Outcome) -> anyhow::Result<()> {
    let world = World { seed: cx.seed, ..default_world(flow.link) };
    let settings = Settings { ports: Some(flow.kind), ..Settings::default() };
    let network = Network::build_with(&world, &settings)?;
    let Rates { settled, .. } = download(cx, &network, address(&world, Family::V6)?, time)?;
    let certificate = network.certificate();
    let arm = flow.kind.to_string();
    let rate = at_ip(settled);
    let row = Row::measured(flow.condition, METRIC, "Mbit/s", &arm, rate);
    outcome.rows.push(match flow.configured {
        Some(told) => row.beside("as-told", told),
        None => row,
    });
    let what = |what: &str| format!("{what}, {} by {arm}", flow.condition);
    outcome.notes.push(flow.through.note(&what(METRIC), rate, "Mbit/s"));
    if let Some(cost) = certificate.cpu_s_per_gb() {
        outcome.price(flow.condition, &arm, PROCESSOR_TIME, "s", cost);
        outcome.rows.push(Row::measured(flow.condition, PROCESSOR_TIME, "s", &arm, cost));
        outcome.notes.extend(flow.cost.map(|target| target.note(&what(PROCESSOR_TIME), cost, "s")));
    }
    let p99 = Row::measured(flow.condition, "lateness of packets, p99", "us", &arm, certificate.lateness.p99_us);
    outcome.rows.push(p99);
    outcome.notes.push(format!(
        "{}: {} packets in {} frames, {} early; p50 {:.0} us late, p99 {:.0} us; packets dropped: {}.{}",
        what("ports"),
        certificate.packets,
        certificate.frames,
        certificate.early,
        certificate.lateness.p50_us,
        certificate.lateness.p99_us,
        certificate.drops,
        if certificate.valid {
            ""
        } else if flow.timed {
            " Not valid."
        } else {
            " Not certified: the flow uses the whole machine, so times over this link are not reliable and none is reported."
        }
    ));
    if flow.timed {
        judge(outcome, &certificate, flow.condition);
    }
    Ok(())
}

/// The same rate as the yardstick's, by the kernel's token bucket at the server.
fn kernel(cx: &Context, time: Duration, outcome: &mut Outcome) -> anyhow::Result<()> {
    const TOLD: f64 = 100.0;
    cx.progress.step(0, 1, "one flow through the kernel's token bucket");
    let world = World { seed: cx.seed, ..default_world(NO_LINK) };
    let settings = Settings { ports: Some(PortKind::SinglePackets), ..Settings::default() };
    let network = Network::build_with(&world, &settings)?;
    let words = "qdisc add dev eth0 root tbf rate 100mbit burst 32kb latency 100ms";
    let started = network.on_servers(|| {
        let mut tc = Command::new("tc");
        tc.args(words.split(' ')).stdout(Stdio::null()).stderr(Stdio::null()).status()
    })?;
    if !started.is_ok_and(|status| status.success()) {
        outcome.notes.push(format!("{TBF}: left out, `tc {words}` does not work here (Debian: iproute2)."));
        return Ok(());
    }
    let rates = download(cx, &network, address(&world, Family::V6)?, time)?;
    // The token bucket counts the Ethernet header; the rate at the IP layer is what is left of it.
    let rate = at_ip(rates.settled);
    let about = format!("tc {words}, at the server; no emulated delay: the baseline of `yardstick` for its rate");
    outcome.condition(TBF, about);
    outcome.rows.push(Row::measured(TBF, METRIC, "Mbit/s", "kernel-tbf", rate).beside("as-told", TOLD));
    outcome.notes.push(THROUGH.note(&format!("{METRIC}, {TBF} (not ours)"), rate, "Mbit/s"));
    let certificate = network.certificate();
    if certificate.drops.overflow > 0 {
        judge(outcome, &certificate, TBF);
    }
    Ok(())
}
