//! What is written while connections are served or used: by a thread of its own, for which no connection waits.

use anyhow::Context as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::Duration;

/// Events that wait to be written; more are dropped, and counted.
const QUEUE: usize = 4096;
/// How long events that wait are written for at the end: a disk that hangs is not waited for.
const PATIENCE: Duration = Duration::from_secs(2);

/// Events on their way into files.
#[derive(Debug)]
pub struct Written<E> {
    /// What it is, for messages: "the qlog in FOLDER".
    what: String,
    inlet: Inlet<E>,
    /// Says why, if not all could be written.
    ended: Receiver<Option<String>>,
}

/// Where events are handed over.
#[derive(Debug)]
pub struct Inlet<E> {
    /// `None` is the end.
    queue: SyncSender<Option<E>>,
    /// Events for which there was no room.
    dropped: Arc<AtomicU64>,
}

impl<E> Clone for Inlet<E> {
    fn clone(&self) -> Self {
        Self { queue: self.queue.clone(), dropped: self.dropped.clone() }
    }
}

impl<E> Inlet<E> {
    /// Has it written, or counted if there is no room.
    pub fn put(&self, event: E) {
        if let Err(TrySendError::Full(_)) = self.queue.try_send(Some(event)) {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl<E: Send + 'static> Written<E> {
    /// Starts `write`, which takes events until the end (`None`) and returns why not all were written, in a thread called `name`.
    pub fn begin(
        name: &str,
        what: String,
        write: impl FnOnce(&Receiver<Option<E>>) -> Option<String> + Send + 'static,
    ) -> anyhow::Result<Self> {
        let ((queue, events), (over, ended)) = (sync_channel(QUEUE), sync_channel(1));
        let of = what.clone();
        let work = move || {
            let lost = write(&events);
            if let Some(why) = &lost {
                crate::complain!("headstart: {of} is incomplete: {why}");
            }
            // What comes now waits for nothing.
            drop(events);
            let _ = over.send(lost);
        };
        let thread = std::thread::Builder::new().name(name.to_owned());
        thread.spawn(work).with_context(|| format!("starting the thread of {what}"))?;
        Ok(Self { what, inlet: Inlet { queue, dropped: Arc::default() }, ended })
    }

    /// Where connections hand their events over.
    pub fn inlet(&self) -> Inlet<E> {
        self.inlet.clone()
    }

    /// Writes what waits; whether everything is written. Reports what is missing.
    pub fn end(self) -> bool {
        // A queue that is full is full of what is written first.
        let queue = self.inlet.queue.clone();
        std::thread::spawn(move || _ = queue.send(None));
        let lost = match self.ended.recv_timeout(PATIENCE) {
            Ok(lost) => lost,
            Err(_) => {
                crate::complain!("headstart: {} is incomplete: the disk does not respond", self.what);
                Some(String::new())
            }
        };
        let dropped = self.inlet.dropped.load(Ordering::Relaxed);
        if dropped > 0 {
            let events = crate::output::plural(dropped, "event");
            crate::complain!("headstart: {} lacks {events}: there were too many at once", self.what);
        }
        lost.is_none() && dropped == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_there_is_no_room_for_is_counted_and_nobody_waits() {
        let (go, wait) = sync_channel::<()>(1);
        let written = Written::begin("test", "it".into(), move |events: &Receiver<Option<u64>>| {
            let _ = wait.recv();
            while let Ok(Some(_)) = events.recv() {}
            None
        });
        let written = written.unwrap();
        let inlet = written.inlet();
        (0..QUEUE as u64 + 3).for_each(|event| inlet.put(event));
        assert_eq!(inlet.dropped.load(Ordering::Relaxed), 3);
        go.send(()).unwrap();
        assert!(!written.end());
        // Connections may outlive it.
        inlet.put(1);
    }
}
