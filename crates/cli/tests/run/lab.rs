//! The scene: a process inside namespaces with a network, and programs run in it with and without headstart.

use headstart_core::time::{Duration, Instant};
use headstart_io::clock::Clock;
pub use headstart_lab::inside;
use headstart_lab::netns::{Network, default_world};
use headstart_lab::world::{Fate, Reply, Site, World};
use serde_json::Value;
use std::cell::Cell;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

/// The command under test.
pub const HEADSTART: &str = env!("CARGO_BIN_EXE_headstart");
/// A round trip long enough that an attempt begun is under way for a while, and short enough not to be waited for.
const LINK: &str = "rate=100mbit,delay=5ms";
/// Names that programs must not find in their environment, or they would not talk to the lab.
const PROXIES: [&str; 8] =
    ["http_proxy", "https_proxy", "all_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"];

/// A folder of one test, gone with it. Its path is short and plain enough for sockets and preloads.
pub struct Scratch(PathBuf);

impl Scratch {
    pub fn new() -> Self {
        // Inside, every test is process 2, on one file system.
        let name = format!("headstart-e2e-{:08x}", random_number());
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path).unwrap();
        fs::create_dir(path.join("run")).unwrap();
        Self(path)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// What runs have left where they keep their folders.
    pub fn left_behind(&self) -> Vec<PathBuf> {
        fs::read_dir(self.path("run")).unwrap().map(|entry| entry.unwrap().path()).collect()
    }

    /// A command with this folder as its home.
    pub fn set_home(&self, command: &mut Command) {
        command
            .env("XDG_RUNTIME_DIR", self.path("run"))
            .env("HOME", &self.0)
            .env("XDG_STATE_HOME", self.path("state"))
            .env("LC_ALL", "C");
        PROXIES.iter().for_each(|name| _ = command.env_remove(name));
        command.env_remove("HEADSTART_DIR").env_remove("LD_PRELOAD").env_remove("HEADSTART_LINGER");
        // A supervisor that no other test has told anything, and that ends with the run.
        command.env("HEADSTART", "private");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    }

    /// `headstart` on the host's own network, which no test uses.
    pub fn headstart<S: AsRef<OsStr>>(&self, words: impl IntoIterator<Item = S>) -> Command {
        let mut command = Command::new(HEADSTART);
        command.args(words);
        self.set_home(&mut command);
        command
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn random_number() -> u32 {
    let mut bytes = [0u8; 4];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()).unwrap();
    u32::from_ne_bytes(bytes)
}

/// How a program ended.
pub struct Ended {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
    /// What headstart wrote with `--summary`; null if there was none.
    pub summary: Value,
}

impl std::fmt::Debug for Ended {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { code, out, err, summary } = self;
        let shown: String = out.chars().take(2000).collect();
        write!(f, "ended with {code:?}, printed {} bytes {shown:?}, said {err:?}, summary {summary}", out.len())
    }
}

impl Ended {
    fn of(output: Output, summary: Value) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Self { code: output.status.code(), out: text(output.stdout), err: text(output.stderr), summary }
    }

    /// A counter of the summary.
    pub fn count(&self, name: &str) -> u64 {
        self.summary[name].as_u64().unwrap_or_else(|| panic!("no counter {name:?} in {self:?}"))
    }
}

/// A client, a link and servers, and a folder for what programs leave.
pub struct Lab {
    pub network: Network,
    pub scratch: Scratch,
    runs: Cell<u32>,
}

impl Lab {
    pub fn new() -> Self {
        Self::of(&world())
    }

    pub fn of(world: &World) -> Self {
        let network = Network::build(world).unwrap_or_else(|e| panic!("{e}"));
        Self { network, scratch: Scratch::new(), runs: Cell::new(0) }
    }

    /// A command on the client.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = self.network.command(program).unwrap_or_else(|e| panic!("{e}"));
        self.scratch.set_home(&mut command);
        command
    }

    /// The program as it is.
    pub fn bare<S: AsRef<OsStr>>(&self, words: &[S]) -> Ended {
        let mut command = self.command(&words[0]);
        Ended::of(command.args(&words[1..]).output().unwrap(), Value::Null)
    }

    /// The program through headstart.
    pub fn ours<S: AsRef<OsStr>>(&self, words: &[S]) -> Ended {
        self.ours_with(&[], words)
    }

    /// The program through headstart with further flags.
    pub fn ours_with<S: AsRef<OsStr>>(&self, flags: &[&str], words: &[S]) -> Ended {
        self.runs.set(self.runs.get() + 1);
        let summary = self.scratch.path(&format!("summary-{}", self.runs.get()));
        let mut command = self.command(HEADSTART);
        command.arg("run").arg("--summary").arg(&summary).args(flags).arg("--").args(words);
        let output = command.output().unwrap();
        let summary = fs::read(&summary).map(|text| serde_json::from_slice(&text).expect("valid JSON"));
        Ended::of(output, summary.unwrap_or(Value::Null))
    }
}

/// The supervisors of users that are running: inside, only those that the test has started. Each has left its parent; what
/// it has started itself is not meant.
pub fn supervisors() -> Vec<u32> {
    let is_one = |number: &u32| {
        let line = fs::read(format!("/proc/{number}/cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0).nth(1) == Some(b"supervise") && crate::processes::is_alive(*number)
    };
    crate::processes::children(1).into_iter().filter(is_one).collect()
}

/// Changes one site of a world.
pub fn site<'a>(world: &'a mut World, name: &str) -> &'a mut Site {
    let name = format!("{name}.lab.example");
    world.sites.iter_mut().find(|site| site.name == name).expect("a site of the world")
}

/// The default world, and besides:
/// `a-lost` (the A query is swallowed), `hole` (IPv6 only, a black hole), `refused` (IPv6 only, refuses), `far` (IPv4
/// only, two seconds away), `slow-dns` (both answers take two seconds) and `mute` (both queries are swallowed).
pub fn world() -> World {
    let mut world = default_world(LINK);
    let template = site(&mut world, "www").clone();
    let mut add = |name: &str, n: u8, change: &dyn Fn(&mut Site)| {
        let mut new = template.clone();
        new.name = format!("{name}.lab.example");
        new.v4[0].addr = [198, 19, 1, n].into();
        new.v6[0].addr = [0x2001, 0xdb8, 0x100 + u16::from(n), 0, 0, 0, 0, 1].into();
        change(&mut new);
        world.sites.push(new);
    };
    let v6_only = |site: &mut Site, fate| {
        site.v4.clear();
        site.v6[0].fate = fate;
    };
    add("a-lost", 1, &|site| site.a.reply = Reply::Lost);
    add("hole", 2, &|site| v6_only(site, Fate::BlackHole));
    add("refused", 3, &|site| v6_only(site, Fate::Refuses));
    add("far", 4, &|site| {
        site.v6.clear();
        site.v4[0].extra_rtt = Duration::from_secs(2);
    });
    add("mute", 6, &|site| [&mut site.a, &mut site.aaaa].into_iter().for_each(|r| r.reply = Reply::Lost));
    add("slow-dns", 5, &|site| {
        [&mut site.a, &mut site.aaaa].into_iter().for_each(|r| r.delay = Duration::from_secs(2))
    });
    world
}

/// Where `program` is; `None`, and a line that says so, if the test must do without.
pub fn found(program: &str, package: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let file = std::env::split_paths(&path).map(|dir| dir.join(program)).find(|file| file.is_file());
    if file.is_none() {
        println!("skipped: {program} is not on the PATH (Debian package: {package})");
    }
    file
}

/// The Python interpreter itself, not a script that starts one.
pub fn python() -> Option<String> {
    let python = found("python3", "python3")?;
    let output = Command::new(python).args(["-c", "import sys; print(sys.executable)"]).output().unwrap();
    Some(String::from_utf8(output.stdout).unwrap().trim().to_owned())
}

/// Compiles a C file of `programs`; `None`, and a line that says so, without a compiler.
pub fn compiled(scratch: &Scratch, source: &str, flags: &[&str]) -> Option<PathBuf> {
    let cc = found("cc", "gcc")?;
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/run/programs").join(source);
    let program = scratch.path(source.file_stem().unwrap().to_str().unwrap());
    let mut command = Command::new(cc);
    command.args(["-O1", "-Wall", "-Werror", "-pthread", "-o"]).arg(&program).arg(&source).args(flags);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(program)
}

/// Builds a Go program without the C library; `None`, and a line that says so, without the toolchain.
pub fn go_program(scratch: &Scratch, text: &str) -> Option<PathBuf> {
    let go = found("go", "golang-go")?;
    let (source, program) = (scratch.path("program.go"), scratch.path("program"));
    fs::write(&source, text).unwrap();
    let mut build = Command::new(go);
    build.args(["build", "-o"]).arg(&program).arg(&source).current_dir(&scratch.0);
    // The standard library and nothing else, by this toolchain, whatever the user's settings are. Modules on, though there
    // are none: without, the program would behave as those of old versions of Go (GODEBUG).
    build.env("CGO_ENABLED", "0").env("GO111MODULE", "on").env("GOTOOLCHAIN", "local").env("GOFLAGS", "");
    build.env("GOCACHE", scratch.path("go-cache"));
    let output = build.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(program)
}

/// Waits until `happened`, for as long as the slowest machine may take.
pub fn until(what: &str, mut happened: impl FnMut() -> bool) {
    let clock = Clock::new();
    while !happened() {
        assert!(clock.now() < Instant::from_millis(60_000), "waited in vain until {what}");
        clock.sleep(Duration::from_millis(5));
    }
}

/// Waits for a child to end; how it ended.
pub fn ended(mut child: Child) -> Ended {
    until("the program ends", || child.try_wait().unwrap().is_some());
    Ended::of(child.wait_with_output().unwrap(), Value::Null)
}
