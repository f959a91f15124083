"""An app with a VPN service, as far as Linux has one: it makes a TUN interface without IFF_VNET_HDR, leads what is not marked into it, and
has `headstart engine` forward for it. Apps of the device are programs that it starts, each with a user id and a name of its own.

It speaks the protocol of docs/reference/engine.md by itself, without any code of headstart's.

phone.py HEADSTART FOLDER SCENARIO: what came of it, as one JSON object.
"""

import array, fcntl, json, os, socket, struct, subprocess, sys, threading, time

TUNSETIFF, IFF_TUN, IFF_NO_PI, SO_MARK, OURS = 0x400454CA, 1, 0x1000, 36, 0x77
headstart, folder, scenario = sys.argv[1:4]
WAIT = 60


def ip(*words):
    subprocess.run(["ip", *words], check=True)


def interface(name="phone0"):
    """The interface, and routes that lead everything into it but what is marked. A second one takes the place of the first."""
    tun = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(tun, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TUN | IFF_NO_PI))
    ip("link", "set", name, "mtu", "1500", "up")
    for version, address in [("-4", "10.77.0.1/32"), ("-6", "2001:db8:6865:6164::1/128")]:
        ip(version, "addr", "add", address, "dev", name, *(["nodad"] if version == "-6" else []))
        ip(version, "route", "replace", "default", "dev", name, "table", "77", "src", address.split("/")[0])
        if name == "phone0":
            ip(version, "rule", "add", "not", "fwmark", hex(OURS), "lookup", "77")
    return tun


def own_addresses():
    told = subprocess.run(["ip", "-o", "addr", "show", "dev", "eth0", "scope", "global"], capture_output=True, text=True)
    return [line.split()[3].split("/")[0] for line in told.stdout.splitlines()]


class App:
    """A program with the user id and the name that its owner would have on a phone. What it writes beyond a pipe's length waits until it is
    asked how it ended."""

    running, lock = [], threading.Lock()

    def __init__(self, uid, name, *words):
        self.uid, self.name = uid, name
        pipes = dict(stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        with App.lock:
            self.process = subprocess.Popen(words, text=True, **pipes)
            App.running.append(self)

    def ended(self):
        out, err = self.process.communicate(timeout=WAIT)
        return {"code": self.process.returncode, "out": out, "err": err}

    @staticmethod
    def of(local):
        """As ConnectivityManager.getConnectionOwnerUid: the kernel is asked for the socket, and /proc for its process."""
        port = "%04X" % int(local.rsplit(":", 1)[1])
        with App.lock:
            running = [app for app in App.running if app.process.poll() is None]
        if len(running) == 1:
            # A lookup may be over before /proc is looked through; it can be no other's.
            return running[0]
        if not running:
            return None
        for table in ("tcp", "tcp6", "udp", "udp6"):
            for line in open("/proc/net/" + table).readlines()[1:]:
                fields = line.split()
                if fields[1].rsplit(":", 1)[1] != port:
                    continue
                for app in running:
                    try:
                        files = os.scandir("/proc/%d/fd" % app.process.pid)
                        if any(os.readlink(file) == "socket:[%s]" % fields[9] for file in files):
                            return app
                    except OSError:
                        pass
        return None


# An app has no rights: neither has its engine.
WITHOUT_RIGHTS = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"]


class Engine:
    """A session: the engine as a child process without any right, and what it says."""

    def __init__(self, tun, refuses=False, silent=False, **settings):
        self.refuses, self.silent, self.told, self.protected, self.answered = refuses, silent, [], 0, []
        self.changed = threading.Condition()
        name = "headstart-phone-%d-%d" % (os.getpid(), time.monotonic_ns())
        listener = socket.socket(socket.AF_UNIX)
        listener.bind("\0" + name)
        listener.listen(1)
        words = [*WITHOUT_RIGHTS, headstart, "engine", "--socket", "@" + name]
        self.process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
        self.socket, _ = listener.accept()
        threading.Thread(target=self.hear, daemon=True).start()
        self.wait("hello")
        self.say({"kind": "hello", "version": 1, "app": "phone.py"})
        start = {"kind": "start", "settings": settings, "network": self.network(), "device": {"battery": 81, "doze": False}}
        self.say(start, tun)
        self.wait("started")

    @staticmethod
    def network(**changes):
        addresses = own_addresses()
        v4, v6 = (any((":" in one) == six for one in addresses) for six in (False, True))
        usual = {"id": "lab", "transport": "wifi", "validated": True, "addresses": addresses, "v4": v4, "v6": v6}
        return {**usual, **changes}

    def say(self, message, descriptor=None):
        body = json.dumps({**message, "descriptors": 1} if descriptor is not None else message).encode()
        rights = [] if descriptor is None else [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [descriptor]))]
        self.socket.sendmsg([struct.pack(">I", len(body)) + body], rights)

    def read(self, length, descriptors):
        data = b""
        while len(data) < length:
            more, ancillary, _, _ = self.socket.recvmsg(length - len(data), socket.CMSG_SPACE(16))
            for _, _, rights in ancillary:
                descriptors.frombytes(rights)
            if not more:
                raise EOFError
            data += more
        return data

    def hear(self):
        try:
            while True:
                descriptors = array.array("i")
                (length,) = struct.unpack(">I", self.read(4, descriptors))
                self.heard(json.loads(self.read(length, descriptors)), descriptors)
        except (EOFError, OSError):
            pass

    def heard(self, message, descriptors):
        kind = message["kind"]
        if kind == "protect":
            with socket.socket(fileno=descriptors[0]) as one:
                one.setsockopt(socket.SOL_SOCKET, SO_MARK, OURS)
            self.protected += 1
            self.say({"kind": "protected", "question": message["question"], "ok": not self.refuses})
        elif kind == "owner" and not self.silent:
            app = App.of(message["local"])
            answer = {"uid": app.uid, "name": app.name} if app else {}
            self.say({"kind": "owner", "question": message["question"], **answer})
            with self.changed:
                self.answered.append((message["protocol"], answer.get("name")))
                self.changed.notify_all()
        with self.changed:
            self.told.append(message)
            self.changed.notify_all()

    def of(self, kind):
        return [message for message in self.told if message["kind"] == kind]

    def wait(self, kind, count=1, fits=lambda message: True):
        find = lambda: [message for message in self.of(kind) if fits(message)]
        with self.changed:
            if not self.changed.wait_for(lambda: len(find()) >= count, WAIT):
                raise TimeoutError("%s never came: %s" % (kind, self.told[-5:]))
        return find()[count - 1]

    def until_answered(self, *wanted):
        with self.changed:
            if not self.changed.wait_for(lambda: set(wanted) <= set(self.answered), WAIT):
                raise TimeoutError("%s never asked: %s" % (wanted, self.answered))

    def export(self, **what):
        """What the engine writes into a file."""
        path = os.path.join(folder, "export")
        with open(path, "w+b") as file:
            before = len(self.of("exported"))
            self.say({"kind": "export", **what}, file.fileno())
            said = self.wait("exported", before + 1)
            file.seek(0)
            return said, file.read()

    def lines(self, **what):
        _, text = self.export(what="lines", **what)
        return [json.loads(line) for line in text.decode().splitlines()]

    def until_line(self, fits):
        """A line that may take a moment to come."""
        for _ in range(WAIT * 20):
            for line in self.lines():
                if fits(line):
                    return line
            time.sleep(0.05)
        raise TimeoutError("no such line: %s" % self.lines())

    def stop(self):
        self.say({"kind": "stop"})
        ended = self.wait("ended")
        return {"ended": ended, "code": self.process.wait(WAIT), "err": self.process.stderr.read()}


# A lookup over a socket that stays open until its input ends.
LOOKUP = """
import socket, sys
server = next(line.split()[1] for line in open("/etc/resolv.conf") if line.startswith("nameserver"))
question = b"".join(bytes([len(part)]) + part.encode() for part in sys.argv[1].split(".")) + b"\\0\\0\\1\\0\\1"
with socket.socket(socket.AF_INET6 if ":" in server else socket.AF_INET, socket.SOCK_DGRAM) as asker:
    asker.connect((server, 53))
    asker.send(b"ab\\1\\0\\0\\1\\0\\0\\0\\0\\0\\0" + question)
    print(len(asker.recv(512)))
    sys.stdin.read()
"""


def lookup(uid, name, host):
    return App(uid, name, sys.executable, "-c", LOOKUP, host)


def curl(uid, name, *words):
    return App(uid, name, "curl", "-sS", "-m", str(WAIT), *words)


def owners(tun):
    """Two apps fetch, in turns and together; statistics are looked at and then no longer; packets are written."""
    engine = Engine(tun)
    engine.say({"kind": "subscribe", "on": True})
    mail, maps = (10001, "org.example.mail"), (10002, "org.example.maps")
    capture = open(os.path.join(folder, "capture"), "w+b")
    engine.say({"kind": "export", "what": "pcapng"}, capture.fileno())
    long = ["http://www.lab.example/bytes/400000", "http://v4.lab.example/bytes/400000"]
    four = [lookup(*mail, "www.lab.example"), lookup(*maps, "v4.lab.example"), curl(*mail, long[0]), curl(*maps, long[1])]
    engine.until_answered(*((protocol, name) for protocol in ("tcp", "udp") for _, name in (mail, maps)))
    for name in ("www.lab.example", "v4.lab.example"):
        engine.until_line(lambda line: line["event"] == "lookup" and line["name"] == name and line["app"] != "?")
    ended = [one.ended() for one in four]
    for uid, name in (mail, maps):
        engine.until_line(lambda line: line["event"] == "connection" and line["app"] == name)
    # While there is traffic it may be that which wakes the engine whenever statistics are due.
    board = engine.wait("statistics", fits=lambda one: len(one["board"]["apps"]) >= 2 and "statistics" in one["board"]["wakeups"])
    engine.say({"kind": "subscribe", "on": False})
    engine.say({"kind": "device", "device": {"battery": 80, "doze": True}})
    engine.say({"kind": "network", "network": engine.network(transport="cellular", metered=True)})
    ended.append(curl(*mail, "http://v6.lab.example/").ended())
    late = engine.until_line(lambda line: line["event"] == "connection" and line["network"]["transport"] == "cellular")
    engine.say({"kind": "export", "what": "pcapng", "on": False})
    engine.wait("exported", fits=lambda one: one["what"] == "pcapng")
    capture.seek(0)
    asked = engine.of("owner")
    alike = [(one["protocol"], one["local"], one["peer"]) for one in asked if one["protocol"] == "tcp"]
    return {
        "apps": ended, "lines": engine.lines(), "mail": engine.lines(app=mail[1]), "statistics": board, "late": late,
        "asked_twice": len(alike) - len(set(alike)), "protected": engine.protected, "capture": len(capture.read()),
        "errors": engine.of("error"), **engine.stop(),
    }


SILENT = "http://black-hole-v6.lab.example/"


def accelerated(tun):
    """An app that insists on the first address for a minute, bare and accelerated; and one that was not told the name's addresses."""
    patient = ["--happy-eyeballs-timeout-ms", "60000", SILENT]
    plain = Engine(tun, accelerate=False)
    bare = curl(10001, "org.example.a", "-m", "2", *patient).ended()
    plain.stop()
    # A slow machine may take a while to say whose a flow is.
    engine = Engine(tun, owner_ms=WAIT * 1000)
    ours = curl(10001, "org.example.a", *patient, "-w", "%{remote_ip} %{time_connect}").ended()
    line = engine.until_line(lambda line: line["event"] == "connection" and line["end"] == "finished")
    address = ours["out"].split()[-2]
    other = curl(10002, "org.example.b", "-m", "2", "--resolve", "black-hole-v6.lab.example:80:[%s]" % address, SILENT)
    return {"bare": bare, "ours": ours, "line": line, "other": other.ended(), "lines": engine.lines(), **engine.stop()}


class Outside:
    """What leaves the device: queries over DNS, and SYNs."""

    def __init__(self):
        self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(3))
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
        self.socket.bind(("eth0", 0))
        self.socket.setblocking(False)

    def since(self):
        """Since the last time: how many of each."""
        queries = syns = 0
        while True:
            try:
                packet, (_, _, kind, *_) = self.socket.recvfrom(2048)
            except BlockingIOError:
                return {"queries": queries, "syns": syns}
            v6 = packet[0] >> 4 == 6
            protocol, data = (packet[6], packet[40:]) if v6 else (packet[9], packet[(packet[0] & 15) * 4 :])
            if kind != socket.PACKET_OUTGOING:
                continue
            queries += protocol == 17 and data[2:4] == b"\0\x35"
            syns += protocol == 6 and data[13] & 0x12 == 2


def ahead(tun):
    """An app that starts again and again; another one; a network where data costs, and another network."""
    engine, outside = Engine(tun, ahead=True, owner_ms=WAIT * 1000), Outside()
    told = {}

    def start(step, uid, name, host="www.lab.example"):
        outside.since()
        before = len(engine.lines())
        code = curl(uid, name, "http://%s/" % host).ended()["code"]
        is_ended = lambda line: line["event"] == "connection" and line["app"] == name
        for _ in range(WAIT * 20):
            lines = engine.lines()[before:]
            if any(is_ended(line) for line in lines):
                break
            time.sleep(0.05)
        told[step] = {"code": code, **outside.since(), "lines": lines}

    start("first", 10001, "org.example.a")
    start("second", 10001, "org.example.a")
    outside.since()
    alone = lookup(10001, "org.example.a", "www.lab.example")
    told["asked"] = {"queries": 0, "syns": 0}
    for _ in range(WAIT * 20):
        for name, count in outside.since().items():
            told["asked"][name] += count
        if told["asked"]["syns"]:
            break
        time.sleep(0.05)
    alone.ended()
    start("one address", 10001, "org.example.a", "v4.lab.example")
    start("one address again", 10001, "org.example.a", "v4.lab.example")
    start("other", 10002, "org.example.b")
    engine.say({"kind": "network", "network": engine.network(metered=True)})
    start("metered", 10001, "org.example.a")
    engine.say({"kind": "network", "network": engine.network(id="another", transport="cellular")})
    start("moved", 10001, "org.example.a")
    return {"told": told, **engine.stop()}


def captive(tun):
    """A network that asks for a login, and then no longer: nothing is raced before."""
    engine = Engine(tun, owner_ms=WAIT * 1000)
    patient = ["--happy-eyeballs-timeout-ms", "60000", SILENT]
    engine.say({"kind": "network", "network": engine.network(captive=True, validated=False)})
    before = curl(10001, "org.example.a", "-m", "2", *patient).ended()
    plain = curl(10001, "org.example.a", "http://v4.lab.example/").ended()
    engine.say({"kind": "network", "network": engine.network()})
    after = curl(10001, "org.example.a", *patient).ended()
    return {"before": before, "plain": plain, "after": after, **engine.stop()}


def unanswered(tun):
    """An app that never says whose a flow is: everything works, nothing is raced, and measurements come all the same."""
    engine = Engine(tun, silent=True)
    first = curl(10001, "org.example.a", "http://www.lab.example/").ended()
    lines = [engine.until_line(lambda line: line["event"] == event) for event in ("lookup", "connection")]
    return {"first": first, "lines": lines, "asked": len(engine.of("owner")), **engine.stop()}


def killed(tun):
    """The engine is killed; what an app begins before there is another one is served by that."""
    engine = Engine(tun)
    first = curl(10001, "org.example.a", "http://www.lab.example/").ended()
    engine.process.kill()
    code = engine.process.wait(WAIT)
    waiting = curl(10001, "org.example.a", "http://v4.lab.example/")
    second = Engine(tun)
    served = waiting.ended()
    line = second.until_line(lambda line: line["event"] == "connection")
    return {"first": first, "killed": code, "served": served, "line": line, **second.stop()}


def refused(tun):
    """Sockets are not protected: nothing goes out, and nothing comes back to the interface."""
    engine = Engine(tun, refuses=True)
    # By address: there is no lookup that could fail before.
    app = curl(10001, "org.example.a", "http://198.19.0.1/").ended()
    line = engine.until_line(lambda line: line["event"] == "connection")
    return {"app": app, "line": line, "protected": engine.protected, **engine.stop()}


# A transfer that goes on when its input ends; then it says how many bytes came.
TRANSFER = """
import socket, sys
with socket.create_connection((sys.argv[1], 80)) as one:
    one.sendall(b"GET /bytes/2400000 HTTP/1.1\\r\\nHost: %s\\r\\nConnection: close\\r\\n\\r\\n" % sys.argv[1].encode())
    came = len(one.recv(1000))
    sys.stdin.read()
    for more in iter(lambda: one.recv(65536), b""):
        came += len(more)
    print(came)
"""


def changed(tun):
    """IPv6 goes away under a transfer, and the app says so; what comes next goes over IPv4."""
    engine = Engine(tun)
    # Both last until the network has changed, however long a slow machine takes for that.
    slow = ["--limit-rate", "50k", "-o", "/dev/null", "-m", str(WAIT * 10)]
    moved = curl(10001, "org.example.a", *slow, "http://v6.lab.example/bytes/100000000")
    staying = App(10002, "org.example.b", sys.executable, "-c", TRANSFER, "v4.lab.example")
    engine.say({"kind": "subscribe", "on": True})
    flows = lambda one: [flow for flow in one["board"]["connections"] if flow["transport"] == "tcp" and flow["down_bytes"] > 0]
    engine.wait("statistics", fits=lambda one: len(flows(one)) == 2)
    ip("-6", "addr", "flush", "dev", "eth0", "scope", "global")
    engine.say({"kind": "network", "network": engine.network(id="IPv4 alone", transport="cellular")})
    cut = moved.ended()
    after = curl(10001, "org.example.a", "http://www.lab.example/").ended()
    return {"cut": cut, "staying": staying.ended(), "after": after, "lines": engine.lines(), **engine.stop()}


def replaced(tun):
    """Another interface under a transfer: it goes on over that one, and the first is no more."""
    engine = Engine(tun)
    staying = App(10001, "org.example.a", sys.executable, "-c", TRANSFER, "v4.lab.example")
    engine.say({"kind": "subscribe", "on": True})
    flows = lambda one: [flow for flow in one["board"]["connections"] if flow["transport"] == "tcp" and flow["down_bytes"] > 0]
    engine.wait("statistics", fits=lambda one: len(flows(one)) == 1)
    other = interface("phone1")
    engine.say({"kind": "interface"}, other)
    engine.say({"kind": "interface"})
    engine.wait("error")
    # The engine lets go of it, too: with the last descriptor it goes.
    os.close(tun)
    gone = not os.path.exists("/sys/class/net/phone0")
    after = curl(10001, "org.example.a", "http://www.lab.example/").ended()
    errors = [(one["name"], one["of"]) for one in engine.of("error")]
    return {"staying": staying.ended(), "after": after, "gone": gone, "errors": errors, "lines": engine.lines(), **engine.stop()}


FLOWS, AT_A_TIME = 5000, 50
# Longer than any timer that is left without traffic would wait.
IDLE = 15


def day(tun):
    """As many connections as a phone has in a day, fifty at a time; then nothing for a while."""
    engine = Engine(tun)
    todo = iter(range(FLOWS))

    def fetch():
        while next(todo, None) is not None:
            with socket.create_connection(("198.19.0.1", 80), WAIT) as one:
                one.sendall(b"GET /bytes/2000 HTTP/1.1\r\nHost: www.lab.example\r\nConnection: close\r\n\r\n")
                while one.recv(65536):
                    pass

    threads = [threading.Thread(target=fetch) for _ in range(AT_A_TIME)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    status = lambda name: next(
        int(line.split()[1]) for line in open("/proc/%d/status" % engine.process.pid) if line.startswith(name + ":"))
    peak = status("VmHWM")
    # Timers of connections that have just ended are still due: until a second passes without one, on a slow machine a while.
    for _ in range(WAIT):
        before = status("voluntary_ctxt_switches")
        time.sleep(1)
        if status("voluntary_ctxt_switches") == before:
            break
    # From then on nothing may wake it, not even once.
    before = status("voluntary_ctxt_switches")
    time.sleep(IDLE)
    idle = status("voluntary_ctxt_switches") - before
    connections = [line for line in engine.lines() if line["event"] == "connection"]
    whole = [line for line in connections if line["end"] == "finished" and line["down_bytes"] > 2000]
    return {"peak_kb": peak, "idle": idle, "connections": len(connections), "whole": len(whole), **engine.stop()}


# An echo as apps send it: icmp(7) numbers it and adds the sum.
PING = """
import socket, sys
v6 = ":" in sys.argv[1]
with socket.socket(*((socket.AF_INET6, socket.SOCK_DGRAM, 58) if v6 else (socket.AF_INET, socket.SOCK_DGRAM, 1))) as asker:
    asker.settimeout(60)
    asker.sendto(bytes([128 if v6 else 8, 0, 0, 0, 0, 0, 0, 1]) + b"hello", (sys.argv[1], 0))
    print(asker.recv(100)[8:].decode())
"""


def pings(tun):
    """Apps that ping, two at a time of each family, as Android lets them."""
    with open("/proc/sys/net/ipv4/ping_group_range", "w") as allowed:
        allowed.write("0 2147483647")
    engine = Engine(tun)
    peers = ["198.19.0.1", "198.19.0.1", "2001:db8:1::1", "2001:db8:1::1"]
    said = [app.ended() for app in [App(10001, "org.example.a", sys.executable, "-c", PING, peer) for peer in peers]]
    return {"said": said, **engine.stop(), "protected": engine.protected}


def wrong(tun):
    """What does not belong is named, and what follows is served all the same."""
    engine = Engine(tun)
    engine.say({"kind": "weather"})
    engine.say({"kind": "start", "network": {}})
    engine.say({"kind": "protected"})
    engine.say({"kind": "export", "what": "lines"})
    # A pipe that nobody reads would hold up everything.
    reader, writer = os.pipe()
    engine.say({"kind": "export", "what": "lines"}, writer)
    engine.say({"kind": "export", "what": "pcapng"}, writer)
    engine.wait("error", 5)
    names = [(one["name"], one["of"]) for one in engine.of("error")]
    fetched = curl(10001, "org.example.a", "http://www.lab.example/").ended()
    engine.socket.sendall(b"\xff\xff\xff\xff")
    last = engine.wait("error", 6)
    return {"names": names, "fetched": fetched, "last": last["name"], "code": engine.process.wait(WAIT)}


print(json.dumps(globals()[scenario](interface())))
