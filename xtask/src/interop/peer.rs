//! The other stacks: how they are brought here, and what is typed for each case.
//!
//! They come from registries (Go's modules, PyPI, crates.io) into a folder of this chore's own, or are installed already; none is part of
//! this tree.

use super::case::{CLOSE, EARLY, KEYS, REQUESTS, RETRY};
use crate::step::Step;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A stack.
pub struct Peer {
    /// Its name.
    pub name: &'static str,
    /// Makes it ready in an empty folder; says what is missing if that does not work.
    pub ready: fn(&Path) -> Result<Ready, String>,
    /// Cases that it can play as a client, and as a server. None: there is no such program.
    pub plays: [fn(&str) -> bool; 2],
}

/// A stack that can be run.
pub struct Ready {
    /// Which version.
    pub version: String,
    kind: Kind,
}

enum Kind {
    /// A program of this chore's over the stack: these words come before its arguments.
    Own(Vec<PathBuf>),
    /// ngtcp2's examples, client and server.
    Ngtcp2([PathBuf; 2]),
}

/// What a client is to fetch.
pub struct FetchOrder<'a> {
    /// The case.
    pub case: &'a str,
    /// Where.
    pub port: u16,
    /// What.
    pub file: &'a str,
    /// How many bytes that is.
    pub bytes: usize,
    /// A folder of the client's own.
    pub folder: &'a Path,
    /// The server's certificate (PEM).
    pub certificate: &'a Path,
}

/// What a server serves.
pub struct Served<'a> {
    /// The folder.
    pub site: &'a Path,
    /// Its certificate and the key (PEM).
    pub pair: [&'a Path; 2],
}

/// Every stack.
pub const ALL: &[Peer] = &[
    Peer { name: "quic-go", ready: quic_go, plays: [|_| true, |case| case != REQUESTS] },
    Peer { name: "aioquic", ready: aioquic, plays: [|_| true, |case| case != REQUESTS] },
    // Its server changes no keys by itself and does not tell how connections end.
    Peer { name: "ngtcp2", ready: ngtcp2, plays: [|_| true, |case| ![REQUESTS, KEYS, CLOSE].contains(&case)] },
    // It has no early data, and changes its keys only when they are worn out.
    Peer {
        name: "s2n-quic",
        ready: s2n_quic,
        plays: [|case| ![EARLY, KEYS].contains(&case), |case| ![EARLY, KEYS, REQUESTS].contains(&case)],
    },
    // It never changes its keys by itself.
    Peer { name: "quiche", ready: quiche, plays: [|case| case != KEYS, |case| ![KEYS, REQUESTS].contains(&case)] },
    // The browser cannot be asked to change its keys.
    Peer { name: "chromium", ready: chromium, plays: [|case| case != KEYS, |_| false] },
];

/// Runs a command to its end, which is to be a good one; what it printed.
fn done(command: &mut Command) -> Result<String, String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output().map_err(|e| format!("{program} cannot be run: {e}"))?;
    if !output.status.success() {
        return Err(format!("{program}: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn quic_go(folder: &Path) -> Result<Ready, String> {
    const MODULE: &str = "github.com/quic-go/quic-go";
    let go = |arguments: &[&str]| {
        let mut command = Command::new("go");
        command.args(arguments).current_dir(folder).env("GOTOOLCHAIN", "local").env("CGO_ENABLED", "0");
        done(&mut command).map_err(|why| format!("{why} (Debian package: golang-go)"))
    };
    let source = include_str!("programs/quic_go.go");
    fs::write(folder.join("main.go"), source).map_err(|e| e.to_string())?;
    go(&["mod", "init", "peer"])?;
    go(&["get", &format!("{MODULE}@latest")])?;
    go(&["mod", "tidy"])?;
    go(&["build", "-o", "peer", "."])?;
    let version = go(&["list", "-m", "-f", "{{.Version}}", MODULE])?;
    Ok(Ready { version, kind: Kind::Own(vec![folder.join("peer")]) })
}

fn aioquic(folder: &Path) -> Result<Ready, String> {
    let environment = folder.join("environment");
    done(Command::new("python3").args(["-m", "venv"]).arg(&environment))?;
    let python = environment.join("bin/python");
    done(Command::new(&python).args(["-m", "pip", "install", "--quiet", "aioquic"]))?;
    let program = folder.join("peer.py");
    fs::write(&program, include_str!("programs/aioquic_peer.py")).map_err(|e| e.to_string())?;
    let version = done(Command::new(&python).args(["-c", "import aioquic; print(aioquic.__version__)"]))?;
    Ok(Ready { version, kind: Kind::Own(vec![python, program]) })
}

fn s2n_quic(folder: &Path) -> Result<Ready, String> {
    own(folder, "s2n-quic", [include_str!("programs/s2n_quic.toml"), include_str!("programs/s2n_quic.rs")])
}

fn quiche(folder: &Path) -> Result<Ready, String> {
    // BoringSSL is built for it.
    for tool in ["cmake", "clang"] {
        done(Command::new(tool).arg("--version")).map_err(|why| format!("{why} (Debian package: {tool})"))?;
    }
    own(folder, "quiche", [include_str!("programs/quiche.toml"), include_str!("programs/quiche.rs")])
}

/// A stack that is a crate.
fn own(folder: &Path, name: &str, written: [&str; 2]) -> Result<Ready, String> {
    let (version, program) = crated(folder, name, name, written)?;
    Ok(Ready { version, kind: Kind::Own(vec![program]) })
}

/// A program over the crate `of`, out of a manifest and a source, built with what the registry has of it: the crate's version, and the program.
/// What was built before under this name is used again.
pub fn crated(folder: &Path, of: &str, name: &str, [manifest, source]: [&str; 2]) -> Result<(String, PathBuf), String> {
    let manifest_path = folder.join("Cargo.toml");
    let written = fs::create_dir(folder.join("src"))
        .and_then(|()| fs::write(folder.join("src/main.rs"), source))
        .and_then(|()| fs::write(&manifest_path, manifest));
    written.map_err(|e| e.to_string())?;
    let own = std::env::current_exe().map_err(|e| e.to_string())?;
    let target = own.parent().and_then(Path::parent).ok_or("xtask is in no target folder")?.join("interop").join(name);
    let step = Step::cargo(&[
        "build",
        "--quiet",
        "--manifest-path",
        &manifest_path.to_string_lossy(),
        "--target-dir",
        &target.to_string_lossy(),
    ]);
    let built = step.capture().map_err(|_| "cargo cannot be run".to_owned())?;
    if !built.success {
        let errors = built.errors.iter().filter(|line| line.contains("error")).take(2).cloned().collect::<Vec<_>>();
        return Err(format!("it cannot be built: {}", errors.join("; ")));
    }
    let lock = fs::read_to_string(folder.join("Cargo.lock")).map_err(|e| e.to_string())?;
    let version = locked(&lock, of).ok_or_else(|| format!("no {of} in Cargo.lock"))?;
    Ok((version, target.join("debug/peer")))
}

/// The version of a crate in a Cargo.lock.
fn locked(lock: &str, name: &str) -> Option<String> {
    let mut lines = lock.lines().skip_while(|line| *line != format!("name = \"{name}\""));
    Some(lines.nth(1)?.strip_prefix("version = ")?.trim_matches('"').to_owned())
}

fn chromium(folder: &Path) -> Result<Ready, String> {
    let told = done(Command::new("chromium").arg("--version"));
    let told = told.map_err(|why| format!("{why} (Debian package: chromium)"))?;
    let version = told.split_whitespace().nth(1).unwrap_or("of unknown version").to_owned();
    let program = folder.join("peer.py");
    fs::write(&program, include_str!("programs/chromium.py")).map_err(|e| e.to_string())?;
    Ok(Ready { version, kind: Kind::Own(vec!["python3".into(), program]) })
}

fn ngtcp2(_: &Path) -> Result<Ready, String> {
    let found = |name: &str| {
        let folders = std::env::var_os("PATH").unwrap_or_default();
        let folders = std::env::split_paths(&folders).chain([PathBuf::from("/usr/sbin")]).collect::<Vec<_>>();
        let found = folders.into_iter().map(|folder| folder.join(name)).find(|path| path.is_file());
        found.ok_or_else(|| format!("no {name} (Debian packages: ngtcp2-client, ngtcp2-server)"))
    };
    let programs = [found("gtlsclient")?, found("gtlsserver")?];
    let version = done(Command::new("dpkg-query").args(["--showformat=${Version}", "--show", "ngtcp2-client"]));
    Ok(Ready { version: version.unwrap_or_else(|_| "of unknown version".to_owned()), kind: Kind::Ngtcp2(programs) })
}

fn command(words: &[PathBuf]) -> Command {
    let (program, arguments) = words.split_first().map_or((OsStr::new(""), &[][..]), |(p, a)| (p.as_os_str(), a));
    let mut command = Command::new(program);
    command.args(arguments);
    command
}

impl Ready {
    /// Its client; several commands run one after the other.
    pub fn client(&self, asked: &FetchOrder<'_>) -> Vec<Command> {
        let url = format!("https://127.0.0.1:{}/{}", asked.port, asked.file);
        match &self.kind {
            Kind::Own(words) => {
                let mut one = command(words);
                one.args(["client", asked.case, &url, &asked.bytes.to_string()]).arg(asked.certificate);
                vec![one]
            }
            Kind::Ngtcp2([client, _]) => {
                let one = || {
                    let mut one = Command::new(client);
                    one.args(["--exit-on-all-streams-close", "--no-quic-dump", "--no-http-dump", "--download"]);
                    one.arg(asked.folder);
                    match asked.case {
                        // Between both, a server's files: what it takes to begin with the first packet.
                        EARLY => drop(
                            one.arg("--session-file")
                                .arg(asked.folder.join("session"))
                                .arg("--tp-file")
                                .arg(asked.folder.join("parameters")),
                        ),
                        REQUESTS => drop(one.args(["--nstreams", "1000"])),
                        // As early as it can: it ends if the server has just changed them.
                        KEYS => drop(one.args(["--key-update", "1ms"])),
                        _ => {}
                    }
                    one.args(["127.0.0.1", &asked.port.to_string(), &url]);
                    one
                };
                // What an address proof, another port, losses and the end need is on the other side or between.
                if asked.case == EARLY { vec![one(), one()] } else { vec![one()] }
            }
        }
    }

    /// What is wrong with what its client printed and left, though it ended well.
    pub fn doubt(&self, asked: &FetchOrder<'_>, said: &str) -> Option<String> {
        if let Kind::Own(_) = self.kind {
            return None;
        }
        let answers = said.matches("[:status: 200]").count();
        let expected = match asked.case {
            REQUESTS => 1000,
            EARLY => 2,
            _ => 1,
        };
        if answers != expected {
            return Some(format!("{answers} of {expected} answers"));
        }
        if asked.case == EARLY && (said.contains("Early data was rejected") || !said.contains("type=0RTT")) {
            return Some("the request was not taken with the first packet".to_owned());
        }
        if asked.case == KEYS && !said.contains("type=1RTT k=1") {
            return Some("the keys did not change".to_owned());
        }
        let came = fs::metadata(asked.folder.join(asked.file)).map_or(0, |found| found.len());
        // As many requests at once write into one file.
        (asked.case != REQUESTS && came != asked.bytes as u64).then(|| format!("{came} of {} bytes", asked.bytes))
    }

    /// Its server at `port`.
    pub fn server(&self, case: &str, port: u16, served: &Served<'_>) -> Command {
        let [certificate, key] = served.pair;
        match &self.kind {
            Kind::Own(words) => {
                let mut one = command(words);
                one.args(["server", case, &port.to_string()]).arg(served.site).arg(certificate).arg(key);
                one
            }
            Kind::Ngtcp2([_, server]) => {
                let mut one = Command::new(server);
                one.args(["--quiet", "--htdocs"]).arg(served.site);
                if case == RETRY {
                    one.arg("--validate-addr");
                }
                one.args(["127.0.0.1", &port.to_string()]).arg(key).arg(certificate);
                one
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::case::HANDSHAKE;
    use super::*;

    #[test]
    fn every_stack_plays_a_handshake_as_a_client_and_as_a_server_if_it_is_one() {
        let servers: Vec<&str> = ALL.iter().filter(|peer| peer.plays[1](HANDSHAKE)).map(|peer| peer.name).collect();
        assert!(ALL.iter().all(|peer| peer.plays[0](HANDSHAKE)));
        assert_eq!(servers, ["quic-go", "aioquic", "ngtcp2", "s2n-quic", "quiche"]);
    }

    #[test]
    fn a_version_is_read_from_the_lines_below_a_name() {
        let lock = "[[package]]\nname = \"quiche-x\"\nversion = \"1.0\"\n\n[[package]]\nname = \"quiche\"\nversion = \"0.30.0\"\n";
        assert_eq!(locked(lock, "quiche").as_deref(), Some("0.30.0"));
        assert_eq!(locked(lock, "quich"), None);
    }

    #[test]
    fn what_ngtcp2_printed_is_counted() {
        let ready = Ready { version: String::new(), kind: Kind::Ngtcp2(["c".into(), "s".into()]) };
        let asked = |case| FetchOrder {
            case,
            port: 1,
            file: "nothing",
            bytes: 0,
            folder: Path::new("/nonexistent"),
            certificate: Path::new(""),
        };
        assert_eq!(ready.client(&asked(EARLY)).len(), 2);
        assert_eq!(ready.doubt(&asked(HANDSHAKE), "http: stream 0x0 [:status: 200]"), None);
        assert_eq!(ready.doubt(&asked(HANDSHAKE), ""), Some("0 of 1 answers".to_owned()));
        assert_eq!(ready.doubt(&asked(KEYS), "[:status: 200]"), Some("the keys did not change".to_owned()));
        assert!(ready.doubt(&asked(EARLY), "[:status: 200] [:status: 200] Early data was rejected").is_some());
        assert!(ready.doubt(&asked(REQUESTS), &"[:status: 200]".repeat(999)).is_some());
    }
}
