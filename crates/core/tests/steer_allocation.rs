//! A steerer and a resequencer that have found their stride allocate nothing a packet, and twenty thousand flows have their room:
//! counted by an allocator of this process's own.

use headstart_core::machine::Machine;
use headstart_core::steer::policy::{self, Entry};
use headstart_core::steer::{
    Arrived, ChannelSettings, Facts, FlowKey, Input, Kind, Output, ProbeSettings, Resequencer, Settings, Steerer, Use,
};
use headstart_core::time::{Duration, Instant};

fn steerer(policy: &'static Entry) -> Steerer<u64> {
    let channel = |rate, micros| ChannelSettings {
        rate,
        delay: Duration::from_micros(micros),
        loss: None,
        overhead: 68,
        compresses: true,
        uses: Use::Primary,
    };
    Steerer::new(Settings {
        policy,
        uplink: true,
        full: 1392,
        channels: [channel(1_500_000_000, 15_000), channel(2_000_000, 2_500)],
        probes: Some(ProbeSettings::default()),
    })
}

/// Packet number `n` of so many flows.
fn packet(n: u64, flows: u64) -> Facts {
    let flow = FlowKey((n % flows).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let (kind, len) = match n / flows % 4 {
        0 => (Kind::Open, 60),
        1 => (Kind::Ack, 52),
        2 => (Kind::Data, 400),
        _ => (Kind::Data, 1392),
    };
    Facts { len, payload: if kind == Kind::Data { len - 52 } else { 0 }, ack: Some(n as u32), ..Facts::of(flow, kind) }
}

/// One packet through both halves; nothing of it is under way for long.
fn step(steerer: &mut Steerer<u64>, resequencer: &mut Resequencer<u64>, n: u64, flows: u64) -> u64 {
    let now = Instant::from_nanos(1_000_000_000 + n * 50_000);
    steerer.handle_input(now, Input::Packet(packet(n, flows), n));
    steerer.handle_timeout(now);
    while let Some(output) = steerer.poll_output() {
        match output {
            Output::Send { channel, order, packet, .. } => {
                let after = order.after.map(|after| after as u16);
                resequencer
                    .handle_input(now, Arrived { channel, number: order.number as u16, after, copy_of: None, packet });
            }
            Output::Probe { channel, number } => {
                steerer.handle_input(now, Input::Echo { channel, number, come: Some(0) });
            }
            Output::Again { .. } | Output::Drop(_) => {}
        }
    }
    let mut came = 0;
    while resequencer.poll_output().is_some() {
        came += 1;
    }
    came
}

#[test]
fn a_packet_costs_no_allocation() {
    const PACKETS: u64 = 100_000;
    for entry in policy::ALL {
        let (mut steerer, mut resequencer) = (steerer(entry), Resequencer::new(Duration::from_millis(50)));
        for n in 0..PACKETS {
            step(&mut steerer, &mut resequencer, n, 1_000);
        }
        let mut came = 0;
        let counted = allocation_counter::measure(|| {
            came = (PACKETS..2 * PACKETS).map(|n| step(&mut steerer, &mut resequencer, n, 1_000)).sum();
        });
        assert!(came > PACKETS / 2, "{}: {came}", entry.name);
        assert_eq!(counted.count_total, 0, "{}", entry.name);
    }
}

#[test]
fn twenty_thousand_flows_take_at_most_60_megabytes() {
    const FLOWS: u64 = 20_000;
    let mut kept = None;
    let counted = allocation_counter::measure(|| {
        let mut steerer = steerer(policy::find(policy::DEFAULT).unwrap());
        let mut resequencer = Resequencer::new(Duration::from_millis(50));
        for n in 0..8 * FLOWS {
            step(&mut steerer, &mut resequencer, n, FLOWS);
        }
        kept = Some((steerer, resequencer));
    });
    let told = kept.map_or(0, |(steerer, _)| steerer.memory());
    println!("{FLOWS} flows: {} bytes at most at once, of which the table of flows says {told}", counted.bytes_max);
    assert!(counted.bytes_max <= 60_000_000, "{}", counted.bytes_max);
    // Its own account is not far from what was counted.
    assert!((told as f64 - counted.bytes_current as f64).abs() < 0.2 * told as f64, "{told} {}", counted.bytes_current);
}
