//! Changes, made and undone through the journal: nothing is made that is not written down, and what is written down can be
//! undone by anybody, at any time, as often as one likes.

use super::change::{Change, ChangeError, Undone};
use super::journal::{Here, Journal, JournalError, Steps};
use super::{Kernel, KernelError};
use std::fs::File;
use std::path::{Path, PathBuf};

/// Why a change was not made.
#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    /// It could not be written down, so it was not made.
    #[error("{0}; the change was not made")]
    Journal(#[from] JournalError),
    /// It failed.
    #[error("{0}")]
    Change(#[from] ChangeError),
    /// The kernel could not be asked.
    #[error("{0}")]
    Kernel(#[from] KernelError),
}

impl LedgerError {
    /// Whether a right is missing.
    pub fn is_not_permitted(&self) -> bool {
        match self {
            Self::Journal(e) => e.is_not_permitted(),
            Self::Change(e) => e.is_not_permitted(),
            Self::Kernel(e) => e.is_not_permitted(),
        }
    }
}

/// What an undoing of everything came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Changes that were there and are gone.
    pub removed: usize,
    /// Changes that were gone already.
    pub were_gone: usize,
    /// Why what somebody else has changed since was left as it is.
    pub left_alone: Vec<String>,
    /// What could not be undone; the journal keeps it.
    pub failed: Vec<String>,
    /// Where a journal with lines that could not be read has been put.
    pub put_aside: Option<PathBuf>,
}

impl Report {
    /// Whether nothing of ours is left.
    pub fn is_clean(&self) -> bool {
        self.failed.is_empty() && self.put_aside.is_none()
    }
}

/// The changes of one daemon, or of one that died.
#[derive(Debug)]
pub struct Ledger {
    journal: Journal,
    kernel: Kernel,
    lock: File,
}

impl Ledger {
    /// Begins, where no journal is. `lock` says that this process alone writes at `path`.
    pub fn begin(path: &Path, here: Here, lock: File, steps: Steps) -> Result<Self, LedgerError> {
        let kernel = Kernel::open()?;
        Ok(Self { journal: Journal::begin(path, here, steps)?, kernel, lock })
    }

    /// Takes over what a dead daemon has left at `path`, if it has left anything.
    pub fn inherit(path: &Path, lock: File) -> Result<Option<Self>, LedgerError> {
        let Some(journal) = Journal::open(path, Steps::default())? else { return Ok(None) };
        Ok(Some(Self { journal, kernel: Kernel::open()?, lock }))
    }

    /// Whose changes these are.
    pub fn here(&self) -> &Here {
        &self.journal.contents().here
    }

    /// What there is.
    pub fn changes(&self) -> impl DoubleEndedIterator<Item = &Change> + ExactSizeIterator {
        self.journal.contents().live.values()
    }

    /// The kernel that is changed.
    pub fn kernel(&mut self) -> &mut Kernel {
        &mut self.kernel
    }

    /// Writes a change down, then makes it; its number.
    pub fn make(&mut self, change: &Change) -> Result<u64, LedgerError> {
        let change = &change.prepared()?;
        let n = self.journal.intend(change)?;
        let made = change.make(&mut self.kernel, &self.lock);
        self.journal.step();
        if made.is_err() {
            self.journal.undone(n);
        }
        Ok(made.map(|()| n)?)
    }

    /// Undoes one change.
    pub fn undo(&mut self, n: u64) -> Result<Undone, LedgerError> {
        let Some(change) = self.journal.contents().live.get(&n).cloned() else { return Ok(Undone::WasGone) };
        self.journal.step();
        let undone = change.undo(&mut self.kernel, &self.lock)?;
        self.journal.undone(n);
        Ok(undone)
    }

    /// Notes that a change is gone without our doing.
    pub fn forget(&mut self, n: u64) {
        self.journal.undone(n);
    }

    /// Undoes everything, the last change first, and ends the journal if nothing is left.
    pub fn undo_all(mut self) -> Result<Report, LedgerError> {
        let mut report = Report::default();
        let all: Vec<u64> = self.journal.contents().live.keys().rev().copied().collect();
        for n in all {
            match self.undo(n) {
                Ok(Undone::Removed) => report.removed += 1,
                Ok(Undone::WasGone) => report.were_gone += 1,
                Ok(Undone::LeftAlone(why)) => report.left_alone.push(why),
                Err(LedgerError::Change(e @ ChangeError::NotOurs(_))) => {
                    report.left_alone.push(e.to_string());
                    self.forget(n);
                }
                Err(e) => report.failed.push(e.to_string()),
            }
        }
        // What could not be undone stays where `recover` looks for it; damaged lines stay with it.
        if !report.failed.is_empty() {
            return Ok(report);
        }
        if self.journal.contents().damaged > 0 {
            report.put_aside = Some(self.journal.put_aside()?);
        } else {
            self.journal.remove()?;
        }
        Ok(report)
    }

    /// Ends the journal without undoing anything: what it names is gone with the boot or the namespace that it was in.
    pub fn discard(self) -> Result<(), LedgerError> {
        Ok(self.journal.remove()?)
    }
}
