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
    /// What both ends have agreed on: TCPI_OPT_TIMESTAMPS = 1, TCPI_OPT_SACK = 2 … (linux/tcp.h).
    pub options: u8,
    /// The most data of a segment.
    pub snd_mss: u32,
    /// How long an answer is waited for before something is retransmitted.
    pub rto: Duration,
    /// Smoothed round-trip time (RFC 6298).
    pub rtt: Duration,
    /// Its mean deviation.
    pub rtt_var: Duration,
    /// The smallest round-trip time seen, if the kernel tells (4.6 and later).
    pub min_rtt: Option<Duration>,
    /// How long ago the last segment with an acknowledgement came, which is every one but a reset.
    pub last_ack_recv: Duration,
    /// Segments sent that are not acknowledged.
    pub unacked: u32,
    /// Bytes that wait to be sent for the first time, if the kernel tells (4.6 and later).
    pub not_sent: Option<u32>,
    /// Congestion window in segments.
    pub snd_cwnd: u32,
    /// Segments retransmitted so far.
    pub total_retrans: u32,
    /// Segments sent so far, with and without data, if the kernel tells (4.2 and later).
    pub segs_out: Option<u32>,
    /// Segments that came in so far, likewise.
    pub segs_in: Option<u32>,
    /// Bytes that the peer has acknowledged so far, the SYN as one of them, if the kernel tells (4.1 and later).
    pub bytes_acked: Option<u64>,
    /// Bytes of payload sent so far, retransmissions included, if the kernel tells (4.19 and later).
    pub bytes_sent: Option<u64>,
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
    let long = |at: usize| (at + 8 <= len).then(|| u64::from_ne_bytes(std::array::from_fn(|k| bytes[at + k])));
    let micros = |at: usize| word(at).map(|us| Duration::from_micros(u64::from(us)));
    Ok(TcpInfo {
        state: bytes[0],
        options: bytes[5],
        snd_mss: word(16).unwrap_or_default(),
        rto: micros(8).unwrap_or_default(),
        rtt: micros(68).unwrap_or_default(),
        rtt_var: micros(72).unwrap_or_default(),
        min_rtt: micros(148).filter(|d| d.as_micros() != u128::from(u32::MAX)),
        last_ack_recv: word(56).map_or(Duration::ZERO, |ms| Duration::from_millis(ms.into())),
        unacked: word(24).unwrap_or_default(),
        not_sent: word(144),
        snd_cwnd: word(80).unwrap_or_default(),
        total_retrans: word(100).unwrap_or_default(),
        segs_out: word(136),
        segs_in: word(140),
        bytes_acked: long(120),
        bytes_sent: long(200),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn a_loopback_connection_has_a_round_trip_time() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let info = tcp_info(&stream).unwrap();
        assert!(info.rtt > Duration::ZERO && info.snd_cwnd > 0 && info.state == 1, "{info:?}");
    }

    #[test]
    fn what_is_sent_is_counted() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let before = tcp_info(&stream).unwrap();
        stream.write_all(&[7; 50]).unwrap();
        let after = tcp_info(&stream).unwrap();
        // Kernels before 4.19 tell nothing, of what is told each is as it was, and 50 bytes in a segment.
        assert_eq!(after.bytes_sent, before.bytes_sent.map(|bytes| bytes + 50));
        assert_eq!(after.segs_out, before.segs_out.map(|segments| segments + 1));
        assert!(after.segs_in >= before.segs_in);
        assert!(after.unacked <= 1 && after.not_sent.is_none_or(|bytes| bytes == 0), "{after:?}");
        // The peer's kernel may wait before it acknowledges.
        let acked = || tcp_info(&stream).unwrap().bytes_acked;
        while acked() < before.bytes_acked.map(|bytes| bytes + 50) {
            std::thread::yield_now();
        }
        assert_eq!(acked(), before.bytes_acked.map(|bytes| bytes + 50));
        assert_eq!(tcp_info(&stream).unwrap().unacked, 0);
        // More than the peer's kernel takes.
        stream.set_nonblocking(true).unwrap();
        while stream.write(&[7; 65536]).is_ok() {}
        let full = tcp_info(&stream).unwrap();
        assert!(full.not_sent.is_none_or(|bytes| bytes > 0), "{full:?}");
    }
}
