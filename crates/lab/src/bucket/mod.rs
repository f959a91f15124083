//! A place in a bucket of an S3-compatible store (`s3://BUCKET/PREFIX`), by the crate `object_store`: objects are listed, read, and written
//! on the condition that there is none of that name.
//!
//! A store that is busy or away is asked again, for three minutes. Its address and the credentials come from the variables that Amazon's own tools
//! read (`AWS_ENDPOINT_URL`, `AWS_ACCESS_KEY_ID`, …). Names of objects are given in parts, below the prefix.

mod client;
#[cfg(test)]
pub(crate) mod fake;

use anyhow::{Context as _, bail, ensure};
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::path::Path as Key;
use object_store::{Error, GetOptions, GetRange, ObjectStore, ObjectStoreExt as _, PutMode, PutPayload, RetryConfig};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

/// What places in a bucket begin with.
const SCHEME: &str = "s3://";
/// Objects that are read at once.
const AT_ONCE: usize = 16;

/// A store that is busy or away is asked again until this time is over, however often that is: ten times, the crate's bound, are over
/// in seconds.
fn patience() -> RetryConfig {
    RetryConfig { max_retries: usize::MAX, retry_timeout: Duration::from_secs(180), ..RetryConfig::default() }
}

/// Whether `place` is in a bucket.
pub fn is_bucket(place: &Path) -> bool {
    place.as_os_str().as_encoded_bytes().starts_with(SCHEME.as_bytes())
}

/// See the module.
pub struct Bucket {
    name: PathBuf,
    store: AmazonS3,
    prefix: Key,
    runtime: Runtime,
}

/// What there is on a level.
#[derive(Debug, Default, PartialEq)]
pub struct Listed {
    /// Last parts of the names of objects, and their bytes.
    pub objects: Vec<(String, u64)>,
    /// Parts below which there is more.
    pub levels: Vec<String>,
}

impl std::fmt::Debug for Bucket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Bucket").field(&self.name).finish()
    }
}

impl Bucket {
    /// The bucket of `place`, by what the environment says of the store; nothing is asked yet.
    pub fn open(place: &Path) -> anyhow::Result<Self> {
        // Whether it is encrypted is said by the address that was given; Amazon's is.
        let plain = std::env::var("AWS_ENDPOINT_URL").is_ok_and(|url| url.starts_with("http:"));
        let store = AmazonS3Builder::from_env().with_retry(patience());
        Self::by(if plain { store.with_allow_http(true) } else { store }, place)
    }

    fn by(store: AmazonS3Builder, place: &Path) -> anyhow::Result<Self> {
        let text = place.to_str().context("not a place in a bucket: it is not UTF-8")?;
        let parts = text.strip_prefix(SCHEME).map(|rest| rest.split_once('/').unwrap_or((rest, "")));
        let (bucket, prefix) = parts.unwrap_or_default();
        ensure!(!bucket.is_empty(), "{text}: give s3://BUCKET/PREFIX");
        let store = store.with_bucket_name(bucket).with_http_connector(client::Connector);
        let store = store.with_disable_bulk_delete(true).build()?;
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        Ok(Self { name: place.into(), store, prefix: Key::parse(prefix)?, runtime })
    }

    /// The place, as it was given.
    pub fn name(&self) -> &Path {
        &self.name
    }

    /// What there is below `parts`, on that level alone.
    pub fn list(&self, parts: &[&str]) -> anyhow::Result<Listed> {
        let key = self.key(parts);
        let listed = self.runtime.block_on(self.store.list_with_delimiter(Some(&key)));
        let listed = listed.with_context(|| format!("reading {}", self.place(parts).display()))?;
        let last = |key: &Key| key.filename().map(str::to_owned);
        Ok(Listed {
            objects: listed.objects.iter().filter_map(|object| Some((last(&object.location)?, object.size))).collect(),
            levels: listed.common_prefixes.iter().filter_map(last).collect(),
        })
    }

    /// An object, or at most its first bytes; nothing if there is none.
    pub fn read(&self, parts: &[&str], most: Option<u64>) -> anyhow::Result<Option<Vec<u8>>> {
        let object = self.runtime.block_on(get(&self.store, &self.key(parts), most));
        object.with_context(|| format!("reading {}", self.place(parts).display()))
    }

    /// Reads many objects of one level, several at once, and hands them to `each` as they come.
    pub fn read_all(
        &self,
        level: &[&str],
        mut names: Vec<String>,
        most: Option<u64>,
        mut each: impl FnMut(&str, Option<Vec<u8>>) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        self.runtime.block_on(async {
            let mut asked = JoinSet::new();
            loop {
                while asked.len() < AT_ONCE
                    && let Some(name) = names.pop()
                {
                    let (store, key) = (self.store.clone(), self.key(level).join(name.as_str()));
                    asked.spawn(async move { (name, get(&store, &key, most).await) });
                }
                let Some(answer) = asked.join_next().await else { return Ok(()) };
                let (name, object) = answer.context("reading was interrupted")?;
                let object = object.with_context(|| format!("reading {}", self.place(level).join(&name).display()))?;
                each(&name, object)?;
            }
        })
    }

    /// Writes an object; with `new`, only if there is none of this name.
    pub fn write(&self, parts: &[&str], bytes: Vec<u8>, new: bool) -> anyhow::Result<()> {
        let mode = if new { PutMode::Create } else { PutMode::Overwrite };
        let key = self.key(parts);
        let put = self.store.put_opts(&key, PutPayload::from(bytes), mode.into());
        self.runtime.block_on(put).map(drop).with_context(|| format!("writing {}", self.place(parts).display()))
    }

    /// Gives an object another name, if it is there.
    pub fn rename(&self, from: &[&str], to: &[&str]) -> anyhow::Result<()> {
        let moved = self.runtime.block_on(async {
            match self.store.copy(&self.key(from), &self.key(to)).await {
                Err(Error::NotFound { .. }) => Ok(()),
                Err(why) => Err(why),
                Ok(()) => self.store.delete(&self.key(from)).await,
            }
        });
        moved.with_context(|| format!("moving {}", self.place(from).display()))
    }

    /// Deletes an object.
    pub fn delete(&self, parts: &[&str]) -> anyhow::Result<()> {
        let deleted = self.runtime.block_on(self.store.delete(&self.key(parts)));
        deleted.with_context(|| format!("deleting {}", self.place(parts).display()))
    }

    /// Where an object is, for people.
    pub fn place(&self, parts: &[&str]) -> PathBuf {
        parts.iter().fold(self.name.clone(), |place, part| place.join(part))
    }

    fn key(&self, parts: &[&str]) -> Key {
        parts.iter().fold(self.prefix.clone(), |key, part| key.join(*part))
    }
}

async fn get(store: &AmazonS3, key: &Key, most: Option<u64>) -> anyhow::Result<Option<Vec<u8>>> {
    let range = most.map(|most| GetRange::Bounded(0..most));
    let found = match store.get_opts(key, GetOptions { range, ..GetOptions::default() }).await {
        Err(Error::NotFound { .. }) => return Ok(None),
        found => found?,
    };
    let expected = found.range.end - found.range.start;
    let bytes = found.bytes().await?;
    if bytes.len() as u64 != expected {
        bail!("{} of {expected} bytes came", bytes.len());
    }
    Ok(Some(bytes.to_vec()))
}

#[cfg(test)]
mod tests {
    use super::fake::{Fault, Store};
    use super::*;

    #[test]
    fn what_is_no_store_and_what_is_no_place_is_named() {
        let store = Store::new();
        store.will("LIST", Fault::Garbage, 1);
        store.will("LIST", Fault::Denied, 1);
        for expected in ["reading s3://bucket/some/results", "403"] {
            let why = format!("{:#}", store.open(0).list(&[]).unwrap_err());
            assert!(why.contains(expected), "{why}");
            assert!(!why.contains("a secret"), "{why}");
        }
        for wrong in ["s3://", "s3:///x", "s3://bucket/a//b"] {
            assert!(Bucket::by(AmazonS3Builder::new(), Path::new(wrong)).is_err(), "{wrong}");
        }
        assert!(is_bucket(Path::new("s3://bucket")) && !is_bucket(Path::new("./s3:/bucket")));
    }

    #[test]
    fn a_store_that_is_busy_for_long_is_asked_again_more_than_a_few_times() {
        let store = Store::new();
        let bucket = store.open_with(patience());
        for kind in ["LIST", "PUT"] {
            store.will(kind, Fault::Busy, 15);
            store.will(kind, Fault::Gone, 15);
        }
        assert_eq!(bucket.list(&[]).unwrap(), Listed::default());
        bucket.write(&["a"], b"x".to_vec(), true).unwrap();
        assert_eq!((store.keys(), store.inside().happened), (vec!["some/results/a".to_owned()], 60));
    }

    #[test]
    fn an_object_is_written_once_read_in_part_moved_and_deleted() {
        let store = Store::new();
        let bucket = store.open(0);
        bucket.write(&["day", "a"], b"0123456789".to_vec(), true).unwrap();
        assert!(bucket.write(&["day", "a"], b"x".to_vec(), true).is_err());
        assert_eq!(bucket.list(&[]).unwrap(), Listed { objects: vec![], levels: vec!["day".into()] });
        assert_eq!(bucket.list(&["day"]).unwrap(), Listed { objects: vec![("a".into(), 10)], levels: vec![] });
        assert_eq!(bucket.read(&["day", "a"], Some(4)).unwrap().as_deref(), Some(&b"0123"[..]));
        assert_eq!(bucket.read(&["day", "a"], Some(99)).unwrap().as_deref(), Some(&b"0123456789"[..]));
        assert_eq!(bucket.read(&["day", "b"], None).unwrap(), None);
        bucket.rename(&["day", "a"], &["night"]).unwrap();
        bucket.rename(&["day", "a"], &["night"]).unwrap();
        assert_eq!(store.keys(), ["some/results/night"], "what is gone is not moved");
        bucket.delete(&["night"]).unwrap();
        assert!(store.keys().is_empty());
    }
}
