//! `headstart run --measure --via ebpf`: the program gets what it gets without, what was seen of its network is true, and nothing of
//! the measurement outlives it, whatever ends it.

use crate::lab::{Lab, ended, found, inside, site, until};
use crate::seen::{serving, stop};
use crate::seen_page::{browser, shown};
use headstart_io::cgroup;
use headstart_io::forward::ebpf::lacking;
use headstart_lab::netns::default_world;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::process::Stdio;

/// Whether the kernel takes programs of ours; if not, a line that says what this host lacks. A fault of theirs fails the test.
fn works() -> bool {
    lacking().unwrap().inspect(|why| println!("skipped: {why}")).is_none()
}

inside!(measured_in_the_kernel_a_program_gets_the_same_and_its_connections_and_lookups_are_seen, || {
    let lab = Lab::new();
    let Some(curl) = found("curl", "curl").filter(|_| works()) else { return };
    let words = [curl.to_str().unwrap(), "-s", "http://www.lab.example/"];
    let bare = lab.bare(&words);
    assert!(bare.code == Some(0) && !bare.out.is_empty(), "{bare:?}");
    let file = lab.scratch.path("flows");
    for via in ["ebpf", "auto"] {
        let ours = lab.ours_with(&["--measure", "--via", via, "--flows", file.to_str().unwrap()], &words);
        assert_eq!((ours.code, &ours.out), (bare.code, &bare.out), "{ours:?}");
        assert!(ours.count("connections") >= 1 && ours.count("lookups") >= 2, "{ours:?}");
        assert_eq!((&ours.summary["via"], &ours.summary["lost"]), (&"ebpf".into(), &0.into()), "{ours:?}");
        assert!(
            ours.err.contains("curl: ") && ours.err.contains("no packet was carried; its programs took "),
            "{ours:?}"
        );
        let ran = ["times", "ns"].map(|name| ours.summary["ran"][name].as_u64());
        assert!(ran.iter().all(|number| *number > Some(0)), "{ours:?}");
        let text = fs::read_to_string(&file).unwrap();
        let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let used = lines.iter().find(|line| line["event"] == "connection" && line["end"] == "finished").unwrap();
        // Two ways of 5 ms each.
        for name in ["connect_ms", "connect_call_ms", "rtt_ms", "least_rtt_ms", "request_rtt_ms", "answer_ms"] {
            assert!(used[name].as_f64().unwrap() >= 10.0, "{name}: {used}");
        }
        assert!(used["rtt_p95_ms"].as_f64().unwrap() >= 10.0 * 0.87, "{used}");
        let numbers = ["user", "retransmissions"].map(|name| used[name].as_f64());
        assert!(used["app"] == "curl" && numbers == [Some(0.0); 2], "{used}");
        let lookup = lines.iter().find(|line| line["event"] == "lookup" && line["name"] == "www.lab.example").unwrap();
        assert!(lookup["took_ms"].as_f64().unwrap() >= 10.0 && lookup["app"] == "curl", "{lookup}");
    }
    // What only the forwarder can: automatically so, and refused by name otherwise.
    let capture = lab.scratch.path("capture");
    let flags = ["--measure", "--pcapng", capture.to_str().unwrap(), "--via"];
    let auto = lab.ours_with(&[&flags[..], &["auto"]].concat(), &words);
    assert!(auto.out == bare.out && auto.err.contains("not by ebpf: --pcapng needs the forwarder"), "{auto:?}");
    let refused = lab.ours_with(&[&flags[..], &["ebpf"]].concat(), &words);
    assert!(refused.code != Some(0) && refused.err.contains("--pcapng needs the forwarder"), "{refused:?}");
});

inside!(a_measurement_in_the_kernel_that_is_killed_leaves_the_program_alone_and_its_group_to_the_next, || {
    let lab = Lab::new();
    if !works() {
        return;
    }
    let script = "echo $$; exec sleep 1000";
    let mut run = lab.command(crate::lab::HEADSTART);
    run.args(["run", "--measure", "--via", "ebpf", "--", "sh", "-c", script]).stdout(Stdio::piped());
    let mut run = run.spawn().unwrap();
    let mut said = String::new();
    BufReader::new(run.stdout.take().unwrap()).read_line(&mut said).unwrap();
    let program = Pid::from_raw(said.trim().parse().unwrap()).unwrap();
    let group = format!("headstart-run-{}-", run.id());
    let in_group = || fs::read_to_string(format!("/proc/{program}/cgroup")).unwrap_or_default().contains(&group);
    assert!(in_group());
    run.kill().unwrap();
    run.wait().unwrap();
    assert!(in_group(), "it goes on where it is");
    kill_process(program, Signal::KILL).unwrap();
    until("it is gone", || !in_group());
    let next = lab.ours_with(&["--measure", "--via", "ebpf"], &["true"]);
    let own = fs::read_to_string("/proc/self/cgroup").unwrap();
    let own = own.lines().find_map(|line| line.strip_prefix("0::")).unwrap().trim_start_matches('/');
    let left = fs::read_dir(cgroup::root().unwrap().join(own)).unwrap().flatten();
    let left: Vec<_> = left.filter(|entry| entry.file_name().to_string_lossy().starts_with(&group)).collect();
    assert!(next.code == Some(0) && left.is_empty(), "{left:?} {next:?}");
});

inside!(the_page_and_top_say_of_each_program_and_connection_what_has_measured_it, || {
    let lab = Lab::new();
    let Some(bash) = found("bash", "bash").filter(|_| works()) else { return };
    let (ui, url) = serving(&lab, &["ui", "--no-browser"]);
    let Some(mut chromium) = browser(&lab) else { return stop(ui) };
    // A connection that stays open, under each way of measuring.
    let script = "exec 3<>/dev/tcp/www.lab.example/80; echo open; read -r";
    for (via, says, not, top) in [
        ("ebpf", "kernel (eBPF)", "forwarder", "in the kernel (eBPF)"),
        ("tun", "forwarder", "kernel (eBPF)", "packet"),
    ] {
        let mut run = lab.command(crate::lab::HEADSTART);
        run.args(["run", "--measure", "--quiet", "--via", via, "--"]).arg(&bash).args(["-c", script]);
        let mut run = run.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut said = String::new();
        BufReader::new(run.stdout.as_mut().unwrap()).read_line(&mut said).unwrap();
        assert_eq!(said, "open\n");
        for view in ["now", "programs"] {
            let text = shown(&mut chromium, &url, view, &["bash", says]);
            assert!(!text.contains(not), "{via}, {view}: {text}");
        }
        let once =
            ended(lab.command(crate::lab::HEADSTART).args(["top", "--once", "--interval", "0.1"]).spawn().unwrap());
        assert!(once.code == Some(0) && once.out.contains(top), "{once:?}");
        drop(run.stdin.take());
        run.wait().unwrap();
    }
    drop(chromium);
    stop(ui);
});

/// The line of a program that sends two megabytes over a link and waits until the peer has them all, and packets that the link lost.
fn uploaded(link: &str) -> (Value, u64) {
    let mut world = default_world(link);
    let host = site(&mut world, "www").v4[0].addr;
    let lab = Lab::of(&world);
    let listener = lab.network.on_servers(|| TcpListener::bind((host, 0)).unwrap()).unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.read_exact(&mut vec![0; 2_000_000]).unwrap();
        stream.write_all(b"x").unwrap();
        let _ = stream.read(&mut [0]);
    });
    let script = format!("exec 3<>/dev/tcp/{host}/{port}; head -c 2000000 /dev/zero >&3; head -c 1 <&3; exec 3>&-");
    let file = lab.scratch.path("flows");
    let ours =
        lab.ours_with(&["--measure", "--via", "ebpf", "--flows", file.to_str().unwrap()], &["bash", "-c", &script]);
    assert_eq!((ours.code, ours.out.as_str()), (Some(0), "x"), "{ours:?}");
    server.join().unwrap();
    let text = fs::read_to_string(&file).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let [line] = lines.as_slice() else { panic!("{text}") };
    assert_eq!((&line["up_bytes"], &line["closed_by"]), (&2_000_000.into(), &"program".into()), "{line}");
    (line.clone(), lab.network.certificate().drops.lost)
}

inside!(what_a_link_lost_is_repeated_and_what_it_delivered_in_another_order_was_reordered, || {
    if found("bash", "bash").filter(|_| works()).is_none() {
        return;
    }
    let number = |line: &Value, name: &str| line[name].as_f64().unwrap_or_else(|| panic!("no {name} in {line}"));
    // Upwards alone, so that it is the program's data: but for a SYN, an end, and acknowledgements of the one answer.
    let (line, lost) = uploaded("rate=100mbit,delay=5ms,loss=2%;rate=100mbit,delay=5ms");
    assert!(lost > 5 && number(&line, "retransmissions") >= lost as f64 - 5.0, "{lost} lost: {line}");
    assert!(number(&line, "lost") > 0.0, "{line}");
    assert!(number(&line, "limited_cwnd_ms") > 0.0 && number(&line, "delivery_mbit_s") > 0.0, "{line}");
    let (line, _) = uploaded("rate=100mbit,delay=10ms,jitter=5ms,order=free;rate=100mbit,delay=5ms");
    assert!(number(&line, "reordered") > 0.0, "{line}");
    let (line, _) = uploaded("rate=100mbit,delay=5ms,queue=infinite");
    let none = ["retransmissions", "lost", "reordered"].map(|name| number(&line, name));
    assert_eq!(none, [0.0; 3], "{line}");
});

#[test]
fn who_measures_is_asked_for_with_measure_alone_and_how_it_is_reached_without() {
    for words in [&["--via", "ebpf"][..], &["--via", "tun"], &["--measure", "--via", "seccomp"]] {
        let mut command = std::process::Command::new(crate::lab::HEADSTART);
        let ended = command.arg("run").args(words).args(["--", "true"]).output().unwrap();
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert!(ended.status.code() == Some(2) && said.contains("--via"), "{words:?}: {said}");
    }
}
