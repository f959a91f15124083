//! A session without tasks: what its peer says is handed to it, and nothing is written.

use super::*;
use crate::backlog::Waits;
use headstart_core::realtime::frame::Frame;
use headstart_core::realtime::{Connection as Number, Hello, Input, MAX_CONNECTIONS};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::pin::pin;
use std::task::Waker;

const ID: SessionId = SessionId([7; 16]);

/// One with a connection that has said for which session it is.
fn begun() -> Session {
    let shared = Shared::new(Messenger::new(ID, Settings::new("plain").unwrap()), Clock::new(), PATIENCE);
    let session = Session::of(shared);
    assert!(opened(&session, 0));
    let hello = Hello { session: ID, connection: 0, interval_micros: 0, technique: "plain", goes_on: false };
    hears(&session, &Frame::Hello(hello));
    session
}

fn opened(session: &Session, id: u32) -> bool {
    let input = Input::Opened { connection: Number(id), rtt: None, introduce: false };
    session.shared.opened(input, id).is_some()
}

fn hears(session: &Session, frame: &Frame<'_>) {
    let mut bytes = Vec::new();
    frame.encode(&mut bytes);
    session.shared.received(0, &bytes).unwrap();
}

fn hears_message(session: &Session, seq: u64, length: usize) {
    let payload = &vec![7; length];
    hears(session, &Frame::Message { lane: LaneId(0), kind: Kind::Event, seq, key: 0, payload });
}

fn takes(session: &Session) -> bool {
    session.try_receive(&mut Vec::new()).is_some()
}

/// What comes of it before anything else happens.
fn polled<T>(what: Pin<&mut impl Future<Output = T>>) -> Poll<T> {
    what.poll(&mut Context::from_waker(Waker::noop()))
}

fn is_readable(session: &Session) -> bool {
    let mut state = session.shared.lock();
    let mut all = [PollFd::new(state.signal().unwrap(), PollFlags::IN)];
    poll(&mut all, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap() == 1
}

#[test]
fn a_descriptor_is_readable_while_there_is_something_to_take_or_the_end() {
    let session = begun();
    assert!(!is_readable(&session) && session.descriptor().unwrap() > 0);
    (0..2).for_each(|seq| hears_message(&session, seq, 10));
    assert!(is_readable(&session));
    assert!(takes(&session) && is_readable(&session) && takes(&session) && !takes(&session));
    assert!(!is_readable(&session));
    hears(&session, &Frame::Bye { untaken: 0 });
    assert!(is_readable(&session), "the peer has left");
    let closed = begun();
    closed.shared.close(Why::Closed);
    assert!(is_readable(&closed));
    let late = begun();
    hears_message(&late, 0, 10);
    assert!(is_readable(&late), "what came before it was asked for");
    let mut state = late.shared.lock();
    let signal = state.signal().unwrap();
    assert!(rustix::io::fcntl_getfd(signal).unwrap().contains(rustix::io::FdFlags::CLOEXEC), "no program inherits it");
}

#[test]
fn a_session_that_was_left_is_spent_when_all_is_taken() {
    let session = begun();
    assert!(!session.is_spent());
    hears_message(&session, 0, 10);
    assert!(!session.is_spent());
    hears(&session, &Frame::Bye { untaken: 2 });
    assert_eq!(
        (session.is_spent(), session.ending().map(|ending| ending.why)),
        (false, Some(Why::Left { untaken: 2 }))
    );
    assert!(!Waits::is_spent(&session) && takes(&session) && session.is_spent() && Waits::is_spent(&session));
    let closed = begun();
    closed.shared.close(Why::Gone);
    assert_eq!((closed.is_spent(), closed.ending().map(|ending| ending.why)), (true, Some(Why::Gone)));
}

#[test]
fn a_session_that_waits_among_many_keeps_little_and_has_one_connection() {
    let session = begun();
    assert!(session.shared.may_join() && !session.shared.lock().must_not_read());
    Waits::confine(&session, Some(Room::Little));
    assert!(!session.shared.may_join() && !session.shared.lock().must_not_read());
    (0..20).for_each(|seq| hears_message(&session, seq, 1000));
    assert!(session.shared.lock().must_not_read());
    session.confine(None);
    assert!(session.shared.may_join() && !session.shared.lock().must_not_read());
    session.hold_at_most(1000);
    assert!(session.shared.lock().must_not_read(), "the program has much to take");
    session.shared.lock().senders.push(Waker::noop().clone());
    assert!(!session.shared.lock().must_not_read(), "and waits for an acknowledgement itself");
    session.shared.gone(0);
    session.confine(Some(Room::Little));
    assert!(session.shared.may_join(), "one it may have");
}

#[test]
fn what_a_session_that_waits_keeps_for_later_counts_too() {
    for (room, most) in [(Room::Little, 16), (Room::Ample, 256)] {
        let session = begun();
        session.confine(Some(room));
        let mut stopped = (1..=300).filter(|seq| {
            // The first is missing.
            let payload = &[7; 1000];
            hears(&session, &Frame::Message { lane: LaneId(0), kind: Kind::Ordered, seq: *seq, key: 0, payload });
            session.shared.lock().must_not_read()
        });
        let kept = stopped.next().unwrap();
        assert!((most * 1000 * 9 / 10..most * 1100).contains(&(kept * 1000)), "{room:?}: {kept}");
        session.confine(None);
        assert!(!session.shared.lock().must_not_read(), "what is missing may come");
    }
}

#[test]
fn each_connection_that_is_not_read_says_that_this_side_is_there() {
    let session = begun();
    assert!(opened(&session, 1));
    let hello = Hello { session: ID, connection: 1, interval_micros: 0, technique: "plain", goes_on: true };
    let mut bytes = Vec::new();
    Frame::Hello(hello).encode(&mut bytes);
    session.shared.received(1, &bytes).unwrap();
    let says = |id| {
        let mut out = Vec::new();
        session.shared.act(|now, messenger| messenger.transmit(now, Number(id), &mut out))
    };
    for id in [0, 1] {
        while says(id) {}
    }
    [0, 1].into_iter().for_each(|id| session.shared.assure(id));
    assert_eq!([says(0), says(1), says(0), says(1)], [true, true, false, false]);
}

#[test]
fn connections_are_read_again_as_soon_as_there_is_room() {
    let session = begun();
    session.hold_at_most(1000);
    hears_message(&session, 0, 2000);
    let mut room = pin!(session.shared.room.notified());
    assert!(polled(room.as_mut()).is_pending());
    assert!(takes(&session) && polled(room.as_mut()).is_ready());
    session.confine(Some(Room::Little));
    room.set(session.shared.room.notified());
    assert!(polled(room.as_mut()).is_pending());
    session.confine(None);
    assert!(polled(room.as_mut()).is_ready());
}

#[test]
fn a_task_that_asks_again_and_again_for_a_message_waits_once() {
    let session = begun();
    (0..3).for_each(|_| assert!(polled(pin!(session.receive())).is_pending()));
    assert_eq!(session.shared.lock().receivers.len(), 1);
}

#[test]
fn a_session_that_was_left_is_over_when_its_last_connection_is_gone() {
    let session = begun();
    assert!(opened(&session, 1));
    hears(&session, &Frame::Bye { untaken: 0 });
    let is_over_without = |id| {
        session.shared.gone(id);
        session.shared.lock().closed
    };
    assert_eq!([0, 1].map(is_over_without), [false, true]);
}

#[tokio::test]
async fn closing_waits_for_the_farewell_of_each_connection_and_counts_what_was_thrown_away() {
    let session = begun();
    let mut closing = pin!(session.clone().close());
    assert!(polled(closing.as_mut()).is_pending(), "its connection has not written it");
    session.shared.gone(0);
    assert_eq!(polled(closing.as_mut()), Poll::Ready(true));
    let left = begun();
    hears(&left, &Frame::Bye { untaken: 2 });
    assert_eq!(polled(pin!(left.lost())), Poll::Ready(2));
}

#[test]
fn a_connection_has_a_number_of_its_own_and_there_are_only_so_many() {
    let session = begun();
    assert!(!opened(&session, 0) && session.connections() == 1);
    let more = (1..100).filter(|id| opened(&session, *id)).count();
    assert_eq!((more + 1, session.connections()), (MAX_CONNECTIONS, MAX_CONNECTIONS));
    let (arrivals, _) = session.shared.arrivals();
    hears_message(&session, 0, 10);
    assert_eq!((arrivals, session.shared.arrivals().0), (1, 2));
}

#[test]
fn all_has_arrived_when_nothing_is_on_its_way_and_the_peer_did_not_die() {
    let session = begun();
    let looks = |session: &Session| {
        let state = session.shared.lock();
        (state.all_arrived(), state.is_confirmed(), state.messenger.on_their_way())
    };
    assert_eq!(looks(&session), (true, true, 0));
    session.lane(0, Kind::Event).try_send(0, b"x").unwrap();
    assert_eq!((looks(&session), session.unconfirmed()), ((false, false, 1), 1));
    assert!(polled(pin!(session.until_unconfirmed(|count| count == 0))).is_pending());
    assert!(polled(pin!(session.until_unconfirmed(|count| count == 1))).is_ready());
    let idle = begun();
    idle.shared.gone(0);
    idle.shared.close(Why::Lost(PATIENCE));
    assert_eq!(looks(&idle), (true, true, 0), "nothing was sent");
}

#[test]
fn names_of_sessions_are_not_guessed() {
    let [one, other] = [(); 2].map(|()| draw_id().unwrap());
    assert!(one != other && one != SessionId::default());
    let named = begun();
    named.name_peer(Some("192.0.2.1:9"));
    named.name_peer(Some("192.0.2.2:9"));
    assert_eq!(named.shared.peer.get().map(String::as_str), Some("192.0.2.1:9"), "the first stays");
}
