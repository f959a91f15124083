//! The connections of a session and its tasks: one a connection, one that keeps time, and on the side that connects one that dials.

use crate::ending::Why;
use crate::scratch;
use crate::shared::Shared;
use crate::vigil::ASSURES;
use headstart_core::realtime::{Connection as Number, Input};
use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::sync::Notify;

/// Any stream of bytes both ways.
pub type Connection = Box<dyn Stream>;

/// What a [`Connection`] must be able to do.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin + 'static {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin + 'static> Stream for T {}

/// Opens one more connection to the peer.
pub(crate) type Dial = Box<dyn Fn() -> Pin<Box<dyn Future<Output = io::Result<Connection>> + Send>> + Send + Sync>;

/// After a failure to connect the next attempt waits this long, twice as long each time, up to the longest. Ours.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// A frame's buffer that is kept: most frames are small.
const SMALL: usize = 256;
/// Read at once; more than a burst of small messages.
const READ: usize = 4096;

/// Begins a session on the side that connects: with its first connection, or the reason why there is none.
pub(crate) async fn connect(shared: &Arc<Shared>, dial: Dial) -> io::Result<()> {
    let began = shared.clock.now();
    let first = in_time(shared, dial()).await?;
    start(shared, first, Some(shared.clock.now().since(began)));
    tokio::spawn(keep_time(Arc::clone(shared)));
    tokio::spawn(keep_connections(Arc::clone(shared), dial));
    Ok(())
}

/// What becomes of an attempt to connect within the patience of the session: the kernel's own is two minutes.
async fn in_time<T>(shared: &Shared, attempt: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    tokio::time::timeout(shared.patience(), attempt).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

fn start(shared: &Arc<Shared>, stream: Connection, rtt: Option<Duration>) {
    let id = {
        let mut state = shared.lock();
        state.next_connection += 1;
        state.next_connection - 1
    };
    let input = Input::Opened { connection: Number(id), rtt, introduce: true };
    if let Some(writer) = shared.opened(input, id) {
        tokio::spawn(run(Arc::clone(shared), id, stream, writer, Vec::new()));
    }
}

/// Carries a connection that the peer opened; `bytes` came over it already.
pub(crate) fn attach(shared: &Arc<Shared>, id: u32, stream: Connection, bytes: Vec<u8>) {
    let input = Input::Opened { connection: Number(id), rtt: None, introduce: false };
    if let Some(writer) = shared.opened(input, id) {
        tokio::spawn(run(Arc::clone(shared), id, stream, writer, bytes));
    }
}

/// Reads and writes until either fails, or the session ends.
async fn run(shared: Arc<Shared>, id: u32, stream: Connection, writer: Arc<Notify>, bytes: Vec<u8>) {
    let (mut from, mut to) = tokio::io::split(stream);
    if bytes.is_empty() || shared.received(id, &bytes).is_ok() {
        drop(bytes);
        let reading = async {
            loop {
                while shared.lock().must_not_read() {
                    let room = shared.room.notified();
                    // Room may have come before the wait began.
                    if !shared.lock().must_not_read() {
                        break;
                    }
                    tokio::select! {
                        () = room => {}
                        () = tokio::time::sleep(ASSURES) => shared.assure(id),
                    }
                }
                let take = |bytes: &[u8]| !bytes.is_empty() && shared.received(id, bytes).is_ok();
                let read = poll_fn(|cx| scratch::poll_read(cx, &mut from, READ, |_, bytes| take(bytes))).await;
                if !read.unwrap_or(false) {
                    return;
                }
            }
        };
        let writing = async {
            let mut frame = Vec::with_capacity(SMALL);
            loop {
                frame.clear();
                // One write a frame, so that it is a segment.
                while shared.act(|now, messenger| messenger.transmit(now, Number(id), &mut frame)) {
                    // Without a flush TLS may keep what the socket did not take at once.
                    if to.write_all(&frame).await.is_err() || to.flush().await.is_err() {
                        return;
                    }
                    frame.clear();
                }
                // Written seldom enough to be made anew: a session that is idle holds nothing for it.
                if shared.lock().messenger.on_their_way() == 0 {
                    frame.shrink_to(SMALL);
                }
                if shared.lock().closed {
                    let _ = to.shutdown().await;
                    return;
                }
                writer.notified().await;
            }
        };
        tokio::select! {
            () = reading => {}
            () = writing => {}
        }
    }
    shared.gone(id);
}

/// Wakes the messenger when it wants to be woken.
pub(crate) async fn keep_time(shared: Arc<Shared>) {
    loop {
        if shared.lock().closed {
            return;
        }
        match shared.deadline() {
            None => shared.timer.notified().await,
            Some(at) => {
                let left = at.since(shared.clock.now());
                if left.is_zero() {
                    shared.wake();
                    tokio::task::yield_now().await;
                    continue;
                }
                tokio::select! {
                    () = tokio::time::sleep(left) => shared.wake(),
                    () = shared.timer.notified() => {}
                }
            }
        }
    }
}

/// Keeps as many connections open as the messenger wants.
async fn keep_connections(shared: Arc<Shared>, dial: Dial) {
    let mut pause = FIRST_PAUSE;
    // The arrivals at the last look, and connections that were opened since.
    let (mut seen, mut unanswered) = (0, 0);
    loop {
        {
            let state = shared.lock();
            if state.closed {
                return;
            }
            // A peer that does not speak this protocol will not learn it.
            if state.messenger.connections() == 0
                && let Some(error) = state.error
            {
                drop(state);
                shared.close(Why::Stranger(error));
                return;
            }
        }
        let wanted = {
            let state = shared.lock();
            state.messenger.connections() < state.messenger.connections_wanted()
        };
        if !wanted {
            shared.dial.notified().await;
            continue;
        }
        let began = shared.clock.now();
        if let Ok(stream) = in_time(&shared, dial()).await {
            // A connection that comes after the end would begin a session at the peer that no program uses.
            if shared.lock().closed {
                return;
            }
            start(&shared, stream, Some(shared.clock.now().since(began)));
            unanswered += 1;
            let (arrivals, wanted) = shared.arrivals();
            if arrivals != seen {
                (seen, unanswered, pause) = (arrivals, 0, FIRST_PAUSE);
            }
            // A peer that accepts connections and closes them without a word is not asked ever faster.
            if unanswered <= wanted {
                continue;
            }
        }
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = shared.ended.notified() => {}
        }
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}
