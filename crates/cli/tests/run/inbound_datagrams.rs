//! `headstart run --measure`: programs whose ports of UDP are sent to from outside, each beside the same program without headstart; and
//! what becomes of programs that serve when headstart is killed.

use crate::inbound::{line_of, own};
use crate::lab::{HEADSTART, Lab, ended, found, inside, python, until};
use crate::processes::{children, is_alive, measured_and_watchdog};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs;
use std::io::{BufReader, Write};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::process::{Child, ChildStdout, Stdio};
use std::time::Duration;

/// Binds a port, says which it is, and answers in capital letters; of each datagram it says who has sent it and how long it was. On a
/// word on standard input it closes the port, and ends at the end of it.
const ANSWERS: &str = "
import select, socket, sys
host, port = sys.argv[1], int(sys.argv[2])
s = socket.socket(socket.AF_INET6 if ':' in host else socket.AF_INET, socket.SOCK_DGRAM)
if host == '::': s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
s.bind((host, port))
print(s.getsockname()[1], flush=True)
while True:
    ready = select.select([s, sys.stdin], [], [])[0]
    if sys.stdin in ready: break
    said, peer = s.recvfrom(65536)
    s.sendto(said.upper(), peer)
    print(peer[0], peer[1], len(said), flush=True)
s.close()
print('closed', flush=True)
sys.stdin.readline()
sys.stdin.read()
";

/// A program that waits for datagrams: with headstart or without.
struct Bound {
    child: Child,
    out: BufReader<ChildStdout>,
    port: u16,
}

impl Bound {
    fn begin(lab: &Lab, measured: bool, host: &str, port: u16) -> Self {
        Self::run(lab, measured, ANSWERS, &[host, &port.to_string()])
    }

    fn run(lab: &Lab, measured: bool, program: &str, args: &[&str]) -> Self {
        let python = python().unwrap();
        let mut command = lab.command(if measured { HEADSTART } else { &python });
        if measured {
            command.args(["run", "--measure", "--via", "tun", "--flows"]).arg(lab.scratch.path("flows"));
            command.args(["--", &python]);
        }
        command.args(["-c", program]).args(args).stdin(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let port = line_of(&mut out).parse().expect("a port");
        Self { child, out, port }
    }

    fn line(&mut self) -> String {
        line_of(&mut self.out)
    }

    fn close(&mut self) {
        self.child.stdin.as_mut().unwrap().write_all(b"close\n").unwrap();
        assert_eq!(self.line(), "closed");
    }
}

/// Asks a port of the namespace that this runs in the way to: who has asked, and what was answered.
fn ask(to: SocketAddr, words: &[u8]) -> std::io::Result<(SocketAddr, Vec<u8>)> {
    let any: IpAddr = if to.is_ipv4() { [0; 4].into() } else { [0u16; 8].into() };
    let socket = UdpSocket::bind((any, 0))?;
    // Answers of others are not heard, and a refusal is.
    socket.connect(to)?;
    socket.set_read_timeout(Some(Duration::from_secs(30)))?;
    socket.send(words)?;
    let mut answer = vec![0; 65_536];
    let len = socket.recv(&mut answer)?;
    answer.truncate(len);
    Ok((socket.local_addr()?, answer))
}

fn said_of(caller: SocketAddr, mapped: bool, len: usize) -> String {
    let ip = caller.ip();
    let ip = if mapped && ip.is_ipv4() { format!("::ffff:{ip}") } else { ip.to_string() };
    format!("{ip} {} {len}", caller.port())
}

inside!(strangers_reach_a_port_of_udp_that_a_program_has_bound_and_nothing_more, || {
    if python().is_none() {
        return;
    }
    let lab = Lab::new();
    let own = own(&lab);
    let single = own[1].to_string();
    // One that takes mapped addresses, one that does not, one of a privileged port, and one of a single address.
    for (host, port, called) in
        [("::", 0, vec![0, 1]), ("0.0.0.0", 0, vec![0]), ("0.0.0.0", 53, vec![0]), (&single, 0, vec![1])]
    {
        for measured in [false, true] {
            let mut bound = Bound::begin(&lab, measured, host, port);
            assert!(port == 0 || bound.port == port);
            for at in &called {
                let to = SocketAddr::new(own[*at], bound.port);
                // A short one, one in fragments, and an empty one.
                for words in [&b"hello"[..], &[b'x'; 4000], b""] {
                    let (caller, answer) = lab.network.on_servers(|| ask(to, words)).unwrap().unwrap();
                    assert_eq!(answer, words.to_ascii_uppercase());
                    assert_eq!(bound.line(), said_of(caller, host == "::", words.len()), "{host} {port} {measured}");
                }
            }
            let to = SocketAddr::new(own[called[0]], bound.port);
            bound.close();
            let refused = || {
                let any: IpAddr = if to.is_ipv4() { [0; 4].into() } else { [0u16; 8].into() };
                let answer = lab.network.on_servers(|| {
                    let socket = UdpSocket::bind((any, 0)).unwrap();
                    socket.connect(to).unwrap();
                    socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
                    socket.send(b"anyone?").and_then(|_| socket.recv(&mut [0; 9]))
                });
                answer.unwrap().is_err_and(|why| why.kind() == std::io::ErrorKind::ConnectionRefused)
            };
            until("the port is closed", refused);
            drop(bound.child.stdin.take());
            let ended = ended(bound.child);
            assert_eq!(ended.code, Some(0), "{ended:?}");
            if measured {
                let text = fs::read_to_string(lab.scratch.path("flows")).unwrap();
                let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
                let of = |line: &Value| line["down_bytes"] == 5 || line["down_bytes"] == 4000;
                let mine: Vec<Value> = lines.filter(of).collect();
                assert_eq!(mine.len(), called.len() * 2, "{text}");
                for flow in mine {
                    assert_eq!(flow["up_bytes"], flow["down_bytes"], "{flow}");
                    assert!(flow["app"].as_str().unwrap().starts_with("python"), "{flow}");
                }
            }
        }
    }
});

inside!(callers_on_the_host_reach_ports_of_udp_as_without_headstart, || {
    if python().is_none() {
        return;
    }
    let lab = Lab::new();
    let own = own(&lab);
    let loopback: [IpAddr; 2] = [[127, 0, 0, 1].into(), "::1".parse().unwrap()];
    for (host, at, elsewhere) in [
        ("127.0.0.1", vec![loopback[0]], Some(own[0])),
        ("::1", vec![loopback[1]], Some(own[1])),
        ("::", vec![loopback[0], loopback[1], own[0], own[1]], None),
    ] {
        for measured in [false, true] {
            let mut bound = Bound::begin(&lab, measured, host, 0);
            for ip in &at {
                let to = SocketAddr::new(*ip, bound.port);
                let (caller, answer) = lab.network.on_client(|| ask(to, b"hello")).unwrap().unwrap();
                assert_eq!((&answer[..], caller.ip()), (&b"HELLO"[..], *ip), "{host} {measured}");
                // The port of a caller on the host is another.
                let (line, expected) = (bound.line(), said_of(caller, host == "::", 5));
                let but_for_port = |line: &str| {
                    line.split(' ').enumerate().filter(|(n, _)| *n != 1).map(|(_, w)| w.to_owned()).collect::<Vec<_>>()
                };
                assert_eq!(but_for_port(&line), but_for_port(&expected), "{host} {measured}");
            }
            if let Some(ip) = elsewhere {
                let to = SocketAddr::new(ip, bound.port);
                let refused = lab.network.on_servers(|| ask(to, b"hello")).unwrap().unwrap_err();
                assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused, "{host} {measured}");
            }
            bound.close();
            drop(bound.child.stdin.take());
            assert_eq!(ended(bound.child).code, Some(0));
        }
    }
});

inside!(a_port_of_udp_stays_open_while_nobody_speaks_and_is_the_programs_own, || {
    if python().is_none() {
        return;
    }
    let lab = Lab::new();
    let own = own(&lab);
    // Bound by a program, it is in use for others on the host, as without headstart; and a taken one is another, which is said last.
    let mut bound = Bound::begin(&lab, true, "0.0.0.0", 0);
    let own_port = bound.port;
    let taken = || UdpSocket::bind(("0.0.0.0", own_port)).map(drop);
    let why = lab.network.on_client(taken).unwrap().unwrap_err();
    assert_eq!(why.kind(), std::io::ErrorKind::AddrInUse);
    bound.close();
    until("the port is free", || lab.network.on_client(taken).unwrap().is_ok());
    drop(bound.child.stdin.take());
    assert_eq!(ended(bound.child).code, Some(0));
    let (others, port) = lab
        .network
        .on_client(|| {
            let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
            let port = socket.local_addr().unwrap().port();
            (socket, port)
        })
        .unwrap();
    let mut bound = Bound::begin(&lab, true, "0.0.0.0", port);
    assert_eq!(bound.port, port);
    let all = lab.network.on_client(|| fs::read_to_string("/proc/thread-self/net/udp").unwrap()).unwrap();
    let port_of = |line: &str| u16::from_str_radix(line.split_whitespace().nth(1)?.split_once(':')?.1, 16).ok();
    let reached = all.lines().filter_map(port_of).find(|other| {
        *other != port && lab.network.on_servers(|| ask((own[0], *other).into(), b"hello")).unwrap().is_ok()
    });
    let other = reached.expect("it is reached by another port");
    assert!(bound.line().ends_with(" 5"));
    bound.close();
    drop(bound.child.stdin.take());
    let ended = ended(bound.child);
    let last = ended.err.trim().lines().last().unwrap_or_default().to_owned();
    assert!(last.contains(&format!("0.0.0.0:{port} (UDP) by port {other}")), "{ended:?}");
    drop(others);
});

inside!(iperf3_as_a_server_of_datagrams_is_reached_both_ways_as_without_headstart, || {
    let Some(iperf3) = found("iperf3", "iperf3") else { return };
    let lab = Lab::new();
    let iperf3 = iperf3.to_str().unwrap();
    for (at, way) in own(&lab).iter().flat_map(|at| [(at, "up"), (at, "down")]) {
        for measured in [false, true] {
            let mut command = lab.command(if measured { HEADSTART } else { iperf3 });
            let words = ["run", "--measure", "--via", "tun", "--", iperf3];
            command.args(words.iter().filter(|_| measured));
            let mut server = command.args(["-s", "-1", "--forceflush"]).spawn().unwrap();
            let mut out = BufReader::new(server.stdout.take().unwrap());
            while !line_of(&mut out).contains("listening") {}
            let mut client = lab.network.server_command(iperf3).unwrap();
            client.args(["-c", &at.to_string(), "-u", "-b", "5M", "-n", "500K", "-l", "1000", "-J"]);
            let done = client.args((way == "down").then_some("-R")).output().unwrap();
            let said: Value = serde_json::from_slice(&done.stdout).unwrap();
            assert!(done.status.success(), "{at} {way} {measured}: {said}");
            let packets = said["end"]["sum"]["packets"].as_f64().unwrap();
            assert!(packets >= 500.0, "{at} {way} {measured}: {said}");
            // What it says meanwhile fits into the pipe.
            assert_eq!(ended(server).code, Some(0), "{at} {way} {measured}");
            drop(out);
        }
    }
});

/// Says its number; at each word, whether it can still bind and listen.
const BINDS: &str = "
import socket, sys
print(7, flush=True)
for _ in sys.stdin:
    said = []
    for kind in [socket.SOCK_DGRAM, socket.SOCK_STREAM]:
        for host in ['127.0.0.1', '::1', '0.0.0.0']:
            s = socket.socket(socket.AF_INET6 if ':' in host else socket.AF_INET, kind)
            try:
                s.bind((host, 0))
                if kind == socket.SOCK_STREAM: s.listen(5)
                said.append('bound')
            except OSError as e: said.append(str(e.errno))
    for port in [0, 52, 70000]:
        try: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).bind(('192.0.2.77', port)); said.append('bound')
        except OSError as e: said.append(str(e.errno))
        except OverflowError: said.append('overflow')
    print(*said, flush=True)
";

inside!(a_program_whose_headstart_was_killed_binds_and_listens_as_without_it, || {
    if python().is_none() {
        return;
    }
    let lab = Lab::new();
    let mut said = Vec::new();
    for (measured, killed) in [(false, false), (true, false), (true, true)] {
        let mut program = Bound::run(&lab, measured, BINDS, &[]);
        let command = program.child.id();
        let mut watchdog = None;
        let mut inner = command;
        if killed {
            let forwarder = children(command)[0];
            let (program, other) = measured_and_watchdog(forwarder);
            (watchdog, inner) = (Some(other), program);
            for pid in [command, forwarder] {
                kill_process(Pid::from_raw(pid as i32).unwrap(), Signal::KILL).unwrap();
            }
            until("they are gone", || !is_alive(forwarder));
        }
        program.child.stdin.as_mut().unwrap().write_all(b"bind\n").unwrap();
        said.push(program.line());
        drop(program.child.stdin.take());
        until("the program ends", || !is_alive(inner));
        ended(program.child);
        until("its watchdog ends with it", || watchdog.is_none_or(|number| !is_alive(number)));
        assert_eq!(watchdog.is_some(), killed);
    }
    assert!(said[0].starts_with("bound bound bound bound bound bound "), "{said:?}");
    assert_eq!(said, vec![said[0].clone(); 3]);
});

inside!(what_a_program_may_not_bind_it_may_not_bind_measured_either, || {
    let Some(python) = python() else { return };
    let lab = Lab::new();
    // Rights given up before, addresses of others, a port in use, one bound twice, lengths and families that are none.
    let program = "
import ctypes, os, socket, struct
libc = ctypes.CDLL(None, use_errno=True)
def raw(s, address, length):
    ctypes.set_errno(0)
    return ctypes.get_errno() if libc.bind(s.fileno(), address, length) else 0
v4 = lambda port, ip='0.0.0.0', family=socket.AF_INET: struct.pack('=H', family) + struct.pack('!H', port) + socket.inet_aton(ip) + bytes(8)
udp = lambda family=socket.AF_INET: socket.socket(family, socket.SOCK_DGRAM)
said = [raw(udp(), v4(0, '192.0.2.77'), 16), raw(udp(), v4(0), 15), raw(udp(), v4(0, family=77), 16), raw(udp(), None, 16)]
said += [raw(udp(), v4(0, family=socket.AF_UNSPEC), 16), raw(udp(socket.AF_INET6), v4(0), 16), raw(udp(), v4(0) + bytes(12), 28)]
one = udp(); one.bind(('0.0.0.0', 0)); port = one.getsockname()[1]
said += [raw(udp(), v4(port), 16), raw(one, v4(0), 16), raw(udp(), v4(port, '127.0.0.1'), 16)]
share = [udp(), udp()]
for s in share: s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
share[0].bind(('0.0.0.0', 0)); said += [raw(share[1], v4(share[0].getsockname()[1]), 16)]
said += [raw(udp(), v4(52), 16)]
try:
    os.setuid(65534)
    said += [raw(udp(), v4(51), 16), raw(udp(), v4(0), 16)]
except OSError: said += [13, 0]
print(said)
";
    let words = [python, "-c".into(), program.into()];
    let [bare, measured] = [lab.bare(&words), lab.ours_with(&["--measure"], &words)].map(|ended| ended.out);
    assert!(bare.starts_with('[') && bare.contains("13, 0]"), "{bare}");
    assert_eq!(measured, bare);
});
