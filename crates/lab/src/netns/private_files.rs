//! The files that name resolution reads, replaced inside a private mount namespace.
//!
//! They live in a tmpfs that no path leads to, bound over the targets (symbolic links are followed, as the C library
//! follows them). Files of the host are never written to, and everything vanishes with the namespace.

use super::{Error, addressing};
use headstart_io::sys::mountns::MountNs;
use rustix::mount::{MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_bind, mount_change, unmount};
use std::fs;
use std::net::IpAddr;
use std::path::Path;

const RESOLV_CONF: &str = "/etc/resolv.conf";
/// First line of each file, by which a nested lab recognises them.
const MARK: &str = "# headstart lab";
/// Where the C library's name service cache listens; answers from there would be those of the host.
const NAME_CACHES: [&str; 2] = ["/run/nscd", "/var/run/nscd"];

/// Gives the process and all that it starts the lab's files. Must run in a mount namespace made for the lab.
pub(super) fn install() -> Result<(), Error> {
    own_proc()?;
    if fs::read_to_string(RESOLV_CONF).is_ok_and(|text| text.starts_with(MARK)) {
        return Ok(());
    }
    let nsswitch = fs::read_to_string("/etc/nsswitch.conf").unwrap_or_default();
    replace(&[
        (RESOLV_CONF, resolv_conf(&[addressing::DNS_V4.into()])),
        ("/etc/hosts", format!("{MARK}\n127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n")),
        ("/etc/nsswitch.conf", with_dns_hosts(&nsswitch)),
    ])?;
    NAME_CACHES.into_iter().filter(|dir| Path::new(dir).is_dir()).try_for_each(tmpfs)
}

/// A copy of the mounts in which names are asked for at other servers, in this order. What is there now must be the
/// lab's own (see [`install`]).
pub(super) fn asking(servers: &[IpAddr]) -> Result<MountNs, Error> {
    MountNs::copy(|| replace(&[(RESOLV_CONF, resolv_conf(servers))]))
}

impl From<std::io::Error> for Error {
    fn from(source: std::io::Error) -> Self {
        failed("copying the lab's private files".into(), source)
    }
}

/// Binds files with these texts over those of these paths.
fn replace(files: &[(&str, String)]) -> Result<(), Error> {
    let stage = ["/mnt", "/run", "/tmp"].into_iter().find(|dir| Path::new(dir).is_dir()).ok_or_else(|| {
        Error::Files { what: "finding a directory to mount on: none of /mnt, /run, /tmp exists".into(), source: None }
    })?;
    tmpfs(stage)?;
    let replaced = fill(Path::new(stage), files);
    // The bound files stay mounted; the directory that they came from goes out of sight.
    unmount(stage, UnmountFlags::DETACH).map_err(|e| failed(format!("unmounting {stage}"), e.into()))?;
    replaced
}

fn failed(what: String, source: std::io::Error) -> Error {
    Error::Files { what, source: Some(source) }
}

/// Cuts the mounts off from the host's, and mounts a `/proc` that shows the new PID namespace.
fn own_proc() -> Result<(), Error> {
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
        .map_err(|e| failed("making mounts private".into(), e.into()))?;
    let right = |link: std::path::PathBuf| link.as_os_str() == std::process::id().to_string().as_str();
    if !fs::read_link("/proc/self").is_ok_and(right) {
        let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
        // Some containers forbid it (a partly hidden /proc); the old one then stays, which shows more, but works.
        let _ = mount("proc", "/proc", "proc", flags, None);
    }
    Ok(())
}

fn tmpfs(dir: &str) -> Result<(), Error> {
    mount("tmpfs", dir, "tmpfs", MountFlags::NOSUID | MountFlags::NODEV, Some(c"size=1m,mode=0755"))
        .map_err(|e| failed(format!("mounting a tmpfs on {dir}"), e.into()))
}

fn fill(stage: &Path, files: &[(&str, String)]) -> Result<(), Error> {
    for (target, text) in files {
        let target = Path::new(target);
        // Binding needs something to bind over; the C library does without the last two.
        if !target.exists() {
            if target.ends_with("resolv.conf") {
                let what = "replacing /etc/resolv.conf: it does not exist (or is a dangling link); \
                            create it: sudo touch \"$(readlink -m /etc/resolv.conf)\"";
                return Err(Error::Files { what: what.into(), source: None });
            }
            continue;
        }
        let file = stage.join(target.file_name().unwrap_or_default());
        fs::write(&file, text).map_err(|e| failed(format!("writing {}", file.display()), e))?;
        mount_bind(&file, target).map_err(|e| failed(format!("replacing {}", target.display()), e.into()))?;
    }
    Ok(())
}

/// `resolv.conf` with these servers.
fn resolv_conf(servers: &[IpAddr]) -> String {
    let lines = servers.iter().map(|server| format!("nameserver {server}\n"));
    format!("{MARK}\n{}", lines.collect::<String>())
}

/// `nsswitch.conf` with hosts looked up in files, then in DNS, and in nothing else; the other databases as they were.
fn with_dns_hosts(host: &str) -> String {
    let others = host.lines().filter(|line| !line.trim_start().starts_with("hosts:"));
    let mut text = format!("{MARK}\n");
    others.chain(["hosts: files dns"]).for_each(|line| {
        text.push_str(line);
        text.push('\n');
    });
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_hosts_line_of_nsswitch_changes() {
        let host = "passwd: files systemd\n hosts: files mdns4_minimal resolve\nhosts.x: y\n";
        assert_eq!(with_dns_hosts(host), format!("{MARK}\npasswd: files systemd\nhosts.x: y\nhosts: files dns\n"));
    }
}
