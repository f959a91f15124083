//! `cargo xtask law`: programs bare and under headstart in a million random worlds in virtual time, or N; half an hour on two
//! processors. What every test run does with ten thousand (`crates/core/tests/law`).

use crate::Failure;
use crate::step::Step;

/// How many worlds, and the seed that they come from, unless it is said otherwise. Not the seed of every test run.
const WORLDS: u64 = 1_000_000;
const SEED: u64 = 2;

/// Runs the chore.
pub fn run(arguments: &[String]) -> Result<(), Failure> {
    let step = step(arguments)?;
    println!("xtask: {}", step.line());
    step.run()
}

/// The million, for a night.
pub fn all() -> Step {
    of(SEED, WORLDS)
}

fn of(seed: u64, worlds: u64) -> Step {
    let words = ["test", "-p", "headstart-core", "--test", "law", "--", "--nocapture", "whoever_connects"];
    Step::cargo(&words).with("HEADSTART_LAW", format!("{seed}:0:{worlds}"))
}

fn step(arguments: &[String]) -> Result<Step, Failure> {
    let (mut worlds, mut seed) = (WORLDS, SEED);
    for pair in arguments.chunks(2) {
        let (to, number) = match pair {
            [flag, number] if flag == "--worlds" => (&mut worlds, number),
            [flag, number] if flag == "--seed" => (&mut seed, number),
            _ => return Err(Failure::Usage("give nothing, or --worlds N, --seed N".to_owned())),
        };
        *to = number.parse().map_err(|_| Failure::Usage(format!("`{number}`: give a whole number")))?;
    }
    Ok(of(seed, worlds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_million_worlds_unless_told_otherwise() {
        let line = |words: &[&str]| step(&words.iter().map(|w| (*w).to_owned()).collect::<Vec<_>>()).map(|s| s.line());
        assert!(line(&[]).unwrap().starts_with("HEADSTART_LAW=2:0:1000000 cargo test -p headstart-core --test law"));
        assert!(line(&["--worlds", "50", "--seed", "7"]).unwrap().starts_with("HEADSTART_LAW=7:0:50 "));
        for wrong in [&["--worlds"][..], &["--worlds", "x"], &["50"]] {
            assert!(matches!(line(wrong), Err(Failure::Usage(_))), "{wrong:?}");
        }
    }
}
