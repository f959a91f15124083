//! Sessions over loopback and over streams in memory.

use futures_core::Stream;
use futures_sink::Sink;
use headstart_core::realtime::frame::Frame;
use headstart_core::realtime::{Hello, LaneId, SessionId};
use headstart_realtime::{Config, Kind, Lane, Listener, Session};
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Generous: nothing here is about speed.
const PATIENCE: Duration = Duration::from_secs(60);

async fn patient<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, what).await.expect("it takes far too long")
}

fn config(technique: &str) -> Config {
    Config { technique: technique.into(), ..Config::default() }
}

async fn pair(technique: &str) -> (Session, Session, Listener) {
    let listener = Listener::bind("127.0.0.1:0").await.unwrap();
    let near = Session::connect(listener.address().unwrap(), config(technique)).await.unwrap();
    let far = patient(listener.accept()).await.unwrap();
    assert!(near.tcp_options().is_some_and(|options| options.no_delay) && far.tcp_options().is_none());
    (near, far, listener)
}

#[tokio::test]
async fn messages_of_every_kind_arrive_both_ways_with_every_technique() {
    for technique in ["plain", "reduction-50", "trigger", "echo", "hedge", "auto", "reduction-50+trigger+echo"] {
        let (near, far, _listener) = pair(technique).await;
        for (from, to) in [(&near, &far), (&far, &near)] {
            for n in 0..50u8 {
                from.lane(0, Kind::Event).send(&[n]).await.unwrap();
                from.lane(1, Kind::Ordered).send(&[n]).await.unwrap();
            }
            from.lane(2, Kind::Latest).send_value(7, b"last").await.unwrap();
            let (mut events, mut ordered, mut last) = (Vec::new(), Vec::new(), false);
            while events.len() + ordered.len() < 100 || !last {
                let message = patient(to.receive()).await.unwrap();
                match message.lane {
                    0 => events.push(message.bytes[0]),
                    1 => ordered.push(message.bytes[0]),
                    _ => last = message.bytes == b"last" && message.key == 7,
                }
            }
            events.sort_unstable();
            assert!(events.into_iter().eq(0..50) && ordered.into_iter().eq(0..50), "{technique}");
        }
    }
}

#[tokio::test]
async fn hedging_opens_its_connections_once_the_peer_is_known_to_be_ours() {
    let (near, far, _listener) = pair("hedge").await;
    patient(async {
        while near.connections() < 4 || far.connections() < 4 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn the_end_of_one_side_is_the_end_of_the_other() {
    let (near, far, _listener) = pair("auto").await;
    near.lane(0, Kind::Event).send(b"last words").await.unwrap();
    assert!(patient(near.close()).await);
    assert_eq!(patient(far.receive()).await.unwrap().bytes, b"last words");
    assert_eq!(patient(far.receive()).await, None);
}

#[tokio::test]
async fn two_that_first_send_all_and_then_receive_all_do_not_wait_for_each_other() {
    const MESSAGES: usize = 3_000;
    let (near, far, _listener) = pair("auto").await;
    let play = async |session: &Session| {
        for _ in 0..MESSAGES {
            session.lane(0, Kind::Ordered).send(&[7; 300]).await.unwrap();
        }
        for _ in 0..MESSAGES {
            session.receive().await.unwrap();
        }
    };
    patient(async { tokio::join!(play(&near), play(&far)) }).await;
}

#[tokio::test]
async fn who_does_not_speak_the_protocol_is_dropped_and_harms_nobody() {
    let listener = Listener::bind("127.0.0.1:0").await.unwrap();
    let mut stranger = TcpStream::connect(listener.address().unwrap()).await.unwrap();
    stranger.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
    let mut rest = Vec::new();
    // Closed, or reset because nobody read what was said.
    let _ = patient(stranger.read_to_end(&mut rest)).await;
    assert!(rest.is_empty());
    let near = Session::connect(listener.address().unwrap(), Config::default()).await.unwrap();
    near.lane(0, Kind::Event).send(b"x").await.unwrap();
    let far = patient(listener.accept()).await.unwrap();
    assert_eq!(patient(far.receive()).await.unwrap().bytes, b"x");
}

#[tokio::test]
async fn a_peer_that_is_not_ours_ends_the_session_with_a_reason() {
    let socket = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let near = Session::connect(socket.local_addr().unwrap(), Config::default()).await.unwrap();
    let (mut stream, _) = socket.accept().await.unwrap();
    stream.write_all(b"SSH-2.0-OpenSSH_9.9\r\n").await.unwrap();
    assert_eq!(patient(near.receive()).await, None);
    let error = near.lane(0, Kind::Event).send(b"x").await.unwrap_err().to_string();
    assert!(error.contains("over"), "{error}");
}

/// Connections in memory that a test can cut, all at once.
struct Cuttable {
    listener: Arc<Listener>,
    tasks: Mutex<Vec<tokio::task::JoinHandle<()>>>,
    opened: AtomicU32,
}

impl Cuttable {
    fn dial(&self) -> tokio::io::DuplexStream {
        self.opened.fetch_add(1, Ordering::Relaxed);
        let (near, mut a) = tokio::io::duplex(4096);
        let (mut b, far) = tokio::io::duplex(4096);
        self.listener.add(far);
        let task = tokio::spawn(async move {
            let _ = tokio::io::copy_bidirectional(&mut a, &mut b).await;
        });
        self.tasks.lock().unwrap().push(task);
        near
    }

    fn cut(&self) {
        self.tasks.lock().unwrap().drain(..).for_each(|task| task.abort());
    }
}

#[tokio::test]
async fn no_event_is_lost_or_doubled_when_connections_are_cut_again_and_again() {
    let door = Arc::new(Listener::unbound());
    let cuttable =
        Arc::new(Cuttable { listener: Arc::clone(&door), tasks: Mutex::default(), opened: AtomicU32::new(0) });
    let dialled = Arc::clone(&cuttable);
    let near = Session::connect_over(
        move || {
            let stream = dialled.dial();
            async move { Ok(stream) }
        },
        config("auto"),
    )
    .await
    .unwrap();
    near.lane(0, Kind::Event).send(&0u32.to_be_bytes()).await.unwrap();
    let sending = {
        let (near, cuttable) = (near.clone(), Arc::clone(&cuttable));
        tokio::spawn(async move {
            for n in 1..1000u32 {
                near.lane(0, Kind::Event).send(&n.to_be_bytes()).await.unwrap();
                if n % 100 == 0 {
                    cuttable.cut();
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            }
        })
    };
    let far = patient(door.accept()).await.unwrap();
    let mut seen = vec![0u8; 1000];
    for _ in 0..1000 {
        let message = patient(far.receive()).await.unwrap();
        seen[u32::from_be_bytes(message.bytes.try_into().unwrap()) as usize] += 1;
    }
    patient(sending).await.unwrap();
    assert!(seen.iter().all(|times| *times == 1));
    assert!(cuttable.opened.load(Ordering::Relaxed) > 4);
}

#[tokio::test]
async fn a_connection_that_somebody_replays_is_dropped_and_the_session_goes_on() {
    let listener = Listener::bind("127.0.0.1:0").await.unwrap();
    let mut opening = Vec::new();
    let hello =
        Hello { session: SessionId([1; 16]), connection: 0, interval_micros: 0, technique: "plain", goes_on: false };
    Frame::Hello(hello).encode(&mut opening);
    let message = |seq: u64, out: &mut Vec<u8>| {
        Frame::Message { lane: LaneId(0), kind: Kind::Event, seq, key: 0, payload: &[seq as u8] }.encode(out);
    };
    message(0, &mut opening);
    let mut first = TcpStream::connect(listener.address().unwrap()).await.unwrap();
    first.write_all(&opening).await.unwrap();
    let far = patient(listener.accept()).await.unwrap();
    assert_eq!(patient(far.receive()).await.unwrap().seq, 0);
    let mut replayed = TcpStream::connect(listener.address().unwrap()).await.unwrap();
    replayed.write_all(&opening).await.unwrap();
    // Closed, or reset; nothing is said to it.
    let mut said = Vec::new();
    let _ = patient(replayed.read_to_end(&mut said)).await;
    assert!(said.is_empty());
    let mut next = Vec::new();
    message(1, &mut next);
    first.write_all(&next).await.unwrap();
    assert_eq!(patient(far.receive()).await.unwrap().seq, 1);
    assert_eq!(far.connections(), 1);
}

#[tokio::test]
async fn a_frame_that_is_too_long_or_of_no_lane_ends_its_connection_and_no_other_session() {
    let (near, far, listener) = pair("plain").await;
    for bad in [[4u8 << 2 | 2, 0, 0xff, 0xff, 0x7f], [0xff, 0xff, 0x03, 0, 0]] {
        let mut opening = Vec::new();
        let hello = Hello {
            session: SessionId([bad[0]; 16]),
            connection: 0,
            interval_micros: 0,
            technique: "plain",
            goes_on: false,
        };
        Frame::Hello(hello).encode(&mut opening);
        opening.extend_from_slice(&bad);
        let mut stranger = TcpStream::connect(listener.address().unwrap()).await.unwrap();
        stranger.write_all(&opening).await.unwrap();
        let _session = patient(listener.accept()).await.unwrap();
        let _ = patient(stranger.read_to_end(&mut Vec::new())).await;
    }
    near.lane(0, Kind::Event).send(b"unharmed").await.unwrap();
    assert_eq!(patient(far.receive()).await.unwrap().bytes, b"unharmed");
}

#[tokio::test]
async fn sessions_that_wait_end_with_the_listener() {
    let listener = Listener::bind("127.0.0.1:0").await.unwrap();
    let near = Session::connect(listener.address().unwrap(), Config::default()).await.unwrap();
    assert!(patient(near.peer_is_ours()).await);
    drop(listener);
    assert_eq!(patient(near.receive()).await, None);
}

#[tokio::test]
async fn who_is_not_admitted_is_closed_at_once() {
    let listener = Listener::bind_for("127.0.0.1:0", |_| false).await.unwrap();
    let near = Session::connect(listener.address().unwrap(), Config::default()).await;
    if let Ok(near) = near {
        let mut stranger = TcpStream::connect(listener.address().unwrap()).await.unwrap();
        let (mut greeting, mut rest) = (Vec::new(), Vec::new());
        let session = SessionId([1; 16]);
        Frame::Hello(Hello { session, connection: 0, interval_micros: 0, technique: "plain", goes_on: false })
            .encode(&mut greeting);
        // It may be closed by then.
        let _ = stranger.write_all(&greeting).await;
        let _ = tokio::time::timeout(Duration::from_millis(500), stranger.read_to_end(&mut rest)).await;
        assert!(rest.is_empty(), "nothing is said to it");
        assert_eq!(near.stats().received, 0);
    }
}

#[tokio::test]
async fn a_peer_that_accepts_and_closes_without_a_word_is_not_asked_ever_faster() {
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = silent.local_addr().unwrap();
    let near = Session::connect(at, config("auto")).await;
    let mut came = 0;
    // A slow machine brings fewer.
    let _ = tokio::time::timeout(Duration::from_secs(2), async {
        loop {
            drop(silent.accept().await);
            came += 1;
        }
    })
    .await;
    assert!(came < 40, "{came} connections in two seconds");
    drop(near);
}

#[tokio::test]
async fn a_lane_is_a_sink_that_has_room_and_the_receiving_half_is_a_stream() {
    let (near, far, _listener) = pair("plain").await;
    let (sender, _) = near.split();
    let (mut lane, mut values) = (sender.lane(0, Kind::Event), sender.lane(1, Kind::Latest));
    let ready = |lane: &mut Lane| Pin::new(lane).poll_ready(&mut Context::from_waker(Waker::noop()));
    let mut sent = 0u32;
    while let Poll::Ready(result) = ready(&mut lane) {
        result.unwrap();
        let bytes = [&sent.to_be_bytes()[..], &[0; 1000]].concat();
        Pin::new(&mut lane).start_send(bytes).unwrap();
        sent += 1;
    }
    assert!(sent > 100, "{sent}");
    assert!(ready(&mut values).is_ready(), "a value takes the place of another");
    // It becomes ready as the other side takes something.
    let waiting = tokio::spawn(async move {
        poll_fn(|cx| Pin::new(&mut lane).poll_ready(cx)).await.unwrap();
        lane
    });
    let (_, mut receiver) = far.split();
    for n in 0..sent {
        let message = patient(poll_fn(|cx| Pin::new(&mut receiver).poll_next(cx))).await.unwrap();
        assert_eq!(message.bytes[..4], n.to_be_bytes());
    }
    let lane = patient(waiting).await.unwrap();
    patient(lane.send(b"last")).await.unwrap();
    assert_eq!(patient(receiver.receive()).await.unwrap().bytes, b"last");
    drop((sender, lane, values));
    assert_eq!(patient(receiver.receive()).await, None);
}

#[test]
fn the_blocking_handles_do_the_same() {
    use headstart_realtime::blocking;
    let listener = blocking::Listener::bind("127.0.0.1:0").unwrap();
    let near = blocking::Session::connect(&listener.address().unwrap().to_string(), Config::default()).unwrap();
    near.send(0, Kind::Event, 0, b"hello").unwrap();
    let far = listener.accept().unwrap();
    assert_eq!(far.receive_within(PATIENCE).unwrap().bytes, b"hello");
    assert!(near.close());
    assert_eq!(far.receive(), None);
}
