//! A peer by quiche: peer client CASE URL BYTES CERTIFICATE, or peer server CASE PORT FOLDER CERTIFICATE KEY.
//!
//! A client says nothing and ends with 0 if all came as it should. quiche changes no keys by itself.

use quiche::h3::{self, Event, Header, NameValue};
use quiche::{Config, Connection, ConnectionId, RecvInfo};
use std::collections::HashMap;
use std::io::{ErrorKind, Read};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::Duration;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

const REQUESTS: usize = 1000;
const AT_ONCE: usize = 10;
const ROOM: u64 = 16 << 20;
const LARGEST: usize = 65_536;
const DATAGRAM: usize = 1350;
/// BoringSSL's ssl_early_data_accepted.
const ACCEPTED: u32 = 2;

fn config() -> Result<Config> {
    let mut config = Config::new(quiche::PROTOCOL_VERSION)?;
    config.set_application_protos(h3::APPLICATION_PROTOCOL)?;
    config.verify_peer(false);
    config.enable_early_data();
    config.set_max_idle_timeout(30_000);
    config.set_max_recv_udp_payload_size(LARGEST);
    config.set_max_send_udp_payload_size(DATAGRAM);
    config.set_initial_max_data(ROOM);
    config.set_initial_max_stream_data_bidi_local(ROOM);
    config.set_initial_max_stream_data_bidi_remote(ROOM);
    config.set_initial_max_stream_data_uni(ROOM);
    config.set_initial_max_streams_bidi(100);
    config.set_initial_max_streams_uni(100);
    Ok(config)
}

fn random_id() -> Result<ConnectionId<'static>> {
    let mut id = vec![0; quiche::MAX_CONN_ID_LEN];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut id)?;
    Ok(ConnectionId::from_vec(id))
}

struct Line {
    socket: UdpSocket,
    local: SocketAddr,
    buffer: Vec<u8>,
}

impl Line {
    fn new(port: u16) -> Result<Self> {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, port))?;
        Ok(Self { local: socket.local_addr()?, socket, buffer: vec![0; LARGEST] })
    }

    fn send(&mut self, connection: &mut Connection) -> Result<()> {
        loop {
            match connection.send(&mut self.buffer[..DATAGRAM]) {
                Ok((length, way)) => drop(self.socket.send_to(&self.buffer[..length], way.to)?),
                Err(quiche::Error::Done) => return Ok(()),
                Err(why) => return Err(why.into()),
            }
        }
    }

    fn receive(&mut self, limit: Option<Duration>) -> Result<Option<(usize, SocketAddr)>> {
        let limit = limit.unwrap_or(Duration::from_secs(1)).max(Duration::from_millis(1));
        self.socket.set_read_timeout(Some(limit))?;
        match self.socket.recv_from(&mut self.buffer) {
            Ok(came) => Ok(Some(came)),
            Err(why) if [ErrorKind::WouldBlock, ErrorKind::TimedOut].contains(&why.kind()) => Ok(None),
            Err(why) => Err(why.into()),
        }
    }

    fn feed(&mut self, connection: &mut Connection, (length, from): (usize, SocketAddr)) -> Result<()> {
        match connection.recv(&mut self.buffer[..length], RecvInfo { from, to: self.local }) {
            Ok(_) | Err(quiche::Error::Done) => Ok(()),
            Err(why) => Err(why.into()),
        }
    }
}

fn is_due(connection: &Connection) -> bool {
    connection.timeout() == Some(Duration::ZERO)
}

/// Requests over one connection, and what has come of each.
struct Fetch<'a> {
    url: &'a str,
    bytes: usize,
    left: usize,
    open: HashMap<u64, (bool, usize)>,
    early: bool,
}

impl Fetch<'_> {
    fn ask(&mut self, http: &mut h3::Connection, connection: &mut Connection) -> Result<()> {
        let (authority, path) = self.url.trim_start_matches("https://").split_once('/').ok_or("no path")?;
        let path = format!("/{path}");
        let fields = [(":method", "GET"), (":scheme", "https"), (":authority", authority), (":path", &path)];
        let fields = fields.map(|(name, value)| Header::new(name.as_bytes(), value.as_bytes()));
        while self.left > 0 && self.open.len() < AT_ONCE {
            match http.send_request(connection, &fields, true) {
                Ok(stream) => drop(self.open.insert(stream, (false, 0))),
                Err(h3::Error::StreamBlocked | h3::Error::TransportError(quiche::Error::StreamLimit)) => break,
                Err(why) => return Err(why.into()),
            }
            self.left -= 1;
            self.early |= !connection.is_established();
        }
        Ok(())
    }

    fn hear(&mut self, http: &mut h3::Connection, connection: &mut Connection, buffer: &mut [u8]) -> Result<()> {
        loop {
            let (stream, event) = match http.poll(connection) {
                Ok(told) => told,
                Err(h3::Error::Done) => return Ok(()),
                Err(why) => return Err(why.into()),
            };
            let Some((is_good, came)) = self.open.get_mut(&stream) else { continue };
            match event {
                Event::Headers { list, .. } => {
                    *is_good = list.iter().any(|field| field.name() == b":status" && field.value() == b"200");
                }
                Event::Data => {
                    while let Ok(length) = http.recv_body(connection, stream, buffer) {
                        *came += length;
                    }
                }
                Event::Finished if *is_good && *came == self.bytes => drop(self.open.remove(&stream)),
                Event::Finished => return Err(format!("good: {is_good}, {came} of {} bytes", self.bytes).into()),
                Event::Reset(code) => return Err(format!("reset with {code}").into()),
                _ => {}
            }
        }
    }

    /// Fetches all, and returns what a later connection needs to be early.
    fn run(mut self, line: &mut Line, config: &mut Config, known: Option<&[u8]>, is_kept: bool) -> Result<Vec<u8>> {
        let server = self.url.trim_start_matches("https://").split('/').next().ok_or("no host")?.parse()?;
        let mut connection = quiche::connect(Some("localhost"), &random_id()?, line.local, server, config)?;
        if let Some(known) = known {
            connection.set_session(known)?;
        }
        let (mut http, mut body) = (None, vec![0; LARGEST]);
        loop {
            line.send(&mut connection)?;
            if http.is_none() && (connection.is_established() || connection.is_in_early_data()) {
                http = Some(h3::Connection::with_transport(&mut connection, &h3::Config::new()?)?);
            }
            if let Some(http) = &mut http {
                self.hear(http, &mut connection, &mut body)?;
                self.ask(http, &mut connection)?;
            }
            let has_session = !is_kept || connection.session().is_some();
            if self.left == 0 && self.open.is_empty() && has_session && connection.is_established() {
                break;
            }
            line.send(&mut connection)?;
            if connection.is_closed() {
                return Err(format!("closed: {:?}, {:?}", connection.peer_error(), connection.local_error()).into());
            }
            if let Some(came) = line.receive(connection.timeout())? {
                line.feed(&mut connection, came)?;
            }
            if is_due(&connection) {
                connection.on_timeout();
            }
        }
        if known.is_some() && !(self.early && connection.early_data_reason() == ACCEPTED) {
            return Err("the request was not taken with the first packet".into());
        }
        // H3_NO_ERROR (RFC 9114, section 8.1).
        connection.close(true, 0x100, b"")?;
        line.send(&mut connection)?;
        Ok(connection.session().map(<[u8]>::to_vec).unwrap_or_default())
    }
}

fn client(word: &str, url: &str, bytes: usize) -> Result<()> {
    let (mut config, mut line) = (config()?, Line::new(0)?);
    let left = if word == "requests" { REQUESTS } else { 1 };
    let fetch = || Fetch { url, bytes, left, open: HashMap::new(), early: false };
    let session = fetch().run(&mut line, &mut config, None, word == "0-rtt")?;
    if word == "0-rtt" {
        fetch().run(&mut Line::new(0)?, &mut config, Some(&session), false)?;
    }
    Ok(())
}

struct Answer {
    fields: Option<Vec<Header>>,
    body: Vec<u8>,
    sent: usize,
}

struct Guest {
    connection: Connection,
    http: Option<h3::Connection>,
    answers: HashMap<u64, Answer>,
    has_closed: bool,
}

impl Guest {
    fn turn(&mut self, folder: &str) -> Result<()> {
        let connection = &mut self.connection;
        if self.http.is_none() && (connection.is_established() || connection.is_in_early_data()) {
            self.http = Some(h3::Connection::with_transport(connection, &h3::Config::new()?)?);
        }
        let Some(http) = &mut self.http else { return Ok(()) };
        while let Ok((stream, event)) = http.poll(connection) {
            if let Event::Headers { list, .. } = event {
                let path = list.iter().find(|field| field.name() == b":path").ok_or("no path")?;
                let body = std::fs::read(format!("{folder}{}", String::from_utf8_lossy(path.value())))?;
                let length = body.len().to_string();
                let fields = vec![Header::new(b":status", b"200"), Header::new(b"content-length", length.as_bytes())];
                self.answers.insert(stream, Answer { fields: Some(fields), body, sent: 0 });
            }
        }
        self.answers.retain(|stream, answer| {
            if let Some(fields) = answer.fields.take()
                && http.send_response(connection, *stream, &fields, false).is_err()
            {
                answer.fields = Some(fields);
                return true;
            }
            answer.sent += http.send_body(connection, *stream, &answer.body[answer.sent..], true).unwrap_or(0);
            answer.sent < answer.body.len()
        });
        Ok(())
    }
}

/// A new client, or nothing if it has to prove its address first. The proof is no secret: this server is a peer of tests.
fn guest(line: &Line, config: &mut Config, proves: bool, head: &quiche::Header<'_>, from: SocketAddr) -> Result<Option<Guest>> {
    let token = head.token.as_deref().unwrap_or_default();
    let connection = if !proves {
        quiche::accept(&random_id()?, None, line.local, from, config)?
    } else if token.is_empty() {
        let mut retry = vec![0; DATAGRAM];
        let length = quiche::retry(&head.scid, &head.dcid, &random_id()?, &head.dcid, head.version, &mut retry)?;
        line.socket.send_to(&retry[..length], from)?;
        return Ok(None);
    } else {
        quiche::accept(&head.dcid, Some(&ConnectionId::from_ref(token)), line.local, from, config)?
    };
    Ok(Some(Guest { connection, http: None, answers: HashMap::new(), has_closed: false }))
}

fn server(word: &str, port: u16, folder: &str, certificate: &str, key: &str) -> Result<()> {
    let (mut config, mut line) = (config()?, Line::new(port)?);
    config.load_cert_chain_from_pem_file(certificate)?;
    config.load_priv_key_from_pem_file(key)?;
    let (mut guests, mut names) = (Vec::<Guest>::new(), HashMap::<ConnectionId<'static>, usize>::new());
    loop {
        let limit = guests.iter().filter_map(|guest| guest.connection.timeout()).min();
        if let Some((length, from)) = line.receive(limit)? {
            let Ok(head) = quiche::Header::from_slice(&mut line.buffer[..length], quiche::MAX_CONN_ID_LEN) else {
                continue;
            };
            let known = names.get(&head.dcid).copied();
            if known.is_none() && head.ty == quiche::Type::Initial {
                let made = guest(&line, &mut config, word == "retry", &head, from)?;
                if let Some(guest) = made {
                    names.insert(guest.connection.source_id().into_owned(), guests.len());
                    names.insert(head.dcid.clone(), guests.len());
                    guests.push(guest);
                }
            }
            if let Some(&at) = names.get(&head.dcid) {
                line.feed(&mut guests[at].connection, (length, from))?;
            }
        }
        for guest in guests.iter_mut().filter(|guest| !guest.connection.is_closed()) {
            if is_due(&guest.connection) {
                guest.connection.on_timeout();
            }
            guest.turn(folder)?;
            line.send(&mut guest.connection)?;
            if let Some(end) = guest.connection.peer_error().filter(|_| !guest.has_closed) {
                println!("closed {}", end.error_code);
                guest.has_closed = true;
            }
        }
    }
}

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["client", case, url, bytes, _] => client(case, url, bytes.parse()?),
        ["server", case, port, folder, certificate, key] => server(case, port.parse()?, folder, certificate, key),
        _ => Err("client CASE URL BYTES CERTIFICATE, or server CASE PORT FOLDER CERTIFICATE KEY".into()),
    }
}
