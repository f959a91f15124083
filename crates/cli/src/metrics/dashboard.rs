//! A dashboard for Grafana, made from the table: a panel a metric, in the order of the table.

use super::table::{ALL, Metric, MetricKind};
use serde_json::{Value, json};

/// The window of rates.
const WINDOW: &str = "5m";

/// The query of a metric's panel, and how its series are called.
pub fn query(metric: &Metric) -> (String, String) {
    let series = metric.series();
    let by = metric.labels.join(", ");
    let legend = metric.labels.iter().map(|label| format!("{{{{{label}}}}}")).collect::<Vec<_>>().join(" ");
    match metric.kind {
        // A quantile of each value of the first label, mostly programs; the others are in the series, for a closer look.
        MetricKind::Histogram => {
            let first = metric.labels.first().copied().unwrap_or("le");
            let of = format!("sum by (le, {first}) (rate({series}_bucket[{WINDOW}]))");
            (format!("histogram_quantile(0.9, {of})"), format!("{{{{{first}}}}}"))
        }
        MetricKind::Counter if by.is_empty() => (format!("sum(rate({series}[{WINDOW}]))"), series),
        MetricKind::Counter => (format!("sum by ({by}) (rate({series}[{WINDOW}]))"), legend),
        MetricKind::Gauge if by.is_empty() => (format!("max({series})"), series),
        MetricKind::Gauge => (format!("max by ({by}) ({series})"), legend),
    }
}

fn unit(metric: &Metric) -> &'static str {
    match (metric.unit, metric.kind) {
        ("seconds", _) => "s",
        ("bytes", MetricKind::Counter) => "Bps",
        ("bytes", _) => "bytes",
        ("ratio", _) => "percentunit",
        (_, MetricKind::Counter) => "ops",
        _ => "short",
    }
}

fn panel(n: usize, metric: &Metric) -> Value {
    let (expr, legend) = query(metric);
    let source = json!({ "type": "prometheus", "uid": "${source}" });
    let title = match metric.kind {
        MetricKind::Histogram => format!("{} (90th percentile)", metric.help.trim_end_matches('.')),
        _ => metric.help.trim_end_matches('.').to_owned(),
    };
    json!({
        "id": n + 1,
        "type": "timeseries",
        "title": title,
        "description": format!("{}: {}", metric.series(), metric.help),
        "datasource": source,
        "gridPos": { "x": (n % 2) * 12, "y": (n / 2) * 8, "w": 12, "h": 8 },
        "fieldConfig": { "defaults": { "unit": unit(metric), "min": 0 }, "overrides": [] },
        "targets": [{ "refId": "A", "expr": expr, "legendFormat": legend, "datasource": source }],
    })
}

/// The dashboard, as Grafana imports it.
pub fn json() -> String {
    let panels: Vec<_> = ALL.iter().enumerate().map(|(n, metric)| panel(n, metric)).collect();
    let board = json!({
        "title": "headstart",
        "uid": "headstart",
        "schemaVersion": 38,
        "version": 1,
        "editable": true,
        "refresh": "30s",
        "time": { "from": "now-1h", "to": "now" },
        "templating": { "list": [{ "name": "source", "type": "datasource", "query": "prometheus", "label": "Prometheus" }] },
        "panels": panels,
    });
    serde_json::to_string_pretty(&board).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_dashboard_that_is_shipped_is_current() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/grafana/headstart.json");
        let there = std::fs::read_to_string(file).unwrap_or_default();
        let how = "headstart metrics --print dashboard > packaging/grafana/headstart.json";
        assert_eq!(there.trim_end(), json().trim_end(), "\nrun: {how}");
    }
}
