//! Content types by the endings of names (RFC 9110, section 8.3): those of the crate mime_guess, but where the registry of IANA has
//! moved on since.

use std::borrow::Cow;

/// What mime_guess does not know, or by a name that is out of date, by the ending of the name in small letters.
const NEWER: &[(&str, &str)] = &[
    ("ico", "image/vnd.microsoft.icon"),
    ("m3u8", "application/vnd.apple.mpegurl"),
    ("m4a", "audio/mp4"),
    ("m4s", "video/iso.segment"),
    ("mjs", "text/javascript; charset=utf-8"),
    ("otf", "font/otf"),
    ("toml", "application/toml"),
    ("ts", "video/mp2t"),
    ("woff", "font/woff"),
    // A document in XML says itself how it is encoded, which a charset here would overrule.
    ("xml", "application/xml"),
    ("yaml", "application/yaml"),
    ("zst", "application/zstd"),
];

/// Where the type is unknown.
const BYTES: &str = "application/octet-stream";

/// The content type of the file `name`. Text is in UTF-8.
pub fn of(name: &[u8]) -> Cow<'static, str> {
    let ending = name.rsplit(|byte| *byte == b'.').next().filter(|ending| ending.len() < name.len());
    let Some(Ok(ending)) = ending.map(|ending| std::str::from_utf8(ending)) else { return BYTES.into() };
    if let Some((_, kind)) = NEWER.iter().find(|(known, _)| known.eq_ignore_ascii_case(ending)) {
        return (*kind).into();
    }
    match mime_guess::from_ext(ending).first_raw() {
        Some(kind) if kind.starts_with("text/") => format!("{kind}; charset=utf-8").into(),
        kind => kind.unwrap_or(BYTES).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ending_decides_whatever_its_case_and_no_ending_is_bytes() {
        assert_eq!(of(b"index.HTML"), "text/html; charset=utf-8");
        assert_eq!(of(b"a.tar.gz"), "application/gzip");
        assert_eq!((of(b"a.ZST"), of(b"a.wasm")), ("application/zstd".into(), "application/wasm".into()));
        for unknown in [&b"html"[..], b"a.", b"", b"a.unheard", b"a.\xff"] {
            assert_eq!(of(unknown), BYTES);
        }
    }

    #[test]
    fn each_entry_of_ours_says_what_the_crate_does_not() {
        for (ending, kind) in NEWER {
            assert_ne!(mime_guess::from_ext(ending).first_raw(), Some(*kind), "{ending} is superfluous");
        }
    }
}
