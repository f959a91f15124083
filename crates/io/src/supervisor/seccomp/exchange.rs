//! The exchange: a connection of ours takes the place of a program's socket, under the same number, while the program
//! waits in connect(2).
//!
//! Whatever cannot be carried over, or is found out too late, leaves the program with the socket that it had. One thing can
//! only be seen afterwards and cheaply: whether the program's file is in use elsewhere too (another descriptor, another
//! process), where the exchange would not be seen. The kernel counts a file's users but does not report them; an epoll set
//! forgets a file with its last user. So the file is put into a set of ours, exchanged, and let go; if the set still
//! has it, the other holder is looked for, and the file is put back.

use super::app_socket::{AppSocket, Fresh, carry_over};
use super::event_sets;
use crate::sys::seccomp::{Listener, Notification};
use crate::sys::{epoll, process};
use crate::tcp;
use headstart_core::wire::shim::Pass;
use rustix::event::Timespec;
use rustix::event::epoll::{CreateFlags, EventData, EventFlags};
use rustix::fs::{fcntl_setfl, fstat};
use std::fs;
use std::os::fd::{OwnedFd, RawFd};

/// Puts `new` in the place of the program's socket; the call still waits for its answer. An error leaves things as they were.
pub(super) fn exchange(
    listener: &Listener,
    call: &Notification,
    old: AppSocket,
    fresh: &Fresh,
    new: &OwnedFd,
) -> Result<(), Pass> {
    let settings = old.settings(fresh).ok_or(Pass::SocketOption)?;
    if !tcp::take_on(old.domain, new) {
        return Err(Pass::Unsuitable);
    }
    if !carry_over(&settings, new) || fcntl_setfl(new, old.flags).is_err() {
        return Err(Pass::SocketOption);
    }
    install(listener, call, old.file, new)
}

/// Puts `new`, which has all that it must carry, in the place of the program's `file`; else as above.
pub(super) fn install(listener: &Listener, call: &Notification, file: OwnedFd, new: &OwnedFd) -> Result<(), Pass> {
    let number = call.number;
    let close_on_exec = closes_on_exec(call.thread, number).ok_or(Pass::OutOfReach)?;
    let inode = fstat(&file).map_err(|_| Pass::OutOfReach)?.st_ino;
    let memberships = event_sets::memberships(call.thread, number, inode)?;
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
