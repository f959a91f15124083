//! What was seen, as lines for the terminal and as a page of the docs.

use super::ARMS;
use super::exceptions::Exceptions;
use super::judge::{Judged, Seen, Verdict};
use std::fmt::Write as _;

/// What has to be done about it.
pub fn told(judged: &Judged, verdict: &Verdict) -> String {
    let mut text = String::new();
    let words = |arm: &str, case: &str| {
        judged
            .seen(arm, case)
            .map_or_else(String::new, |seen| format!("\n    bare: {}\n    {arm}: {}", seen.words[0], seen.words[1]))
    };
    for line in &verdict.broken {
        let _ = writeln!(text, "broken: {line}");
    }
    for line in &verdict.unstable {
        let _ = writeln!(text, "unstable: {line}");
    }
    for (arm, case) in &verdict.stale {
        let _ = writeln!(text, "differs no more: {case} under {arm}; take it out of exceptions.toml");
    }
    for (arm, case) in &verdict.unnamed {
        let _ = writeln!(text, "differs: {case} under {arm}{}", words(arm, case));
    }
    for arm in judged.arms() {
        for case in judged.differing(arm) {
            if judged.seen(arm, &case).is_some_and(|seen| !seen.differs()) {
                let _ = writeln!(text, "differed once: {case} under {arm}{}", words(arm, &case));
            }
        }
    }
    text
}

/// The page, whole.
pub fn page(judged: &Judged, exceptions: &Exceptions, verdict: &Verdict, here: &str) -> String {
    let mut text = format!(
        "# What a program can notice\n\n\
         Written by `cargo xtask differential` ({here}). A client of {} cases, Python's standard library alone, does what programs do with sockets: \
         over TCP, UDP, ICMP and raw IP, over IPv4 and IPv6, on a host behind a router, both in namespaces. It runs bare twice, and then in each \
         of these ways; each case says in words what the program and its peer saw. What differs from bare must be a named exception, or the \
         command fails; it also fails if an exception no longer differs.\n\n",
        judged.cases()
    );
    text += "| arm | what runs | cases | same | named differences | others |\n|---|---|--:|--:|--:|--:|\n";
    for (arm, how) in ARMS {
        let cases: Vec<_> = judged.names().into_iter().filter(|case| judged.seen(arm, case).is_some()).collect();
        let differ = cases.iter().filter(|case| judged.seen(arm, case).is_some_and(|seen| seen.differs())).count();
        let unnamed = verdict.unnamed.iter().filter(|(of, _)| of == arm).count();
        let same = cases.len() - differ;
        let _ = writeln!(text, "| {arm} | {how} | {} | {same} | {} | {unnamed} |", cases.len(), differ - unnamed);
    }
    let missing = |case: &&str| ARMS.iter().any(|(arm, _)| judged.seen(arm, case).is_some_and(Seen::is_missing));
    let missing: Vec<String> = judged.names().into_iter().filter(missing).map(|case| format!("`{case}`")).collect();
    if !missing.is_empty() {
        let _ = write!(text, "\nNot played, for the program is not installed here: {}.\n", missing.join(", "));
    }
    text += "\n## Differences\n\nA number is that of the exception below, `!` a difference without a name, `–` none. `-v6`: over IPv6.\n\n";
    text += &matrix(judged, exceptions);
    text += "\n## Exceptions\n\n";
    for (n, reason) in exceptions.reasons().into_iter().enumerate() {
        let _ = writeln!(text, "{}. {reason}", n + 1);
    }
    text += "\n## What was seen\n\nEach difference once for all arms that say the same.\n\n";
    text += &words(judged);
    let names: Vec<String> = judged.names().into_iter().map(|name| format!("`{name}`")).collect();
    let _ = write!(text, "\n## Every case\n\n{}.\n", names.join(", "));
    text
}

/// Cases with a difference, and the arms.
fn matrix(judged: &Judged, exceptions: &Exceptions) -> String {
    let arms: Vec<&str> =
        ARMS.iter().map(|(name, _)| *name).filter(|arm| judged.arms().any(|one| one == *arm)).collect();
    let mut text = format!("| case | {} |\n|---|{}\n", arms.join(" | "), "--:|".repeat(arms.len()));
    for case in judged.names() {
        let cell = |arm: &&str| match judged.seen(arm, case) {
            Some(seen) if seen.differs() => exceptions.number(arm, case).map_or("!".to_owned(), |n| n.to_string()),
            _ => "–".to_owned(),
        };
        let cells: Vec<String> = arms.iter().map(cell).collect();
        if cells.iter().any(|cell| cell != "–") {
            let _ = writeln!(text, "| {case} | {} |", cells.join(" | "));
        }
    }
    text
}

/// The words of each difference.
fn words(judged: &Judged) -> String {
    let mut text = String::new();
    for case in judged.names() {
        let mut said: Vec<(Vec<&str>, &[String; 2])> = Vec::new();
        for (arm, _) in ARMS {
            let Some(seen) = judged.seen(arm, case).filter(|seen| seen.differs()) else { continue };
            match said.iter_mut().find(|(_, words)| words[1] == seen.words[1]) {
                Some((arms, _)) => arms.push(arm),
                None => said.push((vec![arm], &seen.words)),
            }
        }
        if let Some((_, bare)) = said.first() {
            let _ = writeln!(text, "- **{case}**\n  - bare: `{}`", plain(&bare[0]));
            for (arms, words) in &said {
                let _ = writeln!(text, "  - {}: `{}`", arms.join(", "), plain(&words[1]));
            }
        }
    }
    text
}

/// Words that can stand between backticks.
fn plain(words: &str) -> String {
    words.replace('`', "'")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::differential::judge::Played;

    #[test]
    fn the_page_counts_names_and_quotes_differences() {
        let lines = ["bare\ta\t1", "bare\tb\t1", "up\ta\t2", "up\tb\t1", "forward\ta\t2", "forward\tb\t3"];
        let mut judged = Judged::default();
        judged.add(Played::read(&lines.map(str::to_owned)));
        let text = "[[exception]]\narms = [\"up\", \"forward\"]\ncases = \"a\"\nreason = \"Because.\"\n";
        let exceptions = Exceptions::parse(text).unwrap();
        let verdict = judged.verdict(&exceptions);
        let page = page(&judged, &exceptions, &verdict, "today");
        for part in [
            "(today). A client of 2 cases",
            "| up | `headstart up --measure --capture-default` | 2 | 1 | 1 | 0 |",
            "| 2 | 0 | 1 | 1 |\n",
            "| case | up | forward |\n",
            "| a | 1 | 1 |\n| b | – | ! |\n",
            "1. Because.\n",
            "- **a**\n  - bare: `1`\n  - up, forward: `2`\n- **b**\n",
        ] {
            assert!(page.contains(part), "{part}\nis not in\n{page}");
        }
        assert_eq!(told(&judged, &verdict), "differs: b under forward\n    bare: 1\n    forward: 3\n");
    }
}
