//! `cargo xtask package [--test] [--twice] [--starts]`: what is released, in `target/packages`: .deb, .rpm, an archive, and their SHA-256
//! sums. With --test, the Debian packages are installed, used, upgraded, removed and purged in a root of their own ([`root`]); with
//! --twice, they are made again elsewhere and compared ([`twice`]); with --starts, the programs are started in turns ([`starts`]).
//!
//! Programs are built with the profile `dist`, paths of this machine left out, and all dates are the commit's: the same commit gives
//! the same bytes wherever and whenever it is built. cargo-deb and cargo-generate-rpm are installed by name into `target/tools`.

mod bill;
mod elf;
mod root;
mod shipped;
mod stage;
mod starts;
mod twice;

use crate::Failure;
use crate::step::Step;
use crate::tree::workspace_root;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Has the C compiler guard the return addresses of functions with arrays.
const GUARDED: &str = "-fstack-protector-strong";

/// Has the linker keep one of functions that are the same: rust-lld, which is the usual one of this architecture.
#[cfg(target_arch = "x86_64")]
const FOLDED: [&str; 1] = ["-Clink-arg=-Wl,--icf=all"];
#[cfg(not(target_arch = "x86_64"))]
const FOLDED: [&str; 0] = [];

/// Where packages are left.
pub const PACKAGES: &str = "target/packages";

/// Runs the chore.
pub fn run(arguments: &[String]) -> Result<(), Failure> {
    crate::only_flags(arguments, &["--test", "--twice", "--starts"])?;
    make()?;
    let is_asked = |flag: &str| arguments.iter().any(|argument| argument == flag);
    let root = workspace_root()?;
    // What takes longest comes last.
    if is_asked("--starts") {
        starts::measure(&root)?;
    }
    if is_asked("--test") {
        root::test(&root.join(PACKAGES))?;
    }
    if is_asked("--twice") { twice::test(&root) } else { Ok(()) }
}

/// Builds the programs and packs them.
pub fn make() -> Result<(), Failure> {
    let root = workspace_root()?;
    let commit = Commit::of(&root)?;
    build(&root, &commit)?;
    stage::all(&root, &commit)?;
    shipped::check(&root)?;
    let packages = root.join(PACKAGES);
    // Sums are of what is made now, and of nothing older.
    let _ = std::fs::remove_dir_all(&packages);
    std::fs::create_dir_all(&packages).map_err(|e| failed(&packages, &e))?;
    debian(&root, &commit)?;
    rpm(&root, &commit)?;
    archive(&root, &commit)?;
    bill::write(&root, &commit, &packages.join("headstart.cdx.json"))?;
    step("sh", &["-c", "cd target/packages && sha256sum -- *.deb *.rpm *.tar.xz *.json > SHA256SUMS && cat SHA256SUMS"])
        .run()
}

/// What all is made from.
pub struct Commit {
    /// Its hash.
    hash: String,
    /// When it was made: seconds since 1970.
    time: String,
}

impl Commit {
    /// The commit that is checked out. Sources without a repository are of no commit, and of the time that SOURCE_DATE_EPOCH says.
    fn of(root: &Path) -> Result<Self, Failure> {
        let output = Command::new("git").args(["log", "-1", "--format=%H %ct"]).current_dir(root).output();
        let said = output.ok().filter(|output| output.status.success());
        let said = said.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
        if let Some((hash, time)) = said.as_deref().and_then(|line| line.split_once(' ')) {
            return Ok(Self { hash: hash.to_owned(), time: time.to_owned() });
        }
        let time = std::env::var("SOURCE_DATE_EPOCH");
        let time = time.map_err(|_| Failure::Failed("there is no git repository: set SOURCE_DATE_EPOCH".into()))?;
        Ok(Self { hash: "unknown".into(), time })
    }

    /// A command that knows the commit and its time.
    fn with(&self, step: Step) -> Step {
        step.with("HEADSTART_COMMIT", &self.hash).with("SOURCE_DATE_EPOCH", &self.time)
    }
}

fn step(program: &str, arguments: &[&str]) -> Step {
    let step = Step::command(program, arguments);
    println!("xtask: {}", step.line());
    step
}

fn failed(what: &Path, why: &std::io::Error) -> Failure {
    Failure::Failed(format!("{}: {why}", what.display()))
}

/// The folders of this machine that nothing may name, each by its name and by where that leads, and what stands for it.
fn places(root: &Path) -> Vec<(PathBuf, &'static str)> {
    let named = [(Some(root.to_owned()), "/headstart"), (cargo_home(), "/cargo")];
    let named = named.into_iter().filter_map(|(place, name)| Some((place?, name)));
    // Compilers work in the folder that a link leads to, and name that one.
    let mut all: Vec<_> =
        named.flat_map(|(place, name)| [(place.canonicalize().unwrap_or_default(), name), (place, name)]).collect();
    all.retain(|(place, _)| place.is_absolute());
    all.dedup();
    all
}

/// The flags of a compiler, each beginning with `flag`, that leave the folders of this machine out.
fn without_places(root: &Path, flag: &str) -> Vec<String> {
    places(root).iter().map(|(place, name)| format!("{flag}={}={name}", place.display())).collect()
}

/// Where cargo(1) keeps what it downloads.
fn cargo_home() -> Option<PathBuf> {
    let said = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    said.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")))
}

/// Builds programs and libraries. Apart, since features of dependencies are those of what is built together.
fn build(root: &Path, commit: &Commit) -> Result<(), Failure> {
    for what in [&["-p", "headstart", "--bins"][..], &["-p", "headstart-realtime", "--lib"]] {
        let words = [&["build", "--locked", "--profile", "dist"], what].concat();
        let rust =
            [without_places(root, "--remap-path-prefix"), FOLDED.map(str::to_owned).to_vec()].concat().join("\u{1f}");
        // What is C in the dependencies says in its debug information where it was compiled; its stacks are guarded.
        let c = [
            std::env::var("CFLAGS").unwrap_or_default(),
            without_places(root, "-ffile-prefix-map").join(" "),
            GUARDED.into(),
        ];
        let build = commit.with(Step::cargo(&words)).with("CARGO_ENCODED_RUSTFLAGS", rust).with("CFLAGS", c.join(" "));
        println!("xtask: {}", Step::cargo(&words).line());
        build.run()?;
    }
    let built = ["headstart", "headstart-run", "headstart-lab", "libheadstart_realtime.a"];
    let built = built.map(|name| root.join("target/dist").join(name));
    let folders: Vec<_> = places(root).into_iter().map(|(place, _)| place).collect();
    let named = twice::that_name(&folders, &built)?;
    if named.is_empty() { Ok(()) } else { Err(Failure::Failed(named.join("\n"))) }
}

/// A tool of cargo from `target/tools`, where it is installed the first time.
pub fn tool(root: &Path, name: &str, more: &[&str]) -> Result<String, Failure> {
    let tools = root.join("target/tools");
    let file = tools.join("bin").join(name);
    if !file.is_file() {
        let tools = tools.to_string_lossy();
        let words = [&["install", name, "--locked", "--root", &tools], more].concat();
        Step::cargo(&words).run()?;
    }
    Ok(file.to_string_lossy().into_owned())
}

fn debian(root: &Path, commit: &Commit) -> Result<(), Failure> {
    let cargo_deb = tool(root, "cargo-deb", &["--no-default-features"])?;
    for what in [&["-p", "headstart"][..], &["-p", "headstart", "--variant", "lab"], &["-p", "headstart-realtime"]] {
        let usual = ["--no-build", "--no-strip", "--no-separate-debug-symbols", "--profile", "dist", "-o"];
        commit.with(step(&cargo_deb, &[what, &usual, &[PACKAGES]].concat())).run()?;
    }
    Ok(())
}

fn rpm(root: &Path, commit: &Commit) -> Result<(), Failure> {
    let cargo_rpm = tool(root, "cargo-generate-rpm", &[])?;
    for variant in [&[][..], &["--variant", "lab"]] {
        let usual = ["-p", "crates/cli", "--source-date", &commit.time, "-o", PACKAGES];
        commit.with(step(&cargo_rpm, &[&usual, variant].concat())).run()?;
    }
    Ok(())
}

/// One archive with what the Debian packages of the two programs hold, to be unpacked below / or anywhere else.
fn archive(root: &Path, commit: &Commit) -> Result<(), Failure> {
    let tree = root.join("target/stage/archive");
    let _ = std::fs::remove_dir_all(&tree);
    let name = format!("headstart-{}-linux-{}", version(root)?, std::env::consts::ARCH);
    let folder = format!("target/stage/archive/{name}");
    let unpack = "for deb in target/packages/headstart_*.deb target/packages/headstart-lab_*.deb; do \
                  dpkg-deb -x \"$deb\" \"$0\"; done; rm -r \"$0/usr/share/lintian\"; cp NOTICE LICENSE-* \"$0\"";
    std::fs::create_dir_all(root.join(&folder)).map_err(|e| failed(&tree, &e))?;
    step("sh", &["-ec", unpack, &folder]).run()?;
    let (date, file) = (format!("--mtime=@{}", commit.time), format!("{PACKAGES}/{name}.tar.xz"));
    let same = ["--sort=name", "--mode=u+rwX,go+rX,go-w", "--owner=0", "--group=0", "--numeric-owner", &date];
    step("tar", &[&same[..], &["-C", "target/stage/archive", "-cJf", &file, &name]].concat()).run()
}

/// The version of the workspace.
pub fn version(root: &Path) -> Result<String, Failure> {
    let manifest = root.join("Cargo.toml");
    let text = std::fs::read_to_string(&manifest).map_err(|e| failed(&manifest, &e))?;
    let line = text.lines().find_map(|line| line.strip_prefix("version = \""));
    let version = line.and_then(|rest| rest.strip_suffix('"')).map(str::to_owned);
    version.ok_or_else(|| Failure::Failed("Cargo.toml names no version".into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_that_a_package_names_and_no_build_makes_is_there() {
        let root = workspace_root().unwrap();
        let mut named = 0;
        for manifest in ["crates/cli/Cargo.toml", "crates/realtime/Cargo.toml"] {
            let text = std::fs::read_to_string(root.join(manifest)).unwrap();
            let of_ours = |word: &&str| word.contains("packaging/") || word.contains("LICENSE-");
            let files = text.split('"').filter(of_ours).filter(|word| !word.starts_with('/'));
            for file in files {
                // Copies are made of some.
                let file = file.trim_start_matches("../../").trim_start_matches("target/stage/tree/");
                let place = root.join(file.split('*').next().unwrap());
                named += 1;
                assert!(place.exists(), "{manifest}: {file}");
            }
        }
        assert!(named > 10, "{named}");
    }

    #[test]
    fn the_places_of_this_machine_are_left_out() {
        let flags = without_places(Path::new("/x/y"), "--remap-path-prefix");
        assert_eq!(flags[0], "--remap-path-prefix=/x/y=/headstart");
        assert!(flags[1].ends_with("=/cargo"), "{flags:?}");
        let link = std::env::temp_dir().join(format!("headstart-places-{}", std::process::id()));
        std::os::unix::fs::symlink("/usr", &link).unwrap();
        let flags = without_places(&link, "-f");
        std::fs::remove_file(&link).unwrap();
        assert_eq!(flags[..2], ["-f=/usr=/headstart".to_owned(), format!("-f={}=/headstart", link.display())]);
        assert!(version(&workspace_root().unwrap()).unwrap().split('.').count() == 3);
    }
}
