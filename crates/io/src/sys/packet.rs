//! AF_PACKET sockets: whole Ethernet frames in and out of one interface, many per system call.
//!
//! Each received frame carries the kernel's receive timestamp, so that a reader that is scheduled late still knows when
//! the frame came. Frames that the host itself sends through the interface are not seen.

use rustix::event::{PollFd, PollFlags};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

/// Frames per system call.
pub const BATCH: usize = 64;
/// Largest frame taken in: 9000 bytes of payload and an Ethernet header with a VLAN tag fit.
const FRAME: usize = 9216;
/// Room for one SCM_TIMESTAMPNS control message, with space to spare.
const CONTROL: usize = 64;
/// Receive buffer asked for. 16 MiB: 100 ms at 1 Gbit/s with the kernel's per-frame overhead.
const RECEIVE_BUFFER: usize = 16 << 20;

/// A socket bound to one interface.
pub struct PacketSocket {
    fd: OwnedFd,
    frames: Box<[u8]>,
    controls: Box<[Control]>,
}

/// Control message space, aligned as the kernel wants it.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct Control([u8; CONTROL]);

/// What a receive call brought.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// Frames handed to the caller.
    pub frames: usize,
    /// Frames that were larger than any that this socket takes, and so were left out.
    pub oversize: usize,
}

impl PacketSocket {
    /// Opens a non-blocking socket on the interface with index `interface`, for all protocols. Needs CAP_NET_RAW in the
    /// user namespace of the calling thread's network namespace.
    pub fn bind(interface: u32) -> io::Result<Self> {
        let kind = libc::SOCK_RAW | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        // Protocol 0 receives nothing: not one frame of another interface before the bind below.
        // SAFETY: no pointers.
        let fd = unsafe { libc::socket(libc::AF_PACKET, kind, 0) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor was just opened and belongs to nobody else.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        set(&fd, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, 1)?;
        set(&fd, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1)?;
        // The first needs CAP_NET_ADMIN on the host; the second is cut to net.core.rmem_max.
        if rustix::net::sockopt::set_socket_recv_buffer_size_force(&fd, RECEIVE_BUFFER).is_err() {
            rustix::net::sockopt::set_socket_recv_buffer_size(&fd, RECEIVE_BUFFER)?;
        }
        // SAFETY: `sockaddr_ll` is plain data; all zeroes is a valid value.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
        address.sll_ifindex = interface as i32;
        // SAFETY: `address` outlives the call and the length is its own.
        let rc = unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), size_of_val(&address) as u32) };
        if rc != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Self {
            fd,
            frames: vec![0; BATCH * FRAME].into_boxed_slice(),
            controls: vec![Control([0; CONTROL]); BATCH].into_boxed_slice(),
        })
    }

    /// Takes in up to [`BATCH`] waiting frames; none is not an error. `each` sees a frame and the wall-clock time at
    /// which the kernel had it (time since the Unix epoch), if known.
    pub fn receive(&mut self, mut each: impl FnMut(&[u8], Option<Duration>)) -> io::Result<Received> {
        let mut vectors: [libc::iovec; BATCH] =
            std::array::from_fn(|_| libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 });
        for (vector, frame) in vectors.iter_mut().zip(self.frames.chunks_exact_mut(FRAME)) {
            *vector = libc::iovec { iov_base: frame.as_mut_ptr().cast(), iov_len: FRAME };
        }
        // SAFETY: `mmsghdr` is plain data; all zeroes is a valid value.
        let mut headers: [libc::mmsghdr; BATCH] = unsafe { std::mem::zeroed() };
        for ((header, vector), control) in headers.iter_mut().zip(&mut vectors).zip(self.controls.iter_mut()) {
            header.msg_hdr.msg_iov = vector;
            header.msg_hdr.msg_iovlen = 1;
            header.msg_hdr.msg_control = control.0.as_mut_ptr().cast();
            header.msg_hdr.msg_controllen = CONTROL as _;
        }
        // SAFETY: every header points to a vector, a frame and a control buffer that outlive the call, each used once.
        let count = unsafe {
            libc::recvmmsg(
                self.fd.as_raw_fd(),
                headers.as_mut_ptr(),
                BATCH as libc::c_uint,
                libc::MSG_DONTWAIT as _,
                std::ptr::null_mut(),
            )
        };
        if count < 0 {
            let error = io::Error::last_os_error();
            return match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(Received::default()),
                _ => Err(error),
            };
        }
        let mut received = Received::default();
        for (header, frame) in headers.iter().zip(self.frames.chunks_exact(FRAME)).take(count as usize) {
            if header.msg_hdr.msg_flags & libc::MSG_TRUNC != 0 {
                received.oversize += 1;
                continue;
            }
            received.frames += 1;
            each(&frame[..header.msg_len as usize], timestamp(&header.msg_hdr));
        }
        Ok(received)
    }

    /// Sends up to [`BATCH`] frames; how many went out. An error is that of the first that did not.
    pub fn send(&self, frames: &[&[u8]]) -> io::Result<usize> {
        let frames = &frames[..frames.len().min(BATCH)];
        let mut vectors: [libc::iovec; BATCH] =
            std::array::from_fn(|_| libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 });
        // SAFETY: `mmsghdr` is plain data; all zeroes is a valid value.
        let mut headers: [libc::mmsghdr; BATCH] = unsafe { std::mem::zeroed() };
        for ((header, vector), frame) in headers.iter_mut().zip(&mut vectors).zip(frames) {
            *vector = libc::iovec { iov_base: frame.as_ptr().cast_mut().cast(), iov_len: frame.len() };
            header.msg_hdr.msg_iov = vector;
            header.msg_hdr.msg_iovlen = 1;
        }
        // SAFETY: the first `frames.len()` headers point to vectors and frames that outlive the call; sending only reads.
        let count = unsafe {
            libc::sendmmsg(
                self.fd.as_raw_fd(),
                headers.as_mut_ptr(),
                frames.len() as libc::c_uint,
                libc::MSG_DONTWAIT as _,
            )
        };
        if count < 0 { Err(io::Error::last_os_error()) } else { Ok(count as usize) }
    }

    /// Frames that the kernel dropped because this socket was not read fast enough, since the last call.
    pub fn overflowed(&self) -> io::Result<u32> {
        // struct tpacket_stats: packets, drops.
        let mut stats = [0u32; 2];
        let mut len = size_of_val(&stats) as libc::socklen_t;
        // SAFETY: the kernel writes at most `len` bytes into `stats`.
        let rc = unsafe {
            libc::getsockopt(
                self.fd.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_STATISTICS,
                stats.as_mut_ptr().cast(),
                &mut len,
            )
        };
        if rc == 0 { Ok(stats[1]) } else { Err(io::Error::last_os_error()) }
    }

    /// An entry for poll that fires when frames wait.
    pub fn readable(&self) -> PollFd<'_> {
        PollFd::new(&self.fd, PollFlags::IN)
    }
}

impl AsFd for PacketSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Sets an integer socket option.
fn set(fd: &OwnedFd, level: libc::c_int, name: libc::c_int, value: libc::c_int) -> io::Result<()> {
    let len = size_of_val(&value) as libc::socklen_t;
    // SAFETY: `value` outlives the call and the length is its own.
    let rc = unsafe { libc::setsockopt(fd.as_raw_fd(), level, name, (&raw const value).cast(), len) };
    if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The SCM_TIMESTAMPNS of a received message.
fn timestamp(message: &libc::msghdr) -> Option<Duration> {
    // SAFETY: the kernel filled the control buffer of `message`, which is still alive.
    let mut control = unsafe { libc::CMSG_FIRSTHDR(message) };
    while !control.is_null() {
        // SAFETY: not null, so it points to a whole control message header in the buffer.
        let header = unsafe { *control };
        if header.cmsg_level == libc::SOL_SOCKET && header.cmsg_type == libc::SCM_TIMESTAMPNS {
            // SAFETY: the data of this kind of message is a `timespec`, perhaps unaligned.
            let at = unsafe { libc::CMSG_DATA(control).cast::<libc::timespec>().read_unaligned() };
            return Some(Duration::new(u64::try_from(at.tv_sec).ok()?, u32::try_from(at.tv_nsec).ok()?));
        }
        // SAFETY: `control` is a header of `message`, as CMSG_NXTHDR asks.
        control = unsafe { libc::CMSG_NXTHDR(message, control) };
    }
    None
}
