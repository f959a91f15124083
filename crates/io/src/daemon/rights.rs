//! The rights (capabilities(7)) that a daemon keeps when programs in the kernel measure: attaching them takes more than reading what
//! they report and undoing what was changed.

use rustix::fs::{Access, AtFlags, CWD, accessat};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, remove_capability_from_bounding_set, set_capabilities,
};
use std::io;
use std::path::Path;

/// For routes, rules, values and nftables, and for iterators over the maps of programs.
const KEPT: CapabilitySet = CapabilitySet::NET_ADMIN.union(CapabilitySet::BPF).union(CapabilitySet::PERFMON);

/// Gives up the rights of this thread, and of those that it starts from now on, but for [`KEPT`]. Nor does executing a program bring them
/// back, as it would for root. Folders that are written to later may belong to another user than this one (systemd's DynamicUser): the
/// right to write to them stays then.
pub(super) fn keep_what_is_needed<'a>(folders: impl IntoIterator<Item = &'a Path>) -> io::Result<()> {
    let before = capabilities(None)?;
    // A unit has no others, and a filter of system calls that refuses capset(2).
    if KEPT.contains(before.effective | before.permitted | before.inheritable) {
        return Ok(());
    }
    let only = |kept: CapabilitySet| CapabilitySets {
        effective: before.effective & kept,
        permitted: before.permitted & kept,
        inheritable: before.inheritable & kept,
    };
    // As it will be, to try it; what is permitted can be taken back.
    set_capabilities(None, CapabilitySets { permitted: before.permitted, ..only(KEPT) })?;
    let can_write = |folder: &Path| accessat(CWD, folder, Access::WRITE_OK, AtFlags::EACCESS).is_ok();
    let is_enough = folders.into_iter().all(can_write);
    let kept = if is_enough { KEPT } else { KEPT | CapabilitySet::DAC_OVERRIDE };
    if before.permitted.contains(CapabilitySet::SETPCAP) {
        set_capabilities(None, CapabilitySets { effective: CapabilitySet::SETPCAP, ..before })?;
        // Numbers that this kernel does not know are refused.
        let others = (0..u64::BITS).map(|bit| CapabilitySet::from_bits_retain(1 << bit));
        others.filter(|one| !kept.contains(*one)).for_each(|one| _ = remove_capability_from_bounding_set(one));
    }
    Ok(set_capabilities(None, only(kept))?)
}
