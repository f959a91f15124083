//! Clients of a proxy that never say what they want, one of its users that wants all there is, and strangers at a tunnel.

use crate::attack::{Attack, raise_files};
use crate::proxy::{FAST, FAT, Proxy, ip, over};
use crate::scene::{SERVER, Scene, fetched, inside};
use headstart_core::time::Duration;
use headstart_io::clock::Clock;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, socket_with};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::Command;

inside!(half_a_head_by_the_thousand_keeps_no_user_out, || {
    let Some(scene) = Scene::new() else { return };
    drop(Proxy::new(&scene, "obj-priority"));
    let proxy = Proxy::at(&scene, "obj-priority", FAT);
    ip(&["address", "add", "198.51.100.7/32", "dev", "lo"]);
    raise_files();
    let to: SocketAddr = proxy.url.trim_start_matches("http://").parse().unwrap();
    let halves: Vec<TcpStream> = (0..1200)
        .map(|_| {
            let socket = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
            bind(&socket, &SocketAddr::from(([198, 51, 100, 7], 0))).unwrap();
            connect(&socket, &to).unwrap();
            let mut half = TcpStream::from(socket);
            let _ = half.write_all(b"GET http://");
            half
        })
        .collect();
    let refused = (0..4).filter(|_| proxy.fetch(&["--header", "Priority: u=1"], "/who/900") != over(FAT, 900)).count();
    let row = Attack { attack: "1,200 half heads from one address", listener: "proxy --users" };
    row.at_most("requests of users that are refused, of 4", 0.0, refused as f64);
    drop(halves);
});

/// Guesses at a password, each over a connection of its own, and how many of them may be answered in a second.
const GUESSES: usize = 100;

inside!(who_guesses_passwords_waits_for_each_and_locks_nobody_out, || {
    let Some(scene) = Scene::new() else { return };
    drop(Proxy::new(&scene, "obj-priority"));
    let proxy = Proxy::at(&scene, "obj-priority", FAT);
    ip(&["address", "add", "198.51.100.7/32", "dev", "lo"]);
    raise_files();
    let to: SocketAddr = proxy.url.trim_start_matches("http://").parse().unwrap();
    // ann:wrong, in base64.
    let ask = format!("CONNECT {SERVER} HTTP/1.1\r\nhost: {SERVER}\r\nproxy-authorization: Basic YW5uOndyb25n\r\n\r\n");
    let clock = Clock::new();
    let mut answered = 0;
    let guesses: Vec<TcpStream> = (0..GUESSES)
        .map(|_| {
            let socket = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
            bind(&socket, &SocketAddr::from(([198, 51, 100, 7], 0))).unwrap();
            connect(&socket, &to).unwrap();
            TcpStream::from(socket)
        })
        .collect();
    for mut guess in &guesses {
        let began = clock.now();
        let _ = guess.write_all(ask.as_bytes());
        guess.set_read_timeout(Some(Duration::from_millis(10))).unwrap();
        let said = guess.read(&mut [0; 12]).is_ok_and(|length| length > 0);
        // One that was looked at late says nothing of how soon it was answered.
        answered += usize::from(said && clock.now().since(began) < Duration::from_secs(1));
    }
    let row = Attack { attack: "100 guesses at a password", listener: "proxy --users" };
    row.at_most("guesses that are answered within a second", 0.0, answered as f64);
    let own = ["--interface", "198.51.100.7", "--header", "Priority: u=1"];
    let refused = (0..4).filter(|_| proxy.fetch(&own, "/who/900") != over(FAT, 900)).count();
    row.at_most("requests of a user from the same address that are refused, of 4", 0.0, refused as f64);
    drop(guesses);
});

/// Addresses of networks that are private (RFC 1918).
const PRIVATE: [&str; 2] = ["http://10.1.2.3/", "http://192.168.1.1/"];

inside!(what_is_private_or_the_hosts_own_is_not_for_other_hosts, || {
    let Some(scene) = Scene::new() else { return };
    // Users may have come to loopback from other hosts, by a forwarded port.
    let near = Proxy::new(&scene, "obj-priority");
    let far = Proxy::at(&scene, "obj-priority", FAT);
    let listener = TcpListener::bind((FAST, 0)).unwrap();
    let own = format!("http://{}/", listener.local_addr().unwrap());
    let is_refused = |proxy: &Proxy, url: &str, tunnel: &[&str]| {
        let mut curl = Command::new("curl");
        curl.args(["--silent", "--noproxy", "", "--proxy", &proxy.url, "--proxy-user", "ann:secret"]).args(tunnel);
        curl.args(["--max-time", "30", "--write-out", "%{http_code} %{http_connect}", url]);
        let output = curl.output().unwrap();
        String::from_utf8_lossy(&output.stdout).contains("403")
    };
    let mut allowed = Vec::new();
    for url in PRIVATE.into_iter().chain([&own[..]]) {
        for proxy in [&near, &far] {
            allowed
                .extend([&[][..], &["--proxytunnel"]].iter().filter(|way| !is_refused(proxy, url, way)).map(|_| url));
        }
    }
    println!("not refused: {allowed:?}");
    let row = Attack { attack: "requests to private addresses and the proxy's own", listener: "proxy --users" };
    row.at_most("requests that are not refused, of 12", 0.0, allowed.len() as f64);
});

/// Connections that are served at a time, and what one of several users may have of them.
const SERVED: usize = 1024;
const PART: usize = SERVED / 4;

inside!(a_user_that_wants_every_place_leaves_most_of_them_to_the_other, || {
    let Some(scene) = Scene::new() else { return };
    raise_files();
    let proxy = Proxy::new(&scene, "obj-priority");
    let to: SocketAddr = proxy.url.trim_start_matches("http://").parse().unwrap();
    // ann:secret, in base64.
    let ask =
        format!("CONNECT {SERVER} HTTP/1.1\r\nhost: {SERVER}\r\nproxy-authorization: Basic YW5uOnNlY3JldA==\r\n\r\n");
    let mut tunnels = Vec::new();
    for _ in 0..SERVED + 76 {
        let mut stream = TcpStream::connect(to).unwrap();
        stream.write_all(ask.as_bytes()).unwrap();
        let mut reader = BufReader::new(stream);
        let mut said = String::new();
        reader.read_line(&mut said).unwrap();
        if said.contains(" 200 ") {
            tunnels.push(reader);
        }
    }
    assert!(tunnels.len() > PART / 2, "{} tunnels: its part is its own", tunnels.len());
    let row = Attack { attack: "1,100 tunnels of one user", listener: "proxy --users" };
    row.at_most("tunnels of that user", PART as f64, tunnels.len() as f64);
    let served = |_: &u8| proxy.curl("bob:hidden", &["--fail"], "/small").status.success();
    row.at_most("requests of another user that are refused, of 4", 0.0, 4.0 - (0..4).filter(served).count() as f64);
});

/// Datagrams of strangers to the gateway.
const GARBAGE: usize = 20_000;

inside!(datagrams_of_strangers_leave_a_tunnel_as_it_is, || {
    let Some(mut scene) = Scene::new() else { return };
    scene.up("pkt-state", &[]);
    let stranger = UdpSocket::bind("192.0.2.1:0").unwrap();
    // What begins as each message of WireGuard does, of its length and of another.
    let message = |n: usize| {
        let kind = (n % 5) as u8;
        let length = [148, 92, 64, 80, 1200][n % 5] + usize::from(n.is_multiple_of(2));
        let mut bytes = vec![(n % 251) as u8; length];
        bytes[..4].copy_from_slice(&[kind, 0, 0, 0]);
        bytes
    };
    let pid = scene.status(true)["pid"].as_u64().unwrap();
    let memory = || {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        resident.split_whitespace().next().unwrap().parse::<f64>().unwrap()
    };
    let (before, mut failed) = (memory(), 0);
    for n in 0..GARBAGE {
        let _ = stranger.send_to(&message(n), "192.0.2.2:7000");
        if n % (GARBAGE / 4) == 0 {
            failed += usize::from(fetched(scene.fetch("/small")) != "200 100");
        }
    }
    let row = Attack { attack: "20,000 datagrams of strangers", listener: "gateway" };
    row.at_most("fetches through the tunnel that fail, of 4", 0.0, failed as f64);
    row.at_most("memory that the gateway has more, kB", 8192.0, (memory() - before).max(0.0));
});
