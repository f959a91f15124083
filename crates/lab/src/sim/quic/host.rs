//! A QUIC endpoint of quinn-proto in virtual time: the server that answers, the client that fetches.

use super::{Cargo, Times};
use bytes::BytesMut;
use headstart_core::time::Instant;
use headstart_quic::{CarefulResume, Watch};
use quinn_proto::{
    ClientConfig, Connection, ConnectionHandle, DatagramEvent, Dir, Endpoint, EndpointConfig, Event, FinishError,
    ServerConfig, StreamEvent, StreamId, Transmit, TransportConfig, VarInt, WriteError,
};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

/// Segments that the kernel takes at once (GSO), as quinn asks for.
const SEGMENTS: usize = 10;
/// Flow control that never limits: what is compared is congestion control.
const ROOM: u32 = 64 << 20;

/// The transport that both ends have but for what a memory says.
pub fn transport() -> TransportConfig {
    let mut transport = TransportConfig::default();
    transport.stream_receive_window(VarInt::from_u32(ROOM));
    transport.receive_window(VarInt::from_u32(ROOM));
    transport.send_window(ROOM.into());
    // A transfer over a bad path may pause for longer than the default of 30 s.
    transport.max_idle_timeout(None);
    transport
}

/// A connection and what its program is about.
struct Talk {
    connection: Connection,
    /// The stream that is asked or answered on.
    stream: Option<StreamId>,
    /// Bytes that are still to be written: of the question, or of the answer once the question is there.
    owed: Option<u64>,
    /// Bytes that have come.
    read: u64,
    asked: bool,
    done: Option<Instant>,
    watch: Option<Watch>,
}

/// What became of a connection when it ended.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ended {
    /// Packets that the end sent.
    pub sent: u64,
    /// Packets that it took for lost.
    pub lost: u64,
}

/// One endpoint.
pub struct Host {
    endpoint: Endpoint,
    talks: BTreeMap<usize, Talk>,
    times: Times,
    server: Option<ServerConfig>,
    memory: Option<CarefulResume>,
    /// Server: what it answers with, in bytes.
    pub answer: u64,
    /// Client: what it asks with, in bytes.
    pub question: u64,
    /// Server: when the last question was there to its end.
    pub asked: Option<Instant>,
    /// What to send: where to, and what.
    pub out: Vec<(SocketAddr, Cargo)>,
    /// Connections that ended.
    pub ended: Vec<Ended>,
}

impl Host {
    pub fn new(times: Times, seed: u64, server: Option<ServerConfig>, memory: Option<CarefulResume>) -> Self {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut bytes = [0; 32];
        rng.fill(&mut bytes);
        let endpoint =
            Endpoint::new(Arc::new(EndpointConfig::default()), server.clone().map(Arc::new), true, Some(bytes));
        let (talks, out, ended) = (BTreeMap::new(), Vec::new(), Vec::new());
        Self { endpoint, talks, times, server, memory, answer: 0, question: 1, asked: None, out, ended }
    }

    /// Its connections begin by `memory` from now on.
    pub fn remember(&mut self, memory: CarefulResume) {
        self.memory = Some(memory);
    }

    /// Opens a connection; the question goes out as soon as it may.
    pub fn connect(&mut self, now: Instant, mut config: ClientConfig, to: SocketAddr) -> anyhow::Result<usize> {
        let (at, mut transport) = (self.times.std(now), transport());
        let watch = self.memory.as_ref().map(|memory| memory.plan(at, to, true).apply(&mut transport));
        config.transport_config(Arc::new(transport));
        let (handle, connection) = self.endpoint.connect(at, config, to, super::tls::NAME)?;
        let talk = Talk { connection, stream: None, owed: None, read: 0, asked: false, done: None, watch };
        self.talks.insert(handle.0, talk);
        self.drive(now, handle.0);
        Ok(handle.0)
    }

    /// When the answer of connection `id` was complete.
    pub fn done(&self, id: usize) -> Option<Instant> {
        self.talks.get(&id).and_then(|talk| talk.done)
    }

    /// Connections that are open.
    pub fn open(&self) -> usize {
        self.talks.len()
    }

    /// A look at the windows of the connections that a memory planned.
    pub fn watches(&self) -> impl Iterator<Item = &Watch> {
        self.talks.values().filter_map(|talk| talk.watch.as_ref())
    }

    /// Closes connection `id`.
    pub fn close(&mut self, now: Instant, id: usize) {
        if let Some(talk) = self.talks.get_mut(&id) {
            talk.connection.close(self.times.std(now), VarInt::from_u32(0), bytes::Bytes::new());
        }
        self.drive(now, id);
        self.talks.remove(&id);
    }

    /// Forgets every connection, as if its peer's closing had been heard.
    pub fn forget(&mut self) {
        for (_, talk) in std::mem::take(&mut self.talks) {
            self.end(&talk);
        }
    }

    fn end(&mut self, talk: &Talk) {
        let path = talk.connection.stats().path;
        self.ended.push(Ended { sent: path.sent_packets, lost: path.lost_packets });
    }

    pub fn receive(&mut self, now: Instant, from: SocketAddr, data: &[u8]) {
        let mut buffer = Vec::new();
        let at = self.times.std(now);
        match self.endpoint.handle(at, from, None, None, BytesMut::from(data), &mut buffer) {
            Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                if let Some(talk) = self.talks.get_mut(&handle.0) {
                    talk.connection.handle_event(event);
                    self.drive(now, handle.0);
                }
            }
            Some(DatagramEvent::NewConnection(incoming)) => {
                let mut config = transport();
                let watch = self.memory.as_ref().map(|memory| {
                    memory.plan(at, incoming.remote_address(), incoming.remote_address_validated()).apply(&mut config)
                });
                let mut server = self.server.clone();
                if let Some(server) = &mut server {
                    server.transport_config(Arc::new(config));
                }
                match self.endpoint.accept(incoming, at, &mut buffer, server.map(Arc::new)) {
                    Ok((ConnectionHandle(id), connection)) => {
                        let talk =
                            Talk { connection, stream: None, owed: None, read: 0, asked: true, done: None, watch };
                        self.talks.insert(id, talk);
                        self.drive(now, id);
                    }
                    Err(error) => {
                        if let Some(transmit) = error.response {
                            self.emit(&transmit, &buffer);
                        }
                    }
                }
            }
            Some(DatagramEvent::Response(transmit)) => self.emit(&transmit, &buffer),
            None => {}
        }
    }

    /// When [`Host::timeout`] is due.
    pub fn deadline(&mut self) -> Option<Instant> {
        let times = self.times;
        self.talks.values_mut().filter_map(|talk| talk.connection.poll_timeout()).min().map(|at| times.ours(at))
    }

    pub fn timeout(&mut self, now: Instant) {
        let at = self.times.std(now);
        let due = |talk: &mut Talk| talk.connection.poll_timeout().is_some_and(|due| due <= at);
        let ids: Vec<usize> = self.talks.iter_mut().filter_map(|(id, talk)| due(talk).then_some(*id)).collect();
        for id in ids {
            if let Some(talk) = self.talks.get_mut(&id) {
                talk.connection.handle_timeout(at);
            }
            self.drive(now, id);
        }
    }

    fn emit(&mut self, transmit: &Transmit, buffer: &[u8]) {
        let size = transmit.segment_size.unwrap_or(transmit.size).max(1);
        for piece in buffer[..transmit.size].chunks(size) {
            self.out.push((transmit.destination, Cargo::Quic(piece.to_vec())));
        }
    }

    /// Everything that a connection wants to do at `now`.
    fn drive(&mut self, now: Instant, id: usize) {
        let at = self.times.std(now);
        let (question, answer) = (self.question, self.answer);
        let is_server = self.server.is_some();
        let mut over = false;
        loop {
            let Some(talk) = self.talks.get_mut(&id) else { return };
            let mut moved = false;
            if !is_server && !talk.asked && (talk.connection.has_0rtt() || !talk.connection.is_handshaking()) {
                talk.ask(question);
            }
            while let Some(event) = talk.connection.poll() {
                moved = true;
                match event {
                    Event::Connected if !is_server && !talk.asked => talk.ask(question),
                    Event::Stream(StreamEvent::Opened { dir: Dir::Bi }) => {
                        talk.stream = talk.connection.streams().accept(Dir::Bi);
                    }
                    Event::ConnectionLost { .. } => over = true,
                    _ => {}
                }
            }
            if !is_server {
                talk.write();
                talk.read(now);
            } else if talk.serve(answer) {
                self.asked = Some(now);
            }
            let mut transmits = Vec::new();
            loop {
                let mut buffer = Vec::new();
                let Some(transmit) = talk.connection.poll_transmit(at, SEGMENTS, &mut buffer) else { break };
                moved = true;
                transmits.push((transmit, buffer));
            }
            let mut events = Vec::new();
            while let Some(event) = talk.connection.poll_endpoint_events() {
                events.push(event);
            }
            for (transmit, buffer) in transmits {
                self.emit(&transmit, &buffer);
            }
            for event in events {
                moved = true;
                if let Some(event) = self.endpoint.handle_event(ConnectionHandle(id), event)
                    && let Some(talk) = self.talks.get_mut(&id)
                {
                    talk.connection.handle_event(event);
                }
            }
            if !moved {
                break;
            }
        }
        // A connection that drains holds nothing that is still waited for.
        if over && let Some(talk) = self.talks.remove(&id) {
            self.end(&talk);
        }
    }
}

impl Talk {
    /// The client's program: asks with `bytes`.
    fn ask(&mut self, bytes: u64) {
        let Some(stream) = self.connection.streams().open(Dir::Bi) else { return };
        (self.stream, self.owed, self.asked) = (Some(stream), Some(bytes), true);
        self.write();
    }

    /// The server's program, which answers with `bytes`: whether the question is there since now.
    fn serve(&mut self, bytes: u64) -> bool {
        let is_asked = self.owed.is_none() && self.stream.is_some_and(|stream| self.finished(stream));
        if is_asked {
            self.owed = Some(bytes);
        }
        if self.write() {
            self.stream = None;
        }
        is_asked
    }

    /// Writes as much as the transport takes of what is owed; whether nothing is to be written any more.
    fn write(&mut self) -> bool {
        static ZEROS: [u8; 65_536] = [0; 65_536];
        let (Some(stream), Some(owed)) = (self.stream, &mut self.owed) else { return false };
        let mut send = self.connection.send_stream(stream);
        while *owed > 0 {
            let piece = usize::try_from(*owed).unwrap_or(usize::MAX).min(ZEROS.len());
            match send.write(&ZEROS[..piece]) {
                Ok(taken) => *owed -= taken as u64,
                Err(WriteError::Blocked) => return false,
                Err(_) => return true,
            }
        }
        !matches!(send.finish(), Err(FinishError::Stopped(_)))
    }

    fn read(&mut self, now: Instant) {
        let Some(stream) = self.stream else { return };
        if self.done.is_none() && self.finished(stream) {
            self.done = Some(now);
        }
    }

    /// Reads all that is there; whether that was the end.
    fn finished(&mut self, stream: StreamId) -> bool {
        let mut receive = self.connection.recv_stream(stream);
        let Ok(mut chunks) = receive.read(false) else { return false };
        let end = loop {
            match chunks.next(usize::MAX) {
                Ok(Some(chunk)) => self.read += chunk.bytes.len() as u64,
                Ok(None) => break true,
                Err(_) => break false,
            }
        };
        // What this lets the peer send goes out with the next packets.
        let _ = chunks.finalize();
        end
    }
}
