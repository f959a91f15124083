//! `rows.csv`: a row a comparison, full precision.
//!
//! The columns are the fields of a row in JSON, the experiment before them, the interval as two columns.

use crate::experiment::Outcome;

const HEADER: [&str; 15] = [
    "experiment",
    "valid",
    "claim",
    "condition",
    "metric",
    "unit",
    "arm",
    "baseline_arm",
    "ours",
    "baseline",
    "ratio",
    "interval_lo",
    "interval_hi",
    "paper",
    "verdict",
];

/// The rows of all outcomes under one header.
pub fn rows(outcomes: &[Outcome]) -> String {
    let number = |v: Option<f64>| v.map_or_else(String::new, |v| v.to_string());
    let mut table = csv::Writer::from_writer(Vec::new());
    let records =
        outcomes.iter().flat_map(|outcome| outcome.rows.iter().map(move |r| (outcome, r))).map(|(outcome, r)| {
            [
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
            ]
            .map(harmless)
        });
    [HEADER.map(String::from)].into_iter().chain(records).for_each(|record| {
        table.write_record(record).expect("memory takes it, and every record has as many fields");
    });
    String::from_utf8(table.into_inner().expect("memory takes it")).expect("made of strings")
}

/// A field that a spreadsheet would take for a formula gets an apostrophe in front.
fn harmless(field: String) -> String {
    let formula =
        field.starts_with(['=', '+', '@', '\t', '\r']) || (field.starts_with('-') && field.parse::<f64>().is_err());
    if formula { format!("'{field}") } else { field }
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
    fn what_was_written_is_read_back_and_formulas_are_disarmed() {
        let evil = "say \"x\",\n=1";
        let row = Row::measured(evil, "=1+1", "-x", "-1.5", -1.5);
        let text = rows(&[Outcome { rows: vec![row], ..super::super::sample::outcome() }]);
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        assert_eq!(reader.headers().unwrap(), HEADER.as_slice());
        let all: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
        assert_eq!(all.len(), 1);
        assert_eq!([3, 4, 5, 6, 8].map(|n| &all[0][n]), [evil, "'=1+1", "'-x", "-1.5", "-1.5"]);
    }
}
