//! A TUN interface: the packets that a namespace sends come out here, and what is written here it receives.
//!
//! With IFF_VNET_HDR and offloads each packet has a header (see `offload`) and may be a super-packet of 64 KiB, and stays one:
//! without, each 1448 bytes cost two system calls. Sources: linux/if_tun.h, tuntap.rst. The interface is gone when the last
//! descriptor is closed.

use super::offload::{Checksum, HEADER, Offload};
use headstart_core::wire::ip::segments;
use rustix::io::Errno;
use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;

/// Room for the longest packet.
pub const ROOM: usize = 65_536;
/// The offloads that are taken: unfinished checksums and super-packets of TCP (TUN_F_CSUM, TUN_F_TSO4, TUN_F_TSO6).
const OFFLOADS: libc::c_ulong = 1 | 2 | 4;
/// And super-packets of UDP (TUN_F_USO4, TUN_F_USO6), since Linux 6.2.
const TRAINS: libc::c_ulong = 0x20 | 0x40;

/// Why there is no interface.
#[derive(Debug, thiserror::Error)]
#[error("the TUN interface {name}: {step}: {source}{}", advice(source))]
pub struct TunError {
    name: String,
    step: &'static str,
    source: io::Error,
}

impl TunError {
    /// The kind of the error from the kernel.
    pub fn kind(&self) -> io::ErrorKind {
        self.source.kind()
    }
}

fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::NotFound => "; run: sudo modprobe tun",
        io::ErrorKind::PermissionDenied => "; it needs root, and in a container the device /dev/net/tun",
        io::ErrorKind::ResourceBusy => "; an interface of that name already exists: choose another name",
        _ => "",
    }
}

/// A TUN interface.
#[derive(Debug)]
pub struct Tun {
    file: File,
    name: String,
    /// Packets have a header, and may be super-packets.
    framed: bool,
    /// Super-packets may be of UDP.
    trains: bool,
}

/// `struct ifreq` of linux/if.h, as far as it is used here: a name and an int or flags.
#[repr(C)]
struct Request {
    name: [u8; libc::IFNAMSIZ],
    value: [u8; 24],
}

impl Request {
    /// The name, as the kernel has left it.
    fn name(&self) -> String {
        let end = self.name.iter().position(|byte| *byte == 0).unwrap_or(self.name.len());
        String::from_utf8_lossy(&self.name[..end]).into_owned()
    }
}

impl Tun {
    /// Makes the interface `name` (at most 15 bytes) in the network namespace of the calling thread; in the place of a `%d` in it
    /// the kernel puts the first number that is free there. One that exists already is never taken over, not even one that is
    /// there to be. `queue` packets may wait in it to be read. Needs CAP_NET_ADMIN there.
    pub fn create(name: &str, queue: i32) -> Result<Self, TunError> {
        Self::made(name, queue, true)
    }

    /// One without IFF_VNET_HDR, as Android's VpnService makes it: no packet is a super-packet. Otherwise as [`Self::create`] has it.
    pub fn create_plain(name: &str, queue: i32) -> Result<Self, TunError> {
        Self::made(name, queue, false)
    }

    fn made(name: &str, queue: i32, framed: bool) -> Result<Self, TunError> {
        let fail = |step| move |source: io::Error| TunError { name: name.to_owned(), step, source };
        let mut options = OpenOptions::new();
        options.read(true).write(true).custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC);
        let file = options.open("/dev/net/tun").map_err(fail("opening /dev/net/tun"))?;
        let mut request = Request { name: [0; libc::IFNAMSIZ], value: [0; 24] };
        if name.len() >= libc::IFNAMSIZ {
            return Err(fail("its name is too long")(io::ErrorKind::InvalidInput.into()));
        }
        request.name[..name.len()].copy_from_slice(name.as_bytes());
        let header = if framed { libc::IFF_VNET_HDR } else { 0 };
        let flags = (libc::IFF_TUN | libc::IFF_NO_PI | libc::IFF_TUN_EXCL | header) as u16;
        request.value[..2].copy_from_slice(&flags.to_ne_bytes());
        // SAFETY: TUNSETIFF reads and writes a `struct ifreq`, which `request` is as long as.
        if unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF as _, &raw mut request) } != 0 {
            return Err(fail("TUNSETIFF")(io::Error::last_os_error()));
        }
        // SAFETY: TUNSETOFFLOAD takes a number.
        if framed && unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETOFFLOAD as _, OFFLOADS) } != 0 {
            return Err(fail("TUNSETOFFLOAD")(io::Error::last_os_error()));
        }
        let tun = Self { file, name: request.name(), framed, trains: false };
        set_queue(&mut request, queue).map_err(fail("SIOCSIFTXQLEN"))?;
        Ok(tun)
    }

    /// An interface that another program has made and set up, by the number of its descriptor, which stays open. Reads no
    /// longer block. Without IFF_VNET_HDR, as Android has it, no packet is a super-packet, and a longer MTU makes up for some
    /// of that.
    pub fn of_descriptor(number: RawFd) -> Result<Self, TunError> {
        let fail = |step| move |source: io::Error| TunError { name: format!("of descriptor {number}"), step, source };
        // SAFETY: no pointers.
        let copy = unsafe { libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 3) };
        if copy < 0 {
            return Err(fail("copying the descriptor")(io::Error::last_os_error()));
        }
        // SAFETY: the descriptor was just made and has no other owner.
        let file = unsafe { File::from_raw_fd(copy) };
        let mut request = Request { name: [0; libc::IFNAMSIZ], value: [0; 24] };
        // SAFETY: TUNGETIFF writes a `struct ifreq`, which `request` is as long as.
        if unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNGETIFF as _, &raw mut request) } != 0 {
            return Err(fail("it is not a TUN device (TUNGETIFF)")(io::Error::last_os_error()));
        }
        let flags = i32::from(u16::from_ne_bytes([request.value[0], request.value[1]]));
        let unfit = |why| Err(fail(why)(io::ErrorKind::InvalidInput.into()));
        // Of IFF_NO_PI nothing is told: TUNGETIFF has IFF_NOFILTER in the same bit, and sets it. `read` looks at the packets.
        if flags & libc::IFF_TUN == 0 {
            return unfit("it must carry IP packets (IFF_TUN)");
        }
        let framed = flags & libc::IFF_VNET_HDR != 0;
        let mut header: libc::c_int = 0;
        // SAFETY: TUNGETVNETHDRSZ writes an int.
        let told = unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNGETVNETHDRSZ as _, &raw mut header) } == 0;
        if framed && !(told && header == HEADER as libc::c_int) {
            return unfit("its IFF_VNET_HDR header is not 10 bytes long");
        }
        rustix::io::ioctl_fionbio(&file, true).map_err(|e| fail("setting it to non-blocking")(e.into()))?;
        Ok(Self { file, name: request.name(), framed, trains: false })
    }

    /// From now on datagrams of one length come, and may be written, as one super-packet; where the kernel can do that.
    pub fn take_trains(&mut self) {
        let offloads = OFFLOADS | TRAINS;
        // SAFETY: TUNSETOFFLOAD takes a number.
        let rc = unsafe { libc::ioctl(self.file.as_raw_fd(), libc::TUNSETOFFLOAD as _, offloads) };
        self.trains = self.framed && rc == 0;
    }

    /// Whether super-packets may be of UDP.
    pub fn takes_trains(&self) -> bool {
        self.trains
    }

    /// Whether a packet with data may be one of many segments.
    pub fn is_framed(&self) -> bool {
        self.framed
    }

    /// What the interface is called.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Reads a packet into the spare room of `bytes`, of which there must be [`ROOM`]; what is left to do about it. None if
    /// none waits; `Err` also for a super-packet of an unknown kind, and `InvalidData` where packets have information before them.
    pub fn read(&self, bytes: &mut Vec<u8>) -> io::Result<Option<Offload>> {
        let before = bytes.len();
        if !self.framed {
            return match rustix::io::read(&self.file, rustix::buffer::spare_capacity(bytes)) {
                Ok(_) => without_information(&bytes[before..], &bytes[before..]).map(|()| Some(Offload::default())),
                Err(Errno::AGAIN) => Ok(None),
                Err(e) => Err(e.into()),
            };
        }
        let mut header = [0u8; HEADER];
        let spare = bytes.spare_capacity_mut();
        let vectors = [
            libc::iovec { iov_base: header.as_mut_ptr().cast(), iov_len: HEADER },
            libc::iovec { iov_base: spare.as_mut_ptr().cast(), iov_len: spare.len() },
        ];
        // SAFETY: both vectors are live memory of their lengths; the kernel only writes to them.
        let got = unsafe { libc::readv(self.file.as_raw_fd(), vectors.as_ptr(), 2) };
        let got = match usize::try_from(got) {
            Ok(got) => got,
            Err(_) => {
                let error = io::Error::last_os_error();
                return if error.kind() == io::ErrorKind::WouldBlock { Ok(None) } else { Err(error) };
            }
        };
        let len = bytes.len() + got.saturating_sub(HEADER);
        // SAFETY: the kernel has written so many bytes behind the old ones, within the capacity.
        unsafe { bytes.set_len(len) };
        without_information(&header, &bytes[before..])?;
        Offload::read(header).map(Some).ok_or_else(|| io::Error::other("a super-packet of an unknown kind"))
    }

    /// Writes a packet; whether the namespace took it. It does not where it has no room, or where the packet is none.
    pub fn write(&self, offload: &Offload, packet: &[u8]) -> bool {
        if !self.framed {
            return self.write_finished(offload, packet);
        }
        let header = offload.write();
        let parts = [IoSlice::new(&header), IoSlice::new(packet)];
        loop {
            match rustix::io::writev(&self.file, &parts) {
                Err(Errno::INTR) => {}
                other => return other.is_ok(),
            }
        }
    }

    /// Does itself what is left to do about a packet.
    fn write_finished(&self, offload: &Offload, packet: &[u8]) -> bool {
        let send = |bytes: &[u8]| loop {
            match rustix::io::write(&self.file, bytes) {
                Err(Errno::INTR) => {}
                other => return other.is_ok(),
            }
        };
        let cut = offload.segments.and_then(|segments| segments::Cut::plan(packet, segments.size.into()));
        if let Some(cut) = cut {
            let mut segment = Vec::new();
            return (0..cut.count()).all(|n| {
                cut.write(n, &mut segment);
                send(&segment)
            });
        }
        match offload.checksum {
            None => send(packet),
            Some(Checksum { start, offset }) => {
                let at = usize::from(start) + usize::from(offset);
                let sum = segments::checksum(packet, start.into());
                let (Some(sum), Some(end)) = (sum, packet.get(at + 2..)) else { return false };
                let sum = sum.to_be_bytes();
                // Nothing is copied for two bytes.
                let parts = [IoSlice::new(&packet[..at]), IoSlice::new(&sum), IoSlice::new(end)];
                loop {
                    match rustix::io::writev(&self.file, &parts) {
                        Err(Errno::INTR) => {}
                        other => return other.is_ok(),
                    }
                }
            }
        }
    }
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// What was read, from its first byte on, and what is taken for its packet: an error if the interface was made without IFF_NO_PI, so that it
/// begins with flags and a protocol (`struct tun_pi` of linux/if_tun.h).
fn without_information(read: &[u8], packet: &[u8]) -> io::Result<()> {
    let is_ip = matches!(packet.first().map(|byte| byte >> 4), Some(4 | 6));
    if !is_ip && matches!(read, [0, 0, 0x08, 0x00, ..] | [0, 0, 0x86, 0xdd, ..]) {
        let why = "its packets have information before them: it must be made with IFF_NO_PI";
        return Err(io::Error::new(io::ErrorKind::InvalidData, why));
    }
    Ok(())
}

/// Sets how many packets may wait to be read; `request` has the name.
fn set_queue(request: &mut Request, queue: i32) -> io::Result<()> {
    // SAFETY: no pointers.
    let fd = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor was just made and has no other owner.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    request.value = [0; 24];
    request.value[..4].copy_from_slice(&queue.to_ne_bytes());
    // SAFETY: SIOCSIFTXQLEN reads a `struct ifreq`, which `request` is as long as.
    let rc = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFTXQLEN as _, &raw mut *request) };
    if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// An interface of these flags, as another program makes it.
#[cfg(test)]
pub(crate) fn made(name: &str, flags: libc::c_int) -> File {
    let file = OpenOptions::new().read(true).write(true).open("/dev/net/tun").unwrap();
    let mut request = Request { name: [0; libc::IFNAMSIZ], value: [0; 24] };
    request.name[..name.len()].copy_from_slice(name.as_bytes());
    request.value[..2].copy_from_slice(&(flags as u16).to_ne_bytes());
    // SAFETY: TUNSETIFF reads and writes a `struct ifreq`, which `request` is as long as.
    let rc = unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF as _, &raw mut request) };
    assert_eq!(rc, 0, "{}", io::Error::last_os_error());
    file
}
