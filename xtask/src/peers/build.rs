//! Other forwarders, from Go's module proxy: built in a scratch folder, kept as programs in the target folder, part of nothing here.

use crate::conformance::Scratch;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A forwarder.
pub struct Peer {
    /// Its name, and that of its arm in the lab.
    pub name: &'static str,
    /// Its module, and the place of its program in there.
    module: &'static str,
    package: &'static str,
    /// Its version.
    pub version: &'static str,
    /// How its makers build it.
    flags: &'static [&'static str],
}

/// As its Makefile has it, without what has nothing to do with forwarding.
const SING_BOX: Peer = Peer {
    name: "",
    module: "github.com/sagernet/sing-box",
    package: "/cmd/sing-box",
    version: "",
    flags: &[
        "-tags",
        "with_gvisor,badlinkname,tfogo_checklinkname0",
        "-ldflags",
        "-X internal/godebug.defaultGODEBUG=multipathtcp=0 -checklinkname=0",
    ],
};

/// All of them. sing-box twice: of those that do without super-packets on Linux, as on a phone, it is the last line of versions.
pub const ALL: &[Peer] = &[
    Peer { name: "tun2socks", module: "github.com/xjasonlyu/tun2socks/v2", package: "", version: "v2.6.0", flags: &[] },
    Peer { name: "sing-box", version: "v1.14.1", ..SING_BOX },
    Peer { name: "sing-box-1.13", version: "v1.13.0", ..SING_BOX },
];

/// The first Go that fetches a newer one by itself where a module asks for that.
const FETCHES: (u32, u32) = (1, 21);
/// What an older one is given. It comes as a module too.
const NEWER: &str = "golang.org/toolchain@v0.0.1-go1.25.5.linux-";

/// Builds those that are not in `folder` yet, in these versions; what is missing if that does not work.
pub fn all(folder: &Path) -> Result<(), String> {
    let failed = |e: std::io::Error| format!("{}: {e}", folder.display());
    fs::create_dir_all(folder).map_err(failed)?;
    let version_of = |peer: &Peer| folder.join(format!("{}.version", peer.name));
    let is_there = |peer: &&Peer| {
        folder.join(peer.name).is_file() && fs::read_to_string(version_of(peer)).is_ok_and(|text| text == peer.version)
    };
    if ALL.iter().all(|peer| is_there(&peer)) {
        return Ok(());
    }
    let scratch = Scratch::new("peers").map_err(|failure| format!("{failure:?}"))?;
    let go = Go::find(scratch.folder("go").map_err(|failure| format!("{failure:?}"))?)?;
    for peer in ALL.iter().filter(|peer| !is_there(peer)) {
        println!("xtask: building {} {}, which takes some minutes", peer.name, peer.version);
        go.build(peer, &folder.join(peer.name))?;
        fs::write(version_of(peer), peer.version).map_err(failed)?;
    }
    Ok(())
}

/// Go, and a folder for all that it fetches and makes.
struct Go {
    program: PathBuf,
    folder: PathBuf,
}

impl Go {
    /// The one that is installed, or a newer one that it fetches.
    fn find(folder: PathBuf) -> Result<Self, String> {
        let program = ["/usr/local/go/bin/go", "/usr/bin/go"].map(PathBuf::from).into_iter().find(|go| go.is_file());
        let go = Self { program: program.unwrap_or_else(|| "go".into()), folder };
        let said = go.run(&["version"]).map_err(|why| format!("no Go (Debian package: golang-go): {why}"))?;
        match version(&said) {
            Some(version) if version < FETCHES => go.newer(),
            Some(_) => Ok(go),
            None => Err(format!("`go version` said {said:?}")),
        }
    }

    /// A newer Go, which is fetched as a module; modules have no executable files.
    fn newer(self) -> Result<Self, String> {
        let arch = self.run(&["env", "GOARCH"])?;
        let said = self.run(&["mod", "download", "-json", &format!("{NEWER}{}", arch.trim())])?;
        let place = said.lines().find_map(|line| line.trim().strip_prefix("\"Dir\": \"")?.split('"').next());
        let place = PathBuf::from(place.ok_or_else(|| format!("no folder in {said}"))?);
        let tools = ["bin".to_owned(), format!("pkg/tool/linux_{}", arch.trim())].map(|name| place.join(name));
        done(Command::new("chmod").args(["-R", "a+x"]).args(tools))?;
        Ok(Self { program: place.join("bin/go"), ..self })
    }

    /// Builds a program and puts it at `place`. Not by `go install`, which wants a list of versions that the proxy does not have of each module.
    fn build(&self, peer: &Peer, place: &Path) -> Result<(), String> {
        let _ = fs::remove_file(self.folder.join("go.mod"));
        self.run(&["mod", "init", "peers"])?;
        self.run(&["mod", "edit", "-require", &format!("{}@{}", peer.module, peer.version)])?;
        let (package, place) = (format!("{}{}", peer.module, peer.package), place.display().to_string());
        let build = ["build", "-mod=mod", "-trimpath", "-o", &place];
        self.run(&[&build, peer.flags, &[&package]].concat()).map(drop)
    }

    fn run(&self, words: &[&str]) -> Result<String, String> {
        let mut command = Command::new(&self.program);
        command.args(words).current_dir(&self.folder).env_remove("GOROOT");
        command.env("GOTOOLCHAIN", "auto").env("CGO_ENABLED", "0").env("GOFLAGS", "-modcacherw");
        command.env("GOMODCACHE", self.folder.join("modules")).env("GOCACHE", self.folder.join("cache"));
        done(&mut command)
    }
}

/// Runs a command to its end; what it printed, or the last of its errors.
fn done(command: &mut Command) -> Result<String, String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output().map_err(|e| format!("{program}: {e}"))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if output.status.success() {
        return Ok(text(&output.stdout));
    }
    Err(format!("{program}: {}", text(&output.stderr).lines().last().unwrap_or_default()))
}

/// The version in `go version go1.26.8 linux/amd64`.
fn version(said: &str) -> Option<(u32, u32)> {
    let digits = |text: &str| text.chars().take_while(char::is_ascii_digit).collect::<String>().parse().ok();
    let (major, rest) = said.split_once(" go")?.1.split_once('.')?;
    Some((digits(major)?, digits(rest)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_of_go_is_read_and_ordered() {
        assert_eq!(version("go version go1.26.8 linux/amd64"), Some((1, 26)));
        assert_eq!(version("go version go1.22rc1 linux/arm64"), Some((1, 22)));
        assert!(version("go version go1.19.8 linux/amd64").unwrap() < FETCHES);
        assert_eq!(version("no"), None);
    }
}
