//! What was seen of a program, and its line.

use crate::output::plural;
use headstart_core::forward::meter;
use headstart_core::forward::{Flow, UdpFlow};
use headstart_core::time::Duration;
use serde_json::{Value, json};

/// What was seen of a program.
#[derive(Debug, Default)]
pub(super) struct App {
    pub(super) connections: u64,
    failed: u64,
    accelerated: u64,
    pub(super) udp_flows: u64,
    quic_flows: u64,
    /// Round trips of QUIC's handshakes.
    quic: Vec<f64>,
    up: u64,
    down: u64,
    retransmissions: f64,
    connect: Vec<f64>,
    rtt: Vec<f64>,
}

impl App {
    pub(super) fn take(&mut self, flow: &Flow) {
        let read = |name: &str| meter::ALL.iter().find(|meter| meter.name == name).and_then(|meter| (meter.read)(flow));
        self.connections += 1;
        self.failed += u64::from(flow.connected.is_none());
        self.accelerated += u64::from(flow.accelerated.is_some());
        self.up += flow.up.bytes;
        self.down += flow.down.bytes;
        self.retransmissions += read("retransmissions").unwrap_or(0.0);
        self.connect.extend(read("connect_ms"));
        self.rtt.extend(read("rtt_ms"));
    }

    pub(super) fn take_udp(&mut self, flow: &UdpFlow) {
        self.udp_flows += 1;
        self.quic_flows += u64::from(flow.quic.is_some());
        self.quic.extend(flow.quic.as_ref().and_then(|quic| quic.handshake).map(ms));
        self.up += flow.up.bytes;
        self.down += flow.down.bytes;
    }
}

pub(super) fn ms(time: Duration) -> f64 {
    round(time.as_secs_f64() * 1e3)
}

/// To a thousandth.
pub(super) fn round(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}

/// The middle of some values.
pub(super) fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let upper = *sorted.get(sorted.len() / 2)?;
    let lower = sorted[(sorted.len() - 1) / 2];
    Some(round((lower + upper) / 2.0))
}

impl App {
    pub(super) fn json(&self) -> Value {
        json!({
            "udp_flows": self.udp_flows, "quic_flows": self.quic_flows, "quic_handshake_ms": median(&self.quic),
            "connections": self.connections, "failed": self.failed, "accelerated": self.accelerated, "up_bytes": self.up, "down_bytes": self.down,
            "connect_ms": median(&self.connect), "rtt_ms": median(&self.rtt), "retransmissions": self.retransmissions,
        })
    }
}

impl std::fmt::Display for App {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", plural(self.connections, "connection"))?;
        if self.failed > 0 {
            write!(f, " ({} failed)", self.failed)?;
        }
        if self.accelerated > 0 {
            write!(f, " ({} accelerated, whose connect times do not count)", self.accelerated)?;
        }
        if self.udp_flows > 0 {
            write!(f, ", {}", plural(self.udp_flows, "UDP flow"))?;
        }
        if self.quic_flows > 0 {
            write!(f, " ({} of QUIC", self.quic_flows)?;
            median(&self.quic).map_or(Ok(()), |handshake| write!(f, ", handshake {handshake} ms"))?;
            write!(f, ")")?;
        }
        if let Some(connect) = median(&self.connect) {
            write!(f, ", connect {connect} ms")?;
        }
        if let Some(rtt) = median(&self.rtt) {
            write!(f, ", round trip {rtt} ms")?;
        }
        write!(f, ", {} bytes up, {} down, {} segments retransmitted", self.up, self.down, self.retransmissions)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use headstart_core::forward::{FlowEnd, FlowId, Record};
    use headstart_core::time::Instant;
    use headstart_io::forward::{Attributed, line_of};

    #[test]
    fn the_middle_of_nothing_is_nothing() {
        assert_eq!((median(&[]), median(&[3.0]), median(&[4.0, 1.0])), (None, Some(3.0), Some(2.5)));
    }

    #[test]
    fn a_line_has_every_meter_and_what_is_not_known_is_null() {
        let flow = flow();
        let line = line_of(&Attributed { record: Record::Flow(Box::new(flow.clone())), owner: None, process: None });
        assert!(meter::ALL.iter().all(|meter| line.get(meter.name).is_some()), "{line}");
        assert_eq!(
            (&line["rtt_ms"], &line["end"], &line["connect_ms"]),
            (&Value::Null, &json!("refused"), &Value::Null)
        );
    }

    #[test]
    fn a_program_is_said_in_a_line() {
        let mut app = App::default();
        app.take(&flow());
        assert_eq!(app.to_string(), "1 connection (1 failed), 0 bytes up, 0 down, 0 segments retransmitted");
    }

    #[test]
    fn what_was_accelerated_is_counted_and_has_no_connect_time() {
        let mut app = App::default();
        let to = "198.51.100.2:80".parse().unwrap();
        app.take(&Flow { connected: Some(Instant::from_millis(9)), accelerated: Some(to), ..flow() });
        assert_eq!((app.json()["accelerated"].as_u64(), &app.json()["connect_ms"]), (Some(1), &Value::Null));
        assert!(app.to_string().contains("1 accelerated"), "{app}");
    }

    fn flow() -> Flow {
        let (app, peer) = ("192.0.2.1:4000".parse().unwrap(), "198.51.100.1:80".parse().unwrap());
        Flow {
            id: FlowId(1),
            app,
            peer,
            asked: Instant::from_millis(5),
            connected: None,
            handshake: None,
            accepted: false,
            accelerated: None,
            ahead: false,
            up: Default::default(),
            down: Default::default(),
            hello: (None, None),
            delivered: Default::default(),
            facts: None,
            requests: Default::default(),
            local_retransmissions: 0,
            kernel_stats: None,
            end: FlowEnd::Refused,
            ended: Some(Instant::from_millis(9)),
        }
    }
}
