//! What a rule finds, and how it is told: `file:line: what`. Rules and chores that check share it; nothing is judged here.

use crate::Failure;

/// One place where a rule is broken.
#[derive(Debug, PartialEq, Eq)]
pub struct Violation {
    /// The file, relative to the root.
    pub path: String,
    /// The line, from 1.
    pub line: usize,
    /// What is wrong, and what to do.
    pub what: String,
}

impl Violation {
    /// A violation at a place.
    pub fn at(path: &str, line: usize, what: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, what: what.into() }
    }
}

/// Prints each violation as `file:line: what`, and fails if there is one.
pub fn report(chore: &str, violations: &[Violation]) -> Result<(), Failure> {
    for Violation { path, line, what } in violations {
        println!("{path}:{line}: {what}");
    }
    match violations.len() {
        0 => Ok(()),
        1 => Err(Failure::Failed(format!("{chore}: 1 violation, named above"))),
        many => Err(Failure::Failed(format!("{chore}: {many} violations, named above"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_fails_exactly_if_there_is_a_violation() {
        assert_eq!(report("tidy", &[]), Ok(()));
        assert!(report("tidy", &[Violation::at("a.rs", 1, "x")]).is_err());
    }
}
