"""Cases: options, as they are read, set, and seen on the wire."""

import socket, struct, time
from client import case, tried, until

TCP, ALL = socket.IPPROTO_TCP, socket.SOL_SOCKET
# Name, level, number: what a program can ask of any TCP socket, and what does not depend on chance.
READ = {
    "type": (ALL, socket.SO_TYPE), "protocol": (ALL, 38), "domain": (ALL, 39), "error": (ALL, socket.SO_ERROR),
    "keepalive": (ALL, socket.SO_KEEPALIVE), "priority": (ALL, 12), "mark": (ALL, 36), "accepting": (ALL, socket.SO_ACCEPTCONN),
    "oobinline": (ALL, socket.SO_OOBINLINE), "reuse": (ALL, socket.SO_REUSEADDR), "broadcast": (ALL, socket.SO_BROADCAST),
    "lowat": (ALL, socket.SO_RCVLOWAT), "nodelay": (TCP, socket.TCP_NODELAY), "cork": (TCP, socket.TCP_CORK),
    "idle": (TCP, socket.TCP_KEEPIDLE), "interval": (TCP, socket.TCP_KEEPINTVL), "count": (TCP, socket.TCP_KEEPCNT),
    "syncnt": (TCP, 7), "linger2": (TCP, 8), "defer": (TCP, 9), "user-timeout": (TCP, 18), "fastopen": (TCP, 23),
    "notsent-lowat": (TCP, 25), "inq": (TCP, 36), "maxseg": (TCP, socket.TCP_MAXSEG),
}
READ_4 = {"tos": (0, 1), "ttl": (0, 2), "recverr": (0, 11), "discover": (0, 10), "freebind": (0, 15), "mtu": (0, 14), "transparent": (0, 19),
          "no-port": (0, 24)}
READ_6 = {"tclass": (41, 67), "hops": (41, 16), "v6only": (41, 26), "discover": (41, 23), "mtu": (41, 24), "recverr": (41, 25)}


def read(c, stream):
    every = {**READ, **(READ_6 if c.v6 else READ_4)}
    return ", ".join(f"{name} {tried(stream.getsockopt, *option)}" for name, option in every.items())


@case(quick=True)
def options_of_a_new_socket(c):
    return read(c, c.tcp())


@case(quick=True)
def options_of_a_connection(c):
    return read(c, c.to("stays")[1])


@case(quick=True)
def buffers_of_a_new_socket(c):
    stream, one = c.tcp(), c.udp()
    sizes = [one.getsockopt(ALL, option) for one in (stream, one) for option in (socket.SO_RCVBUF, socket.SO_SNDBUF)]
    for one in stream, one:
        one.setsockopt(ALL, socket.SO_RCVBUF, 5000)
        one.setsockopt(ALL, socket.SO_SNDBUF, 100000000)
        sizes += [one.getsockopt(ALL, socket.SO_RCVBUF), one.getsockopt(ALL, socket.SO_SNDBUF)]
    return sizes


@case(quick=True)
def congestion_control(c):
    _, stream = c.to("stays")
    name = stream.getsockopt(TCP, 13, 16).rstrip(b"\0").decode()
    set_ = tried(stream.setsockopt, TCP, 13, b"reno")
    unknown = tried(stream.setsockopt, TCP, 13, b"nosuch")
    return name, set_, unknown, stream.getsockopt(TCP, 13, 16).rstrip(b"\0").decode()


@case(quick=True)
def set_and_read(c):
    _, stream = c.to("stays")
    words = []
    settings = [(ALL, socket.SO_KEEPALIVE, 1), (TCP, socket.TCP_KEEPIDLE, 33), (TCP, socket.TCP_KEEPINTVL, 11), (TCP, socket.TCP_KEEPCNT, 4),
                (TCP, 18, 12345), (TCP, socket.TCP_NODELAY, 1), (ALL, 12, 5), (ALL, 36, 0x21), (ALL, 46, 50),
                (c.level, 67 if c.v6 else 1, 0x48), (c.level, 16 if c.v6 else 2, 99), (TCP, 8, 7), (TCP, 25, 4096), (TCP, 10, 30000)]
    for level, option, value in settings:
        words.append(tried(stream.setsockopt, level, option, value) or tried(stream.getsockopt, level, option))
    linger = tried(stream.setsockopt, ALL, socket.SO_LINGER, struct.pack("ii", 1, 3)) or stream.getsockopt(ALL, socket.SO_LINGER, 8)
    return *words, struct.unpack("ii", linger)


@case(quick=True)
def wrong_values(c):
    _, stream = c.to("stays")
    wrong = [(TCP, socket.TCP_MAXSEG, 1), (TCP, socket.TCP_MAXSEG, 70000), (TCP, 999, 1), (ALL, 999, 1), (TCP, socket.TCP_KEEPIDLE, 0),
             (TCP, socket.TCP_KEEPCNT, 200), (c.level, 16 if c.v6 else 2, 300), (TCP, 7, 200), (TCP, 31, 1), (ALL, socket.SO_DEBUG, 1)]
    return [tried(stream.setsockopt, *option) for option in wrong]


def opening(c, *options):
    peer, stream = c.peer("seen_opening"), c.tcp()
    for option in options:
        stream.setsockopt(*option)
    stream.connect((c.peer_ip, peer.port))
    stream.recv(10)
    mss = stream.getsockopt(TCP, socket.TCP_MAXSEG)
    peer.go()
    return peer.heard(), f"own mss {mss}"


@case(quick=True)
def opening_on_the_wire(c):
    return opening(c)


@case(quick=True)
def opening_with_a_small_mss(c):
    return opening(c, (TCP, socket.TCP_MAXSEG, 500))


@case(quick=True)
def opening_with_a_mark_for_routers(c):
    return opening(c, (c.level, 67 if c.v6 else 1, 0xB8))


@case(quick=True)
def opening_with_few_hops(c):
    return opening(c, (c.level, 16 if c.v6 else 2, 9))


@case(quick=True)
def opening_with_a_small_buffer(c):
    return opening(c, (ALL, socket.SO_RCVBUF, 4096))


@case(quick=True)
def opening_with_too_few_hops(c):
    stream = c.tcp(2)
    stream.setsockopt(c.level, 16 if c.v6 else 2, 1)
    stream.setsockopt(TCP, 7, 1)
    return tried(stream.connect, (c.peer_ip, c.peer("nobody").port)) or "connected"


@case(quick=True)
def what_tcp_info_says(c):
    """State, and what both ends have agreed on."""
    _, stream = c.to("echoes")
    stream.send(b"x")
    stream.recv(1)
    info = stream.getsockopt(TCP, socket.TCP_INFO, 104)
    state, congestion, _, probes, _, options = info[:6]
    snd_mss, unacked, sacked, lost, retrans = (struct.unpack_from("I", info, at)[0] for at in (16, 24, 28, 32, 36))
    pmtu, = struct.unpack_from("I", info, 60)
    advmss, = struct.unpack_from("I", info, 84)
    stream.close()
    return (f"state {state}, congestion {congestion}, probes {probes}, options {options}, mss {snd_mss}, lost {lost}, sacked {sacked}, "
            f"repeated {retrans}, pmtu {pmtu}, advertised {advmss}")


@case(quick=True)
def states_in_tcp_info(c):
    peer, stream = c.peer("closes_first"), c.tcp()
    states = [stream.getsockopt(TCP, socket.TCP_INFO, 1)[0]]
    stream.connect((c.peer_ip, peer.port))
    state = lambda: stream.getsockopt(TCP, socket.TCP_INFO, 1)[0]
    until(lambda: state() == 8, 3)
    states.append(state())
    stream.shutdown(socket.SHUT_WR)
    until(lambda: state() == 7, 3)
    return *states, state()


@case(quick=True)
def time_wait_in_tcp_info(c):
    """This side closes first: FIN_WAIT2, then closed as far as the program sees."""
    peer, stream = c.to("reads_when_told")
    state = lambda: stream.getsockopt(TCP, socket.TCP_INFO, 1)[0]
    stream.shutdown(socket.SHUT_WR)
    until(lambda: state() == 5, 3)
    states = [state()]
    peer.go()
    until(lambda: state() == 7, 3)
    return *states, state()


@case(quick=True)
def acknowledged_bytes_in_tcp_info(c):
    peer, stream = c.to("stays")
    stream.sendall(b"x" * 12345)
    acked = lambda: struct.unpack_from("Q", stream.getsockopt(TCP, socket.TCP_INFO, 232), 120)[0]
    until(lambda: acked() >= 12345)
    return acked()


@case("4", quick=True)
def bound_to_an_interface(c):
    peer, stream = c.peer("reads"), c.tcp()
    bound = tried(stream.setsockopt, ALL, socket.SO_BINDTODEVICE, b"eth0\0")
    ended = tried(stream.connect, (c.peer_ip, peer.port))
    stream.close()
    return bound, ended, peer.heard() if ended is None else ""


@case("4", quick=True)
def bound_to_loopback(c):
    stream = c.tcp(1)
    stream.setsockopt(ALL, socket.SO_BINDTODEVICE, b"lo\0")
    return tried(stream.connect, (c.peer_ip, 80))


@case("4", quick=True)
def record_route(c):
    """IP options of a datagram, and of its answer."""
    peer, one = c.peer("echoes_datagrams"), c.udp(2)
    set_ = tried(one.setsockopt, 0, socket.IP_OPTIONS, bytes([7, 15, 4] + [0] * 12 + [0]))
    return set_, tried(one.sendto, b"options", (c.peer_ip, peer.port)), tried(one.recv, 100)


@case("4", quick=True)
def interfaces(c):
    """Names of interfaces: a program can see that it is measured here."""
    return sorted(name for _, name in socket.if_nameindex())


@case(quick=True)
def mtu_of_the_way(c):
    peer, stream = c.to("stays")
    one = c.udp()
    one.connect((c.peer_ip, 9))
    option = 24 if c.v6 else 14
    return stream.getsockopt(c.level, option), one.getsockopt(c.level, option)
