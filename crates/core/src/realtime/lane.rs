//! Lanes: what a program promises itself of its messages.
//!
//! A lane has one kind for as long as its session lasts. Messages of different lanes never wait for each other, except in
//! the segments of one connection.

/// Lanes of a session at most.
pub const MAX_LANES: u8 = 64;
/// Messages of a lane at most that are on their way: sent, and not yet known to have arrived. A receiver that keeps twice as
/// many numbers in mind tells every copy from a new message.
pub const WINDOW: usize = 1024;

/// Number of a lane, below [`MAX_LANES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LaneId(pub u8);

/// What becomes of the messages of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Only the newest value of each key is of use: an older one that was overtaken is dropped, and counted.
    Latest,
    /// Each message arrives once, as soon as it can, in any order.
    Event,
    /// Each message arrives once, in the order in which it was sent.
    Ordered,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 3] = [Self::Latest, Self::Event, Self::Ordered];

    /// Its number on the wire; zero is a control frame.
    pub const fn code(self) -> u64 {
        match self {
            Self::Latest => 1,
            Self::Event => 2,
            Self::Ordered => 3,
        }
    }

    /// The kind of that number.
    pub const fn of_code(code: u64) -> Option<Self> {
        match code {
            1 => Some(Self::Latest),
            2 => Some(Self::Event),
            3 => Some(Self::Ordered),
            _ => None,
        }
    }
}
