//! What servers that share a store know of a peer, asked for before its connection begins: within a few milliseconds, or
//! the connection begins as if nothing were known.

use crate::paths::Remembering;
use headstart_core::cwnd::history::Lease;
use headstart_io::store::shared::{Recalled, SharedStore};
use quinn::{Runtime as _, TokioRuntime};
use std::net::IpAddr;
use std::time::Duration;
use tokio::sync::oneshot;

/// How long a connection waits for what others know: ours, a tenth of the shortest round trip that a jump is worth it over.
const BUDGET: Duration = Duration::from_millis(5);

/// What was borrowed for one connection.
#[derive(Debug)]
pub struct Borrowed {
    peer: IpAddr,
    /// Nothing else uses it.
    ours: bool,
    /// Another connection does: this keeps this one from using what is known here.
    held: Option<Lease>,
}

impl Borrowed {
    /// Asks for the history of `peer`.
    pub async fn of(paths: &Remembering, peer: IpAddr, validated: bool) -> Self {
        let nothing = Self { peer, ours: false, held: None };
        let Some(shared) = &paths.shared else { return nothing };
        let recalled = recall(shared, peer, validated).await;
        paths.tell();
        let (record, ours) = match recalled {
            Recalled::Ours(record) => (record, true),
            Recalled::Taken(record) => (record, false),
            Recalled::Nothing | Recalled::Gone => return nothing,
        };
        let (clock, network) = (paths.memory.clock(), paths.memory.options().network);
        let held = paths.memory.with(|history| {
            let keys = history.keys(network, peer);
            history.import(keys.exact, Some(keys.prefix), record);
            let now = clock.moment(TokioRuntime.now());
            (!ours).then(|| history.lease(now, network, peer)).flatten().map(|(lease, _)| lease)
        });
        Self { peer, ours, held }
    }

    /// Gives it back, with what is new.
    pub fn give_back(self, paths: &Remembering) {
        let Some(shared) = &paths.shared else { return };
        let network = paths.memory.options().network;
        let (record, lifetime) = paths.memory.with(|history| {
            if let Some(lease) = self.held {
                history.release(lease);
            }
            let record = history.record(history.keys(network, self.peer).exact).copied();
            (record, record.map(|record| history.settings().lifetime(record.medium)))
        });
        match record.zip(lifetime) {
            Some((record, lifetime)) => shared.keep(self.peer, record, lifetime),
            // It had been known, and has misled.
            None if self.ours => shared.forget(self.peer),
            None => {}
        }
        if self.ours {
            shared.release(self.peer);
        }
    }
}

async fn recall(shared: &SharedStore, peer: IpAddr, validated: bool) -> Recalled {
    let (tell, told) = oneshot::channel();
    let back = shared.clone();
    shared.recall(peer, validated, move |recalled| {
        // Too late to be of use: others may have it.
        if let Err(Recalled::Ours(_)) = tell.send(recalled) {
            back.release(peer);
        }
    });
    match tokio::time::timeout(BUDGET, told).await {
        Ok(Ok(recalled)) => recalled,
        _ => Recalled::Gone,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use headstart_core::path::NetworkId;
    use std::os::unix::net::UnixListener;
    use std::sync::mpsc::{TryRecvError, channel};

    #[test]
    fn a_store_that_accepts_and_never_answers_is_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("redis.sock");
        let silent = UnixListener::bind(&socket).unwrap();
        let place = format!("redis+unix://{}", socket.display()).parse().unwrap();
        let shared = SharedStore::at(place, NetworkId(7)).unwrap();
        // This question is asked before, and answered once the store is given up on; so is the connection's then, at the soonest.
        let (give_up, given_up) = channel();
        shared.recall([192, 0, 2, 1].into(), true, move |recalled| _ = give_up.send(recalled));
        let _open = silent.accept().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let recalled = runtime.block_on(recall(&shared, [192, 0, 2, 2].into(), true));
        assert_eq!((recalled, given_up.try_recv()), (Recalled::Gone, Err(TryRecvError::Empty)));
        assert_eq!(given_up.recv(), Ok(Recalled::Gone));
    }
}
