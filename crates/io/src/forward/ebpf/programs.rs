//! The programs: loaded, attached to a control group, and what they keep.

use crate::sys::bpf;
use aya::maps::{Array, HashMap, Map, MapData, RingBuf};
use aya::programs::cgroup_skb::CgroupSkbAttachType;
use aya::programs::{CgroupAttachMode, Program, ProgramError};
use aya::sys::{Stats, enable_stats};
use aya::{Btf, Ebpf, include_bytes_aligned};
use headstart_core::forward::kernel::{DATAGRAMS, PAIR};
use serde::{Deserialize, Serialize};
use std::error::Error;
use std::fs;
use std::io::{self, Read as _};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt as _;

/// All programs, as `cargo xtask bpf` has compiled them.
const OBJECT: &[u8] = include_bytes_aligned!("../../../bpf/headstart.bpf.o");
/// The iterator, and the map that it goes over.
const LIVE: &str = "live";
const FLOWS: &str = "FLOWS";
/// Iterators over what was there before.
const OWNERS: &str = "owners";
const HEAR: &str = "hear";
/// Whether the kernel counts how long programs run, be they watched or not.
const COUNTED: &str = "/proc/sys/kernel/bpf_stats_enabled";
/// What iterators go over.
const ITERATORS: [(&str, &str); 3] = [(LIVE, "bpf_sk_storage_map"), (OWNERS, "task_file"), (HEAR, "tcp")];

/// Datagrams by the ends that they go between.
pub(super) type Pairs = HashMap<MapData, [u8; PAIR], [u8; DATAGRAMS]>;

/// The kernel does not take them.
#[derive(Debug, thiserror::Error)]
#[error("eBPF is not available: {what}: {why}")]
pub struct KernelError {
    what: String,
    why: String,
    denied: bool,
}

impl KernelError {
    fn new(what: impl Into<String>, source: &(dyn Error + 'static)) -> Self {
        // The innermost reason is the kernel's. The rest of the verifier's output is long, and meant for authors of such programs.
        let mut innermost = source;
        let mut denied = false;
        let mut refused = None;
        loop {
            let kind = innermost.downcast_ref::<io::Error>().map(io::Error::kind);
            denied |= kind == Some(io::ErrorKind::PermissionDenied);
            // The kernel has looked at it and calls a fault of the program's the same as a right that is missing.
            if let Some(ProgramError::LoadError { verifier_log, .. }) = innermost.downcast_ref() {
                refused = refusal(&verifier_log.to_string());
            }
            match innermost.source() {
                Some(source) => innermost = source,
                None => break,
            }
        }
        let why = innermost.to_string();
        let mut why = why.lines().next().unwrap_or_default().to_owned();
        if let Some(refusal) = &refused {
            why = format!("the kernel's verifier refuses it: {refusal} ({why})");
        }
        Self { what: what.into(), why, denied: denied && refused.is_none() }
    }

    /// What this process itself could not do.
    pub(crate) fn io(what: &str, source: &io::Error) -> Self {
        Self { what: what.into(), why: source.to_string(), denied: source.kind() == io::ErrorKind::PermissionDenied }
    }

    /// Whether a right is missing.
    pub fn is_not_permitted(&self) -> bool {
        self.denied
    }
}

/// Why the verifier refuses a program: the last line of its output, behind which are only its own figures. None if it has said nothing:
/// then it has not looked.
fn refusal(log: &str) -> Option<String> {
    let mut lines = log.lines().map(|line| line.trim_matches(['\0', ' ']));
    let figures = ["processed ", "verification time ", "stack depth "];
    let is_said = |line: &&str| !line.is_empty() && !figures.iter().any(|figure| line.starts_with(figure));
    lines.rfind(is_said).map(str::to_owned)
}

/// What is done with an error of the loader.
pub(crate) fn failed<E: Error + 'static>(what: &str) -> impl Fn(E) -> KernelError {
    move |source| KernelError::new(what, &source)
}

/// Programs that are attached until this is dropped.
pub struct Programs {
    ebpf: Ebpf,
    /// As long as it is open the kernel counts how long programs run.
    counted: Option<OwnedFd>,
    /// It counts that for everybody.
    always_counted: bool,
}

/// How often programs have run, and for how long in all. See [`Programs::cost`].
#[derive(Debug)]
pub struct Cost(Vec<OwnedFd>);

impl Cost {
    /// As the kernel has it now; nothing where it does not count.
    pub fn read(&self) -> Ran {
        let add = |all: Ran, fd: &OwnedFd| {
            let (ns, times) = bpf::ran(fd).unwrap_or_default();
            Ran { times: all.times + times, ns: all.ns + ns }
        };
        self.0.iter().fold(Ran::default(), add)
    }
}

/// How often programs in the kernel have run, and for how long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ran {
    /// Runs.
    pub times: u64,
    /// Nanoseconds of a processor, in all.
    pub ns: u64,
}

impl std::fmt::Debug for Programs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Programs").finish_non_exhaustive()
    }
}

impl Programs {
    /// Loads all of them and attaches them to a control group, and so to those inside it. Needs CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN,
    /// and a kernel with BTF.
    pub fn attach(group: impl AsFd) -> Result<Self, KernelError> {
        let mut all = Self::load()?;
        for (name, program) in all.ebpf.programs_mut() {
            attach(program, &group).map_err(|source| KernelError::new(name, &source))?;
        }
        // Takes CAP_SYS_ADMIN, which a daemon has until it gives its rights up. Where nothing is counted, nothing is said of their cost.
        all.counted = enable_stats(Stats::RunTime).ok();
        all.always_counted = fs::read_to_string(COUNTED).is_ok_and(|text| text.trim() == "1");
        Ok(all)
    }

    /// Takes in what was open before: sockets of the processes that this one sees. In other network namespaces than this one, and before
    /// Linux 6.13, the end of such a connection is reported when its program closes it, and its round trips are not.
    pub fn see_what_runs(&mut self) -> Result<(), KernelError> {
        for name in [OWNERS, HEAR] {
            let program = self.ebpf.program_mut(name).ok_or_else(|| missing(name))?;
            let Program::Iter(program) = program else { return Err(missing(name)) };
            let link = program.attach().and_then(|id| program.take_link(id)).map_err(failed(name))?;
            let mut file = link.into_file().map_err(failed(name))?;
            io::copy(&mut file, &mut io::sink()).map_err(failed(name))?;
        }
        Ok(())
    }

    /// What counts how long the programs have run, as long as it is kept. An error where the kernel does not count: that is not zero.
    pub fn cost(&self) -> Result<Cost, KernelError> {
        if self.counted.is_none() && !self.always_counted {
            return Err(KernelError {
                what: "the cost of programs".to_owned(),
                why: "the kernel does not count it".to_owned(),
                denied: false,
            });
        }
        let own = |(name, program): (&str, &Program)| {
            let fd = program.fd().map_err(failed(name))?;
            fd.as_fd().try_clone_to_owned().map_err(|e| KernelError::io(name, &e))
        };
        self.ebpf.programs().map(own).collect::<Result<_, _>>().map(Cost)
    }

    /// Loads all of them, attached to nothing: whether the kernel takes them.
    pub fn load() -> Result<Self, KernelError> {
        let btf = Btf::from_sys_fs().map_err(failed("reading the kernel's types (BTF)"))?;
        let mut ebpf = Ebpf::load(OBJECT).map_err(failed("making tables"))?;
        // Numbers of processes as this one sees them.
        let here = fs::metadata("/proc/self/ns/pid").map_err(|e| KernelError::io("the namespace of processes", &e))?;
        let map = ebpf.map_mut("HERE").ok_or_else(|| missing("HERE"))?;
        let mut told: Array<_, u64> = Array::try_from(map).map_err(failed("the namespace of processes"))?;
        told.set(0, here.ino(), 0).map_err(failed("the namespace of processes"))?;
        for (name, program) in ebpf.programs_mut() {
            load(name, program, &btf).map_err(|source| KernelError::new(name, &source))?;
        }
        Ok(Self { ebpf, counted: None, always_counted: false })
    }

    /// Where ends and lookups are reported.
    pub(super) fn ring(&mut self) -> Result<RingBuf<MapData>, KernelError> {
        RingBuf::try_from(self.take("TOLD")?).map_err(failed("the ring"))
    }

    /// What is kept of datagrams.
    pub(super) fn pairs(&mut self) -> Result<Pairs, KernelError> {
        HashMap::try_from(self.take("PAIRS")?).map_err(failed("the table of datagrams"))
    }

    fn take(&mut self, name: &str) -> Result<Map, KernelError> {
        self.ebpf.take_map(name).ok_or_else(|| missing(name))
    }

    /// Records that were lost, as the ring had no room, and datagrams between ends for which the table had none.
    pub(super) fn lost(&self) -> Result<[u64; 2], KernelError> {
        let map = self.ebpf.map("LOST").ok_or_else(|| missing("LOST"))?;
        let counts: Array<_, u64> = Array::try_from(map).map_err(failed("the counts"))?;
        let read = |n: u32| counts.get(&n, 0).map_err(failed("reading the counts"));
        Ok([read(0)?, read(1)?])
    }

    /// A descriptor of each map, of those that somebody has taken not.
    #[cfg(test)]
    pub(super) fn maps(&self) -> Vec<OwnedFd> {
        let own = |map: &Map| match map {
            Map::Array(map) | Map::HashMap(map) | Map::LruHashMap(map) | Map::RingBuf(map) | Map::SkStorage(map) => {
                map.fd().as_fd().try_clone_to_owned().unwrap()
            }
            other => panic!("{other:?}"),
        };
        self.ebpf.maps().map(|(_, map)| own(map)).collect()
    }

    /// What is kept of connections that are open: `struct flow` one after the other.
    pub(super) fn flows(&self) -> Result<Vec<u8>, KernelError> {
        let program = self.ebpf.program(LIVE).ok_or_else(|| missing(LIVE))?;
        let program = program.fd().map_err(failed("the iterator"))?;
        let Some(Map::SkStorage(map)) = self.ebpf.map(FLOWS) else { return Err(missing(FLOWS)) };
        let mut all = Vec::new();
        let read = bpf::elements(program, map.fd()).and_then(|mut file| file.read_to_end(&mut all));
        read.map(|_| all).map_err(failed("reading connections"))
    }
}

/// The object is not the one that was expected.
pub(crate) fn missing(name: &str) -> KernelError {
    KernelError { what: name.to_owned(), why: "not in the object".to_owned(), denied: false }
}

fn load(name: &str, program: &mut Program, btf: &Btf) -> Result<(), ProgramError> {
    match program {
        Program::CgroupSockAddr(program) => program.load(),
        Program::CgroupSock(program) => program.load(),
        Program::CgroupSkb(program) => program.load(),
        Program::SockOps(program) => program.load(),
        Program::Iter(program) => {
            let over = ITERATORS.iter().find(|(iterator, _)| *iterator == name).map_or(name, |(_, over)| over);
            program.load(over, btf)
        }
        _ => Err(ProgramError::UnexpectedProgramType),
    }
}

fn attach(program: &mut Program, group: impl AsFd) -> Result<(), ProgramError> {
    // By a link, which always leaves others where they are: the kernel refuses the flag that says so for programs without links.
    let (group, mode) = (group.as_fd(), CgroupAttachMode::Single);
    match program {
        Program::CgroupSockAddr(program) => program.attach(group, mode).map(drop),
        Program::CgroupSock(program) => program.attach(group, mode).map(drop),
        Program::CgroupSkb(program) => {
            // Both are named by their sections.
            let kind = program.expected_attach_type().unwrap_or(CgroupSkbAttachType::Ingress);
            program.attach(group, kind, mode).map(drop)
        }
        Program::SockOps(program) => program.attach(group, mode).map(drop),
        // Read when it is wanted, and attached to nothing.
        _ => Ok(()),
    }
}

#[cfg(test)]
mod unit {
    use super::*;

    #[test]
    fn a_refusal_is_the_verifiers_last_word_and_not_its_figures() {
        let log = "0: R1=ctx(off=0,imm=0)\n12: (61) r2 = *(u32 *)(r1 +4)\nR1 invalid mem access 'scalar'\nverification time 9 usec\nstack depth 184\nprocessed 13 insns (limit 1000000)\n\0";
        assert_eq!(refusal(log).as_deref(), Some("R1 invalid mem access 'scalar'"));
        assert_eq!((refusal(""), refusal("processed 0 insns\n")), (None, None));
    }
}
