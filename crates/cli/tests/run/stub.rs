//! Programs that speak DNS themselves: they get the same answers as without headstart, and one lost family does not hold up
//! the other.

use crate::lab::{Ended, Lab, compiled, found, go_program, inside, python, world};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// Sites whose both families are answered, whatever becomes of connections.
const ANSWERED: [&str; 5] = ["www", "v4", "v6", "slow-v6", "refused-v6"];
/// Names of other kinds: in /etc/hosts, absent, of one label, local.
const OTHERS: [&str; 5] = ["by-hand.lab.example", "nowhere.lab.example", "printer", "printer.local", "localhost"];

fn lab() -> Lab {
    let lab = Lab::of(&world());
    // The lab's own file, which only this mount namespace sees.
    let hosts = fs::read_to_string("/etc/hosts").unwrap_or_default();
    fs::write("/etc/hosts", hosts + "198.19.0.9 by-hand.lab.example\n127.0.0.1 localhost\n").unwrap();
    lab
}

/// The program by its own, heard by its system calls alone.
fn ours(lab: &Lab, words: &[String]) -> Ended {
    lab.ours_with(&["--via", "seccomp"], words)
}

/// What the program makes of `names` by itself and through headstart: the same. How many questions were answered by us.
fn the_same(lab: &Lab, names: &[String], words: &dyn Fn(&[String]) -> Vec<String>) -> u64 {
    let words = words(names);
    let (bare, ours) = (lab.bare(&words), ours(lab, &words));
    assert!(bare.code == Some(0) && !bare.out.is_empty(), "{bare:?}");
    assert_eq!((ours.code, &ours.out), (bare.code, &bare.out), "{ours:?}");
    ours.count("program_queries")
}

fn full(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| format!("{name}.lab.example")).collect()
}

/// A program that prints addresses: as bare where all is well, and with the other family where one is lost, which is
/// not waited for.
fn prints_the_same(lab: &Lab, words: &dyn Fn(&[String]) -> Vec<String>) {
    let asked = the_same(lab, &full(&ANSWERED), words);
    assert!(asked >= 8, "{asked}");
    let others = OTHERS.map(str::to_owned);
    the_same(lab, &others, words);
    for (site, addresses) in [("aaaa-lost", "198.19."), ("a-lost", "2001:db8:")] {
        let run = ours(lab, &words(&full(&[site])));
        assert!(run.code == Some(0) && run.out.contains(addresses), "{run:?}");
        assert!(run.count("answered_without_other_family") >= 1, "{run:?}");
    }
}

fn c_program(program: PathBuf) -> impl Fn(&[String]) -> Vec<String> {
    move |names| [program.display().to_string()].into_iter().chain(names.iter().cloned()).collect()
}

inside!(a_static_program_of_glibc_is_told_the_same, || {
    let lab = lab();
    // The linker warns of getaddrinfo in static programs, which is what is being tried here.
    let Some(program) = compiled(&lab.scratch, "lookup.c", &["-static", "-lresolv"]) else { return };
    prints_the_same(&lab, &c_program(program));
});

inside!(a_family_that_is_asked_for_once_the_other_is_answered_is_not_waited_for_either, || {
    let lab = lab();
    let Some(program) = compiled(&lab.scratch, "lookup.c", &["-static", "-lresolv"]) else { return };
    // So every program asks, on a busy machine, that asks for both from two threads.
    let name = "aaaa-lost.lab.example";
    let words = ["env", "RES_OPTIONS=single-request", program.to_str().unwrap(), name].map(str::to_owned);
    let run = ours(&lab, &words);
    assert!(run.code == Some(0) && run.out.contains("198.19."), "{run:?}");
    assert_eq!(run.count("answered_without_other_family"), 1, "{run:?}");
});

inside!(a_program_of_glibc_heard_by_its_system_calls_is_told_the_same, || {
    let lab = lab();
    let Some(program) = compiled(&lab.scratch, "lookup.c", &["-lresolv"]) else { return };
    prints_the_same(&lab, &c_program(program));
});

inside!(res_query_is_told_the_same, || {
    let lab = lab();
    let Some(program) = compiled(&lab.scratch, "lookup.c", &["-lresolv"]) else { return };
    let query = |names: &[String]| {
        let words = ["env", "QUERY=1"].map(str::to_owned);
        words.into_iter().chain([program.display().to_string()]).chain(names.iter().cloned()).collect()
    };
    the_same(&lab, &full(&["www", "v4"]), &query);
});

inside!(a_program_of_musl_is_told_the_same, || {
    let lab = lab();
    let Some(cc) = found("musl-gcc", "musl-tools") else { return };
    let source = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/run/programs/lookup.c");
    let program = lab.scratch.path("lookup");
    let built = Command::new(cc).args(["-static", "-O1", "-o"]).arg(&program).arg(source).status().unwrap();
    assert!(built.success());
    prints_the_same(&lab, &c_program(program));
});

inside!(a_go_program_is_told_the_same, || {
    let lab = lab();
    let text = "package main\nimport (\"context\"; \"fmt\"; \"net\"; \"os\"; \"sort\")\nfunc main() {\n\
                r := &net.Resolver{PreferGo: true}\n\
                for _, name := range os.Args[1:] {\n\
                a, err := r.LookupHost(context.Background(), name)\nsort.Strings(a)\n\
                fmt.Println(name, a, err != nil)\n} }\n";
    let Some(program) = go_program(&lab.scratch, text) else { return };
    prints_the_same(&lab, &c_program(program));
});

inside!(a_go_program_that_comes_again_finds_its_connection_begun, || {
    let lab = lab();
    let text = "package main\nimport (\"io\"; \"net/http\"; \"os\")\nfunc main() {\n\
                c := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}\n\
                for i := 0; i < 3; i++ {\n\
                r, err := c.Get(os.Args[1])\nif err != nil { panic(err) }\n\
                io.Copy(os.Stdout, r.Body)\nr.Body.Close()\n} }\n";
    let Some(program) = go_program(&lab.scratch, text) else { return };
    for site in ["www", "v4", "v6", "slow-v6"] {
        let words = [program.display().to_string(), format!("http://{site}.lab.example/bytes/20000")];
        let (bare, ours) = (lab.bare(&words), ours(&lab, &words));
        assert!(bare.code == Some(0) && bare.out.len() == 60_000, "{bare:?}");
        assert_eq!((ours.code, &ours.out), (bare.code, &bare.out), "{ours:?}");
        assert!(ours.count("handed_over") + ours.count("handed_over_in_progress") >= 1, "{site}: {ours:?}");
    }
});

inside!(node_with_c_ares_is_told_the_same, || {
    let lab = lab();
    let Some(node) = found("node", "nodejs") else { return };
    let script = "const dns = require('dns').promises; (async () => { for (const name of process.argv.slice(1)) {\n\
                  const [a, b] = await Promise.allSettled([dns.resolve4(name), dns.resolve6(name)]);\n\
                  const all = [...(a.value || []), ...(b.value || [])].sort();\n\
                  console.log(name, ...all, all.length ? '' : a.reason.code) } })()";
    let words = |names: &[String]| {
        let head = [node.display().to_string(), "-e".into(), script.into()];
        head.into_iter().chain(names.iter().cloned()).collect()
    };
    prints_the_same(&lab, &words);
});

inside!(dig_is_told_the_same_whatever_it_asks, || {
    let lab = lab();
    let Some(dig) = found("dig", "bind9-dnsutils") else { return };
    // Without what differs from one run to the next: the id, the cookie, times.
    let quiet = ["+nocmd", "+nostats", "+nocookie", "+tries=1", "+time=5", "+noidentify", "+qid=7"];
    for question in [
        &["A"][..],
        &["AAAA"],
        &["A", "+noedns", "+noadflag"],
        &["AAAA", "+noadflag"],
        &["A", "+dnssec"],
        &["A", "+cdflag"],
        &["TXT"],
        &["HTTPS"],
        &["MX", "+tcp"],
        &["A", "-c", "CH"],
        &["A", "+bufsize=512", "+noadflag"],
    ] {
        for name in ["www.lab.example", "nowhere.lab.example"] {
            let head = [dig.to_str().unwrap(), name].into_iter().chain(quiet).chain(question.iter().copied());
            let words: Vec<String> = head.map(str::to_owned).collect();
            let (bare, ours) = (lab.bare(&words), ours(&lab, &words));
            assert_eq!((ours.code, ours.out), (bare.code, bare.out), "{name} {question:?}");
        }
    }
});

inside!(python_that_asks_where_it_is_sees_its_own_address, || {
    let lab = lab();
    let Some(python) = python() else { return };
    // How programs find out their address, to which nothing is sent.
    let script = "import socket, re\n\
        server = re.search(r'nameserver (\\S+)', open('/etc/resolv.conf').read())[1]\n\
        s = socket.socket(socket.AF_INET6 if ':' in server else socket.AF_INET, socket.SOCK_DGRAM)\n\
        s.connect((server, 53)); print(s.getsockname()[0], s.getpeername()[:2])\n\
        s.connect(('198.19.0.2', 80)) if ':' not in server else None; print(s.getsockname()[0], s.getpeername()[:2])";
    let words = [python, "-c".into(), script.into()];
    let (bare, ours) = (lab.bare(&words), ours(&lab, &words));
    assert_eq!((ours.code, &ours.out), (Some(0), &bare.out), "{ours:?}");
});

/// A UDP socket that is connected to a DNS server and then sends elsewhere; and, its connect undone, receives from there.
const ELSEWHERE: &str = "import ctypes, socket
server = [line.split()[1] for line in open('/etc/resolv.conf') if line.startswith('nameserver')][0]
family = socket.AF_INET6 if ':' in server else socket.AF_INET
for port in 0, 40123:
    other, s = socket.socket(family, socket.SOCK_DGRAM), socket.socket(family, socket.SOCK_DGRAM)
    other.bind(('', 0))
    other.settimeout(5)
    s.settimeout(5)
    if port:
        s.bind(('', port))
    s.connect((server, 53))
    own = s.getsockname()
    to = own[0], other.getsockname()[1]
    for send in [lambda: s.sendto(b'sendto', to), lambda: s.sendmsg([b'sendmsg'], [], 0, to)]:
        send()
        said, sender = other.recvfrom(100)
        print(said, sender[:2] == own[:2])
    for length in 16, 2:
        assert ctypes.CDLL(None, use_errno=True).connect(s.fileno(), bytes(28), length) == 0
    s.sendto(b'undone', to)
    said, sender = other.recvfrom(100)
    other.sendto(b'answer', sender)
    print(said, s.recv(100), port and s.getsockname()[:2])
    s.close()
";

inside!(a_socket_that_was_connected_to_a_server_and_is_used_elsewhere_loses_nothing, || {
    let lab = lab();
    let Some(python) = python() else { return };
    let words = [python.as_str(), "-c", ELSEWHERE];
    let bare = lab.bare(&words);
    assert!(bare.code == Some(0) && bare.out.lines().count() == 6, "{bare:?}");
    for via in ["auto", "preload", "seccomp"] {
        let ours = lab.ours_with(&["--via", via], &words);
        assert_eq!((ours.code, &ours.out), (bare.code, &bare.out), "{via}: {ours:?}");
    }
});
