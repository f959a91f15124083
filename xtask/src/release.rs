//! `cargo xtask release --key FILE`: a release of what is checked out, if it may be one: packages, bill of materials, sums signed with the
//! releaser's SSH key, and the tag. `--check` only says what speaks against it. `--cut VERSION` comes before ([`cut`]). From the second
//! release on, interfaces of the crates that others use are compared with those of the last one.
//!
//! Nothing is pushed or published: that is the releaser's own word.

mod cut;

use crate::package::{self, PACKAGES, version};
use crate::step::Step;
use crate::tree::workspace_root;
use crate::{Failure, ci};
use std::path::Path;
use std::process::Command;

/// In SECURITY.md until a releaser says where reports go.
pub const PLACEHOLDER: &str = "(no address yet: who releases this fills it in)";
/// The name of the releaser in the file of allowed signers.
const SIGNER: &str = "releases@headstart";
/// The crates that others use, each after those that it stands on.
const CRATES: [&str; 5] = ["headstart-core", "headstart-link", "headstart-io", "headstart-quic", "headstart-realtime"];
/// The sources that the ledger's numbers come from.
const MEASURED: [&str; 3] = ["crates/core/src", "crates/link/src", "crates/lab/src"];
/// The version that later builds are compared with.
const COMPARED: &str = "crates/cli/tests/regression/version";

/// Runs the chore.
pub fn run(arguments: &[String]) -> Result<(), Failure> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let root = workspace_root()?;
    let key = match words[..] {
        ["--check"] => None,
        ["--key", file] => Some(file),
        ["--cut", version] => return cut::run(&root, version, true),
        ["--cut", version, "--dry-run"] => return cut::run(&root, version, false),
        _ => {
            let usage = "give --check, --key FILE, or --cut VERSION with or without --dry-run";
            return Err(Failure::Usage(format!("`{}`: {usage}", words.join(" "))));
        }
    };
    let against = against(&root)?;
    if !against.is_empty() {
        return Err(Failure::Failed(format!("this is no release:\n  {}", against.join("\n  "))));
    }
    let Some(key) = key else { return Ok(()) };
    let deny = package::tool(&root, "cargo-deny", &[])?;
    Step::command(&deny, &["check", "licenses", "bans", "sources"]).run()?;
    match last_release(&root) {
        Some(tag) => interfaces(&package::tool(&root, "cargo-semver-checks", &[])?, &tag).run()?,
        None => println!("xtask: first release: nothing to compare interfaces with"),
    }
    crates().run()?;
    ci::run(&[])?;
    package::make()?;
    sign(&root.join(PACKAGES), key)?;
    let tag = format!("v{}", version(&root)?);
    Step::command("git", &["tag", "--annotate", "--message", &format!("headstart {tag}"), &tag]).run()
}

/// Packs the crates as the registry wants them, and builds what it would hand out.
fn crates() -> Step {
    let named = CRATES.iter().flat_map(|name| ["-p", name]);
    Step::cargo(&["publish", "--dry-run", "--locked"].into_iter().chain(named).collect::<Vec<_>>())
}

/// The tag of the release that this one comes after; none before the first.
fn last_release(root: &Path) -> Option<String> {
    let tag = git(root, &["describe", "--tags", "--abbrev=0", "--match", "v[0-9]*"])?;
    Some(tag.trim().to_owned())
}

/// Compares the crates that others use with what they were at `tag`: what breaks programs wants a version that says so.
fn interfaces(tool: &str, tag: &str) -> Step {
    let named = CRATES.iter().flat_map(|name| ["--package", name]);
    let words = ["semver-checks", "check-release", "--baseline-rev", tag];
    Step::command(tool, &words.into_iter().chain(named).collect::<Vec<_>>())
}

/// What speaks against a release.
fn against(root: &Path) -> Result<Vec<String>, Failure> {
    let read = |name: &str| std::fs::read_to_string(root.join(name)).unwrap_or_default();
    let (version, git) = (version(root)?, |words: &[&str]| git(root, words));
    let mut all = Vec::new();
    if git(&["status", "--porcelain"]) != Some(String::new()) {
        all.push("the tree is dirty, or no git repository: commit what is there".to_owned());
    }
    if git(&["rev-parse", "--verify", "--quiet", &format!("refs/tags/v{version}")]).is_some() {
        all.push(format!("v{version} is released already: raise the version in Cargo.toml"));
    }
    if !read("CHANGELOG.md").contains(&format!("\n## [{version}] - ")) {
        all.push(format!("CHANGELOG.md has no section `## [{version}] - DATE`"));
    }
    if !read("Cargo.toml").contains("\nrepository = \"") {
        all.push("Cargo.toml does not say where the sources are: `repository` below [workspace.package]".to_owned());
    }
    if read("SECURITY.md").contains(PLACEHOLDER) {
        all.push("SECURITY.md does not say where reports go".to_owned());
    }
    let ledger = read("docs/results/claims.md");
    let measured = commit_of(&ledger).filter(|commit| {
        let words = ["diff", "--quiet", commit, "HEAD", "--"];
        git(&[&words[..], &MEASURED].concat()).is_some()
    });
    if measured.is_none() {
        let why =
            "docs/results/claims.md is of an older commit than core, link or lab: headstart lab reproduce --speed both";
        all.push(why.to_owned());
    }
    if read(COMPARED).trim() != version {
        let how = "HEADSTART_REGRESSION=renew cargo test -p headstart --test regression";
        all.push(format!("{COMPARED} is not {version}: {how}"));
    }
    Ok(all)
}

/// The commit that the ledger's numbers are of.
fn commit_of(ledger: &str) -> Option<&str> {
    let (_, rest) = ledger.split_once(", commit ")?;
    rest.split([',', '\n']).next()
}

/// What git says; none if it fails.
fn git(root: &Path, words: &[&str]) -> Option<String> {
    let output = Command::new("git").args(words).current_dir(root).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Signs the sums in `folder`, leaves the list of allowed signers beside them, and looks at it as its readers do.
fn sign(folder: &Path, key: &str) -> Result<(), Failure> {
    let script = "cd \"$0\"; rm -f SHA256SUMS.sig; ssh-keygen -Y sign -q -n headstart -f \"$1\" SHA256SUMS
        printf '%s namespaces=\"headstart\" %s\\n' \"$2\" \"$(ssh-keygen -y -f \"$1\")\" > allowed_signers
        ssh-keygen -Y verify -q -n headstart -f allowed_signers -I \"$2\" -s SHA256SUMS.sig < SHA256SUMS
        sha256sum --quiet --check SHA256SUMS";
    Step::command("sh", &["-ec", script, &folder.to_string_lossy(), key, SIGNER]).run()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::PathBuf;

    /// A folder of this test alone.
    pub(super) fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("headstart-release-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    /// Has git do something in `root`.
    pub(super) fn run_git(root: &Path, words: &[&str]) {
        let identity = ["-c", "user.name=x", "-c", "user.email=x@example.org", "-c", "commit.gpgsign=false"];
        assert!(git(root, &[&identity, words].concat()).is_some(), "{words:?}");
    }

    #[test]
    fn a_release_is_refused_for_each_thing_that_speaks_against_it() {
        let root = folder("against");
        let write = |name: &str, text: &str| {
            fs::create_dir_all(root.join(name).parent().unwrap()).unwrap();
            fs::write(root.join(name), text).unwrap();
        };
        let run = |words: &[&str]| run_git(&root, words);
        let version = "[workspace.package]\nversion = \"0.2.0\"\n";
        write("Cargo.toml", &format!("{version}repository = \"https://example.org/x\"\n"));
        write("CHANGELOG.md", "# Changelog\n\n## [0.2.0] - 2026-12-01\n");
        write("SECURITY.md", "Write to security@example.org.\n");
        write("crates/core/src/lib.rs", "// one\n");
        write(COMPARED, "0.2.0\n");
        run(&["init", "--quiet"]);
        run(&["add", "."]);
        run(&["commit", "--quiet", "-m", "one"]);
        let first = git(&root, &["rev-parse", "HEAD"]).unwrap();
        write("docs/results/claims.md", &format!("seed 1, commit {}, kernel 6\n", &first[..12]));
        run(&["add", "."]);
        run(&["commit", "--quiet", "-m", "ledger"]);
        assert_eq!(against(&root).unwrap(), [""; 0]);

        let refused = |word: &str| {
            let all = against(&root).unwrap();
            assert!(all.iter().any(|why| why.contains(word)), "{word}: {all:?}");
        };
        write("new", "");
        refused("dirty");
        fs::remove_file(root.join("new")).unwrap();
        write("SECURITY.md", PLACEHOLDER);
        refused("SECURITY.md");
        write(COMPARED, "0.1.0\n");
        refused("HEADSTART_REGRESSION=renew");
        write("CHANGELOG.md", "# Changelog\n");
        refused("CHANGELOG.md");
        write("Cargo.toml", version);
        refused("`repository`");
        write("crates/core/src/lib.rs", "// two\n");
        run(&["commit", "--quiet", "-a", "-m", "two"]);
        refused("docs/results/claims.md");
        run(&["tag", "v0.2.0"]);
        refused("released already");
        fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn interfaces_are_compared_with_the_last_release_and_the_first_has_none() {
        let root = folder("last");
        run_git(&root, &["init", "--quiet"]);
        run_git(&root, &["commit", "--quiet", "--allow-empty", "-m", "one"]);
        run_git(&root, &["tag", "vague"]);
        assert_eq!(last_release(&root), None);
        run_git(&root, &["tag", "v0.1.0"]);
        run_git(&root, &["commit", "--quiet", "--allow-empty", "-m", "two"]);
        run_git(&root, &["tag", "v0.2.0"]);
        run_git(&root, &["commit", "--quiet", "--allow-empty", "-m", "three"]);
        assert_eq!(last_release(&root).as_deref(), Some("v0.2.0"));
        fs::remove_dir_all(&root).unwrap();
        let line = interfaces("cargo-semver-checks", "v0.2.0").line();
        assert!(line.starts_with("cargo-semver-checks semver-checks check-release --baseline-rev v0.2.0 "), "{line}");
        assert!(CRATES.iter().all(|name| line.contains(&format!("--package {name}"))), "{line}");
    }

    #[test]
    fn every_crate_that_others_use_is_described_and_has_its_examples() {
        let root = workspace_root().unwrap();
        let text = |name: &str| fs::read_to_string(root.join(name)).unwrap();
        let mut named = 0;
        for entry in fs::read_dir(root.join("crates")).unwrap().flatten() {
            let folder = format!("crates/{}", entry.file_name().to_str().unwrap());
            let manifest = text(&format!("{folder}/Cargo.toml"));
            let name = manifest.split('"').nth(1).unwrap();
            assert_eq!(CRATES.contains(&name), !manifest.contains("publish.workspace = true"), "{name}");
            if !CRATES.contains(&name) {
                continue;
            }
            named += 1;
            for key in
                ["description", "readme", "documentation", "keywords", "categories", "[package.metadata.docs.rs]"]
            {
                assert!(manifest.contains(&format!("\n{key}")), "{name}: {key}");
            }
            // What only others of ours stand on needs none.
            if name != "headstart-io" {
                let examples = fs::read_dir(root.join(&folder).join("examples")).unwrap().flatten();
                let sources = examples.filter(|file| file.path().extension().is_some_and(|ending| ending == "rs"));
                assert!(sources.count() >= 2, "{name}");
            }
        }
        assert_eq!(named, CRATES.len());
    }

    #[test]
    fn sums_are_signed_by_the_key_and_what_was_changed_is_refused() {
        if Command::new("ssh-keygen").arg("-?").output().is_err() {
            return println!("skipped: ssh-keygen is not on the PATH (Debian package: openssh-client)");
        }
        let folder = folder("sign");
        let key = folder.join("key");
        let made = Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(&key).status().unwrap();
        assert!(made.success());
        fs::write(folder.join("x.deb"), "x").unwrap();
        let sum = "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881  x.deb\n";
        fs::write(folder.join("SHA256SUMS"), sum).unwrap();
        sign(&folder, key.to_str().unwrap()).unwrap_or_else(|why| panic!("{why:?}"));
        assert!(folder.join("SHA256SUMS.sig").is_file() && folder.join("allowed_signers").is_file());
        fs::write(folder.join("x.deb"), "y").unwrap();
        assert!(sign(&folder, key.to_str().unwrap()).is_err(), "what is signed is not what is there");
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn this_repository_says_that_reports_have_no_address_yet() {
        let root = workspace_root().unwrap();
        let text = fs::read_to_string(root.join("SECURITY.md")).unwrap();
        assert!(text.contains(PLACEHOLDER) || text.contains('@'), "SECURITY.md names neither an address nor its lack");
    }
}
