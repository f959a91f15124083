//! The supervisor's ends of control connections: who may come in, and what they are answered.

use super::Supervisor;
use super::run::Run;
use super::token::MAX_RUN;
use crate::control::{Account, ControlError, Descriptor, Registered, Reply, Request, receive, send};
use headstart_core::connect::Input;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, SocketFlags, accept_with, sockopt};
use std::os::fd::OwnedFd;

/// Runs that an account names at most.
const MAX_RUNS_TOLD: usize = 16;

/// A control connection.
#[derive(Debug)]
pub(super) struct Link {
    socket: OwnedFd,
    /// The run that it has registered.
    run: Option<u32>,
}

impl Link {
    pub fn new(socket: OwnedFd) -> Self {
        Self { socket, run: None }
    }
}

impl Supervisor {
    /// Somebody wants to come in.
    pub(super) fn answer_the_door(&mut self) {
        let Some(door) = &self.door else { return };
        let socket = match accept_with(door, SocketFlags::CLOEXEC) {
            Ok(socket) => socket,
            Err(Errno::MFILE | Errno::NFILE) => {
                // Out of descriptors: the one who waits is let go and helps itself, by means of one kept for this.
                drop(self.spare.take());
                drop(accept_with(door, SocketFlags::CLOEXEC));
                self.spare = door.try_clone().ok();
                return;
            }
            Err(_) => return,
        };
        let user = rustix::process::getuid();
        // The folder is private already; root may come in, others may not.
        if sockopt::socket_peercred(&socket).is_ok_and(|peer| peer.uid == user || peer.uid.is_root()) {
            // Should it fail, the one who came in notices that it was let go.
            let _ = self.admit(socket);
        }
    }

    /// Something came on control connection `n`, or its end.
    pub(super) fn hear(&mut self, n: u64) {
        let Some(link) = self.links.get(&n) else { return };
        let reply = match receive::<Request>(&link.socket, RecvFlags::DONTWAIT) {
            Ok((request, descriptors)) => self.answer(n, request, descriptors),
            Err(ControlError::Nothing) => return,
            // The reply says which version this is; the one who asked will see.
            Err(ControlError::OtherVersion(_)) => Some(Reply::Refused("another version".into())),
            Err(_) => return self.hang_up(n),
        };
        let (Some(reply), Some(link)) = (reply, self.links.get(&n)) else { return };
        if send(&link.socket, &reply, &[], SendFlags::DONTWAIT).is_err() {
            self.hang_up(n);
        }
    }

    fn answer(&mut self, n: u64, request: Request, descriptors: Vec<OwnedFd>) -> Option<Reply> {
        let run = self.links.get(&n).and_then(|link| link.run);
        let refused = |why: &str| Some(Reply::Refused(why.to_owned()));
        match (request, run) {
            (Request::Run { command, via, pid, descriptors: what }, None) => {
                let Some(number) = self.free_number() else { return refused("there are too many runs") };
                let mut run = Run::new(&self.engine, number, Registered { command: short(command), via, pid });
                if let Err(why) = matched(&what, descriptors).and_then(|all| run.add(&self.engine, all)) {
                    run.close(&mut self.engine);
                    return Some(Reply::Refused(why));
                }
                self.runs.insert(number, run);
                self.links.get_mut(&n)?.run = Some(number);
                Some(Reply::Registered)
            }
            (Request::Run { .. }, Some(_)) => refused("this connection has a run already"),
            (Request::Add { descriptors: what }, Some(number)) => {
                let run = self.runs.get_mut(&number)?;
                // Not answered: what cannot be used is as if it had not come.
                let _ = matched(&what, descriptors).and_then(|all| run.add(&self.engine, all));
                if let Some(app) = run.launched.take() {
                    // Another network, since the last run.
                    self.engine.look_around();
                    self.engine.feed(Input::Launched { account: number, app });
                }
                None
            }
            (Request::Summarise, Some(number)) => {
                let summary = self.runs.get(&number)?.summary(&self.engine);
                Some(Reply::Summary(Box::new(summary)))
            }
            (Request::Explain { host }, _) => Some(Reply::Explained(Box::new(self.account(&host)))),
            (Request::Add { .. } | Request::Summarise, None) => refused("this connection has no run"),
        }
    }

    fn account(&mut self, host: &str) -> Account {
        let now = self.engine.clock.now();
        Account {
            pid: std::process::id(),
            // The clock began with the supervisor.
            up_ms: now.as_millis_f64(),
            runs: self.runs.values().take(MAX_RUNS_TOLD).map(|run| run.registered.clone()).collect(),
            explanation: self.engine.connector.explain(now, host),
        }
    }

    /// A number that no run has. Numbers are not given again soon: what was under way for a run when it ended ends later.
    fn free_number(&mut self) -> Option<u32> {
        let next = |n: u32| if n >= MAX_RUN { 1 } else { n + 1 };
        let mut number = next(self.last_run);
        for _ in 0..=self.runs.len() {
            if !self.runs.contains_key(&number) {
                self.last_run = number;
                return Some(number);
            }
            number = next(number);
        }
        None
    }

    /// The other side of control connection `n` has gone.
    fn hang_up(&mut self, n: u64) {
        let Some(link) = self.links.remove(&n) else { return };
        self.engine.poll.remove(&link.socket);
        self.idle_since = self.engine.clock.now();
        if let Some(number) = link.run
            && let Some(run) = self.runs.get_mut(&number)
        {
            run.attended = false;
            self.end_if_over(number);
        }
    }
}

/// As much of a command line as people need to recognise it.
fn short(command: Vec<String>) -> Vec<String> {
    const MAX_WORDS: usize = 16;
    const MAX_CHARS: usize = 100;
    command.into_iter().take(MAX_WORDS).map(|word| word.chars().take(MAX_CHARS).collect()).collect()
}

/// Each descriptor with what it is.
fn matched(what: &[Descriptor], descriptors: Vec<OwnedFd>) -> Result<Vec<(Descriptor, OwnedFd)>, String> {
    if what.len() != descriptors.len() {
        return Err(format!("{} descriptors were named and {} came", what.len(), descriptors.len()));
    }
    Ok(what.iter().copied().zip(descriptors).collect())
}
