//! The lab's certificate authority: made for one run, for names that exist only in the lab.
//!
//! Its key never leaves this process, and its certificate is never installed on the host: programs are told of it one by
//! one, by their own options (see [`Trust`]).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, KeyUsagePurpose, PublicKeyData,
};
use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use std::collections::HashMap;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

/// Why there is no certificate.
#[derive(Debug, thiserror::Error)]
pub enum AuthorityError {
    /// A key or a certificate could not be made.
    #[error("making a certificate of the lab: {0}")]
    Certificate(#[from] rcgen::Error),
    /// TLS refuses what was made.
    #[error("setting up TLS with a certificate of the lab: {0}")]
    Tls(#[from] rustls::Error),
    /// More were asked for than one run needs.
    #[error("making a certificate of the lab: {0} were made in this run, and no more are")]
    TooMany(usize),
    /// The certificate could not be written where programs read it.
    #[error("writing {path}: {source}; is the folder there, and writable?")]
    Write {
        /// Which file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

/// What programs are told, so that they believe the lab's servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trust {
    /// The authority's certificate, a PEM file.
    pub certificate: PathBuf,
    /// The hash of its public key (SHA-256 of SubjectPublicKeyInfo, base64), for browsers, which read no such file.
    pub key_hash: String,
}

impl Trust {
    /// Tells `command`, by the variables that programs and their libraries know; browsers have to be told of the hash.
    pub fn introduce(&self, command: &mut Command) {
        const KNOWN: [&str; 6] = [
            "CURL_CA_BUNDLE",
            "SSL_CERT_FILE",
            "REQUESTS_CA_BUNDLE",
            "NODE_EXTRA_CA_CERTS",
            "GIT_SSL_CAINFO",
            "HEADSTART_LAB_CA",
        ];
        KNOWN.iter().for_each(|name| _ = command.env(name, &self.certificate));
        command.env("HEADSTART_LAB_KEY_HASH", &self.key_hash);
    }
}

/// Certificates by the names of [`asked_for`]. Recorded pages have names with underscores and with a dot at the end, which a
/// certificate cannot be checked against before a client asks; what a client makes of it is for the client to say.
#[derive(Debug)]
struct ByName(HashMap<String, Arc<CertifiedKey>>);

impl ResolvesServerCert for ByName {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.0.get(&asked_for(hello.server_name()?)).cloned()
    }
}

/// `name` as clients put it into a ClientHello: without the dot at its end (RFC 6066, section 3); in lower case here.
fn asked_for(name: &str) -> String {
    name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase()
}

/// A certificate authority of one run.
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    trust: Trust,
}

impl Authority {
    /// A new authority; its certificate is written to `ca.pem` in `folder`.
    pub fn create(folder: &Path) -> Result<Self, AuthorityError> {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params.distinguished_name.push(DnType::CommonName, "headstart lab, one run");
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
        let certificate = folder.join("ca.pem");
        write_private(&certificate, issuer.pem().as_bytes())?;
        let key = ring::digest::digest(&ring::digest::SHA256, &issuer.key().subject_public_key_info());
        let key_hash = STANDARD.encode(key);
        Ok(Self { issuer, trust: Trust { certificate, key_hash } })
    }

    /// What programs are to be told.
    pub fn trust(&self) -> &Trust {
        &self.trust
    }

    /// TLS for servers that go by `names` (which may begin with `*.`), with a key and a certificate of their own.
    pub fn server(&self, names: &[&str]) -> Result<Arc<ServerConfig>, AuthorityError> {
        let (chain, key) = self.certificate(names)?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
        let mut config = config.with_no_client_auth().with_single_cert(chain, key)?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }

    /// TLS for many servers in one process, each with a key and a certificate of its own; which is shown is decided by the
    /// name that a client asks for.
    pub fn servers(&self, names: &[String]) -> Result<Arc<ServerConfig>, AuthorityError> {
        let provider = rustls::crypto::ring::default_provider();
        let mut by_name = ByName(HashMap::new());
        for name in names {
            let (chain, key) = self.certificate(&[name])?;
            by_name.0.insert(asked_for(name), Arc::new(CertifiedKey::from_der(chain, key, &provider)?));
        }
        let config = ServerConfig::builder_with_provider(Arc::new(provider)).with_safe_default_protocol_versions()?;
        let mut config = config.with_no_client_auth().with_cert_resolver(Arc::new(by_name));
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }

    /// A key and a certificate (with the authority's behind it) of their own in `folder`, as PEM files that only their owner
    /// reads, for a server that goes by `names` and is a program of its own: the certificate, the key.
    pub fn files(&self, names: &[&str], folder: &Path) -> Result<(PathBuf, PathBuf), AuthorityError> {
        let (chain, key) = self.certificate(names)?;
        let block = |what: &str, der: &[u8]| {
            format!("-----BEGIN {what}-----\n{}\n-----END {what}-----\n", STANDARD.encode(der))
        };
        let certificates: String = chain.iter().map(|c| block("CERTIFICATE", c)).collect();
        let (certificate, private) = (folder.join("server.pem"), folder.join("server.key"));
        write_private(&certificate, certificates.as_bytes())?;
        write_private(&private, block("PRIVATE KEY", key.secret_der()).as_bytes())?;
        Ok((certificate, private))
    }

    fn certificate(
        &self,
        names: &[&str],
    ) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), AuthorityError> {
        let key = KeyPair::generate()?;
        let names: Vec<String> = names.iter().map(|name| asked_for(name)).collect();
        let mut params = CertificateParams::new(names)?;
        params.distinguished_name.push(DnType::CommonName, "a server of the headstart lab");
        params.use_authority_key_identifier_extension = true;
        params.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ServerAuth];
        let certificate = params.signed_by(&key, &self.issuer)?;
        // The authority's own comes along: a browser that knows its key by a hash has to see it.
        let chain = vec![certificate.der().clone(), self.issuer.der().clone()];
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
        Ok((chain, key))
    }
}

/// Writes a new file that only its owner reads.
fn write_private(path: &Path, bytes: &[u8]) -> Result<(), AuthorityError> {
    // A file of an earlier run must not stay behind a name that was there already.
    let _ = fs::remove_file(path);
    let open = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    open.and_then(|mut file| file.write_all(bytes))
        .map_err(|source| AuthorityError::Write { path: path.into(), source })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn each_run_has_an_authority_of_its_own_whose_certificate_only_its_user_reads() {
        let folder = tempfile::tempdir().unwrap();
        let first = Authority::create(folder.path()).unwrap().trust().clone();
        let pem = fs::read_to_string(&first.certificate).unwrap();
        assert!(pem.starts_with("-----BEGIN CERTIFICATE-----") && !pem.contains("PRIVATE"), "{pem}");
        assert_eq!(fs::metadata(&first.certificate).unwrap().permissions().mode() & 0o777, 0o600);
        let second = Authority::create(folder.path()).unwrap().trust().clone();
        assert_ne!(first.key_hash, second.key_hash);
        assert_eq!(STANDARD.decode(&second.key_hash).unwrap().len(), 32);
        assert_ne!(fs::read_to_string(&second.certificate).unwrap(), pem);
    }

    #[test]
    fn names_with_underscores_and_with_a_dot_at_the_end_get_certificates_that_clients_are_shown() {
        let folder = tempfile::tempdir().unwrap();
        let authority = Authority::create(folder.path()).unwrap();
        let names = ["WWW.dotted.example.", "_ads.under_score.example", "plain.example"].map(str::to_owned);
        let config = authority.servers(&names).unwrap();
        let mut roots = rustls::RootCertStore::empty();
        roots.add(authority.issuer.der().clone()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let client =
            rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let client = Arc::new(client.with_root_certificates(roots).with_no_client_auth());
        for name in ["www.dotted.example", "_ads.under_score.example", "plain.example"] {
            let mut near = rustls::ClientConnection::new(client.clone(), name.to_owned().try_into().unwrap()).unwrap();
            let mut far = rustls::ServerConnection::new(config.clone()).unwrap();
            while near.is_handshaking() || far.is_handshaking() {
                let mut wire = Vec::new();
                while near.wants_write() {
                    near.write_tls(&mut wire).unwrap();
                }
                let mut read = &wire[..];
                while !read.is_empty() {
                    far.read_tls(&mut read).unwrap();
                    far.process_new_packets().unwrap_or_else(|e| panic!("{name}: {e}"));
                }
                let mut wire = Vec::new();
                while far.wants_write() {
                    far.write_tls(&mut wire).unwrap();
                }
                let mut read = &wire[..];
                while !read.is_empty() {
                    near.read_tls(&mut read).unwrap();
                    near.process_new_packets().unwrap_or_else(|e| panic!("{name}: {e}"));
                }
            }
        }
    }

    #[test]
    fn a_folder_that_is_not_there_is_named() {
        let Err(error) = Authority::create(Path::new("/nowhere/at/all")) else { panic!("it was made") };
        assert!(error.to_string().starts_with("writing /nowhere/at/all/ca.pem: "), "{error}");
    }
}
