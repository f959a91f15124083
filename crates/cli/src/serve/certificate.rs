//! The certificate that a server shows: one that was given, read again when its files change, or one of its own that is made at
//! the start and held in memory alone, signed by itself.

use crate::exit::Usage;
use anyhow::Context as _;
use headstart_core::time::{Duration, Instant};
use headstart_io::clock::Clock;
use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// A certificate and its key.
pub struct Certificate {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    /// Where both were read from, and what these files were just before.
    files: Option<([PathBuf; 2], Marks)>,
}

impl Certificate {
    /// Reads both from files in PEM.
    pub fn read(chain: &Path, key_file: &Path) -> anyhow::Result<Self> {
        let files = [chain, key_file].map(Path::to_path_buf);
        let marks = marks(&files);
        let unreadable = |path: &Path, why: std::io::Error| Usage::unreadable(path, why);
        let certificates: Vec<CertificateDer<'static>> =
            crate::input::pem(chain).map_err(|why| unreadable(chain, why))?;
        if certificates.is_empty() {
            let why = "no valid certificate in it: it should have a block that begins with BEGIN CERTIFICATE";
            return Err(Usage::unreadable(chain, why).into());
        }
        let keys: Vec<PrivateKeyDer<'static>> = crate::input::pem(key_file).map_err(|why| unreadable(key_file, why))?;
        let Some(key) = keys.into_iter().next() else {
            let why = "no private key in it: it should have a block that begins with BEGIN PRIVATE KEY";
            return Err(Usage::unreadable(key_file, why).into());
        };
        Ok(Self { chain: certificates, key, files: Some((files, marks)) })
    }

    /// Makes one for `names` and `addresses`.
    pub fn own(names: &[String], addresses: &[IpAddr]) -> anyhow::Result<Self> {
        let all = names.iter().cloned().chain(addresses.iter().map(IpAddr::to_string));
        let mut params =
            rcgen::CertificateParams::new(all.collect::<Vec<_>>()).context("the names of the certificate")?;
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(rcgen::DnType::CommonName, "headstart serve");
        params.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ServerAuth];
        let key = rcgen::KeyPair::generate()?;
        let certificate = params.self_signed(&key)?;
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
        Ok(Self { chain: vec![certificate.der().clone()], key, files: None })
    }

    /// The certificate itself in PEM, without what it was signed by.
    pub fn pem(&self) -> String {
        use base64::Engine as _;
        let encoded = base64::engine::general_purpose::STANDARD.encode(&self.chain[0]);
        let lines: Vec<&str> =
            encoded.as_bytes().chunks(64).filter_map(|line| std::str::from_utf8(line).ok()).collect();
        format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", lines.join("\n"))
    }

    /// Its SHA-256, as people compare it.
    pub fn fingerprint(&self) -> String {
        let digest = ring::digest::digest(&ring::digest::SHA256, &self.chain[0]);
        digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(":")
    }

    /// The SHA-256 of its public key in base64, for telling browsers which certificates to trust nevertheless (Chromium's
    /// `--ignore-certificate-errors-spki-list`); nothing, if it cannot be read.
    pub fn key_hash(&self) -> Option<String> {
        use base64::Engine as _;
        let parsed = rustls::server::ParsedCertificate::try_from(&self.chain[0]).ok()?;
        let key = ring::digest::digest(&ring::digest::SHA256, &parsed.subject_public_key_info());
        Some(base64::engine::general_purpose::STANDARD.encode(key))
    }

    /// TLS for HTTP/2 and HTTP/1.1 over TCP, and for HTTP/3.
    pub fn configurations(self) -> anyhow::Result<(Arc<ServerConfig>, Arc<ServerConfig>)> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let wrong = "the certificate and its key do not match";
        let shown = Arc::new(Shown::new(self, provider.clone()).context(wrong)?);
        let build = |versions: &[&'static rustls::SupportedProtocolVersion], protocols: &[&[u8]]| {
            let config = ServerConfig::builder_with_provider(provider.clone()).with_protocol_versions(versions)?;
            let mut config = config.with_no_client_auth().with_cert_resolver(shown.clone());
            config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
            Ok::<_, rustls::Error>(config)
        };
        let tcp = build(rustls::ALL_VERSIONS, &[b"h2", b"http/1.1"])?;
        let mut quic = build(&[&rustls::version::TLS13], &[b"h3"])?;
        // QUIC knows no other number but 0 (RFC 9001, section 4.6.1). Only GET and HEAD are ever answered, which a replay
        // of early data cannot turn into harm (RFC 8470, section 2.1).
        quic.max_early_data_size = u32::MAX;
        Ok((Arc::new(tcp), Arc::new(quic)))
    }
}

/// Files are looked at for changes no more often than this, when a client comes.
const LOOK: Duration = Duration::from_secs(1);

/// What tells a file from what it was: its inode, its length, and its last change in seconds and nanoseconds.
type Marks = [Option<(u64, u64, i64, i64)>; 2];

/// What handshakes show: the certificate, and the next one once its files have changed.
#[derive(Debug)]
struct Shown {
    provider: Arc<CryptoProvider>,
    files: Option<[PathBuf; 2]>,
    clock: Clock,
    seen: Mutex<Seen>,
}

#[derive(Debug)]
struct Seen {
    certified: Arc<CertifiedKey>,
    marks: Marks,
    looked: Instant,
}

impl Shown {
    fn new(certificate: Certificate, provider: Arc<CryptoProvider>) -> Result<Self, rustls::Error> {
        let clock = Clock::new();
        let (files, marks) = certificate.files.unzip();
        let certified = CertifiedKey::from_der(certificate.chain, certificate.key, &provider)?;
        let seen = Seen { certified: Arc::new(certified), marks: marks.unwrap_or_default(), looked: clock.now() };
        Ok(Self { provider, files, clock, seen: Mutex::new(seen) })
    }

    /// The one to show at `now`. What cannot be used, such as a new certificate beside the old key, leaves the old one in place until
    /// the files change again.
    fn at(&self, now: Instant) -> Arc<CertifiedKey> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(files) = self.files.as_ref().filter(|_| now.since(seen.looked) >= LOOK) else {
            return seen.certified.clone();
        };
        seen.looked = now;
        let marks = marks(files);
        if marks != seen.marks {
            seen.marks = marks;
            let [chain, key] = files;
            let read = Certificate::read(chain, key).and_then(|certificate| {
                let certified = CertifiedKey::from_der(certificate.chain, certificate.key, &self.provider);
                certified.context("the certificate and its key do not match")
            });
            match read {
                Ok(certified) => seen.certified = Arc::new(certified),
                Err(why) => {
                    crate::complain!(
                        "headstart: warning: {}: the previous certificate stays in use: {why:#}",
                        chain.display()
                    )
                }
            }
        }
        seen.certified.clone()
    }
}

fn marks(files: &[PathBuf; 2]) -> Marks {
    let mark = |file: &PathBuf| {
        let seen = std::fs::metadata(file).ok()?;
        Some((seen.ino(), seen.len(), seen.mtime(), seen.mtime_nsec()))
    };
    [mark(&files[0]), mark(&files[1])]
}

impl ResolvesServerCert for Shown {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.at(self.clock.now()))
    }
}

impl std::fmt::Debug for Certificate {
    /// Keeps the key.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Certificate({})", self.fingerprint())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::pki_types::pem::PemObject as _;

    fn own() -> Certificate {
        Certificate::own(&["localhost".to_owned()], &[[127, 0, 0, 1].into()]).unwrap()
    }

    #[test]
    fn its_own_certificate_is_new_each_time_and_shows_no_key() {
        let (one, other) = (own(), own());
        assert_ne!(one.fingerprint(), other.fingerprint());
        assert_eq!(one.fingerprint().len(), 32 * 3 - 1);
        let pem = one.pem();
        assert_eq!(CertificateDer::from_pem_slice(pem.as_bytes()).unwrap(), one.chain[0]);
        assert!(pem.lines().all(|line| line.len() <= 64) && !format!("{one:?}").contains("PRIVATE"));
        one.configurations().unwrap();
    }

    #[test]
    fn what_is_no_certificate_is_named() {
        let nowhere = Path::new("/nowhere/cert.pem");
        let why = Certificate::read(nowhere, nowhere).unwrap_err();
        assert!(format!("{why:#}").contains("/nowhere/cert.pem"), "{why:#}");
        let why = Certificate::read(Path::new("/dev/null"), nowhere).unwrap_err();
        assert!(format!("{why:#}").contains("/dev/null"), "{why:#}");
        let one = Certificate { key: own().key, ..own() };
        assert!(format!("{:#}", one.configurations().unwrap_err()).contains("do not match"));
    }

    #[test]
    fn files_that_change_are_read_again_and_what_cannot_be_used_changes_nothing() {
        use base64::Engine as _;
        let folder = std::env::temp_dir().join(format!("headstart-reload-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let files = ["cert.pem", "key.pem"].map(|name| folder.join(name));
        let write_key = |of: &Certificate| {
            let key = base64::engine::general_purpose::STANDARD.encode(of.key.secret_der());
            let pem = format!("-----BEGIN PRIVATE KEY-----\n{key}\n-----END PRIVATE KEY-----\n");
            std::fs::write(&files[1], pem).unwrap();
        };
        let (first, second) = (own(), own());
        std::fs::write(&files[0], first.pem()).unwrap();
        write_key(&first);
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let shown = Shown::new(Certificate::read(&files[0], &files[1]).unwrap(), provider).unwrap();
        let began = shown.clock.now();
        let is = |after: u64, one: &Certificate| shown.at(began + Duration::from_millis(after)).cert[0] == one.chain[0];
        assert!(is(2000, &first));
        // Renewed in two steps, as programs do.
        std::fs::write(&files[0], second.pem() + "\n").unwrap();
        assert!(is(2500, &first), "not looked at so soon");
        assert!(is(4000, &first), "it does not go with the key that is there");
        write_key(&second);
        std::fs::OpenOptions::new()
            .append(true)
            .open(&files[1])
            .and_then(|mut f| std::io::Write::write_all(&mut f, b"\n"))
            .unwrap();
        assert!(is(6000, &second));
        std::fs::remove_file(&files[0]).unwrap();
        assert!(is(8000, &second) && is(9500, &second));
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn names_that_are_none_are_refused() {
        assert!(Certificate::own(&["ä".to_owned()], &[]).is_err());
    }
}
