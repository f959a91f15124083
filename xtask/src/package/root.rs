//! `cargo xtask package --test`: a clean Debian made by mmdebstrap from the sources of this host, booted in namespaces of its own, in
//! which the packages are installed, used, upgraded, downgraded, removed and purged (`inside.sh`). Also lintian,
//! over every package.
//!
//! There is no previous release yet: the previous package is the same with an older version. Nothing of the host is changed; it all
//! happens in `target/root`, which needs root.

use super::{failed, step};
use crate::Failure;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Debian's name for what packages are for.
const SUITE: &str = "bookworm";
/// What the root has beyond a minimal Debian: what `inside.sh` uses.
const INCLUDE: &str = "--include=ca-certificates,curl,iproute2,systemd,systemd-sysv,dbus,passwd,libc6-dev";

/// Tests the packages in a folder.
pub fn test(packages: &Path) -> Result<(), Failure> {
    lintian(packages)?;
    let root = clean(packages)?;
    let mut booted = Booted::start(&root)?;
    println!("xtask: systemd {} in {}", booted.state()?, root.display());
    booted.run(include_str!("inside.sh"))
}

fn lintian(packages: &Path) -> Result<(), Failure> {
    let debs = format!(
        "cd {} && lintian --no-cfg --suppress-tags bad-distribution-in-changes-file --fail-on error,warning *.deb",
        packages.display()
    );
    step("sh", &["-ec", &debs]).run()
}

/// A Debian with nothing of ours but the packages, and the recipe of the image, in /packages.
fn clean(packages: &Path) -> Result<PathBuf, Failure> {
    let base = packages.with_file_name("root.tar");
    if !base.is_file() {
        let sources = ["/etc/apt/sources.list.d/debian.sources", "/etc/apt/sources.list"];
        let sources = sources.iter().find(|file| Path::new(file).is_file()).copied().unwrap_or_default();
        step("mmdebstrap", &["--variant=minbase", INCLUDE, SUITE, &base.to_string_lossy(), sources]).run()?;
    }
    let root = packages.with_file_name("root");
    let _ = fs::remove_dir_all(&root);
    let previous = root.join("packages/previous");
    fs::create_dir_all(&previous).map_err(|e| failed(&previous, &e))?;
    step("tar", &["-C", &root.to_string_lossy(), "-xf", &base.to_string_lossy()]).run()?;
    let copy = "cp \"$0\"/*.deb \"$1\"; dpkg-deb -R \"$0\"/headstart_*.deb \"$1\"/older; \
                sed -i 's/^Version: .*/&~previous/' \"$1\"/older/DEBIAN/control; \
                dpkg-deb -Znone --root-owner-group -b \"$1\"/older \"$1\"/previous/headstart_0_previous.deb >/dev/null; rm -r \"$1\"/older";
    let to = root.join("packages");
    step("sh", &["-ec", copy, &packages.to_string_lossy(), &to.to_string_lossy()]).run()?;
    step("cp", &["-r", "packaging/container", &to.to_string_lossy()]).run()?;
    Ok(root)
}

/// A Debian that has been booted; it ends with this.
struct Booted {
    outer: Child,
    init: String,
}

impl Booted {
    fn start(root: &Path) -> Result<Self, Failure> {
        let words = ["--mount", "--pid", "--fork", "--net", "--uts", "--ipc", "--cgroup", "--kill-child"];
        let mut command = Command::new("unshare");
        command.args(words).args(["sh", "-c", include_str!("boot.sh"), "boot"]).arg(root);
        let outer = command.stdin(Stdio::null()).spawn().map_err(|e| failed(Path::new("unshare"), &e))?;
        let mut booted = Self { outer, init: String::new() };
        let children = format!("/proc/{0}/task/{0}/children", booted.outer.id());
        // Until then it is the script.
        while !fs::read(format!("/proc/{}/cmdline", booted.init)).is_ok_and(|line| line.starts_with(b"/sbin/init")) {
            if let Ok(Some(status)) = booted.outer.try_wait() {
                return Err(Failure::Failed(format!("systemd was not booted ({status})")));
            }
            booted.init = fs::read_to_string(&children).unwrap_or_default().trim().to_owned();
            crate::step::pause();
        }
        Ok(booted)
    }

    /// A command inside.
    fn command(&self) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["-t", &self.init, "-m", "-p", "-n", "-u", "-i", "-r", "-w", "--"]).stdin(Stdio::null());
        command
    }

    /// What systemd says when it has come up, or as far as it will.
    fn state(&self) -> Result<String, Failure> {
        loop {
            let output = self.command().args(["systemctl", "is-system-running", "--wait"]).output();
            let output = output.map_err(|e| failed(Path::new("nsenter"), &e))?;
            let state = String::from_utf8_lossy(&output.stdout).trim().to_owned();
            // It is not yet to be asked.
            if !["", "offline", "initializing", "starting"].contains(&&state[..]) {
                return Ok(state);
            }
            crate::step::pause();
        }
    }

    fn run(&mut self, script: &str) -> Result<(), Failure> {
        let status = self.command().args(["sh", "-c", script]).status();
        match status.map_err(|e| failed(Path::new("nsenter"), &e))? {
            status if status.success() => Ok(()),
            status => Err(Failure::Failed(format!("the packages are not as they should be ({status})"))),
        }
    }
}

impl Drop for Booted {
    fn drop(&mut self) {
        // Its init goes with it, and all that is below that.
        let _ = self.outer.kill();
        let _ = self.outer.wait();
    }
}
