//! HTTPS on the sites' addresses, port 443: the files of a folder, for programs that speak TLS (rustls, HTTP/1.1).
//!
//! A thread a connection, in the lab's process. It counts what it serves and never changes the folder.

use super::files;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use std::io;
use std::net::{IpAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// The port of https.
const PORT: u16 = 443;
/// A connection that says nothing for so long is closed: far longer than any program here waits.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running server; it takes no more connections when dropped.
pub struct HttpsServer {
    config: Arc<ServerConfig>,
    folder: PathBuf,
    connections: Arc<AtomicU64>,
    listeners: Vec<(TcpListener, JoinHandle<()>)>,
}

impl HttpsServer {
    /// A server of the files in `folder`, that listens nowhere yet.
    pub fn new(config: Arc<ServerConfig>, folder: &Path) -> Self {
        Self { config, folder: folder.to_owned(), connections: Arc::default(), listeners: Vec::new() }
    }

    /// Listens on `ip`, in the network namespace of the calling thread.
    pub fn listen(&mut self, ip: IpAddr) -> io::Result<()> {
        let named = |e: io::Error| io::Error::new(e.kind(), format!("{ip} port {PORT}: {e}"));
        let listener = TcpListener::bind((ip, PORT)).map_err(named)?;
        let waiting = listener.try_clone().map_err(named)?;
        let (config, folder, connections) = (self.config.clone(), self.folder.clone(), self.connections.clone());
        let thread = std::thread::Builder::new().name("https".into()).spawn(move || {
            // It fails when the server ends, and only then: see `drop`.
            while let Ok((socket, _)) = waiting.accept() {
                connections.fetch_add(1, Ordering::Relaxed);
                let (config, folder) = (config.clone(), folder.clone());
                // Without a thread the connection closes, which the program sees.
                let _ = std::thread::Builder::new().name("https".into()).spawn(move || {
                    // What goes wrong on a connection is for the program at its other end to tell.
                    let _ = serve(socket, config, &folder);
                });
            }
        })?;
        self.listeners.push((listener, thread));
        Ok(())
    }

    /// Connections accepted so far.
    pub fn connections(&self) -> u64 {
        self.connections.load(Ordering::Relaxed)
    }
}

impl Drop for HttpsServer {
    fn drop(&mut self) {
        for (listener, thread) in self.listeners.drain(..) {
            // Wakes the thread from accept(2).
            if rustix::net::shutdown(&listener, rustix::net::Shutdown::Both).is_ok() {
                let _ = thread.join();
            }
        }
    }
}

fn serve(socket: TcpStream, config: Arc<ServerConfig>, folder: &Path) -> io::Result<()> {
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.set_write_timeout(Some(PATIENCE))?;
    socket.set_nodelay(true)?;
    let tls = ServerConnection::new(config).map_err(io::Error::other)?;
    let mut stream = StreamOwned::new(tls, socket);
    let served = files::serve(&mut stream, folder);
    stream.conn.send_close_notify();
    while stream.conn.wants_write() {
        stream.conn.write_tls(&mut stream.sock)?;
    }
    served
}
