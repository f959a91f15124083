"""Cases: the host itself: loopback, its own addresses, Unix sockets, names, calls from outside."""

import os, socket, struct, tempfile, threading, time
from client import case, named, tried, until


def asked(c, ip, port, kind=socket.SOCK_STREAM):
    one = socket.socket(socket.AF_INET6 if ":" in ip else socket.AF_INET, kind)
    one.settimeout(3)
    ended = tried(one.connect, (ip, port))
    return ended or (tried(one.send, b"ask"), tried(one.recv, 10), one.getpeername()[0], one.getsockname()[0])


@case(quick=True)
def own_service_on_loopback(c):
    server = socket.create_server((c.loopback, 0), family=c.family)
    client = socket.create_connection(server.getsockname()[:2], 3)
    stream, caller = server.accept()
    stream.send(b"own")
    return client.recv(10), caller[0], caller == client.getsockname()


@case(quick=True)
def own_service_on_an_own_address(c):
    server = socket.create_server((c.any, 0), family=c.family)
    client = socket.create_connection((c.own, server.getsockname()[1]), 3)
    stream, caller = server.accept()
    stream.send(b"own")
    return client.recv(10), caller[0], client.getpeername()[0]


@case(quick=True)
def own_datagrams_on_an_own_address(c):
    server, client = c.udp(), c.udp()
    server.bind((c.any, 0))
    client.sendto(b"own", (c.own, server.getsockname()[1]))
    data, caller = server.recvfrom(10)
    server.sendto(b"back", caller)
    return data, caller[0], client.recv(10)


@case(quick=True)
def service_of_the_host_on_loopback(c):
    return asked(c, c.loopback, 7)


@case(quick=True)
def service_of_the_host_on_its_address(c):
    return asked(c, c.own, 17)


@case(quick=True)
def datagrams_of_the_host_on_loopback(c):
    return asked(c, c.loopback, 7, socket.SOCK_DGRAM)


@case(quick=True)
def datagrams_of_the_host_on_its_address(c):
    return asked(c, c.own, 17, socket.SOCK_DGRAM)


@case(quick=True)
def later_service_of_the_host_on_loopback(c):
    return asked(c, c.loopback, c.peer("echoes", at="host", ip=c.loopback).port)


@case(quick=True)
def later_service_of_the_host_on_its_address(c):
    return asked(c, c.own, c.peer("echoes", at="host", ip=c.own).port)


@case(quick=True)
def later_service_of_the_host_everywhere(c):
    return asked(c, c.loopback, c.peer("echoes", at="host").port), asked(c, c.own, c.peer("echoes", at="host").port)


@case(quick=True)
def later_services_for_a_program_that_tries_again(c):
    """As scripts wait for a service: until it is there."""
    said = []
    for kind, do in (socket.SOCK_STREAM, "echoes"), (socket.SOCK_DGRAM, "echoes_datagrams"):
        port = c.peer(do, at="host", ip=c.loopback).port
        tries = []
        until(lambda: tries.append(asked(c, c.loopback, port, kind)) or not isinstance(tries[-1][1], str))
        said.append(tries[-1])
    return said


@case(quick=True)
def later_datagrams_of_the_host_on_loopback(c):
    return asked(c, c.loopback, c.peer("echoes_datagrams", at="host", ip=c.loopback).port, socket.SOCK_DGRAM)


@case(quick=True)
def later_datagrams_of_the_host_on_its_address(c):
    return asked(c, c.own, c.peer("echoes_datagrams", at="host", ip=c.own).port, socket.SOCK_DGRAM)


@case(quick=True)
def closed_port_on_loopback(c):
    one = c.udp(1)
    one.connect((c.loopback, 9))
    one.send(b"x")
    return tried(c.tcp().connect, (c.loopback, 9)), tried(one.recv, 1)


@case(quick=True)
def closed_port_on_an_own_address(c):
    one = c.udp(1)
    one.connect((c.own, 9))
    one.send(b"x")
    return tried(c.tcp().connect, (c.own, 9)), tried(one.recv, 1)


@case("4", quick=True)
def abstract_service_of_the_host(c):
    peer, stream = c.peer("abstract", at="host", name=os.getpid()), socket.socket(socket.AF_UNIX)
    stream.settimeout(3)
    return tried(stream.connect, "\0" + peer.said["name"]) or stream.recv(20)


@case("4", quick=True)
def own_abstract_service(c):
    server, client = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)
    server.bind(f"\0differential-own-{os.getpid()}")
    server.listen()
    client.connect(f"\0differential-own-{os.getpid()}")
    stream, _ = server.accept()
    stream.send(b"own")
    pid, uid, gid = struct.unpack("3i", client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    return client.recv(10), pid == os.getpid(), uid, gid


@case("4", quick=True)
def unix_socket_with_a_path(c):
    """Descriptors go through it too."""
    with tempfile.TemporaryDirectory() as folder:
        server, client = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)
        server.bind(f"{folder}/socket")
        server.listen()
        client.connect(f"{folder}/socket")
        stream, _ = server.accept()
        peer, other = c.to("reads")
        socket.send_fds(stream, [b"here"], [other.fileno()])
        other.close()
        data, fds, _, _ = socket.recv_fds(client, 10, 1)
        with socket.socket(fileno=fds[0]) as same:
            same.sendall(b"over the passed descriptor")
        return data, peer.heard()


def called(c, ip=None):
    """A service of the program, called from the peer."""
    server = socket.create_server((ip or c.any, 0), family=c.family)
    server.settimeout(5)
    peer = c.peer("calls", to=ip or c.own, port=server.getsockname()[1])
    peer.go()
    try:
        stream, caller = server.accept()
    except OSError as e:
        return named(e), peer.heard()
    stream.settimeout(5)
    data = stream.recv(100)
    stream.sendall(b"welcome")
    return data, tried(stream.recv, 10), caller[0], stream.getsockname()[0], peer.heard()


@case(quick=True)
def called_from_outside(c):
    return called(c)


@case(quick=True)
def called_from_outside_on_an_own_address(c):
    return called(c, c.own)


@case(quick=True)
def called_from_outside_on_another_address(c):
    return called(c, c.second)


@case(quick=True)
def own_service_on_another_address(c):
    server = socket.create_server((c.second, 0), family=c.family)
    client = socket.create_connection(server.getsockname()[:2], 3)
    stream, caller = server.accept()
    stream.send(b"own")
    return client.recv(10), client.getpeername()[0]


@case(quick=True)
def binds_what_is_of_another_host(c):
    return tried(c.tcp().bind, (c.peer_ip, 0)), tried(c.udp().bind, (c.peer_ip, 0))


@case(quick=True)
def called_on_a_port_that_is_closed(c):
    server = c.tcp()
    server.bind((c.any, 0))
    peer = c.peer("calls", to=c.own, port=server.getsockname()[1])
    peer.go()
    return peer.heard()


@case(quick=True)
def called_on_a_service_of_loopback_alone(c):
    server = socket.create_server((c.loopback, 0), family=c.family)
    peer = c.peer("calls", to=c.own, port=server.getsockname()[1])
    peer.go()
    return peer.heard()


@case(quick=True)
def called_and_nothing_said(c):
    """TCP_DEFER_ACCEPT of a service, called from outside."""
    server = socket.create_server((c.any, 0), family=c.family)
    server.setsockopt(socket.IPPROTO_TCP, 9, 5)
    server.settimeout(4)
    peer = c.peer("calls", to=c.own, port=server.getsockname()[1])
    peer.go()
    got = tried(server.accept)
    if isinstance(got, str):
        return got, peer.heard()
    data = got[0].recv(10)
    got[0].send(b"ok")
    return data, peer.heard()


@case(quick=True)
def datagram_from_outside(c):
    one = c.udp(3)
    one.bind((c.any, 0))
    peer = c.peer("asks", to=c.own, to_port=one.getsockname()[1])
    peer.go()
    got = tried(one.recvfrom, 100)
    if isinstance(got, str):
        return got, peer.heard()
    one.sendto(b"welcome", got[1])
    return got[0], got[1][0], peer.heard()


@case(quick=True)
def datagram_from_outside_to_another_address(c):
    """Of several addresses of a host, a program that looks where it was asked (IP_PKTINFO) answers from there."""
    one = c.udp(3)
    one.setsockopt(c.level, 49 if c.v6 else 8, 1)
    one.bind((c.any, 0))
    peer = c.peer("asks", to=c.second, to_port=one.getsockname()[1], one_peer=True)
    peer.go()
    got = tried(one.recvmsg, 100, 200)
    if isinstance(got, str):
        return got, peer.heard()
    one.sendmsg([b"welcome"], got[1], 0, got[3])
    return got[0], got[3][0], peer.heard()


@case(quick=True)
def datagram_from_outside_to_another_address_that_is_bound(c):
    one = c.udp(3)
    one.bind((c.second, 0))
    peer = c.peer("asks", to=c.second, to_port=one.getsockname()[1], one_peer=True)
    peer.go()
    got = tried(one.recvfrom, 100)
    if isinstance(got, str):
        return got, peer.heard()
    one.sendto(b"welcome", got[1])
    return got[0], got[1][0], peer.heard()


@case("4", quick=True)
def told_where_to_call(c):
    """FTP's active mode: an outgoing connection says a port, and the peer calls it."""
    _, control = c.to("echoes")
    server = socket.create_server((control.getsockname()[0], 0))
    server.settimeout(4)
    control.sendall(b"PORT")
    control.recv(10)
    peer = c.peer("calls", to=control.getsockname()[0], port=server.getsockname()[1])
    peer.go()
    got = tried(server.accept)
    if isinstance(got, str):
        return got, peer.heard()
    got[0].sendall(b"data")
    return got[1][0], peer.heard()


def looked_up(name, **hints):
    try:
        found = socket.getaddrinfo(name, 80, type=socket.SOCK_STREAM, **hints)
        return [address[0] for _, _, _, _, address in found]
    except socket.gaierror as e:
        return named(e)


@case("4", quick=True)
def names(c):
    return [looked_up(name) for name in ("peer.test", "four.test", "six.test", "missing.test")]


@case("4", quick=True)
def names_of_one_family(c):
    return looked_up("peer.test", family=socket.AF_INET), looked_up("peer.test", family=socket.AF_INET6), looked_up("four.test", family=socket.AF_INET6)


@case("4", quick=True)
def names_that_fail(c):
    return looked_up("failing.test"), looked_up("127.0.0.1"), looked_up("localhost")


@case("4")
def name_that_is_never_answered(c):
    return looked_up("silent.test")


@case("4", quick=True)
def name_and_then_connection(c):
    peer = c.peer("tells_caller")
    stream = socket.create_connection(("peer.test", peer.port), 5)
    stream.recv(1)
    ip = stream.getpeername()[0]
    stream.close()
    return ip, peer.heard().split()[0]


def question(name, kind=1):
    labels = b"".join(bytes([len(label)]) + label.encode() for label in name.split("."))
    return struct.pack(">HHHHHH", 0x1234, 0x100, 1, 0, 0, 0) + labels + struct.pack(">BHH", 0, kind, 1)


@case("4", quick=True)
def resolver_asked_by_the_program(c):
    """Datagrams of its own to a resolver elsewhere, and to that on loopback."""
    answers = []
    for ip in "198.19.0.2", "127.0.0.53":
        one = c.udp()
        one.connect((ip, 53))
        one.send(question("peer.test"))
        answers.append(tried(one.recv, 500))
    return [answer[-4:] if isinstance(answer, bytes) else answer for answer in answers]


@case("4", quick=True)
def resolver_asked_over_tcp(c):
    answers = []
    for ip in "198.19.0.2", "127.0.0.53":
        stream = socket.create_connection((ip, 53), 4)
        asked = question("peer.test")
        stream.sendall(struct.pack(">H", len(asked)) + asked)
        answers.append(stream.recv(500)[-4:])
    return answers


@case("6", quick=True)
def router_by_its_link_local_address(c):
    from cases_udp import index_of_way
    return tried(c.tcp(3).connect, ("fe80::1", 9, 0, index_of_way(c)))


@case("4", quick=True)
def packets_seen_by_a_capture(c):
    """A packet socket of the program sees its own opening."""
    wire = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(3))
    wire.settimeout(3)
    peer, stream = c.to("stays")
    while True:
        packet = wire.recv(2000)
        if packet[0] == 0x45 and packet[9] == 6 and int.from_bytes(packet[22:24], "big") == peer.port and packet[33] == 2:
            return socket.inet_ntoa(packet[12:16]), socket.inet_ntoa(packet[16:20])


@case("4", quick=True)
def listed_by_the_kernel(c):
    """/proc/net/tcp has the connection."""
    peer, stream = c.to("stays")
    own = "%08X:%04X" % (struct.unpack("<I", socket.inet_aton(stream.getsockname()[0]))[0], stream.getsockname()[1])
    with open("/proc/net/tcp") as file:
        return [line.split()[3] for line in file if line.split()[1] == own and line.split()[2].endswith(":%04X" % peer.port)]
