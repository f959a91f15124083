//! One end of a session of small messages in virtual time: a messenger of `core::realtime` and the connections that it writes to,
//! each a TCP of [`super::tcp`].
//!
//! Connections are open from the beginning. What a network makes of the segments is up to the owner of the two ends.

use super::tcp::{Segment, Stack, Tcp};
use headstart_core::machine::Machine;
use headstart_core::realtime::technique::{self, UnknownTechnique};
use headstart_core::realtime::{Connection, Input, Messenger, Output, SessionId, Settings};
use headstart_core::time::{Duration, Instant};

/// See the module.
pub(super) struct Talker {
    pub messenger: Messenger,
    pub connections: Vec<Tcp>,
}

impl Talker {
    /// Both ends of a session by `technique`, a message each `interval`, over connections whose handshakes took `rtt` and began now;
    /// the first end introduces itself.
    pub fn pair(
        now: Instant,
        technique: &str,
        interval: Duration,
        (stack, rtt): (Stack, Duration),
    ) -> Result<[Self; 2], UnknownTechnique> {
        let connections = technique::find(technique)?.connections();
        let end = |introduce: bool| {
            let settings = Settings { interval: Some(interval), resume: false, ..Settings::new(technique)? };
            let mut messenger = Messenger::new(SessionId::default(), settings);
            for id in 0..connections as u32 {
                let input = Input::Opened { connection: Connection(id), rtt: Some(rtt), introduce };
                messenger.handle_input(now, input);
            }
            Ok(Self { messenger, connections: (0..connections).map(|_| Tcp::new(stack, rtt)).collect() })
        };
        Ok([end(true)?, end(false)?])
    }

    /// When it wants to be woken.
    pub fn deadline(&self) -> Option<Instant> {
        let tcp = self.connections.iter().filter_map(Tcp::deadline);
        tcp.chain(self.messenger.poll_timeout().map(|d| d.at)).min()
    }

    /// Wakes what wants to be woken by now.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.connections.iter_mut().for_each(|tcp| tcp.timeout(now));
        if self.messenger.poll_timeout().is_some_and(|deadline| deadline.at <= now) {
            for (connection, tcp) in (0..).map(Connection).zip(&self.connections) {
                let bytes = tcp.unacknowledged();
                self.messenger.handle_input(now, Input::Unacknowledged { connection, bytes });
            }
            self.messenger.handle_timeout(now);
        }
    }

    /// A segment of connection `id` has come. What the kernel says at once, before the program does anything.
    pub fn receive(&mut self, now: Instant, id: u16, segment: &Segment) -> Option<Segment> {
        let tcp = self.connections.get_mut(usize::from(id))?;
        tcp.receive(now, segment);
        let ack = tcp.poll_ack();
        let read = tcp.read();
        if !read.is_empty() {
            let taken = self.messenger.received(now, Connection(id.into()), &read);
            debug_assert!(taken.is_ok(), "{taken:?}");
        }
        ack
    }

    /// Does what the messenger asks for: writes frames, and gives every message that has come to `deliver`.
    pub fn carry_out(&mut self, now: Instant, mut deliver: impl FnMut(&[u8])) {
        let mut bytes = Vec::new();
        while let Some(output) = self.messenger.poll_output() {
            match output {
                Output::Write(connection) => {
                    while self.messenger.transmit(now, connection, &mut bytes) {
                        self.connections[connection.0 as usize].write(&bytes);
                        bytes.clear();
                    }
                }
                Output::Deliver => {
                    while self.messenger.receive(&mut bytes).is_some() {
                        deliver(&bytes);
                        bytes.clear();
                    }
                }
            }
            bytes.clear();
        }
    }
}
