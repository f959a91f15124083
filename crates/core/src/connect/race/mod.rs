//! Races: in what order, and when, names are asked and connections are tried.
//!
//! A [`Race`] is a pure function: it is shown how things stand ([`View`]) and says the next thing to do ([`Next`]). It is
//! asked again and again until it says [`Next::Wait`], and once more after each event. To add one: a file here, a line
//! in [`ALL`].

mod adaptive;
mod happy_eyeballs_v2;
mod happy_eyeballs_v3;
mod oracle;
pub(super) mod reliance;
mod sequential;
mod simultaneous;
mod staggered;

use super::{AttemptId, Want};
use crate::path::{Family, Network};
use crate::time::{Duration, Instant};
use crate::wire::record::RecordType;
use std::fmt;
use std::net::IpAddr;

/// What a host says at a port where nothing listens: the errno.
const ECONNREFUSED: i32 = 111;

/// How the lookup of one record type stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// Not asked.
    Unasked,
    /// Asked then, no answer yet.
    Asked(Instant),
    /// Answered then, with addresses.
    Addresses(Instant, Vec<IpAddr>),
    /// Completed then, without addresses: none, no such name, refused, or given up.
    Without(Instant),
}

impl Lookup {
    /// Whether it is complete: no further answer is expected.
    pub fn is_complete(&self) -> bool {
        matches!(self, Self::Addresses(..) | Self::Without(_))
    }

    /// The addresses, if there are any.
    pub fn addresses(&self) -> &[IpAddr] {
        match self {
            Self::Addresses(_, list) => list,
            _ => &[],
        }
    }

    /// When it completed.
    pub fn completed_at(&self) -> Option<Instant> {
        match self {
            Self::Addresses(at, _) | Self::Without(at) => Some(*at),
            _ => None,
        }
    }
}

/// How an attempt stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// No answer yet.
    InFlight,
    /// Connected.
    Ready {
        /// Round-trip time of the handshake.
        rtt: Duration,
        /// Since when.
        at: Instant,
    },
    /// Failed, with this errno.
    Failed(i32),
    /// Closed by us or given away; nothing more to decide about it.
    Gone,
}

/// One attempt of a race.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// Its id.
    pub id: AttemptId,
    /// Where to.
    pub addr: IpAddr,
    /// Domain of its socket; V6 with a V4 address is a v4-mapped one.
    pub domain: Family,
    /// When it was begun.
    pub started: Instant,
    /// How it stands.
    pub state: State,
    /// Begun to learn, not to win.
    pub exploring: bool,
    /// The program has its socket already and waits for its end itself.
    pub given: bool,
}

impl Attempt {
    /// Since when it has been connected and without a program.
    pub fn ready_at(&self) -> Option<Instant> {
        match self.state {
            State::Ready { at, .. } => Some(at),
            _ => None,
        }
    }

    /// Whether it has failed within the second: bare, it would not be begun again before that is over.
    pub fn has_just_failed(&self, now: Instant) -> bool {
        matches!(self.state, State::Failed(_)) && now - self.started < Duration::from_secs(1)
    }

    /// How it failed, if it did.
    pub fn errno(&self) -> Option<i32> {
        match self.state {
            State::Failed(errno) => Some(errno),
            _ => None,
        }
    }

    /// Whether a host was there, and said no.
    pub fn was_refused(&self) -> bool {
        self.state == State::Failed(ECONNREFUSED)
    }

    /// Whether it is under way to learn, not to win.
    pub fn is_exploring(&self) -> bool {
        self.exploring && !self.given && self.state == State::InFlight
    }
}

/// How things stand: all that a race may know.
pub struct View<'a> {
    /// The moment of asking.
    pub now: Instant,
    /// Families that the program wants.
    pub want: Want,
    /// The lookup of A records.
    pub v4: &'a Lookup,
    /// The lookup of AAAA records.
    pub v6: &'a Lookup,
    /// The lookup of HTTPS records: its addresses are those that stand in for what is not known of A and AAAA (hints, an
    /// alias). Settled from the start where none are asked for: by a race that wants none, or for a port but 443.
    pub https: &'a Lookup,
    /// When the first addresses were known, hints included, whatever has become of them.
    pub positive: Option<Instant>,
    /// The addresses were returned to the program.
    pub answered: bool,
    /// A port is known and a connection is wanted.
    pub may_connect: bool,
    /// The program has its connection.
    pub done: bool,
    /// Attempts so far, oldest first.
    pub attempts: &'a [Attempt],
    /// Addresses that are of any use to the program: what its socket can be exchanged for, and what it will try next.
    pub usable: &'a dyn Fn(IpAddr) -> bool,
    /// Addresses that the socket of a program that waits can be exchanged for; all, as long as none does.
    pub fits: &'a dyn Fn(IpAddr) -> bool,
    /// Whether the socket of an attempt is not of a kind that the waiting program's cannot be exchanged for, where another to the
    /// same address would be.
    pub serves: &'a dyn Fn(&Attempt) -> bool,
    /// Addresses that have just failed for this program in another race, and until when none is to try them.
    pub just_failed: &'a [(IpAddr, Instant)],
    /// History of the network that the host is on.
    pub path: &'a Network,
    /// Every address that the name had last time.
    pub remembered: &'a [IpAddr],
    /// This race has been drawn to explore.
    pub explore: bool,
    /// The program has been to this name in an earlier launch, and will most likely be there again: what is learned now
    /// is of use.
    pub comes_again: bool,
    /// A program waits for its connection, so that the first attempt to answer may serve it. One that does not wait is given what is under
    /// way, and has no use for a second attempt.
    pub waits: bool,
    /// The budget of attempts beside the chosen one allows another.
    pub may_spend: bool,
    /// The truth about which family is faster, for the lab's `oracle` alone.
    pub faster: Option<Family>,
}

impl View<'_> {
    /// The lookup of `record`, or of the record type of a family.
    pub fn lookup(&self, record: impl Into<RecordType>) -> &Lookup {
        match record.into() {
            RecordType::A => self.v4,
            RecordType::Aaaa => self.v6,
            RecordType::Https => self.https,
        }
    }

    /// Whether records of this type are of use to the program.
    fn wants(&self, record: RecordType) -> bool {
        record.family().is_none_or(|f| self.want.includes(f))
    }

    /// The family of the destination: IPv4 for one that is reached over IPv6 through a translator.
    pub fn family(&self, addr: IpAddr) -> Family {
        self.path.family_of(addr)
    }

    /// Whether every wanted lookup is complete.
    pub fn all_complete(&self) -> bool {
        RecordType::ALL.into_iter().all(|r| !self.wants(r) || self.lookup(r).is_complete())
    }

    /// Every address known so far that the program wants; IPv6 first, each family in the server's order.
    pub fn addresses(&self) -> Vec<IpAddr> {
        known([self.v6, self.v4], self.https, self.want)
    }

    /// Addresses known so far, not yet tried, usable; IPv6 first, each family in the server's order.
    pub fn untried(&self) -> Vec<IpAddr> {
        let mut addresses = self.addresses();
        // Where a socket of another kind was tried without result, one of the right kind is news; at most one SYN a second.
        let in_vain = |t: &Attempt| !(self.serves)(t) && self.now - t.started >= Duration::from_secs(1);
        addresses.retain(|a| !self.has_just_failed(*a));
        addresses.retain(|a| (self.usable)(*a) && self.attempts.iter().all(|t| t.addr != *a || in_vain(t)));
        addresses
    }

    /// Whether `addr` has just failed for this program in another race.
    pub fn has_just_failed(&self, addr: IpAddr) -> bool {
        self.just_failed.iter().any(|(failed, _)| *failed == addr)
    }

    /// Attempts under way.
    pub fn in_flight(&self) -> impl Iterator<Item = &Attempt> {
        self.attempts.iter().filter(|a| a.state == State::InFlight)
    }

    /// Whether an attempt has succeeded that fits.
    pub fn has_ready(&self) -> bool {
        let fits = |a: &Attempt| (self.fits)(a.addr) && (self.serves)(a);
        self.attempts.iter().any(|a| matches!(a.state, State::Ready { .. }) && fits(a))
    }

    /// The next wanted lookup that has not been asked: HTTPS, then AAAA, then A (RFC 8305, section 3, and its successor).
    pub fn unasked(&self) -> Option<RecordType> {
        RecordType::ALL.into_iter().find(|r| self.wants(*r) && *self.lookup(*r) == Lookup::Unasked)
    }
}

/// The addresses of these lookups (AAAA, A; HTTPS) that are wanted, each once, those of IPv6 first.
pub(super) fn known(own: [&Lookup; 2], https: &Lookup, want: Want) -> Vec<IpAddr> {
    let mut list = Vec::new();
    for (family, lookup) in Family::BOTH.into_iter().zip(own) {
        let stand_ins = https.addresses().iter().filter(|a| Family::of(**a) == family);
        for addr in lookup.addresses().iter().chain(stand_ins).filter(|_| want.includes(family)) {
            if !list.contains(addr) {
                list.push(*addr);
            }
        }
    }
    list
}

/// The next thing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Ask for the records of this type.
    Query(RecordType),
    /// Tell the program the addresses known so far.
    Answer,
    /// Try this address.
    Attempt(IpAddr),
    /// Try this address to learn from it, beside the one that was chosen. It serves a program that waits if it answers first.
    Explore(IpAddr),
    /// Give this attempt up: others are to be begun in its place.
    GiveUp(AttemptId),
    /// Nothing until an event, or until then for that reason.
    Wait(Option<(Instant, &'static str)>),
}

/// A way of racing.
pub trait Race: fmt::Debug + Send {
    /// The next thing to do. Must come to [`Next::Wait`] after finitely many steps if every step is carried out.
    fn next(&self, view: &View<'_>) -> Next;

    /// Whether the program will get both families, so that what is begun before IPv6 has answered must be able to
    /// stand in for an IPv6 socket.
    fn waits_for_both(&self) -> bool {
        false
    }

    /// Puts `addresses` in the order in which the program gets them, best first. By default: IPv6 first.
    fn order(&self, _view: &View<'_>, _addresses: &mut Vec<IpAddr>) {}
}

/// A registered race.
#[derive(Clone, Copy)]
pub struct Entry {
    /// Its name on the command line and in tables.
    pub name: &'static str,
    /// What it does, in a line.
    pub what: &'static str,
    /// Only the lab can run it, since it knows what no host can know.
    pub lab_only: bool,
    /// Asks for HTTPS records (RFC 9460) too; others never cause such a query.
    pub asks_https: bool,
    /// Makes one.
    pub new: fn() -> Box<dyn Race>,
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// The race that is used when none is named.
pub const DEFAULT: &str = "adaptive";

/// Every race.
pub const ALL: &[Entry] = &[
    Entry {
        name: "sequential",
        what: "old Android (paper 1, equation 1): AAAA, then A; IPv6, on failure IPv4",
        lab_only: false,
        asks_https: false,
        new: || Box::new(sequential::Sequential),
    },
    Entry {
        name: "happy-eyeballs-v2",
        what: "RFC 8305: both lookups at once, 50 ms for AAAA, IPv6 first, the next address 250 ms later",
        lab_only: false,
        asks_https: false,
        new: || Box::new(happy_eyeballs_v2::HappyEyeballsV2),
    },
    Entry {
        name: "happy-eyeballs-v3",
        what: "draft-ietf-happy-happyeyeballs-v3: HTTPS records and hints; order and delays from history",
        lab_only: false,
        asks_https: true,
        new: || Box::new(happy_eyeballs_v3::HappyEyeballsV3),
    },
    Entry {
        name: "simultaneous",
        what: "paper 1: both lookups and both connections at once; waits for both answers (equation 2)",
        lab_only: false,
        asks_https: false,
        new: || Box::new(simultaneous::Simultaneous),
    },
    Entry {
        name: "adaptive",
        what: "ours: order and delays from the history of this network; explores in 5 % of races",
        lab_only: false,
        asks_https: false,
        new: || Box::new(adaptive::Adaptive),
    },
    Entry {
        name: "oracle",
        what: "knows the faster family in advance: a bound that no race can beat (lab only)",
        lab_only: true,
        asks_https: false,
        new: || Box::new(oracle::Oracle),
    },
];

/// No race of that name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownRace(pub String);

impl fmt::Display for UnknownRace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = ALL.iter().map(|e| e.name).collect();
        f.write_str(&crate::choice::unknown("race", &self.0, &names))
    }
}

impl std::error::Error for UnknownRace {}

/// The registered race called `name`.
pub fn find(name: &str) -> Result<&'static Entry, UnknownRace> {
    ALL.iter().find(|e| e.name == name).ok_or_else(|| UnknownRace(name.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_stand_in_come_behind_those_of_their_own_family() {
        let v6 = |n: u16| IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, n]);
        let v4 = |n: u8| IpAddr::from([192, 0, 2, n]);
        let of = |list: &[IpAddr]| Lookup::Addresses(Instant::ZERO, list.to_vec());
        let (six, four, https) = (of(&[v6(1)]), of(&[v4(1)]), of(&[v4(2), v6(1), v6(2)]));
        assert_eq!(known([&six, &four], &https, Want::Both), [v6(1), v6(2), v4(1), v4(2)]);
        assert_eq!(known([&six, &four], &https, Want::Only(Family::V4)), [v4(1), v4(2)]);
    }
}
