//! Programs of others (bash) in a control group and a network namespace of the test's own, and what is told of them.
//!
//! Where the kernel does not let us, tests skip and say so.

mod beside;
mod churn;
mod mptcp;
mod served;

use super::{Programs, Watcher};
use crate::cgroup::Group;
use crate::clock::Clock;
use crate::forward::Attributed;
use crate::sys::netlink::{LOOPBACK, Netlink};
use crate::sys::netns::NetNs;
use headstart_core::forward::{Flow, FlowEnd, Record, Side, UdpFlow};
use headstart_core::time::Duration;
use std::cell::RefCell;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::process::{Command, Stdio};
use std::rc::Rc;

/// A namespace with loopback, and programs attached to a group.
struct Stage {
    group: Group,
    namespace: NetNs,
}

impl Stage {
    fn new() -> Option<(Self, Programs)> {
        let skip = |why: String| eprintln!("skipped: {why}");
        let group = Group::create().map_err(|e| skip(format!("control groups cannot be made here: {e}"))).ok()?;
        let programs = match Programs::attach(&group) {
            Ok(programs) => programs,
            // What is permitted must work, at least here where it is known to.
            Err(e) if e.is_not_permitted() => {
                skip(e.to_string());
                return None;
            }
            Err(e) => panic!("{e}"),
        };
        let namespace = NetNs::create().unwrap();
        namespace.run(|| Netlink::open().unwrap().up(LOOPBACK).unwrap()).unwrap();
        Some((Self { group, namespace }, programs))
    }

    /// What is reported of a script until it has ended, with its process, and records that were lost.
    fn run(&self, programs: Programs, script: &str) -> (Vec<Attributed>, i32, u64) {
        let told = Rc::new(RefCell::new(Vec::new()));
        let sink = Rc::clone(&told);
        let sink = Box::new(move |seen| sink.borrow_mut().push(seen));
        let mut watcher = Watcher::new(programs, Clock::new(), sink).unwrap();
        let mut command = Command::new("bash");
        command.args(["-c", script]).stdin(Stdio::null());
        self.group.adopt(&mut command).unwrap();
        self.namespace.adopt(&mut command).unwrap();
        let mut child = command.spawn().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        watcher.run(crate::process_end(pid).unwrap()).unwrap();
        assert!(child.wait().unwrap().success(), "{script}");
        let lost = watcher.lost().unwrap().iter().sum();
        drop(watcher);
        (Rc::try_unwrap(told).unwrap().into_inner(), pid, lost)
    }

    /// Serves in the namespace.
    fn listen(&self, at: &str, serve: fn(std::net::TcpStream)) -> SocketAddr {
        let listener = self.namespace.run(|| TcpListener::bind(at).unwrap()).unwrap();
        let to = listener.local_addr().unwrap();
        std::thread::spawn(move || listener.incoming().map_while(Result::ok).for_each(serve));
        to
    }
}

fn flows(seen: &[Attributed]) -> Vec<&Flow> {
    seen.iter().filter_map(|seen| if let Record::Flow(flow) = &seen.record { Some(&**flow) } else { None }).collect()
}

fn datagrams(seen: &[Attributed]) -> Vec<&UdpFlow> {
    seen.iter().filter_map(|seen| if let Record::Udp(flow) = &seen.record { Some(&**flow) } else { None }).collect()
}

/// Hears a thousand bytes, says two thousand, and waits for the end.
fn answers(mut stream: std::net::TcpStream) {
    let mut bytes = [0; 1000];
    if stream.read_exact(&mut bytes).is_ok() {
        let _ = stream.write_all(&[7; 2000]);
        let _ = stream.read(&mut bytes);
    }
}

#[test]
fn a_connection_is_told_with_the_unit_or_the_container_of_its_program() {
    let Some((stage, programs)) = Stage::new() else { return };
    let to = stage.listen("127.0.0.1:0", answers);
    let id = "0123456789abcdef".repeat(4);
    let pod = "kubepods-besteffort-pod1b2c3d4e_5f60_7182_93a4_b5c6d7e8f901.slice";
    let all = [
        (format!("docker-{id}.scope"), Some("docker:0123456789ab")),
        ("nginx.service".to_owned(), Some("nginx.service")),
        (pod.to_owned(), Some("kubernetes:1b2c3d4e-5f60-7182-93a4-b5c6d7e8f901")),
        (
            format!("{pod}/cri-containerd-{id}.scope"),
            Some("kubernetes:1b2c3d4e-5f60-7182-93a4-b5c6d7e8f901/0123456789ab"),
        ),
    ];
    let folders = all.each_ref().map(|(name, _)| stage.group.folder().join(name));
    folders.iter().for_each(|folder| std::fs::create_dir(folder).unwrap());
    let one = |folder: &std::path::PathBuf| {
        format!("echo $$ >{}/cgroup.procs; exec 3<>/dev/tcp/127.0.0.1/{}; exec 3>&-;", folder.display(), to.port())
    };
    let (seen, ..) = stage.run(programs, &folders.iter().map(one).collect::<String>());
    let group = |seen: &Attributed| seen.process.as_ref().and_then(|process| process.group.clone());
    let expected: Vec<_> = all.iter().map(|(_, group)| group.map(str::to_owned)).collect();
    // They are told as they end, which the peer's threads decide.
    let mut told: Vec<_> = flows(&seen).iter().zip(&seen).map(|(flow, seen)| (flow.asked, group(seen))).collect();
    told.sort_by_key(|(asked, _)| *asked);
    assert_eq!(told.into_iter().map(|(_, group)| group).collect::<Vec<_>>(), expected, "{seen:#?}");
    folders.iter().rev().for_each(|folder| std::fs::remove_dir(folder).unwrap());
}

#[test]
fn a_connection_is_told_with_its_owner_its_times_and_its_bytes_over_both_families() {
    let Some((stage, programs)) = Stage::new() else { return };
    // The peer ends first: a connection is over when the program has seen that and ends too, whenever the peer's thread runs.
    let serve = |mut stream: std::net::TcpStream| {
        stream.read_exact(&mut [0; 1000]).and_then(|()| stream.write_all(&[7; 2000])).unwrap();
    };
    let (four, six) = (stage.listen("127.0.0.1:0", serve), stage.listen("[::1]:0", serve));
    let one = |host: &str, port: u16| {
        format!("exec 3<>/dev/tcp/{host}/{port}; head -c 1000 /dev/zero >&3; cat <&3 >/dev/null; exec 3>&-;")
    };
    let script = [one("127.0.0.1", four.port()), one("::1", six.port()), one("::ffff:127.0.0.1", four.port())].concat();
    let (seen, pid, lost) = stage.run(programs, &script);
    let (told, all) = (flows(&seen), seen.len());
    assert_eq!((told.len(), all, lost), (3, 3, 0), "{seen:#?}");
    assert_eq!([four, six, four].map(Some), [0, 1, 2].map(|n| told.get(n).map(|flow| flow.peer)));
    for (flow, seen) in told.iter().zip(&seen) {
        let process = seen.process.as_ref().unwrap();
        assert_eq!((process.pid, process.name.as_str()), (pid, "bash"));
        assert!(seen.owner.is_some_and(|owner| owner.user == rustix::process::geteuid().as_raw()));
        assert_eq!((flow.up.bytes, flow.down.bytes, flow.end), (1000, 2000, FlowEnd::Finished), "{flow:#?}");
        let (connected, ended) = (flow.connected.unwrap(), flow.ended.unwrap());
        assert!(flow.asked <= connected && connected <= ended, "{flow:#?}");
        assert!(flow.handshake.is_some_and(|took| took > Duration::ZERO && took <= connected.since(flow.asked)));
        assert!(flow.facts.is_some_and(|facts| facts.rtt > Duration::ZERO && facts.retransmissions == 0), "{flow:#?}");
        assert!(flow.requests.count > 0 && flow.kernel_stats.as_ref().unwrap().round_trip(0.95).is_some(), "{flow:#?}");
        assert!(flow.app.ip().is_loopback() && flow.app.port() > 0);
    }
}

#[test]
fn an_answer_takes_what_the_peers_program_thinks_and_an_acknowledgement_does_not() {
    let Some((stage, programs)) = Stage::new() else { return };
    let thought = Duration::from_millis(300);
    let to = stage.listen("127.0.0.1:0", |mut stream| {
        let mut bytes = [0; 100];
        for _ in 0..2 {
            if stream.read_exact(&mut bytes).is_ok() {
                Clock::new().sleep(Duration::from_millis(300));
                // In two pieces: the second is no answer.
                let _ = stream.write_all(&[7; 100]);
                Clock::new().sleep(Duration::from_millis(20));
                let _ = stream.write_all(&[7; 100]);
            }
        }
        let _ = stream.read(&mut bytes);
    });
    let ask = "head -c 100 /dev/zero >&3; head -c 200 <&3 >/dev/null;";
    let script = format!("exec 3<>/dev/tcp/127.0.0.1/{}; {ask} {ask} exec 3>&-", to.port());
    let (seen, ..) = stage.run(programs, &script);
    let told = flows(&seen);
    let [flow] = told.as_slice() else { panic!("{seen:#?}") };
    let stats = flow.kernel_stats.as_ref().unwrap();
    assert_eq!((stats.answers.count, flow.requests.count), (2, 2), "{flow:#?}");
    assert!(stats.answers.total >= 2 * thought && stats.answers.longest >= thought, "{stats:?}");
    assert!(flow.requests.total < stats.answers.total, "acknowledged at once: {flow:#?}");
    // While the peer thought, nothing was on its way.
    let limits = stats.limits.unwrap();
    assert!(limits.application >= 2 * thought - Duration::from_millis(50), "{limits:?}");
}

#[test]
fn who_was_first_to_end_a_connection_is_told_of_ends_and_of_resets() {
    let Some((stage, programs)) = Stage::new() else { return };
    // Whoever hears a byte ends it, or has it reset: what was not read makes a reset of an end. The second connection is served
    // when the first is over at both ends.
    let ends = stage.listen("127.0.0.1:0", |mut stream| _ = stream.read(&mut [0]));
    let resets = stage.listen("127.0.0.1:0", |stream| {
        let mut first = [0];
        while stream.peek(&mut first).is_ok_and(|len| len == 0) {}
    });
    let script = format!(
        "exec 3<>/dev/tcp/127.0.0.1/{}; exec 3>&-; \
         exec 3<>/dev/tcp/127.0.0.1/{}; printf x >&3; head -c 1 <&3; exec 3>&-; \
         exec 3<>/dev/tcp/127.0.0.1/{}; printf x >&3; head -c 1 <&3; exec 3>&-; true",
        ends.port(),
        ends.port(),
        resets.port()
    );
    let (seen, ..) = stage.run(programs, &script);
    let closed = |flow: &&Flow| (flow.end, flow.kernel_stats.as_ref().unwrap().closed_by);
    assert_eq!(
        flows(&seen).iter().map(closed).collect::<Vec<_>>(),
        [
            (FlowEnd::Finished, Some(Side::Program)),
            (FlowEnd::Finished, Some(Side::Peer)),
            (FlowEnd::ResetByPeer, Some(Side::Peer)),
        ],
        "{seen:#?}"
    );
}

#[test]
fn a_peer_that_does_not_read_limits_and_what_waited_adds_up_to_the_whole_time() {
    let Some((stage, programs)) = Stage::new() else { return };
    let to = stage.listen("127.0.0.1:0", |mut stream| {
        // Soon full, however slow the machine is.
        rustix::net::sockopt::set_socket_recv_buffer_size(&stream, 64 * 1024).unwrap();
        Clock::new().sleep(Duration::from_millis(800));
        let _ = stream.read_exact(&mut vec![0; 10_000_000]);
        let _ = stream.write_all(b"x");
    });
    let script = format!(
        "exec 3<>/dev/tcp/127.0.0.1/{}; head -c 10000000 /dev/zero >&3; head -c 1 <&3 >/dev/null; exec 3>&-",
        to.port()
    );
    let (seen, ..) = stage.run(programs, &script);
    let told = flows(&seen);
    let [flow] = told.as_slice() else { panic!("{seen:#?}") };
    let stats = flow.kernel_stats.as_ref().unwrap();
    let limits = stats.limits.unwrap();
    assert!(limits.receiver >= Duration::from_millis(400), "{limits:?}");
    let all = limits.application + limits.network + limits.receiver + limits.buffer;
    let lasted = flow.ended.unwrap().since(flow.connected.unwrap());
    // The kernel counts in jiffies, ten milliseconds long at most.
    let off = all.abs_diff(lasted);
    assert!(off <= Duration::from_millis(40), "{all:?} of {lasted:?}");
    assert!(stats.delivery.is_some_and(|(bytes, took)| bytes > 0 && took > Duration::ZERO), "{stats:?}");
}

#[test]
fn a_failure_is_told_as_what_it_was_and_what_is_open_as_open() {
    let Some((stage, programs)) = Stage::new() else { return };
    let to = stage.listen("127.0.0.1:0", answers);
    let closed = stage.namespace.run(|| TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()).unwrap();
    // Nothing leads to the second one; the third is left open by a process that goes on.
    let script = format!(
        "(exec 3<>/dev/tcp/127.0.0.1/{}) 2>/dev/null; (exec 3<>/dev/tcp/192.0.2.1/80) 2>/dev/null; \
         exec 3<>/dev/tcp/127.0.0.1/{}; echo >&3; sleep 1000 & echo $! >&3; disown; exit 0",
        closed.port(),
        to.port()
    );
    let (seen, _, lost) = stage.run(programs, &script);
    let ends: Vec<_> = flows(&seen).iter().map(|flow| (flow.end, flow.connected.is_some())).collect();
    assert_eq!(
        (ends, lost),
        (vec![(FlowEnd::Refused, false), (FlowEnd::Failed, false), (FlowEnd::Open, true)], 0),
        "{seen:#?}"
    );
    let text = std::fs::read_to_string(stage.group.folder().join("cgroup.procs")).unwrap();
    for left in text.lines() {
        rustix::process::kill_process(
            rustix::process::Pid::from_raw(left.parse().unwrap()).unwrap(),
            rustix::process::Signal::KILL,
        )
        .unwrap();
    }
}

#[test]
fn datagrams_are_counted_and_lookups_are_timed() {
    let Some((stage, programs)) = Stage::new() else { return };
    let serve = |at: &str, answer: fn(&mut Vec<u8>)| {
        let socket = stage.namespace.run(|| UdpSocket::bind(at).unwrap()).unwrap();
        let port = socket.local_addr().unwrap().port();
        std::thread::spawn(move || {
            let mut bytes = vec![0; 2000];
            while let Ok((len, from)) = socket.recv_from(&mut bytes) {
                let mut said = bytes[..len].to_vec();
                answer(&mut said);
                if socket.send_to(&said, from).is_err() {
                    return;
                }
            }
        });
        port
    };
    serve("127.0.0.1:53", |query| query[2] |= 0x80);
    let port = serve("127.0.0.1:0", |said| said.extend([0; 100]));
    let query =
        "\\x12\\x34\\x01\\x00\\x00\\x01\\x00\\x00\\x00\\x00\\x00\\x00\\x03www\\x07example\\x00\\x00\\x01\\x00\\x01";
    let script = format!(
        "exec 3<>/dev/udp/127.0.0.1/53; printf '{query}' >&3; dd bs=2000 count=1 <&3 >/dev/null 2>&1; exec 3>&-; \
         exec 4<>/dev/udp/127.0.0.1/{port}; for n in 1 2 3; do printf 12345 >&4; dd bs=2000 count=1 <&4 >/dev/null 2>&1; done; \
         exec 4>&-"
    );
    let (seen, pid, lost) = stage.run(programs, &script);
    let (udp, all) = (datagrams(&seen), seen.len());
    assert_eq!((udp.len(), all, lost), (1, 2, 0), "{seen:#?}");
    assert_eq!((udp[0].up.packets, udp[0].up.bytes, udp[0].down.packets, udp[0].down.bytes), (3, 15, 3, 315));
    assert_eq!((udp[0].peer.port(), udp[0].up.gaps.count, &udp[0].quic), (port, 2, &None));
    let lookup = seen.iter().find_map(|seen| if let Record::Dns(of) = &seen.record { Some((of, seen)) } else { None });
    let (lookup, of) = lookup.unwrap_or_else(|| panic!("{seen:#?}"));
    assert_eq!((lookup.name.as_str(), lookup.server.port()), ("www.example", 53));
    assert!(lookup.took > Duration::ZERO && of.process.as_ref().is_some_and(|process| process.pid == pid));
}

#[test]
fn a_lookup_over_a_stream_is_timed_as_one_by_a_datagram() {
    let Some((stage, programs)) = Stage::new() else { return };
    stage.listen("127.0.0.1:53", |mut stream| {
        let mut query = [0; 33];
        while stream.read_exact(&mut query).is_ok() {
            query[4] |= 0x80;
            // In two segments.
            let _ = stream.set_nodelay(true);
            stream.write_all(&query[..9]).unwrap();
            stream.write_all(&query[9..]).unwrap();
        }
    });
    let query = |id: &str| {
        format!(
            "\\x12\\x{id}\\x01\\x00\\x00\\x01\\x00\\x00\\x00\\x00\\x00\\x00\\x03www\\x09example{id}\\x00\\x00\\x01\\x00\\x01"
        )
    };
    // The length by itself, as some programs send it.
    let one = |id: &str| format!("printf '\\x00\\x1f' >&3; printf '{}' >&3; head -c 33 <&3 >/dev/null;", query(id));
    let script = format!("exec 3<>/dev/tcp/127.0.0.1/53; {} {} exec 3>&-", one("41"), one("42"));
    let (seen, pid, lost) = stage.run(programs, &script);
    let dns: Vec<_> = seen
        .iter()
        .filter_map(|seen| if let Record::Dns(of) = &seen.record { Some((of, seen)) } else { None })
        .collect();
    let names: Vec<_> = dns.iter().map(|(of, _)| (of.name.as_str(), of.server.port())).collect();
    assert_eq!((names, lost), (vec![("www.example41", 53), ("www.example42", 53)], 0), "{seen:#?}");
    assert!(dns.iter().all(|(of, seen)| of.took > Duration::ZERO && seen.process.as_ref().unwrap().pid == pid));
    assert_eq!(flows(&seen).len(), 1, "and the connection is one as any");
}

#[test]
fn what_was_open_before_is_told_from_now_on_with_its_owner() {
    let Ok(group) = Group::create() else { return eprintln!("skipped: control groups cannot be made here") };
    let namespace = NetNs::create().unwrap();
    namespace.run(|| Netlink::open().unwrap().up(LOOPBACK).unwrap()).unwrap();
    let listener = namespace.run(|| TcpListener::bind("127.0.0.1:0").unwrap()).unwrap();
    let to = listener.local_addr().unwrap().port();
    let script = format!(
        "exec 3<>/dev/tcp/127.0.0.1/{to}; head -c 5000 /dev/zero >&3; head -c 7000 <&3 >/dev/null; echo opened; read -r; \
         head -c 1000 /dev/zero >&3; head -c 2000 <&3 >/dev/null; exec 3>&-; read -r"
    );
    let mut command = Command::new("bash");
    command.args(["-c", &script]).stdin(Stdio::piped()).stdout(Stdio::piped());
    group.adopt(&mut command).unwrap();
    namespace.adopt(&mut command).unwrap();
    let mut child = command.spawn().unwrap();
    let (mut far, _) = listener.accept().unwrap();
    far.read_exact(&mut [0; 5000]).unwrap();
    far.write_all(&[7; 7000]).unwrap();
    BufReader::new(child.stdout.take().unwrap()).lines().next().unwrap().unwrap();
    let mut programs = match Programs::attach(&group) {
        Ok(programs) => programs,
        Err(e) => {
            child.kill().unwrap();
            child.wait().unwrap();
            assert!(e.is_not_permitted(), "{e}");
            return eprintln!("skipped: {e}");
        }
    };
    namespace.run(|| programs.see_what_runs().unwrap()).unwrap();
    let (open, cost) = (programs.flows().unwrap(), programs.cost().unwrap());
    let told = Rc::new(RefCell::new(Vec::new()));
    let sink = Rc::clone(&told);
    let mut watcher = Watcher::new(programs, Clock::new(), Box::new(move |seen| sink.borrow_mut().push(seen))).unwrap();
    let mut keys = child.stdin.take().unwrap();
    keys.write_all(b"\n").unwrap();
    far.read_exact(&mut [0; 1000]).unwrap();
    far.write_all(&[7; 2000]).unwrap();
    assert_eq!(far.read(&mut [0; 10]).unwrap(), 0);
    let peer = far.local_addr().unwrap();
    drop(far);
    keys.write_all(b"\n").unwrap();
    let pid = i32::try_from(child.id()).unwrap();
    watcher.run(crate::process_end(pid).unwrap()).unwrap();
    child.wait().unwrap();
    assert!(cost.read().times > 0, "and it is counted what that has cost");
    drop(watcher);
    let seen = Rc::try_unwrap(told).unwrap().into_inner();
    // Others of this machine have connections too.
    assert!(open.len() >= headstart_core::forward::kernel::FLOW);
    let ours: Vec<_> =
        seen.iter().filter(|seen| matches!(&seen.record, Record::Flow(flow) if flow.peer == peer)).collect();
    let [ours] = ours.as_slice() else { panic!("{seen:#?}") };
    let Record::Flow(flow) = &ours.record else { panic!("{ours:#?}") };
    let process = ours.process.as_ref().unwrap();
    assert_eq!((process.pid, process.name.as_str()), (pid, "bash"));
    assert!(ours.owner.is_some_and(|owner| owner.user == rustix::process::geteuid().as_raw()));
    assert_eq!((flow.up.bytes, flow.down.bytes, flow.end), (1000, 2000, FlowEnd::Finished), "{flow:#?}");
    assert!(
        flow.kernel_stats.as_ref().is_some_and(|stats| stats.before && !stats.accepted) && flow.handshake.is_none()
    );
    assert!(flow.facts.is_some_and(|facts| facts.rtt > Duration::ZERO && facts.retransmissions == 0), "{flow:#?}");
}

/// For [`player`]: what to play.
const PLAY: &str = "HEADSTART_TEST_PLAY";
/// Where its socket is; it has a namespace of its own.
const PLAYS_AT: &str = "127.0.0.1:4444";

/// No test but a program for others: what bash cannot do.
#[test]
fn player() {
    let Ok(what) = std::env::var(PLAY) else { return };
    let socket = UdpSocket::bind(PLAYS_AT).unwrap();
    match what.as_str() {
        // It is sent something from many ends, and says nothing.
        "strangers" => {
            // All are kept, or two might get the same port.
            let all: Vec<_> = (0..500).map(|_| UdpSocket::bind("127.0.0.1:0").unwrap()).collect();
            all.iter().for_each(|stranger| _ = stranger.send_to(b"x", PLAYS_AT).unwrap());
        }
        // It fills the ring with lookups, and then speaks to more peers than the table has places.
        "flood" => {
            (0..8000).for_each(|_| _ = socket.send_to(&[0; 30], "127.0.0.1:53").unwrap());
            let peers = (0..18_000u16).map(|n| [127, 1, (n >> 8) as u8, n as u8]);
            peers.for_each(|ip| _ = socket.send_to(b"x", SocketAddr::from((ip, 9))).unwrap());
        }
        "served" => served::play(),
        _ if what.starts_with("mptcp") => mptcp::play(&what),
        // A connect that fails, and another one of the same socket.
        _ => {
            let (_, port) = what.split_once(' ').unwrap();
            let kind = (rustix::net::AddressFamily::INET, rustix::net::SocketType::STREAM);
            let socket = rustix::net::socket_with(kind.0, kind.1, rustix::net::SocketFlags::CLOEXEC, None).unwrap();
            assert!(rustix::net::connect(&socket, &SocketAddr::from(([192, 0, 2, 1], 80))).is_err());
            rustix::net::connect(&socket, &SocketAddr::from(([127, 0, 0, 1], port.parse().unwrap()))).unwrap();
        }
    }
}

/// A line for bash that has [`player`] play.
fn play(what: &str) -> String {
    let program = std::env::current_exe().unwrap();
    format!("{PLAY}='{what}' {} --exact forward::ebpf::tests::player >/dev/null", program.display())
}

#[test]
fn a_measurement_ends_though_others_of_the_group_go_on() {
    let Some((stage, programs)) = Stage::new() else { return };
    let to = stage.listen("127.0.0.1:0", answers);
    // One connection stays open, and lookups never stop; half a minute, in case that keeps it.
    let script = format!(
        "(exec 3<>/dev/tcp/127.0.0.1/{}; for ((n = 0; n < 600; n++)); do printf q >/dev/udp/127.0.0.1/53; sleep 0.05; done) \
         >/dev/null 2>&1 & disown; exit 0",
        to.port()
    );
    stage.run(programs, &script);
    let left = std::fs::read_to_string(stage.group.folder().join("cgroup.procs")).unwrap();
    assert!(!left.is_empty(), "it waited for what the program has left behind");
    for process in left.lines().filter_map(|line| rustix::process::Pid::from_raw(line.parse().ok()?)) {
        let _ = rustix::process::kill_process(process, rustix::process::Signal::KILL);
    }
}

#[test]
fn pauses_of_a_program_are_no_time_in_which_data_is_on_its_way_though_the_peer_is_on_this_host() {
    let Some((stage, programs)) = Stage::new() else { return };
    let to = stage.listen("127.0.0.1:0", |mut stream| _ = std::io::copy(&mut stream, &mut std::io::sink()));
    let script = format!(
        "exec 3<>/dev/tcp/127.0.0.1/{}; for n in 1 2 3 4; do dd if=/dev/zero bs=400000 count=1 2>/dev/null >&3; sleep 1; \
         done; exec 3>&-",
        to.port()
    );
    let (seen, ..) = stage.run(programs, &script);
    let told = flows(&seen);
    // What goes in less than 8 KiB at a time has no rate: so it is one write.
    assert!(told.len() == 1 && told[0].delivered.bytes >= 8192, "{told:#?}");
    // All but the four pauses, however slow the machine is; three, for a tick's sake.
    let lasted = told[0].ended.unwrap().since(told[0].connected.unwrap());
    assert!(told[0].delivered.took + Duration::from_secs(3) < lasted, "{told:#?}");
}

#[test]
fn of_peers_that_a_program_never_answers_some_are_told_and_the_others_counted() {
    let Some((stage, programs)) = Stage::new() else { return };
    let (seen, _, lost) = stage.run(programs, &play("strangers"));
    let unanswered = datagrams(&seen).into_iter().filter(|flow| flow.app == PLAYS_AT.parse().unwrap()).count();
    assert_eq!((unanswered, lost), (64, 500 - 64));
}

#[test]
fn what_the_ring_had_no_room_for_takes_no_place_for_ever() {
    let Some((stage, programs)) = Stage::new() else { return };
    let mut command = Command::new("bash");
    command.args(["-c", &play("flood")]).stdin(Stdio::null());
    stage.group.adopt(&mut command).unwrap();
    stage.namespace.adopt(&mut command).unwrap();
    assert!(command.status().unwrap().success());
    // The ring is emptied while the program runs, sooner or later.
    let script = "for ((n = 0; n < 20; n++)); do printf x >/dev/udp/127.0.0.1/9; sleep 0.1; done";
    let (seen, _, lost) = stage.run(programs, script);
    let told: Vec<_> = datagrams(&seen).iter().map(|flow| flow.peer.to_string()).collect();
    assert!(told.contains(&"127.0.0.1:9".to_owned()) && lost > 10_000, "{lost} lost, {} told", told.len());
}

#[test]
fn a_connect_that_failed_is_told_though_its_socket_connects_again() {
    let Some((stage, programs)) = Stage::new() else { return };
    let to = stage.listen("127.0.0.1:0", drop);
    let (seen, ..) = stage.run(programs, &play(&format!("again {}", to.port())));
    let told: Vec<_> = flows(&seen).iter().map(|flow| (flow.peer.port(), flow.connected.is_some())).collect();
    assert_eq!(told, [(80, false), (to.port(), true)], "{seen:#?}");
}
