//! Events as logs of OpenTelemetry (OTLP 1.0, protobuf): a record an event, with every field as an attribute. Nothing is added that
//! `telemetry show` does not print.

use crate::otlp::{Any, KeyValue, Resource, Scope, attribute, string};
use prost::Message;
use serde_json::Value;
use std::collections::BTreeMap;

/// INFO.
const SEVERITY: i32 = 9;

// The messages of opentelemetry/proto that are used here, with their field numbers.

#[derive(Clone, PartialEq, Message)]
struct Request {
    #[prost(message, repeated, tag = "1")]
    resource_logs: Vec<ResourceLogs>,
}

#[derive(Clone, PartialEq, Message)]
struct ResourceLogs {
    #[prost(message, optional, tag = "1")]
    resource: Option<Resource>,
    #[prost(message, repeated, tag = "2")]
    scope_logs: Vec<ScopeLogs>,
}

#[derive(Clone, PartialEq, Message)]
struct ScopeLogs {
    #[prost(message, optional, tag = "1")]
    scope: Option<Scope>,
    #[prost(message, repeated, tag = "2")]
    records: Vec<LogRecord>,
}

#[derive(Clone, PartialEq, Message)]
struct LogRecord {
    #[prost(fixed64, tag = "1")]
    at: u64,
    #[prost(int32, tag = "2")]
    severity: i32,
    #[prost(message, repeated, tag = "6")]
    attributes: Vec<KeyValue>,
    #[prost(fixed64, tag = "11")]
    observed: u64,
    #[prost(string, tag = "12")]
    event_name: String,
}

#[derive(Clone, PartialEq, Message)]
struct Response {
    #[prost(message, optional, tag = "1")]
    partial: Option<Partial>,
}

#[derive(Clone, PartialEq, Message)]
struct Partial {
    #[prost(int64, tag = "1")]
    rejected: i64,
    #[prost(string, tag = "2")]
    why: String,
}

/// The request that hands on these events: one resource for each host and label.
pub fn request(events: &[Value]) -> Vec<u8> {
    let mut by_host: BTreeMap<[&str; 2], Vec<LogRecord>> = BTreeMap::new();
    for event in events {
        let of = ["host", "label"].map(|name| event[name].as_str().unwrap_or_default());
        by_host.entry(of).or_default().push(record(event));
    }
    let logs = by_host.into_iter().map(|([host, label], records)| {
        let more = vec![string("host.id", host), string("headstart.label", label)];
        let scope_logs = vec![ScopeLogs { scope: Some(Scope::new()), records }];
        ResourceLogs { resource: Some(Resource::new("headstart", more)), scope_logs }
    });
    Request { resource_logs: logs.collect() }.encode_to_vec()
}

/// How many events a collector has refused by its answer, and why; none by an answer that is no such message.
pub fn refused(answer: &[u8]) -> Option<(u64, String)> {
    let partial = Response::decode(answer).ok()?.partial?;
    let rejected = u64::try_from(partial.rejected).ok().filter(|count| *count > 0)?;
    Some((rejected, partial.why))
}

fn record(event: &Value) -> LogRecord {
    let at = event["time_s"].as_u64().unwrap_or_default().saturating_mul(1_000_000_000);
    let said = event.as_object().into_iter().flatten();
    let said = said.filter(|(name, _)| !["host", "label", "time_s", "kind"].contains(&name.as_str()));
    let attributes = said.filter_map(|(name, value)| Some(attribute(&format!("headstart.{name}"), any(value)?)));
    LogRecord {
        at,
        severity: SEVERITY,
        attributes: attributes.collect(),
        observed: at,
        event_name: format!("headstart.{}", event["kind"].as_str().unwrap_or_default()),
    }
}

/// What is null is left out.
fn any(value: &Value) -> Option<Any> {
    Some(match value {
        Value::Null => return None,
        Value::Bool(truth) => Any::Truth(*truth),
        Value::String(text) => Any::Text(text.clone()),
        Value::Number(number) => match number.as_i64() {
            Some(whole) => Any::Number(whole),
            None => Any::Real(number.as_f64()?),
        },
        other => Any::Text(other.to_string()),
    })
}

/// The answer of a collector that refuses `count` events, by OpenTelemetry's own messages.
#[cfg(test)]
pub fn refusal(count: i64, why: &str) -> Vec<u8> {
    use opentelemetry_proto::tonic::collector::logs::v1::{ExportLogsPartialSuccess, ExportLogsServiceResponse};
    let partial = ExportLogsPartialSuccess { rejected_log_records: count, error_message: why.into() };
    prost::Message::encode_to_vec(&ExportLogsServiceResponse { partial_success: Some(partial) })
}

#[cfg(test)]
mod tests {
    use super::*;
    // Read by OpenTelemetry's own messages.
    use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
    use opentelemetry_proto::tonic::common::v1::{KeyValue as Theirs, any_value::Value as Of};
    use serde_json::json;

    fn value(attributes: &[Theirs], key: &str) -> Option<Of> {
        attributes.iter().find(|attribute| attribute.key == key)?.value.clone()?.value
    }

    #[test]
    fn an_event_is_a_record_with_all_that_it_says() {
        let event = |host: &str, kind: &str, more: Value| {
            let mut event = json!({"version": 1, "kind": kind, "id": "0f", "host": host, "label": "office", "time_s": 1_800_000_000});
            event.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            event
        };
        let flow = json!({"app": "curl", "family": 6, "accelerated": true, "connect_ms": 12.5, "failed_after_ms": null, "rtt_ms": 8.0});
        let events = [
            event("b", "lookup", json!({"took_ms": 3.0})),
            event("a", "flow", flow),
            event("b", "run", json!({"attempts": 2})),
        ];
        let request = <ExportLogsServiceRequest as prost::Message>::decode(&request(&events)[..]).unwrap();
        let [a, b] = &request.resource_logs[..] else { panic!("{request:?}") };
        for (logs, host) in [(a, "a"), (b, "b")] {
            let of = &logs.resource.as_ref().unwrap().attributes;
            assert_eq!(value(of, "host.id"), Some(Of::StringValue(host.into())));
            assert_eq!(value(of, "headstart.label"), Some(Of::StringValue("office".into())));
            assert_eq!(value(of, "service.name"), Some(Of::StringValue("headstart".into())));
        }
        assert_eq!(b.scope_logs[0].log_records.len(), 2);
        let [record] = &a.scope_logs[0].log_records[..] else { panic!("{a:?}") };
        assert_eq!((record.time_unix_nano, record.event_name.as_str()), (1_800_000_000_000_000_000, "headstart.flow"));
        for (key, expected) in [
            ("headstart.id", Some(Of::StringValue("0f".into()))),
            ("headstart.app", Some(Of::StringValue("curl".into()))),
            ("headstart.family", Some(Of::IntValue(6))),
            ("headstart.accelerated", Some(Of::BoolValue(true))),
            ("headstart.connect_ms", Some(Of::DoubleValue(12.5))),
            ("headstart.failed_after_ms", None),
        ] {
            assert_eq!(value(&record.attributes, key), expected, "{key}");
        }
    }

    #[test]
    fn what_a_collector_refuses_is_read_from_its_answer() {
        assert_eq!(refused(&refusal(3, "too old")), Some((3, "too old".into())));
        for none in [refusal(0, "too old"), refusal(-1, "too old"), Vec::new(), b"{}".to_vec(), b"<html>".to_vec()] {
            assert_eq!(refused(&none), None, "{none:?}");
        }
    }
}
