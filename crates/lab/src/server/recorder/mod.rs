//! A proxy that records what passes through it, as Mahimahi's recorder stores it: one file an exchange.
//!
//! It listens on loopback and serves the programs that are told of it, by variables that most programs know. TLS ends
//! here, by an authority made for the run, whose key never leaves the process and whose certificate no other program is told
//! of; towards servers it speaks TLS as a client that checks certificates. Towards both it speaks HTTP/1.1. What comes
//! is passed on as it comes, and written when it has come whole; what breaks off is not recorded, but told. Nothing is
//! changed but what a proxy must change, and offers of other protocols (`Upgrade`), which are left out. A thread a
//! connection.

mod conversation;
mod upstream;

use super::authority::{Authority, AuthorityError, Trust};
use crate::lock;
use crate::page::recording::{self, Exchange, RecordingError};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use std::collections::HashMap;
use std::fs;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

pub use upstream::{RootsError, roots, roots_of};

/// Complaints that are remembered.
const MOST_COMPLAINTS: usize = 100;
/// Hosts with a certificate; a program that asks for more is refused.
const MOST_HOSTS: usize = 10_000;

/// Why nothing can be recorded.
#[derive(Debug, thiserror::Error)]
pub enum RecorderError {
    /// There are no certificates.
    #[error(transparent)]
    Authority(#[from] AuthorityError),
    /// The folder holds something else already.
    #[error("{} already holds a recording: name another folder, or remove it", .0.display())]
    Taken(PathBuf),
    /// The folder cannot be made or read.
    #[error("the recording's folder {}: {source}", path.display())]
    Folder {
        /// Which.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The recorder cannot listen.
    #[error("listening on loopback for the program that is recorded: {0}")]
    Listen(io::Error),
    /// TLS cannot be set up.
    #[error("setting up TLS towards servers: {0}")]
    Tls(#[from] rustls::Error),
}

/// What came of a recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recorded {
    /// Exchanges that were written.
    pub exchanges: u64,
    /// What was not recorded, and why.
    pub complaints: Vec<String>,
}

struct RecorderState {
    folder: PathBuf,
    authority: Authority,
    /// TLS towards programs, by host.
    faces: Mutex<HashMap<String, Arc<ServerConfig>>>,
    client: Arc<ClientConfig>,
    recorded: Mutex<Recorded>,
}

/// A running recorder; it takes no more connections when dropped.
pub struct Recorder {
    shared: Arc<RecorderState>,
    address: SocketAddr,
    listener: TcpListener,
    thread: Option<JoinHandle<()>>,
}

impl Recorder {
    /// Starts one that writes into `folder`, which is made if it is not there, and keeps the authority's certificate in
    /// `private`. Servers are believed by `roots`. It listens, and looks for servers, in the network namespace of the calling
    /// thread.
    pub fn start(folder: &Path, private: &Path, roots: RootCertStore) -> Result<Self, RecorderError> {
        let wrong = |source| RecorderError::Folder { path: folder.into(), source };
        // What programs send may be secret.
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(wrong)?;
        let taken = |e: fs::DirEntry| e.file_name().to_string_lossy().starts_with("save.");
        if fs::read_dir(folder).map_err(wrong)?.flatten().any(taken) {
            return Err(RecorderError::Taken(folder.into()));
        }
        let authority = Authority::create(private)?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let client = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
        let mut client = client.with_root_certificates(roots).with_no_client_auth();
        client.alpn_protocols = vec![b"http/1.1".to_vec()];
        let shared = Arc::new(RecorderState {
            folder: folder.into(),
            authority,
            faces: Mutex::default(),
            client: Arc::new(client),
            recorded: Mutex::default(),
        });
        let listener = TcpListener::bind("127.0.0.1:0").map_err(RecorderError::Listen)?;
        let address = listener.local_addr().map_err(RecorderError::Listen)?;
        let waiting = listener.try_clone().map_err(RecorderError::Listen)?;
        let serving = shared.clone();
        let accept = move || {
            // It fails when the recorder ends, and only then: see `drop`.
            while let Ok((socket, _)) = waiting.accept() {
                let shared = serving.clone();
                // Without a thread the connection closes, which the program sees.
                let _ = std::thread::Builder::new().name("recorder".into()).spawn(move || {
                    // What goes wrong towards the program is for the program to tell.
                    let _ = conversation::hold(socket, &shared);
                });
            }
        };
        let thread =
            std::thread::Builder::new().name("recorder".into()).spawn(accept).map_err(RecorderError::Listen)?;
        Ok(Self { shared, address, listener, thread: Some(thread) })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The authority that programs are to trust.
    pub fn trust(&self) -> &Trust {
        self.shared.authority.trust()
    }

    /// Tells `command` of the proxy and of its authority, by the variables that programs know.
    pub fn introduce(&self, command: &mut Command) {
        let proxy = format!("http://{}", self.address);
        for name in ["http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"] {
            command.env(name, &proxy);
        }
        for name in ["all_proxy", "ALL_PROXY", "no_proxy", "NO_PROXY"] {
            command.env_remove(name);
        }
        self.trust().introduce(command);
    }

    /// What was recorded so far.
    pub fn recorded(&self) -> Recorded {
        lock(&self.shared.recorded).clone()
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        // Wakes the thread from accept(2).
        if rustix::net::shutdown(&self.listener, rustix::net::Shutdown::Both).is_ok()
            && let Some(thread) = self.thread.take()
        {
            let _ = thread.join();
        }
    }
}

impl RecorderState {
    /// TLS as `host`.
    fn face(&self, host: &str) -> Result<Arc<ServerConfig>, AuthorityError> {
        let mut faces = lock(&self.faces);
        if let Some(face) = faces.get(host) {
            return Ok(face.clone());
        }
        if faces.len() >= MOST_HOSTS {
            return Err(AuthorityError::TooMany(MOST_HOSTS));
        }
        let face = self.authority.server(&[host])?;
        faces.insert(host.to_owned(), face.clone());
        Ok(face)
    }

    /// Writes an exchange that is whole.
    fn keep(&self, exchange: &Exchange) {
        let mut recorded = lock(&self.recorded);
        let written: Result<_, RecordingError> = recording::write(&self.folder, recorded.exchanges as usize, exchange);
        match written {
            Ok(_) => recorded.exchanges += 1,
            Err(e) => complain(&mut recorded, e.to_string()),
        }
    }

    /// Remembers what was not recorded.
    fn complain(&self, what: String) {
        complain(&mut lock(&self.recorded), what);
    }
}

fn complain(recorded: &mut Recorded, what: String) {
    if recorded.complaints.len() < MOST_COMPLAINTS {
        recorded.complaints.push(what);
    }
}
