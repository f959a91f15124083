//! The state of the machine that an experiment ran on: the answer to paper 3 (P3.7), which found that a measurement
//! without the state of its device cannot be compared with any other.
//!
//! Reads `/proc`, `/sys` and `.git` below a root that the caller gives (tests bring their own); takes the date as an
//! argument, runs no program, changes nothing. What cannot be read is absent, never guessed.

mod checkout;

pub use checkout::{commit_of_checkout, commit_of_this_program};

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
    /// Commit that it was built from, see [`commit_of_this_program`].
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
}

/// What changes while an experiment runs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Snapshot {
    load: Option<f64>,
    cpu: Option<CpuTimes>,
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
        Self { load, cpu }
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
    /// The state of the machine below `root` over a run that began at `began`: a moment before it, at its beginning and at
    /// its end.
    pub fn over(root: &Path, began: SystemTime, earlier: Snapshot, before: Snapshot, after: Snapshot) -> Self {
        let shares = before.shares(&after);
        let (battery_percent, battery_status) = battery(root);
        Self {
            date: iso8601(began),
            program: env!("CARGO_PKG_VERSION").into(),
            commit: commit_of_this_program(),
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
        }
    }

    /// Why real-time results of this machine should not be believed; empty if nothing speaks against them.
    ///
    /// For runs in namespaces only: virtual time does not depend on the machine. The emulator's certificate of its own
    /// lateness is a separate reason and comes from the emulator. The rules, all of them about others who may have taken
    /// the processor while a packet waited:
    ///
    /// - stolen time above 2 %: a virtual machine whose host was busy;
    /// - less than half idle in the moment before the run: something else was at work (the load average says the same a
    ///   minute late, and would doubt every run that follows a build; it is printed, not judged);
    /// - less than 5 % idle during the run: there was no processor left when a timer fired;
    /// - a battery that discharges: frequencies change as it does (paper 3).
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
fn iso8601(time: SystemTime) -> String {
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
    pub(super) fn root(files: &[(&str, &str)]) -> tempfile::TempDir {
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
    fn two_snapshots_of_the_same_moment_have_no_shares() {
        let s = Snapshot { load: None, cpu: Some(CpuTimes { total: 10, idle: 5, steal: 0 }) };
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
