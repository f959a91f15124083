//! The state of the machine that an experiment ran on: the answer to paper 3 (P3.7), which found that a measurement
//! without the state of its device cannot be compared with any other.
//!
//! Reads `/proc` and `/sys` below a root that the caller gives (tests bring their own); takes the date as an
//! argument, runs no program, changes nothing. What cannot be read is absent, never guessed.

use serde::{Deserialize, Serialize};
use std::fs;
use std::path::Path;
use std::time::SystemTime;

/// The state of the machine during a run, as results carry it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DeviceState {
    /// When the run began: UTC, ISO 8601, to the second.
    pub date: String,
    /// Version of this program.
    pub program: String,
    /// Commit that it was built from, with `-dirty` behind it if sources were changed since; the program adds it.
    pub commit: Option<String>,
    /// Kernel release.
    pub kernel: Option<String>,
    /// Model of the processor.
    pub cpu: Option<String>,
    /// Processors that are online.
    pub cpus: Option<u32>,
    /// Frequency governor of the first processor.
    pub governor: Option<String>,
    /// Load average of one minute before the run.
    pub load_before: Option<f64>,
    /// Load average of one minute after the run.
    pub load_after: Option<f64>,
    /// Share of processor time that was idle just before the run, in percent.
    #[serde(default)]
    pub idle_before_percent: Option<f64>,
    /// Share of processor time that was idle during the run, in percent.
    pub idle_percent: Option<f64>,
    /// Share of processor time that the hypervisor gave to others during the run, in percent.
    pub steal_percent: Option<f64>,
    /// Default congestion control of the namespace that the program ran in; namespaces of the lab may set another.
    pub congestion_control: Option<String>,
    /// Charge of the battery in percent.
    pub battery_percent: Option<f64>,
    /// What the battery does: `Charging`, `Discharging`, `Full`.
    pub battery_status: Option<String>,
    /// Hottest thermal zone after the run, in degrees Celsius.
    pub temperature_c: Option<f64>,
    /// Processors that are there and switched on, and that are there and switched off.
    #[serde(default)]
    pub cpus_online: Option<u32>,
    /// See `cpus_online`.
    #[serde(default)]
    pub cpus_offline: Option<u32>,
    /// The frequency that processors may have, of the highest that they can have, in percent; of the slowest.
    #[serde(default)]
    pub frequency_percent: Option<f64>,
    /// Devices that cool by slowing something, and do so now.
    #[serde(default)]
    pub cooling: Option<u32>,
    /// Share of the time in which a task waited for a processor during the run, in percent (PSI).
    #[serde(default)]
    pub pressure_percent: Option<f64>,
    /// The weakest signal of a Wi-Fi interface, in dBm.
    #[serde(default)]
    pub wifi_dbm: Option<f64>,
}

/// At this charge or less devices save: paper 3, section 2.
const LOW_BATTERY: f64 = 20.0;
/// Below this signal the rate of Wi-Fi moves: see [`DeviceState::doubts`].
const WEAK_SIGNAL: f64 = -74.0;

/// What changes while an experiment runs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Snapshot {
    load: Option<f64>,
    cpu: Option<CpuTimes>,
    /// Microseconds since boot: in which a task waited for a processor, and of all.
    pressure: Option<(f64, f64)>,
}

/// Processor time since boot, all processors, in ticks.
#[derive(Clone, Copy, Debug, PartialEq)]
struct CpuTimes {
    total: u64,
    idle: u64,
    steal: u64,
}

impl Snapshot {
    /// Reads load and processor times below `root` (`/` but in tests).
    pub fn take(root: &Path) -> Self {
        let load = read(root, "proc/loadavg").and_then(|t| t.split_whitespace().next()?.parse().ok());
        let cpu = read(root, "proc/stat").and_then(|t| cpu_times(&t));
        let uptime = read(root, "proc/uptime").and_then(|t| t.split_whitespace().next()?.parse::<f64>().ok());
        let waited = read(root, "proc/pressure/cpu").and_then(|t| waited(&t));
        Self { load, cpu, pressure: waited.zip(uptime.map(|seconds| seconds * 1e6)) }
    }

    /// Share of the time until `later` in which a task waited for a processor, in percent.
    fn pressure(&self, later: &Self) -> Option<f64> {
        let ((waited, from), (waited_later, to)) = self.pressure.zip(later.pressure)?;
        (to > from).then(|| (100.0 * (waited_later - waited) / (to - from)).clamp(0.0, 100.0))
    }

    /// Share of the processor time until `later` that was not idle, in percent; none where the kernel does not say.
    pub fn busy(&self, later: &Self) -> Option<f64> {
        self.shares(later).map(|(idle, _)| 100.0 - idle)
    }

    /// Shares of the processor time until `later` that were idle and stolen, in percent.
    fn shares(&self, later: &Self) -> Option<(f64, f64)> {
        let (a, b) = self.cpu.zip(later.cpu)?;
        let total = b.total.checked_sub(a.total).filter(|t| *t > 0)? as f64;
        // The kernel does not promise that idle never goes back; a share is never negative.
        let share = |from: u64, to: u64| 100.0 * to.saturating_sub(from) as f64 / total;
        Some((share(a.idle, b.idle), share(a.steal, b.steal)))
    }
}

impl DeviceState {
    /// The commit in twelve digits, still with `-dirty`.
    pub fn short_commit(&self) -> Option<String> {
        let commit = self.commit.as_deref()?;
        let (hash, dirty) = commit.strip_suffix("-dirty").map_or((commit, ""), |hash| (hash, "-dirty"));
        Some(hash.chars().take(12).collect::<String>() + dirty)
    }

    /// The state of the machine below `root` over a run that began at `began`: a moment before it, at its beginning and at
    /// its end.
    pub fn over(root: &Path, began: SystemTime, earlier: Snapshot, before: Snapshot, after: Snapshot) -> Self {
        let shares = before.shares(&after);
        let (battery_percent, battery_status) = battery(root);
        let count = |name: &str| read(root, &format!("sys/devices/system/cpu/{name}")).and_then(|t| count_ranges(&t));
        let (present, online) = (count("present"), count("online"));
        Self {
            date: iso8601(began),
            program: env!("CARGO_PKG_VERSION").into(),
            commit: None,
            kernel: read(root, "proc/sys/kernel/osrelease"),
            cpu: read(root, "proc/cpuinfo").and_then(|t| cpu_model(&t)),
            cpus: read(root, "proc/stat").map(|t| count_cpus(&t)).filter(|n| *n > 0),
            governor: read(root, "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
            load_before: before.load,
            load_after: after.load,
            idle_before_percent: earlier.shares(&before).map(|s| s.0),
            idle_percent: shares.map(|s| s.0),
            steal_percent: shares.map(|s| s.1),
            congestion_control: read(root, "proc/sys/net/ipv4/tcp_congestion_control"),
            battery_percent,
            battery_status,
            temperature_c: hottest(root),
            cpus_online: online,
            cpus_offline: present.zip(online).map(|(present, online)| present.saturating_sub(online)),
            frequency_percent: frequency(root),
            cooling: cooling(root),
            pressure_percent: before.pressure(&after),
            wifi_dbm: read(root, "proc/net/wireless").and_then(|t| weakest(&t)),
        }
    }

    /// Why real-time results of this machine should not be trusted; empty if nothing speaks against them.
    ///
    /// For runs in namespaces only: virtual time does not depend on the machine. The emulator's certificate of its own
    /// lateness is a separate reason and comes from the emulator. The rules, all of them about other work that may have taken
    /// the processor while a packet waited:
    ///
    /// - stolen time above 2 %: a virtual machine whose host was busy;
    /// - less than half idle in the moment before the run: something else was at work (the load average says the same a
    ///   minute late, and would doubt every run that follows a build; it is printed, not judged);
    /// - less than 5 % idle during the run: there was no processor left when a timer fired;
    /// - a battery that discharges: frequencies change as it does (paper 3);
    /// - a battery at 20 % or less, charging or not: devices save then (paper 3, section 2);
    /// - processors that are switched off, slowed or cooled: so do others;
    /// - a Wi-Fi signal below -74 dBm: MCS 3 of 802.11n wants as much (IEEE 802.11-2012, table 20-23), and rates move.
    ///
    /// What is not known raises no doubt.
    pub fn doubts(&self) -> Vec<String> {
        let mut doubts = Vec::new();
        if let Some(steal) = self.steal_percent.filter(|s| *s > 2.0) {
            doubts.push(format!("the hypervisor took {steal:.1} % of the processor time, more than 2 %: run again when its host is quiet"));
        }
        if let Some(idle) = self.idle_before_percent.filter(|i| *i < 50.0) {
            doubts.push(format!("only {idle:.0} % of the processor time was idle just before the run, less than half: stop what else runs and run again"));
        }
        if let Some(idle) = self.idle_percent.filter(|i| *i < 5.0) {
            doubts.push(format!("only {idle:.1} % of the processor time was idle during the run, less than 5 %: run fewer things at once"));
        }
        if self.battery_status.as_deref() == Some("Discharging") {
            doubts.push(
                "the machine ran on its battery, which changes processor frequencies: connect it and run again".into(),
            );
        }
        if let Some(left) = self.battery_percent.filter(|left| *left <= LOW_BATTERY) {
            doubts.push(format!("the battery was at {left:.0} %, at which devices save: charge it and run again"));
        }
        if let Some(off) = self.cpus_offline.filter(|off| *off > 0) {
            let all = off + self.cpus_online.unwrap_or(0);
            doubts.push(format!("{off} of {all} processors were switched off: switch them on and run again"));
        }
        if let Some(percent) = self.frequency_percent.filter(|percent| *percent < 99.0) {
            doubts.push(format!(
                "processors were held to {percent:.0} % of their frequency: lift the limit and run again"
            ));
        }
        if let Some(cooling) = self.cooling.filter(|cooling| *cooling > 0) {
            doubts.push(format!("{cooling} cooling devices were slowing the machine: let it cool and run again"));
        }
        if let Some(signal) = self.wifi_dbm.filter(|signal| *signal < WEAK_SIGNAL) {
            doubts
                .push(format!("the Wi-Fi signal was {signal:.0} dBm, which changes rates: come closer and run again"));
        }
        doubts
    }
}

/// A file below `root` without the white space around it; none if it is missing or empty.
fn read(root: &Path, path: &str) -> Option<String> {
    let text = fs::read_to_string(root.join(path)).ok()?;
    Some(text.trim().to_owned()).filter(|t| !t.is_empty())
}

/// The first line of `/proc/stat`: user nice system idle iowait irq softirq steal guest guest_nice. Guest time is
/// already part of user and nice, so only the first eight count.
fn cpu_times(stat: &str) -> Option<CpuTimes> {
    let line = stat.lines().find_map(|l| l.strip_prefix("cpu "))?;
    let ticks: Vec<u64> = line.split_whitespace().take(8).map(str::parse).collect::<Result<_, _>>().ok()?;
    let [_, _, _, idle, iowait, _, _, steal] = ticks[..] else { return None };
    Some(CpuTimes { total: ticks.iter().sum(), idle: idle + iowait, steal })
}

fn count_cpus(stat: &str) -> u32 {
    let numbered = |l: &&str| l.strip_prefix("cpu").is_some_and(|r| r.starts_with(|c: char| c.is_ascii_digit()));
    stat.lines().filter(numbered).count() as u32
}

/// `model name` on x86; some ARM kernels print only `Model` or `Hardware`.
fn cpu_model(cpuinfo: &str) -> Option<String> {
    ["model name", "Model", "Hardware"].into_iter().find_map(|key| {
        cpuinfo.lines().find_map(|l| {
            let (k, v) = l.split_once(':')?;
            (k.trim() == key && !v.trim().is_empty()).then(|| v.trim().to_owned())
        })
    })
}

/// Charge and status of the first battery.
fn battery(root: &Path) -> (Option<f64>, Option<String>) {
    let Some(dir) = entries(root, "sys/class/power_supply", "")
        .into_iter()
        .find(|d| read(root, &format!("{d}/type")).as_deref() == Some("Battery"))
    else {
        return (None, None);
    };
    (read(root, &format!("{dir}/capacity")).and_then(|t| t.parse().ok()), read(root, &format!("{dir}/status")))
}

/// How many numbers ranges have: `0-3,8` are five.
fn count_ranges(text: &str) -> Option<u32> {
    text.split(',').try_fold(0u32, |count, range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last) = (first.parse::<u32>().ok()?, last.parse::<u32>().ok()?);
        count.checked_add(last.checked_sub(first)?.checked_add(1)?)
    })
}

/// What the slowest processor may have of its frequency, in percent.
fn frequency(root: &Path) -> Option<f64> {
    let share = |cpu: String| {
        let value = |name: &str| read(root, &format!("{cpu}/cpufreq/{name}"))?.parse::<f64>().ok();
        let (now, most) = (value("scaling_max_freq")?, value("cpuinfo_max_freq")?);
        (most > 0.0).then_some(100.0 * now / most)
    };
    entries(root, "sys/devices/system/cpu", "cpu").into_iter().filter_map(share).reduce(f64::min)
}

/// How many devices cool by slowing something now. Fans slow nothing.
fn cooling(root: &Path) -> Option<u32> {
    let devices = entries(root, "sys/class/thermal", "cooling_device");
    let states = devices.iter().filter_map(|device| {
        let kind = read(root, &format!("{device}/type"))?;
        Some((kind, read(root, &format!("{device}/cur_state"))?.parse::<u32>().ok()?))
    });
    let states: Vec<_> = states.filter(|(kind, _)| !kind.to_ascii_lowercase().contains("fan")).collect();
    (!states.is_empty()).then(|| states.iter().filter(|(_, state)| *state > 0).count() as u32)
}

/// Microseconds in which a task waited (`some … total=`).
fn waited(pressure: &str) -> Option<f64> {
    let line = pressure.lines().find_map(|line| line.strip_prefix("some "))?;
    line.split_whitespace().find_map(|field| field.strip_prefix("total="))?.parse().ok()
}

/// The weakest level of /proc/net/wireless: the third number of an interface, in dBm where it is negative.
fn weakest(wireless: &str) -> Option<f64> {
    let level = |line: &str| {
        let (_, values) = line.split_once(':')?;
        values.split_whitespace().nth(2)?.trim_end_matches('.').parse::<f64>().ok()
    };
    wireless.lines().filter_map(level).filter(|level| *level < 0.0).reduce(f64::min)
}

fn hottest(root: &Path) -> Option<f64> {
    entries(root, "sys/class/thermal", "thermal_zone")
        .into_iter()
        .filter_map(|d| read(root, &format!("{d}/temp"))?.parse::<f64>().ok())
        .reduce(f64::max)
        .map(|millidegrees| millidegrees / 1000.0)
}

/// Paths below `root` of what lies in `dir`, sorted, if its name starts with `prefix`.
fn entries(root: &Path, dir: &str, prefix: &str) -> Vec<String> {
    let names = fs::read_dir(root.join(dir)).into_iter().flatten().flatten().map(|e| e.file_name());
    let mut paths: Vec<String> = names
        .filter_map(|n| Some(n.to_str()?.to_owned()).filter(|n| n.starts_with(prefix)))
        .map(|n| format!("{dir}/{n}"))
        .collect();
    paths.sort();
    paths
}

/// UTC, to the second. Days to dates by Howard Hinnant's `civil_from_days` (public domain), which counts from the first
/// of March so that the leap day comes last.
pub fn iso8601(time: SystemTime) -> String {
    let seconds = time.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |d| d.as_secs());
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", rest / 3600, rest / 60 % 60, rest % 60)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// A root directory with these files.
    fn root(files: &[(&str, &str)]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        dir
    }

    #[test]
    fn a_run_between_two_snapshots_has_shares_of_its_own_time_only() {
        let before = root(&[
            (
                "proc/stat",
                "cpu  1000 0 500 8000 500 0 0 100 0 0\ncpu0 1 2 3 4 5 6 7 8 9 10\ncpu1 1 2 3 4 5 6 7 8 9 10\nintr 5\n",
            ),
            ("proc/loadavg", "0.25 0.10 0.05 1/100 4242\n"),
        ]);
        let after = root(&[
            (
                "proc/stat",
                "cpu  1200 0 600 8500 600 0 0 200 0 0\ncpu0 1 2 3 4 5 6 7 8 9 10\ncpu1 1 2 3 4 5 6 7 8 9 10\n",
            ),
            ("proc/loadavg", "1.50 0.40 0.10 2/100 4300\n"),
            ("proc/cpuinfo", "processor\t: 0\nmodel name\t: Some CPU @ 2.0 GHz\n"),
            ("proc/sys/kernel/osrelease", "6.18.1\n"),
            ("proc/sys/net/ipv4/tcp_congestion_control", "bbr\n"),
            ("sys/class/power_supply/AC/type", "Mains\n"),
            ("sys/class/power_supply/BAT0/type", "Battery\n"),
            ("sys/class/power_supply/BAT0/capacity", "83\n"),
            ("sys/class/power_supply/BAT0/status", "Discharging\n"),
            ("sys/class/thermal/thermal_zone0/temp", "41000\n"),
            ("sys/class/thermal/thermal_zone1/temp", "52500\n"),
            ("sys/class/thermal/cooling_device0/temp", "99000\n"),
        ]);
        let began = SystemTime::UNIX_EPOCH + Duration::from_secs(1_709_210_096);
        let d = DeviceState::over(
            after.path(),
            began,
            Snapshot::default(),
            Snapshot::take(before.path()),
            Snapshot::take(after.path()),
        );
        assert_eq!(d.date, "2024-02-29T12:34:56Z");
        assert_eq!((d.load_before, d.load_after, d.cpus), (Some(0.25), Some(1.5), Some(2)));
        assert!((d.idle_percent.unwrap() - 60.0).abs() < 1e-9 && (d.steal_percent.unwrap() - 10.0).abs() < 1e-9);
        assert_eq!((d.cpu.as_deref(), d.kernel.as_deref()), (Some("Some CPU @ 2.0 GHz"), Some("6.18.1")));
        assert_eq!((d.congestion_control.as_deref(), d.temperature_c), (Some("bbr"), Some(52.5)));
        assert_eq!((d.battery_percent, d.battery_status.as_deref()), (Some(83.0), Some("Discharging")));
        let doubts = d.doubts();
        assert_eq!(doubts.len(), 2, "{doubts:?}");
        assert!(doubts[0].contains("10.0 %") && doubts[1].contains("battery"));
    }

    #[test]
    fn a_commit_is_cut_short_but_never_loses_that_it_was_changed() {
        let short = |commit: &str| DeviceState { commit: Some(commit.into()), ..DeviceState::default() }.short_commit();
        assert_eq!(short("0123456789abcdef").as_deref(), Some("0123456789ab"));
        assert_eq!(short("0123456789abcdef-dirty").as_deref(), Some("0123456789ab-dirty"));
        assert_eq!(DeviceState::default().short_commit(), None);
    }

    #[test]
    fn what_cannot_be_read_is_absent_and_raises_no_doubt() {
        let empty = root(&[("proc/stat", "cpu  1 2\n"), ("proc/loadavg", "")]);
        let s = Snapshot::take(empty.path());
        let d = DeviceState::over(empty.path(), SystemTime::UNIX_EPOCH, s, s, s);
        assert_eq!(
            (d.date.as_str(), d.cpus, d.load_before, d.idle_percent),
            ("1970-01-01T00:00:00Z", None, None, None)
        );
        assert_eq!(d.doubts(), Vec::<String>::new());
    }

    #[test]
    fn a_device_that_saves_is_doubted_with_what_it_saves() {
        let files = [
            ("proc/pressure/cpu", "some avg10=1.00 avg60=1.00 avg300=1.00 total=3000000\nfull avg10=0.00 total=0\n"),
            ("proc/uptime", "110.00 1.00\n"),
            ("proc/net/wireless", "Inter-| sta-|\n face | tus | link\n wlan0: 0000   28.  -82.  -256        0\n"),
            ("sys/devices/system/cpu/present", "0-3,8\n"),
            ("sys/devices/system/cpu/online", "0-1\n"),
            ("sys/devices/system/cpu/cpu0/cpufreq/scaling_max_freq", "2650000"),
            ("sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq", "2650000"),
            ("sys/devices/system/cpu/cpu1/cpufreq/scaling_max_freq", "1325000"),
            ("sys/devices/system/cpu/cpu1/cpufreq/cpuinfo_max_freq", "2650000"),
            ("sys/class/thermal/cooling_device0/type", "Fan"),
            ("sys/class/thermal/cooling_device0/cur_state", "3"),
            ("sys/class/thermal/cooling_device1/type", "Processor"),
            ("sys/class/thermal/cooling_device1/cur_state", "1"),
            ("sys/class/power_supply/BAT0/type", "Battery"),
            ("sys/class/power_supply/BAT0/capacity", "20"),
            ("sys/class/power_supply/BAT0/status", "Charging"),
        ];
        let device = root(&files);
        let earlier = Snapshot { pressure: Some((1e6, 1e8)), ..Snapshot::default() };
        let later = Snapshot::take(device.path());
        let state = DeviceState::over(device.path(), SystemTime::UNIX_EPOCH, earlier, earlier, later);
        // 2 s of 10.
        assert!((state.pressure_percent.unwrap() - 20.0).abs() < 1e-9, "{state:?}");
        assert_eq!((state.cpus_online, state.cpus_offline, state.cooling), (Some(2), Some(3), Some(1)));
        assert_eq!((state.frequency_percent, state.wifi_dbm), (Some(50.0), Some(-82.0)));
        let doubts = state.doubts();
        for word in ["20 %", "3 of 5", "50 %", "1 cooling", "-82 dBm"] {
            assert_eq!(doubts.iter().filter(|doubt| doubt.contains(word)).count(), 1, "{word}: {doubts:?}");
        }
        assert_eq!(doubts.len(), 5, "{doubts:?}");
        for text in ["", "x", "3-1", "0-4294967295", "1-"] {
            assert_eq!(count_ranges(text), None, "{text}");
        }
    }

    #[test]
    fn two_snapshots_of_the_same_moment_have_no_shares() {
        let s = Snapshot { cpu: Some(CpuTimes { total: 10, idle: 5, steal: 0 }), ..Snapshot::default() };
        let d = DeviceState::over(Path::new("/nowhere"), SystemTime::UNIX_EPOCH, s, s, s);
        assert_eq!((d.idle_percent, d.steal_percent), (None, None));
    }

    #[test]
    fn a_busy_machine_is_doubted_with_the_number_that_speaks_against_it() {
        let busy = DeviceState { idle_before_percent: Some(40.0), idle_percent: Some(3.0), ..DeviceState::default() };
        let doubts = busy.doubts();
        assert!(doubts.len() == 2 && doubts[0].contains("40 %") && doubts[1].contains("3.0 %"), "{doubts:?}");
        let quiet =
            DeviceState { idle_before_percent: Some(60.0), idle_percent: Some(48.0), steal_percent: Some(0.3), ..busy };
        assert_eq!(quiet.doubts(), Vec::<String>::new());
    }

    #[test]
    fn dates_cross_leap_days_and_centuries() {
        for (seconds, text) in [
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_767_225_599, "2025-12-31T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(iso8601(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)), text);
        }
    }
}
