//! Whose certificates are believed: those that the host believes, or those of one file, or all.

use crate::exit::Usage;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where hosts keep the authorities that they trust: Debian and Arch, Fedora, openSUSE, Alpine.
const BUNDLES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// Which certificates to trust.
#[derive(Debug, PartialEq, Eq)]
pub enum Trust {
    /// The host's authorities.
    Host,
    /// Those in this file alone.
    File(PathBuf),
    /// All certificates; the server is not verified.
    Everybody,
}

impl Trust {
    /// TLS that speaks one of `protocols`; `quic`: as QUIC has it, version 1.3 alone and with early data.
    pub fn configuration(&self, protocols: &[&str], quic: bool) -> anyhow::Result<ClientConfig> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let versions: &[_] = if quic { &[&rustls::version::TLS13] } else { rustls::ALL_VERSIONS };
        let builder = ClientConfig::builder_with_provider(provider.clone()).with_protocol_versions(versions)?;
        let mut config = match self {
            Self::Everybody => {
                builder.dangerous().with_custom_certificate_verifier(Arc::new(Believe(provider))).with_no_client_auth()
            }
            Self::Host => builder.with_root_certificates(host()?).with_no_client_auth(),
            Self::File(path) => builder.with_root_certificates(read(path)?).with_no_client_auth(),
        };
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
        config.enable_early_data = quic;
        Ok(config)
    }
}

fn host() -> anyhow::Result<RootCertStore> {
    let told = std::env::var_os("SSL_CERT_FILE").map(PathBuf::from);
    let bundle = told.or_else(|| BUNDLES.iter().map(PathBuf::from).find(|path| path.exists()));
    match bundle {
        Some(path) => read(&path),
        None => Err(Usage(format!(
            "no certificate authorities found ({}): install ca-certificates, or give a file with --ca",
            BUNDLES.join(", ")
        ))
        .into()),
    }
}

fn read(path: &Path) -> anyhow::Result<RootCertStore> {
    let all: Vec<CertificateDer<'_>> = crate::input::pem(path).map_err(|why| Usage::unreadable(path, why))?;
    let mut roots = RootCertStore::empty();
    // Old authorities whose certificates no library reads any more are left out, as others do.
    let (taken, _) = roots.add_parsable_certificates(all);
    if taken == 0 {
        return Err(Usage(format!("{} contains no valid certificate", path.display())).into());
    }
    Ok(roots)
}

/// Accepts every certificate whose key the server has.
#[derive(Debug)]
struct Believe(Arc<CryptoProvider>);

impl ServerCertVerifier for Believe {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_certificates_is_named() {
        let why = |path: &str| format!("{:#}", Trust::File(path.into()).configuration(&["h3"], true).unwrap_err());
        assert!(why("/dev/null").contains("/dev/null contains no valid certificate"), "{}", why("/dev/null"));
        assert!(why("/nowhere/ca.pem").contains("/nowhere/ca.pem"));
    }

    #[test]
    fn everybody_needs_no_file() {
        let config = Trust::Everybody.configuration(&["h2", "http/1.1"], false).unwrap();
        assert_eq!(config.alpn_protocols, [b"h2".to_vec(), b"http/1.1".to_vec()]);
        assert!(!config.enable_early_data);
    }
}
