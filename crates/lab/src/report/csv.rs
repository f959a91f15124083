//! `rows.csv`: a row a comparison, full precision, RFC 4180 quoting.
//!
//! The columns are the fields of a row in JSON, the experiment before them, the interval as two columns.

use super::escape;
use crate::experiment::Outcome;

/// The rows of all outcomes under one header.
pub fn rows(outcomes: &[Outcome]) -> String {
    let mut out = String::from(
        "experiment,valid,claim,condition,metric,unit,arm,baseline_arm,ours,baseline,ratio,interval_lo,interval_hi,paper,verdict\n",
    );
    let number = |v: Option<f64>| v.map_or_else(String::new, |v| v.to_string());
    for outcome in outcomes {
        for r in &outcome.rows {
            let fields = [
                outcome.experiment.clone(),
                outcome.valid.to_string(),
                r.claim.clone().unwrap_or_default(),
                r.condition.clone(),
                r.metric.clone(),
                r.unit.clone(),
                r.arm.clone(),
                r.baseline_arm.clone().unwrap_or_default(),
                number(Some(r.ours)),
                number(r.baseline),
                number(r.ratio),
                number(r.interval.map(|i| i.lo)),
                number(r.interval.map(|i| i.hi)),
                number(r.paper),
                r.verdict.map_or_else(String::new, |v| v.to_string()),
            ];
            out += &fields.map(|f| escape::csv(&f)).join(",");
            out.push('\n');
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Row;

    #[test]
    fn a_row_without_a_baseline_has_empty_fields() {
        let outcome = Outcome { rows: vec![Row::measured("a,b", "m", "ms", "bare", 1.5)], ..Outcome::new("probe", 1) };
        assert_eq!(rows(&[outcome]).lines().nth(1), Some("probe,true,,\"a,b\",m,ms,bare,,1.5,,,,,,"));
    }

    #[test]
    fn every_line_has_as_many_fields_as_the_header() {
        let text = rows(&[super::super::sample::outcome()]);
        let count = |l: &str| l.split('"').step_by(2).map(|outside| outside.matches(',').count()).sum::<usize>();
        let mut lines = text.lines();
        let header = count(lines.next().unwrap());
        assert!(lines.clone().count() > 3 && lines.all(|l| count(l) == header), "{text}");
    }
}
