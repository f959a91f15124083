"""Cases: segments that no kernel sends, by hand (RFC 9293, 5961, 7323): what the other end of a connection answers to them. Bare that is the
peer's kernel, and measured whatever stands for the peer."""

import os, random, socket, struct, subprocess, time
from client import case
from cases_icmp import checksum

FIN, SYN, RST, PSH, ACK, URG = 1, 2, 4, 8, 16, 32
NAMES = [(SYN, "SYN"), (FIN, "FIN"), (RST, "RST")]


class Hand:
    """A connection whose segments are made here. The kernel would reset it: a packet filter keeps its resets back."""

    def __init__(self, c, do, options=b"", window=65535, **want):
        self.peer = c.peer(do, **want)
        self.own, self.ip = c.own, c.peer_ip
        # Held, so that nobody else has the port; a socket that does not listen and is not connected takes no segment.
        self.held = socket.socket()
        self.held.bind((c.own, 0))
        self.port, self.window = self.held.getsockname()[1], window
        table = f"differential_{self.port}"
        rules = (f"table inet {table} {{ chain output {{ type filter hook output priority 0; "
                 f"tcp sport {self.port} tcp flags rst meta mark != 0x77 drop; }}\n}}\n")
        subprocess.run(["nft", "-f", "-"], input=rules.encode(), check=True, capture_output=True)
        self.table = table
        self.raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_TCP)
        self.raw.setsockopt(socket.SOL_SOCKET, 36, 0x77)
        self.raw.bind((c.own, 0))
        self.raw.connect((self.ip, 0))
        self.first = random.getrandbits(32)
        # Their first number, and up to where theirs have come.
        self.theirs, self.far = None, 1
        self.options = options

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.send(RST, 1, None)
        subprocess.run(["nft", "delete", "table", "inet", self.table], capture_output=True)

    def send(self, flags, sequence, acknowledged, data=b"", window=None, options=b"", urgent=0):
        """A segment; numbers count from the SYN of each side, which has 0."""
        options += b"\x01" * (-len(options) % 4)
        number = (self.first + sequence) & 0xFFFFFFFF
        acked = (self.theirs + acknowledged) & 0xFFFFFFFF if acknowledged is not None and self.theirs is not None else 0
        window = self.window if window is None else window
        head = struct.pack(">HHIIBBHHH", self.port, self.peer.port, number, acked, (5 + len(options) // 4) << 4, flags, window, 0, urgent)
        segment = head + options + data
        pseudo = socket.inet_aton(self.own) + socket.inet_aton(self.ip) + struct.pack(">BBH", 0, 6, len(segment))
        segment = segment[:16] + struct.pack(">H", checksum(pseudo + segment)) + segment[18:]
        self.raw.send(segment)

    def next(self, timeout):
        """The next segment to this connection: flags, numbers and bytes."""
        end = time.monotonic() + timeout
        while (left := end - time.monotonic()) > 0:
            self.raw.settimeout(left)
            try:
                packet = self.raw.recv(65535)
            except TimeoutError:
                return None
            segment = packet[(packet[0] & 15) * 4:]
            source, to, number, acked, offset, flags, window = struct.unpack(">HHIIBBH", segment[:16])
            if (source, to) == (self.peer.port, self.port):
                if flags & SYN:
                    self.theirs = number
                    self.their_options = segment[20:(offset >> 4) * 4]
                data = segment[(offset >> 4) * 4:]
                self.their_window = window
                return flags, (number - (self.theirs or 0)) & 0xFFFFFFFF, (acked - self.first) & 0xFFFFFFFF if flags & ACK else 0, data
        return None

    def open(self):
        """SYN, SYN-ACK, ACK; what the peer says then is heard."""
        self.send(SYN, 0, None, options=b"\x02\x04\x05\xb4" + self.options)
        while (got := self.next(4)) and not got[0] & SYN:
            pass
        if not got:
            raise OSError(110, "no answer")
        self.send(ACK, 1, 1)
        return self

    def heard(self, timeout=1):
        """What comes for a while, in words that do not depend on how it was cut into segments, nor on what was repeated."""
        flags, acked, before, some = 0, 0, self.far, False
        while got := self.next(timeout):
            ends = got[1] + len(got[3]) + bool(got[0] & (FIN | SYN))
            if ends > got[1] and ends <= self.far:
                continue
            flags, acked, some, self.far = flags | got[0], max(acked, got[2]), True, max(self.far, ends if ends > got[1] else 0)
        words = [name for bit, name in NAMES if flags & bit] + [f"acknowledges {acked}"] * bool(flags & ACK)
        new = self.far - before - bool(flags & FIN) - bool(flags & SYN)
        return ", ".join(words + [f"{new} bytes"] * (new > 0)) if some else "nothing"


@case("4", quick=True)
def by_hand_an_exchange(c):
    with Hand(c, "echoes").open() as hand:
        hand.send(ACK | PSH, 1, 1, b"hello")
        return hand.heard()


@case("4", quick=True)
def by_hand_an_acknowledgement_of_what_was_not_sent(c):
    with Hand(c, "echoes").open() as hand:
        hand.send(ACK, 1, 5000)
        first = hand.heard()
        hand.send(ACK | PSH, 1, 5000, b"hello")
        second = hand.heard()
        hand.send(ACK | PSH, 1, 1, b"hello")
        return first, second, hand.heard()


@case("4", quick=True)
def by_hand_an_old_acknowledgement(c):
    with Hand(c, "sends", bytes=1000, stay=True).open() as hand:
        first = hand.heard()
        hand.send(ACK, 1, 1001)
        hand.send(ACK, 1, 1, window=10)
        second = hand.heard()
        hand.send(ACK | PSH, 1, 1001, b"still there")
        return first, second, hand.heard()


@case("4", quick=True)
def by_hand_bytes_out_of_order(c):
    with Hand(c, "echoes").open() as hand:
        hand.send(ACK | PSH, 4, 1, b"def")
        first = hand.heard()
        hand.send(ACK | PSH, 1, 1, b"abc")
        return first, hand.heard()


@case("4", quick=True)
def by_hand_bytes_twice_and_overlapping(c):
    with Hand(c, "reads").open() as hand:
        hand.send(ACK | PSH, 1, 1, b"abcdef")
        first = hand.heard()
        hand.send(ACK | PSH, 1, 1, b"abcdef")
        second = hand.heard()
        hand.send(ACK | PSH, 4, 1, b"defghi")
        third = hand.heard()
        hand.send(ACK | FIN, 10, 1)
        return first, second, third, hand.heard(), hand.peer.heard()


@case("4", quick=True)
def by_hand_bytes_beyond_the_window(c):
    with Hand(c, "reads").open() as hand:
        hand.send(ACK | PSH, 1 + (1 << 30), 1, b"far away")
        first = hand.heard()
        hand.send(ACK | FIN, 1, 1)
        return first, hand.heard(), hand.peer.heard()


@case("4", quick=True)
def by_hand_a_reset_that_is_next(c):
    with Hand(c, "reads").open() as hand:
        hand.send(RST, 1, None)
        return hand.heard(), hand.peer.heard()


@case("4", quick=True)
def by_hand_a_reset_within_the_window(c):
    """RFC 5961: it is questioned by an acknowledgement."""
    with Hand(c, "reads").open() as hand:
        hand.send(RST, 100, None)
        first = hand.heard()
        hand.send(ACK | FIN, 1, 1)
        return first, hand.heard(), hand.peer.heard()


@case("4", quick=True)
def by_hand_a_reset_outside_the_window(c):
    with Hand(c, "reads").open() as hand:
        hand.send(RST, 1 << 31, None)
        first = hand.heard()
        hand.send(ACK | FIN, 1, 1)
        return first, hand.heard(), hand.peer.heard()


@case("4", quick=True)
def by_hand_a_second_opening(c):
    """A SYN on an open connection: RFC 5961."""
    with Hand(c, "reads").open() as hand:
        hand.send(SYN, 50, None)
        first = hand.heard()
        hand.send(ACK | FIN, 1, 1)
        return first, hand.heard(), hand.peer.heard()


@case("4", quick=True)
def by_hand_half_a_close(c):
    with Hand(c, "answers_at_the_end").open() as hand:
        hand.send(ACK | PSH | FIN, 1, 1, b"question")
        first = hand.heard(1.2)
        hand.send(ACK, 10, 13)
        second = hand.heard()
        return first, second, hand.peer.heard()


@case("4", quick=True)
def by_hand_an_end_twice(c):
    with Hand(c, "answers_at_the_end").open() as hand:
        hand.send(ACK | FIN, 1, 1)
        hand.send(ACK | FIN, 1, 1)
        return hand.heard(1.2), hand.peer.heard()


@case("4", quick=True)
def by_hand_bytes_after_the_end(c):
    with Hand(c, "reads").open() as hand:
        hand.send(ACK | FIN, 1, 1)
        first = hand.heard()
        hand.send(ACK | PSH, 2, 1, b"too late")
        return first, hand.heard(), hand.peer.heard()


@case("4", quick=True)
def by_hand_without_acknowledgement(c):
    """A segment without the ACK bit is dropped."""
    with Hand(c, "echoes").open() as hand:
        hand.send(PSH, 1, None, b"hello")
        first = hand.heard()
        hand.send(ACK | PSH, 1, 1, b"hello")
        return first, hand.heard()


@case("4")
def by_hand_a_closed_window_is_probed(c):
    """Zero window, a probe, and then room."""
    with Hand(c, "sends", window=0, bytes=3000, stay=True).open() as hand:
        hand.heard(1.5)
        early = hand.far
        hand.send(ACK, 1, 1, window=5000)
        hand.heard()
        return "a byte at most" if early <= 2 else f"{early - 1} bytes too early", hand.far - 1


@case("4")
def by_hand_a_small_window(c):
    """Silly windows: what is sent into 10 bytes, at once and after a while."""
    with Hand(c, "sends", window=10, bytes=3000, stay=True).open() as hand:
        largest = max((len(got[3]) for got in iter(lambda: hand.next(1.5), None)), default=0)
        return f"at most {largest} bytes a segment" if largest <= 10 else f"{largest} bytes, more than fit"


@case("4", quick=True)
def by_hand_an_old_timestamp(c):
    """PAWS (RFC 7323): a segment of the past is not taken."""
    stamp = lambda value, echo=0: b"\x01\x01\x08\x0a" + struct.pack(">II", value, echo)
    with Hand(c, "echoes", options=stamp(1000000)) as hand:
        hand.send(SYN, 0, None, options=b"\x02\x04\x05\xb4" + stamp(1000000))
        while (got := hand.next(4)) and not got[0] & SYN:
            pass
        agreed = b"\x08\x0a" in hand.their_options
        hand.send(ACK, 1, 1, options=stamp(1000001))
        hand.send(ACK | PSH, 1, 1, b"past", options=stamp(10))
        first = hand.heard()
        hand.send(ACK | PSH, 1, 1, b"now", options=stamp(1000002))
        return "timestamps" if agreed else "no timestamps", first, hand.heard()


@case("4", quick=True)
def by_hand_an_opening_with_bytes(c):
    with Hand(c, "echoes") as hand:
        hand.send(SYN, 0, None, b"early", options=b"\x02\x04\x05\xb4")
        hand.far = 0
        first = hand.heard(0.5)
        hand.send(ACK | PSH, 1, 1, b"early")
        return first, hand.heard()


@case("4", quick=True)
def by_hand_what_an_opening_is_offered(c):
    """The options of a SYN-ACK, when all were offered."""
    from peer import options_of
    offered = b"\x04\x02\x08\x0a" + struct.pack(">II", 7, 0) + b"\x01\x03\x03\x07"
    with Hand(c, "echoes", options=offered).open() as hand:
        return ", ".join(options_of(bytes(12) + bytes([(5 + len(hand.their_options) // 4) << 4]) + bytes(7) + hand.their_options))


@case("4", quick=True)
def by_hand_an_answer_to_nothing(c):
    """An acknowledgement of a connection that is not there is reset."""
    with Hand(c, "nobody") as hand:
        hand.theirs = 0
        hand.send(ACK, 1, 1)
        flags = hand.next(2)
        return "RST" if flags and flags[0] & RST else "nothing"


@case("4", quick=True)
def by_hand_a_closed_port(c):
    with Hand(c, "nobody") as hand:
        hand.send(SYN, 0, None)
        got = hand.next(3)
        return ("RST" if got[0] & RST else "no RST", got[2]) if got else "nothing"


@case("4", quick=True)
def by_hand_a_wrong_checksum(c):
    with Hand(c, "echoes").open() as hand:
        segment = struct.pack(">HHIIBBHHH", hand.port, hand.peer.port, (hand.first + 1) & 0xFFFFFFFF, (hand.theirs + 1) & 0xFFFFFFFF, 5 << 4,
                              ACK | PSH, 65535, 0x1234, 0)
        hand.raw.send(segment + b"wrong")
        first = hand.heard()
        hand.send(ACK | PSH, 1, 1, b"right")
        return first, hand.heard()
