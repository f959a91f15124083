//! The DevTools protocol over a pipe: commands out, answers and events in, each a JSON text with a zero byte behind it.
//!
//! Chromium reads descriptor 3 and writes descriptor 4 (`--remote-debugging-pipe`); a shell in front of it puts its own
//! input and output there, so that no socket is opened and no other program can speak to it. Waiting ends after a time that is
//! given; what Chromium says meanwhile is kept in order.

use serde_json::{Value, json};
use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, Write};
use std::process::{ChildStdin, ChildStdout};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

/// What Chromium may take to answer a command: far more than it ever does, even on a machine that is busy.
const PATIENCE: Duration = Duration::from_secs(60);

/// Why nothing came of a command.
#[derive(Debug, thiserror::Error)]
pub enum ProtocolError {
    /// Chromium has ended, or closed its pipe.
    #[error("Chromium exited during {0}: run it by hand to see why")]
    Gone(String),
    /// It says nothing any more.
    #[error("Chromium did not {what} within {} s", within.as_secs())]
    Silent {
        /// What it was to do.
        what: String,
        /// How long was waited.
        within: Duration,
    },
    /// It refused.
    #[error("Chromium refuses {method}: {reason}")]
    Refused {
        /// The command.
        method: String,
        /// What it said.
        reason: String,
    },
}

/// The pipe to one Chromium.
pub(super) struct Pipe {
    to: ChildStdin,
    from: Receiver<Value>,
    next: u64,
    events: VecDeque<Value>,
}

impl Pipe {
    pub fn new(to: ChildStdin, from: ChildStdout) -> io::Result<Self> {
        let (sender, receiver) = channel();
        std::thread::Builder::new().name("devtools".into()).spawn(move || {
            let mut from = BufReader::new(from);
            let mut text = Vec::new();
            // It ends with Chromium, or when the receiver is gone.
            while from.read_until(0, &mut text).is_ok_and(|n| n > 0) {
                if text.last() == Some(&0) {
                    text.pop();
                }
                // What is no JSON is no answer of Chromium's.
                if let Ok(value) = serde_json::from_slice(&text)
                    && sender.send(value).is_err()
                {
                    break;
                }
                text.clear();
            }
        })?;
        Ok(Self { to, from: receiver, next: 0, events: VecDeque::new() })
    }

    /// Sends a command and waits for its answer; of a page, if `session` is given.
    pub fn call(&mut self, session: Option<&str>, method: &str, params: Value) -> Result<Value, ProtocolError> {
        self.next += 1;
        let id = self.next;
        let mut command = json!({ "id": id, "method": method, "params": params });
        if let Some(session) = session {
            command["sessionId"] = session.into();
        }
        let mut text = command.to_string().into_bytes();
        text.push(0);
        let gone = |_| ProtocolError::Gone(method.to_owned());
        self.to.write_all(&text).and_then(|()| self.to.flush()).map_err(gone)?;
        loop {
            let value = self.receive(method, PATIENCE)?;
            if value["id"].as_u64() != Some(id) {
                self.events.push_back(value);
            } else if let Some(error) = value.get("error") {
                return Err(ProtocolError::Refused { method: method.to_owned(), reason: error.to_string() });
            } else {
                return Ok(value["result"].clone());
            }
        }
    }

    /// The next event, in the order of their coming; waits for it at most so long.
    pub fn event(&mut self, what: &str, within: Duration) -> Result<Value, ProtocolError> {
        match self.events.pop_front() {
            Some(event) => Ok(event),
            None => self.receive(what, within),
        }
    }

    /// The next event, if one has come already.
    pub fn try_event(&mut self) -> Option<Value> {
        self.events.pop_front().or_else(|| self.from.try_recv().ok())
    }

    /// Forgets events that no caller has asked for.
    pub fn forget(&mut self) {
        self.events.clear();
        while self.from.try_recv().is_ok() {}
    }

    fn receive(&self, what: &str, within: Duration) -> Result<Value, ProtocolError> {
        self.from.recv_timeout(within).map_err(|e| match e {
            RecvTimeoutError::Disconnected => ProtocolError::Gone(what.to_owned()),
            RecvTimeoutError::Timeout => ProtocolError::Silent { what: what.to_owned(), within },
        })
    }
}
