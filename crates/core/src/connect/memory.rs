//! What was learned of programs, as plain records: what a store writes down and a later supervisor begins with.
//!
//! No moments are in it, only counts, shares and durations, so that a clock that was set back does no harm. What is
//! under way (caches, spare connections, the launch that goes on) is not in it: answers hold for one network, and
//! connections for one process. Ours; the bounds are those of prefetching and of the pool.
//!
//! What never happens here: reading or writing. [`Connector::remembered`](super::Connector::remembered) gives it,
//! [`Connector::recall`](super::Connector::recall) takes it and drops what is over a bound.

/// All that was learned.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Memory {
    /// The programs, the one used last first.
    pub programs: Vec<Program>,
}

/// A program.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Program {
    /// As [`AppId`](super::AppId) has it.
    pub app: String,
    /// How often it was launched.
    pub launches: u32,
    /// The names that it asks for.
    pub names: Vec<Name>,
}

/// A name that a program has asked for.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Name {
    /// Absolute, lower case, without final dot.
    pub name: String,
    /// A records were asked for.
    pub a: bool,
    /// AAAA records were asked for.
    pub aaaa: bool,
    /// HTTPS records were asked for.
    pub https: bool,
    /// Launches since the name was first asked for, that one included.
    pub launches: u32,
    /// Share of these in which it was asked for; the last few weigh most. Between 0 and 1.
    pub share: f32,
    /// How long after the launch it is first asked for, on average, in milliseconds.
    pub after_ms: u32,
    /// How far from that it is asked for, on average, in milliseconds.
    #[cfg_attr(feature = "serde", serde(default))]
    pub spread_ms: u32,
    /// Launches in a row in which it was looked up ahead of time and not asked for.
    pub misses: u32,
    /// How long its answers held, the last time, in seconds.
    pub ttl_s: u32,
    /// How often it was asked for, the last dozen times, each the first in its launch.
    pub asked: u32,
    /// How often it was asked for again, the last dozen times.
    #[cfg_attr(feature = "serde", serde(default))]
    pub asked_again: u32,
    /// Names that were asked for within seconds after it.
    pub followers: Vec<Follower>,
    /// Ports that were connected to.
    pub ports: Vec<Port>,
}

/// A name that is asked for after another.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Follower {
    /// The name.
    pub name: String,
    /// How often, where a launch asked for the other for the first time; at most as often as it could.
    pub times: u32,
    /// How often it could: when the other was asked for and this one not in use already. 0 in records of earlier versions,
    /// where it is as often as the other was asked for.
    #[cfg_attr(feature = "serde", serde(default))]
    pub chances: u32,
    /// The same where a launch asked for the other again.
    #[cfg_attr(feature = "serde", serde(default))]
    pub times_again: u32,
    /// How often it could there.
    #[cfg_attr(feature = "serde", serde(default))]
    pub chances_again: u32,
}

/// A port of a name that was connected to.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Port {
    /// The TCP port.
    pub port: u16,
    /// Launches in which it was connected to.
    pub launches: u32,
    /// Share of launches in which it was connected to, as with names.
    pub share: f32,
    /// How many connections are opened within two seconds once one is, on average.
    pub parallel: f32,
    /// The server speaks first: no connection is ever opened ahead of time.
    pub speaks_first: bool,
    /// A server was left alone for this long and said nothing and closed nothing, in milliseconds.
    pub idle_ms: u32,
    /// After this long the server closes a connection on which nothing was said, in milliseconds; 0 if that was not seen.
    pub closes_ms: u32,
    /// The program came back for another connection this long after the last, at the soonest, in milliseconds; 0 if it never
    /// did.
    #[cfg_attr(feature = "serde", serde(default))]
    pub again_ms: u32,
}
