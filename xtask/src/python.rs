//! `cargo xtask python`: the wheel of the Python package (`python/`), built by maturin, which pip installs into an environment of its
//! own; then the tests of the package in another environment that has the wheel alone.

use crate::Failure;
use crate::step::Step;
use std::path::{Path, PathBuf};

/// Where all of it goes: the environments, the build, and the wheel in `wheels/`.
const FOLDER: &str = "target/python";

/// Runs the chore.
pub fn run(arguments: &[String]) -> Result<(), Failure> {
    crate::only_flags(arguments, &[])?;
    let wheels = Path::new(FOLDER).join("wheels");
    // Of an earlier version there may be another one, and each would be tried.
    let _ = std::fs::remove_dir_all(&wheels);
    let play = |step: Step| {
        println!("xtask: {}", step.line());
        step.run()
    };
    build().into_iter().try_for_each(play)?;
    let wheel = wheel(&wheels)?;
    test(&wheel.to_string_lossy()).into_iter().try_for_each(play)?;
    println!("xtask: {}", wheel.display());
    Ok(())
}

/// An environment `name`, made anew, with `packages`.
fn environment(name: &str, packages: &[&str]) -> [Step; 2] {
    let folder = format!("{FOLDER}/{name}");
    let python = format!("{folder}/bin/python");
    let install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
    [
        Step::command("python3", &["-m", "venv", "--clear", &folder]),
        Step::command(&python, &[&install, packages].concat()),
    ]
}

fn build() -> Vec<Step> {
    let (maturin, wheels) = (format!("{FOLDER}/build/bin/maturin"), format!("{FOLDER}/wheels"));
    let words = ["build", "--release", "--locked", "-m", "python/Cargo.toml", "-o", &wheels];
    let build = Step::command(&maturin, &words).with("CARGO_TARGET_DIR", format!("{FOLDER}/cargo"));
    environment("build", &["maturin>=1.8,<2"]).into_iter().chain([build]).collect()
}

/// The one wheel in `folder`. It must be for every Python from 3.9 on.
fn wheel(folder: &Path) -> Result<PathBuf, Failure> {
    let files = std::fs::read_dir(folder).map_err(|e| Failure::Failed(format!("{}: {e}", folder.display())))?;
    let wheels: Vec<_> = files.flatten().map(|file| file.path()).collect();
    match &wheels[..] {
        [wheel] if wheel.to_string_lossy().contains("-cp39-abi3-") => Ok(wheel.clone()),
        _ => Err(Failure::Failed(format!("one wheel for cp39-abi3 is wanted, there are {wheels:?}"))),
    }
}

fn test(wheel: &str) -> Vec<Step> {
    let python = format!("{FOLDER}/try/bin/python");
    // -I: nothing of the working folder or of the user is found, only what was installed.
    let tests = Step::command(&python, &["-I", "python/tests/test_realtime.py", "-v"]);
    environment("try", &[wheel]).into_iter().chain([tests]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_tested_is_the_wheel_and_not_the_folder() {
        let lines: Vec<_> = test("it.whl").iter().map(Step::line).collect();
        assert!(lines[1].ends_with(" it.whl") && lines[2].contains("/try/bin/python -I "), "{lines:?}");
        assert!(build().iter().any(|step| step.line().contains(" --locked ")));
    }

    #[test]
    fn a_wheel_for_one_python_alone_or_none_at_all_is_refused() {
        let folder = std::env::temp_dir().join(format!("headstart-wheels-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let of = |name: &str| {
            std::fs::write(folder.join(name), "").unwrap();
            wheel(&folder).is_ok()
        };
        assert!(wheel(&folder).is_err());
        assert!(of("headstart-1-cp39-abi3-linux_x86_64.whl"));
        assert!(!of("headstart-1-cp311-cp311-linux_x86_64.whl"), "two");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
