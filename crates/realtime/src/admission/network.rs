//! Whose a connection is, as far as strangers are counted.

use headstart_io::forward::owner::Owners;
use headstart_io::sys::netns::NetNs;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Mutex, OnceLock, PoisonError};

/// The network that an address belongs to, or the user of this host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Network {
    /// An address.
    V4([u8; 4]),
    /// What a customer is given (RFC 6177): 56 bits.
    V6([u8; 7]),
    /// A user of this host.
    User(u32),
    /// This host, where it is not known which user.
    Own,
    /// Not TCP, or not known.
    Other,
}

/// 48 bits of IPv6: what a large customer is given, and all its networks together are counted.
pub(crate) type Site = [u8; 6];

impl Network {
    /// That of an address.
    pub(crate) fn of(address: Option<IpAddr>) -> Self {
        match address.map(|address| address.to_canonical()) {
            Some(ip) if ip.is_loopback() => Self::Own,
            Some(IpAddr::V4(ip)) => Self::V4(ip.octets()),
            Some(IpAddr::V6(ip)) => ip.octets().first_chunk().map_or(Self::Other, |prefix| Self::V6(*prefix)),
            None => Self::Other,
        }
    }

    /// The site that it is a part of.
    pub(crate) fn site(self) -> Option<Site> {
        match self {
            Self::V6(prefix) => prefix.first_chunk().copied(),
            _ => None,
        }
    }

    /// Whether it has a share, and no more when many have come; and is penalised.
    pub(crate) fn is_bounded(self) -> bool {
        matches!(self, Self::V4(_) | Self::V6(_))
    }

    /// Whether it is this host's.
    pub(crate) fn is_own(self) -> bool {
        matches!(self, Self::User(_) | Self::Own)
    }
}

/// The users of this host, by what the kernel knows of their sockets.
#[derive(Default)]
pub(crate) struct Users {
    /// None where the kernel does not say whose a socket is. Opened when it is first needed.
    owners: OnceLock<Option<Mutex<Owners>>>,
}

impl Users {
    /// The user whose connection from `from` to `to` is, both on this host. Sockets of other hosts are not found.
    pub(crate) fn of(&self, from: SocketAddr, to: SocketAddr) -> Option<u32> {
        let open = || NetNs::current().ok().and_then(|here| Owners::of(&here).ok()).map(Mutex::new);
        let owners = self.owners.get_or_init(open).as_ref()?;
        let canonical = |at: SocketAddr| SocketAddr::new(at.ip().to_canonical(), at.port());
        let mut owners = owners.lock().unwrap_or_else(PoisonError::into_inner);
        owners.of_tcp(canonical(from), canonical(to)).ok().flatten().map(|owner| owner.user)
    }

    /// Whose a connection is.
    pub(crate) fn network(&self, from: SocketAddr, to: Option<SocketAddr>) -> Network {
        match Network::of(Some(from.ip())) {
            Network::Own => to.and_then(|to| self.of(from, to)).map_or(Network::Own, Network::User),
            network => network,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    fn from(text: &str) -> Network {
        Network::of(Some(text.parse().unwrap()))
    }

    #[test]
    fn a_customer_of_ipv6_is_one_whatever_addresses_it_takes() {
        assert_eq!(from("2001:db8:0:1::1"), from("2001:db8:0:2::9"));
        assert_ne!(from("2001:db8:0:1::1"), from("2001:db8:0:100::1"));
        assert_eq!(from("2001:db8:0:1::1").site(), from("2001:db8:0:ff00::1").site());
        assert_ne!(from("2001:db8:0:1::1").site(), from("2001:db8:1:1::1").site());
        assert_eq!(from("::ffff:192.0.2.7"), from("192.0.2.7"));
        assert_eq!((from("127.0.0.1"), from("::1"), from("192.0.2.7").site()), (Network::Own, Network::Own, None));
    }

    #[test]
    fn a_program_of_this_host_is_known_by_its_user() {
        let (users, own) = (Users::default(), Network::User(rustix::process::getuid().as_raw()));
        for listen in ["127.0.0.1:0", "[::]:0"] {
            let Ok(listener) = TcpListener::bind(listen) else { continue };
            let port = listener.local_addr().unwrap().port();
            let _program = TcpStream::connect(("127.0.0.1", port)).unwrap();
            let (stream, peer) = listener.accept().unwrap();
            assert_eq!(users.network(peer, stream.local_addr().ok()), own, "{listen}");
            assert_eq!(users.network(peer, None), Network::Own);
        }
        assert_eq!(users.network("192.0.2.9:5000".parse().unwrap(), None), from("192.0.2.9"));
    }
}
