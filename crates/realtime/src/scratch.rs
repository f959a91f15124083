//! One buffer a thread to read into, so that a connection that is idle holds none.

use std::cell::RefCell;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, ReadBuf};

/// Bytes read at once: what a record of TLS holds (RFC 8446, section 5.1).
const READ: usize = 16 * 1024;

thread_local! {
    static SCRATCH: RefCell<Vec<u8>> = RefCell::new(vec![0; READ]);
}

/// Reads what there is and gives it to `take`, which must not read itself; nothing: the stream is at its end.
pub(crate) fn poll_read<T>(
    cx: &mut Context<'_>,
    from: &mut (impl AsyncRead + Unpin),
    most: usize,
    take: impl FnOnce(&mut Context<'_>, &[u8]) -> T,
) -> Poll<io::Result<T>> {
    SCRATCH.with_borrow_mut(|scratch| {
        let mut buffer = ReadBuf::new(&mut scratch[..most.min(READ)]);
        ready!(Pin::new(from).poll_read(cx, &mut buffer))?;
        Poll::Ready(Ok(take(cx, buffer.filled())))
    })
}
