"""Sessions of the installed package: run by `cargo xtask python`, which puts nothing of this folder but these tests on the path."""

import asyncio
import os
import signal
import sys
import unittest

from headstart import lab, realtime

#: A program of its own that accepts one session, tells its port, takes a message, and then stands still.
PEER = """
import asyncio
from headstart import realtime
async def main():
    async with await realtime.listen("127.0.0.1:0") as listener:
        print(listener.address[1], flush=True)
        session = await listener.accept()
        await session.receive()
        print("taken", flush=True)
        await asyncio.sleep(1000)
asyncio.run(main())
"""


#: A program that ends while sessions are open and calls are under way.
ENDS = """
import asyncio
from headstart import realtime
async def main():
    listener = await realtime.listen("127.0.0.1:0")
    host, port = listener.address
    sessions = []
    for n in range(30):
        sessions += await asyncio.gather(realtime.connect(f"{host}:{port}"), listener.accept())
    waiting = [asyncio.ensure_future(s.receive()) for s in sessions]
    waiting += [asyncio.ensure_future(realtime.connect(f"{host}:{port}")) for _ in range(30)]
    sends = [asyncio.ensure_future(s.send(b"x" * 1000)) for s in sessions for _ in range(20)]
    await asyncio.sleep(0.001)
asyncio.run(main())
"""


class Sessions(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self):
        self.listener = await realtime.listen("127.0.0.1:0")
        self.addCleanup(self.listener.stop)

    async def pair(self, **config):
        host, port = self.listener.address
        here, there = await asyncio.gather(realtime.connect(f"{host}:{port}", **config), self.listener.accept())
        return here, there

    async def test_messages_arrive_in_order_both_ways_while_both_ends_send(self):
        here, there = await self.pair()

        async def send(session, what):
            for n in range(1000):
                await session.send(b"%s %d" % (what, n))

        async def receive(session):
            return [(await session.receive()).bytes for _ in range(1000)]

        _, _, at_there, at_here = await asyncio.gather(send(here, b"a"), send(there, b"b"), receive(there), receive(here))
        self.assertEqual(at_there, [b"a %d" % n for n in range(1000)])
        self.assertEqual(at_here, [b"b %d" % n for n in range(1000)])
        self.assertTrue(await here.delivered())
        self.assertEqual((here.unconfirmed, here.stats()["sent"], there.stats()["received"]), (0, 1000, 1000))

    async def test_a_call_that_is_cancelled_loses_no_message(self):
        here, there = await self.pair()
        taken, cancelled = [], 0

        async def sender():
            for n in range(300):
                await here.send(b"%d" % n)
                await asyncio.sleep(0)
            # If one were lost, the other end would now get None instead of waiting for it.
            return await here.close()

        sending = asyncio.ensure_future(sender())
        while len(taken) < 300:
            task = asyncio.ensure_future(there.receive())
            # Some are cancelled before they run, some when the message is there and the caller has not seen it.
            for _ in range(len(taken) % 4):
                await asyncio.sleep(0)
            task.cancel()
            try:
                taken.append((await task).bytes)
            except asyncio.CancelledError:
                cancelled += 1
                if cancelled % 7 == 0:
                    taken.append((await there.receive()).bytes)
        self.assertTrue(await sending)
        self.assertEqual(taken, [b"%d" % n for n in range(300)])
        self.assertGreater(cancelled, 0)

    async def test_two_that_receive_get_each_message_once(self):
        here, there = await self.pair()
        taken = []

        async def receive():
            async for message in there:
                taken.append(message.bytes)

        receivers = [asyncio.ensure_future(receive()) for _ in range(2)]
        for n in range(200):
            await here.send(b"%d" % n)
        self.assertTrue(await here.close())
        await asyncio.gather(*receivers)
        self.assertEqual(taken, [b"%d" % n for n in range(200)])

    async def test_lanes_keep_their_kind_and_the_newest_value_is_among_what_arrives(self):
        here, there = await self.pair()
        for n in range(50):
            await here.send(b"%d" % n, lane=1, kind=realtime.LATEST, key=9)
        await here.send(b"one", lane=2, kind=realtime.EVENT)
        with self.assertRaisesRegex(ValueError, "another kind"):
            await here.send(b"", lane=2, kind=realtime.ORDERED)
        with self.assertRaisesRegex(ValueError, "latest, event, ordered"):
            await here.send(b"", kind="newest")
        with self.assertRaisesRegex(ValueError, "at most"):
            here.try_send(bytes(realtime.MAX_MESSAGE + 1))
        values, event = [], None
        while event is None or not values or values[-1] != b"49":
            message = await there.receive()
            if message.kind == realtime.LATEST:
                self.assertEqual((message.lane, message.key), (1, 9))
                values.append(message.bytes)
            else:
                event = message
        self.assertEqual((event.lane, event.kind, event.bytes), (2, "event", b"one"))
        self.assertEqual(values, sorted(values, key=int))

    async def test_a_full_lane_is_an_error_at_once_or_a_wait(self):
        here, there = await self.pair()
        filled = 0
        with self.assertRaises(realtime.LaneFull):
            while True:
                here.try_send(bytearray(b"x"))
                filled += 1
        waiting = asyncio.ensure_future(here.send(b"last"))
        taken = [(await there.receive()).bytes for _ in range(filled + 1)]
        await waiting
        self.assertEqual((taken[0], taken[-1]), (b"x", b"last"))

    async def test_the_end_of_the_peer_ends_the_loop_and_says_why(self):
        here, there = await self.pair()
        await here.send(b"bye")
        self.assertTrue(await here.close())
        self.assertEqual([message.bytes async for message in there], [b"bye"])
        self.assertEqual((there.ending.why, here.ending.why), ("left", "closed"))
        with self.assertRaises(realtime.SessionOver):
            await there.send(b"too late")

    async def test_a_peer_that_is_killed_leaves_an_error_with_what_is_not_confirmed(self):
        peer = await asyncio.create_subprocess_exec(sys.executable, "-c", PEER, stdout=asyncio.subprocess.PIPE)
        try:
            port = int(await peer.stdout.readline())
            session = await realtime.connect(f"127.0.0.1:{port}", patience=1.0)
            await session.send(b"first")
            self.assertEqual(await peer.stdout.readline(), b"taken\n")
            os.kill(peer.pid, signal.SIGKILL)
            await peer.wait()
            await session.send(b"lost")
            self.assertIsNone(await session.receive())
            self.assertEqual((session.ending.why, session.ending.unconfirmed), ("lost", 1))
            self.assertFalse(await session.close())
        finally:
            if peer.returncode is None:
                peer.kill()
                await peer.wait()

    async def test_what_is_no_listener_is_named(self):
        async def echo(reader, writer):
            while data := await reader.read(4096):
                writer.write(data)
            writer.close()

        async def silent(reader, writer):
            await reader.read()
            writer.close()

        for serve, wanted in ((echo, realtime.SessionOver), (silent, (TimeoutError, realtime.SessionOver))):
            server = await asyncio.start_server(serve, "127.0.0.1", 0)
            host, port = server.sockets[0].getsockname()
            with self.assertRaises(wanted):
                await realtime.connect(f"{host}:{port}", patience=0.5)
            server.close()
        with self.assertRaises(ConnectionRefusedError):
            await realtime.connect(f"127.0.0.1:{port}", patience=2)
        with self.assertRaisesRegex(OSError, "listening on 127.0.0.1:%d" % self.listener.address[1]):
            await realtime.listen("127.0.0.1:%d" % self.listener.address[1])
        for wrong in ({"patience": 0}, {"patience": float("nan")}, {"interval": -1}, {"technique": "magic"}):
            with self.assertRaises(ValueError):
                await realtime.connect("127.0.0.1:1", **wrong)

    async def test_a_program_may_end_while_calls_are_under_way(self):
        for _ in range(20):
            program = await asyncio.create_subprocess_exec(sys.executable, "-c", ENDS, stderr=asyncio.subprocess.PIPE)
            _, errors = await program.communicate()
            self.assertEqual((program.returncode, errors), (0, b""))

    async def test_a_listener_that_is_stopped_ends_its_loop_and_keeps_its_sessions(self):
        here, there = await self.pair()

        async def accept():
            return [session async for session in self.listener]

        accepting = asyncio.ensure_future(accept())
        await asyncio.sleep(0)
        self.listener.stop()
        self.assertEqual(await accepting, [])
        await here.send(b"still")
        self.assertEqual((await there.receive()).bytes, b"still")


class Lab(unittest.TestCase):
    def test_the_reader_of_results_is_in_the_same_wheel(self):
        with self.assertRaises(lab.LabError):
            lab.account("nowhere")


if __name__ == "__main__":
    unittest.main()
