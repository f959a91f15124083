//! Programs that are run again under the same supervisor: names resolved and connections open before they ask.
//!
//! When a program asks is its own affair and the machine's: a test looks at launches until one has found what it must find.

use crate::lab::{Lab, found, inside, python, site, world};
use crate::one_supervisor::{end, run, supervisor};
use headstart_core::time::Duration;
use headstart_io::clock::Clock;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// More than is needed by far: two launches teach where the program goes, and a few seconds how long the server bears
/// silence.
const WITHIN: Duration = Duration::from_secs(60);

/// Launches `words` until one is given a connection that was opened before it asked; which one that was. All of them must
/// print `out`.
fn launches_until_spare_taken(lab: &Lab, words: &[&str], out: &str) -> usize {
    let clock = Clock::new();
    let end = clock.now() + WITHIN;
    let mut launches = 0;
    while clock.now() < end {
        let launch = run(lab, words);
        launches += 1;
        assert!(launch.code == Some(0) && launch.out.contains(out), "launch {launches}: {launch:?}");
        if launch.count("spares_taken") > 0 {
            return launches;
        }
    }
    panic!("none of {launches} launches found its connection open");
}

inside!(a_program_of_habit_is_given_a_connection_that_was_open_before_it_asked, || {
    let Some(python) = python() else { return };
    let lab = Lab::new();
    let program = "import socket, time\n\
                   time.sleep(0.2)\n\
                   s = socket.create_connection(('www.lab.example', 80))\n\
                   s.sendall(b'GET / HTTP/1.0\\r\\nHost: www.lab.example\\r\\n\\r\\n')\n\
                   print(s.recv(5))";
    let third = launches_until_spare_taken(&lab, &[&python, "-c", program], "HTTP/");
    assert!(third >= 3, "never before it has been there twice: launch {third}");
    end(supervisor());
    assert!(lab.scratch.left_behind().is_empty(), "{:?}", lab.scratch.left_behind());
});

inside!(curl_is_given_one_too, || {
    let Some(curl) = found("curl", "curl") else { return };
    let lab = Lab::new();
    let words = [curl.to_str().unwrap(), "-sSI", "http://www.lab.example/"];
    assert!(launches_until_spare_taken(&lab, &words, "HTTP/") >= 3);
    end(supervisor());
});

/// Greets whoever connects to `port` of the site `www`, and counts them.
fn greet(lab: &Lab, port: u16) -> Arc<AtomicU64> {
    let accepted = Arc::new(AtomicU64::new(0));
    let mut world = world();
    let www = site(&mut world, "www");
    let addresses: Vec<IpAddr> = www.v4.iter().chain(&www.v6).map(|host| host.addr).collect();
    for addr in addresses {
        let listener = lab.network.on_servers(|| TcpListener::bind(SocketAddr::new(addr, port))).unwrap().unwrap();
        let accepted = accepted.clone();
        std::thread::spawn(move || {
            for greeted in listener.incoming().map_while(Result::ok) {
                accepted.fetch_add(1, Ordering::SeqCst);
                std::thread::spawn(move || {
                    let mut greeted = greeted;
                    let _ = greeted.write_all(b"220 ready\r\n");
                    let _ = greeted.read(&mut [0; 1]);
                });
            }
        });
    }
    accepted
}

inside!(a_server_that_speaks_first_is_never_connected_to_for_somebody_who_has_not_asked, || {
    let Some(python) = python() else { return };
    let lab = Lab::new();
    // What 22 is, is known. What 2222 is must be found out, by a connection that no program is given; by another one where the
    // machine is so slow that a launch is over before the greeting has come.
    for (port, tried) in [(22, 0), (2222, 3)] {
        let accepted = greet(&lab, port);
        let program = format!(
            "import socket, time\n\
             time.sleep(0.2)\n\
             s = socket.create_connection(('www.lab.example', {port}))\n\
             print(s.recv(9))"
        );
        let mut opened = 0;
        for _ in 0..6 {
            let launch = run(&lab, &[&python, "-c", &program]);
            assert!(launch.code == Some(0) && launch.out.contains("220 ready"), "{launch:?}");
            assert_eq!(launch.count("spares_taken"), 0, "{launch:?}");
            opened += launch.count("spares");
        }
        assert!(opened <= tried, "{opened} connections ahead to port {port}");
        assert!(accepted.load(Ordering::SeqCst) >= 6, "every launch has been greeted");
    }
    end(supervisor());
});
