//! A socket of IPv6 under which a connection over IPv4 was put, and connections to addresses that were not asked for: what the program
//! sees of them, by every front end.

use crate::lab::{Lab, inside, python, site, until, world};
use headstart_core::time::Duration;
use headstart_lab::world::{Fate, Host};

/// Connects a socket of IPv6 to the first IPv6 address that it was told, in the way that its second argument names, and asks for a page.
/// What belongs to the socket, and to its number, must still be there afterwards.
const PROGRAM: &str = "import os, select, socket, sys
to = socket.getaddrinfo(sys.argv[1], 80 if sys.argv[2] == 'waits' else None, socket.AF_UNSPEC, socket.SOCK_STREAM)
to = [address[0] for family, _, _, _, address in to if family == socket.AF_INET6][0], 80
s = socket.socket(socket.AF_INET6, socket.SOCK_STREAM)
s.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
number, flags = s.fileno(), os.get_inheritable(s.fileno())
if sys.argv[2] == 'waits':
    s.connect(to)
else:
    s.setblocking(False)
    assert s.connect_ex(to) in (0, 115)
    set = select.epoll()
    set.register(s, select.EPOLLOUT)
    looks = (set.poll(0.3) or s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) and sys.exit('an error') for _ in range(200))
    assert any(looks)
    assert s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0
    assert not s.getblocking()
    s.setblocking(True)
assert (s.fileno(), os.get_inheritable(s.fileno())) == (number, flags)
assert s.getsockopt(socket.SOL_SOCKET, socket.SO_DOMAIN) == socket.AF_INET6
assert s.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) and s.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
print('peer', *s.getpeername()[:2])
print('own', s.getsockname()[0])
s.sendall(b'GET / HTTP/1.0\\r\\nHost: ' + sys.argv[1].encode() + b'\\r\\n\\r\\n')
print(s.makefile().read())
";

inside!(a_socket_of_ipv6_is_given_a_mapped_connection_where_ipv6_is_a_black_hole, || {
    let Some(python) = python() else { return };
    let mut world = world();
    site(&mut world, "www").v6[0].fate = Fate::BlackHole;
    let lab = Lab::of(&world);
    // The library alone hears nothing of what has become of a connect that did not wait.
    for (via, hows) in
        [("auto", &["waits", "does-not"][..]), ("preload", &["waits"]), ("seccomp", &["waits", "does-not"])]
    {
        for how in hows {
            let ours = lab.ours_with(&["--via", via], &[python.as_str(), "-c", PROGRAM, "www.lab.example", how]);
            assert!(ours.code == Some(0) && ours.out.contains("family: IPv4"), "{via}, {how}: {ours:?}");
            assert!(ours.out.contains("peer ::ffff:198.19.0.1 80"), "{via}, {how}: {ours:?}");
            assert!(ours.out.contains("own ::ffff:198.18."), "{via}, {how}: {ours:?}");
            let exchanged = ours.count("handed_over") + ours.count("handed_over_in_progress");
            assert_eq!(exchanged, 1, "{via}, {how}: {ours:?}");
        }
    }
});

inside!(a_socket_of_ipv6_that_is_for_ipv6_only_is_given_no_mapped_connection, || {
    let Some(python) = python() else { return };
    let mut world = world();
    site(&mut world, "www").v6[0].fate = Fate::Refuses;
    let lab = Lab::of(&world);
    let program =
        PROGRAM.replace("number, flags =", "s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)\nnumber, flags =");
    for via in ["auto", "preload", "seccomp"] {
        let ours = lab.ours_with(&["--via", via], &[python.as_str(), "-c", &program, "www.lab.example", "waits"]);
        assert!(ours.code == Some(1) && ours.err.contains("ConnectionRefusedError"), "{via}: {ours:?}");
    }
});

/// Begins many connects at once that do not wait, sees all of them end, and says how.
const MANY: &str = "import resource, select, socket, sys
many = 2000
resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
family, kind, proto, _, to = socket.getaddrinfo(sys.argv[1], 80, socket.AF_INET, socket.SOCK_STREAM)[0]
sockets, set = {}, select.epoll()
for _ in range(many):
    s = socket.socket(family, kind, proto)
    s.setblocking(False)
    assert s.connect_ex(to) in (0, 115)
    sockets[s.fileno()] = s
    set.register(s, select.EPOLLOUT)
open = 0
while sockets:
    for number, _ in set.poll():
        s = sockets.pop(number)
        open += s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0
        s.close()
print(open, 'open')
";

inside!(two_thousand_connects_at_once_open_a_tenth_more_at_most, || {
    let Some(python) = python() else { return };
    let most = rustix::process::getrlimit(rustix::process::Resource::Nofile).maximum;
    if most.is_some_and(|most| most < 2100) {
        return println!("skipped: a process may have {most:?} descriptors here, and this wants 2100");
    }
    for via in ["auto", "preload", "seccomp"] {
        let lab = Lab::new();
        let ours = lab.ours_with(&["--via", via], &[python.as_str(), "-c", MANY, "www.lab.example"]);
        assert!(ours.code == Some(0) && ours.out.trim() == "2000 open", "{via}: {ours:?}");
        let opened = || -> u64 { lab.network.accepted().values().map(|accepted| accepted.connections).sum() };
        // The server takes the last ones after the program has ended.
        until("all are taken", || opened() >= 2000);
        let opened = opened();
        println!("{via}: {opened} connections for 2000 connects");
        assert!((2000..=2200).contains(&opened), "{via}: {opened} connections: {ours:?}");
    }
});

/// Connects to its second argument without waiting, waits until it can write, and uses the connection without a look at SO_ERROR.
const NEVER_LOOKS: &str = "import select, socket, sys
host, to, how = sys.argv[1:]
socket.getaddrinfo(host, 80, socket.AF_UNSPEC, socket.SOCK_STREAM)
s = socket.socket(socket.AF_INET6, socket.SOCK_STREAM)
s.setblocking(False)
assert s.connect_ex((to, 80)) in (0, 115)
poll = select.poll()
poll.register(s, select.POLLOUT)
if not poll.poll(20_000):
    sys.exit('nothing within 20 s')
if how == 'peer':
    s.getpeername()
s.send(b'GET / HTTP/1.0\\r\\nHost: ' + host.encode() + b'\\r\\n\\r\\n')
s.setblocking(True)
print(s.makefile().readline().strip())
";

/// A lab whose site has two IPv6 addresses alone, the first of them made worse, and that one.
fn of_two(worse: impl FnOnce(&mut Host)) -> (Lab, String) {
    let mut world = world();
    let www = site(&mut world, "www");
    www.v4.clear();
    let mut other = www.v6[0].clone();
    other.addr = [0x2001, 0xdb8, 0x99, 0, 0, 0, 0, 1].into();
    worse(&mut www.v6[0]);
    let first = www.v6[0].addr.to_string();
    www.v6.push(other);
    (Lab::of(&world), first)
}

inside!(a_program_that_never_looks_at_its_attempt_keeps_one_that_is_only_slow, || {
    let Some(python) = python() else { return };
    let (lab, slow) = of_two(|first| first.extra_rtt = Duration::from_millis(900));
    for how in ["write", "peer"] {
        let words = [python.as_str(), "-c", NEVER_LOOKS, "www.lab.example", &slow, how];
        let bare = lab.bare(&words);
        assert!(bare.code == Some(0) && bare.out.contains("200"), "{bare:?}");
        for via in ["auto", "seccomp"] {
            let ours = lab.ours_with(&["--via", via], &words);
            assert_eq!((ours.code, &ours.out), (bare.code, &bare.out), "{via}, {how}: {ours:?}");
        }
    }
});

inside!(a_program_that_looks_by_getpeername_is_given_another_address_in_a_black_hole, || {
    let Some(python) = python() else { return };
    let (lab, hole) = of_two(|first| first.fate = Fate::BlackHole);
    for via in ["auto", "seccomp"] {
        let words = [python.as_str(), "-c", NEVER_LOOKS, "www.lab.example", &hole, "peer"];
        let ours = lab.ours_with(&["--via", via], &words);
        assert!(ours.code == Some(0) && ours.out.contains("200"), "{via}: {ours:?}");
    }
});

/// Looks a name up once and says of each of its addresses where a connect to it leads.
const CHECKS_EACH: &str = "import socket, sys
found = socket.getaddrinfo(sys.argv[1], 80, socket.AF_UNSPEC, socket.SOCK_STREAM)
said = []
for family, kind, proto, _, to in found + found:
    with socket.socket(family, kind, proto) as s:
        try:
            s.connect(to)
            said.append(to[0] + ' ' + s.getpeername()[0])
        except OSError as e:
            said.append(to[0] + ' ' + str(e))
print(sorted(said))
";

inside!(a_program_that_checks_each_address_of_a_name_is_told_which_is_dead, || {
    let Some(python) = python() else { return };
    // The first of the list is what the program may reach by any address; it goes to the others by its own will.
    let mut world = world();
    let www = site(&mut world, "www");
    let mut dead = www.v4[0].clone();
    dead.addr = [198, 19, 0, 99].into();
    dead.fate = Fate::Refuses;
    www.v4.push(dead);
    let lab = Lab::of(&world);
    let words = [python.as_str(), "-c", CHECKS_EACH, "www.lab.example"];
    let bare = lab.bare(&words);
    assert!(bare.code == Some(0) && bare.out.contains("198.19.0.99 [Errno 111]"), "{bare:?}");
    for via in ["auto", "preload", "seccomp"] {
        let ours = lab.ours_with(&["--via", via], &words);
        assert_eq!((ours.code, &ours.out), (bare.code, &bare.out), "{via}: {ours:?}");
    }
});
