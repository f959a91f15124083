//! Unmodified programs through a relay over a link that loses packets: ssh and socat, by a forwarded port and by SOCKS.

use crate::scene::{Folder, HEADSTART, Running, found, inside, until};
use headstart_lab::netns::{Network, default_world};
use headstart_lab::server::ssh::SshServer;
use std::fs;
use std::net::{IpAddr, TcpStream};
use std::process::{Command, Stdio};

/// The hop between the programs and the relay.
const LINK: &str = "rate=20mbit,delay=5ms,loss=1%";
/// Where the lab's `www.lab.example` is.
const SITE: &str = "198.19.0.1";

/// A network with a relay beside its servers, and a port on its client that leads through it to `to`.
struct Scene {
    network: Network,
    folder: Folder,
    _relay: Running,
    _ports: Running,
    /// The port that leads there, and the one of SOCKS.
    ports: [String; 2],
}

impl Scene {
    fn new(to: u16) -> Self {
        let network = Network::build(&default_world(LINK)).unwrap_or_else(|e| panic!("{e}"));
        let folder = Folder::new();
        let serve = folder.serve(&format!("{SITE}:7601"), &format!("{SITE}:{to}"));
        let mut relay = Running::start(network.server_command(HEADSTART).unwrap().args(serve));
        let at = relay.address(2);
        let mut words =
            ["relay", "ports", "--socks", "0", "--forward", &format!("0={SITE}:{to}")].map(str::to_owned).to_vec();
        words.extend(folder.through(&at));
        let mut serving = Running::start(network.command(HEADSTART).unwrap().args(words));
        let ports = [serving.address(0), serving.address(0)];
        Self { network, folder, _relay: relay, _ports: serving, ports }
    }
}

inside!(ssh_through_the_relay_says_what_it_says_without, || {
    if found("ssh", "openssh-client").is_none()
        || found("sshd", "openssh-server").is_none()
        || found("git", "git").is_none()
    {
        return;
    }
    let scene = Scene::new(22);
    let repository = scene.folder.path("repository");
    let git = |words: &[&str]| {
        let mut command = Command::new("git");
        command.args(words).env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_SYSTEM", "/dev/null");
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
    };
    let at = repository.display().to_string();
    git(&["init", "-q", &at]);
    git(&[
        "-C",
        &at,
        "-c",
        "user.name=a",
        "-c",
        "user.email=a@lab.example",
        "commit",
        "-q",
        "--allow-empty",
        "-m",
        "first",
    ]);
    let address: IpAddr = SITE.parse().unwrap();
    let server = SshServer::start(&scene.network, &scene.folder.path("ssh"), &repository, address).unwrap();
    let ssh = |host: &str, port: &str| {
        let mut command = scene.network.command("ssh").unwrap();
        command.args(server.identity().options()).args(["-p", port]).arg(format!("root@{host}"));
        // The only command that the server has; of what it prints, the names of what there is.
        let output = command.stdin(Stdio::null()).output().unwrap();
        assert!(!output.stdout.is_empty(), "{output:?}");
        output.stdout
    };
    let bare = ssh(SITE, "22");
    let (host, port) = scene.ports[0].rsplit_once(':').unwrap();
    assert_eq!(ssh(host, port), bare);
});

inside!(socat_through_the_relay_moves_the_same_bytes_both_ways, || {
    if found("socat", "socat").is_none() {
        return;
    }
    let scene = Scene::new(7000);
    let mut server = scene.network.server_command("socat").unwrap();
    server.args([&format!("TCP-LISTEN:7000,bind={SITE},fork,reuseaddr"), "SYSTEM:tac -s a"]);
    let _server = Running::start(&mut server);
    until("socat listens", || scene.network.on_servers(|| TcpStream::connect((SITE, 7000))).unwrap().is_ok());
    let sent: Vec<u8> = (0..200_000u32).map(|k| b'a' + (k.wrapping_mul(k) >> 9) as u8 % 26).collect();
    let input = scene.folder.path("input");
    fs::write(&input, &sent).unwrap();
    let through = |address: &str| {
        let mut command = scene.network.command("socat").unwrap();
        command.args(["-t", "60", "-", address]).stdin(fs::File::open(&input).unwrap());
        let output = command.output().unwrap();
        assert!(output.status.success(), "{address}: {}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    };
    let bare = through(&format!("TCP:{SITE}:7000"));
    assert_eq!(bare.len(), sent.len());
    assert!(through(&format!("TCP:{}", scene.ports[0])) == bare);
});
