//! `headstart run --measure`: what a program may not notice of it, each beside the same program without: paths that die, services of the
//! host on loopback and its own addresses; and what is told of what it does over UDP and QUIC.

use crate::lab::{HEADSTART, Lab, found, inside, site, until};
use crate::schema::must_hold;
use headstart_lab::world::Fate;
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream, UdpSocket};
use std::process::Stdio;
use std::time::Duration;

/// The lines of one kind of `--flows` of a run.
fn lines(lab: &Lab, event: &str) -> Vec<Value> {
    let text = fs::read_to_string(lab.scratch.path("flows")).unwrap();
    text.lines().for_each(|line| must_hold("flows", line));
    let all = text.lines().map(|line| serde_json::from_str(line).unwrap());
    all.filter(|line: &Value| line["event"] == event).collect()
}

/// Connects, sets options, says and hears something, and then waits for what never comes: says by which error that ended, and after how
/// many seconds since it was left alone; and by how many seconds a sleep of this machine was too long meanwhile.
const LEFT_ALONE: &str = "
import errno, socket, sys, threading, time
late = 0
def sleeps():
    global late
    while True:
        began = time.monotonic()
        time.sleep(0.01)
        late = max(late, time.monotonic() - began - 0.01)
threading.Thread(target=sleeps, daemon=True).start()
how, port = sys.argv[1], int(sys.argv[2])
s = socket.create_connection(('198.19.0.1', port))
if how == 'user-timeout':
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 2000)
else:
    s.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in [(socket.TCP_KEEPIDLE, 1), (socket.TCP_KEEPINTVL, 1), (socket.TCP_KEEPCNT, 2)]:
        s.setsockopt(socket.IPPROTO_TCP, option, value)
s.sendall(b'x')
assert s.recv(1) == b'y'
assert s.recv(1) == b'z'
began = time.monotonic()
if how == 'user-timeout':
    time.sleep(1)
    began = time.monotonic()
    s.sendall(b'and nothing answers')
s.settimeout(60)
try:
    print('heard', s.recv(1), late)
except OSError as e:
    print(errno.errorcode.get(e.errno, type(e).__name__), time.monotonic() - began, late)
";

/// What [`LEFT_ALONE`] says over a path that goes silent, without us or measured.
fn left_alone(lab: &Lab, how: &str, measured: bool) -> (String, f64, f64) {
    let python = crate::lab::python().unwrap();
    let listener = lab.network.on_servers(|| TcpListener::bind(("198.19.0.1", 0)).unwrap()).unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    // All that the servers say goes nowhere, without an error.
    let network = &lab.network;
    let silence = |verb: &str| {
        let words = ["-4", "rule", verb, "to", "198.18.0.0/16", "blackhole", "pref", "1"];
        assert!(network.server_command("ip").unwrap().args(words).status().unwrap().success());
    };
    let ended = std::thread::scope(|scope| {
        let server = scope.spawn(|| {
            let (mut stream, _) = listener.accept().unwrap();
            stream.read_exact(&mut [0]).unwrap();
            stream.write_all(b"y").unwrap();
            stream.write_all(b"z").unwrap();
            // Until the client has it: what is not acknowledged would be said again when the path is there again.
            while headstart_io::sys::stream::unacknowledged(&stream) != Some(0) {
                std::thread::yield_now();
            }
            silence("add");
            stream
        });
        let words = [python.as_str(), "-c", LEFT_ALONE, how, &port];
        let ended = if measured { lab.ours_with(&["--measure"], &words) } else { lab.bare(&words) };
        // It stays open until the client has given up, of which it hears nothing.
        drop(server.join().unwrap());
        silence("del");
        ended
    });
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let [error, took, late] = ended.out.trim().splitn(3, ' ').collect::<Vec<_>>()[..] else { panic!("{ended:?}") };
    println!("{how}, measured: {measured}: {error} after {took} s; sleeps were up to {late} s too long");
    (error.to_owned(), took.parse().unwrap(), late.parse().unwrap())
}

inside!(a_path_that_dies_ends_a_connection_by_the_programs_own_patience, || {
    let (Some(_), Some(_)) = (crate::lab::python(), found("ip", "iproute2")) else { return };
    let lab = Lab::new();
    for how in ["user-timeout", "keep-alive"] {
        let (bare, bare_took, _) = left_alone(&lab, how, false);
        let (measured, took, late) = left_alone(&lab, how, true);
        assert_eq!((bare.as_str(), measured.as_str()), ("ETIMEDOUT", "ETIMEDOUT"), "{how}");
        // Seconds that the program has asked for; a keep-alive counts from what it heard last, and by ticks.
        assert!(bare_took >= 1.9 && took >= 1.9, "{how}: {bare_took} and {took}");
        // A second of the kernel's clock for keep-alive and one more, and where the machine is slow, as many times longer as it is.
        assert!(took <= bare_took + 2.0 + 20.0 * late, "{how}: {bare_took} and {took}, {late} late");
    }
});

/// Begins two connections to where nothing answers, on these ports, and gives up the first; ends when its standard input does.
const GIVES_UP: &str = "
import socket, sys
def begin(port):
    s = socket.socket()
    s.setblocking(False)
    s.connect_ex(('198.19.3.1', port))
    return s
one, other = begin(1111), begin(2222)
sys.stdin.readline()
one.close()
sys.stdin.read()
";

inside!(a_connection_that_a_program_gives_up_is_given_up_outside_and_the_other_one_is_not, || {
    let (Some(python), Some(_)) = (crate::lab::python(), found("ip", "iproute2")) else { return };
    let mut world = crate::lab::world();
    let mut hole = site(&mut world, "www").clone();
    (hole.v4[0].addr, hole.v4[0].fate) = ([198, 19, 3, 1].into(), Fate::BlackHole);
    (hole.name, hole.v6) = ("silent.lab.example".into(), Vec::new());
    world.sites.push(hole);
    let lab = Lab::of(&world);
    let mut ours = lab.command(HEADSTART);
    ours.args(["run", "--measure", "--", &python, "-c", GIVES_UP]);
    let mut ours = ours.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    // Those that the host has begun, by their port: state 02 of /proc/net/tcp is SYN_SENT.
    let begun = || {
        let table = lab.command("cat").arg("/proc/net/tcp").output().unwrap();
        let table = String::from_utf8(table.stdout).unwrap();
        [":0457 02 ", ":08AE 02 "].map(|end| table.contains(end))
    };
    // Whose the first is, is known when the second has begun.
    until("both have begun", || begun() == [true, true]);
    let mut stdin = ours.stdin.take().unwrap();
    stdin.write_all(b"\n").unwrap();
    until("the first one has ended", || begun() == [false, true]);
    drop(stdin);
    assert!(ours.wait().unwrap().success());
});

/// Asks, and when told says more, which it need not be able to; then waits until the connection is over, and only then hears all there is: says
/// how many bytes, and how that ended.
const HEARS_LATE: &str = "
import errno, os, select, socket, sys
s = socket.create_connection(('198.19.0.1', int(sys.argv[1])))
s.sendall(b'question')
print(os.getppid(), flush=True)
sys.stdin.readline()
try:
    s.sendall(b'more')
except OSError:
    pass
print('said', flush=True)
over = select.poll()
over.register(s, 0)
over.poll(60000)
heard = 0
try:
    while chunk := s.recv(100000):
        heard += len(chunk)
    print(heard, 'end')
except OSError as e:
    print(heard, errno.errorcode[e.errno])
";

inside!(what_a_peer_says_before_it_resets_the_connection_is_heard_though_the_program_said_more, || {
    use rustix::process::{Pid, Signal, kill_process};
    let Some(python) = crate::lab::python() else { return };
    let lab = Lab::new();
    let listener = lab.network.on_servers(|| TcpListener::bind(("198.19.0.1", 0)).unwrap()).unwrap();
    let port = listener.local_addr().unwrap().port();
    for (ends, expected) in [(false, "30000 ECONNRESET"), (true, "30000 end")] {
        let mut ours = lab.command(HEADSTART);
        ours.args(["run", "--measure", "--", &python, "-c", HEARS_LATE, &port.to_string()]);
        let mut ours = ours.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut out = BufReader::new(ours.stdout.take().unwrap()).lines().map(Result::unwrap);
        let (mut peer, _) = listener.accept().unwrap();
        peer.read_exact(&mut [0; 8]).unwrap();
        // What forwards finds all at once when it goes on: answer, reset, and what the program has said meanwhile.
        let forwarder = Pid::from_raw(out.next().unwrap().parse().unwrap()).unwrap();
        kill_process(forwarder, Signal::STOP).unwrap();
        peer.write_all(&[7; 30_000]).unwrap();
        if ends {
            peer.shutdown(Shutdown::Write).unwrap();
        }
        until("the host has the answer", || headstart_io::sys::stream::unacknowledged(&peer) == Some(0));
        rustix::net::sockopt::set_socket_linger(&peer, Some(Duration::ZERO)).unwrap();
        drop(peer);
        let table = || lab.command("cat").arg("/proc/net/tcp").output().unwrap().stdout;
        // 01 and 08 are ESTABLISHED and CLOSE_WAIT of net/tcp_states.h.
        let open = [format!(":{port:04X} 01 "), format!(":{port:04X} 08 ")];
        let is_open = || open.iter().any(|open| String::from_utf8_lossy(&table()).contains(open));
        until("the host has the reset", || !is_open());
        ours.stdin.take().unwrap().write_all(b"\n").unwrap();
        assert_eq!(out.next().unwrap(), "said");
        kill_process(forwarder, Signal::CONT).unwrap();
        assert_eq!(out.next().unwrap(), expected);
        assert!(ours.wait().unwrap().success());
    }
});

/// Connects from a port of its own choice, and from one that the kernel chose: says which.
const FROM_A_PORT: &str = "
import socket, sys
for port in 45678, 0:
    s = socket.socket()
    s.bind(('', port))
    s.connect(('198.19.0.1', int(sys.argv[1])))
    print(s.getsockname()[1])
";

inside!(a_peer_sees_the_port_that_the_program_has, || {
    let Some(python) = crate::lab::python() else { return };
    let lab = Lab::new();
    let listener = lab.network.on_servers(|| TcpListener::bind(("198.19.0.1", 0)).unwrap()).unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let (ended, seen) = std::thread::scope(|scope| {
        let server = scope.spawn(|| [(); 2].map(|()| listener.accept().unwrap().1.port()));
        let ended = lab.ours_with(&["--measure"], &[python.as_str(), "-c", FROM_A_PORT, &port]);
        (ended, server.join().unwrap())
    });
    let own: Vec<u16> = ended.out.lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!((own.as_slice(), seen[0]), (&seen[..], 45678), "{ended:?}");
});

/// Wants short segments, says something, and tells what its socket has; ends with its input.
const OWN_OPTIONS: &str = "
import socket, sys
s = socket.socket()
s.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 500)
s.connect(('198.19.0.1', int(sys.argv[1])))
s.sendall(bytes(5000))
s.recv(1)
print(s.getsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG), flush=True)
sys.stdin.read()
";

inside!(segments_are_as_short_as_the_program_wants_them, || {
    let Some(python) = crate::lab::python() else { return };
    let lab = Lab::new();
    let listener = lab.network.on_servers(|| TcpListener::bind(("198.19.0.1", 0)).unwrap()).unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let words = [python.as_str(), "-c", OWN_OPTIONS, &port];
    let of = |wrapped: &[&str]| {
        let all = [wrapped, &words].concat();
        let mut command = lab.command(all[0]);
        let command = command.args(&all[1..]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let (mut stream, _) = listener.accept().unwrap();
        stream.read_exact(&mut [0; 5000]).unwrap();
        // TCP_MAXSEG of linux/tcp.h.
        let mss = headstart_io::sys::socket_option::get(&stream, (6, 2)).and_then(|mss| mss.int());
        stream.write_all(b"x").unwrap();
        let mut own = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut own).unwrap();
        drop(child.stdin.take());
        assert!(child.wait().unwrap().success());
        (mss, own)
    };
    let bare = of(&[]);
    assert_eq!(of(&[HEADSTART, "run", "--measure", "--"]), bare);
});

/// Asks what listens on this host: the addresses and ports are told by words, `tcp` or `udp` before each.
const ASK_HERE: &str = "
import socket, sys
for kind, ip, port in zip(*[iter(sys.argv[1:])] * 3):
    try:
        if kind == 'tcp':
            s = socket.create_connection((ip, int(port)), 30)
            s.sendall(b'question')
            s.shutdown(socket.SHUT_WR)
        else:
            s = socket.socket(socket.AF_INET6 if ':' in ip else socket.AF_INET, socket.SOCK_DGRAM)
            s.settimeout(30)
            s.connect((ip, int(port)))
            s.send(b'question')
        print(kind, s.recv(100), s.getsockname()[0] == ip or ip == '127.0.0.53')
    except OSError as e:
        print(kind, type(e).__name__)
own = socket.create_server(('127.0.0.1', 0))
client = socket.create_connection(own.getsockname())
print('own', own.accept()[1] == client.getsockname())
";

inside!(services_on_loopback_and_on_the_hosts_own_addresses_are_there, || {
    let Some(python) = crate::lab::python() else { return };
    let lab = Lab::new();
    let own = lab.bare(&[
        python.as_str(),
        "-c",
        "import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.connect(('198.19.0.1', 9)); print(s.getsockname()[0])",
    ]);
    let own = own.out.trim().to_owned();
    let (streams, datagrams) = lab
        .network
        .on_client(|| {
            let at = ["127.0.0.1:0", "[::1]:0", "0.0.0.0:0"];
            (at.map(|at| TcpListener::bind(at).unwrap()), UdpSocket::bind("127.0.0.53:53").unwrap())
        })
        .unwrap();
    let ports = streams.each_ref().map(|listener| listener.local_addr().unwrap().port().to_string());
    for listener in streams {
        std::thread::spawn(move || {
            for mut stream in listener.incoming().map_while(Result::ok) {
                let mut said = Vec::new();
                let _ = stream.read_to_end(&mut said).map(|_| stream.write_all(&said.repeat(2)));
            }
        });
    }
    std::thread::spawn(move || {
        let mut said = [0; 100];
        while let Ok((len, from)) = datagrams.recv_from(&mut said) {
            let _ = datagrams.send_to(&said[..len], from);
        }
    });
    let of =
        ["tcp", "127.0.0.1", &ports[0], "tcp", "::1", &ports[1], "tcp", &own, &ports[2], "udp", "127.0.0.53", "53"];
    let none = ["tcp", "127.0.0.1", "1", "udp", "127.0.0.1", "1"];
    let words = [&[python.as_str(), "-c", ASK_HERE][..], &of, &none].concat();
    let (bare, measured) = (lab.bare(&words), lab.ours_with(&["--measure"], &words));
    assert_eq!(bare.code, Some(0), "{bare:?}");
    assert!(bare.out.contains("tcp b'questionquestion' True") && bare.out.contains("udp b'question' True"), "{bare:?}");
    assert_eq!(measured.out, bare.out, "{measured:?}");
});

/// Sends 50 datagrams 4 ms apart and hears each again, and then one to a port where nothing listens.
const DATAGRAMS: &str = "
import socket, sys, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.connect(('198.19.0.1', int(sys.argv[1])))
for n in range(50):
    s.send(bytes(200))
    assert len(s.recv(1000)) == 200
silent = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
silent.connect(('198.19.0.1', 9))
silent.send(b'x')
try:
    silent.recv(1)
except ConnectionRefusedError:
    print('refused')
";

inside!(datagrams_are_measured_both_ways_with_what_the_network_says_of_them, || {
    let Some(python) = crate::lab::python() else { return };
    let lab = Lab::new();
    let echo = lab.network.on_servers(|| UdpSocket::bind("198.19.0.1:0").unwrap()).unwrap();
    let port = echo.local_addr().unwrap().port().to_string();
    std::thread::spawn(move || {
        let mut said = [0; 1000];
        while let Ok((len, from)) = echo.recv_from(&mut said) {
            let _ = echo.send_to(&said[..len], from);
        }
    });
    let file = lab.scratch.path("flows");
    let flags = ["--measure", "--flows", file.to_str().unwrap()];
    let ours = lab.ours_with(&flags, &[python.as_str(), "-c", DATAGRAMS, &port]);
    assert_eq!((ours.code, ours.out.trim()), (Some(0), "refused"), "{ours:?}");
    assert!(ours.err.contains("2 UDP flows") && ours.count("udp_flows") == 2, "{ours:?}");
    let flows = lines(&lab, "udp");
    let many = flows.iter().find(|line| line["up_packets"] == 50).unwrap_or_else(|| panic!("{flows:?}"));
    assert_eq!(
        (&many["down_packets"], &many["up_bytes"], &many["down_bytes"]),
        (&50.into(), &10_000.into(), &10_000.into())
    );
    assert!(many["app"].as_str().unwrap().starts_with("python") && many["pid"].is_number(), "{many}");
    // Two ways of 5 ms each between one and the next.
    assert!(many["down_gap_ms"].as_f64().unwrap() >= 9.0 && many["down_mbit_s"].as_f64().unwrap() > 0.0, "{many}");
    assert_eq!((&many["icmp_errors"], &many["quic"]), (&0.into(), &Value::Null));
    let one = flows.iter().find(|line| line["peer"] == "198.19.0.1:9").unwrap_or_else(|| panic!("{flows:?}"));
    assert_eq!((&one["icmp_errors"], &one["up_packets"], &one["down_packets"]), (&1.into(), &1.into(), &0.into()));
});

inside!(quic_is_told_with_its_version_and_the_round_trip_of_its_handshake, || {
    let lab = Lab::new();
    let folder = lab.scratch.path("pages");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("page"), vec![7; 300_000]).unwrap();
    let mut serve = lab.network.server_command(HEADSTART).unwrap();
    lab.scratch.set_home(&mut serve);
    serve.args(["serve", "--listen", "198.19.0.1:8443", "--json"]).arg(&folder).stderr(Stdio::null());
    let mut serve = serve.spawn().unwrap();
    let mut said = String::new();
    BufReader::new(serve.stdout.take().unwrap()).read_line(&mut said).unwrap();
    let file = lab.scratch.path("flows");
    let flags = ["--measure", "--flows", file.to_str().unwrap()];
    let words =
        [HEADSTART, "get", "--insecure", "--quiet", "--http", "3", "-o", "/dev/null", "https://198.19.0.1:8443/page"];
    let ours = lab.ours_with(&flags, &words);
    serve.kill().unwrap();
    serve.wait().unwrap();
    assert_eq!(ours.code, Some(0), "{said:?} {ours:?}");
    let flows = lines(&lab, "udp");
    let flow = flows.iter().find(|line| line["quic"].is_object()).unwrap_or_else(|| panic!("{flows:?} {ours:?}"));
    assert_eq!(flow["quic"]["version"], "0x00000001", "{flow}");
    assert!(flow["quic"]["handshake_ms"].as_f64().unwrap() >= 10.0, "{flow}");
    assert_eq!(flow["quic"]["connection"].as_str().unwrap().len(), 16, "{flow}");
    assert!(flow["down_bytes"].as_u64().unwrap() >= 300_000 && flow["down_mbit_s"].is_number(), "{flow}");
    assert!(ours.err.contains("of QUIC, handshake"), "{ours:?}");
});

/// Sends so many bytes at once, and again after a pause, and hears that all of it has come.
const UPLOAD: &str = "
import socket, sys, time
s = socket.create_connection(('198.19.0.1', int(sys.argv[1])))
for pause in (1, 0):
    s.sendall(bytes(1_000_000))
    assert s.recv(1) == b'y'
    time.sleep(pause)
";

inside!(the_rate_of_an_upload_is_the_paths_and_not_that_of_the_programs_socket, || {
    let Some(python) = crate::lab::python() else { return };
    let mut world = crate::lab::world();
    world.link = "rate=20mbit,delay=5ms".into();
    let lab = Lab::of(&world);
    let listener = lab.network.on_servers(|| TcpListener::bind(("198.19.0.1", 0)).unwrap()).unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let mut part = vec![0; 1_000_000];
            while TcpStream::read_exact(&mut stream, &mut part).is_ok() {
                let _ = stream.write_all(b"y");
            }
        }
    });
    let file = lab.scratch.path("flows");
    let flags = ["--measure", "--flows", file.to_str().unwrap()];
    let ours = lab.ours_with(&flags, &[python.as_str(), "-c", UPLOAD, &port]);
    assert_eq!(ours.code, Some(0), "{ours:?}");
    let flow = lines(&lab, "connection").pop().unwrap_or_else(|| panic!("{ours:?}"));
    let rate = flow["up_mbit_s"].as_f64().unwrap_or_else(|| panic!("{flow}"));
    println!("{flow}");
    // The link carries 20 Mbit/s with headers; pauses of half the time would halve it, and the program's own socket takes hundreds.
    assert!(rate <= 20.0 && rate > 10.5, "{flow}");
});

/// Sends what must not be cut and is too long for the path until it is told so, over UDP and as requests for an echo; how often it was not.
const TOO_LONG: &str = "
import errno, socket, struct, time
IP_MTU_DISCOVER, IP_PMTUDISC_DO, IP_MTU = 10, 2, 14
def until_told(s, packet):
    s.setsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO)
    for n in range(600):
        try:
            s.send(packet)
        except OSError as e:
            return n, errno.errorcode[e.errno], s.getsockopt(socket.IPPROTO_IP, IP_MTU)
        time.sleep(0.05)
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.connect(('198.19.0.1', 9999))
print(until_told(s, bytes(1400)))
s = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
s.connect(('198.19.0.77', 0))
print(until_told(s, struct.pack('!BBHHH', 8, 0, 0xffff - 0x0800 - 7 - 1, 7, 1) + bytes(1392)))
";

inside!(what_is_too_long_for_the_path_and_must_not_be_cut_is_said_to_be_too_long, || {
    let (Some(python), Some(_)) = (crate::lab::python(), found("ip", "iproute2")) else { return };
    let lab = Lab::new();
    // The host knows that the path takes less than its interface does.
    let known = ["-c", "ip route change $(ip -4 route show default) mtu 1300"];
    assert!(lab.command("sh").args(known).status().unwrap().success());
    let words = [python.as_str(), "-c", TOO_LONG];
    let (bare, measured) = (lab.bare(&words), lab.ours_with(&["--measure"], &words));
    assert_eq!(bare.out, "(0, 'EMSGSIZE', 1300)\n(0, 'EMSGSIZE', 1300)\n", "{bare:?}");
    assert_eq!(measured.out, bare.out, "{measured:?}");
});

/// Sends a datagram to each destination, and says which error comes, from which host (if it is not this one) and about which datagram.
const ERRORS: &str = "
import select, socket, struct, sys
own = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
own.connect(('198.19.0.1', 9))
own = own.getsockname()[0]
for to in sys.argv[1:]:
    ip, port = to.split(':')
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.setsockopt(socket.IPPROTO_IP, 11, 1)
    s.sendto(b'hello payload', (ip, int(port)))
    poll = select.poll()
    poll.register(s, 0)
    assert poll.poll(60000), to
    data, control, _, about = s.recvmsg(100, 512, socket.MSG_ERRQUEUE)
    errno, origin, kind, code = struct.unpack('=IBBB', control[0][2][:7])
    by = socket.inet_ntoa(control[0][2][20:24])
    print(to, errno, origin, kind, code, 'own' if by == own else by, data, about)
";

inside!(errors_of_the_network_keep_their_codes_and_what_they_are_about, || {
    let (Some(python), Some(_), Some(nft)) = (crate::lab::python(), found("ip", "iproute2"), found("nft", "nftables"))
    else {
        return;
    };
    let lab = Lab::new();
    let rules = "add table ip t; add chain ip t in { type filter hook input priority 0; }; \
        add rule ip t in udp dport 1002 reject with icmp type prot-unreachable; \
        add rule ip t in udp dport 1009 reject with icmp type net-prohibited; \
        add rule ip t in udp dport 1010 reject with icmp type host-prohibited; \
        add rule ip t in udp dport 1013 reject with icmp type admin-prohibited";
    if !lab.network.server_command(nft.to_str().unwrap()).unwrap().arg(rules).status().unwrap().success() {
        println!("skipped: this kernel's nftables cannot refuse");
        return;
    }
    // The peer says each as often as it is asked (icmp(7)).
    let often = "echo 0 > /proc/sys/net/ipv4/icmp_ratelimit";
    assert!(lab.network.server_command("sh").unwrap().args(["-c", often]).status().unwrap().success());
    // A neighbour that is not there: this host says so, by its own address.
    let silent = "ip route add 198.19.77.0/24 dev $(ip -4 route show default | sed 's/.* dev \\([^ ]*\\).*/\\1/')";
    assert!(lab.command("sh").args(["-c", silent]).status().unwrap().success());
    let to =
        ["198.19.0.1:9", "198.19.0.1:1002", "198.19.0.1:1009", "198.19.0.1:1010", "198.19.0.1:1013", "198.19.77.1:9"];
    let words = [&[python.as_str(), "-c", ERRORS][..], &to].concat();
    let (bare, measured) = (lab.bare(&words), lab.ours_with(&["--measure"], &words));
    assert_eq!((bare.code, bare.out.lines().count()), (Some(0), to.len()), "{bare:?}");
    assert_eq!(measured.out, bare.out, "{measured:?}");
});

/// Sends a datagram to a group and to all hosts.
const TO_MANY: &str = "
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
s.sendto(b'x', ('224.0.0.251', 5353))
s.sendto(b'x', ('224.0.0.251', 5353))
s.sendto(b'x', ('255.255.255.255', 9))
";

inside!(what_is_dropped_because_it_is_not_carried_is_told_in_the_end, || {
    let Some(python) = crate::lab::python() else { return };
    let lab = Lab::new();
    let ours = lab.ours_with(&["--measure"], &[python.as_str(), "-c", TO_MANY]);
    assert_eq!(ours.code, Some(0), "{ours:?}");
    assert!(ours.err.contains("does not carry it: 2 multicast datagrams, 1 broadcast datagram"), "{ours:?}");
    let quiet = lab.ours_with(&["--measure"], &["true"]);
    assert!(!quiet.err.contains("not carry"), "{quiet:?}");
});

/// Kills the process that forwards for it, and writes what connecting and sending give from then on into a file.
const FORWARDER_KILLED: &str = "
import errno, os, signal, socket, sys, time
forwarder = os.getppid()
os.kill(forwarder, signal.SIGKILL)
# Of its threads the last closes the interface, which may be after the others have ended, and with them the process for its children.
while os.getppid() == forwarder or any('lo:' not in line for line in open('/proc/net/dev').readlines()[2:]):
    time.sleep(0.01)
def says(what):
    try:
        what()
        return 'none'
    except OSError as e:
        return errno.errorcode.get(e.errno, type(e).__name__)
datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
said = says(lambda: socket.create_connection(('198.19.0.1', 80), 60)), says(lambda: datagrams.sendto(b'x', ('198.19.0.1', 9)))
with open(sys.argv[1] + '.new', 'w') as file:
    print(*said, file=file)
os.rename(sys.argv[1] + '.new', sys.argv[1])
";

inside!(a_program_whose_forwarder_is_killed_has_no_network_and_is_told_at_once, || {
    let Some(python) = crate::lab::python() else { return };
    let lab = Lab::new();
    let file = lab.scratch.path("said");
    let words = ["run", "--measure", "--", &python, "-c", FORWARDER_KILLED, file.to_str().unwrap()];
    let ended = lab.command(HEADSTART).args(words).output().unwrap();
    assert_eq!(ended.status.code(), Some(128 + 9), "{ended:?}");
    until("the program has said it", || file.exists());
    assert_eq!(fs::read_to_string(file).unwrap(), "ENETUNREACH ENETUNREACH\n");
});

/// Makes an interface whose packets have a header before them of another length than usual, and has it forwarded: says what that ends with.
const WITH_HEADERS: &str = "
import fcntl, os, struct, subprocess, sys
TUNSETIFF, TUNSETVNETHDRSZ, IFF_TUN, IFF_NO_PI, IFF_VNET_HDR = 0x400454ca, 0x400454d8, 1, 0x1000, 0x4000
fd = os.open('/dev/net/tun', os.O_RDWR)
fcntl.ioctl(fd, TUNSETIFF, struct.pack('16sH22x', b'', IFF_TUN | IFF_NO_PI | IFF_VNET_HDR))
fcntl.ioctl(fd, TUNSETVNETHDRSZ, struct.pack('i', 12))
ended = subprocess.run([sys.argv[1], 'forward', '--tun-fd', str(fd)], pass_fds=[fd], stderr=subprocess.PIPE)
print(ended.returncode, ended.stderr.decode().strip())
";

inside!(an_interface_with_headers_before_its_packets_is_refused_with_the_reason, || {
    let Some(python) = crate::lab::python() else { return };
    let lab = Lab::new();
    let ended = lab.bare(&[python.as_str(), "-c", WITH_HEADERS, HEADSTART]);
    assert!(ended.out.starts_with("2 ") && ended.out.contains("is not 10 bytes long"), "{ended:?}");
});
