//! A connection inside, carried to a service outside: byte by byte, each half by itself, and a reset as a reset.

use rustix::net::sockopt;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Connections that are carried at a time, by two threads each; more are reset.
const MOST: usize = 1024;
/// Room for what is carried, and of a thread that has it on its stack.
const ROOM: usize = 64 * 1024;
const STACK: usize = 4 * ROOM;

/// How many there are.
static CARRIED: AtomicUsize = AtomicUsize::new(0);

/// One more, as long as it lives.
struct Place;

impl Place {
    fn take() -> Option<Self> {
        let taken = CARRIED.fetch_add(1, Ordering::Relaxed);
        let place = Self;
        (taken < MOST).then_some(place)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        CARRIED.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Accepts what waits, and carries it by threads of its own.
pub(super) fn accept(listener: &TcpListener) {
    while let Ok((inner, _)) = listener.accept() {
        let Some(place) = Place::take() else {
            reset(&inner);
            continue;
        };
        let work = move || carry(&Arc::new(inner), place);
        // Where there is no thread left, it is closed.
        let _ = std::thread::Builder::new().name("loopback".into()).stack_size(STACK).spawn(work);
    }
}

/// Has what is closed next say so by a reset.
fn reset(stream: &TcpStream) {
    // Not of what it sends, which would be said to end in order.
    let _ = stream.shutdown(Shutdown::Read);
    let _ = sockopt::set_socket_linger(stream, Some(Duration::ZERO));
}

fn carry(inner: &Arc<TcpStream>, place: Place) {
    // The address that the program has asked for is this host's.
    let outer = inner.local_addr().and_then(TcpStream::connect);
    let Ok(outer) = outer.map(Arc::new) else { return reset(inner) };
    for stream in [inner, &outer] {
        let _ = stream.set_nodelay(true);
        // What was accepted is as its listener: it does not wait.
        let _ = stream.set_nonblocking(false);
    }
    let (from, to) = (Arc::clone(&outer), Arc::clone(inner));
    let back = std::thread::Builder::new().name("loopback".into()).stack_size(STACK).spawn(move || copy(&from, &to));
    copy(inner, &outer);
    // It ends when both halves have.
    match back {
        Ok(back) => _ = back.join(),
        Err(_) => reset(inner),
    }
    drop(place);
}

/// Carries one half until it ends.
fn copy(mut from: &TcpStream, mut to: &TcpStream) {
    let mut room = [0; ROOM];
    loop {
        match from.read(&mut room) {
            Ok(0) => {
                let _ = to.shutdown(Shutdown::Write);
                return;
            }
            Ok(len) => {
                if to.write_all(&room[..len]).is_err() {
                    // The reader is gone: the writer is reset, as it would be without us.
                    return reset(from);
                }
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return reset(to),
        }
    }
}
