//! `headstart lab shell --host-port`: a server on the host, reached from behind an emulated link by its documented name.

use crate::scene::{Ended, HEADSTART, Scratch, Server};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, getsockname, socket_with};
use std::net::SocketAddr;

/// The same file by each protocol, the last of them over UDP; then a port at which nothing listens outside, and one that is not open.
const SCRIPT: &str = r#"
for http in 1.1 3; do
  "$HEADSTART_BIN" get --json -q --http $http --ca "$HOME/cert.pem" -o "$HOME/got-$http" https://host.lab.example:$1/file.bin || exit 9
done
for port in $2 1; do
  curl -s -o /dev/null --max-time 60 http://host.lab.example:$port/; echo "curl $?"
done
"#;

#[test]
#[ignore = "needs network namespaces: cargo xtask test"]
fn a_server_on_the_host_is_behind_the_link() {
    let scratch = Scratch::new();
    let file = scratch.file("file.bin", 100_000);
    let server = Server::start(scratch, &["--name", "host.lab.example", "--store", "memory"]);
    let port = server.address.port().to_string();
    // Bound, so that no other program listens there.
    let bound = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
    bind(&bound, &SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let silent = SocketAddr::try_from(getsockname(&bound).unwrap()).unwrap().port().to_string();

    let mut lab = server.scratch.command(HEADSTART);
    lab.env("HEADSTART_BIN", HEADSTART).env_remove("HEADSTART_LAB_BLOCK");
    lab.args(["lab", "shell", "--link", "rate=100mbit,delay=25ms", "--host-port", &port, "--host-port", &silent]);
    let ended = Ended::of(lab.args(["--", "sh", "-c", SCRIPT, "sh", &port, &silent]).output().unwrap());
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let lines: Vec<&str> = ended.out.lines().collect();
    assert_eq!(lines.len(), 4, "{ended:?}");
    for (line, protocol) in lines[..2].iter().zip(["HTTP/1.1", "HTTP/3"]) {
        let told: serde_json::Value = serde_json::from_str(line).expect("JSON");
        assert_eq!((told["protocol"].as_str(), told["bytes"].as_u64()), (Some(protocol), Some(100_000)), "{told}");
        assert!(told["total_ms"].as_f64().unwrap() >= 100.0, "two round trips of the link: {told}");
    }
    for got in ["got-1.1", "got-3"] {
        assert!(std::fs::read(server.scratch.path(got)).unwrap() == file, "{got}");
    }
    // Connected, then reset (56); refused (7), since it is not open.
    assert_eq!(lines[2..], ["curl 56", "curl 7"], "{ended:?}");
}
