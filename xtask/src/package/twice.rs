//! `cargo xtask package --twice`: the packages are made a second time, elsewhere and later, and every byte is the same.
//!
//! The second build is of a clone: another folder, another name of cargo's home, another time zone, language and mask of permissions.
//! What is shared is the compiler, cargo's downloads and the tools that pack. Nothing is compared unless it is all committed.

use super::{PACKAGES, failed, step};
use crate::Failure;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The names under which the second build has what it shares with the first: longer than any that a person would give.
const CLONE: &str = "target/twice/a-clone-in-another-folder";
const HOME: &str = "target/twice/another-name-of-cargos-home";

/// Makes the packages again, and compares.
pub fn test(root: &Path) -> Result<(), Failure> {
    if !is_committed(root) {
        return Err(Failure::Failed("--twice builds a clone: commit what is in the tree first".into()));
    }
    let clone = root.join(CLONE);
    let _ = fs::remove_dir_all(root.join("target/twice"));
    let (there, here) = (clone.to_string_lossy(), root.to_string_lossy());
    step("git", &["clone", "--quiet", &here, &there]).run()?;
    fs::create_dir_all(clone.join("target")).map_err(|e| failed(&clone, &e))?;
    link(&root.join("target/tools"), &clone.join("target/tools"))?;
    link(&super::cargo_home().unwrap_or_default(), &root.join(HOME))?;
    let script = "cd \"$0\" && umask 077 && exec cargo xtask package";
    let second = step("sh", &["-ec", script, &there]).with("CARGO_HOME", root.join(HOME).to_string_lossy());
    second.with("TZ", "Pacific/Kiritimati").with("LC_ALL", "C").run()?;
    let sums = |root: &Path| {
        let file = root.join(PACKAGES).join("SHA256SUMS");
        fs::read_to_string(&file).map_err(|e| failed(&file, &e))
    };
    let (first, second) = (sums(root)?, sums(&clone)?);
    println!("first\n{first}second\n{second}");
    let others = others(&first, &second);
    if !others.is_empty() {
        return Err(Failure::Failed(format!("other bytes the second time, in {CLONE}: {}", others.join(", "))));
    }
    fs::remove_dir_all(root.join("target/twice")).map_err(|e| failed(&clone, &e))
}

/// Whether all of the tree is in the commit.
fn is_committed(root: &Path) -> bool {
    let output = Command::new("git").args(["status", "--porcelain"]).current_dir(root).output();
    output.is_ok_and(|output| output.status.success() && output.stdout.is_empty())
}

fn link(to: &Path, name: &Path) -> Result<(), Failure> {
    std::os::unix::fs::symlink(to, name).map_err(|e| failed(name, &e))
}

/// The files of one list of sums that are not in the other with the same sum.
fn others<'a>(first: &'a str, second: &'a str) -> Vec<&'a str> {
    let only = |of: &'a str, other: &'a str| of.lines().filter(move |line| !other.lines().any(|l| l == *line));
    let mut names: Vec<_> = only(first, second).chain(only(second, first)).collect();
    names.iter_mut().for_each(|line| *line = line.rsplit(' ').next().unwrap_or_default());
    names.sort_unstable();
    names.dedup();
    names
}

/// The programs and libraries among `files` that name one of these folders: they would be others if built elsewhere.
pub fn that_name(folders: &[PathBuf], files: &[PathBuf]) -> Result<Vec<String>, Failure> {
    let mut named = Vec::new();
    for file in files {
        let bytes = fs::read(file).map_err(|e| failed(file, &e))?;
        for folder in folders {
            let wanted = format!("{}/", folder.display());
            if bytes.windows(wanted.len()).any(|window| window == wanted.as_bytes()) {
                named.push(format!("{} names {}", file.display(), folder.display()));
            }
        }
    }
    Ok(named)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_with_another_sum_and_one_that_is_missing_are_told() {
        let sums = "aa  x.deb\nbb  y.rpm\n";
        assert_eq!(others(sums, sums), [""; 0]);
        assert_eq!(others(sums, "ab  x.deb\nbb  y.rpm\n"), ["x.deb"]);
        assert_eq!(others(sums, "aa  x.deb\n"), ["y.rpm"]);
        assert_eq!(others("aa  x.deb\n", sums), ["y.rpm"]);
    }

    #[test]
    fn a_program_that_names_a_folder_of_this_machine_is_told() {
        let file = std::env::temp_dir().join(format!("headstart-twice-{}", std::process::id()));
        fs::write(&file, b"\x7fELF\0panicked at /elsewhere/alpha/src/lib.rs\0").unwrap();
        let folders = |name: &str| [PathBuf::from(name)];
        let named = |name| that_name(&folders(name), std::slice::from_ref(&file)).unwrap_or_else(|_| panic!("unread"));
        assert_eq!(named("/elsewhere/alpha").len(), 1);
        assert_eq!(named("/elsewhere/alp").len(), 0, "another folder, whose name begins alike");
        assert_eq!(named("/elsewhere/beta").len(), 0);
        fs::remove_file(&file).unwrap();
    }
}
