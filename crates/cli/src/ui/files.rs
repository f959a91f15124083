//! The page's files, which are part of this command: no framework, and uPlot for charts (MIT, version in `page/uplot.js`).

use crate::web::Answer;

/// A file.
#[derive(Debug)]
pub struct File {
    /// Its path on the server.
    pub path: &'static str,
    media_type: &'static str,
    bytes: &'static [u8],
}

const JS: &str = "text/javascript; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";

/// All of them.
pub const ALL: &[File] = &[
    File { path: "/", media_type: "text/html; charset=utf-8", bytes: include_bytes!("page/index.html") },
    File { path: "/style.css", media_type: CSS, bytes: include_bytes!("page/style.css") },
    File { path: "/app.js", media_type: JS, bytes: include_bytes!("page/app.js") },
    File { path: "/parts.js", media_type: JS, bytes: include_bytes!("page/parts.js") },
    File { path: "/views.js", media_type: JS, bytes: include_bytes!("page/views.js") },
    File { path: "/lab.js", media_type: JS, bytes: include_bytes!("page/lab.js") },
    File { path: "/lanes.js", media_type: JS, bytes: include_bytes!("page/lanes.js") },
    File { path: "/messages.js", media_type: JS, bytes: include_bytes!("page/messages.js") },
    File { path: "/spread.js", media_type: JS, bytes: include_bytes!("page/spread.js") },
    File { path: "/strip.js", media_type: JS, bytes: include_bytes!("page/strip.js") },
    File { path: "/trend.js", media_type: JS, bytes: include_bytes!("page/trend.js") },
    File { path: "/story.js", media_type: JS, bytes: include_bytes!("page/story.js") },
    File { path: "/uplot.js", media_type: JS, bytes: include_bytes!("page/uplot.js") },
    File { path: "/uplot.css", media_type: CSS, bytes: include_bytes!("page/uplot.css") },
    File { path: "/icon.svg", media_type: "image/svg+xml", bytes: include_bytes!("page/icon.svg") },
    File { path: "/licences.txt", media_type: "text/plain; charset=utf-8", bytes: include_bytes!("page/licences.txt") },
];

/// The file at a path.
pub fn find(path: &str) -> Option<Answer> {
    let file = ALL.iter().find(|file| file.path == path)?;
    Some(Answer::of(file.media_type, file.bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes of the whole page over the wire, at most.
    const MOST: usize = 250_000;

    #[test]
    fn the_page_is_small_and_names_no_other_host() {
        let all: usize = ALL.iter().map(|file| file.bytes.len()).sum();
        assert!(all <= MOST, "{all} bytes");
        for file in ALL.iter().filter(|file| file.path != "/licences.txt" && !file.path.starts_with("/uplot")) {
            let text = std::str::from_utf8(file.bytes).unwrap().replace("http://www.w3.org/2000/svg", "");
            for word in ["http://", "https://", "innerHTML", "eval(", "style=\"", "onclick="] {
                assert!(!text.contains(word), "{}: {word}", file.path);
            }
        }
    }
}
