//! What `serve` and `get` remember of paths: one memory for their QUIC connections, kept over restarts by a thread that
//! writes what is new at most once a second.

use crate::exit::{Usage, without_user};
use anyhow::Context as _;
use headstart_core::choice::unknown;
use headstart_core::cwnd::history::{Medium, Settings};
use headstart_core::cwnd::{controller, start};
use headstart_core::path::NetworkId;
use headstart_core::time::Duration;
use headstart_io::clock::wall;
use headstart_io::store;
use headstart_io::store::paths::Paths;
use headstart_io::store::shared::{Location, SharedStore};
use headstart_quic::{CarefulResume, Clock, Listener, Options, Store};
use quinn::Runtime as _;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::SystemTime;

/// Changes within this time are written together.
const EVERY: Duration = Duration::from_secs(1);

/// Arguments that both verbs have.
#[derive(Clone, Debug, clap::Args)]
pub struct Remember {
    /// Rule for the initial congestion window of a connection (`headstart list starts`).
    #[arg(long, value_name = "RULE", default_value = start::DEFAULT)]
    start: String,
    /// Congestion controller (`headstart list controllers`).
    #[arg(long, value_name = "CONTROLLER", default_value = controller::DEFAULT)]
    controller: String,
    /// Where to keep the history of paths: `user` (the user's history), `memory` (not saved), a folder, or a shared server:
    /// redis://[USER:PASSWORD@]HOST[:PORT] (HOST,HOST: a cluster), rediss:// (TLS), redis+unix:///PATH or
    /// redis+sentinel://HOST[:PORT],…/NAME; ?user=NAME, ?password-file=FILE, ?ca=FILE and ?seal-key=FILE may be appended.
    #[arg(long, value_name = "STORE", default_value = "user")]
    store: String,
    /// Upper limit in bytes of an initial window from the history [default: the rule's own limit].
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u64).range(12_000..=1 << 30))]
    start_most: Option<u64>,
    /// Maximum age of path history, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 3600, value_parser = clap::value_parser!(u32).range(1..=604_800))]
    start_lifetime: u32,
    /// Percentage of connections that start from the history, for comparisons; the rest use the default window.
    #[arg(long, value_name = "PERCENT", default_value_t = 100, value_parser = clap::value_parser!(u8).range(0..=100))]
    start_share: u8,
}

/// A memory that is kept.
#[derive(Debug)]
pub struct Remembering {
    /// The memory of the connections.
    pub memory: CarefulResume,
    /// The one that is shared with other servers, if there is one.
    pub shared: Option<SharedStore>,
    learned: Option<SyncSender<Message>>,
    keeper: Mutex<Option<JoinHandle<()>>>,
}

/// Messages to the thread that keeps it.
#[derive(Debug)]
enum Message {
    Learned,
    End,
}

impl Remember {
    /// The memory that these arguments name, with what was kept in it. `network`: where the host is; `medium`: over what, since radio
    /// changes in minutes; `listener` receives changes of phase.
    pub fn open(&self, network: NetworkId, medium: Medium, listener: Option<Listener>) -> anyhow::Result<Remembering> {
        let Some(rule) = start::find(&self.start) else {
            let names: Vec<_> = start::ALL.iter().map(|entry| entry.name).collect();
            return Err(Usage(unknown("start rule", &self.start, &names)).into());
        };
        let controller = controller_called(&self.controller)?;
        let mut shared = None;
        let folder = match &self.store[..] {
            "memory" => None,
            "user" => store::folder(|name| std::env::var_os(name)),
            place if place.starts_with("redis") => {
                let place: Location = place.parse().map_err(Usage)?;
                let shown = place.to_string();
                if let Err(why) = place.try_to_connect() {
                    crate::complain!(
                        "headstart: warning: no answer from the store {}: {why}; continuing without it",
                        shown
                    );
                }
                shared = Some(SharedStore::at(place, network).context("starting the thread of the shared store")?);
                None
            }
            folder if folder.contains('/') && !folder.contains("://") => Some(PathBuf::from(folder)),
            other => {
                let other = without_user(other);
                let why = format!(
                    "unknown store `{other}`; choose one of `user`, `memory`, a folder (with a slash: ./{other}), \
                     redis://HOST[:PORT], redis+unix:///PATH"
                );
                return Err(Usage(why).into());
            }
        };
        let mut paths = folder.map(Paths::in_folder);
        let mut secret = [0; 16];
        rustix::rand::getrandom(&mut secret, rustix::rand::GetRandomFlags::empty())?;
        let kept = paths.as_mut().and_then(Paths::secret);
        let since_1970 = wall().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let now = quinn::TokioRuntime.now();
        let clock = Clock::new(now, since_1970);
        let options = Options { network, medium, listener, ..self.options(rule, controller) };
        let memory = CarefulResume::with_options(Store::new(clock, kept.unwrap_or(secret)), options);
        if let Some(paths) = &mut paths {
            memory.with(|history| {
                paths.load(clock.moment(now), history);
                paths.load_priors(clock.moment(now), history);
            });
            tell(paths.notes());
        }
        // Without a secret nothing that is written could be found again.
        let keeper = paths.filter(|_| kept.is_some()).map(|paths| keep(paths, memory.clone())).transpose()?;
        let (learned, keeper) = keeper.unzip();
        Ok(Remembering { memory, shared, learned, keeper: Mutex::new(keeper) })
    }
}

impl Remember {
    fn options(&self, rule: &'static start::Entry, controller: &'static controller::Entry) -> Options {
        let wired = Duration::from_secs(self.start_lifetime.into());
        let bounds = Settings::default();
        Options {
            rule,
            controller,
            most: self.start_most,
            ratio: f64::from(self.start_share) / 100.0,
            settings: Settings { wired, wireless: bounds.wireless.min(wired), ..bounds },
            ..Options::default()
        }
    }
}

/// The controller called `name`, also as others write NewReno.
fn controller_called(name: &str) -> Result<&'static controller::Entry, Usage> {
    let known = controller::find(if name == "newreno" { "new-reno" } else { name });
    known.ok_or_else(|| {
        if name.to_ascii_lowercase().starts_with("bbr") {
            return Usage(format!("--controller {name}: BBR is not available: {NO_BBR}"));
        }
        let names: Vec<_> = controller::ALL.iter().map(|entry| entry.name).collect();
        Usage(unknown("controller", name, &names))
    })
}

/// Why there is none (docs/decisions/0135).
const NO_BBR: &str =
    "the QUIC library has version 1 without its pacing, and no BBR that a start rule can set; use cubic";

impl Remembering {
    /// Something was learned, which is written before long.
    pub fn learned(&self) {
        if let Some(learned) = &self.learned {
            // Full: a message waits already.
            let _ = learned.try_send(Message::Learned);
        }
    }

    /// Writes the last changes.
    pub fn end(&self) {
        self.tell();
        if let Some(learned) = &self.learned {
            let _ = learned.send(Message::End);
        }
        let keeper = self.keeper.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(keeper) = keeper {
            let _ = keeper.join();
        }
    }

    /// Says what went wrong with the shared store.
    pub fn tell(&self) {
        if let Some(shared) = &self.shared {
            tell(shared.notes());
        }
    }
}

fn tell(notes: Vec<String>) {
    for note in notes {
        crate::complain!("headstart: {note}");
    }
}

fn keep(paths: Paths, memory: CarefulResume) -> anyhow::Result<(SyncSender<Message>, JoinHandle<()>)> {
    let (learned, messages) = sync_channel(1);
    let thread = std::thread::Builder::new().name("paths".into());
    let thread = thread.spawn(move || run(paths, &memory, &messages)).context("starting the thread of the store")?;
    Ok((learned, thread))
}

fn run(mut paths: Paths, memory: &CarefulResume, messages: &Receiver<Message>) {
    loop {
        let over = !matches!(messages.recv(), Ok(Message::Learned));
        // More comes, mostly.
        let over = over || pause(messages);
        let news = memory.with(|history| paths.news(history));
        paths.save(news);
        tell(paths.notes());
        if over {
            return;
        }
    }
}

/// Waits for a while, but not beyond the end; whether that has come.
fn pause(messages: &Receiver<Message>) -> bool {
    let begun = headstart_io::clock::Clock::new();
    loop {
        let left = EVERY.saturating_sub(begun.now().since(headstart_core::time::Instant::ZERO));
        match messages.recv_timeout(left) {
            Ok(Message::Learned) => {}
            Err(RecvTimeoutError::Timeout) => return false,
            Ok(Message::End) | Err(RecvTimeoutError::Disconnected) => return true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        remember: Remember,
    }

    #[test]
    fn bound_lifetime_and_share_are_the_rules_own_unless_they_are_given() {
        let options = |words: &[&str]| {
            let line = Line::parse_from(["headstart"].iter().chain(words));
            line.remember.options(&start::ALL[0], controller_called(&line.remember.controller).unwrap())
        };
        let (usual, default) = (options(&[]), Options::default());
        assert_eq!((usual.most, usual.ratio, usual.settings), (default.most, default.ratio, default.settings));
        assert_eq!(
            (usual.controller.name, options(&["--controller", "newreno"]).controller.name),
            ("cubic", "new-reno")
        );
        let given = options(&["--start-most", "240000", "--start-lifetime", "60", "--start-share", "25"]);
        assert_eq!((given.most, given.ratio), (Some(240_000), 0.25));
        assert_eq!([given.settings.wired, given.settings.wireless], [Duration::from_secs(60); 2]);
    }

    #[test]
    fn a_controller_that_is_not_there_is_not_passed_off_as_one_that_is() {
        let why = |name| controller_called(name).err().map(|why| why.to_string()).unwrap();
        for name in ["bbr", "bbr1", "bbr3", "BBR"] {
            assert!(why(name).contains("version 1 without its pacing"), "{}", why(name));
        }
        assert!(why("cubc").contains("cubic") && controller_called("new-reno").is_ok());
    }
}
