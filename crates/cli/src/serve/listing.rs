//! What is in a folder, as a small page.

use headstart_core::wire::target;
use std::fmt::Write as _;

/// What a folder holds.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    /// Its name.
    pub name: Vec<u8>,
    /// Its length in bytes; `None` for a folder.
    pub length: Option<u64>,
}

/// The most entries that are shown; a page of more is of no use to a reader.
pub const MOST: usize = 10_000;

/// The page of the folder that is reached by `path`. `more`: there are others that are not shown.
pub fn page(path: &str, mut entries: Vec<Entry>, more: bool) -> String {
    entries.sort();
    let path = escaped(path);
    let mut page = format!(
        "<!doctype html><html><head><meta charset=\"utf-8\"><title>{path}</title></head>\n<body><h1>{path}</h1>\n<ul>\n"
    );
    if path != "/" {
        page += "<li><a href=\"../\">../</a></li>\n";
    }
    for entry in entries {
        let (href, name) = (target::encode(&entry.name), escaped(&String::from_utf8_lossy(&entry.name)));
        let _ = match entry.length {
            // A name with a colon would be a scheme without the point (RFC 3986, section 4.2); ours has it encoded.
            Some(length) => writeln!(page, "<li><a href=\"{href}\">{name}</a> {length}</li>"),
            None => writeln!(page, "<li><a href=\"{href}/\">{name}/</a></li>"),
        };
    }
    if more {
        let _ = writeln!(page, "<li>and others: only {MOST} are shown</li>");
    }
    page += "</ul></body></html>\n";
    page
}

fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped += "&amp;",
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            '"' => escaped += "&quot;",
            '\'' => escaped += "&#39;",
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str, length: Option<u64>) -> Entry {
        Entry { name: name.into(), length }
    }

    #[test]
    fn names_are_sorted_and_nothing_in_them_is_markup() {
        let page = page("/a<b/", vec![entry("z", None), entry("\"><script>", Some(5)), entry("a:b", Some(1))], true);
        let lines: Vec<&str> = page.lines().collect();
        assert_eq!(lines[3], "<li><a href=\"../\">../</a></li>");
        assert_eq!(lines[4], "<li><a href=\"%22%3E%3Cscript%3E\">&quot;&gt;&lt;script&gt;</a> 5</li>");
        assert_eq!(lines[5], "<li><a href=\"a%3Ab\">a:b</a> 1</li>");
        assert_eq!(lines[6], "<li><a href=\"z/\">z/</a></li>");
        assert!(!page.contains("<script") && page.contains("<h1>/a&lt;b/</h1>") && page.contains("and others"));
    }
}
