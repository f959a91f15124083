//! Keys and certificates of QUIC in virtual time.
//!
//! They are random, and may be: Ed25519 signatures and X25519 shares are of one length, so that the times of packets do not
//! depend on them.

use anyhow::Context as _;
use quinn_proto::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use std::sync::Arc;

/// The name of the server.
pub const NAME: &str = "server.lab.example";

/// What a server and its clients share.
#[derive(Debug)]
pub struct Identity {
    certificate: CertificateDer<'static>,
    key: PrivatePkcs8KeyDer<'static>,
}

impl Identity {
    /// A certificate for the server's name.
    pub fn new() -> anyhow::Result<Self> {
        let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519).context("a key for QUIC in virtual time")?;
        let mut parameters = rcgen::CertificateParams::new(vec![NAME.into()])?;
        // Drawn otherwise, and of one length or another.
        parameters.serial_number = Some(rcgen::SerialNumber::from(1u64));
        let certificate = parameters.self_signed(&key).context("a certificate for QUIC in virtual time")?;
        Ok(Self { certificate: certificate.der().clone(), key: PrivatePkcs8KeyDer::from(key.serialize_der()) })
    }

    /// The server's half. Sessions are remembered by it, for 0-RTT.
    pub fn server(&self) -> anyhow::Result<quinn_proto::ServerConfig> {
        let key = PrivateKeyDer::from(self.key.clone_key());
        let mut tls = rustls::ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_no_client_auth()
            .with_single_cert(vec![self.certificate.clone()], key)?;
        // All or nothing: RFC 9001, section 4.6.1.
        tls.max_early_data_size = u32::MAX;
        let crypto = QuicServerConfig::try_from(tls).context("TLS of a QUIC server")?;
        Ok(quinn_proto::ServerConfig::with_crypto(Arc::new(crypto)))
    }

    /// A client's half, with a memory of sessions of its own if it is to send early data.
    pub fn client(&self, early: bool) -> anyhow::Result<quinn_proto::ClientConfig> {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(self.certificate.clone())?;
        let mut tls = rustls::ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_root_certificates(roots)
            .with_no_client_auth();
        tls.enable_early_data = early;
        if !early {
            tls.resumption = rustls::client::Resumption::disabled();
        }
        let crypto = QuicClientConfig::try_from(tls).context("TLS of a QUIC client")?;
        Ok(quinn_proto::ClientConfig::new(Arc::new(crypto)))
    }
}

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}
