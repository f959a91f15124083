//! `headstart history export --sign` and `import`: what one host of a site has learned of paths, for another.
//!
//! The document is two lines: title, public key of the site and signature; then one JSON object, which is what was signed,
//! after the title (docs/decisions/0100). What never happens here: anything of a document whose signature is not by the site that
//! the caller names is read.

use super::Import;
use crate::exit::{self, Coded, Usage};
use crate::output::{self, plural};
use anyhow::Context as _;
use headstart_core::cwnd::history::{History, Settings};
use headstart_core::time::Instant;
use headstart_io::clock::wall;
use headstart_io::store::paths::Paths;
use headstart_io::store::prior::{Learned, MOST_BYTES, PriorError, Priors, SignedHistory};
use headstart_realtime::keys::{PublicKey, SecretKey};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Begins the document and what is signed, so that the signature fits nothing else.
const TITLE: &str = "headstart-history-1";

/// Prints what this host has learned, signed by the key in the file at `key`.
pub fn export(key: &Path, from: Option<&str>, folder: PathBuf) -> anyhow::Result<()> {
    let key = SecretKey::read(key).map_err(|why| Usage(why.to_string()))?;
    let from = match from {
        Some(from) => from.to_owned(),
        None => rustix::system::uname().nodename().to_string_lossy().into_owned(),
    };
    let mut paths = Paths::in_folder(folder);
    let secret = paths.secret().context("the key of the history cannot be read or made")?;
    let since_1970 = wall().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let mut history = History::new(Settings::default(), secret);
    paths.load(Instant::ZERO + since_1970, &mut history);
    for note in paths.notes() {
        crate::complain!("headstart: {note}");
    }
    let learned = Learned::new(from, secret, &history);
    let body = serde_json::to_vec(&learned)?;
    // What would be refused elsewhere is not handed out.
    Learned::parse(&body).map_err(|why| Usage(format!("--from: {why}")))?;
    let signature = key.sign(&signed(&body))?;
    let digits: String = signature.iter().map(|byte| format!("{byte:02x}")).collect();
    crate::say!("{TITLE} {} {digits}\n{}", key.public()?, String::from_utf8_lossy(&body));
    Ok(())
}

/// Takes in what the file says, if the site has signed it.
pub fn import(args: &Import, folder: PathBuf) -> anyhow::Result<u8> {
    let site: PublicKey = args.site.parse().map_err(|why| Usage(format!("--site: {why}")))?;
    let name = args.file.display();
    let mut text = Vec::new();
    let file = std::fs::File::open(&args.file).map_err(|why| Usage(format!("{name}: {why}")))?;
    file.take(MOST_BYTES + 1).read_to_end(&mut text).map_err(|why| Usage(format!("{name}: {why}")))?;
    let learned = read(&text, site).map_err(|why| Usage(format!("{name}: {why}")))?;
    let (from, paths) = (learned.from.clone(), learned.paths());
    let age = learned.age().as_secs();
    Priors::in_folder(folder).add(site.to_string(), learned).map_err(|why| match why {
        PriorError::Store(why) => anyhow::Error::from(why),
        why => Coded(exit::FAILURE, format!("{name}: {why}")).into(),
    })?;
    if args.format.json {
        let object = serde_json::json!({ "from": from, "age_s": age, "paths": paths });
        output::document(1, object);
    } else {
        let what = plural(paths as u64, "path");
        crate::say!("imported: history of {from} ({what}); used by `serve` and `get` that start from now on");
    }
    Ok(exit::OK)
}

fn read(text: &[u8], site: PublicKey) -> Result<Learned, String> {
    let form = "not a signed history: `headstart history export --sign KEY` makes one";
    if text.len() as u64 > MOST_BYTES {
        return Err(format!("it is longer than {} MiB", MOST_BYTES >> 20));
    }
    let line = text.iter().position(|byte| *byte == b'\n').ok_or(form)?;
    let (head, body) = (std::str::from_utf8(&text[..line]).map_err(|_| form)?, text[line + 1..].trim_ascii_end());
    let Some((by, digits)) = head.strip_prefix(TITLE).and_then(|rest| rest.trim().split_once(' ')) else {
        return Err(form.to_owned());
    };
    let by: PublicKey = by.parse().map_err(|_| form)?;
    if by != site {
        return Err(format!("it is signed by {by}, not by the site (--site)"));
    }
    let signature = bytes(digits).ok_or(form)?;
    if !site.has_signed(&signed(body), &signature) {
        return Err("the signature is wrong: the file was changed, or not made by the site".to_owned());
    }
    Learned::parse(body).map_err(|why| why.to_string())
}

fn signed(body: &[u8]) -> Vec<u8> {
    [TITLE.as_bytes(), b"\n", body].concat()
}

fn bytes(digits: &str) -> Option<Vec<u8>> {
    let pairs = digits.as_bytes().chunks(2);
    pairs.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}

/// What other hosts have said, for people.
pub fn text(sources: &[SignedHistory]) -> String {
    let line = |source: &SignedHistory| {
        let learned = &source.learned;
        let hours = learned.age().as_secs() / 3600;
        let what = plural(learned.paths() as u64, "path");
        format!("from {} (site {}…), {hours} h old: {what}\n", learned.from, source.site.get(..8).unwrap_or_default())
    };
    sources.iter().map(line).collect()
}

/// The same for programs.
pub fn json(sources: &[SignedHistory]) -> serde_json::Value {
    let object = |source: &SignedHistory| {
        let (learned, age) = (&source.learned, source.learned.age().as_secs());
        serde_json::json!({ "from": learned.from, "site": source.site, "age_s": age, "paths": learned.paths() })
    };
    sources.iter().map(object).collect()
}
