//! A relay over loopback: who may use it, what goes through it, and what its death does.

use headstart_realtime::keys::SecretKey;
use headstart_realtime::relay::{self, Answer, Client, Clients, Event, Server, ServerSettings, Tally, ports};
use headstart_realtime::{Config, Kind, Listener, Session, observe};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};

/// Generous: nothing here is about speed.
const PATIENCE: Duration = Duration::from_secs(60);

async fn patient<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, what).await.expect("it takes far too long")
}

/// Waits until it is so.
async fn until(is_so: impl Fn() -> bool) {
    patient(async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

/// A relay in a runtime of its own, which can be killed with all that it holds.
struct Killable {
    address: SocketAddr,
    tally: Arc<Tally>,
    runtime: Runtime,
}

impl Killable {
    fn start(at: &str, settings: ServerSettings) -> Self {
        Self::telling(at, settings, |_| {})
    }

    fn telling(at: &str, settings: ServerSettings, tell: impl Fn(Event) + Clone + Send + Sync + 'static) -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let at = at.to_owned();
        // Not on this thread, which may be one of another runtime.
        let (sent, server) = std::sync::mpsc::channel();
        runtime.spawn(async move {
            let server = Server::bind(at, settings).await.unwrap();
            sent.send((server.address(), server.tally())).unwrap();
            server.run(tell).await;
        });
        let (address, tally) = server.recv().unwrap();
        Self { address, tally, runtime }
    }

    fn kill(self) {
        // Only where a runtime may be waited for.
        std::thread::spawn(move || self.runtime.shutdown_timeout(PATIENCE)).join().unwrap();
    }
}

struct Keys {
    relay: SecretKey,
    client: SecretKey,
}

impl Keys {
    fn new() -> Self {
        Self { relay: SecretKey::generate().unwrap(), client: SecretKey::generate().unwrap() }
    }

    fn settings(&self, allowed: &[&str]) -> ServerSettings {
        let access = relay::Access::new(allowed.iter().map(|pattern| pattern.parse().unwrap()).collect());
        let clients = vec![self.client.public().unwrap()];
        ServerSettings { patience: PATIENCE, ..ServerSettings::new(self.relay.clone(), clients, access) }
    }

    fn client(&self, at: SocketAddr) -> Client {
        Client::new(&at.to_string(), &self.client, self.relay.public().unwrap()).unwrap()
    }
}

/// A relay with so many places, and clients of two keys.
fn with_two_clients(most: usize) -> (Killable, Client, Client) {
    let (keys, other) = (Keys::new(), SecretKey::generate().unwrap());
    let clients = vec![keys.client.public().unwrap(), other.public().unwrap()];
    let settings = ServerSettings { most, clients, ..keys.settings(&["127.0.0.1:*"]) };
    let relay = Killable::start("127.0.0.1:0", settings);
    let small = Client::new(&relay.address.to_string(), &other, keys.relay.public().unwrap()).unwrap();
    let big = keys.client(relay.address);
    (relay, big, small)
}

fn auto() -> Config {
    Config::default()
}

#[tokio::test]
async fn no_event_is_lost_or_doubled_when_the_relay_is_killed_and_started_again() {
    const EVENTS: u32 = 1000;
    let keys = Keys::new();
    let door = Listener::bind("127.0.0.1:0").await.unwrap();
    let to = door.address().unwrap().to_string();
    let mut relay = Killable::start("127.0.0.1:0", keys.settings(&["127.0.0.1:*"]));
    let near = patient(keys.client(relay.address).session(to.parse().unwrap(), auto())).await.unwrap();
    let sending = {
        let near = near.clone();
        tokio::spawn(async move {
            let events = near.lane(0, Kind::Event);
            for n in 0..EVENTS {
                events.send(&n.to_be_bytes()).await.unwrap();
                // So that some are always on their way when the relay dies.
                tokio::time::sleep(Duration::from_micros(200)).await;
            }
        })
    };
    let far = patient(door.accept()).await.unwrap();
    let mut seen = vec![0u32; EVENTS as usize];
    for count in 0..EVENTS {
        let message = patient(far.receive()).await.unwrap();
        seen[u32::from_be_bytes(message.bytes.try_into().unwrap()) as usize] += 1;
        if count % 250 == 200 {
            let at = relay.address.to_string();
            assert!(relay.tally.answered(Answer::Granted) > 0);
            relay.kill();
            relay = Killable::start(&at, keys.settings(&["127.0.0.1:*"]));
        }
    }
    patient(sending).await.unwrap();
    // What came after all had come would be a copy that was not known as one.
    assert!(patient(near.delivered()).await);
    assert!(near.close().await);
    assert_eq!(patient(far.receive()).await, None);
    assert!(seen.iter().all(|times| *times == 1));
    assert_eq!(far.stats().received, u64::from(EVENTS));
    assert!(relay.tally.answered(Answer::Granted) > 0);
    relay.kill();
}

#[tokio::test]
async fn only_listed_clients_get_only_listed_destinations_from_the_relay_that_they_meant() {
    let keys = Keys::new();
    let door = Listener::bind("127.0.0.1:0").await.unwrap();
    let allowed = door.address().unwrap().to_string();
    let relay = Killable::start("127.0.0.1:0", keys.settings(&[&allowed, "127.0.0.1:1"]));
    let ask = async |client: &Client, to: &str| {
        let error = patient(client.session(to.parse().unwrap(), auto())).await.err();
        error.map(|error| error.to_string()).unwrap_or_default()
    };
    let known = keys.client(relay.address);
    assert_eq!(ask(&known, &allowed).await, "");
    let not_listed = ask(&known, "127.0.0.1:2").await;
    assert!(not_listed.contains("not on its list"), "{not_listed}");
    let nobody_there = ask(&known, "127.0.0.1:1").await;
    assert!(nobody_there.contains("cannot be reached"), "{nobody_there}");
    let stranger = Keys { client: SecretKey::generate().unwrap(), relay: keys.relay.clone() };
    let unknown = ask(&stranger.client(relay.address), &allowed).await;
    assert!(unknown.contains("does not list this client's key"), "{unknown}");
    let impostor = Keys { relay: SecretKey::generate().unwrap(), client: keys.client.clone() };
    let another = ask(&impostor.client(relay.address), &allowed).await;
    assert!(another.contains("has another key"), "{another}");
    assert_eq!(relay.tally.answered(Answer::Granted), 1);
    assert_eq!(relay.tally.answered(Answer::Refused), 1);
    relay.kill();
    let nothing_allowed = Killable::start("127.0.0.1:0", keys.settings(&[]));
    assert!(ask(&keys.client(nothing_allowed.address), &allowed).await.contains("not on its list"));
    nothing_allowed.kill();
}

#[tokio::test]
async fn who_opens_connections_by_the_hundred_and_says_nothing_keeps_no_client_out() {
    let keys = Keys::new();
    let door = Listener::bind("127.0.0.1:0").await.unwrap();
    let to = door.address().unwrap().to_string();
    let relay = Killable::start("127.0.0.1:0", keys.settings(&["127.0.0.1:*"]));
    // More than may be undecided, each of which could stay for the patience of the relay, which is that of this test.
    let mut silent = Vec::new();
    for _ in 0..600 {
        silent.push(TcpStream::connect(relay.address).await.unwrap());
    }
    let near = patient(keys.client(relay.address).session(to.parse().unwrap(), auto())).await.unwrap();
    assert!(patient(near.peer_is_ours()).await);
    assert!(relay.tally.unknown() > 0);
    relay.kill();
}

#[tokio::test]
async fn who_says_nothing_or_something_else_is_dropped_and_told_of() {
    let keys = Keys::new();
    let mut settings = keys.settings(&[]);
    settings.patience = Duration::from_millis(50);
    let (sent, told) = std::sync::mpsc::channel();
    let relay = Killable::telling("127.0.0.1:0", settings, move |event| {
        let _ = sent.send(event);
    });
    for words in [&b""[..], b"GET / HTTP/1.1\r\n\r\n", &[22, 3, 1, 0xff, 0xff]] {
        let mut stranger = TcpStream::connect(relay.address).await.unwrap();
        stranger.write_all(words).await.unwrap();
        let mut rest = Vec::new();
        // Closed, or reset because not all was read; TLS may say why.
        let _ = patient(stranger.read_to_end(&mut rest)).await;
        let from = stranger.local_addr().unwrap();
        assert_eq!(told.recv_timeout(PATIENCE).unwrap(), Event::Unknown(from));
    }
    assert_eq!((relay.tally.unknown(), relay.tally.accepted(), relay.tally.answered(Answer::Gone)), (3, 3, 0));
    until(|| relay.tally.open() == 0).await;
    relay.kill();
}

/// Sends it all, ends its direction, and reads to the other's end.
async fn exchange(mut stream: TcpStream, sent: &[u8]) -> Vec<u8> {
    let (mut from, mut to) = stream.split();
    let mut got = Vec::new();
    let (wrote, read) = patient(async {
        tokio::join!(
            async {
                to.write_all(sent).await?;
                to.shutdown().await
            },
            from.read_to_end(&mut got)
        )
    })
    .await;
    wrote.unwrap();
    read.unwrap();
    got
}

/// A server that reverses what it gets, once it has it all.
async fn reversing() -> SocketAddr {
    let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = server.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = server.accept().await {
            tokio::spawn(async move {
                let mut got = Vec::new();
                stream.read_to_end(&mut got).await.unwrap();
                got.reverse();
                stream.write_all(&got).await.unwrap();
            });
        }
    });
    at
}

fn noise(len: u32) -> Vec<u8> {
    (0..len).map(|k| (k.wrapping_mul(k) >> 7) as u8).collect()
}

/// A port that leads through a relay to `to`.
async fn forwarded(client: Client, to: SocketAddr) -> SocketAddr {
    let port = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = port.local_addr().unwrap();
    // Longer than a test waits: what ends sooner was told that it is over.
    let config = Config { patience: PATIENCE * 2, ..auto() };
    tokio::spawn(ports::forward((port, Clients::new(64)), to.to_string().parse().unwrap(), client, config, |_| {}));
    at
}

#[tokio::test]
async fn a_program_goes_through_the_relay_by_a_port_and_by_socks_unchanged() {
    let keys = Keys::new();
    let server = reversing().await;
    let relay =
        Killable::start("127.0.0.1:0", keys.settings(&[&format!("localhost:{}", server.port()), "127.0.0.1:*"]));
    let client = keys.client(relay.address);
    let sent = noise(300_000);
    let mut expected = sent.clone();
    expected.reverse();
    let port = forwarded(client.clone(), server).await;
    assert!(exchange(TcpStream::connect(port).await.unwrap(), &sent).await == expected);

    let port = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let socks = port.local_addr().unwrap();
    tokio::spawn(ports::by_socks((port, Clients::new(64)), client, auto(), |_| {}));
    let by_name = [&[5, 1, 0, 3, 9][..], b"localhost", &server.port().to_be_bytes()].concat();
    let by_address = [&[5, 1, 0, 1, 127, 0, 0, 1][..], &server.port().to_be_bytes()].concat();
    for request in [by_name, by_address] {
        let mut stream = TcpStream::connect(socks).await.unwrap();
        stream.write_all(&[5, 1, 0]).await.unwrap();
        let mut welcome = [0; 2];
        patient(stream.read_exact(&mut welcome)).await.unwrap();
        stream.write_all(&request).await.unwrap();
        let mut reply = [0; 10];
        patient(stream.read_exact(&mut reply)).await.unwrap();
        assert_eq!((welcome, reply[1]), ([5, 0], 0));
        assert!(exchange(stream, &sent).await == expected);
    }
    // What the list does not hold, and what is not there, is refused in the protocol's own words.
    for (request, reply) in [([5, 1, 0, 1, 10, 0, 0, 1, 0, 22], 2), ([5, 1, 0, 1, 127, 0, 0, 1, 0, 1], 4)] {
        let mut stream = TcpStream::connect(socks).await.unwrap();
        stream.write_all(&[5, 1, 0]).await.unwrap();
        let mut words = [0; 12];
        patient(stream.read_exact(&mut words[..2])).await.unwrap();
        stream.write_all(&request).await.unwrap();
        patient(stream.read_exact(&mut words[2..])).await.unwrap();
        assert_eq!(words[3], reply);
    }
    relay.kill();
}

#[tokio::test]
async fn a_program_whose_stream_over_many_connections_died_with_the_relay_is_told_by_a_reset() {
    let keys = Keys::new();
    observe::start();
    let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let relay = Killable::start("127.0.0.1:0", keys.settings(&["127.0.0.1:*"]));
    let at = relay.address.to_string();
    let port = forwarded(keys.client(relay.address), server.local_addr().unwrap()).await;
    let mut program = TcpStream::connect(port).await.unwrap();
    let (mut served, _) = patient(server.accept()).await.unwrap();
    served.write_all(b"half of an answer").await.unwrap();
    let mut half = [0; 17];
    patient(program.read_exact(&mut half)).await.unwrap();
    let to = Some(server.local_addr().unwrap().to_string());
    let connections = || observe::sessions().iter().find(|session| session.peer == to).map(|found| found.connections);
    until(|| connections() >= Some(4)).await;
    relay.kill();
    let relay = Killable::start(&at, keys.settings(&["127.0.0.1:*"]));
    let mut rest = Vec::new();
    let error = patient(program.read_to_end(&mut rest)).await.unwrap_err();
    assert_eq!((error.kind(), rest.len()), (std::io::ErrorKind::ConnectionReset, 0));
    assert!(relay.tally.answered(Answer::Gone) > 0);
    relay.kill();
}

#[tokio::test]
async fn a_stream_goes_on_over_one_connection_where_the_relay_has_room_for_no_more() {
    let keys = Keys::new();
    let relay = Killable::start("127.0.0.1:0", ServerSettings { most: 1, ..keys.settings(&["127.0.0.1:*"]) });
    let program = TcpStream::connect(forwarded(keys.client(relay.address), reversing().await).await).await.unwrap();
    until(|| relay.tally.answered(Answer::Busy) >= 2).await;
    assert_eq!(exchange(program, b"abc").await, b"cba");
    relay.kill();
}

#[tokio::test]
async fn a_relay_that_dies_for_good_leaves_no_half_of_anything_that_looks_whole() {
    let keys = Keys::new();
    let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let to = server.local_addr().unwrap().to_string().parse().unwrap();
    let relay = Killable::start("127.0.0.1:0", keys.settings(&["127.0.0.1:*"]));
    let port = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = port.local_addr().unwrap();
    let config = Config { patience: Duration::from_secs(2), ..auto() };
    tokio::spawn(ports::forward((port, Clients::new(64)), to, keys.client(relay.address), config, |_| {}));
    let mut program = TcpStream::connect(at).await.unwrap();
    let (mut served, _) = patient(server.accept()).await.unwrap();
    let mut half = [0; 17];
    program.write_all(b"half of a request").await.unwrap();
    patient(served.read_exact(&mut half)).await.unwrap();
    served.write_all(b"half of an answer").await.unwrap();
    patient(program.read_exact(&mut half)).await.unwrap();
    relay.kill();
    for end in [&mut served, &mut program] {
        let error = patient(end.read_to_end(&mut Vec::new())).await.unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    }
}

#[tokio::test]
async fn a_reader_that_takes_nothing_holds_up_its_own_stream_alone() {
    let keys = Keys::new();
    let sleeper = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = reversing().await;
    let relay = Killable::start("127.0.0.1:0", keys.settings(&["127.0.0.1:*"]));
    let client = keys.client(relay.address);
    let stuck = forwarded(client.clone(), sleeper.local_addr().unwrap()).await;
    let open = forwarded(client, server).await;
    let stuffing = tokio::spawn(async move {
        let mut stream = TcpStream::connect(stuck).await.unwrap();
        let chunk = noise(64 << 10);
        // 256 MiB: more than all buffers between could ever hold.
        for _ in 0..4096 {
            if stream.write_all(&chunk).await.is_err() {
                return;
            }
        }
    });
    let (_held, _) = patient(sleeper.accept()).await.unwrap();
    let sent = noise(100_000);
    let got = exchange(TcpStream::connect(open).await.unwrap(), &sent).await;
    assert_eq!(got.len(), sent.len());
    assert!(!stuffing.is_finished());
    stuffing.abort();
    relay.kill();
}

#[tokio::test]
async fn a_program_that_reads_late_gets_all_that_a_server_has_said_which_has_gone() {
    let keys = Keys::new();
    let server = reversing().await;
    let relay = Killable::start("127.0.0.1:0", keys.settings(&["127.0.0.1:*"]));
    let open = forwarded(keys.client(relay.address), server).await;
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    // Little of it fits the kernel's buffers.
    socket.set_recv_buffer_size(4096).unwrap();
    let mut stream = socket.connect(open).await.unwrap();
    // More than the kernel takes for a reader like this, and little enough that the server has said all and gone.
    let sent = noise(1_200_000);
    patient(stream.write_all(&sent)).await.unwrap();
    stream.shutdown().await.unwrap();
    // Longer than anything lingers.
    tokio::time::sleep(Duration::from_secs(6)).await;
    let mut got = Vec::new();
    patient(stream.read_to_end(&mut got)).await.unwrap();
    assert!(got.len() == sent.len() && got.iter().eq(sent.iter().rev()), "{} of {}", got.len(), sent.len());
    relay.kill();
}

#[tokio::test]
async fn a_session_to_a_peer_that_is_not_ours_ends_with_the_reason_and_one_connection() {
    let keys = Keys::new();
    let other = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let to = other.local_addr().unwrap().to_string();
    let relay = Killable::start("127.0.0.1:0", keys.settings(&["127.0.0.1:*"]));
    let near: Session = patient(keys.client(relay.address).session(to.parse().unwrap(), auto())).await.unwrap();
    let (mut stream, _) = patient(other.accept()).await.unwrap();
    stream.write_all(b"SSH-2.0-OpenSSH_9.9\r\n").await.unwrap();
    assert!(!patient(near.peer_is_ours()).await);
    assert_eq!(patient(near.receive()).await, None);
    assert_eq!(relay.tally.answered(Answer::Granted), 1);
    relay.kill();
}

#[tokio::test]
async fn those_that_say_nothing_take_no_place_of_a_client() {
    const SILENT: u64 = 20;
    let keys = Keys::new();
    let relay = Killable::start("127.0.0.1:0", ServerSettings { most: 2, ..keys.settings(&["127.0.0.1:*"]) });
    let mut silent = Vec::new();
    for _ in 0..SILENT {
        silent.push(patient(TcpStream::connect(relay.address)).await.unwrap());
    }
    until(|| relay.tally.open() >= SILENT).await;
    let door = Listener::bind("127.0.0.1:0").await.unwrap();
    let to = door.address().unwrap().to_string();
    let client = keys.client(relay.address);
    let open = || client.session(to.parse().unwrap(), Config { technique: "plain".into(), ..auto() });
    let _clients = [patient(open()).await.unwrap(), patient(open()).await.unwrap()];
    let refused = patient(open()).await.unwrap_err().to_string();
    assert!(refused.contains("too many connections"), "{refused}");
    assert_eq!(relay.tally.answered(Answer::Busy), 1);
    relay.kill();
}

#[tokio::test]
async fn a_client_that_has_every_place_leaves_half_of_them_to_another() {
    const MOST: usize = 4;
    let (relay, big, small) = with_two_clients(MOST);
    let door = Listener::bind("127.0.0.1:0").await.unwrap();
    let to: relay::Destination = door.address().unwrap().to_string().parse().unwrap();
    let open = |client: &Client| {
        let (client, to) = (client.clone(), to.clone());
        async move { patient(client.session(to, Config { technique: "plain".into(), ..auto() })).await }
    };
    let mut of_big = Vec::new();
    for _ in 0..MOST {
        of_big.push(open(&big).await.unwrap());
    }
    let of_small = open(&small).await.expect("half is for others");
    assert!(open(&big).await.is_err(), "it has more than its half");
    patient(of_small.greeted()).await.expect("it is served");
    drop((of_big, of_small));
    relay.kill();
}

#[tokio::test]
async fn each_connection_of_a_session_takes_a_place_until_it_ends_and_gives_it_to_another_client() {
    const MOST: usize = 4;
    let (relay, big, small) = with_two_clients(MOST);
    let big = TcpStream::connect(forwarded(big, reversing().await).await).await.unwrap();
    // It wants more than there are.
    until(|| relay.tally.answered(Answer::Busy) >= 2).await;
    assert_eq!(relay.tally.answered(Answer::Granted), MOST as u64);
    until(|| relay.tally.open() >= MOST as u64).await;
    let door = Listener::bind("127.0.0.1:0").await.unwrap();
    let plain = Config { technique: "plain".into(), ..auto() };
    let to = door.address().unwrap().to_string().parse().unwrap();
    let of_small = patient(small.session(to, plain)).await.expect("half is for others");
    patient(of_small.greeted()).await.expect("it is served");
    assert_eq!(exchange(big, b"abc").await, b"cba", "a session goes on with those that it has");
    drop(of_small);
    until(|| relay.tally.open() == 0).await;
    relay.kill();
}
