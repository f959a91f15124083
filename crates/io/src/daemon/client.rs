//! Asking the daemon.

use super::message::{Answer, MOST_ANSWER, Request, Wish};
use crate::host::folders::Folders;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, SocketAddrUnix, SocketType, recv, send};
use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// How long the daemon may take. Undoing takes milliseconds, but the machine may be busy.
const PATIENCE: Duration = Duration::from_secs(30);

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// No daemon listens.
    #[error("no daemon is running in this network namespace")]
    NotUp,
    /// The caller may not even ask.
    #[error(
        "{path}: permission denied by the daemon's socket: run as root, or as a member of the group in `host.group`"
    )]
    Denied {
        /// The socket.
        path: PathBuf,
    },
    /// The connection failed.
    #[error("{path}: asking the daemon: {source}")]
    Io {
        /// The socket.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// It said something else.
    #[error("{0}")]
    Nonsense(String),
}

/// Asks the daemon of this network namespace.
pub fn ask(folders: &Folders, wish: Wish) -> Result<Answer, AskError> {
    let mut denied = None;
    for path in folders.sockets() {
        let failed = |source: io::Error| AskError::Io { path: path.clone(), source };
        let Ok(address) = SocketAddrUnix::new(&path) else { continue };
        let socket = match crate::local::connect(SocketType::SEQPACKET, &address, PATIENCE) {
            Ok(socket) => socket,
            Err(Errno::ACCESS) => {
                denied.get_or_insert(path);
                continue;
            }
            // It is there, but lets no one in; or this process may open nothing more.
            Err(why @ (Errno::AGAIN | Errno::MFILE | Errno::NFILE)) => return Err(failed(why.into())),
            Err(_) => continue,
        };
        let request = serde_json::to_vec(&Request::new(wish)).map_err(|e| failed(e.into()))?;
        // A daemon that has no time for us hangs up; what it said before is still there.
        let _ = send(&socket, &request, SendFlags::NOSIGNAL);
        let mut bytes = vec![0; MOST_ANSWER];
        let (got, _) = recv(&socket, bytes.as_mut_slice(), RecvFlags::empty()).map_err(|e| failed(e.into()))?;
        if got == 0 {
            return Err(failed(io::Error::other("it closed the connection")));
        }
        return Answer::decode(&bytes[..got]).map_err(AskError::Nonsense);
    }
    Err(denied.map_or(AskError::NotUp, |path| AskError::Denied { path }))
}
