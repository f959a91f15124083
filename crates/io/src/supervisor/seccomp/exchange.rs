//! The exchange: a connection of ours takes the place of a program's socket, under the same number, while the program
//! waits in connect(2).
//!
//! Whatever cannot be carried over, or is found out too late, leaves the program with the socket that it had. One thing can
//! only be seen afterwards and cheaply: whether the program's file is in use elsewhere too (another descriptor, another
//! process), where the exchange would not be seen. The kernel counts a file's users but does not report them; an epoll set
//! forgets a file with its last user. So the file is put into a set of ours, exchanged, and let go; if the set still
//! has it, the other holder is looked for, and the file is put back.

use super::app_socket::{AppSocket, Fresh, carry_over};
use super::event_sets::{self, Looks};
use crate::sys::seccomp::{Listener, Notification};
use crate::sys::{epoll, process};
use crate::tcp;
use headstart_core::time::Instant;
use headstart_core::wire::shim::Pass;
use rustix::event::Timespec;
use rustix::event::epoll::{CreateFlags, EventData, EventFlags};
use rustix::fs::{fcntl_setfl, fstat};
use std::fs;
use std::os::fd::{OwnedFd, RawFd};

/// What it takes to exchange sockets of the programs of a run.
#[derive(Debug)]
pub(super) struct Exchange<'a> {
    /// Where their calls wait.
    pub listener: &'a Listener,
    /// Which threads have no epoll set.
    pub looks: &'a mut Looks,
    /// How many sets were made in the run, as of `now`.
    pub made: u64,
    pub now: Instant,
}

impl Exchange<'_> {
    /// Puts `new` in the place of the program's socket; the call still waits for its answer. An error leaves things as they were.
    pub fn exchange(self, call: &Notification, old: AppSocket, fresh: &Fresh, new: &OwnedFd) -> Result<(), Pass> {
        let settings = old.settings(fresh).ok_or(Pass::SocketOption)?;
        if !tcp::take_on(old.domain, new) {
            return Err(Pass::Unsuitable);
        }
        if !carry_over(&settings, new) || fcntl_setfl(new, old.flags).is_err() {
            return Err(Pass::SocketOption);
        }
        self.install(call, old.file, new)
    }

    /// Puts `new`, which has all that it must carry, in the place of the program's `file`; else as above.
    pub fn install(self, call: &Notification, file: OwnedFd, new: &OwnedFd) -> Result<(), Pass> {
        let (listener, number) = (self.listener, call.number);
        let close_on_exec = closes_on_exec(call.thread, number).ok_or(Pass::OutOfReach)?;
        let inode = fstat(&file).map_err(|_| Pass::OutOfReach)?.st_ino;
        let sets = self.sets(call.thread)?;
        let memberships = event_sets::memberships(call.thread, &sets, number, inode)?;
        let witness = Witness::of(&file).ok_or(Pass::OutOfDescriptors)?;
        // The numbers above were read from the thread that has this number now.
        if !listener.waits(call.id) {
            return Err(Pass::OutOfReach);
        }
        listener.put(call.id, new, number, close_on_exec).map_err(|_| Pass::OutOfReach)?;
        drop(file);
        if witness.still_sees_it()
            && let Some(file) = find(inode)
        {
            // Registrations of the file have outlived the exchange, as the file has.
            return match listener.put(call.id, &file, number, close_on_exec) {
                Ok(()) => Err(Pass::SharedSocket),
                Err(_) => Err(Pass::OutOfReach),
            };
        }
        if !memberships.is_empty() {
            // What can be foreseen was (`memberships`); a kernel out of memory has worse to say to the program.
            let _ = epoll::join_as(&memberships, new, number);
        }
        Ok(())
    }

    /// The epoll sets of the process that `thread` belongs to.
    fn sets(self, thread: i32) -> Result<Vec<RawFd>, Pass> {
        if self.looks.has_none(self.now, thread, self.made) {
            return Ok(Vec::new());
        }
        let sets = event_sets::sets(thread)?;
        if sets.is_empty() {
            self.looks.saw_none(self.now, thread, self.made);
        }
        Ok(sets)
    }
}

/// FD_CLOEXEC of a descriptor of another process; `None` if it is gone.
fn closes_on_exec(thread: i32, number: RawFd) -> Option<bool> {
    let info = String::from_utf8(process::read_proc(thread, &format!("fdinfo/{number}")).ok()?).ok()?;
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:"))?;
    Some(i32::from_str_radix(flags.trim(), 8).ok()? & libc::O_CLOEXEC != 0)
}

/// An epoll set with one member, which is ready: a TCP socket that is not connected hangs up, one of UDP has room to write.
struct Witness {
    set: OwnedFd,
}

impl Witness {
    fn of(file: &OwnedFd) -> Option<Self> {
        let set = rustix::event::epoll::create(CreateFlags::CLOEXEC).ok()?;
        rustix::event::epoll::add(&set, file, EventData::new_u64(0), EventFlags::OUT).ok()?;
        Some(Self { set })
    }

    fn still_sees_it(&self) -> bool {
        let mut seen = Vec::with_capacity(1);
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let waited = rustix::event::epoll::wait(&self.set, rustix::buffer::spare_capacity(&mut seen), Some(&now));
        waited.is_ok() && !seen.is_empty()
    }
}

/// The socket of `inode`, of whichever process has it. `None` if none has it that we may look into: then it is on its way in a
/// message, or a thread waits on it, and those that do will not see the exchange.
fn find(inode: u64) -> Option<OwnedFd> {
    let wanted = format!("socket:[{inode}]");
    let us = std::process::id() as i32;
    let processes = fs::read_dir("/proc").ok()?.flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    pids.filter(|pid| *pid != us).find_map(|pid| {
        let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).ok()?.flatten();
        let mut holds = descriptors.filter(|d| fs::read_link(d.path()).is_ok_and(|to| to.as_os_str() == &*wanted));
        let number = holds.find_map(|d| d.file_name().to_str()?.parse().ok())?;
        let file = process::descriptor(pid, number).ok()?;
        fstat(&file).is_ok_and(|stat| stat.st_ino == inode).then_some(file)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{EventfdFlags, eventfd};

    #[test]
    fn descriptors_of_a_program_that_had_no_set_a_moment_ago_are_not_looked_through() {
        let none: Listener = eventfd(0, EventfdFlags::CLOEXEC).unwrap().into();
        let _set = rustix::event::epoll::create(CreateFlags::CLOEXEC).unwrap();
        let (own, now) = (rustix::thread::gettid().as_raw_nonzero().get(), Instant::from_millis(5));
        let mut looks = Looks::new(now);
        let sets = |looks: &mut Looks, made| Exchange { listener: &none, looks, made, now }.sets(own).unwrap();
        assert!(!sets(&mut looks, 1).is_empty());
        looks.saw_none(now, own, 1);
        assert!(sets(&mut looks, 1).is_empty());
        assert!(!sets(&mut looks, 2).is_empty(), "one was made since");
    }
}
