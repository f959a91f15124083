//! The C interface, of which cbindgen makes `include/headstart_realtime.h` (`tests/header.rs`). Calls wait, as in
//! [`crate::blocking`].
//!
//! For C alone: no path leads here from Rust. A pointer that C gives is taken at its word only as far as the header promises; null is
//! always an error, never a crash. No
//! panic crosses into C: nothing here panics on what C can do right, and the release profile's unwinding stops at `extern "C"`
//! by aborting.

use crate::blocking::{Listener, Session};
use crate::ending::Why;
use crate::session::{Config, PATIENCE, SessionError};
use headstart_core::realtime::{Kind, SendError, Sent};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::os::fd::{FromRawFd as _, OwnedFd};
use std::time::Duration;

/// A kind of lane: the newest value of each key.
pub const HS_LATEST: u8 = 1;
/// A kind of lane: each message once, as soon as it comes.
pub const HS_EVENT: u8 = 2;
/// A kind of lane: each message once and in order.
pub const HS_ORDERED: u8 = 3;
const _: () = assert!(
    HS_LATEST as u64 == Kind::Latest.code()
        && HS_EVENT as u64 == Kind::Event.code()
        && HS_ORDERED as u64 == Kind::Ordered.code()
);

/// It worked.
pub const HS_OK: c_int = 0;
/// An argument is null, or of no use.
pub const HS_INVALID: c_int = -1;
/// The time for it is up.
pub const HS_TIMEOUT: c_int = -2;
/// The lane has as many messages on their way as it may.
pub const HS_FULL: c_int = -3;
/// This side has closed the session, or stopped the listener.
pub const HS_CLOSED: c_int = -4;
/// The peer has closed the session.
pub const HS_LEFT: c_int = -5;
/// The peer does not know the session any more: it was restarted, or has given it up.
pub const HS_GONE: c_int = -6;
/// The peer has not answered for as long as that may be.
pub const HS_LOST: c_int = -7;
/// The peer never answered.
pub const HS_SILENT: c_int = -8;
/// The peer does not speak this protocol, or another version of it.
pub const HS_STRANGER: c_int = -9;
/// No connection to the peer, or no address to listen on.
pub const HS_CONNECT: c_int = -10;
/// No technique of that name.
pub const HS_TECHNIQUE: c_int = -11;
/// The message is longer than 16 KiB.
pub const HS_TOO_LONG: c_int = -12;
/// Not everything that was sent is known to have arrived.
pub const HS_UNCONFIRMED: c_int = -13;

/// What a code says, in English.
const TEXTS: &[(c_int, &CStr)] = &[
    (HS_OK, c"it worked"),
    (HS_INVALID, c"an argument is null or invalid"),
    (HS_TIMEOUT, c"timed out"),
    (HS_FULL, c"the lane has too many messages in flight"),
    (HS_CLOSED, c"this side closed the session"),
    (HS_LEFT, c"the peer has closed the session"),
    (HS_GONE, c"the peer no longer knows the session: it was restarted, or the session expired"),
    (HS_LOST, c"the peer stopped answering"),
    (HS_SILENT, c"the peer never answered: it does not speak this protocol, or only an older version of it"),
    (HS_STRANGER, c"the peer does not speak this protocol, or another version of it"),
    (HS_CONNECT, c"no connection to the peer, or no address to listen on"),
    (HS_TECHNIQUE, c"unknown technique"),
    (HS_TOO_LONG, c"a message is longer than 16 KiB"),
    (HS_UNCONFIRMED, c"some messages may not have arrived"),
];

fn code(error: &SessionError) -> c_int {
    match error {
        SessionError::Connect(_) => HS_CONNECT,
        SessionError::Technique(_) => HS_TECHNIQUE,
        SessionError::TimedOut => HS_TIMEOUT,
        SessionError::Send(SendError::Full(_)) => HS_FULL,
        SessionError::Send(SendError::TooLong(_)) => HS_TOO_LONG,
        SessionError::Send(SendError::NoLane(_) | SendError::OtherKind(_)) => HS_INVALID,
        SessionError::Over(ending) => over(ending.why),
    }
}

fn over(why: Why) -> c_int {
    match why {
        Why::Closed => HS_CLOSED,
        Why::Left { .. } => HS_LEFT,
        Why::Gone => HS_GONE,
        Why::Lost(_) => HS_LOST,
        Why::Silent(_) => HS_SILENT,
        Why::Stranger(_) => HS_STRANGER,
    }
}

/// What a code says, in English; of any other number, that it is unknown. The text is never freed.
#[unsafe(no_mangle)]
pub extern "C" fn hs_error_text(code: c_int) -> *const c_char {
    TEXTS.iter().find(|(known, _)| *known == code).map_or(c"an unknown code", |(_, text)| text).as_ptr()
}

/// The text behind `text`, if it is one.
///
/// # Safety
/// `text` is null or a string that ends with a zero.
unsafe fn string(text: *const c_char) -> Option<String> {
    if text.is_null() {
        return None;
    }
    // SAFETY: not null, and a string that ends with a zero, by the contract of this function.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str().ok().map(str::to_owned)
}

/// Hands out what was made, or null and why not.
///
/// # Safety
/// `error` is null or may be written.
unsafe fn handed<T>(made: Result<T, c_int>, error: *mut c_int) -> *mut T {
    // SAFETY: null, or may be written, by the contract of this function.
    if let Some(error) = unsafe { error.as_mut() } {
        *error = made.as_ref().err().copied().unwrap_or(HS_OK);
    }
    made.map_or(std::ptr::null_mut(), |made| Box::into_raw(Box::new(made)))
}

fn millis(timeout_ms: u32) -> Duration {
    Duration::from_millis(timeout_ms.into())
}

/// Connects to `address` ("host:port") with a technique (null: the default) and an interval in microseconds (0: unknown), and waits
/// until the peer has shown that it speaks this protocol, up to `timeout_ms`. The same time is the session's patience, unless
/// `hs_session_set_patience` changes it. Null if that failed; `error`, if it is not null, says why.
///
/// # Safety
/// `address` and `technique` are null or strings that end with a zero; `error` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hs_session_connect_within(
    address: *const c_char,
    technique: *const c_char,
    interval_us: u32,
    timeout_ms: u32,
    error: *mut c_int,
) -> *mut Session {
    let interval = (interval_us > 0).then(|| Duration::from_micros(interval_us.into()));
    let mut config = Config { interval, patience: millis(timeout_ms), ..Config::default() };
    // SAFETY: null, or strings, by the contract of this function.
    let (address, technique) = unsafe { (string(address), string(technique)) };
    config.technique = technique.unwrap_or(config.technique);
    let session = address.ok_or(HS_INVALID).and_then(|at| Session::connect(&at, config).map_err(|e| code(&e)));
    // SAFETY: null, or may be written, by the contract of this function.
    unsafe { handed(session, error) }
}

/// The session is over (`HS_LOST`) when the peer has not answered for so long, and to what was sent for at least three seconds.
/// `HS_OK`, or `HS_INVALID` if `session` is null.
///
/// # Safety
/// `session` is null or a session that is not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hs_session_set_patience(session: *const Session, patience_ms: u32) -> c_int {
    // SAFETY: null, or a session, by the contract of this function.
    let Some(session) = (unsafe { session.as_ref() }) else { return HS_INVALID };
    session.set_patience(millis(patience_ms));
    HS_OK
}

/// As `hs_session_connect_within`, with 30 seconds.
///
/// # Safety
/// `address` and `technique` are null or strings that end with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hs_session_connect(
    address: *const c_char,
    technique: *const c_char,
    interval_us: u32,
) -> *mut Session {
    let patience = PATIENCE.as_millis() as u32;
    // SAFETY: null, or strings, by the contract of this function.
    unsafe { hs_session_connect_within(address, technique, interval_us, patience, std::ptr::null_mut()) }
}

/// What a program gives its own dialling: for its threads to share.
struct Context(*mut c_void);

// SAFETY: the pointer is never followed here; the contract of `hs_session_connect_over` has it be good in any thread.
unsafe impl Send for Context {}
// SAFETY: the same.
unsafe impl Sync for Context {}

/// As `hs_session_connect_within`, over sockets of the program's own: one end of a socketpair, say, behind whose other end the program
/// does TLS. `dial` is given `context`, and answers with a connected stream socket (TCP or Unix), which is the library's from then on,
/// or a negative number: no connection now. It is called by threads of the library, one at a time, whenever a connection is wanted. None
/// begins after this function has failed or `hs_session_close` has come back, but neither waits for one that is under way longer than it
/// may: `context` must last until that has returned, and what it answers then is closed.
///
/// # Safety
/// `dial` may be called so with `context` from any thread; what it answers is a descriptor that is used by no other; `technique` is
/// null or a string that ends with a zero; `error` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hs_session_connect_over(
    dial: Option<unsafe extern "C" fn(context: *mut c_void) -> c_int>,
    context: *mut c_void,
    technique: *const c_char,
    interval_us: u32,
    timeout_ms: u32,
    error: *mut c_int,
) -> *mut Session {
    let interval = (interval_us > 0).then(|| Duration::from_micros(interval_us.into()));
    let mut config = Config { interval, patience: millis(timeout_ms), ..Config::default() };
    // SAFETY: null, or a string, by the contract of this function.
    config.technique = unsafe { string(technique) }.unwrap_or(config.technique);
    let context = Context(context);
    let session = dial.ok_or(HS_INVALID).and_then(|dial| {
        let open = move || {
            let context = &context;
            // SAFETY: it may be called with this from any thread, by the contract of this function.
            match unsafe { dial(context.0) } {
                // SAFETY: a descriptor that is used by no other, by the contract of this function.
                socket @ 0.. => Ok(unsafe { OwnedFd::from_raw_fd(socket) }),
                _ => Err(std::io::ErrorKind::NotConnected.into()),
            }
        };
        Session::connect_over(open, config).map_err(|e| code(&e))
    });
    // SAFETY: null, or may be written, by the contract of this function.
    unsafe { handed(session, error) }
}

/// What a session has done so far. Later versions may add fields at the end.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Statistics {
    /// Messages handed in.
    pub sent: u64,
    /// Messages handed to the program.
    pub received: u64,
    /// Frames of messages written, copies included.
    pub written: u64,
    /// Of those, copies.
    pub copies: u64,
    /// Messages that were dropped for newer values.
    pub conflated: u64,
    /// Times that a connection was left because a message on it was overdue.
    pub stalls: u64,
    /// Messages that the peer has not confirmed.
    pub unconfirmed: u64,
    /// Smoothed round-trip time in microseconds; 0: not known.
    pub smoothed_us: u64,
}

/// Writes what the session has done so far, up to `size` bytes of it: `sizeof` of the structure that the program knows. `HS_OK`, or
/// `HS_INVALID` if a pointer is null.
///
/// # Safety
/// `session` is null or a session that is not closed; `into` is null or has room for `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hs_session_stats(session: *const Session, into: *mut Statistics, size: usize) -> c_int {
    // SAFETY: null, or a session, by the contract of this function.
    let Some(session) = (unsafe { session.as_ref() }) else { return HS_INVALID };
    if into.is_null() {
        return HS_INVALID;
    }
    let stats = session.stats();
    let all = Statistics {
        sent: stats.sent,
        received: stats.received,
        written: stats.written,
        copies: stats.copies,
        conflated: stats.conflated,
        stalls: stats.stalls,
        unconfirmed: session.unconfirmed() as u64,
        smoothed_us: stats.smoothed.map_or(0, |rtt| rtt.as_micros() as u64),
    };
    let size = size.min(size_of::<Statistics>());
    // SAFETY: not null, with room for `size` bytes, by the contract of this function; `all` is as long and lies elsewhere.
    unsafe { std::ptr::copy_nonoverlapping((&raw const all).cast::<u8>(), into.cast::<u8>(), size) };
    HS_OK
}

/// Listens on `address` ("host:port", port 0: any). Null if that failed.
///
/// # Safety
/// `address` is null or a string that ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hs_listener_bind(address: *const c_char) -> *mut Listener {
    // SAFETY: null, or a string, by the contract of this function.
    let address = unsafe { string(address) };
    let listener = address.ok_or(HS_INVALID).and_then(|at| Listener::bind(&at).map_err(|_| HS_CONNECT));
    // SAFETY: null.
    unsafe { handed(listener, std::ptr::null_mut()) }
}

/// The port that it listens on; 0 if `listener` is null.
///
/// # Safety
/// `listener` is null or from [`hs_listener_bind`], and not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hs_listener_port(listener: *const Listener) -> u16 {
    // SAFETY: null, or a listener, by the contract of this function.
    let listener = unsafe { listener.as_ref() };
    listener.and_then(Listener::address).map_or(0, |address| address.port())
}

/// The patience of sessions that begin from now on, as `hs_session_set_patience` has it; 30 seconds unless told. `HS_OK`, or
/// `HS_INVALID` if `listener` is null.
///
/// # Safety
/// `listener` is null or from [`hs_listener_bind`], and not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hs_listener_set_patience(listener: *const Listener, patience_ms: u32) -> c_int {
    // SAFETY: null, or a listener, by the contract of this function.
    let Some(listener) = (unsafe { listener.as_ref() }) else { return HS_INVALID };
    listener.set_patience(millis(patience_ms));
    HS_OK
}

/// Waits for the next session. Null if there will be none: the listener was stopped.
///
/// # Safety
/// `listener` is null or from [`hs_listener_bind`], and not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hs_listener_accept(listener: *const Listener) -> *mut Session {
    // SAFETY: null, or a listener, by the contract of this function.
    let listener = unsafe { listener.as_ref() };
    let session = listener.ok_or(HS_INVALID).and_then(|listener| listener.accept().ok_or(HS_CLOSED));
    // SAFETY: null.
    unsafe { handed(session, std::ptr::null_mut()) }
}

/// Waits up to `timeout_ms` for the next session. Null if none came; `error`, if it is not null, says why (`HS_TIMEOUT`, or
/// `HS_CLOSED` where the listener was stopped).
///
/// # Safety
/// `listener` is null or from [`hs_listener_bind`], and not closed; `error` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hs_listener_accept_within(
    listener: *const Listener,
    timeout_ms: u32,
    error: *mut c_int,
) -> *mut Session {
    // SAFETY: null, or a listener, by the contract of this function.
    let listener = unsafe { listener.as_ref() };
    let session = listener.ok_or(HS_INVALID).and_then(|listener| {
        let accepted = listener.accept_within(millis(timeout_ms)).map_err(|e| code(&e))?;
        accepted.ok_or(HS_CLOSED)
    });
    // SAFETY: null, or may be written, by the contract of this function.
    unsafe { handed(session, error) }
}

/// Accepts no more sessions: a thread that waits in `hs_listener_accept` comes back. Sessions stay, and the listener is still to be
/// closed, once no thread uses it.
///
/// # Safety
/// `listener` is null or from [`hs_listener_bind`], and not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hs_listener_stop(listener: *const Listener) {
    // SAFETY: null, or a listener, by the contract of this function.
    if let Some(listener) = unsafe { listener.as_ref() } {
        listener.stop();
    }
}

/// Closes a listener; its sessions stay.
///
/// # Safety
/// `listener` is null or from [`hs_listener_bind`], and is not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hs_listener_close(listener: *mut Listener) {
    if !listener.is_null() {
        // SAFETY: from `Box::into_raw`, and not used again, by the contract of this function.
        drop(unsafe { Box::from_raw(listener) });
    }
}

/// What is to be sent, if it is all there.
///
/// # Safety
/// `session` is null or a session that is not closed; `bytes` points to `len` bytes.
unsafe fn outgoing<'a>(
    session: *const Session,
    kind: u8,
    bytes: *const u8,
    len: usize,
) -> Option<(&'a Session, Kind, &'a [u8])> {
    // SAFETY: null, or a session, by the contract of this function.
    let session = unsafe { session.as_ref() }?;
    let kind = Kind::of_code(kind.into())?;
    if bytes.is_null() && len > 0 {
        return None;
    }
    // SAFETY: `len` bytes are there, by the contract of this function; of none, nothing is read.
    let bytes = if len == 0 { &[][..] } else { unsafe { std::slice::from_raw_parts(bytes, len) } };
    Some((session, kind, bytes))
}

fn sent(result: Result<Sent, SessionError>) -> c_int {
    match result {
        Ok(Sent::Accepted) => HS_OK,
        Ok(Sent::Conflated) => 1,
        Err(error) => code(&error),
    }
}

/// Sends `len` bytes on a lane (0 to 63) of a kind (`HS_LATEST`, `HS_EVENT`, `HS_ORDERED`), waiting while too many messages
/// are on their way, as long as the session's patience is. 0: taken, 1: taken in place of an older value, negative: not taken, and
/// why.
///
/// # Safety
/// `session` is null or a session that is not closed; `bytes` points to `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hs_session_send(
    session: *const Session,
    lane: u8,
    kind: u8,
    key: u64,
    bytes: *const u8,
    len: usize,
) -> c_int {
    // SAFETY: by the contract of this function, which is the same.
    let outgoing = unsafe { outgoing(session, kind, bytes, len) };
    outgoing.map_or(HS_INVALID, |(session, kind, bytes)| sent(session.send(lane, kind, key, bytes)))
}

/// As `hs_session_send`, waiting up to `timeout_ms`: with 0, not at all, and `HS_FULL` is the answer then.
///
/// # Safety
/// `session` is null or a session that is not closed; `bytes` points to `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hs_session_send_within(
    session: *const Session,
    lane: u8,
    kind: u8,
    key: u64,
    bytes: *const u8,
    len: usize,
    timeout_ms: u32,
) -> c_int {
    // SAFETY: by the contract of this function, which is the same.
    let outgoing = unsafe { outgoing(session, kind, bytes, len) };
    let Some((session, kind, bytes)) = outgoing else { return HS_INVALID };
    sent(match timeout_ms {
        0 => session.try_send(lane, kind, key, bytes),
        _ => session.send_within(millis(timeout_ms), (lane, kind, key), bytes),
    })
}

/// As `hs_session_send`, without waiting: `HS_FULL` if too many messages are on their way.
///
/// # Safety
/// `session` is null or a session that is not closed; `bytes` points to `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hs_session_try_send(
    session: *const Session,
    lane: u8,
    kind: u8,
    key: u64,
    bytes: *const u8,
    len: usize,
) -> c_int {
    // SAFETY: by the contract of this function, which is the same.
    unsafe { hs_session_send_within(session, lane, kind, key, bytes, len, 0) }
}

/// Why the session is over for sending: 0 while it goes on. `unconfirmed`, if it is not null, gets the number of messages that were
/// taken and that the peer has not confirmed so far.
///
/// # Safety
/// `session` is null or a session that is not closed; `unconfirmed` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hs_session_ending(session: *const Session, unconfirmed: *mut u64) -> c_int {
    // SAFETY: null, or a session, by the contract of this function.
    let Some(session) = (unsafe { session.as_ref() }) else { return HS_INVALID };
    // SAFETY: null, or may be written, by the contract of this function.
    if let Some(unconfirmed) = unsafe { unconfirmed.as_mut() } {
        *unconfirmed = session.unconfirmed() as u64;
    }
    session.ending().map_or(HS_OK, |ending| over(ending.why))
}

/// A descriptor for poll() and its like: readable while there is something to receive, or the session is over. It belongs to the
/// session: it is not to be read, written or closed. Negative if there is none.
///
/// # Safety
/// `session` is null or a session that is not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hs_session_descriptor(session: *const Session) -> c_int {
    // SAFETY: null, or a session, by the contract of this function.
    let session = unsafe { session.as_ref() };
    session.and_then(|session| session.descriptor().ok()).unwrap_or(HS_INVALID)
}

/// Waits up to `timeout_ms` for a message and copies at most `capacity` bytes of it into `buffer`. Its length, which may be
/// more than `capacity`; `HS_TIMEOUT` if none came, and another negative code if none will: the session is over. With a timeout of 0 it
/// takes what is there. `lane` and `key` may be null.
///
/// # Safety
/// `session` is null or a session that is not closed; `buffer` has room for `capacity` bytes; `lane` and `key` are null or
/// may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hs_session_receive(
    session: *const Session,
    buffer: *mut u8,
    capacity: usize,
    lane: *mut u8,
    key: *mut u64,
    timeout_ms: u32,
) -> isize {
    // SAFETY: null, or a session, by the contract of this function.
    let Some(session) = (unsafe { session.as_ref() }) else { return HS_INVALID as isize };
    let Some(message) = session.receive_within(millis(timeout_ms)) else {
        return session.ending().map_or(HS_TIMEOUT, |ending| over(ending.why)) as isize;
    };
    let copied = if buffer.is_null() { 0 } else { message.bytes.len().min(capacity) };
    if copied > 0 {
        // SAFETY: not null, with room for `capacity` bytes, by the contract of this function; the two cannot overlap.
        unsafe { std::ptr::copy_nonoverlapping(message.bytes.as_ptr(), buffer, copied) };
    }
    // SAFETY: null, or may be written, by the contract of this function.
    if let Some(lane) = unsafe { lane.as_mut() } {
        *lane = message.lane;
    }
    // SAFETY: null, or may be written, by the contract of this function.
    if let Some(key) = unsafe { key.as_mut() } {
        *key = message.key;
    }
    message.bytes.len() as isize
}

/// Waits until the peer has everything, for two seconds at most, and ends the session. 0 if it has confirmed everything (it is in
/// the hands of its program, or kept for it) and answers still, or has left after it took it; `HS_UNCONFIRMED` if not, or if it died, for what
/// it had confirmed may have died with it. `hs_session_ending` says before how much is unconfirmed.
///
/// # Safety
/// `session` is null or a session, and is not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hs_session_close(session: *mut Session) -> c_int {
    if session.is_null() {
        return HS_INVALID;
    }
    // SAFETY: from `Box::into_raw`, and not used again, by the contract of this function.
    let session = unsafe { Box::from_raw(session) };
    if session.close() { HS_OK } else { HS_UNCONFIRMED }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ending::Ending;
    use headstart_core::realtime::FrameError;
    use std::collections::BTreeSet;

    fn text(code: c_int) -> &'static str {
        // SAFETY: a string that ends with a zero and is never freed.
        unsafe { CStr::from_ptr(hs_error_text(code)) }.to_str().unwrap()
    }

    #[test]
    fn every_end_and_every_error_has_its_code() {
        let ms = Duration::from_millis(1);
        let ends = [
            (Why::Closed, HS_CLOSED),
            (Why::Left { untaken: 1 }, HS_LEFT),
            (Why::Gone, HS_GONE),
            (Why::Lost(ms), HS_LOST),
            (Why::Silent(ms), HS_SILENT),
            (Why::Stranger(FrameError::Gone), HS_STRANGER),
        ];
        let over = ends.map(|(why, wanted)| (SessionError::Over(Ending { why, unconfirmed: 3 }), wanted));
        let unknown = Config { technique: "none such".into(), ..Config::default() }.settings().unwrap_err();
        let errors = [
            (SessionError::Connect(std::io::ErrorKind::NotFound.into()), HS_CONNECT),
            (SessionError::Technique(unknown), HS_TECHNIQUE),
            (SessionError::TimedOut, HS_TIMEOUT),
            (SessionError::Send(SendError::Full(0)), HS_FULL),
            (SessionError::Send(SendError::TooLong(1 << 20)), HS_TOO_LONG),
            (SessionError::Send(SendError::NoLane(99)), HS_INVALID),
        ];
        for (error, wanted) in over.into_iter().chain(errors) {
            assert_eq!((code(&error), sent(Err(error))), (wanted, wanted), "{}", text(wanted));
        }
        assert_eq!([sent(Ok(Sent::Accepted)), sent(Ok(Sent::Conflated))], [HS_OK, 1]);
        assert_eq!(millis(1500), Duration::from_millis(1500));
    }

    #[test]
    fn every_code_has_a_text_of_its_own_and_no_other_number_has_one() {
        let texts: BTreeSet<&str> = TEXTS.iter().map(|(code, _)| text(*code)).collect();
        assert_eq!(texts.len(), TEXTS.len());
        assert_eq!([text(HS_OK), text(HS_TIMEOUT), text(12_345)], ["it worked", "timed out", "an unknown code"]);
    }
}
