//! One program in one network, bare or under headstart: what was seen of it on the wire, and how it ended.
//!
//! Every run has a network of its own, so that no server and no supervisor remembers another.

use crate::condition::law;
use crate::experiment::stopwatch::{Run, Supervisor};
use crate::lock;
use crate::netns::{Follower, Network, Settings};
use crate::program::line::Prepared;
use crate::program::{Program, Scheme, Url};
use anyhow::Context as _;
use headstart_core::time::{Duration, Instant};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::net::IpAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

/// What takes longer is cut.
pub const CUT: Duration = Duration::from_secs(20);
/// Of a program that was heard: until it ends by itself, or is ended. Some ask for what the server does not speak, and wait.
const GRACE: Duration = Duration::from_secs(2);

/// A program that is ready to be run.
#[derive(Clone, Debug)]
pub enum Ready {
    /// Of [`crate::program::ALL`].
    Page(Program),
    /// Of [`crate::program::line::LINES`].
    Line(Prepared),
}

impl Ready {
    /// Its name.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Page(program) => program.entry.name,
            Self::Line(prepared) => prepared.line.name,
        }
    }

    /// Whether headstart is known not to reach it.
    pub fn is_uncovered(&self) -> bool {
        matches!(self, Self::Line(prepared) if prepared.line.uncovered)
    }

    /// The command that goes to `host`, behind `wrapper`.
    fn command(&self, wrapper: &[OsString], host: &str) -> Command {
        let url = Url::new(Scheme::Http, host);
        let behind = |words: &[OsString]| {
            let mut command = Command::new(&words[0]);
            command.args(&words[1..]);
            command
        };
        match (self, wrapper) {
            (Self::Page(program), []) => program.command(&url),
            (Self::Page(program), _) => program.command_behind(behind(wrapper), &url),
            (Self::Line(prepared), _) => behind(&[wrapper, &prepared.words(&url.to_string(), host)[..]].concat()),
        }
    }
}

/// How a program is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arm {
    /// Alone.
    Bare,
    /// Under `headstart run --via` this.
    Via(&'static str),
}

impl Arm {
    /// Alone, then every front end.
    pub const ALL: [Self; 4] = [Self::Bare, Self::Via("auto"), Self::Via("preload"), Self::Via("seccomp")];

    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bare => "bare",
            Self::Via(way) => way,
        }
    }

    fn wrapper(self, headstart: &Path) -> Vec<OsString> {
        match self {
            Self::Bare => Vec::new(),
            Self::Via(way) => {
                let words = ["run", "--private", "--quiet", "--via", way, "--"].map(OsString::from);
                [headstart.as_os_str().to_owned()].into_iter().chain(words).collect()
            }
        }
    }
}

/// What was seen of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Seen {
    /// Until the program sent something to a host.
    pub sent: Option<Duration>,
    /// Until it ended by itself.
    pub ended: Option<Duration>,
    /// Whether it ended well; not known of one that was ended.
    pub well: Option<bool>,
    /// SYNs to hosts, and when.
    pub syns: Vec<(IpAddr, Duration)>,
    /// Addresses whose host has completed a handshake.
    pub answered: BTreeSet<IpAddr>,
}

/// What the wire has shown so far.
#[derive(Default)]
struct Wire {
    sent: Option<Instant>,
    syns: Vec<(IpAddr, Instant)>,
    answered: BTreeSet<IpAddr>,
}

/// The port of the lab's web server.
const PORT: u16 = 80;
const SYN: u8 = 0x02;
const ACK: u8 = 0x10;

impl Wire {
    /// A frame has left the client.
    fn see(&mut self, at: Instant, frame: &[u8]) {
        let Some((to, flags, payload)) = segment(frame) else { return };
        if flags & (SYN | ACK) == SYN {
            self.syns.push((to, at));
            return;
        }
        // A refusal is not acknowledged.
        self.answered.insert(to);
        if payload && self.sent.is_none() {
            self.sent = Some(at);
        }
    }
}

/// Of a TCP segment to a web server: to which address, its flags, whether it carries anything.
fn segment(frame: &[u8]) -> Option<(IpAddr, u8, bool)> {
    let (v4, start, protocol) = crate::netns::super_packet::transport_of(frame)?;
    let tcp = frame.get(start..).filter(|_| protocol == 6)?;
    let port = u16::from_be_bytes([*tcp.get(2)?, *tcp.get(3)?]);
    if port != PORT {
        return None;
    }
    // The Ethernet header is not counted, nor padding: the length stands in the IP header.
    const ETHERNET: usize = 14;
    let ip = frame.get(ETHERNET..)?;
    let at = |n: usize| Some(u16::from_be_bytes([*ip.get(n)?, *ip.get(n + 1)?]) as usize);
    let (to, whole): (IpAddr, usize) = if v4 {
        (<[u8; 4]>::try_from(ip.get(16..20)?).ok()?.into(), at(2)?)
    } else {
        (<[u8; 16]>::try_from(ip.get(24..40)?).ok()?.into(), 40 + at(4)?)
    };
    let header = start - ETHERNET + 4 * usize::from(tcp.get(12)? >> 4);
    Some((to, *tcp.get(13)?, whole > header))
}

/// Runs a program.
pub fn play(place: &law::Network, ready: &Ready, arm: Arm, headstart: &Path, seed: u64) -> anyhow::Result<Seen> {
    let wire = Arc::new(Mutex::new(Wire::default()));
    let watch = wire.clone();
    let follow = move |at, frame: &[u8]| lock(&watch).see(at, frame);
    let settings = Settings { follower: Some(Follower::new(follow)), ..Settings::default() };
    let world = place.world(seed);
    let network = Network::build_with(&world, &settings).context("building the network")?;
    network.set_dns_manner(place.manner);
    let site = &world.sites[0];
    let host = if place.literal { site.v4[0].addr.to_string() } else { site.name.clone() };
    let mut command = ready.command(&arm.wrapper(headstart), &host);
    network.adopt(&mut command)?;
    let (clock, began) = (network.clock(), network.clock().now());
    let mut run = Run::start(command.stdout(Stdio::null()), Stdio::null(), CUT, Supervisor::Own)?;
    let heard_long_ago = || lock(&wire).sent.is_some_and(|said| clock.now() >= said + GRACE);
    let ended = run.wait_unless(heard_long_ago)?;
    let well = if ended.is_some() { Some(run.finish()?.success()) } else { run.cut().map(|_| None)? };
    // What it said last is on its way to the emulator's eyes for less than this.
    const LAST: Duration = Duration::from_millis(20);
    clock.sleep(LAST);
    let wire = lock(&wire);
    let (sent, answered) = (wire.sent.map(|at| at.since(began)), wire.answered.clone());
    let syns = wire.syns.iter().map(|(to, at)| (*to, at.since(began))).collect();
    Ok(Seen { sent, ended, well, syns, answered })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A segment to port 80 of 198.19.0.1 with these flags and bytes, in a padded frame.
    fn frame(flags: u8, payload: &[u8]) -> Vec<u8> {
        let mut bytes = vec![2; 12];
        let length = 40 + payload.len() as u8;
        bytes.extend([8, 0, 0x45, 0, 0, length, 0, 0, 0, 0, 64, 6, 0, 0, 198, 18, 0, 2, 198, 19, 0, 1]);
        bytes.extend([0x80, 0, 0, 80, 0, 0, 0, 0, 0, 0, 0, 0, 0x50, flags, 0, 0, 0, 0, 0, 0]);
        bytes.extend(payload);
        bytes.resize(bytes.len().max(60), 0);
        bytes
    }

    #[test]
    fn syns_are_counted_and_what_is_said_first_is_noted() {
        let mut wire = Wire::default();
        let ms = Instant::from_millis;
        for (at, flags, payload) in [(1, SYN, &b""[..]), (2, ACK, b""), (3, ACK, b"GET"), (4, ACK, b"more")] {
            wire.see(ms(at), &frame(flags, payload));
        }
        assert_eq!(wire.syns, [("198.19.0.1".parse().unwrap(), ms(1))]);
        assert_eq!(wire.sent, Some(ms(3)), "padding is not said");
        assert_eq!(wire.answered.len(), 1);
        let mut other = frame(SYN, b"");
        other[14 + 20 + 3] = 53;
        wire.see(ms(5), &other);
        assert_eq!(wire.syns.len(), 1, "a DNS server is no host");
    }
}
