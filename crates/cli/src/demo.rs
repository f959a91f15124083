//! `headstart demo`: a quick tour. Real programs through an emulated dual-stack network, bare and under headstart, where
//! all is well and where IPv6 is broken; then every race beside its baselines, and whole pages, in virtual time. Needs no
//! Debian package: whichever of curl, wget and Python is there takes part, headstart's own client always does.

use crate::{exit, lab, output};
use headstart_lab::experiment::{self, Claims, Context, Outcome, Speeds};
use headstart_lab::netns::{Entered, Entry};
use headstart_lab::report;
use std::io::IsTerminal;
use std::path::PathBuf;

/// What is shown, in this order, and at which speed.
const TOUR: [(&str, Speeds); 3] =
    [("connect-programs", Speeds::Namespaces), ("connect-overhead", Speeds::Virtual), ("page-load", Speeds::Virtual)];

/// Arguments of `headstart demo`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Folder for the report.
    #[arg(long, value_name = "DIR", default_value = "headstart-results/demo")]
    out: PathBuf,
    /// Seed of everything random.
    #[arg(long, default_value_t = 1, allow_negative_numbers = true)]
    seed: u64,
}

/// Takes the tour.
pub fn run(args: &Args) -> anyhow::Result<u8> {
    if let Entered::Ended(status) = Entry::this_command().pass_signals().enter()? {
        return Ok(u8::try_from(status).unwrap_or(exit::FAILURE));
    }
    crate::say!(
        "Unmodified programs fetch a page over an emulated LTE link with IPv4 and IPv6, without headstart and under"
    );
    crate::say!(
        "`headstart run`; then every race beside its baselines, and whole pages, in virtual time. About 35 seconds.\n"
    );
    let mut outcomes = Vec::new();
    for (name, speeds) in TOUR {
        let outcome =
            lab::run::observed(experiment::find(name)?, Context { quick: true, speeds, ..Context::new(args.seed) })?;
        crate::say!(
            "{}",
            report::terminal(&outcome, output::width(), std::io::stdout().is_terminal() && output::colour())
        );
        outcomes.push(outcome);
    }
    let claims = Claims::built_in()?;
    for outcome in &outcomes {
        report::write(&args.out.join(&outcome.experiment), outcome, &claims)?;
    }
    let page = report::write_readable(&args.out, &outcomes, &claims)?;
    let page = page.canonicalize().unwrap_or(page);
    crate::say!("report: {}", page.display());
    crate::say!("next:   headstart run -- curl https://example.org/   (your own network; any program)");
    crate::say!("        headstart lab shell --link lte               (a shell behind an emulated link)");
    Ok(if outcomes.iter().all(|o: &Outcome| o.valid) { exit::OK } else { exit::INVALID })
}
