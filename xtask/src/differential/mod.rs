//! `cargo xtask differential`: can a program tell headstart from none? Some hundred small things that programs do with sockets, bare and under
//! each way in which headstart measures or hooks in, case by case; whatever differs must be a named exception, and each of these must differ.
//!
//! The client, its peers and the namespaces are Python programs in `crates/cli/tests/differential`, where a test of the command plays some of
//! the cases. Here is the judge: nothing of it touches a network.

mod exceptions;
mod judge;
mod page;

use crate::Failure;
use crate::conformance::built;
use crate::step::{Step, day_and_kernel, timed};
use crate::tree::workspace_root;
use exceptions::Exceptions;
use judge::{Judged, Played};
use std::path::PathBuf;

/// Where the programs are, and the exceptions.
const FOLDER: &str = "crates/cli/tests/differential";
/// The page that a full run writes.
const PAGE: &str = "docs/results/differential.md";
/// The reference, and the reference once more.
const BARE: [&str; 2] = ["bare", "bare-again"];
/// Every other arm, and the line that it stands for.
const ARMS: &[(&str, &str)] = &[
    ("run-tun", "`headstart run --measure --via tun`"),
    ("run-ebpf", "`headstart run --measure --via ebpf`"),
    ("up", "`headstart up --measure --capture-default`"),
    ("forward", "`headstart forward`, with an interface of another program's, in a namespace of its own"),
    ("connect", "`headstart run`"),
];
/// How often what is not as it should be is played, the first time included. What differs more often than not is a difference.
const TURNS: usize = 3;

/// What the command line asks for.
#[derive(Debug, Default, PartialEq, Eq)]
struct Wanted {
    quick: bool,
    arms: Vec<String>,
    program: Option<PathBuf>,
}

fn wanted(arguments: &[String]) -> Result<Wanted, Failure> {
    let mut wanted = Wanted::default();
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or_else(|| Failure::Usage(format!("`{argument}` wants a value")));
        match argument.as_str() {
            "--quick" => wanted.quick = true,
            "--program" => wanted.program = Some(value()?.into()),
            "--arm" => {
                let name = value()?;
                if ARMS.iter().all(|(known, _)| known != name) {
                    let known: Vec<_> = ARMS.iter().map(|(name, _)| *name).collect();
                    return Err(Failure::Usage(format!("unknown arm `{name}`; choose one of {}", known.join(", "))));
                }
                wanted.arms.push(name.clone());
            }
            stranger => {
                return Err(Failure::Usage(format!("`{stranger}` is not one of: --quick, --arm NAME, --program FILE")));
            }
        }
    }
    Ok(wanted)
}

/// Runs the chore.
pub fn run(arguments: &[String]) -> Result<(), Failure> {
    let wanted = wanted(arguments)?;
    let root = workspace_root()?;
    let text = std::fs::read_to_string(root.join(FOLDER).join("exceptions.toml"));
    let text = text.map_err(|e| Failure::Failed(format!("reading the exceptions: {e}")))?;
    let exceptions = Exceptions::parse(&text).map_err(Failure::Failed)?;
    let headstart = match &wanted.program {
        Some(program) => program.clone(),
        None => built(false)?,
    };
    let stage = Stage { headstart: headstart.display().to_string(), quick: wanted.quick };
    let arms = ARMS.iter().map(|(name, _)| *name);
    let arms: Vec<&str> =
        arms.filter(|name| wanted.arms.is_empty() || wanted.arms.iter().any(|wanted| wanted == name)).collect();
    let (judged, took) = timed(|| judged(&stage, &arms, &exceptions));
    let judged = judged?;
    let verdict = judged.verdict(&exceptions);
    print!("{}", page::told(&judged, &verdict));
    println!("xtask: {} cases, {} arms in {:.0} s", judged.cases(), arms.len(), took.as_secs_f64());
    if !wanted.quick && wanted.arms.is_empty() {
        let page = page::page(&judged, &exceptions, &verdict, &day_and_kernel());
        let written = std::fs::write(root.join(PAGE), page);
        written.map_err(|e| Failure::Failed(format!("writing {PAGE}: {e}")))?;
        println!("xtask: wrote {PAGE}");
    }
    if verdict.holds() { Ok(()) } else { Err(Failure::Failed(verdict.complaint())) }
}

/// Plays all arms once, and again what is not as the exceptions say.
fn judged(stage: &Stage, arms: &[&str], exceptions: &Exceptions) -> Result<Judged, Failure> {
    let mut judged = Judged::default();
    let all: Vec<&str> = BARE.iter().chain(arms).copied().collect();
    judged.add(stage.play(&all, &[])?);
    for _ in 1..TURNS {
        for arm in arms {
            // Those alone, so that they have the machine for themselves.
            let cases = judged.doubtful(arm, exceptions);
            if !cases.is_empty() {
                judged.add(stage.play(&[BARE[0], arm], &cases)?);
            }
        }
    }
    Ok(judged)
}

/// The stage, as it is started.
struct Stage {
    headstart: String,
    quick: bool,
}

impl Stage {
    fn step(&self, arms: &[&str], cases: &[String]) -> Step {
        let (program, arms) = (format!("{FOLDER}/stage.py"), arms.join(","));
        let words = [program.as_str(), &self.headstart, &arms].into_iter();
        let quick = self.quick.then_some("--quick");
        let words: Vec<&str> = words.chain(quick).chain(cases.iter().map(String::as_str)).collect();
        Step::command("python3", &words)
    }

    fn play(&self, arms: &[&str], cases: &[String]) -> Result<Played, Failure> {
        let many = if cases.is_empty() { "all".to_owned() } else { cases.len().to_string() };
        println!("xtask: {} (cases: {many})", self.step(arms, &[]).line());
        let step = self.step(arms, cases);
        let captured = step.capture_showing(|_| false)?;
        if captured.success {
            Ok(Played::read(&captured.output))
        } else {
            Err(Failure::Failed("the stage failed; see above (it needs python3, unshare, ip and nft)".into()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn the_command_line_names_arms() {
        assert_eq!(wanted(&[]).unwrap(), Wanted::default());
        let asked = wanted(&words("--quick --arm up --arm forward --program /b/headstart")).unwrap();
        assert_eq!((asked.quick, asked.arms, asked.program), (true, words("up forward"), Some("/b/headstart".into())));
        for wrong in ["--arm", "--arm bare", "--frobnicate", "--program"] {
            assert!(matches!(wanted(&words(wrong)), Err(Failure::Usage(_))), "{wrong}");
        }
    }

    #[test]
    fn the_stage_is_a_program_of_the_tests_and_knows_every_arm() {
        let root = workspace_root().unwrap();
        let text = std::fs::read_to_string(root.join(FOLDER).join("stage.py")).unwrap();
        for arm in BARE.iter().chain(ARMS.iter().map(|(name, _)| name)) {
            assert!(text.contains(&format!("\"{arm}\"")), "{arm}");
        }
        let stage = Stage { headstart: "/b/headstart".into(), quick: true };
        let line = stage.step(&["bare", "up"], &words("refused")).line();
        assert_eq!(line, "python3 crates/cli/tests/differential/stage.py /b/headstart bare,up --quick refused");
    }
}
