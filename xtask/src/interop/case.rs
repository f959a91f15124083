//! What is tried between two stacks.

use super::relay::Weather;

/// A way in which two stacks may fail to understand each other.
#[derive(Debug)]
pub struct Case {
    /// The word for it.
    pub name: &'static str,
    /// What happens, in the table's words.
    pub what: &'static str,
    /// The file that is fetched.
    pub file: File,
    /// What lies between.
    pub weather: Weather,
}

/// A file of the server's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum File {
    /// A few bytes.
    Small,
    /// 20 MB.
    Large,
}

impl File {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Small => "small.bin",
            Self::Large => "large.bin",
        }
    }

    /// Bytes.
    pub fn bytes(self) -> usize {
        match self {
            Self::Small => 6,
            Self::Large => 20_000_000,
        }
    }
}

const fn case(name: &'static str, what: &'static str, file: File, weather: Weather) -> Case {
    Case { name, what, file, weather }
}

/// Every case.
pub const ALL: &[Case] = &[
    case(HANDSHAKE, "a connection and a request of 6 bytes", File::Small, Weather::Fair),
    case(EARLY, "a second connection whose request comes with its first packet", File::Small, Weather::Fair),
    case(RETRY, "the server proves the address first", File::Small, Weather::Fair),
    case(
        REQUESTS,
        "1,000 requests over one connection, ten at a time (ngtcp2: as many as it may)",
        File::Small,
        Weather::Fair,
    ),
    case("transfer", "20 MB", File::Large, Weather::Fair),
    case(KEYS, "20 MB, the keys change amid them", File::Large, Weather::Fair),
    case(
        MIGRATION,
        "20 MB, the client's port changes amid them (a NAT that has forgotten)",
        File::Large,
        Weather::Moves(2_000),
    ),
    case("loss", "20 MB, 2 % of datagrams lost in each direction", File::Large, Weather::Lossy(20)),
    case(
        CLOSE,
        "the client closes, the other side hears it, and `serve` ends at once when asked to (SIGTERM)",
        File::Small,
        Weather::Fair,
    ),
];

/// A connection.
pub const HANDSHAKE: &str = "handshake";
/// 0-RTT.
pub const EARLY: &str = "0-rtt";
/// Retry.
pub const RETRY: &str = "retry";
/// Many requests.
pub const REQUESTS: &str = "requests";
/// Key update.
pub const KEYS: &str = "keys";
/// Another port.
pub const MIGRATION: &str = "migration";
/// The end.
pub const CLOSE: &str = "close";
