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

#[test]
fn the_c_example_gets_its_messages_back() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    if Command::new("cc").arg("--version").output().is_err() {
        return println!("skipped: there is no C compiler `cc`");
    }
    let library = library().expect("cargo builds the static library with the tests of its crate");
    let program = library.with_extension(format!("example-{}", std::process::id()));
    let compiled = Command::new("cc")
        .args(["-Wall", "-Wextra", "-Werror", "-I"])
        .arg(root.join("include"))
        .arg(root.join("examples/echo.c"))
        .arg(&library)
        .args(["-o".as_ref(), program.as_os_str()])
        .args(["-lpthread", "-lm", "-ldl"])
        .output()
        .unwrap();
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let ran = Command::new(&program).output();
    let _ = std::fs::remove_file(&program);
    let ran = ran.unwrap();
    assert_eq!(String::from_utf8_lossy(&ran.stdout), "10 messages, sum 45\n");
    assert!(ran.status.success());
}
