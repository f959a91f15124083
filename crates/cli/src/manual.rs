//! `headstart completions SHELL` and `headstart man [DIR]`: completion scripts and man pages, generated from the command line.

use crate::{exit, help};
use anyhow::Context as _;
use std::path::PathBuf;

/// Arguments of `headstart completions`.
#[derive(Debug, clap::Args)]
pub struct Completions {
    /// Shell to generate the script for.
    #[arg(value_enum)]
    shell: clap_complete::Shell,
}

/// Arguments of `headstart man`.
#[derive(Debug, clap::Args)]
pub struct Man {
    /// Folder for the pages of all verbs [default: print the page of `headstart`].
    #[arg(value_name = "DIR")]
    folder: Option<PathBuf>,
}

/// Prints the completion script.
pub fn completions(args: &Completions) -> anyhow::Result<u8> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut help::command(), "headstart", &mut script);
    crate::say!("{}", String::from_utf8(script)?.trim_end());
    Ok(exit::OK)
}

/// Prints the page of `headstart`, or writes the pages of all verbs.
pub fn man(args: &Man) -> anyhow::Result<u8> {
    let Some(folder) = &args.folder else {
        let mut page = Vec::new();
        clap_mangen::Man::new(help::command()).render(&mut page)?;
        crate::say!("{}", String::from_utf8(page)?.trim_end());
        return Ok(exit::OK);
    };
    let what = || format!("cannot write man pages to {}", folder.display());
    std::fs::create_dir_all(folder).with_context(what)?;
    clap_mangen::generate_to(help::command(), folder).with_context(what)?;
    crate::complain!("headstart: man pages written to {}", folder.display());
    Ok(exit::OK)
}
