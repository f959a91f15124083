"""A peer by aioquic: client CASE URL BYTES CERTIFICATE, or server CASE PORT FOLDER CERTIFICATE KEY.

A client says nothing and ends with 0 if all came as it should.
"""

import asyncio
import os
import ssl
import sys
from urllib.parse import urlsplit

from aioquic.asyncio import serve
from aioquic.asyncio.client import connect
from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.h3.connection import H3_ALPN, H3Connection
from aioquic.h3.events import DataReceived, HeadersReceived
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import ConnectionTerminated, HandshakeCompleted

REQUESTS = 1000
AT_ONCE = 10
ROOM = 16 << 20


class Client(QuicConnectionProtocol):
    """Asks, and counts what comes."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.http = H3Connection(self._quic)
        self.waiting, self.came, self.status = {}, {}, {}
        self.early, self.ended = None, None

    def quic_event_received(self, event):
        if isinstance(event, HandshakeCompleted):
            self.early = event.early_data_accepted
        if isinstance(event, ConnectionTerminated):
            self.ended = event.reason_phrase or f"closed with {event.error_code}"
            for waiter in self.waiting.values():
                if not waiter.done():
                    waiter.set_exception(ConnectionError(self.ended))
        for told in self.http.handle_event(event):
            stream = told.stream_id
            if isinstance(told, HeadersReceived):
                self.status[stream] = dict(told.headers).get(b":status")
            if isinstance(told, DataReceived):
                self.came[stream] = self.came.get(stream, 0) + len(told.data)
            if told.stream_ended and stream in self.waiting and not self.waiting[stream].done():
                self.waiting[stream].set_result(None)

    async def fetch(self, url, size, update_keys=False):
        stream = self._quic.get_next_available_stream_id()
        self.waiting[stream] = asyncio.get_running_loop().create_future()
        fields = [(b":method", b"GET"), (b":scheme", b"https"), (b":authority", url.netloc.encode())]
        self.http.send_headers(stream, fields + [(b":path", url.path.encode())], end_stream=True)
        self.transmit()
        if update_keys:
            while self.came.get(stream, 0) < size // 4:
                await asyncio.sleep(0.01)
            self.request_key_update()
        await self.waiting[stream]
        if (self.status.get(stream), self.came.get(stream, 0)) != (b"200", size):
            raise ValueError(f"status {self.status.get(stream)}, {self.came.get(stream, 0)} of {size} bytes")


def settings(tickets):
    made = QuicConfiguration(alpn_protocols=H3_ALPN, verify_mode=ssl.CERT_NONE, max_data=ROOM, max_stream_data=ROOM)
    if tickets:
        made.session_ticket = tickets[-1]
    return made


async def client(word, url, size, _certificate):
    url, size, tickets = urlsplit(url), int(size), []

    def opened(wait=True):
        return connect(
            url.hostname,
            url.port,
            configuration=settings(tickets),
            create_protocol=Client,
            session_ticket_handler=tickets.append,
            wait_connected=wait,
        )

    async with opened() as first:
        if word == "requests":
            turns = asyncio.Semaphore(AT_ONCE)

            async def one():
                async with turns:
                    await first.fetch(url, size)

            await asyncio.gather(*(one() for _ in range(REQUESTS)))
        else:
            await first.fetch(url, size, word == "keys")
        if word == "0-rtt":
            while not tickets:
                await asyncio.sleep(0.01)
    if word == "0-rtt":
        async with opened(wait=False) as second:
            await second.fetch(url, size)
            if not second.early:
                raise ValueError("the request was not taken with the first packet")


class Server(QuicConnectionProtocol):
    """Serves the files of a folder."""

    folder, word = "", ""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.http = H3Connection(self._quic)

    def quic_event_received(self, event):
        if isinstance(event, ConnectionTerminated):
            print(f"closed {event.error_code}", flush=True)
        for told in self.http.handle_event(event):
            if isinstance(told, HeadersReceived):
                name = os.path.basename(dict(told.headers)[b":path"].decode())
                with open(os.path.join(self.folder, name), "rb") as file:
                    content = file.read()
                length = str(len(content)).encode()
                self.http.send_headers(told.stream_id, [(b":status", b"200"), (b"content-length", length)])
                self.http.send_data(told.stream_id, content, end_stream=True)
                if self.word == "keys":
                    self.transmit()
                    self.request_key_update()
        self.transmit()


class Tickets(dict):
    """Session tickets by their label."""

    def add(self, ticket):
        self[ticket.ticket] = ticket


async def server(word, port, folder, certificate, key):
    Server.folder, Server.word = folder, word
    made = QuicConfiguration(alpn_protocols=H3_ALPN, is_client=False)
    made.load_cert_chain(certificate, key)
    tickets = Tickets()
    await serve(
        "127.0.0.1",
        int(port),
        configuration=made,
        create_protocol=Server,
        session_ticket_fetcher=tickets.get,
        session_ticket_handler=tickets.add,
        retry=word == "retry",
    )
    await asyncio.Future()


try:
    asyncio.run({"client": client, "server": server}[sys.argv[1]](*sys.argv[2:]))
except Exception as error:
    print(repr(error))
    sys.exit(1)
