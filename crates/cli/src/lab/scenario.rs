//! `headstart lab scenario`: a network and its traffic from a TOML file, in virtual time, in namespaces, or both side by
//! side; or a program on one of its nodes.

use crate::{exit, input, output};
use headstart_core::choice::unknown;
use headstart_lab::netns::{self, Entered, InnerCommand};
use headstart_lab::report::{self, ColumnStyle, Table};
use headstart_lab::scenario::{self, Figure, Measured, Scenario, real_time, virtual_time};
use std::ffi::OsString;
use std::io::IsTerminal;
use std::path::Path;

/// A trace or a table of delays that a scenario names is no larger: days of a link.
const MOST_OF_A_TRACE: u64 = 64 << 20;

/// Arguments of `headstart lab scenario`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Built-in scenario (`headstart list scenarios`) or a TOML file.
    scenario: String,
    /// Run in virtual time, with real packets, or both.
    #[arg(long, value_enum, default_value_t = Time::Both)]
    time: Time,
    /// Print the scenario file, as a starting point for your own.
    #[arg(long, conflicts_with_all = ["at", "json"])]
    show: bool,
    /// Print one JSON object on the last line of standard output.
    #[arg(long)]
    json: bool,
    /// Run a program on this node instead of the scenario's flows; node names resolve to addresses.
    #[arg(long, value_name = "NODE", conflicts_with = "json")]
    at: Option<String>,
    /// Program and arguments [default: your shell].
    #[arg(last = true, value_name = "CMD", requires = "at")]
    command: Vec<OsString>,
}

/// Which clock moves the packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Time {
    /// Simulate in virtual time.
    Virtual,
    /// Use real packets in network namespaces.
    Real,
    /// Do both, and compare.
    Both,
}

/// Runs the scenario.
pub fn run(args: &Args) -> anyhow::Result<u8> {
    let (text, origin) = text(&args.scenario)?;
    if args.show {
        crate::say!("{}", text.trim_end());
        return Ok(exit::OK);
    }
    // Files that a scenario names are found from where it lies.
    let folder = Path::new(&origin).parent().unwrap_or(Path::new("")).to_owned();
    let mut files = |name: &str| input::text(&folder.join(name), MOST_OF_A_TRACE).map_err(|e| format!("{name}: {e}"));
    let scenario = Scenario::read(&origin, &text, &mut files).map_err(|e| exit::Usage(e.to_string()))?;
    let node = args.at.as_deref().map(|name| scenario.node(name)).transpose().map_err(exit::Usage)?;
    if (node.is_some() || args.time != Time::Virtual)
        && let Entered::Ended(status) = InnerCommand::this_command().pass_signals().enter()?
    {
        return Ok(u8::try_from(status).unwrap_or(exit::FAILURE));
    }
    if let Some(node) = node {
        let status = netns::on_node(&scenario, node, &args.command)?;
        return Ok(u8::try_from(status).unwrap_or(exit::FAILURE));
    }
    let virtually = match args.time {
        Time::Real => None,
        _ => Some(virtual_time::play(&scenario).map_err(anyhow::Error::msg)?.flows),
    };
    let really = match args.time {
        Time::Virtual => None,
        _ => Some(real_time::play(&scenario)?),
    };
    let doubt = really.as_ref().and_then(|played| played.certificate.doubt());
    let rows = rows(&scenario, virtually.as_deref(), really.as_ref().map(|played| played.flows.as_slice()));
    if let Some(doubt) = &doubt {
        crate::complain!("headstart: not valid: {doubt}");
    }
    if args.json {
        crate::say!("{}", object(&scenario, doubt.is_none(), &rows));
    } else {
        let table = table(&scenario, &rows);
        crate::say!(
            "{}",
            table.to_text(output::width(), std::io::stdout().is_terminal() && output::colour()).trim_end()
        );
    }
    Ok(if doubt.is_none() { exit::OK } else { exit::INVALID })
}

/// The text, and where it comes from.
fn text(name: &str) -> anyhow::Result<(String, String)> {
    if let Some(entry) = scenario::find(name) {
        return Ok((entry.text.to_owned(), entry.name.to_owned()));
    }
    let path = Path::new(name);
    if !name.contains(['/', '.']) && !path.exists() {
        let known: Vec<_> = scenario::ALL.iter().map(|entry| entry.name).collect();
        return Err(exit::Usage(format!("{}, or a file", unknown("scenario", name, &known))).into());
    }
    let text = input::text(path, input::MOST).map_err(|why| exit::Usage::unreadable(path, why))?;
    Ok((text, name.to_owned()))
}

/// A figure of a flow in both times.
struct Row<'a> {
    flow: &'a str,
    metric: &'static str,
    unit: &'static str,
    /// Virtual, real.
    values: [Option<f64>; 2],
}

impl Row<'_> {
    /// Real over virtual.
    fn ratio(&self) -> Option<f64> {
        let [virtually, really] = self.values;
        Some(really? / virtually?).filter(|ratio| ratio.is_finite())
    }
}

fn rows<'a>(scenario: &'a Scenario, virtually: Option<&[Measured]>, really: Option<&[Measured]>) -> Vec<Row<'a>> {
    let mut rows = Vec::new();
    for (n, flow) in scenario.flows.iter().enumerate() {
        let figures = |measured: Option<&[Measured]>| -> Vec<Figure> {
            measured
                .and_then(|flows| flows.get(n))
                .map(|flow_came_to| flow_came_to.figures(&flow.traffic))
                .unwrap_or_default()
        };
        let both = [figures(virtually), figures(really)];
        let named = if both[0].is_empty() { &both[1] } else { &both[0] };
        for (k, figure) in named.iter().enumerate() {
            let values = [&both[0], &both[1]].map(|figures| figures.get(k).and_then(|figure| figure.value));
            rows.push(Row { flow: &flow.name, metric: figure.metric, unit: figure.unit, values });
        }
    }
    rows
}

fn table(scenario: &Scenario, rows: &[Row<'_>]) -> Table {
    let columns = [
        ("flow", ColumnStyle::Text),
        ("metric", ColumnStyle::Text),
        ("virtual", ColumnStyle::Number),
        ("real", ColumnStyle::Number),
        ("real / virtual", ColumnStyle::Number),
    ];
    let mut table = Table::new(&format!("{}: {}", scenario.name, scenario.what), &columns);
    for row in rows {
        let cell = |value: Option<f64>| value.map(|value| report::with_unit(value, row.unit)).unwrap_or_default();
        let ratio = row.ratio().map(report::ratio).unwrap_or_default();
        table.push([row.flow.to_owned(), row.metric.to_owned(), cell(row.values[0]), cell(row.values[1]), ratio]);
    }
    table
}

fn object(scenario: &Scenario, valid: bool, rows: &[Row<'_>]) -> serde_json::Value {
    let rows: Vec<_> = rows
        .iter()
        .map(|row| {
            let [virtually, really] = row.values;
            serde_json::json!({ "flow": row.flow, "metric": row.metric, "unit": row.unit, "virtual": virtually,
                                "real": really, "ratio": row.ratio() })
        })
        .collect();
    serde_json::json!({ "version": 1, "scenario": scenario.name, "valid": valid, "seed": scenario.seed, "rows": rows })
}
