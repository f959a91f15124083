"""Cases: pings, routers' answers, and protocols without ports."""

import os, socket, struct, time
from client import case, known, tried
from cases_udp import error_queue


def checksum(data):
    data += b"\0" * (len(data) % 2)
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def own():
    """What this case's pings are known by."""
    return struct.pack(">H", os.getpid() & 0xFFFF)


def echo(c, payload=b"ping", sequence=1):
    kind = 128 if c.v6 else 8
    head = struct.pack(">BBH", kind, 0, 0) + own() + struct.pack(">H", sequence)
    return head[:2] + struct.pack(">H", 0 if c.v6 else checksum(head + payload)) + head[4:] + payload


def pinger(c, raw=False, timeout=3):
    one = socket.socket(c.family, socket.SOCK_RAW if raw else socket.SOCK_DGRAM, socket.IPPROTO_ICMPV6 if c.v6 else socket.IPPROTO_ICMP)
    one.settimeout(timeout)
    return one


def answer(c, one, raw=False):
    """Type, code and length of what comes, and of whom; a raw socket hears what is others', too."""
    end = time.monotonic() + one.gettimeout()
    while time.monotonic() < end:
        got = tried(one.recvfrom, 70000)
        if isinstance(got, str):
            return got
        data, sender = got
        data = data[(data[0] & 15) * 4:] if raw and not c.v6 else data
        # An answer has the identifier itself; an error quotes the packet that has it.
        at = 4 if data[0] in (0, 14, 129) else 8 + (40 if c.v6 else 20) + 4
        if not raw or data[0] not in (8, 13, 128) and data[at:at + 2] == own():
            return f"type {data[0]} code {data[1]}, {len(data)} bytes of {sender[0]}"
    return "timed out"


def ping(c, ip, payload=b"ping", raw=False, hops=None, whole=False, timeout=3):
    one = pinger(c, raw, timeout)
    if hops:
        one.setsockopt(c.level, 16 if c.v6 else 2, hops)
    if whole:
        one.setsockopt(c.level, 23 if c.v6 else 10, 2)
    one.setsockopt(c.level, 25 if c.v6 else 11, 1) if not raw else None
    sent = tried(one.sendto, echo(c, payload), (ip, 0))
    if isinstance(sent, str):
        return sent
    heard = answer(c, one, raw)
    return heard if raw or heard.startswith("type") else f"{heard}; {error_queue(c, one, 1, 8)}"


@case(quick=True)
def ping_the_peer(c):
    return ping(c, c.peer_ip)


@case(quick=True)
def ping_the_router(c):
    return ping(c, c.router)


@case(quick=True)
def ping_itself(c):
    return ping(c, c.own), ping(c, c.loopback)


@case(quick=True)
def ping_without_payload(c):
    return ping(c, c.peer_ip, b"")


@case(quick=True)
def ping_in_fragments(c):
    return ping(c, c.peer_ip, b"p" * 8000)


@case(quick=True)
def ping_with_a_raw_socket(c):
    return ping(c, c.peer_ip, b"raw", True)


@case(quick=True)
def ping_says_the_same_back(c):
    """Identifier, sequence and payload; and the time to live of an answer."""
    one = pinger(c, True)
    one.setsockopt(c.level, 51 if c.v6 else 12, 1)
    one.sendto(echo(c, b"some payload", 777), (c.peer_ip, 0))
    while True:
        got = tried(one.recvmsg, 2000, 200)
        if isinstance(got, str):
            return got
        data, ancillary, _, _ = got
        data = data if c.v6 else data[20:]
        if data[0] in (0, 129) and data[4:6] == own():
            return data[6:], [int.from_bytes(value[:4], "little") for _, _, value in ancillary]


@case(quick=True)
def ping_an_unreachable_host(c):
    return ping(c, c.net(70)), ping(c, c.net(71)), ping(c, c.net(99))


@case(quick=True)
def ping_an_unreachable_host_with_a_raw_socket(c):
    return ping(c, c.net(70), raw=True), ping(c, c.net(71), raw=True), ping(c, c.net(99), raw=True)


@case()
def ping_a_neighbour_that_is_not_there(c):
    return ping(c, c.router[:-1] + "99", timeout=5)


@case()
def ping_a_neighbour_that_is_not_there_with_a_raw_socket(c):
    return ping(c, c.router[:-1] + "99", raw=True, timeout=5)


@case(quick=True)
def ping_with_one_hop(c):
    return ping(c, c.peer_ip, hops=1), ping(c, c.peer_ip, raw=True, hops=1), ping(c, c.peer_ip, hops=2)


@case(quick=True)
def ping_that_is_too_large(c):
    return ping(c, c.peer_ip, b"p" * 1473, whole=True)


@case(quick=True)
def ping_that_is_too_large_for_the_path(c):
    return ping(c, c.narrow_ip, b"p" * 1372, whole=True), ping(c, c.narrow_ip, b"p" * 1200, whole=True)


@case(quick=True)
def ping_that_is_too_large_for_the_route(c):
    return ping(c, c.net(82), b"p" * 1372, whole=True), ping(c, c.net(82), b"p" * 1200, whole=True), ping(c, c.net(82), b"p" * 1372)


@case(quick=True)
def black_hole_for_pings(c):
    return ping(c, c.net(72), timeout=1)


@case(quick=True)
def unreachable_here_for_pings(c):
    return [ping(c, c.net(number)) for number in (73, 74, 75)]


@case("4", quick=True)
def time_request(c):
    """ICMP's own timestamps (RFC 792), which hosts still answer."""
    one = pinger(c, True, 2)
    head = struct.pack(">BBH", 13, 0, 0) + own() + struct.pack(">HIII", 1, 0, 0, 0)
    one.sendto(head[:2] + struct.pack(">H", checksum(head)) + head[4:], (c.peer_ip, 0))
    return answer(c, one, True)


@case(quick=True)
def kinds_that_a_ping_socket_refuses(c):
    return tried(pinger(c).sendto, bytes([13 if not c.v6 else 130, 0]) + bytes(18), (c.peer_ip, 0))


def route(c, send):
    """The hops of a path, as traceroute finds them by raw answers."""
    hops, listener = [], socket.socket(c.family, socket.SOCK_RAW, socket.IPPROTO_ICMPV6 if c.v6 else socket.IPPROTO_ICMP)
    if c.v6:
        listener.setsockopt(socket.IPPROTO_ICMPV6, 1, struct.pack("8I", 0xFFFFFFF5, *[0xFFFFFFFF] * 7))
    for ttl in 1, 2, 3:
        port = send(ttl)
        listener.settimeout(2)
        while True:
            got = tried(listener.recvfrom, 2000)
            if isinstance(got, str):
                hops.append("*")
                break
            data, sender = got
            data = data if c.v6 else data[20:]
            quoted = data[8 + 40:] if c.v6 else data[8 + 20:]
            if data[0] in ((1, 3) if c.v6 else (3, 11)) and quoted[2:4] == struct.pack(">H", port):
                hops.append(f"{sender[0]} {data[0]}.{data[1]}")
                break
    return hops


@case(quick=True)
def hops_by_datagrams(c):
    def send(ttl):
        port, one = 33500 + ttl + 20 * c.v6, c.udp()
        one.setsockopt(c.level, 16 if c.v6 else 2, ttl)
        one.sendto(b"hop" * 10, (c.peer_ip, port))
        return port
    return route(c, send)


@case(quick=True)
def hops_to_an_unreachable_host(c):
    def send(ttl):
        port, one = 33600 + ttl + 20 * c.v6, c.udp()
        one.setsockopt(c.level, 16 if c.v6 else 2, ttl)
        one.sendto(b"hop" * 10, (c.net(70), port))
        return port
    return route(c, send)


@case("4", quick=True)
def quoted_by_a_router(c):
    """What a router quotes is the datagram that the program sent."""
    one, listener = c.udp(), pinger(c, True, 2)
    one.setsockopt(0, 2, 1)
    one.sendto(b"quote me", (c.peer_ip, 33700))
    while not isinstance(got := tried(listener.recv, 2000), str):
        inner = got[28:]
        if got[20] == 11 and inner[22:24] == struct.pack(">H", 33700):
            source = struct.unpack(">H", inner[20:22])[0]
            return (got[20], got[21], socket.inet_ntoa(inner[12:16]), socket.inet_ntoa(inner[16:20]),
                    source == one.getsockname()[1], struct.unpack(">H", inner[24:26])[0], inner[28:36])
    return got


@case(quick=True)
def another_protocol(c):
    """IP protocol 253 (RFC 3692: for experiments)."""
    peer, one = c.peer("hears_raw", protocol=253), socket.socket(c.family, socket.SOCK_RAW, 253)
    return tried(one.sendto, b"neither TCP nor UDP", (c.peer_ip, 0)), peer.heard()


@case("4", quick=True)
def header_of_its_own(c):
    """A raw UDP packet with the program's own IP header."""
    peer, one = c.peer("describes_datagrams"), socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
    udp = struct.pack(">HHHH", 15731, peer.port, 8 + 5, 0) + b"craft"
    head = struct.pack(">BBHHHBBH4s4s", 0x45, 0x28, 0, 0, 0, 55, 17, 0, socket.inet_aton(c.own), socket.inet_aton(c.peer_ip))
    return one.sendto(head + udp, (c.peer_ip, 0)), known(peer.heard(), 15731)


@case("4", quick=True)
def udp_lite(c):
    one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM, 136)
    one.settimeout(1)
    one.connect((c.peer_ip, 9))
    one.send(b"x")
    return tried(one.recv, 10)
