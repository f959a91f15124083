//! A store that is shared by two, is gone, is slow, or is none. The server is Debian's, on a Unix socket of the test.

use super::*;
use headstart_core::cwnd::history::{Medium, Outcome, Sample};
use std::os::unix::net::UnixListener;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;

const HERE: NetworkId = NetworkId(7);
/// As long as the slowest machine may take.
const LONG: Duration = Duration::from_secs(60);

/// A folder that is gone with the test.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("headstart-shared-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn place(&self) -> Place {
        Place::Unix(self.0.join("redis.sock"))
    }

    fn shared(&self) -> Shared {
        Shared::at(self.place(), HERE).unwrap()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A server, ended with the test.
struct Redis(Child);

impl Redis {
    /// `None`, and a line that says so, without the program.
    fn start(scratch: &Scratch) -> Option<Self> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        if !std::env::split_paths(&path).any(|folder| folder.join("redis-server").is_file()) {
            println!("skipped: redis-server is not on the PATH (Debian package: redis-server)");
            return None;
        }
        let socket = scratch.0.join("redis.sock");
        let mut command = Command::new("redis-server");
        command.args(["--port", "0", "--save", "", "--appendonly", "no", "--unixsocket"]).arg(&socket);
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

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn recall(shared: &Shared, last: u8) -> Recalled {
    let (tell, told) = channel();
    shared.recall([192, 0, 2, last].into(), true, move |recalled| _ = tell.send(recalled));
    told.recv_timeout(LONG).expect("every question is answered")
}

fn record(window: u64) -> Record {
    let sample = Sample {
        window,
        carried: window,
        rtt: Duration::from_millis(40),
        rate: 1_000_000,
        loss: 0.0,
        limited: false,
        outcome: Outcome::Clean,
        medium: Medium::Wired,
    };
    let now = wall().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    Record::first(Instant::ZERO + now, &sample)
}

fn window(recalled: Recalled) -> (bool, u64) {
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
    let clock = Clock::new();
    while recall(&shared, 1) == Recalled::Gone {
        assert!(clock.now() < Instant::ZERO + LONG, "it is never found again");
        clock.sleep(Duration::from_millis(20));
    }
    assert_eq!(recall(&shared, 1), Recalled::Nothing, "and knows nothing any more");
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

#[test]
fn places_are_read_and_what_is_none_is_refused() {
    assert_eq!("redis://cache".parse(), Ok(Place::Tcp("cache:6379".into())));
    assert_eq!("redis://[::1]:7000/".parse(), Ok(Place::Tcp("[::1]:7000".into())));
    assert_eq!("redis+unix:///run/redis.sock".parse(), Ok(Place::Unix("/run/redis.sock".into())));
    for text in ["", "redis://", "redis://user@host", "redis+unix://relative", "http://x", "redis://x/1"] {
        assert!(text.parse::<Place>().is_err(), "{text}");
    }
}
