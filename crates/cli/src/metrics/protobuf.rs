//! The metrics in Prometheus's protobuf (io.prometheus.client, client_model 0.6), each family with its length before it. Histograms are
//! classic and native at once: a Prometheus takes the native ones where they are turned on, and with `scrape_classic_histograms` both.

use super::table::{ALL, Metric, MetricKind, Value};
use crate::observe::Sources;
use headstart_core::timing::{BELOW, BELOW_BOUND, BOUNDS, Histogram, SCHEMA};
use prost::Message;
use std::sync::Arc;

/// The media type without its parameters: what who reads it accepts.
pub const NAME: &str = "application/vnd.google.protobuf";
/// The media type.
pub const MEDIA_TYPE: &str =
    "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited";

// The messages of io.prometheus.client that are used here, with their field numbers.

#[derive(Clone, PartialEq, Message)]
struct Family {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    help: String,
    #[prost(int32, optional, tag = "3")]
    kind: Option<i32>,
    #[prost(message, repeated, tag = "4")]
    metrics: Vec<Series>,
}

#[derive(Clone, PartialEq, Message)]
struct Series {
    #[prost(message, repeated, tag = "1")]
    labels: Vec<Label>,
    #[prost(message, optional, tag = "2")]
    gauge: Option<Number>,
    #[prost(message, optional, tag = "3")]
    counter: Option<Number>,
    #[prost(message, optional, tag = "7")]
    histogram: Option<Durations>,
}

#[derive(Clone, PartialEq, Message)]
struct Label {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    value: String,
}

/// Both a gauge and a counter.
#[derive(Clone, PartialEq, Message)]
struct Number {
    #[prost(double, optional, tag = "1")]
    value: Option<f64>,
}

#[derive(Clone, PartialEq, Message)]
struct Durations {
    #[prost(uint64, tag = "1")]
    count: u64,
    #[prost(double, tag = "2")]
    sum: f64,
    #[prost(message, repeated, tag = "3")]
    classic: Vec<Bucket>,
    #[prost(sint32, optional, tag = "5")]
    schema: Option<i32>,
    #[prost(double, optional, tag = "6")]
    zero_threshold: Option<f64>,
    #[prost(uint64, optional, tag = "7")]
    zero_count: Option<u64>,
    #[prost(message, repeated, tag = "12")]
    spans: Vec<Span>,
    /// Each count less the one before.
    #[prost(sint64, repeated, tag = "13")]
    deltas: Vec<i64>,
}

#[derive(Clone, PartialEq, Message)]
struct Bucket {
    #[prost(uint64, tag = "1")]
    cumulative_count: u64,
    #[prost(double, tag = "2")]
    upper_bound: f64,
}

/// Buckets in a row.
#[derive(Clone, PartialEq, Message)]
struct Span {
    /// The number of its first bucket; behind another span, the buckets between.
    #[prost(sint32, tag = "1")]
    offset: i32,
    #[prost(uint32, tag = "2")]
    length: u32,
}

/// All metrics.
pub fn encode(sources: &Arc<Sources>) -> Vec<u8> {
    ALL.iter().flat_map(|metric| family(metric, sources).encode_length_delimited_to_vec()).collect()
}

fn family(metric: &Metric, sources: &Sources) -> Family {
    let kind = match metric.kind {
        MetricKind::Counter => 0,
        MetricKind::Gauge => 1,
        MetricKind::Histogram => 4,
    };
    let metrics = (metric.read)(sources).into_iter().map(|(values, value)| series(metric, values, &value));
    Family { name: metric.series(), help: metric.help.to_owned(), kind: Some(kind), metrics: metrics.collect() }
}

fn series(metric: &Metric, values: Vec<String>, value: &Value) -> Series {
    let labels = metric.labels.iter().zip(values).map(|(name, value)| Label { name: (*name).to_owned(), value });
    let mut series = Series { labels: labels.collect(), ..Series::default() };
    let number = |value: f64| Some(Number { value: Some(value) });
    match value {
        Value::Count(n) => series.counter = number(*n as f64),
        Value::Sum(n) => series.counter = number(*n),
        Value::Number(n) => series.gauge = number(*n),
        Value::Histogram(histogram) => series.histogram = Some(durations(histogram)),
    }
    series
}

fn durations(histogram: &Histogram) -> Durations {
    let mut cumulative_count = 0;
    let bounds = BOUNDS.into_iter().chain([f64::INFINITY]).zip(histogram.buckets);
    let classic = bounds.map(|(upper_bound, n)| {
        cumulative_count += n;
        Bucket { cumulative_count, upper_bound }
    });
    let mut all = Durations {
        count: histogram.count(),
        sum: histogram.sum.as_secs_f64(),
        classic: classic.collect(),
        ..Durations::default()
    };
    // One that an older process has counted in part has classic buckets alone.
    if histogram.fine.values().sum::<u64>() != all.count {
        return all;
    }
    (all.schema, all.zero_threshold) = (Some(SCHEMA), Some(BELOW_BOUND));
    all.zero_count = Some(histogram.fine.get(&BELOW).copied().unwrap_or(0));
    let (mut next, mut before) = (0, 0);
    for (number, count) in histogram.fine.iter().filter(|(number, _)| **number != BELOW) {
        let (number, count) = (i32::from(*number), i64::try_from(*count).unwrap_or(i64::MAX));
        match all.spans.last_mut() {
            Some(span) if number == next => span.length += 1,
            _ => all.spans.push(Span { offset: number - next, length: 1 }),
        }
        all.deltas.push(count - before);
        (next, before) = (number + 1, count);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::super::table::sample;
    use super::*;
    use headstart_core::time::Duration;

    #[test]
    fn every_metric_is_a_family_and_histograms_are_classic_and_native() {
        let bytes = encode(&Arc::new(sample()));
        let mut left = &bytes[..];
        let mut families = Vec::new();
        while !left.is_empty() {
            families.push(Family::decode_length_delimited(&mut left).unwrap());
        }
        let names: Vec<_> = families.iter().map(|family| family.name.clone()).collect();
        assert_eq!(names, ALL.iter().map(Metric::series).collect::<Vec<_>>());
        let handshake = families.iter().find(|family| family.name == "headstart_handshake_seconds").unwrap();
        assert_eq!(handshake.kind, Some(4));
        let of = |program: &str| handshake.metrics.iter().find(|series| series.labels[0].value == program).unwrap();
        let curl = of("curl").histogram.as_ref().unwrap();
        assert_eq!((curl.count, curl.sum, curl.classic.len()), (1, 0.03, BOUNDS.len() + 1));
        assert_eq!(curl.classic.last(), Some(&Bucket { cumulative_count: 1, upper_bound: f64::INFINITY }));
        // 2^(-41/8) s are 28.7 ms, 2^(-40/8) s 31.25 ms.
        assert_eq!((&curl.spans[..], &curl.deltas[..]), (&[Span { offset: -40, length: 1 }][..], &[1][..]));
    }

    #[test]
    fn spans_leave_out_empty_buckets_and_counts_are_told_by_their_difference() {
        let mut histogram = Histogram::default();
        for (ms, n) in [(0, 2), (1000, 3), (1090, 1), (2000, 4)] {
            (0..n).for_each(|_| histogram.note(Duration::from_millis(ms)));
        }
        let all = durations(&histogram);
        assert_eq!((all.schema, all.zero_count, all.count), (Some(3), Some(2), 10));
        // Buckets 0 and 1, and 8.
        assert_eq!(all.spans, [Span { offset: 0, length: 2 }, Span { offset: 6, length: 1 }]);
        assert_eq!(all.deltas, [3, -2, 3]);
        histogram.fine.clear();
        let old = durations(&histogram);
        assert_eq!((old.schema, old.spans.len(), old.count), (None, 0, 10), "of an older process");
    }
}
