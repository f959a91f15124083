//! Sessions that do not come as far as an interface, over a pair of sockets; the others are in `crates/cli/tests/run/phone.rs`.

use super::super::frame::{FrameError, encode};
use super::*;
use std::io::Read as _;
use std::os::unix::net::UnixStream;
use std::thread::JoinHandle;

/// A session in a thread of its own, and its app.
fn begun() -> (JoinHandle<Result<(), EngineError>>, UnixStream) {
    let (ours, app) = UnixStream::pair().unwrap();
    let session = std::thread::spawn(move || {
        let clock = Clock::new();
        session(Link::of(ours.into(), clock).unwrap(), clock)
    });
    // A session that says nothing more fails the test.
    app.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    (session, app)
}

fn next_frame(app: &mut UnixStream) -> serde_json::Value {
    let mut length = [0; 4];
    app.read_exact(&mut length).unwrap();
    let mut body = vec![0; u32::from_be_bytes(length) as usize];
    app.read_exact(&mut body).unwrap();
    serde_json::from_slice(&body).unwrap()
}

#[test]
fn what_is_no_frame_right_after_the_greeting_is_an_error_and_the_end() {
    let (session, mut app) = begun();
    assert_eq!(next_frame(&mut app)["kind"], "hello");
    let hello = encode(br#"{"kind": "hello", "version": 1, "app": "test"}"#).unwrap();
    app.write_all(&[&hello[..], &[0xff; 4]].concat()).unwrap();
    assert_eq!(next_frame(&mut app)["name"], "frame");
    assert!(matches!(session.join().unwrap(), Err(EngineError::Link(LinkError::Frame(FrameError::TooLong(u32::MAX))))));
}

#[test]
fn only_one_regular_file_is_written_to() {
    let file = || OwnedFd::from(tempfile::tempfile().unwrap());
    assert!(regular(vec![file()]).is_some());
    assert!(regular(vec![]).is_none() && regular(vec![file(), file()]).is_none());
    let (reader, writer) = std::io::pipe().unwrap();
    let (socket, peer) = UnixStream::pair().unwrap();
    let device = File::options().write(true).open("/dev/null").unwrap();
    assert!([writer.into(), socket.into(), device.into()].into_iter().all(|one| regular(vec![one]).is_none()));
    drop((reader, peer));
}

#[test]
#[ignore = "needs network namespaces: cargo xtask test"]
fn an_engine_sleeps_at_once_where_nothing_is_to_be_done() {
    let Ok(namespace) = crate::sys::netns::NetNs::create() else {
        println!("skipped: no network namespace may be made");
        return;
    };
    let tun = namespace.run(|| Tun::create("phone0", 0)).unwrap().unwrap();
    let mut worker = forwarder(tun, LAST_WORDS, None, Clock::new(), Box::new(|_| ())).unwrap();
    assert!(Running::new(&mut worker, None, LAST_WORDS).ears().lookout.is_none(), "it would poll for a moment");
}
