//! `headstart run --measure`: programs that are called from outside, each beside the same program without headstart.

use crate::lab::{Ended, HEADSTART, Lab, ended, inside, python, until};
use crate::processes::{children, measured_and_watchdog};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with, sockopt};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::{Child, ChildStdout};
use std::time::Duration;

/// Listens, says on which port, and answers callers in capital letters; of each it says who it is and where it has called.
const SERVES: &str = "
import socket, sys
host, port, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
v6 = ':' in host
s = socket.create_server((host, port), family=socket.AF_INET6 if v6 else socket.AF_INET, backlog=200, dualstack_ipv6=host == '::')
print(s.getsockname()[1], flush=True)
for _ in range(count):
    c, peer = s.accept()
    try:
        said = b''
        while part := c.recv(1000):
            said += part
        c.sendall(said.upper())
        print(peer[0], peer[1], c.getsockname()[0], len(said), flush=True)
    except OSError as e:
        print(type(e).__name__, flush=True)
    c.close()
s.close()
print('closed', flush=True)
sys.stdin.read()
";

/// A program that serves: with headstart or without.
struct Served {
    child: Child,
    out: BufReader<ChildStdout>,
    port: u16,
}

impl Served {
    fn begin(lab: &Lab, measured: bool, host: &str, port: u16, count: usize) -> Self {
        let python = python().unwrap();
        let program = [python.as_str(), "-c", SERVES, host, &port.to_string(), &count.to_string()].map(str::to_owned);
        let mut command = lab.command(if measured { HEADSTART } else { &python });
        if measured {
            command.args(["run", "--measure", "--via", "tun", "--flows"]).arg(lab.scratch.path("flows")).arg("--");
            command.args(&program);
        } else {
            command.args(&program[1..]);
        }
        command.stdin(std::process::Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let port = line_of(&mut out).parse().expect("a port");
        Self { child, out, port }
    }

    fn line(&mut self) -> String {
        line_of(&mut self.out)
    }

    /// Lets it end.
    fn end(mut self) -> Ended {
        drop(self.child.stdin.take());
        ended(self.child)
    }
}

pub fn line_of(out: &mut BufReader<ChildStdout>) -> String {
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    line.trim().to_owned()
}

/// The client's own addresses, as servers see them.
pub fn own(lab: &Lab) -> [IpAddr; 2] {
    let of = |any: &str, to: &str| {
        let socket = UdpSocket::bind((any, 0)).unwrap();
        socket.connect((to, 9)).unwrap();
        socket.local_addr().unwrap().ip()
    };
    lab.network.on_client(|| [of("0.0.0.0", "198.19.0.1"), of("::", "2001:db8:1::1")]).unwrap()
}

/// Says something to a service, and that it is all; who has said it, and what was answered.
fn call(to: SocketAddr) -> std::io::Result<(SocketAddr, String)> {
    let mut stream = TcpStream::connect_timeout(&to, Duration::from_secs(30))?;
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    stream.write_all(b"hello")?;
    stream.shutdown(Shutdown::Write)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok((stream.local_addr()?, answer))
}

/// What the program is to have said of a call.
fn said_of(caller: SocketAddr, called: IpAddr, mapped: bool) -> String {
    let written = |ip: IpAddr| if mapped && ip.is_ipv4() { format!("::ffff:{ip}") } else { ip.to_string() };
    format!("{} {} {} 5", written(caller.ip()), caller.port(), written(called))
}

fn flows(lab: &Lab) -> Vec<Value> {
    let text = fs::read_to_string(lab.scratch.path("flows")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

inside!(a_program_is_called_from_outside_and_sees_who_calls, || {
    if python().is_none() {
        return;
    }
    let lab = Lab::new();
    let own = own(&lab);
    // One that takes mapped addresses, one that does not, one of a privileged port, and one of a single address.
    let single = own[1].to_string();
    for (host, port, callees) in
        [("::", 0, vec![0, 1]), ("0.0.0.0", 0, vec![0]), ("0.0.0.0", 80, vec![0]), (&single, 0, vec![1])]
    {
        for measured in [false, true] {
            let mut served = Served::begin(&lab, measured, host, port, callees.len());
            assert!(port == 0 || served.port == port);
            for callee in &callees {
                let at = own[*callee];
                let (caller, answer) = lab.network.on_servers(|| call((at, served.port).into())).unwrap().unwrap();
                assert_eq!(answer, "HELLO");
                assert_eq!(served.line(), said_of(caller, at, host == "::"), "{host} {port} {measured}");
            }
            assert_eq!(served.line(), "closed");
            let at = SocketAddr::from((own[callees[0]], served.port));
            let refused = || lab.network.on_servers(|| call(at)).unwrap().is_err();
            until("the port is closed", refused);
            let ended = served.end();
            assert_eq!(ended.code, Some(0), "{ended:?}");
            if measured {
                let flows = flows(&lab);
                let of = |flow: &&Value| flow["event"] == "connection" && flow["end"] == "finished";
                let all: Vec<&Value> = flows.iter().filter(of).collect();
                assert_eq!(all.len(), callees.len(), "{flows:?}");
                for flow in all {
                    assert_eq!((&flow["accepted"], &flow["connect_ms"]), (&true.into(), &Value::Null), "{flow}");
                    assert_eq!((&flow["up_bytes"], &flow["down_bytes"]), (&5.into(), &5.into()), "{flow}");
                    assert!(flow["app"].as_str().unwrap().starts_with("python"), "{flow}");
                }
            }
        }
    }
});

inside!(a_hundred_callers_at_once_are_all_answered, || {
    if python().is_none() {
        return;
    }
    let lab = Lab::new();
    let at = own(&lab)[0];
    let mut served = Served::begin(&lab, true, "0.0.0.0", 0, 100);
    let to = SocketAddr::from((at, served.port));
    let answers = lab.network.on_servers(|| {
        let all: Vec<_> = (0..100).map(|_| std::thread::spawn(move || call(to))).collect();
        all.into_iter().map(|one| one.join().unwrap().unwrap().1).collect::<Vec<_>>()
    });
    assert_eq!(answers.unwrap(), vec!["HELLO"; 100]);
    (0..100).for_each(|_| assert!(served.line().ends_with(" 5")));
    assert_eq!(served.line(), "closed");
    assert_eq!(served.end().code, Some(0));
});

inside!(a_caller_that_resets_at_once_is_seen_as_without_headstart, || {
    if python().is_none() {
        return;
    }
    let lab = Lab::new();
    let own = own(&lab);
    let seen = [false, true].map(|measured| {
        let mut served = Served::begin(&lab, measured, "::", 0, 2);
        own.map(|at| {
            lab.network
                .on_servers(|| {
                    let stream = TcpStream::connect((at, served.port)).unwrap();
                    sockopt::set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
                })
                .unwrap();
            served.line()
        })
    });
    assert_eq!(seen[0], ["ConnectionResetError"; 2]);
    assert_eq!(seen[1], seen[0]);
});

inside!(a_port_that_is_taken_on_the_host_is_another_one_and_that_is_said_last, || {
    let Some(python) = python() else { return };
    let lab = Lab::new();
    let at = own(&lab)[0];
    // It is bound, and no service: nothing of it is offered inside.
    let (taken, port) = lab
        .network
        .on_client(|| {
            let socket = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
            rustix::net::bind(&socket, &SocketAddr::from(([0; 4], 0))).unwrap();
            let port = SocketAddr::try_from(rustix::net::getsockname(&socket).unwrap()).unwrap().port();
            (socket, port)
        })
        .unwrap();
    let mut served = Served::begin(&lab, true, "0.0.0.0", port, 1);
    assert_eq!(served.port, port);
    // The program does not know by which: the kernel does.
    let others: Vec<u16> = lab
        .network
        .on_client(|| {
            let all = fs::read_to_string("/proc/thread-self/net/tcp").unwrap();
            let listening = all.lines().filter(|line| line.split_whitespace().nth(3) == Some("0A"));
            let port = |line: &str| u16::from_str_radix(line.split_whitespace().nth(1)?.split_once(':')?.1, 16).ok();
            listening.filter_map(port).collect()
        })
        .unwrap();
    let reached = others.iter().find_map(|other| {
        let answer = lab.network.on_servers(|| call((at, *other).into())).unwrap().ok()?;
        Some((*other, answer.1))
    });
    let (other, answer) = reached.expect("it is reached");
    assert_eq!((answer.as_str(), served.line().ends_with(" 5")), ("HELLO", true));
    let ended = served.end();
    let last = ended.err.trim().lines().last().unwrap_or_default().to_owned();
    assert!(last.contains(&format!("0.0.0.0:{port} by port {other}")), "{ended:?}");
    drop(taken);
    // Another program that has the port is in the way of this one, as it would be without headstart.
    let mut first = Served::begin(&lab, true, "0.0.0.0", 0, 1);
    let program = "import socket, sys\ntry: socket.create_server(('0.0.0.0', int(sys.argv[1])))\nexcept OSError as e: print(e.errno)";
    let words = [python, "-c".into(), program.into(), first.port.to_string()];
    let seen = [lab.bare(&words), lab.ours_with(&["--measure"], &words)].map(|ended| ended.out);
    assert_eq!(seen, [format!("{}\n", rustix::io::Errno::ADDRINUSE.raw_os_error()), seen[0].clone()]);
    lab.network.on_servers(|| call((at, first.port).into())).unwrap().unwrap();
    assert!(first.line().ends_with(" 5"));
});

inside!(callers_on_the_host_reach_what_listens_on_loopback_and_others_do_not, || {
    if python().is_none() {
        return;
    }
    let lab = Lab::new();
    let own = own(&lab);
    for (host, from_host, outside) in [
        ("127.0.0.1", vec!["127.0.0.1".parse().unwrap()], own[0]),
        ("::1", vec!["::1".parse().unwrap()], own[1]),
        ("::", vec!["127.0.0.1".parse().unwrap(), "::1".parse().unwrap(), own[0], own[1]], own[0]),
    ] {
        for measured in [false, true] {
            let mut served = Served::begin(&lab, measured, host, 0, from_host.len());
            if host != "::" {
                let refused = lab.network.on_servers(|| call((outside, served.port).into())).unwrap().unwrap_err();
                assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
            }
            for at in &from_host {
                let (caller, answer) = lab.network.on_client(|| call((*at, served.port).into())).unwrap().unwrap();
                assert_eq!((answer.as_str(), caller.ip()), ("HELLO", *at));
                // The port of a caller on the host is another.
                let (line, expected) = (served.line(), said_of(caller, *at, host == "::"));
                let but_for_port = |line: &str| {
                    line.split(' ').enumerate().filter(|(n, _)| *n != 1).map(|(_, w)| w.to_owned()).collect::<Vec<_>>()
                };
                assert_eq!(but_for_port(&line), but_for_port(&expected), "{host} {measured}");
            }
            assert_eq!(served.line(), "closed");
            served.end();
        }
    }
});

inside!(what_is_killed_leaves_no_port_behind, || {
    if python().is_none() {
        return;
    }
    let lab = Lab::new();
    for kill_headstart in [false, true] {
        let served = Served::begin(&lab, true, "0.0.0.0", 0, 1);
        let to = SocketAddr::from(([0; 4], served.port));
        let bind = || lab.network.on_client(|| TcpListener::bind(to)).unwrap();
        assert!(bind().is_err(), "it is the program's");
        let command = served.child.id();
        let forwarder = children(command)[0];
        let (program, _) = measured_and_watchdog(forwarder);
        let victims = if kill_headstart { vec![command, forwarder] } else { vec![program] };
        for pid in victims {
            kill_process(Pid::from_raw(pid as i32).unwrap(), Signal::KILL).unwrap();
        }
        until("the port is free", || bind().is_ok());
        if kill_headstart {
            // The program waits for callers without end: the test ends it.
            kill_process(Pid::from_raw(program as i32).unwrap(), Signal::KILL).unwrap();
        }
        served.end();
    }
});
