//! SSH on the sites' addresses: OpenSSH's own sshd, a program of its own beside the lab's other servers.
//!
//! Its host key, the key that it accepts, its configuration and its log are in a private folder, and its only command is
//! the upload of one repository. Nothing of the host's sshd, its keys or its settings is read or changed.

use crate::netns::Network;
use anyhow::{Context as _, bail};
use headstart_core::time::{Duration, Instant};
use headstart_io::clock::Clock;
use std::fs;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// The port of ssh.
const PORT: u16 = 22;
/// The user as which clients log in: the one of number 0, who owns everything in the lab.
const USER: &str = "root";
/// What the server is called in the list of known hosts, whatever name it was reached by.
const ALIAS: &str = "headstart-lab";
/// A server that takes no connections by then is given up: far longer than sshd takes to start.
const PATIENCE: Duration = Duration::from_secs(30);
/// Between two looks at whether it takes connections.
const LOOK: Duration = Duration::from_millis(10);

/// sshd wants a folder in /run that only its service makes: it gets a /run of its own, in a mount namespace of its own.
const START: &str = "mount -t tmpfs -o mode=0755 tmpfs /run && mkdir -m 0755 /run/sshd && exec \"$0\" \"$@\"";

/// What a client needs to log in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The user to log in as.
    pub user: &'static str,
    /// File of the private key.
    pub key: PathBuf,
    /// File with the server's key.
    pub known_hosts: PathBuf,
    /// The name under which that file has it.
    pub alias: &'static str,
}

/// A running sshd; ended when dropped.
#[derive(Debug)]
pub struct SshServer {
    child: Child,
    identity: Identity,
}

impl SshServer {
    /// Where sshd is on this machine; it is not on every user's PATH.
    pub fn program() -> Option<PathBuf> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
        folders.map(|folder| folder.join("sshd")).find(|file| file.is_file())
    }

    /// Starts sshd where `network`'s servers are, on all of their addresses, with `repository` as all that it gives.
    /// Its files are in `folder`, which is made. Returns when it takes connections at `address`, one of the sites'.
    pub fn start(network: &Network, folder: &Path, repository: &Path, address: IpAddr) -> anyhow::Result<Self> {
        let sshd = Self::program().context("sshd is not installed (Debian package: openssh-server)")?;
        fs::DirBuilder::new().mode(0o700).create(folder).with_context(|| format!("making {}", folder.display()))?;
        let [host, user] = ["host_key", "user_key"].map(|name| folder.join(name));
        let host_public = key_pair(&host)?;
        let user_public = key_pair(&user)?;
        let write = |name: &str, text: String| {
            let file = folder.join(name);
            fs::write(&file, text).with_context(|| format!("writing {}", file.display())).map(|()| file)
        };
        let forced = format!("git upload-pack '{}'", repository.display());
        let accepted = write("authorized_keys", format!("restrict,command=\"{forced}\" {user_public}"))?;
        let known_hosts = write("known_hosts", format!("{ALIAS} {host_public}"))?;
        let config = write("sshd_config", configuration(&host, &accepted))?;
        let log = folder.join("log");
        let mut command = network.server_command("unshare")?;
        command.args(["--mount", "--propagation", "private", "--", "sh", "-c", START]).arg(&sshd);
        command.args(["-D", "-f"]).arg(&config).arg("-E").arg(&log);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let child = command.spawn().context("starting sshd by unshare(1)")?;
        let identity = Identity { user: USER, key: user, known_hosts, alias: ALIAS };
        let mut server = Self { child, identity };
        server.wait_for(network, address, &log)?;
        Ok(server)
    }

    /// What clients need to log in.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    fn wait_for(&mut self, network: &Network, address: IpAddr, log: &Path) -> anyhow::Result<()> {
        let clock = Clock::new();
        let deadline: Instant = clock.now() + PATIENCE;
        loop {
            let reached = network.on_servers(|| TcpStream::connect(SocketAddr::new(address, PORT)))?;
            if reached.is_ok() {
                return Ok(());
            }
            let ended = self.child.try_wait().context("waiting for sshd")?;
            if ended.is_some() || clock.now() >= deadline {
                let mut said = fs::read_to_string(log).unwrap_or_default();
                if let (Some(_), Some(mut pipe)) = (ended, self.child.stderr.take()) {
                    // What unshare or mount said.
                    let _ = std::io::Read::read_to_string(&mut pipe, &mut said);
                }
                bail!("sshd does not accept connections ({ended:?}): {}", said.trim());
            }
            clock.sleep(LOOK);
        }
    }
}

impl Drop for SshServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn configuration(host_key: &Path, accepted: &Path) -> String {
    format!(
        "Port {PORT}\nHostKey {}\nAuthorizedKeysFile {}\nAllowUsers {USER}\nPermitRootLogin forced-commands-only\n\
         PidFile none\nStrictModes no\nUsePAM no\nUseDNS no\nPasswordAuthentication no\n\
         KbdInteractiveAuthentication no\nPrintMotd no\nPrintLastLog no\nDisableForwarding yes\n",
        host_key.display(),
        accepted.display()
    )
}

/// Makes a key pair; the public half.
fn key_pair(file: &Path) -> anyhow::Result<String> {
    let mut command = Command::new("ssh-keygen");
    command.args(["-q", "-t", "ed25519", "-N", "", "-C", "headstart lab, one run", "-f"]).arg(file);
    let output =
        command.stdin(Stdio::null()).output().context("running ssh-keygen (Debian package: openssh-client)")?;
    if !output.status.success() {
        bail!("ssh-keygen did not make a key: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    let public = file.with_extension("pub");
    fs::read_to_string(&public).with_context(|| format!("reading {}", public.display()))
}

impl Identity {
    /// The options that make ssh(1) use it and nothing of its user's.
    pub fn options(&self) -> Vec<String> {
        let option = |name: &str, value: &str| ["-o".to_owned(), format!("{name}={value}")];
        let mut words = vec!["-F".to_owned(), "/dev/null".to_owned()];
        words.extend(["-i".to_owned(), self.key.display().to_string()]);
        words.extend(option("IdentitiesOnly", "yes"));
        words.extend(option("BatchMode", "yes"));
        words.extend(option("StrictHostKeyChecking", "yes"));
        words.extend(option("UserKnownHostsFile", &self.known_hosts.display().to_string()));
        words.extend(option("GlobalKnownHostsFile", "/dev/null"));
        words.extend(option("HostKeyAlias", self.alias));
        words.extend(option("CheckHostIP", "no"));
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_server_gives_one_command_to_one_key() {
        let text = configuration(Path::new("/k/host"), Path::new("/k/accepted"));
        for line in ["HostKey /k/host", "AuthorizedKeysFile /k/accepted", "PermitRootLogin forced-commands-only"] {
            assert!(text.lines().any(|l| l == line), "{text}");
        }
        assert!(text.contains("PasswordAuthentication no\nKbdInteractiveAuthentication no\n"), "{text}");
    }

    #[test]
    fn a_client_uses_nothing_of_its_users() {
        let identity =
            Identity { user: "root", key: "/k/key".into(), known_hosts: "/k/known".into(), alias: "headstart-lab" };
        let line = identity.options().join(" ");
        for part in ["-F /dev/null", "-i /k/key", "StrictHostKeyChecking=yes", "UserKnownHostsFile=/k/known"] {
            assert!(line.contains(part), "{line}");
        }
    }
}
