//! `headstart lab attach --pid N`: the emulated link in the way of an interface that is there already, that of a container or of any process.
//!
//! Packets of the interface take a detour (`headstart_io::detour`) through two veths into the emulator and back. The veths end in a
//! namespace that lives by this process alone, and the programs that send packets there by its descriptors, so that whatever ends this
//! process ends the detour too; addresses, routes and queues of the interface are never touched.
//!
//! All IP that passes the interface is concerned, of whatever process; loopback is not, nor is what the emulator lets pass everywhere
//! (neighbour discovery, multicast, link-local), nor are other protocols and frames with a VLAN's tag. Packets that are on the link at its
//! end are lost.

use super::control::{Control, LINK, claim};
use super::emulator::Emulator;
use super::settings::{PortKind, Settings};
use super::shell::{run_command, vouch, whole};
use super::switch::{Cable, Peers};
use super::topology::{self, EMULATOR, creating, in_ns, plug, port, sysctls};
use super::worker::Ports;
use super::{Error, enter};
use headstart_io::clock::Clock;
use headstart_io::detour::{Detour, DetourPlan, InterfaceId};
use headstart_io::process_end;
use headstart_io::sys::netlink::{Interface, Mac, Netlink, VethEnd};
use headstart_io::sys::netns::NetNs;
use headstart_io::sys::signal;
use rustix::event::{PollFd, PollFlags, poll};
use std::ffi::OsString;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::fd::OwnedFd;

/// Ends of the veths in the emulator's namespace: on the side of the interface's host, and on that of its network.
const PORTS: [&str; 2] = ["inner", "outer"];
/// Their Ethernet addresses, and those of the other ends, which nothing is sent to.
const PORT_MACS: [Mac; 2] = [[0x02, 0x68, 0x73, 0, 1, 1], [0x02, 0x68, 0x73, 0, 1, 2]];
const FAR_MACS: [Mac; 2] = [[0x02, 0x68, 0x73, 0, 1, 3], [0x02, 0x68, 0x73, 0, 1, 4]];

/// In whose way a link is put.
#[derive(Clone, Debug)]
pub struct Target {
    /// A process: its network namespace is meant.
    pub pid: u32,
    /// The interface there; that of the default route, or the only one, if none.
    pub interface: Option<String>,
    /// Whether it may be the namespace that this process or the host's first process is in.
    pub host: bool,
}

/// Puts the link that `link` describes in the way of the target's interface, until `command`, which runs in that network namespace, ends. With
/// no command: until this process is asked to end, or the target's ends. The exit status is that of the command, as in
/// [`shell`](super::shell).
///
/// Call it before other threads are started. Needs the rights of the host's root.
pub fn attach(target: &Target, link: &str, command: &[OsString], settings: &Settings) -> Result<i32, Error> {
    let spec = super::sized_link(link)?;
    // Before any thread is started, which all take no signal then.
    let ending = command.is_empty().then(signal::ending).transpose();
    let ending = ending.map_err(Error::io("waiting for signals"))?;
    let (ns, ended) = namespace(target)?;
    let claim = claim(&ns)?;
    let interface = in_ns(&ns, || find(target))?;
    let kind = settings.ports_for(&spec);
    let veths = Veths::lay(&ns, &interface, kind)?;
    let cable =
        Cable { name: interface.name.clone(), ends: topology::ACCESS, link: spec.clone(), ahead: kind.quantum() };
    let clock = Clock::new();
    let ports = veths.ports(kind)?;
    // Its probes must not meet the detour, which would send them on.
    let emulator = Emulator::start(&[cable], 1, ports, Peers::new(), clock, settings)
        .map_err(Error::io("starting the emulator"))?;
    let control = Control::at(claim, emulator.links(), spec).map_err(Error::io("making the socket for `lab link`"))?;
    let detour = in_ns(&ns, || veths.detour(&interface))?;
    let status = match ending {
        Some(ending) => {
            eprintln!("headstart: {} of process {} is behind {link} until Ctrl-C", interface.name, target.pid);
            wait(&[&ending, &ended])?;
            0
        }
        None => run_command(command, |command| {
            ns.adopt(command).map_err(Error::io("preparing a command"))?;
            command.env_remove(enter::INSIDE).env_remove(LINK);
            Ok(())
        })?,
    };
    // The interface first: packets must not be led to an emulator that has ended.
    drop(detour);
    drop(control);
    vouch(&emulator.certificate());
    drop(emulator);
    Ok(whole(status, settings))
}

/// The network namespace of the target, and a descriptor that says when its process ends.
fn namespace(target: &Target) -> Result<(NetNs, OwnedFd), Error> {
    let pid = target.pid;
    let none = || Error::NoTarget(format!("there is no process {pid}"));
    let ended = i32::try_from(pid).ok().and_then(|pid| process_end(pid).ok()).ok_or_else(none)?;
    let ns = NetNs::of_process(pid).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => none(),
        io::ErrorKind::PermissionDenied => {
            Error::NotPermitted { what: format!("the network of process {pid}"), why: source.to_string() }
        }
        _ => Error::Io { what: format!("the network of process {pid}"), source },
    })?;
    let id = |ns: &NetNs| ns.id().map_err(creating);
    let own = [NetNs::current().ok(), NetNs::of_process(1).ok()];
    if !target.host && own.iter().flatten().any(|own| id(own).ok() == id(&ns).ok()) {
        return Err(Error::NoTarget(format!(
            "process {pid} is in the network of this host itself: all of its traffic would take the link, remote shells too; --host does that"
        )));
    }
    // Entering asks for more than looking.
    match ns.run(|| ()) {
        Ok(()) => Ok((ns, ended)),
        Err(why) => Err(Error::NotPermitted { what: format!("the network of process {pid}"), why: why.to_string() }),
    }
}

/// The interface that is meant, of those of the calling thread's namespace.
fn find(target: &Target) -> Result<Interface, Error> {
    let mut netlink = Netlink::open()?;
    let all = netlink.interfaces()?;
    let mut default = netlink.routers(Ipv4Addr::UNSPECIFIED.into())?;
    default.extend(netlink.routers(Ipv6Addr::UNSPECIFIED.into())?);
    let default: Vec<u32> = default.iter().map(|route| route.interface).collect();
    choose(&all, &default, target.interface.as_deref()).map_err(Error::NoTarget)
}

/// The interface of that name, or the first that a default route leads to, or the only one.
fn choose(all: &[Interface], default: &[u32], wanted: Option<&str>) -> Result<Interface, String> {
    let list = |of: &[&Interface]| of.iter().map(|interface| interface.name.as_str()).collect::<Vec<_>>().join(", ");
    let fit: Vec<&Interface> = all.iter().filter(|interface| interface.is_ethernet && interface.is_up).collect();
    if let Some(wanted) = wanted {
        let Some(found) = all.iter().find(|interface| interface.name == wanted) else {
            let all: Vec<_> = all.iter().collect();
            return Err(format!("there is no interface {wanted} in that network; it has {}", list(&all)));
        };
        return match (found.is_ethernet, found.is_up) {
            (false, _) => Err(format!(
                "{wanted} has no Ethernet headers (as loopback, TUN and WireGuard), so no link can be put in its way"
            )),
            (true, false) => Err(format!("{wanted} is switched off")),
            (true, true) => Ok(found.clone()),
        };
    }
    let by_route = default.iter().find_map(|index| fit.iter().find(|interface| interface.index == *index));
    match (by_route, &fit[..]) {
        (Some(found), _) => Ok((*found).clone()),
        (None, [only]) => Ok((*only).clone()),
        (None, []) => {
            Err("that network has no interface whose packets could take a link: an Ethernet that is switched on".into())
        }
        (None, several) => {
            Err(format!("which interface? No default route leads to one of {}: name it by --interface", list(several)))
        }
    }
}

/// Waits until one of these is readable.
fn wait(any: &[&OwnedFd]) -> Result<(), Error> {
    let mut fds: Vec<_> = any.iter().map(|fd| PollFd::new(*fd, PollFlags::IN)).collect();
    loop {
        match poll(&mut fds, None) {
            Ok(_) => return Ok(()),
            Err(rustix::io::Errno::INTR) => {}
            Err(source) => return Err(Error::Io { what: "waiting".into(), source: source.into() }),
        }
    }
}

/// The two veths, and the namespace of the emulator that they lead to.
struct Veths {
    emulator: NetNs,
    names: [String; 2],
    indices: [u32; 2],
}

impl Veths {
    fn lay(ns: &NetNs, interface: &Interface, kind: PortKind) -> Result<Self, Error> {
        let emulator = NetNs::create().map_err(creating)?;
        in_ns(&emulator, || sysctls(EMULATOR))?;
        let names = ["in", "out"].map(|side| format!("hs{}-{side}", interface.index));
        let mut indices = [0; 2];
        for side in 0..2 {
            let (name, mtu) = (&names[side], interface.mtu);
            let near = VethEnd { name: PORTS[side], mac: PORT_MACS[side], ns: &emulator };
            let far = VethEnd { name, mac: FAR_MACS[side], ns };
            in_ns(&emulator, || {
                let mut netlink = Netlink::open()?;
                netlink.veth(near, far)?;
                let index = netlink.index(PORTS[side])?;
                Ok(netlink.set_mtu(index, mtu)?)
            })?;
            indices[side] = in_ns(ns, || {
                let mut netlink = Netlink::open()?;
                let index = netlink.index(name)?;
                netlink.set_mtu(index, mtu)?;
                // Or it would speak by itself as soon as it is switched on. Where there is no IPv6, it cannot.
                let _ = std::fs::write(format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6"), "1");
                plug(&mut netlink, name, kind)
            })?;
        }
        Ok(Self { emulator, names, indices })
    }

    fn ports(&self, kind: PortKind) -> Result<Ports, Error> {
        in_ns(&self.emulator, || {
            let sockets = PORTS.map(|name| port(name, kind)).into_iter().collect::<Result<_, _>>()?;
            Ok(Ports { sockets, gather: vec![kind.quantum(); 2], probe: (topology::ACCESS[1], FAR_MACS[1]) })
        })
    }

    fn detour(&self, interface: &Interface) -> Result<Detour, Error> {
        let veth = |side: usize| InterfaceId { name: &self.names[side], index: self.indices[side] };
        let at = InterfaceId { name: &interface.name, index: interface.index };
        let mark = fastrand::u32(1..);
        Detour::attach(&DetourPlan { interface: at, inner: veth(0), outer: veth(1), mark }).map_err(|why| {
            let what = format!("a detour at {} (eBPF)", interface.name);
            if why.is_not_permitted() {
                return Error::NotPermitted { what, why: why.to_string() };
            }
            Error::Io { what: format!("{what}, which takes Linux 6.6"), source: io::Error::other(why) }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interface(index: u32, name: &str, is_ethernet: bool, is_up: bool) -> Interface {
        Interface { index, name: name.into(), mtu: 1500, is_ethernet, is_up }
    }

    #[test]
    fn the_interface_is_the_one_of_the_default_route_or_the_only_one() {
        let lo = interface(1, "lo", false, true);
        let [a, b, off] =
            [(2, "a", true), (3, "b", true), (4, "off", false)].map(|(n, name, up)| interface(n, name, true, up));
        let tun = interface(5, "tun", false, true);
        let all = [lo.clone(), a.clone(), b.clone(), off.clone(), tun];
        assert_eq!(choose(&all, &[5, 3], None), Ok(b.clone()), "a tunnel cannot, the next can");
        assert_eq!(choose(&[lo.clone(), a.clone(), off], &[], None), Ok(a));
        assert_eq!(choose(&all, &[], Some("b")), Ok(b));
        for (of, wanted, why) in [
            (&all[..], None, "one of a, b: name it by --interface"),
            (&[lo], None, "no interface whose packets"),
            (&all, Some("lo"), "lo has no Ethernet headers"),
            (&all, Some("tun"), "tun has no Ethernet headers"),
            (&all, Some("off"), "off is switched off"),
            (&all, Some("c"), "it has lo, a, b, off, tun"),
        ] {
            let said = choose(of, &[], wanted).unwrap_err();
            assert!(said.contains(why), "{said}");
        }
    }
}
