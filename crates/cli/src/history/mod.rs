//! `headstart history`: what was learned of programs and networks, as the user's supervisor has it or, if none is running,
//! as it is on disk. `show` is for people, `export` for programs, `forget` is for good. What other hosts have learned comes by `import`
//! ([`fleet`]).
//!
//! JSON (`export`, and `show --json`): one object with `version`, `programs`, `networks` (the fields of
//! `headstart_core::connect::memory::Program` and `headstart_core::path::record::NetworkRecord`, which document them),
//! `priors` (what was imported: where from, how old, how much), `here` (the id of the network that the host is on) and `source` (`supervisor` or `disk`). Ids are hexadecimal digits, as they may
//! be above 2^53.

mod fleet;

use crate::output::{Format, plural};
use crate::{exit, output};
use headstart_core::connect::memory::{Name, Program};
use headstart_core::path::record::{FamilyRecord, NetworkRecord};
use headstart_io::control::History;
use headstart_io::link::Link;
use headstart_io::store::prior::{Priors, SignedHistory};
use headstart_io::store::{self, Store};
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Version of the JSON. In version 1, ids of networks were numbers.
const VERSION: u32 = 2;

/// What to do with it.
#[derive(Debug, clap::Subcommand)]
pub enum Verb {
    /// Show the learned host names of each program, and the known networks.
    Show(Show),
    /// Print the history as one JSON object, or its paths signed for other hosts.
    Export(Export),
    /// Start QUIC connections from what another host of your site has learned, where this one has no experience.
    Import(Import),
    /// Delete the history of a program, a host, or everything, in memory and on disk.
    Forget(Forget),
}

/// What to export, and for which reader.
#[derive(Debug, clap::Args)]
pub struct Export {
    #[command(flatten)]
    which: Which,
    /// Print the paths of QUIC connections alone, signed by the site's key (`headstart relay key FILE`). Keep the result private:
    /// it lets a reader test which addresses were used.
    #[arg(long, value_name = "KEY", conflicts_with_all = ["app", "host"])]
    sign: Option<PathBuf>,
    /// Name of this host in the signed history [default: the host name].
    #[arg(long, value_name = "NAME", requires = "sign")]
    from: Option<String>,
    /// Print one JSON object, as without this option.
    #[arg(long, conflicts_with = "sign")]
    json: bool,
}

/// What to import, and which site to trust.
#[derive(Debug, clap::Args)]
pub struct Import {
    /// File of `history export --sign`.
    file: PathBuf,
    /// Public key of the site that must have signed it (64 hexadecimal digits).
    #[arg(long, value_name = "KEY")]
    site: String,
    #[command(flatten)]
    format: Format,
}

/// What to forget.
#[derive(Debug, clap::Args)]
pub struct Forget {
    #[command(flatten)]
    which: Which,
    /// Only what was imported from other hosts.
    #[arg(long, conflicts_with_all = ["app", "host"])]
    imported: bool,
    #[command(flatten)]
    format: Format,
}

/// What to show, and how.
#[derive(Debug, clap::Args)]
pub struct Show {
    #[command(flatten)]
    which: Which,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// Of what.
#[derive(Debug, clap::Args)]
pub struct Which {
    /// Only this program: its file name, or a path that ends in it.
    #[arg(long, value_name = "PROGRAM", value_parser = program)]
    app: Option<String>,
    /// Only this host name.
    #[arg(long, value_name = "NAME")]
    host: Option<String>,
}

/// The file name in `text`, by which programs are known.
fn program(text: &str) -> Result<String, &'static str> {
    match Path::new(text).file_name().and_then(OsStr::to_str) {
        Some(name) => Ok(name.to_owned()),
        // An unset variable of a script; [`Which::check`] says what it would select.
        None if text.is_empty() => Ok(String::new()),
        None => Err("must end in the file name of a program, as in curl or /usr/bin/curl"),
    }
}

impl Which {
    /// An empty name selects nothing; for a script with an unset variable, the history would seem to be gone.
    fn check(&self) -> Result<(), exit::Usage> {
        for (flag, value) in [("--app", &self.app), ("--host", &self.host)] {
            if value.as_deref() == Some("") {
                return Err(exit::Usage(format!("{flag}: must not be empty; leave it out to select everything")));
            }
        }
        Ok(())
    }
}

/// The history, where it was found, and what went wrong with the store.
struct Found {
    history: History,
    source: &'static str,
    /// What other hosts have learned.
    priors: Vec<SignedHistory>,
    notes: Vec<String>,
}

/// Shows, exports or forgets.
pub fn run(verb: Verb) -> anyhow::Result<u8> {
    match &verb {
        Verb::Show(Show { which, .. }) | Verb::Export(Export { which, .. }) | Verb::Forget(Forget { which, .. }) => {
            which.check()?;
        }
        Verb::Import(_) => {}
    }
    match verb {
        Verb::Show(Show { which, json: false }) => {
            let found = found(&which)?;
            // One call, so that a reader who stops reading ends it.
            crate::say!("{}", text(&found, &which).trim_end());
        }
        Verb::Export(Export { sign: Some(key), from, .. }) => {
            fleet::export(&key, from.as_deref(), folder()?)?;
        }
        Verb::Show(Show { which, json: true }) | Verb::Export(Export { which, .. }) => {
            let found = found(&which)?;
            crate::say!("{}", json(&found)?);
        }
        Verb::Import(args) => return fleet::import(&args, folder()?),
        Verb::Forget(Forget { imported: true, format, .. }) => {
            let gone = Priors::in_folder(folder()?).remove()?;
            if format.json {
                output::document(1, serde_json::json!({ "deleted": gone > 0, "records": gone }));
            } else {
                let what = plural(gone as u64, "other host");
                crate::say!("deleted: history of {what}; servers that are running use it until they end");
            }
        }
        Verb::Forget(Forget { which, format, .. }) => forget(&which, format)?,
    }
    Ok(exit::OK)
}

fn found(which: &Which) -> anyhow::Result<Found> {
    let mut found = match Link::find() {
        Some(link) => {
            let (history, notes) = link.history()?;
            Found { history, source: "supervisor", priors: Vec::new(), notes }
        }
        None => {
            let mut store = store()?;
            let kept = store.load();
            let history = History { programs: kept.memory.programs, networks: kept.networks, here: None };
            Found { history, source: "disk", priors: Vec::new(), notes: store.notes() }
        }
    };
    if let Some(folder) = folder().ok().filter(|_| which.app.is_none() && which.host.is_none()) {
        match Priors::in_folder(folder).load() {
            Ok(priors) => found.priors = priors,
            Err(why) => found.notes.push(format!("history of other hosts: {why}")),
        }
    }
    for note in &found.notes {
        crate::complain!("headstart: {note}");
    }
    select(&mut found.history, which);
    Ok(found)
}

fn store() -> anyhow::Result<Store> {
    Ok(Store::in_folder(folder()?))
}

fn folder() -> anyhow::Result<PathBuf> {
    let Some(folder) = store::folder(|name| std::env::var_os(name)) else {
        anyhow::bail!(
            "no history: no supervisor of this user is running, and none is stored, because HEADSTART_HISTORY is `off`, or neither \
             XDG_STATE_HOME nor HOME is an absolute path"
        );
    };
    Ok(folder)
}

/// Leaves what was asked for.
fn select(history: &mut History, which: &Which) {
    let host = which.host.as_ref().map(|host| host.trim_end_matches('.').to_ascii_lowercase());
    if let Some(app) = &which.app {
        history.programs.retain(|program| program.app == *app);
    }
    if let Some(host) = &host {
        history.programs.iter_mut().for_each(|program| program.names.retain(|name| name.name == *host));
        history.programs.retain(|program| !program.names.is_empty());
    }
    if which.app.is_some() || host.is_some() {
        // Networks know addresses, neither programs nor names.
        history.networks.clear();
    }
}

fn json(found: &Found) -> anyhow::Result<serde_json::Value> {
    let mut object = serde_json::to_value(&found.history)?;
    object["here"] = found.history.here.map(|id| format!("{:016x}", id.0)).into();
    for (network, record) in object["networks"].as_array_mut().into_iter().flatten().zip(&found.history.networks) {
        network["id"] = format!("{:016x}", record.id.0).into();
    }
    object["priors"] = fleet::json(&found.priors);
    object["version"] = VERSION.into();
    object["source"] = found.source.into();
    Ok(object)
}

fn text(found: &Found, which: &Which) -> String {
    let mut out = String::new();
    if found.history.programs.is_empty() {
        let _ = writeln!(out, "no program in the history{}", if which.host.is_some() { " uses this host" } else { "" });
    }
    for program in &found.history.programs {
        let _ = writeln!(out, "{}, {}", program.app, plural(program.launches.into(), "launch"));
        program_text(&mut out, program);
    }
    for network in &found.history.networks {
        network_text(&mut out, network, found.history.here == Some(network.id));
    }
    out + &fleet::text(&found.priors)
}

fn program_text(out: &mut String, program: &Program) {
    let mut names: Vec<&Name> = program.names.iter().collect();
    names.sort_by(|a, b| b.share.total_cmp(&a.share).then_with(|| a.name.cmp(&b.name)));
    for name in names {
        let mut words = vec![frequency(name, program.launches)];
        words.push(format!("{} ms after", name.after_ms));
        for port in &name.ports {
            let mut text = format!("port {} in {:.0} %", port.port, 100.0 * port.share);
            if port.speaks_first {
                text += ", server speaks first";
            }
            if port.closes_ms > 0 {
                let _ = write!(text, ", closes after {:.1} s idle", f64::from(port.closes_ms) / 1e3);
            }
            words.push(text);
        }
        let _ = writeln!(out, "  {}  {}", name.name, words.join("; "));
    }
}

/// In which share of a program's launches it asks for a name. A share counts from the name's first launch.
fn frequency(name: &Name, launches: u32) -> String {
    let share = 100.0 * name.share;
    match name.launches {
        1 if launches > 1 => "first used in the last launch".to_owned(),
        n if (2..launches).contains(&n) => format!("in {share:.0} % of the last {n} launches"),
        _ => format!("in {share:.0} % of launches"),
    }
}

fn network_text(out: &mut String, network: &NetworkRecord, here: bool) {
    let family = |name: &str, f: &FamilyRecord| {
        let ms = |us: u32| f64::from(us) / 1e3;
        let rtt = f.rtt.map(|rtt| format!("round trip {:.1} ms", ms(rtt.smoothed_us)));
        let lookup = f.lookup.map(|took| format!("lookup {:.1} ms", ms(took.smoothed_us)));
        let words: Vec<_> = rtt.into_iter().chain(lookup).collect();
        (!words.is_empty()).then(|| format!("{name} {}", words.join(", ")))
    };
    let mut words = vec![plural(network.peers.len() as u64, "address")];
    words.extend([family("IPv4", &network.v4), family("IPv6", &network.v6)].into_iter().flatten());
    let mark = if here { ", here" } else { "" };
    let _ = writeln!(out, "network {:016x}{mark}: {}", network.id.0, words.join("; "));
}

fn is_empty(history: &History) -> bool {
    history.programs.is_empty() && history.networks.is_empty()
}

fn forget(which: &Which, format: Format) -> anyhow::Result<()> {
    let (app, host) = (which.app.as_deref(), which.host.as_deref());
    // A supervisor may know what is not on disk yet.
    let known = (app, host) == (None, None) || !is_empty(&found(which)?.history);
    let records = match Link::find() {
        Some(link) => link.forget(app, host)?,
        None => store()?.forget(app, host)?,
    };
    let what = match (app, host) {
        (None, None) => "everything".to_owned(),
        (Some(app), None) => format!("history of {app}"),
        (None, Some(host)) => format!("history of {host}"),
        (Some(app), Some(host)) => format!("history of {host} in {app}"),
    };
    let deleted = known || records > 0;
    if format.json {
        output::document(1, serde_json::json!({ "deleted": deleted, "records": records }));
    } else if deleted {
        crate::say!("deleted: {what}; {} on disk", plural(records as u64, "record"));
    } else {
        crate::say!("nothing to delete: no {what}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use headstart_core::connect::memory::Port;
    use headstart_core::path::NetworkId;
    use headstart_core::path::record::RttRecord;

    fn sample() -> Found {
        let port = Port { port: 443, share: 0.9, closes_ms: 5000, ..Port::default() };
        let name = |name: &str, share| Name { name: name.into(), share, after_ms: 12, ..Name::default() };
        let often = Name { ports: vec![port], ..name("www.example.org", 0.75) };
        let curl = Program { app: "curl".into(), launches: 4, names: vec![name("rare.example", 0.25), often] };
        let rtt = Some(RttRecord { smoothed_us: 20_500, variation_us: 1 });
        let network =
            NetworkRecord { id: NetworkId(7), v4: FamilyRecord { rtt, lookup: None }, ..NetworkRecord::default() };
        let history = History { programs: vec![curl], networks: vec![network], here: Some(NetworkId(7)) };
        Found { history, source: "disk", priors: Vec::new(), notes: Vec::new() }
    }

    fn which(app: Option<&str>, host: Option<&str>) -> Which {
        Which { app: app.map(str::to_owned), host: host.map(str::to_owned) }
    }

    #[test]
    fn people_see_names_shares_and_networks_the_most_frequent_name_first() {
        let text = text(&sample(), &which(None, None));
        assert_eq!(
            text,
            "curl, 4 launches\n\
             \x20 www.example.org  in 75 % of launches; 12 ms after; port 443 in 90 %, closes after 5.0 s idle\n\
             \x20 rare.example  in 25 % of launches; 12 ms after\n\
             network 0000000000000007, here: 0 addresses; IPv4 round trip 20.5 ms\n"
        );
    }

    #[test]
    fn a_name_that_is_new_is_not_said_to_be_in_every_launch() {
        let of = |launches, share| frequency(&Name { launches, share, ..Name::default() }, 16);
        assert_eq!(of(1, 1.0), "first used in the last launch");
        assert_eq!(of(5, 0.8), "in 80 % of the last 5 launches");
        assert_eq!(of(16, 1.0), "in 100 % of launches");
        assert_eq!(frequency(&Name { launches: 1, share: 1.0, ..Name::default() }, 1), "in 100 % of launches");
    }

    #[test]
    fn a_program_is_known_by_its_path_too() {
        for text in ["curl", "/usr/bin/curl", "./curl", "bin/curl/"] {
            assert_eq!(program(text).as_deref(), Ok("curl"), "{text}");
        }
        assert!(program("/").is_err() && program("bin/..").is_err());
    }

    #[test]
    fn only_what_was_asked_for_is_left() {
        let left = |app, host| {
            let mut found = sample();
            select(&mut found.history, &which(app, host));
            (found.history.programs.iter().map(|p| p.names.len()).collect::<Vec<_>>(), found.history.networks.len())
        };
        assert_eq!(left(None, None), (vec![2], 1));
        assert_eq!(left(Some("curl"), None), (vec![2], 0));
        assert_eq!(left(Some("wget"), None), (vec![], 0));
        assert_eq!(left(None, Some("WWW.example.org.")), (vec![1], 0));
    }

    #[test]
    fn programs_get_all_of_it_with_a_version() {
        let object = json(&sample()).unwrap();
        assert_eq!((&object["version"], &object["source"]), (&2.into(), &"disk".into()));
        assert_eq!(object["programs"][0]["names"][1]["name"], "www.example.org");
        assert_eq!(object["networks"][0]["id"], format!("{:016x}", sample().history.networks[0].id.0));
        assert_eq!(object["networks"][0]["v4"]["rtt"]["smoothed_us"], 20_500);
    }
}
