//! Both ends of a link, over a pair of sockets.

use super::*;
use crate::engine::message::Wrong;
use rustix::fs::fstat;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;

fn pair() -> (Link, UnixStream) {
    let (ours, app) = UnixStream::pair().unwrap();
    (Link::of(ours.into(), Clock::new()).unwrap(), app)
}

fn say(app: &mut UnixStream, body: &str) {
    app.write_all(&encode(body.as_bytes()).unwrap()).unwrap();
}

/// A frame with the descriptors of these files.
fn say_with(app: &UnixStream, body: &str, files: &[&File]) {
    let descriptors: Vec<_> = files.iter().map(|file| file.as_fd()).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    control.push(SendAncillaryMessage::ScmRights(&descriptors));
    sendmsg(app, &[IoSlice::new(&encode(body.as_bytes()).unwrap())], &mut control, SendFlags::empty()).unwrap();
}

/// The next frame that the app gets, and the inodes of the descriptors that come with it.
fn next_frame(app: &mut UnixStream) -> (serde_json::Value, Vec<u64>) {
    let mut length = [0; 4];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    recvmsg(&*app, &mut [IoSliceMut::new(&mut length)], &mut control, RecvFlags::WAITALL).unwrap();
    let of = |message| match message {
        RecvAncillaryMessage::ScmRights(list) => list.map(|fd| fstat(fd).unwrap().st_ino).collect(),
        _ => Vec::new(),
    };
    let inodes = control.drain().flat_map(of).collect();
    let mut body = vec![0; u32::from_be_bytes(length) as usize];
    app.read_exact(&mut body).unwrap();
    (serde_json::from_slice(&body).unwrap(), inodes)
}

#[test]
fn descriptors_go_with_their_own_message_even_if_others_come_with_what_is_ignored_or_wrong() {
    let (mut link, mut app) = pair();
    let files = [(); 3].map(|()| tempfile::tempfile().unwrap());
    say_with(&app, r#"{"kind": "weather", "descriptors": 1}"#, &[&files[0]]);
    say_with(&app, r#"{"kind": "export", "what": "?", "descriptors": 1}"#, &[&files[1]]);
    say(&mut app, r#"{"kind": "subscribe", "on": true}"#);
    say_with(&app, r#"{"kind": "export", "what": "lines", "descriptors": 1}"#, &[&files[2]]);
    let heard = link.receive_all().unwrap();
    let inodes = |fds: &[OwnedFd]| fds.iter().map(|fd| fstat(fd).unwrap().st_ino).collect::<Vec<_>>();
    let [Err(wrong), Ok((ToEngine::Subscribe { on: true }, none)), Ok((ToEngine::Export { .. }, one))] = &heard[..]
    else {
        panic!("{heard:?}")
    };
    assert_eq!(wrong.kind, Some("export"));
    assert!(none.is_empty());
    assert_eq!(inodes(one), [fstat(&files[2]).unwrap().st_ino]);
}

#[test]
fn a_socket_is_protected_when_the_app_says_so_and_what_it_says_meanwhile_is_heard_afterwards() {
    let (mut link, app) = pair();
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let inode = fstat(&socket).unwrap().st_ino;
    let heard = std::thread::spawn(move || {
        let mut app = app;
        for ok in [true, false] {
            let (message, inodes) = next_frame(&mut app);
            assert_eq!((&message["kind"], inodes), (&"protect".into(), vec![inode]));
            say(&mut app, r#"{"kind": "subscribe", "on": false}"#);
            say(&mut app, r#"{"kind": "protected", "question": 99, "ok": true}"#);
            say(&mut app, &format!(r#"{{"kind": "protected", "question": {}, "ok": {ok}}}"#, message["question"]));
        }
        app
    });
    assert_eq!([(); 2].map(|()| link.protect(socket.as_fd())), [Ok(()), Err(Errno::PERM)]);
    let mut rung = [0; 8];
    assert_eq!(rustix::io::read(link.bell(), &mut rung), Ok(8), "the loop is told that something has come");
    assert_eq!(link.receive_all().unwrap().len(), 2);
    drop(heard.join().unwrap());
    assert_eq!(link.protect(socket.as_fd()), Err(Errno::PIPE), "the app is no more");
    assert!(matches!(link.receive_all(), Err(LinkError::Closed)));
}

#[test]
fn an_app_that_does_not_answer_holds_a_socket_up_for_so_long_and_no_longer() {
    let (mut link, _app) = pair();
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let begun = link.clock.now();
    assert_eq!(link.protect(socket.as_fd()), Err(Errno::TIMEDOUT));
    assert!(link.clock.now().since(begun) >= PATIENCE);
}

#[test]
fn what_an_app_does_not_read_waits_and_is_bounded() {
    let (mut link, mut app) = pair();
    let long = ToApp::Error { name: Wrong::Message, of: None, what: "x".repeat(60_000) };
    let said = std::iter::repeat_with(|| link.say(&long)).take_while(Result::is_ok).count();
    assert!((MOST_WAITING / 60_100..MOST_WAITING / 30_000).contains(&said), "{said} messages");
    assert_eq!(next_frame(&mut app).0["what"].as_str().map(str::len), Some(60_000));
}

#[test]
fn what_is_no_frame_ends_the_link_after_what_came_before_it() {
    let (mut link, mut app) = pair();
    say(&mut app, r#"{"kind": "stop"}"#);
    app.write_all(&[0xff; 4]).unwrap();
    assert!(matches!(link.receive_all().as_deref(), Ok([Ok((ToEngine::Stop, _))])));
    assert!(matches!(link.receive_all(), Err(LinkError::Frame(_))));
}
