//! Many connections of a program to one place at once: for how many of them another is opened.
//!
//! An attempt that takes long is a dead end, or one of very many: a server whose backlog is full answers the second SYN, a
//! second after the first, and a supervisor with a thousand sockets to look at sees their ends late. Others opened beside these
//! are no help, and one more burden for the server. So the more are under way, the smaller is the part of them that is
//! [rescued](super::connector): all of a [few](FEW), then one in [so many](SHARE), until one of these has come through where
//! none of the program's own has. Then the place is a dead end, and each of them is rescued.

use super::job::{RESCUE_AFTER, RESCUE_WITHIN};
use crate::time::{Duration, Instant};
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// So many are no crowd: a browser has six connections to a host (ours).
const FEW: u32 = 8;
/// Of a crowd, one in so many: 6 % more SYNs.
const SHARE: u32 = 16;
/// Connections that may be open at once for programs that have asked for one name and one port, and not come yet: twice as many. One
/// that looks up a thousand times before it connects once leaves the rest behind.
pub(super) const MAX_UNCLAIMED: usize = 2 * FEW as usize;
/// When one that was not is looked at again.
pub(super) const AGAIN_AFTER: Duration = RESCUE_AFTER.checked_div(2).unwrap();
/// Places that are remembered.
const MAX_PLACES: usize = 256;

#[derive(Debug, Default)]
struct Crowd {
    last: Instant,
    begun: u32,
    rescued: u32,
    /// When one of the program's own has last come through, and when another that was opened in favour of one.
    connected: Option<Instant>,
    proven: Option<Instant>,
}

/// Where programs that do not wait are going.
#[derive(Debug, Default)]
pub(super) struct Crowds(BTreeMap<SocketAddr, Crowd>);

impl Crowds {
    /// A program begins to connect to `to`.
    pub fn begun(&mut self, now: Instant, to: SocketAddr) {
        if !self.0.contains_key(&to) && self.0.len() >= MAX_PLACES {
            self.0.retain(|_, crowd| now - crowd.last < RESCUE_WITHIN);
            if self.0.len() >= MAX_PLACES {
                self.0.pop_first();
            }
        }
        let crowd = self.0.entry(to).or_default();
        if now - crowd.last >= RESCUE_WITHIN {
            *crowd = Crowd::default();
        }
        (crowd.last, crowd.begun) = (now, crowd.begun + 1);
    }

    /// One of them has come through.
    pub fn connected(&mut self, now: Instant, to: SocketAddr) {
        if let Some(crowd) = self.0.get_mut(&to) {
            crowd.connected = Some(now);
        }
    }

    /// Another has come through in the place of one that has not.
    pub fn rescued(&mut self, now: Instant, to: SocketAddr) {
        if let Some(crowd) = self.0.get_mut(&to) {
            crowd.proven = Some(now);
        }
    }

    /// Whether another may be opened in favour of one that was begun at `since`; counted if so.
    pub fn may_rescue(&mut self, since: Instant, to: SocketAddr) -> bool {
        let Some(crowd) = self.0.get_mut(&to) else { return true };
        let dead = crowd.proven.is_some_and(|at| at > since) && crowd.connected.is_none_or(|at| at < since);
        let may = dead || crowd.rescued < FEW.max(crowd.begun / SHARE);
        crowd.rescued += u32::from(may);
        may
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    fn rescued(crowds: &mut Crowds, to: SocketAddr, of: u32) -> usize {
        (0..of).filter(|_| crowds.may_rescue(at(0), to)).count()
    }

    #[test]
    fn all_of_a_few_are_rescued_and_a_small_part_of_many() {
        let to = SocketAddr::from(([192, 0, 2, 1], 443));
        for (many, most) in [(1, 1), (8, 8), (100, 8), (2000, 125)] {
            let mut crowds = Crowds::default();
            (0..many).for_each(|_| crowds.begun(at(0), to));
            assert_eq!(rescued(&mut crowds, to, many), most, "{many}");
        }
    }

    #[test]
    fn where_none_has_come_through_but_another_all_are() {
        let to = SocketAddr::from(([192, 0, 2, 1], 443));
        let mut crowds = Crowds::default();
        (0..2000).for_each(|_| crowds.begun(at(0), to));
        crowds.rescued(at(500), to);
        crowds.connected(at(600), to);
        assert_eq!(rescued(&mut crowds, to, 2000), 125, "it is only slow");
        let mut crowds = Crowds::default();
        (0..2000).for_each(|_| crowds.begun(at(0), to));
        crowds.rescued(at(500), to);
        assert_eq!(rescued(&mut crowds, to, 2000), 2000);
        assert!(!crowds.may_rescue(at(501), to), "begun after that: unknown");
    }

    #[test]
    fn a_crowd_is_forgotten_when_it_has_gone() {
        let mut crowds = Crowds::default();
        for n in 0..=255 {
            let to = SocketAddr::from(([192, 0, 2, n], 443));
            (0..20).for_each(|_| crowds.begun(at(0), to));
        }
        let to = SocketAddr::from(([192, 0, 2, 9], 443));
        assert_eq!(rescued(&mut crowds, to, 20), 8);
        crowds.begun(at(6000), to);
        assert_eq!(rescued(&mut crowds, to, 20), 8);
        crowds.begun(at(6000), SocketAddr::from(([192, 0, 3, 1], 443)));
        assert_eq!(crowds.0.len(), 2);
    }

    #[test]
    fn what_came_through_earlier_says_nothing_for_what_hangs_now() {
        let to = SocketAddr::from(([192, 0, 2, 1], 443));
        let mut crowds = Crowds::default();
        (0..200).for_each(|_| crowds.begun(at(0), to));
        crowds.connected(at(100), to);
        crowds.rescued(at(500), to);
        assert_eq!((0..200).filter(|_| crowds.may_rescue(at(200), to)).count(), 200);
    }

    #[test]
    fn one_more_in_a_known_crowd_makes_no_other_crowd_forgotten() {
        let mut crowds = Crowds::default();
        let to = |n: u8| SocketAddr::from(([192, 0, 2, n], 443));
        (0..=255).for_each(|n| (0..20).for_each(|_| crowds.begun(at(0), to(n))));
        crowds.begun(at(0), to(9));
        assert_eq!((crowds.0.len(), rescued(&mut crowds, to(0), 20)), (MAX_PLACES, 8));
    }
}
