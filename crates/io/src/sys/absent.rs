//! Memory that never answers, and calls that are about it: for tests.

use super::process::page_size;
use std::io;
use std::net::UdpSocket;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::ptr;

/// connect(2) of a UDP socket to the 16 bytes of an address at `at`: the errno, or 0.
pub fn connect(at: usize) -> i32 {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    // SAFETY: the kernel checks what it reads.
    let rc = unsafe { libc::connect(socket.as_raw_fd(), at as *const libc::sockaddr, 16) };
    if rc == 0 { 0 } else { io::Error::last_os_error().raw_os_error().unwrap() }
}

/// `struct uffdio_api` and `struct uffdio_register` of linux/userfaultfd.h.
#[repr(C)]
struct Api([u64; 3]);
#[repr(C)]
struct Register([u64; 4]);
/// UFFDIO_API and UFFDIO_REGISTER; UFFD_API; UFFDIO_REGISTER_MODE_MISSING.
const API: libc::c_ulong = 0xc018_aa3f;
const REGISTER: libc::c_ulong = 0xc020_aa00;
const VERSION: u64 = 0xaa;
const MISSING: u64 = 1;

/// A page that is never supplied, until the descriptor is closed; none where that is not allowed.
pub fn unanswered() -> Option<(usize, OwnedFd)> {
    // SAFETY: no pointers.
    let fd = unsafe { libc::syscall(libc::SYS_userfaultfd, libc::O_CLOEXEC) };
    let fd = i32::try_from(fd).ok().filter(|fd| *fd >= 0)?;
    // SAFETY: just made, and not shared.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    let (kind, length) = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, page_size());
    // SAFETY: new memory at an address of the kernel's choice.
    let at = unsafe { libc::mmap(ptr::null_mut(), length, libc::PROT_READ | libc::PROT_WRITE, kind, -1, 0) };
    assert_ne!(at, libc::MAP_FAILED);
    let (mut api, mut register) = (Api([VERSION, 0, 0]), Register([at as u64, length as u64, MISSING, 0]));
    // SAFETY: the structure that this request takes.
    assert_eq!(unsafe { libc::ioctl(fd.as_raw_fd(), API, &mut api) }, 0);
    // SAFETY: as above; the range is ours and is not touched here.
    assert_eq!(unsafe { libc::ioctl(fd.as_raw_fd(), REGISTER, &mut register) }, 0);
    Some((at as usize, fd))
}
