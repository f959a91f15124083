//! The path of an HTTP request as the names of folders and files that it leads through (RFC 3986, section 3.3; RFC 9110,
//! section 4.2).
//!
//! Nothing that is returned here can lead out of the folder that it is looked up in: there is no `..`, no separator and no
//! NUL inside a name, and no hidden file. Links are not seen here: the caller that opens the path has to refuse them.

/// Where a request leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The names, decoded, from the root on.
    pub names: Vec<Vec<u8>>,
    /// Whether the path ends in a slash, or is the root: it means a folder.
    pub is_folder: bool,
}

/// Why a path leads nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// It is not absolute.
    #[error("the path does not begin with a slash")]
    NotAbsolute,
    /// A percent sign without two hexadecimal digits, or a NUL or slash behind it.
    #[error("the path contains an invalid character")]
    Malformed,
    /// `.` or `..`, however written: browsers and programs have resolved them before they ask.
    #[error("the path leaves the folder")]
    Upwards,
    /// A name that begins with a dot.
    #[error("the path leads to a hidden file")]
    Hidden,
}

/// Reads the path of a request target, without its query.
pub fn parse(path: &[u8]) -> Result<Target, Refused> {
    let rest = path.strip_prefix(b"/").ok_or(Refused::NotAbsolute)?;
    let is_folder = rest.is_empty() || rest.ends_with(b"/");
    // Two slashes are one, as for the kernel.
    let names = rest.split(|b| *b == b'/').filter(|name| !name.is_empty());
    let names: Vec<Vec<u8>> = names.map(name).collect::<Result<_, _>>()?;
    Ok(Target { names, is_folder })
}

fn name(encoded: &[u8]) -> Result<Vec<u8>, Refused> {
    let decoded = decode(encoded).ok_or(Refused::Malformed)?;
    match &decoded[..] {
        b"." | b".." => Err(Refused::Upwards),
        bytes if bytes.contains(&0) || bytes.contains(&b'/') => Err(Refused::Malformed),
        [b'.', ..] => Err(Refused::Hidden),
        _ => Ok(decoded),
    }
}

fn decode(encoded: &[u8]) -> Option<Vec<u8>> {
    let digit = |byte: Option<&u8>| char::from(*byte?).to_digit(16);
    let mut decoded = Vec::with_capacity(encoded.len());
    let mut bytes = encoded.iter();
    while let Some(byte) = bytes.next() {
        decoded.push(match byte {
            b'%' => u8::try_from(digit(bytes.next())? * 16 + digit(bytes.next())?).ok()?,
            byte => *byte,
        });
    }
    Some(decoded)
}

/// A name as it is written in a path: all but unreserved characters (RFC 3986, section 2.3) behind a percent sign.
pub fn encode(name: &[u8]) -> String {
    use std::fmt::Write as _;
    let mut encoded = String::with_capacity(name.len());
    for byte in name {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => encoded.push(char::from(*byte)),
            byte => _ = write!(encoded, "%{byte:02X}"),
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn names(path: &str) -> Result<(Vec<String>, bool), Refused> {
        let text = |name: &Vec<u8>| String::from_utf8_lossy(name).into_owned();
        parse(path.as_bytes()).map(|target| (target.names.iter().map(text).collect(), target.is_folder))
    }

    #[test]
    fn names_are_decoded_and_folders_are_told_apart() {
        assert_eq!(names("/"), Ok((vec![], true)));
        assert_eq!(names("/a/b%20c.txt"), Ok((vec!["a".into(), "b c.txt".into()], false)));
        assert_eq!(names("//a//b/"), Ok((vec!["a".into(), "b".into()], true)));
        assert_eq!(names("/%C3%A4"), Ok((vec!["ä".into()], false)));
    }

    #[test]
    fn no_spelling_leads_upwards_or_to_hidden_files() {
        for path in ["/..", "/a/../b", "/%2e%2e/x", "/.%2E", "/a/.", "/%2e/b"] {
            assert_eq!(names(path), Err(Refused::Upwards), "{path}");
        }
        for path in ["/.ssh/id", "/a/%2ehidden", "/...", "/.well-known/x"] {
            assert_eq!(names(path), Err(Refused::Hidden), "{path}");
        }
        for path in ["/a%2fb", "/..%2fb", "/%00", "/%", "/%4", "/%zz", "/%+1"] {
            assert_eq!(names(path), Err(Refused::Malformed), "{path}");
        }
        for path in ["", "a", "http://x/", "*"] {
            assert_eq!(names(path), Err(Refused::NotAbsolute), "{path}");
        }
    }

    proptest! {
        #[test]
        fn whatever_is_asked_every_name_stays_in_its_folder(path in proptest::collection::vec(any::<u8>(), 0..60)) {
            if let Ok(target) = parse(&path) {
                for name in &target.names {
                    prop_assert!(!name.is_empty() && name[0] != b'.' && !name.contains(&b'/') && !name.contains(&0));
                }
            }
        }

        #[test]
        fn any_name_that_is_not_hidden_is_found_again(name in "[^/.\0][^/\0]{0,20}") {
            let path = format!("/{}", encode(name.as_bytes()));
            let target = Target { names: vec![name.into_bytes()], is_folder: false };
            prop_assert_eq!(parse(path.as_bytes()), Ok(target));
        }
    }
}
