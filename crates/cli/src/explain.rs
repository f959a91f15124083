//! `headstart explain HOST`: what the user's supervisor knows of a host and what it did about it. It asks and prints; it
//! starts nothing and changes nothing.
//!
//! JSON: one object with `version`, `host`, `supervisor` (`pid`, `up_ms`, `runs`) and the fields of
//! `headstart_core::connect::explain::Explanation`, which documents them. Times are milliseconds.

use crate::exit;
use headstart_core::connect::explain::{Cached, Explanation, RaceReport};
use headstart_core::connect::timeline::Event;
use headstart_io::control::Account;
use headstart_io::link::Link;
use std::fmt::Write as _;
use std::net::IpAddr;

/// Version of the JSON.
const VERSION: u32 = 1;

/// Arguments of `headstart explain`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Host name or address.
    host: String,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// Explains.
pub fn run(args: &Args) -> anyhow::Result<u8> {
    if args.host.is_empty() || args.host.contains(char::is_whitespace) {
        return Err(exit::Usage(format!("HOST: must be a host name or an address (got {:?})", args.host)).into());
    }
    let Some(link) = Link::find() else {
        let why = format!(
            "no supervisor is running for this user, so there is nothing to explain about {}; `headstart run -- CMD` starts \
             one, and it stays for ten minutes after the last run (private runs use their own)",
            args.host
        );
        return Err(exit::Coded(exit::UNREACHABLE, why).into());
    };
    let account = link.explain(&args.host)?;
    let Some(explanation) = &account.explanation else {
        anyhow::bail!(
            "no data about {}: no program has looked it up under `headstart run`, or not recently",
            args.host
        );
    };
    if args.json {
        crate::output::document(VERSION, json(&account, explanation)?);
    } else {
        // One call, so that a reader who stops reading ends it.
        crate::say!("{}", text(&account, explanation).trim_end());
    }
    Ok(exit::OK)
}

fn json(account: &Account, explanation: &Explanation) -> anyhow::Result<serde_json::Value> {
    let mut object = serde_json::to_value(explanation)?;
    object["supervisor"] = serde_json::json!({
        "pid": account.pid,
        "up_ms": account.up_ms,
        "runs": account.runs,
    });
    Ok(object)
}

/// All of it, in lines of at most 80 columns where names and addresses allow.
fn text(account: &Account, e: &Explanation) -> String {
    let mut out = String::new();
    match &e.race {
        Some(race) => timeline(&mut out, race),
        None => out.push_str(&format!("{}: no recent race\n", e.host)),
    }
    section(&mut out, "cached", e.cached.iter().map(cached));
    let families = e.families.iter().map(|f| {
        let mut words = vec![];
        words.extend(f.rtt_ms.map(|rtt| format!("round trip {rtt:.1} ms")));
        words.extend(f.lookup_ms.map(|took| format!("lookup {took:.1} ms")));
        words.extend((!f.has_route).then(|| "no route".to_owned()));
        words.extend((f.suspended_ms > 0.0).then(|| format!("suspended for {}", span(f.suspended_ms))));
        words.extend(f.unanswered.then(|| "queries get no answer".to_owned()));
        let words = if words.is_empty() { "no data yet".to_owned() } else { words.join(", ") };
        format!("{}  {words}", f.family)
    });
    section(&mut out, "this network", families);
    let addresses = e.addresses.iter().map(|a| {
        let mut words = vec![];
        let at_least = if a.has_answered { "" } else { "at least " };
        words.extend(a.rtt_ms.map(|rtt| format!("round trip {at_least}{rtt:.1} ms")));
        words.extend(a.failing.then(|| "failed last time".to_owned()));
        words.push(format!("tried {} ago", span(a.tried_ago_ms)));
        format!("{}  {}", a.address, words.join(", "))
    });
    section(&mut out, "addresses", addresses);
    section(&mut out, "calls not handled, for this host", e.left_alone.iter().map(reason));
    section(&mut out, "calls not handled, in total", e.left_alone_in_all.iter().map(reason));
    let runs = account.runs.iter().map(|run| format!("{} (process {})", run.command.join(" "), run.pid));
    section(&mut out, &format!("supervisor {}, up {}, serving", account.pid, span(account.up_ms)), runs);
    out
}

fn section(out: &mut String, title: &str, lines: impl Iterator<Item = String>) {
    let lines: Vec<_> = lines.collect();
    let _ = if lines.is_empty() {
        writeln!(out, "\n{title}: none")
    } else {
        writeln!(out, "\n{title}:\n  {}", lines.join("\n  "))
    };
}

fn timeline(out: &mut String, race: &RaceReport) {
    let _ =
        writeln!(out, "{}: last race, {} for {}, {} ago\n", race.name, race.race, race.app, span(race.began_ago_ms));
    for told in &race.events {
        let (what, detail) = words(&told.event);
        let _ = writeln!(out, "{:>8.1} ms {what:<11} {detail}", told.at_ms);
    }
    if race.omitted > 0 {
        let _ = writeln!(out, "{:>11} and {} more events", "", race.omitted);
    }
}

/// An event as a word or two and the rest.
fn words(event: &Event) -> (&'static str, String) {
    match event {
        Event::Asked { port: Some(port) } => ("lookup", format!("by the program, for port {port}")),
        Event::Asked { port: None } => ("lookup", "by the program".into()),
        Event::Ahead { port } => ("prefetch", format!("a connection to port {port}")),
        Event::FromCache { record, addresses } => ("cached", format!("{record}: {}", list(addresses))),
        Event::Query { record, before: 0 } => ("query", record.to_string()),
        Event::Query { record, before } => ("query", format!("{record}, try {}", before + 1)),
        Event::QueryUnderWay { record } => ("query", format!("{record}, already in progress")),
        Event::Answer { record, addresses, .. } if !addresses.is_empty() => {
            ("answer", format!("{record}: {}", list(addresses)))
        }
        Event::Answer { record, says, .. } => ("answer", format!("{record}: {says}")),
        Event::Returned { addresses } => ("returned", list(addresses)),
        Event::Attempt { to, exploring: false } => ("attempt", to.to_string()),
        Event::Attempt { to, exploring: true } => ("attempt", format!("{to}, exploration")),
        Event::Connected { to, rtt_ms } => ("connected", format!("{to}, round trip {rtt_ms:.1} ms")),
        Event::Failed { to, errno } => ("failed", format!("{to}: {}", why(*errno))),
        Event::Wanted { to, nonblocking } => {
            ("connect", format!("{to}{}", if *nonblocking { ", non-blocking" } else { "" }))
        }
        Event::HandedOver { to, connected: true } => ("handed over", format!("{to}, connected")),
        Event::HandedOver { to, connected: false } => ("handed over", format!("{to}, connecting")),
        Event::GivenUp { errno } => ("given up", why(*errno)),
        Event::LeftAlone { reason } => ("not handled", reason.to_string()),
        Event::Closed { to, connected: true } => ("closed", format!("{to}, not needed")),
        Event::Closed { to, connected: false } => ("closed", format!("{to}, before connecting")),
    }
}

fn cached(c: &Cached) -> String {
    let what = match (c.no_such_name, c.addresses.is_empty()) {
        (true, _) => "no such name".to_owned(),
        (false, true) => "no addresses".to_owned(),
        (false, false) => list(&c.addresses),
    };
    let left = if c.left_ms > 0.0 { format!("{} left", span(c.left_ms)) } else { "expired".to_owned() };
    format!("{} for {}, {}, {left}: {what}", c.name, c.app, c.record)
}

fn reason((reason, n): (&std::borrow::Cow<'static, str>, &u64)) -> String {
    format!("{n} {reason}")
}

/// Addresses, as many as a line has room for.
fn list(addresses: &[IpAddr]) -> String {
    const ROOM: usize = 40;
    let Some((first, rest)) = addresses.split_first() else { return "no addresses".to_owned() };
    let mut text = first.to_string();
    for (n, addr) in rest.iter().enumerate() {
        let next = format!(", {addr}");
        if text.len() + next.len() > ROOM {
            let _ = write!(text, " and {} more", rest.len() - n);
            break;
        }
        text += &next;
    }
    text
}

fn why(errno: i32) -> String {
    let text = std::io::Error::from_raw_os_error(errno).to_string();
    // The number is in the JSON.
    text.split(" (os error").next().unwrap_or_default().to_owned()
}

/// A time that people read.
fn span(ms: f64) -> String {
    match ms / 1e3 {
        s if s < 1.0 => format!("{ms:.0} ms"),
        s if s < 120.0 => format!("{s:.0} s"),
        s if s < 7200.0 => format!("{:.0} min", s / 60.0),
        s => format!("{:.0} h", s / 3600.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use headstart_core::connect::explain::{AddressReport, EventReport, FamilyReport};
    use std::collections::BTreeMap;

    fn sample() -> (Account, Explanation) {
        let v4: IpAddr = [198, 51, 100, 17].into();
        let v6: IpAddr = [0x2001, 0xdb8, 0x1234, 0x5678, 0x9abc, 0xdef0, 0x1234, 0x5678].into();
        let events = [
            (0.0, Event::Asked { port: Some(443) }),
            (0.012, Event::Query { record: "AAAA".into(), before: 0 }),
            (21.3, Event::Answer { record: "AAAA".into(), says: "addresses".into(), addresses: vec![v6, v6, v4, v4] }),
            (22.0, Event::Attempt { to: v6, exploring: true }),
            (44.4, Event::Failed { to: v4, errno: 111 }),
            (50.0, Event::HandedOver { to: v6, connected: false }),
        ];
        let explanation = Explanation {
            host: "www.example".into(),
            race: Some(RaceReport {
                number: 1,
                name: "www.example".into(),
                app: "curl".into(),
                race: "adaptive".into(),
                began_ago_ms: 61_500.0,
                events: events.map(|(at_ms, event)| EventReport { at_ms, event }).into(),
                omitted: 2,
            }),
            cached: vec![Cached {
                app: "curl".into(),
                name: "www.example".into(),
                record: "A".into(),
                addresses: vec![v4],
                no_such_name: false,
                left_ms: 59_000.0,
            }],
            families: vec![FamilyReport {
                family: "IPv6".into(),
                has_route: false,
                suspended_ms: 30_000.0,
                rtt_ms: Some(43.21),
                lookup_ms: None,
                unanswered: false,
            }],
            addresses: vec![AddressReport {
                address: v4,
                rtt_ms: Some(20.0),
                has_answered: false,
                failing: true,
                tried_ago_ms: 7_300_000.0,
            }],
            left_alone: BTreeMap::new(),
            left_alone_in_all: [("local name".into(), 3)].into(),
        };
        (Account { pid: 7, up_ms: 125_000.0, runs: Vec::new(), explanation: None }, explanation)
    }

    #[test]
    fn lines_are_for_people_and_fit_eighty_columns() {
        let (account, explanation) = sample();
        let text = text(&account, &explanation);
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        for words in [
            "last race, adaptive for curl, 62 s ago",
            "21.3 ms answer      AAAA: 2001:db8:1234:5678:9abc:def0:1234:5678",
            "2001:db8:1234:5678:9abc:def0:1234:5678, exploration",
            "Connection refused",
            "and 2 more events",
            "www.example for curl, A, 59 s left: 198.51.100.17",
            "IPv6  round trip 43.2 ms, no route, suspended for 30 s",
            "198.51.100.17  round trip at least 20.0 ms, failed last time, tried 2 h ago",
            "calls not handled, for this host: none",
            "  3 local name",
            "supervisor 7, up 2 min, serving: none",
        ] {
            assert!(text.contains(words), "{words} in {text}");
        }
    }

    #[test]
    fn the_json_is_one_object_whose_events_name_themselves() {
        let (account, explanation) = sample();
        let json = json(&account, &explanation).unwrap();
        assert_eq!(json["host"], "www.example");
        assert_eq!(json["race"]["events"][2]["event"], "answer");
        assert_eq!(json["race"]["events"][2]["at_ms"], 21.3);
        assert_eq!(json["race"]["events"][4]["errno"], 111);
        assert_eq!(json["supervisor"]["pid"], 7);
        assert_eq!(json["left_alone_in_all"]["local name"], 3);
    }
}
