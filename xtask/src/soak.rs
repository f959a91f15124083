//! `cargo xtask soak`: unmodified programs under one supervisor for a while, in namespaces, while the network breaks and
//! mends. At the end nothing is lost and nothing has grown (`crates/cli/tests/run/soak.rs`).

use crate::Failure;
use crate::step::Step;

/// How long, unless `--minutes` says otherwise.
const MINUTES: u32 = 30;

/// Runs the chore.
pub fn run(arguments: &[String]) -> Result<(), Failure> {
    let minutes = minutes(arguments)?;
    for step in steps(minutes) {
        println!("xtask: {}", step.line());
        step.run()?;
    }
    Ok(())
}

/// What `--minutes` says.
pub fn minutes(arguments: &[String]) -> Result<u32, Failure> {
    match arguments {
        [] => Ok(MINUTES),
        [flag, number] if flag == "--minutes" => number
            .parse()
            .ok()
            .filter(|n| *n > 0)
            .ok_or_else(|| Failure::Usage(format!("`{number}`: give whole minutes, at least one"))),
        [flag, ..] => Err(Failure::Usage(format!("`{flag}`: give nothing, or --minutes N"))),
    }
}

/// What takes so many minutes.
pub fn steps(minutes: u32) -> [Step; 1] {
    let test =
        Step::cargo(&["test", "-p", "headstart", "--test", "run", "--", "--include-ignored", "--nocapture", "soak::"]);
    [test.with("HEADSTART_SOAK_MINUTES", minutes.to_string())]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_an_hour_unless_told_otherwise() {
        let of = |words: &[&str]| minutes(&words.iter().map(|w| (*w).to_owned()).collect::<Vec<_>>());
        assert_eq!((of(&[]), of(&["--minutes", "5"])), (Ok(30), Ok(5)));
        for wrong in [&["--minutes"][..], &["--minutes", "0"], &["--minutes", "x"], &["5"]] {
            assert!(matches!(of(wrong), Err(Failure::Usage(_))), "{wrong:?}");
        }
        assert!(steps(5)[0].line().starts_with("HEADSTART_SOAK_MINUTES=5 cargo test"));
    }
}
