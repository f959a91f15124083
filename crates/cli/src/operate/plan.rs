//! `headstart plan`: every change that `headstart up` would make here and now, and none made. Needs no privilege.

use super::{By, bundling_works, explained, initcwnd, settings, something_is_on};
use crate::config::{Config, all};
use crate::output::{self, Format};
use crate::{exit, say};
use headstart_core::cwnd::initcwnd::Path as Known;
use headstart_io::daemon::Initial;
use headstart_io::daemon::starts::Starts;
use headstart_io::daemon::windows::Windows;
use headstart_io::host::change::{Change, bundle::Bundle};
use headstart_io::host::{Kernel, QUEUE, occupants};
use std::path::Path;

/// Version of the JSON.
const VERSION: u32 = 1;

/// Arguments of `headstart plan`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Plan for `up --initcwnd`.
    #[arg(long, value_enum, num_args = 0..=1, value_name = "VIA")]
    initcwnd: Option<Option<By>>,
    /// Plan for `up --bundle`.
    #[arg(long)]
    bundle: bool,
    /// Plan for `up --all`, except the tunnel, which leaves nothing to undo.
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    format: Format,
}

/// Plans.
pub fn run(args: &Args, named: Option<&Path>) -> anyhow::Result<u8> {
    let mut config = Config::load(named)?;
    initcwnd(&mut config, args.initcwnd)?;
    config.flag(&all::BUNDLE, "--bundle", args.bundle.then_some("true"))?;
    config.flag(&all::PROFILE, "--all", args.all.then_some(all::ALL_COLUMNS))?;
    let mut settings = settings(&config)?;
    if settings.bundle && !config.is_on(&all::BUNDLE) && bundling_works().is_err() {
        settings.bundle = false;
    }
    something_is_on(&settings, "")?;
    let failed = |e| explained(headstart_io::host::ledger::LedgerError::from(e).into());
    let mut kernel = Kernel::open().map_err(failed)?;
    let occupants = occupants(&mut kernel, settings.numbers).map_err(failed)?;
    let mut changes = settings.standing.clone();
    if settings.bundle {
        changes.push(Change::Bundle(Bundle::new(QUEUE)));
    }
    let mut paths = Vec::new();
    match settings.windows {
        Some(Initial { bounds, in_kernel: true, .. }) => {
            paths = Starts::plan(&mut kernel, &bounds).map_err(failed)?;
            paths.iter_mut().for_each(|path| path.window = path.window.min(bounds.most));
        }
        Some(Initial { bounds, .. }) => {
            changes.extend(Windows::new(bounds, settings.numbers).plan(&mut kernel).map_err(failed)?);
        }
        None => {}
    }
    let code = if occupants.strangers.is_empty() { exit::OK } else { exit::DEGRADED };
    if args.format.json {
        let changes: Vec<_> =
            changes.iter().map(|c| serde_json::json!({ "kind": c.kind(), "change": c.to_string() })).collect();
        let strangers = occupants.strangers;
        let paths: Vec<_> =
            paths.iter().map(|path| serde_json::json!({ "to": to(path), "window": path.window })).collect();
        output::document(VERSION, serde_json::json!({ "changes": changes, "paths": paths, "strangers": strangers }));
        return Ok(code);
    }
    for stranger in &occupants.strangers {
        say!("# in headstart's routing table, but not created by headstart; `up` would refuse: {stranger}");
    }
    for change in &changes {
        say!("{change:#}");
    }
    for path in &paths {
        say!(
            "# while the daemon is up, by a program in the kernel: {} begins with at most {} segments",
            to(path),
            path.window
        );
    }
    if changes.is_empty() && paths.is_empty() {
        say!(
            "# no changes yet: no known peer has a window larger than the kernel's default; the daemon would keep checking"
        );
    }
    Ok(code)
}

/// The host or the network that a path leads to.
fn to(path: &Known) -> String {
    format!("{}/{}", path.to, path.bits)
}
