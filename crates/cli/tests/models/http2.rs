//! HTTP/2: frames of all kinds, written by hand (RFC 9113, RFC 7541).

use super::{Client, FILE, NAME, play};
use std::collections::BTreeMap;

/// RFC 9113, section 6: DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE.
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const WINDOW_UPDATE: u8 = 8;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
/// Section 6.5.2: what a frame may hold, what a connection may send before it is given more.
const MOST_FRAME: usize = 16_384;
const WINDOW: i64 = 65_535;
/// Streams of a connection, as the server has it.
const MOST_STREAMS: usize = 128;

/// A stream that was begun with a request.
struct Stream {
    /// What GET brings; empty for HEAD; `None` if it is not known.
    body: Option<Vec<u8>>,
    came: Vec<u8>,
    /// Bytes that the server may send.
    credit: i64,
}

impl Stream {
    /// All has come, or as much as there is credit for, or it is not known what comes.
    fn is_done(&self) -> bool {
        self.credit <= 0 || self.body.as_ref().is_none_or(|body| *body == self.came)
    }
}

struct Story {
    streams: BTreeMap<u32, Stream>,
    next: u32,
    /// Bytes that the server may send over all streams.
    credit: i64,
    /// Of a stream that begins.
    window: i64,
    /// Something was said that is against the rules.
    is_broken: bool,
    /// Bytes of what came that were looked at.
    looked: usize,
}

fn frame(queue: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    queue.extend_from_slice(&length[1..]);
    queue.extend_from_slice(&[kind, flags]);
    queue.extend_from_slice(&stream.to_be_bytes());
    queue.extend_from_slice(payload);
}

/// A field by the name of an entry of HPACK's static table, its value in full (RFC 7541, section 6.2.2).
fn field(block: &mut Vec<u8>, name: u8, value: &str) {
    block.extend_from_slice(&[name, u8::try_from(value.len()).unwrap()]);
    block.extend_from_slice(value.as_bytes());
}

impl Story {
    fn begin(client: &mut Client, window: u16) -> Self {
        client.queue.extend_from_slice(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
        // INITIAL_WINDOW_SIZE.
        let [high, low] = window.to_be_bytes();
        frame(&mut client.queue, SETTINGS, 0, 0, &[0, 4, 0, 0, high, low]);
        let (streams, credit, window) = (BTreeMap::new(), WINDOW, i64::from(window));
        Self { streams, next: 1, credit, window, is_broken: false, looked: 0 }
    }

    fn ask(&mut self, client: &mut Client, [_, kind, a, b]: [u8; 4]) {
        // `:scheme: https` is entry 7; `:method: GET` 2.
        let mut block = vec![0x80 | 7];
        let body = match kind % 6 {
            1 => {
                field(&mut block, 2, "HEAD");
                Some(Vec::new())
            }
            2 => {
                field(&mut block, 2, "POST");
                None
            }
            _ => {
                block.push(0x80 | 2);
                (kind % 6 != 3).then(|| FILE.clone())
            }
        };
        field(&mut block, 1, "x");
        field(&mut block, 4, if body.is_some() { NAME } else { "/nothing" });
        let body = match kind % 6 {
            4 => {
                let (from, to) = (usize::from(a), usize::from(a) + usize::from(b));
                // `range` is entry 50: an index of more than four bits goes on in a byte of its own.
                block.push(0x0f);
                field(&mut block, 50 - 15, &format!("bytes={from}-{to}"));
                Some(FILE[from.min(FILE.len())..(to + 1).min(FILE.len())].to_vec())
            }
            _ => body,
        };
        let stream = self.next;
        self.next += 2;
        let cut = usize::from(b) % block.len();
        if kind % 6 == 5 && cut > 0 {
            // In two pieces (CONTINUATION, section 6.10).
            frame(&mut client.queue, HEADERS, END_STREAM, stream, &block[..cut]);
            frame(&mut client.queue, 9, END_HEADERS, stream, &block[cut..]);
        } else {
            frame(&mut client.queue, HEADERS, END_STREAM | END_HEADERS, stream, &block);
        }
        self.streams.insert(stream, Stream { body, came: Vec::new(), credit: self.window });
    }

    /// Does something with a stream that was begun, or with the connection.
    fn act(&mut self, client: &mut Client, [_, kind, a, b]: [u8; 4]) {
        let stream = if self.next == 1 { 0 } else { u32::from(a) % (self.next / 2) * 2 + 1 };
        let most = u32::from(b) * 64 + 1;
        match kind % 8 {
            0..3 if stream > 0 => {
                frame(&mut client.queue, WINDOW_UPDATE, 0, stream, &most.to_be_bytes());
                self.streams.entry(stream).and_modify(|stream| stream.credit += i64::from(most));
            }
            3 => {
                frame(&mut client.queue, WINDOW_UPDATE, 0, 0, &most.to_be_bytes());
                self.credit += i64::from(most);
            }
            4 if stream > 0 => {
                frame(&mut client.queue, RST_STREAM, 0, stream, &8u32.to_be_bytes());
                // How much of it comes is not said.
                self.streams.entry(stream).and_modify(|stream| stream.body = None);
            }
            5 => frame(&mut client.queue, PING, 0, 0, &[a; 8]),
            // Any frame.
            6 => {
                frame(&mut client.queue, a, b, u32::from(a ^ b), &[a, b].repeat(usize::from(b) / 8));
                self.is_broken = true;
            }
            7 => frame(&mut client.queue, DATA, 0, stream, &[b; 40]),
            _ => {}
        }
        // For a stream that is over, or was never there, it is against the rules, or it is not: the server may end.
        self.is_broken |= kind % 8 == 7;
    }

    /// Looks at the frames that have come.
    fn look(&mut self, client: &Client) {
        while let Some(head) = client.read.get(self.looked..self.looked + 9) {
            let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
            let (kind, flags) = (head[3], head[4]);
            let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]) & 0x7fff_ffff;
            assert!(length <= MOST_FRAME, "a frame of {length} bytes");
            let Some(payload) = client.read.get(self.looked + 9..self.looked + 9 + length) else { return };
            self.looked += 9 + length;
            if kind == RST_STREAM {
                self.streams.entry(stream).and_modify(|stream| stream.body = None);
            }
            if kind == DATA {
                self.data(stream, payload, flags & END_STREAM != 0);
            }
        }
    }

    fn data(&mut self, id: u32, payload: &[u8], is_end: bool) {
        let length = i64::try_from(payload.len()).unwrap();
        self.credit -= length;
        let stream = self.streams.get_mut(&id).expect("data of a stream that was asked for");
        stream.credit -= length;
        stream.came.extend_from_slice(payload);
        assert!(self.is_broken || (stream.credit >= 0 && self.credit >= 0), "stream {id}: more than it has credit for");
        if let Some(body) = &stream.body {
            assert!(body.starts_with(&stream.came), "stream {id}");
            assert!(!is_end || *body == stream.came, "stream {id}: less than all is passed off as all");
        }
    }
}

/// Plays a story, four bytes a step; the first says how much credit streams have when they begin.
pub fn story(steps: &[[u8; 4]]) {
    let Some((first, steps)) = steps.split_first() else { return };
    play(true, async |client, server| {
        let mut story = Story::begin(client, u16::from_be_bytes([first[0] % 64, first[1]]));
        for step in steps {
            match step[0] % 8 {
                0..2 => story.ask(client, *step),
                2..4 => story.act(client, *step),
                4 => _ = client.write(usize::from(step[1]) + 1).await,
                5 => _ = client.write(super::PIPE).await,
                6 => _ = client.read(super::PIPE).await,
                _ => tokio::task::yield_now().await,
            }
            story.look(client);
            assert!(server.held().1 <= MOST_STREAMS, "{:?}", server.held());
        }
        client
            .finish(|client| {
                story.look(client);
                story.is_broken || story.streams.values().all(|stream| story.credit <= 0 || stream.is_done())
            })
            .await;
        client.close().await;
    });
}
