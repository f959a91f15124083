//! The scene: a host and a gateway in namespaces of their own, joined by two links, and a web server behind the gateway.

use crate::schema::must_hold;
use headstart_core::time::{Duration, Instant};
use headstart_io::clock::Clock;
use headstart_io::steer::keys::SecretKey;
use headstart_io::sys::netlink::{LOOPBACK, Netlink, VethEnd};
use headstart_io::sys::netns::NetNs;
pub use headstart_lab::inside;
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

/// The command under test.
pub const HEADSTART: &str = env!("CARGO_BIN_EXE_headstart");
/// Where the web server is: behind the gateway, on no link.
pub const SERVER: &str = "203.0.113.80:80";
/// Bytes of what it serves.
pub const BODY: usize = 3_000_000;
/// Objects of the page, besides its script.
pub const IMAGES: usize = 12;

/// See the module.
pub struct Scene {
    gateway: NetNs,
    folder: PathBuf,
    daemons: Vec<Child>,
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// Waits until something holds; a test that waits in vain says for what.
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let clock = Clock::new();
    while !holds() {
        assert!(clock.now() < Instant::from_millis(30_000), "waited 30 s in vain: {what}");
        clock.sleep(Duration::from_millis(20));
    }
}

impl Scene {
    /// Two links, a server, nothing of ours yet; none, and a line that says so, where the kernel makes no TUN interfaces.
    pub fn new() -> Option<Self> {
        if let Err(e) = headstart_io::sys::tun::Tun::create("probe0", 1) {
            eprintln!("skipped: no TUN interfaces here: {e}");
            return None;
        }
        // An address that is tried out first is in use a second or two later (RFC 4862, section 5.4), which browsers take for
        // another network: they drop what is under way. Nobody else is on these links.
        fs::write("/proc/sys/net/ipv6/conf/default/accept_dad", "0").unwrap();
        let (own, gateway) = (NetNs::current().unwrap(), NetNs::create().unwrap());
        let mut netlink = Netlink::open().unwrap();
        for (n, name) in ["fat", "fast"].into_iter().enumerate() {
            let n = n as u8 + 1;
            let end = |name, last, ns| VethEnd { name, mac: [2, 0, 0, 0, n, last], ns };
            netlink.veth(end(name, 1, &own), end(name, 2, &gateway)).unwrap();
            for (ns, last) in [(&own, 1), (&gateway, 2)] {
                ns.run(|| {
                    let mut netlink = Netlink::open().unwrap();
                    let index = netlink.index(name).unwrap();
                    netlink.address(index, ip(&format!("192.0.{}.{last}", n + 1)), 24).unwrap();
                    netlink.up(index).unwrap();
                })
                .unwrap();
            }
        }
        gateway
            .run(|| {
                let mut netlink = Netlink::open().unwrap();
                netlink.up(LOOPBACK).unwrap();
                netlink.address(LOOPBACK, SERVER.parse::<SocketAddr>().unwrap().ip(), 32).unwrap();
                let listener = TcpListener::bind(SERVER).unwrap();
                std::thread::spawn(move || serve(&listener));
            })
            .unwrap();
        // The kernel settles the addresses and states of new links by itself, as late as it likes.
        until("the links are up and have their addresses", || {
            ["fat", "fast"].into_iter().all(|name| {
                let shown = Command::new("ip").args(["addr", "show", "dev", name]).output().unwrap();
                let shown = String::from_utf8_lossy(&shown.stdout);
                shown.contains("state UP") && shown.contains("inet6 fe80:") && !shown.contains("tentative")
            })
        });
        let number = SecretKey::generate().unwrap().reveal().replace(['/', '+', '='], "x");
        let folder = std::env::temp_dir().join(format!("headstart-steer-{}", &number[..12]));
        fs::create_dir_all(&folder).unwrap();
        Some(Self { gateway, folder, daemons: Vec::new() })
    }

    /// A path in the folder of the test.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// `headstart` with these words as the host or as the gateway.
    pub fn headstart(&self, gateway: bool, words: &[&str]) -> Command {
        let mut command = Command::new(HEADSTART);
        command.args(words).env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
        let home = self.folder.join(if gateway { "gateway" } else { "host" });
        for name in ["state", "run"] {
            fs::create_dir_all(home.join(name)).unwrap();
        }
        command
            .env("STATE_DIRECTORY", home.join("state"))
            .env("RUNTIME_DIRECTORY", home.join("run"))
            .env("HOME", &home);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        if gateway {
            self.gateway.adopt(&mut command).unwrap();
        }
        command
    }

    /// Both ends, by `policy`; with more lines in the host's [Interface] and options of the gateway.
    pub fn up(&mut self, policy: &str, options: &[&str]) {
        self.up_with(policy, options, &[]);
    }

    /// The same with more words for the host's `up`.
    pub fn up_with(&mut self, policy: &str, options: &[&str], words: &[&str]) {
        let [host, gateway] = self.files(policy);
        let gateway = [&["gateway", "--foreground", gateway.as_str()], options].concat();
        let gateway = self.daemon(true, &gateway);
        let host = self.daemon(false, &[&["up", "--foreground", "--steer", host.as_str()], words].concat());
        self.daemons.extend([gateway, host]);
        until("both channels are alive", || self.alive(false) == [true, true] && self.alive(true) == [true, true]);
    }

    /// What the host's end says when it cannot come up.
    pub fn refused(&self, policy: &str) -> String {
        let [host, _] = self.files(policy);
        let output = self.headstart(false, &["up", "--foreground", "--steer", &host]).output().unwrap();
        assert!(!output.status.success(), "{output:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    }

    /// Writes the files of both ends: the host's and the gateway's.
    fn files(&self, policy: &str) -> [String; 2] {
        let keys = [SecretKey::generate().unwrap(), SecretKey::generate().unwrap()];
        let interface = |n: usize, rest: &str| {
            let (own, other) = (keys[n].reveal(), keys[1 - n].public());
            format!(
                "[Interface]\nPrivateKey = {own}\nAddress = 10.77.0.{}/24, fd77::{}/64\nPolicy = {policy}\nFastRate = 2mbit\n{rest}\nPublicKey = {other}\n",
                n + 1,
                n + 1
            )
        };
        let host = interface(0, "[Peer]")
            + "AllowedIPs = 10.77.0.0/24, fd77::/64, 203.0.113.0/24\nFatEndpoint = 192.0.2.2:7000\nFastEndpoint = 192.0.3.2:7001\n";
        let gateway =
            interface(1, "FatListen = 7000\nFastListen = 7001\n[Peer]") + "AllowedIPs = 10.77.0.1/32, fd77::1/128\n";
        for (name, text) in [("host.conf", host), ("gateway.conf", gateway)] {
            let mut options = fs::OpenOptions::new();
            options.write(true).create(true).truncate(true).mode(0o600);
            let mut file = options.open(self.folder.join(name)).unwrap();
            file.write_all(text.as_bytes()).unwrap();
        }
        ["host.conf", "gateway.conf"].map(|name| self.folder.join(name).display().to_string())
    }

    fn daemon(&self, gateway: bool, words: &[&str]) -> Child {
        let mut child = self.headstart(gateway, words).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        if !line.starts_with("up: ") {
            let mut said = String::new();
            child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
            panic!("{words:?} did not come up: {line}{said}");
        }
        child
    }

    /// The account of one end.
    pub fn status(&self, gateway: bool) -> serde_json::Value {
        let output = self.headstart(gateway, &["status", "--json"]).output().unwrap();
        must_hold("status", &String::from_utf8_lossy(&output.stdout));
        serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {output:?}"))
    }

    /// Whether each channel is alive, as one end sees it.
    pub fn alive(&self, gateway: bool) -> [bool; 2] {
        let status = self.status(gateway);
        [0, 1].map(|n| status["steering"]["channels"][n]["alive"].as_bool().unwrap())
    }

    /// Packets that the host has sent over each channel.
    pub fn packets(&self) -> [u64; 2] {
        let status = self.status(false);
        [0, 1].map(|n| status["steering"]["channels"][n]["packets"].as_u64().unwrap())
    }

    /// Pulls a channel out of the host, or puts it back.
    pub fn plug(&self, channel: &str, into: bool) {
        let state = if into { "up" } else { "down" };
        assert!(Command::new("ip").args(["link", "set", channel, state]).status().unwrap().success());
    }

    /// Has a channel lose everything, both ways and without a word to anybody, or nothing any more.
    pub fn silence(&self, channel: &str, silent: bool) {
        let n = if channel == "fat" { 1 } else { 2 };
        let own = NetNs::current().unwrap();
        for (ns, of, to) in [(&own, 1, 2), (&self.gateway, 2, 1)] {
            // A frame to an Ethernet address that nobody has is nobody's.
            let mac = [2, 0, 0, 0, n, if silent { 99 } else { to }];
            ns.run(|| {
                let mut netlink = Netlink::open().unwrap();
                let index = netlink.index(channel).unwrap();
                netlink.neighbour(index, ip(&format!("192.0.{}.{to}", n + 1)), mac).unwrap();
            })
            .unwrap_or_else(|e| panic!("end {of} of {channel}: {e}"));
        }
    }

    /// Runs `f` where the gateway is; its sockets stay there.
    pub fn at_the_gateway<T: Send>(&self, f: impl FnOnce() -> T + Send) -> T {
        self.gateway.run(f).unwrap()
    }

    /// Makes `command` run where the gateway is.
    pub fn adopt_at_the_gateway(&self, command: &mut Command) {
        self.gateway.adopt(command).unwrap();
    }

    /// A fetch through the tunnel, begun.
    pub fn fetch(&self, path: &str) -> Child {
        let url = format!("http://{SERVER}{path}");
        let mut curl = Command::new("curl");
        curl.args(["--silent", "--show-error", "--max-time", "60", "--output", "/dev/null"]);
        curl.args(["--write-out", "%{http_code} %{size_download}", &url]);
        curl.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// Ends the daemons; what they said.
    pub fn down(&mut self) -> Vec<Output> {
        let ended = self.daemons.drain(..).map(|child| {
            let pid = Pid::from_raw(child.id() as i32).unwrap();
            kill_process(pid, Signal::TERM).unwrap();
            child.wait_with_output().unwrap()
        });
        ended.collect()
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        for mut child in self.daemons.drain(..) {
            let _ = child.kill();
            let _ = child.wait();
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// What curl said: status and bytes.
pub fn fetched(child: Child) -> String {
    let output = child.wait_with_output().unwrap();
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// HTTP/1.1, a connection a request: `/small` is 100 bytes, `/slow` is all of it in pieces, `/who/N` is N bytes that begin with
/// who has asked, `/page` is a page of [`IMAGES`] objects that are there and a script, `/beat/N` is a piece of 1000 bytes every
/// 10 ms, N times; anything else is all of it.
fn serve(listener: &TcpListener) {
    for stream in listener.incoming().map_while(Result::ok) {
        std::thread::spawn(move || {
            let mut stream = stream;
            let mut line = String::new();
            let _ = BufReader::new(stream.try_clone().unwrap()).read_line(&mut line);
            if let Some(times) = line.split("/beat/").nth(1).and_then(|rest| rest.split(' ').next()?.parse().ok()) {
                return beat(&mut stream, times);
            }
            if line.contains("/page") {
                let _ = stream.write_all(page().as_bytes());
                return;
            }
            let who = line.split("/who/").nth(1).and_then(|rest| rest.split(' ').next()?.parse().ok());
            let len = who.unwrap_or(if line.contains("/small") { 100 } else { BODY });
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {len}\r\nConnection: close\r\n\r\n");
            let _ = stream.write_all(head.as_bytes());
            let mut body = vec![b'x'; len];
            if who.is_some() {
                let peer = format!("{} ", stream.peer_addr().unwrap().ip());
                body[..peer.len()].copy_from_slice(peer.as_bytes());
            }
            for piece in body.chunks(if line.contains("/slow") { BODY / 100 } else { BODY }) {
                if stream.write_all(piece).is_err() {
                    return;
                }
                if line.contains("/slow") {
                    Clock::new().sleep(Duration::from_millis(20));
                }
            }
        });
    }
}

fn beat(stream: &mut TcpStream, times: usize) {
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", 1000 * times);
    let _ = stream.set_nodelay(true);
    let mut went = stream.write_all(head.as_bytes());
    for _ in 0..times {
        if went.is_err() {
            return;
        }
        Clock::new().sleep(Duration::from_millis(10));
        went = stream.write_all(&[b'x'; 1000]);
    }
}

fn page() -> String {
    let images: String = (0..IMAGES).map(|n| format!("<img src='/who/{}?{n}'>", 500 + 3_000 * n)).collect();
    let body = format!("<!doctype html><title>a page</title>{images}<script src='/small?script'></script>");
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n";
    format!("{head}Content-Length: {}\r\n\r\n{body}", body.len())
}
