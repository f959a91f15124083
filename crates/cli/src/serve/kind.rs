//! Content types by the endings of names (the registry of IANA; RFC 9110, section 8.3).

/// What browsers show or play, by the ending of the name in small letters.
const KINDS: &[(&str, &str)] = &[
    ("avif", "image/avif"),
    ("css", "text/css; charset=utf-8"),
    ("csv", "text/csv; charset=utf-8"),
    ("gif", "image/gif"),
    ("gz", "application/gzip"),
    ("htm", "text/html; charset=utf-8"),
    ("html", "text/html; charset=utf-8"),
    ("ico", "image/vnd.microsoft.icon"),
    ("jpeg", "image/jpeg"),
    ("jpg", "image/jpeg"),
    ("js", "text/javascript; charset=utf-8"),
    ("json", "application/json"),
    ("m3u8", "application/vnd.apple.mpegurl"),
    ("m4a", "audio/mp4"),
    ("m4s", "video/iso.segment"),
    ("md", "text/markdown; charset=utf-8"),
    ("mjs", "text/javascript; charset=utf-8"),
    ("mp3", "audio/mpeg"),
    ("mp4", "video/mp4"),
    ("mpd", "application/dash+xml"),
    ("ogg", "audio/ogg"),
    ("otf", "font/otf"),
    ("pdf", "application/pdf"),
    ("png", "image/png"),
    ("svg", "image/svg+xml"),
    ("tar", "application/x-tar"),
    ("toml", "application/toml"),
    ("ttf", "font/ttf"),
    ("txt", "text/plain; charset=utf-8"),
    ("wasm", "application/wasm"),
    ("wav", "audio/wav"),
    ("webm", "video/webm"),
    ("webp", "image/webp"),
    ("woff", "font/woff"),
    ("woff2", "font/woff2"),
    ("xml", "application/xml"),
    ("zip", "application/zip"),
    ("zst", "application/zstd"),
];

/// What nothing is known of.
const BYTES: &str = "application/octet-stream";

/// The content type of the file `name`.
pub fn of(name: &[u8]) -> &'static str {
    let ending = name.rsplit(|byte| *byte == b'.').next().filter(|ending| ending.len() < name.len());
    let Some(ending) = ending.map(<[u8]>::to_ascii_lowercase) else { return BYTES };
    KINDS.iter().find(|(known, _)| known.as_bytes() == ending).map_or(BYTES, |(_, kind)| kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ending_decides_whatever_its_case_and_no_ending_is_bytes() {
        assert_eq!(of(b"index.HTML"), "text/html; charset=utf-8");
        assert_eq!(of(b"a.tar.gz"), "application/gzip");
        assert_eq!((of(b"html"), of(b"a."), of(b""), of(b"a.unheard")), (BYTES, BYTES, BYTES, BYTES));
    }

    #[test]
    fn endings_are_in_order_and_none_is_there_twice() {
        assert!(KINDS.windows(2).all(|pair| pair[0].0 < pair[1].0));
    }
}
