//! Undoes what a killed daemon has left. Any process with its rights may do so, at any time and repeatedly;
//! a living daemon's changes are never touched.
//!
//! The journal says what to undo. Objects with headstart's marks that are in no journal are reported, and undone on request: nothing is
//! called clean that was not looked at.

use super::DaemonError;
use super::client::{AskError, ask};
use super::message::{Answer, Wish};
use crate::host::change::Undone;
use crate::host::folders::{Folders, Lock};
use crate::host::found::{Found, look};
use crate::host::ledger::{Ledger, LedgerError, Report};
use crate::host::{Kernel, KernelError, Numbers};

/// Undoes what is left in this network namespace, with what is found without a record if `found`. What cannot be undone stays in
/// the journal, and in the report.
pub fn recover(folders: &Folders, numbers: Numbers, found: bool) -> Result<Report, DaemonError> {
    if folders.has_journal() == Some(false) && folders.is_locked() != Some(true) {
        let mut report = Report::default();
        tell(left_without_record(folders, numbers)?, &mut report);
        if report.found.is_empty() || !found {
            return Ok(report);
        }
    }
    folders.prepare_to_undo()?;
    let lock = folders.lock()?.map_err(|pid| DaemonError::Taken { pid })?;
    recover_under(folders, &lock, numbers, found)
}

/// What bears our marks here although no journal names it; none of it is a living daemon's.
pub fn left_without_record(folders: &Folders, numbers: Numbers) -> Result<Found, DaemonError> {
    let found = look(&mut Kernel::open().map_err(LedgerError::from)?, numbers).map_err(LedgerError::from)?;
    if found.marked.is_empty() {
        return Ok(found);
    }
    // A daemon that keeps its folders elsewhere answers at the system's socket.
    match ask(folders, Wish::Status) {
        Err(AskError::NotUp) => Ok(found),
        Ok(Answer::Status(status)) => Err(DaemonError::Taken { pid: Some(status.pid) }),
        _ => Err(DaemonError::Taken { pid: None }),
    }
}

/// The same for a caller that has the lock already.
pub(super) fn recover_under(
    folders: &Folders,
    lock: &Lock,
    numbers: Numbers,
    found: bool,
) -> Result<Report, DaemonError> {
    let ledger = Ledger::inherit(folders.journal(), folders.here.clone(), lock.file().try_clone()?)?;
    let mut report = match ledger {
        None => Report::default(),
        Some(ledger) if ledger.is_elsewhere() => {
            ledger.discard();
            Report::default()
        }
        Some(ledger) => ledger.undo_all()?,
    };
    if report.failed.iter().any(|why| why.contains("Operation not permitted")) {
        return Err(not_permitted("undoing what a killed daemon has left"));
    }
    // What could not be undone is still there, and the journal names it.
    if !report.failed.is_empty() {
        return Ok(report);
    }
    let mut left = left_without_record(folders, numbers)?;
    if found {
        let mut kernel = Kernel::open().map_err(LedgerError::from)?;
        for (words, change) in std::mem::take(&mut left.marked) {
            match change.undo(&mut kernel, lock.file()) {
                Ok(Undone::Removed) => report.removed += 1,
                Ok(Undone::WasGone) => report.were_gone += 1,
                Ok(Undone::LeftAlone(why)) => report.left_alone.push(why),
                Err(why) if why.is_not_permitted() => return Err(not_permitted(&format!("removing {words}"))),
                Err(why) => report.failed.push(format!("{words}: {why}")),
            }
        }
    }
    tell(left, &mut report);
    Ok(report)
}

fn tell(found: Found, report: &mut Report) {
    report.found = found.in_words();
    report.not_looked_at = found.not_looked_at;
}

fn not_permitted(what: &str) -> DaemonError {
    let why = std::io::Error::from(std::io::ErrorKind::PermissionDenied);
    DaemonError::Ledger(LedgerError::Kernel(KernelError::new(what, why)))
}
