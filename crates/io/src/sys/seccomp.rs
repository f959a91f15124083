//! Seccomp user notification (seccomp_unotify(2)): connects of a program and of all that it starts wait for an answer
//! from us. One filter, no policy: what is trapped, and how it is answered.
//!
//! The filter traps connect(2) of this machine's own system calls, and of those only the address lengths that internet
//! addresses have, so that nearly all Unix sockets pass. Of sendto(2) it traps what looks as DNS questions of musl
//! do, whose resolver never connects: MSG_NOSIGNAL and no other flag, an internet address, the length of a question. Of
//! getsockopt(2) it traps SO_ERROR, and getpeername(2), by which programs that did not wait see what has become of their connect; and
//! epoll_create(2), for sockets in epoll sets cannot be exchanged as others are.
//! Other calls, and programs of another word size, pass. A second filter traps listen(2) alone, and bind(2) of the same address lengths
//! ([`Trap::of_serving`]).
//! Out of its reach are connects of io_uring, which make no system call of their own, and set-user-ID programs, which lose
//! their rights under a filter that an ordinary user has set (no_new_privs).
//!
//! `SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV` (Linux 5.19) is demanded. Without it a signal takes a call away from us at any
//! time: a program whose handlers do not restart calls (Python's, alarm() of many) would get EINTR from a non-blocking
//! connect, which connect(2) never says, and would then trust in a connection that was never begun; and a socket could
//! be exchanged under a call that is then made a second time. With it a call that we have received waits for our answer,
//! and only death takes it away; a listener that lets a call wait must look for the signals that wait behind it
//! ([`process::signal_waits`](super::process::signal_waits)). The moment before a call is received stays as it is.

use super::fork;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io;
use std::mem::{MaybeUninit, offset_of, size_of};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt as _;
use std::process::Command;

/// Lengths of an internet address: `sockaddr_in`, `sockaddr_in6` without and with its scope, `sockaddr_storage`; and of AF_UNSPEC
/// alone, which undoes a connect.
const LENGTHS: [u32; 5] = [16, 24, 28, 128, 2];

/// The shortest DNS question: a header, a name of one letter, its type and class (RFC 1035, section 4).
const MIN_QUESTION: u32 = 19;
/// The longest that is sent without EDNS: RFC 1035, section 4.2.1.
const MAX_QUESTION: u32 = 512;

/// The calls that make an epoll set.
#[cfg(target_arch = "x86_64")]
const EVENT_SETS: [u32; 2] = [libc::SYS_epoll_create as u32, libc::SYS_epoll_create1 as u32];
/// The call that makes an epoll set.
#[cfg(not(target_arch = "x86_64"))]
const EVENT_SETS: [u32; 1] = [libc::SYS_epoll_create1 as u32];

/// AUDIT_ARCH of linux/audit.h: the ELF machine, 64 bits, little endian.
#[cfg(target_arch = "x86_64")]
const ARCH: u32 = 0xc000_003e;
/// AUDIT_ARCH of linux/audit.h: the ELF machine, 64 bits, little endian.
#[cfg(target_arch = "aarch64")]
const ARCH: u32 = 0xc000_00b7;
/// None: programs of other machines are not covered.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const ARCH: u32 = 0;

/// Why connects cannot be trapped.
#[derive(Debug, thiserror::Error)]
pub enum TrapError {
    /// A program above this one, such as a sandbox or another `headstart run`, listens already; the kernel allows one.
    #[error("a sandbox or another headstart already intercepts the system calls of this program")]
    Taken,
    /// The kernel is too old or has no seccomp.
    #[error("seccomp user notification needs Linux 5.19 with CONFIG_SECCOMP_FILTER")]
    Unsupported,
    /// Something else.
    #[error("a seccomp filter could not be set: {0}")]
    Io(#[from] io::Error),
}

/// A trap that a program will be started in: see [`Launch`](super::launch::Launch).
#[derive(Debug)]
pub struct Trap {
    ours: OwnedFd,
    theirs: OwnedFd,
    program: Vec<libc::sock_filter>,
}

impl Trap {
    /// Makes one, which nothing is in yet.
    pub fn new() -> io::Result<Self> {
        Self::with(filter())
    }

    fn with(program: Vec<libc::sock_filter>) -> io::Result<Self> {
        let mut ends = [-1; 2];
        let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // SAFETY: `ends` is valid for two descriptors.
        if unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, ends.as_mut_ptr()) } != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: just opened, and not shared.
        let [ours, theirs] = ends.map(|fd| unsafe { OwnedFd::from_raw_fd(fd) });
        Ok(Self { ours, theirs, program })
    }

    /// Sets the filter on this process, which is about to execute the program. If there is no filter to be had, it runs without,
    /// and the maker of the trap gets the error. Only system calls, on what was made before.
    pub(crate) fn spring(&self) -> io::Result<()> {
        install(&self.program, self.theirs.as_raw_fd())
    }

    /// Makes `command` set the filter on itself before it runs.
    #[cfg(test)]
    pub fn around(command: &mut Command) -> io::Result<Self> {
        let trap = Self::new()?;
        trap.set_before(command)?;
        Ok(trap)
    }

    /// A trap for listen(2) and bind(2) alone ([`Kind::Listen`], [`Kind::Bind`]), which nothing is in yet.
    pub fn of_serving() -> io::Result<Self> {
        Self::with(filter_of_serving())
    }

    /// Makes `command` set the filter on itself before it runs.
    pub fn set_before(&self, command: &mut Command) -> io::Result<()> {
        let (program, theirs) = (self.program.clone(), self.theirs.try_clone()?);
        // SAFETY: between fork and exec only system calls on data that was made before.
        unsafe { command.pre_exec(move || install(&program, theirs.as_raw_fd())) };
        Ok(())
    }

    /// Where the watchdog gets the listener, as this process does.
    #[cfg(feature = "host")]
    pub(crate) fn notify_fd(&self) -> io::Result<OwnedFd> {
        self.ours.try_clone()
    }

    /// The listener, once the command has been started.
    pub fn listener(self) -> Result<Listener, TrapError> {
        Listener::take_over(self.ours.as_fd())
    }
}

impl Listener {
    /// The listener that a program under a filter has sent to `from`: there is one for this process and one for the watchdog.
    pub(crate) fn take_over(from: BorrowedFd<'_>) -> Result<Self, TrapError> {
        let mut errno = [0u8; 4];
        let mut part = libc::iovec { iov_base: errno.as_mut_ptr().cast(), iov_len: errno.len() };
        let mut control = [0u64; 4];
        // SAFETY: plain data; all zeroes is a valid value.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = size_of_val(&control) as _;
        // SAFETY: the header points at live buffers of the lengths that it tells.
        let got = unsafe { libc::recvmsg(from.as_raw_fd(), &raw mut message, libc::MSG_CMSG_CLOEXEC) };
        if got != 4 {
            return Err(io::Error::other("the program was started without reporting its filter").into());
        }
        match i32::from_ne_bytes(errno) {
            0 => {}
            libc::EBUSY => return Err(TrapError::Taken),
            libc::EINVAL | libc::ENOSYS => return Err(TrapError::Unsupported),
            errno => return Err(io::Error::from_raw_os_error(errno).into()),
        }
        // SAFETY: the kernel has filled in the header.
        let first = unsafe { libc::CMSG_FIRSTHDR(&raw const message) };
        if first.is_null() {
            return Err(io::Error::other("the filter's listener did not arrive").into());
        }
        // SAFETY: not null, so a whole header, followed by the one descriptor that the child sends.
        let fd = unsafe { libc::CMSG_DATA(first).cast::<RawFd>().read_unaligned() };
        // SAFETY: received just now, and not shared.
        Ok(Self { fd: unsafe { OwnedFd::from_raw_fd(fd) } })
    }
}

const LOAD: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
const EQUAL: u32 = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
const ABOVE: u32 = libc::BPF_JMP | libc::BPF_JGT | libc::BPF_K;
const RETURN: u32 = libc::BPF_RET | libc::BPF_K;

/// An instruction of a filter.
pub(super) fn op(code: u32, jt: u8, jf: u8, k: u32) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt, jf, k }
}

fn at(offset: usize) -> libc::sock_filter {
    op(LOAD, 0, 0, offset as u32)
}

/// The filter of listen(2), and of bind(2) by the lengths of internet addresses: those of netlink, by which programs look up names, pass.
fn filter_of_serving() -> Vec<libc::sock_filter> {
    let length = offset_of!(libc::seccomp_data, args) + 2 * size_of::<u64>();
    let lengths = &LENGTHS[..4];
    let count = lengths.len() as u8;
    let mut program = vec![
        at(offset_of!(libc::seccomp_data, arch)),
        op(EQUAL, 0, count + 4, ARCH),
        at(offset_of!(libc::seccomp_data, nr)),
        op(EQUAL, count + 3, 0, libc::SYS_listen as u32),
        op(EQUAL, 0, count + 1, libc::SYS_bind as u32),
        at(length),
    ];
    program.extend((0..count).map(|i| op(EQUAL, count - i, 0, lengths[usize::from(i)])));
    program.push(op(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW));
    program.push(op(RETURN, 0, 0, libc::SECCOMP_RET_USER_NOTIF));
    program
}

/// The filter, in classic BPF.
fn filter() -> Vec<libc::sock_filter> {
    // The lower half of the third argument; the kernel takes it for an int.
    let length = offset_of!(libc::seccomp_data, args) + 2 * size_of::<u64>();
    let lengths = LENGTHS.len() as u8;
    let mut program = vec![
        at(offset_of!(libc::seccomp_data, arch)),
        op(EQUAL, 0, lengths + 3, ARCH),
        // Calls of x32 have a bit set in their numbers, and so are not this one.
        at(offset_of!(libc::seccomp_data, nr)),
        op(EQUAL, 0, lengths + 3, libc::SYS_connect as u32),
        at(length),
    ];
    program.extend((0..lengths).map(|i| op(EQUAL, lengths - i, 0, LENGTHS[usize::from(i)])));
    program.push(op(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW));
    program.push(op(RETURN, 0, 0, libc::SECCOMP_RET_USER_NOTIF));
    // Here begins what is not connect: the number is still loaded.
    let (flags, address_len) = (length + size_of::<u64>(), length + 3 * size_of::<u64>());
    program.extend([
        op(EQUAL, 0, 10, libc::SYS_sendto as u32),
        at(flags),
        op(EQUAL, 0, 7, libc::MSG_NOSIGNAL as u32),
        at(address_len),
        op(EQUAL, 1, 0, LENGTHS[0]),
        op(EQUAL, 0, 4, LENGTHS[2]),
        at(length),
        op(ABOVE, 2, 0, MAX_QUESTION),
        op(ABOVE, 0, 1, MIN_QUESTION - 1),
        op(RETURN, 0, 0, libc::SECCOMP_RET_USER_NOTIF),
        op(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW),
    ]);
    // Nor sendto. The option is the third argument.
    let (level, option) = (length - size_of::<u64>(), length);
    let count = EVENT_SETS.len() as u8;
    program.extend((0..count).map(|i| op(EQUAL, 5 + count - i, 0, EVENT_SETS[usize::from(i)])));
    program.extend([
        op(EQUAL, 5, 0, libc::SYS_getpeername as u32),
        op(EQUAL, 0, 5, libc::SYS_getsockopt as u32),
        at(level),
        op(EQUAL, 0, 3, libc::SOL_SOCKET as u32),
        at(option),
        op(EQUAL, 0, 1, libc::SO_ERROR as u32),
        op(RETURN, 0, 0, libc::SECCOMP_RET_USER_NOTIF),
        op(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW),
    ]);
    program
}

/// Sets the filter on this process, between fork and exec, and sends its listener, or why there is none, to `report`: to the
/// process that starts it and to its watchdog.
fn install(program: &[libc::sock_filter], report: RawFd) -> io::Result<()> {
    let listener = set_filter(program);
    let errno = match &listener {
        Ok(_) => 0,
        Err(e) => e.raw_os_error().unwrap_or(libc::EIO),
    };
    let mut bytes = errno.to_ne_bytes();
    let mut part = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    let mut control = [0u64; 4];
    // SAFETY: plain data; all zeroes is a valid value.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    if let Ok(listener) = &listener {
        message.msg_control = control.as_mut_ptr().cast();
        // SAFETY: arithmetic only.
        message.msg_controllen = unsafe { libc::CMSG_SPACE(size_of::<RawFd>() as u32) } as _;
        // SAFETY: the control buffer is long enough for a header and a descriptor.
        let header = unsafe { libc::CMSG_FIRSTHDR(&raw const message) };
        // SAFETY: arithmetic only.
        let len = unsafe { libc::CMSG_LEN(size_of::<RawFd>() as u32) };
        // SAFETY: `header` points into `control`, which is aligned for it.
        unsafe {
            (*header).cmsg_level = libc::SOL_SOCKET;
            (*header).cmsg_type = libc::SCM_RIGHTS;
            (*header).cmsg_len = len as _;
        }
        // SAFETY: the room behind the header is for the descriptor.
        unsafe { libc::CMSG_DATA(header).cast::<RawFd>().write_unaligned(listener.as_raw_fd()) };
    }
    for _ in 0..2 {
        // SAFETY: the header points at live buffers of the lengths that it tells.
        if unsafe { libc::sendmsg(report, &raw const message, libc::MSG_NOSIGNAL) } < 0 && listener.is_ok() {
            // There would be no answer: better not to run at all than to have every connect fail.
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

fn set_filter(program: &[libc::sock_filter]) -> io::Result<OwnedFd> {
    let program = libc::sock_fprog { len: program.len() as u16, filter: program.as_ptr().cast_mut() };
    let set = || {
        let flags = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER | libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV;
        // SAFETY: `program` is valid; the kernel copies it.
        let fd = unsafe {
            libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER as libc::c_long, flags, &raw const program)
        };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the listener that was made just now.
        Ok(unsafe { OwnedFd::from_raw_fd(fd as RawFd) })
    };
    match set() {
        // A process without the privilege must renounce the rights of set-user-ID programs; one with it keeps them.
        Err(e) if e.raw_os_error() == Some(libc::EACCES) => {
            // SAFETY: no pointers.
            if unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) } != 0 {
                return Err(io::Error::last_os_error());
            }
            set()
        }
        other => other,
    }
}

/// Whether `descriptor` is a listener of system calls: anything else does not know the question.
pub fn is_listener(descriptor: impl AsFd) -> bool {
    let id = 0u64;
    // SAFETY: the kernel reads an id there.
    let rc = unsafe { libc::ioctl(descriptor.as_fd().as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_ID_VALID, &raw const id) };
    rc == 0 || io::Error::last_os_error().raw_os_error() == Some(libc::ENOENT)
}

/// Whether another process listens to the system calls of this one, and so of all that it starts. Tried out by a process that
/// sets a filter on itself and ends; only for a process without further threads.
pub fn is_listened_to() -> io::Result<bool> {
    let (_ours, theirs) = io::pipe()?;
    let probe = fork::apart([theirs.into()], |_| match set_filter(&filter()) {
        Err(e) if e.raw_os_error() == Some(libc::EBUSY) => 1,
        _ => 0,
    })?;
    loop {
        match rustix::process::waitpid(Some(probe), rustix::process::WaitOptions::empty()) {
            Ok(status) => return Ok(status.is_some_and(|(_, status)| status.exit_status() == Some(1))),
            Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
    }
}

/// Calls that are trapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// connect(2).
    Connect,
    /// sendto(2).
    Send,
    /// getsockopt(2) of SO_ERROR.
    Look,
    /// getpeername(2).
    Peer,
    /// epoll_create(2), epoll_create1(2).
    EventSet,
    /// listen(2).
    Listen {
        /// Connections that may wait to be accepted.
        backlog: i32,
    },
    /// bind(2).
    Bind,
}

/// A call that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Notification {
    /// What it is answered under. Ids of one filter count up by one from a random number.
    pub id: u64,
    /// The thread that made it, as this process sees it; 0 if it cannot see it.
    pub thread: i32,
    /// Which call it is.
    pub kind: Kind,
    /// The descriptor that it is about.
    pub number: RawFd,
    /// Where the address is in the program's memory, and its length; none of [`Kind::Look`], [`Kind::Peer`], [`Kind::EventSet`] and
    /// [`Kind::Listen`].
    pub address: (u64, usize),
}

/// Where calls arrive. Readable when one waits; hangs up when the last process under the filter has ended.
#[derive(Debug)]
pub struct Listener {
    fd: OwnedFd,
}

impl From<OwnedFd> for Listener {
    fn from(fd: OwnedFd) -> Self {
        Self { fd }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Listener {
    /// Whether no process is left that could make a call.
    pub fn is_over(&self) -> bool {
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let mut ready = [PollFd::new(self, PollFlags::IN)];
        let ended = PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL;
        matches!(poll(&mut ready, Some(&now)), Ok(1))
            && !ready[0].revents().contains(PollFlags::IN)
            && ready[0].revents().intersects(ended)
    }

    /// The same listener under another descriptor.
    pub fn try_clone(&self) -> io::Result<Self> {
        self.fd.try_clone().map(Self::from)
    }

    /// Has the kernel wake the listener on the processor of the program that waits, and the program on that of the listener once it
    /// answers (Linux 6.6): one of them sleeps while the other works, and to wake another processor takes longer than both of
    /// them do. The listener must wait in poll(2): to wake an epoll set, the kernel chooses a processor. Whether it can do this.
    pub fn hand_over_in_place(&self) -> bool {
        /// SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP of linux/seccomp.h.
        const SYNC_WAKE_UP: libc::c_ulong = 1;
        // SAFETY: the request takes its flags by value.
        unsafe { libc::ioctl(self.fd.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SET_FLAGS, SYNC_WAKE_UP) == 0 }
    }

    /// The next call. Waits for one, so only to be called when readable. `None` if the caller has gone.
    pub fn receive(&self) -> io::Result<Option<Notification>> {
        // SAFETY: plain data; the kernel demands all zeroes.
        let mut heard: libc::seccomp_notif = unsafe { MaybeUninit::zeroed().assume_init() };
        // SAFETY: the request takes a pointer to this structure.
        let rc = unsafe { libc::ioctl(self.fd.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_RECV, &raw mut heard) };
        if rc != 0 {
            return match io::Error::last_os_error() {
                e if [Some(libc::ENOENT), Some(libc::EINTR)].contains(&e.raw_os_error()) => Ok(None),
                e => Err(e),
            };
        }
        let args = heard.data.args;
        let (kind, addr, len) = match i64::from(heard.data.nr) {
            libc::SYS_sendto => (Kind::Send, args[4], args[5]),
            libc::SYS_getsockopt => (Kind::Look, 0, 0),
            libc::SYS_getpeername => (Kind::Peer, 0, 0),
            nr if EVENT_SETS.iter().any(|made| i64::from(*made) == nr) => (Kind::EventSet, 0, 0),
            libc::SYS_listen => (Kind::Listen { backlog: args[1] as i32 }, 0, 0),
            libc::SYS_bind => (Kind::Bind, args[1], args[2]),
            _ => (Kind::Connect, args[1], args[2]),
        };
        let address = (addr, len as u32 as usize);
        Ok(Some(Notification { id: heard.id, thread: heard.pid as i32, kind, number: args[0] as RawFd, address }))
    }

    /// Lets the kernel make the call as the program wants it.
    pub fn resume(&self, id: u64) -> io::Result<()> {
        self.send(id, 0, libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32)
    }

    /// Answers the call in the kernel's place: 0, or this errno.
    pub fn answer(&self, id: u64, result: Result<(), i32>) -> io::Result<()> {
        self.send(id, result.err().map_or(0, |errno| -errno.abs()), 0)
    }

    fn send(&self, id: u64, error: i32, flags: u32) -> io::Result<()> {
        let mut answer = libc::seccomp_notif_resp { id, val: 0, error, flags };
        // SAFETY: the request takes a pointer to this structure.
        let rc = unsafe { libc::ioctl(self.fd.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SEND, &raw mut answer) };
        if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Whether the call still waits. What was read of its thread before is that thread's, if it does.
    pub fn waits(&self, id: u64) -> bool {
        // SAFETY: the request takes a pointer to a u64.
        unsafe { libc::ioctl(self.fd.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_ID_VALID, &raw const id) == 0 }
    }

    /// Puts `socket` under the number `at` into the program that waits, in the place of what is there.
    pub fn put(&self, id: u64, socket: impl AsFd, at: RawFd, close_on_exec: bool) -> io::Result<()> {
        let put = libc::seccomp_notif_addfd {
            id,
            flags: libc::SECCOMP_ADDFD_FLAG_SETFD as u32,
            srcfd: socket.as_fd().as_raw_fd() as u32,
            newfd: at as u32,
            newfd_flags: if close_on_exec { libc::O_CLOEXEC as u32 } else { 0 },
        };
        // SAFETY: the request takes a pointer to this structure.
        let rc = unsafe { libc::ioctl(self.fd.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_ADDFD, &raw const put) };
        if rc >= 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the filter says to a call: the one classic BPF machine that these few instructions need.
    fn verdict(arch: u32, nr: u32, len: u64) -> u32 {
        let mut data = [0u8; size_of::<libc::seccomp_data>()];
        data[..4].copy_from_slice(&nr.to_ne_bytes());
        data[4..8].copy_from_slice(&arch.to_ne_bytes());
        data[32..40].copy_from_slice(&len.to_ne_bytes());
        run(&data)
    }

    /// The same of sendto(2).
    fn verdict_on_sending(len: u64, flags: i32, address_len: u64) -> u32 {
        let mut data = [0u8; size_of::<libc::seccomp_data>()];
        data[..4].copy_from_slice(&(libc::SYS_sendto as u32).to_ne_bytes());
        data[4..8].copy_from_slice(&ARCH.to_ne_bytes());
        data[32..40].copy_from_slice(&len.to_ne_bytes());
        data[40..44].copy_from_slice(&flags.to_ne_bytes());
        data[56..64].copy_from_slice(&address_len.to_ne_bytes());
        run(&data)
    }

    /// The same of getsockopt(2).
    fn verdict_on_looking(level: i32, option: i32) -> u32 {
        let mut data = [0u8; size_of::<libc::seccomp_data>()];
        data[..4].copy_from_slice(&(libc::SYS_getsockopt as u32).to_ne_bytes());
        data[4..8].copy_from_slice(&ARCH.to_ne_bytes());
        data[24..28].copy_from_slice(&level.to_ne_bytes());
        data[32..36].copy_from_slice(&option.to_ne_bytes());
        run(&data)
    }

    fn run(data: &[u8]) -> u32 {
        run_of(&filter(), data)
    }

    fn run_of(program: &[libc::sock_filter], data: &[u8]) -> u32 {
        let (mut at, mut a) = (0, 0u32);
        loop {
            let op = program[at];
            let k = op.k as usize;
            at += 1;
            match u32::from(op.code) & 7 {
                0 => a = u32::from_ne_bytes(data[k..k + 4].try_into().unwrap()),
                5 => {
                    let holds = if u32::from(op.code) & 0xf0 == libc::BPF_JGT { a > op.k } else { a == op.k };
                    at += usize::from(if holds { op.jt } else { op.jf });
                }
                _ => return op.k,
            }
        }
    }

    #[test]
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    fn the_filter_of_serving_hears_of_nothing_else() {
        let verdict = |arch: u32, nr: i64, len: u64| {
            let mut data = [0u8; size_of::<libc::seccomp_data>()];
            data[..4].copy_from_slice(&(nr as u32).to_ne_bytes());
            data[4..8].copy_from_slice(&arch.to_ne_bytes());
            data[32..40].copy_from_slice(&len.to_ne_bytes());
            run_of(&filter_of_serving(), &data)
        };
        assert_eq!(verdict(ARCH, libc::SYS_listen, 0), libc::SECCOMP_RET_USER_NOTIF);
        for len in [16, 24, 28, 128] {
            assert_eq!(verdict(ARCH, libc::SYS_bind, len), libc::SECCOMP_RET_USER_NOTIF, "{len}");
        }
        // Of netlink, of a Unix socket.
        for len in [12, 0, 2, 110] {
            assert_eq!(verdict(ARCH, libc::SYS_bind, len), libc::SECCOMP_RET_ALLOW, "{len}");
        }
        for (arch, nr) in [(ARCH, libc::SYS_connect), (0x4000_0003, libc::SYS_listen), (0x4000_0003, libc::SYS_bind)] {
            assert_eq!(verdict(arch, nr, 16), libc::SECCOMP_RET_ALLOW, "{arch:x} {nr}");
        }
    }

    #[test]
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    fn epoll_sets_are_heard_of_when_they_are_made_and_not_when_they_are_used() {
        for nr in EVENT_SETS {
            assert_eq!(verdict(ARCH, nr, 0), libc::SECCOMP_RET_USER_NOTIF);
        }
        for nr in [libc::SYS_epoll_ctl, libc::SYS_epoll_pwait, libc::SYS_eventfd2] {
            assert_eq!(verdict(ARCH, nr as u32, 0), libc::SECCOMP_RET_ALLOW);
        }
    }

    #[test]
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    fn only_looks_at_errors_are_heard_of_those_at_options() {
        assert_eq!(verdict_on_looking(libc::SOL_SOCKET, libc::SO_ERROR), libc::SECCOMP_RET_USER_NOTIF);
        for (level, option) in [(libc::SOL_SOCKET, libc::SO_TYPE), (libc::IPPROTO_TCP, libc::SO_ERROR)] {
            assert_eq!(verdict_on_looking(level, option), libc::SECCOMP_RET_ALLOW);
        }
    }

    #[test]
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    fn only_what_looks_like_a_question_of_musl_is_heard_of_what_is_sent() {
        for (len, flags, address_len, heard) in [
            (33, libc::MSG_NOSIGNAL, 16, true),
            (19, libc::MSG_NOSIGNAL, 28, true),
            (512, libc::MSG_NOSIGNAL, 16, true),
            (18, libc::MSG_NOSIGNAL, 16, false),
            (513, libc::MSG_NOSIGNAL, 16, false),
            (33, 0, 16, false),
            (33, libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT, 16, false),
            (33, libc::MSG_NOSIGNAL, 0, false),
            (33, libc::MSG_NOSIGNAL, 110, false),
        ] {
            let expected = if heard { libc::SECCOMP_RET_USER_NOTIF } else { libc::SECCOMP_RET_ALLOW };
            assert_eq!(verdict_on_sending(len, flags, address_len), expected, "{len} {flags} {address_len}");
        }
    }

    #[test]
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    fn only_connects_with_the_length_of_an_internet_address_are_heard() {
        let connect = libc::SYS_connect as u32;
        for len in LENGTHS {
            assert_eq!(verdict(ARCH, connect, len.into()), libc::SECCOMP_RET_USER_NOTIF, "{len}");
        }
        for len in [0, 3, 15, 17, 29, 110] {
            assert_eq!(verdict(ARCH, connect, len), libc::SECCOMP_RET_ALLOW, "{len}");
        }
        assert_eq!(verdict(ARCH, libc::SYS_bind as u32, 16), libc::SECCOMP_RET_ALLOW);
        assert_eq!(verdict(ARCH, libc::SYS_getpeername as u32, 0), libc::SECCOMP_RET_USER_NOTIF);
        assert_eq!(verdict(ARCH, libc::SYS_getsockname as u32, 0), libc::SECCOMP_RET_ALLOW);
        assert_eq!(verdict(ARCH, connect | 0x4000_0000, 16), libc::SECCOMP_RET_ALLOW, "x32");
        assert_eq!(verdict(0x4000_0003, connect, 16), libc::SECCOMP_RET_ALLOW, "i386");
    }
}
