//! What this host lacks for the programs, as opposed to a fault in them: a right, BTF, control groups of version 2, or a kind of program.

use super::{KernelError, Programs};
use crate::cgroup;
use aya::programs::ProgramType;
use aya::sys::is_program_supported;
use std::path::Path;

/// Where kernels with BTF have it.
const BTF: &str = "/sys/kernel/btf/vmlinux";
/// The kinds of our programs.
const KINDS: [(ProgramType, &str); 5] = [
    (ProgramType::CgroupSockAddr, "cgroup_sock_addr"),
    (ProgramType::CgroupSock, "cgroup_sock"),
    (ProgramType::CgroupSkb, "cgroup_skb"),
    (ProgramType::SockOps, "sock_ops"),
    (ProgramType::Tracing, "tracing"),
];

/// Loads the programs, attached to nothing. Names what this host lacks, if it lacks something; whatever else keeps the kernel from taking
/// them is an error.
pub fn lacking() -> Result<Option<String>, KernelError> {
    if let Err(why) = cgroup::root() {
        return Ok(Some(why.to_string()));
    }
    if !Path::new(BTF).exists() {
        return Ok(Some(format!("this kernel has no types (BTF): {BTF} does not exist")));
    }
    judged(Programs::load().map(drop), || {
        // A kernel that cannot say has it: then the error is shown.
        KINDS.into_iter().find(|(kind, _)| matches!(is_program_supported(*kind), Ok(false))).map(|(_, name)| name)
    })
}

fn judged(
    loaded: Result<(), KernelError>,
    unknown: impl FnOnce() -> Option<&'static str>,
) -> Result<Option<String>, KernelError> {
    match loaded {
        Ok(()) => Ok(None),
        Err(why) if why.is_not_permitted() => Ok(Some(why.to_string())),
        Err(why) => match unknown() {
            Some(kind) => Ok(Some(format!("this kernel has no programs of the kind {kind}"))),
            None => Err(why),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forward::ebpf::{failed, missing};
    use std::io;

    #[test]
    fn a_fault_of_the_programs_is_an_error_and_no_reason_to_go_without() {
        let denied = || failed("sock_ops")(io::Error::from(io::ErrorKind::PermissionDenied));
        let invalid = || failed("sock_ops")(io::Error::from(io::ErrorKind::InvalidInput));
        assert!(matches!(judged(Ok(()), || None), Ok(None)));
        assert!(matches!(judged(Err(denied()), || None), Ok(Some(why)) if why.contains("sock_ops")));
        let unknown = judged(Err(invalid()), || Some("sock_ops")).unwrap().unwrap();
        assert!(unknown.contains("no programs of the kind sock_ops"), "{unknown}");
        assert!(judged(Err(invalid()), || None).is_err());
        assert!(judged(Err(missing("sock_ops")), || None).is_err(), "the object is not ours");
    }

    #[test]
    fn where_the_kernel_takes_them_nothing_is_lacking() {
        match lacking() {
            Ok(None) => assert!(KINDS.iter().all(|(kind, _)| !matches!(is_program_supported(*kind), Ok(false)))),
            Ok(Some(why)) => eprintln!("skipped: {why}"),
            Err(fault) => panic!("{fault}"),
        }
    }
}
