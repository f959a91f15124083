//! GNU parallel over SSH to two hosts in namespaces, each with an sshd of its own; one is lost in the middle of its work.

use super::nodes::{Node, Running, nodes, start};
use super::scene::{Campaign, found, wait_for};
use headstart_lab::inside;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// Keys of hosts and of the user, and what sshd and ssh are told; the file of the latter.
fn configure(folder: &Path) -> String {
    let at = folder.display().to_string();
    for key in ["host", "user"] {
        let words = ["-q", "-t", "ed25519", "-N", "", "-f", &format!("{at}/{key}")];
        assert!(Command::new("ssh-keygen").args(words).status().unwrap().success());
    }
    let sshd = format!(
        "HostKey {at}/host\nAuthorizedKeysFile {at}/user.pub\nPidFile none\nStrictModes no\nUsePAM no\nPermitRootLogin yes\n\
         PasswordAuthentication no\nMaxStartups 100\n"
    );
    fs::write(folder.join("sshd_config"), sshd).unwrap();
    let known = fs::read_to_string(folder.join("host.pub")).unwrap();
    fs::write(folder.join("known"), format!("10.77.0.11 {known}10.77.0.12 {known}")).unwrap();
    let hosts = ["1", "2"].map(|n| format!("Host node{n}\nHostName 10.77.0.1{n}\n")).concat();
    let ssh = format!(
        "{hosts}Host *\nUser root\nIdentityFile {at}/user\nIdentitiesOnly yes\nUserKnownHostsFile {at}/known\n\
         GlobalKnownHostsFile /dev/null\nBatchMode yes\nServerAliveInterval 5\n"
    );
    fs::write(folder.join("ssh_config"), ssh).unwrap();
    format!("{at}/ssh_config")
}

/// Its folder below /run is of the node alone.
fn sshd(node: &Node, folder: &Path) -> Running {
    let line = "mount -t tmpfs none /run && mkdir /run/sshd && exec /usr/sbin/sshd -D -f \"$1\"";
    let file = folder.join("sshd_config").into_os_string().into_string().unwrap();
    start(&mut node.command("sh", &["-c", line, "sshd", &file]))
}

inside!(parallel_over_ssh_loses_a_host_and_each_task_is_done_once, || {
    let programs =
        [("parallel", "parallel"), ("sshd", "openssh-server"), ("ssh", "openssh-client"), ("ip", "iproute2")];
    if !rustix::process::geteuid().is_root() || !programs.iter().all(|(program, package)| found(program, package)) {
        return;
    }
    let campaign = Campaign::new();
    let folder = tempfile::tempdir().unwrap();
    let config = configure(folder.path());
    let nodes = nodes();
    let _daemons = nodes.each_ref().map(|node| sshd(node, folder.path()));
    for name in ["node1", "node2"] {
        let there = || Command::new("ssh").args(["-F", &config, name, "uname", "-n"]).stdin(Stdio::null()).output();
        wait_for(name, || there().is_ok_and(|output| output.stdout == format!("{name}\n").as_bytes()));
    }
    let logins = ["node1", "node2"].map(|name| format!("2/ssh -F {config} {name}\n")).concat();
    fs::write(campaign.path("hosts"), logins).unwrap();
    let (program, is_begun) = campaign.stuck_on("node1");
    campaign.submission_of("parallel", campaign.tasks, &program);
    let mut command = campaign.command("sh", &["campaign.sh"]);
    let mut running = command.env("HOSTS", "hosts").env("HOME", campaign.folder.path()).spawn().unwrap();
    wait_for("a shard of node1 that will not end", || {
        assert!(running.try_wait().unwrap().is_none(), "parallel has ended");
        is_begun()
    });
    println!(
        "node1: sshd and all that it started are killed, {} of {} tasks are done",
        campaign.done(),
        campaign.tasks
    );
    assert!(campaign.done() < campaign.tasks);
    nodes[0].kill_all();
    assert!(running.wait().unwrap().success(), "parallel gives its shards to the other host");
    let log = fs::read_to_string(campaign.path("results/parallel.log")).unwrap();
    // node1 has taken shards, as its stuck one shows; parallel logs those that end.
    assert!(log.contains("node2"), "{log}");
    campaign.is_whole_and_the_same();
});
