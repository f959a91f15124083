//! The kernel's Multipath TCP (RFC 8684) over both channels, as it is: the default scheduler and path manager.
//!
//! A connection begins over the fat channel; the host's address on the fast one is an endpoint of its own, over which the kernel
//! opens a second subflow. Sockets of ours are asked for by their protocol; those of a browser by `mptcpize`, which is a
//! library in the place of socket(2). Endpoints are set by `ip` in namespaces of the lab, and gone with them.

use crate::netns::Nodes;
use headstart_io::sys::netlink::Netlink;
use rustix::net::{AddressFamily, SocketFlags, SocketType, ipproto, socket_with};
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::path::Path;
use std::process::Command;

/// What puts a program that knows nothing of it on Multipath TCP.
pub const PROGRAM: &str = "mptcpize";
/// What the kernel counts of connections that asked for it, and of second subflows that the other end has taken.
const COUNTED: [&str; 2] = ["MPCapableSYNTX", "MPJoinSynAckRx"];

/// Why there is none here, if there is none.
pub fn missing() -> Option<String> {
    let enabled = std::fs::read_to_string("/proc/sys/net/mptcp/enabled").is_ok_and(|text| text.trim() == "1");
    if !enabled || socket().is_err() {
        return Some("this kernel has no Multipath TCP (CONFIG_MPTCP, sysctl net.mptcp.enabled)".into());
    }
    let speaks = Command::new("ip").args(["mptcp", "limits", "show"]).output().is_ok_and(|o| o.status.success());
    (!speaks).then(|| "no `ip` that knows Multipath TCP: apt-get install --no-install-recommends iproute2".into())
}

/// Why no browser can be put on it, if none can.
pub fn missing_for_browsers() -> Option<String> {
    let found = std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|folder| Path::new(&folder).join(PROGRAM).is_file()));
    (!found).then(|| format!("{PROGRAM} is not installed: apt-get install --no-install-recommends {PROGRAM}"))
}

fn socket() -> io::Result<rustix::fd::OwnedFd> {
    Ok(socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, Some(ipproto::MPTCP))?)
}

/// A listener that takes connections of Multipath TCP, and of TCP, in the calling thread's namespace.
pub fn listen(to: SocketAddr) -> io::Result<TcpListener> {
    let socket = socket()?;
    rustix::net::sockopt::set_socket_reuseaddr(&socket, true)?;
    rustix::net::bind(&socket, &to)?;
    rustix::net::listen(&socket, 1024)?;
    Ok(socket.into())
}

/// Gives `node` a second subflow for each connection: from `own` out of `interface`, by which `gateway` leads to `behind` too.
pub fn set_up(
    nodes: &Nodes,
    node: usize,
    (interface, own, gateway): (&str, IpAddr, IpAddr),
    behind: &str,
) -> anyhow::Result<()> {
    let (own, gateway) = (own.to_string(), gateway.to_string());
    for words in [
        // Behind the route of everything else: taken by what is bound to the interface alone.
        &["route", "add", behind, "via", &gateway, "dev", interface, "metric", "1000"][..],
        &["mptcp", "limits", "set", "subflow", "2", "add_addr_accepted", "0"],
        &["mptcp", "endpoint", "add", &own, "dev", interface, "subflow"],
    ] {
        let mut command = Command::new("ip");
        nodes.adopt(node, command.args(words))?;
        let output = command.output()?;
        let said = String::from_utf8_lossy(&output.stderr);
        anyhow::ensure!(output.status.success(), "ip {}: {}", words.join(" "), said.trim());
    }
    // A look, so that an interface that is not there is told by its name.
    nodes.on(node, || Netlink::open()?.index(interface))??;
    Ok(())
}

/// Connections of `node` that asked for it so far, and second subflows that were taken.
pub fn counted(nodes: &Nodes, node: usize) -> anyhow::Result<[u64; 2]> {
    let text = nodes.on(node, || std::fs::read_to_string("/proc/thread-self/net/netstat"))??;
    Ok(COUNTED.map(|name| counter(&text, name).unwrap_or_default()))
}

/// A number of MPTcpExt: a line of names, and one of their numbers.
fn counter(text: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines().filter(|line| line.starts_with("MPTcpExt:"));
    let (names, numbers) = (lines.next()?, lines.next()?);
    let (_, number) = names.split(' ').zip(numbers.split(' ')).find(|(known, _)| *known == name)?;
    number.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_counts_is_found_by_its_name() {
        let text = "TcpExt: MPJoinSynAckRx\nTcpExt: 9\nMPTcpExt: MPCapableSYNTX MPJoinSynAckRx\nMPTcpExt: 3 2\n";
        assert_eq!(COUNTED.map(|name| counter(text, name)), [Some(3), Some(2)]);
        assert_eq!(counter("", COUNTED[0]), None);
    }
}
