//! What is exchanged beside a page load over the same access link: a call over UDP, and small messages over TCP.
//!
//! The call is G.711 as RTP sends it (RFC 3551): 160 bytes each 20 ms, either way. The messages are paper 4's (50 bytes
//! each 30 ms), from the host, by a [`Talker`] at each end. The other end of
//! both is the gateway: what lies behind it is the same for every arm. Connections are open before.

use super::talker::Talker;
use super::tcp::{MODERN, Segment};
use headstart_core::realtime::technique::UnknownTechnique;
use headstart_core::realtime::{Kind, LaneId};
use headstart_core::time::{Duration, Instant};
use std::collections::VecDeque;

/// Bytes of UDP payload in a packet of a call: 20 ms of G.711 behind RTP's header.
pub(super) const VOICE: usize = 12 + 160;
/// The stream of a call among datagrams.
pub(super) const CALL: u8 = 0;
/// Between two packets of a call.
pub(super) const FRAME: Duration = Duration::from_millis(20);
/// Paper 4, section 5.
const INTERVAL: Duration = Duration::from_millis(30);
const MESSAGE: usize = 50;
/// A call or a talk ends after so long, whatever else goes on: a load that hangs must come to its end.
const LONGEST: Duration = Duration::from_secs(60);
/// What has not come by then counts as having taken so long.
const PATIENCE: Duration = Duration::from_secs(1);

/// What there is beside a page load.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// A call.
    pub call: bool,
    /// Messages by this technique, over a path whose round trip is this when it is idle.
    pub messages: Option<(&'static str, Duration)>,
}

/// Delays in ms of what was sent while a page was loading.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Delays {
    /// Of the packets of the call, both ways.
    pub call: Vec<f64>,
    /// Of the messages.
    pub messages: Vec<f64>,
}

/// Something on its way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Carried {
    /// A datagram of `bytes` of payload, number `number` of the stream `stream`.
    Datagram { stream: u8, number: usize, bytes: usize, up: bool },
    /// A segment of a connection of the messages.
    Message { connection: u16, up: bool, segment: Segment },
}

impl Carried {
    /// From the host to the gateway.
    pub fn is_up(&self) -> bool {
        match self {
            Self::Datagram { up, .. } | Self::Message { up, .. } => *up,
        }
    }
}

/// When each was made, and when it came.
#[derive(Debug, Default)]
struct Record(Vec<(Instant, Option<Instant>)>);

impl Record {
    fn made(&mut self, now: Instant) -> usize {
        self.0.push((now, None));
        self.0.len() - 1
    }

    fn came(&mut self, number: usize, now: Instant) {
        if let Some((_, came)) = self.0.get_mut(number) {
            came.get_or_insert(now);
        }
    }

    /// Delays in ms; what may still come at `end` is left out.
    fn delays(&self, end: Instant) -> Vec<f64> {
        let delay = |(made, came): &(Instant, Option<Instant>)| match came {
            Some(came) => Some(came.since(*made).min(PATIENCE)),
            None => (end.since(*made) >= PATIENCE).then_some(PATIENCE),
        };
        self.0.iter().filter_map(delay).map(|d| d.as_secs_f64() * 1e3).collect()
    }
}

/// See the module.
pub(super) struct Company {
    until: Instant,
    call: Option<(Instant, [Record; 2])>,
    talk: Option<Talk>,
    out: VecDeque<Carried>,
}

impl Company {
    /// Begins now.
    pub fn new(now: Instant, wanted: &Wanted) -> Result<Self, UnknownTechnique> {
        let talk = wanted.messages.map(|(name, rtt)| Talk::new(now, name, rtt)).transpose()?;
        let call = wanted.call.then(|| (now, <[Record; 2]>::default()));
        Ok(Self { until: now + LONGEST, call, talk, out: VecDeque::new() })
    }

    /// When it wants to be woken.
    pub fn deadline(&self) -> Option<Instant> {
        let call = self.call.as_ref().map(|(next, _)| *next).filter(|next| *next <= self.until);
        call.into_iter().chain(self.talk.as_ref().and_then(|talk| talk.deadline(self.until))).min()
    }

    /// Wakes it.
    pub fn handle_timeout(&mut self, now: Instant) {
        if let Some((next, records)) = &mut self.call {
            while *next <= now && *next <= self.until {
                for (record, up) in records.iter_mut().zip([true, false]) {
                    let number = record.made(now);
                    self.out.push_back(Carried::Datagram { stream: CALL, number, bytes: VOICE, up });
                }
                *next += FRAME;
            }
        }
        if let Some(talk) = &mut self.talk {
            talk.handle_timeout(now, self.until, &mut self.out);
        }
    }

    /// Something has reached its end.
    pub fn arrived(&mut self, now: Instant, carried: Carried) {
        match carried {
            Carried::Datagram { number, up, .. } => {
                if let Some((_, records)) = &mut self.call {
                    records[usize::from(!up)].came(number, now);
                }
            }
            Carried::Message { connection, up, segment } => {
                if let Some(talk) = &mut self.talk {
                    talk.arrived(now, connection, up, &segment, &mut self.out);
                }
            }
        }
    }

    /// The next thing to send.
    pub fn poll_output(&mut self) -> Option<Carried> {
        self.out.pop_front()
    }

    /// The delays until `end`.
    pub fn delays(&self, end: Instant) -> Delays {
        Delays {
            call: self.call.iter().flat_map(|(_, records)| records).flat_map(|r| r.delays(end)).collect(),
            messages: self.talk.as_ref().map(|talk| talk.record.delays(end)).unwrap_or_default(),
        }
    }
}

/// Messages from the host to the gateway.
struct Talk {
    /// The host's end and the gateway's.
    ends: [Talker; 2],
    next: Instant,
    record: Record,
}

impl Talk {
    fn new(now: Instant, name: &str, rtt: Duration) -> Result<Self, UnknownTechnique> {
        let ends = Talker::pair(now, name, INTERVAL, (MODERN, rtt))?;
        Ok(Self { ends, next: now, record: Record::default() })
    }

    fn deadline(&self, until: Instant) -> Option<Instant> {
        let ends = self.ends.iter().filter_map(Talker::deadline);
        ends.chain(Some(self.next)).filter(|at| *at <= until).min()
    }

    fn handle_timeout(&mut self, now: Instant, until: Instant, out: &mut VecDeque<Carried>) {
        while self.next <= now && self.next <= until {
            let number = self.record.made(now);
            let mut bytes = (number as u64).to_be_bytes().to_vec();
            bytes.resize(MESSAGE, 0);
            // A lane that is full drops what is new: the message then counts as one that did not come.
            let _ = self.ends[0].messenger.send(now, LaneId(0), Kind::Event, 0, &bytes);
            self.next += INTERVAL;
        }
        for end in 0..2 {
            self.ends[end].handle_timeout(now);
            self.pump(now, end, out);
        }
    }

    fn arrived(&mut self, now: Instant, connection: u16, up: bool, segment: &Segment, out: &mut VecDeque<Carried>) {
        let end = usize::from(up);
        let ack = self.ends[end].receive(now, connection, segment);
        out.extend(ack.map(|segment| Carried::Message { connection, up: !up, segment }));
        self.pump(now, end, out);
    }

    /// Does what a messenger asks for, and sends what TCP has to send.
    fn pump(&mut self, now: Instant, end: usize, out: &mut VecDeque<Carried>) {
        let record = &mut self.record;
        self.ends[end].carry_out(now, |bytes| {
            let number = bytes.first_chunk().map_or(u64::MAX, |first| u64::from_be_bytes(*first));
            record.came(usize::try_from(number).unwrap_or(usize::MAX), now);
        });
        for (connection, tcp) in (0..).zip(&mut self.ends[end].connections) {
            while let Some(segment) = tcp.poll(now) {
                out.push_back(Carried::Message { connection, up: end == 0, segment });
            }
        }
    }
}
