//! `up --bundle`: small segments carry those before them again, and nobody notices but by what is not lost.

use crate::scene::{Ended, HEADSTART, Scene, can_bundle, found, inside, until};
use headstart_core::time::Duration;
use headstart_io::clock::Clock;
use headstart_lab::netns::{Network, default_world};
use headstart_lab::server::ssh::SshServer;
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A round trip of several intervals of [`EVERY`], so that there is always something to bundle, yet few in flight; and losses.
const LINK: &str = "rate=20mbit,delay=20ms,loss=3%";
const EVERY: Duration = Duration::from_millis(15);
const MESSAGES: usize = 150;
/// Where the lab's `www.lab.example` is.
const SITES: [&str; 2] = ["198.19.0.1", "2001:db8:1::1"];

/// Two hosts and a link that loses packets, each with a daemon of its own.
struct Pair {
    network: Network,
    folder: PathBuf,
}

impl Pair {
    fn new() -> Self {
        let network = Network::build(&default_world(LINK)).unwrap_or_else(|e| panic!("{e}"));
        let folder = std::env::temp_dir().join(format!("headstart-bundle-{:08x}", crate::scene::random_number()));
        for side in ["client", "server"] {
            for name in ["state", "run"] {
                std::fs::create_dir_all(folder.join(side).join(name)).unwrap();
            }
        }
        Self { network, folder }
    }

    fn command(&self, side: &str, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let on_client = side == "client";
        let command = if on_client { self.network.command(program) } else { self.network.server_command(program) };
        let mut command = command.unwrap_or_else(|e| panic!("{e}"));
        let folder = self.folder.join(side);
        command.env("STATE_DIRECTORY", folder.join("state")).env("RUNTIME_DIRECTORY", folder.join("run"));
        command.stdin(Stdio::null());
        command
    }

    fn headstart(&self, side: &str, words: &[&str]) -> Ended {
        Ended::of(self.command(side, HEADSTART).args(words).output().unwrap())
    }

    /// How many segments a side has bundled.
    fn bundled(&self, side: &str) -> u64 {
        let status = self.headstart(side, &["status", "--json"]);
        let status: serde_json::Value = serde_json::from_str(&status.out).unwrap_or_else(|e| panic!("{e}: {status:?}"));
        status["bundling"]["bundled"].as_u64().unwrap_or_else(|| panic!("{status}"))
    }

    fn rules(&self, side: &str) -> String {
        let Ended { code, out, err } = Ended::of(self.command(side, nft()).args(["list", "ruleset"]).output().unwrap());
        assert_eq!(code, Some(0), "{err}");
        out
    }

    /// Small messages to a server that sends each back; what came back.
    fn talk(&self, site: &str) -> Vec<u8> {
        let site: IpAddr = site.parse().unwrap();
        let listener = self.network.on_servers(|| TcpListener::bind(SocketAddr::new(site, 0)).unwrap()).unwrap();
        let at = listener.local_addr().unwrap();
        let serving = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.set_nodelay(true).unwrap();
            let mut buffer = [0; 4096];
            while let Ok(n) = stream.read(&mut buffer)
                && n > 0
            {
                stream.write_all(&buffer[..n]).unwrap();
            }
        });
        let mut stream = self.network.on_client(|| TcpStream::connect(at).unwrap()).unwrap();
        stream.set_nodelay(true).unwrap();
        let mut reader = stream.try_clone().unwrap();
        let reading = std::thread::spawn(move || {
            let mut got = Vec::new();
            reader.read_to_end(&mut got).unwrap();
            got
        });
        let clock = Clock::new();
        for message in sent().chunks(50) {
            stream.write_all(message).unwrap();
            clock.sleep(EVERY);
        }
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        serving.join().unwrap();
        reading.join().unwrap()
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn sent() -> Vec<u8> {
    (0..50 * MESSAGES as u32).map(|k| (k.wrapping_mul(k) >> 3) as u8).collect()
}

/// Where nft is.
fn nft() -> &'static Path {
    let places = ["/usr/sbin/nft", "/sbin/nft", "/usr/local/sbin/nft", "/usr/bin/nft"].map(Path::new);
    places.into_iter().find(|file| file.is_file()).unwrap_or(places[0])
}

inside!(bundled_streams_are_the_same_bytes_in_both_families_and_down_leaves_no_rule, || {
    if !can_bundle() {
        return;
    }
    let pair = Pair::new();
    let before = ["client", "server"].map(|side| pair.rules(side));
    for side in ["client", "server"] {
        let up = pair.headstart(side, &["up", "--bundle"]);
        assert_eq!(up.code, Some(0), "{up:?}");
    }
    std::thread::scope(|scope| {
        let talking = SITES.map(|site| scope.spawn(|| pair.talk(site)));
        for talk in talking {
            assert!(talk.join().unwrap() == sent());
        }
    });
    // Of the messages that left within a round trip of those before them, that is nearly all.
    for side in ["client", "server"] {
        let bundled = pair.bundled(side);
        assert!(bundled > 0, "{side}");
        println!("{side}: {bundled} segments carried others again");
        let down = pair.headstart(side, &["down"]);
        assert!(down.code == Some(0) && down.out.contains("1 change undone"), "{down:?}");
    }
    assert_eq!(["client", "server"].map(|side| pair.rules(side)), before);
});

inside!(ssh_says_over_bundled_segments_what_it_says_without, || {
    let programs = [("ssh", "openssh-client"), ("sshd", "openssh-server"), ("git", "git")];
    if programs.iter().any(|(program, package)| found(program, package).is_none()) || !can_bundle() {
        return;
    }
    let pair = Pair::new();
    let repository = pair.folder.join("repository");
    let at = repository.display().to_string();
    let name = ["-c", "user.name=a", "-c", "user.email=a@lab.example"];
    for words in [
        &["init", "-q", &at][..],
        &[&["-C", &at][..], &name, &["commit", "-q", "--allow-empty", "-m", "first"]].concat(),
    ] {
        let mut git = Command::new("git");
        git.args(words).env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_SYSTEM", "/dev/null");
        assert!(git.status().unwrap().success());
    }
    let server =
        SshServer::start(&pair.network, &pair.folder.join("ssh"), &repository, SITES[0].parse().unwrap()).unwrap();
    let ssh = || {
        let mut command = pair.command("client", "ssh");
        let output = command.args(server.identity().options()).arg(format!("root@{}", SITES[0])).output().unwrap();
        assert!(!output.stdout.is_empty(), "{output:?}");
        output.stdout
    };
    let bare = ssh();
    for side in ["client", "server"] {
        assert_eq!(pair.headstart(side, &["up", "--bundle"]).code, Some(0));
    }
    assert_eq!(ssh(), bare);
    for side in ["client", "server"] {
        assert_eq!(pair.headstart(side, &["down"]).code, Some(0));
    }
});

inside!(a_bundling_host_is_as_before_after_down_and_after_a_kill, || {
    let Some(scene) = Scene::new() else { return };
    if !can_bundle() {
        return;
    }
    let before = scene.look();
    let plan = scene.says(&["plan", "--bundle"]);
    assert!(plan.code == Some(0) && plan.out.contains("headstart-bundle"), "{plan:?}");
    scene.must_be_as(&before, "after a plan");
    assert_eq!(scene.says(&["up", "--bundle"]).code, Some(0));
    assert_eq!(scene.status()["bundling"]["packets"], 0);
    assert_eq!(scene.says(&["down"]).code, Some(0));
    scene.must_be_as(&before, "after down");
    let (mut daemon, up) = scene.daemon(&["--bundle"]);
    assert!(up);
    crate::scene::send(&daemon, rustix::process::Signal::KILL);
    daemon.wait().unwrap();
    // Nobody reads the queue any more, and packets go on.
    let (mut near, mut far) = scene.connect(crate::scene::PEERS[0].parse().unwrap());
    let mut byte = [0];
    for _ in 0..20 {
        near.write_all(b"x").unwrap();
        far.read_exact(&mut byte).unwrap();
    }
    drop((near, far));
    until("it is recovered", || scene.says(&["recover"]).code == Some(0));
    scene.must_be_as(&before, "after recover");
});
