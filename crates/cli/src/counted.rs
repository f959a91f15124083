//! What a process has counted since it began, for `headstart metrics`: numbers and durations, by what was counted and by labels. It is
//! sent when a client asks the process (`headstart_io::board`), so that counting costs no wake-up.

use headstart_core::timing::Histogram;
use headstart_io::board::{self, Report};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::net::UnixListener;

/// Between two tries to let somebody in.
const PAUSE: Duration = Duration::from_millis(50);

/// Parts of a key: what was counted, then its labels, none of which has one of these.
const BETWEEN: char = '\t';

/// Counts of one process, or of several together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Counted {
    #[serde(default)]
    counts: BTreeMap<String, u64>,
    #[serde(default)]
    timed: BTreeMap<String, Histogram>,
}

impl Counted {
    /// Adds to a count.
    pub fn count(&mut self, what: &str, labels: &[&str], n: u64) {
        *self.counts.entry(key(what, labels)).or_default() += n;
    }

    /// Adds durations.
    pub fn time(&mut self, what: &str, labels: &[&str], took: &Histogram) {
        self.timed.entry(key(what, labels)).or_default().add(took);
    }

    /// Adds what another process has counted.
    pub fn add(&mut self, other: &Self) {
        other.counts.iter().for_each(|(key, n)| *self.counts.entry(key.clone()).or_default() += n);
        other.timed.iter().for_each(|(key, took)| self.timed.entry(key.clone()).or_default().add(took));
    }

    /// The counts of a kind, each with its labels.
    pub fn counts(&self, what: &str) -> impl Iterator<Item = (Vec<String>, u64)> {
        self.counts.iter().filter_map(move |(key, n)| Some((labels(key, what)?, *n)))
    }

    /// The durations of a kind, each with its labels.
    pub fn durations(&self, what: &str) -> impl Iterator<Item = (Vec<String>, &Histogram)> {
        self.timed.iter().filter_map(move |(key, took)| Some((labels(key, what)?, took)))
    }
}

fn key(what: &str, labels: &[&str]) -> String {
    labels.iter().fold(what.to_owned(), |key, label| format!("{key}{BETWEEN}{label}"))
}

/// The labels of a key, if it is of this kind.
fn labels(key: &str, what: &str) -> Option<Vec<String>> {
    let mut parts = key.split(BETWEEN);
    (parts.next()? == what).then(|| parts.map(str::to_owned).collect())
}

/// From now on tells clients the board that `now` makes. A second process of the same number, in another namespace of processes, is the
/// one that is not asked. Inside a runtime only.
pub fn tell<T: Report + 'static>(now: impl Fn() -> T + Send + Sync + 'static) {
    tokio::spawn(async move {
        let Ok(listener) = board::listener::<T>().and_then(|socket| UnixListener::from_std(socket.into())) else {
            return;
        };
        loop {
            match listener.accept().await {
                Ok((client, _)) => board::tell(&client, &now),
                // Out of descriptors, most likely: some will come back.
                Err(_) => tokio::time::sleep(PAUSE).await,
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_processes_add_up_by_what_and_by_label_and_survive_being_told() {
        let mut one = Counted::default();
        one.count("messages", &["relay serve", "sent"], 3);
        one.count("messages", &["relay serve", "received"], 1);
        one.count("message", &[], 9);
        let mut took = Histogram::default();
        took.note(Duration::from_millis(3));
        one.time("answer", &["HTTP/3", "2xx"], &took);
        let told = serde_json::to_string(&one).unwrap();
        let mut both: Counted = serde_json::from_str(&told).unwrap();
        both.add(&one);
        let labels = |of: &[&str]| of.iter().map(|label| (*label).to_owned()).collect::<Vec<_>>();
        let (received, sent) = (labels(&["relay serve", "received"]), labels(&["relay serve", "sent"]));
        assert_eq!(both.counts("messages").collect::<Vec<_>>(), [(received, 2), (sent, 6)]);
        assert_eq!(both.counts("message").collect::<Vec<_>>(), [(vec![], 18)]);
        let (of, histogram) = both.durations("answer").next().unwrap();
        assert_eq!((of, histogram.count()), (labels(&["HTTP/3", "2xx"]), 2));
    }
}
