//! The table of attacks: what strangers try, what it may cost, and what it did cost. `cargo xtask hostile` collects the rows.

/// Every attack, a line each, and after a tab what it cost before there was a bound.
const KNOWN: &str = include_str!("known.tsv");

/// One attack on one listener.
pub struct Attack {
    /// What is tried.
    pub attack: &'static str,
    /// Who listens.
    pub listener: &'static str,
}

impl Attack {
    /// Writes a row, and fails if more was seen than the bound. `bounded` names what is counted, with its unit.
    pub fn at_most(&self, bounded: &str, bound: f64, seen: f64) {
        let (Self { attack, listener }, holds) = (self, seen <= bound);
        let known = KNOWN.lines().any(|line| line.split_once('\t').is_some_and(|(known, _)| known == *attack));
        assert!(known, "crates/cli/tests/attack/known.tsv has no line for: {attack}");
        // A line of its own, also beside the harness's own words.
        println!("\nhostile\t{attack}\t{listener}\t{bounded}\t{bound}\t{seen}\t{holds}");
        assert!(holds, "{attack} against {listener}: {bounded}: {seen}, at most {bound}");
    }
}

/// As many descriptors as this process may have.
#[allow(dead_code, reason = "not every target opens thousands")]
pub fn raise_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum }).unwrap();
}
