//! Numbers as a reader wants them: three figures, the real minus sign, no false precision.

/// What stands where there is no number.
pub const NONE: &str = "–";

/// Three significant figures: `0.00123`, `4.56`, `48.0`, `117`, `65549`.
pub fn figure(v: f64) -> String {
    // Rounded first, so that 9.999 is written as 10.0 and not as 10.00.
    let magnitude: i32 = if v == 0.0 {
        0
    } else {
        format!("{:.2e}", v.abs()).split_once('e').map_or(0, |(_, e)| e.parse().unwrap_or(0))
    };
    let text = match magnitude {
        _ if v == 0.0 => "0".into(),
        ..-4 => format!("{v:.2e}"),
        m @ -4..0 => format!("{v:.*}", 2 + m.unsigned_abs() as usize),
        m @ 0..2 => format!("{v:.*}", 2 - m as usize),
        _ => format!("{v:.0}"),
    };
    text.replace('-', "−")
}

/// A ratio: `0.64`, `3.10`, `12.5`.
pub fn ratio(v: f64) -> String {
    if v.abs() < 9.995 { format!("{v:.2}") } else { figure(v) }
}

/// The change that a ratio stands for: `−36 %`, `+5.9 %`, `×12.5` above tenfold.
pub fn change(ratio: f64) -> String {
    let percent = (ratio - 1.0) * 100.0;
    if ratio >= 10.0 {
        return format!("×{}", figure(ratio));
    }
    let digits = usize::from(percent.abs() < 9.95);
    let size = format!("{:.digits$}", percent.abs());
    match percent {
        _ if size.bytes().all(|b| matches!(b, b'0' | b'.')) => "±0 %".into(),
        p if p < 0.0 => format!("−{size} %"),
        _ => format!("+{size} %"),
    }
}

/// A number and its unit: `48.0 ms`, `35 %`, `3`.
pub fn with_unit(v: f64, unit: &str) -> String {
    if unit.is_empty() { figure(v) } else { format!("{} {unit}", figure(v)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_keep_three_figures() {
        let cases = [
            (0.0, "0"),
            (0.001234, "0.00123"),
            (0.5, "0.500"),
            (4.5678, "4.57"),
            (9.999, "10.0"),
            (48.0, "48.0"),
            (99.96, "100"),
            (117.4, "117"),
            (65_549.0, "65549"),
            (-3.0, "−3.00"),
            (0.000_004_2, "4.20e−6"),
        ];
        for (v, text) in cases {
            assert_eq!(figure(v), text, "{v}");
        }
    }

    #[test]
    fn ratios_and_the_changes_they_stand_for() {
        assert_eq!((ratio(0.64), ratio(3.1), ratio(12.48)), ("0.64".into(), "3.10".into(), "12.5".into()));
        assert_eq!((change(0.64), change(1.0587), change(0.9)), ("−36 %".into(), "+5.9 %".into(), "−10 %".into()));
        assert_eq!((change(1.0), change(0.9999), change(12.5)), ("±0 %".into(), "±0 %".into(), "×12.5".into()));
        assert_eq!(with_unit(3.0, ""), "3.00");
    }
}
