"""Cases: how a connection is opened, and how that fails."""

import errno, select, socket, struct, time
from client import Clock, bits, case, known, named, tried, wait_for

USER_TIMEOUT, SYNCNT, FASTOPEN_CONNECT = 18, 7, 30


def opened(c, address, timeout=10, options=()):
    """How an attempt ends."""
    stream = c.tcp(timeout)
    for option in options:
        stream.setsockopt(*option)
    return tried(stream.connect, address) or "connected"


@case(quick=True)
def refused(c):
    return opened(c, (c.peer_ip, c.peer("nobody").port))


@case(quick=True)
def refused_without_waiting(c):
    stream = c.tcp()
    stream.setblocking(False)
    port = c.peer("nobody").port
    first = errno.errorcode[stream.connect_ex((c.peer_ip, port))]
    events = select.POLLIN | select.POLLOUT | select.POLLRDHUP
    found = wait_for(stream, events)
    error = errno.errorcode.get(stream.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR))
    return first, found, error, wait_for(stream, events, 0.1), stream.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)


@case(quick=True)
def refused_and_used_again(c):
    stream, port = c.tcp(), c.peer("nobody").port
    first = tried(stream.connect, (c.peer_ip, port))
    peer = c.peer("reads")
    second = tried(stream.connect, (c.peer_ip, peer.port))
    third = tried(stream.connect, (c.peer_ip, peer.port))
    stream.close()
    return first, second, third, peer.heard() if None in (second, third) else ""


@case(quick=True)
def read_and_write_after_refused(c):
    stream, port = c.tcp(), c.peer("nobody").port
    return tried(stream.connect, (c.peer_ip, port)), tried(stream.send, b"x"), tried(stream.recv, 1)


@case(quick=True)
def not_connected(c):
    stream = c.tcp()
    events = select.POLLIN | select.POLLOUT | select.POLLRDHUP
    return (tried(stream.send, b"x"), tried(stream.recv, 1), tried(stream.getpeername), tried(stream.shutdown, socket.SHUT_WR),
            wait_for(stream, events, 0.1))


@case(quick=True)
def unreachable_at_the_router(c):
    return opened(c, (c.net(70), 80))


@case(quick=True)
def prohibited_at_the_router(c):
    return opened(c, (c.net(71), 80))


@case(quick=True)
def no_route_at_the_router(c):
    return opened(c, (c.net(99), 80))


@case(quick=True)
def unreachable_here(c):
    return opened(c, (c.net(73), 80))


@case(quick=True)
def prohibited_here(c):
    return opened(c, (c.net(74), 80))


@case(quick=True)
def black_hole_here(c):
    return opened(c, (c.net(75), 80))


@case()
def black_hole(c):
    stream, clock = c.tcp(), Clock()
    stream.setblocking(False)
    first = errno.errorcode[stream.connect_ex((c.net(72), 80))]
    again = errno.errorcode[stream.connect_ex((c.net(72), 80))]
    return first, again, wait_for(stream, select.POLLIN | select.POLLOUT, 2), tried(stream.getpeername), clock.about(2)


@case()
def black_hole_that_is_given_up(c):
    """After close() nothing more is sent."""
    peer, stream = c.peer("counts_openings", at="router", port=15631 + c.v6), c.tcp(0.5)
    ended = tried(stream.connect, (c.net(72), 15631 + c.v6))
    stream.close()
    peer.go()
    return ended, peer.heard()


@case()
def black_hole_with_user_timeout(c):
    clock = Clock()
    return opened(c, (c.net(72), 80), 15, [(socket.IPPROTO_TCP, USER_TIMEOUT, 2500)]), clock.about(2.5)


@case()
def black_hole_with_one_repetition(c):
    clock = Clock()
    return opened(c, (c.net(72), 80), 15, [(socket.IPPROTO_TCP, SYNCNT, 1)]), clock.about(3)


@case()
def black_hole_with_send_timeout(c):
    stream, clock = c.tcp(), Clock()
    stream.setblocking(True)
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", 1, 0))
    return tried(stream.connect, (c.net(72), 80)), clock.about(1)


@case()
def neighbour_that_is_not_there(c):
    clock = Clock()
    return opened(c, (c.router[:-1] + "99", 80)), clock.about(3)


@case()
def neighbour_of_the_router_that_is_not_there(c):
    clock = Clock()
    return opened(c, (c.peer_ip[:-1] + "99", 80)), clock.about(3)


@case(quick=True)
def filtered_as_prohibited(c):
    return opened(c, (c.peer_ip, 7001))


@case(quick=True)
def filtered_by_reset(c):
    return opened(c, (c.peer_ip, 7002))


@case(quick=True)
def filtered_as_closed(c):
    return opened(c, (c.peer_ip, 7003))


@case(quick=True)
def filtered_as_host_unreachable(c):
    return opened(c, (c.peer_ip, 7004))


@case(quick=True)
def filtered_as_no_route(c):
    return opened(c, (c.peer_ip, 7005))


@case(quick=True)
def filtered_and_told_by_the_error_queue(c):
    stream = c.tcp()
    stream.setsockopt(c.level, 25 if c.v6 else 11, 1)
    ended = tried(stream.connect, (c.peer_ip, 7001))
    try:
        data, ancillary, _, _ = stream.recvmsg(500, 500, socket.MSG_ERRQUEUE)
        return ended, struct.unpack("IBBB", ancillary[0][2][:7])
    except OSError as e:
        return ended, named(e)


@case(quick=True)
def port_zero(c):
    return opened(c, (c.peer_ip, 0))


@case("4", quick=True)
def broadcast(c):
    return opened(c, ("255.255.255.255", 80)), opened(c, ("198.18.0.255", 80))


@case(quick=True)
def group(c):
    return opened(c, ("ff02::1" if c.v6 else "224.0.0.1", 80), 1)


@case("6", quick=True)
def mapped_and_unreachable(c):
    return opened(c, ("::ffff:198.19.70.2", 80))


@case(quick=True)
def opened_without_waiting(c):
    peer, stream = c.peer("reads"), c.tcp()
    stream.setblocking(False)
    address = (c.peer_ip, peer.port)
    first = errno.errorcode[stream.connect_ex(address)]
    found = wait_for(stream, select.POLLIN | select.POLLOUT)
    again = stream.connect_ex(address), errno.errorcode[stream.connect_ex(address)]
    stream.close()
    return first, found, *again, peer.heard()


@case(quick=True)
def opened_and_seen_by_epoll_and_select(c):
    peer, stream = c.peer("sends", bytes=10, stay=True), c.tcp()
    stream.setblocking(False)
    epoll = select.epoll()
    epoll.register(stream, select.EPOLLIN | select.EPOLLOUT | select.EPOLLET | select.EPOLLRDHUP)
    stream.connect_ex((c.peer_ip, peer.port))
    seen = 0
    while not seen & select.EPOLLIN:
        seen |= (epoll.poll(5) or [(0, select.EPOLLIN | select.EPOLLERR)])[0][1]
    read, write, wrong = select.select([stream], [stream], [stream], 5)
    peer.go()
    return bits(seen), len(read), len(write), len(wrong), stream.recv(100)


@case(quick=True)
def fast_open(c):
    """The peer does not speak it: data goes after the opening."""
    peer, stream = c.peer("reads"), c.tcp()
    stream.settimeout(None)
    first = tried(stream.sendto, b"early", socket.MSG_FASTOPEN, (c.peer_ip, peer.port))
    stream.close()
    return first, peer.heard()


@case(quick=True)
def fast_open_by_connect(c):
    peer, stream = c.peer("reads"), c.tcp()
    stream.setsockopt(socket.IPPROTO_TCP, FASTOPEN_CONNECT, 1)
    first = tried(stream.connect, (c.peer_ip, peer.port)), tried(stream.send, b"early")
    stream.close()
    return *first, peer.heard()


@case(quick=True)
def names_of_both_ends(c):
    peer, stream = c.to("tells_caller")
    local, remote = stream.getsockname(), stream.getpeername()
    stream.recv(1)
    stream.close()
    told = peer.heard().split()
    return local[0], remote[0], remote[1] == peer.port, told[0], "same port" if told[1] == str(local[1]) else "another port"


def from_port(c, port, ip=None):
    peer, stream = c.peer("tells_caller"), c.tcp()
    stream.bind((ip or c.any, port))
    stream.connect((c.peer_ip, peer.port))
    stream.recv(1)
    stream.close()
    return known(peer.heard(), port)


@case(quick=True)
def from_a_port_of_its_own(c):
    return from_port(c, 15611 + c.v6)


@case(quick=True)
def from_a_privileged_port(c):
    return from_port(c, 777 + c.v6)


@case(quick=True)
def from_another_address(c):
    return from_port(c, 15613 + c.v6, c.second)


@case(quick=True)
def from_another_address_and_any_port(c):
    return from_port(c, 0, c.second)


@case(quick=True)
def from_loopback(c):
    """An address that leads nowhere else."""
    peer, stream = c.peer("reads"), c.tcp(2)
    stream.bind((c.loopback, 0))
    return tried(stream.connect, (c.peer_ip, peer.port)) or "connected"


@case(quick=True)
def from_a_foreign_address(c):
    stream = c.tcp()
    foreign = tried(stream.bind, (c.peer_ip, 0))
    stream.setsockopt(c.level, 78 if c.v6 else 15, 1)
    return foreign, tried(stream.bind, (c.peer_ip, 15615)), stream.getsockname()[0]


@case(quick=True)
def port_late(c):
    """IP_BIND_ADDRESS_NO_PORT: the port is chosen by connect()."""
    peer, stream = c.peer("reads"), c.tcp()
    stream.setsockopt(socket.IPPROTO_IP, 24, 1)
    stream.bind((c.own, 0))
    before = stream.getsockname()[1]
    stream.connect((c.peer_ip, peer.port))
    after = stream.getsockname()
    stream.close()
    return before, after[0], after[1] > 0, peer.heard()


@case(quick=True)
def port_in_use(c):
    first, second = c.tcp(), c.tcp()
    first.bind((c.any, 0))
    first.listen()
    port = first.getsockname()[1]
    plain = tried(second.bind, (c.any, port))
    third, fourth = c.tcp(), c.tcp()
    for stream in third, fourth:
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        stream.bind((c.any, 15619 + c.v6))
    return plain, tried(third.listen), tried(fourth.listen)


@case(quick=True)
def same_port_to_two_peers(c):
    peers, seen = [c.peer("tells_caller") for _ in "ab"], []
    streams = [c.tcp() for _ in peers]
    for peer, stream in zip(peers, streams):
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        stream.bind((c.any, 15621 + c.v6))
        stream.connect((c.peer_ip, peer.port))
    for peer, stream in zip(peers, streams):
        stream.recv(1)
        stream.close()
        seen.append(known(peer.heard(), 15621 + c.v6))
    return seen


@case(quick=True)
def same_ends_twice(c):
    """The port of a connection that this side closed first, at once again: TIME_WAIT, and timestamps allow it after a second."""
    peer, ended = c.peer("tells_caller", times=2), []
    for n in range(2):
        stream = c.tcp(5)
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        stream.bind((c.any, 15623 + c.v6))
        ended.append(tried(stream.connect, (c.peer_ip, peer.port)))
        if ended[-1] is None:
            ended.append(stream.recv(1))
        stream.shutdown(socket.SHUT_WR)
        ended.append(tried(stream.recv, 1))
        stream.close()
        time.sleep(1.3)
    return *ended, known(peer.heard(), 15623 + c.v6)


@case("46")
def both_open_at_once(c):
    own, theirs = 15625 + c.v6, 15627 + c.v6
    peer, stream = c.peer("opens_too", own=theirs, to=c.own, to_port=own), c.tcp(8)
    stream.setblocking(False)
    stream.bind((c.own, own))
    first = errno.errorcode[stream.connect_ex((c.peer_ip, theirs))]
    # A forwarder opens a moment later.
    time.sleep(0.5)
    peer.go()
    found = wait_for(stream, select.POLLOUT, 8)
    stream.settimeout(5)
    return first, found, tried(stream.send, b"from the client"), tried(stream.recv, 100), peer.heard()


@case(quick=True)
def itself(c):
    """A socket that connects to its own port."""
    stream = c.tcp()
    stream.bind((c.loopback, 15629 + c.v6))
    stream.connect((c.loopback, 15629 + c.v6))
    stream.send(b"to myself")
    return stream.recv(100)


@case("4", quick=True)
def mapped(c):
    """An IPv6 socket to an IPv4 peer."""
    peer, stream = c.peer("tells_caller"), socket.socket(socket.AF_INET6)
    stream.settimeout(10)
    stream.connect(("::ffff:" + c.peer_ip, peer.port))
    stream.recv(1)
    local, remote = stream.getsockname()[0], stream.getpeername()[0]
    stream.close()
    return local, remote, peer.heard().split()[0]


@case("4", quick=True)
def mapped_but_for_ipv6_alone(c):
    stream = socket.socket(socket.AF_INET6)
    stream.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    return tried(stream.connect, ("::ffff:" + c.peer_ip, 80))


@case()
def backlog_is_full(c):
    """A peer that does not accept, and has room for two."""
    peer, streams = c.peer("never_accepts", backlog=1), []
    for _ in range(2):
        stream = c.tcp(3)
        streams.append((stream, tried(stream.connect, (c.peer_ip, peer.port))))
    late = c.tcp(1.5)
    ended = tried(late.connect, (c.peer_ip, peer.port))
    peer.go()
    return *[ended for _, ended in streams], ended
