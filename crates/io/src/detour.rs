//! A detour for the packets of an interface: what leaves it and what arrives by it passes two veths first, between whose other ends the lab
//! emulates a link (`crates/io/bpf/detour.c`).
//!
//! Programs are attached by links (tcx, Linux 6.6) that nothing pins: the end of this process, even by SIGKILL, is their end. Addresses,
//! routes, queues and the programs of others stay as they are.

use crate::forward::ebpf::{KernelError, failed, missing};
use aya::programs::tc::TcAttachOptions;
use aya::programs::{LinkOrder, SchedClassifier, TcAttachType};
use aya::{Ebpf, EbpfLoader, include_bytes_aligned};

/// The programs, as `cargo xtask bpf` has compiled them.
const OBJECT: &[u8] = include_bytes_aligned!("../bpf/detour.bpf.o");

/// An interface, by both of its names.
#[derive(Clone, Copy, Debug)]
pub struct InterfaceId<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its number.
    pub index: u32,
}

/// Where the packets of an interface go. All three are in the network namespace of the calling thread.
#[derive(Clone, Copy, Debug)]
pub struct DetourPlan<'a> {
    /// The interface. It has Ethernet headers.
    pub interface: InterfaceId<'a>,
    /// The veth that takes what is about to leave, and gives back what has arrived.
    pub inner: InterfaceId<'a>,
    /// The veth that takes what arrives, and gives back what is to leave.
    pub outer: InterfaceId<'a>,
    /// What packets carry that have been given back, for a moment: a number that nothing else uses.
    pub mark: u32,
}

/// A detour that is in force until this is dropped.
pub struct Detour {
    _ebpf: Ebpf,
}

impl std::fmt::Debug for Detour {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Detour")
    }
}

impl Detour {
    /// Puts it in force. Needs CAP_BPF and CAP_NET_ADMIN of the host, not only of a user namespace.
    pub fn attach(way: &DetourPlan<'_>) -> Result<Self, KernelError> {
        let mut loader = EbpfLoader::new();
        let DetourPlan { interface, inner, outer, mark } = way;
        loader.override_global("INTERFACE", &interface.index, true).override_global("INNER", &inner.index, true);
        loader.override_global("OUTER", &outer.index, true).override_global("MARK", mark, true);
        let mut ebpf = loader.load(OBJECT).map_err(failed("the programs of the detour"))?;
        // The way back first, so that nothing is taken that cannot return.
        for (program, at, direction) in [
            ("has_left", outer, TcAttachType::Ingress),
            ("has_arrived", inner, TcAttachType::Ingress),
            ("leaves", interface, TcAttachType::Egress),
            ("arrives", interface, TcAttachType::Ingress),
        ] {
            let found = ebpf.program_mut(program).ok_or_else(|| missing(program))?;
            let found: &mut SchedClassifier = found.try_into().map_err(failed(program))?;
            found.load().map_err(failed(program))?;
            let by_link = TcAttachOptions::TcxOrder(LinkOrder::default());
            found.attach_with_options(at.name, direction, by_link).map_err(failed(program))?;
        }
        Ok(Self { _ebpf: ebpf })
    }
}
