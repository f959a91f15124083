//! A client of `headstart serve` that does anything, over a stream in memory, in HTTP/1.1 or HTTP/2. Whatever the story: answers come in
//! order and are whole, no stream has more than its client gave it credit for, a connection whose client is gone ends, and then it holds
//! nothing any more.

use headstart_cli::rehearsal::Server;
use std::future::poll_fn;
use std::path::Path;
use std::pin::Pin;
use std::sync::LazyLock;
use std::task::Poll;
use tokio::io::{AsyncRead as _, AsyncWrite as _, DuplexStream, ReadBuf};

#[path = "http1.rs"]
pub mod http1;
#[path = "http2.rs"]
pub mod http2;

/// What is served: the folder that this is built in, of which one file is asked for.
static FOLDER: LazyLock<Server> = LazyLock::new(|| Server::of(Path::new(env!("CARGO_MANIFEST_DIR"))).unwrap());
static FILE: LazyLock<Vec<u8>> =
    LazyLock::new(|| std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml")).unwrap());
const NAME: &str = "/Cargo.toml";

/// Bytes that are on the way each way at most: less than an answer, so that it waits for its client.
const PIPE: usize = 2048;
/// Turns that a server may take without a word, of 200 µs but for the first; for the slowest machine.
const PATIENCE: usize = 100_000;

/// A client at its end of the stream.
pub struct Client {
    stream: DuplexStream,
    /// What is to be written.
    queue: Vec<u8>,
    /// What was read.
    read: Vec<u8>,
    /// The server has closed.
    ended: bool,
}

impl Client {
    fn new(stream: DuplexStream) -> Self {
        Self { stream, queue: Vec::new(), read: Vec::new(), ended: false }
    }

    /// Writes as much of so many bytes as there is room for; how many were.
    async fn write(&mut self, most: usize) -> usize {
        let bytes = &self.queue[..most.min(self.queue.len())];
        if bytes.is_empty() {
            return 0;
        }
        let stream = &mut self.stream;
        let written = poll_fn(|cx| Poll::Ready(Pin::new(&mut *stream).poll_write(cx, bytes))).await;
        let written = match written {
            Poll::Ready(Ok(written)) => written,
            // It has closed: what is left goes nowhere.
            Poll::Ready(Err(_)) => self.queue.len(),
            Poll::Pending => 0,
        };
        self.queue.drain(..written);
        written
    }

    /// Reads so many bytes at most of what has come; how many.
    async fn read(&mut self, most: usize) -> usize {
        let mut bytes = [0; PIPE];
        let mut into = ReadBuf::new(&mut bytes[..most.min(PIPE)]);
        let stream = &mut self.stream;
        let read = poll_fn(|cx| Poll::Ready(Pin::new(&mut *stream).poll_read(cx, &mut into))).await;
        let came = into.filled().len();
        self.read.extend_from_slice(into.filled());
        self.ended |= read.is_ready() && came == 0 && most > 0;
        came
    }

    /// Says that no more comes.
    async fn close(&mut self) {
        let stream = &mut self.stream;
        let _ = poll_fn(|cx| Poll::Ready(Pin::new(&mut *stream).poll_shutdown(cx))).await;
    }

    /// Writes what is left and reads, until what has come is enough or the server has closed. A server that owes something and does nothing
    /// more is what this looks for.
    async fn finish(&mut self, mut enough: impl FnMut(&Self) -> bool) {
        let mut idle = 0;
        while !self.ended && !enough(self) {
            let moved = self.write(PIPE).await + self.read(PIPE).await;
            idle = if moved == 0 { idle + 1 } else { 0 };
            assert!(idle < PATIENCE, "the server owes something, and nothing comes");
            breathe(idle).await;
        }
    }
}

/// Lets others have their turn; a thread that looks up a file wants more than that.
async fn breathe(idle: usize) {
    match idle {
        0..20 => tokio::task::yield_now().await,
        _ => tokio::time::sleep(std::time::Duration::from_micros(200)).await,
    }
}

/// Plays a story of a connection: `client` does what it does, and the server must end behind it.
fn play(is_http2: bool, client: impl AsyncFnOnce(&mut Client, &Server)) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().max_blocking_threads(1).build().unwrap();
    // One after the other where tests run side by side: what is held is counted.
    static ONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let server: &Server = &FOLDER;
    runtime.block_on(async {
        let (near, far) = tokio::io::duplex(PIPE);
        let mut near = Client::new(near);
        let whole = async {
            tokio::join!(server.connection(far, is_http2), async {
                client(&mut near, server).await;
                drop(near);
            });
            // Streams of HTTP/2 are tasks of their own, and lookups threads.
            let mut turns = 0;
            while server.held() != (0, 0) {
                assert!(turns < PATIENCE, "a connection that has ended holds {:?}", server.held());
                breathe(turns).await;
                turns += 1;
            }
        };
        tokio::select! {
            () = whole => {}
            () = server.turns() => {}
        }
    });
}
