//! HTTP/3: streams of any bytes, in pieces, through the layer that bounds them into h3. What is taken in of each is bounded, and of all
//! requests together; what is refused is told so.

use h3::error::Code;
use h3::quic::{
    BidiStream, Connection, ConnectionErrorIncoming, OpenStreams, RecvStream, SendStream, StreamErrorIncoming,
    StreamId, WriteBuf,
};
use headstart_cli::rehearsal::{OF_CONTROL, OF_REQUEST, http3};
use hyper::body::Bytes;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

/// What became of a stream of the client's.
#[derive(Clone, Debug, Default)]
struct Seen {
    taken: u64,
    /// The largest piece: a bound may be passed by as much.
    piece: u64,
    refused: Option<u64>,
}

/// A stream of the client's.
#[derive(Debug)]
struct ClientStream {
    id: StreamId,
    pieces: VecDeque<Bytes>,
    /// All was said; otherwise it was reset.
    is_finished: bool,
    seen: Arc<Mutex<Seen>>,
}

impl RecvStream for ClientStream {
    type Buf = Bytes;

    fn poll_data(&mut self, _: &mut Context<'_>) -> Poll<Result<Option<Bytes>, StreamErrorIncoming>> {
        let Some(piece) = self.pieces.pop_front() else {
            let end = StreamErrorIncoming::StreamTerminated { error_code: Code::H3_REQUEST_CANCELLED.value() };
            return Poll::Ready(if self.is_finished { Ok(None) } else { Err(end) });
        };
        let mut seen = self.seen.lock().unwrap();
        assert_eq!(seen.refused, None, "what was refused is not read");
        seen.taken += piece.len() as u64;
        seen.piece = seen.piece.max(piece.len() as u64);
        Poll::Ready(Ok(Some(piece)))
    }

    fn stop_sending(&mut self, error_code: u64) {
        self.seen.lock().unwrap().refused.get_or_insert(error_code);
    }

    fn recv_id(&self) -> StreamId {
        self.id
    }
}

impl SendStream<Bytes> for ClientStream {
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        Poll::Ready(Ok(()))
    }

    fn send_data<T: Into<WriteBuf<Bytes>>>(&mut self, _: T) -> Result<(), StreamErrorIncoming> {
        Ok(())
    }

    fn poll_finish(&mut self, _: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        Poll::Ready(Ok(()))
    }

    fn reset(&mut self, _: u64) {}

    fn send_id(&self) -> StreamId {
        self.id
    }
}

impl BidiStream<Bytes> for ClientStream {
    type SendStream = ClientStream;
    type RecvStream = ClientStream;

    fn split(self) -> (ClientStream, ClientStream) {
        let answer = ClientStream { id: self.id, pieces: VecDeque::new(), is_finished: true, seen: Arc::default() };
        (answer, self)
    }
}

/// A client that has said all that it says.
#[derive(Debug, Default)]
struct Client {
    requests: VecDeque<ClientStream>,
    others: VecDeque<ClientStream>,
}

fn closed<T>() -> Poll<Result<T, ConnectionErrorIncoming>> {
    Poll::Ready(Err(ConnectionErrorIncoming::ApplicationClose { error_code: Code::H3_NO_ERROR.value() }))
}

impl Connection<Bytes> for Client {
    type RecvStream = ClientStream;
    type OpenStreams = Opener;

    fn poll_accept_recv(&mut self, _: &mut Context<'_>) -> Poll<Result<ClientStream, ConnectionErrorIncoming>> {
        // The connection ends by its requests.
        self.others.pop_front().map_or(Poll::Pending, |said| Poll::Ready(Ok(said)))
    }

    fn poll_accept_bidi(&mut self, _: &mut Context<'_>) -> Poll<Result<ClientStream, ConnectionErrorIncoming>> {
        self.requests.pop_front().map_or_else(closed, |said| Poll::Ready(Ok(said)))
    }

    fn opener(&self) -> Opener {
        Opener
    }
}

/// Streams of the server's, whose words are lost.
#[derive(Debug)]
struct Opener;

impl OpenStreams<Bytes> for Opener {
    type BidiStream = ClientStream;
    type SendStream = ClientStream;

    fn poll_open_bidi(&mut self, _: &mut Context<'_>) -> Poll<Result<ClientStream, StreamErrorIncoming>> {
        Poll::Pending
    }

    fn poll_open_send(&mut self, _: &mut Context<'_>) -> Poll<Result<ClientStream, StreamErrorIncoming>> {
        let id = StreamId::try_from(3).unwrap();
        Poll::Ready(Ok(ClientStream { id, pieces: VecDeque::new(), is_finished: true, seen: Arc::default() }))
    }

    fn close(&mut self, _: Code, _: &[u8]) {}
}

impl OpenStreams<Bytes> for Client {
    type BidiStream = ClientStream;
    type SendStream = ClientStream;

    fn poll_open_bidi(&mut self, cx: &mut Context<'_>) -> Poll<Result<ClientStream, StreamErrorIncoming>> {
        Opener.poll_open_bidi(cx)
    }

    fn poll_open_send(&mut self, cx: &mut Context<'_>) -> Poll<Result<ClientStream, StreamErrorIncoming>> {
        Opener.poll_open_send(cx)
    }

    fn close(&mut self, code: Code, reason: &[u8]) {
        Opener.close(code, reason);
    }
}

/// An integer of QUIC in the fewest bytes (RFC 9000, section 16).
fn integer(value: u32) -> Vec<u8> {
    match value {
        0..64 => vec![u8::try_from(value).unwrap()],
        64..16_384 => (0x4000 | u16::try_from(value).unwrap()).to_be_bytes().to_vec(),
        _ => (0x8000_0000 | value & 0x3fff_ffff).to_be_bytes().to_vec(),
    }
}

/// The head of a GET, by entries of QPACK's static table (RFC 9204, annex A): GET, https, and `/`; the authority `x`.
const HEAD: [u8; 8] = [0, 0, 0xc0 | 17, 0xc0 | 23, 0xc0 | 1, 0x50, 1, b'x'];

/// What a step adds to the stream that is being said.
fn piece([kind, a, b, c]: [u8; 4]) -> Vec<u8> {
    let many = usize::from(a) << (b % 9);
    match kind % 8 {
        0 => [vec![1], integer(8), HEAD.to_vec()].concat(),
        // A frame of any kind whose length is told, and that much of it, or less.
        1 => [vec![a], integer(u32::from(b) << (c % 16))].concat(),
        2 => vec![c; many],
        3 => [vec![0], integer(u32::try_from(many).unwrap()), vec![c; many]].concat(),
        // A frame of HEADERS that is longer than any head may be.
        4 => [vec![1], integer(1 << 29)].concat(),
        5 => vec![a, b, c],
        6 => vec![c; 16 * 1024],
        _ => [vec![4], integer(2), vec![a % 64, b % 64]].concat(),
    }
}

/// Plays a story, four bytes a step.
pub fn story(steps: &[[u8; 4]]) {
    let mut client = Client::default();
    let mut seen = Vec::new();
    let (mut requests, mut others) = (0u64, 0u64);
    let mut pieces = VecDeque::new();
    for step in steps {
        if step[0] < 192 {
            // QUIC hands over no piece without a byte.
            let piece = piece(*step);
            if !piece.is_empty() {
                pieces.push_back(Bytes::from(piece));
            }
            continue;
        }
        // What was said so far is a stream.
        let is_request = step[0] < 240;
        let mut said = std::mem::take(&mut pieces);
        let id = if is_request { requests * 4 } else { others * 4 + 2 };
        if is_request {
            requests += 1;
        } else {
            others += 1;
            // Its kind: control, push, one of QPACK's, or unknown.
            said.push_front(Bytes::from(integer(u32::from(step[1] % 8))));
        }
        let about = Arc::<Mutex<Seen>>::default();
        seen.push((is_request, about.clone()));
        let id = StreamId::try_from(id).unwrap();
        let said = ClientStream { id, pieces: said, is_finished: step[2] % 4 > 0, seen: about };
        if is_request { client.requests.push_back(said) } else { client.others.push_back(said) }
    }
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let heads = runtime.block_on(http3(client));
    assert!(heads as u64 <= requests);
    for (is_request, seen) in &seen {
        let seen = seen.lock().unwrap();
        let most = if *is_request { OF_REQUEST } else { OF_CONTROL };
        assert!(seen.taken <= most + seen.piece, "{seen:?}, at most {most}");
        if seen.taken > most {
            assert_eq!(seen.refused, Some(Code::H3_EXCESSIVE_LOAD.value()), "{seen:?}");
        }
    }
}
