//! `headstart lab link`: the link of a running `lab shell` or `lab attach`, shown and changed.

use crate::exit;
use headstart_lab::netns::{self, Request};

/// What to do.
#[derive(Debug, clap::Subcommand)]
pub enum Verb {
    /// Show the link of a running `lab shell` or `lab attach`.
    Show(Show),
    /// Change the link of a running `lab shell` or `lab attach`; packets on their way arrive as if it had not changed.
    Set(Set),
}

/// Arguments of `headstart lab link show`.
#[derive(Debug, clap::Args)]
pub struct Show {
    #[command(flatten)]
    lab: Lab,
}

/// Arguments of `headstart lab link set`.
#[derive(Debug, clap::Args)]
pub struct Set {
    /// What changes, as for --link: "rate=5mbit", or "delay=20ms;delay=80ms" for up and down; a preset replaces all.
    link: String,
    #[command(flatten)]
    lab: Lab,
}

/// Which lab.
#[derive(Debug, clap::Args)]
struct Lab {
    /// Process in the shell, or in the network of `lab attach` [default: where this command runs].
    #[arg(long)]
    pid: Option<u32>,
}

/// Runs one.
pub fn run(verb: &Verb) -> anyhow::Result<u8> {
    let (lab, request) = match verb {
        Verb::Show(Show { lab }) => (lab, Request::Show),
        Verb::Set(Set { link, lab }) => {
            netns::link(link).map_err(|why| exit::Usage(why.to_string()))?;
            (lab, Request::Set(link.clone()))
        }
    };
    crate::say!("{}", netns::ask(lab.pid, &request)?);
    Ok(exit::OK)
}
