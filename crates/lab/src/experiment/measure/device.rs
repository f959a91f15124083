//! `measure-device`: what a device that saves does to a measurement, and whether its state tells (claim P3.7).
//!
//! The paper's telephone takes processors away, slows those that are left and changes its radio from 802.11ac to 802.11g when
//! its battery is low (section 2). Here a control group gives a program a share of one processor, and a link is as slow as
//! 802.11g; no processor of the host is ever taken away. What state a device was in is read from recorded folders.

use super::arm::{self, BARE, EBPF, OURS, Stage, Testbed, numbers};
use super::latency::{self, world};
use super::throughput;
use super::wire::{WIRED, Wire};
use crate::cgroup::Group;
use crate::device::{DeviceState, Snapshot};
use crate::experiment::{Claims, Context, Entry, Outcome, Row, Series, Speeds, Steps};
use crate::netns::Network;
use crate::program::Folder;
use crate::stats::{Pairing, Statistic};
use anyhow::Context as _;
use std::fs;
use std::time::SystemTime;

/// The experiment.
pub const ENTRY: Entry = Entry {
    name: "measure-device",
    shows: "Power saving changes what a device measures; the recorded device state shows it",
    claims: &["P3.7"],
    conditions: &["recorded", "processors", "processors-ours", "processors-ebpf", "radio", "radio-ours", "radio-ebpf"],
    speeds: Speeds::Namespaces,
    run,
};

/// Arms: the device as it is, and as it is when it saves.
const AWAKE: &str = "awake";
const SAVING: &str = "saving";
/// What a saving device has of one processor. 20 %: the frequency of the paper's telephone falls to 65 %, and half of its
/// processors are gone; the rest is that a processor of today is several times one of 2014. Ours.
const SHARE: u32 = 20;
/// The radios, both ways, and a server of the paper's 17 ms. 802.11g at 54 Mbit/s carries 24 Mbit/s of TCP: no aggregates, so each
/// 1500 bytes cost 320 us of air besides their own 228 (IEEE 802.11-2012, sections 9.3 and 18.4), and acknowledgements as much. The faster
/// one is the paper's "almost four times".
const RADIOS: [(&str, &str); 2] = [(AWAKE, "rate=96mbit,delay=8500us"), (SAVING, "rate=24mbit,delay=8500us")];
const PEER: &str = "198.19.0.44";

/// A folder of a device as it was read, and whether its state must be doubted.
struct Recorded {
    name: &'static str,
    doubted: bool,
    files: &'static [(&'static str, &'static str)],
}

/// The paper's telephone above and below 20 %, and what else devices do. Values of the paper (section 2) where it has them.
const RECORDED: [Recorded; 6] = [
    device(
        "phone-full",
        false,
        &[
            ("sys/devices/system/cpu/present", "0-3"),
            ("sys/devices/system/cpu/online", "0-3"),
            ("sys/devices/system/cpu/cpu0/cpufreq/scaling_max_freq", "2650000"),
            ("sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq", "2650000"),
            ("sys/class/power_supply/battery/type", "Battery"),
            ("sys/class/power_supply/battery/capacity", "85"),
            ("sys/class/power_supply/battery/status", "Charging"),
            ("proc/net/wireless", "Inter-| sta-|\n face | tus |\n wlan0: 0000   70.  -40.  -256        0\n"),
        ],
    ),
    device(
        "phone-low",
        true,
        &[
            ("sys/devices/system/cpu/present", "0-3"),
            ("sys/devices/system/cpu/online", "0-1"),
            ("sys/devices/system/cpu/cpu0/cpufreq/scaling_max_freq", "1730000"),
            ("sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq", "2650000"),
            ("sys/class/power_supply/battery/type", "Battery"),
            ("sys/class/power_supply/battery/capacity", "18"),
            ("sys/class/power_supply/battery/status", "Charging"),
        ],
    ),
    device(
        "phone-hot",
        true,
        &[
            ("sys/class/thermal/thermal_zone0/temp", "61000"),
            ("sys/class/thermal/cooling_device0/type", "thermal-cpufreq-0"),
            ("sys/class/thermal/cooling_device0/cur_state", "2"),
        ],
    ),
    device(
        "laptop-unplugged",
        true,
        &[
            ("sys/class/power_supply/BAT0/type", "Battery"),
            ("sys/class/power_supply/BAT0/capacity", "64"),
            ("sys/class/power_supply/BAT0/status", "Discharging"),
        ],
    ),
    device(
        "far-from-its-access-point",
        true,
        &[("proc/net/wireless", "Inter-| sta-|\n face | tus |\n wlan0: 0000   28.  -82.  -256        0\n")],
    ),
    device("server", false, &[("sys/devices/system/cpu/present", "0-31"), ("sys/devices/system/cpu/online", "0-31")]),
];

const fn device(name: &'static str, doubted: bool, files: &'static [(&'static str, &'static str)]) -> Recorded {
    Recorded { name, doubted, files }
}

fn run(cx: &Context) -> anyhow::Result<Outcome> {
    let mut outcome = Outcome::new(ENTRY.name, cx.seed);
    if cx.wants("recorded") {
        recorded(&mut outcome)?;
    }
    let arms = arm::and_kernel(vec![BARE, OURS], &mut outcome);
    for (condition, arm) in [("processors", BARE), ("processors-ours", OURS), ("processors-ebpf", EBPF)] {
        if !cx.wants(condition) || !arms.contains(&arm) {
            continue;
        }
        let group = match Group::create(SHARE, 0) {
            Ok(group) => group,
            Err(e) => {
                outcome.notes.push(format!("{condition} is left out: cannot create a control group: {e}"));
                continue;
            }
        };
        let about = format!(
            "A program ({arm}) on a wire, alone, and with {SHARE} % of one processor; the peer has the others."
        );
        outcome.condition(condition, about);
        let wire = Wire::lay()?;
        let awake = Stage::new(Testbed::Wire(&wire), cx.program.clone())?;
        let saving = Stage::new(Testbed::Wire(&wire), cx.program.clone())?.under(group.words());
        one(cx, &mut outcome, (condition, arm), [&awake, &saving], &WIRED.to_string())?;
    }
    for (condition, arm) in [("radio", BARE), ("radio-ours", OURS), ("radio-ebpf", EBPF)] {
        if !cx.wants(condition) || !arms.contains(&arm) {
            continue;
        }
        let about = format!("A program ({arm}) over a link four times as fast as 802.11g, and over one as slow.");
        outcome.condition(condition, about);
        let networks = RADIOS.map(|(_, link)| Network::build(&world(link, PEER, cx.seed)));
        let [awake, saving] = networks;
        let (awake, saving) = (awake?, saving?);
        let stages = [
            Stage::new(Testbed::Network(&awake), cx.program.clone())?,
            Stage::new(Testbed::Network(&saving), cx.program.clone())?,
        ];
        one(cx, &mut outcome, (condition, arm), [&stages[0], &stages[1]], PEER)?;
        for network in [&awake, &saving] {
            outcome.doubts(network.certificate().doubt());
        }
    }
    outcome.how(
        "The two states of the device take turns. In each turn a program connects and sends requests as in `measure-latency`, \
         then sends and receives at full rate as in `measure-throughput`, over one connection. Ratios are of medians over all \
         turns.",
    );
    Ok(outcome)
}

/// A row for each recorded device.
fn recorded(outcome: &mut Outcome) -> anyhow::Result<()> {
    outcome.condition(
        "recorded",
        "Recorded folders of devices: the number of reasons to doubt a measurement in their state.",
    );
    for recorded in &RECORDED {
        let doubts = doubts(recorded)?;
        anyhow::ensure!(doubts.is_empty() != recorded.doubted, "{} gives {doubts:?}", recorded.name);
        let row = Row::measured("recorded", "reasons to doubt", "", recorded.name, doubts.len() as f64);
        outcome.rows.push(Row { claim: Some("P3.7".into()), ..row });
    }
    Ok(())
}

/// What speaks against a measurement on a recorded device.
fn doubts(recorded: &Recorded) -> anyhow::Result<Vec<String>> {
    let folder = Folder::new().context("a folder for a recorded device")?;
    let folder = folder.path();
    for (path, text) in recorded.files {
        let path = folder.join(path);
        fs::create_dir_all(path.parent().unwrap_or(folder)).context("a folder of a device")?;
        fs::write(&path, text).context("a file of a device")?;
    }
    let moment = Snapshot::take(folder);
    Ok(DeviceState::over(folder, SystemTime::UNIX_EPOCH, moment, moment, moment).doubts())
}

fn one(
    cx: &Context,
    outcome: &mut Outcome,
    (condition, arm): (&str, &'static str),
    stages: [&Stage<'_>; 2],
    peer: &str,
) -> anyhow::Result<()> {
    let claims = Claims::built_in()?;
    let (turns, times, millis) = if cx.quick { (3, 10, 700) } else { (10, 20, 2000) };
    let listen =
        |stage: &Stage<'_>| anyhow::Ok([stage.listen(peer, latency::serve)?, stage.listen(peer, throughput::serve)?]);
    let ends = [listen(stages[0])?, listen(stages[1])?];
    const METRICS: [(&str, &str); 4] = [
        ("connect time", "ms"),
        ("request-response latency", "ms"),
        ("throughput up", "Mbit/s"),
        ("throughput down", "Mbit/s"),
    ];
    let mut all = [(); 2].map(|()| [(); METRICS.len()].map(|()| Vec::new()));
    let mut steps = Steps::new(cx, 2 * turns);
    for _ in 0..turns {
        for (n, stage) in stages.into_iter().enumerate() {
            if !steps.next(outcome, &format!("{condition}, {}", [AWAKE, SAVING][n])) {
                return Ok(());
            }
            let [asked, moved] = ends[n].map(|end| end.to_string());
            let said = stage.say(arm, &[latency::WORKLOAD.into(), asked, times.to_string()])?;
            all[n][0].extend(numbers(&said, "connect"));
            all[n][1].extend(numbers(&said, "ask"));
            for (k, direction) in [(2, "up"), (3, "down")] {
                let words = [throughput::WORKLOAD, &moved, direction, "1", &millis.to_string()];
                let said = stage.say(arm, &words.map(str::to_owned))?;
                all[n][k].extend(said["mbit_s"].as_f64());
            }
        }
    }
    for (k, (metric, unit)) in METRICS.into_iter().enumerate() {
        let series = |n: usize| Series::new(condition, metric, unit, [AWAKE, SAVING][n], all[n][k].iter().copied());
        let row = Row::compare(&series(1), &series(0), Statistic::Median, Pairing::Unpaired, cx.seed)?;
        outcome.rows.push(if k < 2 { row.serving(&claims, "P3.7", SAVING)? } else { row });
        outcome.samples.extend([series(0), series(1)]);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_of_a_device_tells_whether_it_saves() {
        for recorded in &RECORDED {
            let doubts = doubts(recorded).unwrap();
            assert_eq!(!doubts.is_empty(), recorded.doubted, "{}: {doubts:?}", recorded.name);
        }
        let low = doubts(&RECORDED[1]).unwrap();
        assert!(low.len() == 3 && low.iter().any(|doubt| doubt.contains("2 of 4")), "{low:?}");
    }
}
