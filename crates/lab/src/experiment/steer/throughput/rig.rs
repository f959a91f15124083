//! Two namespaces, two pairs of veth between them, and both ends of a tunnel in threads of their own.

use super::plain;
use anyhow::Context as _;
use headstart_core::time::{Duration, Instant};
use headstart_io::clock::Clock;
use headstart_io::poll::Poll;
use headstart_io::steer::keys::SecretKey;
use headstart_io::steer::{Config, Role, Tunnel};
use headstart_io::sys::netlink::{LOOPBACK, Netlink, VethEnd};
use headstart_io::sys::netns::NetNs;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// Where the gateway is on the fat link, and inside a tunnel.
pub const OUTSIDE: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);
pub const INSIDE: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);
/// The host inside a tunnel.
pub const HOST: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
/// A tunnel that is not up by then never will be.
const PATIENCE: Duration = Duration::from_secs(20);
/// An end looks at whether it is to stop so often.
const LOOK: Duration = Duration::from_millis(50);

/// By what the host reaches the gateway.
pub enum Way {
    /// Nothing in between.
    Bare,
    /// A tunnel over one channel.
    Plain,
    /// A tunnel over two, by this policy.
    Steered(&'static str),
}

/// See the module.
pub struct Rig {
    pub host: NetNs,
    pub gateway: NetNs,
    /// Where servers of the gateway are reached.
    pub server: IpAddr,
    _ends: Vec<End>,
}

/// An end in a thread, until it is dropped.
struct End {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for End {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// What an end does when it is polled: descriptors that are ready, time that has passed.
pub trait Polled {
    fn listen(&self, poll: &Poll) -> std::io::Result<()>;
    fn ready(&mut self, token: u64);
    fn timeout(&mut self);
    fn deadline(&self) -> Instant;
    /// Whether packets get through.
    fn is_up(&self) -> bool;
}

impl Polled for Tunnel {
    fn listen(&self, poll: &Poll) -> std::io::Result<()> {
        Self::listen(self, poll, 0)
    }

    fn ready(&mut self, token: u64) {
        Self::ready(self, token);
    }

    fn timeout(&mut self) {
        Self::timeout(self);
    }

    fn deadline(&self) -> Instant {
        Self::deadline(self)
    }

    fn is_up(&self) -> bool {
        self.status().channels.iter().all(|channel| channel.alive)
    }
}

impl End {
    /// Runs in namespace `ns` what `make` makes there; comes back when packets get through, or says why they will not.
    fn start<P: Polled>(
        ns: &NetNs,
        make: impl FnOnce(Clock) -> anyhow::Result<P> + Send + 'static,
    ) -> anyhow::Result<(Self, Arc<AtomicBool>)> {
        let (stop, up) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let (stopped, is_up, ns) = (Arc::clone(&stop), Arc::clone(&up), ns.try_clone()?);
        let (tell, told) = std::sync::mpsc::channel();
        let thread = std::thread::Builder::new().name("tunnel".into()).spawn(move || {
            let clock = Clock::new();
            let made = || -> anyhow::Result<(P, Poll)> {
                ns.enter()?;
                let (end, poll) = (make(clock)?, Poll::new()?);
                end.listen(&poll)?;
                Ok((end, poll))
            };
            let (mut end, mut poll) = match made() {
                Ok(made) => made,
                Err(why) => {
                    let _ = tell.send(Err(why));
                    return;
                }
            };
            let _ = tell.send(Ok(()));
            let mut tokens = Vec::new();
            while !stopped.load(Ordering::Relaxed) {
                let until = end.deadline().min(clock.now() + LOOK);
                if poll.wait(&clock, Some(until), &mut tokens).is_err() {
                    return;
                }
                tokens.iter().for_each(|token| end.ready(*token));
                end.timeout();
                if !is_up.load(Ordering::Relaxed) {
                    is_up.store(end.is_up(), Ordering::Relaxed);
                }
            }
        })?;
        let end = Self { stop, thread: Some(thread) };
        told.recv().context("an end of a tunnel died")??;
        Ok((end, up))
    }
}

impl Rig {
    /// Namespaces, links and a tunnel that is up.
    pub fn build(way: Way) -> anyhow::Result<Self> {
        let (host, gateway) = (NetNs::create()?, NetNs::create()?);
        for (n, name) in ["fat", "fast"].into_iter().enumerate() {
            let n = n as u8 + 2;
            let end = |last, ns| VethEnd { name, mac: [2, 0x68, 0x73, 1, n, last], ns };
            Netlink::open()?.veth(end(1, &host), end(2, &gateway))?;
            for (last, ns) in [(1, &host), (2, &gateway)] {
                ns.run(|| {
                    let mut netlink = Netlink::open()?;
                    netlink.up(LOOPBACK)?;
                    let index = netlink.index(name)?;
                    netlink.address(index, Ipv4Addr::new(192, 0, n, last).into(), 24)?;
                    netlink.up(index)
                })??;
            }
        }
        let mut rig = Self { host, gateway, server: INSIDE.into(), _ends: Vec::new() };
        let ends = match way {
            Way::Bare => {
                rig.server = OUTSIDE.into();
                return Ok(rig);
            }
            Way::Plain => {
                let [of_host, of_gateway] = plain::pair();
                [
                    End::start(&rig.gateway, move |clock| plain::Plain::open(&of_gateway, clock))?,
                    End::start(&rig.host, move |clock| plain::Plain::open(&of_host, clock))?,
                ]
            }
            Way::Steered(policy) => {
                let [of_host, of_gateway] = files(policy)?;
                let of_host: Config = of_host.parse()?;
                let of_gateway: Config = of_gateway.parse()?;
                [
                    End::start(&rig.gateway, move |clock| {
                        Ok(Tunnel::open(&of_gateway, Role::Gateway, clock, &std::env::temp_dir())?)
                    })?,
                    End::start(&rig.host, move |clock| {
                        Ok(Tunnel::open(&of_host, Role::Host, clock, &std::env::temp_dir())?)
                    })?,
                ]
            }
        };
        let clock = Clock::new();
        while !ends.iter().all(|(_, up)| up.load(Ordering::Relaxed)) {
            anyhow::ensure!(clock.now() < Instant::ZERO + PATIENCE, "a tunnel did not come up within 20 s");
            clock.sleep(Duration::from_millis(10));
        }
        rig._ends = ends.into_iter().map(|(end, _)| end).collect();
        Ok(rig)
    }
}

/// The files of the host and of the gateway.
fn files(policy: &str) -> anyhow::Result<[String; 2]> {
    let keys = [SecretKey::generate()?, SecretKey::generate()?];
    let file = |n: usize, own: Ipv4Addr, interface: &str, peer: &str| {
        let (secret, other) = (keys[n].reveal(), keys[1 - n].public());
        format!(
            "[Interface]\nPrivateKey = {secret}\nAddress = {own}/24\nPolicy = {policy}\nFatRate = 10gbit\nFastRate = 10mbit\n\
             {interface}\n[Peer]\nPublicKey = {other}\n{peer}\n"
        )
    };
    let ends = "AllowedIPs = 10.77.0.0/24\nFatEndpoint = 192.0.2.2:7000\nFastEndpoint = 192.0.3.2:7001";
    Ok([
        file(0, HOST, "", ends),
        file(1, INSIDE, "FatListen = 7000\nFastListen = 7001", &format!("AllowedIPs = {HOST}/32")),
    ])
}
