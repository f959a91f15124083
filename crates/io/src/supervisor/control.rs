//! The supervisor's ends of control connections: which clients are admitted, and what they are answered.

use super::Supervisor;
use super::descriptors::matched;
use super::keeper::{Keeper, forget};
use super::refusals::IN_A_ROW;
use super::run::Run;
use super::token::MAX_RUN;
use crate::control::{
    Account, ControlError, Descriptor, History, MAX_RUNS_LISTED, MAX_RUNS_OBSERVED, Observation, Registered, Reply,
    Request, receive, send, short,
};
use headstart_core::connect::Input;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, SocketFlags, accept_with, sockopt};
use serde::Serialize;
use std::fs::File;
use std::io::Write as _;
use std::os::fd::OwnedFd;

/// A control connection.
#[derive(Debug)]
pub(super) struct Link {
    socket: OwnedFd,
    /// The run that it has registered.
    run: Option<u32>,
    /// How often it was refused in a row.
    refused: u32,
}

impl Link {
    pub fn new(socket: OwnedFd) -> Self {
        Self { socket, run: None, refused: 0 }
    }
}

impl Supervisor {
    /// A client wants to connect.
    pub(super) fn answer_the_door(&mut self) {
        let Some(door) = &self.door else { return };
        let socket = match accept_with(door, SocketFlags::CLOEXEC) {
            Ok(socket) => socket,
            Err(Errno::MFILE | Errno::NFILE) => {
                // Out of descriptors: a spare one is used to accept and close the waiting connection, and its client goes on alone.
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
            // If it fails, the client sees its connection closed.
            let _ = self.admit(socket);
        }
    }

    /// Control connection `n` is readable: a request came, or its end.
    pub(super) fn on_control(&mut self, n: u64) {
        let Some(link) = self.links.get(&n) else { return };
        let reply = match receive::<Request>(&link.socket, RecvFlags::DONTWAIT) {
            Ok((request, descriptors)) => self.answer(n, request, descriptors),
            Err(ControlError::Nothing) => return,
            // The reply says which version this is, and the client sees it.
            Err(ControlError::OtherVersion(_)) => Some(Reply::Refused("another version".into())),
            Err(why) => {
                if !matches!(why, ControlError::HungUp) {
                    self.refusals.note(self.engine.clock.now());
                }
                return self.hang_up(n);
            }
        };
        let Some(reply) = reply else { return };
        let is_refused = matches!(reply, Reply::Refused(_));
        if is_refused {
            self.refusals.note(self.engine.clock.now());
        }
        let Some(link) = self.links.get_mut(&n) else { return };
        link.refused = if is_refused { link.refused + 1 } else { 0 };
        if send(&link.socket, &reply, &[], SendFlags::DONTWAIT).is_err() || link.refused >= IN_A_ROW {
            self.hang_up(n);
        }
    }

    fn answer(&mut self, n: u64, request: Request, descriptors: Vec<OwnedFd>) -> Option<Reply> {
        let run = self.links.get(&n).and_then(|link| link.run);
        let refused = |why: &str| Some(Reply::Refused(why.to_owned()));
        match (request, run) {
            (Request::Run { command, via, pid, descriptors: what }, None) => {
                let Some(number) = self.free_number() else { return refused("there are too many runs") };
                let mut run = Run::new(&self.engine, number, Registered { command: short(&command), via, pid });
                if let Err(why) = matched(&what, descriptors).and_then(|all| run.add(&mut self.engine, all)) {
                    run.close(&mut self.engine);
                    return Some(Reply::Refused(why));
                }
                self.runs.insert(number, run);
                self.links.get_mut(&n)?.run = Some(number);
                Some(Reply::Registered)
            }
            (Request::Run { .. }, Some(_)) => refused("this connection has a run already"),
            (Request::Add { descriptors: what }, Some(number)) => {
                self.add(n, number, &what, descriptors);
                None
            }
            (Request::Summarise, Some(number)) => {
                let mut summary = self.runs.get(&number)?.summary(&self.engine);
                summary.notes = self.keeper.as_mut().map(Keeper::news).unwrap_or_default();
                Some(Reply::Summary(Box::new(summary)))
            }
            (Request::Observe { descriptors: what, races, after, history }, _) => {
                let observation = self.observation(races, after, history);
                Some(match matched(&what, descriptors).and_then(|files| write(files, &observation)) {
                    Ok(()) => Reply::Observed,
                    Err(why) => Reply::Refused(why),
                })
            }
            (Request::Remember { descriptors: what }, _) => {
                let history = self.history();
                Some(match matched(&what, descriptors).and_then(|files| write(files, &history)) {
                    Ok(()) => Reply::Remembered { notes: self.keeper.as_ref().map(Keeper::notes).unwrap_or_default() },
                    Err(why) => Reply::Refused(why),
                })
            }
            (Request::Forget { app, host }, _) => Some(match self.forget(app.as_deref(), host.as_deref()) {
                Ok(records) => Reply::Forgotten { records },
                Err(why) => Reply::Refused(why),
            }),
            (Request::Explain { host }, _) => Some(Reply::Explained(Box::new(self.account(&host)))),
            (Request::Add { .. } | Request::Summarise, None) => refused("this connection has no run"),
        }
    }

    /// Run `number`, whose control connection is `n`, is given more. Not answered. But calls that nothing answers would wait for ever:
    /// `headstart run` notices that we have hung up, and answers them itself.
    fn add(&mut self, n: u64, number: u32, what: &[Descriptor], descriptors: Vec<OwnedFd>) {
        let Some(run) = self.runs.get_mut(&number) else { return };
        if matched(what, descriptors).and_then(|all| run.add(&mut self.engine, all)).is_err() {
            self.refusals.note(self.engine.clock.now());
            self.hang_up(n);
        } else if let Some(app) = run.launched.take() {
            // The host may have moved since the last run.
            self.engine.look_around();
            self.engine.feed(Input::Launched { account: number, app });
            if run.is_reached_by_calls_alone() {
                // Its questions will come, if any, once it has started: now, no program waits.
                self.stub.furnish(&self.engine);
            }
        }
    }

    fn history(&mut self) -> History {
        let now = self.engine.clock.now();
        History {
            programs: self.engine.connector.remembered().programs,
            networks: self.engine.connector.networks(now),
            here: Some(self.engine.connector.network()),
        }
    }

    fn observation(&mut self, races: usize, after: u64, history: bool) -> Observation {
        let now = self.engine.clock.now();
        let runs = self.runs.values().take(MAX_RUNS_OBSERVED).map(|run| run.registered.clone());
        Observation {
            pid: std::process::id(),
            // The clock began with the supervisor.
            up_ms: now.as_millis_f64(),
            runs: runs.collect(),
            runs_omitted: self.runs.len().saturating_sub(MAX_RUNS_OBSERVED),
            tally: self.engine.connector.tally(),
            timings: self.engine.connector.timings().snapshot(),
            wakeups: self.wakeups.named(),
            ignored_messages: self.engine.transport.ignored,
            families: self.engine.connector.families(now),
            resolvers: self.engine.names.servers().iter().map(ToString::to_string).collect(),
            races: self.engine.connector.races(now, races, after),
            changes: self.engine.connector.changes_of_races(),
            history: history.then(|| self.history()),
        }
    }

    fn forget(&mut self, app: Option<&str>, host: Option<&str>) -> Result<usize, String> {
        match &mut self.keeper {
            Some(keeper) => keeper.forget(&mut self.engine, app, host),
            None => {
                forget(&mut self.engine, app, host);
                Ok(0)
            }
        }
    }

    fn account(&mut self, host: &str) -> Account {
        let now = self.engine.clock.now();
        Account {
            pid: std::process::id(),
            // The clock began with the supervisor.
            up_ms: now.as_millis_f64(),
            runs: self.runs.values().take(MAX_RUNS_LISTED).map(|run| run.registered.clone()).collect(),
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

/// Writes `report` into the file that came along.
fn write(files: Vec<(Descriptor, OwnedFd)>, report: &impl Serialize) -> Result<(), String> {
    let Some((Descriptor::Report, file)) = files.into_iter().next() else {
        return Err("no file to write to was sent".to_owned());
    };
    let bytes = serde_json::to_vec(report).map_err(|e| e.to_string())?;
    File::from(file).write_all(&bytes).map_err(|e| format!("writing failed: {e}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::Names;
    use headstart_core::connect::{Settings, race};
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::net::{AddressFamily, SocketType, socketpair};
    use std::fs::File;
    use std::os::fd::AsFd;

    fn with_a_run() -> (Supervisor, OwnedFd) {
        let pair = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None);
        let (here, there) = pair.unwrap();
        let settings = Settings::of(race::find("adaptive").unwrap());
        let mut supervisor = Supervisor::new(settings, Names::of_host()).unwrap();
        supervisor.admit(there).unwrap();
        let run = Request::Run { command: vec!["true".into()], via: "auto".into(), pid: 1, descriptors: vec![] };
        send(&here, &run, &[], SendFlags::empty()).unwrap();
        supervisor.on_control(0);
        assert!(matches!(receive(&here, RecvFlags::DONTWAIT), Ok((Reply::Registered, _))));
        (supervisor, here)
    }

    #[test]
    fn a_run_whose_system_calls_cannot_be_heard_is_told_by_the_end_of_its_connection() {
        let (mut supervisor, here) = with_a_run();
        // No listener, and nothing that epoll can wait for.
        let file = File::open("/proc/self/exe").unwrap();
        let descriptors = vec![Descriptor::SeccompListener, Descriptor::Outstanding, Descriptor::Duty];
        send(&here, &Request::Add { descriptors }, &[file.as_fd(); 3], SendFlags::empty()).unwrap();
        supervisor.on_control(0);
        // A test beside this one may be starting a program, whose copy of the other end is open until it runs.
        let mut end = [PollFd::new(&here, PollFlags::IN)];
        poll(&mut end, Some(&Timespec { tv_sec: 60, tv_nsec: 0 })).unwrap();
        assert!(matches!(receive::<Reply>(&here, RecvFlags::DONTWAIT), Err(ControlError::HungUp)));
        assert!(supervisor.is_idle(), "and nothing is left of it");
    }

    #[test]
    fn a_client_that_asks_for_nothing_but_what_is_refused_is_let_go() {
        let (mut supervisor, here) = with_a_run();
        let refused = |supervisor: &mut Supervisor| {
            let bogus = std::io::pipe().unwrap().0;
            let request = Request::Remember { descriptors: vec![Descriptor::Report] };
            let sent = send(&here, &request, &[bogus.as_fd()], SendFlags::NOSIGNAL);
            supervisor.on_control(0);
            sent.is_ok() && matches!(receive::<Reply>(&here, RecvFlags::DONTWAIT), Ok((Reply::Refused(_), _)))
        };
        assert!((1..IN_A_ROW).all(|_| refused(&mut supervisor)));
        send(&here, &Request::Summarise, &[], SendFlags::empty()).unwrap();
        supervisor.on_control(0);
        assert!(matches!(receive::<Reply>(&here, RecvFlags::DONTWAIT), Ok((Reply::Summary(_), _))));
        assert!((0..IN_A_ROW).all(|_| refused(&mut supervisor)) && !refused(&mut supervisor));
    }
}
