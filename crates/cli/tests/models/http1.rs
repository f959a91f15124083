//! HTTP/1.1: requests one behind the other, cut anywhere.

use super::{Client, FILE, NAME, play};

/// An answer that is expected: its status, and its body where that is known.
struct Expected {
    status: u16,
    body: Option<Vec<u8>>,
}

/// What is expected in the order in which it was asked for.
#[derive(Default)]
struct Story {
    expected: Vec<Expected>,
    /// Something was said that is no HTTP: whatever is answered from here on is right.
    is_broken: bool,
}

impl Story {
    fn ask(&mut self, client: &mut Client, [_, kind, a, b]: [u8; 4]) {
        let (a, b, length) = (usize::from(a), usize::from(b), FILE.len());
        let file = || Some(FILE.clone());
        let fields = "x-filler: 0123456789abcdef\r\n".repeat(a % 50);
        let (head, status, body) = match kind % 8 {
            0 => (format!("GET {NAME} HTTP/1.1\r\nhost: x\r\n{fields}\r\n"), 200, file()),
            1 => (format!("HEAD {NAME} HTTP/1.1\r\nhost: x\r\n{fields}\r\n"), 200, Some(Vec::new())),
            2 => {
                let (from, to) = (a.min(length - 1), (a + b).min(length - 1));
                let range = format!("GET {NAME} HTTP/1.1\r\nhost: x\r\nrange: bytes={from}-{to}\r\n\r\n");
                (range, 206, Some(FILE[from..=to].to_vec()))
            }
            3 => (format!("GET /nothing-{a}-{b} HTTP/1.1\r\nhost: x\r\n\r\n"), 404, None),
            4 => (format!("GET /..%2f/{a} HTTP/1.1\r\nhost: x\r\n\r\n"), 400, None),
            5 => {
                let body = "b".repeat(a * 4);
                (format!("POST {NAME} HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n{body}", a * 4), 405, None)
            }
            6 => {
                let chunk = format!("{a:x}\r\n{}\r\n", "c".repeat(a));
                let chunks = if a == 0 { String::new() } else { chunk.repeat(b % 8) };
                (
                    format!("PUT {NAME} HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n{chunks}0\r\n\r\n"),
                    405,
                    None,
                )
            }
            _ => return self.break_with(client, &[kind, a as u8, b as u8].repeat(b % 16 + 1)),
        };
        client.queue.extend_from_slice(head.as_bytes());
        if !self.is_broken {
            self.expected.push(Expected { status, body });
        }
    }

    /// Says what is no request, most likely.
    fn break_with(&mut self, client: &mut Client, bytes: &[u8]) {
        client.queue.extend_from_slice(bytes);
        self.is_broken = true;
    }

    /// Answers that must come: behind a body that is not read the server may close.
    fn certain(&self) -> usize {
        self.expected.iter().position(|one| one.status == 405).map_or(self.expected.len(), |n| n + 1)
    }

    /// Compares what came with what is expected: how many answers came, and what came behind them.
    fn compare<'a>(&self, mut came: &'a [u8]) -> (usize, &'a [u8]) {
        for (nth, expected) in self.expected.iter().enumerate() {
            let Some(answer) = Answer::take(&mut came, expected) else { return (nth, came) };
            assert_eq!(answer.status, expected.status, "answer {nth}");
            if let Some(body) = &expected.body {
                assert_eq!(&answer.body, body, "answer {nth}");
            }
        }
        (self.expected.len(), came)
    }
}

struct Answer {
    status: u16,
    body: Vec<u8>,
}

impl Answer {
    /// The first answer of what came; `None` if it is not whole.
    fn take(came: &mut &[u8], expected: &Expected) -> Option<Self> {
        let end = came.windows(4).position(|end| end == b"\r\n\r\n")? + 4;
        let head = std::str::from_utf8(&came[..end]).unwrap().to_ascii_lowercase();
        assert!(head.starts_with("http/1.1 ") && head.contains("\r\ndate: "), "{head}");
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).map(|n| n.parse().unwrap());
        // HEAD says a length and sends none.
        let of_head = expected.body.as_ref().is_some_and(Vec::is_empty);
        let length: usize = if of_head { 0 } else { length.expect("every answer has its length") };
        let body = came.get(end..end + length)?.to_vec();
        let status = head[9..12].parse().unwrap();
        *came = &came[end + length..];
        Some(Self { status, body })
    }
}

/// Plays a story, four bytes a step.
pub fn story(steps: &[[u8; 4]]) {
    play(false, async |client, _| {
        let mut story = Story::default();
        let mut closed = false;
        for step in steps {
            match step[0] % 8 {
                0..3 => story.ask(client, *step),
                3 => _ = client.write(usize::from(step[1]) + 1).await,
                4 => _ = client.write(super::PIPE).await,
                5 => _ = client.read(usize::from(step[1]) * 8 + 1).await,
                6 => tokio::task::yield_now().await,
                // Rarely: what comes behind it is never heard.
                _ if step[1] < 16 => {
                    closed = true;
                    break;
                }
                _ => _ = client.read(super::PIPE).await,
            }
        }
        if closed {
            // In the middle of whatever there is: what has come is right as far as it goes.
            client.close().await;
            story.compare(&client.read);
            return;
        }
        client.finish(|client| story.compare(&client.read).0 >= story.certain()).await;
        client.close().await;
        client.finish(|_| false).await;
        let (answers, rest) = story.compare(&client.read);
        assert!(answers >= story.certain(), "{answers} answers; then {}", rest.escape_ascii());
        let may_close = story.is_broken || answers < story.expected.len();
        assert!(may_close || rest.is_empty(), "more than was asked for: {}", rest.escape_ascii());
    });
}
