//! A device's traffic, forwarded and measured in place, undistorted (paper 3; docs/decisions/0016).
//!
//! [`Forwarder`] is the mechanism: packets of programs in, operations on sockets out; what the sockets say in, packets for the
//! programs out. It ends TCP here (RFC 9293) and begins it again in a socket of the host, under one rule:
//! **a program cannot tell it from no forwarder**. [`profile`] is the policy: ours, and the flaws of the tools that paper 3
//! measures, for the lab. [`meter`] is what there is to know of a flow. Where nothing is to be carried, [`kernel`]
//! makes the same records of what the kernel tells. Nothing here opens a socket, reads a clock or sleeps.

pub mod active;
mod callers;
mod datagrams;
mod echo_flow;
mod echoes;
mod forwarder;
mod fragments;
pub mod group;
pub mod kernel;
mod lookups;
pub mod lte;
pub mod meter;
mod observed;
pub mod pace;
pub mod profile;
mod record;
mod spread;
mod stream;
mod tcp;
mod udp_flow;

#[cfg(test)]
mod tests;

pub use echo_flow::EchoFlow;
pub use forwarder::{Forwarder, NotCarried, Tally};
pub use observed::{Facts, Flow, FlowEnd, Gaps, Limits, Side, TcpStats, Transfer, Trips};
pub use record::{DnsExchange, Record};
pub use udp_flow::{Quic, UdpFlow};

use crate::time::Duration;
use crate::wire::ip::icmp::Trouble;
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// Bytes that the caller leaves free before what came out of a socket, so that headers are written where they belong and
/// nothing is copied: those of IPv6 and TCP, and what else the way to the program may want before them.
pub const HEADROOM: usize = 128;
/// Bytes of a program's data that wait here for its socket at most, besides what the socket itself holds: with the
/// 256 KiB that the socket holds unsent, less than 1 MB a flow.
pub const WINDOW: usize = 512 * 1024;
/// The most unsent bytes that the caller is to let a socket hold (TCP_NOTSENT_LOWAT) once it has carried [`MUCH`]. 256 KiB: 2 ms at 1 Gbit/s.
pub const UNSENT: usize = 256 * 1024;
/// And until then: a program's kernel makes room for twice what was acknowledged, each segment counted as several times its length, so
/// that each byte that is taken before a peer reads parks three more. 32 KiB: a quarter of a millisecond at 1 Gbit/s.
pub const UNSENT_AT_FIRST: usize = 32 * 1024;
/// What a connection has carried that is no question any more. 1 MiB: more than a peer's kernel takes for a program that reads nothing.
pub const MUCH: u64 = 1024 * 1024;

/// A TCP connection of a program, in here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowId(pub u64);

/// A port from which a program sends datagrams, to whomever.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MappingId(pub u64);

/// How a forwarder behaves.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Seed of initial sequence numbers.
    pub seed: u64,
    /// Ours, or a flaw to be measured.
    pub profile: &'static profile::Entry,
    /// Connections at a time. Beyond them, those that their peer has not answered make room, first those to the peer with most of them; where
    /// all are open, a SYN is left without an answer, as by a full host.
    pub most_flows: usize,
    /// Ports that send datagrams at a time; the one that has been silent for longest makes room.
    pub most_mappings: usize,
    /// No packet may be a super-packet, so programs whose interface takes longer segments than any wire does are made to send such,
    /// and get such: a packet of 64 KiB takes as long as one of 1500 bytes. They see it by TCP_MAXSEG alone.
    pub long_segments: bool,
}

impl Default for Settings {
    fn default() -> Self {
        // 16384 and 4096: an eighth of them is more than a browser and a port scanner together have been seen to use.
        Self { seed: 0, profile: profile::DEFAULT, most_flows: 16_384, most_mappings: 4096, long_segments: false }
    }
}

/// What the kernels of a connection have agreed on when they opened it, and a program sees of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Agreed {
    /// Timestamps (RFC 7323).
    pub timestamps: bool,
    /// Selective acknowledgements (RFC 2018).
    pub ranges: bool,
}

/// Why an operation on a socket failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// No program listens there (ECONNREFUSED).
    Refused,
    /// The peer has ended the connection (ECONNRESET, EPIPE).
    Reset,
    /// The network said what is wrong.
    Trouble(Trouble),
    /// This host of the network has said so, of a connection that its peer has not answered.
    Told {
        /// Who.
        reporter: IpAddr,
        /// What is wrong.
        trouble: Trouble,
    },
    /// The peer has not answered for as long as the host tries (ETIMEDOUT).
    Silence,
    /// This host has no socket left, or something else is wrong here; the program may try again.
    Here,
}

/// What the world tells a forwarder.
#[derive(Debug)]
pub enum Input {
    /// A packet of a program. With `segment`, it is a super-packet whose payload is to be counted in pieces of that size, or, of UDP,
    /// sent in such.
    Packet {
        /// The packet.
        bytes: Vec<u8>,
        /// Payload of each of its segments, if it has many.
        segment: Option<u16>,
    },
    /// More packets of programs may follow at once, until [`Input::BatchEnd`]: acknowledgements to them may wait
    /// so long, for a part of the window.
    Batch,
    /// No more packets wait.
    BatchEnd,
    /// The packets until [`Input::RowEnd`] are all there: what several of them bring for one socket goes to it at once.
    Row,
    /// They were these.
    RowEnd,
    /// A connection is open.
    Connected {
        /// Which.
        flow: FlowId,
        /// The largest segment that it takes (TCP_MAXSEG), if the host tells.
        mss: Option<u16>,
    },
    /// What the kernels of a connection have agreed on; [`Input::Connected`] follows. Nothing where it is not said.
    Agreed {
        /// Which.
        flow: FlowId,
        /// What.
        agreed: Agreed,
    },
    /// The program has given up a connection that its peer has not answered ([`Output::LookAtProgram`]): it has closed its socket.
    GivenUp {
        /// Which.
        flow: FlowId,
    },
    /// What a path takes, as the kernel that made its connection knows it by now.
    PathMtu {
        /// Of which connection.
        flow: FlowId,
        /// The longest packet.
        mtu: u32,
    },
    /// How long the handshake of a connection took, by the kernel that made it.
    Handshake {
        /// Which.
        flow: FlowId,
        /// From the SYN to the peer's answer.
        took: Duration,
    },
    /// A race has led a connection to one of the addresses of its peer's name; [`Input::Connected`] follows.
    Accelerated {
        /// Which.
        flow: FlowId,
        /// To which.
        to: SocketAddr,
        /// It was begun before the program's SYN came.
        ahead: bool,
    },
    /// A connection could not be opened, or is no more.
    Failed {
        /// Which.
        flow: FlowId,
        /// Why.
        why: Failure,
    },
    /// A peer's data. The first [`HEADROOM`] bytes are free; never more than [`Forwarder::room`] behind them.
    Received {
        /// On which connection.
        flow: FlowId,
        /// The headroom and the data.
        bytes: Vec<u8>,
        /// The one byte is urgent data.
        urgent: bool,
    },
    /// A peer sends no more.
    Ended {
        /// On which connection.
        flow: FlowId,
    },
    /// What became of [`Output::Send`]: what is left in `pieces`, of which the first may have lost its beginning, waits for
    /// [`Input::Writable`]; the rest is the socket's now.
    Sent {
        /// On which connection.
        flow: FlowId,
        /// What the socket has not taken, in the list that came with the order, so that none is made anew.
        pieces: VecDeque<Piece>,
    },
    /// The peer has acknowledged the last byte of something that was [sent](Output::Send), so long after it had left this host.
    Acknowledged {
        /// On which connection.
        flow: FlowId,
        /// How long after.
        took: Duration,
    },
    /// The peer has acknowledged so much more, in so long: while something was on its way.
    Delivered {
        /// On which connection.
        flow: FlowId,
        /// Bytes.
        bytes: u64,
        /// Since what was acknowledged before, or since the first of it was given to the socket.
        took: Duration,
    },
    /// The peer is still there ([`Output::KeepAlive`]).
    Alive {
        /// On which connection.
        flow: FlowId,
    },
    /// A socket takes more.
    Writable {
        /// Whose.
        flow: FlowId,
    },
    /// A socket was closed as requested ([`Output::Close`]), and what the host knew of its connection.
    Closed {
        /// Whose.
        flow: FlowId,
        /// What was known.
        facts: Option<Facts>,
    },
    /// A datagram for a program. The first [`HEADROOM`] bytes are free.
    Datagram {
        /// The port that it came to.
        mapping: MappingId,
        /// The sender.
        from: SocketAddr,
        /// The headroom and the data.
        bytes: Vec<u8>,
        /// Its traffic class, ECN included, and how many routers it might still have passed.
        marks: (u8, u8),
        /// It is a train: many datagrams, of so many bytes each but perhaps the last.
        train: Option<u16>,
    },
    /// What a server of DNS has said before, as its answer to a question that was not [sent](Output::Datagram) to it.
    Answered {
        /// The port that has asked.
        mapping: MappingId,
        /// The server that was asked.
        server: SocketAddr,
        /// The headroom and the data.
        bytes: Vec<u8>,
    },
    /// A datagram did not arrive.
    DatagramFailed {
        /// Whose it was.
        mapping: MappingId,
        /// The destination.
        to: SocketAddr,
        /// The host that says so, if it is not this one.
        reporter: Option<IpAddr>,
        /// What is wrong.
        trouble: Trouble,
        /// The beginning of what the datagram carried, as far as it is known.
        data: Vec<u8>,
        /// How many routers the report might still have passed.
        hop_limit: u8,
    },
    /// There is no socket for a port ([`Output::Map`]): the next datagram asks for one anew.
    NotMapped {
        /// The port.
        mapping: MappingId,
    },
    /// An ICMP message of a peer: an echo reply, for the program that asked.
    Echoed {
        /// The sender.
        from: IpAddr,
        /// From its type on.
        message: Vec<u8>,
        /// How many routers it might still have passed.
        hop_limit: u8,
    },
    /// A request for an echo did not arrive.
    EchoFailed {
        /// The destination.
        to: IpAddr,
        /// The host that says so, if it is not this one.
        reporter: Option<IpAddr>,
        /// The message, or its beginning.
        message: Vec<u8>,
        /// What is wrong.
        trouble: Trouble,
        /// How many routers the report might still have passed.
        hop_limit: u8,
    },
}

/// A piece of a program's data, in the buffer that it came in.
#[derive(Debug)]
pub struct Piece {
    /// The buffer.
    pub bytes: Vec<u8>,
    /// Where the data begins.
    pub from: usize,
    /// Where it ends.
    pub to: usize,
    /// Its last byte is urgent.
    pub urgent: bool,
}

impl Piece {
    /// The data.
    pub fn data(&self) -> &[u8] {
        &self.bytes[self.from..self.to]
    }
}

/// Takes `taken` bytes off the front of a row of pieces; what is done with each buffer that is used up.
pub fn advance(pieces: &mut VecDeque<Piece>, mut taken: usize, mut used_up: impl FnMut(Vec<u8>)) {
    while let Some(piece) = pieces.front_mut() {
        let len = piece.to - piece.from;
        if taken < len {
            piece.from += taken;
            return;
        }
        taken -= len;
        pieces.pop_front().into_iter().for_each(|piece| used_up(piece.bytes));
    }
}

/// A packet for a program.
#[derive(Clone, Debug)]
pub struct Packet {
    /// The packet, from `start` on. May be shared with what is kept until it is acknowledged.
    pub bytes: Arc<Vec<u8>>,
    /// Where it begins.
    pub start: usize,
    /// Where its transport header begins, from `start`, and in it the checksum that is still the sum of the pseudo header.
    pub checksum: Option<(u16, u16)>,
    /// Payload of each of its segments, if it is to be cut into many, and the length of its headers.
    pub segments: Option<(u16, u16)>,
}

impl Packet {
    /// A packet that is finished.
    pub fn finished(bytes: Vec<u8>) -> Self {
        Self { bytes: Arc::new(bytes), start: 0, checksum: None, segments: None }
    }

    /// The packet itself.
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[self.start..]
    }
}

/// What a forwarder asks of the world.
#[derive(Debug)]
pub enum Output {
    /// To the program's side.
    Packet(Packet),
    /// Open a connection; answered by [`Input::Connected`] or [`Input::Failed`].
    Connect {
        /// Its name from now on.
        flow: FlowId,
        /// The program's end.
        app: SocketAddr,
        /// The peer to reach.
        peer: SocketAddr,
        /// The traffic class of the program's packets, without ECN.
        traffic_class: u8,
        /// The routers that the program's packets may pass.
        hop_limit: u8,
        /// Whether Nagle's algorithm is off to begin with (TCP_NODELAY).
        no_delay: bool,
        /// The largest segment that the program takes, by its SYN.
        mss: u16,
    },
    /// Find out which options the program's socket has that packets do not show (TCP_NODELAY, TCP_USER_TIMEOUT, TCP_CONGESTION, SO_PRIORITY),
    /// and do likewise.
    MirrorOptions {
        /// On which connection.
        flow: FlowId,
    },
    /// A peer has not answered for a while: find out whether the program still has its socket, for no packet says so. [`Input::GivenUp`] if
    /// it has not, and nothing if it has, or if that is not known.
    LookAtProgram {
        /// On which connection.
        flow: FlowId,
    },
    /// Change the traffic class of a connection.
    Mark {
        /// Which.
        flow: FlowId,
        /// The traffic class, without ECN.
        traffic_class: u8,
    },
    /// The program's kernel asks whether its peer is still there (SO_KEEPALIVE): ask the peer. [`Input::Alive`] if it answers, and
    /// nothing if it does not: then the program's kernel gives up as it would have without a forwarder.
    KeepAlive {
        /// On which connection.
        flow: FlowId,
    },
    /// The connection to the peer has timed out: have the program's kernel time out too, for no packet says so. Answered by
    /// [`Input::Failed`] if that cannot be done.
    TimeOut {
        /// Which.
        flow: FlowId,
    },
    /// Send pieces of a stream, one behind the other, by as few calls as can be; answered by [`Input::Sent`], or by [`Input::Failed`].
    Send {
        /// On which connection.
        flow: FlowId,
        /// The data; at least one piece.
        pieces: VecDeque<Piece>,
        /// The last byte is urgent (MSG_OOB), and there is only one piece.
        urgent: bool,
    },
    /// There is [room](Forwarder::room) again, where there was none.
    Resume {
        /// On which connection.
        flow: FlowId,
    },
    /// Say that no more comes (SHUT_WR).
    Shutdown {
        /// On which connection.
        flow: FlowId,
    },
    /// Close the socket, with a reset if it is `abrupt`; answered by [`Input::Closed`].
    Close {
        /// Which.
        flow: FlowId,
        /// Whether the peer is to see a reset.
        abrupt: bool,
    },
    /// Open a socket for datagrams to any peer.
    Map {
        /// Its name from now on.
        mapping: MappingId,
        /// The program's port; the same one is to be used if it is free.
        app: SocketAddr,
    },
    /// Send a datagram.
    Datagram {
        /// From which socket.
        mapping: MappingId,
        /// The destination.
        to: SocketAddr,
        /// A buffer with the data.
        bytes: Vec<u8>,
        /// Where it begins; it goes on to the end.
        from: usize,
        /// Its traffic class, ECN included.
        traffic_class: u8,
        /// The routers that it may pass.
        hop_limit: u8,
        /// Whether routers must not cut it.
        whole: bool,
        /// It is a train: many datagrams, of so many bytes each but perhaps the last.
        train: Option<u16>,
    },
    /// A program's kernel has refused a datagram: perhaps no program has bound that port any more ([`Forwarder::unbound`]).
    Unbound,
    /// Close a socket for datagrams.
    Unmap {
        /// Which.
        mapping: MappingId,
    },
    /// Send an ICMP message, a request for an echo.
    Echo {
        /// The destination.
        to: IpAddr,
        /// From its type on.
        message: Vec<u8>,
        /// Its traffic class.
        traffic_class: u8,
        /// The routers that it may pass.
        hop_limit: u8,
        /// Whether routers must not cut it.
        whole: bool,
    },
    /// Something has ended, and what was seen of it.
    Record(Record),
}
