//! Ports of the host that programs in a lab reach: `headstart lab shell --host-port 8080` has port 8080 at [`NAME`].
//!
//! The lab listens where its servers are and passes its sockets to the process outside that has started it, which is in the host's network
//! namespace still: TCP connections and UDP datagrams go on from there to the same port of the host's loopback. A server on the host needs
//! no setting, and the program in the lab has the emulated link before it. Both ends are TCP connections of their own: what the host's
//! server refuses is reset inside.

use super::{Error, Network};
use crate::lock;
use crate::program::Folder;
use crate::world::{Fate, Site};
use headstart_core::time::Duration;
use headstart_io::control::{receive, send};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, accept, bind, connect, listen,
    socket_with,
};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::ffi::OsString;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex};
use tokio::net::{TcpListener, TcpStream, UdpSocket};

/// The name of the host in a lab.
pub const NAME: &str = "host.lab.example";
/// Its place among the default world's sites.
pub(super) const PLACE: u16 = 8;
/// Environment variable that names the socket by which sockets are passed out.
const DOOR: &str = "HEADSTART_LAB_OUTSIDE";
/// Senders of datagrams to a port at a time; further ones are not heard.
const MOST_SENDERS: usize = 1024;
/// A sender that the host's server has not answered for so long is forgotten.
const SILENCE: Duration = Duration::from_secs(120);
/// The largest datagram of UDP.
const DATAGRAM: usize = 65_535;

/// A socket of the lab that is served outside.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Door {
    port: u16,
    /// Of UDP; else of TCP.
    datagrams: bool,
}

/// What waits outside for the sockets of a lab; leaves no file behind.
pub(super) struct Waiting {
    listener: OwnedFd,
    folder: Folder,
}

impl Waiting {
    /// Call it in the host's network namespace.
    pub fn new() -> io::Result<Self> {
        let folder = Folder::new()?;
        let listener = unix_socket()?;
        bind(&listener, &address(folder.path().join("outside").as_os_str().to_owned())?)?;
        listen(&listener, 1)?;
        Ok(Self { listener, folder })
    }

    /// What the process inside needs in its environment.
    pub fn variable(&self) -> (OsString, OsString) {
        (DOOR.into(), self.folder.path().join("outside").into())
    }

    /// Serves the sockets of the lab in a thread of its own, as long as this process lives.
    pub fn serve(&self) -> io::Result<()> {
        let listener = self.listener.try_clone()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        std::thread::Builder::new().name("host-ports".into()).spawn(move || {
            let Ok(inside) = accept(&listener) else { return };
            runtime.block_on(async {
                // Until the lab has passed them all, and has closed its end.
                while let Ok((door, sockets)) = receive::<Door>(&inside, RecvFlags::empty()) {
                    for socket in sockets {
                        tokio::spawn(pass(door, socket));
                    }
                }
                std::future::pending::<()>().await;
            });
        })?;
        Ok(())
    }
}

/// Opens `ports` at the host's name in `network`, to be served by the process outside.
pub(super) fn open(network: &Network, site: &Site, ports: &[u16]) -> Result<(), Error> {
    let path = std::env::var_os(DOOR).ok_or_else(|| Error::World("nothing outside serves the host's ports".into()))?;
    let outside = unix_socket().and_then(|socket| Ok(connect(&socket, &address(path)?).map(|()| socket)?));
    let outside = outside.map_err(Error::io("reaching the process outside"))?;
    let addresses = site.v4.iter().chain(&site.v6).map(|host| host.addr);
    for at in addresses.flat_map(|ip| ports.iter().map(move |port| SocketAddr::new(ip, *port))) {
        let opened = network.on_servers(|| open_one(&outside, at))?;
        opened.map_err(Error::io(format!("opening port {} at {NAME}", at.port())))?;
    }
    Ok(())
}

fn open_one(outside: &OwnedFd, at: SocketAddr) -> io::Result<()> {
    let pass = |datagrams, socket: BorrowedFd<'_>| {
        let door = Door { port: at.port(), datagrams };
        send(outside, &door, &[socket], SendFlags::empty()).map_err(io::Error::other)
    };
    let listener = std::net::TcpListener::bind(at)?;
    // As the lab's other servers; connections inherit both.
    rustix::net::sockopt::set_tcp_congestion(&listener, super::PREFERRED_CONGESTION_CONTROL)?;
    rustix::net::sockopt::set_tcp_nodelay(&listener, true)?;
    pass(false, listener.as_fd())?;
    pass(true, std::net::UdpSocket::bind(at)?.as_fd())
}

fn unix_socket() -> io::Result<OwnedFd> {
    Ok(socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?)
}

fn address(path: OsString) -> io::Result<SocketAddrUnix> {
    Ok(SocketAddrUnix::new(std::path::PathBuf::from(path))?)
}

/// The host's site: no web server of the lab is in the way.
pub(super) fn site(mut site: Site) -> Site {
    site.v4.iter_mut().chain(&mut site.v6).for_each(|host| host.fate = Fate::Refuses);
    site
}

async fn pass(door: Door, socket: OwnedFd) {
    let ended = if door.datagrams { datagrams(socket, door.port).await } else { streams(socket, door.port).await };
    if let Err(why) = ended {
        eprintln!("headstart: port {} of this host is not reached from the lab any more: {why}", door.port);
    }
}

/// Where a server on the host may listen. TCP tries both.
fn here(port: u16) -> [SocketAddr; 2] {
    [IpAddr::from(Ipv4Addr::LOCALHOST), Ipv6Addr::LOCALHOST.into()].map(|ip| (ip, port).into())
}

async fn streams(socket: OwnedFd, port: u16) -> io::Result<()> {
    let listener = std::net::TcpListener::from(socket);
    listener.set_nonblocking(true)?;
    let listener = TcpListener::from_std(listener)?;
    loop {
        let mut inside = match listener.accept().await {
            Ok((inside, _)) => inside,
            Err(e) if e.kind() == io::ErrorKind::ConnectionAborted => continue,
            Err(e) => return Err(e),
        };
        tokio::spawn(async move {
            match TcpStream::connect(&here(port)[..]).await {
                Ok(mut outside) => {
                    let _ = outside.set_nodelay(true);
                    let _ = tokio::io::copy_bidirectional(&mut inside, &mut outside).await;
                }
                // It sees a reset.
                Err(_) => _ = inside.set_zero_linger(),
            }
        });
    }
}

/// Senders of datagrams in the lab, and the sockets that speak for them outside.
type Senders = Arc<Mutex<HashMap<SocketAddr, Arc<UdpSocket>>>>;

async fn datagrams(socket: OwnedFd, port: u16) -> io::Result<()> {
    let socket = std::net::UdpSocket::from(socket);
    socket.set_nonblocking(true)?;
    let inside = Arc::new(UdpSocket::from_std(socket)?);
    let senders = Senders::default();
    let mut buffer = vec![0; DATAGRAM];
    loop {
        let (len, from) = inside.recv_from(&mut buffer).await?;
        let known = lock(&senders).get(&from).cloned();
        let outside = match known {
            Some(outside) => outside,
            None if lock(&senders).len() >= MOST_SENDERS => continue,
            None => {
                let outside = Arc::new(UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await?);
                outside.connect(here(port)[0]).await?;
                lock(&senders).insert(from, Arc::clone(&outside));
                let answers = answers(Arc::clone(&inside), Arc::clone(&outside), from);
                let senders = Arc::clone(&senders);
                tokio::spawn(async move {
                    answers.await;
                    lock(&senders).remove(&from);
                });
                outside
            }
        };
        // What does not arrive is lost, as datagrams are.
        let _ = outside.send(&buffer[..len]).await;
    }
}

/// Brings what the host's server says back to a sender, until it is silent.
async fn answers(inside: Arc<UdpSocket>, outside: Arc<UdpSocket>, to: SocketAddr) {
    let mut buffer = vec![0; DATAGRAM];
    while let Ok(answer) = tokio::time::timeout(SILENCE, outside.recv(&mut buffer)).await {
        // Refused: nothing listens there, now.
        if let Ok(len) = answer {
            let _ = inside.send_to(&buffer[..len], to).await;
        }
    }
}
