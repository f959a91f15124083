//! A trace of OpenTelemetry (OTLP 1.0, protobuf): the run as the root span, a span a lookup, connection, UDP flow and ping under it, and the
//! parts of a connection, TCP and TLS or the handshake of QUIC, under that. Names of attributes are those of OpenTelemetry's semantic conventions.

use super::text;
use crate::otlp::{KeyValue, Resource, Scope, integer, string};
use prost::Message;
use serde_json::Value;
use std::net::SocketAddr;
use std::time::{Duration, SystemTime};

// The messages of opentelemetry/proto that are used here, with their field numbers.

#[derive(Clone, PartialEq, Message)]
struct Request {
    #[prost(message, repeated, tag = "1")]
    resource_spans: Vec<ResourceSpans>,
}

#[derive(Clone, PartialEq, Message)]
struct ResourceSpans {
    #[prost(message, optional, tag = "1")]
    resource: Option<Resource>,
    #[prost(message, repeated, tag = "2")]
    scope_spans: Vec<ScopeSpans>,
}

#[derive(Clone, PartialEq, Message)]
struct ScopeSpans {
    #[prost(message, optional, tag = "1")]
    scope: Option<Scope>,
    #[prost(message, repeated, tag = "2")]
    spans: Vec<Span>,
}

#[derive(Clone, PartialEq, Message)]
struct Span {
    #[prost(bytes = "vec", tag = "1")]
    trace_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    span_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "4")]
    parent_span_id: Vec<u8>,
    #[prost(string, tag = "5")]
    name: String,
    #[prost(int32, tag = "6")]
    kind: i32,
    #[prost(fixed64, tag = "7")]
    start: u64,
    #[prost(fixed64, tag = "8")]
    end: u64,
    #[prost(message, repeated, tag = "9")]
    attributes: Vec<KeyValue>,
    #[prost(message, optional, tag = "15")]
    status: Option<Status>,
}

#[derive(Clone, PartialEq, Message)]
struct Status {
    #[prost(string, tag = "2")]
    message: String,
    #[prost(int32, tag = "3")]
    code: i32,
}

const INTERNAL: i32 = 1;
const CLIENT: i32 = 3;
const ERROR: i32 = 2;

/// What a request is made of: when the run of `program` began and ended, and the trace's number, 16 random bytes.
pub struct Run<'a> {
    /// The program.
    pub program: &'a str,
    /// When it began.
    pub began: SystemTime,
    /// When it had ended.
    pub ended: SystemTime,
    /// Names the trace.
    pub id: [u8; 16],
}

/// The request that hands `lines` of a measurement to a collector.
pub fn request(lines: &[Value], run: &Run<'_>) -> Vec<u8> {
    let mut spans = Spans { run, all: Vec::new() };
    let root = spans.add(&[], run.program, INTERNAL, (nanos(run.began), nanos(run.ended)), vec![]);
    for line in lines {
        match text(line, "event") {
            "lookup" => spans.lookup(&root, line),
            "connection" => spans.connection(&root, line),
            "udp" => spans.udp(&root, line),
            "echo" => spans.echo(&root, line),
            _ => {}
        }
    }
    let scope_spans = vec![ScopeSpans { scope: Some(Scope::new()), spans: spans.all }];
    let resource = Some(Resource::new(run.program, vec![]));
    Request { resource_spans: vec![ResourceSpans { resource, scope_spans }] }.encode_to_vec()
}

/// Spans of one trace.
struct Spans<'a> {
    run: &'a Run<'a>,
    all: Vec<Span>,
}

impl Spans<'_> {
    /// Adds a span under `parent`; its number, which counts within the trace.
    fn add(&mut self, parent: &[u8], name: &str, kind: i32, at: (u64, u64), attributes: Vec<KeyValue>) -> Vec<u8> {
        let span_id = (self.all.len() as u64 + 1).to_be_bytes().to_vec();
        self.all.push(Span {
            trace_id: self.run.id.to_vec(),
            span_id: span_id.clone(),
            parent_span_id: parent.to_vec(),
            name: name.to_owned(),
            kind,
            start: at.0,
            end: at.1.max(at.0),
            attributes,
            status: None,
        });
        span_id
    }

    /// From `at`, in milliseconds since the run began, for `lasted`.
    fn time(&self, at: f64, lasted: f64) -> (u64, u64) {
        let began = nanos(self.run.began);
        let after = |ms: f64| began + Duration::try_from_secs_f64(ms / 1e3).unwrap_or_default().as_nanos() as u64;
        (after(at), after(at + lasted))
    }

    fn lookup(&mut self, root: &[u8], line: &Value) {
        let took = line["took_ms"].as_f64();
        let at = self.time(number(line, "at_ms"), took.unwrap_or_default());
        let mut attributes = process(line);
        attributes.push(string("dns.question.name", text(line, "name")));
        attributes.extend(line["server"].as_str().map(|server| string("server.address", server)));
        self.add(root, &format!("lookup {}", text(line, "name")), CLIENT, at, attributes);
        if took.is_none() {
            self.failed("no answer");
        }
    }

    fn connection(&mut self, root: &[u8], line: &Value) {
        let (began, lasted) = (number(line, "at_ms"), number(line, "lasted_ms"));
        let peer = text(line, "peer");
        let attributes = flow(line, "tcp");
        let at = self.time(began, lasted);
        let span = self.add(root, &format!("connection {peer}"), CLIENT, at, attributes);
        let Some(connect) = line["connect_ms"].as_f64() else {
            if !line["accelerated"].is_string() {
                self.failed(text(line, "end"));
            }
            return;
        };
        let at = self.time(began, connect);
        self.add(&span, "TCP connect", INTERNAL, at, vec![]);
        if let Some(hello) = line["tls_hello_ms"].as_f64() {
            let at = self.time(began + connect, hello);
            self.add(&span, "TLS hello", INTERNAL, at, vec![]);
        }
    }

    fn udp(&mut self, root: &[u8], line: &Value) {
        let (began, peer, is_quic) = (number(line, "at_ms"), text(line, "peer"), line["quic"].is_object());
        let at = self.time(began, number(line, "lasted_ms"));
        let (name, transport) = if is_quic { ("QUIC", "quic") } else { ("UDP", "udp") };
        let span = self.add(root, &format!("{name} {peer}"), CLIENT, at, flow(line, transport));
        if line["icmp_errors"].as_u64().is_some_and(|errors| errors > 0) && line["down_packets"] == 0 {
            self.failed("unreachable");
        }
        if let Some(took) = line["connect_ms"].as_f64() {
            let at = self.time(began, took);
            self.add(&span, "QUIC handshake", INTERNAL, at, vec![]);
        }
    }

    fn echo(&mut self, root: &[u8], line: &Value) {
        let at = self.time(number(line, "at_ms"), number(line, "lasted_ms"));
        let mut attributes = process(line);
        attributes.push(string("network.peer.address", text(line, "peer")));
        for (key, name) in [("headstart.echo.requests", "requests"), ("headstart.echo.replies", "replies")] {
            attributes.extend(line[name].as_i64().map(|count| integer(key, count)));
        }
        self.add(root, &format!("ping {}", text(line, "peer")), CLIENT, at, attributes);
        if line["replies"] == 0 {
            self.failed("no answer");
        }
    }

    /// The span that was added last failed.
    fn failed(&mut self, why: &str) {
        if let Some(span) = self.all.last_mut() {
            span.status = Some(Status { message: why.to_owned(), code: ERROR });
        }
    }
}

/// Whose a flow is, where it leads and what it carried.
fn flow(line: &Value, transport: &str) -> Vec<KeyValue> {
    let mut attributes = process(line);
    attributes.push(string("network.transport", transport));
    if let Ok(address) = text(line, "peer").parse::<SocketAddr>() {
        attributes.push(string("network.peer.address", &address.ip().to_string()));
        attributes.push(integer("network.peer.port", address.port().into()));
    }
    for (key, name) in [("headstart.bytes.sent", "up_bytes"), ("headstart.bytes.received", "down_bytes")] {
        attributes.extend(line[name].as_i64().map(|bytes| integer(key, bytes)));
    }
    attributes
}

fn process(line: &Value) -> Vec<KeyValue> {
    let mut attributes = vec![string("process.executable.name", text(line, "app"))];
    attributes.extend(line["pid"].as_i64().map(|pid| integer("process.pid", pid)));
    attributes
}

fn number(line: &Value, name: &str) -> f64 {
    line[name].as_f64().unwrap_or_default()
}

fn nanos(at: SystemTime) -> u64 {
    at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_nanos() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    // Read by OpenTelemetry's own messages.
    use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
    use opentelemetry_proto::tonic::common::v1::any_value::Value as Theirs;
    use opentelemetry_proto::tonic::trace::v1::{Span as TheirSpan, span::SpanKind, status::StatusCode};

    const BEGAN: u64 = 1_000_000_000_000_000_000;

    fn spans() -> Vec<TheirSpan> {
        let began = SystemTime::UNIX_EPOCH + Duration::from_nanos(BEGAN);
        let run = Run { program: "curl", began, ended: began + Duration::from_secs(1), id: [7; 16] };
        let bytes = request(&super::super::sample(), &run);
        let request = <ExportTraceServiceRequest as prost::Message>::decode(&bytes[..]).unwrap();
        let [of] = &request.resource_spans[..] else { panic!("{request:?}") };
        let service = &of.resource.as_ref().unwrap().attributes[0];
        assert_eq!(service.key, "service.name");
        assert_eq!(service.value.as_ref().unwrap().value, Some(Theirs::StringValue("curl".into())));
        of.scope_spans[0].spans.clone()
    }

    fn attribute(span: &TheirSpan, key: &str) -> Option<Theirs> {
        span.attributes.iter().find(|attribute| attribute.key == key)?.value.clone()?.value
    }

    #[test]
    fn lookups_and_connections_are_spans_of_one_trace_with_their_parts_below() {
        let spans = spans();
        let names: Vec<_> = spans.iter().map(|span| span.name.as_str()).collect();
        assert_eq!(
            names,
            [
                "curl",
                "lookup www.example",
                "connection 198.51.100.1:443",
                "TCP connect",
                "TLS hello",
                "connection [2001:db8::1]:443",
                "QUIC 198.51.100.1:443",
                "QUIC handshake",
                "UDP 198.51.100.2:123",
                "ping 198.51.100.3"
            ]
        );
        let parent = |n: usize| spans.iter().position(|span| span.span_id == spans[n].parent_span_id);
        let parents = [None, Some(0), Some(0), Some(2), Some(2), Some(0), Some(0), Some(6), Some(0), Some(0)];
        assert_eq!((0..10).map(parent).collect::<Vec<_>>(), parents);
        assert!(spans.iter().all(|span| span.trace_id == [7; 16] && span.span_id.len() == 8), "{spans:?}");
        let kinds = [SpanKind::Internal, SpanKind::Client, SpanKind::Client, SpanKind::Internal];
        assert!(spans.iter().zip(kinds).all(|(span, kind)| span.kind == kind as i32), "{spans:?}");
    }

    #[test]
    fn times_follow_each_other_and_what_failed_says_why() {
        let spans = spans();
        let ms = |n: usize| {
            let since = |at: u64| (at - BEGAN) as f64 / 1e6;
            (since(spans[n].start_time_unix_nano), since(spans[n].end_time_unix_nano))
        };
        assert_eq!([ms(0), ms(1), ms(2)], [(0.0, 1000.0), (5.0, 25.0), (26.0, 326.0)]);
        assert_eq!([ms(3), ms(4)], [(26.0, 66.0), (66.0, 111.0)]);
        let failed = spans[5].status.as_ref().unwrap();
        assert_eq!((failed.code, failed.message.as_str()), (StatusCode::Error as i32, "refused"));
        assert_eq!([ms(6), ms(7), ms(8), ms(9)], [(50.0, 250.0), (50.0, 80.0), (60.0, 60.0), (70.0, 1070.0)]);
        assert_eq!(spans[8].status.as_ref().map(|status| status.message.as_str()), Some("unreachable"));
        let good = spans.iter().enumerate().filter(|(n, _)| ![5, 8].contains(n));
        assert!(good.into_iter().all(|(_, span)| span.status.is_none()), "{spans:?}");
        let transports = [2, 6, 8].map(|n| attribute(&spans[n], "network.transport"));
        assert_eq!(transports, ["tcp", "quic", "udp"].map(|name| Some(Theirs::StringValue(name.into()))));
        assert_eq!(attribute(&spans[9], "headstart.echo.replies"), Some(Theirs::IntValue(2)));
        assert_eq!(attribute(&spans[5], "network.peer.address"), Some(Theirs::StringValue("2001:db8::1".into())));
        assert_eq!(attribute(&spans[2], "network.peer.port"), Some(Theirs::IntValue(443)));
        assert_eq!(attribute(&spans[2], "headstart.bytes.received"), Some(Theirs::IntValue(9000)));
        assert_eq!(attribute(&spans[2], "process.pid"), Some(Theirs::IntValue(7)));
    }
}
