//! Scenarios as TOML: what is written, checked, with file, line and reason for whatever is wrong.
//!
//! Nothing is guessed: unknown keys, unknown nodes, links from a node to itself, flows without a way and routes in a
//! circle are errors.

use super::flow::{LEAST_BYTES, MOST_BYTES, Traffic};
use super::routes::Routes;
use super::{Flow, Node, Route, Scenario, Wire};
use headstart_core::path::Family;
use headstart_core::time::Duration;
use headstart_link::quantity::{self, Room};
use headstart_link::{Files, parse_duplex_with_files};
use serde::Deserialize;
use std::ops::Range;
use toml::Spanned;

/// Links that a scenario can have: each has a subnet of its own.
const MOST_LINKS: usize = 250;
/// Datagrams of one flow: more is a load generator's work.
const MOST_DATAGRAMS: u64 = 10_000_000;
/// When flows are given up unless the scenario says otherwise.
const LIMIT: Duration = Duration::from_secs(60);

/// A scenario that cannot be read or makes no sense.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{origin}:{line}: {reason}")]
pub struct Invalid {
    /// The file.
    pub origin: String,
    /// The line, from 1.
    pub line: usize,
    /// What is wrong there and what to write instead.
    pub reason: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: String,
    what: String,
    #[serde(default = "one")]
    seed: u64,
    limit: Option<Spanned<String>>,
    hosts: Vec<Spanned<String>>,
    #[serde(default)]
    routers: Vec<Spanned<String>>,
    #[serde(default)]
    link: Vec<LinkText>,
    #[serde(default)]
    route: Vec<RouteText>,
    #[serde(default)]
    flow: Vec<FlowText>,
}

fn one() -> u64 {
    1
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LinkText {
    name: Spanned<String>,
    between: Spanned<[Spanned<String>; 2]>,
    link: Spanned<String>,
    family: Option<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RouteText {
    at: Spanned<String>,
    to: Spanned<String>,
    over: Spanned<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FlowText {
    name: Spanned<String>,
    kind: Spanned<String>,
    from: Spanned<String>,
    to: Spanned<String>,
    over: Option<Spanned<String>>,
    family: Option<Spanned<String>>,
    start: Option<Spanned<String>>,
    bytes: Option<Spanned<String>>,
    congestion: Option<Spanned<String>>,
    rate: Option<Spanned<String>>,
    size: Option<Spanned<usize>>,
    duration: Option<Spanned<String>>,
    interval: Option<Spanned<String>>,
    count: Option<Spanned<u64>>,
}

/// What is wrong, and where in the text.
struct Fault {
    at: Range<usize>,
    reason: String,
}

/// A fault at that piece of text.
fn fault<T>(at: &Spanned<T>, reason: impl Into<String>) -> Fault {
    Fault { at: at.span(), reason: reason.into() }
}

/// Reads the text of a scenario.
pub(super) fn read(origin: &str, text: &str, files: &mut Files<'_>) -> Result<Scenario, Invalid> {
    let line = |at: usize| 1 + text.as_bytes().iter().take(at).filter(|byte| **byte == b'\n').count();
    let invalid = |line, reason: String| Invalid { origin: origin.to_owned(), line, reason };
    let file: File = toml::from_str(text)
        .map_err(|e| invalid(line(e.span().map_or(0, |span| span.start)), e.message().trim().to_owned()))?;
    let scenario = check(file, files, &line).map_err(|fault| invalid(line(fault.at.start), fault.reason))?;
    let routes = Routes::of(&scenario).map_err(|(line, reason)| invalid(line, reason))?;
    for flow in &scenario.flows {
        routes.ends(&scenario, flow).map_err(|reason| invalid(flow.line, format!("flow {:?}: {reason}", flow.name)))?;
    }
    Ok(scenario)
}

fn check(file: File, files: &mut Files<'_>, line: &dyn Fn(usize) -> usize) -> Result<Scenario, Fault> {
    let nodes = nodes(&file)?;
    let mut wires: Vec<Wire> = Vec::new();
    for text in &file.link {
        if wires.iter().any(|wire| wire.name == *text.name.get_ref()) {
            return Err(fault(&text.name, format!("two links are called {:?}", text.name.get_ref())));
        }
        if wires.len() == MOST_LINKS {
            return Err(fault(&text.name, format!("a scenario has at most {MOST_LINKS} links")));
        }
        wires.push(wire(text, &nodes, files)?);
    }
    let by_hand = file.route.iter().map(|text| by_hand(text, &nodes, &wires, line)).collect::<Result<_, _>>()?;
    let mut flows: Vec<Flow> = Vec::new();
    for text in &file.flow {
        if flows.iter().any(|flow| flow.name == *text.name.get_ref()) {
            return Err(fault(&text.name, format!("two flows are called {:?}", text.name.get_ref())));
        }
        flows.push(flow(text, &nodes, &wires, line)?);
    }
    let limit = file.limit.as_ref().map(duration).transpose()?.unwrap_or(LIMIT);
    let File { name, what, seed, .. } = file;
    Ok(Scenario { name, what, seed, limit, nodes, wires, by_hand, flows })
}

fn nodes(file: &File) -> Result<Vec<Node>, Fault> {
    let hosts = file.hosts.iter().map(|name| (name, false));
    let mut nodes: Vec<Node> = Vec::new();
    for (name, routes) in hosts.chain(file.routers.iter().map(|name| (name, true))) {
        if nodes.iter().any(|node| node.name == *name.get_ref()) {
            return Err(fault(name, format!("two nodes are called {:?}", name.get_ref())));
        }
        nodes.push(Node { name: name.get_ref().clone(), routes });
    }
    Ok(nodes)
}

fn wire(text: &LinkText, nodes: &[Node], files: &mut Files<'_>) -> Result<Wire, Fault> {
    let [one, other] = text.between.get_ref();
    let ends = [node(one, nodes)?, node(other, nodes)?];
    if ends[0] == ends[1] {
        return Err(fault(
            &text.between,
            format!("a loop: both ends of link {:?} are {:?}", text.name.get_ref(), one.get_ref()),
        ));
    }
    let link = parse_duplex_with_files(text.link.get_ref(), files).map_err(|e| fault(&text.link, e.to_string()))?;
    let family = text.family.as_ref().map(family).transpose()?;
    Ok(Wire { name: text.name.get_ref().clone(), ends, link, family })
}

fn by_hand(text: &RouteText, nodes: &[Node], wires: &[Wire], line: &dyn Fn(usize) -> usize) -> Result<Route, Fault> {
    let (at, to, over) = (node(&text.at, nodes)?, node(&text.to, nodes)?, link(&text.over, wires)?);
    if wires[over].side(at).is_none() {
        return Err(fault(
            &text.over,
            format!("link {:?} does not begin at {:?}", text.over.get_ref(), text.at.get_ref()),
        ));
    }
    if at == to {
        return Err(fault(&text.to, format!("a route from {:?} to itself", text.at.get_ref())));
    }
    Ok(Route { at, to, over, line: line(text.at.span().start) })
}

fn flow(text: &FlowText, nodes: &[Node], wires: &[Wire], line: &dyn Fn(usize) -> usize) -> Result<Flow, Fault> {
    let (from, to) = (node(&text.from, nodes)?, node(&text.to, nodes)?);
    if from == to {
        return Err(fault(&text.to, format!("a flow from {:?} to itself", text.from.get_ref())));
    }
    let over = text.over.as_ref().map(|name| link(name, wires)).transpose()?;
    if let (Some(over), Some(name)) = (over, &text.over)
        && wires[over].side(to).is_none()
    {
        let reason =
            format!("link {:?} does not end at {:?}, so it has no address there", name.get_ref(), text.to.get_ref());
        return Err(fault(name, reason));
    }
    Ok(Flow {
        name: text.name.get_ref().clone(),
        from,
        to,
        over,
        family: text.family.as_ref().map(family).transpose()?.unwrap_or(Family::V4),
        start: text.start.as_ref().map(duration).transpose()?.unwrap_or_default(),
        traffic: traffic(text)?,
        line: line(text.name.span().start),
    })
}

fn traffic(text: &FlowText) -> Result<Traffic, Fault> {
    let FlowText { kind, bytes, congestion, rate, size, duration: time, interval, count, .. } = text;
    let given = [
        ("bytes", bytes.as_ref().map(Spanned::span)),
        ("congestion", congestion.as_ref().map(Spanned::span)),
        ("rate", rate.as_ref().map(Spanned::span)),
        ("size", size.as_ref().map(Spanned::span)),
        ("duration", time.as_ref().map(Spanned::span)),
        ("interval", interval.as_ref().map(Spanned::span)),
        ("count", count.as_ref().map(Spanned::span)),
    ];
    let only = |keys: &[&str]| match given.iter().find(|(key, span)| span.is_some() && !keys.contains(key)) {
        Some((key, Some(at))) => {
            let reason = format!("a flow of kind {:?} has no `{key}`: it has {}", kind.get_ref(), keys.join(", "));
            Err(Fault { at: at.clone(), reason })
        }
        _ => Ok(()),
    };
    let missing = |key: &str| fault(kind, format!("a flow of kind {:?} needs `{key}`", kind.get_ref()));
    let counted = |count: u64, at: Range<usize>| match count {
        1..=MOST_DATAGRAMS => Ok(count),
        _ => Err(Fault { at, reason: format!("{count} datagrams: write 1 to {MOST_DATAGRAMS}") }),
    };
    match kind.get_ref().as_str() {
        "tcp" => {
            only(&["bytes", "congestion"])?;
            let bytes = stream(bytes.as_ref().ok_or_else(|| missing("bytes"))?)?;
            Ok(Traffic::Tcp { bytes, congestion: congestion.as_ref().map(|name| name.get_ref().clone()) })
        }
        "datagrams" => {
            only(&["rate", "size", "duration"])?;
            let rate = rate.as_ref().ok_or_else(|| missing("rate"))?;
            let size = size.as_ref().ok_or_else(|| missing("size"))?;
            let time = time.as_ref().ok_or_else(|| missing("duration"))?;
            let bits = quantity::rate(rate.get_ref()).map_err(|e| fault(rate, e.to_string()))?;
            let payload = *size.get_ref();
            if !(LEAST_BYTES..=MOST_BYTES).contains(&payload) {
                return Err(fault(size, format!("{payload} bytes of payload: write {LEAST_BYTES} to {MOST_BYTES}")));
            }
            let gap = u128::from(payload as u64 * 8) * 1_000_000_000 / u128::from(bits);
            let gap = u64::try_from(gap).unwrap_or(u64::MAX).max(1);
            let count = u64::try_from(duration(time)?.as_nanos()).unwrap_or(u64::MAX) / gap;
            Ok(Traffic::Datagrams {
                size: payload,
                gap: Duration::from_nanos(gap),
                count: counted(count, time.span())?,
            })
        }
        "ping" => {
            only(&["interval", "count"])?;
            let interval = interval.as_ref().ok_or_else(|| missing("interval"))?;
            let count = count.as_ref().ok_or_else(|| missing("count"))?;
            Ok(Traffic::Ping { gap: duration(interval)?, count: counted(*count.get_ref(), count.span())? })
        }
        other => Err(fault(kind, format!("unknown kind of flow `{other}`; choose one of tcp, datagrams, ping"))),
    }
}

/// Bytes of a stream.
fn stream(text: &Spanned<String>) -> Result<u64, Fault> {
    match quantity::room(text.get_ref()) {
        Ok(Room::Bytes(room)) if room > 0 => Ok(room as u64),
        Ok(_) => Err(fault(text, format!("{:?}: write bytes above zero, such as \"2mb\"", text.get_ref()))),
        Err(e) => Err(fault(text, e.to_string())),
    }
}

fn node(name: &Spanned<String>, nodes: &[Node]) -> Result<usize, Fault> {
    let known = || nodes.iter().map(|node| node.name.as_str()).collect::<Vec<_>>().join(", ");
    let place = nodes.iter().position(|node| node.name == *name.get_ref());
    place.ok_or_else(|| fault(name, format!("unknown node `{}`; choose one of {}", name.get_ref(), known())))
}

fn link(name: &Spanned<String>, wires: &[Wire]) -> Result<usize, Fault> {
    let known = || wires.iter().map(|wire| wire.name.as_str()).collect::<Vec<_>>().join(", ");
    let place = wires.iter().position(|wire| wire.name == *name.get_ref());
    place.ok_or_else(|| fault(name, format!("unknown link `{}`; choose one of {}", name.get_ref(), known())))
}

fn family(text: &Spanned<String>) -> Result<Family, Fault> {
    match text.get_ref().as_str() {
        "ipv4" => Ok(Family::V4),
        "ipv6" => Ok(Family::V6),
        other => Err(fault(text, format!("unknown family `{other}`; choose one of ipv4, ipv6"))),
    }
}

fn duration(text: &Spanned<String>) -> Result<Duration, Fault> {
    quantity::duration(text.get_ref()).map_err(|e| fault(text, e.to_string()))
}
