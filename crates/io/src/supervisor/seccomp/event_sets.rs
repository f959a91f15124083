//! The epoll sets of a program that its socket is in before it is connected (nginx, HAProxy and Netty register first), read
//! from outside, so that the socket that takes its place can be registered the same way.
//!
//! A program that had none a moment ago, in a run in which none was made since, is not looked through again.
//!
//! `/proc/PID/fdinfo` of an epoll descriptor has a line for each member (proc(5)). Looks only; what it finds is set up again by
//! [`epoll::join_as`](crate::sys::epoll::join_as). Sets that it cannot set up again are an error, never a guess.

use crate::sys::epoll::Membership;
use crate::sys::process;
use headstart_core::time::{Duration, Instant};
use headstart_core::wire::shim::Pass;
use rustix::fs::{RawDir, readlinkat_raw};
use std::collections::BTreeMap;
use std::fs;
use std::mem::MaybeUninit;
use std::os::fd::RawFd;

/// More descriptors than this are not looked through. The kernel takes 2.5 us for each, and all programs wait meanwhile: 1.3 ms, which is less
/// than a connection saves on most paths. Browsers have fewer; servers that have more choose their peers' addresses themselves.
const MAX_DESCRIPTORS: usize = 512;
/// More sets than this are left alone.
const MAX_SETS: usize = 8;
/// Descriptors that are looked through in a second, for all programs of a run: a twentieth of the time. A hundred threads that connect
/// all the time would wait for one another here, and take twice as long.
const A_SECOND: u64 = 20_000;
/// As many at once, if there was time before.
const IN_A_ROW: u64 = 40_000;

/// A line of an epoll descriptor's fdinfo.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Member {
    number: RawFd,
    events: u32,
    data: u64,
    inode: u64,
}

/// How long it holds of a thread that its process had no set. A number of a thread is not given to another one so soon, whose process may have
/// a set of its parent's.
const HOLDS: Duration = Duration::from_secs(1);
/// Threads that this is remembered of.
const MAX_THREADS: usize = 1024;

/// How many descriptors may still be looked through, and where there was nothing.
#[derive(Debug)]
pub(super) struct Looks {
    left: u64,
    at: Instant,
    /// Threads whose process had no set: when, and how many had been made in the run by then.
    without: BTreeMap<i32, (Instant, u64)>,
}

impl Looks {
    pub(super) fn new(now: Instant) -> Self {
        Self { left: IN_A_ROW, at: now, without: BTreeMap::new() }
    }

    /// Whether the process that `thread` belongs to has no set, as far as that is remembered; `made`: how many were in this run.
    pub(super) fn has_none(&self, now: Instant, thread: i32, made: u64) -> bool {
        self.without.get(&thread).is_some_and(|(at, then)| now < *at + HOLDS && *then == made)
    }

    /// The process that `thread` belongs to had no set when no more than `made` had been made.
    pub(super) fn saw_none(&mut self, now: Instant, thread: i32, made: u64) {
        if self.without.len() >= MAX_THREADS {
            self.without.retain(|_, (at, then)| now < *at + HOLDS && *then == made);
        }
        if self.without.len() < MAX_THREADS {
            self.without.insert(thread, (now, made));
        }
    }

    /// Whether the sets of the process that `thread` belongs to may be looked for now ([`sets`]).
    pub(super) fn may_look(&mut self, now: Instant, thread: i32, number: RawFd) -> bool {
        let descriptors = least_descriptors(thread, number);
        descriptors <= MAX_DESCRIPTORS as u64 && self.take(now, descriptors)
    }

    fn take(&mut self, now: Instant, descriptors: u64) -> bool {
        let gained = (now - self.at).as_nanos() * u128::from(A_SECOND) / 1_000_000_000;
        let gained = u64::try_from(gained).unwrap_or(u64::MAX);
        if gained > 0 {
            self.left = self.left.saturating_add(gained).min(IN_A_ROW);
            self.at = now;
        }
        let enough = self.left >= descriptors;
        self.left -= if enough { descriptors } else { 0 };
        enough
    }
}

/// How many descriptors the process that `thread` belongs to has, as far as that is known before they are counted. They have the lowest
/// numbers that are free, and a number says how many there were when it was given.
fn least_descriptors(thread: i32, number: RawFd) -> u64 {
    // Since Linux 6.2 the size is the number of open descriptors; before, it is zero (proc(5)).
    let open = fs::metadata(format!("/proc/{thread}/fd")).map_or(0, |folder| folder.len());
    u64::try_from(number).unwrap_or(0).max(open)
}

/// Those of `sets` in which the socket of `inode` is, under the number `number` of the process that `thread` belongs to.
pub(super) fn memberships(thread: i32, sets: &[RawFd], number: RawFd, inode: u64) -> Result<Vec<Membership>, Pass> {
    let mut found: Vec<Membership> = Vec::new();
    for set in sets.iter().copied() {
        let info = process::read_proc(thread, &format!("fdinfo/{set}")).map_err(|_| Pass::OutOfReach)?;
        for member in String::from_utf8_lossy(&info).lines().filter_map(parse) {
            // Lines of kernels before 4.13 have no inode.
            let ours = if member.inode == 0 { member.number == number } else { member.inode == inode };
            if !ours {
                continue;
            }
            // Under another number it is another descriptor; EPOLLEXCLUSIVE cannot be given a place in the order of others.
            if member.number != number || member.events & libc::EPOLLEXCLUSIVE as u32 != 0 || found.len() == MAX_SETS {
                return Err(Pass::EventSet);
            }
            let set = process::descriptor(thread, set).map_err(|_| Pass::EventSet)?;
            found.push(Membership { set, events: member.events, data: member.data });
        }
    }
    // Where we cannot have a descriptor of that number, we cannot register it.
    let limit = || rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    if found.is_empty() || limit().is_none_or(|limit| u64::try_from(number).is_ok_and(|n| n < limit)) {
        Ok(found)
    } else {
        Err(Pass::EventSet)
    }
}

/// The numbers of the sets of the process that `thread` belongs to.
pub(super) fn sets(thread: i32) -> Result<Vec<RawFd>, Pass> {
    let folder = fs::File::open(format!("/proc/{thread}/fd")).map_err(|_| Pass::OutOfReach)?;
    let mut buf = [MaybeUninit::uninit(); 4096];
    let (mut entries, mut to) = (RawDir::new(&folder, &mut buf), [MaybeUninit::uninit(); 64]);
    let (mut sets, mut seen) = (Vec::new(), 0);
    while let Some(entry) = entries.next() {
        let entry = entry.map_err(|_| Pass::OutOfReach)?;
        // With `.` and `..`.
        if seen > MAX_DESCRIPTORS + 2 {
            return Err(Pass::ManyDescriptors);
        }
        seen += 1;
        let Ok((to, _)) = readlinkat_raw(&folder, entry.file_name(), &mut to) else { continue };
        let is_set = &*to == b"anon_inode:[eventpoll]";
        sets.extend(entry.file_name().to_str().ok().and_then(|n| n.parse::<RawFd>().ok()).filter(|_| is_set));
    }
    Ok(sets)
}

/// Reads `tfd: N events: HEX data: HEX pos:N ino:HEX sdev:HEX`; `None` for any other line.
fn parse(line: &str) -> Option<Member> {
    let field = |name: &str| {
        let rest = line.split_once(name)?.1.trim_start();
        Some(rest.split(|c: char| c.is_ascii_whitespace()).next().unwrap_or(rest))
    };
    let hex = |text: &str| u64::from_str_radix(text, 16).ok();
    Some(Member {
        number: line.starts_with("tfd:").then(|| field("tfd:"))??.parse().ok()?,
        events: u32::try_from(hex(field("events:")?)?).ok()?,
        data: hex(field("data:")?)?,
        inode: field("ino:").and_then(hex).unwrap_or(0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;

    #[test]
    fn programs_wait_for_looks_a_twentieth_of_the_time_at_most() {
        let (at, mut looks) = (Instant::from_millis, Looks::new(Instant::from_millis(0)));
        assert!(looks.take(at(0), IN_A_ROW));
        assert!(!looks.take(at(0), 1));
        assert!(looks.take(at(10), A_SECOND / 100));
        assert!(!looks.take(at(10), 1));
        // What does not suffice is not lost.
        assert!(!looks.take(at(15), A_SECOND / 100));
        assert!(looks.take(at(20), A_SECOND / 100));
        assert!(!looks.take(at(100_000), IN_A_ROW + 1), "no more is saved up");
        assert!(looks.take(at(100_000), IN_A_ROW));
    }

    #[test]
    fn a_thread_that_had_no_set_is_not_looked_at_again_until_one_is_made_or_a_second_later() {
        let (at, mut looks) = (Instant::from_millis, Looks::new(Instant::from_millis(0)));
        assert!(!looks.has_none(at(5), 7, 3));
        looks.saw_none(at(5), 7, 3);
        assert!(looks.has_none(at(1004), 7, 3));
        assert!(!looks.has_none(at(1004), 8, 3));
        assert!(!looks.has_none(at(1004), 7, 4), "one was made");
        assert!(!looks.has_none(at(1005), 7, 3));
        (0..2000).for_each(|thread| looks.saw_none(at(2000), thread, 3));
        assert!(looks.has_none(at(2000), 1000, 3) && looks.without.len() == MAX_THREADS);
        looks.saw_none(at(3000), 5000, 3);
        assert!(looks.has_none(at(3000), 5000, 3), "what holds no more makes room");
    }

    #[test]
    fn a_line_of_the_kernel_is_read() {
        let line = "tfd:        9 events: 8000201f data:     7f0012345678  pos:0 ino:2b1c sdev:8";
        let member = Member { number: 9, events: 0x8000_201f, data: 0x7f00_1234_5678, inode: 0x2b1c };
        assert_eq!(parse(line), Some(member));
        assert_eq!(parse("pos:\t0"), None);
        assert_eq!(parse("tfd: 9 events: zz data: 0"), None);
    }

    #[test]
    fn the_sets_of_this_process_are_found_with_what_they_listen_for() {
        let (socket, _other) = UnixStream::pair().unwrap();
        let inode = rustix::fs::fstat(&socket).unwrap().st_ino;
        let us = std::process::id() as i32;
        let number = socket.as_raw_fd();
        let found = || memberships(us, &sets(us).unwrap(), number, inode);
        assert!(found().unwrap().is_empty());
        let set = epoll::create(CreateFlags::CLOEXEC).unwrap();
        epoll::add(&set, &socket, EventData::new_u64(77), EventFlags::IN | EventFlags::ET).unwrap();
        let members = found().unwrap();
        let members: Vec<_> = members.iter().map(|m| (m.events & !0x18, m.data)).collect();
        assert_eq!(members, [(libc::EPOLLIN as u32 | libc::EPOLLET as u32, 77)], "error and hang-up are always heard");
        let again = socket.try_clone().unwrap();
        epoll::add(&set, &again, EventData::new_u64(78), EventFlags::IN).unwrap();
        assert_eq!(found().unwrap_err(), Pass::EventSet, "another descriptor of the same socket");
    }

    proptest! {
        #[test]
        fn any_line_is_a_member_or_none_and_no_panic(line in "\\PC*") {
            let _ = (parse(&line), parse(&format!("tfd:{line}")), parse(&format!("tfd: 1 events: 1 data: {line}")));
        }
    }
}
