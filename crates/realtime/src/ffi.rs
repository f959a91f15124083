//! The C interface, of which cbindgen makes `include/headstart_realtime.h` (`tests/header.rs`). Calls wait, as in
//! [`crate::blocking`].
//!
//! A pointer that C gives is taken at its word only as far as the header promises; null is always an error, never a crash. No
//! panic crosses into C: nothing here panics on what C can do right, and the release profile's unwinding stops at `extern "C"`
//! by aborting.

use crate::blocking::{Listener, Session};
use crate::session::Config;
use headstart_core::realtime::{Kind, Sent};
use std::ffi::{CStr, c_char, c_int};
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

/// What a call returns when it did not work.
const FAILED: c_int = -1;

/// The text behind `text`, if it is one.
fn string(text: *const c_char) -> Option<String> {
    if text.is_null() {
        return None;
    }
    // SAFETY: not null, and the header asks for a string that ends with a zero.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str().ok().map(str::to_owned)
}

fn boxed<T>(value: Option<T>) -> *mut T {
    value.map_or(std::ptr::null_mut(), |value| Box::into_raw(Box::new(value)))
}

/// Connects to `address` ("host:port") with a technique (null: the default) and an interval in microseconds (0: unknown).
/// Null if that failed.
#[unsafe(no_mangle)]
pub extern "C" fn hs_session_connect(
    address: *const c_char,
    technique: *const c_char,
    interval_us: u32,
) -> *mut Session {
    let interval = (interval_us > 0).then(|| Duration::from_micros(interval_us.into()));
    let mut config = Config { interval, ..Config::default() };
    if let Some(technique) = string(technique) {
        config.technique = technique;
    }
    boxed(string(address).and_then(|address| Session::connect(&address, config).ok()))
}

/// Listens on `address` ("host:port", port 0: any). Null if that failed.
#[unsafe(no_mangle)]
pub extern "C" fn hs_listener_bind(address: *const c_char) -> *mut Listener {
    boxed(string(address).and_then(|address| Listener::bind(&address).ok()))
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

/// Waits for the next session. Null if there will be none.
///
/// # Safety
/// `listener` is null or from [`hs_listener_bind`], and not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hs_listener_accept(listener: *const Listener) -> *mut Session {
    // SAFETY: null, or a listener, by the contract of this function.
    let listener = unsafe { listener.as_ref() };
    boxed(listener.and_then(Listener::accept))
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

/// Sends `len` bytes on a lane (0 to 63) of a kind (`HS_LATEST`, `HS_EVENT`, `HS_ORDERED`), waiting while too many messages
/// are on their way. 0: taken, 1: taken in place of an older value, -1: not taken.
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
    // SAFETY: null, or a session, by the contract of this function.
    let session = unsafe { session.as_ref() };
    let (Some(session), Some(kind)) = (session, Kind::of_code(kind.into())) else { return FAILED };
    if bytes.is_null() && len > 0 {
        return FAILED;
    }
    // SAFETY: `len` bytes are there, by the contract of this function; of none, nothing is read.
    let bytes = if len == 0 { &[][..] } else { unsafe { std::slice::from_raw_parts(bytes, len) } };
    match session.send(lane, kind, key, bytes) {
        Ok(Sent::Accepted) => 0,
        Ok(Sent::Conflated) => 1,
        Err(_) => FAILED,
    }
}

/// Waits up to `timeout_ms` for a message and copies at most `capacity` bytes of it into `buffer`. Its length, which may be
/// more than `capacity`; -1 if none came. `lane` and `key` may be null.
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
    let session = unsafe { session.as_ref() };
    let message = session.and_then(|session| session.receive_within(Duration::from_millis(timeout_ms.into())));
    let Some(message) = message else { return -1 };
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

/// Waits until the peer has everything, for two seconds at most, and ends the session. 0 if it has, -1 if not.
///
/// # Safety
/// `session` is null or a session, and is not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hs_session_close(session: *mut Session) -> c_int {
    if session.is_null() {
        return FAILED;
    }
    // SAFETY: from `Box::into_raw`, and not used again, by the contract of this function.
    let session = unsafe { Box::from_raw(session) };
    if session.close() { 0 } else { FAILED }
}
