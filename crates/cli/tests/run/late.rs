//! Answers that come late, beside a family that does not work: what is reached alone is reached through headstart.

use crate::lab::{Lab, found, inside, python, site, world};
use headstart_core::time::Duration;
use headstart_lab::world::Fate;

/// As wget does: getaddrinfo without a port, then one blocking connect after the other; what is asked of a socket afterwards.
const ONE_BY_ONE: &str = "import socket, sys
error = None
for family, kind, proto, _, to in socket.getaddrinfo(sys.argv[1], None, type=socket.SOCK_STREAM):
    s = socket.socket(family, kind, proto)
    try:
        s.connect((to[0], 80))
    except OSError as e:
        error = e
        continue
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    s.getsockname()
    print('peer', s.getpeername()[0])
    s.sendall(b'GET / HTTP/1.0\\r\\nHost: ' + sys.argv[1].encode() + b'\\r\\n\\r\\n')
    print(s.makefile().read())
    break
else:
    sys.exit(str(error))
";

/// IPv4 refuses at once, and IPv6, which works, is answered so late.
fn lab(late: Duration) -> Lab {
    let mut world = world();
    let www = site(&mut world, "www");
    www.v4[0].fate = Fate::Refuses;
    www.aaaa.delay = late;
    Lab::of(&world)
}

inside!(a_client_that_works_alone_works_where_aaaa_comes_late_and_ipv4_refuses, || {
    let lab = lab(Duration::from_millis(100));
    let Some(curl) = found("curl", "curl") else { return };
    let Some(python) = python() else { return };
    let curl = [curl.to_str().unwrap(), "-sS", "http://www.lab.example/"];
    let python = [python.as_str(), "-c", ONE_BY_ONE, "www.lab.example"];
    for words in [&curl[..], &python[..]] {
        let bare = lab.bare(words);
        assert!(bare.code == Some(0) && bare.out.contains("family: IPv6"), "{bare:?}");
        for via in ["preload", "seccomp"] {
            for race in ["adaptive", "happy-eyeballs-v2"] {
                let ours = lab.ours_with(&["--via", via, "--race", race], words);
                assert!(ours.code == Some(0) && ours.out.contains("family: IPv6"), "{via}, {race}: {ours:?}");
            }
        }
    }
});

inside!(a_program_that_waits_in_its_connect_is_given_the_family_that_it_was_not_told_of, || {
    let lab = lab(Duration::from_secs(4));
    let Some(python) = python() else { return };
    for via in ["preload", "seccomp"] {
        let ours = lab.ours_with(&["--via", via], &[python.as_str(), "-c", ONE_BY_ONE, "www.lab.example"]);
        assert!(ours.code == Some(0) && ours.out.contains("family: IPv6"), "{via}: {ours:?}");
        assert!(ours.out.contains("peer 2001:db8:"), "it was told of IPv4 alone: {ours:?}");
        assert_eq!(ours.count("handed_over"), 1, "{ours:?}");
    }
});

inside!(nothing_is_given_up_before_the_c_library_would, || {
    let Some(python) = python() else { return };
    let mut world = world();
    let www = site(&mut world, "www");
    (www.a.delay, www.aaaa.delay) = (Duration::from_secs(6), Duration::from_secs(6));
    let lab = Lab::of(&world);
    let ours = lab.ours(&[python.as_str(), "-c", ONE_BY_ONE, "www.lab.example"]);
    assert!(ours.code == Some(0) && ours.out.contains("peer "), "{ours:?}");
    assert_eq!(ours.count("resolved"), 1, "{ours:?}");
});
