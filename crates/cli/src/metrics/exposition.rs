//! The metrics as text: OpenMetrics 1.0, or the older format of Prometheus for readers that do not ask for it.
//!
//! Histograms are classic ones. Native ones exist only in Prometheus's protobuf, which this text is not.

use super::table::{ALL, Kind, Metric, Value};
use crate::observe::Sources;
use headstart_core::timing::{BOUNDS, Histogram};
use hyper::header::HeaderValue;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet, prometheus_text, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};
use std::fmt;
use std::sync::Arc;

/// A format of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// OpenMetrics 1.0.
    OpenMetrics,
    /// Prometheus's own, 0.0.4.
    Prometheus,
}

impl Format {
    /// What a reader wants that accepts this.
    pub fn wanted(accept: Option<&HeaderValue>) -> Self {
        let accept = accept.and_then(|value| value.to_str().ok()).unwrap_or_default();
        if accept.contains("application/openmetrics-text") { Self::OpenMetrics } else { Self::Prometheus }
    }

    /// Its media type.
    pub fn media_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Prometheus => prometheus_text::CONTENT_TYPE,
        }
    }
}

/// All metrics.
pub fn text(sources: &Arc<Sources>, format: Format) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(All(Arc::clone(sources))));
    let mut out = String::new();
    let written = match format {
        Format::OpenMetrics => text::encode(&mut out, &registry),
        Format::Prometheus => prometheus_text::encode(&mut out, &registry),
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
        Kind::Counter => MetricType::Counter,
        Kind::Gauge => MetricType::Gauge,
        Kind::Histogram => MetricType::Histogram,
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
        Value::Histogram(histogram) => {
            let Histogram { buckets, sum } = &**histogram;
            let bounds = BOUNDS.into_iter().chain([f64::INFINITY]);
            let all: Vec<(f64, u64)> = bounds.zip(buckets.iter().copied()).collect();
            encoder.encode_histogram::<NoLabelSet>(sum.as_secs_f64(), histogram.count(), &all, None)
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
    }
}
