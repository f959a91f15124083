//! `cargo xtask interop`: other QUIC stacks against `headstart serve`, and `headstart get` against theirs, case by case and many times over.
//! A round that does not end is a stall, and fails as one that ends badly does. Everything is over loopback, through a relay that loses
//! or moves what the case says. Writes docs/results/interop.md, unless it is asked for a part.

mod case;
mod page;
mod peer;
mod relay;
mod resumed;
mod round;

use crate::Failure;
use crate::conformance::{Scratch, built};
use crate::step::timed;
use crate::tree::workspace_root;
use case::Case;
use page::{Cell, Row};
use peer::{Peer, Ready};
use resumed::{Program, Resumed};
use round::{Pair, Scene};
use std::fs;
use std::path::{Path, PathBuf};
/// Rounds of each case.
const ROUNDS: u32 = 50;
/// The word for what a stack's server gains by the windows of `headstart-quic`.
const RESUMED: &str = "resumed";
/// Where the table is.
const PAGE: &str = "docs/results/interop.md";
/// Whose connection it is: another's to `serve`, or that of `get` to another.
const DIRECTIONS: [&str; 2] = ["to `headstart serve`", "from `headstart get`"];

/// What a stack does wrong that its makers know of: stack, direction, case, and what. It is played and shown, and no failure of the chore.
const KNOWN: &[(&str, usize, &str, &str)] = &[
    (
        "quiche",
        1,
        "migration",
        "after the client's address has changed, quiche does not repeat what was lost on the old path, and the file keeps a hole \
         (cloudflare/quiche#2452, open)",
    ),
    (
        "ngtcp2",
        0,
        "keys",
        "quinn changes the keys once by itself, amid the first 1,000 packets; the client of ngtcp2, which is to change them at its first millisecond, \
         ends where it comes second (ERR_INVALID_STATE of its own library)",
    ),
];

/// What is known of a case of a stack.
fn known(peer: &str, direction: usize, case: &str) -> Option<&'static str> {
    KNOWN.iter().find(|known| (known.0, known.1, known.2) == (peer, direction, case)).map(|known| known.3)
}

/// What the command line asks for.
#[derive(Debug, Default, PartialEq, Eq)]
struct Wanted {
    rounds: Option<u32>,
    peers: Vec<String>,
    cases: Vec<String>,
    resumed: bool,
    program: Option<PathBuf>,
}

impl Wanted {
    fn is_all(&self) -> bool {
        self.peers.is_empty() && self.cases.is_empty() && !self.resumed
    }
}

fn wanted(arguments: &[String]) -> Result<Wanted, Failure> {
    let usage = |why: String| Err(Failure::Usage(why));
    let mut wanted = Wanted::default();
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--program" => match arguments.next() {
                Some(program) => wanted.program = Some(program.into()),
                None => return usage("`--program` needs a file".to_owned()),
            },
            "--rounds" => match arguments.next().and_then(|number| number.parse().ok()).filter(|number| *number > 0) {
                Some(number) => wanted.rounds = Some(number),
                None => return usage("`--rounds` needs a number".to_owned()),
            },
            RESUMED => wanted.resumed = true,
            name if peer::ALL.iter().any(|peer| peer.name == name) => wanted.peers.push(name.to_owned()),
            name if case::ALL.iter().any(|case| case.name == name) => wanted.cases.push(name.to_owned()),
            stranger => {
                let names = peer::ALL.iter().map(|peer| peer.name).chain(case::ALL.iter().map(|case| case.name));
                let known = names.chain([RESUMED]).collect::<Vec<_>>().join(", ");
                return usage(format!("`{stranger}` is not one of: {known}, --rounds N, --program FILE"));
            }
        }
    }
    Ok(wanted)
}

/// Runs the chore.
pub fn run(arguments: &[String]) -> Result<(), Failure> {
    let wanted = wanted(arguments)?;
    let rounds = wanted.rounds.unwrap_or(ROUNDS);
    let headstart = wanted.program.clone().map_or_else(|| built(false), Ok)?;
    let scratch = Scratch::new("interop")?;
    let pair = Pair::new(&scratch.folder("site")?).map_err(|why| Failure::Failed(format!("the site: {why}")))?;
    let mut bad = Vec::new();
    // Only what is named, or all.
    let is_matrix = wanted.is_all() || !(wanted.peers.is_empty() && wanted.cases.is_empty());
    let (rows, versions) =
        if is_matrix { matrix(&wanted, rounds, (&headstart, &pair, &scratch), &mut bad)? } else { Default::default() };
    let is_resumed = wanted.is_all() || wanted.resumed;
    let resumed = if is_resumed { gains(&wanted, (&headstart, &pair, &scratch), &mut bad)? } else { None };
    if wanted.is_all() {
        let page = workspace_root()?.join(PAGE);
        let text = page::text(&versions, &rows, rounds) + &resumed.map_or_else(String::new, |resumed| resumed.text());
        fs::write(&page, text).map_err(|e| Failure::Failed(format!("{}: {e}", page.display())))?;
    }
    match bad.len() {
        0 => Ok(()),
        n => Err(Failure::Failed(format!("{n} rounds did not come to what they should:\n  {}", bad.join("\n  ")))),
    }
}

/// The command, what is served, and a place for files.
type Tools<'a> = (&'a Path, &'a Pair, &'a Scratch);

/// Every wanted stack and case, and the stacks' versions.
fn matrix(
    wanted: &Wanted,
    rounds: u32,
    (headstart, pair, scratch): Tools<'_>,
    bad: &mut Vec<String>,
) -> Result<(Vec<Row>, Vec<String>), Failure> {
    let is_wanted = |names: &[String], name: &str| names.is_empty() || names.iter().any(|wanted| wanted == name);
    let (mut rows, mut versions) = (Vec::new(), Vec::new());
    for peer in peer::ALL.iter().filter(|peer| is_wanted(&wanted.peers, peer.name)) {
        let ready = match (peer.ready)(&scratch.folder(peer.name)?) {
            Ok(ready) => ready,
            Err(why) if wanted.peers.is_empty() => {
                println!("xtask: skipped: {}: {why}", peer.name);
                continue;
            }
            Err(why) => return Err(Failure::Failed(format!("{}: {why}", peer.name))),
        };
        versions.push(format!("{} {}", peer.name, ready.version));
        let scene = Scene { headstart, pair, folder: &scratch.folder("round")? };
        let cases: Vec<&Case> = case::ALL.iter().filter(|case| is_wanted(&wanted.cases, case.name)).collect();
        for direction in (0..DIRECTIONS.len()).filter(|&direction| peer.plays[direction](case::HANDSHAKE)) {
            let row = row(peer, &ready, direction, &cases, rounds, &scene);
            let unknown = row.cells.iter().filter(|cell| cell.known.is_none());
            bad.extend(unknown.flat_map(|cell| cell.bad.clone()));
            rows.push(row);
        }
    }
    Ok((rows, versions))
}

/// What a server of another stack gains by the windows of `headstart-quic`; none if it cannot be had.
fn gains(
    wanted: &Wanted,
    (headstart, pair, scratch): Tools<'_>,
    bad: &mut Vec<String>,
) -> Result<Option<Resumed>, Failure> {
    let program = match Program::built(&scratch.folder("resumed-program")?) {
        Ok(program) => program,
        Err(why) if wanted.resumed => return Err(Failure::Failed(why)),
        Err(why) => {
            println!("xtask: skipped: {RESUMED}: {why}");
            return Ok(None);
        }
    };
    match program.measured(headstart, pair, &scratch.folder(RESUMED)?) {
        Ok(resumed) => {
            println!("xtask:{}", resumed.text());
            bad.extend(resumed.doubt());
            Ok(Some(resumed))
        }
        Err(why) => {
            bad.push(format!("{RESUMED}, {why}"));
            Ok(None)
        }
    }
}

/// All cases of one peer in one direction.
fn row(peer: &Peer, ready: &Ready, direction: usize, cases: &[&'static Case], rounds: u32, scene: &Scene<'_>) -> Row {
    let mut row = Row { peer: peer.name, direction: DIRECTIONS[direction], cells: Vec::new() };
    for case in cases {
        let mut cell =
            Cell { case: case.name, rounds: 0, bad: Vec::new(), known: known(peer.name, direction, case.name) };
        if (peer.plays[direction])(case.name) {
            cell.rounds = rounds;
            let (bad, took) = timed(|| scene.played(ready, direction == 0, case, rounds));
            let about = format!("{} {}, {}", peer.name, DIRECTIONS[direction], case.name);
            cell.bad = bad.into_iter().map(|why| format!("{about}, {why}")).collect();
            println!("xtask: {about}: {} in {:.1} s", cell.told(), took.as_secs_f64());
            cell.bad.iter().for_each(|why| println!("xtask: {why}"));
        }
        row.cells.push(cell);
    }
    row
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn parts_are_asked_for_by_the_names_of_stacks_and_cases() {
        let all = wanted(&words("quic-go loss --rounds 3")).unwrap();
        assert_eq!((all.rounds, &all.peers[..], &all.cases[..]), (Some(3), &words("quic-go")[..], &words("loss")[..]));
        assert!(!all.is_all() && wanted(&words("--rounds 3 --program x")).unwrap().is_all());
        assert!(wanted(&words("resumed")).is_ok_and(|wanted| wanted.resumed && !wanted.is_all()));
        for wrong in ["quick", "--program", "--rounds", "--rounds 0", "--rounds many"] {
            assert!(matches!(wanted(&words(wrong)), Err(Failure::Usage(_))), "{wrong}");
        }
    }

    #[test]
    fn names_of_stacks_and_cases_are_words_of_their_own() {
        let names: Vec<&str> =
            peer::ALL.iter().map(|peer| peer.name).chain(case::ALL.iter().map(|case| case.name)).collect();
        assert!((1..names.len()).all(|at| !names[..at].contains(&names[at])), "{names:?}");
        assert!(KNOWN.iter().all(|known| names.contains(&known.0) && names.contains(&known.2)), "{KNOWN:?}");
        assert!(known("quiche", 1, "migration").is_some() && known("quiche", 0, "migration").is_none());
    }
}
