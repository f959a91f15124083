//! A connection inside, carried to a service outside, or the other way round: byte by byte, each half by itself, and a reset as a reset.

use crate::sys::netns::NetNs;
use rustix::net::sockopt;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Connections that are carried at a time, by two threads each; more are reset.
const MOST: usize = 1024;
/// Room for what is carried, and of a thread that has it on its stack.
const ROOM: usize = 64 * 1024;
const STACK: usize = 4 * ROOM;

/// How many connections are carried, and threads that wait until none is.
static CARRIED: (Mutex<usize>, Condvar) = (Mutex::new(0), Condvar::new());

/// One more, as long as it lives.
struct Permit;

impl Permit {
    fn take() -> Option<Self> {
        let mut carried = CARRIED.0.lock().unwrap_or_else(PoisonError::into_inner);
        (*carried < MOST).then(|| {
            *carried += 1;
            Self
        })
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        *CARRIED.0.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        CARRIED.1.notify_all();
    }
}

/// Waits until nothing is carried any more, but no longer than `patience`: what a program has said last is on its way when it has ended.
pub(super) fn settle(patience: Duration) {
    let carried = CARRIED.0.lock().unwrap_or_else(PoisonError::into_inner);
    let _ = CARRIED.1.wait_timeout_while(carried, patience, |carried| *carried > 0);
}

/// Accepts what waits, and carries it by threads of its own.
pub(super) fn accept(listener: &TcpListener) {
    while let Ok((inner, _)) = listener.accept() {
        let Some(permit) = Permit::take() else {
            reset(&inner);
            continue;
        };
        // The address that the program has asked for is this host's.
        let work = move || carry(&Arc::new(inner), |inner| TcpStream::connect(inner.local_addr()?), permit);
        // Where there is no thread left, it is closed.
        let _ = std::thread::Builder::new().name("loopback".into()).stack_size(STACK).spawn(work);
    }
}

/// Carries a connection from outside to the service at `to` in `inside`.
pub(in crate::forward) fn carry_inside(stream: TcpStream, inside: NetNs, to: SocketAddr) {
    let Some(permit) = Permit::take() else { return reset(&stream) };
    let connect = move |_: &TcpStream| {
        inside.enter()?;
        TcpStream::connect(to)
    };
    let work = move || carry(&Arc::new(stream), connect, permit);
    // Where there is no thread left, it is closed.
    let _ = std::thread::Builder::new().name("loopback".into()).stack_size(STACK).spawn(work);
}

/// Has what is closed next say so by a reset.
pub(in crate::forward) fn reset(stream: &TcpStream) {
    // Not of what it sends, which would be said to end in order.
    let _ = stream.shutdown(Shutdown::Read);
    let _ = sockopt::set_socket_linger(stream, Some(Duration::ZERO));
}

fn carry(inner: &Arc<TcpStream>, connect: impl FnOnce(&TcpStream) -> io::Result<TcpStream>, permit: Permit) {
    let Ok(outer) = connect(inner).map(Arc::new) else { return reset(inner) };
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
    drop(permit);
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
