//! Descriptors that come from runs: each is what it is said to be, or the message is refused.
//!
//! What cannot be read as what it should be would be ready for ever, and keep the supervisor awake. What never happens here: a
//! descriptor is read from or written to.

use crate::control::Descriptor;
use crate::sys::{process, seccomp};
use rustix::fs::{FileType, fstat};
use rustix::net::{AddressFamily, sockopt};
use std::os::fd::OwnedFd;

/// Each descriptor with what it is.
pub(super) fn matched(what: &[Descriptor], descriptors: Vec<OwnedFd>) -> Result<Vec<(Descriptor, OwnedFd)>, String> {
    if what.len() != descriptors.len() {
        return Err(format!("{} descriptors were announced, but {} arrived", what.len(), descriptors.len()));
    }
    let all: Vec<_> = what.iter().copied().zip(descriptors).collect();
    match all.iter().find(|(what, descriptor)| !is_one(*what, descriptor)) {
        Some((what, _)) => Err(format!("the descriptor sent as {what:?} is not one")),
        None => Ok(all),
    }
}

fn is_one(what: Descriptor, descriptor: &OwnedFd) -> bool {
    match what {
        Descriptor::PreloadListener => {
            sockopt::socket_acceptconn(descriptor).unwrap_or(false)
                && sockopt::socket_domain(descriptor) == Ok(AddressFamily::UNIX)
        }
        Descriptor::PreloadFilter | Descriptor::Outstanding | Descriptor::Report => is_file(descriptor),
        Descriptor::SeccompListener => seccomp::is_listener(descriptor),
        Descriptor::Program => process::is_pidfd(descriptor),
        // Held, and no more.
        Descriptor::Duty => true,
    }
}

/// Whether it is a regular file: reading anything else could block the whole supervisor.
fn is_file(descriptor: &OwnedFd) -> bool {
    fstat(descriptor).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    #[test]
    fn what_is_always_ready_is_nothing_that_a_run_has() {
        // The end of a pipe whose other end is closed is readable for ever.
        let bogus = || OwnedFd::from(std::io::pipe().unwrap().0);
        for what in [
            Descriptor::PreloadListener,
            Descriptor::PreloadFilter,
            Descriptor::SeccompListener,
            Descriptor::Outstanding,
            Descriptor::Program,
            Descriptor::Report,
        ] {
            let why = matched(&[what], vec![bogus()]).unwrap_err();
            assert!(why.contains(&format!("{what:?}")), "{why}");
        }
        assert!(matched(&[Descriptor::Duty], vec![bogus()]).is_ok());
        let file = || OwnedFd::from(File::open("/proc/self/exe").unwrap());
        assert!(matched(&[Descriptor::Report], vec![file()]).is_ok());
        assert!(matched(&[Descriptor::Report], vec![]).is_err());
    }
}
