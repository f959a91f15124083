//! `cargo xtask bpf`: compiles the programs that run in the kernel (`crates/io/bpf`) to objects that are committed beside them, with a
//! line that says of which sources and by which compiler it is, so that nobody who builds headstart needs a compiler for them.

use crate::Failure;
use crate::tree::{Tree, workspace_root};
use crate::violation::Violation;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Where the programs are.
const FOLDER: &str = "crates/io/bpf";
/// What is compiled, and what it becomes: all programs that measure, what sets initial windows, and the lab's detour.
const OBJECTS: [(&str, &str); 3] =
    [("all.c", "headstart.bpf.o"), ("initcwnd.c", "initcwnd.bpf.o"), ("detour.c", "detour.bpf.o")];
/// What is said of that.
const RECORD: &str = "headstart.bpf.txt";

/// Runs the chore.
pub fn run(arguments: &[String]) -> Result<(), Failure> {
    crate::only_flags(arguments, &["--check"])?;
    let folder = workspace_root()?.join(FOLDER);
    let compiler = compiler().ok_or_else(|| {
        Failure::Failed("clang or llvm-strip is missing: apt-get install --no-install-recommends clang llvm".into())
    })?;
    let record = record(&Tree::of_workspace()?, &compiler);
    if arguments.is_empty() {
        for (source, object) in OBJECTS {
            compile(&folder, source, &folder.join(object))?;
        }
        fs::write(folder.join(RECORD), record).map_err(|e| Failure::Failed(format!("{FOLDER}/{RECORD}: {e}")))?;
        println!("bpf: {FOLDER} by {compiler}");
        return Ok(());
    }
    match other(&folder)? {
        None => {
            println!("bpf: the objects in {FOLDER} are what {compiler} makes of the sources");
            Ok(())
        }
        Some(object) => Err(Failure::Failed(format!("{FOLDER}/{object} is not what {compiler} makes of the sources"))),
    }
}

/// The rule of tidy: the record is of these very sources.
pub fn check(tree: &Tree) -> Vec<Violation> {
    let path = format!("{FOLDER}/{RECORD}");
    let said = tree.get(&path).map_or("", |file| file.text.as_str());
    let is_said = said.lines().any(|line| line == sources(tree));
    let stale = || Violation::at(&path, 1, "the object is not of these sources: cargo xtask bpf");
    if is_said { Vec::new() } else { vec![stale()] }
}

fn record(tree: &Tree, compiler: &str) -> String {
    format!("{}\ncompiler {compiler}\n", sources(tree))
}

/// A line that names the sources by what is in them (FNV-1a, 64 bits: it tells mistakes, not forgers, who can change this line too).
fn sources(tree: &Tree) -> String {
    let is_source = |path: &str| path.starts_with(FOLDER) && (path.ends_with(".c") || path.ends_with(".h"));
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for file in tree.files.iter().filter(|file| is_source(&file.path)) {
        for byte in file.path.bytes().chain(file.text.bytes()) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        }
    }
    format!("sources {hash:016x}")
}

/// What the compiler calls itself; none if it, or what strips its object, is not there.
fn compiler() -> Option<String> {
    let said = |program: &str| Command::new(program).arg("--version").output().ok().filter(|out| out.status.success());
    said("llvm-strip")?;
    let text = String::from_utf8(said("clang")?.stdout).ok()?;
    text.lines().next().map(str::to_owned)
}

/// Compiles. In the folder itself, so that no path of this machine gets into the object.
fn compile(folder: &Path, source: &str, to: &Path) -> Result<(), Failure> {
    let headers = format!("/usr/include/{}-linux-gnu", std::env::consts::ARCH);
    let flags = ["-O2", "-g", "-target", "bpf", "-mcpu=v3", "-Wall", "-Wextra", "-Werror", "-idirafter", &headers];
    let mut compile = Command::new("clang");
    compile.args(flags).args(["-fdebug-compilation-dir=.", "-c", source, "-o"]).arg(to);
    let mut strip = Command::new("llvm-strip");
    // The types stay (BTF): only what debuggers want goes.
    strip.arg("-g").arg(to);
    for mut command in [compile, strip] {
        let ended = command.current_dir(folder).status();
        match ended {
            Ok(status) if status.success() => {}
            other => return Err(Failure::Failed(format!("{command:?}: {other:?}"))),
        }
    }
    Ok(())
}

/// The first object that is not what the compiler makes of the sources.
fn other(folder: &Path) -> Result<Option<&'static str>, Failure> {
    for (source, object) in OBJECTS {
        let to = std::env::temp_dir().join(format!("headstart-{}-{object}", std::process::id()));
        let made =
            compile(folder, source, &to).and_then(|()| fs::read(&to).map_err(|e| Failure::Failed(e.to_string())));
        let _ = fs::remove_file(&to);
        if made? != fs::read(folder.join(object)).unwrap_or_default() {
            return Ok(Some(object));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_that_has_changed_or_is_new_is_told() {
        let (path, record) = (format!("{FOLDER}/a.c"), format!("{FOLDER}/{RECORD}"));
        let said = sources(&Tree::of(&[(&path, "int a;")]));
        assert_eq!(check(&Tree::of(&[(&path, "int a;"), (&record, &said)])).len(), 0);
        assert_eq!(check(&Tree::of(&[(&path, "int b;"), (&record, &said)])).len(), 1);
        let header = format!("{FOLDER}/a.h");
        assert_eq!(check(&Tree::of(&[(&path, "int a;"), (&header, ""), (&record, &said)])).len(), 1);
    }

    #[test]
    fn the_committed_objects_are_what_the_compiler_makes_of_the_sources() {
        let folder = workspace_root().unwrap().join(FOLDER);
        let said = fs::read_to_string(folder.join(RECORD)).unwrap();
        let Some(compiler) = compiler() else {
            return eprintln!("skipped: clang and llvm are not installed");
        };
        if !said.lines().any(|line| line.strip_prefix("compiler ") == Some(&compiler)) {
            return eprintln!("skipped: {compiler} is another compiler than that of the object");
        }
        assert_eq!(other(&folder).unwrap(), None, "cargo xtask bpf");
    }
}
