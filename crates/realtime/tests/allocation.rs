//! A session that has found its rhythm allocates nothing: counted by an allocator of this process's own.

use headstart_core::machine::Machine;
use headstart_core::realtime::{Connection, Input, Kind, LaneId, Messenger, Output, SessionId, Settings};
use headstart_core::time::{Duration, Instant};
use std::collections::VecDeque;

struct Ends {
    ends: [Messenger; 2],
    one_way: Duration,
    /// What is on its way: when it arrives, at which end, over which connection.
    parcels: VecDeque<(Instant, usize, Connection, Vec<u8>)>,
    /// Buffers to be used again.
    spare: Vec<Vec<u8>>,
    message: Vec<u8>,
    came: u64,
}

impl Ends {
    fn new(technique: &str, one_way: Duration) -> Self {
        let ends = [true, false].map(|introduce| {
            let mut end = Messenger::new(SessionId::default(), Settings::new(technique).unwrap());
            for id in 0..4 {
                let rtt = Some(one_way * 2);
                end.handle_input(Instant::ZERO, Input::Opened { connection: Connection(id), rtt, introduce });
            }
            end
        });
        let parcels = VecDeque::with_capacity(4096);
        let (spare, message) = (Vec::with_capacity(4096), Vec::with_capacity(1024));
        let mut ends = Self { ends, one_way, parcels, spare, message, came: 0 };
        // Nobody says anything before it was introduced.
        for trip in 0..4 {
            ends.carry(Instant::ZERO + one_way * trip);
        }
        ends
    }

    /// One message each way on each lane.
    fn round(&mut self, now: Instant) {
        for end in 0..2 {
            self.ends[end].handle_timeout(now);
            self.ends[end].send(now, LaneId(0), Kind::Event, 0, &[7; 50]).unwrap();
            self.ends[end].send(now, LaneId(1), Kind::Latest, 3, &[7; 50]).unwrap();
            self.ends[end].send(now, LaneId(2), Kind::Ordered, 0, &[7; 50]).unwrap();
        }
        self.carry(now);
    }

    /// Takes what is to be written, and brings what has arrived by now.
    fn carry(&mut self, now: Instant) {
        let mut idle = false;
        while !idle {
            idle = true;
            for end in 0..2 {
                while let Some(output) = self.ends[end].poll_output() {
                    idle = false;
                    match output {
                        Output::Write(connection) => self.write(now, end, connection),
                        Output::Deliver => {
                            while self.ends[end].receive(&mut self.message).is_some() {
                                self.came += 1;
                            }
                        }
                    }
                }
            }
            while self.parcels.front().is_some_and(|parcel| parcel.0 <= now) {
                let (_, end, connection, bytes) = self.parcels.pop_front().unwrap();
                idle = false;
                self.ends[end].received(now, connection, &bytes).unwrap();
                self.spare.push(bytes);
            }
        }
    }

    fn write(&mut self, now: Instant, end: usize, connection: Connection) {
        loop {
            let mut frame = self.spare.pop().unwrap_or_else(|| Vec::with_capacity(2048));
            frame.clear();
            if !self.ends[end].transmit(now, connection, &mut frame) {
                return self.spare.push(frame);
            }
            self.parcels.push_back((now + self.one_way, 1 - end, connection, frame));
        }
    }
}

#[test]
fn a_session_that_has_found_its_rhythm_allocates_nothing() {
    for technique in ["plain", "echo", "hedge", "auto"] {
        // With nothing on its way for long, and with several messages of each lane.
        for one_way in [0, 200].map(Duration::from_millis) {
            let mut ends = Ends::new(technique, one_way);
            let mut now = Instant::from_millis(1000);
            let mut rounds = |ends: &mut Ends, count: u32| {
                for _ in 0..count {
                    now += Duration::from_millis(30);
                    ends.round(now);
                }
            };
            rounds(&mut ends, 3000);
            let before = ends.came;
            let counted = allocation_counter::measure(|| rounds(&mut ends, 1000));
            assert_eq!(ends.came - before, 6000, "{technique} {one_way:?}");
            assert_eq!(counted.count_total, 0, "{technique} {one_way:?}");
        }
    }
}
