//! What a message costs of a processor, from a program's call through both messengers to the other program, acknowledgement
//! included; system calls excluded. Where nothing is on its way, and with round trips of 10 ms, a hundred messages long.
//!
//! `cargo bench -p headstart-realtime`.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use headstart_core::machine::Machine;
use headstart_core::realtime::{Connection, Input, Kind, LaneId, Messenger, Output, SessionId, Settings};
use headstart_core::time::{Duration, Instant};
use std::collections::VecDeque;

/// Messages an iteration, at 10 000 a second.
const MESSAGES: u64 = 1000;
const INTERVAL: Duration = Duration::from_micros(100);
/// Connections of a session.
const CONNECTIONS: u32 = 6;

struct Path {
    ends: [Messenger; 2],
    one_way: Duration,
    now: Instant,
    /// What is on its way: when it arrives, at which end, over which connection.
    parcels: VecDeque<(Instant, usize, Connection, Vec<u8>)>,
    /// Buffers to be used again.
    spare: Vec<Vec<u8>>,
    message: Vec<u8>,
}

impl Path {
    fn new(technique: &str, one_way: Duration) -> Self {
        let end = |introduce| {
            let settings = Settings::new(technique).expect("a technique of the registry");
            let mut end = Messenger::new(SessionId::default(), settings);
            for id in 0..CONNECTIONS {
                let rtt = Some(one_way * 2);
                end.handle_input(Instant::ZERO, Input::Opened { connection: Connection(id), rtt, introduce });
            }
            end
        };
        Self {
            ends: [end(true), end(false)],
            one_way,
            now: Instant::from_millis(1),
            parcels: VecDeque::new(),
            spare: Vec::new(),
            message: Vec::new(),
        }
    }

    fn send(&mut self) {
        self.now += INTERVAL;
        self.ends[0].handle_timeout(self.now);
        // Refused only where nothing is acknowledged for a thousand messages, which `carry` sees to.
        let sent = self.ends[0].send(self.now, LaneId(0), Kind::Event, 0, &[7; 50]);
        assert!(sent.is_ok());
        self.carry();
        self.ends[0].poll_timeout();
    }

    fn carry(&mut self) {
        loop {
            let mut idle = true;
            for end in 0..2 {
                while let Some(output) = self.ends[end].poll_output() {
                    idle = false;
                    match output {
                        Output::Write(connection) => self.write(end, connection),
                        Output::Deliver => while self.ends[end].receive(&mut self.message).is_some() {},
                    }
                }
            }
            while self.parcels.front().is_some_and(|parcel| parcel.0 <= self.now) {
                let Some((_, end, connection, bytes)) = self.parcels.pop_front() else { break };
                idle = false;
                self.ends[end].received(self.now, connection, &bytes).expect("frames of ours");
                self.spare.push(bytes);
            }
            if idle {
                return;
            }
        }
    }

    fn write(&mut self, end: usize, connection: Connection) {
        loop {
            let mut frame = self.spare.pop().unwrap_or_default();
            frame.clear();
            if !self.ends[end].transmit(self.now, connection, &mut frame) {
                return self.spare.push(frame);
            }
            self.parcels.push_back((self.now + self.one_way, 1 - end, connection, frame));
        }
    }
}

fn messages(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("message");
    group.throughput(Throughput::Elements(MESSAGES));
    for technique in ["plain", "echo", "hedge", "auto"] {
        for (name, one_way) in [("at once", Duration::ZERO), ("10 ms", Duration::from_millis(5))] {
            let mut path = Path::new(technique, one_way);
            group.bench_function(format!("{technique}, {name}"), |bencher| {
                bencher.iter(|| {
                    for _ in 0..MESSAGES {
                        path.send();
                    }
                });
            });
        }
    }
    group.finish();
}

criterion_group!(benches, messages);
criterion_main!(benches);
