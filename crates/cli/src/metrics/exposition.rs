//! The metrics as text: OpenMetrics 1.0, or the older format of Prometheus for readers that do not ask for it.
//!
//! Histograms of texts are classic ones. Native ones exist only in Prometheus's protobuf ([`super::protobuf`]), which a Prometheus asks for
//! where they are turned on.

use super::protobuf;
use super::table::{ALL, Metric, MetricKind, Value};
use crate::observe::Sources;
use headstart_core::timing::BOUNDS;
use hyper::body::Bytes;
use hyper::header::HeaderValue;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet, prometheus_text, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};
use std::fmt;
use std::sync::Arc;

/// A format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// OpenMetrics 1.0.
    OpenMetrics,
    /// Prometheus's own, 0.0.4.
    Prometheus,
    /// Prometheus's protobuf, each family with its length before it.
    Protobuf,
}

impl Format {
    /// What a reader wants that accepts this.
    pub fn wanted(accept: Option<&HeaderValue>) -> Self {
        let accept = accept.and_then(|value| value.to_str().ok()).unwrap_or_default();
        // Who knows the protobuf prefers it, unless it says otherwise by putting it behind.
        let at = |media_type| accept.find(media_type);
        match (at(protobuf::NAME), at("application/openmetrics-text")) {
            (Some(ours), Some(text)) if ours < text => Self::Protobuf,
            (Some(_), None) => Self::Protobuf,
            (_, Some(_)) => Self::OpenMetrics,
            (None, None) => Self::Prometheus,
        }
    }

    /// Its media type.
    pub fn media_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Prometheus => prometheus_text::CONTENT_TYPE,
            Self::Protobuf => protobuf::MEDIA_TYPE,
        }
    }
}

/// All metrics.
pub fn bytes(sources: &Arc<Sources>, format: Format) -> Bytes {
    match format {
        Format::Protobuf => protobuf::encode(sources).into(),
        text_format => text(sources, text_format).into(),
    }
}

/// All metrics as text; in OpenMetrics if the format is none.
pub fn text(sources: &Arc<Sources>, format: Format) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(All(Arc::clone(sources))));
    let mut out = String::new();
    let written = match format {
        Format::Prometheus => prometheus_text::encode(&mut out, &registry),
        Format::OpenMetrics | Format::Protobuf => text::encode(&mut out, &registry),
    };
    // Writing into a string does not fail, and no value here is refused.
    debug_assert!(written.is_ok(), "{written:?}");
    out
}

#[derive(Debug)]
struct All(Arc<Sources>);

impl Collector for All {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        ALL.iter().try_for_each(|metric| one(metric, &self.0, &mut encoder))
    }
}

fn one(metric: &Metric, sources: &Sources, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let unit = match metric.unit {
        "" => None,
        "seconds" => Some(Unit::Seconds),
        "bytes" => Some(Unit::Bytes),
        // `ratio`, where the library's own is not the word of Prometheus's naming rules.
        other => Some(Unit::Other(other.to_owned())),
    };
    let kind = match metric.kind {
        MetricKind::Counter => MetricType::Counter,
        MetricKind::Gauge => MetricType::Gauge,
        MetricKind::Histogram => MetricType::Histogram,
    };
    let samples = (metric.read)(sources);
    let mut family = encoder.encode_descriptor(metric.name, metric.help, unit.as_ref(), kind)?;
    for (values, value) in samples {
        let labels: Vec<(&str, String)> = metric.labels.iter().copied().zip(values).collect();
        if labels.is_empty() {
            sample(&mut family, &value)?;
        } else {
            sample(&mut family.encode_family(&labels)?, &value)?;
        }
    }
    Ok(())
}

fn sample(encoder: &mut MetricEncoder<'_>, value: &Value) -> fmt::Result {
    match value {
        Value::Count(n) => encoder.encode_counter::<NoLabelSet, u64, u64>(n, None),
        Value::Number(n) => encoder.encode_gauge(n),
        Value::Sum(n) => encoder.encode_counter::<NoLabelSet, f64, u64>(n, None),
        Value::Histogram(histogram) => {
            let bounds = BOUNDS.into_iter().chain([f64::INFINITY]);
            let all: Vec<(f64, u64)> = bounds.zip(histogram.buckets).collect();
            encoder.encode_histogram::<NoLabelSet>(histogram.sum.as_secs_f64(), histogram.count(), &all, None)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::table::sample;
    use super::*;

    #[test]
    fn both_formats_have_every_metric_and_the_labels_are_quoted() {
        let sources = Arc::new(sample());
        let open = text(&sources, Format::OpenMetrics);
        assert!(open.ends_with("# EOF\n"), "{open}");
        for line in [
            "# TYPE headstart_handshake_seconds histogram",
            "# UNIT headstart_handshake_seconds seconds",
            "headstart_handshake_seconds_bucket{le=\"0.05\",program=\"curl\",family=\"IPv6\",outcome=\"ok\"} 1",
            "headstart_handshake_seconds_bucket{le=\"+Inf\",program=\"curl\",family=\"IPv6\",outcome=\"ok\"} 1",
            "headstart_dns_queries_total{when=\"asked\"} 5",
            "headstart_connection_attempts_total{purpose=\"race\"} 7",
            "headstart_measured_data_bytes_total{program=\"curl\",direction=\"down\"} 1500",
            "headstart_supervisor_wakeups_total{cause=\"network\"} 12",
            "headstart_messages_total{program=\"relay serve\",direction=\"sent\"} 3",
            "headstart_message_saved_seconds_total{program=\"relay serve\"} 1.5",
            "headstart_relay_answers_total{answer=\"granted\"} 4",
            "headstart_serve_answer_seconds_count{protocol=\"HTTP/3\",status=\"2xx\"} 1",
            "headstart_serve_data_bytes_total{protocol=\"HTTP/3\"} 900",
            "headstart_serve_connections 2.0",
        ] {
            assert!(open.lines().any(|l| l == line), "{line}\n{open}");
        }
        assert!(open.contains("program=\"a \\\"quoted\\\\ name\\n\""), "{open}");
        let older = text(&sources, Format::Prometheus);
        for metric in ALL {
            let series = metric.series();
            assert!(older.contains(&format!("# TYPE {series} {}", metric.kind.name())), "{series}\n{older}");
        }
    }

    #[test]
    fn a_reader_gets_the_format_that_it_accepts() {
        let prometheus = "application/openmetrics-text;version=1.0.0;q=0.8,text/plain;version=0.0.4;q=0.5";
        assert_eq!(Format::wanted(Some(&HeaderValue::from_static(prometheus))), Format::OpenMetrics);
        assert_eq!(Format::wanted(Some(&HeaderValue::from_static("*/*"))), Format::Prometheus);
        assert_eq!(Format::wanted(None), Format::Prometheus);
        let native = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited,\
                      application/openmetrics-text;version=1.0.0;q=0.8,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        assert_eq!(Format::wanted(Some(&HeaderValue::from_static(native))), Format::Protobuf);
        let behind = "application/openmetrics-text;version=1.0.0,application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;q=0.1";
        assert_eq!(Format::wanted(Some(&HeaderValue::from_static(behind))), Format::OpenMetrics);
    }
}
