//! `cargo xtask package --starts`: in how long programs start under what is shipped, against the same programs bare and under timeout(1).
//!
//! All in turns, so that what else the machine does falls on each alike; the first turn, which brings files into memory and starts the user's
//! supervisor, is not counted. A figure of this machine, for docs/results/packages.md: nothing is judged by it.

use super::failed;
use crate::Failure;
use crate::step::timed;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// How often each is started.
const TURNS: usize = 101;
/// What is started. `./` is `target/dist`.
const LINES: [&[&str]; 4] = [
    &["true"],
    &["timeout", "9", "true"],
    &["./headstart-run", "-q", "true"],
    &["./headstart", "run", "-q", "--", "true"],
];

/// Starts all of it, and says how long that took.
pub fn measure(root: &Path) -> Result<(), Failure> {
    let mut took: [Vec<Duration>; LINES.len()] = Default::default();
    for turn in 0..=TURNS {
        for (line, took) in LINES.iter().zip(&mut took) {
            let time = start(root, line)?;
            if turn > 0 {
                took.push(time);
            }
        }
    }
    println!("xtask: started {TURNS} times in turns, ms: least, lower quartile, median, upper quartile");
    for (line, took) in LINES.iter().zip(&mut took) {
        let ms = quarters(took).map(|time| format!("{:.2}", time.as_secs_f64() * 1000.0));
        println!("xtask:   {:<32} {}", line.join(" "), ms.join("  "));
    }
    Ok(())
}

fn start(root: &Path, line: &[&str]) -> Result<Duration, Failure> {
    let program = line[0].strip_prefix("./").map_or(line[0].into(), |name| root.join("target/dist").join(name));
    let mut command = Command::new(program);
    command.args(&line[1..]).stdin(Stdio::null());
    let (status, time) = timed(|| command.status());
    match status {
        Ok(status) if status.success() => Ok(time),
        Ok(status) => Err(Failure::Failed(format!("`{}` failed ({status})", line.join(" ")))),
        Err(why) => Err(failed(Path::new(line[0]), &why)),
    }
}

/// The least of some times, their quartiles and their median.
fn quarters(times: &mut [Duration]) -> [Duration; 4] {
    times.sort_unstable();
    let last = times.len().saturating_sub(1);
    [0, last / 4, last / 2, last * 3 / 4].map(|at| times.get(at).copied().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quarters_are_of_the_sorted_times() {
        let mut times = [9, 1, 5, 3, 7].map(Duration::from_millis);
        assert_eq!(quarters(&mut times), [1, 3, 5, 7].map(Duration::from_millis));
        assert_eq!(quarters(&mut []), [Duration::ZERO; 4]);
    }

    #[test]
    fn a_program_that_fails_is_no_figure() {
        let folder = std::env::temp_dir().join(format!("headstart-starts-{}", std::process::id()));
        assert!(start(&folder, &["true"]).is_ok());
        assert!(matches!(start(&folder, &["false"]), Err(Failure::Failed(why)) if why.starts_with("`false` failed")));
        assert!(start(&folder, &["./headstart"]).is_err());
    }
}
