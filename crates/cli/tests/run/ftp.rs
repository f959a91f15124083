//! `headstart run --measure`: FTP, whose server calls the client back in its active mode (RFC 959, section 3.2; RFC 2428).

use crate::lab::{Ended, Lab, found, inside, until};
use std::fs;
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// pyftpdlib: anyone may read and write one folder, on this port of all addresses.
const SERVES: &str = "
import sys, pyftpdlib.authorizers, pyftpdlib.handlers, pyftpdlib.servers
who = pyftpdlib.authorizers.DummyAuthorizer()
who.add_anonymous(sys.argv[1], perm='elradfmw')
handler = pyftpdlib.handlers.FTPHandler
handler.authorizer = who
pyftpdlib.servers.FTPServer(('::', int(sys.argv[2])), handler).serve_forever()
";
/// Python's own client: fetches a file and stores another, in either mode; what the server said at the end.
const FETCHES: &str = "
import ftplib, hashlib, io, sys
host, port, passive = sys.argv[1], int(sys.argv[2]), sys.argv[3] == 'passive'
with ftplib.FTP() as ftp:
    ftp.connect(host, port, timeout=30)
    ftp.login()
    ftp.set_pasv(passive)
    got = io.BytesIO()
    print(ftp.retrbinary('RETR large', got.write), len(got.getvalue()), hashlib.sha256(got.getvalue()).hexdigest())
    print(ftp.storbinary('STOR ' + sys.argv[4], io.BytesIO(got.getvalue()[::-1])))
    print(sorted(ftp.nlst())[0])
";
const PORT: u16 = 2121;
/// More than any buffer holds.
const LENGTH: usize = 3_000_000;

struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The Python that has the server.
fn python_with_server() -> Option<&'static str> {
    let has = |python: &&str| {
        let probe = Command::new(python).args(["-c", "import pyftpdlib"]).stderr(Stdio::null()).status();
        probe.is_ok_and(|status| status.success())
    };
    let python = ["python3", "/usr/bin/python3"].into_iter().find(has);
    if python.is_none() {
        println!("skipped: Python's module pyftpdlib is not here (Debian package: python3-pyftpdlib)");
    }
    python
}

fn begin(lab: &Lab, python: &str) -> (Server, PathBuf, Vec<u8>) {
    let folder = lab.scratch.path("ftp");
    fs::create_dir(&folder).unwrap();
    let large: Vec<u8> = (0..LENGTH).map(|n| (n * 7 + n / 251) as u8).collect();
    fs::write(folder.join("large"), &large).unwrap();
    let mut command = lab.network.server_command(python).unwrap();
    command.args(["-c", SERVES]).arg(&folder).arg(PORT.to_string());
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let server = Server(child);
    until("the server is there", || {
        lab.network.on_servers(|| TcpStream::connect(("127.0.0.1", PORT)).is_ok()).unwrap()
    });
    (server, folder, large)
}

/// The same program bare and measured, and connections that the measured one accepted.
fn both(lab: &Lab, words: &[String]) -> ([Ended; 2], usize) {
    let bare = lab.bare(words);
    let flows = lab.scratch.path("flows");
    let ours = lab.ours_with(&["--measure", "--via", "tun", "--flows", flows.to_str().unwrap()], words);
    let text = fs::read_to_string(flows).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    ([bare, ours], lines.filter(|line| line["accepted"] == true).count())
}

inside!(ftp_clients_move_files_in_both_modes_as_without_headstart, || {
    let (Some(server), Some(client), Some(curl)) = (python_with_server(), crate::lab::python(), found("curl", "curl"))
    else {
        return;
    };
    let lab = Lab::new();
    let (_server, folder, large) = begin(&lab, server);
    let turned: Vec<u8> = large.iter().rev().copied().collect();
    for host in ["198.19.0.1", "2001:db8:1::1"] {
        for mode in ["active", "passive"] {
            let port = PORT.to_string();
            let words = [&client, "-c", FETCHES, host, &port, mode, "stored"].map(str::to_owned);
            let ([bare, ours], accepted) = both(&lab, &words);
            assert!(bare.code == Some(0) && bare.out.contains(&format!(" {LENGTH} ")), "{host} {mode}: {bare:?}");
            assert_eq!((ours.code, &ours.out), (bare.code, &bare.out), "{host} {mode}: {ours:?}");
            // Three transfers, each of which the server has called for in the active mode.
            assert_eq!(accepted, if mode == "active" { 3 } else { 0 }, "{host} {mode}");
            assert_eq!(fs::read(folder.join("stored")).unwrap(), turned);
            fs::remove_file(folder.join("stored")).unwrap();
            let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
            let url = format!("ftp://{host}:{PORT}/large");
            let how: &[&str] = if mode == "active" { &["--ftp-port", "-"] } else { &["--ftp-pasv"] };
            let copy = lab.scratch.path("copy");
            let mut words = vec![curl.to_str().unwrap().to_owned(), "-sS".into(), "-o".into()];
            words.extend([copy.to_str().unwrap().to_owned(), url]);
            words.extend(how.iter().map(|word| (*word).to_owned()));
            let ([bare, ours], accepted) = both(&lab, &words);
            assert_eq!((bare.code, ours.code), (Some(0), Some(0)), "{mode}: {bare:?} {ours:?}");
            assert_eq!((accepted, fs::read(&copy).unwrap() == large), (usize::from(mode == "active"), true), "{mode}");
            fs::remove_file(copy).unwrap();
        }
    }
});
