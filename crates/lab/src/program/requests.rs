//! Python's requests: urllib3's getaddrinfo and blocking connect to one address after the other.

use super::{Entry, Origin, Scheme, as_found, python};

const FETCH: &str = "import os, sys, requests
with requests.Session() as s:
    # Not the user's own proxies; the lab's authority is given by name.
    s.trust_env = False
    s.verify = os.environ.get('SSL_CERT_FILE', True)
    if len(sys.argv) > 2:
        r = s.post(sys.argv[1], data=open(sys.argv[2], 'rb').read())
    else:
        r = s.get(sys.argv[1])
    r.raise_for_status()
    sys.stdout.buffer.write(r.content)";

/// See the module.
pub const ENTRY: Entry = Entry {
    name: "requests",
    what: "Python's requests, which tries one address after the other",
    origin: Origin::Module { module: "requests", package: "python3-requests" },
    schemes: &[Scheme::Http, Scheme::Https],
    prints_page: true,
    sends: true,
    within: "",
    prepare: as_found,
    fetch: |command, asked| python::script(FETCH, command, asked),
};
