//! Plans for the connections of quinn's endpoints.

use super::{Memory, Watch};
use quinn::{ClientConfig, ConnectError, Connecting, ConnectionError, Endpoint, Incoming, Runtime, ServerConfig};
use quinn::{TokioRuntime, TransportConfig};
use std::net::SocketAddr;
use std::sync::Arc;

/// A connection that was accepted by a memory.
#[derive(Debug)]
pub struct Accepted {
    /// The connection, as quinn hands it out.
    pub connecting: Connecting,
    /// A look at its window.
    pub watch: Watch,
}

impl Memory {
    /// Accepts a connection with a window out of the memory. `transport` is this connection's own, `server` everything else.
    pub fn accept(
        &self,
        incoming: Incoming,
        server: &ServerConfig,
        mut transport: TransportConfig,
    ) -> Result<Accepted, ConnectionError> {
        let validated = incoming.remote_address_validated();
        let watch = self.plan(TokioRuntime.now(), incoming.remote_address(), validated).apply(&mut transport);
        let mut server = server.clone();
        server.transport_config(Arc::new(transport));
        let connecting = incoming.accept_with(Arc::new(server))?;
        Ok(Accepted { connecting, watch })
    }

    /// Opens a connection with a window out of the memory. `transport` is this connection's own, `client` everything else.
    pub fn connect(
        &self,
        from: &Endpoint,
        mut client: ClientConfig,
        mut transport: TransportConfig,
        to: SocketAddr,
        name: &str,
    ) -> Result<(Connecting, Watch), ConnectError> {
        let watch = self.plan(TokioRuntime.now(), to, true).apply(&mut transport);
        client.transport_config(Arc::new(transport));
        from.connect_with(client, to, name).map(|connecting| (connecting, watch))
    }
}
