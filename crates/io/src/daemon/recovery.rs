//! Undoing what a daemon has left that was killed. May be done by anybody with its rights, at any time, as often as one likes;
//! a living daemon's changes are never touched.

use super::DaemonError;
use crate::host::ledger::{Ledger, LedgerError, Report};
use crate::host::place::Place;
use std::fs::File;

/// Undoes what is left in this network namespace; none if nothing is. What cannot be undone stays in the journal, and in the
/// report.
pub fn recover(place: &Place) -> Result<Option<Report>, DaemonError> {
    if place.has_journal() == Some(false) {
        return Ok(None);
    }
    place.prepare()?;
    let lock = place.lock()?.map_err(|pid| DaemonError::Taken { pid })?;
    recover_under(place, &lock)
}

/// The same for who has the lock already.
pub(super) fn recover_under(place: &Place, lock: &File) -> Result<Option<Report>, DaemonError> {
    let lock = lock.try_clone()?;
    let Some(ledger) = Ledger::inherit(&place.journal(), lock).map_err(DaemonError::from)? else { return Ok(None) };
    // What it names has gone with the boot. (A namespace's number is in the file's name already.)
    if *ledger.here() != place.here {
        ledger.discard()?;
        return Ok(None);
    }
    let report = ledger.undo_all()?;
    if report.failed.iter().any(|why| why.contains("Operation not permitted")) {
        return Err(DaemonError::Ledger(LedgerError::Kernel(crate::host::KernelError::new(
            "undoing what a killed daemon has left",
            std::io::Error::from(std::io::ErrorKind::PermissionDenied),
        ))));
    }
    Ok(Some(report))
}
