//! Users of the ports of this host that lead through a relay: so many connections at a time, and no user, and no other
//! host, has more than a part of them. Each costs memory here and a session at the relay.

use crate::admission::Users;
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What one user or host may have of all connections: a part of this. Ours.
const PARTS: usize = 4;

/// Whose a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Client {
    /// A user of this host.
    User(u32),
    /// Another host, or one whose users cannot be distinguished.
    Host(IpAddr),
}

impl std::fmt::Display for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::User(user) => write!(f, "user {user}"),
            Self::Host(host) => write!(f, "{host}"),
        }
    }
}

/// See the module.
pub struct Clients {
    most: usize,
    users: Users,
    open: Mutex<HashMap<Client, usize>>,
}

impl std::fmt::Debug for Clients {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Clients").field("most", &self.most).finish_non_exhaustive()
    }
}

impl Clients {
    /// For at most so many connections at a time, of all ports together.
    pub fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { most: most.max(1), users: Users::default(), open: Mutex::default() })
    }

    /// A connection from `from` to our port at `to`: its place until that is dropped, or why it has none.
    pub(super) fn enter(self: &Arc<Self>, from: SocketAddr, to: SocketAddr) -> Result<Visit, String> {
        self.take(self.client(from, to))
    }

    fn client(&self, from: SocketAddr, to: SocketAddr) -> Client {
        self.users.of(from, to).map_or(Client::Host(from.ip().to_canonical()), Client::User)
    }

    fn take(self: &Arc<Self>, client: Client) -> Result<Visit, String> {
        let mut open = self.open();
        let part = self.most.div_ceil(PARTS);
        let (all, own) = (open.values().sum::<usize>(), open.get(&client).copied().unwrap_or_default());
        if all >= self.most {
            return Err(format!("{all} connections are open, the limit (--most)"));
        }
        if own >= part {
            return Err(format!(
                "{client} has {own} connections open, the limit for one user or host (a quarter of --most)"
            ));
        }
        open.insert(client, own + 1);
        Ok(Visit { clients: Arc::clone(self), client })
    }

    fn open(&self) -> MutexGuard<'_, HashMap<Client, usize>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The place of a connection.
#[derive(Debug)]
pub(super) struct Visit {
    clients: Arc<Clients>,
    client: Client,
}

impl Drop for Visit {
    fn drop(&mut self) {
        let mut open = self.clients.open();
        match open.get_mut(&self.client) {
            Some(own) if *own > 1 => *own -= 1,
            _ => _ = open.remove(&self.client),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn one_user_takes_a_part_and_leaves_the_rest_to_others() {
        let clients = Clients::new(8);
        let (one, other) = (Client::User(1000), Client::Host([192, 0, 2, 1].into()));
        let mut of_one: Vec<Visit> = (0..2).map(|_| clients.take(one).unwrap()).collect();
        let refused = clients.take(one).unwrap_err();
        assert!(refused.contains("user 1000 has 2"), "{refused}");
        let others: Vec<Visit> = (0..2).map(|_| clients.take(other).unwrap()).collect();
        of_one.pop();
        of_one.push(clients.take(one).unwrap());
        let more: Vec<Visit> = (2..4).flat_map(|n| [n; 2]).map(|n| clients.take(Client::User(n)).unwrap()).collect();
        assert!(clients.take(Client::User(9)).unwrap_err().contains("8 connections are open"));
        drop((of_one, others, more));
        assert!(clients.open().is_empty());
    }

    #[test]
    fn a_program_of_this_host_is_known_by_its_user() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let to = listener.local_addr().unwrap();
        let program = TcpStream::connect(to).unwrap();
        let own = Client::User(rustix::process::getuid().as_raw());
        assert_eq!(Clients::new(4).client(program.local_addr().unwrap(), to), own);
        let elsewhere = "192.0.2.9:5000".parse().unwrap();
        assert_eq!(Clients::new(4).client(elsewhere, to), Client::Host([192, 0, 2, 9].into()));
    }
}
