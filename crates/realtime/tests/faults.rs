//! Connections that come in another order, that are open and carry nothing, and a program that reads nothing.

use headstart_core::realtime::frame::Frame;
use headstart_core::realtime::{Hello, LaneId, SessionId, WINDOW};
use headstart_realtime::{Config, Kind, Listener, SendError, Session, SessionError};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::watch;

/// Generous: nothing here is about speed.
const PATIENCE: Duration = Duration::from_secs(60);

async fn patient<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, what).await.expect("it takes far too long")
}

/// The next `count` messages of a lane of numbers, how often each number came.
async fn numbers(far: &Session, count: u32) -> BTreeMap<u32, u32> {
    let mut seen = BTreeMap::new();
    for _ in 0..count {
        let message = patient(far.receive()).await.unwrap();
        *seen.entry(u32::from_be_bytes(message.bytes[..4].try_into().unwrap())).or_default() += 1;
    }
    seen
}

fn each_once(count: u32) -> BTreeMap<u32, u32> {
    (0..count).map(|n| (n, 1)).collect()
}

/// The fourth connection of a session may be the first to be heard of, and what it brings is ahead of the others.
#[tokio::test]
async fn connections_of_a_hedge_that_come_in_another_order_are_one_session_and_each_message_comes_once() {
    let listener = Listener::bind("127.0.0.1:0").await.unwrap();
    let mut streams = Vec::new();
    for (connection, messages) in [(3u32, &[2u32, 4][..]), (0, &[0, 1, 2]), (5, &[4, 3]), (1, &[])] {
        let mut bytes = Vec::new();
        Frame::Hello(Hello {
            session: SessionId([7; 16]),
            connection,
            interval_micros: 0,
            technique: "hedge",
            goes_on: false,
        })
        .encode(&mut bytes);
        for n in messages {
            let payload = &n.to_be_bytes();
            Frame::Message { lane: LaneId(0), kind: Kind::Event, seq: u64::from(*n), key: 0, payload }
                .encode(&mut bytes);
        }
        let mut stream = TcpStream::connect(listener.address().unwrap()).await.unwrap();
        stream.write_all(&bytes).await.unwrap();
        streams.push(stream);
    }
    let far = patient(listener.accept()).await.unwrap();
    assert_eq!(numbers(&far, 5).await, each_once(5));
    patient(async {
        while far.connections() < 4 || far.stats().copies_received < 2 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    assert_eq!((far.stats().received, far.stats().copies_received), (5, 2));
    // Nobody else has come: those were one session.
    assert!(tokio::time::timeout(Duration::from_millis(50), listener.accept()).await.is_err());
}

/// Connections in memory, which a test can have carry nothing more, or cut.
struct Network {
    listener: Listener,
    deaf: watch::Sender<usize>,
    tasks: Mutex<Vec<tokio::task::JoinHandle<()>>>,
}

impl Network {
    fn new() -> Arc<Self> {
        let (deaf, _) = watch::channel(0);
        Arc::new(Self { listener: Listener::unbound(), deaf, tasks: Mutex::default() })
    }

    fn dial(&self) -> tokio::io::DuplexStream {
        let (near, mut a) = tokio::io::duplex(4096);
        let (mut b, far) = tokio::io::duplex(4096);
        self.listener.add(far);
        let mut deaf = self.deaf.subscribe();
        let mut tasks = self.tasks.lock().unwrap();
        let number = tasks.len();
        tasks.push(tokio::spawn(async move {
            tokio::select! {
                _ = tokio::io::copy_bidirectional(&mut a, &mut b) => {}
                // Open at both ends, and neither hears of the other.
                () = async { drop(deaf.wait_for(|deaf| number < *deaf).await) } => std::future::pending().await,
            }
        }));
        near
    }

    /// From now on the first `count` that were ever opened carry nothing.
    fn deafen(&self, count: usize) {
        self.deaf.send_replace(count);
    }

    /// Both ends learn that all of them are gone.
    fn cut(&self) {
        self.tasks.lock().unwrap().drain(..).for_each(|task| task.abort());
        self.deafen(0);
    }

    async fn session(self: &Arc<Self>) -> (Session, Session) {
        let dialled = Arc::clone(self);
        let dial = move || {
            let stream = dialled.dial();
            async move { Ok(stream) }
        };
        let near = Session::connect_over(dial, Config::default()).await.unwrap();
        near.lane(1, Kind::Event).send(b"hello").await.unwrap();
        let far = patient(self.listener.accept()).await.unwrap();
        assert_eq!(patient(far.receive()).await.unwrap().bytes, b"hello");
        patient(async {
            while near.connections() < 6 || far.connections() < 6 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await;
        (near, far)
    }
}

#[tokio::test]
async fn connections_that_are_open_at_both_ends_and_carry_nothing_cost_no_message() {
    let network = Network::new();
    let (near, far) = network.session().await;
    let events = near.lane(0, Kind::Event);
    for n in 0..300u32 {
        if n == 50 {
            // All but one.
            network.deafen(5);
        }
        patient(events.send(&n.to_be_bytes())).await.unwrap();
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(near.connections(), 6, "nobody has said that they are gone");
    // As the kernel does in the end; until then a message that was the last may wait.
    network.tasks.lock().unwrap()[..5].iter().for_each(tokio::task::JoinHandle::abort);
    assert_eq!(numbers(&far, 300).await, each_once(300));
    assert!(patient(near.delivered()).await);
}

#[tokio::test]
async fn a_peer_that_falls_silent_is_found_again_with_all_that_was_sent_meanwhile() {
    let network = Network::new();
    let (near, far) = network.session().await;
    let (events, ordered) = (near.lane(0, Kind::Event), far.lane(2, Kind::Ordered));
    network.deafen(6);
    for n in 0..100u32 {
        patient(events.send(&n.to_be_bytes())).await.unwrap();
        patient(ordered.send(&n.to_be_bytes())).await.unwrap();
    }
    // As the kernel ends them, with TCP_USER_TIMEOUT.
    network.cut();
    assert_eq!(numbers(&far, 100).await, each_once(100));
    assert_eq!(numbers(&near, 100).await, each_once(100));
    assert!(patient(near.delivered()).await && patient(far.delivered()).await);
}

#[tokio::test]
async fn a_program_that_reads_nothing_is_waited_for_by_events_and_gets_the_newest_value_alone() {
    /// Of a message, in bytes; of an inbox (`Settings::new`).
    const LONG: usize = 1000;
    const INBOX: usize = 256 << 10;
    /// What is read at once may be beyond what an inbox holds.
    const READ: usize = 64 << 10;
    const VALUES: u32 = 20_000;
    for technique in ["plain", "auto"] {
        let listener = Listener::bind("127.0.0.1:0").await.unwrap();
        let config = Config { technique: technique.into(), ..Config::default() };
        let near = Session::connect(listener.address().unwrap(), config).await.unwrap();
        let (events, values) = (near.lane(0, Kind::Event), near.lane(1, Kind::Latest));
        let (mut accepted, mut refused) = (0u32, 0);
        while refused < 50 {
            let mut bytes = vec![0; LONG];
            bytes[..4].copy_from_slice(&accepted.to_be_bytes());
            match events.try_send(0, &bytes) {
                Ok(_) => (accepted, refused) = (accepted + 1, 0),
                Err(SessionError::Send(SendError::Full(0))) => {
                    refused += 1;
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                Err(error) => panic!("{error}"),
            }
        }
        // What the other end holds, and what may be on its way: whatever the kernels hold is of that.
        let bound = (INBOX + READ) / LONG + WINDOW + 1;
        assert!((WINDOW..=bound).contains(&(accepted as usize)), "{technique}: {accepted}");
        for n in 0..VALUES {
            values.try_send(3, &n.to_be_bytes()).unwrap();
        }
        let far = patient(listener.accept()).await.unwrap();
        let (mut seen, mut taken, mut newest) = (BTreeMap::new(), 0, None);
        while seen.len() < accepted as usize || newest != Some(VALUES - 1) {
            let message = patient(far.receive()).await.unwrap();
            let number = u32::from_be_bytes(message.bytes[..4].try_into().unwrap());
            if message.lane == 0 {
                *seen.entry(number).or_insert(0u32) += 1;
            } else {
                assert!(newest < Some(number), "{technique}: {number} after {newest:?}");
                (taken, newest) = (taken + 1, Some(number));
            }
        }
        assert!(seen == each_once(accepted), "{technique}");
        assert!(taken < VALUES && near.stats().conflated > 0, "{technique}: {taken} values");
    }
}
