//! The certificate that a server shows: one that was given, or one of its own that is made at the start and held in memory
//! alone, signed by itself.

use crate::exit::Usage;
use anyhow::Context as _;
use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

/// A certificate and its key.
pub struct Certificate {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
}

impl Certificate {
    /// Reads both from files in PEM.
    pub fn read(chain: &Path, key: &Path) -> anyhow::Result<Self> {
        let unreadable = |path: &Path, why: std::io::Error| Usage::unreadable(path, why);
        let certificates: Vec<CertificateDer<'static>> =
            crate::input::pem(chain).map_err(|why| unreadable(chain, why))?;
        if certificates.is_empty() {
            let why = "no valid certificate in it: it should have a block that begins with BEGIN CERTIFICATE";
            return Err(Usage::unreadable(chain, why).into());
        }
        let keys: Vec<PrivateKeyDer<'static>> = crate::input::pem(key).map_err(|why| unreadable(key, why))?;
        let Some(key) = keys.into_iter().next() else {
            let why = "no private key in it: it should have a block that begins with BEGIN PRIVATE KEY";
            return Err(Usage::unreadable(key, why).into());
        };
        Ok(Self { chain: certificates, key })
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
        Ok(Self { chain: vec![certificate.der().clone()], key })
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

    /// The SHA-256 of its public key in base64, as browsers are told whose certificates to believe nevertheless (Chromium's
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
        let build = |versions: &[&'static rustls::SupportedProtocolVersion], protocols: &[&[u8]]| {
            let config = ServerConfig::builder_with_provider(provider.clone()).with_protocol_versions(versions)?;
            let chain = self.chain.clone();
            let mut config = config.with_no_client_auth().with_single_cert(chain, self.key.clone_key())?;
            config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
            Ok::<_, rustls::Error>(config)
        };
        let wrong = "the certificate and its key do not go together";
        let tcp = build(rustls::ALL_VERSIONS, &[b"h2", b"http/1.1"]).context(wrong)?;
        let mut quic = build(&[&rustls::version::TLS13], &[b"h3"]).context(wrong)?;
        // QUIC knows no other number but 0 (RFC 9001, section 4.6.1). Only GET and HEAD are ever answered, which a replay
        // of early data cannot turn into harm (RFC 8470, section 2.1).
        quic.max_early_data_size = u32::MAX;
        Ok((Arc::new(tcp), Arc::new(quic)))
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
        assert!(format!("{:#}", one.configurations().unwrap_err()).contains("do not go together"));
    }

    #[test]
    fn names_that_are_none_are_refused() {
        assert!(Certificate::own(&["ä".to_owned()], &[]).is_err());
    }
}
