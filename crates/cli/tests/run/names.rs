//! Names: which are headstart's business, and what bad answers of servers come to.

use crate::lab::{Ended, Lab, found, inside, python, site, world};
use headstart_lab::world::{Fate, Reply, Resolver};
use std::io::Write;

/// Prints what getaddrinfo says of each name: its addresses, or its error's number.
const RESOLVE: &str = "import socket, sys\n\
    for name in sys.argv[1:]:\n\
    \x20   try: print(name, sorted({a[4][0] for a in socket.getaddrinfo(name, 80)}))\n\
    \x20   except socket.gaierror as e: print(name, e.errno)";

/// What both make of names; ours, after seeing that it is the same.
fn same(lab: &Lab, names: &[&str]) -> Option<Ended> {
    let python = python()?;
    let words: Vec<&str> = [python.as_str(), "-c", RESOLVE].into_iter().chain(names.iter().copied()).collect();
    let (bare, ours) = (lab.bare(&words), lab.ours(&words));
    assert!(bare.code == Some(0) && bare.out.lines().count() == names.len(), "{bare:?}");
    assert_eq!(ours.out, bare.out, "{ours:?}");
    Some(ours)
}

inside!(names_of_etc_hosts_single_labels_and_local_names_are_the_c_librarys, || {
    let lab = Lab::new();
    // The lab's own file, which only this mount namespace sees.
    let mut hosts = std::fs::OpenOptions::new().append(true).open("/etc/hosts").unwrap();
    writeln!(hosts, "198.19.0.2 intranet.lab.example intranet # by hand").unwrap();
    let asked_before = lab.network.dns_log().len();
    let names = ["intranet.lab.example", "INTRANET.lab.example", "intranet", "localhost"];
    let Some(ours) = same(&lab, &names) else { return };
    assert_eq!(lab.network.dns_log().len(), asked_before, "nothing of the hosts file is anybody else's business");
    assert_eq!((ours.count("queries"), ours.count("resolved")), (0, 0), "{ours:?}");
    let Some(ours) = same(&lab, &["intranet.lab.example.", "nowhere", "printer.local", "router.lan"]) else { return };
    assert_eq!((ours.count("queries"), ours.count("resolved")), (0, 0), "{ours:?}");
});

inside!(a_name_that_does_not_exist_or_has_no_address_gives_the_same_error, || {
    let mut world = world();
    let without = site(&mut world, "v4");
    without.a.reply = Reply::NxDomain;
    without.aaaa.reply = Reply::NxDomain;
    let empty = site(&mut world, "v6");
    empty.v6.clear();
    let lab = Lab::of(&world);
    let names = ["v4.lab.example", "v6.lab.example", "nowhere.lab.example", "nowhere.lab.example."];
    let Some(ours) = same(&lab, &names) else { return };
    assert_eq!(ours.count("unresolved"), 4, "{ours:?}");
});

inside!(a_server_failure_of_one_type_leaves_the_other, || {
    let mut world = world();
    site(&mut world, "www").aaaa.reply = Reply::ServFail;
    site(&mut world, "slow-v6").a.reply = Reply::ServFail;
    let lab = Lab::of(&world);
    same(&lab, &["www.lab.example", "slow-v6.lab.example"]);
});

inside!(malformed_answers_are_ignored_and_counted, || {
    let Some(curl) = found("curl", "curl") else { return };
    let mut world = world();
    site(&mut world, "www").aaaa.reply = Reply::Malformed;
    let lab = Lab::of(&world);
    let ours = lab.ours(&[curl.to_str().unwrap(), "-sS", "http://www.lab.example/"]);
    assert!(ours.code == Some(0) && ours.out.contains("family: IPv4"), "{ours:?}");
    assert!(ours.count("ignored_dns_messages") >= 1, "{ours:?}");
});

inside!(only_malformed_answers_end_in_an_error_as_ever, || {
    let Some(python) = python() else { return };
    let mut world = world();
    let bad = site(&mut world, "www");
    (bad.a.reply, bad.aaaa.reply) = (Reply::Malformed, Reply::Malformed);
    let lab = Lab::of(&world);
    // Bare, the C library waits for 20 s.
    let ours = lab.ours(&[python.as_str(), "-c", RESOLVE, "www.lab.example"]);
    assert!(ours.code == Some(0), "{ours:?}");
    assert_eq!(ours.out, format!("www.lab.example {}\n", -3), "EAI_AGAIN: {ours:?}");
    assert!(ours.count("ignored_dns_messages") >= 2, "{ours:?}");
});

inside!(truncated_answers_are_fetched_over_tcp, || {
    let mut world = world();
    let long = site(&mut world, "www");
    (long.a.reply, long.aaaa.reply) = (Reply::Truncated, Reply::Truncated);
    let lab = Lab::of(&world);
    let Some(ours) = same(&lab, &["www.lab.example"]) else { return };
    assert_eq!(ours.count("resolved"), 1, "{ours:?}");
    assert!(lab.network.dns_log().iter().filter(|query| query.over_tcp).count() >= 2);
});

/// Seconds that each lookup took, and what came of all.
const TIMED: &str = "import socket, sys, time
for name in sys.argv[1:]:
    began = time.monotonic()
    try: said = 'found' if socket.getaddrinfo(name, 80) else 'none'
    except socket.gaierror as e: said = e.errno
    print(said, time.monotonic() - began)";

fn timed(ended: &Ended) -> Vec<(String, f64)> {
    let words = ended.out.lines().filter_map(|line| line.split_once(' '));
    words.map(|(said, took)| (said.to_owned(), took.parse().unwrap())).collect()
}

inside!(a_dead_first_dns_server_is_waited_for_once, || {
    let Some(python) = python() else { return };
    let mut world = world();
    world.resolvers.insert(0, Resolver { fate: Fate::BlackHole, ..Resolver::ORDINARY });
    let lab = Lab::of(&world);
    let words = [&*python, "-c", TIMED, "www.lab.example", "v4.lab.example", "far.lab.example", "v6.lab.example"];
    for via in ["preload", "seccomp"] {
        let ours = lab.ours_with(&["--via", via], &words);
        let lookups = timed(&ours);
        assert!(lookups.len() == 4 && lookups.iter().all(|(said, _)| said == "found"), "{ours:?}");
        let all: f64 = lookups.iter().map(|(_, took)| took).sum();
        // Alone each takes 5 s, and with one second for each it is four.
        assert!(all < 3.0, "{via}: {all} s: {ours:?}");
    }
});

inside!(what_a_program_asks_of_its_resolver_is_kept, || {
    let Some(python) = python() else { return };
    let mut dead = world();
    dead.resolvers[0].fate = Fate::BlackHole;
    let lab = Lab::of(&dead);
    let run = |via: &str| {
        let mut command = lab.command(crate::lab::HEADSTART);
        command.args(["run", "-q", "--via", via, "--", &python, "-c", TIMED, "www.lab.example"]);
        command.env("RES_OPTIONS", "timeout:1 attempts:1");
        let output = command.output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    for via in ["preload", "auto"] {
        let said = run(via);
        let (said, took) = said.trim().split_once(' ').unwrap();
        // By the file it would be 10 s.
        assert!(said == "-3" && took.parse::<f64>().unwrap() < 8.0, "{via}: {said} after {took} s");
    }
    let lab = Lab::new();
    let own_domain = |mut command: std::process::Command| {
        command.env("LOCALDOMAIN", "example").args(["-c", RESOLVE, "www.lab"]);
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    };
    let bare = own_domain(lab.command(&*python));
    assert!(bare.contains("198."), "{bare}");
    let mut ours = lab.command(crate::lab::HEADSTART);
    ours.args(["run", "-q", "--", &python]);
    assert_eq!(own_domain(ours), bare);
    // The same set by the program itself, before it looks a name up.
    let by_itself = format!("import os; os.environ['LOCALDOMAIN'] = 'example'\n{RESOLVE}");
    let mut ours = lab.command(crate::lab::HEADSTART);
    let output = ours.args(["run", "-q", "--", &python, "-c", &by_itself, "www.lab"]).output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), bare);
});

inside!(a_lookup_without_hints_is_served_as_any, || {
    let Some(python) = python() else { return };
    let lab = Lab::new();
    let call = "import ctypes; found = ctypes.c_void_p(); \
                print(ctypes.CDLL(None).getaddrinfo(b'www.lab.example', b'80', None, ctypes.byref(found)))";
    let ours = lab.ours(&[&*python, "-c", call]);
    assert_eq!((ours.out.as_str(), ours.count("resolved")), ("0\n", 1), "{ours:?}");
});
