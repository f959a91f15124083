//! `run --measure --via ebpf`: the program stays in the host's network, in a control group of its own, and programs in the kernel tell
//! what it does (docs/decisions/0088). Nothing carries its packets, so nothing need outlive it.

use super::{By, Measured, MeasuredBy, Outputs, Wanted, report, start};
use crate::exit;
use anyhow::Context as _;
use headstart_io::board::Audience;
use headstart_io::cgroup::{self, Group};
use headstart_io::clock::Clock;
use headstart_io::forward::Attributed;
use headstart_io::forward::ebpf::{Programs, Watcher};
use headstart_io::sys::signal;
use std::cell::RefCell;
use std::process::Command;
use std::rc::Rc;

/// A group for the program, and what is attached to it.
pub(super) struct Kernel {
    programs: Programs,
    group: Group,
}

/// Why it cannot be.
pub(super) struct WhyNot {
    pub why: String,
    pub code: u8,
}

fn refused(is_not_permitted: bool) -> u8 {
    if is_not_permitted { exit::NOT_PERMITTED } else { exit::FAILURE }
}

/// Prepares it; the host is as it was if that fails.
pub(super) fn attach(args: &Wanted<'_>) -> Result<Kernel, WhyNot> {
    let wants_packets = [
        (args.pcapng.is_some(), "--pcapng"),
        (args.accelerate.is_some(), "--accelerate"),
        (args.profile.is_some(), "--profile"),
        (args.no_lookout, "--no-lookout"),
    ];
    if let Some((_, flag)) = wants_packets.into_iter().find(|(wanted, _)| *wanted) {
        return Err(WhyNot { why: format!("{flag} needs the forwarder (--via tun)"), code: exit::USAGE });
    }
    let limits = cgroup::limits().unwrap_or_default();
    if !limits.is_empty() {
        let limits = limits.join(" and ");
        let why = format!("{limits} of this control group are not visible to a program in a subgroup");
        if args.via == MeasuredBy::Auto {
            return Err(WhyNot { why, code: exit::FAILURE });
        }
        args.complain(format_args!("{why}"));
    }
    let group = Group::create().map_err(|e| WhyNot {
        why: format!("making a control group: {e}"),
        code: refused(e.kind() == std::io::ErrorKind::PermissionDenied),
    })?;
    let programs =
        Programs::attach(&group).map_err(|e| WhyNot { why: e.to_string(), code: refused(e.is_not_permitted()) })?;
    Ok(Kernel { programs, group })
}

/// Runs the program and measures; its exit code.
pub(super) fn run(args: &Wanted<'_>, outputs: Outputs, kernel: Kernel) -> anyhow::Result<u8> {
    signal::pass_on_to(0).context("handling signals")?;
    let Kernel { programs, group } = kernel;
    let mut command = Command::new(&args.command[0]);
    command.args(&args.command[1..]);
    group.adopt(&mut command).context("preparing the program")?;
    let clock = Clock::new();
    let measured = Rc::new(RefCell::new(Measured {
        lines: outputs.lines,
        telemetry: outputs.telemetry,
        summary: outputs.summary,
        ..Measured::default()
    }));
    let sink = Rc::clone(&measured);
    let mut watcher = Watcher::new(programs, clock, Box::new(move |seen: Attributed| sink.borrow_mut().take(&seen)))?;
    if let Err(why) = watcher.tell_who_asks(Audience::Owner) {
        args.complain(format_args!("`headstart top` cannot ask: {why}"));
    }
    let (mut child, pid) = start(&mut command)?;
    let ended = headstart_io::process_end(pid).context("watching the program")?;
    let watched = watcher.run(&ended);
    let status = child.wait().context("waiting for the program")?;
    signal::pass_on_to(0).context("handling signals")?;
    watched?;
    let lost = watcher.lost().map_or(0, |lost| lost.iter().sum());
    let ran = watcher.ran();
    drop((watcher, group));
    let mut measured = measured.borrow_mut();
    measured.by = By::Kernel { lost, ran };
    let is_whole = report(args, &mut measured, clock.now());
    Ok(match exit::of_child(status) {
        exit::OK if !is_whole => exit::FAILURE,
        code => code,
    })
}
