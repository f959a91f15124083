//! Connections to servers that have answered and may be asked again: by channel, host and port.

use headstart_core::steer::Channel;
use hyper::body::Incoming;
use hyper::client::conn::http1::SendRequest;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Connections of one host on one channel: as many as browsers open to a host.
const MOST_OF_HOST: usize = 6;
/// Connections of all of them.
const MOST: usize = 256;
/// A connection that has carried its answer is ready within this, or never.
const SOON: Duration = Duration::from_millis(50);

type Idle = HashMap<(Channel, String), Vec<SendRequest<Incoming>>>;

/// See the module.
#[derive(Default)]
pub struct Pool {
    idle: Mutex<Idle>,
}

impl Pool {
    /// A connection to `authority` over `channel` that is open, if there is one.
    pub async fn take(&self, channel: Channel, authority: &str) -> Option<SendRequest<Incoming>> {
        loop {
            let mut next = self.pop(channel, authority)?;
            if matches!(tokio::time::timeout(SOON, next.ready()).await, Ok(Ok(()))) {
                return Some(next);
            }
        }
    }

    fn pop(&self, channel: Channel, authority: &str) -> Option<SendRequest<Incoming>> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.get_mut(&(channel, authority.to_owned()))?.pop()
    }

    /// A connection may be asked again.
    pub fn put(&self, channel: Channel, authority: String, connection: SendRequest<Incoming>) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.retain(|_, of_host| {
            of_host.retain(|connection| !connection.is_closed());
            !of_host.is_empty()
        });
        if idle.values().map(Vec::len).sum::<usize>() >= MOST {
            return;
        }
        let of_host = idle.entry((channel, authority)).or_default();
        if of_host.len() < MOST_OF_HOST {
            of_host.push(connection);
        }
    }
}
