//! One hop: each has its own loss recovery, and its own technique (paper 4, section 5).
//!
//! A session that comes in gets one that goes out, to the one address that the relay was given: it forwards nowhere else.
//! Messages are passed on as they come, in both directions, each in its lane; a lane that pushes back holds up its own
//! session alone. A message is acknowledged by the hop that has it, so a hop that dies takes along what it holds: where that
//! must not be, a session goes through [`super::Server`], from end to end. Where a far end dies, its hop says on leaving how many messages
//! did not get there, as of those that no program took.

use super::carry::carry;
use super::splice::splice;
use crate::Listener;
use crate::session::{Config, Session, SessionError};
use crate::tcp_options;
use headstart_core::time::Instant;
use headstart_io::clock::Clock;
use std::future::pending;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// What [`Onward::new`] waits for a peer's first word: several round trips of any path. Ours.
const PATIENCE: Duration = Duration::from_secs(3);

/// What [`Onward::new`] remembers of a peer that is none of ours: one connection in ten minutes waits for [`PATIENCE`]. Ours.
const MEMORY: Duration = Duration::from_secs(600);

/// How messages go on.
#[derive(Clone, Debug)]
pub struct Onward {
    /// Where to.
    pub to: String,
    /// How, on that hop.
    pub config: Config,
    /// A peer that has said nothing for so long is taken for another kind of server, which waits for words of its own protocol.
    pub patience: Duration,
    /// For so long: then it is asked again what it is, for it may only have been slow, or another may be there by now.
    pub memory: Duration,
}

impl Onward {
    /// To there, with three seconds for the peer's first word, and ten minutes in which it is remembered that none came.
    pub fn new(to: impl Into<String>, config: Config) -> Self {
        Self { to: to.into(), config, patience: PATIENCE, memory: MEMORY }
    }
}

/// Connections at most that [`run_near`] carries at a time, and sessions that [`run`] and [`run_far`] do. Further ones wait until one is
/// over. Ours: what `headstart relay ports` has.
const MOST: usize = 4096;

/// Passes on every session that `listener` accepts, 4096 at a time, until it accepts no more. `failed` is called for sessions that could not be
/// passed on.
pub async fn run(listener: Listener, onward: Onward, failed: impl Fn(&SessionError) + Clone + Send + 'static) {
    let places = Arc::new(Semaphore::new(MOST));
    while let Some((near, place)) = next(&listener, &places).await {
        let (onward, failed) = (onward.clone(), failed.clone());
        tokio::spawn(async move {
            let _place = place;
            if let Err(error) = pass(near, onward).await {
                failed(&error);
            }
        });
    }
}

/// The next session and a place for it.
async fn next(listener: &Listener, places: &Arc<Semaphore>) -> Option<(Session, OwnedSemaphorePermit)> {
    let place = Arc::clone(places).acquire_owned().await.ok()?;
    Some((listener.accept().await?, place))
}

/// Passes on one session, until either side is over.
async fn pass(near: Session, onward: Onward) -> Result<(), SessionError> {
    let far = Session::connect(onward.to, onward.config).await?;
    // Messages that were received and that the other side has not taken: of each direction one at most.
    let [onwards, back] = [AtomicU64::new(0), AtomicU64::new(0)];
    let passed = tokio::select! {
        passed = one_way((&near, &far), &onwards) => passed,
        passed = one_way((&far, &near), &back) => passed,
    };
    // What has been taken in is still to be delivered, and its sender hears of what was not.
    let (lost_there, lost_here) = tokio::join!(far.lost(), near.lost());
    near.disown(lost_there + onwards.into_inner());
    far.disown(lost_here + back.into_inner());
    tokio::join!(far.close(), near.close());
    passed
}

async fn one_way((from, to): (&Session, &Session), in_hand: &AtomicU64) -> Result<(), SessionError> {
    while let Some(message) = from.receive().await {
        in_hand.store(1, Ordering::Relaxed);
        to.lane(message.lane, message.kind).send_value(message.key, &message.bytes).await?;
        in_hand.store(0, Ordering::Relaxed);
    }
    Ok(())
}

/// Takes in plain TCP connections, 4096 at a time, and carries each over a session of its own to `onward`, where [`run_far`] makes it a
/// connection again: so a program that knows nothing of sessions gains on the hop between the two. Where `onward` turns out to
/// be no headstart peer, it gets one plain connection for each, as if nothing were between.
pub async fn run_near(
    listener: TcpListener,
    admitted: impl Fn(IpAddr) -> bool,
    onward: Onward,
    failed: impl Fn(&SessionError) + Clone + Send + 'static,
) {
    let (peer_of, places) = (Arc::new(Peer::default()), Arc::new(Semaphore::new(MOST)));
    while let Ok(place) = Arc::clone(&places).acquire_owned().await {
        let Ok((stream, peer)) = listener.accept().await else {
            // Out of descriptors, most likely: some will come back.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        if !admitted(peer.ip().to_canonical()) {
            continue;
        }
        let (onward, failed, peer) = (onward.clone(), failed.clone(), Arc::clone(&peer_of));
        tokio::spawn(async move {
            let _place = place;
            tcp_options::turn(&stream, None);
            tcp_options::attend(&stream);
            if let Err(error) = near(stream, onward, &peer).await {
                failed(&error);
            }
        });
    }
}

/// What is known of the one peer that connections are carried to.
#[derive(Default)]
struct Peer {
    clock: Clock,
    /// When it was last found to be none of ours.
    stranger: Mutex<Option<Instant>>,
}

impl Peer {
    /// Whether it was found to be none of ours within `memory`.
    fn is_stranger(&self, memory: Duration) -> bool {
        let found = *self.stranger.lock().unwrap_or_else(PoisonError::into_inner);
        found.is_some_and(|at| self.clock.now() < at + memory)
    }

    fn found_stranger(&self) {
        *self.stranger.lock().unwrap_or_else(PoisonError::into_inner) = Some(self.clock.now());
    }
}

/// Carries one connection. Nothing of it is read before the `peer` is known, so that nothing is lost if that is a stranger.
async fn near(mut stream: TcpStream, onward: Onward, peer: &Peer) -> Result<(), SessionError> {
    if !peer.is_stranger(onward.memory) {
        let session = Session::connect(onward.to.clone(), onward.config).await?;
        if tokio::time::timeout(onward.patience, session.peer_is_ours()).await == Ok(true) {
            carry(stream, session, pending()).await;
            return Ok(());
        }
        peer.found_stranger();
    }
    let mut far = TcpStream::connect(onward.to).await.map_err(SessionError::Connect)?;
    tcp_options::turn(&far, None);
    tcp_options::attend(&far);
    // A connection that breaks is broken off on the other side too, which is all there is to tell.
    let broken_off = |ends: [&TcpStream; 2], yes| ends.into_iter().for_each(|end| tcp_options::break_off(end, yes));
    broken_off([&stream, &far], true);
    if splice(&mut stream, &mut far).await.is_ok() {
        broken_off([&stream, &far], false);
    }
    Ok(())
}

/// Makes of each session that comes from [`run_near`] a plain TCP connection to `to`, 4096 at a time.
pub async fn run_far(listener: Listener, to: String, failed: impl Fn(&SessionError) + Clone + Send + 'static) {
    let places = Arc::new(Semaphore::new(MOST));
    while let Some((session, place)) = next(&listener, &places).await {
        let (to, failed) = (to.clone(), failed.clone());
        tokio::spawn(async move {
            let _place = place;
            match TcpStream::connect(to).await {
                Ok(stream) => {
                    tcp_options::turn(&stream, None);
                    tcp_options::attend(&stream);
                    carry(stream, session, pending()).await;
                }
                Err(error) => failed(&SessionError::Connect(error)),
            }
        });
    }
}
