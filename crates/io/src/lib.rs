//! The floor that acts: every side effect of headstart (sockets, namespaces, netlink, clock, files).
//!
//! Nothing is decided here: what to do comes from `headstart_core` or from the lab. `unsafe` lives in [`sys`] alone.
//!
//! | module | what is in it |
//! |---|---|
//! | [`clock`], [`poll`] | the only place that reads a clock or sleeps; the only event loop |
//! | [`dns`], [`replies`], [`tcp`], [`names`] | transports of queries, what servers said, attempts, and which names are left to the system |
//! | [`home`], [`link`], [`control`], [`folder`], [`program`] | where a user's supervisor is found, a run's connection to it and what is said over it, a run's folder; whether a preload reaches a program |
//! | [`calls`] | system calls of programs that wait for an answer, received by a thread that may be blocked by what they are about |
//! | [`supervisor`], [`watchdog`] | drives one `Connector` for the programs of all runs, a module a front end (`preload`, `seccomp`, `stub`); answers calls when it has died |
//! | [`board`] | what a running process tells a client that asks |
//! | [`detour`] | puts programs in the kernel (tcx) in the way of an interface, for the lab (docs/decisions/0140) |
//! | [`device`] | the state of the machine that a measurement is of |
//! | [`surroundings`], `supervisor::place` | on which network the host is, as the kernel reports it; the identity is `core::path::identity`'s |
//! | [`store`], `supervisor::keeper` | what was learned, sealed on disk (docs/decisions/0008), paths of servers and clients too, or shared over Redis (0015); no disk is waited for |
//! | [`host`], [`daemon`] | changes of the host, journalled first and undoable; the daemon of `headstart up` (0010), which bundles small segments (0014, [`packet_queue`]) |
//! | [`forward`], [`cgroup`] | TUN, sockets and owners of column `forward`; programs in the kernel that measure without carrying (eBPF), and the group of a program |
//! | [`engine`] | a session of the forwarder for an app that has made the interface, as on Android (docs/decisions/0092) |
//! | [`steer`] | the tunnel of column `steer`: TUN, a WireGuard session a channel, and their sockets |
//! | [`telemetry`] | what this host measured, as JSON Lines for its fleet; off unless it is asked for |
//! | [`sys`] | system calls behind safe types, the process that holds a room, and clients of the C library that the lab measures |
#![deny(unsafe_code)]

#[cfg(feature = "host")]
pub mod board;
#[cfg(feature = "host")]
pub mod calls;
#[cfg(feature = "host")]
pub mod cgroup;
pub mod clock;
#[cfg(feature = "host")]
pub mod control;
#[cfg(feature = "host")]
pub mod daemon;
#[cfg(feature = "host")]
pub mod detour;
#[cfg(feature = "host")]
pub mod device;
#[cfg(feature = "host")]
pub mod dns;
#[cfg(feature = "host")]
pub mod driver;
#[cfg(feature = "host")]
pub mod engine;
#[cfg(feature = "host")]
pub mod folder;
pub mod forward;
#[cfg(feature = "host")]
pub mod home;
#[cfg(feature = "host")]
pub mod host;
#[cfg(feature = "host")]
pub mod link;
#[cfg(feature = "host")]
pub mod local;
#[cfg(feature = "host")]
pub mod names;
#[cfg(feature = "host")]
pub mod packet_queue;
#[cfg(feature = "host")]
pub mod poll;
#[cfg(feature = "host")]
pub mod program;
#[cfg(feature = "host")]
pub mod replies;
#[cfg(feature = "host")]
pub mod steer;
#[cfg(feature = "host")]
pub mod store;
#[cfg(feature = "host")]
pub mod supervisor;
#[cfg(feature = "host")]
pub mod surroundings;
#[allow(unsafe_code)]
pub mod sys;
#[cfg(feature = "host")]
pub mod tcp;
#[cfg(feature = "host")]
pub mod telemetry;
#[cfg(feature = "host")]
pub mod watchdog;

/// A descriptor that becomes readable when process `pid` ends (pidfd_open(2)).
pub fn process_end(pid: i32) -> std::io::Result<std::os::fd::OwnedFd> {
    let pid = rustix::process::Pid::from_raw(pid).ok_or(std::io::ErrorKind::InvalidInput)?;
    Ok(rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty())?)
}

/// Columns of the terminal that standard output or standard error is, if one is.
pub fn terminal_width() -> Option<usize> {
    window().map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0)
}

/// Lines of that terminal.
pub fn terminal_height() -> Option<usize> {
    window().map(|size| usize::from(size.ws_row)).filter(|lines| *lines > 0)
}

fn window() -> Option<rustix::termios::Winsize> {
    let out = rustix::termios::tcgetwinsize(rustix::stdio::stdout());
    out.or_else(|_| rustix::termios::tcgetwinsize(rustix::stdio::stderr())).ok()
}
