"""What serves on a host of the differential suite: peer.py SOCKET. A client says over a Unix socket what it wants there, is told the port, and in
the end what was seen of it."""

import errno, json, os, select, socket, struct, subprocess, sys, threading, time
from services import iperf, nuttcp, resolve, secure_shell, sockperf, stand, web  # noqa: F401

ETH_P_ALL = 3
PATIENCE = 25


class Asked:
    """One thing that a client wants: the conversation about it."""

    def __init__(self, control):
        control.settimeout(PATIENCE + 20)
        self.control, self.lines = control, control.makefile("r")
        self.want = json.loads(self.lines.readline())
        self.family = socket.AF_INET6 if self.want["v6"] else socket.AF_INET
        self.any = "::" if self.want["v6"] else "0.0.0.0"

    def say(self, **what):
        self.control.sendall(json.dumps(what).encode() + b"\n")

    def go(self):
        """Waits until the client says so, or is gone."""
        return bool(self.lines.readline())

    def listener(self):
        listener = socket.socket(self.family)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((self.want.get("ip", self.any), self.want.get("port", 0)))
        listener.listen(self.want.get("backlog", 512))
        listener.settimeout(PATIENCE)
        return listener

    def accept(self):
        """A listener whose port the client knows, and the first that calls."""
        self.server = self.listener()
        self.say(port=self.server.getsockname()[1])
        stream, self.caller = self.server.accept()
        stream.settimeout(PATIENCE)
        return stream

    def datagrams(self):
        one = socket.socket(self.family, socket.SOCK_DGRAM)
        one.bind((self.want.get("ip", self.any), self.want.get("port", 0)))
        one.settimeout(PATIENCE)
        self.say(port=one.getsockname()[1])
        return one


def named(e):
    return "timed out" if isinstance(e, TimeoutError) and not e.errno else errno.errorcode.get(e.errno, type(e).__name__)


def all_of(stream):
    """What comes until the end, in words."""
    total, last = 0, "end"
    try:
        while chunk := stream.recv(1 << 18):
            total += len(chunk)
    except OSError as e:
        last = named(e)
    return f"{total} bytes, {last}"


def nobody(a):
    """A port that is closed."""
    kind = socket.SOCK_DGRAM if a.want.get("udp") else socket.SOCK_STREAM
    one = socket.socket(a.family, kind)
    one.bind((a.any, 0))
    port = one.getsockname()[1]
    one.close()
    a.say(port=port)
    return ""


def reads(a):
    return all_of(a.accept())


def reads_when_told(a):
    stream = a.accept()
    a.go()
    return all_of(stream)


def echoes(a):
    stream = a.accept()
    while chunk := stream.recv(1 << 18):
        stream.sendall(chunk)
    return "end"


def echoes_many(a):
    """Everything that calls, until the client is gone."""
    listener, many = a.listener(), []
    a.say(port=listener.getsockname()[1])

    def echo(stream):
        try:
            while chunk := stream.recv(1 << 16):
                stream.sendall(chunk)
        except OSError:
            pass
        stream.close()

    def accept():
        while True:
            try:
                stream, _ = listener.accept()
            except OSError:
                return
            many.append(stream)
            threading.Thread(target=echo, args=[stream], daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    a.go()
    listener.close()
    return f"{len(many)} connections"


def sends(a):
    """Sends what is wanted, and closes when told."""
    stream = a.accept()
    stream.sendall(bytes(range(256)) * (a.want["bytes"] // 256) + b"x" * (a.want["bytes"] % 256))
    if not a.want.get("stay"):
        stream.shutdown(socket.SHUT_WR)
    a.go()
    return ""


def resets(a):
    stream = a.accept()
    stream.sendall(b"before" * a.want.get("data", 0))
    a.go()
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    stream.close()
    a.say(done=True)
    return ""


def fin_then_rst(a):
    stream = a.accept()
    stream.shutdown(socket.SHUT_WR)
    a.go()
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    stream.close()
    a.say(done=True)
    return ""


def closes(a):
    """Closes at once: what comes then is reset."""
    a.accept().close()
    a.server.close()
    a.say(done=True)
    return ""


def closes_first(a):
    stream = a.accept()
    stream.shutdown(socket.SHUT_WR)
    return all_of(stream)


def closes_first_with_bytes(a):
    stream = a.accept()
    stream.sendall(b"bytes")
    return all_of(stream)


def answers_at_the_end(a):
    stream = a.accept()
    told = all_of(stream)
    time.sleep(0.2)
    stream.sendall(told.encode())
    return told


def goes_silent(a):
    """Takes a byte, answers, and is then cut off."""
    stream = a.accept()
    stream.recv(1)
    stream.sendall(b"y")
    a.go()
    element = f"add element inet differential silent {{ {a.server.getsockname()[1]} }}"
    subprocess.run(["nft", element], check=True)
    a.say(done=True)
    a.go()
    return ""


def is_urged(a):
    stream = a.accept()
    time.sleep(0.5)
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_OOBINLINE, 0)
    try:
        urgent = stream.recv(1, socket.MSG_OOB)
    except OSError as e:
        urgent = named(e)
    return f"urgent {urgent}, then {all_of(stream)}"


def urges(a):
    stream = a.accept()
    stream.sendall(b"abc")
    stream.send(b"!", socket.MSG_OOB)
    stream.sendall(b"def")
    a.go()
    return ""


def stays(a):
    stream = a.accept()
    a.go()
    stream.close()
    return ""


def never_accepts(a):
    a.server = a.listener()
    a.say(port=a.server.getsockname()[1])
    a.go()
    return ""


def options_of(data):
    """The TCP options of a segment, in words; scales and clocks are no matter."""
    at, words, length = 20, [], (data[12] >> 4) * 4
    names = {2: "mss", 3: "scale", 4: "sack", 8: "timestamps", 34: "fastopen"}
    while at < length and data[at]:
        if data[at] == 1:
            at += 1
            continue
        kind, size = data[at], max(data[at + 1], 2)
        value = f" {int.from_bytes(data[at + 2:at + 4], 'big')}" if kind == 2 else ""
        words.append(names.get(kind, f"option {kind}") + value)
        at += size
    return sorted(words)


def seen_opening(a):
    """What the first segment of a caller looks like, and what both ends think of the connection."""
    wire = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(ETH_P_ALL))
    wire.settimeout(PATIENCE)
    stream = a.accept()
    port = a.server.getsockname()[1]
    while True:
        packet = wire.recv(65535)
        if packet[0] >> 4 == 4:
            protocol, header, tos, ttl = packet[9], (packet[0] & 15) * 4, packet[1], packet[8]
        else:
            protocol, header, tos, ttl = packet[6], 40, int.from_bytes(packet[:2], "big") >> 4 & 255, packet[7]
        segment = packet[header:]
        if protocol == 6 and int.from_bytes(segment[2:4], "big") == port and segment[13] & 2:
            break
    options = stream.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 8)[5]
    words = f"tos {tos:#x}, ttl {ttl}, {', '.join(options_of(segment))}; tcpi_options {options}, mss {stream.getsockopt(6, 2)}"
    stream.sendall(b"seen")
    a.go()
    return words


def tells_caller(a):
    """Which address and port a caller has; for as many as call one after the other."""
    words, a.server = [], a.listener()
    a.say(port=a.server.getsockname()[1])
    for _ in range(a.want.get("times", 1)):
        stream, caller = a.server.accept()
        words.append(f"{caller[0]} {caller[1]}")
        stream.sendall(b"k")
        stream.settimeout(PATIENCE)
        stream.recv(1)
        stream.close()
    return ", ".join(words)


def calls(a):
    """Calls the client from outside."""
    a.say(port=0)
    a.go()
    try:
        stream = socket.create_connection((a.want["to"], a.want["port"]), 5)
        stream.sendall(b"hello")
        stream.shutdown(socket.SHUT_WR)
        return f"heard {stream.recv(100)}"
    except OSError as e:
        return named(e)


def asks(a):
    """A datagram to the client from outside, and its answer."""
    one = a.datagrams()
    a.go()
    one.settimeout(3)
    try:
        if a.want.get("one_peer"):
            one.connect((a.want["to"], a.want["to_port"]))
            one.send(b"hello")
        else:
            one.sendto(b"hello", (a.want["to"], a.want["to_port"]))
        return f"heard {one.recv(100)}"
    except OSError as e:
        return named(e)


def counts_openings(a):
    """How many attempts to open a connection to a port pass, from the client's word on."""
    wire = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(ETH_P_ALL))
    wire.bind(("host", ETH_P_ALL))
    a.say(port=0)
    a.go()
    while wire in select.select([wire], [], [], 0)[0]:
        wire.recv(2000)
    end, seen = time.monotonic() + 5, 0
    while (left := end - time.monotonic()) > 0:
        wire.settimeout(left)
        try:
            packet = wire.recv(2000)
        except TimeoutError:
            break
        at = 40 if packet[0] >> 4 == 6 else (packet[0] & 15) * 4
        protocol = packet[6] if packet[0] >> 4 == 6 else packet[9]
        seen += protocol == 6 and packet[at + 2:at + 4] == struct.pack(">H", a.want["port"]) and packet[at + 13] == 2
    return "more" if seen else "no more"


def opens_too(a):
    """Both ends open at the same time: the resets of a closed port are lost, and then it calls from there itself."""
    port = a.want["own"]
    subprocess.run(["nft", f"add element inet differential mute {{ {port} }}"], check=True)
    a.say(port=port)
    a.go()
    try:
        with socket.socket(a.family) as stream:
            stream.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            stream.bind((a.any, port))
            stream.settimeout(8)
            stream.connect((a.want["to"], a.want["to_port"]))
            stream.sendall(b"from the peer")
            return f"heard {stream.recv(100)}"
    except OSError as e:
        return named(e)


def echoes_datagrams(a):
    one = a.datagrams()
    one.settimeout(None)

    def echo():
        while True:
            data, caller = one.recvfrom(65535)
            one.sendto(data, caller)

    threading.Thread(target=echo, daemon=True).start()
    a.go()
    return ""


def counts_datagrams(a):
    """Lengths of what comes until nothing does for a second."""
    one, lengths = a.datagrams(), []
    one.settimeout(6)
    try:
        while True:
            lengths.append(len(one.recv(65535)))
            one.settimeout(1)
    except TimeoutError:
        return ", ".join(map(str, lengths)) or "nothing"


def describes_datagrams(a):
    """Marks of what comes, and the caller's address and whether its port is the one that it thinks."""
    one = a.datagrams()
    level, tos, ttl = (41, 66, 51) if a.want["v6"] else (0, 13, 12)
    one.setsockopt(level, tos, 1)
    one.setsockopt(level, ttl, 1)
    words = []
    one.settimeout(3)
    try:
        for _ in range(a.want.get("times", 1)):
            data, ancillary, _, caller = one.recvmsg(65535, 200)
            marks = sorted((kind, int.from_bytes(value[:4], "little")) for _, kind, value in ancillary)
            names = {1: "tos", 67: "tos", 2: "ttl", 52: "ttl"}
            marks = ", ".join(f"{names.get(kind, kind)} {value}" for kind, value in marks)
            words.append(f"{len(data)} bytes of {caller[0]} {caller[1]}, {marks}")
            one.sendto(b"seen", caller[:2])
    except TimeoutError:
        words.append("no more")
    return "; ".join(words)


def answers_from_elsewhere(a):
    """From its own port, from another port, and from another address."""
    one = a.datagrams()
    data, caller = one.recvfrom(100)
    one.sendto(b"own", caller[:2])
    for ip in [a.want["own"], a.want["other"]]:
        time.sleep(0.1)
        with socket.socket(a.family, socket.SOCK_DGRAM) as another:
            another.bind((ip, 0))
            another.sendto(b"another port" if ip == a.want["own"] else b"another address", caller[:2])
    return ""


def marks_datagrams(a):
    """Answers with marks and in pieces."""
    one = a.datagrams()
    data, caller = one.recvfrom(100)
    level, tos, ttl = (41, 67, 16) if a.want["v6"] else (0, 1, 2)
    one.setsockopt(level, tos, 0xB8)
    one.setsockopt(level, ttl, 77)
    one.sendto(b"marked", caller[:2])
    return ""


def answers_in_bulk(a):
    one = a.datagrams()
    data, caller = one.recvfrom(100)
    for length in a.want["lengths"]:
        one.sendto(b"b" * length, caller[:2])
        time.sleep(0.02)
    return ""


def hears_raw(a):
    """What comes of an IP protocol."""
    one = socket.socket(a.family, socket.SOCK_RAW, a.want["protocol"])
    one.settimeout(2)
    a.say(port=0)
    try:
        data = one.recv(2000)
        return f"heard {data[0 if a.want['v6'] else 20:][:40]}"
    except TimeoutError:
        return "nothing"


def hears_group(a):
    """A datagram to a group or to all hosts of a link."""
    one = socket.socket(a.family, socket.SOCK_DGRAM)
    one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    one.bind((a.any, a.want["port"]))
    index = socket.if_nametoindex("host")
    if a.want["v6"] and a.want.get("group"):
        one.setsockopt(41, socket.IPV6_JOIN_GROUP, socket.inet_pton(10, a.want["group"]) + struct.pack("i", index))
    elif a.want.get("group"):
        one.setsockopt(0, socket.IP_ADD_MEMBERSHIP, struct.pack("4s4si", socket.inet_aton(a.want["group"]), bytes(4), index))
    one.settimeout(3)
    a.say(port=a.want["port"])
    try:
        data, caller = one.recvfrom(100)
        return f"heard {data} of {caller[0].split('%')[0] if not a.want['v6'] else 'a link-local address'}"
    except TimeoutError:
        return "nothing"


def abstract(a):
    """A service of the host with an abstract name."""
    name = f"\0differential-{a.want['name']}-{os.getpid()}"
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(name)
    listener.listen(4)
    a.say(port=0, name=name[1:])
    listener.settimeout(3)
    try:
        stream, _ = listener.accept()
        stream.sendall(b"abstract")
        return "called"
    except TimeoutError:
        return "no call"


def serve(control):
    asked = None
    try:
        asked = Asked(control)
        asked.say(heard=globals()[asked.want["do"]](asked))
    except (OSError, ValueError) as e:
        try:
            asked and asked.say(heard=f"failed: {named(e) if isinstance(e, OSError) else e}", port=0)
        except OSError:
            pass
    # The client ends the conversation; sockets end with this.
    try:
        while control.recv(100):
            pass
    except OSError:
        pass
    control.close()


def main():
    path = sys.argv[1]
    # The resolvers: on the host's loopback and beyond the router.
    if path.endswith("/host"):
        resolve("127.0.0.53")
        stand()
    if path.endswith("/peer"):
        resolve("198.19.0.2")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(256)
    while True:
        control, _ = listener.accept()
        threading.Thread(target=serve, args=[control], daemon=True).start()


if __name__ == "__main__":
    main()
