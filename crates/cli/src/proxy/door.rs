//! Access to the proxy: names and passwords in the Basic scheme (RFC 7617).
//!
//! What a client says is compared by tags of a keyed hash, with all that are known and in constant time, so that how long an
//! answer takes tells nothing of names or passwords. Passwords are not kept; the scheme hides nothing on the way, so that other hosts
//! should come through a tunnel.

use crate::exit::Usage;
use crate::input;
use anyhow::Context as _;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::header::HeaderValue;
use ring::hmac::{self, HMAC_SHA256};
use ring::rand::SystemRandom;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// What a client is asked for.
pub const CHALLENGE: HeaderValue = HeaderValue::from_static("Basic realm=\"headstart proxy\", charset=\"UTF-8\"");

/// See the module.
pub struct Door {
    /// The key of this run, and the tag of each `NAME:PASSWORD`; none where all clients are admitted.
    known: Option<(hmac::Key, Vec<hmac::Tag>)>,
}

impl Door {
    /// All clients are admitted.
    pub fn open() -> Self {
        Self { known: None }
    }

    /// Those of a file may.
    pub fn read(file: &Path) -> anyhow::Result<Self> {
        let shown = file.display();
        let text = input::text(file, input::MOST).map_err(|e| Usage(format!("{shown}: {e}")))?;
        if std::fs::metadata(file)?.permissions().mode() & 0o077 != 0 {
            let what = format!("{shown} contains passwords but other users can read it: chmod 600 {shown}");
            return Err(Usage(what).into());
        }
        Self::of(&text).with_context(|| shown.to_string())
    }

    fn of(text: &str) -> anyhow::Result<Self> {
        let key =
            hmac::Key::generate(HMAC_SHA256, &SystemRandom::new()).map_err(|_| anyhow::anyhow!("no random bytes"))?;
        let mut tags = Vec::new();
        for (n, line) in text.lines().enumerate().filter(|(_, line)| !line.is_empty()) {
            match line.split_once(':') {
                Some((name, password)) if !name.is_empty() && !password.is_empty() => {
                    tags.push(hmac::sign(&key, line.as_bytes()));
                }
                _ => return Err(Usage(format!("line {}: must be NAME:PASSWORD", n + 1)).into()),
            }
        }
        if tags.is_empty() {
            return Err(Usage("the file lists no users: each line must be NAME:PASSWORD".into()).into());
        }
        Ok(Self { known: Some((key, tags)) })
    }

    /// The number of the user whose name and password are in this header (`Proxy-Authorization`); none if there is no such user.
    /// Where all clients are admitted, they are user 0.
    pub fn user(&self, said: Option<&[u8]>) -> Option<usize> {
        let Some((key, tags)) = &self.known else { return Some(0) };
        let said = said.and_then(credentials).unwrap_or_default();
        // All are compared, even after a match.
        let all = tags.iter().enumerate();
        all.fold(None, |found, (n, tag)| found.or(hmac::verify(key, &said, tag.as_ref()).is_ok().then_some(n)))
    }

    /// Whether all clients are admitted.
    pub fn is_open(&self) -> bool {
        self.known.is_none()
    }

    /// How many users there are; one where all clients are admitted.
    pub fn users(&self) -> usize {
        self.known.as_ref().map_or(1, |(_, tags)| tags.len())
    }
}

/// `NAME:PASSWORD` in a header of the Basic scheme.
fn credentials(header: &[u8]) -> Option<Vec<u8>> {
    const SCHEME: &[u8] = b"basic ";
    let (scheme, rest) = header.split_at_checked(SCHEME.len())?;
    scheme.eq_ignore_ascii_case(SCHEME).then(|| STANDARD.decode(rest.trim_ascii()).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn basic(pair: &str) -> Vec<u8> {
        format!("Basic {}", STANDARD.encode(pair)).into_bytes()
    }

    #[test]
    fn who_is_listed_comes_in_and_nobody_else() {
        let door = Door::of("ann:se:cret\n\nbob:x\n").unwrap();
        assert_eq!((door.user(Some(&basic("ann:se:cret"))), door.user(Some(&basic("bob:x")))), (Some(0), Some(1)));
        assert_eq!(door.users(), 2);
        assert!(door.user(Some(b"bAsIc  Ym9iOng=")).is_some(), "the scheme's case says nothing");
        for wrong in ["ann:se", "ann:x", "bob:", ":", "", "bob:x\n", "BOB:x"] {
            assert_eq!(door.user(Some(&basic(wrong))), None, "{wrong:?}");
        }
        for none in [None, Some(&b"Basic"[..]), Some(b"Bearer Ym9iOng=")] {
            assert_eq!(door.user(none), None);
        }
        assert_eq!((Door::open().user(None), Door::open().users()), (Some(0), 1));
    }

    #[test]
    fn a_list_that_is_none_is_told_with_its_line() {
        for (text, why) in [("ann:x\nbob", "line 2"), (":x", "line 1"), ("ann:", "line 1"), ("\n", "no users")] {
            let told = Door::of(text).err().map(|e| e.to_string()).unwrap_or_default();
            assert!(told.contains(why), "{text:?}: {told}");
        }
    }

    proptest! {
        #[test]
        fn any_header_is_let_in_only_if_it_says_what_is_listed(header in proptest::collection::vec(any::<u8>(), 0..60)) {
            let door = Door::of("ann:secret").unwrap();
            let says = credentials(&header).is_some_and(|said| said == b"ann:secret");
            prop_assert_eq!(door.user(Some(&header)).is_some(), says);
        }
    }
}
