//! Builds the preloaded library and leaves it where the command can embed it, so that `cargo run` and `cargo install`
//! deliver one program. A cargo of its own in a target folder of its own: cargo has no stable way to say that one crate
//! needs another's cdylib (artifact dependencies, RFC 3028, are unstable).

use std::env;
use std::error::Error;
use std::path::PathBuf;
use std::process::Command;

fn main() -> Result<(), Box<dyn Error>> {
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
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .env_remove("RUSTFLAGS")
        // Every run writes it to memory; what debuggers want of it is four fifths of its bytes.
        .env("CARGO_PROFILE_RELEASE_STRIP", "symbols")
        .status()?;
    if !status.success() {
        return Err("the preloaded library could not be built; see the messages above".into());
    }
    let library = built_in.join(target).join("release").join("libheadstart.so");
    println!("cargo::rustc-env=HEADSTART_LIBRARY={}", library.display());
    Ok(())
}
