//! Handles of a session: what a program holds.

use crate::driver::{self, Connection, Dial};
use crate::ending::{Ending, Why};
use crate::observe;
use crate::shared::{Room, Shared, State};
use crate::tcp_options::{self, TcpOptions};
use futures_sink::Sink;
use headstart_core::machine::Wakeups;
use headstart_core::realtime::technique::UnknownTechnique;
use headstart_core::realtime::{Kind, LaneId, Messenger, SendError, Sent, SessionId, Settings, Stats};
use headstart_io::clock::Clock;
use std::future::{Future, poll_fn};
use std::io;
use std::os::fd::AsRawFd;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, ToSocketAddrs};

/// When a session is closed, so long is waited for what is on its way. Ours.
const LINGER: Duration = Duration::from_secs(2);
/// How long the peer of a session does not answer before that is given up. Ours.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// How a session is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// A technique of [`crate::technique::ALL`], or several joined with `+`.
    pub technique: String,
    /// The time between two messages, if the program knows it.
    pub interval: Option<Duration>,
    /// An attempt to connect may take so long, and a session is given up when its peer has not answered for so long: on no connection, or,
    /// after at least three seconds, to what was sent. A peer that stands still does not answer; one whose program takes its messages
    /// late does.
    pub patience: Duration,
}

impl Default for Config {
    /// `auto`, whatever interval is measured, and 30 seconds.
    fn default() -> Self {
        Self { technique: crate::technique::DEFAULT.into(), interval: None, patience: PATIENCE }
    }
}

impl Config {
    pub(crate) fn settings(&self) -> Result<Settings, UnknownTechnique> {
        Ok(Settings { interval: self.interval, ..Settings::new(&self.technique)? })
    }
}

/// Why a session could not be begun, or did not go on.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// No connection to the peer.
    #[error("no connection to the peer: {0}")]
    Connect(#[source] io::Error),
    /// No technique of that name.
    #[error(transparent)]
    Technique(#[from] UnknownTechnique),
    /// The message was not taken.
    #[error(transparent)]
    Send(#[from] SendError),
    /// The session is over.
    #[error("the session is over: {0}")]
    Over(Ending),
    /// The time for it is up.
    #[error("timed out")]
    TimedOut,
}

/// A message that came in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Its lane.
    pub lane: u8,
    /// The kind of that lane.
    pub kind: Kind,
    /// Its number in the lane.
    pub seq: u64,
    /// What it is the newest value of, in a `Latest` lane.
    pub key: u64,
    /// The message.
    pub bytes: Vec<u8>,
}

/// A name for a session that no one can guess.
pub(crate) fn draw_id() -> Result<SessionId, SessionError> {
    let mut id = SessionId::default();
    let drawn = rustix::rand::getrandom(&mut id.0[..], rustix::rand::GetRandomFlags::empty());
    if drawn.map_err(|e| SessionError::Connect(e.into()))? != id.0.len() {
        return Err(SessionError::Connect(io::Error::other("the kernel gave too few random bytes")));
    }
    Ok(id)
}

/// Ends the session when the last handle is gone.
struct Guard(Arc<Shared>);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.act(|_, messenger| messenger.leave());
        self.0.close(Why::Closed);
    }
}

/// One end of a session. Clones are handles of the same; when the last is dropped, the session ends.
#[derive(Clone)]
pub struct Session {
    shared: Arc<Shared>,
    _guard: Arc<Guard>,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut debug = f.debug_struct("Session");
        debug.field("stats", &self.stats()).field("tcp_options", &self.tcp_options()).finish_non_exhaustive()
    }
}

impl Session {
    /// The first handle of a session that begins.
    pub(crate) fn of(shared: Arc<Shared>) -> Self {
        observe::note(&shared);
        Self { _guard: Arc::new(Guard(Arc::clone(&shared))), shared }
    }

    /// Notes where it leads, or comes from.
    pub(crate) fn name_peer(&self, peer: Option<impl ToString>) {
        if let Some(peer) = peer {
            self.shared.peer.get_or_init(|| peer.to_string());
        }
    }

    /// See [`Shared::confine`].
    pub(crate) fn confine(&self, room: Option<Room>) {
        self.shared.confine(room);
    }

    /// Whether nothing more comes and nothing waits to be taken.
    pub(crate) fn is_spent(&self) -> bool {
        let state = self.shared.lock();
        (state.closed || state.messenger.peer_has_left()) && !state.messenger.has_some()
    }

    /// Connects to a [`crate::Listener`] over TCP. Lost connections are made anew for as long as the session lasts.
    ///
    /// What is at the other end is known when it has answered: [`Session::peer_is_ours`]. Messages may be sent before.
    pub async fn connect(
        peer: impl ToSocketAddrs + Clone + Send + Sync + 'static,
        config: Config,
    ) -> Result<Self, SessionError> {
        let peer = Arc::new(peer);
        let (interval, first) = (config.interval, Arc::new(OnceLock::new()));
        let taken = Arc::clone(&first);
        let dial = move || {
            let (peer, taken) = (Arc::clone(&peer), Arc::clone(&taken));
            async move {
                let stream = TcpStream::connect((*peer).clone()).await?;
                let turned = tcp_options::turn(&stream, interval);
                taken.get_or_init(|| (turned, stream.peer_addr()));
                tcp_options::watch(&stream);
                Ok(stream)
            }
        };
        let session = Self::connect_over(dial, config).await?;
        if let Some((tcp_options, peer)) = first.get() {
            session.shared.tcp_options.get_or_init(|| *tcp_options);
            session.name_peer(peer.as_ref().ok());
        }
        Ok(session)
    }

    /// Connects over streams that `dial` opens: TLS, say. Each must lead to the same peer.
    pub async fn connect_over<F, S>(
        dial: impl Fn() -> F + Send + Sync + 'static,
        config: Config,
    ) -> Result<Self, SessionError>
    where
        F: Future<Output = io::Result<S>> + Send + 'static,
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        Self::connect_as(draw_id()?, dial, config).await
    }

    /// As [`Session::connect_over`], under a name that was drawn before.
    pub(crate) async fn connect_as<F, S>(
        id: SessionId,
        dial: impl Fn() -> F + Send + Sync + 'static,
        config: Config,
    ) -> Result<Self, SessionError>
    where
        F: Future<Output = io::Result<S>> + Send + 'static,
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let settings = config.settings()?;
        let shared = Shared::new(Messenger::new(id, settings), Clock::new(), config.patience);
        let session = Self::of(Arc::clone(&shared));
        let dial: Dial = Box::new(move || {
            let stream = dial();
            Box::pin(async move { Ok(Box::new(stream.await?) as Connection) })
        });
        driver::connect(&shared, dial).await.map_err(SessionError::Connect)?;
        Ok(session)
    }

    /// A lane to send on. Its kind stays what it is at its first message.
    pub fn lane(&self, number: u8, kind: Kind) -> Lane {
        Lane { session: self.clone(), id: LaneId(number), kind }
    }

    /// The next message; `None` when the session is over.
    pub async fn receive(&self) -> Option<Message> {
        poll_fn(|cx| self.poll_receive(cx)).await
    }

    /// The next message if there is one; its bytes take the place of what is in `into`.
    pub fn try_receive(&self, into: &mut Vec<u8>) -> Option<(u8, Kind, u64, u64)> {
        let what = self.shared.act(|_, messenger| messenger.receive(into))?;
        Some((what.lane.0, what.kind, what.seq, what.key))
    }

    fn poll_receive(&self, cx: &mut Context<'_>) -> Poll<Option<Message>> {
        let mut bytes = Vec::new();
        if let Some((lane, kind, seq, key)) = self.try_receive(&mut bytes) {
            return Poll::Ready(Some(Message { lane, kind, seq, key, bytes }));
        }
        let mut state = self.shared.lock();
        let is_over = state.closed || state.messenger.peer_has_left();
        if !is_over && !state.receivers.iter().any(|waker| waker.will_wake(cx.waker())) {
            state.receivers.push(cx.waker().clone());
        }
        drop(state);
        // A message may have come between the look and the waker, the last one too.
        match self.try_receive(&mut bytes) {
            Some((lane, kind, seq, key)) => Poll::Ready(Some(Message { lane, kind, seq, key, bytes })),
            None if is_over => Poll::Ready(None),
            None => Poll::Pending,
        }
    }

    /// Two halves that may be given to different tasks.
    pub fn split(self) -> (Sender, Receiver) {
        (Sender(self.clone()), Receiver(self))
    }

    /// What has been done so far.
    pub fn stats(&self) -> Stats {
        self.shared.stats()
    }

    /// How often time has woken this session, by cause: what a battery is spent on.
    pub fn wakeups(&self) -> Wakeups {
        self.shared.lock().wakeups.clone()
    }

    /// Which options the kernel took for the first connection, where this side opened it over TCP.
    pub fn tcp_options(&self) -> Option<TcpOptions> {
        self.shared.tcp_options.get().copied()
    }

    /// Connections that are open.
    pub fn connections(&self) -> usize {
        self.shared.lock().messenger.connections()
    }

    /// Why the session is over for sending, and what is not known to have arrived; `None` while it goes on.
    pub fn ending(&self) -> Option<Ending> {
        self.shared.lock().ending()
    }

    /// How long the peer may not answer.
    pub fn patience(&self) -> Duration {
        self.shared.patience()
    }

    /// Changes it: a program may wait longer for a peer that it has met than for a connection ([`Config::patience`]).
    pub fn set_patience(&self, patience: Duration) {
        self.shared.set_patience(patience);
    }

    /// A descriptor to poll: readable while there is something to receive, or the session is over. It is not to be read or written, and
    /// lives as long as the session.
    pub fn descriptor(&self) -> io::Result<std::os::fd::RawFd> {
        Ok(self.shared.lock().signal()?.as_raw_fd())
    }

    /// Waits until the peer has shown that it speaks this protocol, or says why that is not to be.
    pub async fn greeted(&self) -> Result<(), SessionError> {
        if self.peer_is_ours().await {
            return Ok(());
        }
        let state = self.shared.lock();
        let unconfirmed = state.messenger.on_their_way();
        let stranger = |error| Ending { why: Why::Stranger(error), unconfirmed };
        let ending = state.error.map(stranger).or(state.ending());
        Err(SessionError::Over(ending.unwrap_or(Ending { why: Why::Closed, unconfirmed })))
    }

    /// Messages that were handed in and that the peer has not confirmed.
    pub fn unconfirmed(&self) -> usize {
        self.shared.lock().messenger.on_their_way()
    }

    /// Waits until the peer has everything, or the session is over. Whether the peer is known to have it: in the hands of its program,
    /// or kept for that. Of a peer that died nothing is known, whatever it had confirmed.
    pub async fn delivered(&self) -> bool {
        self.until(|state| state.messenger.on_their_way() == 0).await;
        self.shared.lock().all_arrived()
    }

    /// Waits until `what` holds of the number of unconfirmed messages, or the session is over.
    pub(crate) async fn until_unconfirmed(&self, mut what: impl FnMut(usize) -> bool) {
        self.until(|state| what(state.messenger.on_their_way())).await;
    }

    /// Has so many bytes wait for the program before connections are not read.
    pub(crate) fn hold_at_most(&self, bytes: usize) {
        self.shared.act(|_, messenger| messenger.hold_at_most(bytes));
    }

    /// See [`Messenger::expect`].
    pub(crate) fn expect(&self, lanes: usize, longest: usize) {
        self.shared.act(|_, messenger| messenger.expect(lanes, longest));
    }

    /// Waits until `what` holds, or the session is over. Asked again whenever bytes come.
    async fn until(&self, mut what: impl FnMut(&State) -> bool) {
        poll_fn(|cx| {
            let mut state = self.shared.lock();
            if what(&state) || state.closed || state.messenger.peer_has_left() {
                return Poll::Ready(());
            }
            self.shared.await_room(&mut state, cx.waker().clone());
            Poll::Pending
        })
        .await;
    }

    /// Waits as [`Session::close`] does. Messages that are not known to have arrived; of those that a peer had confirmed when it died it
    /// is not known how many, and they count as one.
    async fn lost(&self) -> u64 {
        let _ = tokio::time::timeout(LINGER, self.until(State::is_confirmed)).await;
        let state = self.shared.lock();
        let known = state.all_arrived() && (state.is_confirmed() || state.ending().is_some());
        let count = state.messenger.on_their_way() as u64 + state.messenger.untaken_by_peer();
        if known { 0 } else { count.max(1) }
    }

    /// Waits until the peer has everything and answers still, for two seconds at most, and ends the session for all of its handles.
    /// Whether the peer is known to have it, as [`Session::delivered`].
    pub async fn close(self) -> bool {
        let lost = self.lost().await;
        let arrived = {
            let mut state = self.shared.lock();
            // Another handle that is closed later knows no more.
            *state.arrived.get_or_insert(lost == 0)
        };
        self.shared.act(|_, messenger| messenger.leave());
        self.shared.close(Why::Closed);
        // The tasks of the connections write the farewell: ending the runtime now would cut it off.
        let all_gone = async {
            loop {
                let one_gone = self.shared.parted.notified();
                if self.shared.lock().messenger.connections() == 0 {
                    return;
                }
                one_gone.await;
            }
        };
        let _ = tokio::time::timeout(LINGER, all_gone).await;
        arrived
    }

    /// Whether the peer has shown that it speaks this protocol; waits until it has, or has shown that it does not, or
    /// the session is over.
    pub async fn peer_is_ours(&self) -> bool {
        loop {
            let judged = self.shared.judged.notified();
            tokio::pin!(judged);
            // What is judged from here on is not missed.
            judged.as_mut().enable();
            {
                let state = self.shared.lock();
                if state.messenger.peer_is_ours() {
                    return true;
                }
                if state.closed || state.error.is_some() {
                    return false;
                }
            }
            judged.await;
        }
    }

    fn try_send(&self, lane: LaneId, kind: Kind, key: u64, bytes: &[u8]) -> Result<Sent, SessionError> {
        if let Some(ending) = self.ending() {
            return Err(SessionError::Over(ending));
        }
        Ok(self.shared.act(|now, messenger| messenger.send(now, lane, kind, key, bytes))?)
    }

    fn poll_send(
        &self,
        cx: &mut Context<'_>,
        (lane, kind, key): (LaneId, Kind, u64),
        bytes: &[u8],
    ) -> Poll<Result<Sent, SessionError>> {
        match self.try_send(lane, kind, key, bytes) {
            Err(SessionError::Send(SendError::Full(_))) => {}
            other => return Poll::Ready(other),
        }
        self.shared.await_room(&mut self.shared.lock(), cx.waker().clone());
        match self.try_send(lane, kind, key, bytes) {
            Err(SessionError::Send(SendError::Full(_))) => Poll::Pending,
            other => Poll::Ready(other),
        }
    }
}

/// A lane of a session, to send on.
#[derive(Clone, Debug)]
pub struct Lane {
    session: Session,
    id: LaneId,
    kind: Kind,
}

impl Lane {
    /// Sends a message; waits while too many are on their way.
    pub async fn send(&self, bytes: &[u8]) -> Result<Sent, SessionError> {
        self.send_value(0, bytes).await
    }

    /// Sends the newest value of `key`, in a `Latest` lane.
    pub async fn send_value(&self, key: u64, bytes: &[u8]) -> Result<Sent, SessionError> {
        poll_fn(|cx| self.session.poll_send(cx, (self.id, self.kind, key), bytes)).await
    }

    /// Sends a message, or says at once that it cannot.
    pub fn try_send(&self, key: u64, bytes: &[u8]) -> Result<Sent, SessionError> {
        self.session.try_send(self.id, self.kind, key, bytes)
    }
}

/// Messages as a sink. It is ready when there is room for one; `flush` waits for nothing, for nothing is held back.
impl Sink<Vec<u8>> for Lane {
    type Error = SessionError;

    fn poll_ready(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), SessionError>> {
        let mut state = self.session.shared.lock();
        if let Some(ending) = state.ending() {
            return Poll::Ready(Err(SessionError::Over(ending)));
        }
        if self.kind != Kind::Latest && state.messenger.is_lane_full(self.id) {
            self.session.shared.await_room(&mut state, cx.waker().clone());
            return Poll::Pending;
        }
        Poll::Ready(Ok(()))
    }

    fn start_send(self: Pin<&mut Self>, bytes: Vec<u8>) -> Result<(), SessionError> {
        self.try_send(0, &bytes).map(|_| ())
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<(), SessionError>> {
        Poll::Ready(Ok(()))
    }

    fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<(), SessionError>> {
        Poll::Ready(Ok(()))
    }
}

/// The half that sends.
#[derive(Clone, Debug)]
pub struct Sender(Session);

impl Sender {
    /// A lane to send on.
    pub fn lane(&self, number: u8, kind: Kind) -> Lane {
        self.0.lane(number, kind)
    }
}

/// The half that receives; a stream of messages.
#[derive(Debug)]
pub struct Receiver(Session);

impl Receiver {
    /// The next message; `None` when the session is over.
    pub async fn receive(&mut self) -> Option<Message> {
        self.0.receive().await
    }
}

impl futures_core::Stream for Receiver {
    type Item = Message;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Message>> {
        self.0.poll_receive(cx)
    }
}

#[cfg(test)]
mod tests;
