//! The scene: a folder, a server of it on loopback, and what fetches from it.

use headstart_core::time::{Duration, Instant};
use headstart_io::clock::Clock;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// The command under test.
pub const HEADSTART: &str = env!("CARGO_BIN_EXE_headstart");
/// Names that programs must not find in their environment, or they would not talk to the server.
const PROXIES: [&str; 8] =
    ["http_proxy", "https_proxy", "all_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"];

/// A folder of one test, gone with it: `site` is served.
pub struct Scratch(PathBuf);

impl Scratch {
    pub fn new() -> Self {
        let mut bytes = [0u8; 8];
        rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()).unwrap();
        let path = std::env::temp_dir().join(format!("headstart-serve-{:016x}", u64::from_ne_bytes(bytes)));
        std::fs::create_dir_all(path.join("site")).unwrap();
        Self(path)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Writes a file of the site: `length` bytes that repeat nowhere near.
    pub fn file(&self, name: &str, length: u32) -> Vec<u8> {
        let bytes: Vec<u8> = (0..length).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        std::fs::write(self.0.join("site").join(name), &bytes).unwrap();
        bytes
    }

    /// A command with this folder as its home, and nothing of the user's settings.
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        command.env("HOME", &self.0).env("XDG_STATE_HOME", self.path("state")).env("LC_ALL", "C");
        command.env("XDG_CONFIG_HOME", self.path("config")).env_remove("SSL_CERT_FILE");
        PROXIES.iter().for_each(|name| _ = command.env_remove(name));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// `headstart` with these words, to its end.
    pub fn headstart(&self, words: &[&str]) -> Ended {
        Ended::of(self.command(HEADSTART).args(words).output().unwrap())
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
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

    /// The JSON objects that it wrote, a line each.
    pub fn objects(&self) -> Vec<Value> {
        assert_eq!(self.code, Some(0), "{self:?}");
        self.out.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }
}

/// A server, ended with the test.
pub struct Server {
    pub scratch: Rc<Scratch>,
    child: Child,
    /// Where it is.
    pub address: SocketAddr,
}

impl Server {
    /// Serves the site of `scratch` on loopback, with more `flags`.
    pub fn start(scratch: impl Into<Rc<Scratch>>, flags: &[&str]) -> Self {
        let scratch = scratch.into();
        let mut command = scratch.command(HEADSTART);
        command.args(["serve", "--listen", "127.0.0.1:0", "--json", "--write-cert"]).arg(scratch.path("cert.pem"));
        command.args(flags).arg(scratch.path("site"));
        Self::of(command, scratch)
    }

    /// What `command` starts, whose certificate is `cert.pem` in `scratch`.
    pub fn of(mut command: Command, scratch: impl Into<Rc<Scratch>>) -> Self {
        let mut child = command.stderr(Stdio::inherit()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let told: Value = serde_json::from_str(&line).unwrap_or_else(|why| panic!("{why}: {line:?}"));
        let url = told["urls"][0].as_str().unwrap();
        let address = url.trim_start_matches("https://").trim_end_matches('/').parse().unwrap();
        Self { scratch: scratch.into(), child, address }
    }

    pub fn url(&self, path: &str) -> String {
        format!("https://{}/{path}", self.address)
    }

    pub fn cert(&self) -> String {
        self.scratch.path("cert.pem").to_str().unwrap().to_owned()
    }

    /// `headstart get` of `url` into the file `to` with more `flags`.
    pub fn get(&self, url: &str, to: &Path, flags: &[&str]) -> Ended {
        let (cert, to) = (self.cert(), to.to_str().unwrap());
        let words = ["get", "--json", "--ca", &cert, "-o", to];
        self.scratch.headstart(&words.into_iter().chain(flags.iter().copied()).chain([url]).collect::<Vec<_>>())
    }

    /// A line of a file of the kernel's about it, as a number.
    fn proc_number(&self, file: &str, name: &str, nth: usize) -> u64 {
        let text = std::fs::read_to_string(format!("/proc/{}/{file}", self.child.id())).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.split_whitespace().nth(nth).and_then(|word| word.parse().ok()).unwrap_or(u64::MAX)
    }

    /// The most memory that it has had so far, in kB.
    pub fn most_memory(&self) -> u64 {
        self.proc_number("status", "VmHWM:", 0)
    }

    /// Descriptors that it has.
    pub fn descriptors(&self) -> u64 {
        std::fs::read_dir(format!("/proc/{}/fd", self.child.id())).unwrap().count() as u64
    }

    /// What its descriptors are of, without numbers, and how many of each.
    pub fn kinds(&self) -> std::collections::BTreeMap<String, usize> {
        let mut kinds = std::collections::BTreeMap::new();
        let entries = std::fs::read_dir(format!("/proc/{}/fd", self.child.id())).unwrap().flatten();
        for target in entries.filter_map(|entry| std::fs::read_link(entry.path()).ok()) {
            *kinds.entry(target.display().to_string().replace(|c: char| c.is_ascii_digit(), "")).or_default() += 1;
        }
        kinds
    }

    /// Descriptors that it may have.
    pub fn most_descriptors(&self) -> u64 {
        self.proc_number("limits", "Max open files", 0)
    }

    /// Asks it to end.
    pub fn end(&self) {
        let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
    }

    /// Kills it.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits for its end; its exit code.
    pub fn ended(&mut self) -> Option<i32> {
        let mut status = None;
        until("the server ends", || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        status.and_then(|status| status.code())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A TCP relay to a server on another port, where nothing answers by QUIC, that may be cut.
pub struct Relay {
    pub address: SocketAddr,
    /// Bytes of the server's that are passed on before the connection is cut.
    left: Arc<AtomicU64>,
}

impl Relay {
    /// Passes on `most` bytes of the server's, over all connections.
    pub fn start(to: SocketAddr, most: u64) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let left = Arc::new(AtomicU64::new(most));
        let shared = left.clone();
        // Ends with the process of the tests.
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let Ok(server) = TcpStream::connect(to) else { continue };
                let (mut from_client, mut to_server) = (client.try_clone().unwrap(), server.try_clone().unwrap());
                std::thread::spawn(move || {
                    let _ = std::io::copy(&mut from_client, &mut to_server);
                });
                let left = shared.clone();
                std::thread::spawn(move || pass(server, client, &left));
            }
        });
        Self { address, left }
    }

    /// From now on everything is passed on.
    pub fn mend(&self) {
        self.left.store(u64::MAX, Ordering::SeqCst);
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream, left: &AtomicU64) {
    let mut bytes = [0; 16 * 1024];
    while let Ok(length) = from.read(&mut bytes)
        && length > 0
    {
        let may = usize::try_from(left.load(Ordering::SeqCst)).unwrap_or(usize::MAX).min(length);
        if to.write_all(&bytes[..may]).is_err() || may < length {
            break;
        }
        let _ = left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| Some(left.saturating_sub(length as u64)));
    }
    let _ = to.shutdown(std::net::Shutdown::Both);
    let _ = from.shutdown(std::net::Shutdown::Both);
}

/// A relay of datagrams to a server, that counts what the server says.
pub struct Datagrams {
    pub address: SocketAddr,
    /// Bytes of the server's that were passed on.
    pub passed: Arc<AtomicU64>,
}

impl Datagrams {
    /// Between one client and the server at `to`.
    pub fn start(to: SocketAddr) -> Self {
        Self::holding_the_second(to, Duration::ZERO)
    }

    /// As [`Self::start`]; but what the client says second is held until the server has answered, and so much longer.
    pub fn holding_the_second(to: SocketAddr, hold: Duration) -> Self {
        let (near, far) = (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
        far.connect(to).unwrap();
        let (address, passed) = (near.local_addr().unwrap(), Arc::new(AtomicU64::new(0)));
        let (client, counted) = (Arc::new(Mutex::new(None)), passed.clone());
        let (from_client, to_server, told) = (near.try_clone().unwrap(), far.try_clone().unwrap(), client.clone());
        let answered = passed.clone();
        // Both end with the process of the tests.
        std::thread::spawn(move || {
            let mut bytes = [0; 65_536];
            let mut came = 0;
            while let Ok((length, from)) = from_client.recv_from(&mut bytes) {
                *told.lock().unwrap() = Some(from);
                came += 1;
                if came == 2 && !hold.is_zero() {
                    until("the server answers", || answered.load(Ordering::SeqCst) > 0);
                    Clock::new().sleep(hold);
                }
                let _ = to_server.send(&bytes[..length]);
            }
        });
        std::thread::spawn(move || {
            let mut bytes = [0; 65_536];
            while let Ok(length) = far.recv(&mut bytes) {
                let client: Option<SocketAddr> = *client.lock().unwrap();
                if client.is_some_and(|client| near.send_to(&bytes[..length], client).is_ok()) {
                    counted.fetch_add(length as u64, Ordering::SeqCst);
                }
            }
        });
        Self { address, passed }
    }
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

/// Waits until `happened`, for as long as the slowest machine may take.
pub fn until(what: &str, mut happened: impl FnMut() -> bool) {
    let clock = Clock::new();
    while !happened() {
        assert!(clock.now() < Instant::from_millis(60_000), "waited in vain until {what}");
        clock.sleep(Duration::from_millis(5));
    }
}
