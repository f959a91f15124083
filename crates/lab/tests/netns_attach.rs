//! `lab attach`: a link in the way of an interface that is there, which is as it was when the link has gone.
//!
//! The link is put there by a process of its own, this program again, so that it can be killed.
#![forbid(unsafe_code)]

use headstart_core::time::Duration;
use headstart_io::clock::Clock;
use headstart_io::forward::ebpf::{KernelError, Programs};
use headstart_io::sys::netlink::{Interface, LOOPBACK, Netlink, VethEnd};
use headstart_io::sys::netns::NetNs;
use headstart_lab::inside;
use headstart_lab::netns::{Request, Settings, Target, ask, attach};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};

const PID: &str = "HEADSTART_TEST_PID";
const LINK: &str = "HEADSTART_TEST_LINK";
const PORTS: &str = "HEADSTART_TEST_PORTS";
const HERE: [&str; 2] = ["192.0.2.1", "2001:db8::1"];
const THERE: [&str; 2] = ["192.0.2.2", "2001:db8::2"];

/// Not a test of its own: puts a link in the way of a process until its input ends.
#[test]
#[ignore = "started by the tests of lab attach"]
fn program_attach() {
    let Ok(pid) = std::env::var(PID) else { return };
    let target = Target { pid: pid.parse().unwrap(), interface: None, host: false };
    let settings = Settings { ports: Some(std::env::var(PORTS).unwrap().parse().unwrap()), ..Settings::default() };
    let command = ["sh", "-c", "echo; echo ready; exec cat"].map(Into::into);
    let status = attach(&target, &std::env::var(LINK).unwrap(), &command, &settings);
    std::process::exit(status.unwrap_or_else(|e| panic!("{e}")));
}

/// A process in a network of its own, joined by a veth to another network, where a server returns what it is sent.
struct Ground {
    here: NetNs,
    port: u16,
    inhabitant: Child,
}

impl Ground {
    fn new() -> Self {
        let (here, there) = (NetNs::create().unwrap(), NetNs::create().unwrap());
        let end = |ns, mac| VethEnd { name: "eth0", mac, ns };
        let (one, other) = (end(&here, [2, 0, 0, 0, 7, 1]), end(&there, [2, 0, 0, 0, 7, 2]));
        Netlink::open().unwrap().veth(one, other).unwrap();
        for (ns, addresses) in [(&here, HERE), (&there, THERE)] {
            ns.run(|| {
                let mut netlink = Netlink::open().unwrap();
                let index = netlink.index("eth0").unwrap();
                netlink.up(LOOPBACK).unwrap();
                netlink.up(index).unwrap();
                for (address, prefix) in addresses.into_iter().zip([24, 64]) {
                    netlink.address(index, address.parse().unwrap(), prefix).unwrap();
                }
            })
            .unwrap();
        }
        let server = there.run(|| TcpListener::bind("[::]:0").unwrap()).unwrap();
        let port = server.local_addr().unwrap().port();
        std::thread::spawn(move || {
            for client in server.incoming() {
                let (mut client, mut all) = (client.unwrap(), Vec::new());
                let _ = client.read_to_end(&mut all);
                let _ = client.write_all(&all);
            }
        });
        let mut cat = Command::new("cat");
        here.adopt(&mut cat).unwrap();
        let inhabitant = cat.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        Self { here, port, inhabitant }
    }

    /// Starts `program_attach` and waits until its link is in the way.
    fn attach(&self, link: &str, ports: &str) -> Child {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["program_attach", "--exact", "--include-ignored", "--nocapture", "--test-threads=1"]);
        command.env(PID, self.inhabitant.id().to_string()).env(LINK, link).env(PORTS, ports);
        let mut attached = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let said = BufReader::new(attached.stdout.take().unwrap());
        assert!(said.lines().any(|line| line.unwrap() == "ready"), "it has ended");
        attached
    }

    fn connect(&self, family: usize, within: Duration) -> std::io::Result<TcpStream> {
        let to = SocketAddr::new(THERE[family].parse::<IpAddr>().unwrap(), self.port);
        self.here.run(|| TcpStream::connect_timeout(&to, within)).unwrap()
    }

    /// How long a connection takes to be made, and how long `bytes` take to the server and back, unharmed.
    fn echo(&self, family: usize, bytes: usize) -> [Duration; 2] {
        let clock = Clock::new();
        let began = clock.now();
        let mut stream = self.connect(family, Duration::from_secs(60)).unwrap();
        let connected = clock.now();
        let sent: Vec<u8> = (0..bytes).map(|n| (n / 7) as u8).collect();
        stream.write_all(&sent).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut received = Vec::new();
        stream.read_to_end(&mut received).unwrap();
        assert!(received == sent, "{} of {bytes} bytes came back", received.len());
        [connected - began, clock.now() - connected]
    }

    fn interfaces(&self) -> Vec<Interface> {
        self.here.run(|| Netlink::open().unwrap().interfaces().unwrap()).unwrap()
    }

    /// The kernel clears up a namespace after its last process has ended.
    fn wait_until_it_is(&self, before: &[Interface]) {
        let clock = Clock::new();
        let limit = clock.now() + Duration::from_secs(60);
        while self.interfaces() != before {
            assert!(clock.now() < limit, "{:?}", self.interfaces());
            clock.sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        drop(self.inhabitant.stdin.take());
        let _ = self.inhabitant.wait();
    }
}

/// Whether this process may load programs into the kernel, which takes more than a user namespace.
fn permitted() -> bool {
    let denied = Programs::load().err().filter(KernelError::is_not_permitted);
    if let Some(why) = &denied {
        eprintln!("skipped: {why}");
    }
    denied.is_none()
}

inside!(a_link_is_in_the_way_while_it_is_attached_and_then_all_is_as_before, || {
    if !permitted() {
        return;
    }
    let ground = Ground::new();
    let before = ground.interfaces();
    // 100 kB each way at 4 Mbit/s take 400 ms, headers not counted.
    let mut attached = ground.attach("rate=4mbit,delay=50ms", "single-packets");
    assert_eq!(ground.interfaces().len(), before.len() + 2);
    for family in 0..2 {
        let [connecting, there_and_back] = ground.echo(family, 100_000);
        assert!(connecting >= Duration::from_millis(100), "{connecting:?}");
        assert!(there_and_back >= Duration::from_millis(400 + 100), "{there_and_back:?}");
    }
    let pid = ground.inhabitant.id();
    let changed = ask(Some(pid), &Request::Set("delay=150ms;delay=200ms".into())).unwrap();
    assert!(changed.contains("delay=constant:150ms") && changed.contains("delay=constant:200ms"), "{changed}");
    assert!(ground.echo(0, 1)[0] >= Duration::from_millis(350));
    let again = Target { pid, interface: None, host: false };
    let why = attach(&again, "lte", &["true".into()], &Settings::default()).unwrap_err().to_string();
    assert!(why.contains("end that `lab attach` first"), "{why}");
    // What nothing can pass shows that it has gone.
    ask(Some(pid), &Request::Set("delay=0ms,loss=100%".into())).unwrap();
    assert!(ground.connect(0, Duration::from_millis(500)).is_err());
    drop(attached.stdin.take());
    assert!(attached.wait().unwrap().success());
    ground.echo(0, 100_000);
    ground.echo(1, 100_000);
    ground.wait_until_it_is(&before);
    let why = ask(Some(pid), &Request::Show).unwrap_err().to_string();
    assert!(why.contains("no `lab attach` is at its network"), "{why}");
});

inside!(kill_minus_nine_takes_the_link_away, || {
    if !permitted() {
        return;
    }
    let ground = Ground::new();
    let before = ground.interfaces();
    for ports in ["single-packets", "super-packets"] {
        let mut attached = ground.attach("rate=800mbit,delay=10ms", ports);
        let [connecting, there_and_back] = ground.echo(0, 3_000_000);
        assert!(connecting >= Duration::from_millis(20), "{connecting:?}");
        assert!(there_and_back >= Duration::from_millis(2 * 30 + 20), "{ports}: {there_and_back:?}");
        ask(Some(ground.inhabitant.id()), &Request::Set("loss=100%".into())).unwrap();
        assert!(ground.connect(1, Duration::from_millis(500)).is_err());
        attached.kill().unwrap();
        attached.wait().unwrap();
        ground.echo(0, 3_000_000);
        ground.echo(1, 100_000);
        ground.wait_until_it_is(&before);
    }
});

inside!(what_no_link_can_be_put_in_the_way_of_is_refused, || {
    let why = |pid, interface: Option<&str>| {
        let target = Target { pid, interface: interface.map(str::to_owned), host: false };
        attach(&target, "lte", &["true".into()], &Settings::default()).unwrap_err().to_string()
    };
    let own = why(std::process::id(), None);
    assert!(own.contains("--host does that"), "{own}");
    let none = why(999_999_999, None);
    assert!(none.contains("no process 999999999"), "{none}");
    let (here, there) = (NetNs::create().unwrap(), NetNs::create().unwrap());
    let mut cat = Command::new("cat");
    here.adopt(&mut cat).unwrap();
    let mut cat = cat.stdin(Stdio::piped()).spawn().unwrap();
    let pid = cat.id();
    let alone = why(pid, None);
    assert!(alone.contains("no interface whose packets"), "{alone}");
    for (n, name) in [(1, "one"), (2, "two")] {
        let end = |ns, side| VethEnd { name, mac: [2, 0, 0, 0, side, n], ns };
        Netlink::open().unwrap().veth(end(&here, 1), end(&there, 2)).unwrap();
    }
    for (interface, wanted) in [
        ("one", "one is switched off"),
        ("lo", "lo has no Ethernet headers"),
        ("other", "no interface other in that network; it has lo, one, two"),
    ] {
        let said = why(pid, Some(interface));
        assert!(said.contains(wanted), "{said}");
    }
    let up = |name: &str| {
        let mut netlink = Netlink::open().unwrap();
        let index = netlink.index(name).unwrap();
        netlink.up(index).unwrap();
    };
    here.run(|| ["one", "two"].map(up)).unwrap();
    let which = why(pid, None);
    assert!(which.contains("one of one, two: name it by --interface"), "{which}");
    drop(cat.stdin.take());
    cat.wait().unwrap();
});
