//! `headstart lab shell --link LTE -- CMD`: a program behind an emulated link, with DNS and a few sites to talk to.
//!
//! Nested at will: inside another lab's client it adds its link in series to that lab's network, whose client becomes a
//! router, as users of mm-delay and mm-link (Mahimahi) expect. Terminal, signals and exit statuses pass through.

use super::control::{InFolder, LINK};
use super::emulator::{Emulator, Links};
use super::settings::Settings;
use super::switch::{Cable, Peers};
use super::topology::{self, Far};
use super::{Block, Entered, Error, InnerCommand, Network, outside};
use crate::program::Folder;
use crate::world::{Fate, Host, Reply, Site, World};
use headstart_core::time::Duration;
use headstart_io::clock::Clock;
use headstart_io::sys::signal;
use headstart_link::DuplexSpec;
use std::ffi::OsString;
use std::io;
use std::net::IpAddr;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::sync::atomic::Ordering;

/// Environment variable by which a lab's client knows that it is one, and which addresses are left for labs inside it.
pub(super) const BLOCK: &str = "HEADSTART_LAB_BLOCK";

/// Environment variable that names the folder where headstart keeps what it has learned.
const HISTORY: &str = "HEADSTART_HISTORY";

/// 150 ms further than the rest: enough for Happy Eyeballs (RFC 8305: 50 ms resolution delay) to show.
const SLOW: Duration = Duration::from_millis(150);

/// Runs `command` (the user's `$SHELL` if empty) behind the link that `link` describes: a preset ("lte") or a text such
/// as "rate=100mbit,delay=15ms", with a queue that suits the rate if it names none. Its exit status: 128 + n if signal n ended it, 127 if there is no such command, 126 if
/// it cannot be executed.
///
/// Starts this program again with the same arguments, so it must be reached again by the same way; what the caller did
/// before is done twice.
pub fn shell(link: &str, command: &[OsString]) -> Result<i32, Error> {
    shell_with(link, command, &Settings::default(), &[])
}

/// As [`shell`], with the emulator set up by `settings`, and with `host_ports` of this host at [`HOST_NAME`](super::HOST_NAME), TCP and UDP.
pub fn shell_with(link: &str, command: &[OsString], settings: &Settings, host_ports: &[u16]) -> Result<i32, Error> {
    // Said outside, before anything is started.
    let spec = super::sized_link(link)?;
    let link = &spec.to_string();
    let outer = outer_block()?;
    if outer.is_some() && !host_ports.is_empty() {
        return Err(Error::World("ports of the host are opened by the outermost lab: give it --host-port".into()));
    }
    let entry = InnerCommand::this_command().keep_network(outer.is_some()).pass_signals();
    match entry.host_ports(!host_ports.is_empty()).enter()? {
        Entered::Ended(status) => return Ok(status),
        Entered::Inside => {}
    }
    let Some(outer) = outer else {
        let mut world = default_world(link);
        let host = (!host_ports.is_empty()).then(|| outside::site(site(outside::NAME, outside::PLACE, (true, true))));
        world.sites.extend(host.clone());
        let network = Network::build_with(&world, settings)?;
        host.map(|host| outside::open(&network, &host, host_ports)).transpose()?;
        let control = control(network.emulator.links(), spec)?;
        let status = run_command(command, |command| {
            network.adopt(command)?;
            command.env(LINK, control.path());
            Ok(())
        })?;
        vouch(&network.certificate());
        drop(network);
        return Ok(whole(status, settings));
    };
    let seed = default_world(link).seed.wrapping_add(u64::from(outer.depth()) + 1);
    let kind = settings.ports_for(&spec);
    let (wires, ports) = topology::lay(Far::OuterClient(outer), kind)?;
    let link = spec.clone();
    let cable = Cable { name: topology::ACCESS_NAME.into(), ends: topology::ACCESS, link, ahead: kind.quantum() };
    let emulator = Emulator::start(&[cable], seed, ports, Peers::new(), Clock::new(), settings)
        .map_err(Error::io("starting the emulator"))?;
    let control = control(emulator.links(), spec)?;
    let status = run_command(command, |command| {
        wires.client.adopt(command).map_err(Error::io("preparing a command"))?;
        command.env_remove(super::enter::INSIDE).env(BLOCK, wires.block.to_string()).env(LINK, control.path());
        Ok(())
    })?;
    vouch(&emulator.certificate());
    drop(emulator);
    Ok(whole(status, settings))
}

/// Lets the link be changed while the command runs.
fn control(links: Links, link: DuplexSpec) -> Result<InFolder, Error> {
    InFolder::start(links, link).map_err(Error::io("making the socket for `lab link`"))
}

/// The exit status of a command whose network is gone: a record that was cut off is no success.
pub(super) fn whole(status: i32, settings: &Settings) -> i32 {
    if status == 0 && settings.cut_off.load(Ordering::Relaxed) { 1 } else { status }
}

/// The block of the lab whose client this process is, if any.
fn outer_block() -> Result<Option<Block>, Error> {
    let Ok(text) = std::env::var(BLOCK) else { return Ok(None) };
    text.parse().map(Some).map_err(|e| Error::World(format!("{BLOCK} is set, but {e}; unset it")))
}

/// Runs `command` (the user's `$SHELL` if empty) to its end, as `adopt` has set it up; the keyboard's signals are its
/// own. What headstart learns of the network is forgotten with it, unless the user has said where it is kept. Its exit
/// status: 126, 127 and 128 + n as shells have it.
pub fn run_command(command: &[OsString], adopt: impl FnOnce(&mut Command) -> Result<(), Error>) -> Result<i32, Error> {
    let shell = || std::env::var_os("SHELL").unwrap_or_else(|| "/bin/sh".into());
    let (program, args) = match command {
        [] => (shell(), &[][..]),
        [program, args @ ..] => (program.clone(), args),
    };
    let mut command = Command::new(&program);
    command.args(args);
    let history = std::env::var_os(HISTORY).is_none().then(Folder::new).transpose();
    let history = history.map_err(Error::io("making a folder for the history"))?;
    command.envs(history.iter().map(|folder| (HISTORY, folder.path())));
    adopt(&mut command)?;
    // From before the start: the keyboard's signals are the command's business alone.
    let signals = |pid| signal::pass_on_to(pid).map_err(Error::io("handling signals"));
    signals(0)?;
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(e) => {
            eprintln!("headstart: {}: {e}", program.to_string_lossy());
            return Ok(if e.kind() == io::ErrorKind::NotFound || !exists(&program) { 127 } else { 126 });
        }
    };
    signals(i32::try_from(child.id()).unwrap_or(0))?;
    let status = child.wait().map_err(Error::io("waiting for the command"))?;
    Ok(status.code().or(status.signal().map(|n| 128 + n)).unwrap_or(1))
}

/// Whether there is such a program. A directory of `PATH` that may not be searched makes the kernel say "permission denied"
/// for a command that is nowhere; shells say "not found".
fn exists(program: &OsString) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    program.as_encoded_bytes().contains(&b'/') || std::env::split_paths(&path).any(|dir| dir.join(program).is_file())
}

/// Says so if what was measured behind this link may not be believed; else stays silent.
pub(super) fn vouch(certificate: &super::Certificate) {
    if let Some(doubt) = certificate.doubt() {
        eprintln!("headstart: {doubt}");
    }
}

/// A few sites, dual-stack and troubled, behind the link called `link`.
pub fn default_world(link: &str) -> World {
    let named = |name: &str, n, families| site(&format!("{name}.lab.example"), n, families);
    let both = |name, n| named(name, n, (true, true));
    let mut slow = both("slow-v6", 4);
    slow.v6.iter_mut().for_each(|host| host.extra_rtt = SLOW);
    let mut lost = both("aaaa-lost", 5);
    lost.aaaa.reply = Reply::Lost;
    let mut hole = both("black-hole-v6", 6);
    hole.v6.iter_mut().for_each(|host| host.fate = Fate::BlackHole);
    let mut refused = both("refused-v6", 7);
    refused.v6.iter_mut().for_each(|host| host.fate = Fate::Refuses);
    let sites =
        vec![both("www", 1), named("v4", 2, (true, false)), named("v6", 3, (false, true)), slow, lost, hole, refused];
    World::new(link, 1, sites)
}

/// The site of that name, the `n`th, with an address in each of `families` (IPv4, IPv6).
fn site(name: &str, n: u16, families: (bool, bool)) -> Site {
    let host = |addr: IpAddr| Host { addr, extra_rtt: Duration::ZERO, fate: Fate::Answers };
    let [high, low] = n.to_be_bytes();
    let v4 = host([198, 19, high, low].into());
    let v6 = host([0x2001, 0xdb8, n, 0, 0, 0, 0, 1].into());
    let some = |has: bool, host| has.then_some(host).into_iter().collect();
    Site::new(name, some(families.0, v4), some(families.1, v6))
}
