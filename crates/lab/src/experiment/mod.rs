//! The registry of experiments: one file each, one line here, tied to claim ids in `docs/claims.toml`.
//!
//! An experiment is a function from a [`Context`] (how much, which seed, at which speed) to an [`Outcome`] (rows, samples,
//! what it cost, whether it may be believed). The command line, `headstart lab list`, the report and the demo read
//! [`ALL`]; nothing here opens a socket, reads a clock or prints.

mod adding;
pub mod app_session;
mod claims;
pub mod connect_faults;
pub mod connect_law;
pub mod connect_model;
pub mod connect_overhead;
pub mod connect_programs;
mod crew;
mod device_day;
pub mod emulator;
mod extent;
pub mod interposition;
mod losers;
pub mod measure;
mod newcomer_host;
mod outcome;
pub mod page_load;
mod phone_day;
pub mod pool_safety;
mod quiet;
pub mod realtime_tail;
pub mod shim_cost;
mod steer;
mod steps;
mod stopwatch;
mod target;
pub mod tcp_slowness;
mod together;
mod verdict;
mod waterfall;
mod window;

pub use claims::{Claim, Claims, ClaimsError, Figure, Headline, Instrument};
pub use extent::{Extent, MOST_SECONDS, is_plausible};
use headstart_core::choice::unknown;
use outcome::in_ms;
pub use outcome::{Condition, FORMAT_VERSION, Outcome, OutcomeError, Price, Row, Series};
use steps::Steps;
pub use verdict::{Direction, Measured, Printed, Verdict, judge, judge_ours};
pub use waterfall::{Fall, Waterfall};

use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// Every experiment, in the order in which `headstart lab list` shows them.
pub const ALL: &[Entry] = &[
    connect_overhead::ENTRY,
    connect_programs::ENTRY,
    connect_faults::ENTRY,
    connect_law::ENTRY,
    connect_model::ENTRY,
    tcp_slowness::ENTRY,
    app_session::ENTRY,
    pool_safety::ENTRY,
    page_load::ENTRY,
    realtime_tail::ENTRY,
    measure::semantics::ENTRY,
    measure::truth::ENTRY,
    measure::latency::ENTRY,
    measure::throughput::ENTRY,
    measure::cost::ENTRY,
    measure::gaps::ENTRY,
    measure::device::ENTRY,
    measure::lte::ENTRY,
    window::simple::ENTRY,
    window::dumbbell::ENTRY,
    window::stale::ENTRY,
    window::satellite::ENTRY,
    window::tcp::ENTRY,
    newcomer_host::ENTRY,
    steer::pages::ENTRY,
    steer::object::ENTRY,
    steer::sweep::ENTRY,
    steer::clicks::ENTRY,
    steer::calls::ENTRY,
    steer::throughput::ENTRY,
    together::ENTRY,
    device_day::ENTRY,
    phone_day::ENTRY,
    interposition::ENTRY,
    emulator::ENTRY,
    shim_cost::ENTRY,
];

/// The experiments that load pages, which may be other ones than the built-in.
pub const LOADS_PAGES: [&str; 5] = ["page-load", "steer-pages", "together", "app-session", "phone-day"];

/// An experiment as the registry knows it.
///
/// ```
/// use headstart_lab::experiment::{Context, Entry, Outcome, Row, Speeds};
///
/// /// One file: `experiment/coin_toss.rs`, with this constant and its function; one line: `coin_toss::ENTRY` in `ALL`.
/// pub const ENTRY: Entry = Entry {
///     name: "coin-toss",
///     shows: "A fair coin comes up heads half of the time",
///     claims: &[],
///     conditions: &["table"],
///     speeds: Speeds::Virtual,
///     run,
/// };
///
/// fn run(cx: &Context) -> anyhow::Result<Outcome> {
///     let tosses = if cx.quick { 100 } else { 10_000 };
///     let mut outcome = Outcome::new(ENTRY.name, cx.seed);
///     if cx.wants("table") {
///         let mut rng = fastrand::Rng::with_seed(cx.seed);
///         let heads = (0..tosses).filter(|_| rng.bool()).count();
///         outcome.rows.push(Row::measured("table", "heads", "tosses", "fair", heads as f64));
///     }
///     Ok(outcome)
/// }
///
/// let outcome = ENTRY.start(&Context::new(7)).unwrap();
/// assert!(outcome.valid);
/// assert!(outcome.last_line().starts_with(r#"{"version":1,"experiment":"coin-toss","valid":true,"seed":7,"rows":[{"#));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Hyphenated name, as in `headstart lab run NAME`.
    pub name: &'static str,
    /// What it shows, one sentence without a full stop.
    pub shows: &'static str,
    /// The claims of `docs/claims.toml` that it measures.
    pub claims: &'static [&'static str],
    /// Its conditions, by the names that `--condition` takes and rows carry.
    pub conditions: &'static [&'static str],
    /// The speeds at which it has a reading. The caller enters the namespaces (`netns::InnerCommand`) before it starts an experiment
    /// at a speed with namespaces; what has none is not disturbed by a busy machine.
    pub speeds: Speeds,
    /// Runs it. Network failures are results; `Err` is for an instrument that could not be set up.
    pub run: fn(&Context) -> anyhow::Result<Outcome>,
}

impl Entry {
    /// The speeds at which it runs when asked for `wanted`; none in common is refused.
    pub fn speeds(&self, wanted: Speeds) -> Result<Speeds, ExperimentError> {
        match (self.speeds, wanted) {
            (Speeds::Both, wanted) => Ok(wanted),
            (has, wanted) if has == wanted || wanted == Speeds::Both => Ok(has),
            (Speeds::Namespaces, _) => Err(ExperimentError::NeedsNamespaces(self.name)),
            (Speeds::Virtual, _) => Err(ExperimentError::VirtualOnly(self.name)),
        }
    }

    /// What a run begins with: how it measures, and what readers must know in any case.
    fn outcome(&self, cx: &Context, method: &[&str], notes: &[&str]) -> Outcome {
        let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        Outcome { method: owned(method), notes: owned(notes), ..Outcome::new(self.name, cx.seed) }
    }

    /// Runs the experiment, after a look at the request and before a look at the result.
    ///
    /// Refuses conditions and speeds that it does not have, and results that break the contract of [`Outcome::check`]
    /// or serve a claim that the entry does not name.
    pub fn start(&self, cx: &Context) -> anyhow::Result<Outcome> {
        if let Some(unknown) = cx.conditions.iter().flatten().find(|c| !self.conditions.contains(&c.as_str())) {
            return Err(ExperimentError::UnknownCondition {
                experiment: self.name,
                condition: unknown.clone(),
                known: self.conditions.join(", "),
            }
            .into());
        }
        self.speeds(cx.speeds)?;
        let outcome = (self.run)(cx)?;
        outcome.check()?;
        for claim in outcome.rows.iter().filter_map(|r| r.claim.as_deref()) {
            if !self.claims.contains(&claim) {
                return Err(ExperimentError::StrayClaim { experiment: self.name, claim: claim.into() }.into());
            }
        }
        Ok(outcome)
    }
}

/// What an experiment is asked to do.
pub struct Context {
    /// Fewer trials: shows that the experiment works, not what the number is.
    pub quick: bool,
    /// Seed of everything random; the same seed gives the same bits in virtual time.
    pub seed: u64,
    /// Which of the lab's speeds to run at.
    pub speeds: Speeds,
    /// The conditions to run; all of them if none.
    pub conditions: Option<Vec<String>>,
    /// The program `headstart` that is measured, where it is not the one beside this program (tests).
    pub program: Option<PathBuf>,
    /// Pages to load in place of the project's own: a file of page specs, or a folder with `specs.jsonl`.
    pub pages: Option<PathBuf>,
    /// Told how far the run is, asked whether to stop.
    pub progress: Box<dyn Progress + Send + Sync>,
}

impl Context {
    /// A full run in virtual time of all conditions, in silence.
    pub fn new(seed: u64) -> Self {
        let progress = Box::new(Silent);
        Self { quick: false, seed, speeds: Speeds::Virtual, conditions: None, program: None, pages: None, progress }
    }

    /// The program `headstart` that is measured.
    pub fn measured_program(&self) -> anyhow::Result<PathBuf> {
        Ok(self.program.clone().map_or_else(crate::program::headstart, Ok)?)
    }

    /// Whether `condition` is to be run.
    pub fn wants(&self, condition: &str) -> bool {
        self.conditions.as_ref().is_none_or(|wanted| wanted.iter().any(|c| c == condition))
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("quick", &self.quick)
            .field("seed", &self.seed)
            .field("speeds", &self.speeds)
            .field("conditions", &self.conditions)
            .field("program", &self.program)
            .field("pages", &self.pages)
            .finish_non_exhaustive()
    }
}

/// The speeds of the lab at which an experiment is to run (`sim`, `netns`, `both`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Speeds {
    /// Virtual time only.
    #[default]
    #[serde(rename = "sim")]
    Virtual,
    /// Real packets in namespaces only.
    #[serde(rename = "netns")]
    Namespaces,
    /// One after the other.
    #[serde(rename = "both")]
    Both,
}

impl Speeds {
    /// Whether to run in virtual time.
    pub fn in_virtual_time(self) -> bool {
        self != Self::Namespaces
    }

    /// Whether to run in namespaces.
    pub fn in_namespaces(self) -> bool {
        self != Self::Virtual
    }
}

impl FromStr for Speeds {
    type Err = ExperimentError;

    fn from_str(s: &str) -> Result<Self, ExperimentError> {
        match s {
            "sim" => Ok(Self::Virtual),
            "netns" => Ok(Self::Namespaces),
            "both" => Ok(Self::Both),
            _ => Err(ExperimentError::UnknownSpeed(s.into())),
        }
    }
}

impl fmt::Display for Speeds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Virtual => "sim",
            Self::Namespaces => "netns",
            Self::Both => "both",
        })
    }
}

/// Is told how far a run is.
pub trait Progress {
    /// `done` of `total` units of work are done; `doing` says what comes next ("ipv6-black-hole, trial 3").
    fn step(&self, done: u64, total: u64, doing: &str);

    /// A run of `arm` in `condition` begins: for a display that shows programs while they run.
    fn run_begins(&self, _condition: &str, _arm: &str) {}

    /// It has ended after `ms` milliseconds; none if it failed.
    fn run_ended(&self, _condition: &str, _arm: &str, _ms: Option<f64>) {}

    /// Whether to stop at the next opportunity; what was measured until then is kept and marked as not valid.
    fn stop(&self) -> bool {
        false
    }
}

impl<P: Progress + ?Sized> Progress for std::sync::Arc<P> {
    fn step(&self, done: u64, total: u64, doing: &str) {
        (**self).step(done, total, doing);
    }

    fn run_begins(&self, condition: &str, arm: &str) {
        (**self).run_begins(condition, arm);
    }

    fn run_ended(&self, condition: &str, arm: &str, ms: Option<f64>) {
        (**self).run_ended(condition, arm, ms);
    }

    fn stop(&self) -> bool {
        (**self).stop()
    }
}

/// Progress that is not shown.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Progress for Silent {
    fn step(&self, _done: u64, _total: u64, _doing: &str) {}
}

/// A request that the registry cannot serve, or an experiment that broke its own contract.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExperimentError {
    /// No experiment of that name.
    #[error("{}", unknown("experiment", name, known))]
    Unknown {
        /// What was asked for.
        name: String,
        /// The names in the registry.
        known: Vec<&'static str>,
    },
    /// No condition of that name.
    #[error("experiment `{experiment}` has no condition `{condition}`; choose one of {known}")]
    UnknownCondition {
        /// The experiment.
        experiment: &'static str,
        /// What was asked for.
        condition: String,
        /// The conditions that it has.
        known: String,
    },
    /// No speed of that name.
    #[error("unknown speed `{0}`; choose one of sim (virtual time), netns (real packets in namespaces), both")]
    UnknownSpeed(String),
    /// Virtual time was asked for, and there is nothing to measure in it.
    #[error("experiment `{0}` measures real packets and calls, so it has no virtual time: give netns or both")]
    NeedsNamespaces(&'static str),
    /// Real packets were asked for, and it sends none.
    #[error("experiment `{0}` runs in virtual time only: give sim or both")]
    VirtualOnly(&'static str),
    /// A row for a claim that the entry does not serve.
    #[error("experiment `{experiment}` has a row for claim {claim}, which its entry does not name: add it to `claims`")]
    StrayClaim {
        /// The experiment.
        experiment: &'static str,
        /// The claim of the row.
        claim: String,
    },
}

/// The experiment called `name`, or an error that lists what exists.
pub fn find(name: &str) -> Result<&'static Entry, ExperimentError> {
    ALL.iter()
        .find(|e| e.name == name)
        .ok_or_else(|| ExperimentError::Unknown { name: name.into(), known: ALL.iter().map(|e| e.name).collect() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn one_row(cx: &Context) -> anyhow::Result<Outcome> {
        let mut outcome = Outcome::new("probe", cx.seed);
        outcome.rows.push(Row { claim: Some("P1.1".into()), ..Row::measured("healthy", "time", "ms", "bare", 1.0) });
        Ok(outcome)
    }

    const PROBE: Entry = Entry {
        name: "probe",
        shows: "",
        claims: &["P1.1"],
        conditions: &["healthy", "lossy"],
        speeds: Speeds::Virtual,
        run: one_row,
    };

    #[test]
    fn an_unknown_experiment_is_named_and_the_existing_ones_are_listed() {
        let text = find("conect-overhead").unwrap_err().to_string();
        assert!(text.contains("`conect-overhead` (did you mean `connect-overhead`?)"), "{text}");
        assert!(ALL.iter().all(|e| text.contains(e.name)), "{text}");
        let two = ExperimentError::Unknown { name: "x".into(), known: vec!["a", "b"] };
        assert_eq!(two.to_string(), "unknown experiment `x`; choose one of a, b");
    }

    #[test]
    fn every_entry_is_hyphenated_unique_and_serves_claims_that_exist() {
        let claims = Claims::built_in().unwrap();
        for (i, e) in ALL.iter().enumerate() {
            assert!(e.name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-'), "{}", e.name);
            assert!(ALL[..i].iter().all(|f| f.name != e.name), "{} is in the registry twice", e.name);
            assert!(!e.shows.is_empty() && !e.conditions.is_empty(), "{} shows nothing", e.name);
            for id in e.claims {
                assert_eq!(claims.get(id).unwrap().experiment.as_deref(), Some(e.name), "{id} in docs/claims.toml");
            }
        }
    }

    #[test]
    fn a_condition_that_does_not_exist_is_refused_before_anything_runs() {
        let cx = Context { conditions: Some(vec!["healthy".into(), "windy".into()]), ..Context::new(1) };
        let text = PROBE.start(&cx).unwrap_err().to_string();
        assert_eq!(text, "experiment `probe` has no condition `windy`; choose one of healthy, lossy");
    }

    #[test]
    fn what_needs_namespaces_is_refused_in_virtual_time_before_anything_runs() {
        let entry = Entry { speeds: Speeds::Namespaces, ..PROBE };
        assert!(entry.start(&Context::new(1)).unwrap_err().to_string().contains("give netns or both"));
        assert!(entry.start(&Context { speeds: Speeds::Both, ..Context::new(1) }).is_ok());
        assert_eq!(entry.speeds(Speeds::Both), Ok(Speeds::Namespaces));
        let cx = Context { speeds: Speeds::Namespaces, ..Context::new(1) };
        assert!(PROBE.start(&cx).unwrap_err().to_string().contains("virtual time only"));
        assert_eq!(PROBE.speeds(Speeds::Both), Ok(Speeds::Virtual));
    }

    #[test]
    fn every_experiment_without_a_claim_is_named_as_an_instrument() {
        let claims = Claims::built_in().unwrap();
        let of_entries: BTreeSet<_> = ALL.iter().filter(|e| e.claims.is_empty()).map(|e| e.name).collect();
        let of_file: BTreeSet<_> = claims.instruments.iter().map(|i| i.experiment.as_str()).collect();
        assert_eq!(of_entries, of_file);
        assert!(claims.instruments.iter().all(|i| !i.what.is_empty()));
    }

    #[test]
    fn a_row_may_only_serve_a_claim_that_its_entry_names() {
        assert!(PROBE.start(&Context::new(1)).is_ok());
        let text = Entry { claims: &["P1.2"], ..PROBE }.start(&Context::new(1)).unwrap_err().to_string();
        assert!(text.contains("claim P1.1"), "{text}");
    }

    #[test]
    fn the_filter_takes_all_conditions_unless_told_otherwise() {
        let all = Context::new(1);
        let some = Context { conditions: Some(vec!["lossy".into()]), ..Context::new(1) };
        assert!(all.wants("healthy") && some.wants("lossy") && !some.wants("healthy"));
    }

    #[test]
    fn speeds_read_as_they_are_written() {
        for s in [Speeds::Virtual, Speeds::Namespaces, Speeds::Both] {
            assert_eq!(s.to_string().parse(), Ok(s));
        }
        assert!("fast".parse::<Speeds>().unwrap_err().to_string().contains("sim"));
        assert!(Speeds::Both.in_virtual_time() && Speeds::Both.in_namespaces() && !Speeds::Virtual.in_namespaces());
    }
}
