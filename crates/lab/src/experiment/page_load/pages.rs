//! Where the pages of `page-load` come from: the generator, or what `--pages` names.

use crate::experiment::{Context, Outcome};
use crate::page::recording::{self, Exchange};
use crate::page::{Page, Protocol, spec, synthetic};
use anyhow::Context as _;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The file of a folder of recordings that says where each begins: `{"NAME": {"root": "http://..."}}`.
const MANIFEST: &str = "manifest.json";

/// Pages of one kind.
pub struct PageSet {
    /// Behind the name of a network in the names of conditions.
    pub suffix: &'static str,
    pub pages: Vec<Page>,
    /// In how many worlds each is loaded.
    pub seeds: u64,
    /// Whose they are, for people.
    pub whose: String,
}

/// The pages that this run is about; what is broken is noted, and the rest goes on.
pub fn sources(cx: &Context, outcome: &mut Outcome) -> anyhow::Result<Vec<PageSet>> {
    let seeds = if cx.quick { 1 } else { 3 };
    let Some(path) = &cx.pages else {
        let count = if cx.quick { 5 } else { 120 };
        let pages: Vec<Page> = synthetic::pages(cx.seed, count).collect();
        return Ok(vec![PageSet { suffix: "", pages, seeds, whose: format!("{count} pages of the generator") }]);
    };
    let most = if cx.quick { 5 } else { 240 };
    let mut sources = Vec::new();
    let specs = if path.is_dir() { path.join("specs.jsonl") } else { path.clone() };
    if specs.is_file() {
        let (mut pages, broken) = spec::read(&specs)?;
        outcome.notes.extend(broken.iter().map(|e| format!("left out: {e}")));
        // Pages of one site can be near copies: one of each.
        let mut sites = BTreeSet::new();
        pages.retain(|p| sites.insert(p.site.clone()));
        // Every so many, so that a quick run has not the first of the alphabet only.
        let every = pages.len().div_ceil(most).max(1);
        let pages: Vec<Page> = pages.into_iter().step_by(every).collect();
        let broken = broken.len();
        anyhow::ensure!(
            !pages.is_empty(),
            "{} has no page that can be loaded: {broken} lines are broken",
            specs.display()
        );
        sources.push(PageSet {
            suffix: "-specs",
            whose: format!("{} page specs, one a site", pages.len()),
            pages,
            seeds,
        });
    }
    let folder = path.join("recorded");
    if folder.join(MANIFEST).is_file() {
        let pages = recorded(&folder, cx.seed, if cx.quick { 4 } else { most }, outcome)?;
        let whose = format!("{} recorded pages over HTTP/1.1, hosts at distances of the generator's", pages.len());
        sources.push(PageSet { suffix: "-recorded", pages, seeds, whose });
    }
    anyhow::ensure!(!sources.is_empty(), "{} holds neither specs.jsonl nor recorded/{MANIFEST}", path.display());
    Ok(sources)
}

/// A recording: its name, where it begins, and its exchanges.
pub struct Recording {
    pub name: String,
    pub root: String,
    pub exchanges: Vec<Exchange>,
}

/// Reads the recordings of a folder, in the order of their names; broken ones are noted.
pub fn recordings(folder: &Path, outcome: &mut Outcome) -> anyhow::Result<Vec<Recording>> {
    let file = folder.join(MANIFEST);
    let text = fs::read(&file).with_context(|| format!("reading {}", file.display()))?;
    let manifest: serde_json::Value =
        serde_json::from_slice(&text).with_context(|| format!("{} is not JSON", file.display()))?;
    let sites = manifest.as_object().with_context(|| format!("{} is not a JSON object", file.display()))?;
    let mut recordings = Vec::new();
    for (name, about) in sites {
        let place: PathBuf = folder.join(name);
        let root = about["root"].as_str().map(str::to_owned);
        match (root, recording::read(&place)) {
            (Some(root), Ok((exchanges, broken))) => {
                outcome.notes.extend(broken.iter().map(|e| format!("left out: {e}")));
                recordings.push(Recording { name: name.clone(), root, exchanges });
            }
            (None, _) => outcome.notes.push(format!("left out: {}, {name:?} has no root", file.display())),
            (_, Err(e)) => outcome.notes.push(format!("left out: {e}")),
        }
    }
    Ok(recordings)
}

fn recorded(folder: &Path, seed: u64, most: usize, outcome: &mut Outcome) -> anyhow::Result<Vec<Page>> {
    let mut pages = Vec::new();
    for (n, Recording { name, root, exchanges }) in recordings(folder, outcome)?.into_iter().enumerate().take(most) {
        let Some(mut page) = recording::page(&name, &exchanges, &root, Protocol::Http1) else {
            outcome.notes.push(format!("left out: nothing was recorded of {root}, the first page of {name}"));
            continue;
        };
        far(&mut page, seed.wrapping_add(n as u64));
        pages.push(page);
    }
    anyhow::ensure!(!pages.is_empty(), "{} has no recording that can be loaded", folder.display());
    Ok(pages)
}

/// No distance is in a recording: hosts get those of the generator.
pub fn far(page: &mut Page, seed: u64) {
    let mut rng = fastrand::Rng::with_seed(seed);
    for host in &mut page.hosts {
        host.leg = synthetic::leg(&mut rng, host.own);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::recording::{Message, Scheme, write};

    fn exchange(target: &str) -> Exchange {
        let message = |line: String, fields| Message { first_line: line.into_bytes(), fields, body: Vec::new() };
        Exchange {
            ip: "198.19.0.1".parse().unwrap(),
            port: 80,
            scheme: Scheme::Http,
            request: message(format!("GET {target} HTTP/1.1"), vec![(b"Host".to_vec(), b"a.example".to_vec())]),
            response: message("HTTP/1.1 200 OK".into(), Vec::new()),
        }
    }

    #[test]
    fn a_folder_with_recordings_is_read_and_what_is_broken_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let recorded = dir.path().join("recorded");
        for name in ["good", "empty"] {
            fs::create_dir_all(recorded.join(name)).unwrap();
        }
        write(&recorded.join("good"), 0, &exchange("/")).unwrap();
        fs::write(recorded.join("good/save.broken"), [9]).unwrap();
        let manifest = r#"{"good": {"root": "http://a.example/"}, "empty": {"root": "http://b.example/"}, "odd": {}}"#;
        fs::write(recorded.join(MANIFEST), manifest).unwrap();
        let cx = Context { quick: true, pages: Some(dir.path().into()), ..Context::new(1) };
        let mut outcome = Outcome::new("page-load", 1);
        let sources = sources(&cx, &mut outcome).unwrap();
        assert_eq!((sources.len(), sources[0].suffix, sources[0].pages.len()), (1, "-recorded", 1));
        let notes = outcome.notes.join("\n");
        for told in ["save.broken", "empty", "odd"] {
            assert!(notes.contains(told), "{notes}");
        }
        let nothing = Context { pages: Some(dir.path().join("nowhere")), ..Context::new(1) };
        let Err(e) = super::sources(&nothing, &mut outcome) else { panic!("pages out of nothing") };
        assert!(e.to_string().contains("neither specs.jsonl nor"), "{e}");
    }
}
