//! How long the peer took to answer the first message of TLS.

use super::{Entry, Sources, ms};

pub(super) const ENTRY: Entry = Entry {
    name: "tls_hello_ms",
    unit: "ms",
    what: "Time from the program's ClientHello to the peer's ServerHello",
    sources: Sources::Both,
    read: |flow| Some(ms(flow.hello.1?.since(flow.hello.0?))),
};
