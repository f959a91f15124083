//! What goes into the [`Connector`](super::Connector) and what comes out.

use super::asks::Answered;
use super::lookups::Patience;
use super::pool::Spoilt;
use super::prefetch::Ahead;
use super::types::{AppId, Ask, AttemptId, AttemptResult, Claim, LookupResult, QueryId, RequestId, Resolve, Resolved};
use crate::path::{Family, NetworkId};
use crate::time::Duration;
use crate::wire::record::RecordType;
use crate::wire::shim::Pass;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// An event of the world.
#[derive(Clone, Debug)]
pub enum Input {
    /// getaddrinfo was called.
    Resolve(RequestId, Resolve),
    /// A question was asked over DNS.
    Ask(RequestId, Ask),
    /// connect was called.
    Claim(RequestId, Claim),
    /// The caller has gone; its answer is not awaited any more.
    Abandon(RequestId),
    /// A call was left to the program before it got here, or after; to be counted, and noted of the host that it is about
    /// (a name or an address) if that is known.
    Passed(RequestId, Option<String>, Pass),
    /// A connection that was to be handed over could not take the place of the program's socket; to be counted.
    NotTaken {
        /// Whose.
        request: RequestId,
        /// Where the program wants to go.
        to: IpAddr,
        /// Whether it was connected, or still under way.
        connected: bool,
        /// Why not; the call was left to the kernel.
        reason: Pass,
    },
    /// An answer to a query arrived.
    Lookup(QueryId, LookupResult),
    /// This server, as in [`Output::Query`], has answered a query: said before what it is that it answers, where that is known.
    Replied(QueryId, u32),
    /// A program was answered by a server that it asked itself, past the connector: known as if it had been asked here, so that
    /// the addresses of one name are known to belong together.
    Overheard {
        /// The program that was answered.
        app: AppId,
        /// The name; case and a final dot do not matter.
        name: String,
        /// The type that was asked for.
        record: RecordType,
        /// What was said.
        result: LookupResult,
    },
    /// A program asks a server itself, past the connector, for one type of record of a name.
    AsksItself {
        /// Whose, as [`RequestId::account`].
        account: u32,
        /// The program.
        app: AppId,
        /// The name; case and a final dot do not matter.
        name: String,
        /// The type.
        record: RecordType,
    },
    /// A program opens its connection itself, past the connector; it is not answered.
    GoesItself(RequestId, Claim),
    /// A connection that a program has opened itself came to nothing.
    Unreached(IpAddr),
    /// So much is done ahead from now on.
    Ahead(Ahead),
    /// An attempt ended.
    Attempt(AttemptId, AttemptResult),
    /// A program begins: what it will ask for may be looked up now. Also known by its first call.
    Launched {
        /// Whose: as [`RequestId::account`] of the calls to come.
        account: u32,
        /// Which program.
        app: AppId,
    },
    /// Something happened to a connection that was to be watched, so long ago.
    Spoilt(AttemptId, Spoilt, Duration),
    /// So many servers may be asked; one unless it is said.
    Servers(u32),
    /// How long the resolver that programs would use waits for them.
    Patience(Patience),
    /// The host is on this network, with routes for these families.
    Network {
        /// Which one.
        id: NetworkId,
        /// Whether there is a route to IPv4 destinations.
        v4: bool,
        /// Whether there is a route to IPv6 destinations.
        v6: bool,
        /// Whether programs that know of nothing else go to IPv4 addresses before global IPv6 ones (RFC 6724, section 6, by the
        /// source addresses that this host has; gai.conf(5)).
        v4_first: bool,
    },
    /// The network that the host has been on all the time turns out to be this one.
    Recognised(NetworkId),
    /// The host was asleep for this long, which no clock of ours has counted: answers may have run out, servers may have
    /// closed what was open.
    Woken(Duration),
}

/// Something to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Send a query for the records of `name`; `server` counts up, so that retries may go to another server.
    Query {
        /// Its id; the same for all retries.
        id: QueryId,
        /// The name, absolute, lower case, without final dot.
        name: Arc<str>,
        /// Of which type.
        record: RecordType,
        /// For the first try 0, or the server that the program has asked; the transport takes it modulo its number of servers.
        server: u32,
    },
    /// No answer to this query is awaited any more.
    Forget(QueryId),
    /// The same, but a server that has said nothing yet may only be slow: what it still answers is reported, and not kept in place of what
    /// another has said.
    Late(QueryId),
    /// Open a connection to `to` with a socket of `domain` (a v4 destination from a V6 socket goes v4-mapped).
    Connect {
        /// Its id.
        id: AttemptId,
        /// Where to.
        to: SocketAddr,
        /// Domain of the socket.
        domain: Family,
    },
    /// Watch this connection, which no program has yet, and tell if the other side says anything or closes it.
    Watch(AttemptId),
    /// Close this attempt or connection; if a program has been given it under way, let go of it.
    Close(AttemptId),
    /// Answer a getaddrinfo.
    Answer(RequestId, Resolved),
    /// Answer a question that was asked over DNS.
    Answered(RequestId, Answered),
    /// Give the attempt's socket to the program; if not yet `connected` it is in progress, and its end is still to be
    /// reported.
    HandOver {
        /// The request that gets it.
        request: RequestId,
        /// Which.
        attempt: AttemptId,
        /// Whether the handshake is complete.
        connected: bool,
    },
    /// Begin the program's own connect without waiting for it. It counts as this attempt, whose end is to be reported.
    Begin {
        /// Whose.
        request: RequestId,
        /// As which.
        attempt: AttemptId,
    },
    /// An attempt that the program holds has stalled, and another has succeeded. Let go of the one; give the program the
    /// other as soon as it looks at its socket, and make it look.
    Rescue {
        /// Whose claim it was.
        request: RequestId,
        /// Where the program wanted to go.
        to: IpAddr,
        /// The attempt that the program holds.
        stalled: AttemptId,
        /// The connection that is to take its place.
        by: AttemptId,
    },
    /// Every attempt failed.
    Fail(RequestId, i32),
    /// Leave the call alone.
    Pass(RequestId, Pass),
}
