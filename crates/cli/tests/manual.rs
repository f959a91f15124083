//! Completion scripts load in their shells, and man pages render without a warning; a shell that is not installed is left out.

use std::path::Path;
use std::process::{Command, Output};

fn headstart(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_headstart")).args(words).output().unwrap()
}

fn run(program: &str, words: &[&str]) -> Option<Output> {
    match Command::new(program).args(words).output() {
        Err(why) if why.kind() == std::io::ErrorKind::NotFound => None,
        output => Some(output.unwrap()),
    }
}

#[test]
fn completions_load_in_their_shells() {
    let folder = tempfile::tempdir().unwrap();
    for (shell, load) in [
        ("bash", "source \"$0\" && complete -p headstart"),
        ("zsh", "autoload -U compinit && compinit -u -D && source \"$0\" && print headstart $+functions[_headstart]"),
        ("fish", "source $argv[1]; complete -C 'headstart expl' | string replace explain headstart"),
    ] {
        let script = headstart(&["completions", shell]);
        assert!(script.status.success() && script.stdout.len() > 1000, "{script:?}");
        let file = folder.path().join(shell);
        std::fs::write(&file, &script.stdout).unwrap();
        let file = file.to_str().unwrap();
        let Some(loaded) = run(shell, &["-c", load, file]) else { continue };
        let said = String::from_utf8_lossy(&loaded.stdout);
        assert!(
            loaded.status.success() && said.contains("headstart") && loaded.stderr.is_empty(),
            "{shell}: {loaded:?}"
        );
    }
}

#[test]
fn every_verb_has_a_man_page_that_renders() {
    let folder = tempfile::tempdir().unwrap();
    let written = headstart(&["man", folder.path().to_str().unwrap()]);
    assert!(written.status.success(), "{written:?}");
    let pages: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|page| page.unwrap().path()).collect();
    let has = |name: &str| pages.iter().any(|page| page.file_name() == Some(name.as_ref()));
    assert!(has("headstart.1") && has("headstart-run.1") && has("headstart-lab-shell.1"), "{pages:?}");
    assert!(!has("headstart-supervise.1"), "hidden verbs have none");
    pages.iter().for_each(|page| renders(page));
    let sections = |name: &str| -> Vec<String> {
        let page = std::fs::read_to_string(folder.path().join(name)).unwrap();
        page.lines().filter_map(|line| line.strip_prefix(".SH ")).map(str::to_owned).collect()
    };
    let all = sections("headstart.1");
    for section in ["NOTES", "\"EXIT STATUS\"", "ENVIRONMENT"] {
        assert!(all.iter().any(|found| found == section), "{section}: {all:?}");
    }
    assert!(sections("headstart-lab-run.1").iter().any(|section| section == "EXAMPLES"));
    for page in &pages {
        assert!(!std::fs::read_to_string(page).unwrap().contains("EXTRA"), "{page:?}");
    }
    let one = headstart(&["man"]);
    assert!(one.status.success() && one.stdout.starts_with(b".ie"), "{one:?}");
}

fn renders(page: &Path) {
    let page = page.to_str().unwrap();
    for (program, words) in [("man", &["--warnings", "-l", page][..]), ("mandoc", &["-T", "lint", "-W", "error", page])]
    {
        let Some(rendered) = run(program, words) else { continue };
        let warned = String::from_utf8_lossy(&rendered.stderr);
        assert!(rendered.status.success() && warned.is_empty(), "{page}: {warned}");
    }
}

#[test]
fn the_version_is_short_or_long() {
    let of = |words: &[&str]| String::from_utf8(headstart(words).stdout).unwrap();
    assert_eq!(of(&["--version"]).lines().count(), 1);
    let long = of(&["--version", "--verbose"]);
    assert!(["commit: ", "target: ", "features: "].iter().all(|part| long.contains(part)), "{long}");
    let commit = long.lines().find_map(|line| line.strip_prefix("commit: ")).unwrap();
    let is_known = |hash: &str| {
        let at = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
        let git = Command::new("git").args(["-C", at, "cat-file", "-e", &format!("{hash}^{{commit}}")]).output();
        git.is_ok_and(|git| git.status.success())
    };
    let hash = commit.strip_suffix("-dirty").unwrap_or(commit);
    // Whatever repository the program lies in when it runs.
    assert!(commit == "unknown" || hash.len() < 40 || is_known(hash), "{commit}");
}
