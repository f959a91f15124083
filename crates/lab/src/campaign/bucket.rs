//! Results in a bucket of an S3-compatible store ([`crate::bucket`]).
//!
//! A result is one object, `PREFIX/ID`: a line with its record, then a line with the result. An object is whole or not there, and is
//! written on the condition that there is none, so that of two workers the first wins, as it does by a rename in a folder.
//! `PREFIX/.failed/ID` has the reason of a failure; `PREFIX/.damaged/` what was put aside. What is read lies as a copy in a private
//! folder, as [`super::Results`] have it.

use crate::bucket::Bucket;
use crate::lock;
use crate::program::Folder;
use anyhow::{Context as _, bail};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};

/// So much of an object has its record: one is 1 kB long, and more where paths of pages are.
const MOST_RECORD: u64 = 64 << 10;

/// How much of the results is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// Their records, for what asks how far a campaign is.
    Records,
    /// All of them.
    Whole,
}

/// How the work of a worker came among the results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Committed {
    /// It is the result.
    First,
    /// Another worker's is.
    Another,
}

/// Results in a bucket.
#[derive(Debug)]
pub struct Remote {
    bucket: Bucket,
    copies: Folder,
    known: Mutex<Known>,
}

/// What is known of the objects.
#[derive(Debug, Default)]
struct Known {
    /// Bytes of each result.
    results: BTreeMap<String, u64>,
    /// Tasks with a reason.
    failed: BTreeSet<String>,
    /// Results that were listed and cannot be read, and why.
    lost: BTreeMap<String, String>,
}

impl Remote {
    /// The results in `bucket`, of which nothing but the list is read.
    pub fn new(bucket: Bucket) -> anyhow::Result<Self> {
        let ids = |level: &[&str]| -> anyhow::Result<Vec<(String, u64)>> {
            let mut objects = bucket.list(level)?.objects;
            objects.retain(|(name, _)| super::is_id(name));
            Ok(objects)
        };
        let results = ids(&[])?.into_iter().collect();
        let failed = ids(&[".failed"])?.into_iter().map(|(id, _)| id).collect();
        let known = Known { results, failed, lost: BTreeMap::new() };
        Ok(Self { bucket, copies: Folder::new()?, known: Mutex::new(known) })
    }

    /// The place, as it was given.
    pub fn name(&self) -> &Path {
        self.bucket.name()
    }

    /// Where copies are.
    pub fn copies(&self) -> &Path {
        self.copies.path()
    }

    /// The ids of all results.
    pub fn ids(&self) -> Vec<String> {
        self.known().results.keys().cloned().collect()
    }

    /// Bytes of the result `id`, once its record was read.
    pub fn length(&self, id: &str) -> Option<u64> {
        let record = fs::metadata(self.copies().join(id).join("task.json")).ok()?.len();
        self.known().results.get(id)?.checked_sub(record + 1)
    }

    /// Why the result `id` cannot be read, though it was listed.
    pub fn lost(&self, id: &str) -> Option<String> {
        self.known().lost.get(id).cloned()
    }

    /// Copies of those results that are `wanted`, or of their records.
    pub fn bring(&self, extent: Extent, wanted: impl Fn(&str) -> bool) -> anyhow::Result<()> {
        let listed = self.known().results.clone();
        // Of nothing there is no part to ask for.
        let (some, none): (Vec<_>, Vec<_>) = listed.into_iter().filter(|(id, _)| wanted(id)).partition(|(_, n)| *n > 0);
        none.iter().try_for_each(|(id, _)| self.keep(id, Some(&[]), extent))?;
        let most = (extent == Extent::Records).then_some(MOST_RECORD);
        let names = some.into_iter().map(|(id, _)| id).collect();
        self.bucket.read_all(&[], names, most, |id, object| self.keep(id, object.as_deref(), extent))
    }

    /// Writes the copy of an object; what is none is noted as lost.
    fn keep(&self, id: &str, object: Option<&[u8]>, extent: Extent) -> anyhow::Result<()> {
        let parts = object.ok_or("it was listed and is not there").and_then(|object| {
            let end = object.iter().position(|byte| *byte == b'\n').ok_or("its record has no end");
            end.map(|end| (&object[..end], &object[end + 1..]))
        });
        let (record, result) = match parts {
            Ok(parts) => parts,
            Err(why) => {
                self.known().lost.insert(id.into(), why.into());
                return Ok(());
            }
        };
        let folder = self.copies().join(id);
        let write = |name: &str, bytes: &[u8]| fs::write(folder.join(name), bytes);
        let written =
            fs::create_dir_all(&folder).and_then(|()| write("task.json", record)).and_then(|()| match extent {
                Extent::Whole => write("result.json", result),
                Extent::Records => Ok(()),
            });
        written.with_context(|| format!("writing {}", folder.display()))
    }

    /// Puts a result there, unless there is one; whichever is there has its copy here afterwards.
    pub fn put(&self, id: &str, record: &[u8], result: &[u8]) -> anyhow::Result<Committed> {
        let object = [record, b"\n", result].concat();
        let Err(why) = self.bucket.write(&[id], object.clone(), true) else {
            self.forget_failure(id);
            return Ok(Committed::First);
        };
        // Another's, or this one: the answer to a request that was obeyed may have been lost.
        let Some(there) = self.bucket.read(&[id], None).ok().flatten() else { return Err(why) };
        self.keep(id, Some(&there), Extent::Whole)?;
        if let Some(why) = self.lost(id) {
            bail!("{} is damaged: {why}", self.bucket.place(&[id]).display());
        }
        self.forget_failure(id);
        Ok(if there == object { Committed::First } else { Committed::Another })
    }

    /// Notes why a task has no result.
    pub fn note(&self, id: &str, why: &str) -> anyhow::Result<()> {
        self.bucket.write(&[".failed", id], why.as_bytes().to_vec(), false)?;
        self.known().failed.insert(id.into());
        Ok(())
    }

    /// Why a task has no result, if it was tried.
    pub fn failure(&self, id: &str) -> Option<String> {
        let is_noted = self.known().failed.contains(id);
        let why = is_noted.then(|| self.bucket.read(&[".failed", id], None))?.ok()??;
        Some(String::from_utf8_lossy(&why).into_owned())
    }

    /// Moves a damaged result out of the way, where it stays to be looked at; where it is now.
    pub fn set_aside(&self, id: &str, worker: &str) -> anyhow::Result<PathBuf> {
        let aside = format!("{id}-{worker}");
        self.bucket.rename(&[id], &[".damaged", &aside])?;
        let _ = fs::remove_dir_all(self.copies().join(id));
        let mut known = self.known();
        known.results.remove(id);
        known.lost.remove(id);
        Ok(self.bucket.place(&[".damaged", &aside]))
    }

    fn forget_failure(&self, id: &str) {
        if self.known().failed.remove(id) {
            // Of a task that is done it is not asked.
            let _ = self.bucket.delete(&[".failed", id]);
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        lock(&self.known)
    }
}

#[cfg(test)]
mod tests;
