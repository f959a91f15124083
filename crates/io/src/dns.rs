//! DNS transport: queries over UDP, one socket and random id each; when an answer does not fit, over TCP (RFC 7766) and over UDP with
//! EDNS (RFC 6891) at once. EDNS would be a round trip faster, but not every server understands it, some firewalls drop it, and the C
//! library does not use it: so no answer hangs on it, nor on a server that has no TCP.
//! The connector decides when and to which server to send; `core::wire::dns` says what an answer means.

use crate::forward::Exit;
use crate::poll::{Interest, Poll};
use crate::replies::Replies;
use headstart_core::connect::{LookupResult, QueryId};
use headstart_core::wire::dns::{Answer, BadName, decode_answer, encode_query, encode_query_with_edns};
use headstart_core::wire::record::RecordType;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, connect, recv, send, socket_with};
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;

/// The longest UDP answer that is read; more than was announced (1232) marks itself as truncated by the kernel.
const MAX_ANSWER: usize = 4096;
/// Messages read at a time, against a flood of forgeries; the rest waits until all other sources have been served.
const AT_A_TIME: usize = 32;

/// One question to one server.
#[derive(Debug)]
struct Exchange {
    query: QueryId,
    id: u16,
    name: Arc<str>,
    record: RecordType,
    server: SocketAddr,
    socket: OwnedFd,
    with_edns: bool,
    /// Asks the same in another way. What both come to counts, and the first answer.
    twin: Option<u64>,
    over_tcp: Option<Stream>,
    /// The answer, as it came.
    reply: Vec<u8>,
    /// Another server's answer is what holds.
    late: bool,
}

impl Exchange {
    fn message(&self) -> Result<Vec<u8>, BadName> {
        let encode = if self.with_edns { encode_query_with_edns } else { encode_query };
        encode(self.id, &self.name, self.record)
    }
}

/// A TCP exchange: what is still to be written, what has been read.
#[derive(Debug)]
struct Stream {
    unsent: Vec<u8>,
    received: Vec<u8>,
}

/// All questions under way.
#[derive(Debug, Default)]
pub struct Transport {
    open: BTreeMap<u64, Exchange>,
    next: u64,
    /// Messages that were no answer to what was asked (malformed, forged, late).
    pub ignored: u64,
    /// What servers said, by query.
    pub replies: Replies,
    /// How packets leave the host.
    pub(crate) exit: Rc<Exit>,
}

impl Transport {
    /// Sends a query for the records of `name` to `server`. Events of its socket come under `token(n)`, n for [`Self::event`].
    pub fn send(
        &mut self,
        poll: &Poll,
        token: impl Fn(u64) -> u64,
        query: QueryId,
        (name, record): (Arc<str>, RecordType),
        server: SocketAddr,
    ) -> Result<(), SendError> {
        let socket = open(server, SocketType::DGRAM, &self.exit)?;
        let (over_tcp, reply, twin) = (None, Vec::new(), None);
        let (id, with_edns, late) = (random_id(), false, false);
        self.begin(
            poll,
            token,
            Exchange { query, id, name, record, server, socket, with_edns, twin, over_tcp, reply, late },
        )
    }

    fn begin(&mut self, poll: &Poll, token: impl Fn(u64) -> u64, exchange: Exchange) -> Result<(), SendError> {
        send(&exchange.socket, &exchange.message()?, SendFlags::NOSIGNAL).map_err(io::Error::from)?;
        poll.add(&exchange.socket, token(self.next), Interest::Read)?;
        self.open.insert(self.next, exchange);
        self.next += 1;
        Ok(())
    }

    /// Something happened to exchange `n`; the outcome, if that was it. Refused is also what an ICMP error means.
    pub fn event(&mut self, poll: &Poll, token: impl Fn(u64) -> u64, n: u64) -> Option<(QueryId, LookupResult)> {
        let exchange = self.open.get_mut(&n)?;
        let is_first = exchange.over_tcp.is_none() && !exchange.with_edns;
        let answer = match &mut exchange.over_tcp {
            None => receive_datagram(exchange, &mut self.ignored),
            Some(_) => receive_stream(exchange, poll, token(n)),
        };
        let result = match answer {
            Ok(None) => return None,
            Ok(Some(Answer::Truncated)) if is_first && self.ask_for_all(poll, &token, n) => return None,
            Ok(Some(Answer::Addresses(list, ttl))) => LookupResult::Addresses(list, ttl),
            Ok(Some(Answer::Services(list, ttl))) => LookupResult::Services(list, ttl),
            Ok(Some(Answer::NoData(ttl))) => LookupResult::NoData(ttl),
            Ok(Some(Answer::NxDomain(ttl))) => LookupResult::NxDomain(ttl),
            Ok(Some(Answer::Refused | Answer::NotUnderstood | Answer::Truncated)) | Err(_) => LookupResult::Refused,
        };
        let exchange = self.open.remove(&n)?;
        match exchange.twin.filter(|twin| self.open.contains_key(twin)) {
            Some(_) if result == LookupResult::Refused => return None,
            Some(twin) => drop(self.open.remove(&twin)),
            None => {}
        }
        let query = exchange.query;
        // One server's refusal is not kept in place of what another has said.
        let is_kept = result != LookupResult::Refused || self.replies.get(query).is_none();
        if is_kept && !exchange.late && !exchange.reply.is_empty() {
            self.replies.keep(query, &exchange.reply);
        }
        Some((query, result))
    }

    /// Asks for the answer that did not fit as exchange `n`, over TCP and by a twin with EDNS. False if neither can be done.
    fn ask_for_all(&mut self, poll: &Poll, token: impl Fn(u64) -> u64, n: u64) -> bool {
        let Some(exchange) = self.open.get_mut(&n) else { return false };
        let twin = open(exchange.server, SocketType::DGRAM, &self.exit).ok().map(|socket| Exchange {
            id: random_id(),
            name: Arc::clone(&exchange.name),
            socket,
            with_edns: true,
            twin: Some(n),
            over_tcp: None,
            reply: Vec::new(),
            ..*exchange
        });
        let by_tcp = over_tcp(exchange, poll, token(n), &self.exit).is_ok();
        let number = self.next;
        let by_edns = twin.is_some_and(|twin| self.begin(poll, token, twin).is_ok());
        match self.open.get_mut(&n) {
            Some(exchange) if by_tcp => exchange.twin = by_edns.then_some(number),
            _ if by_edns => drop(self.open.remove(&n)),
            _ => {}
        }
        by_tcp || by_edns
    }

    /// The server of exchange `n`.
    pub fn server(&self, n: u64) -> Option<SocketAddr> {
        self.open.get(&n).map(|exchange| exchange.server)
    }

    /// No answer to `query` is awaited any more.
    pub fn forget(&mut self, query: QueryId) {
        self.open.retain(|_, e| e.query != query);
    }

    /// What is still answered to `query` is reported, and not kept.
    pub fn only_report(&mut self, query: QueryId) {
        self.open.values_mut().filter(|e| e.query == query).for_each(|e| e.late = true);
    }

    #[cfg(test)]
    fn is_empty(&self) -> bool {
        self.open.is_empty()
    }
}

/// Why a query could not be sent.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    /// The name cannot be asked.
    #[error(transparent)]
    BadName(#[from] BadName),
    /// The server cannot be sent to.
    #[error("a query could not be sent: {0}")]
    Io(#[from] io::Error),
}

fn random_id() -> u16 {
    let mut bytes = [0u8; 2];
    // The kernel's generator does not fail for two bytes once it is seeded, which it is before programs run.
    let _ = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
    u16::from_ne_bytes(bytes)
}

fn open(server: SocketAddr, kind: SocketType, exit: &Exit) -> io::Result<OwnedFd> {
    let family = if server.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = socket_with(family, kind, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC, None)?;
    exit.ready(&socket)?;
    match connect(&socket, &server) {
        Ok(()) | Err(rustix::io::Errno::INPROGRESS) => Ok(socket),
        Err(e) => Err(e.into()),
    }
}

fn receive_datagram(exchange: &mut Exchange, ignored: &mut u64) -> io::Result<Option<Answer>> {
    let mut buf = [0u8; MAX_ANSWER];
    for _ in 0..AT_A_TIME {
        match recv(&exchange.socket, &mut buf[..], RecvFlags::empty()) {
            Ok((_, n)) => {
                match decode_answer(&buf[..n.min(MAX_ANSWER)], exchange.id, &exchange.name, exchange.record) {
                    Ok(answer) => {
                        exchange.reply = buf[..n.min(MAX_ANSWER)].to_vec();
                        return Ok(Some(answer));
                    }
                    // Forged or broken: the true answer may still come.
                    Err(_) => *ignored += 1,
                }
            }
            Err(rustix::io::Errno::AGAIN) => return Ok(None),
            Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
    }
    Ok(None)
}

fn over_tcp(exchange: &mut Exchange, poll: &Poll, token: u64, exit: &Exit) -> io::Result<()> {
    let message = exchange.message().map_err(io::Error::other)?;
    let length = u16::try_from(message.len()).map_err(io::Error::other)?;
    let unsent = [&length.to_be_bytes()[..], &message].concat();
    poll.remove(&exchange.socket);
    exchange.socket = open(exchange.server, SocketType::STREAM, exit)?;
    poll.add(&exchange.socket, token, Interest::Write)?;
    exchange.over_tcp = Some(Stream { unsent, received: Vec::new() });
    Ok(())
}

fn receive_stream(exchange: &mut Exchange, poll: &Poll, token: u64) -> io::Result<Option<Answer>> {
    let Some(stream) = &mut exchange.over_tcp else { return Ok(None) };
    while !stream.unsent.is_empty() {
        match send(&exchange.socket, &stream.unsent, SendFlags::NOSIGNAL) {
            Ok(n) => drop(stream.unsent.drain(..n)),
            Err(rustix::io::Errno::AGAIN) => return Ok(None),
            Err(e) => return Err(e.into()),
        }
        if stream.unsent.is_empty() {
            poll.change(&exchange.socket, token, Interest::Read)?;
        }
    }
    let mut buf = [0u8; MAX_ANSWER];
    loop {
        match recv(&exchange.socket, &mut buf[..], RecvFlags::empty()) {
            Ok((_, 0)) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok((_, n)) => stream.received.extend_from_slice(&buf[..n]),
            Err(rustix::io::Errno::AGAIN) => return Ok(None),
            Err(e) => return Err(e.into()),
        }
        if let Some((length, rest)) = stream.received.split_first_chunk::<2>() {
            let length = usize::from(u16::from_be_bytes(*length));
            if let Some(message) = rest.get(..length) {
                let answer = decode_answer(message, exchange.id, &exchange.name, exchange.record);
                exchange.reply = message.to_vec();
                return answer.map(Some).map_err(io::Error::other);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;
    use headstart_core::time::Duration;
    use std::io::{Read, Write};
    use std::net::{IpAddr, TcpListener, UdpSocket};

    /// The answer to `query` with one A record, or with the truncation bit.
    fn answer(query: &[u8], truncated: bool) -> Vec<u8> {
        let question_end = 12 + query[12..].iter().position(|b| *b == 0).unwrap() + 5;
        let mut m = query[..question_end].to_vec();
        m[2] = 0x81 | if truncated { 0x02 } else { 0 };
        m[3] = 0x80;
        m[6..12].copy_from_slice(&[0, u8::from(!truncated), 0, 0, 0, 0]);
        if !truncated {
            m.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 192, 0, 2, 9]);
        }
        m
    }

    fn ask(server: SocketAddr, serve: impl FnOnce() + Send) -> (Option<(QueryId, LookupResult)>, u64) {
        let clock = Clock::new();
        let mut poll = Poll::new().unwrap();
        let mut transport = Transport::default();
        let question = (Arc::from("www.example"), RecordType::A);
        transport.send(&poll, |n| n, QueryId(5), question, server).unwrap();
        std::thread::scope(|s| {
            s.spawn(serve);
            let mut tokens = Vec::new();
            let until = clock.now() + Duration::from_secs(20);
            while clock.now() < until {
                poll.wait(&clock, Some(until), &mut tokens).unwrap();
                for n in tokens.clone() {
                    if let Some(result) = transport.event(&poll, |n| n, n) {
                        assert!(transport.is_empty());
                        return (Some(result), transport.ignored);
                    }
                }
            }
            (None, transport.ignored)
        })
    }

    /// Sockets for UDP and TCP on one port, of which another program may have one.
    fn both() -> (UdpSocket, TcpListener) {
        let pair = || {
            let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
            let tcp = TcpListener::bind(udp.local_addr().unwrap()).ok()?;
            Some((udp, tcp))
        };
        std::iter::repeat_with(pair).take(1000).flatten().next().expect("a port that is free for both")
    }

    fn found() -> Option<(QueryId, LookupResult)> {
        let addr = IpAddr::from([192, 0, 2, 9]);
        Some((QueryId(5), LookupResult::Addresses(vec![addr], Duration::from_secs(60))))
    }

    #[test]
    fn the_true_answer_is_taken_after_garbage_and_forgeries_were_not() {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        let addr = server.local_addr().unwrap();
        let (result, ignored) = ask(addr, move || {
            let mut buf = [0u8; 512];
            let (n, peer) = server.recv_from(&mut buf).unwrap();
            let good = answer(&buf[..n], false);
            let mut forged = good.clone();
            forged[0] ^= 0xff;
            for message in [&b"garbage"[..], &forged, &good] {
                server.send_to(message, peer).unwrap();
            }
        });
        assert_eq!((result, ignored), (found(), 2));
    }

    #[test]
    fn a_truncated_answer_is_fetched_over_tcp() {
        let (udp, tcp) = both();
        let addr = udp.local_addr().unwrap();
        let (result, _) = ask(addr, move || {
            let mut buf = [0u8; 512];
            let (n, peer) = udp.recv_from(&mut buf).unwrap();
            udp.send_to(&answer(&buf[..n], true), peer).unwrap();
            let (mut stream, _) = tcp.accept().unwrap();
            let mut head = [0u8; 2];
            stream.read_exact(&mut head).unwrap();
            let mut query = vec![0; usize::from(u16::from_be_bytes(head))];
            stream.read_exact(&mut query).unwrap();
            let whole = answer(&query, false);
            // In two pieces, since streams come as they like.
            let framed = [&(whole.len() as u16).to_be_bytes()[..], &whole].concat();
            stream.write_all(&framed[..7]).unwrap();
            stream.flush().unwrap();
            stream.write_all(&framed[7..]).unwrap();
            let _ = stream.read(&mut head);
        });
        assert_eq!(result, found());
    }

    /// What a server does with a question that comes over TCP, or with EDNS.
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Asked {
        Answers,
        Truncates,
        Refuses,
        Drops,
    }

    /// The outcome of a question to a server that truncates what it answers over UDP without EDNS.
    fn ask_one_that_truncates(by_tcp: Asked, by_edns: Asked) -> Option<(QueryId, LookupResult)> {
        let (udp, tcp) = both();
        let addr = udp.local_addr().unwrap();
        let serve = move || {
            let mut buf = [0u8; 512];
            let (n, peer) = udp.recv_from(&mut buf).unwrap();
            assert_eq!(buf[11], 0, "the first question has no additional record");
            udp.send_to(&answer(&buf[..n], true), peer).unwrap();
            let (mut stream, _) = tcp.accept().unwrap();
            let (n, peer) = udp.recv_from(&mut buf).unwrap();
            assert_eq!(buf[11], 1, "the second has EDNS");
            match by_edns {
                Asked::Answers | Asked::Truncates => {
                    udp.send_to(&answer(&buf[..n], by_edns == Asked::Truncates), peer).unwrap();
                }
                // FORMERR, as by servers that cannot repeat the question.
                Asked::Refuses => {
                    udp.send_to(&[buf[0], buf[1], 0x81, 0x81, 0, 0, 0, 0, 0, 0, 0, 0], peer).unwrap();
                }
                Asked::Drops => {}
            }
            let n = stream.read(&mut buf).unwrap();
            if [Asked::Answers, Asked::Truncates].contains(&by_tcp) && n > 2 {
                let whole = answer(&buf[2..n], by_tcp == Asked::Truncates);
                let _ = stream.write_all(&[&(whole.len() as u16).to_be_bytes()[..], &whole].concat());
            }
            if by_tcp != Asked::Refuses {
                // Until the other side has what it wants.
                let _ = stream.read(&mut buf);
            }
        };
        ask(addr, serve).0
    }

    #[test]
    fn what_does_not_fit_hangs_neither_on_edns_nor_on_tcp() {
        let every = [Asked::Answers, Asked::Truncates, Asked::Refuses, Asked::Drops];
        for (by_tcp, by_edns) in every.into_iter().flat_map(|by_tcp| every.map(|by_edns| (by_tcp, by_edns))) {
            let expected = match (by_tcp, by_edns) {
                (Asked::Answers, _) | (_, Asked::Answers) => found(),
                // Until the connector has had enough.
                (Asked::Drops, _) | (_, Asked::Drops) => continue,
                _ => Some((QueryId(5), LookupResult::Refused)),
            };
            assert_eq!(ask_one_that_truncates(by_tcp, by_edns), expected, "TCP {by_tcp:?}, EDNS {by_edns:?}");
        }
    }

    #[test]
    fn a_server_that_understands_nothing_has_refused() {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        let addr = server.local_addr().unwrap();
        let (result, _) = ask(addr, move || {
            let mut buf = [0u8; 512];
            let (_, peer) = server.recv_from(&mut buf).unwrap();
            server.send_to(&[buf[0], buf[1], 0x81, 0x84, 0, 0, 0, 0, 0, 0, 0, 0], peer).unwrap();
        });
        assert_eq!(result, Some((QueryId(5), LookupResult::Refused)));
    }

    #[test]
    fn what_comes_late_is_reported_and_not_kept() {
        for late in [false, true] {
            let server = UdpSocket::bind("127.0.0.1:0").unwrap();
            let (mut poll, mut transport) = (Poll::new().unwrap(), Transport::default());
            let asked = ("a.example".into(), RecordType::A);
            transport.send(&poll, |n| n, QueryId(5), asked, server.local_addr().unwrap()).unwrap();
            transport.replies.keep(QueryId(5), b"another's");
            if late {
                transport.only_report(QueryId(5));
            }
            let mut buf = [0u8; 512];
            let (n, peer) = server.recv_from(&mut buf).unwrap();
            server.send_to(&answer(&buf[..n], false), peer).unwrap();
            poll.wait(&Clock::new(), None, &mut Vec::new()).unwrap();
            assert_eq!(transport.event(&poll, |n| n, 0), found());
            assert_eq!(transport.replies.get(QueryId(5)) == Some(&b"another's"[..]), late);
        }
    }

    #[test]
    fn a_server_that_is_not_there_has_refused() {
        let addr = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        assert_eq!(ask(addr, || {}).0, Some((QueryId(5), LookupResult::Refused)));
    }
}
