//! What the kernel says of a process: how often it slept, for how long it ran, how much memory it has.

use std::fs;
use std::io;
use std::os::unix::process::parent_id;

/// What the kernel counts of a process.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Times that one of its threads has gone to sleep.
    pub(super) sleeps: u64,
    /// Time that they have had a processor for, in nanoseconds.
    ran: u64,
}

impl Counts {
    /// Of all threads of a process.
    pub fn of(pid: u32) -> io::Result<Self> {
        let mut counts = Self::default();
        for task in fs::read_dir(format!("/proc/{pid}/task"))?.flatten() {
            // One that has ended meanwhile sleeps no more.
            let read = |name: &str| fs::read_to_string(task.path().join(name)).unwrap_or_default();
            let status = read("status");
            let sleeps = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
            counts.sleeps += sleeps.and_then(|n| n.trim().parse::<u64>().ok()).unwrap_or(0);
            let ran = read("schedstat");
            counts.ran += ran.split(' ').next().and_then(|n| n.parse::<u64>().ok()).unwrap_or(0);
        }
        Ok(counts)
    }

    /// Of this process's parent.
    pub fn of_parent() -> io::Result<Self> {
        Self::of(parent_id())
    }

    /// Seconds that it has had a processor for since `first`.
    pub fn ran_since(self, first: Self) -> f64 {
        self.ran.saturating_sub(first.ran) as f64 / 1e9
    }
}

/// Megabytes of a process under a key of its status, as `VmRSS:`.
pub fn megabytes(pid: u32, key: &str) -> io::Result<f64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix(key));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<f64>().ok());
    kib.map(|kib| kib * 1024.0 / 1e6).ok_or_else(|| io::Error::other(format!("no {key}")))
}
