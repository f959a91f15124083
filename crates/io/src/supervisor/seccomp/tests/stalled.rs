//! Attempts that stall: a program connects to an address that never answers, of a name that has another.

use super::*;

/// Connects to an address that never answers, of a name that has another.
const STALL: &str = r#"
DEAD = "127.0.0.9"
def stall():
    s = tcp()
    s.setblocking(False)
    return s, inode(s), connect(s, (DEAD, PORT))
def error(s): return s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
"#;

/// A server at `addr` whose queue is full, so that connects to it are not answered.
fn full(addr: SocketAddr) -> Vec<OwnedFd> {
    let listener = TcpListener::bind(addr).unwrap();
    rustix::net::listen(&listener, 0).unwrap();
    let mut held = vec![listener.into()];
    loop {
        let filler = crate::tcp::begin(addr, Family::V4).unwrap();
        let mut ready = [PollFd::new(&filler, PollFlags::OUT)];
        let patience = Timespec { tv_sec: 0, tv_nsec: 300_000_000 };
        let connected = poll(&mut ready, Some(&patience)).unwrap() == 1;
        held.push(filler);
        if !connected {
            return held;
        }
    }
}

fn stalled(script: &str) -> Option<Outcome> {
    let mut visit = Visit::new()?;
    let dead = IpAddr::from([127, 0, 0, 9]);
    visit.told = vec![dead, LOCALHOST];
    let _full = full(SocketAddr::new(dead, visit.port()));
    Some(visit.of(&format!("{STALL}{script}")))
}

#[test]
fn an_attempt_that_stalls_is_exchanged_when_its_program_looks() {
    let Some(outcome) = stalled(
        r#"
s, before, begun = stall()
s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
say(*begun)
say(select.select([], [s], [], 60)[1] == [s], error(s), inode(s) != before, s.getpeername() == ("127.0.0.1", PORT))
s.settimeout(60)
say(hello(s), s.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
"#,
    ) else {
        return;
    };
    assert_eq!(outcome.said, "own EINPROGRESS\nTrue 0 True True\nTrue 1");
    assert!(outcome.tally.handed_over >= 1, "{:?}", outcome.tally);
}

#[test]
fn a_stalled_socket_keeps_its_place_in_epoll_sets_of_every_kind() {
    let Some(outcome) = stalled(
        r#"
for flags in (0, select.EPOLLET, select.EPOLLONESHOT):
    s, before, begun = stall()
    e = select.epoll()
    e.register(s.fileno(), select.EPOLLIN | select.EPOLLOUT | flags)
    woken = e.poll(60)
    say(len(woken), error(s), inode(s) != before)
    e.modify(s.fileno(), select.EPOLLIN)
    s.sendall(b"x")
    say(e.poll(60) == [(s.fileno(), select.EPOLLIN)], s.recv(1))
"#,
    ) else {
        return;
    };
    assert_eq!(outcome.said, ["1 0 True\nTrue b'y'"; 3].join("\n"));
}

#[test]
fn a_program_that_connects_again_instead_of_looking_is_told_that_it_is_connected() {
    let Some(outcome) = stalled(
        r#"
s, before, begun = stall()
select.select([], [s], [], 60)
s.settimeout(60)
say(connect(s, (DEAD, PORT)), hello(s))
"#,
    ) else {
        return;
    };
    assert_eq!(outcome.said, "('exchanged', 'EISCONN') True");
}

#[test]
fn a_program_that_closes_its_stalled_socket_is_not_disturbed() {
    let Some(outcome) = stalled(
        r#"
s, before, begun = stall()
s.close()
r, w = os.pipe()
time.sleep(1)
s = tcp()
say(error(s), hello(s) if connect(s)[1] == "ok" else "failed")
os.write(w, b"x")
say(os.read(r, 1))
"#,
    ) else {
        return;
    };
    assert_eq!(outcome.said, "0 True\nb'x'");
}
