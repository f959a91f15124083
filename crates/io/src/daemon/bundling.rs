//! Small segments of thin streams, which carry those before them again (core::realtime::bundle): packets as the kernel hands
//! them over, decided there, let go here. A failure leaves packets as they are.

use super::message::BundlingTally;
use crate::clock::Clock;
use crate::host::change::{Change, bundle::Bundle};
use crate::host::{KernelError, QUEUE};
use crate::packet_queue::PacketQueue;
use headstart_core::realtime::bundle::Bundler;
use headstart_core::wire::nfqueue::Direction;
use std::os::fd::{AsFd, BorrowedFd};

/// A packet is made no longer than this, in bytes: every host must be able to receive it (RFC 791, section 3.1), so no path is
/// too narrow for it in practice.
const LONGEST: usize = 576;

/// See the module.
#[derive(Debug)]
pub(super) struct Bundling {
    queue: PacketQueue,
    bundler: Bundler,
    clock: Clock,
    packets: u64,
}

impl Bundling {
    /// Listens to the kernel's queue.
    pub fn open(clock: Clock) -> Result<Self, KernelError> {
        Ok(Self { queue: PacketQueue::open(QUEUE)?, bundler: Bundler::new(), clock, packets: 0 })
    }

    /// The change of the host that fills the queue.
    pub fn change(&self) -> Change {
        Change::Bundle(Bundle::new(QUEUE))
    }

    /// Deals with the packets that wait; why that is not possible any more.
    pub fn serve(&mut self) -> Option<String> {
        let Self { queue, bundler, clock, packets } = self;
        let served = queue.serve(|direction, packet| {
            *packets += 1;
            let now = clock.now();
            match direction {
                Direction::Out => bundler.outgoing(now, packet, LONGEST),
                Direction::In => {
                    bundler.incoming(now, packet);
                    false
                }
                Direction::Other => false,
            }
        });
        served.err().map(|why| format!("bundling has stopped, and packets pass unchanged: {why}"))
    }

    /// What was done so far.
    pub fn tally(&self) -> BundlingTally {
        let tally = self.bundler.tally();
        BundlingTally { packets: self.packets, outgoing: tally.outgoing, bundled: tally.bundled, bytes: tally.bytes }
    }
}

impl AsFd for Bundling {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.queue.as_fd()
    }
}
