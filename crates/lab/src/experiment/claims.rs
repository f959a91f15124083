//! The claims of the papers, read from `docs/claims.toml`: the one place where a paper's number is written down.
//!
//! Experiments and reports look ratios up by claim id; none of them repeats a number. The file is part of the program,
//! so a claim that does not parse fails the tests, not a run.

use super::Direction;
use serde::Deserialize;

/// The file as it is compiled in.
const BUILT_IN: &str = include_str!("../../../../docs/claims.toml");

/// The columns of the house, one a paper, in the order of the papers.
const COLUMNS: [&str; 5] = ["connect", "cwnd", "forward", "realtime", "steer"];

/// The statistics that the papers print.
const STATISTICS: [&str; 4] = ["mean", "median", "p75", "p95"];

/// All claims, in the order of the file.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claims {
    /// The claims.
    #[serde(rename = "claim")]
    pub all: Vec<Claim>,
    /// The experiments that measure the lab and the product themselves, not a claim.
    #[serde(rename = "instrument", default)]
    pub instruments: Vec<Instrument>,
    /// What a reader asks for first: headstart's way beside the paper's.
    #[serde(rename = "headline", default)]
    pub headlines: Vec<Headline>,
}

/// A comparison that a paper prints, and where to find it and headstart's own way in the results of the claim's experiment.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Headline {
    /// What is compared, in a few words.
    pub what: String,
    /// The claim.
    pub claim: String,
    /// The case of the claim's figure; empty if it has only one.
    #[serde(default)]
    pub case: String,
    /// The baseline of that figure, and of the rows.
    pub baseline: String,
    /// The condition of the rows.
    pub condition: String,
    /// The metric of the rows, with its statistic.
    pub metric: String,
    /// The arm that is headstart's way.
    pub ours: String,
    /// The arm that none can beat, where there is one; the baseline itself, where it is that.
    pub bound: Option<String>,
}

/// An experiment that serves no claim.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Instrument {
    /// Name of the experiment.
    pub experiment: String,
    /// What it measures, one sentence.
    pub what: String,
}

/// One claim of a paper.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// `P1.1`: paper and running number.
    pub id: String,
    /// 1 to 5.
    pub paper: u8,
    /// Figure, table or section of the paper, if it names one.
    pub source: Option<String>,
    /// What is claimed, one sentence.
    pub what: String,
    /// What is measured, without a statistic.
    pub metric: String,
    /// Unit of the metric.
    pub unit: String,
    /// Which way is better.
    pub better: Direction,
    /// The experiment that measures it.
    pub experiment: Option<String>,
    /// The column that will bring the experiment, where there is none yet.
    pub planned: Option<String>,
    /// Why no row of it is judged, where none can be.
    pub unjudged: Option<String>,
    /// The numbers of the paper that compare two ways of doing the work.
    #[serde(rename = "figure", default)]
    pub figures: Vec<Figure>,
}

/// One comparison that a paper prints.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    /// The condition within the claim, such as `no-cache`; empty if there is only one.
    #[serde(default)]
    pub case: String,
    /// The statistic that the paper prints, as [`crate::stats::Statistic`] writes it; none if the paper names none.
    pub statistic: Option<String>,
    /// The paper's way, by our name for it.
    pub arm: String,
    /// What the paper compares with, by our name for it.
    pub baseline: String,
    /// The value of the arm, in the unit of the claim.
    pub ours: Option<f64>,
    /// The value of the baseline, in the unit of the claim.
    pub theirs: Option<f64>,
    /// The ratio, where the paper prints a percentage and no values.
    ratio: Option<f64>,
}

impl Figure {
    /// Arm / baseline: from the two values where the paper prints them, else from its percentage.
    pub fn ratio(&self) -> f64 {
        match (self.ours, self.theirs, self.ratio) {
            (Some(ours), Some(theirs), _) => ours / theirs,
            (_, _, ratio) => ratio.expect("Claims::parse refuses a figure that has neither two values nor a ratio"),
        }
    }
}

impl Claim {
    /// The paper's figure against `baseline` in `case`, if it prints one.
    pub fn figure(&self, baseline: &str, case: &str) -> Option<&Figure> {
        self.figures.iter().find(|f| f.baseline == baseline && f.case == case)
    }

    /// The paper's ratio against `baseline` in `case`, if it prints one.
    pub fn ratio(&self, baseline: &str, case: &str) -> Option<f64> {
        self.figure(baseline, case).map(Figure::ratio)
    }
}

impl Claims {
    /// The claims that the program was built with.
    pub fn built_in() -> Result<Self, ClaimsError> {
        Self::parse(BUILT_IN)
    }

    /// Reads and validates a claims file.
    pub fn parse(text: &str) -> Result<Self, ClaimsError> {
        let claims: Self = toml::from_str(text).map_err(|e| ClaimsError::Syntax(e.to_string()))?;
        for (i, c) in claims.all.iter().enumerate() {
            let fault = |what: String| Err(ClaimsError::Claim { id: c.id.clone(), what });
            if claims.all[..i].iter().any(|d| d.id == c.id) {
                return fault("is there twice".into());
            }
            let number = c.id.strip_prefix(&format!("P{}.", c.paper)).and_then(|n| n.parse::<u32>().ok());
            if !(1..=5).contains(&c.paper) || number.is_none() {
                return fault(format!("is not of the form P{}.N with a paper from 1 to 5", c.paper));
            }
            match (&c.experiment, &c.planned) {
                (Some(_), None) => {}
                (None, Some(column)) if column == COLUMNS[usize::from(c.paper) - 1] => {}
                (None, Some(column)) => {
                    return fault(format!("is planned for '{column}', not the column of its paper"));
                }
                _ => return fault("needs either `experiment` or `planned`, not both".into()),
            }
            if c.figures.is_empty() && c.unjudged.is_none() && c.experiment.is_some() {
                return fault("has neither a figure nor, in `unjudged`, why it has none".into());
            }
            for (j, f) in c.figures.iter().enumerate() {
                let of = format!("figure against {} in case '{}'", f.baseline, f.case);
                if c.figures[..j].iter().any(|g| g.baseline == f.baseline && g.case == f.case) {
                    return fault(format!("has the {of} twice"));
                }
                if let Some(s) = f.statistic.as_ref().filter(|s| !STATISTICS.contains(&s.as_str())) {
                    return fault(format!("has a {of} with the unknown statistic '{s}'"));
                }
                let sound = match (f.ours, f.theirs, f.ratio) {
                    (Some(a), Some(b), None) => a.is_finite() && b.is_finite() && a > 0.0 && b > 0.0,
                    (None, b, Some(r)) => [Some(r), b].into_iter().flatten().all(|v| v.is_finite() && v > 0.0),
                    _ => false,
                };
                if !sound {
                    return fault(format!("has a {of} that is neither two positive values nor a positive ratio"));
                }
            }
        }
        for (i, headline) in claims.headlines.iter().enumerate() {
            let Headline { what, claim, case, baseline, condition, .. } = headline;
            let fault = |why: String| Err(ClaimsError::Headline { what: what.clone(), why });
            if claims.get(claim)?.figure(baseline, case).is_none() {
                return fault(format!("compares with no figure of {claim}: none against {baseline} in case '{case}'"));
            }
            if claims.all.iter().any(|c| c.id == *claim && c.experiment.is_none()) {
                return fault(format!("is of {claim}, which no experiment measures"));
            }
            if claims.headlines[..i].iter().any(|h| h.what == *what && h.condition == *condition) {
                return fault(format!("is there twice for {condition}"));
            }
        }
        Ok(claims)
    }

    /// The claim `id`.
    pub fn get(&self, id: &str) -> Result<&Claim, ClaimsError> {
        self.all.iter().find(|c| c.id == id).ok_or_else(|| ClaimsError::Unknown(id.into()))
    }

    /// The paper's ratio for claim `id` against `baseline` in `case`; none if the paper prints no such figure.
    ///
    /// ```
    /// use headstart_lab::experiment::Claims;
    /// let claims = Claims::built_in().unwrap();
    /// assert_eq!(claims.ratio("P1.1", "sequential", "no-cache").unwrap(), Some(48.0 / 75.0));
    /// assert_eq!(claims.ratio("P1.1", "telegraph", "").unwrap(), None);
    /// ```
    pub fn ratio(&self, id: &str, baseline: &str, case: &str) -> Result<Option<f64>, ClaimsError> {
        Ok(self.get(id)?.ratio(baseline, case))
    }
}

/// A claims file that cannot be used, or a claim that is not in it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClaimsError {
    /// Not TOML, or not of this shape.
    #[error("docs/claims.toml cannot be read: {0}")]
    Syntax(String),
    /// A claim breaks a rule of the file.
    #[error("docs/claims.toml: claim {id} {what}")]
    Claim {
        /// The claim.
        id: String,
        /// The rule that it breaks.
        what: String,
    },
    /// A headline breaks a rule of the file.
    #[error("docs/claims.toml: headline '{what}' {why}")]
    Headline {
        /// What it is about.
        what: String,
        /// The rule that it breaks.
        why: String,
    },
    /// A row of another statistic than the paper's.
    #[error("'{metric}' cannot be compared with the paper's {statistic} of claim {id}: compare the same statistic")]
    OtherStatistic {
        /// The claim.
        id: String,
        /// The paper's statistic.
        statistic: String,
        /// The metric of the row.
        metric: String,
    },
    /// No such claim.
    #[error("unknown claim `{0}`: its id must be in docs/claims.toml")]
    Unknown(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "[[claim]]\nid = 'P1.1'\npaper = 1\nwhat = 'w'\nmetric = 'm'\nunit = 'ms'\nbetter = 'lower'\n";

    #[test]
    fn the_built_in_file_holds_every_claim_of_the_five_papers() {
        let claims = Claims::built_in().unwrap();
        let counts = [1, 2, 3, 4, 5].map(|p| claims.all.iter().filter(|c| c.paper == p).count());
        assert_eq!(counts, [11, 5, 8, 6, 6]);
    }

    #[test]
    fn the_ratios_of_paper_one_are_those_of_its_figures() {
        let claims = Claims::built_in().unwrap();
        for (id, baseline, case, ratio) in [
            ("P1.1", "sequential", "no-cache", 48.0 / 75.0),
            ("P1.1", "happy-eyeballs-v2", "no-cache", 48.0 / 53.0),
            ("P1.2", "sequential", "", 57.0 / 69.0),
            ("P1.2", "happy-eyeballs-v2", "", 57.0 / 69.0),
            ("P1.3", "sequential", "no-cache", 81.0 / 117.0),
            ("P1.3", "happy-eyeballs-v2", "no-cache", 81.0 / 95.0),
            ("P1.3", "sequential", "cache", 77.0 / 117.0),
            ("P1.3", "happy-eyeballs-v2", "cache", 77.0 / 95.0),
        ] {
            assert_eq!(claims.ratio(id, baseline, case), Ok(Some(ratio)), "{id} {baseline} {case}");
            assert_eq!(claims.get(id).unwrap().experiment.as_deref(), Some("connect-overhead"));
        }
    }

    #[test]
    fn a_claim_is_either_measured_or_planned_in_the_column_of_its_paper() {
        let text = |tail: &str| Claims::parse(&format!("{ONE}{tail}")).map_err(|e| e.to_string());
        assert!(text("experiment = 'x'\nunjudged = 'w'\n").is_ok() && text("planned = 'connect'\n").is_ok());
        assert!(text("experiment = 'x'\n").unwrap_err().contains("neither a figure"));
        assert!(text("").unwrap_err().contains("P1.1 needs either"));
        assert!(text("experiment = 'x'\nplanned = 'connect'\n").unwrap_err().contains("not both"));
        assert!(text("planned = 'steer'\n").unwrap_err().contains("'steer'"));
    }

    #[test]
    fn twice_the_same_and_unknown_keys_are_refused() {
        let whole = format!("{ONE}planned = 'connect'\n");
        assert!(Claims::parse(&format!("{whole}{whole}")).unwrap_err().to_string().contains("twice"));
        assert!(matches!(Claims::parse(&format!("{whole}colour = 'red'\n")), Err(ClaimsError::Syntax(_))));
        assert!(Claims::parse(&whole.replace("P1.1", "P2.1")).unwrap_err().to_string().contains("P1.N"));
    }

    #[test]
    fn a_headline_is_of_a_figure_that_the_paper_prints_and_an_experiment_measures() {
        let claim = |state: &str| format!("{ONE}{state}figure = [{{ arm = 'a', baseline = 'b', ratio = 0.5 }}]\n");
        let headline = |claim: &str, baseline: &str| {
            let names = format!("what = 'w'\nclaim = '{claim}'\nbaseline = '{baseline}'\n");
            format!("[[headline]]\n{names}condition = 'c'\nmetric = 'm'\nours = 'o'\n")
        };
        let parse = |text: String| Claims::parse(&text).map(|c| c.headlines.len()).map_err(|e| e.to_string());
        let (measured, planned) = (claim("experiment = 'x'\n"), claim("planned = 'connect'\n"));
        let good = headline("P1.1", "b");
        assert_eq!(parse(format!("{measured}{good}")), Ok(1));
        assert!(parse(format!("{measured}{good}{good}")).unwrap_err().contains("twice"));
        assert!(parse(format!("{planned}{good}")).unwrap_err().contains("no experiment"));
        assert!(parse(format!("{measured}{}", headline("P1.1", "c"))).unwrap_err().contains("no figure"));
        assert!(parse(format!("{measured}{}", headline("P1.2", "b"))).unwrap_err().contains("unknown claim"));
    }

    #[test]
    fn a_figure_has_two_values_or_a_ratio() {
        let figure = |f: &str| {
            let head = "[[claim.figure]]\narm = 'a'\nbaseline = 'b'\n";
            Claims::parse(&format!("{ONE}planned = 'connect'\n{head}{f}")).map(|c| c.ratio("P1.1", "b", "").unwrap())
        };
        assert_eq!(figure("ours = 3\ntheirs = 4\n"), Ok(Some(0.75)));
        assert_eq!(figure("ratio = 0.5\nstatistic = 'p75'\n"), Ok(Some(0.5)));
        assert_eq!(figure("ratio = 0.5\ntheirs = 9\n"), Ok(Some(0.5)));
        assert!(figure("ratio = 0.5\nstatistic = 'p57'\n").unwrap_err().to_string().contains("'p57'"));
        for bad in
            ["", "ours = 3\n", "ours = 3\ntheirs = 4\nratio = 0.75\n", "ours = 3\ntheirs = 0\n", "ratio = -1.0\n"]
        {
            assert!(figure(bad).is_err(), "{bad}");
        }
    }
}
