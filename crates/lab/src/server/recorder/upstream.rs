//! The recorder's connections to servers, and the authorities that it trusts.

use super::RecorderState;
use crate::page::recording::Scheme;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConnection, RootCertStore, StreamOwned};
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A server that does not take a connection for so long is not there.
const CONNECT: Duration = Duration::from_secs(15);
/// A connection that says nothing for so long is given up.
pub(super) const PATIENCE: Duration = Duration::from_secs(120);

/// Where systems keep the authorities that they believe: Debian, Red Hat, SUSE, Alpine.
const BUNDLES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// Why no authority can be trusted.
#[derive(Debug, thiserror::Error)]
pub enum RootsError {
    /// A file of certificates cannot be read.
    #[error("reading certificates of authorities from {}: {reason}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
    /// There is none.
    #[error(
        "no certificates of authorities found on this host: install ca-certificates, or name a file by SSL_CERT_FILE"
    )]
    None,
}

/// The authorities that this host believes: those of the file that `SSL_CERT_FILE` names, else the system's.
pub fn roots() -> Result<RootCertStore, RootsError> {
    let named = std::env::var_os("SSL_CERT_FILE").map(PathBuf::from);
    let found = named.or_else(|| BUNDLES.iter().map(PathBuf::from).find(|p| p.is_file()));
    roots_of(&found.ok_or(RootsError::None)?)
}

/// The authorities of a PEM file.
pub fn roots_of(path: &Path) -> Result<RootCertStore, RootsError> {
    let failed = |reason: String| RootsError::File { path: path.into(), reason };
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(path).map_err(|e| failed(e.to_string()))? {
        // One that cannot be used is no reason to reject the others.
        let _ = roots.add(certificate.map_err(|e| failed(e.to_string()))?);
    }
    if roots.is_empty() { Err(failed("it holds none".into())) } else { Ok(roots) }
}

/// Both directions of a connection.
pub(super) trait Stream: Read + Write {}

impl<S: Read + Write> Stream for S {}

/// The server that is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Server {
    pub scheme: Scheme,
    /// In lower case, without brackets.
    pub host: String,
    pub port: u16,
}

impl Server {
    /// Of `host`, `host:port` or `[address]:port`.
    pub fn of(scheme: Scheme, authority: &str) -> Option<Self> {
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !host.contains(':') || host.ends_with(']') => (host, port.parse().ok()?),
            _ => (authority, if scheme == Scheme::Http { 80 } else { 443 }),
        };
        let host = host.trim_start_matches('[').trim_end_matches(']').to_ascii_lowercase();
        (!host.is_empty() && !host.contains('@')).then_some(Self { scheme, host, port })
    }
}

/// A connection to a server, with what was read of it and not used.
pub(super) struct Upstream {
    pub server: Server,
    pub ip: IpAddr,
    pub stream: Box<dyn Stream>,
    pub read: Vec<u8>,
}

impl Upstream {
    /// Connects to the first address that answers; TLS follows with the first bytes.
    pub fn connect(server: &Server, shared: &RecorderState) -> io::Result<Self> {
        let addresses: Vec<SocketAddr> = (server.host.as_str(), server.port).to_socket_addrs()?.collect();
        let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
        for address in addresses {
            match TcpStream::connect_timeout(&address, CONNECT) {
                Ok(socket) => {
                    socket.set_read_timeout(Some(PATIENCE))?;
                    socket.set_write_timeout(Some(PATIENCE))?;
                    socket.set_nodelay(true)?;
                    let stream: Box<dyn Stream> = match server.scheme {
                        Scheme::Http => Box::new(socket),
                        Scheme::Https => {
                            let name = ServerName::try_from(server.host.clone()).map_err(io::Error::other)?;
                            let tls = ClientConnection::new(shared.client.clone(), name).map_err(io::Error::other)?;
                            Box::new(StreamOwned::new(tls, socket))
                        }
                    };
                    return Ok(Self { server: server.clone(), ip: address.ip(), stream, read: Vec::new() });
                }
                Err(e) => last = e,
            }
        }
        Err(last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_read_from_authorities_of_every_form() {
        let of = |text| Server::of(Scheme::Https, text).map(|s| (s.host, s.port));
        assert_eq!(of("A.example"), Some(("a.example".into(), 443)));
        assert_eq!(of("a.example:8443"), Some(("a.example".into(), 8443)));
        assert_eq!(of("[2001:db8::1]:444"), Some(("2001:db8::1".into(), 444)));
        assert_eq!(of("[2001:db8::1]"), Some(("2001:db8::1".into(), 443)));
        assert_eq!((of(""), of("a:b"), of("user@a"), of(":1")), (None, None, None, None));
        assert_eq!(Server::of(Scheme::Http, "a").unwrap().port, 80);
    }
}
