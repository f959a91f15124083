//! `emulator`: how truly the emulator carries real packets. An instrument: it serves no claim, the claims rest on it.
//!
//! Here: the kernel's TCP shakes hands and downloads over the link `yardstick` (100 Mbit/s, 15 ms each way); what it saw is
//! compared with what the link was told, and with the same link in virtual time. In the modules: how much it carries and at
//! what cost, how late single packets come, whether every packet met the fate that the models say. Runs inside
//! namespaces that the caller has entered; the state of the machine is the caller's to record and to doubt.

mod fidelity;
mod lateness;
mod throughput;

use super::target::Target;
use super::{Context, Entry, Outcome, Row, Series, Speeds};
use crate::netns::{Certificate, Network, default_world};
use crate::sim::{self, Arm, Session};
use crate::stats::{Pairing, Statistic};
use crate::world::World;
use anyhow::Context as _;
use headstart_core::connect::Want;
use headstart_core::connect::cache::Lifetime;
use headstart_core::path::Family;
use headstart_core::time::{Duration, Instant};
use headstart_io::sys::tcp_info::tcp_info;
use std::io::{Read, Write};
use std::net::{IpAddr, TcpStream};

/// The experiment.
pub const ENTRY: Entry = Entry {
    name: "emulator",
    shows: "An emulated link carries real packets at the configured rate and round-trip time",
    claims: &[],
    conditions: &[
        YARDSTICK,
        throughput::FAST,
        throughput::TWO_GBIT,
        throughput::UNLIMITED,
        throughput::TBF,
        lateness::IDLE,
        lateness::BUSY,
        fidelity::REPLAY,
        fidelity::SERIES,
    ],
    speeds: Speeds::Namespaces,
    run,
};

const YARDSTICK: &str = "yardstick";
/// 15 ms each way: the preset of that name.
const RTT_MS: f64 = 30.0;
/// The rate of the preset.
const RATE_MBIT: f64 = 100.0;
/// 0.5 ms: the error of the RTT that is tolerated at the median.
const RTT_ERROR: Target = Target::AtMost(0.5);
/// 95 Mbit/s have to come through, headers of IP and TCP counted: the rate of a link counts bits of IP packets.
const THROUGH: Target = Target::AtLeast(95.0);
/// A processor of a small machine can play this link beside the hosts at its ends: 10 s a gigabyte are an eighth of one.
const COST: Target = Target::AtMost(10.0);
/// 10 %: agreement of namespaces with virtual time at the median.
const DISAGREEMENT: Target = Target::AtMost(10.0);

/// What a gigabyte costs.
const PROCESSOR_TIME: &str = "processor time of the emulator for a gigabyte";

/// The two speeds, as arms.
const NAMESPACES: &str = "namespaces";
const VIRTUAL_TIME: &str = "virtual-time";

/// Between handshakes: no multiple of anything else here, so that they meet the emulator in every phase.
const GAP: Duration = Duration::from_millis(7);
/// Slow start, and the recovery from its end: with queues of 120 ms it overshoots once and loses a few packets.
const SETTLING: Duration = Duration::from_secs(2);
/// A rate is taken over each of these.
const WINDOW: Duration = Duration::from_millis(250);
/// Longest silence of a download: far longer than any link here holds a packet.
const PATIENCE: Duration = Duration::from_secs(10);
/// An IPv6 packet of the largest size (RFC 8200: 40 bytes of header) and what of it is payload with TCP timestamps
/// (RFC 9293, RFC 7323: 32 bytes of header).
const PACKET: (f64, f64) = (1500.0, 1428.0);

/// How much is measured.
struct Size {
    handshakes: usize,
    download: Duration,
}

fn run(cx: &Context) -> anyhow::Result<Outcome> {
    let mut outcome = Outcome::new(ENTRY.name, cx.seed);
    if cx.wants(YARDSTICK) {
        yardstick(cx, &mut outcome)?;
    }
    throughput::run(cx, &mut outcome)?;
    lateness::run(cx, &mut outcome)?;
    fidelity::run(cx, &mut outcome)?;
    outcome.method.push(QUOTED.into());
    Ok(outcome)
}

/// What others reach, which this experiment does not measure.
const QUOTED: &str = "Other emulators are quoted, not measured here: in the project's notes on this kind of machine (2 \
                      processors, load 3 to 5, one TCP flow, 5 ms each way), mahimahi's mm-delay carried 533 to 612 Mbit/s for \
                      5.6 to 5.9 s of processor time a gigabyte with errors of the delay up to 1.8 ms either way, rattan 251 to \
                      381 Mbit/s for 9.1 to 9.7 s. No row here is compared with them.";

fn yardstick(cx: &Context, outcome: &mut Outcome) -> anyhow::Result<()> {
    let size = if cx.quick {
        Size { handshakes: 40, download: Duration::from_secs(5) }
    } else {
        Size { handshakes: 300, download: Duration::from_secs(20) }
    };
    let world = World { seed: cx.seed, ..default_world(YARDSTICK) };
    let network = Network::build(&world)?;
    outcome.condition(
        YARDSTICK,
        "100 Mbit/s, 15 ms each way, no loss, drop-tail queues of 1000 packets; one dual-stack server at the far \
                end of the link.",
    );
    outcome.method.push(format!(
        "{} handshakes a family, {GAP:?} apart, with the RTT that the client's kernel took from each (TCP_INFO); then one \
         download over IPv6 for {:?}, its rate over windows of {WINDOW:?} after the first {SETTLING:?}. Client congestion control {}, \
         server {}. Goodput counts payload; the rate at the IP layer counts whole packets, as the link does ({} of {} \
         bytes are payload).",
        size.handshakes,
        size.download,
        network.client_congestion_control(),
        network.server_congestion_control(),
        PACKET.1,
        PACKET.0,
    ));
    let mut rtts = Vec::new();
    for (i, family) in Family::BOTH.into_iter().enumerate() {
        cx.progress.step(i as u64, 3, &format!("handshakes over {}", name(family)));
        let measured = handshakes(cx, &network, address(&world, family)?, size.handshakes)?;
        rtts.push((family, measured, virtual_handshake(cx, &world, family)?));
        if !cx.goes_on(outcome) {
            return Ok(());
        }
    }
    cx.progress.step(2, 3, "one download");
    let before = network.certificate();
    let rates = download(cx, &network, address(&world, Family::V6)?, size.download)?;
    let after = network.certificate();
    for (family, measured, simulated) in &rtts {
        report_handshakes(outcome, *family, measured, *simulated, cx.seed)?;
    }
    report_download(outcome, &rates)?;
    report_cost(outcome, &before, &after);
    report_certificate(outcome, &network.certificate());
    Ok(())
}

fn name(family: Family) -> &'static str {
    match family {
        Family::V4 => "IPv4",
        Family::V6 => "IPv6",
    }
}

fn address(world: &World, family: Family) -> anyhow::Result<IpAddr> {
    let site = world.sites.first().context("the lab's default world has no sites")?;
    let hosts = if family == Family::V4 { &site.v4 } else { &site.v6 };
    Ok(hosts.first().context("the first site of the lab's default world is not dual-stack")?.addr)
}

/// RTT as the kernel took it, and time in connect, of each handshake, in ms.
struct Handshakes {
    rtt: Vec<f64>,
    connect: Vec<f64>,
}

fn handshakes(cx: &Context, network: &Network, to: IpAddr, times: usize) -> anyhow::Result<Handshakes> {
    let clock = network.clock();
    network.on_client(|| {
        let mut taken = Handshakes { rtt: Vec::new(), connect: Vec::new() };
        for _ in 0..times {
            if cx.progress.stop() {
                break;
            }
            let before = clock.now();
            let stream = TcpStream::connect((to, 80)).with_context(|| format!("connecting to {to} in the lab"))?;
            taken.connect.push(ms(clock.now() - before));
            taken.rtt.push(ms(tcp_info(&stream)?.rtt));
            clock.sleep(GAP);
        }
        Ok(taken)
    })?
}

/// The same handshake in virtual time, in ms.
fn virtual_handshake(cx: &Context, world: &World, family: Family) -> anyhow::Result<f64> {
    let settings = sim::Settings { arm: Arm::Bare, lifetime: Lifetime::Off, seed: cx.seed };
    let visit = Session::new(world, settings)?.visit(0, Want::Only(family));
    anyhow::ensure!(
        visit.reached.is_some(),
        "the first site of the lab's default world does not answer in virtual time"
    );
    Ok(ms(visit.connect))
}

/// Rates of a download in Mbit/s of payload.
struct Rates {
    /// From the first byte to the last.
    whole: f64,
    /// After [`SETTLING`].
    settled: f64,
    /// Window by window, after [`SETTLING`].
    windows: Vec<f64>,
}

fn download(cx: &Context, network: &Network, from: IpAddr, time: Duration) -> anyhow::Result<Rates> {
    let fetch = || format!("downloading from {from} in the lab");
    let mut stream = network.on_client(|| TcpStream::connect((from, 80)))?.with_context(fetch)?;
    stream.set_read_timeout(Some(PATIENCE)).with_context(fetch)?;
    stream.write_all(b"GET /bytes/1000000000000 HTTP/1.1\r\nHost: www.lab.example\r\n\r\n").with_context(fetch)?;
    let mut buffer = vec![0; 1 << 18];
    let clock = network.clock();
    // The first bytes start the meter: before them was the request on its way.
    let mut got = stream.read(&mut buffer).with_context(fetch)?;
    let began = clock.now();
    let mut meter = Meter::begin(began);
    while got > 0 && clock.now() - began < time && !cx.progress.stop() {
        got = stream.read(&mut buffer).with_context(fetch)?;
        meter.add(clock.now(), got as u64);
    }
    anyhow::ensure!(got > 0, "the lab's web server ended a download too early");
    meter.rates().context("the download was over before its rate had settled")
}

/// Counts bytes by window.
struct Meter {
    began: Instant,
    bytes: u64,
    /// When the rate had settled, and the bytes until then.
    settled: Option<(Instant, u64)>,
    /// Begin of the current window, and the bytes until then.
    window: (Instant, u64),
    windows: Vec<f64>,
}

impl Meter {
    fn begin(began: Instant) -> Self {
        Self { began, bytes: 0, settled: None, window: (began, 0), windows: Vec::new() }
    }

    fn add(&mut self, now: Instant, bytes: u64) {
        self.bytes += bytes;
        if self.settled.is_none() && now - self.began >= SETTLING {
            self.settled = Some((now, self.bytes));
            self.window = (now, self.bytes);
        } else if self.settled.is_some() && now - self.window.0 >= WINDOW {
            self.windows.push(mbit(self.bytes - self.window.1, now - self.window.0));
            self.window = (now, self.bytes);
        }
    }

    fn rates(self) -> Option<Rates> {
        let (at, before) = self.settled?;
        // Whole windows only: the last moment is that of the last window's end.
        let (end, bytes) = self.window;
        (end > at).then(|| Rates {
            whole: mbit(bytes, end - self.began),
            settled: mbit(bytes - before, end - at),
            windows: self.windows,
        })
    }
}

fn report_handshakes(
    outcome: &mut Outcome,
    family: Family,
    measured: &Handshakes,
    simulated: f64,
    seed: u64,
) -> anyhow::Result<()> {
    let family = name(family);
    let series = |metric: &str, arm, values: &[f64]| {
        Series::new(YARDSTICK, &format!("{metric} over {family}"), "ms", arm, values.iter().copied())
    };
    let rtt = series("RTT of a handshake", NAMESPACES, &measured.rtt);
    let median = Statistic::Median.of(&measured.rtt)?;
    let error = (median - RTT_MS).abs();
    let metric = format!("error of the RTT of a handshake over {family}, median");
    outcome.rows.push(Row::measured(YARDSTICK, &metric, "ms", NAMESPACES, error));
    outcome.notes.push(RTT_ERROR.note(&metric, error, "ms"));

    let told = series("RTT of a handshake", "as-told", &vec![RTT_MS; measured.rtt.len()]);
    for statistic in [Statistic::Median, Statistic::Quantile(0.99)] {
        outcome.rows.push(Row::compare(&rtt, &told, statistic, Pairing::Unpaired, seed)?);
    }
    let connect = series("time in connect", NAMESPACES, &measured.connect);
    let virtual_time = series("time in connect", VIRTUAL_TIME, &vec![simulated; measured.connect.len()]);
    let row = Row::compare(&connect, &virtual_time, Statistic::Median, Pairing::Unpaired, seed)?;
    let apart = row.ratio.map_or(f64::NAN, |r| 100.0 * (r - 1.0).abs());
    let metric = format!("namespaces and virtual time apart in the time in connect over {family}, median");
    outcome.notes.push(DISAGREEMENT.note(&metric, apart, "%"));
    outcome.rows.push(row);
    outcome.samples.extend([rtt, connect]);
    Ok(())
}

fn report_download(outcome: &mut Outcome, rates: &Rates) -> anyhow::Result<()> {
    let metric = "rate of a download at the IP layer, mean after 2 s";
    let row = |metric: &str, value: f64, told: f64| {
        Row::measured(YARDSTICK, metric, "Mbit/s", NAMESPACES, value).beside("as-told", told)
    };
    outcome.rows.push(row(metric, at_ip(rates.settled), RATE_MBIT));
    outcome.notes.push(THROUGH.note(metric, at_ip(rates.settled), "Mbit/s"));
    let windows: Vec<f64> = rates.windows.iter().copied().map(at_ip).collect();
    let metric = format!("rate of a download at the IP layer over {} ms, median", WINDOW.as_millis());
    outcome.rows.push(row(&metric, Statistic::Median.of(&windows)?, RATE_MBIT));
    // What is left for payload when packets are full.
    let most = RATE_MBIT * PACKET.1 / PACKET.0;
    outcome.rows.push(row("goodput of a download, mean after 2 s", rates.settled, most));
    outcome.rows.push(row("goodput of a download, mean with slow start", rates.whole, most));
    outcome.samples.push(Series::new(YARDSTICK, "rate of a download at the IP layer", "Mbit/s", NAMESPACES, windows));
    Ok(())
}

/// What the emulator spent on the download: what it did from `before` to `after`.
fn report_cost(outcome: &mut Outcome, before: &Certificate, after: &Certificate) {
    let gigabytes = (after.bytes - before.bytes) as f64 / 1e9;
    let cost = (after.cpu_s - before.cpu_s) / gigabytes;
    outcome.rows.push(Row::measured(YARDSTICK, PROCESSOR_TIME, "s", NAMESPACES, cost));
    outcome.notes.push(COST.note(PROCESSOR_TIME, cost, "s"));
}

/// The rate at the IP layer that goes with a rate of payload.
fn at_ip(payload: f64) -> f64 {
    payload * PACKET.0 / PACKET.1
}

fn report_certificate(outcome: &mut Outcome, certificate: &Certificate) {
    let Certificate { lateness, net_lateness, drops, .. } = certificate;
    for (metric, value) in [
        ("lateness of packets, p50", lateness.p50_us),
        ("lateness of packets, p99", lateness.p99_us),
        ("lateness of packets, max", lateness.max_us),
        ("lateness of packets without the fixed bias, p50", net_lateness.p50_us),
        ("lateness of packets without the fixed bias, p99", net_lateness.p99_us),
    ] {
        outcome.rows.push(Row::measured(YARDSTICK, metric, "us", NAMESPACES, value));
    }
    let allowed = Target::AtMost(certificate.allowed_us);
    outcome.notes.push(allowed.note("lateness of packets, p99", lateness.p99_us, "us"));
    outcome.notes.push(format!(
        "The emulator moved {} packets by ports of {}, {} early, with a fixed bias of {:.1} us and {} real-time priority; \
         {drops:?}.",
        certificate.packets,
        certificate.ports,
        certificate.early,
        certificate.bias_us,
        if certificate.real_time_priority { "with" } else { "without" },
    ));
    judge(outcome, certificate, YARDSTICK);
}

/// Marks the run if the emulator was late or lost something.
fn judge(outcome: &mut Outcome, certificate: &Certificate, condition: &str) {
    outcome.doubts_of(condition, certificate.doubt());
}

fn ms(d: Duration) -> f64 {
    d.as_secs_f64() * 1e3
}

fn mbit(bytes: u64, time: Duration) -> f64 {
    bytes as f64 * 8.0 / time.as_secs_f64() / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_that_of_whole_windows_once_it_has_settled() {
        let at = |ms: u64| Instant::from_nanos(ms * 1_000_000);
        let mut meter = Meter::begin(at(0));
        assert!(Meter::begin(at(0)).rates().is_none(), "nothing has settled yet");
        meter.add(at(1900), 1);
        meter.add(at(2000), 999_999);
        // 2.5 MB in 250 ms are 80 Mbit/s.
        for ms in (2050..=2500).step_by(50) {
            meter.add(at(ms), 500_000);
        }
        // Not a whole window any more.
        meter.add(at(2600), 99_000_000);
        let rates = meter.rates().unwrap();
        assert_eq!((rates.settled, rates.windows.as_slice()), (80.0, &[80.0, 80.0][..]));
        assert!((rates.whole - 6.0 * 8.0 / 2.5).abs() < 1e-9, "{}", rates.whole);
    }

    #[test]
    fn virtual_time_takes_the_round_trip_and_the_time_on_the_wire() {
        let cx = Context::new(1);
        let world = default_world(YARDSTICK);
        for (family, bits) in [(Family::V4, 60.0 * 8.0), (Family::V6, 80.0 * 8.0)] {
            // SYN and SYN-ACK at 100 Mbit/s.
            let wire = 2.0 * bits / 100e3;
            let taken = virtual_handshake(&cx, &world, family).unwrap();
            assert!((taken - RTT_MS - wire).abs() < 0.002, "{family:?}: {taken} ms");
        }
    }
}
