//! Both ends of a tunnel over two channels, each in a thread of its own that works in its namespace.

use anyhow::Context as _;
use headstart_core::lookout::Lookout;
use headstart_core::time::{Duration, Instant};
use headstart_io::clock::Clock;
use headstart_io::poll::Poll;
use headstart_io::steer::keys::SecretKey;
use headstart_io::steer::{Config, Role, Tunnel};
use headstart_io::sys::netns::NetNs;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;

/// The gateway inside a tunnel.
pub const INSIDE: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);
/// The host inside a tunnel.
pub const HOST: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
/// A tunnel that is not up by then never will be: a handshake is tried again every 5 s, and takes seconds on a machine that is very busy.
const PATIENCE: Duration = Duration::from_secs(60);
/// An end looks at whether it is to stop so often.
const LOOK: Duration = Duration::from_millis(50);

/// An end in a thread, until it is dropped.
pub struct End {
    stop: Arc<AtomicBool>,
    up: Arc<AtomicBool>,
    /// Why it ended by itself.
    failed: Arc<OnceLock<std::io::Error>>,
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
    /// How many bytes came since this was asked before, if an answer may be due: then it is looked out for.
    fn passed(&mut self) -> Option<usize>;
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
        Self::deadline(self).map_or(Instant::FAR_FUTURE, |deadline| deadline.at)
    }

    fn passed(&mut self) -> Option<usize> {
        Self::passed(self)
    }

    fn is_up(&self) -> bool {
        self.status().channels.iter().all(|channel| channel.alive)
    }
}

impl End {
    /// Runs in namespace `ns` what `make` makes there, or says why it was not made. [`wait`] tells when packets get through.
    pub fn start<P: Polled>(
        ns: &NetNs,
        make: impl FnOnce(Clock) -> anyhow::Result<P> + Send + 'static,
    ) -> anyhow::Result<Self> {
        let (stop, up) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let failed = Arc::new(OnceLock::new());
        let (stopped, is_up, why, ns) = (Arc::clone(&stop), Arc::clone(&up), Arc::clone(&failed), ns.try_clone()?);
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
            let (mut tokens, mut lookout) = (Vec::new(), Lookout::default());
            while !stopped.load(Ordering::Relaxed) {
                let until = end.deadline().min(clock.now() + LOOK);
                if let Err(error) = poll.look_out(&clock, &mut lookout, end.passed(), Some(until), &mut tokens) {
                    let _ = why.set(error);
                    return;
                }
                tokens.iter().for_each(|token| end.ready(*token));
                end.timeout();
                if !is_up.load(Ordering::Relaxed) {
                    is_up.store(end.is_up(), Ordering::Relaxed);
                }
            }
        })?;
        let end = Self { stop, up, failed, thread: Some(thread) };
        told.recv().context("an end of a tunnel died")??;
        Ok(end)
    }
}

/// Waits until packets get through each of `ends`.
pub fn wait(ends: &[End]) -> anyhow::Result<()> {
    let clock = Clock::new();
    while !ends.iter().all(|end| end.up.load(Ordering::Relaxed)) {
        if let Some(error) = ends.iter().find_map(|end| end.failed.get()) {
            anyhow::bail!("an end of a tunnel cannot wait for packets: {error}");
        }
        anyhow::ensure!(clock.now() < Instant::ZERO + PATIENCE, "a tunnel did not come up within a minute");
        clock.sleep(Duration::from_millis(10));
    }
    Ok(())
}

/// What a tunnel is told.
pub struct Shape<'a> {
    pub policy: &'a str,
    /// Of the fat channel and of the fast one, as in its file.
    pub rates: [&'a str; 2],
    /// Where the host finds the gateway over either.
    pub gateway: [Ipv4Addr; 2],
    /// What is reached through the gateway besides its own address: prefixes, each behind a comma.
    pub behind: &'a str,
}

/// A tunnel between two namespaces, the host's and the gateway's. Its keys are of this run, and guard nothing.
pub fn of_tunnel([host, gateway]: [&NetNs; 2], shape: &Shape<'_>) -> anyhow::Result<[End; 2]> {
    let [of_host, of_gateway] = files(shape)?;
    let of_host: Config = of_host.parse()?;
    let of_gateway: Config = of_gateway.parse()?;
    let open = |config: Config, role| move |clock| Ok(Tunnel::open(&config, role, clock, &std::env::temp_dir())?);
    Ok([End::start(gateway, open(of_gateway, Role::Gateway))?, End::start(host, open(of_host, Role::Host))?])
}

/// The files of the host and of the gateway.
fn files(shape: &Shape<'_>) -> anyhow::Result<[String; 2]> {
    let keys = [SecretKey::generate()?, SecretKey::generate()?];
    let Shape { policy, rates: [fat, fast], gateway: [over_fat, over_fast], behind } = shape;
    let file = |n: usize, own: Ipv4Addr, interface: &str, peer: &str| {
        let (secret, other) = (keys[n].reveal(), keys[1 - n].public());
        format!(
            "[Interface]\nPrivateKey = {secret}\nAddress = {own}/24\nPolicy = {policy}\nFatRate = {fat}\nFastRate = {fast}\n\
             {interface}\n[Peer]\nPublicKey = {other}\n{peer}\n"
        )
    };
    let ends =
        format!("AllowedIPs = 10.77.0.0/24{behind}\nFatEndpoint = {over_fat}:7000\nFastEndpoint = {over_fast}:7001");
    Ok([
        file(0, HOST, "", &ends),
        file(1, INSIDE, "FatListen = 7000\nFastListen = 7001", &format!("AllowedIPs = {HOST}/32")),
    ])
}
