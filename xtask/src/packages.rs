//! The Debian packages that tests need beyond Rust and a C compiler, in one table.
//!
//! Tests run third-party programs through headstart to show that it serves what people use. A test whose program is
//! missing skips with a line that says so. Nothing here touches the host but [`install`].

use crate::Failure;
use crate::step::Step;
use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Stdio};

/// A package of Debian (and Ubuntu).
#[derive(Debug, PartialEq, Eq)]
pub struct Package {
    /// Its name for apt-get, in Debian 12.
    pub name: &'static str,
    /// What it brings; it is installed only where this is missing.
    pub brings: Brings,
    /// What tests want it for.
    pub why: &'static str,
}

/// What is looked for before a package is missed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Brings {
    /// A program, on the PATH or in the folders of the system's administrator.
    Program(&'static str),
    /// A module that an interpreter of Python 3 has: the one on the PATH, or the system's own.
    Module(&'static str),
}

impl std::fmt::Display for Brings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Program(program) => write!(f, "`{program}`"),
            Self::Module(module) => write!(f, "Python's module `{module}`"),
        }
    }
}

impl Brings {
    /// Whether it is on this machine.
    pub fn is_there(self) -> bool {
        match self {
            Self::Program(program) => {
                is_executable_in(&std::env::var_os("PATH").unwrap_or_default(), program)
                    || is_executable_in(OsStr::new("/usr/sbin:/sbin"), program)
            }
            Self::Module(module) => PYTHONS.iter().any(|python| imports(python, module)),
        }
    }
}

/// The interpreters that are asked for modules: the first may be none of Debian's, which only has Debian's modules itself.
pub const PYTHONS: [&str; 2] = ["python3", "/usr/bin/python3"];

const fn program(name: &'static str, program: &'static str, why: &'static str) -> Package {
    Package { name, brings: Brings::Program(program), why }
}

const fn module(name: &'static str, module: &'static str, why: &'static str) -> Package {
    Package { name, brings: Brings::Module(module), why }
}

/// Every package that a test wants.
pub const ALL: &[Package] = &[
    program("bubblewrap", "bwrap", "a sandbox in which the preloaded library is not to be found"),
    program("curl", "curl", "an unmodified client with its own Happy Eyeballs"),
    program("wget", "wget", "an unmodified client that tries addresses one by one"),
    program("git", "git", "an unmodified client that runs others, over https and ssh"),
    program("python3", "python3", "an unmodified client in an interpreter, over the C library"),
    module("python3-requests", "requests", "an unmodified client that most scripts use"),
    module("python3-aiohttp", "aiohttp", "an unmodified client whose sockets do not wait"),
    module("python3-pyftpdlib", "pyftpdlib", "an unmodified server that calls its clients back, through the forwarder"),
    module("libpython3.11-testsuite", "test.test_socket", "CPython's own tests of sockets"),
    program("openssh-client", "ssh", "what git runs over ssh"),
    program("openssh-server", "sshd", "the server of git over ssh, inside the lab only"),
    program("nodejs", "node", "unmodified clients with fetch and with a resolver of their own"),
    program("default-jdk-headless", "javac", "an unmodified client that uses IPv6 sockets for both families"),
    program("golang-go", "go", "a static client without the C library, and Go's own tests of its network code"),
    program("nginx", "nginx", "an unmodified client that registers sockets before it connects"),
    program("chromium", "chromium", "an unmodified client in many processes"),
    program("bind9-dnsutils", "dig", "an unmodified client that asks DNS servers itself, whatever the type of record"),
    program("musl-tools", "musl-gcc", "builds a static client whose C library is not glibc"),
    program("valgrind", "valgrind", "watches a preloaded program for misuse of memory and descriptors"),
    program("redis-server", "redis-server", "what several servers share of what they have learned of paths"),
    program("iproute2", "ip", "what the kernel holds of routes and rules, before and after `headstart up`"),
    program("nftables", "nft", "makes and lists headstart's nftables table"),
    program("parallel", "parallel", "hands out the shards of a campaign"),
    program("socat", "socat", "an unmodified program that talks over a relay, and over bundled segments"),
    program(
        "iperf3",
        "iperf3",
        "unmodified bulk transfers, through the forwarder and through the tunnel over two channels",
    ),
    program("nmap", "nmap", "an unmodified program that knocks at many ports, through the forwarder"),
    program("traceroute", "traceroute", "an unmodified program that counts routers, through the forwarder"),
    program("iputils-ping", "ping", "an unmodified program of pings, beside the forwarder and through it"),
    program("iputils-tracepath", "tracepath", "an unmodified program that learns a path's MTU, through the forwarder"),
    program("rsync", "rsync", "an unmodified program that copies over ssh, through the forwarder"),
    program("nuttcp", "nuttcp", "unmodified transfers, of which some call back, through the forwarder"),
    program("sockperf", "sockperf", "unmodified datagrams there and back, through the forwarder"),
    program(
        "mptcpize",
        "mptcpize",
        "puts a browser on the kernel's Multipath TCP, beside which the tunnel is measured",
    ),
    program("prometheus", "prometheus", "scrapes the metrics, evaluates the rules and the dashboard's queries"),
    program("mmdebstrap", "mmdebstrap", "makes the Debian in which packages are installed and removed"),
    program("lintian", "lintian", "judges packages by Debian's policy"),
    program(
        "clang",
        "clang",
        "compiles the programs that run in the kernel, to compare them with the committed object",
    ),
    program("llvm", "llvm-strip", "takes out of that object what only debuggers want"),
    program("ngtcp2-client", "gtlsclient", "an unmodified client of HTTP/3"),
    program("ngtcp2-server", "gtlsserver", "an unmodified server of HTTP/3"),
    program("tshark", "tshark", "opens the emulator's captures and checks what is in them"),
];

/// What `cargo xtask campaigns` wants beyond that. Not for every test: Debian starts their daemons where it installs them.
pub const CAMPAIGNS: &[Package] = &[
    program("munge", "munged", "vouches for the daemons of Slurm to each other"),
    program("slurmctld", "slurmctld", "the controller of Slurm"),
    program("slurmd", "slurmd", "the daemon of a node of Slurm"),
    program("slurm-client", "sbatch", "submits job arrays"),
];

/// The packages of what is not there.
pub fn missing(is_there: impl Fn(Brings) -> bool) -> Vec<&'static Package> {
    missing_of(ALL, is_there)
}

/// Those of `packages` that are not there.
pub fn missing_of(packages: &'static [Package], is_there: impl Fn(Brings) -> bool) -> Vec<&'static Package> {
    packages.iter().filter(|package| !is_there(package.brings)).collect()
}

/// Whether a program is on the PATH and may be executed.
fn on_path(program: &str) -> bool {
    is_executable_in(&std::env::var_os("PATH").unwrap_or_default(), program)
}

fn is_executable_in(folders: &OsStr, program: &str) -> bool {
    use std::os::unix::fs::PermissionsExt;
    let executable =
        |file: &Path| file.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0);
    std::env::split_paths(folders).any(|folder| executable(&folder.join(program)))
}

/// Whether an interpreter of Python has a module. Asks it: where modules are is its own business.
pub fn imports(python: &str, module: &str) -> bool {
    let mut command = Command::new(python);
    command.args(["-c", &format!("import {module}")]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// The two commands that install `packages`; `prefix` is empty for root and `sudo` for others.
fn commands(packages: &[&Package], prefix: &[&str]) -> [Step; 2] {
    let apt = ["env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-o", "Acquire::Retries=3"];
    let line = |rest: &[&str]| {
        let words: Vec<&str> = prefix.iter().chain(&apt).chain(rest).copied().collect();
        Step::command(words[0], &words[1..])
    };
    let mut install = vec!["install", "-y", "--no-install-recommends"];
    install.extend(packages.iter().map(|package| package.name));
    [line(&["update"]), line(&install)]
}

/// The line that a person would type to install `packages`.
pub fn line_for(packages: &[&Package]) -> String {
    let names: Vec<&str> = packages.iter().map(|package| package.name).collect();
    format!("apt-get install --no-install-recommends {}", names.join(" "))
}

/// Installs `packages` with apt-get, through sudo for users other than root.
pub fn install(packages: &[&Package]) -> Result<(), Failure> {
    if !on_path("apt-get") {
        let names: Vec<String> = packages.iter().map(|package| package.brings.to_string()).collect();
        let names = names.join(", ");
        return Err(Failure::Failed(format!(
            "this host has no apt-get: install {names} by its own means, then run without --install"
        )));
    }
    let prefix: &[&str] = if is_root() || !on_path("sudo") { &[] } else { &["sudo"] };
    for step in commands(packages, prefix) {
        println!("xtask: {}", step.line());
        step.run()?;
    }
    Ok(())
}

/// The owner of our own entry in /proc is our effective user; without /proc no user counts as root, and sudo asks.
fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").is_ok_and(|meta| meta.uid() == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_missing_is_installed() {
        let absent = missing(|brings| brings != Brings::Program("wget"));
        assert_eq!(absent.iter().map(|package| package.name).collect::<Vec<_>>(), ["wget"]);
        let [update, install] = commands(&absent, &["sudo"]);
        assert!(update.line().starts_with("sudo env DEBIAN_FRONTEND=noninteractive apt-get "), "{}", update.line());
        assert!(install.line().ends_with(" install -y --no-install-recommends wget"), "{}", install.line());
        assert_eq!(line_for(&absent), "apt-get install --no-install-recommends wget");
    }

    #[test]
    fn root_needs_no_sudo() {
        let [update, _] = commands(&missing(|_| false), &[]);
        assert!(update.line().starts_with("env "), "{}", update.line());
    }

    #[test]
    fn a_program_is_found_on_the_path_and_an_invented_one_is_not() {
        assert!(on_path("sh") && Brings::Program("sh").is_there());
        assert!(!on_path("no-such-program-here") && !Brings::Program("no-such-program-here").is_there());
    }

    #[test]
    fn a_module_that_nobody_has_is_missing_and_so_is_one_of_no_interpreter() {
        assert!(!Brings::Module("no_such_module_here").is_there());
        assert!(!imports("/no/such/python", "sys"));
    }

    #[test]
    fn every_package_that_a_test_of_the_command_names_is_listed() {
        // A compiler is there with Rust, a JDK brings the runtime, every Debian has bash and util-linux, and an init system is not
        // installed for a test.
        let others = ["gcc", "default-jre-headless", "bash", "util-linux", "systemd"];
        let tree = crate::tree::Tree::of_workspace().unwrap();
        let tests = tree.rust().filter(|file| file.path.starts_with("crates/cli/tests/"));
        // found("PROGRAM", "PACKAGE")
        let quoted =
            tests.flat_map(|file| file.text.split("found(\"").skip(1).filter_map(|call| call.split('"').nth(2)));
        let wanted: std::collections::BTreeSet<&str> = quoted.filter(|package| !others.contains(package)).collect();
        let unlisted: Vec<_> = wanted.iter().filter(|name| ALL.iter().all(|package| package.name != **name)).collect();
        assert!(wanted.len() >= 5 && unlisted.is_empty(), "{unlisted:?} of {wanted:?}");
    }

    #[test]
    fn nothing_is_listed_twice() {
        let all: Vec<&Package> = ALL.iter().chain(CAMPAIGNS).collect();
        for (i, package) in all.iter().enumerate() {
            assert!(all[..i].iter().all(|p| p.name != package.name && p.brings != package.brings), "{}", package.name);
        }
    }
}
