//! Two hosts in namespaces: each with a network, a name and processes of its own, on one bridge. A test that makes them is in namespaces
//! of its own already, so that nothing of the host is changed.

use super::scene::wait_for;
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::process::{Child, Command, Stdio};

/// A process that is killed when the test ends.
pub struct Running(pub Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A host; its namespaces are held by a process.
pub struct Node {
    /// That process as seen here.
    pid: i32,
    _holder: Running,
}

impl Node {
    /// A command on it. The folder is the root: words are to be absolute.
    pub fn command(&self, program: &str, words: &[&str]) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["-t", &self.pid.to_string(), "-a", program]).args(words);
        command
    }

    /// Kills all that runs on it, at once as far as anybody sees: its addresses stay, and nothing answers there any more.
    pub fn kill_all(&self) {
        // What has ended and is not waited for is nothing to kill: the first process of a node waits for none.
        let has_ended = |pid: i32| {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            stat.rsplit_once(") ").is_none_or(|(_, state)| state.starts_with(['Z', 'X']))
        };
        let space = |pid: i32| fs::read_link(format!("/proc/{pid}/ns/pid")).ok();
        let mine = space(self.pid).expect("its holder runs");
        assert_ne!(fs::read_link("/proc/self/ns/pid").unwrap(), mine, "its processes are its own");
        loop {
            let all = fs::read_dir("/proc").unwrap().flatten();
            let all = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
            let is_left = |pid: &i32| *pid != self.pid && space(*pid).as_ref() == Some(&mine) && !has_ended(*pid);
            let left: Vec<i32> = all.filter(is_left).collect();
            if left.is_empty() {
                return;
            }
            for pid in left.into_iter().filter_map(Pid::from_raw) {
                let _ = kill_process(pid, Signal::KILL);
            }
        }
    }
}

/// Hosts `node1` (10.77.0.11) and `node2` (10.77.0.12); here is 10.77.0.1.
pub fn nodes() -> [Node; 2] {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    shell("ip link set lo up; ip link add br0 type bridge; ip addr add 10.77.0.1/24 dev br0; ip link set br0 up");
    // Of the lab's own mount namespace. Slurm looks names up, and only where there is an address besides loopback's.
    let hosts = format!("127.0.0.1 localhost\n10.77.0.1 {name}\n10.77.0.11 node1\n10.77.0.12 node2\n");
    fs::write("/etc/hosts", hosts).unwrap();
    [1, 2].map(node)
}

fn shell(line: &str) {
    let done = Command::new("sh").args(["-ec", line]).output().unwrap();
    assert!(done.status.success(), "{line}: {}", String::from_utf8_lossy(&done.stderr));
}

/// Starts what says nothing here.
pub fn start(command: &mut Command) -> Running {
    Running(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
}

fn node(number: u32) -> Node {
    let line = format!("hostname node{number}; exec sleep infinity");
    let mut command = Command::new("unshare");
    command.args(["--net", "--uts", "--pid", "--mount", "--fork", "--mount-proc", "--kill-child", "sh", "-c", &line]);
    let running = start(&mut command);
    let children = format!("/proc/{0}/task/{0}/children", running.0.id());
    let mut pid = None;
    wait_for("a node", || {
        let text = fs::read_to_string(&children).unwrap_or_default();
        pid = text.split_whitespace().next().and_then(|pid| pid.parse().ok());
        // Its name is set last of all: until then it is not a node.
        let name =
            pid.map(|pid: i32| Command::new("nsenter").args(["-t", &pid.to_string(), "-u", "hostname"]).output());
        name.is_some_and(|name| name.is_ok_and(|name| name.stdout.starts_with(b"node")))
    });
    let pid: i32 = pid.unwrap();
    shell(&format!(
        "ip link add ve{number} type veth peer name eth0 netns {pid}; ip link set ve{number} master br0 up; nsenter -t {pid} -a sh -ec \
         'ip link set lo up; ip addr add 10.77.0.1{number}/24 dev eth0; ip link set eth0 up'"
    ));
    Node { pid, _holder: running }
}
