//! Changes, made and undone through the journal: every change is written down before it is made, and any process with the rights
//! can undo what is written down, at any time and repeatedly.

use super::change::{Change, ChangeError, Undone};
use super::journal::{Closed, Here, Journal, JournalError, Steps};
use super::{Kernel, KernelError};
use std::fs::File;
use std::path::PathBuf;

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
    /// Why what another program has changed since was left as it is.
    pub left_alone: Vec<String>,
    /// What could not be undone; the journal keeps it.
    pub failed: Vec<String>,
    /// Where a journal that could not be read as a whole has been put.
    pub put_aside: Option<PathBuf>,
    /// Why the journal is still there although everything that it names is undone.
    pub unclosed: Vec<String>,
    /// Whether there was a journal.
    pub had_record: bool,
    /// What bears our marks and is in no journal.
    pub found: Vec<String>,
    /// Where could not be looked for it, and why.
    pub not_looked_at: Option<String>,
}

impl Report {
    /// Whether nothing of ours is left.
    pub fn is_clean(&self) -> bool {
        self.failed.is_empty() && self.put_aside.is_none() && self.found.is_empty()
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
    /// Begins, where no journal is. `lock` says that this process alone writes at `paths`.
    pub fn begin(paths: [PathBuf; 2], here: Here, lock: File, steps: Steps) -> Result<Self, LedgerError> {
        let kernel = Kernel::open()?;
        Ok(Self { journal: Journal::begin(paths, here, steps)?, kernel, lock })
    }

    /// Takes over what a dead daemon has left at `paths`, if it has left anything here.
    pub fn inherit(paths: [PathBuf; 2], here: Here, lock: File) -> Result<Option<Self>, LedgerError> {
        let Some(journal) = Journal::open(paths, here, Steps::default())? else { return Ok(None) };
        Ok(Some(Self { journal, kernel: Kernel::open()?, lock }))
    }

    /// Whether what it names is gone, with the boot or the namespace that it was in.
    pub fn is_elsewhere(&self) -> bool {
        self.journal.contents().elsewhere
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
        let mut report = Report { had_record: true, ..Report::default() };
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
        let Closed { put_aside, unclosed } = self.journal.close();
        Ok(Report { put_aside, unclosed, ..report })
    }

    /// Ends the journal without undoing anything: what it names is gone with the boot or the namespace that it was in.
    pub fn discard(self) {
        self.journal.close();
    }
}
