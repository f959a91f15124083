//! `headstart list`: what there is, read from the registries.

use crate::exit;
use headstart_core::connect::race;
use headstart_core::cwnd::{controller, start};
use headstart_core::forward::{meter, profile};
use headstart_core::realtime::technique;
use headstart_core::steer::policy;
use headstart_io::host::change;
use headstart_lab::condition::fault;
use headstart_lab::{condition, experiment, program, scenario};
use headstart_link::{Entry, delay, loss, medium, preset, queue, rate};

/// Arguments of `headstart list`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// List only this kind: races, starts (initial congestion windows), controllers (congestion control), techniques, meters,
    /// profiles (forwarder), policies (steering), links, rates, delays, losses, queues, media (link models), scenarios,
    /// conditions, faults, programs, changes (to a host), experiments.
    what: Option<String>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// A registry: its name, and name and description of each of its members.
type Registry = (&'static str, Vec<(&'static str, &'static str)>);

/// The models of one kind.
fn models<M: ?Sized>(kind: &'static str, all: &'static [Entry<M>]) -> Registry {
    (kind, all.iter().map(|e| (e.name, e.what)).collect())
}

fn registries() -> [Registry; 19] {
    [
        ("races", race::ALL.iter().map(|e| (e.name, e.what)).collect()),
        ("starts", start::ALL.iter().map(|e| (e.name, e.what)).collect()),
        ("controllers", controller::ALL.iter().map(|c| (c.name, c.what)).collect()),
        ("techniques", technique::ALL.iter().map(|t| (t.name, t.what)).collect()),
        ("meters", meter::ALL.iter().map(|m| (m.name, m.what)).collect()),
        ("profiles", profile::ALL.iter().map(|p| (p.name, p.what)).collect()),
        ("policies", policy::ALL.iter().map(|p| (p.name, p.what)).collect()),
        ("links", preset::ALL.iter().map(|e| (e.name, e.why)).collect()),
        models("rates", rate::ALL),
        models("delays", delay::ALL),
        models("losses", loss::ALL),
        models("queues", queue::ALL),
        models("media", medium::ALL),
        ("scenarios", scenario::ALL.iter().map(|s| (s.name, s.what)).collect()),
        ("conditions", condition::ALL.iter().map(|c| (c.name, c.what)).collect()),
        ("faults", fault::ALL.iter().map(|f| (f.name, f.what)).collect()),
        ("programs", program::ALL.iter().map(|p| (p.name, p.what)).collect()),
        ("changes", change::ALL.iter().map(|c| (c.name, c.what)).collect()),
        ("experiments", experiment::ALL.iter().map(|e| (e.name, e.shows)).collect()),
    ]
}

/// Prints the registries.
pub fn run(args: &Args) -> anyhow::Result<u8> {
    let all = registries();
    if let Some(what) = &args.what
        && !all.iter().any(|(name, _)| name == what)
    {
        let names: Vec<_> = all.iter().map(|(name, _)| *name).collect();
        return Err(exit::Usage(format!("unknown list {what:?}; choose one of {}", names.join(", "))).into());
    }
    let wanted = all.into_iter().filter(|(name, _)| args.what.as_ref().is_none_or(|w| w == name));
    if args.json {
        let mut object = serde_json::Map::new();
        for (name, members) in wanted {
            let members = members.iter().map(|(name, what)| serde_json::json!({ "name": name, "what": what }));
            object.insert(name.to_owned(), members.collect());
        }
        crate::output::document(1, object.into());
        return Ok(exit::OK);
    }
    for (name, members) in wanted {
        crate::say!("{name}:");
        let width = members.iter().map(|(n, _)| n.len()).max().unwrap_or_default();
        for (name, what) in members {
            crate::say!("  {name:width$}  {what}");
        }
    }
    Ok(exit::OK)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[derive(clap::Parser)]
    struct Command {
        #[command(flatten)]
        args: Args,
    }

    #[test]
    fn every_member_of_every_registry_is_there_once_and_says_in_a_line_what_it_is() {
        for (registry, members) in registries() {
            assert!(!members.is_empty(), "{registry}");
            for (name, what) in &members {
                assert_eq!(members.iter().filter(|(other, _)| other == name).count(), 1, "{registry}: {name:?} twice");
                assert!(!name.is_empty() && !name.contains(char::is_whitespace), "{registry}: {name:?}");
                let line = what.len() > 3 && what.trim() == *what && !what.contains('\n');
                assert!(line, "{registry}, {name}: {what:?}");
            }
        }
    }

    #[test]
    fn the_help_names_every_registry() {
        let help = Command::command().render_long_help().to_string();
        for (registry, _) in registries() {
            assert!(help.contains(registry), "{registry} is not in:\n{help}");
        }
    }
}
