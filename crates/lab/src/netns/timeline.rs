//! What changes in a network while programs run: a world's timeline, played in real time by a thread of its own.
//!
//! A change is due some time after a question has reached a DNS server; the server tells. Each change happens once, until
//! the network is rewound.

use super::Error;
use super::topology::Attachment;
use crate::server::dns::Query;
use crate::world::{Change, Event, When};
use headstart_core::path::Family;
use headstart_core::time::Instant;
use headstart_io::clock::Clock;
use headstart_io::sys::netlink::NetlinkError;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;

/// Messages to the thread.
enum Message {
    Asked(Query),
    /// Back to the beginning; answered when it is done.
    Rewind(Sender<Result<(), NetlinkError>>),
    Stop,
}

/// A running timeline; ends when dropped.
pub(super) struct Timeline {
    tell: Sender<Message>,
    thread: Option<JoinHandle<()>>,
}

impl Timeline {
    /// Brings the client's connectivity to where `changes` begin, and plays them.
    pub fn start(changes: &[Change], attachment: Attachment, clock: Clock) -> Result<Self, Error> {
        let mut player = Player {
            changes: changes.to_vec(),
            attachment,
            clock,
            waiting: Vec::new(),
            due: BTreeMap::new(),
            gone: BTreeSet::new(),
            order: 0,
            failed: None,
        };
        player.rewind()?;
        let (tell, messages) = channel();
        let thread = std::thread::Builder::new().name("timeline".into()).spawn(move || player.run(&messages));
        let thread = thread.map_err(Error::io("starting the timeline"))?;
        Ok(Self { tell, thread: Some(thread) })
    }

    /// What is to be called with each question that a DNS server reads.
    pub fn listener(&self) -> impl Fn(&Query) + Send + 'static {
        let tell = self.tell.clone();
        // The receiver is gone when the network is going.
        move |query| drop(tell.send(Message::Asked(query.clone())))
    }

    /// Everything is as in the beginning: the client's connectivity, and the changes that are to come. `Err` also if a
    /// change failed since the last time.
    pub fn rewind(&self) -> Result<(), Error> {
        let (done, wait) = channel();
        let gone = || Error::Io { what: "rewinding the timeline".into(), source: io::ErrorKind::BrokenPipe.into() };
        self.tell.send(Message::Rewind(done)).map_err(|_| gone())?;
        Ok(wait.recv().map_err(|_| gone())??)
    }
}

impl Drop for Timeline {
    fn drop(&mut self) {
        // The thread is gone already only if it panicked, which joining does not report either.
        let _ = self.tell.send(Message::Stop);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

struct Player {
    changes: Vec<Change>,
    attachment: Attachment,
    clock: Clock,
    /// Changes that wait for their question.
    waiting: Vec<Change>,
    /// Changes by when they are due.
    due: BTreeMap<(Instant, u64), Event>,
    /// The families that the client does not have now.
    gone: BTreeSet<Family>,
    order: u64,
    /// What went wrong and was not reported yet.
    failed: Option<NetlinkError>,
}

impl Player {
    fn run(mut self, messages: &Receiver<Message>) {
        loop {
            let next = self.due.keys().next().map(|(at, _)| at.since(self.clock.now()));
            let message = match next {
                Some(left) => messages.recv_timeout(left),
                None => messages.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            match message {
                Ok(Message::Asked(query)) => self.asked(&query),
                Ok(Message::Rewind(done)) => {
                    let rewound = self.rewind();
                    // The receiver is gone only if the network is going.
                    let _ = done.send(self.failed.take().map_or(rewound, Err));
                }
                Ok(Message::Stop) | Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => {}
            }
            let now = self.clock.now();
            while let Some(entry) = self.due.first_entry().filter(|entry| entry.key().0 <= now) {
                let event = entry.remove();
                if let Err(e) = self.happen(event) {
                    self.failed = Some(e);
                }
            }
        }
    }

    fn asked(&mut self, query: &Query) {
        let (due, order) = (&mut self.due, &mut self.order);
        self.waiting.retain(|change| match &change.when {
            When::Asked { name, later } if name.eq_ignore_ascii_case(&query.name) => {
                *order += 1;
                due.insert((query.at + *later, *order), change.event);
                false
            }
            _ => true,
        });
    }

    fn rewind(&mut self) -> Result<(), NetlinkError> {
        self.due.clear();
        self.waiting = self.changes.iter().filter(|c| c.when != When::AtFirst).cloned().collect();
        let first = self.changes.iter().filter(|c| c.when == When::AtFirst);
        let events: Vec<Event> = Family::BOTH.map(Event::Comes).into_iter().chain(first.map(|c| c.event)).collect();
        events.into_iter().try_for_each(|event| self.happen(event))
    }

    /// Does nothing about a family that has come, or has gone, already.
    fn happen(&mut self, event: Event) -> Result<(), NetlinkError> {
        match event {
            Event::Leaves(family) if self.gone.insert(family) => self.attachment.leave(family),
            Event::Comes(family) if self.gone.remove(&family) => self.attachment.come(family),
            Event::Leaves(_) | Event::Comes(_) => Ok(()),
        }
    }
}
