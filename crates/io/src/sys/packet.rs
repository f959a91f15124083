//! AF_PACKET sockets: whole Ethernet frames in and out of one interface, many per system call.
//!
//! Each received frame carries the kernel's receive timestamp, so that a reader that is scheduled late still knows when
//! the frame came. Frames that the host itself sends through the interface are not seen.
//!
//! A socket carries either finished packets of at most one MTU, or what the kernel really hands over, super-packets and
//! unfinished checksums included (see `offload`).

use super::offload::{HEADER, Offload};
use rustix::event::{PollFd, PollFlags};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

/// Most frames per system call.
pub const BATCH: usize = 64;
/// Frames per system call that may be super-packets: enough to read a 10 Gbit/s burst of 1 ms at one go.
const SUPER_BATCH: usize = 16;
/// Room for the largest frame: an Ethernet header, an IPv6 header and 64 KiB. Not a multiple of a page, or all rooms would
/// compete for the same lines of the cache.
pub const ROOM: usize = 64 * 1024 + 576;
/// Room for one SCM_TIMESTAMPNS control message, with space to spare.
const CONTROL: usize = 64;
/// Receive buffer asked for. 16 MiB: 100 ms at 1 Gbit/s with the kernel's per-frame overhead.
const RECEIVE_BUFFER: usize = 16 << 20;

/// A socket bound to one interface.
pub struct PacketSocket {
    fd: OwnedFd,
    rooms: Vec<Box<[u8]>>,
    headers: Box<[[u8; HEADER]]>,
    controls: Box<[Control]>,
    offloads: bool,
}

/// A frame that has come in.
pub struct Arrived<'a> {
    /// The frame, in the first `len` bytes. To keep it without a copy, put another room of [`ROOM`] bytes in its place.
    pub room: &'a mut Box<[u8]>,
    /// Bytes of the frame.
    pub len: usize,
    /// What the kernel has left to do about it.
    pub offload: Offload,
    /// The wall-clock time at which the kernel had it (time since the Unix epoch), if known.
    pub stamp: Option<Duration>,
}

/// A frame that is to go out, in two parts so that headers can be changed without copying what follows.
#[derive(Clone, Copy, Debug, Default)]
pub struct Departing<'a> {
    /// What is left to do about it; must be nothing on a socket of finished packets.
    pub offload: Offload,
    /// The first bytes; may be all.
    pub headers: &'a [u8],
    /// The rest; may be empty.
    pub payload: &'a [u8],
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
    /// Frames that were larger than any that this socket takes, or super-packets of an unknown kind, and so were left out.
    pub refused: usize,
}

impl PacketSocket {
    /// Opens a non-blocking socket on the interface with index `interface`, for all protocols; with `offloads` it carries
    /// super-packets. Needs CAP_NET_RAW in the user namespace of the calling thread's network namespace.
    pub fn bind(interface: u32, offloads: bool) -> io::Result<Self> {
        let kind = libc::SOCK_RAW | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        // Protocol 0 receives nothing: not one frame of another interface before the bind below.
        // SAFETY: no pointers.
        let fd = unsafe { libc::socket(libc::AF_PACKET, kind, 0) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor was just opened and has no other owner.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        set(&fd, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, 1)?;
        set(&fd, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1)?;
        if offloads {
            set(&fd, libc::SOL_PACKET, libc::PACKET_VNET_HDR, 1)?;
        }
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
        let batch = if offloads { SUPER_BATCH } else { BATCH };
        Ok(Self {
            fd,
            rooms: (0..batch).map(|_| vec![0; ROOM].into_boxed_slice()).collect(),
            headers: vec![[0; HEADER]; batch].into_boxed_slice(),
            controls: vec![Control([0; CONTROL]); batch].into_boxed_slice(),
            offloads,
        })
    }

    /// Most frames that one call of [`Self::receive`] brings.
    pub fn batch(&self) -> usize {
        self.rooms.len()
    }

    /// Whether it carries super-packets.
    pub fn offloads(&self) -> bool {
        self.offloads
    }

    /// Takes in up to [`Self::batch`] waiting frames; none is not an error.
    pub fn receive(&mut self, mut each: impl FnMut(Arrived<'_>)) -> io::Result<Received> {
        let Self { fd, rooms, headers, controls, offloads } = self;
        // Skips the part for what is left to do, if there is none.
        let skip = usize::from(!*offloads);
        let mut vectors: [[libc::iovec; 2]; BATCH] =
            [[libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; 2]; BATCH];
        for ((vector, header), room) in vectors.iter_mut().zip(headers.iter_mut()).zip(rooms.iter_mut()) {
            vector[0] = libc::iovec { iov_base: header.as_mut_ptr().cast(), iov_len: HEADER };
            vector[1] = libc::iovec { iov_base: room.as_mut_ptr().cast(), iov_len: room.len() };
        }
        // SAFETY: `mmsghdr` is plain data; all zeroes is a valid value.
        let mut messages: [libc::mmsghdr; BATCH] = unsafe { std::mem::zeroed() };
        for ((message, vector), control) in messages.iter_mut().zip(&mut vectors).zip(controls.iter_mut()) {
            message.msg_hdr.msg_iov = vector[skip..].as_mut_ptr();
            message.msg_hdr.msg_iovlen = (2 - skip) as _;
            message.msg_hdr.msg_control = control.0.as_mut_ptr().cast();
            message.msg_hdr.msg_controllen = CONTROL as _;
        }
        // SAFETY: the first `rooms.len()` messages point to vectors, headers, rooms and control buffers that outlive the
        // call, each used once and as long as its vector says.
        let count = unsafe {
            libc::recvmmsg(
                fd.as_raw_fd(),
                messages.as_mut_ptr(),
                rooms.len() as libc::c_uint,
                libc::MSG_DONTWAIT as _,
                std::ptr::null_mut(),
            )
        };
        if count < 0 {
            let error = io::Error::last_os_error();
            return match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(Received::default()),
                // A super-packet that the header cannot describe; the kernel has dropped it.
                io::ErrorKind::InvalidInput if *offloads => Ok(Received { frames: 0, refused: 1 }),
                _ => Err(error),
            };
        }
        let mut received = Received::default();
        for ((message, room), header) in messages.iter().zip(rooms).zip(headers).take(count as usize) {
            let offload = if *offloads { Offload::read(*header) } else { Some(Offload::default()) };
            let len = (message.msg_len as usize).checked_sub(if *offloads { HEADER } else { 0 });
            let (Some(offload), Some(len), 0) = (offload, len, message.msg_hdr.msg_flags & libc::MSG_TRUNC) else {
                received.refused += 1;
                continue;
            };
            received.frames += 1;
            each(Arrived { room, len, offload, stamp: timestamp(&message.msg_hdr) });
        }
        Ok(received)
    }

    /// Sends up to [`BATCH`] frames; how many went out. An error is that of the first that did not.
    pub fn send(&self, frames: &[Departing<'_>]) -> io::Result<usize> {
        let frames = &frames[..frames.len().min(BATCH)];
        let skip = usize::from(!self.offloads);
        let mut headers = [[0; HEADER]; BATCH];
        let mut vectors: [[libc::iovec; 3]; BATCH] =
            [[libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; 3]; BATCH];
        // SAFETY: `mmsghdr` is plain data; all zeroes is a valid value.
        let mut messages: [libc::mmsghdr; BATCH] = unsafe { std::mem::zeroed() };
        let part = |bytes: &[u8]| libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
        for (((message, vector), header), frame) in messages.iter_mut().zip(&mut vectors).zip(&mut headers).zip(frames)
        {
            *header = frame.offload.write();
            *vector = [part(header), part(frame.headers), part(frame.payload)];
            message.msg_hdr.msg_iov = vector[skip..].as_mut_ptr();
            message.msg_hdr.msg_iovlen = (3 - skip) as _;
        }
        // SAFETY: the first `frames.len()` messages point to vectors, headers and frames that outlive the call; sending
        // only reads.
        let count = unsafe {
            libc::sendmmsg(
                self.fd.as_raw_fd(),
                messages.as_mut_ptr(),
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
