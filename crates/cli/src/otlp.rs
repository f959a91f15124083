//! What requests of OpenTelemetry (OTLP 1.0, protobuf over HTTP) have in common: who speaks, and attributes. Traces and logs add the rest.

use prost::Message;

/// Media type of a request and of an answer (OTLP/HTTP).
pub const MEDIA_TYPE: &str = "application/x-protobuf";

// The messages of opentelemetry/proto that are used here, with their field numbers.

/// What the data is of.
#[derive(Clone, PartialEq, Message)]
pub struct Resource {
    #[prost(message, repeated, tag = "1")]
    attributes: Vec<KeyValue>,
}

impl Resource {
    /// A service, and what else is said of it.
    pub fn new(service: &str, more: Vec<KeyValue>) -> Self {
        let mut attributes = vec![
            string("service.name", service),
            string("telemetry.sdk.name", "headstart"),
            string("telemetry.sdk.language", "rust"),
            string("telemetry.sdk.version", env!("CARGO_PKG_VERSION")),
        ];
        attributes.extend(more);
        Self { attributes }
    }
}

/// What has recorded it.
#[derive(Clone, PartialEq, Message)]
pub struct Scope {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    version: String,
}

impl Scope {
    /// This program.
    pub fn new() -> Self {
        Self { name: "headstart".into(), version: env!("CARGO_PKG_VERSION").into() }
    }
}

/// An attribute.
#[derive(Clone, PartialEq, Message)]
pub struct KeyValue {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(message, optional, tag = "2")]
    value: Option<AnyValue>,
}

#[derive(Clone, PartialEq, Message)]
struct AnyValue {
    #[prost(oneof = "Any", tags = "1, 2, 3, 4")]
    value: Option<Any>,
}

/// A value of an attribute.
#[derive(Clone, PartialEq, prost::Oneof)]
pub enum Any {
    /// Text.
    #[prost(string, tag = "1")]
    Text(String),
    /// True or false.
    #[prost(bool, tag = "2")]
    Truth(bool),
    /// A whole number.
    #[prost(int64, tag = "3")]
    Number(i64),
    /// A number with a point.
    #[prost(double, tag = "4")]
    Real(f64),
}

/// An attribute that is text.
pub fn string(key: &str, value: &str) -> KeyValue {
    attribute(key, Any::Text(value.to_owned()))
}

/// An attribute that is a whole number.
pub fn integer(key: &str, value: i64) -> KeyValue {
    attribute(key, Any::Number(value))
}

/// An attribute.
pub fn attribute(key: &str, value: Any) -> KeyValue {
    KeyValue { key: key.to_owned(), value: Some(AnyValue { value: Some(value) }) }
}
