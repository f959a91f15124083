//! Which package has installed this program, and whether what it brings besides is there: the group that may ask the daemon, and the
//! units. Reads what package managers leave on the disk; of .rpm it asks rpm(8), whose database is its own.

use super::{Finding, degraded, works};
use std::path::Path;
use std::process::{Command, Stdio};

/// The group that the package makes.
const GROUP: &str = "headstart";
/// The units that the package brings.
const UNITS: [&str; 4] =
    ["headstart.service", "headstart-gateway.service", "headstart-relay.service", "headstart-serve.service"];

/// What is found on this host.
pub(super) fn here() -> Finding {
    match std::env::current_exe() {
        Ok(program) => of(Path::new("/"), &program),
        Err(why) => degraded(format!("the path of this program is unknown: {why}"), "reinstall it"),
    }
}

/// The same of `program` on the host below `root`.
fn of(root: &Path, program: &Path) -> Finding {
    let Some(package) = debian(root, program).or_else(|| rpm(program)) else {
        return works(format!("none: {} was not installed from a package", program.display()));
    };
    let again = format!("reinstall the package {package}");
    let groups = std::fs::read_to_string(root.join("etc/group")).unwrap_or_default();
    if !groups.lines().any(|line| line.split(':').next() == Some(GROUP)) {
        return degraded(format!("{package}, but its group {GROUP} is missing"), format!("groupadd --system {GROUP}"));
    }
    let missing: Vec<_> = UNITS.into_iter().filter(|unit| !names(root, unit, program)).collect();
    match missing[..] {
        [] => works(format!("{package}, with its units and its group")),
        _ => degraded(format!("{package}, but {} does not start this program", missing.join(", ")), again),
    }
}

/// Whether there is that unit, and starts `program`.
fn names(root: &Path, unit: &str, program: &Path) -> bool {
    let text = std::fs::read_to_string(root.join("usr/lib/systemd/system").join(unit)).unwrap_or_default();
    text.lines().any(|line| line.strip_prefix("ExecStart=").is_some_and(|line| Path::new(first(line)) == program))
}

fn first(line: &str) -> &str {
    line.split(' ').next().unwrap_or_default()
}

/// The Debian package that brought `program`, as dpkg(1) has noted it.
fn debian(root: &Path, program: &Path) -> Option<String> {
    let files = std::fs::read_to_string(root.join("var/lib/dpkg/info/headstart.list")).ok()?;
    files.lines().any(|file| Path::new(file) == program).then(|| "headstart (.deb)".to_owned())
}

/// The same of rpm(8), where that is.
fn rpm(program: &Path) -> Option<String> {
    let mut command = Command::new("rpm");
    let asked = command.args(["--query", "--queryformat", "%{NAME}", "--file"]).arg(program);
    let said = asked.stdin(Stdio::null()).stderr(Stdio::null()).output().ok().filter(|said| said.status.success())?;
    Some(format!("{} (.rpm)", String::from_utf8(said.stdout).ok()?))
}

#[cfg(test)]
mod tests {
    use super::super::State;
    use super::*;

    #[test]
    fn a_package_is_named_with_what_is_missing_of_it() {
        let folder = tempfile::tempdir().unwrap();
        let (root, program) = (folder.path(), Path::new("/usr/bin/headstart"));
        let write = |name: &str, text: &str| {
            std::fs::create_dir_all(root.join(name).parent().unwrap()).unwrap();
            std::fs::write(root.join(name), text).unwrap();
        };
        let by_hand = of(root, program);
        assert!(by_hand.state == State::Works && by_hand.says.starts_with("none: "), "{by_hand:?}");
        write("var/lib/dpkg/info/headstart.list", "/.\n/usr/bin\n/usr/bin/headstart\n");
        assert!(
            of(root, Path::new("/usr/local/bin/headstart")).says.starts_with("none: "),
            "another program's package"
        );
        let lacks = |what: &str| {
            let found = of(root, program);
            assert!(found.state == State::Degraded && found.says.contains(what), "{what}: {found:?}");
        };
        lacks("group headstart");
        write("etc/group", "root:x:0:\nheadstarter:x:1:\n");
        lacks("group headstart");
        write("etc/group", "root:x:0:\nheadstart:x:999:\n");
        lacks("headstart-relay.service");
        UNITS
            .iter()
            .for_each(|unit| write(&format!("usr/lib/systemd/system/{unit}"), "ExecStart=/usr/bin/headstart up\n"));
        assert_eq!(of(root, program).state, State::Works);
        write("usr/lib/systemd/system/headstart.service", "ExecStart=/opt/headstart up\n");
        lacks("headstart.service");
    }
}
