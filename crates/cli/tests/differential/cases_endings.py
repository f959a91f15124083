"""Cases: how a connection ends, and what it says then."""

import errno, select, signal, socket, struct, time
from client import Clock, bits, case, tried, until, wait_for
from cases_stream import ALL_BITS, unread

LINGER_0 = struct.pack("ii", 1, 0)


def error_of(stream):
    value = stream.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    return errno.errorcode.get(value, value)


@case(quick=True)
def reset_while_reading(c):
    peer, stream = c.to("resets")
    peer.go(wait=True)
    return tried(stream.recv, 1), tried(stream.recv, 1), tried(stream.send, b"x"), error_of(stream)


@case(quick=True)
def reset_while_writing(c):
    peer, stream = c.to("resets")
    peer.go(wait=True)
    found = wait_for(stream, select.POLLERR)
    return found, tried(stream.send, b"x"), tried(stream.send, b"x"), tried(stream.recv, 1)


@case(quick=True)
def reset_seen_by_poll(c):
    peer, stream = c.to("resets")
    peer.go(wait=True)
    wait_for(stream, select.POLLIN)
    return wait_for(stream, ALL_BITS), error_of(stream), wait_for(stream, ALL_BITS), tried(stream.recv, 1)


@case(quick=True)
def reset_after_data(c):
    """What came before is lost, or not, as it is without us."""
    peer, stream = c.to("resets", data=10)
    until(lambda: unread(stream) == 60)
    peer.go(wait=True)
    wait_for(stream, select.POLLERR)
    return tried(stream.recv, 100), tried(stream.recv, 100), tried(stream.recv, 100)


@case(quick=True)
def end_then_reset(c):
    peer, stream = c.to("fin_then_rst")
    first = stream.recv(10)
    peer.go(wait=True)
    found = wait_for(stream, select.POLLERR)
    return first, found, wait_for(stream, ALL_BITS), tried(stream.recv, 1), tried(stream.send, b"x"), tried(stream.send, b"x")


@case(quick=True)
def writes_after_the_peer_closed(c):
    peer, stream = c.to("closes")
    peer.lines.readline()
    end = stream.recv(1)
    first = tried(stream.send, b"x")
    found = wait_for(stream, select.POLLERR)
    return end, first, found, tried(stream.send, b"x"), tried(stream.send, b"x"), tried(stream.recv, 1)


@case(quick=True)
def sigpipe(c):
    _, stream = c.to("closes_first")
    seen = []
    signal.signal(signal.SIGPIPE, lambda *_: seen.append("SIGPIPE"))
    stream.shutdown(socket.SHUT_WR)
    return tried(stream.send, b"x"), tried(stream.send, b"x", socket.MSG_NOSIGNAL), *seen


@case(quick=True)
def bits_of_the_end(c):
    peer, stream = c.to("sends", bytes=0)
    wait_for(stream, select.POLLRDHUP)
    first = wait_for(stream, ALL_BITS)
    stream.shutdown(socket.SHUT_WR)
    until(lambda: wait_for(stream, ALL_BITS, 0).find("HUP+RDHUP") > 0, 2)
    return first, wait_for(stream, ALL_BITS), tried(stream.recv, 1)


@case(quick=True)
def epoll_of_the_end(c):
    peer, stream = c.to("sends", bytes=0)
    epoll = select.epoll()
    epoll.register(stream, select.EPOLLIN | select.EPOLLRDHUP | select.EPOLLONESHOT)
    first = epoll.poll(5)
    return bits(first[0][1]) if first else "none", len(epoll.poll(0.1))


@case(quick=True)
def shut_for_reading(c):
    _, stream = c.to("echoes")
    stream.shutdown(socket.SHUT_RD)
    first = tried(stream.recv, 1)
    stream.send(b"late")
    until(lambda: unread(stream) == 4, 2)
    return first, tried(stream.recv, 10), wait_for(stream, ALL_BITS)


@case(quick=True)
def shut_for_both(c):
    peer, stream = c.to("reads")
    stream.sendall(b"x" * 1000)
    stream.shutdown(socket.SHUT_RDWR)
    until(lambda: wait_for(stream, ALL_BITS, 0).find("HUP") > 0, 2)
    return tried(stream.recv, 1), tried(stream.send, b"x"), peer.heard(), wait_for(stream, ALL_BITS)


@case(quick=True)
def resets(c):
    peer, stream = c.to("reads")
    stream.sendall(b"x" * 10)
    time.sleep(0.3)
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_0)
    stream.close()
    return peer.heard()


@case(quick=True)
def closes_with_bytes_unread(c):
    """close() with unread bytes is a reset."""
    peer, stream = c.to("closes_first_with_bytes")
    until(lambda: unread(stream) == 5)
    stream.close()
    return peer.heard()


@case(quick=True)
def killed_program(c):
    """A process that ends without closing: its peer sees an end."""
    import os
    peer, stream = c.to("reads")
    child = os.fork()
    if child == 0:
        stream.sendall(b"x" * 10)
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    stream.close()
    return peer.heard()


@case(quick=True)
def closes_and_waits(c):
    """SO_LINGER with a time: close() returns when all has arrived."""
    peer, stream = c.to("reads")
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 10))
    stream.sendall(b"x" * 1000000)
    clock = Clock()
    stream.close()
    return clock.about(0), peer.heard()


@case()
def closes_and_waits_for_a_peer_that_does_not_read(c):
    peer, stream = c.to("reads_when_told")
    stream.setblocking(False)
    while wait_for(stream, select.POLLOUT, 1) == "OUT":
        tried(stream.send, b"x" * 65536)
    stream.setblocking(True)
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 1))
    clock = Clock()
    stream.close()
    took = clock.about(1)
    peer.go()
    return took, peer.heard().split(", ")[-1]


def left_alone(c, options, sends):
    """A path that dies: with which error and when that is told."""
    peer, stream = c.to("goes_silent")
    for option in options:
        stream.setsockopt(*option)
    stream.send(b"x")
    stream.recv(1)
    peer.go(wait=True)
    clock = Clock()
    if sends:
        stream.send(b"into silence")
    ended = tried(stream.recv, 1)
    return ended, clock, stream


@case()
def dead_path_with_user_timeout(c):
    ended, clock, stream = left_alone(c, [(socket.IPPROTO_TCP, 18, 2000)], True)
    return ended, clock.about(2), wait_for(stream, ALL_BITS), tried(stream.send, b"x")


@case()
def dead_path_with_keep_alive(c):
    tcp = socket.IPPROTO_TCP
    options = [(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1), (tcp, socket.TCP_KEEPIDLE, 1), (tcp, socket.TCP_KEEPINTVL, 1),
               (tcp, socket.TCP_KEEPCNT, 2)]
    ended, clock, stream = left_alone(c, options, False)
    return ended, clock.about(3), wait_for(stream, ALL_BITS), tried(stream.recv, 1)


@case()
def dead_path_without_either(c):
    peer, stream = c.to("goes_silent")
    stream.send(b"x")
    stream.recv(1)
    peer.go(wait=True)
    stream.settimeout(5)
    stream.send(b"into silence")
    return tried(stream.recv, 1), wait_for(stream, ALL_BITS, 0.1)
