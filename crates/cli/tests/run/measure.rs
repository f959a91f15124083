//! `headstart run --measure`: the program gets what it gets without, and what was seen of its network is true.

use crate::lab::{Lab, found, inside, site, until, world};
use crate::schema::must_hold;
use headstart_lab::world::{Fate, World};
use serde_json::Value;
use std::fs;
use std::net::TcpListener;

/// The lines of `--flows` of a run.
fn lines(file: &std::path::Path) -> Vec<Value> {
    let text = fs::read_to_string(file).unwrap();
    text.lines().for_each(|line| must_hold("flows", line));
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

/// Says eleven things and hears each again, on one connection.
const ASK: &str = "
import socket, sys
s = socket.create_connection(('198.19.0.1', int(sys.argv[1])))
s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
for n in range(11):
    said = bytes([n]) * (40000 if n == 10 else 100)
    s.sendall(said)
    heard = b''
    while len(heard) < len(said):
        heard += s.recv(65536)
    assert heard == said
print('said and heard')
";

inside!(requests_are_timed_one_by_one_where_that_is_wanted, || {
    let lab = Lab::new();
    let Some(python) = crate::lab::python() else { return };
    let listener = lab.network.on_servers(|| TcpListener::bind(("198.19.0.1", 0)).unwrap()).unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let _ = std::io::copy(&mut &stream, &mut &stream);
        }
    });
    let file = lab.scratch.path("flows");
    let run = |wanted: &[&str]| {
        let flags = [&["--measure", "--flows", file.to_str().unwrap()], wanted].concat();
        let ours = lab.ours_with(&flags, &[python.as_str(), "-c", ASK, &port]);
        assert_eq!((ours.code, ours.out.trim()), (Some(0), "said and heard"), "{ours:?}");
        lines(&file).into_iter().find(|line| line["end"] == "finished").unwrap_or_else(|| panic!("{ours:?}"))
    };
    let (timed, plain) = (run(&["--request-rtt"]), run(&[]));
    let of = |meter: &str| timed[meter].as_f64().unwrap_or_else(|| panic!("no {meter} in {timed}"));
    // Two ways of 5 ms each, for the best of them and so for the mean; and what is said and heard is the same.
    assert!(of("request_rtt_ms") >= 10.0 && of("longest_request_rtt_ms") >= of("request_rtt_ms"), "{timed}");
    assert!(plain["request_rtt_ms"].is_null() && plain["longest_request_rtt_ms"].is_null(), "{plain}");
    assert_eq!((&timed["up_bytes"], &timed["down_bytes"]), (&41_000.into(), &41_000.into()), "{timed}");
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

inside!(what_a_program_leaves_behind_keeps_its_network_and_is_waited_for_by_nobody, || {
    let Some(curl) = found("curl", "curl") else { return };
    let lab = Lab::new();
    let (sign, page) = (lab.scratch.path("sign"), lab.scratch.path("page"));
    let forwarders = || {
        let is_one =
            |id: &u32| fs::read_to_string(format!("/proc/{id}/comm")).is_ok_and(|name| name.trim() == "hs-forwarder");
        crate::processes::children(1).into_iter().filter(is_one).collect::<Vec<u32>>()
    };
    // The file is the sign for the background process to go on.
    let script = format!(
        "(while [ ! -e {} ]; do sleep 0.02; done; {} -sS -o {} http://www.lab.example/) >/dev/null 2>&1 </dev/null & exit 7",
        sign.display(),
        curl.display(),
        page.display()
    );
    let ours = lab.ours_with(&["--measure"], &["sh", "-c", &script]);
    assert_eq!(ours.code, Some(7), "{ours:?}");
    assert_eq!(forwarders().len(), 1, "it stays for what is left");
    fs::write(&sign, "").unwrap();
    until("it has ended with the last of them", || forwarders().is_empty());
    let bare = lab.bare(&[curl.to_str().unwrap(), "-sS", "http://www.lab.example/"]);
    assert_eq!(fs::read_to_string(page).unwrap_or_default(), bare.out);
    // One that is told to end does.
    fs::remove_file(&sign).unwrap();
    let ours = lab.ours_with(&["--measure"], &["sh", "-c", &script]);
    assert_eq!((ours.code, forwarders().len()), (Some(7), 1), "{ours:?}");
    crate::processes::send_to(forwarders()[0], rustix::process::Signal::TERM);
    until("it has ended", || forwarders().is_empty());
    fs::write(&sign, "").unwrap();
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

/// Asks for both families' addresses of a name as the C library does, and connects to one address of one family; says what came of
/// it, and how long it took in seconds.
const TO_ONE: &str = "
import socket, sys, time
name, family, patience = sys.argv[1], getattr(socket, sys.argv[2]), float(sys.argv[3])
to = [a[4] for a in socket.getaddrinfo(name, 80, type=socket.SOCK_STREAM) if a[0] == family][0]
s = socket.socket(family)
s.settimeout(patience)
began = time.monotonic()
try:
    s.connect(to)
    took = time.monotonic() - began
    s.sendall(b'GET / HTTP/1.1\\r\\nHost: ' + name.encode() + b'\\r\\nConnection: close\\r\\n\\r\\n')
    print(s.recv(8).decode(), took)
except OSError as e:
    print(type(e).__name__, time.monotonic() - began)
";

/// Adds a name with an address of each family, and these fates of them.
fn add(world: &mut World, name: &str, n: u8, [v4, v6]: [Fate; 2]) {
    let mut new = site(world, "www").clone();
    new.name = format!("{name}.lab.example");
    (new.v4[0].addr, new.v4[0].fate) = ([198, 19, 2, n].into(), v4);
    (new.v6[0].addr, new.v6[0].fate) = ([0x2001, 0xdb8, 0x200 + u16::from(n), 0, 0, 0, 0, 1].into(), v6);
    world.sites.push(new);
}

/// What [`TO_ONE`] says, and the line of its connection.
fn to_one(lab: &Lab, python: &str, flags: &[&str], words: [&str; 3]) -> (String, f64, Value) {
    let file = lab.scratch.path("flows");
    let flags = [&["--measure", "--flows", file.to_str().unwrap()], flags].concat();
    let ours = lab.ours_with(&flags, &[&[python, "-c", TO_ONE], &words[..]].concat());
    assert_eq!(ours.code, Some(0), "{ours:?}");
    let (said, took) = ours.out.trim().rsplit_once(' ').unwrap_or_else(|| panic!("{ours:?}"));
    let line = lines(&file).into_iter().find(|line| line["event"] == "connection");
    (said.to_owned(), took.parse().unwrap(), line.unwrap_or_else(|| panic!("{ours:?}")))
}

inside!(accelerated_a_program_that_wants_a_silent_address_is_served_by_another_of_its_name, || {
    let Some(python) = crate::lab::python() else { return };
    let mut world = world();
    let good = site(&mut world, "www").v4[0].fate;
    add(&mut world, "half", 1, [good, Fate::BlackHole]);
    add(&mut world, "shut", 2, [good, Fate::Refuses]);
    let lab = Lab::of(&world);
    // Nobody's patience is at stake here but that of who waits in vain, who is never answered.
    let (said, _, line) = to_one(&lab, &python, &[], ["half.lab.example", "AF_INET6", "1"]);
    assert_eq!((said.as_str(), &line["accelerated"]), ("TimeoutError", &Value::Null), "{line}");
    let (said, took, line) = to_one(&lab, &python, &["--accelerate"], ["half.lab.example", "AF_INET6", "60"]);
    assert_eq!((said.as_str(), &line["accelerated"]), ("HTTP/1.1", &"198.19.2.1:80".into()), "{line}");
    // The link's round trip: both families are tried at once, since nothing is known of them.
    assert!(took >= 0.01, "no answer before there is a connection: {took}");
    assert_eq!((&line["connect_ms"], &line["app"].is_string()), (&Value::Null, &true), "{line}");
    assert!(line["peer"].as_str().unwrap().starts_with('['), "the peer is who the program wanted: {line}");
    let (said, _, line) = to_one(&lab, &python, &["--accelerate"], ["shut.lab.example", "AF_INET6", "60"]);
    assert!(said == "HTTP/1.1" && line["accelerated"].is_string(), "one that refuses is no reason to fail: {line}");
});

inside!(accelerated_nobody_is_answered_without_a_connection_and_one_address_is_no_race, || {
    let Some(python) = crate::lab::python() else { return };
    let mut world = world();
    add(&mut world, "dead", 1, [Fate::BlackHole; 2]);
    add(&mut world, "shut", 2, [Fate::Refuses; 2]);
    let lab = Lab::of(&world);
    let (said, _, line) = to_one(&lab, &python, &["--accelerate"], ["dead.lab.example", "AF_INET6", "1.5"]);
    assert_eq!((said.as_str(), &line["accelerated"]), ("TimeoutError", &Value::Null), "{line}");
    assert_eq!(line["down_packets"], 0, "{line}");
    let (said, _, line) = to_one(&lab, &python, &["--accelerate"], ["shut.lab.example", "AF_INET", "60"]);
    assert_eq!((said.as_str(), &line["end"]), ("ConnectionRefusedError", &"refused".into()), "{line}");
    let (said, _, line) = to_one(&lab, &python, &["--accelerate"], ["v6.lab.example", "AF_INET6", "60"]);
    assert_eq!((said.as_str(), &line["accelerated"]), ("HTTP/1.1", &Value::Null), "one address: {line}");
    assert!(line["connect_ms"].is_number(), "{line}");
});

inside!(a_capture_is_opened_by_wireshark_and_says_whose_packets_are, || {
    let lab = Lab::new();
    let (Some(curl), Some(tshark)) = (found("curl", "curl"), found("tshark", "tshark")) else { return };
    let file = lab.scratch.path("capture.pcapng");
    let words = [curl.to_str().unwrap(), "-s", "http://www.lab.example/"];
    let ours = lab.ours_with(&["--measure", "--pcapng", file.to_str().unwrap()], &words);
    assert_eq!(ours.code, Some(0), "{ours:?}");
    let says = |words: &[&str]| {
        let mut command = lab.command(&tshark);
        let output = command.arg("-r").arg(&file).args(words).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let packets = says(&["-Y", "http.request", "-T", "fields", "-e", "frame.comment"]);
    assert!(packets.starts_with("app=curl;pid="), "{packets:?}");
    // From the first one of a connection and of a lookup on, in their order.
    for first in ["tcp.flags.syn == 1 && tcp.flags.ack == 0", "dns.flags.response == 0", "tcp"] {
        let said = says(&["-Y", first, "-T", "fields", "-e", "frame.comment"]);
        assert!(said.lines().count() > 0 && said.lines().all(|line| line.starts_with("app=curl;pid=")), "{said:?}");
    }
    let times = says(&["-T", "fields", "-e", "frame.time_delta"]);
    assert!(times.lines().all(|delta| delta.parse::<f64>().unwrap() >= 0.0), "{times}");
    // The file itself, block by block.
    let of_file = ["-X", "read_format:MIME Files Format", "-T", "fields", "-e", "pcapng.darwin.process_name"];
    let known = lab.command(&tshark).args(["-G", "fields"]).output().unwrap();
    if String::from_utf8_lossy(&known.stdout).contains("pcapng.darwin.process_name") {
        assert_eq!(says(&of_file).trim(), "curl");
    } else {
        println!("skipped: this tshark knows nothing of processes in captures");
    }
});

inside!(an_interface_that_another_program_has_made_is_forwarded_through_sockets_that_it_protects, || {
    let lab = Lab::new();
    let (Some(python), Some(_)) = (crate::lab::python(), found("ip", "iproute2")) else { return };
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/run/programs/embedding.py");
    let file = lab.scratch.path("flows");
    let says = |answer: &str| {
        let words = [python.as_str(), script, crate::lab::HEADSTART, file.to_str().unwrap(), "198.19.0.1", answer];
        let ended = lab.bare(&words);
        assert_eq!(ended.code, Some(0), "{ended:?}");
        ended.out
    };
    // One that refuses to protect is not got round: programs hear that it is prohibited.
    let refused = says("1");
    assert_eq!(refused.lines().collect::<Vec<_>>(), ["OSError False", "True", "0 1"], "{refused}");
    let served = says("0");
    assert_eq!(served.lines().collect::<Vec<_>>(), ["HTTP/1.1 True", "True", "0 1"], "{served}");
    let lines = lines(&file);
    let flow = lines.iter().find(|line| line["end"] == "finished").unwrap_or_else(|| panic!("{lines:?}"));
    assert!(flow["app"].as_str().unwrap().starts_with("python"), "{flow}");
    assert!(flow["connect_ms"].as_f64().unwrap() >= 10.0, "{flow}");
    let wrong = lab.scratch.headstart(["forward", "--tun-fd", "0"]).output().unwrap();
    assert_eq!(wrong.status.code(), Some(2), "{}", String::from_utf8_lossy(&wrong.stderr));
});
