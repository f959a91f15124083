//! A store that is shared by two, is gone, is slow, or is none. The server is Debian's, on a Unix socket of the test.

use super::*;
use crate::clock::Clock;
use headstart_core::cwnd::history::{Medium, Outcome, Sample};
use std::io::Write as _;
use std::net::TcpListener;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;

const HERE: NetworkId = NetworkId(7);
/// As long as the slowest machine may take.
pub(super) const LONG: Duration = Duration::from_secs(60);

/// A folder that is gone with the test.
pub(super) struct Scratch(PathBuf);

impl Scratch {
    pub(super) fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("headstart-shared-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(super) fn url(&self) -> String {
        format!("redis+unix://{}", self.0.join("redis.sock").display())
    }

    fn location(&self) -> Location {
        self.url().parse().unwrap()
    }

    fn shared(&self) -> SharedStore {
        SharedStore::at(self.location(), HERE).unwrap()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A server, ended with the test.
pub(super) struct Redis(Child);

impl Redis {
    /// `None`, and a line that says so, without the program.
    fn start(scratch: &Scratch) -> Option<Self> {
        Self::start_with(scratch, &[])
    }

    pub(super) fn start_with(scratch: &Scratch, more: &[&str]) -> Option<Self> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        if !std::env::split_paths(&path).any(|folder| folder.join("redis-server").is_file()) {
            println!("skipped: redis-server is not on the PATH (Debian package: redis-server)");
            return None;
        }
        let socket = scratch.0.join("redis.sock");
        let _ = std::fs::remove_file(&socket);
        let mut command = Command::new("redis-server");
        command.args(["--port", "0", "--save", "", "--appendonly", "no", "--unixsocket"]).arg(&socket).args(more);
        let child = command.arg("--dir").arg(&scratch.0).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let redis = Self(child);
        let clock = Clock::new();
        while UnixStream::connect(&socket).is_err() {
            assert!(clock.now() < Instant::ZERO + LONG, "redis-server does not listen");
            clock.sleep(Duration::from_millis(5));
        }
        Some(redis)
    }
}

impl Redis {
    pub(super) fn signal(&self, signal: rustix::process::Signal) {
        rustix::process::kill_process(rustix::process::Pid::from_child(&self.0), signal).unwrap();
    }

    pub(super) fn kill(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        self.kill();
    }
}

pub(super) fn recall(shared: &SharedStore, last: u8) -> Recalled {
    let (tell, told) = channel();
    shared.recall([192, 0, 2, last].into(), true, move |recalled| _ = tell.send(recalled));
    told.recv_timeout(LONG).expect("every question is answered")
}

pub(super) fn record(window: u64) -> Record {
    let sample = Sample {
        window,
        carried: window,
        rtt: Duration::from_millis(40),
        rate: 1_000_000,
        loss: 0.0,
        limited: false,
        shared: false,
        outcome: Outcome::Clean,
        medium: Medium::Wired,
    };
    let now = wall().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    Record::first(Instant::ZERO + now, &sample)
}

pub(super) fn window(recalled: Recalled) -> (bool, u64) {
    match recalled {
        Recalled::Ours(record) => (true, record.window),
        Recalled::Taken(record) => (false, record.window),
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_one_server_has_learned_another_knows_and_one_at_a_time_uses() {
    let scratch = Scratch::new("two");
    let Some(_redis) = Redis::start(&scratch) else { return };
    let (one, other) = (scratch.shared(), scratch.shared());
    assert_eq!(recall(&one, 1), Recalled::Nothing);
    one.keep([192, 0, 2, 1].into(), record(480_000), LONG);
    // Jobs of one server are done in their order.
    assert_eq!(window(recall(&one, 1)), (true, 480_000));
    assert_eq!(window(recall(&other, 1)), (false, 480_000), "the first one uses it");
    other.release([192, 0, 2, 1].into());
    assert_eq!(window(recall(&other, 1)), (false, 480_000), "what is another's cannot be given back");
    one.release([192, 0, 2, 1].into());
    assert_eq!(recall(&one, 2), Recalled::Nothing);
    assert_eq!(window(recall(&other, 1)), (true, 480_000));
    other.forget([192, 0, 2, 1].into());
    assert_eq!(recall(&other, 1), Recalled::Nothing);
    assert_eq!((one.notes(), other.notes()), (vec![], vec![]));
}

#[test]
fn what_has_expired_is_not_known() {
    let scratch = Scratch::new("expired");
    let Some(_redis) = Redis::start(&scratch) else { return };
    let shared = scratch.shared();
    shared.keep([192, 0, 2, 1].into(), record(480_000), Duration::from_millis(1));
    let clock = Clock::new();
    while recall(&shared, 1) != Recalled::Nothing {
        assert!(clock.now() < Instant::ZERO + LONG, "it never expires");
        clock.sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_store_that_is_not_there_is_told_once_and_every_question_is_answered() {
    let scratch = Scratch::new("gone");
    let shared = scratch.shared();
    for last in 1..20 {
        assert_eq!(recall(&shared, last), Recalled::Gone);
        shared.keep([192, 0, 2, last].into(), record(1), LONG);
    }
    let notes = shared.notes();
    assert!(matches!(&notes[..], [note] if note.contains("start as usual")), "{notes:?}");
}

#[test]
fn one_that_was_killed_is_found_again() {
    let scratch = Scratch::new("again");
    let Some(redis) = Redis::start(&scratch) else { return };
    let shared = scratch.shared();
    shared.keep([192, 0, 2, 1].into(), record(480_000), LONG);
    assert_eq!(window(recall(&shared, 1)), (true, 480_000));
    drop(redis);
    assert_eq!(recall(&shared, 1), Recalled::Gone);
    let _ = std::fs::remove_file(scratch.0.join("redis.sock"));
    let Some(_redis) = Redis::start(&scratch) else { return };
    // One that comes first makes the key of names anew.
    let other = scratch.shared();
    other.keep([192, 0, 2, 2].into(), record(360_000), LONG);
    assert_eq!(window(recall(&other, 2)), (true, 360_000));
    let clock = Clock::new();
    while recall(&shared, 1) == Recalled::Gone {
        assert!(clock.now() < Instant::ZERO + LONG, "it is never found again");
        clock.sleep(Duration::from_millis(20));
    }
    assert_eq!(recall(&shared, 1), Recalled::Nothing, "what it knew is gone");
    assert_eq!(window(recall(&shared, 2)), (false, 360_000), "names are of the new key");
    assert_eq!(shared.notes().len(), 1);
}

#[test]
fn one_that_never_answers_and_one_that_is_something_else_count_as_gone() {
    let scratch = Scratch::new("silent");
    let silent = UnixListener::bind(scratch.0.join("redis.sock")).unwrap();
    assert_eq!(recall(&scratch.shared(), 1), Recalled::Gone);
    drop(silent);
    let scratch = Scratch::new("other");
    let other = UnixListener::bind(scratch.0.join("redis.sock")).unwrap();
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = other.accept() {
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
        }
    });
    let shared = scratch.shared();
    assert_eq!(recall(&shared, 1), Recalled::Gone);
    // Whichever was seen first, its words or its end: it is named.
    assert!(shared.notes()[0].contains("redis.sock"));
}

/// A port that nothing listens on: the kernel gives it to nothing else for a while.
pub(super) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

pub(super) fn at(place: &str) -> SharedStore {
    SharedStore::at(place.parse().unwrap(), HERE).unwrap()
}

/// The one note of a store that does not serve us.
fn refused(shared: &SharedStore) -> String {
    assert_eq!(recall(shared, 1), Recalled::Gone);
    let [note] = &shared.notes()[..] else { panic!("it is said once") };
    note.clone()
}

#[test]
fn a_user_with_a_password_is_let_in_and_others_are_told_why_not() {
    let scratch = Scratch::new("user");
    let rights = ["on", ">s3cret", "~headstart:*", "+get", "+set", "+del", "+eval"];
    let user = [&["--requirepass", "other", "--user", "fleet"][..], &rights].concat();
    let Some(_redis) = Redis::start_with(&scratch, &user) else { return };
    let socket = scratch.url();
    let file = scratch.0.join("password");
    std::fs::write(&file, "s3cret\n").unwrap();
    let fleet = at(&format!("{socket}?user=fleet&password-file={}", file.display()));
    fleet.keep([192, 0, 2, 1].into(), record(480_000), LONG);
    assert_eq!(window(recall(&fleet, 1)), (true, 480_000));
    fleet.release([192, 0, 2, 1].into());
    assert_eq!(recall(&fleet, 2), Recalled::Nothing);
    assert!(refused(&at(&socket)).contains("NOAUTH"));
    std::fs::write(&file, "wrong").unwrap();
    let why = refused(&at(&format!("{socket}?user=fleet&password-file={}", file.display())));
    assert!(why.to_lowercase().contains("auth") || why.contains("WRONGPASS"), "{why}");
    assert!(!why.contains("s3cret") && !why.contains("wrong\""), "{why}");
}

/// A store with the key of a site in a file.
fn sealed(scratch: &Scratch, key: &str) -> SharedStore {
    sealed_at(scratch, &scratch.url(), key)
}

/// The store at `place` with the key of a site in a file of `scratch`.
pub(super) fn sealed_at(scratch: &Scratch, place: &str, key: &str) -> SharedStore {
    let file = scratch.0.join(format!("key-{}", key.len()));
    std::fs::write(&file, key.repeat(64 / key.len())).unwrap();
    std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    at(&format!("{place}?seal-key={}", file.display()))
}

#[test]
fn sealed_records_are_known_to_their_site_alone_and_nothing_forged_is_believed() {
    let scratch = Scratch::new("sealed");
    let Some(_redis) = Redis::start(&scratch) else { return };
    let (one, other, foreign) = (sealed(&scratch, "1a"), sealed(&scratch, "1a"), sealed(&scratch, "2b3c"));
    let client = redis::Client::open(scratch.url()).unwrap();
    let mut open = client.get_connection().unwrap();
    let mut names = || -> Vec<String> { redis::cmd("KEYS").arg("headstart:path:*").query(&mut open).unwrap() };
    let peer = |last: u8| [192, 0, 2, last].into();
    // What is kept is there when the next question is answered.
    one.keep(peer(1), record(480_000), LONG);
    assert_eq!((window(recall(&one, 1)), window(recall(&other, 1))), ((true, 480_000), (false, 480_000)));
    let first = names().remove(0);
    one.keep(peer(2), record(240_000), LONG);
    assert_eq!(window(recall(&one, 2)).1, 240_000);
    let second = names().into_iter().find(|name| *name != first).unwrap();
    assert_eq!((recall(&foreign, 1), recall(&scratch.shared(), 1)), (Recalled::Nothing, Recalled::Nothing));
    foreign.keep(peer(1), record(960_000), LONG);
    assert_eq!(window(recall(&foreign, 1)).1, 960_000);
    let third = names().into_iter().find(|name| ![&first, &second].contains(&name)).unwrap();

    let mut open = client.get_connection().unwrap();
    let mut get = |name: &str| -> Vec<u8> { redis::cmd("GET").arg(name).query(&mut open).unwrap() };
    let (ours, of_second, of_foreign) = (get(&first), get(&second), get(&third));
    let plain = record(720_000).encode().to_vec();
    let mut flipped = ours.clone();
    flipped[30] ^= 1;
    let mut open = client.get_connection().unwrap();
    let mut set = |bytes: &[u8]| redis::cmd("SET").arg(&first).arg(bytes).exec(&mut open).unwrap();
    for (what, forged) in [
        ("a flipped byte", flipped),
        ("the record of another peer", of_second),
        ("the record of a foreign site", of_foreign),
        ("a record that is not sealed", plain),
        ("a cut record", ours[..20].to_vec()),
    ] {
        set(&forged);
        assert_eq!(recall(&one, 1), Recalled::Nothing, "{what}");
    }
    set(&ours);
    assert_eq!(window(recall(&one, 1)).1, 480_000, "as it was");
    assert_eq!((one.notes(), other.notes(), foreign.notes()), (vec![], vec![], vec![]));
}

/// A certificate of an authority of its own for 127.0.0.1: files `ca.pem`, `cert.pem` and `key.pem`.
fn certificate(folder: &std::path::Path) {
    let mut of_authority = rcgen::CertificateParams::default();
    of_authority.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let authority_key = rcgen::KeyPair::generate().unwrap();
    let authority = of_authority.self_signed(&authority_key).unwrap();
    let issuer = rcgen::Issuer::new(of_authority, authority_key);
    let key = rcgen::KeyPair::generate().unwrap();
    let params = rcgen::CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
    let certificate = params.signed_by(&key, &issuer).unwrap();
    let files = [("ca.pem", authority.pem()), ("cert.pem", certificate.pem()), ("key.pem", key.serialize_pem())];
    for (name, text) in files {
        std::fs::write(folder.join(name), text).unwrap();
    }
}

#[test]
fn over_tls_only_a_server_of_the_own_authority_is_asked() {
    let (scratch, other) = (Scratch::new("tls"), Scratch::new("tls-other"));
    for scratch in [&scratch, &other] {
        certificate(&scratch.0);
    }
    let (port, file) =
        (free_port().to_string(), |name: &str| scratch.0.join(name).into_os_string().into_string().unwrap());
    let files = [file("cert.pem"), file("key.pem"), file("ca.pem")];
    let tls =
        ["--tls-port", &port, "--tls-auth-clients", "no", "--tls-cert-file", &files[0], "--tls-key-file", &files[1]];
    let Some(_redis) = Redis::start_with(&scratch, &[&tls[..], &["--tls-ca-cert-file", &files[2]]].concat()) else {
        return;
    };
    let ours = at(&format!("rediss://127.0.0.1:{port}?ca={}", files[2]));
    ours.keep([192, 0, 2, 1].into(), record(480_000), LONG);
    assert_eq!(window(recall(&ours, 1)), (true, 480_000));
    let stranger = at(&format!("rediss://127.0.0.1:{port}?ca={}", other.0.join("ca.pem").display()));
    assert!(refused(&stranger).contains("certificate"));
    let by_the_hosts_authorities = at(&format!("rediss://127.0.0.1:{port}"));
    refused(&by_the_hosts_authorities);
    let plain = at(&format!("redis://127.0.0.1:{port}"));
    refused(&plain);
}

/// What a server says of itself as a replica.
fn info(socket: &std::path::Path) -> String {
    let client = redis::Client::open(format!("redis+unix://{}", socket.display())).unwrap();
    let said = client.get_connection().and_then(|mut open| redis::cmd("INFO").arg("replication").query(&mut open));
    said.unwrap_or_default()
}

#[test]
fn when_the_master_dies_a_sentinel_leads_to_the_one_that_takes_over() {
    let (first, second, third) = (Scratch::new("master"), Scratch::new("replica"), Scratch::new("sentinel"));
    let ports = [free_port(), free_port(), free_port()];
    let [a, b, s] = ports.map(|port| port.to_string());
    let Some(master) = Redis::start_with(&first, &["--port", &a]) else { return };
    let quickly = ["--repl-diskless-sync-delay", "0"];
    let replica = ["--port", &b, "--replicaof", "127.0.0.1", &a];
    let _replica = Redis::start_with(&second, &[&replica[..], &quickly].concat()).unwrap();
    let wait_for = |what: &str, is: &dyn Fn() -> bool| {
        let clock = Clock::new();
        while !is() {
            assert!(clock.now() < Instant::ZERO + LONG, "{what}");
            clock.sleep(Duration::from_millis(20));
        }
    };
    wait_for("the replica never follows", &|| info(&second.0.join("redis.sock")).contains("master_link_status:up"));
    let conf = third.0.join("sentinel.conf");
    let text = format!(
        "port {s}\ndir {}\nsentinel monitor paths 127.0.0.1 {a} 1\nsentinel down-after-milliseconds paths 300\n\
         sentinel failover-timeout paths 3000\n",
        third.0.display()
    );
    std::fs::write(&conf, text).unwrap();
    let mut command = Command::new("redis-server");
    let command = command.arg(&conf).arg("--sentinel").stdout(Stdio::null()).stderr(Stdio::null());
    let _sentinel = Redis(command.spawn().unwrap());
    let shared = at(&format!("redis+sentinel://127.0.0.1:{s}/paths"));
    wait_for("the Sentinel leads nowhere", &|| recall(&shared, 2) == Recalled::Nothing);
    shared.keep([192, 0, 2, 1].into(), record(480_000), LONG);
    assert_eq!(window(recall(&shared, 1)), (true, 480_000));
    // It knows its replica, and the replica has the record.
    let sentinel = redis::Client::open(format!("redis://127.0.0.1:{s}")).unwrap();
    let replicas = || -> Vec<redis::Value> {
        let asked = sentinel
            .get_connection()
            .and_then(|mut open| redis::cmd("SENTINEL").arg("REPLICAS").arg("paths").query(&mut open));
        asked.unwrap_or_default()
    };
    wait_for("the Sentinel never finds the replica", &|| !replicas().is_empty());
    let to = redis::Client::open(format!("redis+unix://{}", first.0.join("redis.sock").display())).unwrap();
    // One replica follows the writes of one connection in order, and so those before them.
    let mut to = to.get_connection().unwrap();
    redis::cmd("SET").arg("headstart:last").arg(1).exec(&mut to).unwrap();
    let followed: i64 = redis::cmd("WAIT").arg(1).arg(60_000).query(&mut to).unwrap();
    assert_eq!(followed, 1);
    drop(shared.notes());
    drop(master);
    // Under load: every question is answered while it is gone, and it is said once.
    let busy: Vec<_> = (0..4)
        .map(|n| {
            let shared = shared.clone();
            std::thread::spawn(move || (0..50).for_each(|_| _ = recall(&shared, 10 + n)))
        })
        .collect();
    busy.into_iter().for_each(|thread| thread.join().unwrap());
    wait_for("the new master is never found", &|| matches!(recall(&shared, 1), Recalled::Ours(_) | Recalled::Taken(_)));
    assert_eq!(window(recall(&shared, 1)), (false, 480_000), "the lease went along");
    let notes = shared.notes();
    assert!(!notes.is_empty() && notes[0].contains("start as usual"), "{notes:?}");
    wait_for("the new master does not take a record", &|| {
        shared.keep([192, 0, 2, 3].into(), record(360_000), LONG);
        recall(&shared, 3) != Recalled::Nothing && recall(&shared, 3) != Recalled::Gone
    });
}
