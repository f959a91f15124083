//! One session of an engine: greeted, started, driven, ended. One thread and one loop, the forwarder's.

use super::link::{Link, LinkError, Received};
use super::message::{Device, Network, Settings, ToApp, ToEngine, VERSION, What, Wrong, may_be_ahead};
use super::record::Kept;
use crate::clock::Clock;
use crate::driver::{self, Ears, Host};
use crate::forward::capture::{Capture, tap};
use crate::forward::{Attributed, FRONT, Here, Protect, Running, Sink, Worker, WorkerError};
use crate::poll::{Interest, Poll};
use crate::sys::tun::Tun;
use headstart_core::connect::cache::Lifetime;
use headstart_core::connect::{self, Ahead, race};
use headstart_core::forward;
use headstart_core::machine::Deadline;
use headstart_core::time::{Duration, Instant};
use rustix::fs::{FileType, fstat};
use rustix::io::Errno;
use std::cell::RefCell;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsRawFd as _, BorrowedFd, OwnedFd};
use std::rc::Rc;

/// How often statistics are sent.
const INTERVAL: Duration = Duration::from_secs(1);
/// How long the last words of apps may stand still on their way when the session ends.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// Programs, and connections, that statistics name at first; halved until a frame holds them.
const MOST_LINES: usize = 100;
/// Why a session ends where the interface is no more.
const INTERFACE: &str = "interface";

/// A session could not begin, or has broken off.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The app cannot be reached.
    #[error("connecting to the app at {0}: {1}")]
    Unreachable(String, io::Error),
    /// The connection to the app has ended.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// The app speaks another version of the protocol.
    #[error("the app speaks version {0} of the protocol, and this engine {VERSION}")]
    Version(u32),
    /// Forwarding does not work.
    #[error(transparent)]
    Worker(#[from] WorkerError),
    /// Waiting does not work.
    #[error("waiting for the app: {0}")]
    Waiting(#[from] io::Error),
}

/// The connection, shared with what protects sockets.
#[derive(Clone, Debug)]
struct SharedLink(Rc<RefCell<Link>>);

impl SharedLink {
    fn say(&self, message: &ToApp) -> Result<(), LinkError> {
        self.0.borrow_mut().say(message)
    }

    fn wrong(&self, name: Wrong, of: Option<&str>, what: impl ToString) -> Result<(), LinkError> {
        self.say(&ToApp::Error { name, of: of.map(str::to_owned), what: what.to_string() })
    }

    /// All messages that have come. A frame that cannot be read is reported to the app before it ends the session.
    fn receive_all(&self) -> Result<Vec<Received>, LinkError> {
        let received = self.0.borrow_mut().receive_all();
        if let Err(LinkError::Frame(why)) = &received {
            let _ = self.wrong(Wrong::Frame, None, why);
        }
        received
    }
}

impl Protect for SharedLink {
    fn protect(&self, socket: BorrowedFd<'_>) -> Result<(), Errno> {
        self.0.borrow_mut().protect(socket)
    }
}

/// Serves the app that listens at `path` until it says so, is no more, or its interface is.
pub fn serve(path: &str) -> Result<(), EngineError> {
    let clock = Clock::new();
    let link = Link::connect(path, clock).map_err(|why| EngineError::Unreachable(path.to_owned(), why))?;
    session(link, clock)
}

/// The same over a connection that there is.
pub(super) fn session(link: Link, clock: Clock) -> Result<(), EngineError> {
    let link = SharedLink(Rc::new(RefCell::new(link)));
    let engine = concat!("headstart ", env!("CARGO_PKG_VERSION")).to_owned();
    link.say(&ToApp::Hello { version: VERSION, engine })?;
    let Some((tun, start, rest)) = greeting(&link, clock)? else {
        return Ok(link.say(&ToApp::Ended { why: "stop".into() })?);
    };
    let kept = Rc::new(RefCell::new(Kept::on(start.network, start.device)));
    let sink = Rc::clone(&kept);
    let sink = Box::new(move |seen: Attributed| sink.borrow_mut().take(&seen));
    let mut worker = forwarder(tun, start.patience, start.racing, clock, sink)?;
    worker.protect(link.clone());
    worker.listen(&*link.0.borrow())?;
    worker.listen(link.0.borrow().bell())?;
    worker.on_network(clock.now(), &here(&kept.borrow().network));
    worker.may_be_ahead(clock.now(), may_be_ahead(&kept.borrow().network, &kept.borrow().device));
    link.say(&ToApp::Started)?;
    let running = Running::new(&mut worker, None, LAST_WORDS);
    let mut session =
        Session { running, link: link.clone(), kept, statistics: None, capture: None, waits: false, clock };
    session.take_in(clock.now(), rest)?;
    let ended = driver::serve(&mut session);
    session.end_capture();
    match ended {
        Err(EngineError::Worker(gone)) if gone.is_lost() => Ok(link.say(&ToApp::Ended { why: INTERFACE.into() })?),
        Err(why) => Err(why),
        Ok(()) => Ok(link.say(&ToApp::Ended { why: "stop".into() })?),
    }
}

/// A forwarder of a device with a battery.
fn forwarder(
    tun: Tun,
    patience: Duration,
    racing: Option<connect::Settings>,
    clock: Clock,
    sink: Sink,
) -> Result<Worker, EngineError> {
    let mut seed = [0; 8];
    rustix::rand::getrandom(&mut seed, rustix::rand::GetRandomFlags::empty()).map_err(io::Error::from)?;
    let settings = forward::Settings { seed: u64::from_ne_bytes(seed), ..forward::Settings::default() };
    let mut worker = Worker::with_attribution(tun, patience, settings, clock, sink)?;
    // Polling for the next packet keeps a processor awake.
    worker.sleep_at_once();
    racing.into_iter().for_each(|racing| worker.accelerate(racing));
    Ok(worker)
}

/// What a session begins with.
struct Start {
    network: Network,
    device: Device,
    racing: Option<connect::Settings>,
    patience: Duration,
}

/// Waits until the app has said how to begin: the interface, how, and what it has said since. None if it has changed its mind.
#[allow(clippy::type_complexity)]
fn greeting(link: &SharedLink, clock: Clock) -> Result<Option<(Tun, Start, Vec<Received>)>, EngineError> {
    let mut poll = Poll::new()?;
    poll.add(&*link.0.borrow(), FRONT, Interest::Read)?;
    poll.add(link.0.borrow().bell(), FRONT, Interest::Read)?;
    let (mut greeted, mut tokens) = (false, Vec::new());
    loop {
        poll.wait(&clock, None, &mut tokens)?;
        let mut heard = link.receive_all()?.into_iter();
        while let Some(one) = heard.next() {
            match one {
                Err(wrong) => link.wrong(Wrong::Message, wrong.kind, wrong)?,
                Ok((ToEngine::Hello { version, .. }, _)) if version != VERSION => {
                    link.wrong(Wrong::Version, Some("hello"), format_args!("this engine speaks version {VERSION}"))?;
                    return Err(EngineError::Version(version));
                }
                Ok((ToEngine::Hello { .. }, _)) => greeted = true,
                Ok((ToEngine::Stop, _)) => return Ok(None),
                Ok((ToEngine::Start { settings, network, device }, descriptors)) if greeted => {
                    match begin(&settings, descriptors) {
                        Ok((tun, racing)) => {
                            let patience = Duration::from_millis(settings.owner_ms);
                            return Ok(Some((tun, Start { network, device, racing, patience }, heard.collect())));
                        }
                        Err((name, what)) => link.wrong(name, Some("start"), what)?,
                    }
                }
                Ok(_) => link.wrong(Wrong::Order, None, "`hello` and then `start` are expected first")?,
            }
        }
    }
}

/// The interface and the races that an app wants.
fn begin(settings: &Settings, descriptors: Vec<OwnedFd>) -> Result<(Tun, Option<connect::Settings>), (Wrong, String)> {
    let racing = settings.accelerate.then(|| racing(settings)).transpose().map_err(|what| (Wrong::Setting, what))?;
    Ok((interface(&descriptors).map_err(|what| (Wrong::Descriptor, what))?, racing))
}

/// The one interface that came along.
fn interface(descriptors: &[OwnedFd]) -> Result<Tun, String> {
    let [descriptor] = descriptors else {
        return Err(format!("one descriptor is expected, {} arrived", descriptors.len()));
    };
    Tun::of_descriptor(descriptor.as_raw_fd()).map_err(|why| why.to_string())
}

/// How connections are raced that an app wants raced.
pub fn racing(settings: &Settings) -> Result<connect::Settings, String> {
    let entry = match &settings.race {
        Some(name) => race::find(name).map_err(|why| why.to_string())?,
        None => race::find(race::DEFAULT).map_err(|why| why.to_string())?,
    };
    let lifetime = Lifetime::parse(&settings.cache)?;
    let ahead = if settings.ahead { Ahead::ON } else { Ahead::OFF };
    Ok(connect::Settings { lifetime, ahead, ..connect::Settings::of(entry) })
}

/// A network as the worker wants it.
fn here(network: &Network) -> Here {
    let families = (network.v4, network.v6);
    Here { id: network.identity(), families, captive: network.captive, addresses: network.addresses.clone() }
}

/// A session that has started.
struct Session<'a> {
    running: Running<'a>,
    link: SharedLink,
    kept: Rc<RefCell<Kept>>,
    /// When statistics are sent next, while the app subscribes.
    statistics: Option<Instant>,
    capture: Option<Rc<RefCell<Capture>>>,
    /// The app does not read as fast as messages are sent.
    waits: bool,
    clock: Clock,
}

impl Host for Session<'_> {
    type Ended = ();
    type Error = EngineError;

    fn ears(&mut self) -> Ears<'_> {
        self.running.ears()
    }

    fn cause(token: u64) -> &'static str {
        if token == FRONT { "the app" } else { Running::cause(token) }
    }

    fn deadline(&mut self, now: Instant) -> Option<Deadline> {
        let statistics = self.statistics.map(|at| Deadline { at, why: "statistics" });
        Deadline::earliest([self.running.deadline(now), statistics])
    }

    fn passed(&mut self) -> Option<usize> {
        self.running.passed()
    }

    fn woken(&mut self, tokens: &[u64]) -> Result<Option<()>, EngineError> {
        let now = self.clock.now();
        if tokens.contains(&FRONT) {
            self.link.0.borrow_mut().flush()?;
            let heard = self.link.receive_all()?;
            self.take_in(now, heard)?;
        }
        let ended = self.running.woken(tokens)?;
        for question in self.running.worker.questions() {
            self.link.say(&ToApp::Owner {
                question: question.number,
                protocol: if question.is_tcp { "tcp" } else { "udp" }.into(),
                local: question.app,
                peer: question.peer,
            })?;
        }
        if self.statistics.is_some_and(|at| now >= at) {
            self.statistics = Some(now + INTERVAL);
            self.tell_statistics(now)?;
        }
        let waits = self.link.0.borrow().waits();
        if waits != self.waits {
            self.waits = waits;
            self.running.worker.listen_anew(&*self.link.0.borrow(), waits)?;
        }
        Ok(ended)
    }
}

impl Session<'_> {
    fn take_in(&mut self, now: Instant, received: Vec<Received>) -> Result<(), EngineError> {
        for one in received {
            match one {
                Ok((message, descriptors)) => self.on_message(now, message, descriptors)?,
                Err(wrong) => self.link.wrong(Wrong::Message, wrong.kind, wrong)?,
            }
        }
        Ok(())
    }

    fn on_message(&mut self, now: Instant, message: ToEngine, descriptors: Vec<OwnedFd>) -> Result<(), EngineError> {
        match message {
            ToEngine::Hello { .. } => self.link.wrong(Wrong::Order, Some("hello"), "it was already sent")?,
            ToEngine::Start { .. } => self.link.wrong(Wrong::Order, Some("start"), "the session has started")?,
            ToEngine::Interface => match interface(&descriptors) {
                Ok(tun) => self.running.worker.forward_from(tun)?,
                Err(what) => self.link.wrong(Wrong::Descriptor, Some("interface"), what)?,
            },
            ToEngine::Network { network } => {
                let here = here(&network);
                self.kept.borrow_mut().network = network;
                self.running.worker.on_network(now, &here);
                self.look_what_may_be(now);
            }
            ToEngine::Device { device } => {
                self.kept.borrow_mut().device = device;
                self.look_what_may_be(now);
            }
            ToEngine::Owner { question, uid, name } => self.running.worker.on_owner(now, question, uid, name),
            // It has come too late: that socket is given up.
            ToEngine::Protected { .. } => {}
            ToEngine::Subscribe { on } => self.statistics = on.then_some(now),
            ToEngine::Export { what: What::Lines, app, .. } => self.export_lines(app.as_deref(), descriptors)?,
            ToEngine::Export { what: What::Pcapng, on, .. } => self.export_packets(on, descriptors)?,
            ToEngine::Stop => self.running.end_now(now),
        }
        Ok(())
    }

    /// The network or the device is another.
    fn look_what_may_be(&mut self, now: Instant) {
        let may = may_be_ahead(&self.kept.borrow().network, &self.kept.borrow().device);
        self.running.worker.may_be_ahead(now, may);
    }

    /// The most that a frame holds, those with the most data first.
    fn tell_statistics(&self, now: Instant) -> Result<(), LinkError> {
        let transport = self.kept.borrow().network.transport.clone();
        let mut lines = MOST_LINES;
        loop {
            let mut board = self.running.worker.board_of(now, lines);
            if lines < MOST_LINES {
                (board.timings, board.counts) = Default::default();
            }
            let message = ToApp::Statistics { transport: transport.clone(), board: Box::new(board) };
            let fits = serde_json::to_vec(&message).is_ok_and(|body| body.len() <= super::frame::LONGEST);
            if fits || lines == 0 {
                return self.link.say(&message);
            }
            lines /= 2;
        }
    }

    fn file(&self, descriptors: Vec<OwnedFd>) -> Result<Option<File>, LinkError> {
        let file = regular(descriptors);
        if file.is_none() {
            self.link.wrong(Wrong::Descriptor, Some("export"), "the descriptor of one regular file is expected")?;
        }
        Ok(file)
    }

    fn export_lines(&self, app: Option<&str>, descriptors: Vec<OwnedFd>) -> Result<(), LinkError> {
        let Some(mut file) = self.file(descriptors)? else { return Ok(()) };
        let (text, count) = self.kept.borrow().lines(app);
        match file.write_all(text.as_bytes()) {
            Ok(()) => self.link.say(&ToApp::Exported { what: What::Lines, lines: Some(count) }),
            Err(why) => self.link.wrong(Wrong::File, Some("export"), why),
        }
    }

    fn export_packets(&mut self, on: bool, descriptors: Vec<OwnedFd>) -> Result<(), LinkError> {
        if !on {
            return match self.end_capture() {
                None => self.link.say(&ToApp::Exported { what: What::Pcapng, lines: None }),
                Some(why) => self.link.wrong(Wrong::File, Some("export"), why),
            };
        }
        let Some(file) = self.file(descriptors)? else { return Ok(()) };
        self.end_capture();
        match Capture::begin(Box::new(file)) {
            Ok(capture) => {
                let capture = Rc::new(RefCell::new(capture));
                self.running.worker.show(tap(Rc::clone(&capture), usize::MAX, self.clock));
                self.capture = Some(capture);
                Ok(())
            }
            Err(why) => self.link.wrong(Wrong::File, Some("export"), why),
        }
    }

    /// Writes packets no longer; why some are missing.
    fn end_capture(&mut self) -> Option<io::Error> {
        self.running.worker.show_no_more();
        self.capture.take().and_then(|capture| capture.borrow_mut().end())
    }
}

/// The one file that came along. A pipe or a socket whose reader stops would hold up everything: this thread forwards, too.
fn regular(descriptors: Vec<OwnedFd>) -> Option<File> {
    let [one] = <[OwnedFd; 1]>::try_from(descriptors).ok()?;
    let kind = FileType::from_raw_mode(fstat(&one).ok()?.st_mode);
    (kind == FileType::RegularFile).then(|| File::from(one))
}

#[cfg(test)]
mod tests;
