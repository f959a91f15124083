"""Programs of others, standing services and resolvers, as peer.py starts them."""

import os, shutil, socket, struct, subprocess, threading, time


def free_port(a):
    """A port that is free for connections and for datagrams."""
    with socket.socket(a.family) as one, socket.socket(a.family, socket.SOCK_DGRAM) as other:
        one.bind((a.any, 0))
        try:
            other.bind(one.getsockname())
        except OSError:
            return free_port(a)
        return one.getsockname()[1]


def beside(a, port, *words, kind=socket.SOCK_STREAM):
    """A program for as long as the client wants it."""
    process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    # Until it listens: tried by a bind that fails.
    end = time.monotonic() + 10
    while process.poll() is None and time.monotonic() < end:
        with socket.socket(a.family, kind) as one:
            try:
                one.bind((a.any, port))
            except OSError:
                break
        time.sleep(0.05)
    a.say(port=port)
    a.go()
    process.terminate()
    process.wait()
    return ""


def iperf(a):
    port = free_port(a)
    return beside(a, port, "iperf3", "--server", "--port", str(port))


def nuttcp(a):
    port = free_port(a)
    return beside(a, port, "nuttcp", "-S", "--nofork", f"-P{port}")


def sockperf(a):
    port = free_port(a)
    return beside(a, port, "sockperf", "server", "-i", "0.0.0.0", "-p", str(port), kind=socket.SOCK_DGRAM)


def web(a):
    """Says the same to every request."""
    body = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello"
    listener = a.listener()
    a.say(port=listener.getsockname()[1])
    stream, _ = listener.accept()
    stream.settimeout(5)
    stream.recv(4096)
    stream.sendall(body)
    stream.close()
    a.go()
    return ""


def secure_shell(a):
    folder, port = a.want["folder"], free_port(a)
    os.makedirs("/run/sshd", exist_ok=True)
    words = ["sshd", "-D", "-f", "/dev/null", "-p", str(port), "-h", f"{folder}/host"]
    for option in [f"AuthorizedKeysFile={folder}/user.pub", "StrictModes=no", "UsePAM=no", "PidFile=none", "PermitRootLogin=yes"]:
        words += ["-o", option]
    # It wants to be called by its whole path.
    return beside(a, port, shutil.which(words[0]), *words[1:])


def stand():
    """Services of the host that are there before any program: echoes on ports 7 of loopback, and 17 of its own addresses."""
    for port, ips in [(7, ["127.0.0.1", "::1"]), (17, ["198.18.0.2", "2001:db8:18::2"])]:
        for ip in ips:
            family = socket.AF_INET6 if ":" in ip else socket.AF_INET
            listener, one = socket.create_server((ip, port), family=family), socket.socket(family, socket.SOCK_DGRAM)
            one.bind((ip, port))

            def streams(listener=listener):
                while True:
                    stream, _ = listener.accept()
                    with stream:
                        stream.sendall(stream.recv(100))

            def datagrams(one=one):
                while True:
                    data, caller = one.recvfrom(65535)
                    one.sendto(data, caller)

            for serve in [streams, datagrams]:
                threading.Thread(target=serve, daemon=True).start()


def answer_of(query, addresses):
    """The answer of a resolver that knows one host, and a name that never is answered."""
    at, labels = 12, []
    while query[at]:
        labels.append(query[at + 1:at + 1 + query[at]].decode().lower())
        at += 1 + query[at]
    question, name = query[12:at + 5], ".".join(labels)
    kind = int.from_bytes(query[at + 1:at + 3], "big")
    if name == "silent.test":
        return None
    if name == "failing.test":
        return query[:2] + b"\x81\x82" + struct.pack(">HHHH", 1, 0, 0, 0) + question
    known = {"peer.test": addresses, "four.test": addresses[:1], "six.test": addresses[1:], "many.test": addresses}.get(name)
    code, records = (3 if known is None else 0), []
    for ip in known or []:
        packed = socket.inet_pton(10 if ":" in ip else 2, ip)
        if kind == (28 if len(packed) == 16 else 1):
            records.append(b"\xc0\x0c" + struct.pack(">HHIH", kind, 1, 60, len(packed)) + packed)
    return query[:2] + bytes([0x81, 0x80 | code]) + struct.pack(">HHHH", 1, len(records), 0, 0) + question + b"".join(records)


def resolve(ip):
    """A resolver on port 53 of an address, over UDP and TCP, for as long as this program runs."""
    addresses = ["198.19.0.2", "2001:db8:19::2"]
    udp, tcp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM), socket.create_server((ip, 53))
    udp.bind((ip, 53))

    def datagrams():
        while True:
            query, caller = udp.recvfrom(2000)
            if answer := answer_of(query, addresses):
                udp.sendto(answer, caller)

    def streams():
        while True:
            stream, _ = tcp.accept()
            with stream:
                length = stream.recv(2)
                answer = answer_of(stream.recv(int.from_bytes(length, "big")), addresses) or b""
                stream.sendall(struct.pack(">H", len(answer)) + answer)

    for serve in [datagrams, streams]:
        threading.Thread(target=serve, daemon=True).start()
