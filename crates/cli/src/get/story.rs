//! What `get --qlog` writes of a connection over QUIC: when it was begun and could be used, how its round trip and window went, and its end.

use crate::qlog::{Event, Inlet, Told};
use headstart_core::time::{Duration, Instant};
use serde_json::{Value, json};
use std::net::SocketAddr;

/// Between two looks at a connection while something comes.
const EVERY: Duration = Duration::from_millis(50);

/// A connection that is written down.
pub struct Story<'a> {
    to: &'a Inlet,
    connection: quinn::Connection,
    remote: SocketAddr,
    /// When the fetch began, since 1970.
    began: Instant,
    looked: Option<Instant>,
}

impl<'a> Story<'a> {
    /// A connection that has been begun and could be used after so many milliseconds of the fetch, which began at `began`; `early`: it was
    /// used before the handshake was over.
    pub fn begin(
        to: &'a Inlet,
        connection: quinn::Connection,
        began: Instant,
        (start, ready): (f64, f64),
        early: bool,
    ) -> Self {
        let remote = connection.remote_address();
        let mut story = Self { to, connection, remote, began, looked: None };
        let (ip, port) = if remote.is_ipv4() { ("ip_v4", "port_v4") } else { ("ip_v6", "port_v6") };
        story.put(
            "connection_started",
            start,
            json!({ "local": {}, "remote": { ip: remote.ip(), port: remote.port() } }),
        );
        let state = if early { "early_write" } else { "handshake_complete" };
        story.put("connection_state_updated", ready, json!({ "new": state }));
        story.look(ready);
        story
    }

    /// Looks at it, if the last look was a while ago.
    pub fn look(&mut self, at_ms: f64) {
        let at = self.began + Duration::from_secs_f64(at_ms / 1e3);
        if self.looked.is_some_and(|looked| at.since(looked) < EVERY) {
            return;
        }
        self.looked = Some(at);
        self.metrics(at_ms);
    }

    /// The fetch is over.
    pub fn end(mut self, at_ms: f64) {
        self.metrics(at_ms);
        self.put("connection_closed", at_ms, json!({ "initiator": "local", "trigger": "application" }));
    }

    fn metrics(&mut self, at_ms: f64) {
        let path = self.connection.stats().path;
        let rtt = (path.rtt.as_secs_f64() * 1e6).round() / 1e3;
        self.put("recovery_metrics_updated", at_ms, json!({ "smoothed_rtt": rtt, "congestion_window": path.cwnd }));
    }

    fn put(&mut self, name: &'static str, at_ms: f64, data: Value) {
        let at = self.began + Duration::from_secs_f64(at_ms / 1e3);
        self.to.put(Event { remote: self.remote, told: Told::Own { at, name, data } });
    }
}
