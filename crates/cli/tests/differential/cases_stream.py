"""Cases: bytes over a connection."""

import array, fcntl, hashlib, os, select, socket, struct, tempfile, termios, threading, time
from client import Clock, case, tried, until, wait_for

SIOCOUTQ, SIOCATMARK = termios.TIOCOUTQ, 0x8905
ALL_BITS = select.POLLIN | select.POLLOUT | select.POLLPRI | select.POLLRDHUP


def read_all(stream):
    total = b""
    while chunk := stream.recv(1 << 18):
        total += chunk
    return total


@case(quick=True)
def echo(c):
    _, stream = c.to("echoes")
    stream.sendall(b"hello")
    return stream.recv(100)


@case()
def large_echo(c):
    _, stream = c.to("echoes")
    said = os.urandom(1 << 16) * 48
    threading.Thread(target=lambda: (stream.sendall(said), stream.shutdown(socket.SHUT_WR)), daemon=True).start()
    return hashlib.sha256(read_all(stream)).digest() == hashlib.sha256(said).digest()


@case()
def many_small_writes(c):
    peer, stream = c.to("reads")
    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for n in range(2000):
        stream.send(b"x" * (n % 50))
    stream.close()
    return peer.heard()


@case(quick=True)
def half_close(c):
    peer, stream = c.to("answers_at_the_end")
    stream.sendall(b"x" * 100000)
    stream.shutdown(socket.SHUT_WR)
    return tried(stream.send, b"x"), read_all(stream), peer.heard()


@case(quick=True)
def peer_closes_first(c):
    peer, stream = c.to("closes_first")
    first = stream.recv(10)
    found = wait_for(stream, ALL_BITS)
    stream.sendall(b"x" * 100000)
    stream.close()
    return first, found, peer.heard()


@case(quick=True)
def peek(c):
    peer, stream = c.to("sends", bytes=10, stay=True)
    return stream.recv(4, socket.MSG_PEEK), stream.recv(4, socket.MSG_PEEK), stream.recv(100)


@case(quick=True)
def wait_for_all(c):
    _, stream = c.to("echoes")
    stream.settimeout(None)
    stream.send(b"ab")
    threading.Timer(0.4, stream.send, [b"cdef"]).start()
    return stream.recv(6, socket.MSG_WAITALL)


@case(quick=True)
def do_not_wait(c):
    _, stream = c.to("stays")
    stream.settimeout(None)
    return tried(stream.recv, 1, socket.MSG_DONTWAIT), wait_for(stream, ALL_BITS, 0.2)


@case(quick=True)
def thrown_away(c):
    """MSG_TRUNC of TCP: bytes are counted, not copied."""
    _, stream = c.to("sends", bytes=600)
    until(lambda: unread(stream) == 600)
    buffer = bytearray(b"." * 300)
    return stream.recv_into(buffer, 300, socket.MSG_TRUNC), bytes(buffer[:3]), len(read_all(stream))


def unread(stream):
    value = array.array("i", [0])
    fcntl.ioctl(stream, termios.FIONREAD, value)
    return value[0]


def unsent(stream):
    value = array.array("i", [0])
    fcntl.ioctl(stream, SIOCOUTQ, value)
    return value[0]


@case(quick=True)
def bytes_that_wait(c):
    _, stream = c.to("sends", bytes=4321, stay=True)
    come = until(lambda: unread(stream) == 4321)
    stream.sendall(b"x" * 5000)
    return come, until(lambda: unsent(stream) == 0)


@case(quick=True)
def receive_timeout(c):
    _, stream = c.to("stays")
    stream.settimeout(None)
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", 0, 500000))
    clock = Clock()
    return tried(stream.recv, 1), clock.about(0.5)


@case(quick=True)
def low_water(c):
    """SO_RCVLOWAT: poll says nothing before there is as much."""
    _, stream = c.to("echoes")
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 10)
    stream.send(b"12345")
    few = wait_for(stream, select.POLLIN, 0.4)
    stream.send(b"67890")
    return few, wait_for(stream, select.POLLIN), stream.recv(100)


@case(quick=True)
def gathered(c):
    peer, stream = c.to("reads")
    sent = stream.sendmsg([b"a" * 10, b"", b"b" * 20])
    stream.send(b"c" * 5, socket.MSG_MORE)
    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)
    stream.send(b"d" * 5)
    stream.close()
    return sent, peer.heard()


@case(quick=True)
def from_a_file(c):
    peer, stream = c.to("reads")
    stream.settimeout(None)
    with tempfile.TemporaryFile() as file:
        file.write(b"f" * 300000)
        file.flush()
        sent = 0
        while sent < 300000:
            sent += os.sendfile(stream.fileno(), file.fileno(), sent, 300000 - sent)
    stream.close()
    return sent, peer.heard()


@case(quick=True)
def spliced(c):
    """Through a pipe, both ways."""
    peer, stream = c.to("echoes")
    stream.settimeout(None)
    out, into = os.pipe()
    os.write(into, b"s" * 3000)
    there = os.splice(out, stream.fileno(), 3000)
    back = 0
    while back < there:
        back += os.splice(stream.fileno(), into, 3000)
    return there, back, os.read(out, 4000) == b"s" * 3000


@case()
def peer_does_not_read(c):
    """A window that closes, is probed, and opens again."""
    peer, stream = c.to("reads_when_told")
    stream.setblocking(False)
    sent, chunk = 0, b"w" * 65536
    while sent < 100 << 20:
        got = tried(stream.send, chunk)
        if isinstance(got, int):
            sent += got
        elif wait_for(stream, select.POLLOUT, 2) == "none":
            break
    full = got, wait_for(stream, ALL_BITS, 0.1)
    peer.go()
    stream.settimeout(20)
    found = wait_for(stream, select.POLLOUT, 10)
    stream.close()
    return *full, found, peer.heard() == f"{sent} bytes, end"


@case()
def program_does_not_read(c):
    """The peer's bytes wait, and come when they are read."""
    peer, stream = c.to("sends", bytes=8 << 20)
    time.sleep(1.5)
    return len(read_all(stream))


@case()
def send_timeout(c):
    peer, stream = c.to("reads_when_told")
    stream.settimeout(None)
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 20000)
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", 1, 0))
    while isinstance(ended := tried(stream.send, b"x" * 65536), int):
        pass
    peer.go()
    return ended


@case(quick=True)
def urgent_up(c):
    peer, stream = c.to("is_urged")
    stream.send(b"ab")
    stream.send(b"!", socket.MSG_OOB)
    stream.send(b"cd")
    time.sleep(1)
    stream.close()
    return peer.heard()


@case(quick=True)
def urgent_down(c):
    peer, stream = c.to("urges")
    found = wait_for(stream, select.POLLPRI)
    until(lambda: unread(stream) >= 6)
    before, urgent = stream.recv(100), tried(stream.recv, 1, socket.MSG_OOB)
    mark = array.array("i", [0])
    fcntl.ioctl(stream, SIOCATMARK, mark)
    rest = stream.recv(100)
    return found, before, urgent, mark[0], rest, tried(stream.recv, 1, socket.MSG_OOB)


@case(quick=True)
def urgent_in_line(c):
    peer, stream = c.tcp(), None
    asked = c.peer("urges")
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_OOBINLINE, 1)
    peer.connect((c.peer_ip, asked.port))
    found = wait_for(peer, select.POLLPRI)
    until(lambda: unread(peer) >= 7)
    return found, peer.recv(100), peer.recv(100), tried(peer.recv, 1, socket.MSG_OOB)


@case(quick=True)
def nothing_urgent(c):
    _, stream = c.to("stays")
    return tried(stream.recv, 1, socket.MSG_OOB), wait_for(stream, select.POLLPRI, 0.2)


@case()
def many_at_once(c):
    """200 connections, opened together."""
    peer, poll, waiting, good = c.peer("echoes_many"), select.epoll(), {}, 0
    for _ in range(200):
        stream = c.tcp()
        stream.setblocking(False)
        stream.connect_ex((c.peer_ip, peer.port))
        poll.register(stream, select.EPOLLOUT)
        waiting[stream.fileno()] = stream
    clock = time.monotonic()
    while waiting and time.monotonic() - clock < 20:
        for fd, found in poll.poll(1):
            stream = waiting[fd]
            if found & select.EPOLLOUT and not found & select.EPOLLERR and tried(stream.send, b"%d" % fd) == len(b"%d" % fd):
                poll.modify(fd, select.EPOLLIN)
            elif found & select.EPOLLIN:
                good += tried(stream.recv, 100) == b"%d" % fd
                poll.unregister(fd)
                waiting.pop(fd).close()
            else:
                poll.unregister(fd)
                waiting.pop(fd)
    peer.go()
    return good, peer.heard()


@case()
def one_after_the_other(c):
    peer, good = c.peer("echoes_many"), 0
    for n in range(150):
        with c.tcp() as stream:
            stream.connect((c.peer_ip, peer.port))
            stream.send(b"n")
            good += stream.recv(10) == b"n"
    peer.go()
    return good, peer.heard()


@case(quick=True)
def shared_by_a_child(c):
    """Both processes write; the end comes when both have closed."""
    peer, stream = c.to("reads")
    child = os.fork()
    if child == 0:
        time.sleep(0.3)
        stream.sendall(b"child")
        os._exit(0)
    stream.sendall(b"parent")
    stream.close()
    os.waitpid(child, 0)
    return peer.heard()


@case(quick=True)
def narrow_route(c):
    """A route of the host with a smaller MTU: it bounds segments both ways."""
    return narrow(c, c.net(82))


@case(quick=True)
def narrow_path(c):
    """A router with a smaller MTU: the kernel learns of it."""
    return narrow(c, c.narrow_ip)


def narrow(c, ip):
    peer, stream = c.peer("reads"), c.tcp()
    stream.connect((ip, peer.port))
    stream.sendall(b"x" * 200000)
    until(lambda: unsent(stream) == 0)
    mtu, mss = stream.getsockopt(c.level, 24 if c.v6 else 14), stream.getsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG)
    stream.close()
    return f"MTU {mtu}, MSS {mss}", peer.heard()


@case()
def black_hole_for_large_segments(c):
    """No router says that a segment is too long: it is found out (RFC 4821)."""
    peer, stream = c.peer("reads"), c.tcp(20)
    stream.connect((c.net(81), peer.port))
    stream.sendall(b"x" * 50000)
    stream.close()
    return peer.heard()
