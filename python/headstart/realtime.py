"""Small messages over TCP that do not wait behind a lost segment, with asyncio.

::

    from headstart import realtime

    async with await realtime.listen("127.0.0.1:7000") as listener:      # one program
        async for session in listener:
            async for message in session:
                print(message.bytes)

    async with await realtime.connect("127.0.0.1:7000") as session:      # the other
        await session.send(b"hello")

Times are seconds. A call that is cancelled, by ``asyncio.wait_for`` say, loses no message: the next call gets it.
"""

import asyncio
from collections import namedtuple

from . import _realtime
from ._realtime import MAX_MESSAGE, LaneFull, SessionError, SessionOver

__all__ = [
    "EVENT", "LATEST", "MAX_MESSAGE", "ORDERED", "Ending", "LaneFull", "Listener", "Message", "Session", "SessionError", "SessionOver",
    "connect", "listen",
]

#: Only the newest value of each key is of use: an older one that was overtaken is dropped, and counted.
LATEST = "latest"
#: Each message arrives once, as soon as it can, in any order.
EVENT = "event"
#: Each message arrives once, in the order in which it was sent.
ORDERED = "ordered"

#: A message that came in: its lane, the kind of that lane, its number there, its key (``LATEST``), and its bytes.
Message = namedtuple("Message", "lane kind seq key bytes")

#: How a session ended: ``why`` is closed (by this side), left (by the peer), gone (the peer was restarted), lost, silent (it never answered) or
#: stranger (it speaks something else); ``text`` says it in words; ``unconfirmed`` messages are not known to have arrived.
Ending = namedtuple("Ending", "why text unconfirmed")


class _Kept:
    """Awaits one call at a time; what a call brings after its caller was cancelled is kept for the next."""

    def __init__(self, call):
        self._call = call
        self._turn = asyncio.Lock()
        self._pending = None

    async def next(self):
        async with self._turn:
            if self._pending is None:
                self._pending = asyncio.ensure_future(self._call())
            brought = await asyncio.shield(self._pending)
            self._pending = None
            return brought


class Session:
    """One end of a session; made by ``connect`` and by ``Listener.accept``."""

    def __init__(self, inner):
        self._inner = inner
        self._messages = _Kept(inner.receive)

    async def send(self, data, *, lane=0, kind=ORDERED, key=0):
        """Sends a message, and waits while its lane is full. A lane has one kind for as long as the session lasts."""
        await self._inner.send(lane, kind, key, bytes(data))

    def try_send(self, data, *, lane=0, kind=ORDERED, key=0):
        """Sends a message, or raises ``LaneFull`` at once."""
        self._inner.try_send(lane, kind, key, bytes(data))

    async def receive(self):
        """The next message, or ``None`` when the session is over: see ``ending``."""
        parts = await self._messages.next()
        return None if parts is None else Message(*parts)

    async def delivered(self):
        """Waits until the peer has everything. Whether it has: ``False`` when the session ended before."""
        return await self._inner.delivered()

    async def close(self):
        """Waits until the peer has everything, for two seconds at most, and ends the session. Whether it is known to have it."""
        return await self._inner.close()

    @property
    def ending(self):
        """How the session ended, or ``None`` while it lasts."""
        ending = self._inner.ending()
        return None if ending is None else Ending(*ending)

    @property
    def unconfirmed(self):
        """Messages that were sent and that the peer has not confirmed."""
        return self._inner.unconfirmed()

    def stats(self):
        """What was done so far: a dict of counts, and of times in seconds."""
        return self._inner.stats()

    def __aiter__(self):
        return self

    async def __anext__(self):
        message = await self.receive()
        if message is None:
            raise StopAsyncIteration
        return message

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        await self.close()


class Listener:
    """Accepts sessions; made by ``listen``."""

    def __init__(self, inner):
        self._inner = inner
        self._sessions = _Kept(inner.accept)

    @property
    def address(self):
        """The host and port that it listens on."""
        return self._inner.address()

    async def accept(self):
        """The next session, or ``None`` when the listener was stopped."""
        inner = await self._sessions.next()
        return None if inner is None else Session(inner)

    def stop(self):
        """Accepts no more. Sessions stay."""
        self._inner.stop()

    def __aiter__(self):
        return self

    async def __anext__(self):
        session = await self.accept()
        if session is None:
            raise StopAsyncIteration
        return session

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        self.stop()


async def connect(peer, *, technique=None, interval=None, patience=None):
    """Connects to the listener at ``peer``, ``"host:port"``, and waits until it has shown that it is one.

    ``technique`` is one of `headstart list techniques` (``auto``); ``interval`` the time between two messages, if it is known; after
    ``patience`` (30) without an answer the attempt, or later the session, is given up.
    """
    return Session(await _realtime.connect(peer, technique, interval, patience))


async def listen(address, *, patience=None):
    """Listens on ``address``, ``"host:port"``; port 0 is any free one."""
    return Listener(await _realtime.listen(address, patience))
