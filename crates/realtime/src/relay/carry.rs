//! A program's stream over a session: its bytes in order, its end, and its breaking off.
//!
//! An empty message is the end of one direction. A session that ends without one has been broken off, and so is the program's
//! connection then, or when this process dies: a program never takes half of an answer for the whole.

use crate::scratch;
use crate::session::Session;
use crate::tcp_options;
use headstart_core::realtime::Kind;
use std::future::{Future, poll_fn};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

/// The lane that the bytes go over.
const BYTES: u8 = 0;
/// Bytes in one message at most, so that it is a segment on every path but the narrowest.
const CHUNK: usize = 1200;

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
    let lane = session.lane(BYTES, Kind::Ordered);
    let out = async {
        let mut chunk = Vec::new();
        loop {
            let read = poll_fn(|cx| {
                scratch::poll_read(cx, &mut from, CHUNK, |_, bytes| {
                    chunk.clear();
                    chunk.extend_from_slice(bytes);
                })
            });
            if read.await.is_err() || lane.send(&chunk).await.is_err() {
                return End::Broken;
            }
            if chunk.is_empty() {
                return End::Reached;
            }
            // What is idle holds nothing.
            chunk = Vec::new();
        }
    };
    let back = async {
        while let Some(message) = session.receive().await {
            if message.bytes.is_empty() {
                return if to.shutdown().await.is_ok() { End::Reached } else { End::Broken };
            }
            if to.write_all(&message.bytes).await.is_err() {
                return End::Broken;
            }
        }
        End::Broken
    };
    let end = async {
        tokio::pin!(out, back);
        // The one that breaks is not made to wait for the other.
        tokio::select! {
            end = &mut out => if end == End::Broken { end } else { back.await },
            end = &mut back => if end == End::Broken { end } else { out.await },
        }
    };
    let end = tokio::select! {
        end = end => end,
        () = given_up => End::Broken,
    };
    tcp_options::break_off(&stream, end == End::Broken);
    drop(stream);
    session.close().await;
}
