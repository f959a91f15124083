//! Python's aiohttp: getaddrinfo in a thread, then sockets that do not wait, registered with epoll after connect.

use super::{Entry, Origin, Scheme, as_found, python};

const FETCH: &str = "import aiohttp, asyncio, sys
async def main(url, body):
    async with aiohttp.ClientSession(raise_for_status=True) as s:
        async with (s.post(url, data=body) if body is not None else s.get(url)) as r:
            sys.stdout.buffer.write(await r.read())
asyncio.run(main(sys.argv[1], open(sys.argv[2], 'rb').read() if len(sys.argv) > 2 else None))";

/// See the module.
pub const ENTRY: Entry = Entry {
    name: "aiohttp",
    what: "Python's aiohttp, with non-blocking sockets",
    origin: Origin::Module { module: "aiohttp", package: "python3-aiohttp" },
    schemes: &[Scheme::Http, Scheme::Https],
    prints_page: true,
    sends: true,
    within: "",
    prepare: as_found,
    fetch: |command, asked| python::script(FETCH, command, asked),
};
