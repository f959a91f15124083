//! The contract of a machine: timeouts at any time do no harm, and a thousand open connections are no reason to wake.

use super::*;

#[test]
fn a_thousand_open_connections_at_rest_have_no_deadline() {
    let mut rig = Rig::new();
    for port in 10_000..11_000 {
        rig.app.set_port(port);
        rig.handshake();
        let first = rig.first();
        rig.app(Flags::ACK, 1, first, b"request");
        rig.peer(b"reply");
        rig.app(Flags::ACK, 8, first.wrapping_add(5), b"");
    }
    rig.pass(Duration::from_secs(1));
    assert_eq!(rig.forwarder.open().len(), 1000);
    assert_eq!(rig.forwarder.poll_timeout(), None);
    let before = rig.forwarder.tally().wake_ups;
    rig.pass(Duration::from_secs(3600));
    assert_eq!(rig.forwarder.tally().wake_ups, before);
}

#[test]
fn a_timeout_that_comes_early_does_nothing() {
    let mut rig = Rig::open();
    rig.peer(b"hello");
    rig.packets.clear();
    rig.forwarder.handle_timeout(rig.now);
    rig.drain();
    assert!(rig.packets.is_empty());
    assert!(rig.forwarder.poll_timeout().is_some());
}

//= RFC 9293#3.4.1
#[test]
fn the_same_seed_gives_the_same_numbers_and_another_seed_gives_others() {
    let number = |seed| {
        let mut rig = Rig::with(Settings { seed, ..Settings::default() });
        rig.handshake();
        rig.first()
    };
    assert_eq!(number(1), number(1));
    assert_ne!(number(1), number(2));
}
