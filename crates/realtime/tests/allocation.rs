//! A session that has found its rhythm allocates nothing: counted by an allocator of this process's own.

use headstart_core::machine::Machine;
use headstart_core::realtime::{Connection, Input, Kind, LaneId, Messenger, Output, SessionId, Settings};
use headstart_core::time::{Duration, Instant};

struct Ends {
    ends: [Messenger; 2],
    frame: Vec<u8>,
    message: Vec<u8>,
    came: u64,
}

impl Ends {
    fn new(technique: &str) -> Self {
        let ends = [true, false].map(|introduce| {
            let mut end = Messenger::new(SessionId::default(), Settings::new(technique).unwrap());
            for id in 0..4 {
                let rtt = Some(Duration::from_millis(1));
                end.handle_input(Instant::ZERO, Input::Opened { connection: Connection(id), rtt, introduce });
            }
            end
        });
        Self { ends, frame: Vec::with_capacity(1024), message: Vec::with_capacity(1024), came: 0 }
    }

    /// One message each way through everything: written, read, taken, acknowledged.
    fn round(&mut self, now: Instant) {
        for end in 0..2 {
            self.ends[end].handle_timeout(now);
            self.ends[end].send(now, LaneId(0), Kind::Event, 0, &[7; 50]).unwrap();
            self.ends[end].send(now, LaneId(1), Kind::Latest, 3, &[7; 50]).unwrap();
            self.ends[end].send(now, LaneId(2), Kind::Ordered, 0, &[7; 50]).unwrap();
        }
        loop {
            let mut idle = true;
            for end in 0..2 {
                while let Some(output) = self.ends[end].poll_output() {
                    idle = false;
                    match output {
                        Output::Write(connection) => {
                            self.frame.clear();
                            while self.ends[end].transmit(now, connection, &mut self.frame) {
                                self.ends[1 - end].received(now, connection, &self.frame).unwrap();
                                self.frame.clear();
                            }
                        }
                        Output::Deliver => {
                            while self.ends[end].receive(&mut self.message).is_some() {
                                self.came += 1;
                            }
                        }
                    }
                }
            }
            if idle {
                return;
            }
        }
    }
}

#[test]
fn a_session_that_has_found_its_rhythm_allocates_nothing() {
    for technique in ["plain", "echo", "hedge", "auto"] {
        let mut ends = Ends::new(technique);
        let mut now = Instant::from_millis(1);
        let mut rounds = |ends: &mut Ends, count: u32| {
            for _ in 0..count {
                now += Duration::from_millis(30);
                ends.round(now);
            }
        };
        rounds(&mut ends, 3000);
        let before = ends.came;
        let counted = allocation_counter::measure(|| rounds(&mut ends, 1000));
        assert_eq!(ends.came - before, 6000, "{technique}");
        assert_eq!(counted.count_total, 0, "{technique}");
    }
}
