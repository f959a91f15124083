//! `cargo xtask android`: the app of `android/` and its engines, from Debian's packages and Maven Central alone: no SDK, no NDK.
//!
//! Engines are static programs of `headstart-io` ([`engine`]); the package is made by aapt, dx, zipalign and apksigner ([`apk`]), twice, and must be the
//! same bytes before it is signed, by a key that is made for it and good for nothing else; then the tests of the app run ([`tests`]). What was
//! seen is written down ([`report`]). Nothing of it has run on a phone.

mod apk;
mod bionic;
mod engine;
mod report;
mod tests;

use crate::Failure;
use crate::packages::{self, Brings, Package};
use crate::step::Step;
use crate::tree::workspace_root;
use std::path::{Path, PathBuf};

const fn program(name: &'static str, program: &'static str, why: &'static str) -> Package {
    Package { name, brings: Brings::Program(program), why }
}

/// Programs that the app is built and tested with.
const TOOLS: &[Package] = &[
    program("default-jdk-headless", "javac", "compiles the app"),
    program("maven", "mvn", "fetches what it is compiled against and tested with"),
    program("aapt", "aapt", "packs resources"),
    program("zipalign", "zipalign", "aligns the package"),
    program("apksigner", "apksigner", "signs it"),
];
/// Programs that the engine for phones is built with.
const CROSS: &[Package] = &[
    program("rustc-web", "/usr/bin/rustc", "a compiler whose standard library can be built for phones"),
    program("gcc-aarch64-linux-gnu", "aarch64-linux-gnu-gcc", "links for phones"),
    program("qemu-user", "qemu-aarch64", "runs the engine for phones"),
    program("clang", "clang", "links for Android itself"),
    program("lld", "ld.lld", "links for Android itself"),
];
/// Packages without a program: what they bring instead.
const FILES: &[(&str, &str)] = &[
    ("android-framework-res", apk::FRAMEWORK),
    ("rust-web-src", "/usr/lib/rustlib/src/rust/library/Cargo.lock"),
    ("libc6-dev-arm64-cross", "/usr/aarch64-linux-gnu/lib/libc.a"),
];

/// Folders that a run uses.
struct Places {
    root: PathBuf,
    /// What is made.
    made: PathBuf,
}

/// How it is built.
#[derive(Clone, Copy)]
struct How {
    /// The profile of cargo.
    profile: &'static str,
    /// Without the engine for phones.
    host_only: bool,
}

/// Runs the chore.
pub fn run(arguments: &[String]) -> Result<(), Failure> {
    crate::only_flags(arguments, &["--install", "--dev", "--host-only", "--bionic"])?;
    let has = |flag: &str| arguments.iter().any(|argument| argument == flag);
    let how = How { profile: if has("--dev") { "dev" } else { "dist" }, host_only: has("--host-only") };
    if has("--install") {
        install()?;
    }
    if let Some(missing) = missing(how.host_only) {
        return Err(Failure::Failed(format!("{missing}: cargo xtask android --install brings what is missing")));
    }
    let root = workspace_root()?;
    let places = Places { made: root.join("target/android"), root };
    std::fs::create_dir_all(&places.made).map_err(|e| failed(&places.made, &e))?;
    if has("--bionic") {
        return bionic::check(&places);
    }
    report::begin(&places)?;
    let engines = engine::build(&places, how)?;
    for engine in &engines {
        report::size(&places, &format!("engine for {} ({})", engine.abi, how.profile), &engine.program)?;
    }
    jars(&places)?;
    apk::make(&places, &engines)?;
    tests::unit(&places)?;
    let ended = engines.iter().try_for_each(|engine| tests::in_the_lab(&places, engine));
    println!("xtask: {}", places.made.join("report.md").display());
    ended
}

/// The app's tests that need no engine, for `cargo xtask test`; skipped where a tool is missing.
pub fn unit() -> Result<(), Failure> {
    if let Some(missing) = missing(true) {
        println!("skipped: the tests of the app: {missing} (cargo xtask android --install)");
        return Ok(());
    }
    let root = workspace_root()?;
    let places = Places { made: root.join("target/android"), root };
    std::fs::create_dir_all(&places.made).map_err(|e| failed(&places.made, &e))?;
    jars(&places)?;
    apk::make_for_tests(&places)?;
    tests::unit(&places)
}

/// The first thing that is not there.
fn missing(host_only: bool) -> Option<String> {
    let tools = TOOLS.iter().chain(if host_only { &[] } else { CROSS });
    let program =
        tools.filter(|package| !is_there(package)).map(|package| format!("{} is missing", package.brings)).next();
    let files = FILES.iter().filter(|(name, _)| !host_only || *name == FILES[0].0);
    program.or_else(|| {
        files.filter(|(_, file)| !Path::new(file).exists()).map(|(_, file)| format!("{file} is missing")).next()
    })
}

fn is_there(package: &Package) -> bool {
    match package.brings {
        Brings::Program(path) if path.starts_with('/') => Path::new(path).exists(),
        brings => brings.is_there(),
    }
}

fn install() -> Result<(), Failure> {
    let files = FILES.iter().filter(|(_, file)| !Path::new(file).exists());
    // What a package without a program brings is not looked for by `packages`.
    let of_files: Vec<Package> = files.map(|(name, file)| program(name, file, "")).collect();
    let absent = TOOLS.iter().chain(CROSS).filter(|package| !is_there(package)).chain(&of_files);
    let absent: Vec<&Package> = absent.collect();
    if absent.is_empty() { Ok(()) } else { packages::install(&absent) }
}

/// Fetches what the app is compiled against and tested with, if `pom.xml` has changed since the last time.
fn jars(places: &Places) -> Result<(), Failure> {
    let (pom, known) = (places.root.join("android/pom.xml"), places.made.join("jars/pom.xml"));
    let text = std::fs::read(&pom).map_err(|e| failed(&pom, &e))?;
    if std::fs::read(&known).is_ok_and(|known| known == text) {
        return Ok(());
    }
    // Another version of a jar would be found beside the one that is wanted.
    empty(&places.made.join("jars"))?;
    let into = format!("-DoutputDirectory={}", places.made.join("jars").display());
    let words = ["-B", "-q", "-f", "android/pom.xml", "dependency:copy-dependencies", "-DincludeScope=test", &into];
    step("mvn", &words).run()?;
    std::fs::write(&known, text).map_err(|e| failed(&known, &e))
}

/// Takes away whatever lies in a folder.
fn empty(folder: &Path) -> Result<(), Failure> {
    match std::fs::remove_dir_all(folder) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(failed(folder, &e)),
        _ => std::fs::create_dir_all(folder).map_err(|e| failed(folder, &e)),
    }
}

/// The jar whose name begins so.
fn jar(places: &Places, name: &str) -> Result<String, Failure> {
    let folder = places.made.join("jars");
    let begins = |file: &PathBuf| file.file_name().is_some_and(|file| file.to_string_lossy().starts_with(name));
    let files = std::fs::read_dir(&folder).map_err(|e| failed(&folder, &e))?;
    let found = files.flatten().map(|file| file.path()).find(begins);
    let found = found.ok_or_else(|| Failure::Failed(format!("{name}*.jar was not fetched")))?;
    Ok(found.display().to_string())
}

/// The files below a folder that end so, in order.
fn below(folder: &Path, ending: &str) -> Vec<String> {
    let mut files = Vec::new();
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    for path in entries.map(|entry| entry.path()) {
        if path.is_dir() {
            files.extend(below(&path, ending));
        } else if path.to_string_lossy().ends_with(ending) {
            files.push(path.display().to_string());
        }
    }
    files.sort();
    files
}

fn step(program: &str, arguments: &[&str]) -> Step {
    let step = Step::command(program, arguments);
    println!("xtask: {program} {}", arguments.first().copied().unwrap_or_default());
    step
}

fn failed(what: &Path, why: &std::io::Error) -> Failure {
    Failure::Failed(format!("{}: {why}", what.display()))
}

#[cfg(test)]
mod unit {
    use super::*;

    #[test]
    fn jars_of_an_earlier_pom_are_taken_away() {
        let folder = std::env::temp_dir().join(format!("headstart-jars-{}", std::process::id()));
        empty(&folder).unwrap();
        std::fs::write(folder.join("junit-4.12.jar"), "").unwrap();
        empty(&folder).unwrap();
        assert_eq!(below(&folder, ".jar"), [""; 0], "and the folder is there");
        std::fs::remove_dir(&folder).unwrap();
    }
}
