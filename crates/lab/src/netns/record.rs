//! What went over the links, in files: one line a packet with what became of it, and a capture as pcapng.
//!
//! Events are JSON lines. The first says `version`, `origin_unix_ns` (the Unix time of moment zero) and the names of the
//! `links`; each other line is a packet at its end: `link`, `way` (`up` or `down`), `from`, `to`, `protocol`, `bytes` (of
//! the IP packet), `arrived_ns`, `dequeued_ns` (null: never), `decided_ns` (its release by the model, or its drop),
//! `left_ns` (null: never) and `fate` (`released`, `lost`, `queue-full`, `queue-delay`, `black-hole`, `unplugged`).
//!
//! The capture (pcapng, stamps in nanoseconds) shows each link as its first end would: packets that leave that end when
//! they come to the link, even those that are lost on it; packets to it when they are due there. Each direction is an
//! interface of its own, `NAME-up` and `NAME-down`. Segments of super-packets are shown one by one, checksums filled in.
//!
//! A thread of its own does the writing; the emulator never waits for it, and counts what it could not hand over.

use super::frame;
use super::parcel::Parcel;
use super::settings::{Follower, Settings};
use super::super_packet::transport_of;
use super::switch::{Gone, Release, Why};
use headstart_core::time::{Duration, Instant};
use headstart_io::clock::{Clock, wall};
use headstart_link::medium::Way;
use headstart_link::{Dropped, Packet};
use pcap_file::DataLink;
use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketBlock;
use pcap_file::pcapng::blocks::interface_description::{InterfaceDescriptionBlock, InterfaceDescriptionOption};
use serde_json::json;
use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::SystemTime;

/// Packets that may wait to be written: 100 MB at most, some hundred milliseconds of 1.5 Gbit/s.
const BACKLOG: usize = 65_536;
/// Longer than packets are read or released late, so that the capture is in the order of time.
const HOLD_BACK: Duration = Duration::from_millis(100);
/// A reader of the files sees what happened this long ago, if nothing happens.
const FLUSH: Duration = Duration::from_millis(200);
/// if_tsresol: a thousand millionth of a second.
const NANOSECONDS: u8 = 9;
/// Version of the lines.
const VERSION: u32 = 1;

/// What the emulator's thread says.
enum Message {
    /// A packet is where the capture sees it.
    Seen { interface: u32, at: Instant, parcel: Parcel },
    /// A packet has come to its end.
    Ended(Ended),
}

struct Ended {
    course: Option<(usize, Way)>,
    arrived: Instant,
    dequeued: Option<Instant>,
    decided: Instant,
    left: Option<Instant>,
    parcel: Parcel,
    fate: &'static str,
}

/// The emulator's end of the records; nothing is recorded unless files were asked for.
#[derive(Default)]
pub(super) struct Recorder {
    events: Option<SyncSender<Message>>,
    capture: Option<SyncSender<Message>>,
    follower: Option<Follower>,
    unrecorded: Arc<AtomicU64>,
}

/// The writer's thread; ends with the recorder.
pub(super) struct Writer(Option<JoinHandle<()>>);

impl Drop for Writer {
    fn drop(&mut self) {
        if let Some(thread) = self.0.take() {
            let _ = thread.join();
        }
    }
}

impl Recorder {
    /// Opens the files that `settings` name and starts the writer. `unrecorded` will count packets that are not in them.
    pub fn start(
        settings: &Settings,
        links: &[String],
        clock: Clock,
        unrecorded: Arc<AtomicU64>,
    ) -> io::Result<(Self, Writer)> {
        if settings.events.is_none() && settings.pcapng.is_none() {
            return Ok((Self { follower: settings.follower.clone(), ..Self::default() }, Writer(None)));
        }
        let since_epoch = wall().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let origin = since_epoch.saturating_sub(clock.now().since(Instant::ZERO));
        let events = settings.events.as_deref().map(|path| Events::create(path, links, origin)).transpose()?;
        let capture = settings.pcapng.as_deref().map(|path| Capture::create(path, links, origin)).transpose()?;
        let (sender, receiver) = sync_channel(BACKLOG);
        let recorder = Self {
            events: events.is_some().then(|| sender.clone()),
            capture: capture.is_some().then_some(sender),
            follower: settings.follower.clone(),
            unrecorded: unrecorded.clone(),
        };
        let cut_off = settings.cut_off.clone();
        let write = move || write(&receiver, events, capture, (&unrecorded, &cut_off));
        let thread = std::thread::Builder::new().name("recorder".into()).spawn(write)?;
        Ok((recorder, Writer(Some(thread))))
    }

    /// Whether arrivals are of interest.
    pub fn captures(&self) -> bool {
        self.capture.is_some() || self.follower.is_some()
    }

    /// A packet has come to the link that is plugged in at the first end.
    pub fn arrived(&self, cable: usize, at: Instant, parcel: Parcel) {
        if let Some(follower) = &self.follower {
            follower.show(at, parcel.frame().bytes());
        }
        self.say(&self.capture, || Message::Seen { interface: 2 * cable as u32, at, parcel });
    }

    /// A packet has left.
    pub fn left(&self, release: &Release, left: Instant) {
        let Release { cable, way, due, arrived, dequeued, ref parcel, .. } = *release;
        self.say(&self.events, || {
            let (course, fate) = (Some((cable, way)), "released");
            Message::Ended(Ended {
                course,
                arrived,
                dequeued,
                decided: due,
                left: Some(left),
                parcel: parcel.clone(),
                fate,
            })
        });
        if way == Way::Down {
            self.say(&self.capture, || Message::Seen {
                interface: 2 * cable as u32 + 1,
                at: due,
                parcel: parcel.clone(),
            });
        }
    }

    /// A packet does not come out.
    pub fn gone(&self, gone: &Gone) {
        let Gone { course, arrived, dequeued, at, ref parcel, why } = *gone;
        let fate = match why {
            Why::Dropped(Dropped::Lost) => "lost",
            Why::Dropped(Dropped::QueueFull) => "queue-full",
            Why::Dropped(Dropped::QueueDelay) => "queue-delay",
            Why::BlackHole => "black-hole",
            Why::Unplugged => "unplugged",
        };
        self.say(&self.events, || {
            Message::Ended(Ended { course, arrived, dequeued, decided: at, left: None, parcel: parcel.clone(), fate })
        });
    }

    fn say(&self, to: &Option<SyncSender<Message>>, message: impl FnOnce() -> Message) {
        if let Some(to) = to
            && to.try_send(message()).is_err()
        {
            self.unrecorded.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Writes until the recorder is gone.
fn write(
    from: &Receiver<Message>,
    mut events: Option<Events>,
    mut capture: Option<Capture>,
    (unrecorded, cut_off): (&AtomicU64, &AtomicBool),
) {
    let fail = |why: io::Error| {
        unrecorded.fetch_add(1, Ordering::Relaxed);
        if !cut_off.swap(true, Ordering::Relaxed) {
            eprintln!("headstart: recording what goes over the links: {why}; the records are incomplete");
        }
    };
    loop {
        let written = match from.recv_timeout(FLUSH) {
            Ok(Message::Ended(ended)) => events.as_mut().map_or(Ok(()), |events| events.write(&ended)),
            Ok(Message::Seen { interface, at, parcel }) => {
                capture.as_mut().map_or(Ok(()), |capture| capture.add(interface, at, &parcel))
            }
            Err(RecvTimeoutError::Timeout) => flush(&mut events, &mut capture),
            Err(RecvTimeoutError::Disconnected) => {
                return flush(&mut events, &mut capture).unwrap_or_else(fail);
            }
        };
        written.unwrap_or_else(fail);
    }
}

fn flush(events: &mut Option<Events>, capture: &mut Option<Capture>) -> io::Result<()> {
    if let Some(events) = events {
        events.file.flush()?;
    }
    capture.as_mut().map_or(Ok(()), Capture::flush)
}

struct Events {
    file: BufWriter<File>,
    links: Vec<String>,
}

impl Events {
    fn create(path: &Path, links: &[String], origin: Duration) -> io::Result<Self> {
        let mut file = create(path)?;
        let origin = u64::try_from(origin.as_nanos()).unwrap_or(u64::MAX);
        writeln!(file, "{}", json!({ "version": VERSION, "origin_unix_ns": origin, "links": links }))?;
        Ok(Self { file, links: links.to_vec() })
    }

    fn write(&mut self, ended: &Ended) -> io::Result<()> {
        let Ended { course, arrived, dequeued, decided, left, parcel, fate } = ended;
        let flow = Flow::of(parcel.frame().bytes());
        let line = json!({
            "link": course.and_then(|(cable, _)| self.links.get(cable)),
            "way": course.map(|(_, way)| name(way)),
            "from": flow.as_ref().map(|flow| &flow.from),
            "to": flow.as_ref().map(|flow| &flow.to),
            "protocol": flow.as_ref().map(|flow| &flow.protocol),
            "bytes": parcel.wire_len(),
            "arrived_ns": arrived.as_nanos(),
            "dequeued_ns": dequeued.map(Instant::as_nanos),
            "decided_ns": decided.as_nanos(),
            "left_ns": left.map(Instant::as_nanos),
            "fate": fate,
        });
        writeln!(self.file, "{line}")
    }
}

/// The five-tuple, in words.
struct Flow {
    from: String,
    to: String,
    protocol: String,
}

impl Flow {
    fn of(bytes: &[u8]) -> Option<Self> {
        let (from, to) = frame::endpoints(bytes)?;
        let Some((_, start, protocol)) = transport_of(bytes) else {
            return Some(Self { from: from.to_string(), to: to.to_string(), protocol: "fragment".into() });
        };
        let ports = bytes.get(start..start + 4).map(|b| {
            let port = |at: usize| u16::from_be_bytes([b[at], b[at + 1]]);
            [SocketAddr::new(from, port(0)).to_string(), SocketAddr::new(to, port(2)).to_string()]
        });
        let name = match protocol {
            1 => "icmp".into(),
            6 => "tcp".into(),
            17 => "udp".into(),
            58 => "icmpv6".into(),
            132 => "sctp".into(),
            other => other.to_string(),
        };
        let [from, to] = match (protocol, ports) {
            (6 | 17 | 132, Some(ports)) => ports,
            _ => [from.to_string(), to.to_string()],
        };
        Some(Self { from, to, protocol: name })
    }
}

/// A packet of a capture: its moment, its number, its interface and its bytes; in order by moment, then by number.
type Captured = (Instant, u64, u32, Vec<u8>);

struct Capture {
    file: PcapNgWriter<BufWriter<File>>,
    origin: Duration,
    /// Packets that may not be in order yet.
    held: BinaryHeap<Reverse<Captured>>,
    number: u64,
}

impl Capture {
    fn create(path: &Path, links: &[String], origin: Duration) -> io::Result<Self> {
        let mut file = PcapNgWriter::new(create(path)?).map_err(io::Error::other)?;
        for (link, way) in links.iter().flat_map(|link| Way::BOTH.map(|way| (link, way))) {
            let about = match way {
                Way::Up => "from the first end of the link, as it comes to the link",
                Way::Down => "to the first end of the link, when it is due there",
            };
            let options = vec![
                InterfaceDescriptionOption::IfName(format!("{link}-{}", name(way)).into()),
                InterfaceDescriptionOption::IfDescription(about.into()),
                InterfaceDescriptionOption::IfTsResol(NANOSECONDS),
            ];
            let block = InterfaceDescriptionBlock { linktype: DataLink::ETHERNET, snaplen: 0, options };
            file.write_pcapng_block(block).map_err(io::Error::other)?;
        }
        Ok(Self { file, origin, held: BinaryHeap::new(), number: 0 })
    }

    fn add(&mut self, interface: u32, at: Instant, parcel: &Parcel) -> io::Result<()> {
        self.number += 1;
        self.held.push(Reverse((at, self.number, interface, parcel.to_wire())));
        self.write_until(Instant::from_nanos(at.as_nanos().saturating_sub(HOLD_BACK.as_nanos() as u64)))
    }

    fn write_until(&mut self, until: Instant) -> io::Result<()> {
        while self.held.peek().is_some_and(|Reverse((at, ..))| *at <= until) {
            let Some(Reverse((at, _, interface_id, bytes))) = self.held.pop() else { break };
            let block = EnhancedPacketBlock {
                interface_id,
                timestamp: self.origin + at.since(Instant::ZERO),
                original_len: bytes.len() as u32,
                data: Cow::Owned(bytes),
                options: Vec::new(),
            };
            self.file.write_pcapng_block(block).map_err(io::Error::other)?;
        }
        Ok(())
    }

    /// Nothing has come for longer than packets are held back, so all of them are in order.
    fn flush(&mut self) -> io::Result<()> {
        self.write_until(Instant::FAR_FUTURE)?;
        self.file.get_mut().flush()
    }
}

fn create(path: &Path) -> io::Result<BufWriter<File>> {
    let file = File::create(path)
        .map_err(|e| io::Error::new(e.kind(), format!("cannot write {}: {e}; name another file", path.display())))?;
    Ok(BufWriter::new(file))
}

fn name(way: Way) -> &'static str {
    match way {
        Way::Up => "up",
        Way::Down => "down",
    }
}
