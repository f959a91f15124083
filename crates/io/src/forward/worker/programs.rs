//! Packets of programs: read in batches, and handed over in rows.
//!
//! Each thing that a socket is given wakes the reader at its other end. Where several connections are busy their packets come out
//! of the interface in turns; what a row has for one socket is given to it by one call, and wakes its reader once.

use super::{BATCH, LOST, SMALL, Worker, WorkerError};
use crate::driver::Hands;
use crate::sys::offload::Offload;
use headstart_core::forward::Input;
use headstart_core::machine::Machine;
use headstart_core::time::Instant;
use headstart_core::wire::ip;
use std::io;

/// What fails where the interface is not of the kind that can be forwarded from.
const READING: &str = "reading from the TUN interface";

/// Large packets that are read in a row at most before they are handed over. 16: a megabyte, which the nearer caches of a processor
/// hold until it is sent; of eight connections each has two in it (docs/decisions/0043).
const TOGETHER: usize = 16;

/// The longest packet that ends a row where there are no super-packets. IPv6 has each link carry 1280 bytes, which is less than what a
/// stream's are.
const SHORT: usize = 1024;

/// A packet that was read.
#[derive(Debug)]
pub(super) struct Read {
    at: Instant,
    bytes: Vec<u8>,
    /// Payload of each of its segments, if it has many.
    segment: Option<u16>,
}

/// Whether what was read before this packet, and it, are handed over at once: it is of no stream that more comes of.
fn ends_row(len: usize, framed: bool) -> bool {
    len <= if framed { SMALL } else { SHORT }
}

impl Worker {
    /// Packets of programs; how many.
    pub(super) fn programs(&mut self, mut now: Instant) -> usize {
        let mut count = 0;
        self.batch = true;
        self.forwarder.handle_input(now, Input::Batch);
        while count < BATCH {
            self.make_room();
            if count > 0 {
                // A program may have connected, said all and closed meanwhile.
                now = self.clock.now();
            }
            let offload = match self.tun.read(&mut self.room) {
                Ok(Some(offload)) => offload,
                Ok(None) => {
                    self.programs.read(now, count > 0);
                    if count > 0 {
                        self.programs.read(now, false);
                    }
                    break;
                }
                Err(e) => {
                    // EBADFD and ENODEV: the interface has been taken away (tun.c).
                    let gone = [libc::EBADFD, libc::ENODEV].contains(&e.raw_os_error().unwrap_or_default());
                    let what = if gone { LOST } else { READING };
                    let is_unfit = e.kind() == io::ErrorKind::InvalidData;
                    self.lost = (gone || is_unfit).then_some(WorkerError { what, source: e });
                    break;
                }
            };
            count += 1;
            self.passed += self.room.len();
            let ends_row = ends_row(self.room.len(), self.tun.is_framed());
            let large = self.room.len() > SMALL;
            let bytes = if large { std::mem::take(&mut self.room) } else { self.room.clone() };
            self.tapped(now, false, &bytes);
            // A kernel leaves its own sums to be done where the interface allows that, so one that is done was made by a program, or has come
            // from elsewhere: the peer would have dropped what is damaged, and would not if the sum were made anew here. Elsewhere they are the
            // kernel's, and adding all up again would cost as much as a copy.
            if offload == Offload::default() && self.tun.is_framed() && !ip::is_sound(&bytes) {
                self.forwarder.leave_out();
                continue;
            }
            let segment = offload.segments.map(|segments| segments.size);
            self.together.push(Read { at: now, bytes, segment });
            if (ends_row || self.together.len() >= TOGETHER) && self.hand_packets_over() {
                // It has taken a while.
                self.catch_up(now);
            }
        }
        self.hand_packets_over();
        self.forwarder.handle_input(now, Input::BatchEnd);
        self.drain(now);
        self.catch_up(now);
        self.batch = false;
        count
    }

    /// Hands over what was read; whether there were large packets among it.
    fn hand_packets_over(&mut self) -> bool {
        let mut together = std::mem::take(&mut self.together);
        let (large, row) = (together.iter().any(|read| read.bytes.len() > SMALL), together.len() > 1);
        let mut last = None;
        if row {
            self.forwarder.handle_input(together[0].at, Input::Row);
        }
        for Read { at, bytes, segment } in together.drain(..) {
            self.forwarder.handle_input(at, Input::Packet { bytes, segment });
            self.drain(at);
            self.tap_waiting(at, false);
            last = Some(at);
        }
        if let Some(at) = last.filter(|_| row) {
            self.forwarder.handle_input(at, Input::RowEnd);
            self.drain(at);
        }
        self.together = together;
        last.into_iter().for_each(|at| self.tap_waiting(at, true));
        large
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;
    use crate::forward::Enclosure;
    use crate::sys::netlink::Netlink;
    use crate::sys::netns::NetNs;
    use crate::sys::tun::{self, Tun};
    use headstart_core::forward::Settings;
    use headstart_core::time::Duration;
    use std::fs::File;
    use std::net::UdpSocket;
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;

    /// An interface `tun0` of these flags, as another program makes it, from which a datagram is sent.
    fn made(flags: libc::c_int) -> File {
        let file = tun::made("tun0", flags);
        let mut netlink = Netlink::open().unwrap();
        let index = netlink.index("tun0").unwrap();
        netlink.up(index).unwrap();
        netlink.address(index, [192, 0, 2, 1].into(), 24).unwrap();
        UdpSocket::bind("192.0.2.1:0").unwrap().send_to(b"hello", "192.0.2.2:9").unwrap();
        file
    }

    /// How forwarding from it ends.
    fn forwarded(flags: libc::c_int) -> Result<u64, WorkerError> {
        let file = made(flags);
        let tun = Tun::of_descriptor(file.as_raw_fd()).unwrap();
        let namespace = NetNs::current().unwrap();
        let enclosure = Enclosure { namespace, tun, mtu: None, addresses: Vec::new(), routes: None };
        let mut worker = Worker::new(enclosure, Settings::default(), Clock::new(), Box::new(|_| {})).unwrap();
        // It is to stop at once, and reads what is there before it does; what is wrong with that it says when it goes on.
        let (stop, _) = UnixStream::pair().unwrap();
        worker.run(&stop, Duration::ZERO)?;
        worker.run(&stop, Duration::ZERO)?;
        Ok(worker.forwarder().tally().packets)
    }

    #[test]
    #[ignore = "needs network namespaces: cargo xtask test"]
    fn an_interface_with_information_before_its_packets_ends_it_with_the_reason() {
        for (flags, is_fit) in [
            (libc::IFF_TUN | libc::IFF_NO_PI, true),
            (libc::IFF_TUN | libc::IFF_NO_PI | libc::IFF_VNET_HDR, true),
            (libc::IFF_TUN, false),
            (libc::IFF_TUN | libc::IFF_VNET_HDR, false),
        ] {
            let Ok(here) = NetNs::create() else { return eprintln!("skipped: no network namespaces for this user") };
            match here.run(|| forwarded(flags).map_err(|e| (e.is_lost(), e.to_string()))).unwrap() {
                Ok(packets) => assert!(is_fit && packets > 0, "{flags:x} {packets}"),
                Err((is_lost, why)) => {
                    assert!(!is_fit && !is_lost && why.contains("made with IFF_NO_PI"), "{flags:x} {why}")
                }
            }
        }
    }

    #[test]
    fn a_stream_is_long_packets_where_there_are_super_packets_and_full_ones_where_there_are_none() {
        // An acknowledgement, a datagram of a game, a full packet of Ethernet and of IPv6's least link, a super-packet.
        for (len, framed, plain) in
            [(52, true, true), (600, true, true), (1500, true, false), (1280, true, false), (64_000, false, false)]
        {
            assert_eq!((ends_row(len, true), ends_row(len, false)), (framed, plain), "{len} bytes");
        }
    }
}
