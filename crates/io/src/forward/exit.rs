//! How the forwarder's own packets leave the host without being led back into it: by a mark (SO_MARK) that rules know, or
//! protected by the program that has made the TUN interface, where routes are its business (Android's `VpnService.protect`).

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags,
    SocketType, recv, sendmsg, socket_with,
};
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};
use std::rc::Rc;
use std::time::Duration;

/// SO_MARK of asm-generic/socket.h.
const MARK: (i32, i32) = (libc::SOL_SOCKET, libc::SO_MARK);
/// How long the protector may take for one socket; packets wait meanwhile. 1 s: a call of Android's takes a millisecond.
const PATIENCE: Duration = Duration::from_secs(1);

/// Keeps packets of a socket out of the interface.
pub trait Protect: std::fmt::Debug {
    /// Whether it is done. The socket has sent nothing yet, and is not used if this fails.
    fn protect(&self, socket: BorrowedFd<'_>) -> Result<(), Errno>;
}

/// A program that protects sockets.
///
/// Before a socket is used, its descriptor is sent along with one byte over a new connection to a Unix socket, and one byte is awaited:
/// 0 if it is protected. That is how apps with a VPN service are asked by the proxies within them.
#[derive(Clone, Debug)]
pub struct Protector(SocketAddrUnix);

impl Protector {
    /// The one that listens at `path`; `@NAME` is a name that is no file's (unix(7)).
    pub fn at(path: &str) -> Result<Self, Errno> {
        Ok(Self(match path.strip_prefix('@') {
            Some(name) => SocketAddrUnix::new_abstract_name(name.as_bytes())?,
            None => SocketAddrUnix::new(path)?,
        }))
    }
}

impl Protect for Protector {
    fn protect(&self, socket: BorrowedFd<'_>) -> Result<(), Errno> {
        let hook = crate::local::connect(SocketType::STREAM, &self.0, PATIENCE)?;
        let descriptors = [socket];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        control.push(SendAncillaryMessage::ScmRights(&descriptors));
        sendmsg(&hook, &[IoSlice::new(&[0])], &mut control, SendFlags::NOSIGNAL)?;
        let mut answer = [u8::MAX];
        let (_, got) = recv(&hook, &mut answer[..], RecvFlags::empty())?;
        if (got, answer) == (1, [0]) { Ok(()) } else { Err(Errno::PERM) }
    }
}

/// See the module; by default sockets are left as they are.
#[derive(Clone, Debug, Default)]
pub struct Exit {
    /// What packets are marked with.
    pub mark: Option<u32>,
    /// What protects sockets.
    pub protector: Option<Rc<dyn Protect>>,
}

impl Exit {
    /// Whether this process may mark packets.
    pub fn may_mark() -> bool {
        let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None);
        let value = crate::sys::socket_option::Value::of_int(1);
        socket.is_ok_and(|socket| crate::sys::socket_option::set(&socket, MARK, &value))
    }

    /// Readies a socket that has sent nothing yet. What is not ready would be led back, and is not to be used.
    pub fn ready(&self, socket: impl AsFd) -> Result<(), Errno> {
        if let Some(mark) = self.mark {
            let value = crate::sys::socket_option::Value::of_int(mark as i32);
            crate::sys::socket_option::set(&socket, MARK, &value).then_some(()).ok_or(Errno::PERM)?;
        }
        self.protector.as_ref().map_or(Ok(()), |protector| protector.protect(socket.as_fd()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, recvmsg};
    use std::io::{IoSliceMut, Write as _};
    use std::os::fd::OwnedFd;
    use std::os::linux::net::SocketAddrExt as _;
    use std::os::unix::net::{SocketAddr, UnixListener};

    /// The descriptors that come with a byte.
    fn received(hook: impl AsFd) -> Vec<OwnedFd> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        recvmsg(hook, &mut [IoSliceMut::new(&mut [0; 1])], &mut control, RecvFlags::CMSG_CLOEXEC).unwrap();
        let of = |message| match message {
            RecvAncillaryMessage::ScmRights(list) => list.collect(),
            _ => Vec::new(),
        };
        control.drain().flat_map(of).collect()
    }

    #[test]
    fn a_socket_is_ready_when_its_protector_has_said_so_and_not_otherwise() {
        let name = format!("headstart-test-protect-{}", std::process::id());
        let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        let exit = Exit { mark: None, protector: Some(Rc::new(Protector::at(&format!("@{name}")).unwrap())) };
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let inode = |fd: BorrowedFd<'_>| rustix::fs::fstat(fd).unwrap().st_ino;
        let own = inode(socket.as_fd());
        let answers: [&[u8]; 3] = [&[0], &[1], &[]];
        let heard = std::thread::spawn(move || {
            answers.map(|answer| {
                let (mut hook, _) = listener.accept().unwrap();
                let got = received(&hook);
                hook.write_all(answer).unwrap();
                got.iter().map(|fd| inode(fd.as_fd())).collect::<Vec<_>>()
            })
        });
        let said = answers.map(|_| exit.ready(&socket));
        assert_eq!(said, [Ok(()), Err(Errno::PERM), Err(Errno::PERM)]);
        assert_eq!(heard.join().unwrap(), [[own], [own], [own]]);
        assert!(exit.ready(&socket).is_err(), "nobody is there any more");
        assert!(Exit::default().ready(&socket).is_ok());
    }
}
