//! The two QUIC endpoints of a trial: a server that answers with as many bytes as it is asked for and starts by a memory, a
//! client that counts them.

use crate::lock;
use crate::sim::quic::{Ended, Identity, NAME, transport};
use anyhow::Context as _;
use headstart_core::time::Duration;
use headstart_io::clock::Clock;
use headstart_quic::{CarefulResume, Connecting};
use quinn::{Endpoint, EndpointConfig, ServerConfig, TokioRuntime};
use rustix::net::sockopt;
use std::net::{SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex};

/// Room for a burst while the program is not scheduled: 4 MiB are a third of a second at 100 Mbit/s.
const BUFFER: usize = 4 << 20;

/// A socket at `address`, of the namespace that this is called in.
pub fn socket(address: SocketAddr) -> anyhow::Result<UdpSocket> {
    let socket = UdpSocket::bind(address).with_context(|| format!("a socket at {address}"))?;
    // Beyond the host's own bound only with the privilege; else what there is, and the trial's doubts tell if it was too
    // little.
    if sockopt::set_socket_recv_buffer_size_force(&socket, BUFFER).is_err() {
        let _ = sockopt::set_socket_recv_buffer_size(&socket, BUFFER);
    }
    let _ = sockopt::set_socket_send_buffer_size(&socket, BUFFER);
    Ok(socket)
}

/// Datagrams that found no room in a socket of the namespace that this is called in.
pub fn dropped_by_sockets() -> anyhow::Result<u64> {
    let path = "/proc/thread-self/net/snmp";
    let text = std::fs::read_to_string(path).with_context(|| format!("reading {path}"))?;
    receive_errors(&text).with_context(|| format!("{path} has no figures on UDP buffers"))
}

/// RcvbufErrors of UDP: a line of names, then one of numbers.
fn receive_errors(snmp: &str) -> Option<u64> {
    let mut lines = snmp.lines().filter_map(|line| line.strip_prefix("Udp: "));
    let (names, numbers) = (lines.next()?, lines.next()?);
    let at = names.split(' ').position(|name| name == "RcvbufErrors")?;
    numbers.split(' ').nth(at)?.parse().ok()
}

/// The server; ends with its endpoint.
pub struct Server {
    endpoint: Endpoint,
    last: Arc<Mutex<Ended>>,
}

impl Server {
    /// Answers each client at `socket`, by what `memory` says of it. Inside a runtime only.
    pub fn start(socket: UdpSocket, identity: &Identity, memory: CarefulResume) -> anyhow::Result<Self> {
        let tls = identity.server()?;
        let endpoint = Endpoint::new(EndpointConfig::default(), Some(tls.clone()), socket, Arc::new(TokioRuntime))?;
        let last = Arc::<Mutex<Ended>>::default();
        tokio::spawn(serve(endpoint.clone(), tls, memory, last.clone()));
        Ok(Self { endpoint, last })
    }

    /// What became of the connection that ended last.
    pub fn last(&self) -> Ended {
        *lock(&self.last)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.endpoint.close(0u32.into(), b"");
    }
}

async fn serve(endpoint: Endpoint, tls: ServerConfig, memory: CarefulResume, last: Arc<Mutex<Ended>>) {
    while let Some(incoming) = endpoint.accept().await {
        // Whatever fails here fails at the client, too, which says so.
        if let Ok(connecting) = memory.accept(incoming, &tls) {
            tokio::spawn(answer(connecting, last.clone()));
        }
    }
}

async fn answer(connecting: Connecting, last: Arc<Mutex<Ended>>) {
    if let Ok(connection) = connecting.await {
        if let Ok((mut send, mut receive)) = connection.accept_bi().await {
            let mut asked = [0; 8];
            if receive.read_exact(&mut asked).await.is_ok() {
                let _ = write(&mut send, u64::from_be_bytes(asked)).await;
            }
        }
        connection.closed().await;
        let path = connection.stats().path;
        let ended = Ended { sent: path.sent_packets, lost: path.lost_packets };
        *lock(&last) = ended;
    }
}

async fn write(to: &mut quinn::SendStream, mut left: u64) -> anyhow::Result<()> {
    static ZEROS: [u8; 65_536] = [0; 65_536];
    while left > 0 {
        let piece = usize::try_from(left).unwrap_or(usize::MAX).min(ZEROS.len());
        to.write_all(&ZEROS[..piece]).await?;
        left -= piece as u64;
    }
    Ok(to.finish()?)
}

/// The client.
pub struct Client {
    endpoint: Endpoint,
    config: quinn::ClientConfig,
    server: SocketAddr,
}

impl Client {
    /// Ready to ask the server at `server`. Inside a runtime only.
    pub fn start(socket: UdpSocket, identity: &Identity, server: SocketAddr) -> anyhow::Result<Self> {
        let endpoint = Endpoint::new(EndpointConfig::default(), None, socket, Arc::new(TokioRuntime))?;
        let mut config = identity.client(false)?;
        config.transport_config(Arc::new(transport()));
        Ok(Self { endpoint, config, server })
    }

    /// Fetches `bytes` over a new connection: how long it took, from the first packet to the last byte; `None` if it was not
    /// at its end after `limit`.
    pub async fn fetch(&self, bytes: u64, limit: Duration, clock: Clock) -> anyhow::Result<Option<Duration>> {
        let began = clock.now();
        let fetched = tokio::time::timeout(limit, self.fetch_all(bytes)).await;
        let took = clock.now().since(began);
        match fetched {
            Ok(Ok(())) => Ok(Some(took)),
            Ok(Err(why)) => Err(why.context("a transfer over QUIC")),
            Err(_) => Ok(None),
        }
    }

    async fn fetch_all(&self, bytes: u64) -> anyhow::Result<()> {
        let connection = self.endpoint.connect_with(self.config.clone(), self.server, NAME)?.await?;
        let (mut send, mut receive) = connection.open_bi().await?;
        send.write_all(&bytes.to_be_bytes()).await?;
        send.finish()?;
        let mut came = 0;
        while let Some(chunk) = receive.read_chunk(usize::MAX, true).await? {
            came += chunk.bytes.len() as u64;
        }
        anyhow::ensure!(came == bytes, "{came} bytes came in place of {bytes}");
        connection.close(0u32.into(), b"");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_found_no_room_is_read_by_its_name() {
        let text = "Tcp: A B\nTcp: 1 2\nUdp: InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors Other\n\
                    Udp: 10 0 3 9 7 0\nUdpLite: RcvbufErrors\nUdpLite: 5\n";
        assert_eq!(receive_errors(text), Some(7));
        assert_eq!(receive_errors("Udp: InDatagrams\nUdp: 1\n"), None);
    }
}
