//! Ray as its users start it: on one host, and on two hosts in namespaces of which one is lost; real packets alone on a node.

use super::nodes::{Node, Running, nodes, start};
use super::scene::{Campaign, executable, found, python_with, wait_for};
use headstart_lab::inside;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Of the cluster in namespaces.
const ADDRESS: &str = "10.77.0.11:6379";

#[test]
fn ray_hands_out_shards() {
    let Some(python) = python_with("ray") else { return };
    let campaign = Campaign::new();
    campaign.submission("ray", 6);
    let mut command = campaign.command(&python, &["campaign_ray.py"]);
    settings(&mut command);
    // A short path: Ray puts sockets below it.
    let output = command.env("RAY_TMPDIR", Path::new("/tmp")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    campaign.is_whole_and_the_same();
}

/// A cluster of two hosts; `more` is what each is started with.
struct Cluster {
    nodes: [Node; 2],
    _daemons: [Running; 2],
    python: String,
    /// A short path: Ray puts sockets below it.
    _folder: tempfile::TempDir,
}

impl Cluster {
    fn new(python: &str, more: &[&str]) -> Self {
        let folder = tempfile::tempdir_in("/tmp").unwrap();
        let nodes = nodes();
        let place = folder.path().to_str().unwrap();
        let head = ["--head", "--port", "6379", "--include-dashboard", "false", "--temp-dir", place];
        let second = ["--address", ADDRESS];
        let daemons = [(0, &head[..]), (1, &second[..])].map(|(n, words)| {
            let ip = format!("10.77.0.1{}", n + 1);
            let all = ["-m", "ray.scripts.scripts", "start", "--block", "--num-cpus", "4", "--node-ip-address", &ip];
            let mut command = nodes[n].command(python, &[&all[..], words, more].concat());
            settings(&mut command);
            let daemon = start(&mut command);
            let cluster = |script: &str| {
                let mut command = nodes[0].command(python, &["-c", script]);
                settings(&mut command);
                command.env("RAY_ADDRESS", ADDRESS).output().is_ok_and(|output| output.status.success())
            };
            let script = format!(
                "import ray, sys; ray.init(log_to_driver=False); sys.exit(sum(n['Alive'] for n in ray.nodes()) != {})",
                n + 1
            );
            wait_for("a host of Ray", || cluster(&script));
            daemon
        });
        Self { nodes, _daemons: daemons, python: python.to_owned(), _folder: folder }
    }

    /// The driver, on the first host.
    fn driver(&self, campaign: &Campaign) -> Command {
        let file = campaign.path("campaign_ray.py").into_os_string().into_string().unwrap();
        let mut command = self.nodes[0].command(&self.python, &[&file]);
        settings(&mut command);
        command.env("RAY_ADDRESS", ADDRESS);
        command
    }
}

/// A host that is lost is missed after seconds in place of half a minute. The cluster has a token of its own: without one, Ray makes one for
/// the user of this host, and leaves it.
fn settings(command: &mut Command) {
    command.env("RAY_AUTH_MODE", "token").env("RAY_AUTH_TOKEN", "5ca1ab1e".repeat(8));
    command.env("RAY_USAGE_STATS_ENABLED", "0").env("RAY_health_check_period_ms", "1000");
    command.env("RAY_health_check_failure_threshold", "5");
    command.env_remove("RAY_ADDRESS");
}

fn can_be_had() -> Option<String> {
    if !rustix::process::geteuid().is_root() || !found("ip", "iproute2") {
        return None;
    }
    python_with("ray")
}

inside!(ray_loses_a_host_and_each_task_is_done_once, || {
    let Some(python) = can_be_had() else { return };
    let campaign = Campaign::new();
    let cluster = Cluster::new(&python, &[]);
    let (program, is_begun) = campaign.stuck_on("node2");
    campaign.submission_of("ray", campaign.tasks, &program);
    let mut running = cluster.driver(&campaign).spawn().unwrap();
    wait_for("a shard of node2 that will not end", || {
        assert!(running.try_wait().unwrap().is_none(), "the driver has ended");
        is_begun()
    });
    println!("node2: Ray and all that it started are killed, {} of {} tasks are done", campaign.done(), campaign.tasks);
    assert!(campaign.done() < campaign.tasks);
    cluster.nodes[1].kill_all();
    assert!(running.wait().unwrap().success(), "Ray gives its shards to the other host");
    campaign.is_whole_and_the_same();
});

/// A program that notes when another of it is on the same host, and does nothing else.
fn alone(campaign: &Campaign) -> String {
    let (file, at) = (campaign.path("alone"), campaign.folder.path().display());
    let text = format!(
        "#!/bin/sh\nlock={at}/on-$(uname -n)\nmkdir $lock || touch {at}/two\necho $(uname -n) >> {at}/ran\nsleep 1\nrmdir $lock\n"
    );
    executable(&file, &text);
    file.into_os_string().into_string().unwrap()
}

inside!(real_packets_are_alone_on_a_host_of_ray_and_a_cluster_without_such_hosts_is_refused, || {
    let Some(python) = can_be_had() else { return };
    let campaign = Campaign::new();
    let text = "[[set]]\nexperiment = \"connect-model\"\nconditions = [\"healthy\"]\nquick = true\nseeds = 8\nspeeds = [\"netns\"]\n";
    fs::write(campaign.path("campaign.toml"), text).unwrap();
    let plan = campaign.lab(&["plan", "campaign.toml"]);
    assert!(plan.status.success(), "{plan:?}");
    fs::write(campaign.path("plan.jsonl"), plan.stdout).unwrap();
    campaign.submission_of("ray", 8, &alone(&campaign));
    let cluster = Cluster::new(&python, &["--resources", "{\"headstart_quiet\": 1}"]);
    let done = cluster.driver(&campaign).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let ran = fs::read_to_string(campaign.path("ran")).unwrap();
    println!("shards by host: {}", ran.split_whitespace().collect::<Vec<_>>().join(" "));
    assert_eq!(ran.lines().count(), 8, "{ran}");
    assert!(!campaign.path("two").exists(), "two shards were on one host");

    let text = fs::read_to_string(campaign.path("campaign_ray.py")).unwrap();
    fs::write(campaign.path("campaign_ray.py"), text.replace("headstart_quiet", "of_no_host")).unwrap();
    let refused = cluster.driver(&campaign).output().unwrap();
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && said.contains("need nodes of their own"), "{said}");
});
