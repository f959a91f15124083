"""The client of the differential suite: an ordinary program that does small things with sockets and says in words what it saw.

client.py FOLDER [--quick] [--list] [CASE ...]: FOLDER has the sockets of peer.py's. A line for each case: its name, a tab, the words; no times, no
chosen ports, nothing that two runs would tell differently. Each case is a process of its own, some at a time.
"""

import errno, json, os, re, select, signal, socket, sys, time

AT_A_TIME = 6
# A case that takes longer hangs, and says so.
LONGEST = 30
CASES = {}


class Case:
    """One function, over one family."""

    def __init__(self, name, run, v6, quick):
        self.name, self.run, self.v6, self.quick = name, run, v6, quick


def case(families="46", quick=False):
    """Registers a case: for both families, or for one of them. A quick one takes less than a second."""
    def add(run):
        name = run.__name__.replace("_", "-")
        for family in families:
            full = name + ("-v6" if family == "6" else "")
            assert full not in CASES, full
            CASES[full] = Case(full, run, family == "6", quick)
        return run
    return add


def named(e):
    """An error in one word."""
    if isinstance(e, socket.gaierror):
        return next(name for name in dir(socket) if name.startswith("EAI_") and getattr(socket, name) == e.errno)
    if isinstance(e, TimeoutError) and not e.errno:
        return "timed out"
    return errno.errorcode.get(e.errno, type(e).__name__)


def tried(do, *words):
    """What a call gives, or its error."""
    try:
        return do(*words)
    except OSError as e:
        return named(e)


def bits(found):
    """The bits of poll(2) in words."""
    names = ["IN", "PRI", "OUT", "ERR", "HUP", "NVAL", "RDHUP"]
    return "+".join(name for name in names if found & getattr(select, "POLL" + name)) or "none"


class Clock:
    """Since when something goes on; in classes, for machines are slow."""

    def __init__(self):
        self.began = time.monotonic()

    def about(self, seconds, slack=2.5):
        took = time.monotonic() - self.began
        return "in time" if seconds - 0.3 <= took <= seconds + slack else f"{'early' if took < seconds else 'late'}, not {seconds} s"


class Peer:
    """What a host does for a case."""

    def __init__(self, folder, host, want):
        self.control = socket.socket(socket.AF_UNIX)
        self.control.settimeout(LONGEST)
        self.control.connect(f"{folder}/{host}")
        self.control.sendall(json.dumps(want).encode() + b"\n")
        self.lines = self.control.makefile("r")
        self.said = json.loads(self.lines.readline())
        self.port = self.said.get("port")

    def go(self, wait=False):
        """Tells it to go on; `wait`: until it has."""
        self.control.sendall(b"go\n")
        if wait:
            json.loads(self.lines.readline())

    def heard(self):
        """What it saw."""
        for line in self.lines:
            if "heard" in (said := json.loads(line)):
                return said["heard"]
        return "nothing"


class Context:
    """A case's surroundings."""

    def __init__(self, folder, v6):
        self.folder, self.v6 = folder, v6
        self.family = socket.AF_INET6 if v6 else socket.AF_INET
        self.level = socket.IPPROTO_IPV6 if v6 else socket.IPPROTO_IP
        self.any = "::" if v6 else "0.0.0.0"
        self.loopback = "::1" if v6 else "127.0.0.1"
        self.peer_ip = "2001:db8:19::2" if v6 else "198.19.0.2"
        self.other_ip = self.peer_ip[:-1] + "3"
        self.narrow_ip = "2001:db8:80::2" if v6 else "198.19.80.2"
        self.own = "2001:db8:18::2" if v6 else "198.18.0.2"
        self.second = self.own[:-1] + "3"
        self.router = "2001:db8:18::1" if v6 else "198.18.0.1"

    def net(self, number, host=2):
        """A host of one of the networks that are no good: 70 to 75, and 81, which takes nothing longer than 1300 bytes and does not say so; or of 82,
        of whose MTU of 1300 the host's route knows."""
        return f"2001:db8:{number}::{host}" if self.v6 else f"198.19.{number}.{host}"

    def peer(self, do, at="peer", **want):
        return Peer(self.folder, at, {"do": do, "v6": self.v6, **want})

    def tcp(self, timeout=15):
        stream = socket.socket(self.family)
        stream.settimeout(timeout)
        return stream

    def udp(self, timeout=4):
        one = socket.socket(self.family, socket.SOCK_DGRAM)
        one.settimeout(timeout)
        return one

    def to(self, do, **want):
        """A peer, and a connection to it."""
        peer, stream = self.peer(do, **want), self.tcp()
        stream.connect((self.peer_ip, peer.port))
        return peer, stream


def wait_for(stream, events, timeout=5):
    """The bits that poll says within a time, where these are wanted."""
    poll = select.poll()
    poll.register(stream, events)
    found = poll.poll(timeout * 1000)
    return bits(found[0][1]) if found else "none"


def known(words, *ports):
    """A peer's words, in which only these ports have numbers."""
    return re.sub(r"(?<=[0-9a-f] )\d{2,5}(?=[,;]|$)", lambda port: port[0] if int(port[0]) in ports else "another port", words)


def until(wanted, timeout=5):
    """Waits for what can only be looked at."""
    end = time.monotonic() + timeout
    while time.monotonic() < end:
        if wanted():
            return True
        time.sleep(0.01)
    return False


def once(folder, one):
    """A case, in words."""
    try:
        said = one.run(Context(folder, one.v6))
        return ", ".join(map(str, said)) if isinstance(said, (tuple, list)) else str(said)
    except OSError as e:
        return f"unforeseen: {named(e)} at line {e.__traceback__.tb_next.tb_lineno}"
    except Exception as e:
        return f"unforeseen: {type(e).__name__}: {e}"


def begin(folder, one):
    """Starts a case; its process and the end of a pipe that says what came of it."""
    out, into = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(out)
        signal.alarm(LONGEST)
        os.write(into, once(folder, one).replace("\n", " ").encode())
        os._exit(0)
    os.close(into)
    return child, out


def finish(child, out):
    with open(out, "rb") as file:
        said = file.read().decode()
    _, status = os.waitpid(child, 0)
    return said if said else f"it hung for {LONGEST} s" if os.WIFSIGNALED(status) else f"it ended with {status}"


def main():
    import cases_endings, cases_host, cases_icmp, cases_open, cases_options, cases_programs, cases_raw, cases_stream, cases_udp  # noqa: F401
    folder, *words = sys.argv[1:]
    names = [word for word in words if not word.startswith("--")]
    wanted = [one for one in CASES.values() if (not names or one.name in names) and (one.quick or "--quick" not in words)]
    if unknown := [name for name in names if name not in CASES]:
        sys.exit(f"unknown case: {', '.join(unknown)}")
    if "--list" in words:
        return print("\n".join(one.name for one in wanted))
    waiting, running = list(wanted), {}
    while waiting or running:
        while waiting and len(running) < AT_A_TIME:
            one = waiting.pop(0)
            child, out = begin(folder, one)
            running[out] = (one, child)
        for out in select.select(list(running), [], [])[0]:
            one, child = running.pop(out)
            print(one.name, finish(child, out), sep="\t", flush=True)


if __name__ == "__main__":
    # The cases register themselves in this very module.
    sys.modules["client"] = sys.modules["__main__"]
    main()
