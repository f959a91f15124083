//! What is in a folder, as a small page.

use headstart_core::wire::target;
use maud::{DOCTYPE, html};

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
