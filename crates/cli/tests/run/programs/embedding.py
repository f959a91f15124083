"""A program that has headstart within it, as an app with Android's VpnService has: it makes a TUN interface without
IFF_VNET_HDR, leads what is not marked into it, protects sockets by marking them, and has a program fetch a page.

embedding.py HEADSTART FLOWS PEER ANSWER: what came of it, how many sockets were protected, how the forwarder ended.
embedding.py HEADSTART FLOWS PEER ANSWER MTU PORT CAPTURE: an interface with that MTU, and a peer that sends back whatever it gets.
"""

import array, fcntl, os, socket, struct, subprocess, sys, threading

TUNSETIFF, IFF_TUN, IFF_NO_PI, SO_MARK, OURS = 0x400454CA, 1, 0x1000, 36, 0x77
headstart, flows, peer, answer = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
mtu, port, capture = sys.argv[5:] or ["9000", "80", None]


def ip(*words):
    subprocess.run(["ip", *words], check=True)


tun = os.open("/dev/net/tun", os.O_RDWR)
fcntl.ioctl(tun, TUNSETIFF, struct.pack("16sH22x", b"embedded", IFF_TUN | IFF_NO_PI))
ip("link", "set", "embedded", "mtu", mtu, "up")
ip("addr", "add", "10.77.0.1/32", "dev", "embedded")
ip("route", "add", "default", "dev", "embedded", "table", "77")
rule = ["not", "fwmark", hex(OURS), "to", peer, "lookup", "77"]
ip("rule", "add", *rule)

hook = socket.socket(socket.AF_UNIX)
hook.bind("\0headstart-embedding-%d" % os.getpid())
hook.listen(16)
protected = []


def protect():
    while True:
        asker, _ = hook.accept()
        descriptors = array.array("i")
        _, ancillary, _, _ = asker.recvmsg(1, socket.CMSG_SPACE(4))
        for _, _, data in ancillary:
            descriptors.frombytes(data)
        with socket.socket(fileno=descriptors[0]) as one:
            one.setsockopt(socket.SOL_SOCKET, SO_MARK, OURS)
            protected.append(one.type)
        asker.sendall(bytes([answer]))
        asker.close()


threading.Thread(target=protect, daemon=True).start()
name = "@headstart-embedding-%d" % os.getpid()
words = ["forward", "--tun-fd", str(tun), "--protect", name, "--flows", flows]
words += ["--pcapng", capture] if capture else []
forwarder = subprocess.Popen([headstart, *words], pass_fds=[tun], stderr=subprocess.PIPE)
stream = socket.socket()
stream.bind(("10.77.0.1", 0))
stream.settimeout(60)


def exchange():
    """4 MB there and back."""
    said = bytes(n % 251 for n in range(1 << 16)) * 64
    threading.Thread(target=stream.sendall, args=[said], daemon=True).start()
    heard = bytearray()
    while len(heard) < len(said) and (chunk := stream.recv(1 << 20)):
        heard += chunk
    print("segments of %d bytes" % stream.getsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG), heard == said)


def fetch():
    stream.sendall(b"GET / HTTP/1.1\r\nHost: www.lab.example\r\nConnection: close\r\n\r\n")
    said = b""
    while chunk := stream.recv(65536):
        said += chunk
    print(said[:8].decode(), len(said) > 8)


try:
    stream.connect((peer, int(port)))
    exchange() if capture else fetch()
except OSError as e:
    print(type(e).__name__, False)
stream.close()
print(len(protected) > 0)
forwarder.terminate()
print(forwarder.wait(), forwarder.stderr.read().decode().count("measured"))
ip("rule", "del", *rule)
