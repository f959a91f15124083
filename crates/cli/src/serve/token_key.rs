//! `--token-key`: keys that the servers of a site have in common, by which clients carry records of paths from one to the next
//! (docs/decisions/0134).
//!
//! The first key seals, and each opens: so a key is replaced without a moment in which servers refuse each other's tokens.

use crate::exit::Usage;
use headstart_io::store::shared::site_key_of;
use quinn::crypto::{AeadKey, CryptoError, HandshakeTokenKey};
use ring::hkdf::{HKDF_SHA256, Prk, Salt};
use std::path::PathBuf;

/// The keys of a site, the one that seals first.
#[derive(Debug)]
pub struct Keys(Vec<Prk>);

impl Keys {
    /// Those in these files; `None` if there are none.
    pub fn read(files: &[PathBuf]) -> Result<Option<Self>, Usage> {
        let key = |file: &PathBuf| {
            let key = site_key_of(file).map_err(|why| Usage(format!("--token-key {}: {why}", file.display())))?;
            // Derived for this alone: the same file may seal records in a store.
            Ok(Salt::new(HKDF_SHA256, b"headstart tokens of QUIC").extract(&key))
        };
        let keys = files.iter().map(key).collect::<Result<Vec<_>, _>>()?;
        Ok((!keys.is_empty()).then_some(Self(keys)))
    }
}

impl HandshakeTokenKey for Keys {
    fn aead_from_hkdf(&self, random_bytes: &[u8]) -> Box<dyn AeadKey> {
        Box::new(OfToken(self.0.iter().map(|key| key.aead_from_hkdf(random_bytes)).collect()))
    }
}

/// What each key makes of the name of a token.
struct OfToken(Vec<Box<dyn AeadKey>>);

impl AeadKey for OfToken {
    fn seal(&self, data: &mut Vec<u8>, additional_data: &[u8]) -> Result<(), CryptoError> {
        self.0.first().ok_or(CryptoError)?.seal(data, additional_data)
    }

    fn open<'a>(&self, data: &'a mut [u8], additional_data: &[u8]) -> Result<&'a mut [u8], CryptoError> {
        // On a copy: a wrong key leaves nothing of what it was given.
        let key = self.0.iter().find(|key| key.open(&mut data.to_vec(), additional_data).is_ok());
        key.ok_or(CryptoError)?.open(data, additional_data)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    /// A file with a key of this digit, which is gone with the test.
    fn file(digit: char) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), digit.to_string().repeat(64)).unwrap();
        std::fs::set_permissions(file.path(), std::fs::Permissions::from_mode(0o600)).unwrap();
        file
    }

    fn keys(files: &[&tempfile::NamedTempFile]) -> Keys {
        let files: Vec<_> = files.iter().map(|file| file.path().to_owned()).collect();
        Keys::read(&files).unwrap().unwrap()
    }

    fn sealed(by: &Keys) -> Vec<u8> {
        let mut token = b"token".to_vec();
        by.aead_from_hkdf(&[1; 16]).seal(&mut token, b"more").unwrap();
        token
    }

    fn opened(by: &Keys, mut token: Vec<u8>) -> Option<Vec<u8>> {
        by.aead_from_hkdf(&[1; 16]).open(&mut token, b"more").ok().map(|plain| plain.to_vec())
    }

    #[test]
    fn a_key_is_replaced_in_three_steps_and_no_server_ever_refuses_another_s_token() {
        let (old, new) = (file('a'), file('b'));
        let steps = [&[&old][..], &[&old, &new], &[&new, &old], &[&new]].map(keys);
        for two in steps.windows(2) {
            for (from, to) in [(0, 1), (1, 0), (0, 0), (1, 1)] {
                assert_eq!(opened(&two[to], sealed(&two[from])).as_deref(), Some(&b"token"[..]), "{from} to {to}");
            }
        }
        assert_eq!(opened(&steps[3], sealed(&steps[0])), None, "the old key is gone");
        assert_eq!(opened(&steps[0], sealed(&steps[2])), None, "the first seals");
    }

    #[test]
    fn without_files_there_are_no_keys() {
        assert!(Keys::read(&[]).unwrap().is_none());
    }
}
