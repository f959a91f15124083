//! What a message costs of a processor, from a program's call through both messengers to the other program, acknowledgement
//! included; system calls excluded.
//!
//! `cargo bench -p headstart-realtime`.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use headstart_core::machine::Machine;
use headstart_core::realtime::{Connection, Input, Kind, LaneId, Messenger, Output, SessionId, Settings};
use headstart_core::time::{Duration, Instant};

/// Messages an iteration, at 10 000 a second.
const MESSAGES: u64 = 1000;
const INTERVAL: Duration = Duration::from_micros(100);

fn end(technique: &str, introduce: bool) -> Messenger {
    let mut end = Messenger::new(SessionId::default(), Settings::new(technique).expect("a technique of the registry"));
    for id in 0..end.connections_wanted().max(4) as u32 {
        let rtt = Some(Duration::from_millis(1));
        end.handle_input(Instant::ZERO, Input::Opened { connection: Connection(id), rtt, introduce });
    }
    end
}

fn carry(ends: &mut [Messenger; 2], now: Instant, frame: &mut Vec<u8>, message: &mut Vec<u8>) {
    let mut idle = false;
    while !idle {
        idle = true;
        for at in 0..2 {
            while let Some(output) = ends[at].poll_output() {
                idle = false;
                match output {
                    Output::Write(connection) => {
                        frame.clear();
                        while ends[at].transmit(now, connection, frame) {
                            ends[1 - at].received(now, connection, frame).expect("frames of ours");
                            frame.clear();
                        }
                    }
                    Output::Deliver => while ends[at].receive(message).is_some() {},
                }
            }
        }
    }
}

fn messages(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("message");
    group.throughput(Throughput::Elements(MESSAGES));
    for technique in ["plain", "echo", "hedge", "auto"] {
        let mut ends = [end(technique, true), end(technique, false)];
        let (mut frame, mut message) = (Vec::new(), Vec::new());
        let mut now = Instant::from_millis(1);
        group.bench_function(technique, |bencher| {
            bencher.iter(|| {
                for _ in 0..MESSAGES {
                    now += INTERVAL;
                    // Refused only where nothing is acknowledged for a thousand messages, which `carry` sees to.
                    let sent = ends[0].send(now, LaneId(0), Kind::Event, 0, &[7; 50]);
                    assert!(sent.is_ok());
                    carry(&mut ends, now, &mut frame, &mut message);
                    ends[0].poll_timeout();
                }
            });
        });
    }
    group.finish();
}

criterion_group!(benches, messages);
criterion_main!(benches);
