//! Programs by the stopwatch: started, watched, and ended if they go on for too long.
//!
//! Each runs in a process group of its own, which is all that is ever ended, and has nothing to read. No user's
//! settings lead it elsewhere, and no `headstart run` learns from another, unless it is to.

use crate::program::undisturbed;
use anyhow::Context as _;
use headstart_core::time::{Duration, Instant};
use headstart_io::clock::Clock;
use headstart_io::process_end;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process_group};
use std::fs::File;
use std::io::{Read, Seek};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ended {
    /// From its start.
    pub after: Duration,
    /// What came of it.
    pub how: How,
}

/// What came of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
    /// Exit status 0, and the right output where that is looked at.
    Well,
    /// Anything else.
    Failed,
    /// It went on for too long, and was ended.
    Cut,
}

impl Ended {
    /// In milliseconds.
    pub fn millis(&self) -> f64 {
        self.after.as_secs_f64() * 1e3
    }
}

impl From<ExitStatus> for How {
    fn from(status: ExitStatus) -> Self {
        if status.success() { Self::Well } else { Self::Failed }
    }
}

/// The supervisor that a `headstart run` has.
#[derive(Clone, Copy, Debug)]
pub(super) enum Supervisor<'a> {
    /// Its own, which knows nothing.
    Own,
    /// The user's, as every run but the first has it: at home in this folder, where no other is looked for. It ends by itself
    /// [`LINGER`] after the last of its runs.
    Usual(&'a Path),
}

/// How long a supervisor stays for a next run, in seconds: programs that start slowly lie between two.
const LINGER: &str = "5";

/// Runs `command` to its end, but not for longer than `longest`.
pub(super) fn time(command: &mut Command, longest: Duration) -> anyhow::Result<Ended> {
    let mut run = Run::start(command.stdout(Stdio::null()), Stdio::null(), longest, Supervisor::Own)?;
    match run.wait()? {
        Some(after) => Ok(Ended { after, how: run.finish()?.into() }),
        None => run.cut(),
    }
}

/// As [`time`]; it has done well only if what it wrote to its standard output is right, too.
pub(super) fn time_output(
    command: &mut Command,
    longest: Duration,
    supervisor: Supervisor<'_>,
    is_right: impl Fn(&[u8]) -> bool,
) -> anyhow::Result<Ended> {
    // In memory, so that no reader is needed while it runs, and a process that inherits it holds nothing up.
    let mut output = File::from(memfd_create(c"output", MemfdFlags::CLOEXEC).context("making a file in memory")?);
    command.stdout(output.try_clone().context("a file in memory")?);
    let mut run = Run::start(command, Stdio::null(), longest, supervisor)?;
    let Some(after) = run.wait()? else { return run.cut() };
    let mut how: How = run.finish()?.into();
    let mut written = Vec::new();
    output.rewind().and_then(|()| output.read_to_end(&mut written)).context("reading what a program wrote")?;
    if how == How::Well && !is_right(&written) {
        how = How::Failed;
    }
    Ok(Ended { after, how })
}

/// The shell's words for a program that is run twice: a line with its status at each end.
const TWICE: &str = r#""$@" >/dev/null; echo $?; "$@" >/dev/null; echo $?"#;

/// What has to stand before a program and its arguments, so that [`time_second`] can see both runs.
pub(super) const SHELL: [&str; 4] = ["/bin/sh", "-c", TWICE, "sh"];

/// The same where the first run does nothing: the second is the first that the program has.
pub(super) const SESSION: [&str; 4] = ["/bin/sh", "-c", r#"echo 0; "$@" >/dev/null; echo $?"#, "sh"];

/// Runs `command`, which starts [`SHELL`] or [`SESSION`] with a program behind it, and times the program's second run. None if the first
/// took too long.
pub(super) fn time_second(command: &mut Command, longest: Duration) -> anyhow::Result<Option<Ended>> {
    let mut run = Run::start(command.stdout(Stdio::piped()), Stdio::null(), longest, Supervisor::Own)?;
    let mut out = run.child.stdout.take().context("no pipe to a program")?;
    let mut said = Vec::new();
    let mut first = None;
    loop {
        let Some(at) = run.wait_for(&out)? else {
            let cut = run.cut()?;
            return Ok(first.map(|first| Ended { after: cut.after - first, ..cut }));
        };
        let mut bytes = [0; 64];
        let read = out.read(&mut bytes).context("reading from a shell")?;
        anyhow::ensure!(
            read > 0,
            "a shell ended before it had run a program twice: {}",
            String::from_utf8_lossy(&said)
        );
        said.extend(&bytes[..read]);
        match (said.iter().filter(|b| **b == b'\n').count(), first) {
            (0, _) => {}
            (1, _) => first = first.or(Some(at)),
            // Both lines were read at once, so the second run took no time to speak of.
            (_, first) => {
                let how = if said.ends_with(b"\n0\n") { How::Well } else { How::Failed };
                let after = at - first.unwrap_or(at);
                run.finish()?;
                return Ok(Some(Ended { after, how }));
            }
        }
    }
}

/// A program under way.
pub(super) struct Run {
    child: Child,
    clock: Clock,
    longest: Duration,
}

impl Run {
    /// Starts `command`, whose standard output the caller has led somewhere. What it complains of goes to `stderr`.
    pub fn start(
        command: &mut Command,
        stderr: Stdio,
        longest: Duration,
        supervisor: Supervisor<'_>,
    ) -> anyhow::Result<Self> {
        undisturbed(command);
        match supervisor {
            Supervisor::Own => command.env("HEADSTART", "private"),
            Supervisor::Usual(home) => {
                command.env("XDG_RUNTIME_DIR", home).env("XDG_STATE_HOME", home).env("HEADSTART_LINGER", LINGER)
            }
        };
        let clock = Clock::new();
        let child = command.stdin(Stdio::null()).stderr(stderr).process_group(0).spawn();
        let child = child.with_context(|| format!("starting {}", command.get_program().display()))?;
        Ok(Self { child, clock, longest })
    }

    fn pid(&self) -> anyhow::Result<i32> {
        i32::try_from(self.child.id()).context("a process id")
    }

    /// Until it ends: the time since its start; none if that is too long.
    pub fn wait(&self) -> anyhow::Result<Option<Duration>> {
        self.wait_for(&process_end(self.pid()?).context("watching a program")?)
    }

    /// Until `fd` is readable: the time since the start; none if that is too long.
    fn wait_for(&self, fd: &impl AsFd) -> anyhow::Result<Option<Duration>> {
        loop {
            let now = self.clock.now().since(Instant::ZERO);
            let Some(left) = self.longest.checked_sub(now).filter(|left| !left.is_zero()) else { return Ok(None) };
            let timeout = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
            match poll(&mut [PollFd::new(fd, PollFlags::IN)], Some(&timeout)) {
                Ok(0) | Err(Errno::INTR) => {}
                Ok(_) => return Ok(Some(self.clock.now().since(Instant::ZERO))),
                Err(e) => return Err(e).context("waiting for a program"),
            }
        }
    }

    /// Until it ends, as [`Self::wait`], or until there is `enough`, which is looked at every 20 ms.
    pub fn wait_unless(&self, mut enough: impl FnMut() -> bool) -> anyhow::Result<Option<Duration>> {
        const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
        let end = process_end(self.pid()?).context("watching a program")?;
        loop {
            let now = self.clock.now().since(Instant::ZERO);
            if now >= self.longest || enough() {
                return Ok(None);
            }
            match poll(&mut [PollFd::new(&end, PollFlags::IN)], Some(&LOOK)) {
                Ok(0) | Err(Errno::INTR) => {}
                Ok(_) => return Ok(Some(self.clock.now().since(Instant::ZERO))),
                Err(e) => return Err(e).context("waiting for a program"),
            }
        }
    }

    /// How a program ended that has ended.
    pub fn finish(&mut self) -> anyhow::Result<ExitStatus> {
        self.child.wait().context("waiting for a program")
    }

    /// Ends the program and all that it started in its group.
    pub fn cut(&mut self) -> anyhow::Result<Ended> {
        let after = self.clock.now().since(Instant::ZERO);
        if let Some(group) = Pid::from_raw(self.pid()?) {
            // It may have ended meanwhile, which is what was wanted.
            let _ = kill_process_group(group, Signal::KILL);
        }
        self.finish()?;
        Ok(Ended { after, how: How::Cut })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(600);

    fn shell(script: &str) -> Command {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn a_program_is_timed_to_its_end_and_its_status_seen() {
        let ended = time(&mut shell("sleep 0.05"), LONG).unwrap();
        assert!(ended.how == How::Well && ended.millis() >= 50.0, "{ended:?}");
        assert_eq!(time(&mut shell("exit 3"), LONG).unwrap().how, How::Failed);
        let said = |script, right: &'static [u8]| {
            time_output(&mut shell(script), LONG, Supervisor::Own, move |out| out == right).unwrap().how
        };
        assert_eq!([said("echo yes", b"yes\n"), said("echo no", b"yes\n")], [How::Well, How::Failed]);
        assert_eq!(said("echo yes; exit 1", b"yes\n"), How::Failed);
        let missing = time(&mut Command::new("/no/such/program"), LONG).unwrap_err();
        assert!(missing.to_string().contains("/no/such/program"), "{missing}");
    }

    #[test]
    fn a_program_that_goes_on_for_too_long_is_ended_with_all_that_it_started() {
        // Were the inner one alive, the pipe would stay open until it ends by itself.
        let longest = Duration::from_millis(100);
        let mut command = shell("sleep 1000 & sleep 1000");
        let ended = time(&mut command, longest).unwrap();
        assert!(ended.how == How::Cut && ended.after >= longest, "{ended:?}");
    }

    #[test]
    fn of_two_runs_the_second_is_timed() {
        let folder = tempfile::tempdir().unwrap();
        let mark = folder.path().join("mark");
        // The first run is quick and fails; the second takes its time.
        let script = format!("if [ -e {0} ]; then sleep 0.05; else touch {0}; exit 1; fi", mark.display());
        let mut command = Command::new(SHELL[0]);
        command.args(&SHELL[1..]).args(["/bin/sh", "-c", &script]);
        let second = time_second(&mut command, LONG).unwrap().unwrap();
        assert!(second.how == How::Well && second.millis() >= 50.0, "{second:?}");
        let mut endless = Command::new(SHELL[0]);
        endless.args(&SHELL[1..]).args(["sleep", "1000"]);
        assert_eq!(time_second(&mut endless, Duration::from_millis(50)).unwrap(), None);
    }
}
