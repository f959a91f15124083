"""Cases: programs that others have written. One that is not installed says so, in every arm alike."""

import json, os, re, shutil, subprocess, tempfile
from client import case

LONG = 25


def ran(words, **more):
    """A program's exit code and output; `None` if it is not there."""
    if not shutil.which(words[0]):
        return None, f"missing: {words[0]}"
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=LONG, stdin=subprocess.DEVNULL, **more)
    except subprocess.TimeoutExpired:
        return None, f"{words[0]} does not end"
    return done.returncode, done.stdout + done.stderr


def iperf(c, *words):
    if not shutil.which("iperf3"):
        return "missing: iperf3"
    peer = c.peer("iperf")
    code, out = ran(["iperf3", "--client", c.peer_ip, "--port", str(peer.port), "--json", *words])
    peer.go()
    said = json.loads(out) if out.startswith("{") else {}
    end = said.get("end", {})
    lost = end.get("sum", {}).get("lost_packets")
    moved = max(end.get(key, {}).get("bytes", 0) for key in ("sum", "sum_received", "sum_sent")) if end else 0
    return code, said.get("error", "no error"), "moved" if moved > 0 else "nothing moved", "" if lost is None else "lost some" if lost > 20 else "lost none"


@case()
def iperf3_up(c):
    return iperf(c, "--time", "1")


@case()
def iperf3_down(c):
    return iperf(c, "--time", "1", "--reverse", "--parallel", "4")


@case("4")
def iperf3_datagrams(c):
    return iperf(c, "--udp", "--bitrate", "2m", "--time", "1")


@case("4")
def iperf3_datagrams_down(c):
    return iperf(c, "--udp", "--bitrate", "2m", "--time", "1", "--reverse")


def hops(out):
    """The addresses of hops and what is marked on them, without times."""
    lines = [re.sub(r"\s+[\d.]+ ms", "", line).split()[1:] for line in out.splitlines()[1:]]
    return " | ".join(" ".join(line) for line in lines)


def traced(c, *words, to=None):
    """Once more if no hop answers at all, as happens on a machine that is busy."""
    for _ in range(3):
        code, out = ran(["traceroute", "-n", "-q", "1", "-w", "2", "-m", "4", *words, to or c.peer_ip])
        if code is None or set(hops(out)) - set("*| "):
            break
    return out if code is None else hops(out)


@case()
def traceroute_by_datagrams(c):
    return traced(c)


@case()
def traceroute_by_pings(c):
    return traced(c, "-I")


@case("4")
def traceroute_by_tcp(c):
    return traced(c, "-T", "-p", "7002")


@case("4")
def traceroute_to_an_unreachable_host(c):
    return traced(c, to=c.net(70))


@case("4")
def traceroute_to_a_prohibited_host_by_pings(c):
    return traced(c, "-I", to=c.net(71))


@case("4")
def traceroute_of_the_mtu(c):
    return traced(c, "--mtu", to=c.narrow_ip)


@case("4")
def traceroute_of_the_mtu_of_the_route(c):
    return traced(c, "--mtu", to=c.net(82))


def path(to):
    code, out = ran(["tracepath", "-n", "-m", "4", to])
    return out if code is None else re.sub(r"\s+[\d.]+ms", "", " | ".join(line.strip() for line in out.splitlines()))


@case()
def tracepath(c):
    return path(c.narrow_ip)


@case()
def tracepath_by_a_narrow_route(c):
    return path(c.net(82))


@case()
def nmap_connects(c):
    peer = c.peer("stays")
    code, out = ran(["nmap", "-n", "-Pn", "-sT", "-p", f"7001,7002,{peer.port}", *(["-6"] if c.v6 else []), c.peer_ip])
    return out if code is None else (code, re.findall(r"/tcp\s+(\S+)", out))


@case()
def nmap_sends_openings(c):
    peer = c.peer("stays")
    code, out = ran(["nmap", "-n", "-Pn", "-sS", "-p", f"7002,{peer.port}", *(["-6"] if c.v6 else []), c.peer_ip])
    return out if code is None else (code, re.findall(r"/tcp\s+(\S+)", out))


@case("4")
def nmap_finds_hosts(c):
    code, out = ran(["nmap", "-n", "-sn", c.peer_ip, c.other_ip, c.router])
    return out if code is None else (code, re.findall(r"report for (\S+)", out))


@case()
def ping_program(c):
    code, out = ran(["ping", "-n", "-c", "2", "-i", "0.2", "-W", "2", c.peer_ip])
    return out if code is None else (code, re.findall(r"(\d+) received", out))


@case("4")
def dig(c):
    return [" ".join(ran(["dig", "+short", "+tries=1", "+time=2", *words, "four.test"])[1].split()) for words in ([], ["@198.19.0.2"], ["+tcp"])]


@case("4")
def curl(c):
    peer = c.peer("web")
    code, out = ran(["curl", "-sS", "--max-time", "10", "--write-out", " %{http_code} %{remote_ip}", f"http://peer.test:{peer.port}/"])
    peer.go()
    return code, out


@case("4")
def wget(c):
    peer = c.peer("web")
    code, out = ran(["wget", "-q", "-O", "-", "-T", "10", "-t", "1", f"http://four.test:{peer.port}/"])
    peer.go()
    return code, out


def over_ssh(c, use):
    """`use` gets a folder and the words of an ssh to an sshd of the peer's, with a key of the moment."""
    if missing := [name for name in ("ssh", "sshd") if not shutil.which(name)]:
        return f"missing: {', '.join(missing)}"
    with tempfile.TemporaryDirectory() as folder:
        for name in "host", "user":
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", f"{folder}/{name}"], check=True)
        peer, words = c.peer("secure_shell", folder=folder), ["ssh", "-F", "none"]
        for option in ["StrictHostKeyChecking=no", f"UserKnownHostsFile={folder}/known", "BatchMode=yes", "LogLevel=ERROR", "ConnectTimeout=10"]:
            words += ["-o", option]
        said = use(folder, [*words, "-p", str(peer.port), "-i", f"{folder}/user"])
        peer.go()
        return said


@case("4")
def secure_shell(c):
    def use(_, ssh):
        code, out = ran([*ssh, f"root@{c.peer_ip}", "echo over ssh; head -c 300000 /dev/zero | wc -c"])
        return code, " ".join(out.split())
    return over_ssh(c, use)


@case("4")
def rsync_over_ssh(c):
    def use(folder, ssh):
        os.mkdir(f"{folder}/from")
        with open(f"{folder}/from/file", "wb") as file:
            file.write(b"r" * 500000)
        there = f"--rsync-path={shutil.which('rsync')}"
        code, out = ran(["rsync", "-a", there, "-e", " ".join(ssh), f"{folder}/from/", f"root@{c.peer_ip}:{folder}/to/"])
        return (code, out) if code != 0 else (code, os.path.getsize(f"{folder}/to/file"))
    return over_ssh(c, use)


def nuttcp(c, *words):
    if not shutil.which("nuttcp"):
        return "missing: nuttcp"
    peer = c.peer("nuttcp")
    code, out = ran(["nuttcp", "-T1", "-P", str(peer.port), *words, c.peer_ip])
    peer.go()
    lost = re.search(r"([\d.]+) %loss", out)
    return code, "moved" if "MB" in out else out, "" if not lost else "lost some" if float(lost[1]) > 1 else "lost none"


@case("4")
def nuttcp_up(c):
    return nuttcp(c)


@case("4")
def nuttcp_down(c):
    """The server calls back for its data."""
    return nuttcp(c, "-r")


@case("4")
def nuttcp_datagrams(c):
    return nuttcp(c, "-u", "-R2m")


@case("4")
def nuttcp_datagrams_down(c):
    return nuttcp(c, "-u", "-r", "-R2m")


@case("4")
def sockperf(c):
    """A ping-pong of datagrams."""
    if not shutil.which("sockperf"):
        return "missing: sockperf"
    peer = c.peer("sockperf")
    code, out = ran(["sockperf", "ping-pong", "-i", c.peer_ip, "-p", str(peer.port), "-t", "1"])
    peer.go()
    return code, re.findall(r"# dropped messages = (\d+)", out)
