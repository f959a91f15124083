//! One round: a server, a relay, a client, and how each ended.

use super::case::{CLOSE, Case, EARLY, File, MIGRATION, RETRY};
use super::peer::{FetchOrder, Ready, Served};
use super::relay::Relay;
use crate::step::{pause, timed};
use std::fs::{self, File as Output};
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

/// A round that has not ended by then stalls.
pub const LIMIT: Duration = Duration::from_secs(60);
/// A server that is to end has nothing to wait for: its clients have closed.
const AT_ONCE: Duration = Duration::from_secs(5);
/// Descriptors of a `serve` that has places for sixteen connections, and connections that take more than half of them: then it proves
/// addresses.
const FEW: &str = "64";
const HALF: usize = 10;

/// What is served, and the certificate.
pub struct Pair {
    site: PathBuf,
    /// The certificate (PEM).
    pub certificate: PathBuf,
    /// Its key (PEM).
    pub key: PathBuf,
}

impl Pair {
    /// Makes both in `folder`.
    pub fn new(folder: &Path) -> Result<Self, String> {
        let pair =
            Self { site: folder.join("site"), certificate: folder.join("cert.pem"), key: folder.join("key.pem") };
        fs::create_dir_all(&pair.site).map_err(|e| e.to_string())?;
        for file in [File::Small, File::Large] {
            fs::write(pair.site.join(file.name()), vec![7; file.bytes()]).map_err(|e| e.to_string())?;
        }
        let mut openssl = Command::new("openssl");
        openssl.args([
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
            "-days",
            "30",
        ]);
        openssl.args(["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost", "-keyout"]);
        openssl.arg(&pair.key).arg("-out").arg(&pair.certificate).stdin(Stdio::null());
        let output = openssl.output().map_err(|e| format!("openssl cannot be run: {e} (Debian package: openssl)"))?;
        if output.status.success() { Ok(pair) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
    }
}

/// Where rounds are played.
pub struct Scene<'a> {
    /// The command.
    pub headstart: &'a Path,
    /// What is served.
    pub pair: &'a Pair,
    /// An empty folder.
    pub folder: &'a Path,
}

/// A program whose output goes into a file; it ends with this.
pub struct Running {
    child: Child,
    said: PathBuf,
}

impl Running {
    /// Starts it; what it says goes into the file `said`.
    pub fn start(mut command: Command, said: PathBuf) -> Result<Self, String> {
        let program = command.get_program().to_string_lossy().into_owned();
        let out = Output::create(&said).map_err(|e| e.to_string())?;
        let err = out.try_clone().map_err(|e| e.to_string())?;
        command.stdin(Stdio::null()).stdout(out).stderr(err);
        let child = command.spawn().map_err(|e| format!("{program}: {e}"))?;
        Ok(Self { child, said })
    }

    /// Waits for its end, no longer than `limit`.
    pub fn ended(&mut self, limit: Duration) -> Option<ExitStatus> {
        let mut waited = Duration::ZERO;
        loop {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Some(status);
            }
            if waited > limit {
                return None;
            }
            waited += timed(pause).1;
        }
    }

    /// All that it has said.
    pub fn said(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.said).unwrap_or_default()).into_owned()
    }

    /// Its last line.
    pub fn last(&self) -> String {
        self.said().lines().last().unwrap_or("it said nothing").to_owned()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Connections that take half of the places of a `serve`, once it has accepted them.
fn held(server: &Running, port: u16) -> Result<Vec<TcpStream>, String> {
    let folder = format!("/proc/{}/fd", server.child.id());
    let descriptors = || fs::read_dir(&folder).map(Iterator::count).map_err(|e| format!("{folder}: {e}"));
    let before = descriptors()?;
    let held: Result<Vec<_>, _> = (0..HALF).map(|_| TcpStream::connect((Ipv4Addr::LOCALHOST, port))).collect();
    let held = held.map_err(|e| e.to_string())?;
    let mut waited = Duration::ZERO;
    while descriptors()? < before + HALF {
        if waited > AT_ONCE {
            return Err("the server does not accept connections".to_owned());
        }
        waited += timed(pause).1;
    }
    Ok(held)
}

/// A port that is free over TCP and UDP.
pub fn free_port() -> Result<u16, String> {
    for _ in 0..100 {
        let tcp = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(|e| e.to_string())?;
        let port = tcp.local_addr().map_err(|e| e.to_string())?.port();
        if UdpSocket::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return Ok(port);
        }
    }
    Err("no port is free".to_owned())
}

/// Whether a socket of UDP is bound to the port now.
pub fn is_bound_now(port: u16) -> bool {
    is_bound(&fs::read_to_string("/proc/net/udp").unwrap_or_default(), port)
}

/// Whether a socket of UDP is bound to the port, as the kernel lists them.
fn is_bound(list: &str, port: u16) -> bool {
    let local = |line: &str| line.split_whitespace().nth(1).map(|address| address.ends_with(&format!(":{port:04X}")));
    list.lines().skip(1).any(|line| local(line) == Some(true))
}

impl Scene<'_> {
    /// Plays a case so many times; what went wrong, a line each. `serves`: the peer is the client.
    pub fn played(&self, peer: &Ready, serves: bool, case: &Case, rounds: u32) -> Vec<String> {
        let mut bad = Vec::new();
        // One server for all rounds, so that it knows the path, unless its end or its places are what is looked at.
        let mut kept = None;
        for round in 1..=rounds {
            let server = match kept.take() {
                Some(server) => Ok(server),
                None => self.server(peer, serves, case),
            };
            let played = server.and_then(|mut server| {
                self.round(peer, serves, case, round, &mut server)?;
                Ok(server)
            });
            match played {
                Ok(server) if ![CLOSE, RETRY].contains(&case.name) => kept = Some(server),
                Ok(_) => {}
                Err(why) => bad.push(format!("round {round}: {why}")),
            }
        }
        bad
    }

    fn server(&self, peer: &Ready, serves: bool, case: &Case) -> Result<(Running, u16), String> {
        let port = free_port()?;
        let Pair { site, certificate, key } = self.pair;
        let command = if serves {
            let mut serve = Command::new("prlimit");
            // Without proofs it may have as many as it likes.
            serve
                .arg(format!("--nofile={}", if case.name == RETRY { FEW } else { "4096" }))
                .arg("--")
                .arg(self.headstart);
            serve.args(["serve", "--store", "memory", "--listen", &format!("127.0.0.1:{port}"), "--cert"]);
            serve.arg(certificate).arg("--key").arg(key).arg(site);
            serve
        } else {
            peer.server(case.name, port, &Served { site, pair: [certificate, key] })
        };
        let mut server = Running::start(command, self.folder.join("server"))?;
        while !is_bound_now(port) {
            if server.ended(Duration::ZERO).is_some() {
                return Err(format!("the server has ended: {}", server.last()));
            }
        }
        Ok((server, port))
    }

    fn round(
        &self,
        peer: &Ready,
        serves: bool,
        case: &Case,
        round: u32,
        server: &mut (Running, u16),
    ) -> Result<(), String> {
        let (server, port) = server;
        let relay = Relay::new(*port, case.weather, u64::from(round)).map_err(|e| e.to_string())?;
        let held = if serves && case.name == RETRY { held(server, *port)? } else { Vec::new() };
        let folder = self.folder.join("client");
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).map_err(|e| e.to_string())?;
        let (name, bytes) = (case.file.name(), case.file.bytes());
        let certificate = &self.pair.certificate;
        let asked = FetchOrder { case: case.name, port: relay.port(), file: name, bytes, folder: &folder, certificate };
        let commands = if serves { peer.client(&asked) } else { vec![self.get(&asked)] };
        let mut said = String::new();
        for command in commands {
            let mut client = Running::start(command, self.folder.join("said"))?;
            match client.ended(LIMIT) {
                None => return Err(format!("a stall; {}", client.last())),
                Some(status) if !status.success() => return Err(format!("{status}; {}", client.last())),
                Some(_) => said += &client.said(),
            }
        }
        drop(held);
        let doubt = if serves { peer.doubt(&asked, &said) } else { own_doubt(&asked, &said) };
        match doubt {
            Some(why) => return Err(why),
            None if case.name == RETRY && relay.retries() == 0 => return Err("the server proved no address".to_owned()),
            None if case.name == MIGRATION && relay.moves() == 0 => return Err("no port changed".to_owned()),
            None if case.name == CLOSE => {}
            None => return Ok(()),
        }
        if serves { ends_at_once(server) } else { hears_the_end(server) }
    }

    /// What fetches.
    fn get(&self, asked: &FetchOrder<'_>) -> Command {
        let mut get = Command::new(self.headstart);
        get.args(["get", "--insecure", "--http", "3", "--store", "memory", "--quiet", "--json"]);
        if asked.case == EARLY {
            // The ticket comes when the server likes, which may be behind the answer.
            get.args(["--times", "4"]);
        }
        get.arg("-o").arg(asked.folder.join(asked.file));
        get.arg(format!("https://127.0.0.1:{}/{}", asked.port, asked.file));
        get
    }
}

/// What is wrong with what `get` told and left, though it ended well.
fn own_doubt(asked: &FetchOrder<'_>, said: &str) -> Option<String> {
    let came = fs::metadata(asked.folder.join(asked.file)).map_or(0, |found| found.len());
    if came != asked.bytes as u64 {
        return Some(format!("{came} of {} bytes", asked.bytes));
    }
    let is_early = said.contains("\"early_data\":true");
    (asked.case == EARLY && !is_early).then(|| "no request was taken with the first packet".to_owned())
}

/// `serve` has no client any more, and does not wait for one that it thinks it has.
fn ends_at_once(server: &mut Running) -> Result<(), String> {
    let told = Command::new("kill").args(["-TERM", &server.child.id().to_string()]).status();
    if !told.is_ok_and(|status| status.success()) {
        return Err("the server could not be told to end".to_owned());
    }
    match server.ended(AT_ONCE) {
        Some(status) if status.success() => Ok(()),
        Some(status) => Err(format!("the server ended with {status}; {}", server.last())),
        None => Err(format!("the server has not ended after {} s", AT_ONCE.as_secs())),
    }
}

/// The peer's server was told that the client closes: H3_NO_ERROR (RFC 9114, section 8.1).
fn hears_the_end(server: &Running) -> Result<(), String> {
    let mut waited = Duration::ZERO;
    while !server.said().contains("closed 256") {
        if waited > AT_ONCE {
            return Err(format!("the server has not heard the end; {}", server.last()));
        }
        waited += timed(pause).1;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_port_is_in_the_kernels_list() {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = socket.local_addr().unwrap().port();
        let list = || fs::read_to_string("/proc/net/udp").unwrap();
        assert!(is_bound(&list(), port));
        assert!(!is_bound("head\n 1: 0100007F:0050 00000000:0000 07", 0x51));
        assert!(is_bound("head\n 1: 0100007F:0050 00000000:0000 07", 0x50));
    }

    #[test]
    fn what_does_not_end_is_left_after_the_limit_and_ended() {
        let folder = std::env::temp_dir().join(format!("headstart-interop-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let mut sleeps = Command::new("sleep");
        sleeps.arg("1000");
        let mut running = Running::start(sleeps, folder.join("said")).unwrap();
        assert_eq!(running.ended(Duration::ZERO), None);
        let id = running.child.id();
        drop(running);
        assert!(!Path::new(&format!("/proc/{id}")).exists());
        let mut says = Command::new("sh");
        says.args(["-c", "echo first; echo last; exit 3"]);
        let mut running = Running::start(says, folder.join("said")).unwrap();
        assert_eq!(running.ended(LIMIT).and_then(|status| status.code()), Some(3));
        assert_eq!(running.last(), "last");
        fs::remove_dir_all(&folder).unwrap();
    }
}
