//! The words between the [`Connector`](super::Connector) and its host: ids, what programs ask for, and what has come of a query or an
//! attempt. What goes in and comes out is in `messages`.

use crate::path::Family;
use crate::time::Duration;
use crate::wire::record::{RecordType, Service};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// The program that a cache entry or a connection belongs to: its file's name. Nothing is shared between two.
pub type AppId = Arc<str>;

/// A call of a program that waits for its answer; chosen by the caller. Bits 32 to 55 are the account that it is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequestId(pub u64);

impl RequestId {
    /// The account that this call and what is done for it are on: the run of a supervisor that has several. See
    /// [`Connector::tally_of`](super::Connector::tally_of).
    pub fn account(self) -> u32 {
        (self.0 >> 32) as u32 & 0x00ff_ffff
    }
}

/// A DNS query; chosen by the connector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct QueryId(pub u64);
/// A connection attempt; chosen by the connector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AttemptId(pub u64);

/// The families that a program asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Want {
    /// Either will do (AF_UNSPEC).
    Both,
    /// Only this one.
    Only(Family),
}

impl Want {
    /// Whether `family` is wanted.
    pub fn includes(self, family: Family) -> bool {
        self == Self::Both || self == Self::Only(family)
    }
}

/// A program asks for the addresses of a name.
#[derive(Clone, Debug)]
pub struct Resolve {
    /// The program that asks.
    pub app: AppId,
    /// The name; case and a final dot do not matter.
    pub name: String,
    /// Families asked for.
    pub want: Want,
    /// The TCP port to connect to, if a connection is to be expected: attempts then begin before it is asked for.
    pub port: Option<u16>,
}

/// A program asks DNS itself, for one type of record of a name.
#[derive(Clone, Debug)]
pub struct Ask {
    /// The program that asks.
    pub app: AppId,
    /// The name; case and a final dot do not matter.
    pub name: String,
    /// The type that is asked for.
    pub record: RecordType,
    /// The server that it asks, as in [`Output::Query`](super::Output::Query); the first that is asked if one must be, and then the next ones.
    pub server: u32,
}

/// A program asks for a connection to an address that a lookup gave it.
#[derive(Clone, Debug)]
pub struct Claim {
    /// The program that asks.
    pub app: AppId,
    /// Where to.
    pub to: SocketAddr,
    /// Domain of the program's socket.
    pub domain: Family,
    /// Must be answered at once.
    pub nonblocking: bool,
    /// An AF_INET6 socket that may have a v4-mapped peer.
    pub accepts_mapped: bool,
    /// Should the program's own attempt stall, it can be given another connection in the middle of it: it does not wait in
    /// the call, and its next look at the socket will be trapped, if there is one.
    pub rescuable: Option<Looks>,
}

/// Whether a program that did not wait for its connection looks what has become of it before it uses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Looks {
    /// It is known to.
    Always,
    /// Nothing is known of it. One that does not look sees a failure, and would have seen none had its own attempt succeeded later.
    Perhaps,
}

/// What a query came to, as the transport saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LookupResult {
    /// Addresses and how long they may be kept.
    Addresses(Vec<IpAddr>, Duration),
    /// HTTPS records, best first, and how long they may be kept.
    Services(Vec<Service>, Duration),
    /// No record of this type.
    NoData(Duration),
    /// No such name.
    NxDomain(Duration),
    /// The server refused or failed.
    Refused,
    /// The query could not be sent, for want of a descriptor or of memory: nothing is known of the server.
    NotSent,
}

/// What an attempt came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptResult {
    /// Connected; the round-trip time of the handshake.
    Connected(Duration),
    /// Failed, with the errno.
    Failed(i32),
    /// It could not be begun, for want of a descriptor or of memory, as the errno says: nothing is known of the address.
    NotBegun(i32),
}

/// The answer to a [`Resolve`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resolved {
    /// At least one address, best first.
    Addresses(Vec<IpAddr>),
    /// The name has no address of a family asked for.
    NoData,
    /// The name does not exist.
    NxDomain,
    /// No server answered.
    Unanswered,
}
