//! Changes of phase as events of qlog: draft-ietf-tsvwg-careful-resume-qlog-02, QUICCarefulResumePhaseUpdated.

use super::StartEvent;
use headstart_core::cwnd::start::Trigger;
use headstart_core::time::Instant;
use std::fmt::Write;

/// One event as a line of JSON, its time in milliseconds since `began`. The draft's triggers are a closed list: an event of another
/// cause has none.
pub fn line(began: Instant, told: &StartEvent) -> String {
    let event = &told.event;
    let mut line = format!(
        r#"{{"time":{:.3},"name":"quic:careful_resume_phase_updated","data":{{"old":"{}","new":"{}","state_data":{{"pipesize":{}"#,
        event.at.since(began).as_secs_f64() * 1e3,
        event.old,
        event.new,
        event.pipe,
    );
    // Required by the draft, and there is none before the jump: 0, as its authors' implementation writes.
    let packets = [("first_unvalidated_packet", told.first), ("last_unvalidated_packet", told.last)];
    for (name, packet) in packets {
        let _ = write!(line, r#","{name}":{}"#, packet.unwrap_or(0));
    }
    let _ = write!(line, r#","congestion_window":{}"#, event.window);
    if let Some(threshold) = event.threshold {
        let _ = write!(line, r#","ssthresh":{threshold}"#);
    }
    let _ = write!(
        line,
        r#"}},"restored_data":{{"saved_congestion_window":{},"saved_rtt":{:.3}}}"#,
        event.saved_window,
        event.saved_rtt.as_secs_f64() * 1e3,
    );
    if event.trigger != Trigger::InUse {
        let _ = write!(line, r#","trigger":"{}""#, event.trigger.name());
    }
    line.push_str("}}");
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use headstart_core::cwnd::start::{Event, Phase};
    use headstart_core::time::Duration;

    #[test]
    fn an_event_has_the_names_of_the_draft() {
        let event = Event {
            at: Instant::from_millis(1076),
            old: Phase::Validating,
            new: Phase::SafeRetreat,
            trigger: Trigger::PacketLoss,
            pipe: 63_000,
            first_unvalidated: None,
            last_unvalidated: None,
            window: 31_500,
            threshold: Some(60_000),
            saved_window: 300_000,
            saved_rtt: Duration::from_millis(38),
        };
        let told = StartEvent { remote: ([192, 0, 2, 1], 443).into(), event, first: Some(30), last: None };
        assert_eq!(
            line(Instant::from_millis(1000), &told),
            concat!(
                r#"{"time":76.000,"name":"quic:careful_resume_phase_updated","data":{"old":"validating","new":"safe_retreat","#,
                r#""state_data":{"pipesize":63000,"first_unvalidated_packet":30,"last_unvalidated_packet":0,"#,
                r#""congestion_window":31500,"ssthresh":60000},"#,
                r#""restored_data":{"saved_congestion_window":300000,"saved_rtt":38.000},"trigger":"packet_loss"}}"#,
            )
        );
        let in_use = StartEvent { event: Event { trigger: Trigger::InUse, ..event }, ..told };
        let line = line(Instant::from_millis(1000), &in_use);
        assert!(!line.contains("trigger") && line.ends_with(r#""saved_rtt":38.000}}}"#), "{line}");
    }
}
