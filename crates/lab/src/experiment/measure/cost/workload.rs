//! The near and the far end of `measure-cost`: programs that load a forwarder in some way, and look meanwhile at the process that
//! has started them, which is the forwarder. Without one it is the lab's, and what is seen of it does not count.

use super::super::process::{Counts, megabytes};
use headstart_core::time::{Duration, Instant};
use headstart_io::clock::Clock;
use headstart_io::sys::tcp_info::tcp_info;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::{Value, json};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::parent_id;
use std::sync::mpsc;

/// What probes are asked for.
pub const CROWD: &str = "crowd";
/// See [`paced`].
pub const PACED: &str = "paced";
/// See [`parked`].
pub const PARKED: &str = "parked";

/// Bytes that a paced side gives to its socket at a time: as iperf3 does.
const PIECE: usize = 128 * 1024;
/// Bits in a second of a paced connection.
const RATE: f64 = 200e6;
/// What a connection's first byte asks the peer for: to read, to write at [`RATE`], to do nothing at all.
const UP: u8 = b'u';
const DOWN: u8 = b'd';
const NOTHING: u8 = b'n';
/// To read [`BEFORE`] and then nothing any more.
const A_WHILE: u8 = b'a';
/// What a peer reads before it reads nothing. 8 MiB: windows and buffers have grown by then as far as they do.
const BEFORE: u64 = 8 << 20;
/// How long nothing may go into a socket until it is full for good: what waits for a full socket is acknowledged after 100 ms.
const FULL: Duration = Duration::from_millis(700);
/// How long connections that were just opened are left alone: timers of 200 ms, and a name that is looked for, are over by then.
const SETTLED: Duration = Duration::from_secs(2);

/// As many descriptors as this process may have.
pub fn raise_limit() {
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}

/// Opens so many connections, leaves them alone for `millis`, and says how often the forwarder woke meanwhile.
pub fn crowd(to: SocketAddr, connections: u64, millis: u64) -> io::Result<Value> {
    raise_limit();
    let clock = Clock::new();
    let resident = || megabytes(parent_id(), "VmRSS:");
    let before = resident()?;
    let open = |_| {
        let mut stream = TcpStream::connect(to)?;
        stream.write_all(&[NOTHING]).map(|()| stream)
    };
    let streams = (0..connections).map(open).collect::<io::Result<Vec<_>>>()?;
    clock.sleep(SETTLED);
    let (start, first) = (clock.now(), Counts::of_parent()?);
    clock.sleep(Duration::from_millis(millis));
    let (took, last) = (clock.now().since(start).as_secs_f64(), Counts::of_parent()?);
    let held = resident()?;
    drop(streams);
    Ok(json!({
        "wake_ups_s": last.sleeps.saturating_sub(first.sleeps) as f64 / took, "resident_mb": held, "more_mb": held - before,
    }))
}

/// Sends or takes at `RATE` for `millis`, and says how much of a processor the forwarder had meanwhile.
pub fn paced(to: SocketAddr, up: bool, millis: u64) -> io::Result<Value> {
    let clock = Clock::new();
    let mut stream = TcpStream::connect(to)?;
    stream.write_all(&[if up { UP } else { DOWN }])?;
    let (start, first) = (clock.now(), Counts::of_parent()?);
    let until = start + Duration::from_millis(millis);
    let bytes = if up { give(&mut stream, &clock, until)? } else { take(&mut stream, &clock, until)? };
    let (took, last) = (clock.now().since(start).as_secs_f64(), Counts::of_parent()?);
    let percent = last.ran_since(first) / took * 100.0;
    Ok(json!({ "percent": percent, "took_s": took, "mbit_s": bytes as f64 * 8.0 / 1e6 / took }))
}

/// Writes pieces, each at its time, or as soon as the one before is gone.
fn give(stream: &mut TcpStream, clock: &Clock, until: Instant) -> io::Result<u64> {
    let (buffer, each) = (vec![7; PIECE], Duration::from_secs_f64(PIECE as f64 * 8.0 / RATE));
    let (mut at, mut bytes) = (clock.now(), 0);
    while at < until {
        stream.write_all(&buffer)?;
        bytes += PIECE as u64;
        at += each;
        clock.sleep_until(at);
    }
    Ok(bytes)
}

fn take(stream: &mut TcpStream, clock: &Clock, until: Instant) -> io::Result<u64> {
    let (mut buffer, mut bytes) = (vec![0; PIECE], 0);
    while clock.now() < until {
        match stream.read(&mut buffer)? {
            0 => break,
            len => bytes += len as u64,
        }
    }
    Ok(bytes)
}

/// Writes until nothing goes any more, to a peer that reads nothing, or nothing any more; how much it was since then, and how much
/// of it still waits in the program's own socket.
pub fn parked(to: SocketAddr, later: bool) -> io::Result<Value> {
    let clock = Clock::new();
    let mut stream = TcpStream::connect(to)?;
    stream.write_all(&[if later { A_WHILE } else { NOTHING }])?;
    let (buffer, mut bytes) = (vec![7; PIECE], 0);
    let before = if later { BEFORE } else { 0 };
    for _ in 0..before / PIECE as u64 {
        stream.write_all(&buffer)?;
    }
    stream.set_nonblocking(true)?;
    let mut last = clock.now();
    while clock.now().since(last) < FULL {
        match stream.write(&buffer) {
            Ok(len) => {
                bytes += len as u64;
                last = clock.now();
            }
            Err(e) if e.kind() == ErrorKind::WouldBlock => clock.sleep(Duration::from_millis(5)),
            Err(e) => return Err(e),
        }
    }
    // The SYN and the wish are acknowledged like the rest.
    let beyond = tcp_info(&stream)?.bytes_acked.map(|acked| acked.saturating_sub(2 + before).min(bytes));
    Ok(json!({ "bytes": bytes, "own": beyond.map(|beyond| bytes - beyond) }))
}

/// Does what the first byte of each connection asks for, for as long as it is listened to.
pub fn serve(listener: &TcpListener) {
    // A connection that wants nothing needs no thread: ten thousand of them are no load.
    let mut idle = Vec::new();
    let (kept, _keeper) = mpsc::channel();
    for mut stream in listener.incoming().map_while(Result::ok) {
        let mut wish = [0];
        match stream.read_exact(&mut wish).map(|()| wish[0]) {
            Ok(NOTHING) => idle.push(stream),
            Ok(A_WHILE) => {
                let kept = kept.clone();
                std::thread::spawn(move || {
                    let read = io::copy(&mut (&stream).take(BEFORE), &mut io::sink());
                    // Open and not read, for as long as it is listened to.
                    read.is_ok().then(|| kept.send(stream))
                });
            }
            Ok(wish) => _ = std::thread::spawn(move || move_data(stream, wish)),
            Err(_) => {}
        }
        // Connections that have ended make room.
        if idle.len() % 1000 == 0 {
            idle.retain(|stream| !has_ended(stream));
        }
    }
}

fn has_ended(stream: &TcpStream) -> bool {
    let ended = stream.set_nonblocking(true).and_then(|()| stream.peek(&mut [0]));
    let _ = stream.set_nonblocking(false);
    match ended {
        Ok(len) => len == 0,
        Err(e) => e.kind() != ErrorKind::WouldBlock,
    }
}

fn move_data(mut stream: TcpStream, wish: u8) -> io::Result<u64> {
    let clock = Clock::new();
    if wish == DOWN {
        return give(&mut stream, &clock, Instant::FAR_FUTURE);
    }
    let took = take(&mut stream, &clock, Instant::FAR_FUTURE)?;
    stream.shutdown(Shutdown::Write).map(|()| took)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server() -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let to = listener.local_addr().unwrap();
        std::thread::spawn(move || serve(&listener));
        to
    }

    #[test]
    fn a_paced_connection_carries_what_it_is_to_and_not_more() {
        for up in [true, false] {
            let said = paced(server(), up, 300).unwrap();
            let rate = said["mbit_s"].as_f64().unwrap();
            // One piece more than the time has room for, at most; a slow machine carries less.
            assert!(rate > 0.0 && rate <= 205.0 + 2.0 * PIECE as f64 * 8.0 / 1e6 / 0.3, "{said}");
            assert!(said["percent"].as_f64().unwrap() >= 0.0, "{said}");
        }
    }

    #[test]
    fn who_is_not_read_parks_what_the_kernel_takes() {
        for later in [false, true] {
            let said = parked(server(), later).unwrap();
            let (bytes, own) = (said["bytes"].as_u64().unwrap(), said["own"].as_u64());
            assert!(bytes > 100_000 && own.is_none_or(|own| own < bytes), "{said}");
        }
    }

    #[test]
    fn a_crowd_says_what_its_parent_did() {
        let said = crowd(server(), 20, 10).unwrap();
        assert!(said["wake_ups_s"].as_f64().unwrap() >= 0.0 && said["resident_mb"].as_f64().unwrap() > 0.0, "{said}");
    }
}
