//! The headlines: for each, the baseline, the paper's way, headstart's way and the bound, out of the rows of one condition.
//!
//! Whether headstart's way is what it should be is one rule: better than the paper prints, and never below the paper's way
//! measured beside it, both by 95 % intervals. Where the baseline is not what the paper prints, the problem is absent and
//! nothing is said. Reads outcomes, measures nothing.

use super::layout::ColumnStyle;
use super::number::{self, NONE};
use super::summary::interval;
use super::table::Table;
use crate::experiment::{Claim, Claims, Direction, Figure, Headline, Outcome, Row, Verdict};
use serde::{Serialize, Serializer};
use serde_json::{Value, json};
use std::fmt;

/// A headline and the rows that were measured for it.
#[derive(Clone, Debug)]
pub struct HeadlineResult<'a> {
    /// What it is about.
    pub headline: &'a Headline,
    claim: &'a Claim,
    figure: &'a Figure,
    valid: bool,
    /// The paper's way.
    pub papers: Option<&'a Row>,
    /// Headstart's way.
    pub ours: Option<&'a Row>,
    /// What none can beat.
    pub bound: Option<&'a Row>,
}

/// How a ratio and its interval compare with another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Beside {
    Ahead,
    Level,
    Behind,
}

/// Whether headstart's way is what it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Better than the paper prints, and not below the paper's way measured here.
    Better,
    /// Not below the paper's way measured here; better than the paper prints is not shown.
    NotBeyondPrint,
    /// Below the paper's way measured here.
    BelowPapersWay,
    /// The baseline is not what the paper prints.
    ProblemAbsent,
    /// No row, no interval, or the run was not valid.
    Unknown,
}

impl fmt::Display for Standing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Better => "better",
            Self::NotBeyondPrint => "not better than printed",
            Self::BelowPapersWay => "below the paper's way",
            Self::ProblemAbsent => "problem absent",
            Self::Unknown => "not measured",
        })
    }
}

impl Serialize for Standing {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl HeadlineResult<'_> {
    /// Where headstart's way stands.
    pub fn standing(&self) -> Standing {
        let Some(papers) = self.papers.filter(|_| self.valid) else { return Standing::Unknown };
        // Judged here, not taken from the row: only rows that serve the claim are judged where they were measured.
        if papers.judged(self.claim, self.figure) == Verdict::ProblemAbsent {
            return Standing::ProblemAbsent;
        }
        let Some(ours) = self.ours.filter(|r| r.interval.is_some() && papers.interval.is_some()) else {
            return Standing::Unknown;
        };
        let printed = self.figure.ratio();
        match (self.beside(ours, (printed, printed)), self.beside(ours, range(papers))) {
            (_, Beside::Behind) => Standing::BelowPapersWay,
            (Beside::Ahead, _) => Standing::Better,
            _ => Standing::NotBeyondPrint,
        }
    }

    /// `row` beside a range: ahead or behind where the two do not touch.
    fn beside(&self, row: &Row, (lo, hi): (f64, f64)) -> Beside {
        let (least, most) = range(row);
        let (below, above) = (most < lo, least > hi);
        match (below, above, self.claim.better) {
            (true, _, Direction::Lower) | (_, true, Direction::Higher) => Beside::Ahead,
            (true, ..) | (_, true, _) => Beside::Behind,
            _ => Beside::Level,
        }
    }

    /// For programs.
    pub fn to_json(&self) -> Value {
        json!({
            "what": self.headline.what,
            "claim": self.claim.id,
            "condition": self.headline.condition,
            "metric": self.headline.metric,
            "baseline": self.headline.baseline,
            "paper": self.figure.ratio(),
            "papers": self.papers,
            "ours": self.ours,
            "bound": self.bound,
            "valid": self.papers.or(self.ours).map(|_| self.valid),
            "standing": self.standing(),
        })
    }

    fn cells(&self) -> [String; 7] {
        let value = |v: f64, row: &Row| number::with_unit(v, &row.unit);
        let baseline = self
            .papers
            .or(self.ours)
            .and_then(|r| Some(format!("{} {}", self.headline.baseline, value(r.baseline?, r))));
        let ratio = |r: &Row| match (r.ratio, r.interval) {
            (Some(ratio), Some(i)) => format!("{} ({})", number::ratio(ratio), interval(i)),
            (Some(ratio), None) => number::ratio(ratio),
            (None, _) => NONE.to_owned(),
        };
        let way = |r: Option<&Row>| r.map(|r| format!("{} {}, {}", r.arm, value(r.ours, r), ratio(r)));
        // What none can beat may be the baseline itself.
        let bound = if self.headline.bound.as_ref() == Some(&self.headline.baseline) {
            Some("the baseline".to_owned())
        } else {
            way(self.bound)
        };
        let or = |cell: Option<String>| cell.unwrap_or_else(|| NONE.to_owned());
        [
            format!("{} ({}: {})", self.headline.what, self.claim.id, self.headline.condition),
            or(baseline),
            number::ratio(self.figure.ratio()),
            or(way(self.papers)),
            or(way(self.ours)),
            or(bound),
            match (self.standing(), self.papers.or(self.ours)) {
                (_, Some(_)) if !self.valid => "run not valid".to_owned(),
                (Standing::Unknown, Some(_)) => "no interval".to_owned(),
                (standing, _) => standing.to_string(),
            },
        ]
    }
}

/// What the interval of a ratio reaches over; the ratio alone where there is none.
fn range(row: &Row) -> (f64, f64) {
    let ratio = row.ratio.unwrap_or(f64::NAN);
    row.interval.map_or((ratio, ratio), |i| (i.lo, i.hi))
}

/// A line for every headline, in the order of the file.
pub fn lines<'a>(claims: &'a Claims, outcomes: &'a [Outcome]) -> Vec<HeadlineResult<'a>> {
    let line = |headline: &'a Headline| {
        let claim = claims.get(&headline.claim).ok()?;
        let figure = claim.figure(&headline.baseline, &headline.case)?;
        let outcome = outcomes.iter().find(|o| Some(&o.experiment) == claim.experiment.as_ref());
        let of = |arm: &str| {
            outcome?.rows.iter().find(|r| {
                (&r.condition, &r.metric, r.arm.as_str()) == (&headline.condition, &headline.metric, arm)
                    && r.baseline_arm.as_ref() == Some(&headline.baseline)
            })
        };
        let (papers, ours) = (of(&figure.arm), of(&headline.ours));
        let bound = headline.bound.as_deref().and_then(of);
        Some(HeadlineResult { headline, claim, figure, valid: outcome.is_some_and(|o| o.valid), papers, ours, bound })
    };
    claims.headlines.iter().filter_map(line).collect()
}

/// The table of the headlines.
pub fn table(lines: &[HeadlineResult<'_>]) -> Table {
    let columns = [
        ("Headline", ColumnStyle::Text),
        ("Baseline", ColumnStyle::Text),
        ("Paper", ColumnStyle::Number),
        ("The paper's way here", ColumnStyle::Text),
        ("headstart's way", ColumnStyle::Text),
        ("Bound", ColumnStyle::Text),
        ("headstart is", ColumnStyle::Verdict),
    ];
    let mut table = Table::new("Headlines", &columns);
    lines.iter().for_each(|line| table.push(line.cells()));
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Interval;

    /// A paper that prints 100 ms for its baseline, and 60 for its way.
    fn claims(better: &str, printed: &str) -> Claims {
        let claim = format!(
            "[[claim]]\nid = 'P1.3'\npaper = 1\nwhat = 'w'\nmetric = 'm'\nunit = 'ms'\nbetter = '{better}'\n\
             experiment = 'x'\nfigure = [{{ arm = 'theirs', baseline = 'base', {printed} }}]\n"
        );
        let headline = "[[headline]]\nwhat = 'Connect'\nclaim = 'P1.3'\nbaseline = 'base'\ncondition = 'c'\nmetric = 'm'\n\
                        ours = 'ours'\nbound = 'oracle'\n";
        Claims::parse(&(claim + headline)).unwrap()
    }

    fn row(arm: &str, baseline: f64, ratio: f64, half: f64) -> Row {
        Row {
            baseline_arm: Some("base".into()),
            baseline: Some(baseline),
            ratio: Some(ratio),
            interval: Some(Interval { lo: ratio - half, hi: ratio + half }),
            ..Row::measured("c", "m", "ms", arm, baseline * ratio)
        }
    }

    fn outcome(rows: Vec<Row>) -> Outcome {
        Outcome { rows, ..Outcome::new("x", 1) }
    }

    fn standing(claims: &Claims, outcome: Outcome) -> Standing {
        let outcomes = [outcome];
        lines(claims, &outcomes)[0].standing()
    }

    #[test]
    fn better_is_beyond_what_is_printed_and_never_below_the_papers_way_here() {
        let claims = claims("lower", "ours = 60, theirs = 100");
        let of = |theirs: f64, ours: f64| {
            standing(&claims, outcome(vec![row("theirs", 100.0, theirs, 0.02), row("ours", 100.0, ours, 0.02)]))
        };
        assert_eq!(of(0.55, 0.50), Standing::Better);
        assert_eq!(of(0.52, 0.55), Standing::Better, "the intervals touch: not below it");
        assert_eq!(
            of(0.50, 0.55),
            Standing::BelowPapersWay,
            "better than printed, but the paper's way here is better still"
        );
        assert_eq!(of(0.60, 0.59), Standing::NotBeyondPrint, "0.57 to 0.61 has what is printed in it");
        assert_eq!(of(0.90, 0.80), Standing::NotBeyondPrint);
        assert_eq!(of(0.60, 0.90), Standing::BelowPapersWay);
    }

    #[test]
    fn where_more_is_better_the_rule_is_turned() {
        let claims = claims("higher", "ratio = 0.5");
        let of = |theirs: f64, ours: f64| {
            standing(&claims, outcome(vec![row("theirs", 28.0, theirs, 0.01), row("ours", 28.0, ours, 0.01)]))
        };
        assert_eq!(of(0.50, 1.00), Standing::Better);
        assert_eq!(of(1.00, 0.90), Standing::BelowPapersWay);
        assert_eq!(of(0.40, 0.45), Standing::NotBeyondPrint);
    }

    #[test]
    fn where_the_problem_is_absent_nothing_is_said() {
        let claims = claims("lower", "ours = 60, theirs = 100");
        let of = |baseline| {
            let rows = vec![row("theirs", baseline, 0.55, 0.02), row("ours", baseline, 0.50, 0.02)];
            standing(&claims, outcome(rows))
        };
        assert_eq!(
            (of(119.0), of(121.0), of(79.0)),
            (Standing::Better, Standing::ProblemAbsent, Standing::ProblemAbsent)
        );
    }

    #[test]
    fn what_was_not_measured_or_is_not_valid_has_no_standing() {
        let claims = claims("lower", "ours = 60, theirs = 100");
        let both = || vec![row("theirs", 100.0, 0.55, 0.02), row("ours", 100.0, 0.50, 0.02)];
        assert_eq!(standing(&claims, outcome(both())), Standing::Better);
        assert_eq!(standing(&claims, outcome(both()[..1].to_vec())), Standing::Unknown);
        let quick = Row { interval: None, ..both()[1].clone() };
        assert_eq!(standing(&claims, outcome(vec![both()[0].clone(), quick])), Standing::Unknown);
        let mut busy = outcome(both());
        busy.invalidate("the machine was busy");
        assert_eq!(standing(&claims, busy), Standing::Unknown);
        for other in [
            Row { condition: "d".into(), ..both()[1].clone() },
            Row { metric: "n".into(), ..both()[1].clone() },
            Row { baseline_arm: Some("bare".into()), ..both()[1].clone() },
        ] {
            assert_eq!(standing(&claims, outcome(vec![both()[0].clone(), other])), Standing::Unknown);
        }
    }

    #[test]
    fn a_line_shows_baseline_paper_both_ways_and_the_bound_with_their_figures() {
        let claims = claims("lower", "ours = 60, theirs = 100");
        let rows =
            ["theirs", "ours", "oracle"].into_iter().zip([0.55, 0.5, 0.4]).map(|(arm, r)| row(arm, 100.0, r, 0.02));
        let outcomes = [outcome(rows.collect())];
        let all = lines(&claims, &outcomes);
        let text = table(&all).to_markdown();
        let expected = "| Connect (P1.3: c) | base 100 ms | 0.60 | theirs 55.0 ms, 0.55 (0.53 to 0.57) | \
                        ours 50.0 ms, 0.50 (0.48 to 0.52) | oracle 40.0 ms, 0.40 (0.38 to 0.42) | better |";
        assert_eq!(text.lines().last(), Some(expected));
        let object = all[0].to_json();
        assert_eq!((&object["standing"], &object["ours"]["ratio"]), (&json!("better"), &json!(0.5)));
        let nothing = table(&lines(&claims, &[])).to_markdown();
        assert_eq!(nothing.lines().last(), Some("| Connect (P1.3: c) | – | 0.60 | – | – | – | not measured |"));
    }

    #[test]
    fn every_headline_of_the_papers_names_a_condition_of_its_experiment() {
        let claims = Claims::built_in().unwrap();
        for headline in &claims.headlines {
            let experiment = claims.get(&headline.claim).unwrap().experiment.as_deref();
            let entry = crate::experiment::ALL.iter().find(|e| Some(e.name) == experiment).unwrap();
            let known = entry.conditions.iter().any(|c| headline.condition.starts_with(c));
            assert!(known, "{}: {} has no condition {}", headline.what, entry.name, headline.condition);
        }
    }
}
