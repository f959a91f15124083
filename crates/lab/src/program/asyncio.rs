//! Python's asyncio with nothing on top: getaddrinfo in a thread, Happy Eyeballs of its own (250 ms), sockets that do not
//! wait.

use super::{Entry, Origin, Scheme, as_found, python};

const FETCH: &str = "import asyncio, ssl, sys, urllib.parse
async def main(u, body):
    secure = ssl.create_default_context() if u.scheme == 'https' else None
    port = u.port or (443 if secure else 80)
    r, w = await asyncio.open_connection(u.hostname, port, ssl=secure, happy_eyeballs_delay=0.25)
    verb, length = ('GET', 0) if body is None else ('POST', len(body))
    head = f'{verb} {u.path} HTTP/1.1\\r\\nHost: {u.hostname}\\r\\nConnection: close\\r\\nContent-Length: {length}\\r\\n\\r\\n'
    w.write(head.encode() + (body or b''))
    head, _, page = (await r.read()).partition(b'\\r\\n\\r\\n')
    if head.split(b' ')[1] != b'200':
        sys.exit(head.decode())
    sys.stdout.buffer.write(page)
    w.close()
asyncio.run(main(urllib.parse.urlparse(sys.argv[1]), open(sys.argv[2], 'rb').read() if len(sys.argv) > 2 else None))";

/// See the module.
pub const ENTRY: Entry = Entry {
    name: "asyncio",
    what: "Python's asyncio, which races the two families by itself",
    origin: Origin::Module { module: "asyncio", package: "python3" },
    schemes: &[Scheme::Http, Scheme::Https],
    prints_page: true,
    sends: true,
    within: "",
    prepare: as_found,
    fetch: |command, asked| python::script(FETCH, command, asked),
};
