//! `headstart watch`: one sentence, with what to do, when the network of a program turns bad, and one when that is over.
//!
//! It asks what `headstart ui` asks, once an interval, and changes nothing. A cause is told once, however long it lasts and
//! whatever follows from it.

mod causes;
mod hook;

use crate::exit;
use crate::input;
use crate::observe::Observer;
use crate::output::{Format, document, versioned};
use crate::post::Target;
use causes::{Cause, Watcher};
use headstart_core::time::Duration;
use headstart_io::clock::Clock;
use hook::Hook;
use serde_json::{Value, json};
use std::process::{Command, Stdio};

/// Version of the JSON.
const VERSION: u32 = 1;

/// Arguments of `headstart watch`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Seconds between checks.
    #[arg(short, long, value_name = "SECONDS", default_value_t = 5.0)]
    interval: f64,
    /// Also show desktop notifications (`notify-send`).
    #[arg(long)]
    notify: bool,
    /// Also post each change, as the JSON object of --json, to this http or https URL. What could not be delivered is retried.
    #[arg(long, value_name = "URL")]
    webhook: Option<Target>,
    #[command(flatten)]
    format: Format,
}

/// Watches until it is ended.
pub fn run(args: &Args) -> anyhow::Result<u8> {
    let every = input::interval(args.interval)?;
    let (clock, observer) = (Clock::new(), Observer::new(0));
    let (mut watcher, mut notify) = (Watcher::default(), args.notify);
    let mut hook = args.webhook.clone().map(Hook::new);
    loop {
        for (cause, began) in watcher.look(observer.look(Duration::ZERO)) {
            tell(&cause, began, args.format);
            notify = notify && notified(&cause, began);
            if let Some(hook) = &mut hook {
                hook.add(versioned(VERSION, change(&cause, began)));
            }
        }
        if let Some(hook) = &mut hook {
            hook.deliver();
        }
        if crate::output::lost().is_some() {
            // The reader is gone.
            return Ok(exit::FAILURE);
        }
        clock.sleep(every);
    }
}

fn tell(cause: &Cause, began: bool, format: Format) {
    let Cause { words, fix, .. } = cause;
    match (format.json, began) {
        (true, _) => document(VERSION, change(cause, began)),
        (false, true) => crate::say!("{words}. {fix}."),
        (false, false) => crate::say!("over: {words}"),
    }
}

fn change(cause: &Cause, began: bool) -> Value {
    json!({ "cause": cause.key, "began": began, "words": cause.words, "fix": cause.fix })
}

/// Notifies the desktop; whether that works.
fn notified(cause: &Cause, began: bool) -> bool {
    let (title, body) = if began {
        (cause.words.clone(), format!("{}.", cause.fix))
    } else {
        (format!("Over: {}", cause.words), String::new())
    };
    let mut command = Command::new("notify-send");
    command.args(["--app-name=headstart", "--"]).args([title, body]);
    match command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status() {
        Ok(status) if status.success() => true,
        Ok(status) => {
            crate::complain!(
                "headstart: --notify: notify-send failed ({status}): is there a desktop session? No more notifications"
            );
            false
        }
        Err(why) => {
            crate::complain!("headstart: --notify: notify-send: {why} (Debian package libnotify-bin)");
            false
        }
    }
}
