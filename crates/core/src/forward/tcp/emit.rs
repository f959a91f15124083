//! The packets of a connection that go to its program.

use super::super::{HEADROOM, Output, Packet};
use super::{Connection, Phase};
use crate::time::Instant;
use crate::wire::ip::tcp::{self, CHECKSUM_AT, Flags, Segment};
use crate::wire::ip::{HOP_LIMIT, Header, TCP, checksum, header_len, write};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;

fn header(from: SocketAddr, to: SocketAddr) -> Header {
    Header {
        source: from.ip(),
        destination: to.ip(),
        protocol: TCP,
        traffic_class: 0,
        hop_limit: HOP_LIMIT,
        whole: true,
        fragment: None,
    }
}

/// A packet without data, finished.
pub(in super::super) fn bare(from: SocketAddr, to: SocketAddr, segment: &Segment) -> Packet {
    Packet::finished(tcp::packet(&header(from, to), segment, b""))
}

impl Connection {
    fn segment(&self, flags: Flags, sequence: u32, (acknowledged, window): (u32, u16)) -> Segment {
        Segment {
            // A kernel takes a reset by its number alone.
            stamps: self.stamps.next().filter(|_| !flags.has(Flags::RST)),
            source: self.flow.peer.port(),
            destination: self.flow.app.port(),
            sequence,
            acknowledged,
            flags,
            window,
            ..Segment::default()
        }
    }

    fn bare(&self, segment: &Segment) -> Packet {
        bare(self.flow.peer, self.flow.app, segment)
    }

    pub(super) fn syn_ack(&self) -> Packet {
        let segment = self.segment(Flags::SYN | Flags::ACK, self.down.first(), (self.up.acked(), 65_535));
        self.bare(&self.opening(segment))
    }

    /// With the options of an opening. The length does not count others (RFC 6691).
    fn opening(&self, segment: Segment) -> Segment {
        let mss = Some(self.mss.saturating_add(self.stamps.len()));
        Segment { mss, scale: self.up.scale(), takes_ranges: self.stamps.used.ranges, ..segment }
    }

    /// A peer's call.
    pub(super) fn syn(&self) -> Packet {
        let segment = self.segment(Flags::SYN, self.down.first(), (0, 65_535));
        self.bare(&self.opening(segment))
    }

    /// The answer to a SYN where no program listens.
    pub(super) fn refusal(&self) -> Packet {
        self.bare(&self.segment(Flags::RST | Flags::ACK, 0, (self.up.acked(), 0)))
    }

    pub(super) fn reset(&self) -> Packet {
        if matches!(self.phase, Phase::Calling { .. }) {
            // Nothing of the program's is known that could be acknowledged.
            return self.bare(&self.segment(Flags::RST, self.down.next(), (0, 0)));
        }
        self.bare(&self.segment(Flags::RST | Flags::ACK, self.down.next(), (self.up.acked(), 0)))
    }

    /// Something before what is acknowledged, which a kernel answers at once, with its window.
    pub(super) fn probe(&mut self) -> Packet {
        let told = self.up.tell();
        self.bare(&self.segment(Flags::ACK, self.down.first().wrapping_sub(1), told))
    }

    /// The beginning of a segment as the program's kernel would send it next, to be quoted.
    pub(super) fn as_sent_by_the_program(&self) -> Vec<u8> {
        let (source, destination) = (self.flow.app.port(), self.flow.peer.port());
        let sequence = self.up.next();
        let segment = Segment { source, destination, sequence, flags: Flags::ACK, ..Segment::default() };
        tcp::packet(&header(self.flow.app, self.flow.peer), &segment, b"")
    }

    pub(super) fn acknowledge(&mut self, out: &mut VecDeque<Output>) {
        if self.phase != Phase::Open {
            return;
        }
        let told = self.up.tell();
        let segment = self.segment(Flags::ACK, self.down.next(), told);
        let ranges = if self.stamps.used.ranges { self.up.ranges() } else { Default::default() };
        out.push_back(Output::Packet(self.bare(&Segment { ranges, ..segment })));
    }

    pub(super) fn fin(&mut self, now: Instant) -> Packet {
        let sequence = self.down.send(now, None, 0, false);
        let told = self.up.tell();
        self.bare(&self.segment(Flags::FIN | Flags::ACK, sequence, told))
    }

    /// The packet for what was read into `bytes`, behind the headroom; it is kept until it is acknowledged.
    pub(super) fn data_packet(&mut self, now: Instant, mut bytes: Vec<u8>, urgent: bool) -> Packet {
        let sequence = self.down.next();
        let packet = self.dress(&mut bytes, sequence, urgent);
        let bytes = Arc::new(bytes);
        self.down.send(now, Some(Arc::clone(&bytes)), HEADROOM, urgent);
        Packet { bytes, ..packet }
    }

    /// Writes headers before data that begins behind the headroom.
    fn dress(&mut self, bytes: &mut [u8], sequence: u32, urgent: bool) -> Packet {
        let told = self.up.tell();
        let urgency = if urgent { Flags::URG } else { Flags::default() };
        let segment = self.segment(Flags::ACK | Flags::PSH | urgency, sequence, told);
        let segment = Segment { urgent: u16::from(urgent), ..segment };
        let (from, to) = (self.flow.peer, self.flow.app);
        let (ip, head, data) = (header_len(to.ip()), segment.len(), bytes.len() - HEADROOM);
        let (start, transport) = (HEADROOM - head - ip, HEADROOM - head);
        write(&header(from, to), head + data, &mut bytes[start..]);
        segment.write(&mut bytes[transport..]);
        let sum = checksum::fold(checksum::pseudo_header(from.ip(), to.ip(), TCP, head + data));
        let at = transport + usize::from(CHECKSUM_AT);
        bytes[at..at + 2].copy_from_slice(&sum.to_be_bytes());
        let mss = self.down.mss.max(1);
        let headers = (ip + head) as u16;
        Packet {
            bytes: Arc::default(),
            start,
            checksum: Some((ip as u16, CHECKSUM_AT)),
            segments: (data > usize::from(mss)).then_some((mss, headers)),
        }
    }

    /// The first thing that is not acknowledged, once more.
    pub(super) fn send_again(&mut self, out: &mut VecDeque<Output>) {
        let Some(head) = self.down.head().cloned() else { return };
        self.flow.local_retransmissions += 1;
        let packet = match head.bytes {
            None => {
                let told = self.up.tell();
                self.bare(&self.segment(Flags::FIN | Flags::ACK, head.sequence, told))
            }
            Some(bytes) => {
                let mut copy = vec![0; HEADROOM];
                copy.extend(&bytes[head.from..]);
                let packet = self.dress(&mut copy, head.sequence, head.urgent);
                Packet { bytes: Arc::new(copy), ..packet }
            }
        };
        out.push_back(Output::Packet(packet));
    }
}
