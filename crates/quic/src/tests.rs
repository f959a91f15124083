//! The traits as quinn calls them, and real connections over loopback.

use super::controller::Factory;
use super::*;
use headstart_core::cwnd::history::Trust;
use headstart_core::cwnd::start::{Phase, Trigger};
use quinn::congestion::{Controller as _, ControllerFactory};
use quinn::{ClientConfig, Endpoint, Runtime, ServerConfig, TokioRuntime};

const MS: Duration = Duration::from_millis(1);

fn now() -> std::time::Instant {
    TokioRuntime.now()
}

pub fn memory(rule: &str, options: Options) -> CarefulResume {
    let options = Options { rule: start::find(rule).unwrap(), ..options };
    let store = Store::new(Clock::new(now(), Duration::from_secs(1_700_000_000)), [7; 16]);
    CarefulResume::with_options(store, options)
}

pub fn remote(last: u8) -> SocketAddr {
    ([192, 0, 2, last], 443).into()
}

pub fn teach(memory: &CarefulResume, window: u64) {
    let sample = Sample {
        window,
        carried: window,
        rtt: 40 * MS,
        rate: window * 25,
        loss: 0.0,
        limited: false,
        shared: false,
        outcome: Outcome::Clean,
        medium: Medium::Wired,
    };
    let at = memory.clock().moment(now());
    memory.with(|history| history.learn(at, NetworkId::default(), remote(1).ip(), &sample));
}

/// The controller that quinn would build, and a look at it.
fn built(memory: &CarefulResume, validated: bool) -> (Box<Controller>, Watch, Arc<Factory>) {
    let plan = memory.plan(now(), remote(1), validated);
    let (factory, watch) = plan.into_factory();
    let factory = Arc::new(factory);
    let controller = Arc::clone(&factory).build(now(), 1200).into_any().downcast().unwrap();
    (controller, watch, factory)
}

/// The initial window goes out and comes back, a packet at a time; the next flight is due.
fn first_flight(controller: &mut Controller, at: std::time::Instant) -> std::time::Instant {
    for packet in 0..10 {
        controller.on_sent(at + packet * MS / 10, 1200, packet.into());
    }
    for packet in 0..10 {
        let (sent, back) = (at + packet * MS / 10, at + 40 * MS + packet * MS / 10);
        controller.acknowledged(back, sent, 1200, false);
        controller.on_end_acks(back, 1200 * u64::from(9 - packet), false, None);
    }
    at + 41 * MS
}

#[test]
fn a_factory_is_good_for_one_path() {
    let memory = memory("history-average", Options::default());
    teach(&memory, 240_000);
    let (first, _watch, factory) = built(&memory, true);
    assert_eq!(first.window(), 240_000);
    let migrated = factory.build(now(), 1200);
    assert_eq!(migrated.window(), 12_000);
}

#[test]
fn a_copy_has_neither_memory_nor_lease_and_its_end_teaches_nothing() {
    let memory = memory("careful-resume", Options::default());
    teach(&memory, 480_000);
    let (mut controller, watch, _factory) = built(&memory, false);
    let copy = controller.clone_box();
    first_flight(&mut controller, now());
    assert_eq!((watch.phase(), watch.window()), (Some(Phase::Unvalidated), Some(240_000)));
    assert_eq!(controller.clone_box().window(), 12_000, "what is not proved does not go with a copy");
    drop(copy);
    assert_eq!(watch.phase(), Some(Phase::Unvalidated));
    drop(controller);
    assert_eq!((watch.phase(), watch.sample()), (None, None));
}

#[test]
fn of_ten_connections_at_once_one_jumps_and_when_it_has_ended_the_next_may() {
    let memory = memory("careful-resume", Options::default());
    teach(&memory, 480_000);
    let at = now();
    let mut all: Vec<_> = (0..10).map(|_| built(&memory, false)).collect();
    for (controller, ..) in &mut all {
        first_flight(controller, at);
    }
    let windows: Vec<u64> = all.iter().map(|(controller, ..)| controller.window()).collect();
    assert_eq!(windows.iter().filter(|window| **window == 240_000).count(), 1, "{windows:?}");
    assert_eq!(windows.iter().filter(|window| **window == 24_000).count(), 9, "{windows:?}");
    drop(all);
    let (mut next, watch, _factory) = built(&memory, false);
    first_flight(&mut next, at);
    assert_eq!(watch.phase(), Some(Phase::Unvalidated));
}

#[test]
fn an_address_that_may_be_forged_uses_no_memory_up() {
    let memory = memory("history-average", Options::default());
    teach(&memory, 240_000);
    let (mut forged, ..) = built(&memory, false);
    forged.on_sent(now(), 3600, 2);
    assert_eq!(forged.window(), 12_000);
    let (honest, ..) = built(&memory, true);
    assert_eq!(honest.window(), 240_000, "the lease was still to be had");
    drop((forged, honest));
    let (mut shown, ..) = built(&memory, false);
    let at = now();
    shown.on_sent(at, 1200, 0);
    shown.acknowledged(at + 40 * MS, at, 1200, true);
    assert_eq!(shown.window(), 240_000, "who acknowledges is there");
}

#[test]
fn every_batch_of_segments_is_counted() {
    let memory = memory("careful-resume", Options::default());
    let (mut controller, watch, _factory) = built(&memory, true);
    let at = now();
    // quinn tells of each call of its transport once, with all that it sent.
    for bytes in [2400, 12_000] {
        controller.on_sent(at, bytes, 0);
    }
    assert_eq!(watch.flight(), Some(14_400));
}

#[test]
fn a_retreat_deletes_the_memory_and_listeners_are_told_with_packet_numbers() {
    let told = Arc::new(Mutex::new(Vec::new()));
    let listener: Listener = {
        let told = Arc::clone(&told);
        Arc::new(move |change: &StartEvent| told.lock().unwrap().push(*change))
    };
    let memory = memory("careful-resume", Options { listener: Some(listener), ..Options::default() });
    teach(&memory, 480_000);
    let (mut controller, watch, _factory) = built(&memory, true);
    let at = first_flight(&mut controller, now());
    for packet in 10..210 {
        controller.on_sent(at + MS, 1200, packet);
    }
    assert_eq!(watch.phase(), Some(Phase::Validating));
    controller.on_congestion_event(at + 60 * MS, at + MS, false, 1200);
    assert_eq!(watch.phase(), Some(Phase::SafeRetreat));
    assert!(memory.with(|history| history.is_empty()));
    let told = told.lock().unwrap();
    let seen: Vec<_> = told.iter().map(|t| (t.event.new, t.event.trigger, t.first, t.last)).collect();
    assert_eq!(
        seen,
        [
            (Phase::Unvalidated, Trigger::CwndLimited, Some(10), None),
            (Phase::Validating, Trigger::LastUnvalidatedPacketSent, Some(10), Some(209)),
            (Phase::SafeRetreat, Trigger::PacketLoss, Some(10), Some(209)),
        ]
    );
}

#[test]
fn a_connection_that_may_not_jump_has_no_packets_of_a_jump() {
    let told = Arc::new(Mutex::new(Vec::new()));
    let listener: Listener = {
        let told = Arc::clone(&told);
        Arc::new(move |change: &StartEvent| told.lock().unwrap().push((change.event.new, change.first, change.last)))
    };
    let memory = memory("careful-resume", Options { listener: Some(listener), ..Options::default() });
    teach(&memory, 480_000);
    let at = now();
    let (mut first, ..) = built(&memory, true);
    first_flight(&mut first, at);
    told.lock().unwrap().clear();
    let (mut second, ..) = built(&memory, true);
    first_flight(&mut second, at);
    assert_eq!(*told.lock().unwrap(), [(Phase::Normal, None, None)]);
}

#[test]
fn what_a_connection_has_shown_is_learned_when_it_is_asked_for_and_at_its_end() {
    for ends in [false, true] {
        let memory = memory("careful-resume", Options::default());
        let (mut controller, watch, _factory) = built(&memory, true);
        let at = now();
        first_flight(&mut controller, at);
        watch.learn(at + 45 * MS);
        assert!(watch.sample().is_none() && memory.with(|history| history.is_empty()), "one window says little");
        for round in 1..5 {
            first_flight(&mut controller, at + round * 45 * MS);
        }
        assert_eq!(watch.sample().map(|sample| sample.rtt), Some(40 * MS));
        let later = at + 230 * MS;
        if ends {
            watch.close(later);
        } else {
            watch.learn(later);
        }
        let known = memory.plan(later, remote(1), true).remembered().expect("it has been learned");
        assert_eq!((known.rtt, watch.sample().is_none()), (40 * MS, ends));
    }
}

#[test]
fn a_window_is_shown_as_it_is_and_is_never_less_than_two_packets() {
    let memory = memory("careful-resume", Options::default());
    let (mut first, _watch, factory) = built(&memory, true);
    let mut other: Box<Controller> = factory.build(now(), 1200).into_any().downcast().unwrap();
    for controller in [&mut first, &mut other] {
        let at = now();
        assert_eq!((controller.initial_window(), controller.window()), (12_000, 12_000));
        assert_eq!((controller.metrics().congestion_window, controller.metrics().ssthresh), (12_000, None));
        controller.on_sent(at, 1200, 0);
        controller.on_congestion_event(at + MS, at, false, 1200);
        let metrics = controller.metrics();
        assert_eq!((metrics.congestion_window, metrics.ssthresh), (8400, Some(8400)));
        controller.on_mtu_update(9000);
        assert_eq!((controller.window(), controller.initial_window()), (18_000, 12_000));
    }
}

#[test]
fn on_another_network_nothing_of_the_first_is_used_and_nothing_taught() {
    let memory = memory("careful-resume", Options::default());
    teach(&memory, 480_000);
    let (mut controller, watch, _factory) = built(&memory, false);
    memory.move_to(NetworkId(9));
    assert_eq!(memory.plan(now(), remote(1), true).remembered(), None);
    first_flight(&mut controller, now());
    assert_eq!((watch.phase(), controller.window()), (Some(Phase::Normal), 24_000));
}

#[test]
fn the_ratio_leaves_its_share_of_connections_as_they_were() {
    let memory = memory("history-average", Options { ratio: 0.25, ..Options::default() });
    teach(&memory, 240_000);
    let used = (0..100).filter(|_| memory.plan(now(), remote(1), true).remembered().is_some()).count();
    assert_eq!(used, 25);
}

#[test]
fn what_was_received_makes_windows_to_receive_as_much_and_no_window_to_send() {
    let memory = memory("careful-resume", Options::default());
    assert_eq!(memory.plan(now(), remote(1), true).stream_window(), None);
    memory.received(now(), remote(1).ip(), 6_250_000, Duration::from_secs(1), 600 * MS);
    let plan = memory.plan(now(), remote(1), true);
    assert_eq!((plan.stream_window(), plan.remembered()), (Some(15_000_000), None));
    assert_eq!(plan.initial_rtt(), Some(600 * MS));
    // Twice as much in twice the time, on a network that has bits of its own.
    memory.move_to(NetworkId(u64::MAX));
    assert_eq!(memory.plan(now(), remote(1), true).stream_window(), None);
    memory.received(now(), remote(1).ip(), 12_500_000, Duration::from_secs(2), 600 * MS);
    assert_eq!(memory.plan(now(), remote(1), true).stream_window(), Some(15_000_000));
    memory.received(now(), remote(2).ip(), 1000, Duration::from_secs(1), MS);
    assert_eq!(
        memory.plan(now(), remote(2), true).stream_window(),
        Some(plan::STREAM_WINDOW),
        "never less than quinn's"
    );
}

pub(crate) fn configurations() -> (ServerConfig, ClientConfig) {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
    let key = rustls::pki_types::PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let server = ServerConfig::with_single_cert(vec![made.cert.der().clone()], key.into()).unwrap();
    let mut roots = rustls::RootCertStore::empty();
    roots.add(made.cert.der().clone()).unwrap();
    (server, ClientConfig::with_root_certificates(Arc::new(roots)).unwrap())
}

/// Waits until `met`, which must come true some time; the bound only keeps a failure from hanging.
pub(crate) async fn until(met: impl Fn() -> bool) {
    let waited = async {
        while !met() {
            tokio::time::sleep(MS).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), waited).await.expect("not within a minute");
}

#[tokio::test]
async fn a_real_connection_teaches_its_server_and_the_next_one_is_planned_by_it() {
    let (server_config, client_config) = configurations();
    let server = Endpoint::server(server_config.clone(), ([127, 0, 0, 1], 0).into()).unwrap();
    let client = Endpoint::client(([127, 0, 0, 1], 0).into()).unwrap();
    let to = server.local_addr().unwrap();
    let (ours, theirs) = (memory("careful-resume", Options::default()), memory("careful-resume", Options::default()));
    for round in 0..2 {
        let serving = async {
            let incoming = server.accept().await.unwrap();
            let connection = theirs.accept(incoming, &server_config).unwrap().await.unwrap();
            let mut stream = connection.accept_bi().await.unwrap().0;
            stream.write_all(&vec![round; 300_000]).await.unwrap();
            stream.finish().unwrap();
            connection.closed().await;
        };
        let fetching = async {
            let connecting = ours.connect(&client, client_config.clone(), to, "localhost").unwrap();
            let connection = connecting.await.unwrap();
            let (mut send, mut receive) = connection.open_bi().await.unwrap();
            send.write_all(b"?").await.unwrap();
            assert_eq!(receive.read_to_end(1 << 20).await.unwrap(), vec![round; 300_000]);
            connection.close(0u8.into(), b"");
        };
        tokio::join!(serving, fetching);
        let (clock, from) = (theirs.clock(), client.local_addr().unwrap().ip());
        let learned = || theirs.with(|history| history.recall(clock.moment(now()), NetworkId::default(), from));
        until(|| learned().is_some()).await;
        let known = learned().unwrap();
        assert_eq!(known.trust, Trust::Exact);
        assert!(known.window > 0 && known.average >= 12_000 && !known.rtt.is_zero(), "{known:?}");
        assert!(theirs.plan(now(), (from, 1).into(), true).initial_rtt().is_some());
    }
    assert!(ours.with(|history| history.is_empty()), "a question teaches nothing");
}

#[test]
fn what_a_closed_connection_used_another_may_use_at_once_and_it_has_taught_once() {
    let memory = memory("careful-resume", Options::default());
    teach(&memory, 480_000);
    let (mut first, watch, _factory) = built(&memory, true);
    let later = first_flight(&mut first, now());
    let (mut second, blocked, _factory) = built(&memory, true);
    first_flight(&mut second, later);
    assert_ne!(blocked.phase(), Some(Phase::Unvalidated), "one at a time");
    watch.close(later);
    assert_eq!((watch.phase(), watch.window()), (None, None));
    let (mut third, free, _factory) = built(&memory, true);
    first_flight(&mut third, later + MS);
    assert_eq!(free.phase(), Some(Phase::Unvalidated));
    // What quinn still does with the controller of a closed connection does no harm.
    first_flight(&mut first, later + 50 * MS);
    drop(first);
}

#[test]
fn what_was_kept_as_bytes_is_known_to_the_next_process_and_nothing_else_is_taken() {
    let wall = Duration::from_secs(1_700_000_000);
    let store = |bytes: &[u8], later: u64| Store::from_bytes(bytes, wall + Duration::from_secs(later));
    let first = CarefulResume::new(store(&[], 0).unwrap());
    teach(&first, 480_000);
    let bytes = first.to_bytes();
    let known = |later| {
        let memory = CarefulResume::new(store(&bytes, later).unwrap());
        memory.plan(now(), remote(1), true).remembered().map(|known| known.window)
    };
    assert_eq!((known(60), known(7200)), (Some(480_000), None), "records age between processes");
    for damaged in [&bytes[..9], &bytes[1..], &bytes[..bytes.len() - 1]] {
        assert_eq!(store(damaged, 0).err(), Some(NotAStore));
    }
    let records = |bytes: &[u8]| {
        let records: std::collections::BTreeSet<_> =
            bytes[24..].chunks((bytes.len() - 24) / 2).map(<[u8]>::to_vec).collect();
        (bytes[..24].to_vec(), records)
    };
    assert_eq!(records(&CarefulResume::new(store(&bytes, 60).unwrap()).to_bytes()), records(&bytes), "all of it");
    assert!(NotAStore.to_string().contains("Store::memory()"));
    let other = CarefulResume::new(store(&[], 0).unwrap());
    // Its first eight bytes are no one byte: by chance they would be once in 2^56 times.
    assert!(other.to_bytes()[8..16].windows(2).any(|pair| pair[0] != pair[1]));
    assert_ne!(other.to_bytes(), CarefulResume::new(store(&[], 0).unwrap()).to_bytes(), "each has a secret of its own");
}

#[tokio::test]
async fn a_closed_connection_that_is_dropped_gives_the_history_back_at_once() {
    let (server_config, client_config) = configurations();
    let server = Endpoint::server(server_config.clone(), ([127, 0, 0, 1], 0).into()).unwrap();
    let client = Endpoint::client(([127, 0, 0, 1], 0).into()).unwrap();
    let to = server.local_addr().unwrap();
    let careful = CarefulResume::new(Store::memory());
    let accepting = async { careful.accept(server.accept().await.unwrap(), &server_config).unwrap().await.unwrap() };
    let connecting = async { client.connect_with(client_config, to, "localhost").unwrap().await.unwrap() };
    let (accepted, connected) = tokio::join!(accepting, connecting);
    let watch = accepted.watch().clone();
    assert!(watch.window().is_some());
    connected.close(0u8.into(), b"");
    accepted.closed().await;
    drop(accepted);
    assert_eq!(watch.window(), None, "not three round trips later");
}
