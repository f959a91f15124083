//! `headstart run --measure` with what people ask networks with: speed, ports, ways and names are said to be what they are without.

use crate::lab::{Ended, Lab, found, inside, python, until};
use serde_json::Value;
use std::process::{Child, Stdio};

/// The site of the lab's world that has a web server, and nothing else.
const PEER: &str = "198.19.0.1";

/// Both must have ended well.
fn both<S: AsRef<std::ffi::OsStr>>(lab: &Lab, words: &[S]) -> [Ended; 2] {
    let both = [lab.bare(words), lab.ours_with(&["--measure"], words)];
    both.iter().for_each(|ended| assert_eq!(ended.code, Some(0), "{ended:?}"));
    both
}

inside!(iperf3_carries_data_over_four_connections_up_and_down, || {
    let lab = Lab::new();
    let Some(iperf3) = found("iperf3", "iperf3") else { return };
    let mut server = lab.network.server_command(&iperf3).unwrap();
    lab.scratch.set_home(&mut server);
    let log = lab.scratch.path("server");
    let mut server: Child =
        server.args(["-s", "-B", PEER, "--forceflush", "--logfile"]).arg(&log).stdin(Stdio::null()).spawn().unwrap();
    until("iperf3 listens", || std::fs::read_to_string(&log).is_ok_and(|text| text.contains("listening")));
    for direction in [&[][..], &["-R"]] {
        let words = [&[iperf3.to_str().unwrap(), "-c", PEER, "-P", "4", "-n", "2M", "-J"], direction].concat();
        let ours = lab.ours_with(&["--measure"], &words);
        assert_eq!(ours.code, Some(0), "{ours:?}");
        let said: Value = serde_json::from_str(&ours.out).unwrap();
        // The side that sends says when it has sent all, and the other counts until then.
        let received = said["end"]["sum_received"]["bytes"].as_u64().unwrap();
        // Four, and the one over which they are arranged.
        assert_eq!(ours.count("connections"), 5, "{ours:?}");
        let app = &ours.summary["apps"]["iperf3"];
        let carried = if direction.is_empty() { "up_bytes" } else { "down_bytes" };
        assert!(received > 0 && app[carried].as_u64().unwrap() >= received, "{app}: {said}");
    }
    server.kill().unwrap();
    server.wait().unwrap();
});

inside!(a_scan_finds_the_ports_that_there_are, || {
    let lab = Lab::new();
    let Some(nmap) = found("nmap", "nmap") else { return };
    let words = [nmap.to_str().unwrap(), "-sT", "-Pn", "-n", "-p", "70-89", "-oG", "-", PEER];
    let ports = both(&lab, &words).map(|ended| {
        let line = ended.out.lines().find(|line| line.contains("Ports:")).map(str::to_owned);
        line.unwrap_or_else(|| panic!("{ended:?}"))
    });
    assert!(ports[0].contains("80/open"), "{ports:?}");
    assert_eq!(ports[0], ports[1]);
});

inside!(the_way_to_a_peer_is_the_way_that_there_is, || {
    let lab = Lab::new();
    let Some(traceroute) = found("traceroute", "traceroute") else { return };
    for kind in [&[][..], &["-I"], &["-T", "-p", "80"]] {
        let words = [&[traceroute.to_str().unwrap(), "-n", "-q", "1", "-w", "2", "-m", "4"], kind, &[PEER]].concat();
        // The number of a router and its address; times differ.
        let hops = both(&lab, &words).map(|ended| {
            let hops =
                ended.out.lines().skip(1).map(|line| line.split_whitespace().take(2).collect::<Vec<_>>().join(" "));
            hops.collect::<Vec<_>>()
        });
        assert!(hops[0].last().is_some_and(|hop| hop.contains(PEER)), "{kind:?}: {hops:?}");
        assert_eq!(hops[0], hops[1], "{kind:?}");
    }
});

inside!(names_are_asked_over_udp_and_tcp_as_ever, || {
    let lab = Lab::new();
    let Some(dig) = found("dig", "bind9-dnsutils") else { return };
    for kind in [&["+notcp"][..], &["+tcp"]] {
        let words =
            [&[dig.to_str().unwrap()], kind, &["+short", "www.lab.example", "A", "www.lab.example", "AAAA"]].concat();
        let [bare, ours] = both(&lab, &words);
        assert!(bare.out.contains(PEER), "{bare:?}");
        assert_eq!(bare.out, ours.out);
        let seen = [ours.count("lookups"), ours.count("connections")];
        assert_eq!(seen, if kind == ["+tcp"] { [0, 2] } else { [2, 0] }, "{ours:?}");
    }
});

/// Opens so many connections, and says how often the process that has started it slept in two seconds: the least of many such times,
/// for a slow machine may take a while to come to rest.
const SILENT: &str = "
import os, socket, sys, time
streams = [socket.create_connection(('198.19.0.1', 80)) for _ in range(int(sys.argv[1]))]
def sleeps():
    tasks = '/proc/%d/task' % os.getppid()
    lines = [line for task in os.listdir(tasks) for line in open('%s/%s/status' % (tasks, task))]
    return sum(int(line.split()[1]) for line in lines if line.startswith('voluntary_ctxt_switches'))
least = None
for _ in range(20):
    before = sleeps()
    time.sleep(2)
    least = min(least or 10**9, sleeps() - before)
    if least == 0:
        break
print(least)
";

inside!(while_nothing_happens_nothing_wakes, || {
    let lab = Lab::new();
    let Some(python) = python() else { return };
    let ours = lab.ours_with(&["--measure"], &[python.as_str(), "-c", SILENT, "1000"]);
    assert_eq!((ours.code, ours.out.trim()), (Some(0), "0"), "{ours:?}");
    assert_eq!(ours.count("connections"), 1000, "{ours:?}");
});
