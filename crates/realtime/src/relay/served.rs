//! Connections of clients that a relay serves: so many, and where all are taken, none has more than half of them for long.
//!
//! A client alone may have all. Where one of another key comes and finds none left, the newest of the key that has most is ended for it, if that
//! has more than half. Its session goes on with the others that it has.

use crate::keys::PublicKey;
use std::collections::{BTreeMap, HashMap};
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

#[derive(Default)]
struct Open {
    next: u64,
    all: usize,
    of: HashMap<PublicKey, BTreeMap<u64, Arc<Notify>>>,
}

impl Open {
    fn remove(&mut self, client: PublicKey, number: u64) -> Option<Arc<Notify>> {
        let own = self.of.get_mut(&client)?;
        let removed = own.remove(&number)?;
        self.all -= 1;
        if own.is_empty() {
            self.of.remove(&client);
        }
        Some(removed)
    }

    /// Ends the newest of the key that has most, if that is another and has more than half; whether one has ended.
    fn make_room(&mut self, client: PublicKey, most: usize) -> bool {
        let Some((heaviest, own)) = self.of.iter().max_by_key(|(_, own)| own.len()) else { return false };
        let newest = own.last_key_value().map(|(number, _)| *number).filter(|_| own.len() > most / 2);
        let Some((heaviest, newest)) = newest.map(|newest| (*heaviest, newest)).filter(|(of, _)| *of != client) else {
            return false;
        };
        self.remove(heaviest, newest).inspect(|leave| leave.notify_one()).is_some()
    }
}

/// See the module.
pub(super) struct Served {
    most: usize,
    open: Mutex<Open>,
}

impl Served {
    /// At most so many.
    pub(super) fn new(most: usize) -> Self {
        Self { most, open: Mutex::default() }
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        // Each change is one call.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One more of this client; none if there are too many.
    pub(super) fn enter(self: &Arc<Self>, client: PublicKey) -> Option<Service> {
        let mut open = self.open();
        if open.all >= self.most && !open.make_room(client, self.most) {
            return None;
        }
        let (number, leave) = (open.next, Arc::new(Notify::new()));
        open.next += 1;
        open.all += 1;
        open.of.entry(client).or_default().insert(number, Arc::clone(&leave));
        drop(open);
        Some(Service { served: Arc::clone(self), client, number, leave })
    }
}

/// A connection that is served, until this is dropped.
pub(super) struct Service {
    served: Arc<Served>,
    client: PublicKey,
    number: u64,
    leave: Arc<Notify>,
}

impl Service {
    /// Waits until it has to end for another's.
    pub(super) fn must_end(&self) -> impl Future<Output = ()> + Send + use<> {
        let leave = Arc::clone(&self.leave);
        async move { leave.notified().await }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.served.open().remove(self.client, self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::SecretKey;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    fn must_end(service: &Service) -> bool {
        pin!(service.must_end()).poll(&mut Context::from_waker(Waker::noop())) == Poll::Ready(())
    }

    #[test]
    fn one_client_has_all_until_another_comes_and_then_half() {
        let [big, small, third] = [(); 3].map(|()| SecretKey::generate().unwrap().public().unwrap());
        let served = Arc::new(Served::new(8));
        let of_big: Vec<Service> = (0..20).map_while(|_| served.enter(big)).collect();
        assert_eq!(of_big.len(), 8, "nobody else is there");
        let mut of_others: Vec<Service> = Vec::new();
        for (n, client) in [small, third, small, small].into_iter().enumerate() {
            of_others.push(served.enter(client).unwrap());
            let ended: Vec<bool> = of_big.iter().map(must_end).collect();
            let newest = 7 - n;
            assert_eq!(ended.iter().position(|ended| *ended), Some(newest), "the newest, and one for each: {ended:?}");
            assert!(served.enter(big).is_none(), "it does not make room for itself");
        }
        assert!(served.enter(third).is_none() && served.open().all == 8, "half is its own");
        of_others.pop();
        assert!(served.enter(big).is_some(), "what nobody has is anyone's");
        drop((of_big, of_others));
        assert!(served.open().all == 0 && served.open().of.is_empty());
    }
}
