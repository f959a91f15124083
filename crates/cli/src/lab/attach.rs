//! `headstart lab attach`: an emulated link in the way of a network that is there already.

use super::Emulated;
use crate::exit;
use headstart_lab::netns::{self, Target};
use std::ffi::OsString;

/// Arguments of `headstart lab attach`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A process in the network that is meant, such as a container's.
    #[arg(long)]
    pid: u32,
    /// Interface there [default: that of the default route, or the only one].
    #[arg(long, value_name = "NAME")]
    interface: Option<String>,
    /// Allow the network of this host itself: all of its traffic takes the link.
    #[arg(long)]
    host: bool,
    #[command(flatten)]
    emulated: Emulated,
    /// Program and arguments, run in that network; the link ends with it [default: wait for Ctrl-C].
    #[arg(trailing_var_arg = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// Runs it.
pub fn run(args: Args) -> anyhow::Result<u8> {
    let Args { pid, interface, host, emulated, command } = args;
    let (link, settings) = emulated.checked()?;
    let status = netns::attach(&Target { pid, interface, host }, &link, &command, &settings)?;
    Ok(u8::try_from(status).unwrap_or(exit::FAILURE))
}
