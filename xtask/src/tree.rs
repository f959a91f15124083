//! The repository as rules see it: paths and texts, in order of path.
//!
//! Reads what git tracks and what it would track (new files that are not ignored), so that `tidy` speaks before the
//! commit; without git (a source archive) it walks the folder. Files that are not UTF-8 are left out. Nothing is written.

use crate::Failure;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// One text file.
pub struct File {
    /// Relative to the root of the workspace, with forward slashes.
    pub path: String,
    /// Its whole content.
    pub text: String,
}

/// All text files of the workspace.
pub struct Tree {
    /// Sorted by path.
    pub files: Vec<File>,
}

impl Tree {
    /// Reads the workspace that the current folder belongs to.
    pub fn of_workspace() -> Result<Self, Failure> {
        let root = workspace_root()?;
        let mut paths = match tracked(&root) {
            Some(paths) => paths,
            None => walk(&root),
        };
        paths.sort();
        paths.dedup();
        // A file that is tracked but gone from disk is a deletion not yet committed: nothing to check.
        let read = |path: String| fs::read_to_string(root.join(&path)).ok().map(|text| File { path, text });
        Ok(Self { files: paths.into_iter().filter_map(read).collect() })
    }

    /// The file at `path`.
    pub fn get(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }

    /// All Rust sources.
    pub fn rust(&self) -> impl Iterator<Item = &File> {
        self.files.iter().filter(|file| file.path.ends_with(".rs"))
    }

    /// The names of the folders of `crates/` that hold a Cargo.toml, with that file.
    pub fn crates(&self) -> impl Iterator<Item = (&str, &File)> {
        self.files.iter().filter_map(|file| {
            let name = file.path.strip_prefix("crates/")?.strip_suffix("/Cargo.toml")?;
            (!name.contains('/')).then_some((name, file))
        })
    }
}

/// The nearest folder, from the current one upward, that holds both the workspace's Cargo.toml and this crate.
pub fn workspace_root() -> Result<PathBuf, Failure> {
    let here = std::env::current_dir().map_err(|e| Failure::Failed(format!("cannot tell the current folder: {e}")))?;
    let is_root = |folder: &&Path| folder.join("Cargo.toml").is_file() && folder.join("xtask/Cargo.toml").is_file();
    here.ancestors().find(is_root).map(Path::to_path_buf).ok_or_else(|| {
        Failure::Failed(format!("{} is not inside the headstart workspace: change to its folder first", here.display()))
    })
}

fn tracked(root: &Path) -> Option<Vec<String>> {
    let listing = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .stdin(Stdio::null())
        .output()
        .ok()
        .filter(|out| out.status.success())?;
    let names = String::from_utf8(listing.stdout).ok()?;
    let paths: Vec<String> = names.split('\0').filter(|name| !name.is_empty()).map(str::to_owned).collect();
    // Another project's repository around an unpacked archive tracks none of our files.
    paths.iter().any(|path| path == "Cargo.toml").then_some(paths)
}

fn walk(root: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let (path, name) = (entry.path(), entry.file_name());
            match entry.file_type() {
                Ok(kind) if kind.is_dir() && name != "target" && name != ".git" => folders.push(path),
                Ok(kind) if kind.is_file() => {
                    let relative = path.strip_prefix(root).ok().and_then(Path::to_str);
                    found.extend(relative.map(str::to_owned));
                }
                _ => {}
            }
        }
    }
    found
}

#[cfg(test)]
impl Tree {
    /// A tree in memory, for the tests of rules.
    pub fn of(files: &[(&str, &str)]) -> Self {
        let mut files: Vec<File> =
            files.iter().map(|(path, text)| File { path: (*path).into(), text: (*text).into() }).collect();
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Self { files }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn walking_without_git_finds_at_least_the_sources_that_git_tracks() {
        let root = workspace_root().unwrap();
        let walked = walk(&root);
        assert!(walked.iter().any(|path| path == "xtask/src/tree.rs"), "{walked:?}");
        assert!(!walked.iter().any(|path| path.starts_with("target/") || path.starts_with(".git/")));
    }

    #[test]
    fn crates_are_the_folders_right_under_crates() {
        let tree = Tree::of(&[("crates/a/Cargo.toml", ""), ("crates/a/sub/Cargo.toml", ""), ("xtask/Cargo.toml", "")]);
        assert_eq!(tree.crates().map(|(name, _)| name).collect::<Vec<_>>(), ["a"]);
    }
}
