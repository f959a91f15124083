//! The named exceptions: cases that differ under an arm, and why that is so. A list that may not be longer than the truth.

use crate::toml_lines::{Document, strings};

/// One reason, and the differences that it explains.
#[derive(Debug)]
struct Exception {
    arms: Vec<String>,
    cases: Vec<String>,
    reason: String,
    /// The difference comes and goes: chance decides.
    sometimes: bool,
}

/// All of them, in the order of their file.
#[derive(Debug, Default)]
pub struct Exceptions(Vec<Exception>);

impl Exceptions {
    /// Reads the file; what is wrong with it otherwise.
    pub fn parse(text: &str) -> Result<Self, String> {
        let document = Document::parse(text).map_err(|(line, why)| format!("exceptions.toml:{line}: {why}"))?;
        let mut all = Vec::new();
        for (line, table) in document.tables("exception") {
            let list = |key| strings(table, key).into_iter().map(str::to_owned).collect::<Vec<_>>();
            let (arms, cases, reason) = (list("arms"), list("cases"), list("reason").concat());
            if arms.is_empty() || cases.is_empty() || reason.is_empty() {
                return Err(format!("exceptions.toml:{line}: give arms, cases and a reason"));
            }
            let sometimes = table.get("sometimes").and_then(|value| value.get_ref().as_bool()).unwrap_or(false);
            all.push(Exception {
                arms,
                cases: cases.iter().flat_map(|case| families(case)).collect(),
                reason,
                sometimes,
            });
        }
        let exceptions = Self(all);
        let twice = exceptions.pairs().find(|pair| exceptions.pairs().filter(|other| other == pair).count() > 1);
        if let Some((arm, case)) = twice {
            return Err(format!("exceptions.toml: {case} under {arm} is named twice"));
        }
        Ok(exceptions)
    }

    /// Every arm and case that is named.
    pub fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().flat_map(|one| {
            one.arms.iter().flat_map(|arm| one.cases.iter().map(move |case| (arm.as_str(), case.as_str())))
        })
    }

    /// The exception that names this.
    fn naming(&self, arm: &str, case: &str) -> Option<&Exception> {
        self.0.iter().find(|one| one.arms.iter().any(|a| a == arm) && one.cases.iter().any(|c| c == case))
    }

    /// The number, from 1, of the reason that this has.
    pub fn number(&self, arm: &str, case: &str) -> Option<usize> {
        let reason = &self.naming(arm, case)?.reason;
        self.reasons().iter().position(|one| one == reason).map(|at| at + 1)
    }

    /// Whether that difference need not be there each time.
    pub fn comes_and_goes(&self, arm: &str, case: &str) -> bool {
        self.naming(arm, case).is_some_and(|one| one.sometimes)
    }

    /// The reasons in order, each once: arms may share one.
    pub fn reasons(&self) -> Vec<&str> {
        let mut reasons: Vec<&str> = Vec::new();
        for one in &self.0 {
            if !reasons.contains(&one.reason.as_str()) {
                reasons.push(&one.reason);
            }
        }
        reasons
    }
}

/// `name*` is short for a case over both families.
fn families(case: &str) -> Vec<String> {
    case.strip_suffix('*').map_or_else(|| vec![case.to_owned()], |name| vec![name.to_owned(), format!("{name}-v6")])
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "[[exception]]\narms = [\"up\", \"forward\"]\ncases = [\"a*\", \"b\"]\nreason = \"why\"\n\
                        [[exception]]\narms = \"up\"\ncases = \"c\"\nreason = \"other\"\nsometimes = true\n";

    #[test]
    fn an_exception_names_every_case_under_every_arm() {
        let all = Exceptions::parse(TEXT).unwrap();
        let pairs: Vec<_> = all.pairs().collect();
        assert_eq!(pairs.len(), 7);
        assert!(
            pairs.contains(&("forward", "a-v6")) && pairs.contains(&("up", "c")) && !pairs.contains(&("forward", "c"))
        );
        assert_eq!(
            (all.number("up", "b"), all.number("up", "c"), all.number("forward", "c")),
            (Some(1), Some(2), None)
        );
        assert!(all.comes_and_goes("up", "c") && !all.comes_and_goes("up", "a"));
        assert_eq!(all.reasons(), ["why", "other"]);
        let shared = format!("{TEXT}[[exception]]\narms = \"up\"\ncases = \"d\"\nreason = \"why\"\n");
        let all = Exceptions::parse(&shared).unwrap();
        assert_eq!((all.number("up", "d"), all.reasons().len()), (Some(1), 2));
    }

    #[test]
    fn an_exception_without_a_reason_or_named_twice_is_refused() {
        let wrong = Exceptions::parse("[[exception]]\narms = \"up\"\ncases = \"c\"\n").unwrap_err();
        assert_eq!(wrong, "exceptions.toml:1: give arms, cases and a reason");
        let twice = format!("{TEXT}[[exception]]\narms = \"up\"\ncases = \"a-v6\"\nreason = \"again\"\n");
        assert_eq!(Exceptions::parse(&twice).unwrap_err(), "exceptions.toml: a-v6 under up is named twice");
    }
}
