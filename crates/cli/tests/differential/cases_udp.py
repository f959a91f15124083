"""Cases: datagrams."""

import ctypes, errno, select, socket, struct, time
from client import Clock, case, known, named, tried, until, wait_for

LIBC = ctypes.CDLL(None, use_errno=True)


def error_queue(c, one, timeout=4, skip=0):
    """What the error queue has: error, origin, type, code, more; who told it; and what is quoted of the datagram, less
    `skip` bytes, and its destination."""
    if not wait_for(one, select.POLLERR, timeout).count("ERR"):
        return "no error"
    try:
        data, ancillary, flags, to = one.recvmsg(65535, 500, socket.MSG_ERRQUEUE)
    except OSError as e:
        return named(e)
    for level, kind, value in ancillary:
        if (level, kind) in [(0, 11), (41, 25)]:
            number, origin, icmp, code, _, info, _ = struct.unpack("IBBBBII", value[:16])
            offender = value[16:]
            family = struct.unpack("H", offender[:2])[0] if len(offender) > 2 else 0
            who = {2: lambda: socket.inet_ntop(2, offender[4:8]), 10: lambda: socket.inet_ntop(10, offender[8:24])}.get(family, lambda: "no address")()
            text = data[skip:16] if len(data) < 100 else f"{len(data)} bytes"
            return f"{errno.errorcode.get(number, number)} origin {origin} type {icmp} code {code} info {info} of {who}, {text}, to {to and to[0]}"
    return "no description"


def with_queue(c, timeout=4):
    one = c.udp(timeout)
    one.setsockopt(c.level, 25 if c.v6 else 11, 1)
    return one


@case(quick=True)
def datagram_echo(c):
    peer, one = c.peer("echoes_datagrams"), c.udp()
    one.sendto(b"hello", (c.peer_ip, peer.port))
    data, sender = one.recvfrom(100)
    return data, sender[0], sender[1] == peer.port


@case(quick=True)
def empty_datagram(c):
    peer, one = c.peer("echoes_datagrams"), c.udp()
    one.connect((c.peer_ip, peer.port))
    return one.send(b""), tried(one.recv, 100)


@case(quick=True)
def empty_datagrams_are_counted(c):
    peer, one = c.peer("counts_datagrams"), c.udp()
    one.connect((c.peer_ip, peer.port))
    for length in 0, 1, 0, 5000, 0:
        one.send(b"x" * length)
        time.sleep(0.05)
    return peer.heard()


@case(quick=True)
def large_datagrams(c):
    peer, one = c.peer("echoes_datagrams"), c.udp()
    one.connect((c.peer_ip, peer.port))
    words = []
    for length in 1472, 1473, 8000, 40000, 65507 - 20 * c.v6:
        one.send(b"L" * length)
        got = tried(one.recv, 65535)
        words.append(len(got) if isinstance(got, bytes) else got)
    return *words, tried(one.send, b"L" * 65530)


@case(quick=True)
def too_large_to_be_whole(c):
    """Do not fragment: a datagram above the MTU of the interface."""
    one = with_queue(c)
    one.setsockopt(c.level, 23 if c.v6 else 10, 2)
    one.connect((c.peer_ip, c.peer("echoes_datagrams").port))
    fits = 1452 if c.v6 else 1472
    return tried(one.send, b"x" * fits), tried(one.send, b"x" * (fits + 1)), error_queue(c, one), one.getsockopt(c.level, 24 if c.v6 else 14)


@case(quick=True)
def too_large_for_the_path(c):
    """Do not fragment, and a router with a smaller MTU."""
    peer, one = c.peer("echoes_datagrams", ip=c.narrow_ip), with_queue(c)
    one.setsockopt(c.level, 23 if c.v6 else 10, 2)
    one.connect((c.narrow_ip, peer.port))
    first = tried(one.send, b"x" * 1400)
    told = error_queue(c, one)
    mtu = one.getsockopt(c.level, 24 if c.v6 else 14)
    second = tried(one.send, b"x" * 1400)
    third = tried(one.send, b"x" * 1200)
    return "sent" if first in (1400, "EMSGSIZE") else first, told, mtu, second, third, len(one.recv(2000)) if third == 1200 else ""


@case(quick=True)
def too_large_for_the_route(c):
    """Do not fragment, and a route of the host with a smaller MTU: nothing is sent."""
    peer, one = c.peer("echoes_datagrams", ip=c.net(82)), with_queue(c)
    one.setsockopt(c.level, 23 if c.v6 else 10, 2)
    one.connect((c.net(82), peer.port))
    mtu = one.getsockopt(c.level, 24 if c.v6 else 14)
    return mtu, tried(one.send, b"x" * 1400), error_queue(c, one), one.send(b"x" * 1200), len(one.recv(2000))


@case(quick=True)
def probing_past_the_route(c):
    """IP_PMTUDISC_PROBE: what a route of the host says does not count."""
    peer, one = c.peer("echoes_datagrams", ip=c.net(82)), c.udp()
    one.setsockopt(c.level, 23 if c.v6 else 10, 3)
    one.connect((c.net(82), peer.port))
    return tried(one.send, b"x" * 1400), tried(lambda: len(one.recv(2000)))


@case(quick=True)
def fragmented_for_the_route(c):
    peer, one = c.peer("echoes_datagrams", ip=c.net(82)), c.udp()
    one.setsockopt(c.level, 23 if c.v6 else 10, 0)
    one.connect((c.net(82), peer.port))
    return tried(one.send, b"x" * 3000), tried(lambda: len(one.recv(5000)))


@case()
def black_hole_for_large_datagrams(c):
    """Do not fragment, and a router that says nothing: what is short arrives, as one that looks for the length finds (RFC 8899)."""
    peer, one = c.peer("echoes_datagrams", ip=c.net(81)), with_queue(c)
    one.setsockopt(c.level, 23 if c.v6 else 10, 2)
    one.connect((c.net(81), peer.port))
    first, told = tried(one.send, b"x" * 1400), error_queue(c, one)
    return first, told, one.getsockopt(c.level, 24 if c.v6 else 14), tried(one.send, b"x" * 1200), len(one.recv(2000))


@case(quick=True)
def probing_the_path(c):
    """IP_PMTUDISC_PROBE: what the kernel knows of the path does not count."""
    peer, one = c.peer("echoes_datagrams"), with_queue(c, 1)
    one.setsockopt(c.level, 23 if c.v6 else 10, 3)
    one.connect((c.narrow_ip, peer.port))
    return tried(one.send, b"x" * 1400), error_queue(c, one), tried(one.send, b"x" * 1600)


@case(quick=True)
def fragmented_on_a_narrow_path(c):
    peer, one = c.peer("echoes_datagrams", ip=c.narrow_ip), c.udp(2)
    one.setsockopt(c.level, 23 if c.v6 else 10, 0)
    one.connect((c.narrow_ip, peer.port))
    words = []
    for _ in range(3):
        words.append(tried(one.send, b"x" * 3000))
        got = tried(one.recv, 5000)
    return *words, len(got) if isinstance(got, bytes) else got


@case(quick=True)
def refused_datagram(c):
    one = c.udp()
    one.connect((c.peer_ip, c.peer("nobody", udp=True).port))
    first = one.send(b"x")
    found = wait_for(one, select.POLLIN | select.POLLERR)
    second = tried(one.recv, 10)
    one.settimeout(0.3)
    third = tried(one.recv, 10)
    one.send(b"x")
    until(lambda: wait_for(one, select.POLLERR, 0) != "none", 2)
    return first, found, second, third, tried(one.send, b"x"), tried(one.send, b"x")


@case(quick=True)
def refused_datagram_of_a_socket_without_peer(c):
    one = c.udp(0.5)
    one.sendto(b"x", (c.peer_ip, c.peer("nobody", udp=True).port))
    return tried(one.recv, 10)


def queued(c, ip, port, data=b"hello payload", ttl=None):
    one = with_queue(c)
    if ttl:
        one.setsockopt(c.level, 16 if c.v6 else 2, ttl)
    sent = tried(one.sendto, data, (ip, port))
    return sent, error_queue(c, one), tried(one.sendto, data, (ip, port)) if isinstance(sent, str) else ""


@case(quick=True)
def queue_of_a_refused_datagram(c):
    return queued(c, c.peer_ip, c.peer("nobody", udp=True).port)


@case(quick=True)
def queue_of_an_unreachable_host(c):
    return queued(c, c.net(70), 9)


@case(quick=True)
def queue_of_a_prohibited_host(c):
    return queued(c, c.net(71), 9)


@case(quick=True)
def queue_of_no_route(c):
    return queued(c, c.net(99), 9)


@case(quick=True)
def queue_of_a_filter(c):
    return queued(c, c.peer_ip, 7001), queued(c, c.peer_ip, 7004), queued(c, c.peer_ip, 7005)


@case(quick=True)
def queue_of_the_first_hop(c):
    return queued(c, c.peer_ip, 33434, ttl=1)


@case(quick=True)
def queue_of_the_last_hop(c):
    return queued(c, c.peer_ip, c.peer("nobody", udp=True).port, ttl=2)


@case(quick=True)
def queue_of_a_large_datagram(c):
    return queued(c, c.peer_ip, c.peer("nobody", udp=True).port, b"z" * 1000)


@case(quick=True)
def queue_of_an_unreachable_host_here(c):
    return queued(c, c.net(73), 9)


@case(quick=True)
def errors_of_here(c):
    one = c.udp()
    return [tried(one.sendto, b"x", (c.net(number), 9)) for number in (73, 74, 75)]


@case(quick=True)
def unreachable_host_of_a_connected_socket(c):
    words = []
    for number in 70, 71, 99:
        one = c.udp(1)
        one.connect((c.net(number), 9))
        one.send(b"x")
        words.append(tried(one.recv, 10))
    return words


@case()
def neighbour_that_is_not_there_for_datagrams(c):
    one, clock = with_queue(c), Clock()
    one.connect((c.router[:-1] + "99", 9))
    return tried(one.send, b"x"), error_queue(c, one, 6), clock.about(3)


@case(quick=True)
def marks_of_datagrams(c):
    peer, one = c.peer("describes_datagrams", times=4), c.udp()
    address, (tos, ttl) = (c.peer_ip, peer.port), (67, 16) if c.v6 else (1, 2)
    one.bind((c.any, 15711 + c.v6))
    one.sendto(b"plain", address)
    one.recv(10)
    one.sendmsg([b"both"], [(c.level, tos if c.v6 else 1, struct.pack("i", 0x28)), (c.level, 52 if c.v6 else 2, struct.pack("i", 44))], 0, address)
    one.recv(10)
    one.setsockopt(c.level, tos, 0xB8)
    one.sendto(b"marked", address)
    one.recv(10)
    one.setsockopt(c.level, ttl, 33)
    one.sendto(b"few hops", address)
    return known(peer.heard(), 15711 + c.v6)


@case(quick=True)
def marks_of_answers(c):
    peer, one = c.peer("marks_datagrams"), c.udp()
    level, tos, ttl = (41, 66, 51) if c.v6 else (0, 13, 12)
    one.setsockopt(level, tos, 1)
    one.setsockopt(level, ttl, 1)
    one.sendto(b"ask", (c.peer_ip, peer.port))
    data, ancillary, _, _ = one.recvmsg(100, 200)
    return data, sorted((kind, int.from_bytes(value[:4], "little")) for _, kind, value in ancillary)


@case(quick=True)
def where_answers_arrive(c):
    """IP_PKTINFO: the address that an answer came to."""
    peer, one = c.peer("echoes_datagrams"), c.udp()
    one.setsockopt(*((41, 49, 1) if c.v6 else (0, 8, 1)))
    one.sendto(b"ask", (c.peer_ip, peer.port))
    data, ancillary, _, _ = one.recvmsg(100, 200)
    value = ancillary[0][2]
    return data, socket.inet_ntop(10, value[:16]) if c.v6 else [socket.inet_ntoa(value[at:at + 4]) for at in (4, 8)]


@case(quick=True)
def from_an_address_for_one_datagram(c):
    """IP_PKTINFO of sendmsg."""
    peer, one = c.peer("describes_datagrams"), c.udp()
    one.bind((c.any, 15713 + c.v6))
    packed = socket.inet_pton(c.family, c.second)
    value = packed + struct.pack("i", 0) if c.v6 else struct.pack("i4s4s", 0, packed, bytes(4))
    sent = tried(lambda: one.sendmsg([b"x"], [(c.level, 50 if c.v6 else 8, value)], 0, (c.peer_ip, peer.port)))
    return sent, known(peer.heard(), 15713 + c.v6)


@case(quick=True)
def from_a_bound_address_for_one_datagram(c):
    """The same where another socket has bound that address; and the answer comes back."""
    other, peer, one = c.udp(), c.peer("echoes_datagrams"), c.udp()
    other.bind((c.second, 0))
    one.bind((c.any, 0))
    packed = socket.inet_pton(c.family, c.second)
    value = packed + struct.pack("i", 0) if c.v6 else struct.pack("i4s4s", 0, packed, bytes(4))
    said = []
    for n in range(2):
        said.append(tried(lambda: one.sendmsg([b"x"], [(c.level, 50 if c.v6 else 8, value)], 0, (c.peer_ip, peer.port))))
        said.append(tried(one.recv, 10))
    describes = c.peer("describes_datagrams")
    tried(lambda: one.sendmsg([b"x"], [(c.level, 50 if c.v6 else 8, value)], 0, (c.peer_ip, describes.port)))
    own = one.getsockname()[1]
    return *said, known(describes.heard().replace(f" {own},", " same port,"))


@case(quick=True)
def datagrams_from_a_port_of_its_own(c):
    peer, one = c.peer("describes_datagrams"), c.udp()
    one.bind((c.any, 15715 + c.v6))
    one.sendto(b"x", (c.peer_ip, peer.port))
    return known(peer.heard(), 15715 + c.v6)


@case(quick=True)
def datagrams_from_a_privileged_port(c):
    peer, one = c.peer("describes_datagrams"), c.udp()
    one.bind((c.any, 877 + c.v6))
    one.sendto(b"x", (c.peer_ip, peer.port))
    return known(peer.heard(), 877 + c.v6)


@case(quick=True)
def datagrams_from_a_port_that_the_kernel_chose(c):
    peer, one = c.peer("describes_datagrams"), c.udp()
    one.connect((c.peer_ip, peer.port))
    one.send(b"x")
    words = peer.heard().split(",")[0].split()
    return words[3], "same port" if words[4] == str(one.getsockname()[1]) else "another port", one.getsockname()[0]


@case(quick=True)
def datagrams_from_another_address(c):
    peer, one = c.peer("describes_datagrams"), c.udp()
    one.bind((c.second, 15717 + c.v6))
    one.sendto(b"x", (c.peer_ip, peer.port))
    return known(peer.heard(), 15717 + c.v6)


@case(quick=True)
def datagrams_from_another_address_and_any_port(c):
    peer, one = c.peer("describes_datagrams"), c.udp()
    one.bind((c.second, 0))
    one.sendto(b"x", (c.peer_ip, peer.port))
    return known(peer.heard())


def answers(c, connected):
    peer, one = c.peer("answers_from_elsewhere", own=c.peer_ip, other=c.other_ip), c.udp(1)
    if connected:
        one.connect((c.peer_ip, peer.port))
    one.sendto(b"ask", (c.peer_ip, peer.port)) if not connected else one.send(b"ask")
    heard = []
    while not isinstance(data := tried(one.recv, 100), str):
        heard.append(data)
    return heard


@case(quick=True)
def answers_from_elsewhere(c):
    return answers(c, False)


@case(quick=True)
def answers_from_elsewhere_to_a_connected_socket(c):
    return answers(c, True)


@case(quick=True)
def cut_off(c):
    """A buffer that is too small: the rest is lost, and that is said."""
    peer, one = c.peer("answers_in_bulk", lengths=[10, 20, 30, 40]), c.udp()
    one.connect((c.peer_ip, peer.port))
    one.send(b"ask")
    data, _, flags, _ = one.recvmsg(4)
    peeked = one.recv(5, socket.MSG_PEEK)
    whole = LIBC.recv(one.fileno(), ctypes.create_string_buffer(5), 5, socket.MSG_TRUNC | socket.MSG_PEEK)
    return data, flags & socket.MSG_TRUNC, peeked, whole, len(one.recv(100)), len(one.recv(100)), len(one.recv(100))


@case(quick=True)
def sender_is_forgotten(c):
    """connect() to AF_UNSPEC."""
    peer, one = c.peer("echoes_datagrams"), c.udp()
    one.connect((c.peer_ip, peer.port))
    connected = one.getpeername()[0]
    none = ctypes.create_string_buffer(28)
    undone = LIBC.connect(one.fileno(), none, 28)
    one.sendto(b"x", (c.peer_ip, peer.port))
    return connected, undone, tried(one.getpeername), tried(one.send, b"x"), one.recv(10), one.getsockname()[0]


@case(quick=True)
def two_peers_of_one_socket(c):
    peers, one = [c.peer("echoes_datagrams", ip=ip) for ip in (c.peer_ip, c.other_ip)], c.udp()
    for n, peer in enumerate(peers):
        one.sendto(b"%d" % n, ((c.peer_ip, c.other_ip)[n], peer.port))
    heard = sorted(one.recvfrom(10) for _ in peers)
    return [(data, sender[0]) for data, sender in heard]


@case(quick=True)
def wrong_destinations(c):
    one = c.udp()
    return (tried(one.sendto, b"x", (c.peer_ip, 0)), tried(one.send, b"x"), tried(one.connect, ("255.255.255.255", 9) if not c.v6 else ("::", 0)),
            tried(c.udp().sendto, b"x", ("::1", 9) if c.v6 else ("255.255.255.255", 9)))


@case(quick=True)
def one_call_many_datagrams(c):
    """UDP_SEGMENT: one buffer, several datagrams."""
    peer, one = c.peer("counts_datagrams"), c.udp()
    one.setsockopt(socket.IPPROTO_UDP, 103, 1000)
    one.connect((c.peer_ip, peer.port))
    return one.send(b"g" * 4500), peer.heard()


@case(quick=True)
def many_datagrams_in_one_call(c):
    """UDP_GRO: the sizes of what was joined come to the same."""
    peer, one = c.peer("answers_in_bulk", lengths=[1000] * 8), c.udp(1)
    one.setsockopt(socket.IPPROTO_UDP, 104, 1)
    one.connect((c.peer_ip, peer.port))
    one.send(b"ask")
    total = 0
    while total < 8000 and not isinstance(data := tried(one.recv, 65535), str):
        total += len(data)
    return total


@case(quick=True)
def echoes_one_by_one(c):
    peer, one = c.peer("echoes_datagrams"), c.udp()
    one.connect((c.peer_ip, peer.port))
    good = 0
    for n in range(100):
        one.send(b"%d" % n)
        good += tried(one.recv, 100) == b"%d" % n
    return good


@case(quick=True)
def datagrams_have_a_time(c):
    """SO_TIMESTAMP, and SO_RXQ_OVFL."""
    peer, one = c.peer("echoes_datagrams"), c.udp()
    one.setsockopt(socket.SOL_SOCKET, 29, 1)
    one.connect((c.peer_ip, peer.port))
    before = time.time()
    one.send(b"x")
    _, ancillary, _, _ = one.recvmsg(10, 100)
    seconds, micro = struct.unpack("ll", ancillary[0][2])
    return len(ancillary), before - 1 < seconds + micro / 1e6 < time.time() + 1


@case(quick=True)
def without_checksum(c):
    """SO_NO_CHECK."""
    peer, one = c.peer("echoes_datagrams"), c.udp(2)
    one.setsockopt(socket.SOL_SOCKET, 11, 1)
    one.sendto(b"x", (c.peer_ip, peer.port))
    return tried(one.recv, 10)


@case("4", quick=True)
def mapped_datagram(c):
    peer, one = c.peer("echoes_datagrams"), socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    one.settimeout(4)
    one.sendto(b"x", ("::ffff:" + c.peer_ip, peer.port))
    data, sender = one.recvfrom(10)
    return data, sender[0]


@case(quick=True)
def datagram_to_a_group_reaches_the_link(c):
    group = "ff02::4242" if c.v6 else "239.42.42.42"
    peer, one = c.peer("hears_group", at="router", group=group, port=15719 + c.v6), c.udp()
    sent = tried(one.sendto, b"all of you", (group, 15719 + c.v6, 0, index_of_way(c)) if c.v6 else (group, 15719))
    return sent, peer.heard()


def index_of_way(c):
    """The interface that has the program's address, as a program of a network knows it by its name."""
    def lines():
        with open("/proc/net/if_inet6") as file:
            return [line.split() for line in file]

    # Link-local addresses are tentative for a moment (RFC 4862); 0x40 says so.
    until(lambda: not any(int(line[4], 16) & 0x40 for line in lines()))
    own = socket.inet_pton(socket.AF_INET6, "2001:db8:18::2").hex()
    return next((int(line[1], 16) for line in lines() if line[0] == own), 0)


@case("4", quick=True)
def datagram_to_all_reaches_the_link(c):
    peer, one = c.peer("hears_group", at="router", port=15723), c.udp()
    denied = tried(one.sendto, b"all", ("255.255.255.255", 15723))
    one.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
    return denied, tried(one.sendto, b"all", ("198.18.0.255", 15723)), peer.heard()


@case(quick=True)
def group_on_this_host(c):
    """A member of a group hears its own host."""
    group, port = ("ff02::4243", 15725) if c.v6 else ("239.42.42.43", 15726)
    one = c.udp(2)
    one.bind((c.any, port))
    index = index_of_way(c)
    joined = (tried(one.setsockopt, 41, socket.IPV6_JOIN_GROUP, socket.inet_pton(10, group) + struct.pack("i", index)) if c.v6
              else tried(one.setsockopt, 0, socket.IP_ADD_MEMBERSHIP, socket.inet_aton(group) + socket.inet_aton("0.0.0.0")))
    sent = tried(one.sendto, b"members", (group, port, 0, index) if c.v6 else (group, port))
    return joined, sent, tried(one.recv, 100)
