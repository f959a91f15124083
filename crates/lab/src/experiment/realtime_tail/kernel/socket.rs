//! Sockets of TCP as the experiment wants them: CUBIC, no delay, of an age that acknowledges late or at once, and counted.

use crate::lock;
use crate::sim::tcp::Stack;
use headstart_io::sys::socket_option::{Value, set};
use headstart_io::sys::tcp_info::tcp_info;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// IPPROTO_TCP and TCP_QUICKACK of linux/tcp.h.
const QUICK_ACK: (i32, i32) = (6, 12);
/// IPv4, TCP and its timestamps.
const HEADERS: u64 = 52;
/// A handshake that takes longer has lost a packet, and leaves a window of one segment (RFC 5681, section 3.1): Linux sends a
/// SYN again after a second.
const HANDSHAKE: std::time::Duration = std::time::Duration::from_millis(900);

/// What sockets have carried so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Packets out, acknowledgements included.
    pub packets: u64,
    /// Their bytes of IP.
    pub bytes: u64,
    /// Packets in.
    pub back: u64,
}

/// The sockets of one way of sending.
#[derive(Clone, Debug, Default)]
pub struct Counter(Arc<Mutex<Vec<OwnedFd>>>);

impl Counter {
    fn watch(&self, socket: impl AsFd) -> io::Result<()> {
        let copy = socket.as_fd().try_clone_to_owned()?;
        lock(&self.0).push(copy);
        Ok(())
    }

    /// What they have carried.
    pub fn traffic(&self) -> Traffic {
        let sockets = lock(&self.0);
        sockets.iter().filter_map(|socket| tcp_info(socket).ok()).fold(Traffic::default(), |sum, info| {
            let packets = u64::from(info.segs_out.unwrap_or_default());
            Traffic {
                packets: sum.packets + packets,
                bytes: sum.bytes + packets * HEADERS + info.bytes_sent.unwrap_or_default(),
                back: sum.back + u64::from(info.segs_in.unwrap_or_default()),
            }
        })
    }
}

/// A connection that acknowledges as its age does.
#[derive(Debug)]
pub struct Stream {
    inner: TcpStream,
    delays_acks: bool,
}

impl Stream {
    /// One that was accepted.
    pub fn accepted(inner: TcpStream, stack: Stack) -> io::Result<Self> {
        inner.set_nodelay(true)?;
        // Where the namespace's default is another and this one is not allowed, the other it is.
        let _ = rustix::net::sockopt::set_tcp_congestion(&inner, crate::netns::PREFERRED_CONGESTION_CONTROL);
        let stream = Self { inner, delays_acks: stack.delays_acks };
        stream.delay_acks();
        Ok(stream)
    }

    /// One to that address, whose handshake lost nothing.
    pub async fn connect(to: SocketAddr, stack: Stack, counter: &Counter) -> io::Result<Self> {
        loop {
            if let Ok(stream) = tokio::time::timeout(HANDSHAKE, TcpStream::connect(to)).await {
                let stream = stream?;
                counter.watch(&stream)?;
                return Self::accepted(stream, stack);
            }
        }
    }

    /// The kernel leaves this mode by itself when it sees fit, so it is set again after each read.
    fn delay_acks(&self) {
        if self.delays_acks {
            set(&self.inner, QUICK_ACK, &Value::of_int(0));
        }
    }
}

impl AsyncRead for Stream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let result = ready!(Pin::new(&mut self.inner).poll_read(cx, into));
        self.delay_acks();
        Poll::Ready(result)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}
