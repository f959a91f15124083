//! `headstart list`: what there is, read from the registries.

use crate::{beside, exit};
use headstart_core::choice::unknown;
use headstart_core::connect::race;
use headstart_core::cwnd::{controller, start};
use headstart_core::forward::{meter, profile};
use headstart_core::realtime::technique;
use headstart_core::steer::policy;
use headstart_io::host::change;
use headstart_link::{Entry, delay, loss, medium, preset, queue, rate};
use std::io::IsTerminal as _;

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

/// The registries of hosts.
fn plain() -> Vec<Registry> {
    vec![
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
        ("changes", change::ALL.iter().map(|c| (c.name, c.what)).collect()),
    ]
}

/// Names of the registries of the lab.
const LAB: [&str; 5] = ["scenarios", "conditions", "faults", "programs", "experiments"];

#[cfg(feature = "lab")]
fn of_the_lab() -> [Registry; 5] {
    use headstart_lab::condition::fault;
    use headstart_lab::{condition, experiment, program, scenario};
    [
        ("scenarios", scenario::ALL.iter().map(|s| (s.name, s.what)).collect()),
        ("conditions", condition::ALL.iter().map(|c| (c.name, c.what)).collect()),
        ("faults", fault::ALL.iter().map(|f| (f.name, f.what)).collect()),
        ("programs", program::ALL.iter().map(|p| (p.name, p.what)).collect()),
        ("experiments", experiment::ALL.iter().map(|e| (e.name, e.shows)).collect()),
    ]
}

/// The names of all lists.
pub fn names() -> Vec<&'static str> {
    plain().iter().map(|(name, _)| *name).chain(LAB).collect()
}

/// Prints the registries; those of the lab by its own program.
pub fn run(args: &Args) -> anyhow::Result<u8> {
    let plain = plain();
    let known = names();
    if let Some(what) = args.what.as_deref().filter(|what| !known.contains(what)) {
        return Err(exit::Usage(unknown("list", what, &known)).into());
    }
    let words = || {
        let flag = args.json.then_some("--json");
        ["lists"].into_iter().chain(args.what.as_deref()).chain(flag).map(Into::into).collect::<Vec<_>>()
    };
    match args.what.as_deref() {
        Some(what) if LAB.contains(&what) => return beside::execute_words(&words()),
        Some(_) => {}
        None => {
            beside::execute_if_there(&words())?;
            crate::complain!("headstart: the lists of {} are left out, because it is not installed", beside::LAB);
        }
    }
    print(args, plain);
    Ok(exit::OK)
}

/// Prints the registries of both programs.
#[cfg(feature = "lab")]
pub fn whole(args: &Args) -> anyhow::Result<u8> {
    print(args, plain().into_iter().chain(of_the_lab()));
    Ok(exit::OK)
}

fn print(args: &Args, all: impl IntoIterator<Item = Registry>) {
    let wanted = all.into_iter().filter(|(name, _)| args.what.as_ref().is_none_or(|w| w == name));
    if args.json {
        let mut object = serde_json::Map::new();
        for (name, members) in wanted {
            let members = members.iter().map(|(name, what)| serde_json::json!({ "name": name, "what": what }));
            object.insert(name.to_owned(), members.collect());
        }
        return crate::output::document(1, object.into());
    }
    // One line a member for programs; people get paragraphs.
    let columns = if std::io::stdout().is_terminal() { crate::output::width() } else { usize::MAX };
    for (name, members) in wanted {
        crate::say!("{name}:");
        let width = members.iter().map(|(n, _)| n.len()).max().unwrap_or_default();
        for (name, what) in members {
            crate::say!("{}", line(name, what, width, columns));
        }
    }
}

/// A member, its description beside its name in as many lines as it takes.
fn line(name: &str, what: &str, width: usize, columns: usize) -> String {
    let (first, rest) = (format!("  {name:width$}  "), " ".repeat(width + 4));
    let options = textwrap::Options::new(columns).initial_indent(&first).subsequent_indent(&rest).break_words(false);
    textwrap::fill(what, options)
}

#[cfg(all(test, feature = "lab"))]
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
        for (registry, members) in plain().into_iter().chain(of_the_lab()) {
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
    fn the_lists_of_the_lab_are_known_to_both_programs() {
        assert_eq!(of_the_lab().map(|(name, _)| name), LAB);
    }

    #[test]
    fn the_help_names_every_registry() {
        let help = Command::command().render_long_help().to_string();
        for (registry, _) in plain().into_iter().chain(of_the_lab()) {
            assert!(help.contains(registry), "{registry} is not in:\n{help}");
        }
    }

    #[test]
    fn a_long_description_goes_on_below_itself() {
        let text = line("fifo", "First in, first out, dropped at the tail", 5, 30);
        assert_eq!(text, "  fifo   First in, first out,\n         dropped at the tail");
        assert_eq!(line("fifo", "one two", 5, usize::MAX), "  fifo   one two");
    }
}
