//! What is in a folder, as a small page.

use headstart_core::wire::target;
use hyper::body::Bytes;
use maud::{DOCTYPE, html};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What a folder holds.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FolderEntry {
    /// Its name.
    pub name: Vec<u8>,
    /// Its length in bytes; `None` for a folder.
    pub length: Option<u64>,
}

/// The most entries that are shown; a longer page does not help a reader.
pub const MOST: usize = 10_000;

/// Bytes of pages at most that are being sent: each is made anew, and a client may take its time. Ours.
const ROOM: usize = 32 << 20;

/// Counts the pages that are being sent.
#[derive(Debug, Default)]
pub struct Pages(Arc<AtomicUsize>);

/// A page that is counted until it is dropped.
struct Page {
    text: String,
    held: Arc<AtomicUsize>,
}

impl Pages {
    /// The page, to be sent; `None` if there are too many.
    pub fn hold(&self, text: String) -> Option<Bytes> {
        let page = Page { held: Arc::clone(&self.0), text };
        let before = page.held.fetch_add(page.text.len(), Ordering::Relaxed);
        (before + page.text.len() <= ROOM).then(|| Bytes::from_owner(page))
    }
}

impl AsRef<[u8]> for Page {
    fn as_ref(&self) -> &[u8] {
        self.text.as_bytes()
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        self.held.fetch_sub(self.text.len(), Ordering::Relaxed);
    }
}

/// The page of the folder that is reached by `path`. `more`: there are others that are not shown.
pub fn page(path: &str, mut entries: Vec<FolderEntry>, more: bool) -> String {
    entries.sort();
    let page = html! {
        (DOCTYPE)
        html {
            head { meta charset="utf-8"; title { (path) } }
            body {
                h1 { (path) }
                ul {
                    @if path != "/" { li { a href="../" { "../" } } }
                    @for FolderEntry { name, length } in &entries {
                        // A name with a colon would be a scheme without the point (RFC 3986, section 4.2); ours has it encoded.
                        @let (href, name) = (target::encode(name), String::from_utf8_lossy(name));
                        @match length {
                            Some(length) => li { a href=(href) { (name) } " " (length) },
                            None => li { a href={ (href) "/" } { (name) "/" } },
                        }
                    }
                    @if more { li { "and others: only " (MOST) " are shown" } }
                }
            }
        }
    };
    page.into_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str, length: Option<u64>) -> FolderEntry {
        FolderEntry { name: name.into(), length }
    }

    #[test]
    fn pages_that_are_sent_have_so_much_room_and_give_it_back() {
        let pages = Pages::default();
        let third = || pages.hold("x".repeat(ROOM / 3));
        let held = [third(), third(), third()].map(Option::unwrap);
        assert!(third().is_none() && third().is_none() && pages.hold("one".into()).is_none());
        let part = held[0].slice(5..9);
        drop(held);
        assert!(pages.hold("x".repeat(ROOM)).is_none(), "some of it is still sent");
        drop(part);
        assert!(pages.hold("x".repeat(ROOM)).is_some());
    }

    #[test]
    fn names_are_sorted_and_nothing_in_them_is_markup() {
        let page = page("/a<b/", vec![entry("z", None), entry("\"><script>", Some(5)), entry("a:b", Some(1))], true);
        let lines: Vec<&str> = page.split("<li>").skip(1).map(|line| line.split_once("</li>").unwrap().0).collect();
        assert_eq!(lines[0], "<a href=\"../\">../</a>");
        assert_eq!(lines[1], "<a href=\"%22%3E%3Cscript%3E\">&quot;&gt;&lt;script&gt;</a> 5");
        assert_eq!(lines[2], "<a href=\"a%3Ab\">a:b</a> 1");
        assert_eq!(lines[3], "<a href=\"z/\">z/</a>");
        assert!(!page.contains("<script") && page.contains("<h1>/a&lt;b/</h1>") && page.contains("and others"));
    }
}
