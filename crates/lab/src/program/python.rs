//! Python's urllib: getaddrinfo, then a blocking connect to one address after the other, in an interpreter.

use super::{Entry, Origin, PLAIN, Scheme, as_found};

const FETCH: &str = "import sys, urllib.request
sys.stdout.buffer.write(urllib.request.urlopen(sys.argv[1]).read())";

/// See the module.
pub const ENTRY: Entry = Entry {
    name: "python",
    what: "Python's urllib, which tries one address after the other",
    origin: Origin::Path { file: "python3", package: "python3" },
    schemes: &[Scheme::Http, Scheme::Https],
    manner: PLAIN,
    prints_page: true,
    prepare: as_found,
    fetch: |command, url, _| {
        command.args(["-c", FETCH]).arg(url.to_string());
    },
};
