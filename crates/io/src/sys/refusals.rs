//! What a network namespace refuses by itself on its loopback interface: connections and datagrams to ports where nothing listens. A packet
//! socket hears of them (packet(7)), by a filter in the kernel, and of nothing else.

use super::seccomp::op;
use super::socket_option::filter;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// The loopback interface of every namespace (LOOPBACK_IFINDEX of net/flow.h).
const LOOPBACK: i32 = 1;
/// RST and ACK of a TCP header.
const REFUSAL: u32 = 0x14;
/// ICMP's "port unreachable", type and code, of IPv4 and of IPv6 (RFC 792, RFC 4443).
const UNREACHABLE: [u32; 2] = [0x0303, 0x0104];

/// See the module.
#[derive(Debug)]
pub struct Refusals(OwnedFd);

impl Refusals {
    /// Those in the namespace of the calling thread from now on. Needs CAP_NET_RAW there.
    pub fn hear() -> io::Result<Self> {
        let kind = libc::SOCK_DGRAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        // Protocol 0 receives nothing before the filter is there.
        // SAFETY: no pointers.
        let fd = unsafe { libc::socket(libc::AF_PACKET, kind, 0) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor was just opened and has no other owner.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        if !filter(&fd, &mut program()) {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: `sockaddr_ll` is plain data; all zeroes is a valid value.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
        address.sll_ifindex = LOOPBACK;
        // SAFETY: `address` outlives the call and the length is its own.
        let rc = unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), size_of_val(&address) as u32) };
        if rc == 0 { Ok(Self(fd)) } else { Err(io::Error::last_os_error()) }
    }

    /// Whether anything was refused since the last time.
    pub fn heard(&self) -> bool {
        let mut heard = false;
        while rustix::io::read(&self.0, &mut [0; 1]).is_ok() {
            heard = true;
        }
        heard
    }
}

impl AsFd for Refusals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Takes a byte of each refusal, and nothing of other packets, which begin with their IP headers here. A refusal of TCP has the number 0
/// (RFC 9293, section 3.10.7.1), which other resets do not have.
fn program() -> [libc::sock_filter; 25] {
    use libc::{BPF_ABS, BPF_ALU, BPF_B, BPF_H, BPF_IND, BPF_JEQ, BPF_JMP, BPF_K, BPF_LD, BPF_LDX, BPF_MSH, BPF_RET};
    use libc::{BPF_RSH, BPF_W};
    let byte = |at| op(BPF_LD | BPF_B | BPF_ABS, 0, 0, at);
    let behind_v4 = || op(BPF_LDX | BPF_B | BPF_MSH, 0, 0, 0);
    let is = |what, yes, no| op(BPF_JMP | BPF_JEQ | BPF_K, yes, no, what);
    let [tcp, icmp, icmp_v6] = [libc::IPPROTO_TCP, libc::IPPROTO_ICMP, libc::IPPROTO_ICMPV6].map(|n| n as u32);
    [
        byte(0),
        op(BPF_ALU | BPF_RSH | BPF_K, 0, 0, 4),
        is(4, 0, 11),
        byte(9),
        is(tcp, 0, 5),
        behind_v4(),
        op(BPF_LD | BPF_B | BPF_IND, 0, 0, 13),
        is(REFUSAL, 0, 16),
        op(BPF_LD | BPF_W | BPF_IND, 0, 0, 4),
        is(0, 13, 14),
        is(icmp, 0, 13),
        behind_v4(),
        op(BPF_LD | BPF_H | BPF_IND, 0, 0, 0),
        is(UNREACHABLE[0], 9, 10),
        byte(6),
        is(tcp, 0, 4),
        byte(40 + 13),
        is(REFUSAL, 0, 6),
        op(BPF_LD | BPF_W | BPF_ABS, 0, 0, 40 + 4),
        is(0, 3, 4),
        is(icmp_v6, 0, 3),
        op(BPF_LD | BPF_H | BPF_ABS, 0, 0, 40),
        is(UNREACHABLE[1], 0, 1),
        op(BPF_RET | BPF_K, 0, 0, 1),
        op(BPF_RET | BPF_K, 0, 0, 0),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::netlink::Netlink;
    use crate::sys::netns::NetNs;
    use rustix::net::sockopt;
    use std::io::ErrorKind;
    use std::net::{TcpListener, TcpStream, UdpSocket};
    use std::time::Duration;

    #[test]
    #[ignore = "needs network namespaces: cargo xtask test"]
    fn what_is_refused_is_heard_and_nothing_else_is() {
        let Ok(here) = NetNs::create() else { return eprintln!("skipped: no network namespaces for this user") };
        here.run(|| {
            Netlink::open().unwrap().up(LOOPBACK as u32).unwrap();
            let refusals = Refusals::hear().unwrap();
            for ip in ["127.0.0.1", "[::1]"] {
                let listener = TcpListener::bind(format!("{ip}:0")).unwrap();
                let taken = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
                let (peer, _) = listener.accept().unwrap();
                sockopt::set_socket_linger(&peer, Some(Duration::ZERO)).unwrap();
                drop(peer);
                assert_eq!(taken.peek(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionReset);
                let [one, other] = [(); 2].map(|()| UdpSocket::bind(format!("{ip}:0")).unwrap());
                one.send_to(b"hello", other.local_addr().unwrap()).unwrap();
                other.recv(&mut [0; 9]).unwrap();
                assert!(!refusals.heard(), "{ip}: a connection, its reset and a datagram");
                let at = listener.local_addr().unwrap();
                drop(listener);
                assert_eq!(TcpStream::connect(at).unwrap_err().kind(), ErrorKind::ConnectionRefused);
                assert!(refusals.heard(), "{ip}: a connection");
                one.connect(at).unwrap();
                one.send(b"hello").unwrap();
                assert_eq!(one.recv(&mut [0; 9]).unwrap_err().kind(), ErrorKind::ConnectionRefused);
                assert!(refusals.heard(), "{ip}: a datagram");
                assert!(!refusals.heard(), "once");
            }
        })
        .unwrap();
    }
}
