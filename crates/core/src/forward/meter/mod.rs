//! What there is to know of a flow: a registry, one file a meter, each a number out of what was seen.
//!
//! Summaries, JSON lines and live views read [`ALL`]; none lists meters itself.

mod answer;
mod connect;
mod gap;
mod limits;
mod request;
mod retransmissions;
mod round_trips;
mod rtt;
mod throughput;
mod tls;

use super::{Flow, Trips, UdpFlow};

/// A number about a flow.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Its name, with underscores, as in JSON.
    pub name: &'static str,
    /// Its unit; empty for a plain count.
    pub unit: &'static str,
    /// What it is, in a sentence without a full stop.
    pub what: &'static str,
    /// Its sources.
    pub sources: Sources,
    /// The number, if the flow has one.
    pub read: fn(&Flow) -> Option<f64>,
}

/// Sources of a number: the forwarder (`--via tun`), headstart's eBPF programs (`--via ebpf`, [`kernel`](super::kernel)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sources {
    /// Both.
    Both,
    /// The forwarder alone.
    Forwarder,
    /// The kernel alone.
    Kernel,
}

/// Every meter.
pub const ALL: &[Entry] = &[
    connect::ENTRY,
    connect::CALL,
    rtt::ENTRY,
    rtt::LEAST,
    round_trips::P95,
    request::ENTRY,
    request::LONGEST,
    answer::ENTRY,
    answer::LONGEST,
    tls::ENTRY,
    throughput::UP,
    throughput::BUSY,
    throughput::DOWN,
    gap::UP,
    gap::DOWN,
    gap::LONGEST_UP,
    gap::LONGEST_DOWN,
    retransmissions::ENTRY,
    retransmissions::HERE,
    round_trips::LOST,
    round_trips::REORDERED,
    limits::APP,
    limits::CWND,
    limits::RWND,
    limits::SNDBUF,
    limits::DELIVERY,
];

/// A number that a UDP flow has.
pub struct OfUdp {
    /// Its name, as that of the same meter of connections.
    pub name: &'static str,
    /// The number, if the flow has one.
    pub read: fn(&UdpFlow) -> Option<f64>,
}

/// What is read of UDP flows: of what the program sent the rate is that of its sending, for nothing tells what has arrived; what QUIC shows
/// stands for what a connection of TCP has.
pub const OF_UDP: &[OfUdp] = &[
    OfUdp { name: "connect_ms", read: |flow| flow.quic.as_ref()?.handshake.map(ms) },
    OfUdp { name: "rtt_ms", read: |flow| mean(&flow.quic.as_ref()?.spins) },
    OfUdp { name: "up_mbit_s", read: |flow| throughput::rate(&flow.up.without_pauses) },
    OfUdp { name: "down_mbit_s", read: |flow| throughput::rate(&flow.down.without_pauses) },
    OfUdp { name: "up_gap_ms", read: |flow| gap::mean(&flow.up.gaps) },
    OfUdp { name: "down_gap_ms", read: |flow| gap::mean(&flow.down.gaps) },
    OfUdp { name: "longest_up_gap_ms", read: |flow| gap::longest(&flow.up.gaps) },
    OfUdp { name: "longest_down_gap_ms", read: |flow| gap::longest(&flow.down.gaps) },
];

/// The mean of round trips, in milliseconds.
fn mean(trips: &Trips) -> Option<f64> {
    (trips.count > 0).then(|| ms(trips.total) / trips.count as f64)
}

/// A time in milliseconds.
fn ms(time: crate::time::Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

#[cfg(test)]
mod tests {
    use super::super::{Facts, FlowEnd, FlowId};
    use super::*;
    use crate::time::{Duration, Instant};

    #[test]
    fn a_flow_that_did_everything_has_every_number_and_one_that_did_nothing_has_none_made_up() {
        let end = "192.0.2.1:1".parse().unwrap();
        let at = Instant::from_millis;
        let mut flow = Flow::new(FlowId(0), (end, end), at(10));
        for meter in ALL.iter().filter(|meter| !meter.name.starts_with("local_retransmissions")) {
            assert_eq!((meter.read)(&flow), None, "{}", meter.name);
        }
        flow.connected = Some(at(35));
        for millis in [40, 60, 80] {
            flow.sent(at(millis), &[22, 3, 1, 0, 9, 1], 1);
            flow.received(at(millis + 5), &[22, 3, 1, 0, 9, 2], 1);
        }
        flow.facts =
            Some(Facts { rtt: Duration::from_millis(5), min_rtt: Some(Duration::from_millis(4)), retransmissions: 3 });
        flow.delivered.more(1000, Duration::from_millis(8));
        [2, 6].map(Duration::from_millis).into_iter().for_each(|took| flow.requests.trip(took));
        flow.end(at(100), FlowEnd::Finished);
        let raced = Flow { accelerated: Some(end), ..flow.clone() };
        let ours = ALL.iter().filter(|meter| meter.sources != Sources::Kernel);
        let numbers = ours.filter(|meter| (meter.read)(&raced).is_none()).map(|meter| meter.name);
        assert_eq!(numbers.collect::<Vec<_>>(), ["connect_ms"], "a race's time is not the network's");
        let ours = ALL.iter().filter(|meter| meter.sources != Sources::Kernel);
        let values: Vec<_> = ours.map(|meter| (meter.name, (meter.read)(&flow).unwrap())).collect();
        assert_eq!(
            values,
            [
                ("connect_ms", 25.0),
                ("rtt_ms", 5.0),
                ("least_rtt_ms", 4.0),
                ("request_rtt_ms", 4.0),
                ("longest_request_rtt_ms", 6.0),
                ("tls_hello_ms", 5.0),
                // 1000 bytes in 8 ms, whatever the program has handed over; and 12 bytes in 40 ms behind the first 6.
                ("up_mbit_s", 1.0),
                ("up_busy_ms", 8.0),
                ("down_mbit_s", 12.0 * 8.0 / 1e6 / 0.04),
                ("up_gap_ms", 20.0),
                ("down_gap_ms", 20.0),
                ("longest_up_gap_ms", 20.0),
                ("longest_down_gap_ms", 20.0),
                ("retransmissions", 3.0),
                ("local_retransmissions", 0.0),
            ]
        );
    }
}
