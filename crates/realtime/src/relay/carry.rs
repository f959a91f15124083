//! A program's stream over a session: its bytes in order, its end, and its breaking off.
//!
//! An empty message is the end of one direction. A session that ends without one has been broken off, and so is the program's
//! connection then, or when this process dies: a program never takes half of an answer for the whole.

use super::window::{OF_PROCESS, Window};
use crate::scratch;
use crate::session::{Lane, Message, Session};
use crate::tcp_options;
use headstart_core::realtime::Kind;
use std::future::{Future, poll_fn};
use std::io;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::net::tcp::ReadHalf;
use tokio::sync::watch;

/// The lane that the bytes go over.
const BYTES: u8 = 0;
/// Bytes in one message at most, so that it is a segment on every path but the narrowest.
const CHUNK: usize = 1200;

/// Bytes of a stream that wait for a program that takes them late, before no more is read: what a socket of its own would keep. Ours.
const UNTAKEN: usize = 64 << 10;

/// Whether a direction came to its end, or broke off.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Reached,
    Broken,
}

/// Carries the bytes of `stream` both ways over `session` until both directions are at their ends, either is broken off, or
/// `given_up` is.
pub(crate) async fn carry(mut stream: TcpStream, session: Session, given_up: impl Future<Output = ()>) {
    tcp_options::break_off(&stream, true);
    let (mut from, mut to) = stream.split();
    session.hold_at_most(UNTAKEN);
    session.expect(1, CHUNK);
    let lane = session.lane(BYTES, Kind::Ordered);
    let (tell, gone) = watch::channel(false);
    let (mut gone_for_back, mut gone_for_out) = (gone.clone(), gone);
    let out = outwards(&mut from, &session, &lane);
    let back = async {
        loop {
            let Some(message) = next(&session, &mut gone_for_back).await else { return End::Broken };
            if message.bytes.is_empty() {
                return if to.shutdown().await.is_ok() { End::Reached } else { End::Broken };
            }
            if to.write_all(&message.bytes).await.is_err() {
                return End::Broken;
            }
        }
    };
    let end = async {
        tokio::pin!(out, back);
        // The one that breaks is not made to wait for the other.
        tokio::select! {
            end = &mut out => if end == End::Broken { end } else { back.await },
            end = &mut back => if end == End::Broken { end } else {
                tokio::select! {
                    biased;
                    end = &mut out => end,
                    _ = gone_for_out.wait_for(|gone| *gone) => End::Broken,
                }
            },
        }
    };
    let watching = async {
        given_up.await;
        tell.send_replace(true);
        std::future::pending::<End>().await
    };
    let end = tokio::select! {
        end = end => end,
        end = watching => end,
    };
    tcp_options::break_off(&stream, end == End::Broken);
    drop(stream);
    if end == End::Reached {
        // A program that reads slowly may take its time for what the other has said, however long that one is gone: closing would wait
        // for two seconds. It is over when the session is.
        session.delivered().await;
    }
    session.close().await;
}

/// Sends over `lane` what `from` gives, its end included, while not too much is unconfirmed.
async fn outwards(from: &mut ReadHalf<'_>, session: &Session, lane: &Lane) -> End {
    let (mut chunk, mut window) = (Vec::new(), Window::new(&OF_PROCESS));
    loop {
        session.until_unconfirmed(|messages| window.has_room(messages)).await;
        if read(from, &mut chunk).await.is_err() || lane.send(&chunk).await.is_err() {
            return End::Broken;
        }
        if chunk.is_empty() {
            return End::Reached;
        }
        window.took(chunk.len());
        // What is idle holds nothing.
        chunk = Vec::new();
    }
}

/// The next bytes of a program, in place of what is in `chunk`; none at its end.
async fn read(from: &mut ReadHalf<'_>, chunk: &mut Vec<u8>) -> io::Result<()> {
    poll_fn(|cx| {
        scratch::poll_read(cx, from, CHUNK, |_, bytes| {
            chunk.clear();
            chunk.extend_from_slice(bytes);
        })
    })
    .await
    .map(drop)
}

/// The next message, while one is kept or may come.
///
/// The far side goes as soon as all that it said is kept here, so that comes first; without tokio's budget, which would make what
/// is there look as if it were not.
async fn next(session: &Session, gone: &mut watch::Receiver<bool>) -> Option<Message> {
    tokio::select! {
        biased;
        message = tokio::task::unconstrained(session.receive()) => message,
        _ = gone.wait_for(|gone| *gone) => None,
    }
}
