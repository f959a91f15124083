//! TLS of a relay towards its clients, without a buffer while nothing is on its way.
//!
//! rustls' ordinary connections keep 4 KiB to read into, each for as long as it lasts; a relay has tens of thousands that say
//! something now and then. So the same state machines are used without buffers (`rustls::unbuffered`): what comes in is read
//! into one buffer a thread, and only what is left of it (half of a record, what is not taken) is kept.

use crate::keys::{self, PublicKey};
use rustls::ServerConfig;
use rustls::server::{ServerConnectionData, UnbufferedServerConnection};
use rustls::unbuffered::{ConnectionState, EncodeError, EncryptError, UnbufferedStatus, WriteTraffic};
use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Bytes of a program in one record at most (RFC 8446, section 5.1).
const RECORD: usize = 16 * 1024;
/// What a record has besides: header, type, tag of the cipher (RFC 8446, section 5.2).
const AROUND: usize = 5 + 1 + 16;
/// Read at once, with what was left of the last time: two records of the longest kind.
const READ: usize = 2 * (RECORD + 256 + 5);

thread_local! {
    static SCRATCH: RefCell<Vec<u8>> = RefCell::new(vec![0; READ]);
}

/// The relay's side of a connection.
pub(super) struct Records<S> {
    stream: S,
    tls: UnbufferedServerConnection,
    /// Came in, and is no whole record yet.
    incoming: Vec<u8>,
    /// Decrypted, and taken so far.
    plain: Vec<u8>,
    taken: usize,
    /// Encrypted, and written so far.
    outgoing: Vec<u8>,
    written: usize,
    /// The peer has said that nothing more comes.
    ended: bool,
    /// This side has.
    closing: bool,
}

/// What is done when TLS may send, in [`Records::process`].
type Sending = fn(WriteTraffic<'_, ServerConnectionData>, &mut Vec<u8>) -> io::Result<()>;

fn broken(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

impl<S: AsyncRead + AsyncWrite + Unpin> Records<S> {
    /// Shakes hands with a client.
    pub async fn accept(config: Arc<ServerConfig>, stream: S) -> io::Result<Self> {
        let tls = UnbufferedServerConnection::new(config).map_err(broken)?;
        let mut records = Self {
            stream,
            tls,
            incoming: Vec::new(),
            plain: Vec::new(),
            taken: 0,
            outgoing: Vec::new(),
            written: 0,
            ended: false,
            closing: false,
        };
        poll_fn(|cx| records.poll_handshake(cx)).await?;
        Ok(records)
    }

    /// The key of the client.
    pub fn client(&self) -> Option<PublicKey> {
        self.tls.peer_certificates()?.first().and_then(|spki| keys::read_spki(spki))
    }

    fn poll_handshake(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            ready!(self.poll_out(cx))?;
            if !self.tls.is_handshaking() {
                return Poll::Ready(Ok(()));
            }
            if self.ended {
                return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
            }
            ready!(self.poll_in(cx))?;
        }
    }

    /// Writes what is encrypted.
    fn poll_out(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.written < self.outgoing.len() {
            match ready!(Pin::new(&mut self.stream).poll_write(cx, &self.outgoing[self.written..]))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                n => self.written += n,
            }
        }
        (self.outgoing, self.written) = (Vec::new(), 0);
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    /// Reads once, and decrypts what that makes whole.
    fn poll_in(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        SCRATCH.with_borrow_mut(|scratch| {
            let left = self.incoming.len();
            if left == scratch.len() {
                return Poll::Ready(Err(broken("a record that is too long")));
            }
            let mut buffer = ReadBuf::new(&mut scratch[left..]);
            ready!(Pin::new(&mut self.stream).poll_read(cx, &mut buffer))?;
            let came = buffer.filled().len();
            if came == 0 {
                return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
            }
            scratch[..left].copy_from_slice(&self.incoming);
            let bytes = &mut scratch[..left + came];
            let result = self.process(bytes, None::<Sending>);
            // Why it failed is told, where that can be done at once.
            let used = result.inspect_err(|_| {
                let _ = self.poll_out(cx);
            })?;
            self.incoming = bytes[used..].to_vec();
            Poll::Ready(Ok(()))
        })
    }

    /// Lets the machine work on what has come in, until it wants more or may send, which is when `send` is called. How many bytes
    /// are done with.
    fn process<F>(&mut self, bytes: &mut [u8], mut send: Option<F>) -> io::Result<usize>
    where
        F: FnOnce(WriteTraffic<'_, ServerConnectionData>, &mut Vec<u8>) -> io::Result<()>,
    {
        let mut used = 0;
        loop {
            let Self { tls, plain, outgoing, ended, .. } = self;
            let UnbufferedStatus { mut discard, state, .. } = tls.process_tls_records(&mut bytes[used..]);
            let goes_on = match state {
                Ok(ConnectionState::ReadTraffic(mut traffic)) => {
                    while let Some(record) = traffic.next_record() {
                        let record = record.map_err(broken)?;
                        discard += record.discard;
                        plain.extend_from_slice(record.payload);
                    }
                    true
                }
                Ok(ConnectionState::EncodeTlsData(mut data)) => {
                    append(outgoing, AROUND, |room| match data.encode(room) {
                        Ok(n) => Ok(n),
                        Err(EncodeError::InsufficientSize(short)) => Err(Some(short.required_size)),
                        Err(EncodeError::AlreadyEncoded) => Err(None),
                    })?;
                    true
                }
                // It is in `outgoing`, before whatever comes later.
                Ok(ConnectionState::TransmitTlsData(data)) => {
                    data.done();
                    true
                }
                Ok(ConnectionState::PeerClosed) => {
                    *ended = true;
                    true
                }
                Ok(ConnectionState::WriteTraffic(traffic)) => {
                    if let Some(send) = send.take() {
                        send(traffic, outgoing)?;
                    }
                    false
                }
                Ok(ConnectionState::BlockedHandshake | ConnectionState::Closed) => false,
                Ok(_) => return Err(broken("early data, which is not supported")),
                Err(error) => {
                    self.tell_why(&mut bytes[used + discard..]);
                    return Err(broken(error));
                }
            };
            used += discard;
            if !goes_on {
                return Ok(used);
            }
        }
    }

    /// Puts the alert that tells of a failure into what is to be written; `bytes` are those that were not done with. One is all that
    /// there is, and the machine is not to look at them a third time.
    fn tell_why(&mut self, bytes: &mut [u8]) {
        if let Ok(ConnectionState::EncodeTlsData(mut data)) = self.tls.process_tls_records(bytes).state {
            // Without it the peer sees a connection that ends.
            let _ = append(&mut self.outgoing, AROUND, |room| match data.encode(room) {
                Ok(n) => Ok(n),
                Err(EncodeError::InsufficientSize(short)) => Err(Some(short.required_size)),
                Err(EncodeError::AlreadyEncoded) => Err(None),
            });
        }
    }

    /// Encrypts something: what `seal` makes of a buffer.
    fn seal(
        &mut self,
        room: usize,
        mut seal: impl FnMut(&mut WriteTraffic<'_, ServerConnectionData>, &mut [u8]) -> Result<usize, EncryptError>,
    ) -> io::Result<()> {
        // What was left of the last read is looked at again, for the machine may have its place in it.
        let mut incoming = std::mem::take(&mut self.incoming);
        let mut sealed = false;
        let used = self.process(
            &mut incoming,
            Some(|mut traffic: WriteTraffic<'_, _>, outgoing: &mut Vec<u8>| {
                sealed = true;
                append(outgoing, room, |room| match seal(&mut traffic, room) {
                    Ok(n) => Ok(n),
                    Err(EncryptError::InsufficientSize(short)) => Err(Some(short.required_size)),
                    Err(EncryptError::EncryptExhausted) => Err(None),
                })
            }),
        )?;
        incoming.drain(..used);
        self.incoming = incoming;
        if sealed { Ok(()) } else { Err(io::ErrorKind::NotConnected.into()) }
    }
}

/// Appends what `write` makes, which says by how much it was short of room, or that it never will.
fn append(
    to: &mut Vec<u8>,
    room: usize,
    mut write: impl FnMut(&mut [u8]) -> Result<usize, Option<usize>>,
) -> io::Result<()> {
    let (before, mut room) = (to.len(), room);
    loop {
        to.resize(before + room, 0);
        match write(&mut to[before..]) {
            Ok(n) => {
                to.truncate(before + n);
                return Ok(());
            }
            Err(Some(required)) if required > room => room = required,
            Err(_) => {
                to.truncate(before);
                return Err(broken("TLS has no more data"));
            }
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Records<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        loop {
            if this.taken < this.plain.len() {
                let n = into.remaining().min(this.plain.len() - this.taken);
                into.put_slice(&this.plain[this.taken..this.taken + n]);
                this.taken += n;
                if this.taken == this.plain.len() {
                    (this.plain, this.taken) = (Vec::new(), 0);
                }
                return Poll::Ready(Ok(()));
            }
            if this.ended {
                return Poll::Ready(Ok(()));
            }
            ready!(this.poll_in(cx))?;
            // An answer of TLS itself need not be waited for.
            if let Poll::Ready(Err(error)) = this.poll_out(cx) {
                return Poll::Ready(Err(error));
            }
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Records<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        ready!(this.poll_out(cx))?;
        let some = &bytes[..bytes.len().min(RECORD)];
        this.seal(some.len() + AROUND, |traffic, room| traffic.encrypt(some, room))?;
        match this.poll_out(cx) {
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            _ => Poll::Ready(Ok(some.len())),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_out(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if !std::mem::replace(&mut this.closing, true) {
            this.seal(AROUND + 2, |traffic, room| traffic.queue_close_notify(room))?;
        }
        ready!(this.poll_out(cx))?;
        Pin::new(&mut this.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::SecretKey;
    use rustls::pki_types::ServerName;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
    use tokio_rustls::TlsConnector;
    use tokio_rustls::client::TlsStream;

    /// A client and the relay's side, over a stream that holds `room` bytes; the client is known, or not.
    async fn pair(
        room: usize,
        known: bool,
    ) -> (io::Result<TlsStream<DuplexStream>>, io::Result<Records<DuplexStream>>) {
        let [relay, client, other] = [(); 3].map(|()| SecretKey::generate().unwrap());
        let listed = if known { &client } else { &other };
        let config = keys::server(&relay, [listed.public().unwrap()].into_iter().collect()).unwrap();
        let connector = TlsConnector::from(keys::client(&client, relay.public().unwrap()).unwrap());
        let (near, far) = tokio::io::duplex(room);
        let name = ServerName::try_from("relay").unwrap();
        tokio::join!(connector.connect(name, near), Records::accept(config, far))
    }

    fn noise(len: u32) -> Vec<u8> {
        (0..len).map(|k| (k.wrapping_mul(k) >> 7) as u8).collect()
    }

    #[tokio::test]
    async fn bytes_go_both_ways_however_they_are_cut_and_the_end_is_told() {
        for room in [7, 1000, 1 << 20] {
            let (client, relay) = pair(room, true).await;
            let (mut client, mut relay) = (client.unwrap(), relay.unwrap());
            let sent = noise(100_000);
            let expected = sent.clone();
            let there = tokio::spawn(async move {
                client.write_all(&sent).await.unwrap();
                client.shutdown().await.unwrap();
                let mut back = Vec::new();
                client.read_to_end(&mut back).await.unwrap();
                back
            });
            let mut got = Vec::new();
            relay.read_to_end(&mut got).await.unwrap();
            assert!(got == expected);
            relay.write_all(&got).await.unwrap();
            relay.shutdown().await.unwrap();
            assert!(there.await.unwrap() == expected);
        }
    }

    #[tokio::test]
    async fn what_is_idle_holds_nothing() {
        // Also where what is written is longer than the stream takes at once.
        for room in [7, 1 << 20] {
            let (client, relay) = pair(room, true).await;
            let (mut client, mut relay) = (client.unwrap(), relay.unwrap());
            let mut bytes = [0; 5];
            let there = tokio::spawn(async move {
                client.write_all(b"hello").await.unwrap();
                client.flush().await.unwrap();
                client.read_exact(&mut bytes).await.unwrap();
                assert_eq!(&bytes, b"hello");
                client
            });
            relay.read_exact(&mut bytes).await.unwrap();
            relay.write_all(&bytes).await.unwrap();
            relay.flush().await.unwrap();
            let held = [&relay.incoming, &relay.plain, &relay.outgoing].map(Vec::capacity);
            assert_eq!(held, [0; 3]);
            there.await.unwrap();
        }
    }

    #[tokio::test]
    async fn who_is_not_listed_is_told_so() {
        let (client, relay) = pair(1 << 20, false).await;
        assert!(relay.is_err());
        // A client of TLS 1.3 is done before the relay has judged it.
        let told = client.unwrap().read_u8().await.unwrap_err();
        assert!(told.get_ref().is_some_and(|why| why.is::<rustls::Error>()), "{told}");
    }

    #[tokio::test]
    async fn foreign_bytes_are_an_error_and_never_a_panic() {
        let key = SecretKey::generate().unwrap();
        let (near, mut far) = tokio::io::duplex(1 << 16);
        let client = TlsConnector::from(keys::client(&key, key.public().unwrap()).unwrap());
        let mut given_up = vec![0; 4096];
        let greeted = tokio::select! {
            _ = client.connect(ServerName::try_from("relay").unwrap(), near) => panic!("there is no relay"),
            n = far.read(&mut given_up) => n.unwrap(),
        };
        given_up.truncate(greeted);
        given_up.extend_from_slice(&[21, 3, 3, 0, 2, 2, 80]);
        for words in [
            &given_up[..],
            &b"GET / HTTP/1.1\r\n\r\n"[..],
            &[22, 3, 1, 0xff, 0xff],
            &[22, 3, 1, 0, 5, 1, 0, 0, 1, 0],
            &[22, 3, 3, 0, 4, 1, 0, 0, 0, 22, 3, 3, 0, 4, 1, 0, 0, 0],
            &[21, 3, 3, 0, 2, 2, 80],
            &[23, 3, 3, 0, 1, 0],
            &[0; 300],
        ] {
            let config = keys::server(&key, [key.public().unwrap()].into_iter().collect()).unwrap();
            let (mut near, far) = tokio::io::duplex(1 << 16);
            near.write_all(words).await.unwrap();
            near.shutdown().await.unwrap();
            assert!(Records::accept(config, far).await.is_err(), "{words:?}");
        }
    }

    #[tokio::test]
    async fn an_end_without_a_word_is_an_error() {
        let (client, relay) = pair(1 << 20, true).await;
        drop(client.unwrap().into_inner());
        let mut relay = relay.unwrap();
        let cut = relay.read_u8().await.unwrap_err();
        assert_eq!(cut.kind(), io::ErrorKind::UnexpectedEof);
        assert!(relay.write(b"x").await.is_err(), "nothing takes it");
    }
}
