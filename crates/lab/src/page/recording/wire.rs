//! One file of a Mahimahi recording: a protobuf message without length or magic, read and written.
//!
//! The schema is four messages of six kinds of fields, so this speaks the encoding itself (protobuf.dev, "Encoding"):
//! fields in any order, unknown ones of every wire type that has a length passed over, and a length that runs past its
//! message refused. What is written is what Mahimahi writes, byte for byte. Nothing here panics on any bytes or keeps
//! more than they hold.

use super::{Exchange, Message, Scheme};

/// What is wrong with a file, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bad {
    /// Byte of the file.
    pub offset: usize,
    /// What is wrong there.
    pub reason: String,
}

fn bad<T>(offset: usize, reason: impl Into<String>) -> Result<T, Bad> {
    Err(Bad { offset, reason: reason.into() })
}

/// A field's value.
enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8], usize),
    Skipped,
}

/// A message that is being read; `base` is where it stands in the file.
struct Reader<'a> {
    bytes: &'a [u8],
    base: usize,
    at: usize,
}

impl<'a> Reader<'a> {
    fn new(bytes: &'a [u8], base: usize) -> Self {
        Self { bytes, base, at: 0 }
    }

    fn here(&self) -> usize {
        self.base + self.at
    }

    fn varint(&mut self) -> Result<u64, Bad> {
        let start = self.here();
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let Some(byte) = self.bytes.get(self.at) else { return bad(start, "the message ends within a number") };
            self.at += 1;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        bad(start, "a number of more than ten bytes")
    }

    fn take(&mut self, len: u64) -> Result<(&'a [u8], usize), Bad> {
        let start = self.here();
        let rest = &self.bytes[self.at..];
        match usize::try_from(len).ok().and_then(|len| rest.get(..len)) {
            Some(taken) => {
                self.at += taken.len();
                Ok((taken, start))
            }
            None => bad(start, format!("a field of {len} bytes, of which {} are there", rest.len())),
        }
    }

    /// The next field: its number and its value.
    fn field(&mut self) -> Result<Option<(u64, Value<'a>)>, Bad> {
        if self.at == self.bytes.len() {
            return Ok(None);
        }
        let start = self.here();
        let tag = self.varint()?;
        let value = match tag & 7 {
            0 => Value::Number(self.varint()?),
            1 => self.take(8).map(|_| Value::Skipped)?,
            2 => {
                let len = self.varint()?;
                let (bytes, at) = self.take(len)?;
                Value::Bytes(bytes, at)
            }
            5 => self.take(4).map(|_| Value::Skipped)?,
            other => return bad(start, format!("a field of wire type {other}, which has no length")),
        };
        if tag >> 3 == 0 {
            return bad(start, "field number 0, which protobuf does not have");
        }
        Ok(Some((tag >> 3, value)))
    }
}

/// Reads a file.
pub fn decode(bytes: &[u8]) -> Result<Exchange, Bad> {
    let (mut ip, mut port, mut scheme, mut request, mut response) = (None, None, None, None, None);
    let mut reader = Reader::new(bytes, 0);
    while let Some((number, value)) = reader.field()? {
        match (number, value) {
            (1, Value::Bytes(text, at)) => match std::str::from_utf8(text).ok().and_then(|t| t.parse().ok()) {
                Some(parsed) => ip = Some(parsed),
                None => {
                    return bad(at, format!("'{}' is not an address", String::from_utf8_lossy(text).escape_debug()));
                }
            },
            (2, Value::Number(n)) => match u16::try_from(n) {
                Ok(n) => port = Some(n),
                Err(_) => return bad(reader.here(), format!("{n} is not a valid port")),
            },
            (3, Value::Number(1)) => scheme = Some(Scheme::Http),
            (3, Value::Number(2)) => scheme = Some(Scheme::Https),
            (3, Value::Number(n)) => return bad(reader.here(), format!("{n} is not a scheme: 1 is http, 2 https")),
            (4, Value::Bytes(bytes, at)) => request = Some(message(bytes, at)?),
            (5, Value::Bytes(bytes, at)) => response = Some(message(bytes, at)?),
            (1 | 4 | 5, Value::Number(_)) => return bad(reader.here(), format!("field {number} is a number")),
            (2 | 3, Value::Bytes(_, at)) => return bad(at, format!("field {number} is not a number")),
            _ => {}
        }
    }
    let missing = |what: &str| Bad { offset: bytes.len(), reason: format!("the file ends without {what}") };
    Ok(Exchange {
        ip: ip.ok_or_else(|| missing("the server's address"))?,
        port: port.ok_or_else(|| missing("the server's port"))?,
        scheme: scheme.unwrap_or(Scheme::Http),
        request: request.ok_or_else(|| missing("a request"))?,
        response: response.ok_or_else(|| missing("a response"))?,
    })
}

fn message(bytes: &[u8], base: usize) -> Result<Message, Bad> {
    let mut message = Message::default();
    let mut reader = Reader::new(bytes, base);
    while let Some((number, value)) = reader.field()? {
        match (number, value) {
            (1, Value::Bytes(line, _)) => message.first_line = line.to_vec(),
            (2, Value::Bytes(field, at)) => message.fields.push(header(field, at)?),
            (3, Value::Bytes(body, _)) => message.body = body.to_vec(),
            (1..=3, _) => return bad(reader.here(), format!("field {number} of a message is a number")),
            _ => {}
        }
    }
    Ok(message)
}

fn header(bytes: &[u8], base: usize) -> Result<(Vec<u8>, Vec<u8>), Bad> {
    let (mut name, mut content) = (Vec::new(), Vec::new());
    let mut reader = Reader::new(bytes, base);
    while let Some((number, value)) = reader.field()? {
        match (number, value) {
            (1, Value::Bytes(bytes, _)) => name = bytes.to_vec(),
            (2, Value::Bytes(bytes, _)) => content = bytes.to_vec(),
            (1 | 2, _) => return bad(reader.here(), format!("field {number} of a header field is a number")),
            _ => {}
        }
    }
    Ok((name, content))
}

/// Writes a file, as Mahimahi does.
pub fn encode(exchange: &Exchange) -> Vec<u8> {
    let mut out = Vec::new();
    put(&mut out, 1, exchange.ip.to_string().as_bytes());
    out.push(2 << 3);
    varint(&mut out, exchange.port.into());
    out.extend([3 << 3, if exchange.scheme == Scheme::Http { 1 } else { 2 }]);
    for (number, message) in [(4, &exchange.request), (5, &exchange.response)] {
        let mut inner = Vec::new();
        put(&mut inner, 1, &message.first_line);
        for (name, content) in &message.fields {
            let mut field = Vec::new();
            put(&mut field, 1, name);
            put(&mut field, 2, content);
            put(&mut inner, 2, &field);
        }
        put(&mut inner, 3, &message.body);
        put(&mut out, number, &inner);
    }
    out
}

fn put(out: &mut Vec<u8>, number: u8, bytes: &[u8]) {
    out.push(number << 3 | 2);
    varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    pub(super) fn exchange() -> Exchange {
        let fields = vec![(b"Host".to_vec(), b"www.lab.example".to_vec()), (b"X".to_vec(), vec![0xff, 0])];
        Exchange {
            ip: "198.19.0.1".parse().unwrap(),
            port: 80,
            scheme: Scheme::Http,
            request: Message { first_line: b"GET / HTTP/1.1".to_vec(), fields: fields.clone(), body: Vec::new() },
            response: Message { first_line: b"HTTP/1.1 200 OK".to_vec(), fields, body: vec![7; 300] },
        }
    }

    #[test]
    fn what_is_written_reads_back_and_unknown_fields_are_passed_over_in_any_order() {
        let written = encode(&exchange());
        assert_eq!(decode(&written), Ok(exchange()));
        // A fixed64 (field 9), a fixed32 (field 10), a string (field 11) and a number (field 12) in front.
        let mut strange =
            vec![9 << 3 | 1, 0, 0, 0, 0, 0, 0, 0, 0, 10 << 3 | 5, 0, 0, 0, 0, 11 << 3 | 2, 2, 1, 2, 12 << 3, 5];
        strange.extend(&written);
        assert_eq!(decode(&strange), Ok(exchange()));
    }

    #[test]
    fn a_length_that_runs_past_its_message_is_refused_with_its_place() {
        let written = encode(&exchange());
        let cut = decode(&written[..written.len() - 10]).unwrap_err();
        assert!(cut.reason.contains("of which") && cut.offset < written.len(), "{cut:?}");
        let endless = decode(&[0xff; 11]).unwrap_err();
        assert_eq!((endless.offset, endless.reason.as_str()), (0, "a number of more than ten bytes"));
        assert!(decode(&[]).unwrap_err().reason.contains("without the server's address"));
        assert!(decode(&[3]).unwrap_err().reason.contains("wire type 3"));
        let huge = [4 << 3 | 2, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f];
        assert!(decode(&huge).unwrap_err().reason.contains("of which 0 are there"));
    }

    proptest! {
        #[test]
        fn no_bytes_panic_and_what_is_read_is_written_and_read_again(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(exchange) = decode(&bytes) {
                prop_assert_eq!(decode(&encode(&exchange)), Ok(exchange));
            }
        }

        #[test]
        fn no_change_of_a_file_panics(at in 0usize..400, with in any::<u8>()) {
            let mut bytes = encode(&exchange());
            let at = at % bytes.len();
            bytes[at] = with;
            if let Err(bad) = decode(&bytes) {
                prop_assert!(bad.offset <= bytes.len());
            }
        }
    }
}
