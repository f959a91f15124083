//! Builds the preloaded library and leaves it where the command can embed it, so that `cargo run` and `cargo install`
//! deliver one program. A cargo of its own in a target folder of its own: cargo has no stable way to say that one crate
//! needs another's cdylib (artifact dependencies, RFC 3028, are unstable).

use std::error::Error;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

fn main() -> Result<(), Box<dyn Error>> {
    if is_for_this_host() {
        bring_the_unwinder_along();
        pack_relocations();
    }
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let root = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?).join("../..");
    for input in ["crates/shim", "crates/core/src", "crates/core/Cargo.toml", "Cargo.lock"] {
        println!("cargo::rerun-if-changed={}", root.join(input).display());
    }
    let target = env::var("TARGET")?;
    let built_in = out.join("shim");
    let status = Command::new(env::var("CARGO")?)
        .args(["build", "--release", "--package", "headstart-shim", "--target", &target, "--manifest-path"])
        .arg(root.join("Cargo.toml"))
        .arg("--target-dir")
        .arg(&built_in)
        // The library is the same whatever is being done with the workspace (clippy wraps the compiler; coverage and
        // sanitizers would want their runtime inside other people's programs).
        .env_remove("RUSTC_WORKSPACE_WRAPPER")
        .env("CARGO_ENCODED_RUSTFLAGS", without_places())
        .env_remove("RUSTFLAGS")
        // What debuggers want of it is four fifths of its bytes.
        .env("CARGO_PROFILE_RELEASE_STRIP", "symbols")
        // Every program of a run loads it: a sixth less.
        .env("CARGO_PROFILE_RELEASE_LTO", "fat")
        .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "1")
        .status()?;
    if !status.success() {
        return Err("the preloaded library could not be built; see the messages above".into());
    }
    let library = built_in.join(&target).join("release").join("libheadstart.so");
    println!("cargo::rustc-env=HEADSTART_LIBRARY={}", library.display());
    let mut id = DefaultHasher::new();
    fs::read(&library)?.hash(&mut id);
    println!("cargo::rustc-env=HEADSTART_LIBRARY_ID={:016x}", id.finish());
    println!("cargo::rustc-env=HEADSTART_TARGET={target}");
    println!("cargo::rustc-env=HEADSTART_PROFILE={}", env::var("PROFILE")?);
    println!("cargo::rustc-env=HEADSTART_FEATURES={}", features());
    println!("cargo::rustc-env=HEADSTART_COMMIT={}", commit(&root));
    println!("cargo::rustc-env=HEADSTART_TIME={}", time(&root));
    Ok(())
}

/// The commit that is built: what `HEADSTART_COMMIT` says (packages set it, so that each build is the same), else what is checked
/// out, with `-dirty` if sources are not as in it, else `unknown`. A repository around this one is never taken for it.
fn commit(root: &Path) -> String {
    println!("cargo::rerun-if-env-changed=HEADSTART_COMMIT");
    if let Some(commit) = env::var("HEADSTART_COMMIT").ok().filter(|commit| !commit.is_empty()) {
        return commit;
    }
    let git = |words: &[&str]| git(root, words);
    let Some(head) = git(&["rev-parse", "HEAD"]) else { return "unknown".to_owned() };
    // A debug build names the commit of the last change of its sources: what is committed since has the same ones, and a commit
    // should not cost everybody who works here a build.
    let branch = git(&["symbolic-ref", "--quiet", "HEAD"]);
    let refs = ["HEAD", "packed-refs"].into_iter().chain(branch.as_deref());
    for name in refs.filter(|_| env::var("PROFILE").is_ok_and(|profile| profile == "release")) {
        let file = git(&["rev-parse", "--git-path", name]).map(|path| root.join(path));
        // To cargo, a file that is not there has always just changed.
        if let Some(file) = file.filter(|file| file.exists()) {
            println!("cargo::rerun-if-changed={}", file.display());
        }
    }
    // The sources of this package and of those below it: where they change, it is compiled anew in any case.
    for floor in ["cli", "core", "io", "lab", "link", "quic", "realtime"] {
        println!("cargo::rerun-if-changed={}", root.join("crates").join(floor).join("src").display());
    }
    let is_dirty = git(&["status", "--porcelain", "--untracked-files=no", "--", "crates", "Cargo.toml", "Cargo.lock"])
        .is_none_or(|changes| !changes.is_empty());
    if is_dirty { format!("{head}-dirty") } else { head }
}

/// When that was, in seconds since 1970: what `SOURCE_DATE_EPOCH` says, else the time of the commit, else nothing.
fn time(root: &Path) -> String {
    println!("cargo::rerun-if-env-changed=SOURCE_DATE_EPOCH");
    env::var("SOURCE_DATE_EPOCH").ok().or_else(|| git(root, &["log", "-1", "--format=%ct"])).unwrap_or_default()
}

/// What git says of the repository whose top `root` is.
fn git(root: &Path, words: &[&str]) -> Option<String> {
    let say = |words: &[&str]| {
        let output = Command::new("git").arg("-C").arg(root).args(words).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    say(&["rev-parse", "--show-prefix"]).filter(String::is_empty).and_then(|_| say(words))
}

/// Those flags of the compiler that leave the folders of this machine out of what it writes.
fn without_places() -> String {
    let flags = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    let kept: Vec<_> = flags.split('\u{1f}').filter(|flag| flag.starts_with("--remap-path-prefix=")).collect();
    kept.join("\u{1f}")
}

/// Whether what is built runs on a GNU system like this one.
fn is_for_this_host() -> bool {
    let is = |name: &str, value: &str| env::var(name).is_ok_and(|v| v == value);
    is("CARGO_CFG_TARGET_OS", "linux") && is("CARGO_CFG_TARGET_ENV", "gnu") && env::var("HOST") == env::var("TARGET")
}

/// The cargo features of the command, for `headstart --version --verbose`.
fn features() -> String {
    let names = env::vars().filter_map(|(name, _)| name.strip_prefix("CARGO_FEATURE_").map(str::to_lowercase));
    let names: Vec<_> = names.collect();
    if names.is_empty() { "default".to_owned() } else { names.join(", ") }
}

/// The standard output of a program of this host; empty if it cannot be run.
fn output_of(program: &str, argument: &str) -> String {
    let output = Command::new(program).arg(argument).output();
    output.ok().and_then(|output| String::from_utf8(output.stdout).ok()).unwrap_or_default()
}

/// Links the command with the archive of the C compiler's unwinder, where it has one, instead of libgcc_s: a library less to be
/// found, mapped and relocated before every run.
fn bring_the_unwinder_along() {
    let file = output_of("cc", "-print-file-name=libgcc_eh.a");
    // A compiler that does not have it says its bare name.
    if let Some(folder) = Path::new(file.trim()).parent().filter(|folder| folder.is_absolute()) {
        println!("cargo::rustc-link-search=native={}", folder.display());
        println!("cargo::rustc-link-lib=static=gcc_eh");
    }
}

/// Has the command's relocations packed (DT_RELR): 30 kB to be read before every run instead of 900. Loaders know them since glibc
/// 2.36; a program needs a C library as new as that of the host that it was built on anyway.
fn pack_relocations() {
    let version = output_of("getconf", "GNU_LIBC_VERSION");
    let mut numbers = version.trim().trim_start_matches("glibc ").split('.').map_while(|n| n.parse::<u32>().ok());
    if (numbers.next(), numbers.next()) >= (Some(2), Some(36)) {
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}
