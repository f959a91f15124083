//! Which commit a program was built from, without running git.
//!
//! `HEADSTART_COMMIT` in the environment of the build wins (packages set it). Otherwise the program looks for the checkout
//! that its own file lies in, as it does under `cargo run`, and reads where its HEAD stands; that says nothing about
//! changes that were not committed. A repository that is not ours is never mistaken for one.

use std::fs;
use std::path::{Path, PathBuf};

/// The commit that this program was built from, if it can be known.
pub fn commit_of_this_program() -> Option<String> {
    if let Some(commit) = option_env!("HEADSTART_COMMIT") {
        return Some(commit.to_owned());
    }
    let program = std::env::current_exe().ok()?;
    // Not any repository above the program: a home directory may be one.
    let ours = program.ancestors().find(|d| d.join(".git").exists() && d.join("crates/lab/Cargo.toml").exists())?;
    commit_of_checkout(ours)
}

/// Where HEAD of the checkout at `dir` stands: a full hash. Understands branches, packed refs, detached heads and
/// linked worktrees.
pub fn commit_of_checkout(dir: &Path) -> Option<String> {
    let git = git_dir(dir)?;
    let head = fs::read_to_string(git.join("HEAD")).ok()?;
    let Some(name) = head.trim().strip_prefix("ref: ") else { return hash(&head) };
    // A worktree keeps its own HEAD, but branches are kept where `commondir` points.
    let common = match fs::read_to_string(git.join("commondir")) {
        Ok(path) => git.join(path.trim()),
        Err(_) => git.clone(),
    };
    [&git, &common].into_iter().find_map(|d| hash(&fs::read_to_string(d.join(name)).ok()?)).or_else(|| {
        let packed = fs::read_to_string(common.join("packed-refs")).ok()?;
        packed.lines().find_map(|l| l.split_once(' ').filter(|(_, n)| *n == name).and_then(|(h, _)| hash(h)))
    })
}

/// `.git` is a directory, or a file that names one (worktrees, submodules).
fn git_dir(dir: &Path) -> Option<PathBuf> {
    let git = dir.join(".git");
    if git.is_dir() {
        return Some(git);
    }
    let text = fs::read_to_string(git).ok()?;
    Some(dir.join(text.trim().strip_prefix("gitdir: ")?))
}

/// A hash as it stands in a ref: 40 hexadecimal digits, or 64 with SHA-256.
fn hash(text: &str) -> Option<String> {
    let text = text.trim();
    (matches!(text.len(), 40 | 64) && text.bytes().all(|b| b.is_ascii_hexdigit())).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::super::tests::root as tree;
    use super::*;

    const A: &str = "0123456789abcdef0123456789abcdef01234567";
    const B: &str = "fedcba9876543210fedcba9876543210fedcba98";

    #[test]
    fn a_branch_is_followed_to_its_commit() {
        let t = tree(&[(".git/HEAD", "ref: refs/heads/main\n"), (".git/refs/heads/main", &format!("{A}\n"))]);
        assert_eq!(commit_of_checkout(t.path()).as_deref(), Some(A));
    }

    #[test]
    fn a_packed_branch_and_a_detached_head_are_found_too() {
        let packed =
            format!("# pack-refs with: peeled fully-peeled sorted\n{B} refs/heads/mainly\n{A} refs/heads/main\n^{B}\n");
        let t = tree(&[(".git/HEAD", "ref: refs/heads/main\n"), (".git/packed-refs", &packed)]);
        assert_eq!(commit_of_checkout(t.path()).as_deref(), Some(A));
        assert_eq!(commit_of_checkout(tree(&[(".git/HEAD", B)]).path()).as_deref(), Some(B));
    }

    #[test]
    fn a_worktree_leads_to_the_branches_of_its_repository() {
        let t = tree(&[
            ("work/.git", "gitdir: ../main/.git/worktrees/topic\n"),
            ("main/.git/worktrees/topic/HEAD", "ref: refs/heads/topic\n"),
            ("main/.git/worktrees/topic/commondir", "../..\n"),
            ("main/.git/refs/heads/topic", A),
        ]);
        assert_eq!(commit_of_checkout(&t.path().join("work")).as_deref(), Some(A));
    }

    #[test]
    fn what_is_no_commit_is_none() {
        assert_eq!(commit_of_checkout(tree(&[("src/lib.rs", "")]).path()), None);
        assert_eq!(commit_of_checkout(tree(&[(".git/HEAD", "ref: refs/heads/unborn\n")]).path()), None);
        assert_eq!(commit_of_checkout(tree(&[(".git/HEAD", "not a hash\n")]).path()), None);
    }
}
