//! The ledger: a verdict on every claim of the papers, out of the results of all experiments that measure one.
//!
//! A claim's verdict is that of its rows, by the paper's own arm first: a claim is not reproduced where what the paper
//! proposes did not show the effect, whatever others did. The line of a claim shows the row that decided. Reads outcomes,
//! measures nothing.

use super::headline;
use super::layout::ColumnStyle;
use super::number::{self, NONE};
use super::summary::interval;
use super::table::Table;
use crate::experiment::{Claim, Claims, Direction, Extent, Outcome, Row, Verdict};
use headstart_core::connect::race;
use serde_json::{Value, json};

/// A claim and what was measured for it.
#[derive(Clone, Debug)]
pub struct Account<'a> {
    /// The claim.
    pub claim: &'a Claim,
    /// The outcome of its experiment, if that was run.
    pub outcome: Option<&'a Outcome>,
    /// Its rows in that outcome.
    pub rows: Vec<&'a Row>,
}

impl Account<'_> {
    /// What the rows say about the claim; none where it has no row.
    ///
    /// Rows of the paper's own arms decide where some of them were judged, otherwise all rows do. Of several verdicts the
    /// first in the order of [`Verdict::ALL`] stands: a claim is not reproduced where one of its rows is not.
    pub fn verdict(&self) -> Option<Verdict> {
        let first = self.first()?;
        Some(first.verdict.unwrap_or(Verdict::InstrumentOnly))
    }

    /// The row that decides; where none is judged, one of the paper's arm and with its figure, if there is one.
    fn first(&self) -> Option<&Row> {
        let rank = |r: &Row| {
            let arms = self.claim.figures.iter().filter(|f| f.arm == r.arm);
            let own = arms.clone().next().is_some();
            let compared = arms.clone().any(|f| Some(&f.baseline) == r.baseline_arm.as_ref());
            (r.verdict.is_none(), !own, r.verdict, r.paper.is_none(), !compared, r.ratio.is_none())
        };
        self.rows.iter().copied().min_by_key(|r| rank(r))
    }

    /// The best row beside `first`: of whatever arm a host can have, under the same condition and against the same baseline.
    fn best(&self, first: &Row) -> Option<&Row> {
        let same = |r: &Row| {
            (&r.condition, &r.metric, &r.baseline_arm) == (&first.condition, &first.metric, &first.baseline_arm)
        };
        let possible = |r: &Row| race::ALL.iter().all(|race| race.name != r.arm || !race.lab_only);
        let key = |r: &Row| r.ratio.map(|ratio| if self.claim.better == Direction::Lower { ratio } else { -ratio });
        let rows = self.rows.iter().copied().filter(|r| same(r) && possible(r));
        rows.filter_map(|r| Some((key(r)?, r))).min_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, r)| r)
    }

    /// How many rows have which verdict, and why none can have one.
    fn count(&self) -> String {
        let count = |verdict| self.rows.iter().filter(|r| r.verdict == Some(verdict)).count();
        let parts =
            Verdict::ALL.iter().map(|v| (count(*v), v)).filter(|(n, _)| *n > 0).map(|(n, v)| format!("{n} {v}"));
        let counts = match parts.collect::<Vec<_>>() {
            none if none.is_empty() => format!("{} not judged", self.rows.len()),
            some => some.join(", "),
        };
        self.claim.unjudged.as_ref().map_or_else(|| counts.clone(), |why| format!("{counts}: {why}"))
    }
}

/// An account of every claim, in the order of the file.
pub fn accounts<'a>(claims: &'a Claims, outcomes: &'a [Outcome]) -> Vec<Account<'a>> {
    let account = |claim: &'a Claim| {
        let outcome = outcomes.iter().find(|o| Some(&o.experiment) == claim.experiment.as_ref());
        let rows = outcome.iter().flat_map(|o| &o.rows).filter(|r| r.claim.as_ref() == Some(&claim.id)).collect();
        Account { claim, outcome, rows }
    };
    claims.all.iter().map(account).collect()
}

/// A line a claim: the paper's ratio, that of the paper's way here, that of the best way here, and the verdict.
pub fn table(accounts: &[Account<'_>]) -> Table {
    let mut table = Table::new(
        "Every claim",
        &[
            ("Claim", ColumnStyle::Text),
            ("The paper says", ColumnStyle::Text),
            ("Condition", ColumnStyle::Text),
            ("Paper", ColumnStyle::Number),
            ("Its way here", ColumnStyle::Number),
            ("Best here", ColumnStyle::Text),
            ("Verdict", ColumnStyle::Verdict),
            ("Rows", ColumnStyle::Text),
        ],
    );
    for account in accounts {
        let first = account.first();
        let (claim, none) = (account.claim, || NONE.to_owned());
        let ratio = |r: &Row| {
            let of = r.ratio.map(number::ratio)?;
            Some(r.interval.map_or_else(|| of.clone(), |i| format!("{of} ({})", interval(i))))
        };
        let state = match (account.verdict(), account.outcome, &claim.experiment) {
            (Some(verdict), Some(outcome), _) if !outcome.valid => format!("{verdict} (run not valid)"),
            (Some(verdict), ..) => verdict.to_string(),
            (None, _, Some(_)) => "not measured".to_owned(),
            (None, ..) => "planned".to_owned(),
        };
        let best = first.and_then(|first| account.best(first));
        table.push([
            claim.id.clone(),
            claim.what.clone(),
            first.map_or_else(none, |r| format!("{}: {}", r.condition, r.metric)),
            first.and_then(|r| r.paper).map_or_else(none, number::ratio),
            first.and_then(ratio).unwrap_or_else(none),
            best.map_or_else(none, |r| format!("{} {}", r.arm, r.ratio.map_or_else(none, number::ratio))),
            state,
            if account.rows.is_empty() { none() } else { account.count() },
        ]);
    }
    table
}

/// Where the rule of the verdicts is written down.
const RULE: &str = "docs/decisions/0080";

/// Where the rule of the headlines is written down.
const HEADLINES: &str = "docs/decisions/0141";

/// The page `claims.md`: the headlines, the claims, how it came about, and what to run to see any of it again.
pub fn markdown(headlines: &[headline::HeadlineResult<'_>], accounts: &[Account<'_>], how: &str) -> String {
    let mut out = format!(
        "# Every claim of the papers\n\n{how}\n\nA number is a ratio, arm / baseline, with its 95 % interval: 0.69 is 31 % less. \
         *Paper* is as printed.\n\n## Headlines\n\nThe paper's way and headstart's, on the same condition and against the same \
         baseline. headstart is *better* where its whole interval is beyond what the paper prints and its way is not below the \
         paper's way measured here, *not better than printed* where only the second holds, and *below the paper's way* where the \
         two intervals do not touch and its own is the worse one. *Problem absent*: the baseline is more than 20 % from the \
         paper's, so nothing is said. The rule is fixed beforehand ({HEADLINES}).\n\n{}\n## Claims\n\n\
         *Its way here* is what the paper proposes, measured here; *best here* is the best that a host can \
         do under the same condition. A line shows the row that decided. Verdicts follow one rule, fixed beforehand ({RULE}): \
         *reproduced*, the interval touches 0.8 to 1.25 times the paper's ratio; *stronger* and *weaker*, the same direction \
         beyond that; *not reproduced*, no effect or the other direction; *problem absent*, the baseline is more than 20 % from \
         the paper's, so nothing can be said; *exceeded*, headstart's own method beats the paper's figure; *instrument only*, \
         measured without a verdict. Of several rows the worst decides, *not reproduced* before *weaker*.\n\n{}\n## Evidence\n",
        headline::table(headlines).to_markdown(),
        table(accounts).to_markdown()
    );
    for account in accounts {
        let Some(name) = &account.claim.experiment else { continue };
        let source = account.claim.source.as_deref().map_or_else(String::new, |s| format!(", {s}"));
        let arguments = account.outcome.and_then(|o| o.extent.as_ref()).map_or_else(String::new, Extent::arguments);
        out += &format!(
            "\n### {} (paper {}{source})\n\n{}\n\n`headstart lab run {name}{arguments}`{}\n\n",
            account.claim.id,
            account.claim.paper,
            super::escape::markdown(&account.claim.what),
            account.outcome.and_then(|o| o.device.as_ref()).map_or_else(String::new, |d| format!(", {}", d.date)),
        );
        if account.rows.is_empty() {
            out += "Not measured.\n";
        } else {
            out += &super::summary::comparisons("", account.rows.iter().copied()).without_column("Claim").to_markdown();
        }
    }
    out
}

/// The ledger for programs: one object.
pub fn json(headlines: &[headline::HeadlineResult<'_>], accounts: &[Account<'_>], how: &str) -> Value {
    let claim = |a: &Account<'_>| {
        json!({
            "id": a.claim.id,
            "experiment": a.claim.experiment,
            "planned": a.claim.planned,
            "unjudged": a.claim.unjudged,
            "verdict": a.verdict(),
            "valid": a.outcome.map(|o| o.valid),
            "extent": a.outcome.and_then(|o| o.extent.as_ref()),
            "date": a.outcome.and_then(|o| o.device.as_ref()).map(|d| &d.date),
            "commit": a.outcome.and_then(|o| o.device.as_ref()).and_then(|d| d.commit.as_ref()),
            "rows": a.rows,
        })
    };
    let headlines: Vec<Value> = headlines.iter().map(headline::HeadlineResult::to_json).collect();
    json!({ "version": 1, "how": how, "headlines": headlines, "claims": accounts.iter().map(claim).collect::<Vec<_>>() })
}

/// The verdicts alone, as `cargo xtask claims` reads them: a table for each claim that has one, in TOML.
pub fn verdicts(accounts: &[Account<'_>], how: &str) -> String {
    // What JSON makes of a string is a string of TOML as well.
    let text = |text: &str| Value::from(text).to_string();
    let mut out =
        format!("# Written by `headstart lab reproduce --docs`, read by `cargo xtask claims`.\nhow = {}\n", text(how));
    for account in accounts {
        let (Some(experiment), Some(verdict)) = (&account.claim.experiment, account.verdict()) else { continue };
        let [id, says, experiment] = [&account.claim.id, &account.claim.what, experiment].map(|t| text(t));
        let verdict = text(&verdict.to_string());
        out += &format!("\n[[claim]]\nid = {id}\nsays = {says}\nexperiment = {experiment}\nverdict = {verdict}\n");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Interval;

    fn row(arm: &str, ratio: f64, verdict: Verdict) -> Row {
        Row {
            claim: Some("P1.1".into()),
            baseline_arm: Some("sequential".into()),
            baseline: Some(100.0),
            ratio: Some(ratio),
            interval: Some(Interval { lo: ratio, hi: ratio }),
            paper: Some(0.64),
            verdict: Some(verdict),
            ..Row::measured("lte", "DNS lookup time, p75", "ms", arm, 100.0 * ratio)
        }
    }

    fn outcome(rows: Vec<Row>) -> Outcome {
        Outcome { rows, ..Outcome::new("connect-overhead", 1) }
    }

    fn verdict(rows: Vec<Row>) -> Option<Verdict> {
        let (claims, outcomes) = (Claims::built_in().unwrap(), [outcome(rows)]);
        let account = accounts(&claims, &outcomes).into_iter().find(|a| a.claim.id == "P1.1").unwrap();
        account.verdict()
    }

    #[test]
    fn the_papers_own_way_decides_and_one_row_that_is_not_reproduced_is_enough() {
        use Verdict::{Exceeded, InstrumentOnly, NotReproduced, ProblemAbsent, Reproduced, Stronger, Weaker};
        let (own, ours) = ("simultaneous", "adaptive");
        assert_eq!(verdict(vec![]), None);
        assert_eq!(verdict(vec![row(own, 0.6, Reproduced), row(ours, 1.2, NotReproduced)]), Some(Reproduced));
        assert_eq!(verdict(vec![row(own, 1.2, NotReproduced), row(own, 0.6, Reproduced)]), Some(NotReproduced));
        assert_eq!(verdict(vec![row(own, 0.6, Reproduced), row(own, 0.9, Weaker)]), Some(Weaker));
        assert_eq!(verdict(vec![row(own, 0.3, Stronger), row(own, 0.3, Stronger)]), Some(Stronger));
        assert_eq!(verdict(vec![row(own, 0.3, Stronger), row(own, 0.6, Reproduced)]), Some(Reproduced));
        assert_eq!(verdict(vec![row(own, 0.9, ProblemAbsent), row(own, 0.6, Reproduced)]), Some(Reproduced));
        assert_eq!(verdict(vec![row(own, 0.9, InstrumentOnly), row(own, 0.9, ProblemAbsent)]), Some(ProblemAbsent));
        assert_eq!(verdict(vec![row(ours, 0.5, Exceeded)]), Some(Exceeded), "the paper's way was not measured");
        let unjudged = Row { verdict: None, ..row(own, 0.6, Reproduced) };
        assert_eq!(verdict(vec![unjudged]), Some(InstrumentOnly));
    }

    #[test]
    fn the_line_of_a_claim_shows_the_row_that_decided() {
        let claims = Claims::built_in().unwrap();
        let rows =
            vec![row("simultaneous", 0.6, Verdict::Reproduced), row("simultaneous", 1.2, Verdict::NotReproduced)];
        let outcomes = [outcome(rows)];
        let text = table(&accounts(&claims, &outcomes)).to_markdown();
        let line = text.lines().find(|l| l.starts_with("| P1.1 ")).unwrap();
        assert!(line.contains("| 1.20 (1.20 to 1.20) |") && line.contains("| not reproduced |"), "{line}");
    }

    #[test]
    fn the_table_has_a_line_for_every_claim_measured_or_not() {
        let claims = Claims::built_in().unwrap();
        let outcomes =
            [outcome(vec![row("adaptive", 0.5, Verdict::Exceeded), row("simultaneous", 0.6, Verdict::Reproduced)])];
        let accounts = accounts(&claims, &outcomes);
        let text = table(&accounts).to_markdown();
        assert_eq!(text.lines().count(), 2 + claims.all.len());
        let line = text.lines().find(|l| l.starts_with("| P1.1 ")).unwrap();
        assert!(line.contains("| 0.64 | 0.60 (0.60 to 0.60) | adaptive 0.50 | reproduced |"), "{line}");
        assert!(text.lines().any(|l| l.starts_with("| P1.2 ") && l.contains("not measured")), "{text}");
        let headlines = headline::lines(&claims, &outcomes);
        let object = json(&headlines, &accounts, "how");
        assert_eq!(object["claims"].as_array().unwrap().len(), claims.all.len());
        assert_eq!(object["claims"][0]["verdict"], "reproduced");
        assert_eq!(object["headlines"].as_array().unwrap().len(), claims.headlines.len());
        let page = markdown(&headlines, &accounts, "how");
        assert!(page.contains("### P1.1 (paper 1"));
        assert!(page.find("| Headline |") < page.find("| Claim |"), "the headlines come first");
        let verdicts: toml::Table = toml::from_str(&verdicts(&accounts, "a \"how\"")).unwrap();
        assert_eq!(verdicts["how"].as_str(), Some("a \"how\""));
        assert_eq!(verdicts["claim"].as_array().unwrap().len(), 1, "only what has a verdict");
        assert_eq!(verdicts["claim"][0]["verdict"].as_str(), Some("reproduced"));
    }

    #[test]
    fn a_claim_that_cannot_be_judged_says_why() {
        let claims = Claims::built_in().unwrap();
        let rows = vec![Row {
            claim: Some("P1.6".into()),
            ..Row::measured("synthetic", "connections served from the pool", "%", "headstart-3600s", 68.7)
        }];
        let outcomes = [Outcome { experiment: "app-session".into(), ..outcome(rows) }];
        let accounts = accounts(&claims, &outcomes);
        let text = table(&accounts).to_markdown();
        let line = text.lines().find(|l| l.starts_with("| P1.6 ")).unwrap();
        assert!(line.contains("| instrument only | 1 not judged: A range over apps"), "{line}");
        let object = json(&[], &accounts, "how");
        let claim = object["claims"].as_array().unwrap().iter().find(|c| c["id"] == "P1.6").unwrap();
        assert!(claim["unjudged"].as_str().unwrap().starts_with("A range over apps"), "{claim}");
    }

    #[test]
    fn the_best_is_never_an_arm_that_only_the_lab_can_have() {
        let claims = Claims::built_in().unwrap();
        let rows = vec![row("simultaneous", 0.6, Verdict::Reproduced), row("oracle", 0.3, Verdict::Exceeded)];
        let outcomes = [outcome(rows)];
        let text = table(&accounts(&claims, &outcomes)).to_markdown();
        assert!(text.contains("| simultaneous 0.60 |"), "{text}");
    }
}
