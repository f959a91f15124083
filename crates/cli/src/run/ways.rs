//! The ways in which a program is reached, and why one or the other is not to be had.
//!
//! Both where both are possible: the preloaded library sees names together with ports, and comes first; system calls
//! are heard of all that it does not reach: programs without the C library, those that make system calls themselves,
//! their children.

use super::measure::MeasuredBy;
use clap::ValueEnum;
use headstart_io::program::{self, Reach};
use std::ffi::OsStr;
use std::path::PathBuf;

/// Ways to reach a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Via {
    /// Both methods, each where it works.
    Auto,
    /// Preload a library; for dynamically linked programs.
    Preload,
    /// Intercept connect() by seccomp user notification; also for static programs. Set-user-ID programs (sudo) lose their
    /// privileges under it unless you are root.
    Seccomp,
    /// With --measure: carry the program's packets through a TUN interface, in a network namespace of its own (the default). It
    /// alone sees pings and ICMP errors, captures packets and accelerates.
    Tun,
    /// With --measure: let programs in the kernel (eBPF) measure, and carry nothing. Needs cgroup v2, BTF and root, or
    /// CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN. `auto` picks it where it works.
    Ebpf,
}

impl Via {
    /// Who measures, if it says that.
    pub fn source(self) -> Option<MeasuredBy> {
        match self {
            Self::Auto => Some(MeasuredBy::Auto),
            Self::Tun => Some(MeasuredBy::Tun),
            Self::Ebpf => Some(MeasuredBy::Ebpf),
            Self::Preload | Self::Seccomp => None,
        }
    }
}

/// How one program is reached. An error is the reason why it is not, that way.
#[derive(Debug)]
pub struct Ways {
    /// By the preloaded library.
    pub preload: Result<(), String>,
    /// By its system calls; whether the kernel lets us is seen when it is started.
    pub calls: Result<(), String>,
    /// The file that it is, if it was looked for and found.
    pub file: Option<PathBuf>,
}

impl Ways {
    /// The ways of `via` that `program` leaves open.
    pub fn to(program: &OsStr, via: Via) -> Self {
        let none = |why: &str| Err(why.to_owned());
        if std::env::var_os("HEADSTART").is_some_and(|v| v == "off") {
            return Self { preload: none("HEADSTART=off"), calls: none("HEADSTART=off"), file: None };
        }
        let file = program::find(program, std::env::var_os("PATH").as_deref());
        // A file that cannot be read can perhaps be run; the loader will see.
        let reach = file.as_ref().and_then(|file| program::reach(file).ok()).unwrap_or(Reach::Reached);
        let why = reach.why_not();
        let calls = match reach {
            // Under the filter of an ordinary user it would have no rights of its own.
            Reach::Privileged => Err(why.clone().unwrap_or_default()),
            _ if via == Via::Preload => none("--via preload"),
            _ => Ok(()),
        };
        let preload = match why {
            Some(why) => Err(why),
            None if via == Via::Seccomp => none("--via seccomp"),
            None => Ok(()),
        };
        Self { preload, calls, file }
    }

    /// Why it is not reached at all, if it is not.
    pub fn why_not(&self) -> Option<&str> {
        match self {
            Self { preload: Err(why), calls: Err(other), .. } => {
                // What was not asked for is no reason.
                Some(if why.starts_with("--via") { other } else { why })
            }
            _ => None,
        }
    }

    /// For people: the ways that are open.
    pub fn name(&self) -> &'static str {
        match (self.preload.is_ok(), self.calls.is_ok()) {
            (true, true) => "preload and seccomp",
            (true, false) => "preload",
            (false, true) => "seccomp",
            (false, false) => "nothing",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dynamic_program_is_reached_in_every_way_that_was_asked_for() {
        let ways = |via| Ways::to(OsStr::new("sh"), via).name();
        assert_eq!([Via::Auto, Via::Preload, Via::Seccomp].map(ways), ["preload and seccomp", "preload", "seccomp"]);
    }

    #[test]
    fn the_reason_is_the_programs_and_not_what_was_not_asked_for() {
        let (asked, other) = (Err("--via preload".to_owned()), Err("it is statically linked".to_owned()));
        assert_eq!(Ways { preload: other, calls: asked, file: None }.why_not(), Some("it is statically linked"));
        assert_eq!(Ways { preload: Ok(()), calls: Err(String::new()), file: None }.why_not(), None);
    }
}
