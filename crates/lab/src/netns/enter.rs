//! How the lab gets its namespaces: it starts itself again inside.
//!
//! As root it needs no user namespace; as anyone else it gets one in which the caller is user 0; where the kernel
//! refuses, the error says which command lifts the refusal. What runs inside has process and mount namespaces of its
//! own, with its own `/proc`, `/etc/resolv.conf`, `/etc/hosts` and `/etc/nsswitch.conf`; the files of the host are never
//! written to. It dies with its parent, kill -9 included (see `headstart_io::sys::reexec`).

use super::outside::Waiting;
use super::{Error, private_files};
use headstart_io::sys::netlink::{LOOPBACK, Netlink};
use headstart_io::sys::reexec::{Isolation, ReexecError, reexec};
use headstart_io::sys::signal;
use std::ffi::OsString;
use std::io;

/// Set in the environment of the process that was started inside.
pub(super) const INSIDE: &str = "HEADSTART_LAB_INSIDE";
/// Process 1 is the init; the program is always the second process of its PID namespace, and none of its descendants is.
const OWN_PID: u32 = 2;

/// On which side of the fence the caller is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Entered {
    /// Inside: carry on.
    Inside,
    /// Outside; the process inside has ended with this exit status (128 + n if signal n ended it). Exit with it.
    Ended(i32),
}

/// What is to run inside.
#[derive(Clone, Debug)]
pub struct InnerCommand {
    args: Vec<OsString>,
    keep_network: bool,
    pass_signals: bool,
    host_ports: bool,
}

impl Default for InnerCommand {
    fn default() -> Self {
        Self::this_command()
    }
}

impl InnerCommand {
    /// This program again, with the arguments that it was started with.
    pub fn this_command() -> Self {
        Self::of(std::env::args_os().collect())
    }

    /// This program again, with the arguments `args` (without its name). For tests: `[name, "--exact", ...]`.
    pub fn with_arguments<S: Into<OsString>>(args: impl IntoIterator<Item = S>) -> Self {
        let name = std::env::args_os().next().unwrap_or_else(|| "headstart".into());
        let args = [name].into_iter().chain(args.into_iter().map(Into::into)).collect();
        Self::of(args)
    }

    fn of(args: Vec<OsString>) -> Self {
        Self { args, keep_network: false, pass_signals: false, host_ports: false }
    }

    /// Stays in the caller's network namespace instead of an empty one: for a lab inside a lab.
    pub fn keep_network(mut self, keep: bool) -> Self {
        self.keep_network = keep;
        self
    }

    /// Sends signals that are sent to the outer process on to the inner one, and leaves those of the keyboard to it.
    pub fn pass_signals(mut self) -> Self {
        self.pass_signals = true;
        self
    }

    /// Serves ports of the host to the lab, from outside, as long as it runs.
    pub(super) fn host_ports(mut self, serve: bool) -> Self {
        self.host_ports = serve;
        self
    }

    /// Outside: starts the program inside and waits for its end. Inside: sets the scene, and returns at once.
    ///
    /// May be called from any thread, but the inner process dies with the calling thread.
    pub fn enter(&self) -> Result<Entered, Error> {
        if std::process::id() == OWN_PID && std::env::var_os(INSIDE).is_some() {
            if !self.keep_network {
                Netlink::open().and_then(|mut netlink| netlink.up(LOOPBACK))?;
            }
            private_files::install()?;
            return Ok(Entered::Inside);
        }
        let waiting = self.host_ports.then(Waiting::new).transpose().map_err(Error::io("serving ports of the host"))?;
        let env: Vec<_> = std::env::vars_os()
            .filter(|(key, _)| key != INSIDE)
            .chain([(OsString::from(INSIDE), OsString::from("1"))])
            .chain(waiting.as_ref().map(Waiting::variable))
            .collect();
        let start = |user| reexec(Isolation { user, network: !self.keep_network }, &self.args, &env);
        let root = rustix::process::geteuid().is_root();
        let offspring = match start(!root) {
            // Root of a container may lack CAP_SYS_ADMIN and still be allowed a user namespace.
            Err(e) if root && e.source.kind() == io::ErrorKind::PermissionDenied => start(true),
            other => other,
        };
        let offspring = offspring.map_err(|source| Error::Refused { advice: advice(&source, read_sysctl), source })?;
        waiting.as_ref().map(Waiting::serve).transpose().map_err(Error::io("serving ports of the host"))?;
        if self.pass_signals {
            signal::pass_on_to(offspring.pid()).map_err(Error::io("handling signals"))?;
        }
        let status = offspring.wait().map_err(Error::io("waiting for the lab"))?;
        // Supervisors of runs in there were killed with their PID namespace.
        headstart_io::folder::sweep_after();
        // So were programs whose files it had made, if it was ended by a signal.
        crate::program::sweep_after();
        Ok(Entered::Ended(status))
    }
}

/// For tests: runs `body` inside, in a process of its own. `test` is the path of the calling test within its program.
///
/// # Panics
///
/// If there are no namespaces to be had, or the test failed inside.
pub fn inside(test: &str, body: impl FnOnce()) {
    let alone = [test, "--exact", "--include-ignored", "--nocapture", "--test-threads=1"];
    match InnerCommand::with_arguments(alone).enter() {
        Ok(Entered::Inside) => body(),
        Ok(Entered::Ended(0)) => {}
        Ok(Entered::Ended(status)) => panic!("{test} failed inside its namespaces (status {status}); see above"),
        Err(e) => panic!("{e}"),
    }
}

/// A test that runs [`inside`](crate::netns::inside): its name is all that the inner process needs to find it.
#[macro_export]
macro_rules! inside {
    ($name:ident, $body:expr) => {
        #[test]
        #[ignore = "needs network namespaces: cargo xtask test"]
        fn $name() {
            // The crate's own name is not part of a test's.
            let module = module_path!().split_once("::").map_or(String::new(), |(_, module)| format!("{module}::"));
            $crate::netns::inside(&format!("{module}{}", stringify!($name)), $body);
        }
    };
}

fn read_sysctl(name: &str) -> Option<String> {
    let path = format!("/proc/sys/{}", name.replace('.', "/"));
    std::fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

/// What lifts the refusal.
fn advice(error: &ReexecError, sysctl: impl Fn(&str) -> Option<String>) -> String {
    let is = |name: &str, value: &str| sysctl(name).as_deref() == Some(value);
    if is("user.max_user_namespaces", "0") {
        "run: sudo sysctl user.max_user_namespaces=15000".into()
    } else if is("kernel.unprivileged_userns_clone", "0") {
        "run: sudo sysctl kernel.unprivileged_userns_clone=1".into()
    } else if is("kernel.apparmor_restrict_unprivileged_userns", "1") {
        "run: sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0".into()
    } else if error.source.raw_os_error() == Some(rustix::io::Errno::NOSPC.raw_os_error()) {
        "too many namespaces: raise the limits under /proc/sys/user, e.g. run: sudo sysctl user.max_net_namespaces=15000"
            .into()
    } else {
        "run it as root (sudo); in a container: allow namespaces, e.g. docker run --privileged".into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused() -> ReexecError {
        ReexecError { step: "making namespaces (clone)", source: io::Error::from_raw_os_error(1) }
    }

    #[test]
    fn a_refusal_names_the_sysctl_that_caused_it() {
        let only =
            |name: &'static str, value: &'static str| move |asked: &str| (asked == name).then(|| value.to_owned());
        for (name, value, command) in [
            ("kernel.unprivileged_userns_clone", "0", "sudo sysctl kernel.unprivileged_userns_clone=1"),
            ("kernel.apparmor_restrict_unprivileged_userns", "1", "apparmor_restrict_unprivileged_userns=0"),
            ("user.max_user_namespaces", "0", "sudo sysctl user.max_user_namespaces=15000"),
            ("user.max_user_namespaces", "100", "run it as root"),
        ] {
            let advice = advice(&refused(), only(name, value));
            assert!(advice.contains(command), "{name}={value}: {advice}");
        }
    }
}
