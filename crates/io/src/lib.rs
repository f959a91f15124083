//! The floor that acts: every side effect of headstart (sockets, namespaces, netlink, clock, files).
//!
//! Nothing is decided here: what to do comes from `headstart_core` or from the lab. `unsafe` lives in [`sys`] alone.
#![deny(unsafe_code)]

pub mod clock;
pub mod control;
pub mod daemon;
pub mod dns;
pub mod folder;
pub mod forward;
pub mod home;
pub mod host;
pub mod link;
pub mod names;
pub mod packet_queue;
pub mod poll;
pub mod program;
pub mod replies;
pub mod steer;
pub mod store;
pub mod supervisor;
pub mod surroundings;
#[allow(unsafe_code)]
pub mod sys;
pub mod tcp;
pub mod watchdog;

/// A descriptor that becomes readable when process `pid` ends (pidfd_open(2)).
pub fn process_end(pid: i32) -> std::io::Result<std::os::fd::OwnedFd> {
    let pid = rustix::process::Pid::from_raw(pid).ok_or(std::io::ErrorKind::InvalidInput)?;
    Ok(rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty())?)
}

/// Columns of the terminal that standard output or standard error is, if one is.
pub fn terminal_width() -> Option<usize> {
    let columns = |size: rustix::termios::Winsize| Some(usize::from(size.ws_col)).filter(|c| *c > 0);
    let out = rustix::termios::tcgetwinsize(rustix::stdio::stdout());
    out.or_else(|_| rustix::termios::tcgetwinsize(rustix::stdio::stderr())).ok().and_then(columns)
}
