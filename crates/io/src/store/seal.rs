//! What makes the store tell nothing by itself: names and addresses are found by keyed digests and written down sealed.
//!
//! SipHash-2-4-128 under one half of the key, XChaCha20-Poly1305 (RFC 8439 with the longer nonce of
//! draft-irtf-cfrg-xchacha) under the other. A reader of the store without its key learns how many records there are
//! and how long; without the key a store is worth nothing, so forgetting the key forgets everything.

use chacha20poly1305::aead::{Aead, Payload};
use chacha20poly1305::{KeyInit, XChaCha20Poly1305, XNonce};
use siphasher::sip128::SipHasher24;
use std::fmt;
use std::io;

/// Bytes of a key.
pub const KEY: usize = 48;
/// Bytes of a digest.
pub const DIGEST: usize = 16;
const NONCE: usize = 24;

/// Bytes of a key that the servers of a site share.
pub const SITE_KEY: usize = 32;
/// Makes keys out of a site's key: a nonce that nothing else is sealed with.
const KEYS_OF_SITE: &[u8; NONCE] = b"headstart-store-keys-v1.";

/// What stands for something in the store.
pub type Digest = [u8; DIGEST];

/// A key, ready to be used.
pub struct Seal {
    digests: SipHasher24,
    cipher: XChaCha20Poly1305,
}

impl fmt::Debug for Seal {
    /// Keeps the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Seal")
    }
}

impl Seal {
    /// The seal with the key `bytes`; `None` if that is no key.
    pub fn new(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; KEY] = bytes.try_into().ok()?;
        let (digests, cipher) = bytes.split_first_chunk::<16>()?;
        let cipher: [u8; 32] = cipher.try_into().ok()?;
        Some(Self {
            digests: SipHasher24::new_with_key(digests),
            cipher: XChaCha20Poly1305::new(&chacha20poly1305::Key::from(cipher)),
        })
    }

    /// The seal of a site, and 16 bytes for the names of what is sealed: the key stream of the site's key.
    pub fn of_site(key: &[u8; SITE_KEY]) -> Option<(Self, [u8; 16])> {
        let cipher = XChaCha20Poly1305::new(&chacha20poly1305::Key::from(*key));
        let stream = cipher.encrypt(&XNonce::from(*KEYS_OF_SITE), &[0; KEY + 16][..]).ok()?;
        let (seal, rest) = stream.split_first_chunk::<KEY>()?;
        Some((Self::new(seal)?, *rest.first_chunk()?))
    }

    /// A fresh random key.
    pub fn fresh_key() -> io::Result<[u8; KEY]> {
        let mut key = [0; KEY];
        fill(&mut key)?;
        Ok(key)
    }

    /// What stands for `what`.
    pub fn digest(&self, what: &[u8]) -> Digest {
        self.digests.hash(what).as_bytes()
    }

    /// Seals `plain` for the place `digest`: nowhere else can it be opened.
    pub fn close(&self, digest: &Digest, plain: &[u8]) -> io::Result<Vec<u8>> {
        let mut nonce = [0; NONCE];
        fill(&mut nonce)?;
        let sealed = self.cipher.encrypt(&XNonce::from(nonce), Payload { msg: plain, aad: digest });
        // Only texts of more than 256 GB cannot be sealed.
        let sealed = sealed.map_err(|_| io::Error::other("the record cannot be sealed"))?;
        Ok([&nonce[..], &sealed].concat())
    }

    /// What was sealed for the place `digest`; `None` if `sealed` is not from this key, not for this place or not whole.
    pub fn open(&self, digest: &Digest, sealed: &[u8]) -> Option<Vec<u8>> {
        let (nonce, sealed) = sealed.split_first_chunk::<NONCE>()?;
        self.cipher.decrypt(&XNonce::from(*nonce), Payload { msg: sealed, aad: digest }).ok()
    }
}

fn fill(bytes: &mut [u8]) -> io::Result<()> {
    let mut done = 0;
    while done < bytes.len() {
        done += rustix::rand::getrandom(&mut bytes[done..], rustix::rand::GetRandomFlags::empty())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn seal(n: u8) -> Seal {
        Seal::new(&[n; KEY]).unwrap()
    }

    #[test]
    fn what_is_sealed_opens_in_its_place_with_its_key_and_nowhere_else() {
        let (here, there) = (seal(1).digest(b"here"), seal(1).digest(b"there"));
        let sealed = seal(1).close(&here, b"www.example.org").unwrap();
        assert_eq!(seal(1).open(&here, &sealed).as_deref(), Some(&b"www.example.org"[..]));
        assert_eq!((seal(1).open(&there, &sealed), seal(2).open(&here, &sealed)), (None, None));
        assert!(!sealed.windows(7).any(|w| w == b"example"));
        assert_ne!(seal(1).close(&here, b"www.example.org").unwrap(), sealed, "never the same twice");
    }

    #[test]
    fn sites_have_their_own_seals_and_names() {
        let (seal, names) = Seal::of_site(&[1; SITE_KEY]).unwrap();
        let (again, same) = Seal::of_site(&[1; SITE_KEY]).unwrap();
        let (other, others) = Seal::of_site(&[2; SITE_KEY]).unwrap();
        let place = seal.digest(b"x");
        let sealed = seal.close(&place, b"record").unwrap();
        assert_eq!((again.open(&place, &sealed).as_deref(), other.open(&place, &sealed)), (Some(&b"record"[..]), None));
        assert!(names == same && names != others && names != [0; 16]);
    }

    #[test]
    fn digests_are_of_their_key() {
        assert_eq!(seal(1).digest(b"a"), seal(1).digest(b"a"));
        assert!(seal(1).digest(b"a") != seal(2).digest(b"a") && seal(1).digest(b"a") != seal(1).digest(b"b"));
        assert_ne!(Seal::fresh_key().unwrap(), Seal::fresh_key().unwrap());
        assert!(Seal::new(&[1; KEY - 1]).is_none() && Seal::new(&[]).is_none());
    }

    proptest! {
        #[test]
        fn a_changed_byte_opens_nothing(at in 0usize..60, bit in 0u8..8) {
            let digest = seal(1).digest(b"x");
            let mut sealed = seal(1).close(&digest, b"some twenty characters").unwrap();
            let at = at % sealed.len();
            sealed[at] ^= 1 << bit;
            prop_assert_eq!(seal(1).open(&digest, &sealed), None);
        }

        #[test]
        fn any_bytes_open_or_do_not(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            prop_assert_eq!(seal(1).open(&[0; DIGEST], &bytes), None);
        }
    }
}
