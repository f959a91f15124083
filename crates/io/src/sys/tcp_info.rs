//! TCP_INFO: what the kernel knows of one of its TCP connections.
//!
//! Field offsets are those of `struct tcp_info` in linux/tcp.h, which only ever grows at its end. Reads only.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

/// A reading of TCP_INFO.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpInfo {
    /// State of the connection: TCP_ESTABLISHED = 1, TCP_CLOSE = 7 … (net/tcp_states.h).
    pub state: u8,
    /// Smoothed round-trip time (RFC 6298).
    pub rtt: Duration,
    /// Its mean deviation.
    pub rtt_var: Duration,
    /// The smallest round-trip time seen, if the kernel tells (4.6 and later).
    pub min_rtt: Option<Duration>,
    /// How long ago the last segment with an acknowledgement came, which is every one but a reset.
    pub last_ack_recv: Duration,
    /// Congestion window in segments.
    pub snd_cwnd: u32,
    /// Segments sent again so far.
    pub total_retrans: u32,
}

/// Reads TCP_INFO of `socket`.
pub fn tcp_info(socket: impl AsFd) -> io::Result<TcpInfo> {
    let mut bytes = [0u8; 256];
    let mut len = bytes.len() as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes into `bytes` and the number written into `len`.
    let rc = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            bytes.as_mut_ptr().cast(),
            &mut len,
        )
    };
    if rc != 0 {
        return Err(io::Error::last_os_error());
    }
    let len = len as usize;
    let word = |at: usize| {
        (at + 4 <= len).then(|| u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]))
    };
    let micros = |at: usize| word(at).map(|us| Duration::from_micros(u64::from(us)));
    Ok(TcpInfo {
        state: bytes[0],
        rtt: micros(68).unwrap_or_default(),
        rtt_var: micros(72).unwrap_or_default(),
        min_rtt: micros(148).filter(|d| d.as_micros() != u128::from(u32::MAX)),
        last_ack_recv: word(56).map_or(Duration::ZERO, |ms| Duration::from_millis(ms.into())),
        snd_cwnd: word(80).unwrap_or_default(),
        total_retrans: word(100).unwrap_or_default(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn a_loopback_connection_has_a_round_trip_time() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let info = tcp_info(&stream).unwrap();
        assert!(info.rtt > Duration::ZERO && info.snd_cwnd > 0 && info.state == 1, "{info:?}");
    }
}
