//! Keys by which a relay and its clients know each other: Ed25519, bare (RFC 7250), each pinned by the other side.
//!
//! There is no authority and no name that could be lost, and nothing that expires. A secret key is 32 bytes in a file of its
//! own that only its owner may read; a public key is 64 hexadecimal digits, to be given to the other side. What never happens
//! here: a peer whose key is not on the list gets past the handshake, or a secret is printed.

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{AlwaysResolvesClientRawPublicKeys, Resumption};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, ring, verify_tls13_signature_with_raw_key};
use rustls::pki_types::{
    CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, SubjectPublicKeyInfoDer, UnixTime,
};
use rustls::server::AlwaysResolvesServerRawPublicKeys;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::sign::CertifiedKey;
use rustls::version::TLS13;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, DistinguishedName, Error, ServerConfig, SignatureScheme,
};
use std::collections::HashSet;
use std::fmt;
use std::io::{self, Read, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

/// What stands before the 32 bytes of an Ed25519 key in PKCS #8 (RFC 8410, section 7).
const PKCS8: [u8; 16] = [0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20];
/// What stands before them in a SubjectPublicKeyInfo (RFC 8410, section 4).
const SPKI: [u8; 12] = [0x30, 0x2a, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 3, 0x21, 0];
/// The first words of a file with a secret key.
const TITLE: &str = "headstart-relay-key-1";
/// The protocol inside TLS (RFC 7301).
const PROTOCOL: &[u8] = b"headstart-relay/1";

/// What went wrong with a key.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The kernel gave no random bytes.
    #[error("no random bytes for a key: {0}")]
    Random(#[source] io::Error),
    /// The file could not be read or made.
    #[error("{path}: {source}", path = path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The file may be read by others.
    #[error("{path} contains a secret but other users can read it: chmod 600 {path}", path = .0.display())]
    Open(PathBuf),
    /// The file is something else.
    #[error("{path} does not contain a relay's key: `headstart relay key {path}` creates a new file", path = .0.display())]
    NotAKey(PathBuf),
    /// A public key is something else.
    #[error("not a public key: it is 64 hexadecimal digits, as `headstart relay key` prints them")]
    NotPublic,
    /// TLS does not take it.
    #[error("TLS refuses the key: {0}")]
    Tls(#[source] Error),
}

/// The half of a key that others may know.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct PublicKey([u8; 32]);

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for PublicKey {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        from_hex(text).map(Self).ok_or(KeyError::NotPublic)
    }
}

impl PublicKey {
    /// Whether the secret half has signed `message` ([`SecretKey::sign`]).
    pub fn has_signed(&self, message: &[u8], signature: &[u8]) -> bool {
        let known = provider().signature_verification_algorithms.mapping;
        let ed25519 = known.iter().filter(|(scheme, _)| *scheme == SignatureScheme::ED25519);
        let mut algorithms = ed25519.flat_map(|(_, algorithms)| *algorithms);
        algorithms.any(|algorithm| algorithm.verify_signature(&self.0, message, signature).is_ok())
    }
}

fn from_hex(text: &str) -> Option<[u8; 32]> {
    if text.len() != 64 || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    let mut bytes = [0; 32];
    for (byte, at) in bytes.iter_mut().zip((0..64).step_by(2)) {
        *byte = u8::from_str_radix(text.get(at..at + 2)?, 16).ok()?;
    }
    Some(bytes)
}

/// The half that no one else may know.
#[derive(Clone)]
pub struct SecretKey([u8; 32]);

impl fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretKey(not shown)")
    }
}

impl SecretKey {
    /// A new key.
    pub fn generate() -> Result<Self, KeyError> {
        let mut seed = [0; 32];
        let drawn = rustix::rand::getrandom(&mut seed[..], rustix::rand::GetRandomFlags::empty());
        match drawn {
            Ok(32) => Ok(Self(seed)),
            Ok(_) => Err(KeyError::Random(io::Error::other("too few"))),
            Err(error) => Err(KeyError::Random(error.into())),
        }
    }

    /// Writes it into a file that is made for it, for its owner alone. A file that is there is never overwritten.
    pub fn write(&self, path: &Path) -> Result<(), KeyError> {
        let failed = |source| KeyError::File { path: path.to_owned(), source };
        let mut file =
            std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map_err(failed)?;
        let digits: String = self.0.iter().map(|byte| format!("{byte:02x}")).collect();
        file.write_all(format!("{TITLE} {digits}\n").as_bytes()).and_then(|()| file.sync_all()).map_err(failed)
    }

    /// Reads it from a file that only its owner may read.
    pub fn read(path: &Path) -> Result<Self, KeyError> {
        let failed = |source| KeyError::File { path: path.to_owned(), source };
        let mut file = std::fs::File::open(path).map_err(failed)?;
        let about = file.metadata().map_err(failed)?;
        if about.permissions().mode() & 0o077 != 0 {
            // No one should change a folder's or a device's mode for our sake.
            if !about.is_file() {
                return Err(failed(std::io::Error::new(std::io::ErrorKind::InvalidInput, "not a regular file")));
            }
            return Err(KeyError::Open(path.to_owned()));
        }
        let mut text = String::new();
        // More than a key is none; a device that never ends is not read to its end.
        let read = Read::by_ref(&mut file).take(256).read_to_string(&mut text);
        let wrong = || KeyError::NotAKey(path.to_owned());
        match read {
            Err(error) if error.kind() != io::ErrorKind::InvalidData => return Err(failed(error)),
            Err(_) => return Err(wrong()),
            Ok(_) => {}
        }
        let digits = text.trim_end().strip_prefix(TITLE).and_then(|rest| rest.strip_prefix(' ')).ok_or_else(wrong)?;
        from_hex(digits).map(Self).ok_or_else(wrong)
    }

    fn certified(&self) -> Result<CertifiedKey, KeyError> {
        let der = PrivatePkcs8KeyDer::from([&PKCS8[..], &self.0].concat());
        let key = provider().key_provider.load_private_key(PrivateKeyDer::from(der)).map_err(KeyError::Tls)?;
        let spki = key.public_key().ok_or_else(|| KeyError::Tls(Error::General("no public key".into())))?;
        let own = CertificateDer::from(spki.as_ref().to_vec());
        Ok(CertifiedKey::new(vec![own], key))
    }

    /// Signs `message`, which has to begin with words that no other protocol signs: 64 bytes (RFC 8032).
    pub fn sign(&self, message: &[u8]) -> Result<Vec<u8>, KeyError> {
        let signer = self.certified()?.key.choose_scheme(&[SignatureScheme::ED25519]);
        let signer = signer.ok_or_else(|| KeyError::Tls(Error::General("no Ed25519".into())))?;
        signer.sign(message).map_err(KeyError::Tls)
    }

    /// Its public half.
    pub fn public(&self) -> Result<PublicKey, KeyError> {
        let certified = self.certified()?;
        let own = certified.cert.first().and_then(|spki| read_spki(spki));
        own.ok_or_else(|| KeyError::Tls(Error::General("a public key of another form".into())))
    }
}

pub(crate) fn read_spki(spki: &[u8]) -> Option<PublicKey> {
    spki.strip_prefix(&SPKI).and_then(|key| key.try_into().ok()).map(PublicKey)
}

fn provider() -> CryptoProvider {
    ring::default_provider()
}

/// TLS as the relay speaks it: with `clients` only.
pub(crate) fn server(key: &SecretKey, clients: HashSet<PublicKey>) -> Result<Arc<ServerConfig>, KeyError> {
    let builder = ServerConfig::builder_with_provider(Arc::new(provider())).with_protocol_versions(&[&TLS13]);
    let mut config = builder
        .map_err(KeyError::Tls)?
        .with_client_cert_verifier(Arc::new(Pinned::new(clients)))
        .with_cert_resolver(Arc::new(AlwaysResolvesServerRawPublicKeys::new(Arc::new(key.certified()?))));
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    // No client resumes TLS: connections are few and long.
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}

/// TLS as a client speaks it: with the relay of that key and no other.
pub(crate) fn client(key: &SecretKey, relay: PublicKey) -> Result<Arc<ClientConfig>, KeyError> {
    let builder = ClientConfig::builder_with_provider(Arc::new(provider())).with_protocol_versions(&[&TLS13]);
    let mut config = builder
        .map_err(KeyError::Tls)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Pinned::new(HashSet::from([relay]))))
        .with_client_cert_resolver(Arc::new(AlwaysResolvesClientRawPublicKeys::new(Arc::new(key.certified()?))));
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    config.resumption = Resumption::disabled();
    config.enable_sni = false;
    Ok(Arc::new(config))
}

/// Takes the keys of a list, and proof that the peer has the secret half.
#[derive(Debug)]
struct Pinned {
    keys: HashSet<PublicKey>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl Pinned {
    fn new(keys: HashSet<PublicKey>) -> Self {
        Self { keys, algorithms: provider().signature_verification_algorithms }
    }

    fn check(&self, spki: &CertificateDer<'_>) -> Result<(), Error> {
        let known = read_spki(spki).is_some_and(|key| self.keys.contains(&key));
        if known { Ok(()) } else { Err(Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure)) }
    }
}

/// What a verifier answers alike on either side.
macro_rules! signatures {
    () => {
        /// TLS 1.2 is not offered, so that nothing signed in it is ever asked about.
        fn verify_tls12_signature(
            &self,
            _: &[u8],
            _: &CertificateDer<'_>,
            _: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            Err(Error::General("TLS 1.2 was not offered".into()))
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            spki: &CertificateDer<'_>,
            signature: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            let spki = SubjectPublicKeyInfoDer::from(spki.as_ref());
            verify_tls13_signature_with_raw_key(message, &spki, signature, &self.algorithms)
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            vec![SignatureScheme::ED25519]
        }

        fn requires_raw_public_keys(&self) -> bool {
            true
        }
    };
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.check(end_entity).map(|()| ServerCertVerified::assertion())
    }

    signatures!();
}

impl ClientCertVerifier for Pinned {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.check(end_entity).map(|()| ClientCertVerified::assertion())
    }

    signatures!();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_reads_back_from_its_file_which_only_its_owner_may_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        let key = SecretKey::generate().unwrap();
        key.write(&path).unwrap();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(SecretKey::read(&path).unwrap().public().unwrap(), key.public().unwrap());
        assert!(key.write(&path).unwrap_err().to_string().contains("exists"));
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o640)).unwrap();
        assert!(SecretKey::read(&path).unwrap_err().to_string().contains("chmod 600"));
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
        let folder = folder.path();
        for (mode, why) in [(0o755, "not a regular file"), (0o700, "")] {
            std::fs::set_permissions(folder, PermissionsExt::from_mode(mode)).unwrap();
            let error = SecretKey::read(folder).unwrap_err();
            assert!(matches!(error, KeyError::File { .. }) && error.to_string().contains(why), "{error}");
        }
        std::fs::write(&path, [0xff; 90]).unwrap();
        assert!(matches!(SecretKey::read(&path), Err(KeyError::NotAKey(_))));
    }

    #[test]
    fn what_a_key_has_signed_is_told_from_everything_else() {
        let [key, other] = [SecretKey([7; 32]), SecretKey([8; 32])];
        let signature = key.sign(b"words").unwrap();
        let public = key.public().unwrap();
        assert!(signature.len() == 64 && public.has_signed(b"words", &signature));
        assert!(!public.has_signed(b"other words", &signature) && !public.has_signed(b"words", &signature[1..]));
        assert!(!other.public().unwrap().has_signed(b"words", &signature));
    }

    #[test]
    fn public_keys_are_hexadecimal_digits_and_a_secret_is_not_shown() {
        let key = SecretKey([7; 32]);
        let public = key.public().unwrap();
        assert_eq!(public.to_string().parse::<PublicKey>().unwrap(), public);
        // From another implementation: OpenSSL 3, `openssl pkey` of the same seed.
        assert_eq!(public.to_string(), "ea4a6c63e29c520abef5507b132ec5f9954776aebebe7b92421eea691446d22c");
        for text in ["", "ea4a", &"x".repeat(64), &"é".repeat(32), &"+1".repeat(32), &"1".repeat(66)] {
            assert!(text.parse::<PublicKey>().unwrap_err().to_string().contains("64 hexadecimal"));
        }
        assert!(!format!("{key:?}").contains("07") && format!("{key:?}").contains("not shown"));
        assert_eq!(format!("{public:?}"), public.to_string());
    }
}
