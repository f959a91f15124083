//! The scene: a host with two peers behind one link, all in namespaces, whose kernel remembers connections to both; and
//! what can be seen of a host from outside.

use crate::schema::must_hold;
use headstart_core::time::{Duration, Instant};
use headstart_io::clock::Clock;
use headstart_io::host::Kernel;
use headstart_io::sys::netlink::{LOOPBACK, Netlink, VethEnd, Via};
use headstart_io::sys::netns::NetNs;
pub use headstart_lab::inside;
use rustix::process::{Gid, Pid, Signal, Uid, kill_process};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

/// The command under test.
pub const HEADSTART: &str = env!("CARGO_BIN_EXE_headstart");
/// The peers: on the link, behind a gateway, and by IPv6.
pub const PEERS: [&str; 3] = ["192.0.2.2", "198.51.100.9", "2001:db8:9::2"];
/// Values that change by themselves.
const RESTLESS: [&str; 3] = ["nf_conntrack_count", "/route/", "ip_conntrack_count"];

/// The host, its peers, and the folders of its daemon.
pub struct Scene {
    peers: NetNs,
    folder: PathBuf,
}

/// How a command ended.
#[derive(Debug)]
pub struct Ended {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl Ended {
    pub fn of(output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Self { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
    }
}

impl Scene {
    /// Builds it; none, and a line that says so, without ip(8).
    pub fn new() -> Option<Self> {
        found("ip", "iproute2")?;
        let (own, peers) = (NetNs::current().unwrap(), NetNs::create().unwrap());
        let mut netlink = Netlink::open().unwrap();
        let end = |name, last, ns| VethEnd { name, mac: [2, 0, 0, 0, 0, last], ns };
        netlink.veth(end("uplink", 1, &own), end("peers", 2, &peers)).unwrap();
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        let index = netlink.index("uplink").unwrap();
        for (address, bits) in [("192.0.2.1", 24), ("2001:db8:9::1", 64)] {
            netlink.address(index, ip(address), bits).unwrap();
        }
        netlink.up(index).unwrap();
        netlink.neighbour(index, ip(PEERS[2]), [2, 0, 0, 0, 0, 2]).unwrap();
        netlink.route(ip("0.0.0.0"), 0, Via::Gateway(ip(PEERS[0]), index)).unwrap();
        peers
            .run(|| {
                let mut netlink = Netlink::open().unwrap();
                netlink.up(LOOPBACK).unwrap();
                let index = netlink.index("peers").unwrap();
                for (address, bits) in [(PEERS[0], 24), (PEERS[2], 64)] {
                    netlink.address(index, ip(address), bits).unwrap();
                }
                netlink.address(LOOPBACK, ip(PEERS[1]), 32).unwrap();
                netlink.up(index).unwrap();
                netlink.neighbour(index, ip("2001:db8:9::1"), [2, 0, 0, 0, 0, 1]).unwrap();
            })
            .unwrap();
        let folder = std::env::temp_dir().join(format!("headstart-host-{:08x}", random_number()));
        for name in ["state", "run"] {
            fs::create_dir_all(folder.join(name)).unwrap();
        }
        let scene = Self { peers, folder };
        // The kernel settles the addresses of a new link by itself.
        let mut before = String::new();
        until("the link has settled", || {
            let now = scene.look().values().cloned().collect::<String>();
            let settled = now == before && !now.contains("tentative") && now.contains("fe80::");
            before = now;
            settled
        });
        Some(scene)
    }

    /// A path in the folder of the test.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// `headstart` with these words, and nothing of the environment that tests run in.
    pub fn headstart(&self, words: &[&str]) -> Command {
        let mut command = Command::new(HEADSTART);
        command.args(words).env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("STATE_DIRECTORY", self.path("state")).env("RUNTIME_DIRECTORY", self.path("run"));
        command.env("HOME", &self.folder);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// How `headstart` ends with these words.
    pub fn says(&self, words: &[&str]) -> Ended {
        Ended::of(self.headstart(words).output().unwrap())
    }

    /// The daemon's own account.
    pub fn status(&self) -> serde_json::Value {
        let ended = self.says(&["status", "--json"]);
        must_hold("status", &ended.out);
        serde_json::from_str(&ended.out).unwrap_or_else(|e| panic!("{e}: {ended:?}"))
    }

    /// Starts a daemon that stays in the foreground; it, and whether it came up rather than ending before.
    pub fn daemon(&self, words: &[&str]) -> (Child, bool) {
        self.daemon_of(&[&["up", "--foreground"], words].concat())
    }

    /// The same of any verb.
    pub fn daemon_of(&self, words: &[&str]) -> (Child, bool) {
        Self::begun(self.headstart(words))
    }

    /// The same of a command.
    pub fn begun(mut command: Command) -> (Child, bool) {
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        (child, line.starts_with("up: "))
    }

    /// Has the kernel remember connections to the first `n` peers that reached a large window.
    pub fn teach(&self, n: usize) {
        for peer in &PEERS[..n] {
            let peer: IpAddr = peer.parse().unwrap();
            until(&format!("the kernel remembers {peer}"), || {
                self.talk(peer);
                let remembered = Kernel::open().unwrap().remembered().unwrap();
                remembered.iter().any(|memory| memory.peer == peer && memory.window.is_some_and(|window| window >= 64))
            });
        }
    }

    /// A long connection to `peer`, from its beginning to its end.
    fn talk(&self, peer: IpAddr) {
        let (mut stream, server) = self.connect(peer);
        let reader = std::thread::spawn(move || {
            let mut server = server;
            let _ = server.read_to_end(&mut Vec::new());
        });
        for _ in 0..64 {
            stream.write_all(&[7; 65536]).unwrap();
        }
        drop(stream);
        reader.join().unwrap();
        Clock::new().sleep(Duration::from_millis(20));
    }

    /// Does something where the peers are.
    pub fn on_peers<T: Send>(&self, f: impl FnOnce() -> T + Send) -> T {
        self.peers.run(f).unwrap()
    }

    /// A connection to `peer`, and its other end.
    pub fn connect(&self, peer: IpAddr) -> (TcpStream, TcpStream) {
        let listener = self.peers.run(|| TcpListener::bind(SocketAddr::new(peer, 0)).unwrap()).unwrap();
        let address = listener.local_addr().unwrap();
        let connecting = std::thread::spawn(move || TcpStream::connect(address).unwrap());
        let (server, _) = listener.accept().unwrap();
        (connecting.join().unwrap(), server)
    }

    /// All that a daemon could have changed, by name: routes, rules, addresses, tables, values, files, processes.
    pub fn look(&self) -> BTreeMap<String, String> {
        let mut seen = BTreeMap::new();
        let mut command = |line: &str| {
            let words: Vec<_> = line.split(' ').collect();
            seen.insert(line.to_owned(), run(&words));
        };
        for line in ["-4 route show table all", "-6 route show table all", "-4 rule", "-6 rule", "addr", "-4 nexthop"] {
            command(&format!("ip {line}"));
        }
        if has("nft") {
            command("nft list ruleset");
        }
        values(Path::new("/proc/sys/net"), &mut seen);
        seen.insert("/etc/resolv.conf".into(), fs::read_to_string("/etc/resolv.conf").unwrap_or_default());
        seen.insert("processes".into(), processes().join("\n"));
        seen
    }

    /// The same for all but processes, while a daemon is up that has withdrawn what it had changed.
    pub fn must_be_unchanged_but_for_the_daemon(&self, before: &BTreeMap<String, String>) {
        let (mut before, mut now) = (before.clone(), self.look());
        before.remove("processes");
        now.remove("processes");
        assert_eq!(before, now);
    }

    /// Fails unless the host looks as it did before.
    pub fn must_be_as(&self, before: &BTreeMap<String, String>, when: &str) {
        let now = self.look();
        for name in before.keys().chain(now.keys()) {
            assert_eq!(before.get(name), now.get(name), "{name} differs {when}");
        }
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Whether there are other users here than the test's own; if not, a line that says so.
pub fn others_are_mapped() -> bool {
    let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    let are = map.split_whitespace().nth(2).and_then(|n| n.parse::<u64>().ok()).is_some_and(|n| n > 65_534);
    if !are {
        println!("skipped: there is no other user in this user namespace");
    }
    are
}

/// What a thread of another user, of these further groups, comes to.
pub fn as_user<T: Send>(user: u32, groups: &[u32], f: impl FnOnce() -> T + Send) -> T {
    let groups: Vec<_> = groups.iter().map(|group| Gid::from_raw(*group)).collect();
    let become_it = move || {
        let (user, group) = (Uid::from_raw(user), Gid::from_raw(user));
        set_thread_groups(&groups).unwrap();
        set_thread_res_gid(group, group, group).unwrap();
        set_thread_res_uid(user, user, user).unwrap();
    };
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            become_it();
            f()
        });
        thread.join().unwrap()
    })
}

/// What a program prints.
pub fn run(words: &[&str]) -> String {
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).env("PATH", path()).env("LC_ALL", "C").stdin(Stdio::null());
    let output = command.output().unwrap_or_else(|e| panic!("{words:?}: {e}"));
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Sends a signal to a child of this test.
pub fn send(child: &Child, signal: Signal) {
    kill_process(Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap(), signal).unwrap();
}

/// Whether a program is there.
pub fn has(program: &str) -> bool {
    std::env::split_paths(&path()).any(|folder| folder.join(program).is_file())
}

/// Whether a program is there; if not, a line that says so.
pub fn found(program: &str, package: &str) -> Option<()> {
    if !has(program) {
        println!("skipped: {program} is not on the PATH (Debian package: {package})");
    }
    has(program).then_some(())
}

/// Whether small segments can be bundled here: there is nft, and a kernel that hands packets over. If not, a line that
/// says so.
pub fn can_bundle() -> bool {
    // A number that no daemon uses; this process is in the namespaces of its test.
    let queue = headstart_io::packet_queue::PacketQueue::open(1);
    if let Err(why) = &queue {
        println!("skipped: {why}");
    }
    queue.is_ok() && found("nft", "nftables").is_some()
}

/// The PATH, with the folders of administrators' programs.
fn path() -> std::ffi::OsString {
    let mut path = std::env::var_os("PATH").unwrap_or_default();
    path.push(":/usr/sbin:/sbin");
    path
}

fn values(folder: &Path, seen: &mut BTreeMap<String, String>) {
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        let name = path.display().to_string();
        if path.is_dir() {
            values(&path, seen);
        } else if !RESTLESS.iter().any(|part| name.contains(part)) {
            // Some can only be written.
            seen.insert(name, fs::read_to_string(&path).unwrap_or_default());
        }
    }
}

/// The command lines of all processes of the namespace but kernel threads, and but programs that are just being run.
fn processes() -> Vec<String> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let line =
        |number: u32| Some(String::from_utf8_lossy(&fs::read(format!("/proc/{number}/cmdline")).ok()?).into_owned());
    let mut lines: Vec<_> = numbers.filter_map(line).collect();
    lines.sort();
    lines
}

pub fn random_number() -> u32 {
    let mut bytes = [0u8; 4];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()).unwrap();
    u32::from_ne_bytes(bytes)
}

/// Waits until `happened`, for as long as the slowest machine may take.
pub fn until(what: &str, mut happened: impl FnMut() -> bool) {
    let clock = Clock::new();
    while !happened() {
        assert!(clock.now() < Instant::from_millis(60_000), "waited in vain until {what}");
        clock.sleep(Duration::from_millis(10));
    }
}
