//! The servers that third-party programs talk to where their content is compared byte for byte: HTTPS and SSH on every
//! address of a network that answers, all with the same few contents.
//!
//! Keys, certificates, contents and the repository are made for one run, in a private folder, and are the same for every
//! client. Nothing is installed on the host, and nothing of its user's is read.

use super::authority::Authority;
use super::https::HttpsServer;
use super::ssh::SshServer;
use crate::netns::Network;
use crate::program::{Entry, Folder, Program, Scheme, Trust, Url};
use anyhow::{Context as _, bail};
use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What the servers' certificate is for.
const NAMES: &[&str] = &["*.lab.example"];
/// 3 MiB: more than all buffers on the way, so that a connection is not used up by one burst.
const LARGE: usize = 3 << 20;
/// Characters of a line of the large page that a browser shows.
const LINE: usize = 120;
/// Seed of the contents: the same in every run.
const SEED: u64 = 8305;

const PAGE: &str = "page.html";
const LARGE_PAGE: &str = "large.html";
const LARGE_FILE: &str = "large.bin";
const ECHO: &str = "/echo";

/// What a program fetches, or sends and gets back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// A page of a few hundred bytes.
    Page,
    /// 3 MiB of random bytes; for programs that show pages instead of printing files, of random text.
    Large,
    /// 3 MiB of random bytes, sent by the program and sent back by the server.
    Upload,
}

impl Content {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Page, Self::Large, Self::Upload];

    /// In words.
    pub fn what(self) -> &'static str {
        match self {
            Self::Page => "a page of a few hundred bytes",
            Self::Large => "a page of 3 MiB",
            Self::Upload => "3 MiB sent and sent back",
        }
    }
}

/// The running servers; they end when this is dropped.
pub struct Suite {
    _https: HttpsServer,
    ssh: Result<SshServer, String>,
    trust: Trust,
    contents: PathBuf,
}

impl Suite {
    /// Starts them on all addresses of `network` that take connections; their files are in `folder`.
    ///
    /// `Err` if there can be no HTTPS. SSH may be missing: see [`Suite::without_ssh`].
    pub fn start(network: &Network, folder: &Folder) -> anyhow::Result<Self> {
        let private = folder.of("servers").context("making a folder for the servers' files")?;
        let contents = contents(&private)?;
        let authority = Authority::create(&private)?;
        let addresses: Vec<IpAddr> = network.accepted().into_keys().collect();
        let mut https = HttpsServer::new(authority.server(NAMES)?, &contents);
        network
            .on_servers(|| addresses.iter().try_for_each(|ip| https.listen(*ip)))?
            .context("starting the HTTPS server")?;
        let any = *addresses.first().context("the network has no address that accepts connections")?;
        let ssh = repository(&contents)
            .and_then(|repository| SshServer::start(network, &private.join("ssh"), &repository, any))
            .map_err(|e| format!("{e:#}"));
        let ssh_identity = ssh.as_ref().ok().map(|server| server.identity().clone());
        let trust = Trust { https: Some(authority.trust().clone()), ssh: ssh_identity };
        Ok(Self { _https: https, ssh, trust, contents })
    }

    /// Why there is no SSH, if there is none.
    pub fn without_ssh(&self) -> Option<&str> {
        self.ssh.as_ref().err().map(String::as_str)
    }

    /// The same program, told which authority to trust, and what to send if that is what is asked for.
    pub fn introduce(&self, program: Program, content: Content) -> Program {
        let program = program.trusting(&self.trust);
        match content {
            Content::Upload => program.sending(&self.contents.join(LARGE_FILE)),
            Content::Page | Content::Large => program,
        }
    }

    /// Where a program finds `content` at `host`; none if it cannot be asked for it here.
    pub fn url(&self, entry: &Entry, content: Content, host: &str) -> Option<Url> {
        let speaks = |scheme: &Scheme| match scheme {
            Scheme::Https => true,
            Scheme::Ssh => self.ssh.is_ok(),
            Scheme::Http => false,
        };
        let scheme = entry.schemes.iter().copied().find(speaks)?;
        let path = match content {
            Content::Upload if !entry.sends => return None,
            Content::Upload => ECHO.to_owned(),
            Content::Page | Content::Large => format!("{}/{}", entry.within, file(entry, content)),
        };
        Some(Url::new(scheme, host).at(path))
    }

    /// What a program that [prints pages](Entry::prints_page) must print.
    pub fn expected(&self, entry: &Entry, content: Content) -> anyhow::Result<Vec<u8>> {
        let file = self.contents.join(file(entry, content));
        fs::read(&file).with_context(|| format!("reading {}", file.display()))
    }
}

fn file(entry: &Entry, content: Content) -> &'static str {
    match content {
        Content::Page => PAGE,
        Content::Large if !entry.prints_page => LARGE_PAGE,
        Content::Large | Content::Upload => LARGE_FILE,
    }
}

/// Writes the contents into a folder of their own; the folder.
fn contents(private: &Path) -> anyhow::Result<PathBuf> {
    let folder = private.join("contents");
    fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
    let mut random = fastrand::Rng::with_seed(SEED);
    let mut bytes = vec![0; LARGE];
    random.fill(&mut bytes);
    let mut text = String::from("<!DOCTYPE html><title>A large page of the lab</title><pre>\n");
    while text.len() < LARGE {
        text.extend((0..LINE).map(|_| random.alphanumeric()));
        text.push('\n');
    }
    text.push_str("</pre>\n");
    let page = "<!DOCTYPE html>\n<html><head><meta charset=\"utf-8\"><title>A page of the lab</title></head>\n<body><p>\
                Héllo, wörld.</p>\n<ul>\n<li>one</li>\n<li>two</li>\n</ul>\n</body></html>\n";
    for (name, content) in [(PAGE, page.as_bytes()), (LARGE_PAGE, text.as_bytes()), (LARGE_FILE, &bytes)] {
        let file = folder.join(name);
        fs::write(&file, content).with_context(|| format!("writing {}", file.display()))?;
    }
    Ok(folder)
}

/// Makes `repo.git` of the contents, beside them, ready to be cloned over SSH and over plain HTTPS; its path.
fn repository(contents: &Path) -> anyhow::Result<PathBuf> {
    let repository = contents.join("repo.git");
    let git = |words: &[&str]| {
        let mut command = Command::new("git");
        command.arg("--git-dir").arg(&repository).arg("--work-tree").arg(contents).args(words).current_dir(contents);
        // Not the user's own settings, nor a repository around.
        let variables = std::env::vars_os().map(|(name, _)| name);
        let of_git = variables.filter(|name| name.to_string_lossy().starts_with("GIT_"));
        of_git.for_each(|name| _ = command.env_remove(name));
        command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
        for who in ["AUTHOR", "COMMITTER"] {
            command.env(format!("GIT_{who}_NAME"), "headstart lab");
            command.env(format!("GIT_{who}_EMAIL"), "lab@lab.example");
            command.env(format!("GIT_{who}_DATE"), "2000-01-01T00:00:00Z");
        }
        let output = command.stdin(Stdio::null()).output().context("running git (Debian package: git)")?;
        if !output.status.success() {
            bail!("git {}: {}", words.join(" "), String::from_utf8_lossy(&output.stderr).trim());
        }
        Ok(())
    };
    git(&["init", "--quiet", "--initial-branch=main"])?;
    git(&["add", PAGE, LARGE_PAGE, LARGE_FILE])?;
    git(&["commit", "--quiet", "--message=Contents"])?;
    git(&["repack", "-a", "-d", "--quiet"])?;
    // What clients of plain HTTPS read instead of asking.
    git(&["update-server-info"])?;
    Ok(repository)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::find_entry;

    #[test]
    fn contents_are_large_enough_to_be_mixed_up_and_the_same_in_every_run() {
        let folder = tempfile::tempdir().unwrap();
        let (a, b) = (folder.path().join("a"), folder.path().join("b"));
        let (a, b) = (contents(&a).unwrap(), contents(&b).unwrap());
        for (name, least) in [(PAGE, 100), (LARGE_PAGE, LARGE), (LARGE_FILE, LARGE)] {
            let read = fs::read(a.join(name)).unwrap();
            assert!(read.len() >= least, "{name}");
            assert_eq!(read, fs::read(b.join(name)).unwrap(), "{name}");
        }
    }

    #[test]
    fn a_repository_has_what_plain_https_needs() {
        if Command::new("git").arg("version").output().is_err() {
            println!("skipped: git is not on the PATH (Debian package: git)");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let repository = repository(&contents(folder.path()).unwrap()).unwrap();
        assert!(fs::read_to_string(repository.join("info/refs")).unwrap().contains("refs/heads/main"));
        assert!(fs::read_to_string(repository.join("HEAD")).unwrap().contains("refs/heads/main"));
        assert!(fs::read_to_string(repository.join("objects/info/packs")).unwrap().starts_with("P pack-"));
    }

    #[test]
    fn browsers_get_text_and_others_bytes() {
        let [curl, chromium] = ["curl", "chromium"].map(|name| find_entry(name).unwrap());
        assert_eq!(file(curl, Content::Large), LARGE_FILE);
        assert_eq!(file(chromium, Content::Large), LARGE_PAGE);
        assert_eq!(file(curl, Content::Page), file(chromium, Content::Page));
    }
}
