//! What the connector's memory of the world takes of the host's: ten thousand names, each resolved, raced for and
//! connected to. In a process of its own, which does nothing else.
#![forbid(unsafe_code)]

use headstart_core::connect::{
    AttemptId, AttemptResult, Claim, Connector, Input, LookupResult, Output, RequestId, Resolve, Settings, Want, race,
};
use headstart_core::machine::Machine;
use headstart_core::path::Family;
use headstart_core::time::{Duration, Instant};
use std::net::IpAddr;

const PROGRAMS: u32 = 10;
const NAMES: u32 = 1000;

/// Bytes of this process that are in memory.
fn resident() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix(" kB")?.parse::<u64>().ok().map(|kib| kib * 1024)
}

fn v4(n: u32) -> IpAddr {
    IpAddr::from((0x0a00_0000 + n).to_be_bytes())
}

fn v6(n: u32) -> IpAddr {
    IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, (n >> 16) as u16, n as u16])
}

/// Does what the connector wants done: every name has two addresses of each family, every host answers.
fn serve(connector: &mut Connector, now: &mut Instant, n: u32) {
    while let Some(output) = connector.poll_output() {
        *now += Duration::from_millis(1);
        match output {
            Output::Query { id, record, .. } => {
                let kept = Duration::from_secs(86_400);
                let result = match record.family() {
                    Some(Family::V4) => LookupResult::Addresses(vec![v4(2 * n), v4(2 * n + 1)], kept),
                    Some(Family::V6) => LookupResult::Addresses(vec![v6(2 * n), v6(2 * n + 1)], kept),
                    None => LookupResult::NoData(kept),
                };
                connector.handle_input(*now, Input::Lookup(id, result));
            }
            Output::Connect { id: AttemptId(id), .. } => {
                let result = AttemptResult::Connected(Duration::from_millis(20));
                connector.handle_input(*now, Input::Attempt(AttemptId(id), result));
            }
            _ => {}
        }
    }
}

#[test]
fn ten_thousand_names_take_less_than_the_supervisor_may_have() {
    let Some(before) = resident() else { return eprintln!("skipped: no /proc/self/status") };
    let mut connector = Connector::new(Settings::of(race::find(race::DEFAULT).unwrap()));
    let mut now = Instant::ZERO;
    for n in 0..PROGRAMS * NAMES {
        let app = format!("program-{}", n / NAMES);
        let name = format!("host-{n}.some-organisation.example");
        let ask = Resolve { app: app.as_str().into(), name, want: Want::Both, port: Some(443) };
        connector.handle_input(now, Input::Resolve(RequestId(u64::from(2 * n)), ask));
        serve(&mut connector, &mut now, n);
        let claim = Claim {
            app: app.as_str().into(),
            to: (v6(2 * n), 443).into(),
            domain: Family::V6,
            nonblocking: false,
            accepts_mapped: true,
            rescuable: None,
        };
        connector.handle_input(now, Input::Claim(RequestId(u64::from(2 * n + 1)), claim));
        serve(&mut connector, &mut now, n);
    }
    let taken = resident().unwrap().saturating_sub(before);
    println!("{PROGRAMS} programs with {NAMES} names each: {:.1} MB", taken as f64 / 1e6);
    assert!(connector.tally().handed_over >= u64::from(PROGRAMS * NAMES) / 2, "{:?}", connector.tally());
    for n in [0, PROGRAMS * NAMES - 1] {
        let cached = connector.explain(now, &format!("host-{n}.some-organisation.example")).unwrap().cached;
        assert!(cached.len() == 2 && cached.iter().all(|c| c.addresses.len() == 2 && c.left_ms > 0.0));
    }
    // 30 MB are for the whole process, whose program and libraries take about five.
    assert!(taken < 25_000_000, "{taken} bytes");
}
