//! The C example is compiled against the header and the static library, and runs.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The static library that cargo has built with this test: the newest beside it.
fn library() -> Option<PathBuf> {
    let me = std::env::current_exe().ok()?;
    let is_ours = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.starts_with("libheadstart_realtime") && name.ends_with(".a")
    };
    let files = std::fs::read_dir(me.parent()?).ok()?.flatten().map(|entry| entry.path()).filter(is_ours);
    files.max_by_key(|path| path.metadata().and_then(|about| about.modified()).ok())
}

/// As it is installed: found by pkg-config, linked with the shared library, whose symbols have versions and are those of the header alone.
#[test]
fn the_shared_library_is_found_by_pkg_config_and_shows_what_the_header_names_alone() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for (program, package) in [("cc", "gcc"), ("pkg-config", "pkg-config"), ("nm", "binutils")] {
        if Command::new(program).arg("--version").output().is_err() {
            return println!("skipped: {program} is not on the PATH (Debian package: {package})");
        }
    }
    let (library, folder) = (library().expect("cargo builds the static library"), tempfile::tempdir().unwrap());
    let said = |command: &mut Command| {
        let output = command.output().unwrap();
        assert!(output.status.success(), "{command:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    said(Command::new(root.join("install.sh")).arg(folder.path()).arg(&library).env_remove("DESTDIR"));
    let lib = folder.path().join("lib");
    let symbols = said(Command::new("nm").args(["-D", "--defined-only"]).arg(lib.join("libheadstart_realtime.so")));
    let shown: Vec<&str> = symbols.lines().filter_map(|line| line.split_whitespace().nth(2)).collect();
    let is_versioned = |name: &&str| name.starts_with("hs_") && name.ends_with("@@HEADSTART_REALTIME_0.1");
    // The version is a symbol of its own.
    let others: Vec<&&str> = shown.iter().filter(|name| !is_versioned(name)).collect();
    assert_eq!(others, [&"HEADSTART_REALTIME_0.1"]);
    let header = std::fs::read_to_string(root.join("include/headstart_realtime.h")).unwrap();
    let named = header.match_indices("hs_").filter_map(|(at, _)| {
        let name: String = header[at..].chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        header[at + name.len()..].starts_with('(').then_some(name)
    });
    let named: std::collections::BTreeSet<String> = named.collect();
    let versioned = shown.iter().filter_map(|name| name.strip_suffix("@@HEADSTART_REALTIME_0.1"));
    assert_eq!(versioned.map(str::to_owned).collect::<std::collections::BTreeSet<_>>(), named);
    let words = said(
        Command::new("pkg-config")
            .args(["--cflags", "--libs", "headstart-realtime"])
            .env("PKG_CONFIG_PATH", lib.join("pkgconfig")),
    );
    let program = folder.path().join("echo");
    said(
        Command::new("cc")
            .args(["-Wall", "-Wextra", "-Werror"])
            .arg(root.join("examples/echo.c"))
            .args(words.split_whitespace())
            .arg("-lpthread")
            .arg("-o")
            .arg(&program),
    );
    assert_eq!(said(Command::new(&program).env("LD_LIBRARY_PATH", &lib)), "10 messages, sum 45\n");
}

/// A C program that is compiled against the header and the static library; none, and a line that says so, without a compiler.
fn compiled(source: &str) -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    if Command::new("cc").arg("--version").output().is_err() {
        println!("skipped: there is no C compiler `cc`");
        return None;
    }
    let library = library().expect("cargo builds the static library with the tests of its crate");
    let name = Path::new(source).file_stem()?.to_str()?;
    let program = library.with_extension(format!("{name}-{}", std::process::id()));
    let compiled = Command::new("cc")
        .args(["-g", "-Wall", "-Wextra", "-Werror", "-I"])
        .arg(root.join("include"))
        .arg(root.join(source))
        .arg(&library)
        .args(["-o".as_ref(), program.as_os_str()])
        .args(["-lpthread", "-lm", "-ldl"])
        .output()
        .unwrap();
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    Some(program)
}

/// Runs a program that says so much, and removes it.
fn says(program: &Path, command: &mut Command, words: &str) {
    let ran = command.output();
    let _ = std::fs::remove_file(program);
    let ran = ran.unwrap();
    let told = String::from_utf8_lossy(&ran.stderr);
    assert_eq!(String::from_utf8_lossy(&ran.stdout), words, "{}: {told}", ran.status);
    assert!(ran.status.success(), "{}: {told}", ran.status);
}

#[test]
fn the_c_example_gets_its_messages_back() {
    let Some(program) = compiled("examples/echo.c") else { return };
    says(&program, &mut Command::new(&program), "10 messages, sum 45\n");
}

/// 50 messages of each of four threads, which are 1, 2, 3 and 4.
const OF_THREADS: &str = "200 messages, sum 500\n";

#[test]
fn threads_share_a_session_and_a_listener() {
    let Some(program) = compiled("tests/threads.c") else { return };
    says(&program, &mut Command::new(&program), OF_THREADS);
}
