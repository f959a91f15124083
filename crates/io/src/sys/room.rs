//! A network namespace of our own in which every address is this host, and sockets of it for use outside.
//!
//! A socket belongs to the namespace that it was made in, wherever it is used. So a program can be given one that reaches,
//! under the true address of a server, only us; and no program has to be moved into any namespace. Works
//! without privileges where unprivileged user namespaces are allowed.
//!
//! A namespace is entered by a process, and leaving a user namespace is impossible: the room is held by a small child that
//! makes sockets when asked, and does nothing else. It ends with its [`Room`], however that ends. Nothing that is sent in
//! the room ever leaves it: it has no interface but its loopback.

use super::netlink::{LOOPBACK, Netlink, NetlinkError, Via};
use super::netns;
use rustix::io::retry_on_intr;
use rustix::net::sockopt::{Timeout, set_ipv6_freebind, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, Shutdown, SocketFlags, SocketType,
    bind, recv, recvmsg, send, shutdown, socketpair,
};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

/// A child that does not answer within this time has been stopped by a signal; the room is then given up, for what it
/// answers later would be taken for the answer to something else.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(1);
/// The same of its first word. To make a network namespace takes a millisecond, but the kernel makes and ends them one by one.
const FIRST_PATIENCE: std::time::Duration = std::time::Duration::from_secs(10);

/// The room, and the child that holds it.
#[derive(Debug)]
pub struct Room {
    control: OwnedFd,
    child: Pid,
    cookie: u64,
}

/// Why there is no room.
#[derive(Debug, thiserror::Error)]
pub enum RoomError {
    /// Neither privileges nor user namespaces.
    #[error("no network namespace can be made (allow unprivileged user namespaces, or run as root): {0}")]
    Refused(io::Error),
    /// It could not be furnished.
    #[error("a network namespace could not be set up: {0}")]
    Netlink(#[from] NetlinkError),
    /// A system call failed.
    #[error("a network namespace could not be set up: {0}")]
    Io(#[from] io::Error),
}

impl From<rustix::io::Errno> for RoomError {
    fn from(e: rustix::io::Errno) -> Self {
        Self::Io(e.into())
    }
}

/// What the child is asked for: domain, type and protocol of a socket.
type Wish = [i32; 3];

/// A room whose child makes it ready. [`Beginning::as_fd`] becomes readable when it is.
#[derive(Debug)]
pub struct Beginning(Room);

impl Beginning {
    /// The room, in which every IPv4 and IPv6 address is local from now on. Waits for the child.
    pub fn finish(self) -> Result<Room, RoomError> {
        let Self(mut room) = self;
        room.hear_first_word().map_err(RoomError::Refused)?;
        let mut netlink = Netlink::over(room.make([libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_ROUTE])?)?;
        netlink.up(LOOPBACK)?;
        netlink.route(IpAddr::from([0; 4]), 0, Via::Local)?;
        // A host without IPv6 has no use for the other.
        let _ = netlink.route(IpAddr::from([0; 16]), 0, Via::Local);
        room.cookie = netns::cookie(room.datagrams(AddressFamily::INET)?)?;
        Ok(room)
    }
}

impl AsFd for Beginning {
    /// Readable when the child is ready.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.control.as_fd()
    }
}

impl Room {
    /// Begins to make a room, which takes the kernel some milliseconds; the child spends them.
    pub fn begin() -> Result<Beginning, RoomError> {
        let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        set_socket_timeout(&ours, Timeout::Recv, Some(FIRST_PATIENCE))?;
        let child = start(&theirs).map_err(RoomError::Refused)?;
        Ok(Beginning(Self { control: ours, child, cookie: 0 }))
    }

    /// Makes a room in which every IPv4 and IPv6 address is local.
    pub fn new() -> Result<Self, RoomError> {
        Self::begin()?.finish()
    }

    /// Whether the child has its namespace: an errno, as after a wish.
    fn hear_first_word(&self) -> io::Result<()> {
        let mut errno = [0u8; 4];
        let (_, got) = retry_on_intr(|| recv(&self.control, &mut errno[..], RecvFlags::empty()))?;
        match (got, i32::from_ne_bytes(errno)) {
            (4, 0) => Ok(set_socket_timeout(&self.control, Timeout::Recv, Some(PATIENCE))?),
            (4, errno) => Err(io::Error::from_raw_os_error(errno)),
            _ => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    /// A new UDP socket of the room, non-blocking.
    pub fn datagrams(&self, family: AddressFamily) -> io::Result<OwnedFd> {
        self.make([i32::from(family.as_raw()), libc::SOCK_DGRAM | libc::SOCK_NONBLOCK, 0])
    }

    /// Sockets that see what arrives on the loopback of the room, IPv4 and IPv6, from the IP header on; non-blocking. None where that is
    /// not allowed.
    pub fn packets(&self) -> Vec<OwnedFd> {
        let of = |kind: libc::c_int| i32::from((kind as u16).to_be());
        let make = |kind| self.make([libc::AF_PACKET, libc::SOCK_DGRAM | libc::SOCK_NONBLOCK, of(kind)]).ok();
        [libc::ETH_P_IP, libc::ETH_P_IPV6].into_iter().filter_map(make).collect()
    }

    /// Whether a socket is one of this room.
    pub fn holds(&self, socket: impl AsFd) -> bool {
        netns::cookie(socket).is_ok_and(|cookie| cookie == self.cookie)
    }

    fn make(&self, wish: Wish) -> io::Result<OwnedFd> {
        let control = &self.control;
        let bytes: Vec<u8> = wish.iter().flat_map(|n| n.to_ne_bytes()).collect();
        send(control, &bytes, SendFlags::NOSIGNAL)?;
        let mut errno = [0u8; 4];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let got = retry_on_intr(|| {
            recvmsg(control, &mut [IoSliceMut::new(&mut errno)], &mut ancillary, RecvFlags::CMSG_CLOEXEC)
        });
        let got = got.inspect_err(|_| {
            // The child has gone if there is nothing to be shut down.
            let _ = shutdown(control, Shutdown::Both);
        })?;
        let made = ancillary.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
            _ => None,
        });
        match (got.bytes, i32::from_ne_bytes(errno)) {
            (4, errno) if errno != 0 => Err(io::Error::from_raw_os_error(errno)),
            _ => made.ok_or_else(|| io::ErrorKind::BrokenPipe.into()),
        }
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        // It would leave by itself when the socket is closed, but for one that has been stopped.
        let _ = kill_process(self.child, Signal::KILL);
        while matches!(waitpid(Some(self.child), WaitOptions::empty()), Err(rustix::io::Errno::INTR)) {}
    }
}

/// Binds a socket of a room to any address.
pub fn bind_anywhere(socket: impl AsFd, to: SocketAddr) -> io::Result<()> {
    // Unlike IPv4, IPv6 binds only to addresses that an interface has, whatever the routes say.
    let needs_leave = to.is_ipv6() && !to.ip().is_unspecified();
    if needs_leave {
        set_ipv6_freebind(&socket, true)?;
    }
    bind(&socket, &to)?;
    if needs_leave {
        // The program that will have this socket has not set it.
        set_ipv6_freebind(&socket, false)?;
    }
    Ok(())
}

/// Starts the child.
fn start(control: &OwnedFd) -> io::Result<Pid> {
    let flags = libc::c_long::from(libc::SIGCHLD);
    // SAFETY: a plain fork (no stack, no shared memory); the child makes only system calls until it exits.
    let pid = unsafe { libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0) };
    match pid {
        -1 => Err(io::Error::last_os_error()),
        // SAFETY: this is the forked child; it keeps to async-signal-safe calls and never returns.
        0 => unsafe { serve(control.as_raw_fd()) },
        _ => i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or_else(|| io::Error::other("no process id")),
    }
}

/// The child: enters a namespace of its own, says so, and makes sockets until no process can ask for any more.
unsafe fn serve(control: RawFd) -> ! {
    // SAFETY: all of these are system calls on local data; nothing allocates or locks.
    unsafe {
        // What the keyboard sends to our group is not for it, and no handler of ours may run in it.
        libc::setsid();
        let mut all = MaybeUninit::<libc::sigset_t>::uninit();
        libc::sigfillset(all.as_mut_ptr());
        libc::sigprocmask(libc::SIG_SETMASK, all.as_ptr(), std::ptr::null_mut());
        libc::prctl(libc::PR_SET_NAME, c"headstart-room".as_ptr(), 0, 0, 0);
        libc::chdir(c"/".as_ptr());
        // Pipes and listeners of ours must not outlive us in it.
        let fd = control as libc::c_uint;
        if fd > 0 && libc::syscall(libc::SYS_close_range, 0, fd - 1, 0) != 0
            || libc::syscall(libc::SYS_close_range, fd + 1, libc::c_uint::MAX, 0) != 0
        {
            libc::_exit(1);
        }
        // With privileges no user namespace is needed, and none may be allowed.
        let entered =
            libc::unshare(libc::CLONE_NEWNET) == 0 || libc::unshare(libc::CLONE_NEWNET | libc::CLONE_NEWUSER) == 0;
        let errno = if entered { 0 } else { *libc::__errno_location() };
        libc::send(control, (&raw const errno).cast(), size_of_val(&errno), libc::MSG_NOSIGNAL);
        if !entered {
            libc::_exit(1);
        }
        loop {
            let mut wish: Wish = [0; 3];
            let got = libc::recv(control, wish.as_mut_ptr().cast(), size_of::<Wish>(), 0);
            if got != size_of::<Wish>() as isize {
                libc::_exit(0);
            }
            let made = libc::socket(wish[0], wish[1] | libc::SOCK_CLOEXEC, wish[2]);
            reply(control, made);
            libc::close(made);
        }
    }
}

/// Sends the new socket, or the errno, to the parent.
unsafe fn reply(control: RawFd, made: RawFd) {
    // SAFETY: all pointers are to locals that live until the call returns.
    unsafe {
        let mut errno = if made < 0 { *libc::__errno_location() } else { 0 };
        let mut part = libc::iovec { iov_base: (&raw mut errno).cast(), iov_len: 4 };
        // Room for a header and one descriptor, aligned as headers are.
        let mut control_bytes = [0u64; 4];
        let mut message: libc::msghdr = std::mem::zeroed();
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        if made >= 0 {
            message.msg_control = control_bytes.as_mut_ptr().cast();
            message.msg_controllen = libc::CMSG_SPACE(4) as _;
            let header = libc::CMSG_FIRSTHDR(&raw const message);
            (*header).cmsg_level = libc::SOL_SOCKET;
            (*header).cmsg_type = libc::SCM_RIGHTS;
            (*header).cmsg_len = libc::CMSG_LEN(4) as _;
            libc::CMSG_DATA(header).cast::<RawFd>().write_unaligned(made);
        }
        libc::sendmsg(control, &raw const message, libc::MSG_NOSIGNAL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{connect, getsockname, recvfrom};

    /// A room, or a line that says why this host has none.
    fn room() -> Option<Room> {
        Room::new().inspect_err(|e| println!("skipped: {e}")).ok()
    }

    #[test]
    fn sockets_of_the_room_reach_each_other_under_any_address() {
        let Some(room) = room() else { return };
        for (server, me) in [("192.0.2.53:53", "198.51.100.7:0"), ("[2001:db8::53]:53", "[2001:db8::7]:0")] {
            let (server, me): (SocketAddr, SocketAddr) = (server.parse().unwrap(), me.parse().unwrap());
            let family = if server.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
            let Ok(there) = room.datagrams(family) else { continue };
            bind_anywhere(&there, server).unwrap();
            let here = room.datagrams(family).unwrap();
            bind_anywhere(&here, me).unwrap();
            connect(&here, &server).unwrap();
            send(&here, b"question", SendFlags::empty()).unwrap();
            let mut buf = [0u8; 16];
            let (_, n, from) = recvfrom(&there, &mut buf[..], RecvFlags::empty()).unwrap();
            let from = SocketAddr::try_from(from.unwrap()).unwrap();
            assert_eq!((&buf[..n], from.ip()), (&b"question"[..], me.ip()));
            assert_eq!(SocketAddr::try_from(getsockname(&here).unwrap()).unwrap(), from);
        }
    }

    #[test]
    fn the_room_knows_its_own_sockets_from_others() {
        let Some(room) = room() else { return };
        assert!(room.holds(room.datagrams(AddressFamily::INET).unwrap()));
        assert!(!room.holds(std::net::UdpSocket::bind("127.0.0.1:0").unwrap()));
        assert!(!Room::new().unwrap().holds(room.datagrams(AddressFamily::INET).unwrap()), "each room is another");
    }

    #[test]
    fn a_child_that_was_stopped_is_given_up_and_what_it_says_later_is_no_answer() {
        let Some(room) = room() else { return };
        let child = room.child;
        kill_process(child, Signal::STOP).unwrap();
        assert!(room.datagrams(AddressFamily::INET).is_err());
        kill_process(child, Signal::CONT).unwrap();
        assert!(room.datagrams(AddressFamily::INET6).is_err());
        drop(room);

        let Some(room) = self::room() else { return };
        let child = room.child;
        kill_process(child, Signal::STOP).unwrap();
        drop(room);
        assert!(rustix::process::test_kill_process(child).is_err(), "it is not waited for in vain");
    }

    #[test]
    fn the_child_ends_with_the_room_and_an_ended_child_is_an_error() {
        let Some(room) = room() else { return };
        let child = room.child;
        rustix::process::kill_process(child, rustix::process::Signal::KILL).unwrap();
        let failed =
            std::iter::repeat_with(|| room.datagrams(AddressFamily::INET)).take(1000).any(|made| made.is_err());
        assert!(failed);
        drop(room);
        assert!(rustix::process::test_kill_process(child).is_err(), "it has been waited for");
    }
}
