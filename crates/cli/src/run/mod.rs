//! `headstart run -- CMD`: a program whose names are resolved and whose connections are opened ahead of time.
//!
//! This process finds or starts the user's supervisor (see [`crate::supervise`]), registers the run with it, and waits for
//! the program, its child, which has the library preloaded. Standard input, output and error are the program's; headstart
//! says one line on standard error afterwards.

pub mod environment;
pub mod measure;
mod remains;
mod summary;
mod ways;

use crate::config::{Config, all};
use crate::{exit, input, supervise, telemetry};
use anyhow::Context as _;
use clap::ValueEnum as _;
use headstart_core::connect::{Settings, race};
use headstart_core::path::Family;
use headstart_io::calls::Outstanding;
use headstart_io::control::{ControlError, Summary};
use headstart_io::folder::{Folder, Library};
use headstart_io::link::{Link, Preloaded, Registration};
use headstart_io::sys::launch::{Launch, Launched};
use headstart_io::sys::seccomp::{Listener, Trap};
use headstart_io::sys::signal;
use headstart_io::watchdog::{self, Duty};
use measure::Wanted;
use std::collections::HashMap;
use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
pub use ways::Via;
use ways::Ways;

/// The preloaded library, as the build made it.
const LIBRARY: Library<'_> =
    Library { bytes: include_bytes!(env!("HEADSTART_LIBRARY")), id: env!("HEADSTART_LIBRARY_ID") };

/// The supervisor of one run, given its control connection; what its process ends with.
pub type Alone = fn(OwnedFd, Settings) -> u8;

/// Arguments of `headstart run`.
#[derive(Debug, Default, clap::Args)]
pub struct Args {
    /// Strategy for ordering DNS lookups and connection attempts (`headstart list races`) [default: setting `connect.race`].
    #[arg(long, value_name = "NAME")]
    race: Option<String>,
    /// How long DNS answers are cached: `ttl`, `off`, or seconds such as `3600s` [default: setting `connect.cache-lifetime`].
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    cache_lifetime: Option<String>,
    /// Share of connections that also try the other address family, to learn how fast it is [default: setting `connect.explore`].
    #[arg(long, value_name = "SHARE")]
    explore: Option<String>,
    /// How headstart hooks into the program [default: setting `connect.via`]; with --measure, how to measure [default: tun].
    #[arg(long, value_enum)]
    via: Option<Via>,
    /// Measure instead of accelerate: connect and round-trip times, lookups, throughput, gaps, retransmissions. The program
    /// runs in its own network namespace and notices no difference, except: a port that it serves is open on the host, and
    /// where that one is taken, another that the last line names; multicast, broadcast, link-local IPv6 and
    /// protocols other than TCP, UDP and ICMP echo are dropped (the summary counts them); source ports below 1024 or in use
    /// here change; the host's Unix sockets with abstract names and UDP services on its own addresses (other than loopback
    /// and DNS) are out of reach. Needs root.
    #[arg(long, conflicts_with_all = ["race", "cache_lifetime", "explore", "private"])]
    measure: bool,
    /// With --measure: write one JSON line to FILE for each connection and lookup when it ends.
    #[arg(long, value_name = "FILE", requires = "measure")]
    flows: Option<PathBuf>,
    /// With --measure: write all packets to FILE as pcapng, each labelled with its program.
    #[arg(long, value_name = "FILE", requires = "measure")]
    pcapng: Option<PathBuf>,
    /// With --pcapng: keep at most BYTES of each packet (128 covers the headers).
    #[arg(long, value_name = "BYTES", requires = "pcapng")]
    snap: Option<usize>,
    /// With --measure: also time each request, from its last byte until the peer acknowledges it (request_rtt_ms,
    /// longest_request_rtt_ms). Covers requests up to 16 KiB, one at a time; costs one or two wake-ups each.
    #[arg(long, requires = "measure")]
    request_rtt: bool,
    /// With --measure: do not busy-poll (for up to 100 us) for expected answers. Busy polling can make short round trips of the
    /// program shorter than without measuring.
    #[arg(long, requires = "measure")]
    no_lookout: bool,
    /// With --measure: race each connection over all addresses of its host name; works for programs that headstart cannot
    /// otherwise hook into. Raced connections are marked, and their connect times are not counted.
    #[arg(long, requires = "measure")]
    accelerate: bool,
    /// For the lab: forward with the flaws of this profile.
    #[arg(long, value_name = "NAME", requires = "measure", conflicts_with = "accelerate", hide = true)]
    profile: Option<String>,
    /// Use a separate supervisor without history, which ends with this run. Also: HEADSTART=private. Implied by non-default
    /// settings.
    #[arg(long)]
    private: bool,
    /// Do not print the summary line (also: HEADSTART_QUIET=1, setting `run.quiet`).
    #[arg(short, long)]
    quiet: bool,
    /// Write a JSON summary of gains and costs to FILE.
    #[arg(long, value_name = "FILE")]
    summary: Option<PathBuf>,
    /// Print the summary as one JSON object on standard error instead of the summary line.
    #[arg(long, conflicts_with = "summary")]
    json: bool,
    /// For the lab's `oracle`: a file of lines `NAME 4` or `NAME 6`.
    #[arg(long, value_name = "FILE", hide = true)]
    faster: Option<PathBuf>,
    /// The program and its arguments.
    #[arg(required = true, trailing_var_arg = true, value_name = "CMD")]
    command: Vec<OsString>,
}

impl Args {
    /// Those of `headstart-run` with these words: a program and its arguments, `-q` and `--` before them or not. None if they ask
    /// for more.
    pub fn plain(words: &[OsString]) -> Option<Self> {
        let quiet = words.first().is_some_and(|word| word == "-q" || word == "--quiet");
        let words = &words[usize::from(quiet)..];
        let command = match words {
            [dashes, command @ ..] if dashes == "--" => command,
            [word, ..] if word.as_encoded_bytes().starts_with(b"-") => return None,
            command => command,
        };
        (!command.is_empty()).then(|| Self { quiet, command: command.to_vec(), ..Self::default() })
    }
}

/// Executes `headstart run` with these words; returns only with why not.
pub fn whole_instead(words: &[OsString]) -> anyhow::Error {
    let whole = supervise::whole();
    let why = Command::new(&whole).arg0("headstart").arg("run").args(words).exec();
    anyhow::Error::new(why).context(format!("cannot start {}, which belongs next to headstart-run", whole.display()))
}

/// Runs the program; its exit code.
pub fn run(mut args: Args, named: Option<&Path>) -> anyhow::Result<u8> {
    exit::in_json(args.json);
    environment::check()?;
    if args.snap == Some(0) {
        return Err(exit::Usage("--snap 0: must be at least 1".into()).into());
    }
    if args.measure {
        args.quiet = environment::is_quiet(args.quiet, &Config::load(named)?);
        let racing = args.accelerate.then(|| supervise::settings(&Config::load(named)?)).transpose()?;
        let via = match args.via.map(Via::source) {
            None => measure::MeasuredBy::default(),
            Some(Some(source)) => source,
            Some(None) => {
                return Err(exit::Usage("--via: with --measure, must be one of tun, ebpf, auto".into()).into());
            }
        };
        let telemetry = telemetry::settings(&Config::load(named)?)?;
        return measure::run(&Wanted {
            via,
            telemetry: telemetry.as_ref(),
            command: &args.command,
            quiet: args.quiet,
            summary: args.summary.as_deref(),
            json: args.json,
            flows: args.flows.as_deref(),
            pcapng: args.pcapng.as_deref(),
            snap: args.snap,
            request_rtt: args.request_rtt,
            no_lookout: args.no_lookout,
            profile: args.profile.as_deref(),
            accelerate: racing.as_ref(),
        });
    }
    covered(args, named, supervise::alone)
}

/// Runs the program with its names and connections served; its exit code. Should it need a supervisor of its own, `alone` is that.
pub fn covered(mut args: Args, named: Option<&Path>, alone: Alone) -> anyhow::Result<u8> {
    exit::in_json(args.json);
    environment::check()?;
    let to = summary::Destination::open(args.summary.as_deref(), args.json)?;
    let mut config = Config::load(named)?;
    args.quiet = environment::is_quiet(args.quiet, &config);
    let settings = settings_of(&args, &mut config)?;
    let via = via_of(&args, &config)?;
    args.via = Some(via);
    let written = telemetry::settings(&config)?;
    let program = &args.command[0];
    // From before there is anything to leave behind.
    signal::pass_on_to(0).context("handling signals")?;
    let mut ways = Ways::to(program, via);
    let folder = folder_for(&mut ways);
    let mut launch = Launch { words: &args.command, file: ways.file.as_deref(), variables: &[], trap: None };
    if let Some(why) = ways.why_not() {
        complain(&args, format_args!("{} runs without headstart: {why}", program.to_string_lossy()));
        return end_of(&start(&launch)?);
    }
    let registration = registration(&args, &ways, folder.as_ref())?;
    let variables = folder.as_ref().map(preloading);
    launch.variables = variables.as_ref().map_or(&[], |variables| variables);
    let trapped = trap(&args, &ways);
    launch.trap = trapped.as_ref().map(|trapped| &trapped.trap);
    let child = start(&launch)?;
    // The supervisor is found while the program is being loaded. What the program asks before that waits, and is not lost.
    let link = attach(&args, settings, registration, config.whole(&all::LINGER), alone);
    let calls = trapped.and_then(|trapped| hand_over_calls(&args, &ways, link.as_ref().ok(), trapped));
    let watched = link.as_ref().map_or(Ok(()), |link| watch(child.pid(), link));
    let code = end_of(&child)?;
    for why in watched.err().iter().chain(link.as_ref().err()) {
        complain(&args, format_args!("{why:#}; the program continued without headstart"));
    }
    let Ok(mut link) = link else { return Ok(code) };
    // What the program has left behind may connect yet.
    let reached = ways.preload.is_ok() || calls.is_some();
    let left = calls.is_some_and(|calls| !calls.is_over());
    if args.quiet && to.is_none() && !left && written.is_none() {
        // The gain is not reported.
        let ended = link.end();
        drop(folder);
        drop(ended);
        return Ok(code);
    }
    let summary = link.summary();
    if left {
        link.leave();
    }
    if let (Some(mut written), Ok(summary)) = (telemetry::open(written.as_ref(), args.quiet), &summary) {
        let name = Path::new(program).file_name().unwrap_or(program);
        written.run(&name.to_string_lossy(), &summary.tally);
        telemetry::end(Some(&mut written), args.quiet);
    }
    report(&args, reached, summary, to);
    Ok(code)
}

/// The settings of this run: those of `config`, under what the flags say.
fn settings_of(args: &Args, config: &mut Config) -> anyhow::Result<Settings> {
    let race = race_of(args)?;
    config.flag(&all::RACE, "--race", args.race.as_deref().filter(|_| !race.is_some_and(|race| race.lab_only)))?;
    config.flag(&all::CACHE_LIFETIME, "--cache-lifetime", args.cache_lifetime.as_deref())?;
    config.flag(&all::EXPLORE, "--explore", args.explore.as_deref())?;
    let mut settings = supervise::settings(config)?;
    settings.race = race.unwrap_or(settings.race);
    if let Some(file) = &args.faster {
        settings.faster = faster(file)?;
    }
    Ok(settings)
}

/// How to hook into the program, as the flag or `config` says.
fn via_of(args: &Args, config: &Config) -> anyhow::Result<Via> {
    match args.via {
        Some(Via::Tun | Via::Ebpf) => {
            let why = "--via: tun and ebpf measure; add --measure, or use one of auto, preload, seccomp";
            Err(exit::Usage(why.into()).into())
        }
        Some(via) => Ok(via),
        None => Ok(Via::from_str(&config.text(&all::VIA), false).unwrap_or(Via::Auto)),
    }
}

/// The folder of the library, if that is a way to reach the program; where it cannot be made, `ways` say so: system calls are heard
/// without a folder, and a program without either runs as it would alone.
fn folder_for(ways: &mut Ways) -> Option<Folder> {
    match ways.preload.is_ok().then(|| Folder::create(LIBRARY)).transpose() {
        Ok(folder) => folder,
        Err(why) => {
            ways.preload = Err(why.to_string());
            None
        }
    }
}

/// The variables of a program that loads the library in `folder`.
fn preloading(folder: &Folder) -> [(&'static str, OsString); 2] {
    let preload = after(std::env::var_os("LD_PRELOAD"), folder.library());
    [("LD_PRELOAD", preload), ("HEADSTART_DIR", folder.path().into())]
}

/// `library` after the others that the program has to load: what those do with names and connections (send them to a proxy,
/// say) comes first, and what is left of it comes to us.
fn after(others: Option<OsString>, library: &Path) -> OsString {
    let mut preload = others.unwrap_or_default();
    if !preload.is_empty() {
        preload.push(":");
    }
    preload.push(library);
    preload
}

fn complain(args: &Args, what: std::fmt::Arguments<'_>) {
    if !args.quiet {
        crate::complain!("headstart: {what}");
    }
}

/// The race of the flag, if there is one: the lab's own too.
fn race_of(args: &Args) -> anyhow::Result<Option<&'static race::Entry>> {
    let Some(name) = &args.race else { return Ok(None) };
    let entry = race::find(name).map_err(|e| exit::Usage(e.to_string()))?;
    if entry.lab_only && args.faster.is_none() {
        let why =
            format!("race {:?} needs knowledge that a real host does not have; only the lab can run it", entry.name);
        return Err(exit::Usage(why).into());
    }
    Ok(Some(entry))
}

/// Whether this run needs a supervisor of its own: on request, with settings other than the usual ones, or without a history, which
/// the user's supervisor has.
fn is_private(args: &Args, settings: &Settings) -> bool {
    let is = |name, value: &str| std::env::var_os(name).is_some_and(|v| v == value);
    let asked = args.private || is("HEADSTART", "private") || is("HEADSTART_HISTORY", "off");
    // Mistakes in the usual files have been found before this.
    let Ok(usual) = Config::in_common().map_err(Into::into).and_then(|config| supervise::settings(&config)) else {
        return true;
    };
    asked
        || settings.race.name != usual.race.name
        || settings.lifetime != usual.lifetime
        || settings.explore != usual.explore
        || args.faster.is_some()
}

/// What the run is to be registered with.
fn registration(args: &Args, ways: &Ways, folder: Option<&Folder>) -> anyhow::Result<Registration> {
    let words = args.command.iter().map(|word| word.to_string_lossy().into_owned());
    let preload = match folder {
        Some(folder) => {
            let listener = folder.listen().context("listening for the program")?;
            Some(Preloaded { listener, filter: folder.filter()?.into() })
        }
        None => None,
    };
    Ok(Registration { command: words.collect(), via: ways.name().to_owned(), preload })
}

/// Registers the run with the user's supervisor, or with one of its own.
fn attach(
    args: &Args,
    settings: Settings,
    registration: Registration,
    linger: u64,
    alone: Alone,
) -> anyhow::Result<Link> {
    if !is_private(args, &settings) {
        if let Some(warning) = environment::unusable_history() {
            complain(args, format_args!("{warning}"));
        }
        match Link::shared(supervise::command(linger), &registration) {
            Ok(link) => return Ok(link),
            Err(why) if !args.quiet => crate::complain!("headstart: {why}; using a separate supervisor for this run"),
            Err(_) => {}
        }
    }
    Ok(Link::private(|connection| alone(connection, settings), &registration)?)
}

/// Says what was gained, if the program was `reached`: what it did is not known otherwise, and why not has been said. The program's
/// code is its own, whatever cannot be written here.
fn report(args: &Args, reached: bool, summary: Result<Summary, ControlError>, to: Option<summary::Destination>) {
    let gained = match &summary {
        Ok(gained) => summary::in_words(gained),
        Err(why) => format!("no summary: {why}; the program continued without headstart"),
    };
    for note in summary.iter().flat_map(|summary| &summary.notes) {
        complain(args, format_args!("{note}"));
    }
    if let (Some(to), Ok(summary)) = (to, &summary) {
        to.write(&summary::json(summary));
    }
    if reached && !(args.json && summary.is_ok()) {
        complain(args, format_args!("{gained}"));
    }
}

/// Starts the program, to which signals are passed on from now on.
fn start(launch: &Launch<'_>) -> anyhow::Result<Launched> {
    // What comes from now on is kept for the program.
    signal::pass_on_to(0).context("handling signals")?;
    let child = launch.start().map_err(|why| exit::Coded::not_executed(&launch.words[0], &why))?;
    // What is sent to headstart is meant for the program; what the keyboard sends, the program gets itself.
    signal::pass_on_to(child.pid()).context("handling signals")?;
    Ok(child)
}

/// Waits until the program has ended: its exit code.
fn end_of(child: &Launched) -> anyhow::Result<u8> {
    let status = child.wait().context("waiting for the program")?;
    // Its number may be another's from now on.
    signal::pass_on_to(0).context("handling signals")?;
    Ok(exit::of_child(status))
}

/// Lets the supervisor watch for the end of process `pid`.
fn watch(pid: i32, link: &Link) -> anyhow::Result<()> {
    let program = headstart_io::process_end(pid).context("watching the program")?;
    // Should the supervisor have gone, the program goes on alone.
    let _ = link.watch(&program);
    Ok(())
}

/// A program that puts itself under a filter when it starts.
struct Trapped {
    trap: Trap,
    outstanding: Outstanding,
    duty: Duty,
}

/// What is needed to trap the program's system calls, if they are to be trapped.
fn trap(args: &Args, ways: &Ways) -> Option<Trapped> {
    ways.calls.as_ref().ok()?;
    let made = || {
        let (trap, outstanding) = (Trap::new()?, Outstanding::new()?);
        // Before there is a program: once its calls wait, they must be answered whatever is killed.
        let duty = watchdog::begin(&trap, &outstanding)?;
        Ok::<_, std::io::Error>(Trapped { trap, outstanding, duty })
    };
    match made() {
        Ok(trapped) => Some(trapped),
        Err(why) => {
            warn_not_trapped(args, ways, &why);
            None
        }
    }
}

/// Hands the program's trapped system calls, and the duty to answer them, to the supervisor. Warns if they cannot be trapped, or if
/// the program is covered in no other way.
fn hand_over_calls(args: &Args, ways: &Ways, link: Option<&Link>, trapped: Trapped) -> Option<Listener> {
    let listener = match trapped.trap.listener() {
        Ok(listener) => listener,
        Err(why) => {
            warn_not_trapped(args, ways, &why);
            return None;
        }
    };
    if let (Some(Via::Auto), Err(why)) = (args.via, &ways.preload) {
        complain(
            args,
            format_args!("{} is covered through system calls only: {why}", args.command[0].to_string_lossy()),
        );
    }
    // Should there be no supervisor, or not any more, the watchdog has the duty from here on.
    let _ = link.map(|link| link.hand_over_calls(&listener, &trapped.outstanding, trapped.duty));
    Some(listener)
}

fn warn_not_trapped(args: &Args, ways: &Ways, why: &dyn std::fmt::Display) {
    let name = args.command[0].to_string_lossy();
    match ways.preload {
        Ok(()) => complain(args, format_args!("{name} is covered through its C library only: {why}")),
        Err(_) => complain(args, format_args!("{name} runs without headstart: {why}")),
    }
}

fn faster(file: &std::path::Path) -> anyhow::Result<HashMap<String, Family>> {
    let text = input::text(file, input::MOST).with_context(|| format!("reading {}", file.display()))?;
    let line = |(n, line): (usize, &str)| match line.split_once(' ') {
        Some((name, "4")) => Ok((name.to_owned(), Family::V4)),
        Some((name, "6")) => Ok((name.to_owned(), Family::V6)),
        _ => Err(exit::Usage(format!("{}:{}: {line:?} is not NAME 4 or NAME 6", file.display(), n + 1)).into()),
    };
    text.lines().enumerate().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_is_embedded_whole() {
        assert!(LIBRARY.bytes.starts_with(b"\x7fELF") && LIBRARY.bytes.len() > 10_000);
    }

    #[test]
    fn what_a_program_was_told_to_load_comes_before_our_library() {
        let ours = Path::new("/run/ours.so");
        assert_eq!(after(None, ours), "/run/ours.so");
        assert_eq!(after(Some("".into()), ours), "/run/ours.so");
        assert_eq!(after(Some("wrap.so:other.so".into()), ours), "wrap.so:other.so:/run/ours.so");
    }

    #[test]
    fn what_is_more_than_a_program_and_its_arguments_is_left_to_the_whole_command() {
        let plain = |words: &[&str]| {
            let args = Args::plain(&words.iter().map(OsString::from).collect::<Vec<_>>())?;
            Some((args.quiet, args.command.into_iter().map(|word| word.into_string().unwrap()).collect::<Vec<_>>()))
        };
        let told =
            |quiet, words: &[&str]| Some((quiet, words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>()));
        assert_eq!(plain(&["curl", "-q", "--", "x"]), told(false, &["curl", "-q", "--", "x"]));
        assert_eq!(plain(&["-q", "curl"]), told(true, &["curl"]));
        assert_eq!(plain(&["--quiet", "--", "-curl", "--"]), told(true, &["-curl", "--"]));
        for more in
            [&[][..], &["-q"], &["--"], &["-q", "--"], &["--private", "curl"], &["-q", "-q", "curl"], &["--help"]]
        {
            assert_eq!(plain(more), None, "{more:?}");
        }
    }
}
