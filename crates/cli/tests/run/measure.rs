//! `headstart run --measure`: the program gets what it gets without, and what was seen of its network is true.

use crate::lab::{Lab, found, inside};
use serde_json::Value;
use std::fs;

/// The lines of `--flows` of a run.
fn lines(file: &std::path::Path) -> Vec<Value> {
    let text = fs::read_to_string(file).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

inside!(a_program_gets_the_same_and_its_connections_and_lookups_are_seen, || {
    let lab = Lab::new();
    let Some(curl) = found("curl", "curl") else { return };
    let words = [curl.to_str().unwrap(), "-s", "http://www.lab.example/"];
    let bare = lab.bare(&words);
    assert!(bare.code == Some(0) && !bare.out.is_empty(), "{bare:?}");
    let file = lab.scratch.path("flows");
    let ours = lab.ours_with(&["--measure", "--flows", file.to_str().unwrap()], &words);
    assert_eq!((ours.code, &ours.out), (bare.code, &bare.out), "{ours:?}");
    assert!(ours.count("connections") >= 1 && ours.count("lookups") >= 2, "{ours:?}");
    let lines = lines(&file);
    let used = lines.iter().find(|line| line["event"] == "connection" && line["end"] == "finished").unwrap();
    // Two ways of 5 ms each.
    assert!(used["connect_ms"].as_f64().unwrap() >= 10.0 && used["rtt_ms"].as_f64().unwrap() >= 10.0, "{used}");
    assert_eq!((&used["app"], &used["user"]), (&"curl".into(), &0.into()), "{used}");
    let lookup = lines.iter().find(|line| line["event"] == "lookup" && line["name"] == "www.lab.example").unwrap();
    assert!(lookup["took_ms"].as_f64().unwrap() >= 10.0, "{lookup}");
    assert!(ours.err.contains("measured") && ours.err.contains("curl: "), "{ours:?}");
});

inside!(what_a_program_says_last_is_seen_to_its_peer, || {
    let lab = Lab::new();
    let Some(python) = crate::lab::python() else { return };
    // 2 MB are given to the kernel, and the program ends.
    let program = "import socket\ns = socket.create_connection(('198.19.0.1', 80))\n\
                   s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4000000)\n\
                   s.sendall(b'GET / HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n' * 1000)\n";
    let file = lab.scratch.path("flows");
    let ours = lab.ours_with(&["--measure", "--flows", file.to_str().unwrap()], &[python.as_str(), "-c", program]);
    assert_eq!(ours.code, Some(0), "{ours:?}");
    let lines = lines(&file);
    let flow = lines.iter().find(|line| line["event"] == "connection").unwrap_or_else(|| panic!("{ours:?}"));
    assert_eq!(flow["up_bytes"], 27_000, "{flow}");
});

inside!(the_programs_exit_code_is_ours_and_the_host_is_as_it_was, || {
    let lab = Lab::new();
    let routes = || fs::read_to_string("/proc/net/route").unwrap() + &fs::read_to_string("/proc/net/dev").unwrap();
    let before = routes();
    let ours = lab.ours_with(&["--measure"], &["sh", "-c", "exit 23"]);
    assert_eq!(ours.code, Some(23), "{ours:?}");
    assert_eq!(lab.ours_with(&["--measure"], &["/no/such/program"]).code, Some(127));
    // Counters of packets aside, which nobody has moved here.
    assert_eq!(routes().lines().count(), before.lines().count());
    let refused = lab.ours_with(&["--measure", "--race", "adaptive"], &["true"]);
    assert_eq!(refused.code, Some(2), "it measures and does nothing else: {refused:?}");
});

inside!(every_profile_of_the_lab_carries_a_page, || {
    let lab = Lab::new();
    let Some(curl) = found("curl", "curl") else { return };
    let words = [curl.to_str().unwrap(), "-s", "http://www.lab.example/"];
    let bare = lab.bare(&words);
    for profile in headstart_core::forward::profile::ALL {
        let ours = lab.ours_with(&["--measure", "--profile", profile.name], &words);
        assert_eq!((ours.code, &ours.out), (bare.code, &bare.out), "{}: {ours:?}", profile.name);
    }
});
