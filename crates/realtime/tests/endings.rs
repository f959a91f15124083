//! How sessions end: no message is lost in silence, and nothing waits for ever.

use headstart_core::realtime::frame::Frame;
use headstart_core::realtime::{FrameError, Hello, SessionId, WINDOW};
use headstart_io::clock::Clock;
use headstart_realtime::{Config, Ending, Kind, Listener, Message, SendError, Session, SessionError, Why, blocking};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// Generous: nothing here is about speed.
const PATIENCE: Duration = Duration::from_secs(60);
/// For a session that is to give up: long enough for whatever is alive.
const SHORT: Duration = Duration::from_secs(2);

async fn patient<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, what).await.expect("it takes far too long")
}

/// A program that takes sessions and hands out all that comes, in a runtime of its own: killed, it has no time for a word.
struct Program {
    address: SocketAddr,
    got: UnboundedReceiver<Message>,
    runtime: Runtime,
}

impl Program {
    fn start(at: &str) -> Self {
        Self::begin(at, true)
    }

    /// One that accepts sessions and takes nothing.
    fn start_idle(at: &str) -> Self {
        Self::begin(at, false)
    }

    fn begin(at: &str, takes: bool) -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let (bound, address) = mpsc::channel();
        let (sent, got) = unbounded_channel();
        let at = at.to_owned();
        runtime.spawn(async move {
            let listener = Listener::bind(at).await.unwrap();
            bound.send(listener.address().unwrap()).unwrap();
            while let Some(session) = listener.accept().await {
                let sent = sent.clone();
                tokio::spawn(async move {
                    if !takes {
                        std::future::pending::<()>().await;
                    }
                    while let Some(message) = session.receive().await {
                        sent.send(message).unwrap();
                    }
                });
            }
        });
        Self { address: address.recv().unwrap(), got, runtime }
    }

    /// Whatever its threads were at, it is gone, and its port is free.
    fn kill(self) -> SocketAddr {
        std::thread::spawn(move || self.runtime.shutdown_timeout(PATIENCE)).join().unwrap();
        self.address
    }
}

fn impatient() -> Config {
    Config { patience: SHORT, ..Config::default() }
}

/// Waits until the session is over for sending.
async fn ended(session: &Session) -> Ending {
    patient(async {
        loop {
            if let Some(ending) = session.ending() {
                return ending;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await
}

#[tokio::test]
async fn patience_can_be_changed_once_the_peer_was_met() {
    let program = Program::start("127.0.0.1:0");
    let near = Session::connect(program.address, Config { patience: PATIENCE, ..Config::default() }).await.unwrap();
    near.lane(0, Kind::Event).send(b"x").await.unwrap();
    assert!(patient(near.delivered()).await);
    program.kill();
    // It waits already, and would for longer than this test.
    near.set_patience(SHORT);
    assert_eq!((ended(&near).await.why, near.patience()), (Why::Lost(SHORT), SHORT));
}

#[tokio::test]
async fn a_program_that_was_restarted_begins_no_session_in_its_middle_and_the_other_side_is_told() {
    for kind in [Kind::Ordered, Kind::Event] {
        let mut program = Program::start("127.0.0.1:0");
        let near = Session::connect(program.address, Config::default()).await.unwrap();
        let lane = near.lane(0, kind);
        for n in 0..50u32 {
            patient(lane.send(&n.to_be_bytes())).await.unwrap();
        }
        assert!(patient(near.delivered()).await);
        for _ in 0..50 {
            patient(program.got.recv()).await.unwrap();
        }
        let mut again = Program::start(&program.kill().to_string());
        let mut accepted = 50;
        let ending = loop {
            match patient(lane.send(&[0; 4])).await {
                Ok(_) => accepted += 1,
                Err(SessionError::Over(ending)) => break ending,
                Err(error) => panic!("{error}"),
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        };
        // Of each that was taken after the death nothing is known, and that is said.
        assert_eq!(ending, Ending { why: Why::Gone, unconfirmed: accepted - 50 }, "{kind:?}");
        assert_eq!(patient(near.receive()).await, None);
        assert!(!patient(near.close()).await, "{kind:?}: not everything has arrived");
        // A new session is another matter.
        let anew = Session::connect(again.address, Config::default()).await.unwrap();
        anew.lane(0, kind).send(b"first").await.unwrap();
        assert_eq!(patient(again.got.recv()).await.unwrap().bytes, b"first", "{kind:?}: nothing of the old one");
        again.kill();
    }
}

#[tokio::test]
async fn a_peer_that_does_not_come_back_is_given_up_and_what_waits_for_room_is_told() {
    let program = Program::start("127.0.0.1:0");
    let near = Session::connect(program.address, impatient()).await.unwrap();
    assert!(patient(near.peer_is_ours()).await);
    let lane = near.lane(0, Kind::Ordered);
    program.kill();
    let ending = patient(async {
        loop {
            if let Err(error) = lane.send(b"into the void").await {
                return error;
            }
        }
    })
    .await;
    let SessionError::Over(ending) = ending else { panic!("{ending}") };
    assert_eq!(ending.why, Why::Lost(SHORT));
    assert_eq!(ending.unconfirmed, WINDOW);
    let causes = near.wakeups();
    assert!(causes.iter().any(|(why, _)| why == "the peer answers on no connection"), "{causes:?}");
    let causes = near.wakeups();
    assert!(causes.iter().any(|(why, _)| why == "the peer answers on no connection"), "{causes:?}");
    assert!(!patient(near.delivered()).await);
}

#[tokio::test]
async fn the_side_that_accepted_gives_up_as_well_and_the_other_hears_so_when_it_comes_back() {
    let listener = Listener::bind("127.0.0.1:0").await.unwrap();
    listener.set_patience(SHORT);
    let to = listener.address().unwrap();
    // A way that can be cut and opened again.
    let (open, opened) = tokio::sync::watch::channel(true);
    let dial = move || {
        let mut opened = opened.clone();
        async move {
            patient(opened.wait_for(|open| *open)).await.unwrap();
            let mut far = TcpStream::connect(to).await?;
            let (near, mut here) = tokio::io::duplex(4096);
            tokio::spawn(async move {
                tokio::select! {
                    _ = tokio::io::copy_bidirectional(&mut here, &mut far) => {}
                    _ = opened.wait_for(|open| !*open) => {}
                }
            });
            Ok(near)
        }
    };
    let config = Config { patience: PATIENCE, ..Config::default() };
    let near = Session::connect_over(dial, config).await.unwrap();
    near.lane(0, Kind::Event).send(b"x").await.unwrap();
    let far = patient(listener.accept()).await.unwrap();
    assert_eq!(patient(far.receive()).await.unwrap().bytes, b"x");
    assert!(patient(near.delivered()).await);
    open.send_replace(false);
    assert_eq!(patient(far.receive()).await, None);
    assert_eq!(far.ending().unwrap().why, Why::Lost(SHORT));
    open.send_replace(true);
    assert_eq!(ended(&near).await.why, Why::Gone);
}

/// The least that a silence means anything.
const SILENCE: Duration = Duration::from_secs(3);

#[tokio::test]
async fn a_peer_that_stands_still_is_given_up_though_its_kernel_keeps_the_connections() {
    let program = Program::start("127.0.0.1:0");
    for over_tcp in [true, false] {
        let to = program.address;
        let near = if over_tcp {
            Session::connect(to, Config { patience: SILENCE, ..Config::default() }).await.unwrap()
        } else {
            Session::connect_over(move || TcpStream::connect(to), Config { patience: SILENCE, ..Config::default() })
                .await
                .unwrap()
        };
        assert!(patient(near.peer_is_ours()).await);
        // Its one thread does nothing else until it is let go.
        let (go_on, held) = mpsc::channel::<()>();
        let (stands, still) = mpsc::channel();
        program.runtime.spawn(async move {
            stands.send(()).unwrap();
            held.recv().ok();
        });
        still.recv_timeout(PATIENCE).unwrap();
        near.lane(0, Kind::Ordered).send(b"x").await.unwrap();
        assert_eq!(ended(&near).await, Ending { why: Why::Lost(SILENCE), unconfirmed: 1 }, "over TCP: {over_tcp}");
        let causes = near.wakeups();
        assert!(causes.iter().any(|(why, _)| why == "the peer does not answer"), "{causes:?}");
        drop(go_on);
    }
    program.kill();
}

#[tokio::test]
async fn a_program_that_takes_its_messages_late_is_not_given_up_nor_is_one_that_has_not_accepted() {
    let listener = Listener::bind("127.0.0.1:0").await.unwrap();
    let config = Config { patience: SILENCE, ..Config::default() };
    let near = Session::connect(listener.address().unwrap(), config).await.unwrap();
    let lane = near.lane(0, Kind::Ordered);
    let message = [7; 4096];
    let mut sent = 0u64;
    // Until its inbox is full, and the lane.
    while tokio::time::timeout(Duration::from_millis(500), lane.send(&message)).await.is_ok_and(|sent| sent.is_ok()) {
        sent += 1;
    }
    assert!(near.ending().is_none());
    tokio::time::sleep(SILENCE * 2).await;
    assert_eq!(near.ending(), None, "nobody has accepted it");
    let far = patient(listener.accept()).await.unwrap();
    tokio::time::sleep(SILENCE * 2).await;
    assert_eq!(near.ending(), None, "its program takes nothing");
    for n in 0..sent {
        assert_eq!(patient(far.receive()).await.unwrap().seq, n);
    }
    assert!(patient(near.close()).await);
}

#[tokio::test]
async fn two_that_take_nothing_of_each_other_for_long_are_both_kept() {
    const MESSAGES: u64 = 200;
    let listener = Listener::bind("127.0.0.1:0").await.unwrap();
    listener.set_patience(SILENCE);
    let config = Config { patience: SILENCE, ..Config::default() };
    let near = Session::connect(listener.address().unwrap(), config).await.unwrap();
    near.lane(1, Kind::Event).send(b"x").await.unwrap();
    let far = patient(listener.accept()).await.unwrap();
    assert_eq!(patient(far.receive()).await.unwrap().bytes, b"x");
    // Neither waits to send, and neither inbox has room for all.
    for session in [&near, &far] {
        for _ in 0..MESSAGES {
            session.lane(0, Kind::Ordered).try_send(0, &[7; 4096]).unwrap();
        }
    }
    tokio::time::sleep(SILENCE * 3).await;
    for session in [&near, &far] {
        assert!(session.unconfirmed() > 0, "nothing is owed");
        assert_eq!(session.ending(), None);
    }
    for session in [&far, &near] {
        for n in 0..MESSAGES {
            assert_eq!(patient(session.receive()).await.unwrap().seq, n);
        }
    }
}

#[tokio::test]
async fn a_peer_that_says_nothing_is_none() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let near = Session::connect(silent.local_addr().unwrap(), impatient()).await.unwrap();
    near.lane(0, Kind::Event).send(b"x").await.unwrap();
    assert!(!patient(near.peer_is_ours()).await);
    assert_eq!(near.ending(), Some(Ending { why: Why::Silent(SHORT), unconfirmed: 1 }));
    assert_eq!(patient(near.receive()).await, None);
}

#[tokio::test]
async fn what_sends_back_what_it_is_sent_is_none_and_no_message_comes_of_it() {
    let echo = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = echo.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = echo.accept().await {
            tokio::spawn(async move {
                let (mut from, mut to) = stream.split();
                let _ = tokio::io::copy(&mut from, &mut to).await;
            });
        }
    });
    let near = Session::connect(at, Config::default()).await.unwrap();
    near.lane(0, Kind::Event).send(b"mine").await.unwrap();
    assert!(!patient(near.peer_is_ours()).await);
    assert_eq!(patient(near.receive()).await, None);
    assert_eq!(ended(&near).await.why, Why::Stranger(FrameError::Echoed));
    let refused = tokio::task::spawn_blocking(move || blocking::Session::connect(&at.to_string(), Config::default()));
    let error = patient(refused).await.unwrap().unwrap_err().to_string();
    assert!(error.contains("echo server"), "{error}");
}

/// What answered another connection, of this session too, answers this one with words that are not for it.
#[tokio::test]
async fn an_answer_to_another_connection_is_none() {
    let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let near = Session::connect(socket.local_addr().unwrap(), Config::default()).await.unwrap();
    let (mut stream, _) = patient(socket.accept()).await.unwrap();
    let mut bytes = [0; 512];
    let n = patient(stream.read(&mut bytes)).await.unwrap();
    let Ok(Some((Frame::Hello(hello), _))) = Frame::decode(&bytes[..n]) else { panic!("no greeting") };
    let mut answer = Vec::new();
    let proof = headstart_core::realtime::frame::Proof::welcome(hello.session, hello.connection + 1);
    Frame::Welcome(proof).encode(&mut answer);
    stream.write_all(&answer).await.unwrap();
    assert!(!patient(near.peer_is_ours()).await);
}

#[tokio::test]
async fn each_side_names_the_version_of_the_other() {
    // A listener of version 1 answers with nothing in it.
    let old = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let near = Session::connect(old.local_addr().unwrap(), Config::default()).await.unwrap();
    let (mut stream, _) = patient(old.accept()).await.unwrap();
    stream.write_all(&[8, 0, 0]).await.unwrap();
    assert_eq!(ended(&near).await.why, Why::Stranger(FrameError::Version(1)));
    // One of version 1 that connects hears which version this is, in a frame that it reads so far.
    let listener = Listener::bind("127.0.0.1:0").await.unwrap();
    let mut bytes = Vec::new();
    let hello =
        Hello { session: SessionId([7; 16]), connection: 0, interval_micros: 0, technique: "auto", goes_on: false };
    Frame::Hello(hello).encode(&mut bytes);
    bytes[3] = 1;
    let mut stream = TcpStream::connect(listener.address().unwrap()).await.unwrap();
    stream.write_all(&bytes).await.unwrap();
    stream.write_all(b"and what it sends at once").await.unwrap();
    let mut answer = [0; 4];
    patient(stream.read_exact(&mut answer)).await.unwrap();
    // Control frame 1, number 0, its length, its version.
    assert_eq!((answer[0], answer[1], answer[3]), (4, 0, headstart_core::realtime::frame::VERSION));
}

#[tokio::test]
async fn a_peer_that_leaves_says_how_much_its_program_did_not_take() {
    let listener = Listener::bind("127.0.0.1:0").await.unwrap();
    let near = Session::connect(listener.address().unwrap(), Config::default()).await.unwrap();
    let lane = near.lane(0, Kind::Ordered);
    for n in 0..5u8 {
        lane.send(&[n]).await.unwrap();
    }
    let far = patient(listener.accept()).await.unwrap();
    assert_eq!(patient(far.receive()).await.unwrap().bytes, [0]);
    assert!(patient(near.delivered()).await);
    drop(far);
    assert_eq!(ended(&near).await, Ending { why: Why::Left { untaken: 4 }, unconfirmed: 0 });
    assert!(!patient(near.close()).await, "four were thrown away");
}

/// Messages that the peer has confirmed and that its program did not take; then the peer is killed.
async fn confirmed_and_lost() -> Session {
    let program = Program::start_idle("127.0.0.1:0");
    let near = Session::connect(program.address, impatient()).await.unwrap();
    let lane = near.lane(0, Kind::Ordered);
    for n in 0..100u8 {
        patient(lane.send(&[n])).await.unwrap();
    }
    assert!(patient(near.delivered()).await, "it is confirmed while the peer lives");
    program.kill();
    near
}

#[tokio::test]
async fn what_a_peer_had_confirmed_when_it_died_is_not_said_to_have_arrived() {
    let near = confirmed_and_lost().await;
    assert_eq!(ended(&near).await, Ending { why: Why::Lost(SHORT), unconfirmed: 0 });
    assert!(!patient(near.delivered()).await);
    assert!(!patient(near.close()).await, "no program has taken any");
}

#[tokio::test]
async fn a_session_that_is_closed_just_after_its_peer_died_does_not_say_that_all_arrived() {
    let near = confirmed_and_lost().await;
    patient(async {
        while near.connections() > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    let other = near.clone();
    assert!(!patient(near.close()).await, "no program has taken any");
    assert!(!patient(other.close()).await, "another handle says the same");
}

#[tokio::test]
async fn a_session_on_which_nothing_was_sent_has_lost_nothing() {
    let program = Program::start("127.0.0.1:0");
    let near = Session::connect(program.address, impatient()).await.unwrap();
    assert!(patient(near.peer_is_ours()).await);
    program.kill();
    assert_eq!(ended(&near).await.why, Why::Lost(SHORT));
    assert!(patient(near.close()).await);
}

#[tokio::test]
async fn connections_that_lead_to_another_machine_are_done_without() {
    let listeners = [Listener::bind("127.0.0.1:0").await.unwrap(), Listener::bind("127.0.0.1:0").await.unwrap()];
    let ways = listeners.each_ref().map(|listener| listener.address().unwrap());
    let dialled = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let count = std::sync::Arc::clone(&dialled);
    // The first connection to one machine, all others to another.
    let dial = move || {
        let number = count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        TcpStream::connect(ways[number.min(1)])
    };
    let near = Session::connect_over(dial, Config::default()).await.unwrap();
    let far = patient(listeners[0].accept()).await.unwrap();
    let lane = near.lane(0, Kind::Ordered);
    for n in 0..200u32 {
        patient(lane.send(&n.to_be_bytes())).await.unwrap();
        assert_eq!(patient(far.receive()).await.unwrap().bytes, n.to_be_bytes());
    }
    assert!(patient(near.close()).await);
    let asked = dialled.load(std::sync::atomic::Ordering::Relaxed);
    assert!((2..=7).contains(&asked), "{asked} connections");
    assert!(tokio::time::timeout(Duration::from_millis(50), listeners[1].accept()).await.is_err(), "no other session");
}

#[test]
fn calls_that_wait_wait_no_longer_than_they_may_and_a_listener_can_be_stopped() {
    let listener = blocking::Listener::bind("127.0.0.1:0").unwrap();
    let moment = Duration::from_millis(30);
    assert!(matches!(listener.accept_within(moment), Err(SessionError::TimedOut)));
    let near = blocking::Session::connect(&listener.address().unwrap().to_string(), Config::default()).unwrap();
    assert!(near.receive_within(moment).is_none() && near.ending().is_none());
    // Nothing takes them: the lane and the inbox are full in the end.
    let message = [7; 8192];
    let error = loop {
        if let Err(error) = near.send_within(moment, (0, Kind::Event, 0), &message) {
            break error;
        }
    };
    assert!(matches!(error, SessionError::TimedOut), "{error}");
    let error = near.try_send(0, Kind::Event, 0, &message).unwrap_err();
    assert!(matches!(error, SessionError::Send(SendError::Full(0))), "{error}");
    assert!(!near.delivered_within(moment) && near.unconfirmed() >= WINDOW);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            // The one that is there, and then none.
            let first = listener.accept().is_some();
            (first, listener.accept().is_none())
        });
        listener.stop();
        let (_, none) = waiting.join().unwrap();
        assert!(none);
    });
}

/// A call of the program that connects and does not come back until it is let go.
fn hangs(let_go: &Mutex<mpsc::Receiver<()>>, came_back: &AtomicBool) -> std::io::Result<OwnedFd> {
    let _ = let_go.lock().unwrap().recv_timeout(PATIENCE);
    came_back.store(true, Ordering::SeqCst);
    Err(std::io::ErrorKind::NotConnected.into())
}

#[test]
fn a_call_of_the_program_s_that_does_not_come_back_holds_up_neither_connecting_nor_closing() {
    let (come_back, let_go) = mpsc::channel();
    let (let_go, came_back) = (Mutex::new(let_go), Arc::new(AtomicBool::new(false)));
    let told = Arc::clone(&came_back);
    let short = Config { patience: Duration::from_millis(100), ..Config::default() };
    let error = blocking::Session::connect_over(move || hangs(&let_go, &told), short).unwrap_err();
    assert!(matches!(error, SessionError::TimedOut | SessionError::Connect(_)), "{error}");
    assert!(!came_back.load(Ordering::SeqCst), "it waited for the call");
    come_back.send(()).unwrap();

    let listener = blocking::Listener::bind("127.0.0.1:0").unwrap();
    let to = listener.address().unwrap();
    let (come_back, let_go) = mpsc::channel();
    let (let_go, came_back, calls) =
        (Mutex::new(let_go), Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let (told, count) = (Arc::clone(&came_back), Arc::clone(&calls));
    let dial = move || match count.fetch_add(1, Ordering::SeqCst) {
        0 => std::net::TcpStream::connect(to).map(OwnedFd::from),
        _ => hangs(&let_go, &told),
    };
    let near = blocking::Session::connect_over(dial, Config::default()).unwrap();
    near.send(0, Kind::Event, 0, b"x").unwrap();
    let _far = listener.accept().unwrap();
    // It wants more connections than one.
    let waiting = || calls.load(Ordering::SeqCst) < 2;
    for _ in 0..PATIENCE.as_millis() / 5 {
        if !waiting() {
            break;
        }
        Clock::new().sleep(Duration::from_millis(5));
    }
    assert!(!waiting() && near.close());
    assert!(!came_back.load(Ordering::SeqCst), "it waited for the call");
    come_back.send(()).unwrap();
    while !came_back.load(Ordering::SeqCst) {
        Clock::new().sleep(Duration::from_millis(5));
    }
    assert_eq!(calls.load(Ordering::SeqCst), 2, "none begins after");
}
