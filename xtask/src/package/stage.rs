//! What packages hold besides programs, made by the programs themselves: man pages, completions, the settings, a changelog, and the C
//! library as its own script installs it. All of it in `target/stage`, new each time.

use super::{Commit, failed, step, version};
use crate::Failure;
use std::fs;
use std::path::Path;

/// The verbs whose pages are those of `headstart-lab`.
const OF_THE_LAB: [&str; 2] = ["headstart-lab", "headstart-demo"];

/// Makes all of it.
pub fn all(root: &Path, commit: &Commit) -> Result<(), Failure> {
    let stage = root.join("target/stage");
    // Pages of verbs that are gone would stay.
    let _ = fs::remove_dir_all(&stage);
    let folders = ["headstart/man", "headstart-lab/man"];
    folders.iter().try_for_each(|name| fs::create_dir_all(stage.join(name))).map_err(|e| failed(&stage, &e))?;
    man(root)?;
    for shell in ["bash", "zsh", "fish"] {
        let write = format!("target/dist/headstart completions {shell} > target/stage/headstart/{shell}");
        step("sh", &["-ec", &write]).run()?;
    }
    settings(root)?;
    // An .rpm has the times of files that are older than its commit, as they are where a clone was updated: copies are not.
    step(
        "sh",
        &["-ec", "mkdir target/stage/tree; cp -r packaging LICENSE-APACHE LICENSE-MIT NOTICE target/stage/tree"],
    )
    .run()?;
    let changelog = format!(
        "headstart ({}-1) unstable; urgency=medium\n\n  * Built from the commit {}.\n  * /usr/share/doc/headstart names what has changed.\n\n \
         -- headstart contributors <maintainers@headstart.invalid>  ",
        version(root)?,
        commit.hash
    );
    let write = "{ printf '%s' \"$0\"; date -R -u -d @\"$1\"; } > target/stage/changelog";
    step("sh", &["-ec", write, &changelog, &commit.time]).run()?;
    // Cargo strips programs alone, and puts split debug information into the library: strip(1) refuses it, and a library that is linked with it
    // has an executable stack.
    let install = "cp target/dist/libheadstart_realtime.a target/stage
        ar t target/stage/libheadstart_realtime.a | grep '[.]dwo$' | xargs -r ar dD target/stage/libheadstart_realtime.a
        DESTDIR=target/stage/realtime crates/realtime/install.sh /usr target/stage/libheadstart_realtime.a
        cd target/stage/realtime/usr/lib
        strip --strip-debug --enable-deterministic-archives libheadstart_realtime.a
        strip --strip-unneeded libheadstart_realtime.so.*";
    step("sh", &["-ec", install]).run()
}

/// The man pages, compressed and each with its package.
fn man(root: &Path) -> Result<(), Failure> {
    let pages = root.join("target/stage/man");
    step("target/dist/headstart", &["man", "target/stage/man"]).run()?;
    for page in fs::read_dir(&pages).map_err(|e| failed(&pages, &e))?.flatten() {
        let name = page.file_name().to_string_lossy().into_owned();
        let package = package_of(&name);
        let to = root.join("target/stage").join(package).join("man").join(&name);
        fs::rename(page.path(), &to).map_err(|e| failed(&to, &e))?;
    }
    step("sh", &["-ec", "gzip -9n target/stage/headstart/man/* target/stage/headstart-lab/man/*"]).run()
}

/// The package that a page belongs to.
fn package_of(page: &str) -> &'static str {
    let is_of = |verb: &&str| page.strip_prefix(*verb).is_some_and(|rest| rest.starts_with(['-', '.']));
    if OF_THE_LAB.iter().any(is_of) { "headstart-lab" } else { "headstart" }
}

/// The example of the settings, with the package's group.
fn settings(root: &Path) -> Result<(), Failure> {
    let example = root.join("docs/config.example.toml");
    let text = fs::read_to_string(&example).map_err(|e| failed(&example, &e))?;
    let to = root.join("target/stage/headstart/config.toml");
    let text = packaged(&text).ok_or_else(|| Failure::Failed(format!("{} names no group", example.display())))?;
    fs::write(&to, text).map_err(|e| failed(&to, &e))
}

fn packaged(example: &str) -> Option<String> {
    const NONE: &str = "\n# group = \"\"\n";
    example.contains(NONE).then(|| example.replace(NONE, "\ngroup = \"headstart\"\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_the_lab_are_with_the_lab() {
        let pages = ["headstart.1", "headstart-run.1", "headstart-lab.1", "headstart-lab-run.1", "headstart-demo.1"];
        let lab = pages.map(|page| package_of(page) == "headstart-lab");
        assert_eq!(lab, [false, false, true, true, true]);
    }

    #[test]
    fn the_packaged_settings_name_the_packages_group() {
        let root = crate::tree::workspace_root().unwrap();
        let text = packaged(&fs::read_to_string(root.join("docs/config.example.toml")).unwrap()).unwrap();
        assert!(text.contains("\n[host]\n") && text.contains("\ngroup = \"headstart\"\n"), "{text}");
    }
}
