//! Initial windows without routes: a program in the kernel (eBPF, `crates/io/bpf/initcwnd.c`) gives each connection over a known path what
//! that path allows, and halves it for a prefix in which it was too much (docs/decisions/0103).
//!
//! What is known is what routes are made of too ([`super::windows`]): the kernel's memories of past connections. The program is attached by
//! a link to the root of all control groups and keeps to this network namespace; nothing is pinned, so that the end of this process, even
//! by SIGKILL, is its end, and no journal need name it.

use super::message;
use super::windows::memories;
use crate::cgroup;
use crate::forward::ebpf::{KernelError, failed, missing};
use crate::host::{Kernel, KernelError as HostError};
use crate::sys::netns;
use aya::maps::{Array, HashMap, MapData};
use aya::programs::{CgroupAttachMode, SockOps};
use aya::{Ebpf, include_bytes_aligned};
use headstart_core::cwnd::initcwnd::{self, Bounds, Path};
use headstart_core::wire::netlink::{AF_INET, AF_INET6};
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv6Addr};
use std::os::unix::net::UnixDatagram;

/// The program, as `cargo xtask bpf` has compiled it.
const OBJECT: &[u8] = include_bytes_aligned!("../../bpf/initcwnd.bpf.o");
const PROGRAM: &str = "initcwnd";
/// Bytes of `struct place`, `struct path` and `struct limits`.
const PLACE: usize = 20;
const PATH: usize = 28;
const LIMITS: usize = 24;

/// See the module.
pub struct Starts {
    bounds: Bounds,
    ebpf: Ebpf,
    known: BTreeSet<[u8; PLACE]>,
    peers: usize,
    problem: Option<String>,
}

impl std::fmt::Debug for Starts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Starts").field("bounds", &self.bounds).field("peers", &self.peers).finish_non_exhaustive()
    }
}

impl Starts {
    /// Attaches the program, which knows no path yet. Needs CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN, and a kernel with BTF.
    pub fn attach(bounds: Bounds) -> Result<Self, KernelError> {
        let mut ebpf = Ebpf::load(OBJECT).map_err(failed("making tables"))?;
        let limits = ebpf.map_mut("LIMITS").ok_or_else(|| missing("LIMITS"))?;
        let mut limits: Array<_, [u8; LIMITS]> = Array::try_from(limits).map_err(failed("the bounds"))?;
        limits.set(0, encode_limits(&bounds, here()?), 0).map_err(failed("the bounds"))?;
        let program = ebpf.program_mut(PROGRAM).ok_or_else(|| missing(PROGRAM))?;
        let program: &mut SockOps = program.try_into().map_err(failed(PROGRAM))?;
        program.load().map_err(failed(PROGRAM))?;
        let group = cgroup::whole_host().map_err(|e| KernelError::io("the root of control groups", &e))?;
        // By a link: those of others stay where they are.
        program.attach(group, CgroupAttachMode::Single).map_err(failed(PROGRAM))?;
        Ok(Self { bounds, ebpf, known: BTreeSet::new(), peers: 0, problem: None })
    }

    /// Paths that are known, as [`Self::refresh`] would tell them to the program. Needs no privilege.
    pub fn plan(kernel: &mut Kernel, bounds: &Bounds) -> Result<Vec<Path>, HostError> {
        let mut routes = kernel.routes(AF_INET)?;
        routes.extend(kernel.routes(AF_INET6)?);
        let mut remembered = memories(kernel, &routes)?;
        // This host is not its own peer, and a window that another program has set on a route is kept.
        remembered.retain(|memory| initcwnd::way_to(memory.peer, &routes).is_some());
        Ok(initcwnd::paths(&remembered, bounds))
    }

    /// Tells the program what is known now.
    pub fn refresh(&mut self, kernel: &mut Kernel) -> Result<(), HostError> {
        let paths = Self::plan(kernel, &self.bounds)?;
        let told = self.tell(&paths);
        self.problem = told.err().map(|why| why.to_string());
        Ok(())
    }

    fn tell(&mut self, paths: &[Path]) -> Result<(), KernelError> {
        let map = self.ebpf.map_mut("PATHS").ok_or_else(|| missing("PATHS"))?;
        let mut map: HashMap<&mut MapData, [u8; PLACE], [u8; PATH]> =
            HashMap::try_from(map).map_err(failed("known paths"))?;
        let wanted: BTreeSet<_> = paths.iter().map(place).collect();
        for gone in self.known.difference(&wanted) {
            map.remove(gone).map_err(failed("forgetting a path"))?;
        }
        self.known = wanted;
        for path in paths {
            map.insert(place(path), encode(path), 0).map_err(failed("a path"))?;
        }
        self.peers = paths.iter().filter(|path| path.bits == if path.to.is_ipv4() { 32 } else { 128 }).count();
        Ok(())
    }

    /// Peers whose path is known.
    pub fn peers(&self) -> usize {
        self.peers
    }

    /// What is not as it should be.
    pub fn problem(&self) -> Option<String> {
        self.problem.clone()
    }

    /// What came of it.
    pub fn tally(&self) -> Option<message::Starts> {
        let counts: Array<_, u64> = Array::try_from(self.ebpf.map("COUNTS")?).ok()?;
        let read = |n: u32| counts.get(&n, 0).ok();
        Some(message::Starts { given: read(0)?, lost: read(1)?, syns: read(2)? })
    }
}

/// The cookie of this process's network namespace.
fn here() -> Result<u64, KernelError> {
    let what = "the network namespace";
    // Of any kind: it sends nothing.
    let socket = UnixDatagram::unbound().map_err(|e| KernelError::io(what, &e))?;
    netns::cookie(&socket).map_err(|e| KernelError::io(what, &e))
}

fn mapped(ip: IpAddr) -> Ipv6Addr {
    match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    }
}

/// `struct place`: IPv4 is mapped into IPv6, and so is the length of its prefix.
fn place(path: &Path) -> [u8; PLACE] {
    let bits = u32::from(path.bits) + if path.to.is_ipv4() { 96 } else { 0 };
    joined(&[&mapped(path.to).octets(), &bits.to_ne_bytes()])
}

/// `struct path`.
fn encode(path: &Path) -> [u8; PATH] {
    let source = path.source.map_or([0; 16], |source| mapped(source).octets());
    let micros = |time: std::time::Duration| u32::try_from(time.as_micros()).unwrap_or(u32::MAX);
    let timeout = path.timeout.map_or(0, micros);
    joined(&[&source, &path.window.to_ne_bytes(), &micros(path.rtt).to_ne_bytes(), &timeout.to_ne_bytes()])
}

/// `struct limits`.
fn encode_limits(bounds: &Bounds, namespace: u64) -> [u8; LIMITS] {
    let lifetime = u64::try_from(bounds.oldest.as_nanos()).unwrap_or(u64::MAX);
    joined(&[&namespace.to_ne_bytes(), &lifetime.to_ne_bytes(), &bounds.most.to_ne_bytes(), &[0; 4]])
}

/// These bytes one after the other: as many as there is room for.
fn joined<const N: usize>(parts: &[&[u8]]) -> [u8; N] {
    let mut bytes = parts.iter().copied().flatten().copied();
    std::array::from_fn(|_| bytes.next().unwrap_or(0))
}

#[cfg(test)]
mod tests;
