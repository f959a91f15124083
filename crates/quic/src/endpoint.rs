//! Connections of quinn's endpoints that begin with a window from history.

use crate::{CarefulResume, Watch};
use quinn::{ClientConfig, ConnectError, ConnectionError, Endpoint, Incoming, Runtime, ServerConfig, TokioRuntime};
use std::future::Future;
use std::net::SocketAddr;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// A handshake under way: a future of a [`Connection`].
#[derive(Debug)]
pub struct Connecting {
    connecting: quinn::Connecting,
    watch: Watch,
}

impl Connecting {
    /// quinn's own, for 0-RTT and what else it can do, and a look at the window. [`Watch::close`] is the caller's then.
    pub fn into_parts(self) -> (quinn::Connecting, Watch) {
        (self.connecting, self.watch)
    }
}

impl Future for Connecting {
    type Output = Result<Connection, ConnectionError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let connected = Pin::new(&mut self.connecting).poll(context);
        connected.map_ok(|connection| Connection { connection, watch: self.watch.clone() })
    }
}

/// A connection of quinn's. When this is dropped after either side has closed the connection, what it showed is learned and what
/// it used may be used by the next one at once; otherwise quinn's own end of the connection, three round trips later, does it.
#[derive(Debug)]
pub struct Connection {
    connection: quinn::Connection,
    watch: Watch,
}

impl Connection {
    /// A look at its window.
    pub fn watch(&self) -> &Watch {
        &self.watch
    }
}

impl Deref for Connection {
    type Target = quinn::Connection;

    fn deref(&self) -> &quinn::Connection {
        &self.connection
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // A copy of quinn's handle may go on with a connection that is open, and with its window.
        if self.connection.close_reason().is_some() {
            self.watch.close(TokioRuntime.now());
        }
    }
}

impl CarefulResume {
    /// Accepts a connection with a window from history. `server`: its configuration, but for the transport, which
    /// [`crate::Options::transport`] makes.
    pub fn accept(&self, incoming: Incoming, server: &ServerConfig) -> Result<Connecting, ConnectionError> {
        let mut transport = (self.options().transport)();
        let validated = incoming.remote_address_validated();
        let watch = self.plan(TokioRuntime.now(), incoming.remote_address(), validated).apply(&mut transport);
        let mut server = server.clone();
        server.transport_config(Arc::new(transport));
        let connecting = incoming.accept_with(Arc::new(server))?;
        Ok(Connecting { connecting, watch })
    }

    /// Opens a connection with a window from history. `client`: its configuration, but for the transport, which
    /// [`crate::Options::transport`] makes.
    pub fn connect(
        &self,
        from: &Endpoint,
        mut client: ClientConfig,
        to: SocketAddr,
        name: &str,
    ) -> Result<Connecting, ConnectError> {
        let mut transport = (self.options().transport)();
        let watch = self.plan(TokioRuntime.now(), to, true).apply(&mut transport);
        client.transport_config(Arc::new(transport));
        from.connect_with(client, to, name).map(|connecting| Connecting { connecting, watch })
    }
}
