//! Keys of WireGuard: X25519 in base64, as `wg genkey` and `wg pubkey` print them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use boringtun::x25519;
use std::fmt;
use std::str::FromStr;

/// A text that is no key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a key: it is 44 characters of base64, as `headstart steer genkey` and `wg genkey` print them")]
pub struct NotAKey;

/// The private half of a key pair.
#[derive(Clone)]
pub struct SecretKey([u8; 32]);

/// The public half.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct PublicKey([u8; 32]);

fn decode(text: &str) -> Result<[u8; 32], NotAKey> {
    STANDARD.decode(text.trim()).ok().and_then(|bytes| bytes.try_into().ok()).ok_or(NotAKey)
}

impl SecretKey {
    /// A new key, of the kernel's random bytes.
    pub fn generate() -> std::io::Result<Self> {
        let mut bytes = [0; 32];
        match rustix::rand::getrandom(&mut bytes[..], rustix::rand::GetRandomFlags::empty())? {
            32 => {}
            _ => return Err(std::io::Error::other("the kernel gave too few random bytes for a key")),
        }
        // As wg does, so that what is printed is what is used (RFC 7748, section 5).
        bytes[0] &= 248;
        bytes[31] = (bytes[31] & 127) | 64;
        Ok(Self(bytes))
    }

    /// Its other half.
    pub fn public(&self) -> PublicKey {
        PublicKey(x25519::PublicKey::from(&self.secret()).to_bytes())
    }

    /// The key in base64. A secret: for a file or a pipe, not for a log.
    pub fn reveal(&self) -> String {
        STANDARD.encode(self.0)
    }

    pub(super) fn secret(&self) -> x25519::StaticSecret {
        x25519::StaticSecret::from(self.0)
    }
}

impl PublicKey {
    pub(super) fn key(self) -> x25519::PublicKey {
        x25519::PublicKey::from(self.0)
    }

    /// Its first eight bytes, as a part of a file's name.
    pub(super) fn mark(self) -> String {
        self.0.iter().take(8).map(|byte| format!("{byte:02x}")).collect()
    }
}

impl FromStr for SecretKey {
    type Err = NotAKey;

    fn from_str(text: &str) -> Result<Self, NotAKey> {
        decode(text).map(Self)
    }
}

impl FromStr for PublicKey {
    type Err = NotAKey;

    fn from_str(text: &str) -> Result<Self, NotAKey> {
        decode(text).map(Self)
    }
}

impl fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretKey(not shown)")
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&STANDARD.encode(self.0))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_of_rfc_7748_has_the_public_half_that_the_rfc_prints() {
        // Section 6.1: Bob's.
        let bytes = |hex: &str| -> [u8; 32] {
            std::array::from_fn(|i| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).unwrap())
        };
        let bob = SecretKey(bytes("5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb"));
        let public = PublicKey(bytes("de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f"));
        assert_eq!(bob.public(), public);
        assert_eq!(bob.reveal().parse::<SecretKey>().unwrap().public(), public);
    }

    #[test]
    fn new_keys_differ_and_are_clamped_and_texts_that_are_none_are_refused() {
        let (a, b) = (SecretKey::generate().unwrap(), SecretKey::generate().unwrap());
        assert_ne!(a.reveal(), b.reveal());
        assert_eq!((a.0[0] & 7, a.0[31] & 192, a.reveal().len()), (0, 64, 44));
        assert_eq!(a.public().to_string().parse(), Ok(a.public()));
        for wrong in ["", "abc", "AAAA", &"A".repeat(44), &format!("{}A", a.reveal())] {
            assert_eq!(wrong.parse::<PublicKey>(), Err(NotAKey), "{wrong}");
        }
        assert_eq!(format!("{a:?}"), "SecretKey(not shown)");
    }
}
