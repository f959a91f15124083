//! Slurm in namespaces: a controller and two nodes, each with a network, a name and processes of its own. While an array works through a
//! plan, the daemon of one node is killed, the other node is drained, and the controller is killed and started again.

use super::nodes::{Node, Running, nodes, start};
use super::scene::{Campaign, found, wait_for};
use headstart_lab::inside;
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

struct Cluster {
    folder: PathBuf,
    nodes: Vec<Node>,
    controller: Option<Running>,
    daemons: Vec<Option<Running>>,
    _munge: Running,
}

impl Cluster {
    /// The test is in namespaces of its own already.
    fn new(folder: &Path) -> Self {
        let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let nodes = nodes().into();
        let conf = folder.join("slurm.conf");
        fs::create_dir(folder.join("controller")).unwrap();
        fs::write(&conf, configuration(folder, &name)).unwrap();
        fs::write(folder.join("cgroup.conf"), "").unwrap();
        let key = folder.join("munge.key");
        fs::write(&key, [7; 1024]).unwrap();
        fs::set_permissions(&key, std::os::unix::fs::PermissionsExt::from_mode(0o400)).unwrap();
        let mut munge = Command::new("munged");
        munge.args(["--force", "--foreground"]);
        for (option, file) in [
            ("key-file", "munge.key"),
            ("socket", "munge.socket"),
            ("pid-file", "munge.pid"),
            ("log-file", "munge.log"),
            ("seed-file", "munge.seed"),
        ] {
            munge.arg(format!("--{option}={}", folder.join(file).display()));
        }
        let munge = start(&mut munge);
        wait_for("munge", || folder.join("munge.socket").exists());
        let mut cluster =
            Self { folder: folder.into(), nodes, controller: None, daemons: vec![None, None], _munge: munge };
        cluster.start_controller();
        cluster.start_node(0);
        cluster.start_node(1);
        wait_for("both nodes", || cluster.state(0).starts_with("idle") && cluster.state(1).starts_with("idle"));
        cluster
    }

    fn slurm(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.env("SLURM_CONF", self.folder.join("slurm.conf"));
        command
    }

    fn output_of(&self, program: &str, words: &[&str]) -> String {
        let output = self.slurm(program).args(words).output().unwrap();
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    fn start_controller(&mut self) {
        self.controller = Some(start(self.slurm("slurmctld").arg("-D")));
    }

    fn start_node(&mut self, node: usize) {
        let mut command = self.nodes[node].command("slurmd", &["-D", "-N", &format!("node{}", node + 1)]);
        command.env("SLURM_CONF", self.folder.join("slurm.conf"));
        self.daemons[node] = Some(start(&mut command));
    }

    /// The daemon of a node, kill -9: what it runs goes on unwatched, as on a real node.
    fn kill_daemon(&mut self, node: usize) {
        let daemon = self.daemons[node].as_ref().expect("it was started").0.id();
        let children = fs::read_to_string(format!("/proc/{daemon}/task/{daemon}/children")).unwrap();
        let pid = children.split_whitespace().next().and_then(|pid| pid.parse().ok()).and_then(Pid::from_raw).unwrap();
        kill_process(pid, Signal::KILL).unwrap();
        self.daemons[node] = None;
    }

    fn state(&self, node: usize) -> String {
        self.output_of("sinfo", &["--noheader", "--nodes", &format!("node{}", node + 1), "--format", "%t"])
    }

    fn queue(&self) -> usize {
        let mut command = self.slurm("squeue");
        let output = command.args(["--noheader", "--array"]).output().unwrap();
        // While the controller is away nothing is known.
        if output.status.success() { String::from_utf8_lossy(&output.stdout).lines().count() } else { usize::MAX }
    }
}

fn configuration(folder: &Path, name: &str) -> String {
    let at = folder.display();
    format!(
        "ClusterName=lab\nSlurmctldHost={name}(10.77.0.1)\nSlurmUser=root\nSlurmdUser=root\nAuthType=auth/munge\n\
         AuthInfo=socket={at}/munge.socket\nStateSaveLocation={at}/controller\nSlurmdSpoolDir={at}/spool-%n\n\
         SlurmctldPidFile={at}/controller.pid\nSlurmdPidFile={at}/%n.pid\nSlurmctldLogFile={at}/controller.log\nSlurmdLogFile={at}/%n.log\n\
         ProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\nSwitchType=switch/none\nMpiDefault=none\nReturnToService=2\n\
         SlurmdTimeout=5\nMessageTimeout=5\nSelectType=select/cons_tres\nSelectTypeParameters=CR_CPU\nJobRequeue=1\n\
         SchedulerParameters=batch_sched_delay=1,sched_interval=2,requeue_delay=1\n\
         NodeName=node1 NodeAddr=10.77.0.11 CPUs=2 State=UNKNOWN\nNodeName=node2 NodeAddr=10.77.0.12 CPUs=2 State=UNKNOWN\n\
         PartitionName=all Nodes=node1,node2 Default=YES MaxTime=INFINITE State=UP\n"
    )
}

inside!(slurm_loses_a_node_drains_another_and_starts_its_controller_again_and_each_task_is_done_once, || {
    if std::env::var_os("HEADSTART_CAMPAIGN_SEEDS").is_none() {
        return eprintln!("skipped: Slurm takes minutes: cargo xtask campaigns");
    }
    let programs = [
        ("slurmctld", "slurmctld"),
        ("slurmd", "slurmd"),
        ("sbatch", "slurm-client"),
        ("munged", "munge"),
        ("ip", "iproute2"),
    ];
    if !rustix::process::geteuid().is_root() || !programs.iter().all(|(program, package)| found(program, package)) {
        return;
    }
    let campaign = Campaign::new();
    campaign.submission("slurm", campaign.tasks);
    let slurm = tempfile::tempdir().unwrap();
    let mut cluster = Cluster::new(slurm.path());
    let submit = |cluster: &Cluster| {
        let done = cluster.slurm("sbatch").arg("campaign.sbatch").current_dir(campaign.folder.path()).output().unwrap();
        assert!(done.status.success(), "{done:?}");
    };
    submit(&cluster);
    let done = |share: usize| campaign.done() >= campaign.tasks * share / 8;
    wait_for("the first tasks", || done(1));
    println!("node1: slurmd is killed, {} tasks are done", campaign.done());
    cluster.kill_daemon(0);
    wait_for("more tasks, by node2", || done(3));
    println!("the controller is killed, {} tasks are done; node1 is {}", campaign.done(), cluster.state(0));
    cluster.controller = None;
    cluster.start_controller();
    wait_for("the loss of node1", || cluster.state(0).starts_with("down") || cluster.state(0).starts_with("idle*"));
    cluster.start_node(0);
    wait_for("node1", || ["idle", "mix", "alloc"].contains(&cluster.state(0).as_str()));
    println!("node1 is back, node2 is drained, {} tasks are done", campaign.done());
    cluster.output_of("scontrol", &["update", "nodename=node2", "state=drain", "reason=test"]);
    wait_for("the drain", || cluster.state(1).starts_with("drain"));
    wait_for("the queue", || cluster.queue() == 0);
    println!("the queue is empty, {} of {} tasks are done", campaign.done(), campaign.tasks);
    cluster.output_of("scontrol", &["update", "nodename=node2", "state=resume"]);
    // What Slurm gave up is submitted again, as the guide says; nothing else is.
    if campaign.done() < campaign.tasks {
        campaign.submission("slurm", campaign.tasks);
        submit(&cluster);
        wait_for("the second submission", || cluster.queue() == 0);
    }
    campaign.is_whole_and_the_same();
});
