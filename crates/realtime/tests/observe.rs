//! What a program can show of its sessions, those that have ended too. One test: what is observed is the whole process.

use headstart_realtime::observe::{self, Totals};
use headstart_realtime::{Config, Kind, Listener, Session};
use std::time::Duration;

/// Generous: nothing here is about speed.
const PATIENCE: Duration = Duration::from_secs(60);

/// Sends so many messages over a session that is closed then, and gone.
async fn session(messages: u8) {
    let listener = Listener::bind("127.0.0.1:0").await.unwrap();
    let near = Session::connect(listener.address().unwrap(), Config::default()).await.unwrap();
    let far = listener.accept().await.unwrap();
    for n in 0..messages {
        near.lane(0, Kind::Event).send(&[n]).await.unwrap();
    }
    for _ in 0..messages {
        far.receive().await.unwrap();
    }
    near.close().await;
}

#[tokio::test]
async fn what_sessions_have_done_stays_when_they_have_ended() {
    assert_eq!(observe::totals(), Totals::default());
    tokio::time::timeout(PATIENCE, async {
        session(5).await;
        assert_eq!(observe::totals(), Totals::default(), "nothing is kept before it is asked for");
        observe::start();
        session(7).await;
        session(4).await;
        while !observe::sessions().is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await
    .unwrap();
    let all = observe::totals();
    // Both ends of both.
    assert_eq!((all.begun, all.sent, all.received), (4, 11, 11), "{all:?}");
    assert!(all.bytes > 11, "{all:?}");
    tokio::time::timeout(PATIENCE, those_that_go_on_are_listed()).await.unwrap();
}

async fn those_that_go_on_are_listed() {
    let listener = Listener::bind("127.0.0.1:0").await.unwrap();
    let to = listener.address().unwrap();
    let mut ends = Vec::new();
    for _ in 0..3 {
        let near = Session::connect(to, Config::default()).await.unwrap();
        near.lane(0, Kind::Event).send(b"x").await.unwrap();
        let far = listener.accept().await.unwrap();
        far.receive().await.unwrap();
        assert!(near.delivered().await);
        ends.push((near, far));
    }
    let seen = observe::sessions();
    assert_eq!(seen.iter().map(|session| session.number).collect::<Vec<_>>(), [5, 6, 7, 8, 9, 10]);
    assert!(seen.iter().all(|session| session.technique == "auto" && session.connections > 0), "{seen:?}");
    assert_eq!(seen.iter().map(|session| session.unconfirmed).sum::<usize>(), 0);
    // Ends that connected show the address that they connected to, and the others that of their peer.
    let to = to.to_string();
    assert_eq!(seen.iter().filter(|session| session.peer.as_ref() == Some(&to)).count(), 3, "{seen:?}");
    assert!(seen.iter().all(|session| session.peer.is_some()), "{seen:?}");
    let all = observe::totals();
    assert_eq!((all.begun, all.sent, all.received), (10, 14, 14), "{all:?}");
    let (near, far) = ends.pop().unwrap();
    let _held = near.clone();
    near.close().await;
    while far.ending().is_none() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(observe::sessions().len(), 4, "neither end of it goes on");
    assert_eq!(observe::totals().sent, 14, "what it has done was done");
}
