//! `bundle` over the kernel's TCP: the rule of `headstart up --bundle` on a node, and a program that answers the kernel.
//!
//! The rule hands over the small segments of every way of sending; those of one are bundled, the others go on as they are, so
//! that all make the same trip. What never happens here: a packet is held back.

use crate::netns::Nodes;
use anyhow::Context as _;
use headstart_core::realtime::bundle::Bundler;
use headstart_core::realtime::bundle::packet::Segment;
use headstart_core::wire::nfqueue::Direction;
use headstart_io::clock::Clock;
use headstart_io::host::change::{Change, bundle};
use headstart_io::host::{Kernel, QUEUE};
use headstart_io::packet_queue::PacketQueue;
use headstart_io::sys::schedule;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// As `headstart up --bundle` has it: a packet is made no longer, in bytes (RFC 791, section 3.1).
const LONGEST: usize = 576;
/// How often it is looked whether the round is over.
const GLANCE: Duration = Duration::from_millis(50);

/// A node whose small segments come by here.
pub struct Bundling {
    queue: PacketQueue,
    bundler: Bundler,
    clock: Clock,
    /// The port of what is bundled.
    port: u16,
}

impl Bundling {
    /// Has the kernel hand over what leaves `node`; why that cannot be, where it cannot.
    pub fn on(nodes: &Nodes, node: usize, port: u16) -> anyhow::Result<Self> {
        let queue = nodes.on(node, || {
            anyhow::ensure!(bundle::is_possible(), "nft is not installed (Debian package: nftables)");
            let queue = PacketQueue::open(QUEUE)?;
            let lock = std::fs::File::open("/dev/null").context("opening /dev/null")?;
            // Gone with the namespace.
            Change::Bundle(bundle::Bundle::new(QUEUE)).make(&mut Kernel::open()?, &lock)?;
            anyhow::Ok(queue)
        })??;
        Ok(Self { queue, bundler: Bundler::new(), clock: Clock::new(), port })
    }

    /// Answers the kernel until it is `over`; how many segments of what is bundled came by. Where each is acknowledged before the
    /// next is sent, none of them has anything to carry again.
    pub fn serve(mut self, over: &AtomicBool) -> anyhow::Result<u64> {
        let _ = schedule::short_turns(super::TURN);
        let timeout = Timespec { tv_sec: 0, tv_nsec: GLANCE.subsec_nanos().into() };
        while !over.load(Ordering::Acquire) {
            let mut fds = [PollFd::new(&self.queue, PollFlags::IN)];
            let _ = poll(&mut fds, Some(&timeout));
            let Self { queue, bundler, clock, port } = &mut self;
            queue
                .serve(|direction, packet| {
                    let is_ours =
                        |port_of: fn(&Segment) -> u16| Segment::parse(packet).is_some_and(|s| port_of(&s) == *port);
                    match direction {
                        Direction::Out if is_ours(|s| s.flow.to.1) => bundler.outgoing(clock.now(), packet, LONGEST),
                        Direction::In if is_ours(|s| s.flow.from.1) => {
                            bundler.incoming(clock.now(), packet);
                            false
                        }
                        _ => false,
                    }
                })
                .context("the kernel's packet queue")?;
        }
        Ok(self.bundler.tally().outgoing)
    }
}
