//! A folder over HTTP/1.1 (RFC 9112), one request after the other on any stream: its files, and `/echo`, which sends back
//! what it was sent.
//!
//! For programs whose content is compared byte for byte: an answer depends on the request and the folder alone, never on
//! the client or the address that it used. Nothing outside the folder is read, nothing is written. Bodies in chunks are refused.

use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

/// 16 KiB: no program here sends a longer head.
const LONGEST_HEAD: usize = 16 << 10;
/// 64 MiB: a body is kept in memory until it is sent back.
const LONGEST_BODY: u64 = 64 << 20;

/// What a request wants.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Head {
    wants: Wants,
    /// Length of the body.
    length: u64,
    /// The sender waits for a word before it sends the body (RFC 9110, section 10.1.1).
    waits: bool,
    /// The connection ends with the answer.
    close: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Wants {
    /// The head of the answer, of a file.
    Head(String),
    /// A file, by the path of the request.
    File(String),
    /// Its body back.
    Echo,
}

/// A status line's end, of a request that is not served.
type Refusal = &'static str;

const BAD: Refusal = "400 Bad Request";

/// Serves requests from `stream` until it ends or is told to close. `Err` if the stream fails.
pub(super) fn serve(stream: &mut (impl Read + Write), folder: &Path) -> io::Result<()> {
    let mut read = Vec::new();
    loop {
        let end = loop {
            if let Some(end) = read.windows(4).position(|four| four == b"\r\n\r\n") {
                break end;
            }
            if read.len() > LONGEST_HEAD {
                return answer(stream, "431 Request Header Fields Too Large", "text/plain", b"head too long\n", true);
            }
            if !more(stream, &mut read)? {
                return Ok(());
            }
        };
        let head = match parse(&read[..end]) {
            Ok(head) => head,
            Err(refusal) => {
                return answer(stream, refusal, "text/plain", format!("{refusal}\n").as_bytes(), true);
            }
        };
        read.drain(..end + 4);
        if head.waits && head.length > read.len() as u64 {
            stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
            stream.flush()?;
        }
        while (read.len() as u64) < head.length {
            if !more(stream, &mut read)? {
                return Ok(());
            }
        }
        let rest = read.split_off(head.length as usize);
        let body = std::mem::replace(&mut read, rest);
        match &head.wants {
            Wants::Echo => answer(stream, "200 OK", "application/octet-stream", &body, head.close)?,
            Wants::File(path) | Wants::Head(path) => {
                let only_head = matches!(head.wants, Wants::Head(_));
                match inside(folder, path).and_then(|file| fs::read(file).ok()) {
                    Some(_) if only_head => answer(stream, "200 OK", kind(path), b"", head.close)?,
                    Some(content) => answer(stream, "200 OK", kind(path), &content, head.close)?,
                    None => answer(stream, "404 Not Found", "text/plain", b"no such file\n", head.close)?,
                }
            }
        }
        if head.close {
            return Ok(());
        }
    }
}

/// Reads some more; whether there was any.
pub(super) fn more(stream: &mut impl Read, into: &mut Vec<u8>) -> io::Result<bool> {
    let mut buffer = [0; 16 << 10];
    match stream.read(&mut buffer) {
        Ok(0) => Ok(false),
        Ok(len) => {
            into.extend_from_slice(&buffer[..len]);
            Ok(true)
        }
        Err(e) if e.kind() == io::ErrorKind::Interrupted => Ok(true),
        // Programs that end without a farewell of TLS are not worth a complaint.
        Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(e) => Err(e),
    }
}

fn answer(stream: &mut impl Write, status: &str, kind: &str, body: &[u8], close: bool) -> io::Result<()> {
    let connection = if close { "close" } else { "keep-alive" };
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nCache-Control: no-store\r\n\
         Connection: {connection}\r\n\r\n",
        body.len()
    )?;
    stream.write_all(body)?;
    stream.flush()
}

fn parse(head: &[u8]) -> Result<Head, Refusal> {
    let head = std::str::from_utf8(head).map_err(|_| BAD)?;
    let mut lines = head.split("\r\n");
    let mut start = lines.next().unwrap_or_default().split(' ');
    let (Some(method), Some(target), Some(version), None) = (start.next(), start.next(), start.next(), start.next())
    else {
        return Err(BAD);
    };
    let field = |wanted: &str| {
        let mut fields = head.split("\r\n").skip(1).filter_map(|line| line.split_once(':'));
        fields.find(|(name, _)| name.eq_ignore_ascii_case(wanted)).map(|(_, value)| value.trim())
    };
    let asked = field("connection").unwrap_or_default();
    let close = match version {
        "HTTP/1.1" => asked.eq_ignore_ascii_case("close"),
        "HTTP/1.0" => !asked.eq_ignore_ascii_case("keep-alive"),
        _ => return Err("505 HTTP Version Not Supported"),
    };
    if field("transfer-encoding").is_some() {
        return Err("411 Length Required");
    }
    let length = match field("content-length") {
        None => 0,
        Some(text) => text.parse::<u64>().map_err(|_| BAD)?,
    };
    if length > LONGEST_BODY {
        return Err("413 Content Too Large");
    }
    let path = target.split(['?', '#']).next().unwrap_or_default().to_owned();
    let wants = match method {
        "GET" => Wants::File(path),
        "HEAD" => Wants::Head(path),
        "POST" | "PUT" if path == "/echo" => Wants::Echo,
        _ => return Err("405 Method Not Allowed"),
    };
    let waits = version == "HTTP/1.1" && field("expect").is_some_and(|e| e.eq_ignore_ascii_case("100-continue"));
    Ok(Head { wants, length, waits, close })
}

/// The file of `folder` that a request's path names; none if it could be any other. `/` is `/index.html`.
fn inside(folder: &Path, path: &str) -> Option<PathBuf> {
    let path = path.strip_prefix('/')?;
    let path = if path.is_empty() { "index.html" } else { path };
    let plain = |name: &str| !name.is_empty() && name != "." && name != ".." && !name.contains(['%', '\\', '\0']);
    path.split('/').all(plain).then(|| folder.join(path))
}

fn kind(path: &str) -> &'static str {
    match path.rsplit_once('.').map_or("html", |(_, end)| end) {
        "html" => "text/html; charset=utf-8",
        "txt" => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::Cursor;

    /// What a client sends, and what it receives.
    struct Talk {
        input: Cursor<Vec<u8>>,
        output: Vec<u8>,
    }

    impl Read for Talk {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            // In pieces, as from a network.
            let most = buffer.len().min(7);
            self.input.read(&mut buffer[..most])
        }
    }

    impl Write for Talk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.output.write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn talk(input: &[u8], folder: &Path) -> String {
        let mut talk = Talk { input: Cursor::new(input.to_vec()), output: Vec::new() };
        serve(&mut talk, folder).unwrap();
        String::from_utf8_lossy(&talk.output).into_owned()
    }

    fn folder() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("inner")).unwrap();
        fs::write(folder.path().join("index.html"), "front page").unwrap();
        fs::write(folder.path().join("inner/a.bin"), "payload").unwrap();
        folder
    }

    #[test]
    fn files_come_whole_and_one_after_the_other_on_one_connection() {
        let folder = folder();
        let output = talk(
            b"GET / HTTP/1.1\r\nHost: x\r\n\r\nGET /inner/a.bin?x=1 HTTP/1.1\r\nConnection: close\r\n\r\n",
            folder.path(),
        );
        let answers: Vec<_> = output.split("HTTP/1.1 200 OK").collect();
        assert_eq!(answers.len(), 3, "{output}");
        assert!(answers[1].contains("text/html") && answers[1].ends_with("\r\n\r\nfront page"), "{output}");
        assert!(answers[2].contains("Connection: close") && answers[2].ends_with("\r\n\r\npayload"), "{output}");
    }

    #[test]
    fn a_body_comes_back_as_it_was_sent_and_who_waits_for_leave_gets_it() {
        let folder = folder();
        let output = talk(
            b"POST /echo HTTP/1.1\r\nContent-Length: 11\r\nExpect: 100-continue\r\n\r\nhello\r\n\r\nyou",
            folder.path(),
        );
        assert!(output.starts_with("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK"), "{output}");
        assert!(output.ends_with("\r\n\r\nhello\r\n\r\nyo"), "{output}");
    }

    #[test]
    fn what_is_outside_the_folder_or_not_there_is_not_found() {
        let folder = folder();
        for path in ["/../etc/passwd", "/inner/../index.html", "//etc/passwd", "/inner", "/%2e%2e/x", "/none", "*"] {
            let output = talk(format!("GET {path} HTTP/1.1\r\n\r\n").as_bytes(), folder.path());
            assert!(output.starts_with("HTTP/1.1 404"), "{path}: {output}");
        }
    }

    #[test]
    fn what_is_no_request_of_ours_is_refused_and_ends_the_connection() {
        let folder = folder();
        for (said, status) in [
            ("hello\r\n\r\n", "400"),
            ("GET / HTTP/2\r\n\r\n", "505"),
            ("POST /elsewhere HTTP/1.1\r\n\r\n", "405"),
            ("POST /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", "411"),
            ("POST /echo HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n", "413"),
            ("POST /echo HTTP/1.1\r\nContent-Length: -1\r\n\r\n", "400"),
        ] {
            let output = talk(said.as_bytes(), folder.path());
            assert!(output.starts_with(&format!("HTTP/1.1 {status}")), "{said:?}: {output}");
            assert!(output.contains("Connection: close"), "{said:?}: {output}");
        }
        assert!(talk(&vec![b'x'; LONGEST_HEAD + 100], folder.path()).starts_with("HTTP/1.1 431"));
    }

    proptest! {
        #[test]
        fn any_bytes_are_answered_or_ignored(said in proptest::collection::vec(any::<u8>(), 0..400)) {
            let mut said = said;
            said.extend(b"\r\n\r\n");
            let output = talk(&said, Path::new("/nowhere"));
            prop_assert!(output.starts_with("HTTP/1.1 "), "{}", output);
        }

        #[test]
        fn a_path_never_leaves_its_folder(path in "/[./a%\\\\]{0,12}") {
            if let Some(file) = inside(Path::new("/srv"), &path) {
                prop_assert!(file.starts_with("/srv"));
                prop_assert!(file.components().all(|part| part != std::path::Component::ParentDir));
            }
        }
    }
}
