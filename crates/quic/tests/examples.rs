//! The two examples as a stranger runs them: one server, two clients one after the other, over loopback.
#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// A server that is ended with the test.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The example `name`, which cargo builds beside the tests.
fn example(name: &str) -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    let path = tests.ancestors().nth(2).unwrap().join("examples").join(name);
    assert!(path.exists(), "{} is missing: cargo test -p headstart-quic", path.display());
    path
}

/// A port of loopback that was free.
fn free() -> String {
    std::net::UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

#[test]
fn the_server_serves_one_client_after_the_other() {
    let folder = std::env::temp_dir().join(format!("headstart-quic-examples-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (address, file) = (free(), folder.join("cert.der"));
    let mut server = Command::new(example("server"));
    let mut server = Ended(server.arg(&address).arg(&file).stdin(Stdio::null()).spawn().unwrap());
    // It listens before it writes, and writes in one piece.
    while !std::fs::read(&file).is_ok_and(|bytes| !bytes.is_empty()) {
        assert!(server.0.try_wait().unwrap().is_none(), "the server ended");
        std::thread::yield_now();
    }
    for _ in 0..2 {
        let client = Command::new(example("client")).arg(&address).arg(&file).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&client.stdout), "1000000 bytes\n", "{client:?}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}
