//! Taking connections of clients, a bounded number at once, until it is to end: what `serve` and `proxy` have in common.

use crate::exit::{self, Coded};
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;

/// Between two tries to take a connection when the host has no descriptors left.
const BREATH: Duration = Duration::from_millis(100);

/// Why `address`, which `flag` names, cannot be listened on, and what to do.
pub fn cannot_listen(address: SocketAddr, flag: &str, why: &io::Error) -> Coded {
    let port = address.port();
    match why.kind() {
        io::ErrorKind::AddrInUse => Coded(
            exit::FAILURE,
            format!(
                "{address} is in use: find the program with `ss -lnp sport = :{port}`, or choose another port with {flag} (0: any)"
            ),
        ),
        io::ErrorKind::PermissionDenied => Coded(
            exit::NOT_PERMITTED,
            format!("{address} cannot be used: ports below 1024 need root; choose another with {flag}"),
        ),
        io::ErrorKind::AddrNotAvailable => {
            Coded(exit::FAILURE, format!("{address} is not an address of this host: list them with `ip address`"))
        }
        _ => Coded(exit::FAILURE, format!("cannot listen on {address}: {why}")),
    }
}

/// Gives each connection, with its place among `most`, to `serve`, until `stopped`; then waits for those that have begun. A
/// server that keeps a place longer than its connection holds it all the while.
pub async fn each<S: Future<Output = ()> + Send + 'static>(
    listener: TcpListener,
    most: usize,
    stopped: impl Future<Output = ()>,
    serve: impl Fn(TcpStream, OwnedSemaphorePermit) -> S,
) {
    let room = Arc::new(Semaphore::new(most));
    admitted(listener, |_, _| room.clone().try_acquire_owned().ok(), stopped, serve).await;
}

/// The same with places that `admit` gives, by the client's address.
pub async fn admitted<P, S: Future<Output = ()> + Send + 'static>(
    listener: TcpListener,
    admit: impl Fn(&TcpStream, SocketAddr) -> Option<P>,
    stopped: impl Future<Output = ()>,
    serve: impl Fn(TcpStream, P) -> S,
) {
    let mut connections = JoinSet::new();
    let mut stopped = pin!(stopped);
    loop {
        let accepted = tokio::select! {
            () = &mut stopped => break,
            // Finished ones are collected on the way.
            Some(_) = connections.join_next(), if !connections.is_empty() => continue,
            accepted = listener.accept() => accepted,
        };
        let Ok((stream, peer)) = accepted else {
            tokio::time::sleep(BREATH).await;
            continue;
        };
        // Beyond the bound a connection is closed at once: that is heard sooner than silence.
        let Some(place) = admit(&stream, peer) else { continue };
        // Small answers do not wait for the acknowledgement of those before.
        let _ = stream.set_nodelay(true);
        connections.spawn(serve(stream, place));
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::sync::oneshot;

    #[tokio::test]
    async fn one_too_many_is_closed_at_once_and_who_has_begun_is_served_to_the_end() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let to = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let echo = |mut stream: TcpStream, place| async move {
            let (mut reader, mut writer) = stream.split();
            let _ = tokio::io::copy(&mut reader, &mut writer).await;
            drop(place);
        };
        let all = tokio::spawn(each(listener, 1, async { drop(stopped.await) }, echo));
        let mut byte = [0];
        let mut first = TcpStream::connect(to).await.unwrap();
        first.write_all(b"a").await.unwrap();
        first.read_exact(&mut byte).await.unwrap();
        let mut second = TcpStream::connect(to).await.unwrap();
        assert_eq!(second.read(&mut byte).await.unwrap_or(0), 0, "there is one place, and it is taken");
        stop.send(()).unwrap();
        first.write_all(b"b").await.unwrap();
        first.read_exact(&mut byte).await.unwrap();
        assert_eq!(&byte, b"b");
        assert!(!all.is_finished());
        drop(first);
        all.await.unwrap();
    }
}
