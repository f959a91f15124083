//! Scenarios in namespaces beside virtual time, and programs on their nodes.
//!
//! Every test runs inside (`InnerCommand`). Lower bounds of times hold on any machine; upper bounds are not tested.
#![forbid(unsafe_code)]

use headstart_core::time::Duration;
use headstart_lab::netns::{Nodes, inside};
use headstart_lab::scenario::{Scenario, real_time, virtual_time};
use std::process::Command;

/// A client and a server with a router between, and a shorter way for IPv6 that loses every tenth packet.
const TEXT: &str = "
name = 'test'
what = 'a test'
hosts = ['client', 'server']
routers = ['router']
[[link]]
name = 'near'
between = ['client', 'router']
link = 'delay=10ms'
[[link]]
name = 'far'
between = ['router', 'server']
link = 'rate=100mbit,delay=5ms'
family = 'ipv4'
[[link]]
name = 'direct'
between = ['client', 'server']
link = 'delay=8ms,loss=10%'
family = 'ipv6'
[[flow]]
name = 'v4'
kind = 'ping'
from = 'client'
to = 'server'
interval = '5ms'
count = 40
[[flow]]
name = 'v6'
kind = 'datagrams'
from = 'client'
to = 'server'
family = 'ipv6'
rate = '200kbit'
size = 100
duration = '1s'
[[flow]]
name = 'upload'
kind = 'tcp'
from = 'client'
to = 'server'
bytes = '300kb'
";

fn scenario() -> Scenario {
    Scenario::read("test.toml", TEXT, &mut |name| Err(format!("no file {name}"))).unwrap()
}

#[test]
#[ignore = "needs network namespaces: cargo xtask test"]
fn both_times_tell_the_same_of_the_same_scenario() {
    inside("both_times_tell_the_same_of_the_same_scenario", || {
        let scenario = scenario();
        let virtually = virtual_time::play(&scenario).unwrap();
        let really = real_time::play(&scenario).unwrap_or_else(|e| panic!("{e}"));
        let [pings, datagrams, upload] = &really.flows[..] else { panic!("{:?}", really.flows) };
        assert_eq!((upload.bytes, upload.completion.is_some()), (300_000, true));
        assert!(
            pings.delays.iter().all(|rtt| *rtt >= Duration::from_millis(30)),
            "a ping came early: {:?}",
            pings.delays
        );
        assert!(datagrams.delays.iter().all(|delay| *delay >= Duration::from_millis(8)), "a datagram came early");
        if really.certificate.valid {
            // Nothing but the models has lost anything, and they lose by their seed.
            assert_eq!(pings.datagrams, virtually.flows[0].datagrams);
            assert_eq!(datagrams.datagrams, virtually.flows[1].datagrams);
            assert!(datagrams.datagrams.1 < datagrams.datagrams.0, "{:?}", datagrams.datagrams);
        }
    });
}

#[test]
#[ignore = "needs network namespaces: cargo xtask test"]
fn a_program_on_a_node_sees_its_links_alone_and_only_routers_forward() {
    inside("a_program_on_a_node_sees_its_links_alone_and_only_routers_forward", || {
        let scenario = scenario();
        let nodes = Nodes::build(&scenario).unwrap_or_else(|e| panic!("{e}"));
        let run = |node: &str, script: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            nodes.adopt(scenario.node(node).unwrap(), &mut command).unwrap();
            let output = command.output().unwrap();
            assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
            String::from_utf8(output.stdout).unwrap()
        };
        let interfaces = |node| run(node, "cat /proc/net/dev").lines().filter(|line| line.contains("link")).count();
        assert_eq!(["client", "router", "server"].map(interfaces), [2, 2, 2]);
        let forwards = |node| run(node, "cat /proc/sys/net/ipv4/ip_forward").trim().to_owned();
        assert_eq!(["client", "router", "server"].map(forwards), ["0", "1", "0"]);
    });
}
