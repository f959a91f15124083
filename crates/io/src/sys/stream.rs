//! Reading a stream into uninitialised memory, finding its urgent byte (SIOCATMARK, tcp(7)), and what is on its way.

use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use std::os::fd::{AsFd, AsRawFd};

/// SIOCATMARK of asm-generic/sockios.h.
const SIOCATMARK: libc::c_ulong = 0x8905;
/// `ioctl` requests are an int or an unsigned long, by C library.
type Request = libc::Ioctl;

/// Reads at most `most` bytes into the spare room of `bytes`, without waiting; how many. None at the end of the stream.
pub fn receive(socket: impl AsFd, bytes: &mut Vec<u8>, most: usize) -> Result<Option<usize>, Errno> {
    let spare = bytes.spare_capacity_mut();
    let most = most.min(spare.len());
    let ((read, _), _) = recv(socket, &mut spare[..most], RecvFlags::DONTWAIT)?;
    let got = read.len();
    let len = bytes.len() + got;
    // SAFETY: `recv` has initialised so many bytes behind the old ones, within the capacity.
    unsafe { bytes.set_len(len) };
    Ok((got > 0).then_some(got))
}

/// Whether the next byte of `socket`, which has SO_OOBINLINE, is the urgent one.
pub fn is_next(socket: impl AsFd) -> bool {
    let mut at_mark: libc::c_int = 0;
    // SAFETY: SIOCATMARK writes an int.
    let rc = unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), SIOCATMARK as Request, &raw mut at_mark) };
    rc == 0 && at_mark != 0
}

/// Bytes that a connected `socket` has taken and its peer has not acknowledged (SIOCOUTQ, tcp(7)); none if the kernel does not tell.
pub fn unacknowledged(socket: impl AsFd) -> Option<usize> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: SIOCOUTQ, which is TIOCOUTQ, writes an int.
    let rc = unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), libc::TIOCOUTQ as Request, &raw mut bytes) };
    if rc == 0 { bytes.try_into().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn no_more_is_read_than_was_asked_for_and_the_end_is_none() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut here = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (there, _) = listener.accept().unwrap();
        here.write_all(b"hello").unwrap();
        drop(here);
        let mut bytes = Vec::with_capacity(100);
        let mut read = |most| loop {
            match receive(&there, &mut bytes, most) {
                Err(Errno::AGAIN) => std::thread::yield_now(),
                other => break other,
            }
        };
        assert_eq!((read(3), read(100), read(100)), (Ok(Some(3)), Ok(Some(2)), Ok(None)));
        assert_eq!(bytes, b"hello");
    }

    #[test]
    fn the_urgent_byte_is_found_where_it_is() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut here = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut there, _) = listener.accept().unwrap();
        rustix::net::sockopt::set_socket_oobinline(&there, true).unwrap();
        here.write_all(b"ab").unwrap();
        rustix::net::send(&here, b"!", rustix::net::SendFlags::OOB).unwrap();
        let mut two = Vec::with_capacity(100);
        // Reading stops at the mark, so the two bytes are all that one call gives.
        while receive(&there, &mut two, 100) == Err(Errno::AGAIN) {}
        let mut seen = is_next(&there);
        let mut byte = [0];
        there.read_exact(&mut byte).unwrap();
        seen &= byte == *b"!" && !is_next(&there);
        assert!(seen && two == b"ab");
    }
}
