//! `headstart measure serve`: the other end of measurements, with bounds on the number, rate and duration of connections. No address keeps
//! others out: places are given as those of `serve` are.

use super::speech::{CHUNK, DOWN, ECHO, HELLO, MESSAGE, UP};
use crate::accept::{self, cannot_listen};
use crate::exit::{self, Usage};
use crate::output::{self, Format};
use crate::serve::places::{Place, Places};
use headstart_core::time::Duration;
use headstart_io::clock::Clock;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;

/// Arguments of `headstart measure serve`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Address to listen on.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:7700")]
    listen: SocketAddr,
    /// Maximum duration of a connection, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    longest: u64,
    /// Maximum rate of a connection, in Mbit/s.
    #[arg(long, value_name = "MBIT", default_value_t = 10_000)]
    most: u64,
    /// Maximum number of connections; when all are taken, the address with most loses one to a newcomer.
    #[arg(long, value_name = "N", default_value_t = 64)]
    connections: usize,
    #[command(flatten)]
    format: Format,
}

/// What a connection may have.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    longest: Duration,
    bytes_a_second: f64,
}

/// Serves until it is ended.
pub fn run(args: &Args) -> anyhow::Result<u8> {
    for (flag, is_none) in
        [("--longest", args.longest == 0), ("--most", args.most == 0), ("--connections", args.connections == 0)]
    {
        if is_none {
            return Err(Usage(format!("{flag} 0: must be at least 1")).into());
        }
    }
    let listener = TcpListener::bind(args.listen).map_err(|why| cannot_listen(args.listen, "--listen", &why))?;
    let address = listener.local_addr()?;
    if args.format.json {
        output::document(1, serde_json::json!({ "address": address.to_string(), "pid": std::process::id() }));
    } else {
        crate::complain!("headstart: listening on {address}");
    }
    let bounds = Bounds { longest: Duration::from_secs(args.longest), bytes_a_second: args.most as f64 * 1e6 / 8.0 };
    let places = Places::new(args.connections, 0);
    listener.set_nonblocking(true)?;
    // A thread each: a rate is kept by sleeping less than a timer of the runtime can.
    let runtime =
        tokio::runtime::Builder::new_current_thread().max_blocking_threads(args.connections).enable_all().build()?;
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let admit = |_: &tokio::net::TcpStream, from: SocketAddr| places.enter(from.ip());
        accept::admitted(listener, admit, std::future::pending(), move |stream, place| {
            connection(stream, place, bounds)
        })
        .await;
        Ok(exit::OK)
    })
}

/// Serves one connection, until another needs its place.
async fn connection(stream: tokio::net::TcpStream, place: Arc<Place>, bounds: Bounds) {
    // What fails is this connection alone.
    let Ok(stream) = stream.into_std().and_then(|stream| stream.set_nonblocking(false).map(|()| Arc::new(stream)))
    else {
        return;
    };
    let (served, moving) = (Arc::clone(&stream), Arc::clone(&place));
    let mut serving = tokio::task::spawn_blocking(move || serve(&served, bounds, || moving.has_moved()));
    tokio::select! {
        _ = &mut serving => {}
        () = place.must_leave() => {
            let _ = stream.shutdown(Shutdown::Both);
            let _ = serving.await;
        }
    }
}

fn serve(mut stream: &TcpStream, bounds: Bounds, has_moved: impl Fn()) -> io::Result<()> {
    stream.set_read_timeout(Some(bounds.longest))?;
    stream.set_write_timeout(Some(bounds.longest))?;
    let clock = Clock::new();
    let is_over = || clock.now().as_nanos() > u64::try_from(bounds.longest.as_nanos()).unwrap_or(u64::MAX);
    let mut hello = [0; 8];
    stream.read_exact(&mut hello)?;
    if hello[..7] != HELLO {
        return Ok(());
    }
    let mut buffer = vec![7; CHUNK];
    let mut bytes = 0u64;
    match hello[7] {
        ECHO => {
            while !is_over() {
                stream.read_exact(&mut buffer[..MESSAGE])?;
                has_moved();
                stream.write_all(&buffer[..MESSAGE])?;
            }
        }
        DOWN => {
            while !is_over() {
                stream.write_all(&buffer)?;
                has_moved();
                bytes += buffer.len() as u64;
                clock.sleep_until(due(bytes, bounds));
            }
        }
        UP => {
            while !is_over() {
                match stream.read(&mut buffer)? {
                    0 => break,
                    len => bytes += len as u64,
                }
                has_moved();
                clock.sleep_until(due(bytes, bounds));
            }
            stream.write_all(&bytes.to_be_bytes())?;
        }
        _ => {}
    }
    Ok(())
}

/// When so many bytes may have passed.
fn due(bytes: u64, bounds: Bounds) -> headstart_core::time::Instant {
    headstart_core::time::Instant::ZERO + Duration::from_secs_f64(bytes as f64 / bounds.bytes_a_second)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(wish: u8, bounds: Bounds) -> TcpStream {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut here = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (there, _) = listener.accept().unwrap();
        std::thread::spawn(move || serve(&there, bounds, || {}));
        let mut hello = [0; 8];
        hello[..7].copy_from_slice(&HELLO);
        hello[7] = wish;
        here.write_all(&hello).unwrap();
        here
    }

    const WIDE: Bounds = Bounds { longest: Duration::from_secs(60), bytes_a_second: 1e12 };

    #[test]
    fn messages_come_back_and_what_came_is_counted() {
        let mut stream = ask(ECHO, WIDE);
        let mut back = [0; MESSAGE];
        stream.write_all(&[9; MESSAGE]).unwrap();
        stream.read_exact(&mut back).unwrap();
        assert_eq!(back, [9; MESSAGE]);
        let mut stream = ask(UP, WIDE);
        stream.write_all(&[1; 100_000]).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut count = [0; 8];
        stream.read_exact(&mut count).unwrap();
        assert_eq!(u64::from_be_bytes(count), 100_000);
    }

    #[test]
    fn who_says_something_else_gets_nothing() {
        let mut stream = ask(b'?', WIDE);
        assert_eq!(stream.read(&mut [0; 10]).unwrap(), 0);
    }

    #[test]
    fn a_connection_ends_when_its_time_is_over_and_has_no_more_than_its_rate() {
        let bounds = Bounds { longest: Duration::from_millis(300), bytes_a_second: 1e6 };
        let mut stream = ask(DOWN, bounds);
        let mut all = Vec::new();
        stream.read_to_end(&mut all).unwrap();
        // 300 kB, and the chunk that was begun.
        assert!(!all.is_empty() && all.len() <= 300_000 + 2 * CHUNK, "{}", all.len());
    }
}
