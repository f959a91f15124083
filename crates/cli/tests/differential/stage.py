"""The stage of the differential suite: a host, a router and a peer in network namespaces of their own, and the client on the host, bare
or under headstart.

stage.py HEADSTART ARM[,ARM...] [--quick] [CASE ...]: prints `ARM<tab>CASE<tab>what the program saw` for each; `ARM<tab>!<tab>why`
if an arm does not work here. Standard library, unshare(1), ip(8) and nft(8). Nothing is left: all of it is in namespaces that end with
this program.
"""

import ctypes, fcntl, os, struct, subprocess, sys, tempfile, time

HERE = os.path.dirname(os.path.abspath(__file__))
INSIDE = "HEADSTART_DIFFERENTIAL_INSIDE"
ARMS = ["bare", "bare-again", "run-tun", "run-ebpf", "up", "forward", "connect"]
TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 1, 0x1000
# An arm that takes longer than this is stuck.
LONGEST = 400


def within(arm):
    """This program again, for one arm, in namespaces of its own: root there, all of it gone with it, and no port in use from before."""
    words = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    words += [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    words += [sys.executable, sys.argv[0], sys.argv[1], arm, *sys.argv[3:]]
    return subprocess.run(words, env={**os.environ, INSIDE: "1"}).returncode


def sh(text, netns=None):
    """Runs lines of commands; the first that fails ends the stage."""
    for line in filter(None, map(str.strip, text.splitlines())):
        words = (["ip", "netns", "exec", netns] if netns else []) + line.split()
        done = subprocess.run(words, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        if done.returncode:
            sys.exit(f"{line}: {done.stderr.strip()}")


# Black holes are looked for, as some systems do (RFC 4821): by the path's kernel, which is the host's under every arm.
HOST = """
sysctl -qw net.ipv4.tcp_mtu_probing=1
ip link set lo up
ip link add eth0 type veth peer name host netns router
ip addr add 198.18.0.2/24 dev eth0
ip addr add 198.18.0.3/24 dev eth0
ip addr add 2001:db8:18::2/64 dev eth0 nodad
ip addr add 2001:db8:18::3/64 dev eth0 nodad preferred_lft 0
ip link set eth0 up
ip route add default via 198.18.0.1
ip -6 route add default via 2001:db8:18::1
ip route add unreachable 198.19.73.0/24
ip route add prohibit 198.19.74.0/24
ip route add blackhole 198.19.75.0/24
ip route add 198.19.82.0/24 via 198.18.0.1 mtu 1300
ip -6 route add unreachable 2001:db8:73::/64
ip -6 route add prohibit 2001:db8:74::/64
ip -6 route add blackhole 2001:db8:75::/64
ip -6 route add 2001:db8:82::/64 via 2001:db8:18::1 mtu 1300
"""
ROUTER = """
sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1 net.ipv4.icmp_ratelimit=0 net.ipv6.icmp.ratelimit=0 net.ipv4.icmp_msgs_per_sec=100000
ip link set lo up
ip link add wire type veth peer name eth0 netns peer
ip addr add 198.18.0.1/24 dev host
ip addr add 2001:db8:18::1/64 dev host nodad
ip addr add fe80::1/64 dev host nodad
ip addr add 198.19.0.1/24 dev wire
ip addr add 2001:db8:19::1/64 dev wire nodad
ip link set host up
ip link set wire up
ip route add 198.19.0.0/16 via 198.19.0.2
ip route add blackhole 198.19.72.0/24
ip route add 198.19.80.0/24 via 198.19.0.2 mtu lock 1300
ip -6 route add 2001:db8::/32 via 2001:db8:19::2
ip -6 route add blackhole 2001:db8:72::/64
ip -6 route add 2001:db8:80::/64 via 2001:db8:19::2 mtu 1300
"""
PEER = """
sysctl -qw net.ipv4.icmp_ratelimit=0 net.ipv6.icmp.ratelimit=0 net.ipv4.icmp_msgs_per_sec=100000 net.ipv4.tcp_fastopen=0
ip link set lo up
ip addr add 198.19.0.2/24 dev eth0
ip addr add 198.19.0.3/24 dev eth0
ip addr add 2001:db8:19::2/64 dev eth0 nodad
ip addr add 2001:db8:19::3/64 dev eth0 nodad preferred_lft 0
ip addr add 198.19.80.2/32 dev eth0
ip addr add 2001:db8:80::2/128 dev eth0 nodad preferred_lft 0
ip addr add 198.19.81.2/32 dev eth0
ip addr add 2001:db8:81::2/128 dev eth0 nodad preferred_lft 0
ip addr add 198.19.82.2/32 dev eth0
ip addr add 2001:db8:82::2/128 dev eth0 nodad preferred_lft 0
ip link set eth0 up
ip route add default via 198.19.0.1
ip -6 route add default via 2001:db8:19::1
"""
# Not by routes of the kinds `unreachable` and `prohibit`: the kernel tells of those once a second.
ROUTER_FILTER = """
table inet differential {
    chain forward {
        type filter hook forward priority 0;
        ip daddr 198.19.81.0/24 meta length > 1300 drop
        ip6 daddr 2001:db8:81::/64 meta length > 1300 drop
        ip daddr 198.19.70.0/24 reject with icmp host-unreachable
        ip daddr 198.19.71.0/24 reject with icmp admin-prohibited
        ip daddr 198.19.99.0/24 reject with icmp net-unreachable
        ip6 daddr 2001:db8:70::/64 reject with icmpv6 addr-unreachable
        ip6 daddr 2001:db8:71::/64 reject with icmpv6 admin-prohibited
        ip6 daddr 2001:db8:99::/64 reject with icmpv6 no-route
    }
}
"""
# Ports whose segments are lost, whose resets are lost, and that a packet filter refuses in each of its ways.
FILTER = """
table inet differential {
    set silent { type inet_service; }
    set mute { type inet_service; }
    chain input {
        type filter hook input priority 0;
        tcp dport @silent drop
        tcp dport 7001 reject with icmpx admin-prohibited
        tcp dport 7002 reject with tcp reset
        tcp dport 7003 reject with icmpx port-unreachable
        tcp dport 7004 reject with icmpx host-unreachable
        tcp dport 7005 reject with icmpx no-route
        udp dport 7001 reject with icmpx admin-prohibited
        udp dport 7004 reject with icmpx host-unreachable
        udp dport 7005 reject with icmpx no-route
    }
    chain output {
        type filter hook output priority 0;
        tcp sport @silent drop
        tcp sport @mute tcp flags rst drop
    }
}
"""


class Stage:
    """The three hosts, and the processes that serve on them."""

    def __init__(self, headstart, words):
        self.headstart, self.words = headstart, words
        self.folder = tempfile.mkdtemp(prefix="differential-", dir="/run")
        for name in ["state", "run", "control"]:
            os.mkdir(f"{self.folder}/{name}")
        self.environment = {
            "PATH": os.environ.get("PATH", "/usr/bin:/bin") + ":/usr/sbin:/sbin", "HOME": self.folder, "PYTHONDONTWRITEBYTECODE": "1",
            "STATE_DIRECTORY": f"{self.folder}/state", "RUNTIME_DIRECTORY": f"{self.folder}/run", "HEADSTART": "private",
        }
        sh("ip netns add router\nip netns add peer\nip netns add guest")
        sh(HOST)
        may_ping()
        sh(ROUTER, "router")
        sh(PEER, "peer")
        for name, rules in [("router", ROUTER_FILTER), ("peer", FILTER)]:
            subprocess.run(["ip", "netns", "exec", name, "nft", "-f", "-"], input=rules.encode(), check=True)
        self.servers = [self.serve(name) for name in ["host", "router", "peer"]]
        while not all(os.path.exists(f"{self.folder}/control/{name}") for name in ["host", "router", "peer"]):
            if any(server.poll() is not None for server in self.servers):
                sys.exit("a peer ended at once")
            time.sleep(0.02)

    def serve(self, name):
        within = [] if name == "host" else ["ip", "netns", "exec", name]
        return subprocess.Popen([*within, sys.executable, f"{HERE}/peer.py", f"{self.folder}/control/{name}"], env=self.environment)

    def play(self, arm, before=(), netns=None):
        """The client, with these words before it."""
        within = ["ip", "netns", "exec", netns] if netns else []
        words = [*within, *before, sys.executable, f"{HERE}/client.py", f"{self.folder}/control", *self.words]
        process = subprocess.Popen(
            words, env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            out, err = process.communicate(timeout=LONGEST)
        except subprocess.TimeoutExpired:
            process.kill()
            return say(arm, "!", f"it was not done after {LONGEST} s")
        lines = [line for line in out.splitlines() if "\t" in line]
        for line in lines:
            print(arm, line, sep="\t", flush=True)
        if process.returncode or not lines:
            say(arm, "!", f"ended with {process.returncode}: {' '.join(err.split())[-400:] or out[-200:]}")

    def under(self, *words):
        return [self.headstart, "run", "--quiet", *words, "--"]

    def up(self, arm):
        words = [self.headstart, "up", "--foreground", "--measure", "--capture-default"]
        daemon = subprocess.Popen(words, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if daemon.stdout.readline().startswith("up: "):
            self.play(arm)
            daemon.terminate()
            if daemon.wait(60):
                say(arm, "!", f"`up` ended with {daemon.returncode}")
        else:
            daemon.wait(60)
            say(arm, "!", " ".join(daemon.stderr.read().split())[-400:])

    def forward(self, arm):
        """A guest whose only way out is an interface of an app's, with the host's addresses, so that both programs see the same."""
        try:
            tun = tun_in("guest")
        except OSError as e:
            return say(arm, "!", f"/dev/net/tun: {e.strerror}")
        sh("""
            ip link set lo up
            ip addr add 198.18.0.2/24 dev tun0
            ip addr add 198.18.0.3/24 dev tun0
            ip addr add 2001:db8:18::2/64 dev tun0 nodad
            ip addr add 2001:db8:18::3/64 dev tun0 nodad preferred_lft 0
            ip link set tun0 mtu 1500 up
            ip route add default dev tun0
            ip -6 route add default dev tun0
        """, "guest")
        words = [self.headstart, "forward", "--quiet", "--tun-fd", str(tun)]
        forwarder = subprocess.Popen(words, env=self.environment, pass_fds=[tun], stderr=subprocess.PIPE, text=True)
        os.close(tun)
        self.play(arm, netns="guest")
        if forwarder.poll() is not None:
            return say(arm, "!", " ".join(forwarder.stderr.read().split())[-400:])
        forwarder.terminate()
        forwarder.wait(60)

    def run(self, arm):
        plain = {
            "bare": [], "bare-again": [], "run-tun": self.under("--measure", "--via", "tun"),
            "run-ebpf": self.under("--measure", "--via", "ebpf"), "connect": self.under(),
        }
        if arm in plain:
            self.play(arm, plain[arm])
        else:
            {"up": self.up, "forward": self.forward}[arm](arm)


def may_ping():
    """The root of the namespace may open ping sockets, the only group that is sure to be there."""
    with open("/proc/sys/net/ipv4/ping_group_range", "w") as file:
        file.write("0 0")


def say(*words):
    print(*words, sep="\t", flush=True)


def tun_in(netns):
    """A TUN interface in a namespace; its descriptor stays with this program."""
    setns = ctypes.CDLL(None, use_errno=True).setns
    own, other = os.open("/proc/self/ns/net", os.O_RDONLY), os.open(f"/run/netns/{netns}", os.O_RDONLY)
    assert setns(other, 0) == 0
    may_ping()
    tun = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(tun, TUNSETIFF, struct.pack("16sH22x", b"tun0", IFF_TUN | IFF_NO_PI))
    assert setns(own, 0) == 0
    os.close(own), os.close(other)
    os.set_inheritable(tun, True)
    return tun


def main():
    headstart, arms, *words = sys.argv[1:]
    if unknown := set(arms.split(",")) - set(ARMS):
        sys.exit(f"{', '.join(unknown)}: choose one of {', '.join(ARMS)}")
    if INSIDE not in os.environ:
        sys.exit(max(within(arm) for arm in arms.split(",")))
    # A folder of our own, where ip(8) and headstart keep what they do; and a resolver on loopback.
    sh("mount --make-rprivate /\nmount -t tmpfs differential /run")
    with open("/run/resolv.conf", "w") as file:
        file.write("nameserver 127.0.0.53\noptions timeout:1 attempts:1\n")
    sh(f"mount --bind /run/resolv.conf {os.path.realpath('/etc/resolv.conf')}")
    Stage(os.path.abspath(headstart), words).run(arms)


if __name__ == "__main__":
    main()
