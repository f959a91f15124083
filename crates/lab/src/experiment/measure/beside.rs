//! Forwarders that run beside the programs they serve, for comparison: headstart's own as an app on a phone has it (`headstart forward`
//! with an interface without super-packets), and others, if their programs are there. `cargo xtask peers` builds those; nothing here
//! is linked with them, and the lab does without.

use super::process::{Counts, megabytes};
use super::wire::{WIRED, Wire};
use crate::program::undisturbed;
use anyhow::{Context as _, bail};
use headstart_core::time::Duration;
use headstart_io::clock::Clock;
use headstart_io::sys::netlink::{Netlink, NetlinkError, Via};
use headstart_io::sys::netns::NetNs;
use headstart_io::sys::tun::Tun;
use serde_json::{Value, json};
use std::ffi::OsString;
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// The arm of `headstart forward`.
pub const PHONE: &str = "ours-phone";
/// Arms of others, by the names of their programs.
pub const TUN2SOCKS: &str = "tun2socks";
/// sing-box with what it has on Linux by default: the longest MTU, super-packets.
pub const SING_BOX: &str = "sing-box";
/// A sing-box that does without super-packets, as it does on a phone; later ones always take them on Linux.
pub const SING_BOX_1_13: &str = "sing-box-1.13";

/// The folder with their programs.
const FOLDER: &str = "HEADSTART_LAB_PEERS";
/// The interface of each, its address, and the MTU of Android's VpnService.
const INTERFACE: &str = "tun0";
const ADDRESS: Ipv4Addr = Ipv4Addr::new(172, 19, 0, 1);
const PREFIX: u8 = 30;
const MTU: u32 = 1500;
/// The queue that an interface gets if its maker asks for none.
const QUEUE: i32 = 500;
/// How long the interface of another's may take to be there.
const PATIENCE: Duration = Duration::from_secs(30);

/// Of these arms those whose program is in the folder that `HEADSTART_LAB_PEERS` names.
pub fn found(arms: &[&'static str]) -> Vec<&'static str> {
    let folder = std::env::var_os(FOLDER).map(PathBuf::from);
    folder.map(|folder| found_in(&folder, arms)).unwrap_or_default()
}

fn found_in(folder: &Path, arms: &[&'static str]) -> Vec<&'static str> {
    arms.iter().copied().filter(|arm| folder.join(arm).is_file()).collect()
}

/// Whether the forwarder of an arm is of this kind.
pub fn is_beside(arm: &str) -> bool {
    [PHONE, TUN2SOCKS, SING_BOX, SING_BOX_1_13].contains(&arm)
}

/// A forwarder at work; ended when dropped.
pub struct Beside {
    child: Child,
    /// Where programs are behind it, if not on the client of the wire.
    device: Option<NetNs>,
    before: Counts,
}

impl Beside {
    /// Starts that of `arm` on the client of `wire`; `headstart` is the program that is measured.
    pub fn start(arm: &str, wire: &Wire, headstart: &Path) -> anyhow::Result<Self> {
        let (child, device) = if arm == PHONE { phone(wire, headstart)? } else { (other(arm, wire)?, None) };
        let mut beside = Self { child, device, before: Counts::default() };
        if beside.device.is_none() {
            beside.wait(arm, wire)?;
        }
        beside.before = Counts::of(beside.child.id())?;
        Ok(beside)
    }

    /// Where programs are behind it.
    pub fn programs<'a>(&'a self, wire: &'a Wire) -> &'a NetNs {
        self.device.as_ref().unwrap_or(&wire.client)
    }

    /// Adds to what a program has said what its forwarder needed: processor time, and the most memory that was resident.
    pub fn account(&self, said: &mut Value) -> anyhow::Result<()> {
        let pid = self.child.id();
        said["ran_s"] = json!(Counts::of(pid)?.ran_since(self.before));
        said["peak_mb"] = json!(megabytes(pid, "VmHWM:")?);
        Ok(())
    }

    /// Waits for its interface, and leads what goes to the server there; its own connections are bound to the wire.
    fn wait(&mut self, arm: &str, wire: &Wire) -> anyhow::Result<()> {
        let clock = Clock::new();
        let until = clock.now() + PATIENCE;
        loop {
            let led = wire.client.run(|| lead(arm))?;
            let Err(why) = led else { return Ok(()) };
            if let Some(status) = self.child.try_wait()? {
                let mut said = String::new();
                self.child.stderr.take().map(|mut errors| errors.read_to_string(&mut said)).transpose()?;
                bail!("{arm} ended with {status}: {said}");
            }
            if clock.now() > until {
                bail!("{arm} has made no interface: {why}");
            }
            clock.sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Leads what goes to the server into the interface. An error while that is not up: sing-box brings it up when it listens.
fn lead(arm: &str) -> Result<(), NetlinkError> {
    let mut netlink = Netlink::open()?;
    let index = netlink.index(INTERFACE)?;
    if arm == TUN2SOCKS {
        match netlink.address(index, ADDRESS.into(), PREFIX) {
            Err(e) if e.kind() != std::io::ErrorKind::AlreadyExists => return Err(e),
            _ => netlink.up(index)?,
        }
    }
    netlink.route(WIRED.into(), 32, Via::Interface(index))
}

/// Another's, whose interface is on the client itself.
fn other(arm: &str, wire: &Wire) -> anyhow::Result<Child> {
    let folder = std::env::var_os(FOLDER).with_context(|| format!("{FOLDER} is not set"))?;
    let mut command = Command::new(Path::new(&folder).join(arm));
    let config = if arm == TUN2SOCKS {
        command.args(["-device", INTERFACE, "-interface", "eth0", "-proxy", "direct://", "-loglevel", "error"]);
        command.args(["-mtu", &MTU.to_string()]);
        None
    } else {
        command.args(["run", "-c", "stdin"]);
        Some(sing_box((arm == SING_BOX_1_13).then_some(MTU)))
    };
    let mut child = spawned(command, wire, if config.is_some() { Stdio::piped() } else { Stdio::null() })
        .with_context(|| format!("starting {arm}"))?;
    if let (Some(config), Some(mut input)) = (config, child.stdin.take()) {
        input.write_all(config.to_string().as_bytes())?;
    }
    Ok(child)
}

fn sing_box(mtu: Option<u32>) -> Value {
    let mut tun = json!({ "type": "tun", "interface_name": INTERFACE, "address": [format!("{ADDRESS}/{PREFIX}")] });
    if let Some(mtu) = mtu {
        tun["mtu"] = json!(mtu);
    }
    json!({
        "log": { "level": "error" },
        "inbounds": [tun],
        "outbounds": [{ "type": "direct", "bind_interface": "eth0" }],
    })
}

/// Ours, with an interface that is not its own, in a namespace that has no other: the device.
fn phone(wire: &Wire, headstart: &Path) -> anyhow::Result<(Child, Option<NetNs>)> {
    let device = NetNs::create()?;
    let tun = device.run(|| -> anyhow::Result<Tun> {
        let tun = Tun::create_plain(INTERFACE, QUEUE)?;
        let mut netlink = Netlink::open()?;
        let index = netlink.index(INTERFACE)?;
        netlink.mtu(index, MTU)?;
        netlink.address(index, ADDRESS.into(), PREFIX)?;
        netlink.up(index)?;
        netlink.route(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0, Via::Interface(index))?;
        Ok(tun)
    })??;
    // A copy is not closed on exec.
    let inherited = rustix::io::dup(&tun)?;
    let mut command = Command::new(headstart);
    command.args(["forward", "--quiet", "--tun-fd"]).arg(OsString::from(inherited.as_raw_fd().to_string()));
    let child = spawned(command, wire, Stdio::null()).context("starting `headstart forward`")?;
    Ok((child, Some(device)))
}

fn spawned(mut command: Command, wire: &Wire, input: Stdio) -> anyhow::Result<Child> {
    undisturbed(&mut command);
    wire.client.adopt(&mut command)?;
    Ok(command.stdin(input).stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::Folder;

    #[test]
    fn only_forwarders_whose_programs_are_there_are_arms() {
        let folder = Folder::new().unwrap();
        std::fs::write(folder.path().join(SING_BOX), "").unwrap();
        std::fs::create_dir(folder.path().join(TUN2SOCKS)).unwrap();
        assert_eq!(
            found_in(folder.path(), &[TUN2SOCKS, SING_BOX, SING_BOX_1_13]),
            [SING_BOX],
            "a folder is no program"
        );
    }

    #[test]
    fn sing_box_has_its_own_mtu_where_it_is_told_none() {
        let mtu = |told| sing_box(told)["inbounds"][0]["mtu"].clone();
        assert_eq!((mtu(None), mtu(Some(MTU))), (Value::Null, json!(1500)));
    }
}
