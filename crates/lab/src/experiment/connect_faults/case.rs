//! A fault and a program: what is run, and what is known of it beforehand.

use super::names;
use crate::condition::Condition;
use crate::experiment::stopwatch::{Ended, How, Supervisor, time_output};
use crate::netns::{Error, Network};
use crate::program::{Origin, Program, Scheme, Url};
use crate::sim::{Arm, Session, Settings};
use crate::world::World;
use headstart_core::connect::cache::Lifetime;
use headstart_core::connect::{Want, race};
use headstart_core::time::Duration;
use std::path::Path;
use std::process::Command;

/// What takes longer is cut; the cut is what is reported.
pub const CUT: Duration = Duration::from_secs(20);
/// A bare program that needs longer hangs.
pub const HANGS: Duration = Duration::from_secs(2);

/// Sites of the network: the first serves all runs, the others are each asked for once by a run that is to know nothing
/// of them.
pub const SITES: usize = 22;

/// What stands in every page of the lab's web server, and in no message of a program.
const PAGE: &[u8] = b"family: IPv";

/// A network with a fault, and what virtual time says of it.
#[derive(Debug)]
pub struct FaultyNetwork {
    /// The fault.
    pub fault: &'static Condition,
    /// The network, with [`SITES`] sites that are all alike.
    pub world: World,
    /// A host without headstart hangs, or is turned away only after a while.
    pub hangs: bool,
    /// No server can be reached, in any way.
    pub hopeless: bool,
    /// Until a host has its connection, or gives up, in virtual time: without headstart, and with it on a first visit.
    pub simulated: [Duration; 2],
}

impl FaultyNetwork {
    /// The world of a fault, played once in virtual time without headstart and with its default race.
    pub fn of(fault: &'static Condition, seed: u64) -> anyhow::Result<Self> {
        let world = (fault.world)(seed, SITES);
        let visit = |arm| {
            let mut session = Session::new(&world, Settings { arm, lifetime: Lifetime::Ttl, seed })?;
            anyhow::Ok(session.visit(0, Want::Both))
        };
        let bare = visit(Arm::Bare)?;
        let ours = visit(Arm::Race(race::find(race::DEFAULT)?))?;
        let hopeless = bare.reached.is_none() && ours.reached.is_none();
        let simulated = [bare.total, ours.total];
        Ok(Self { fault, hangs: bare.total > HANGS, hopeless, simulated, world })
    }

    /// Whether programs change the network by what they do, so that they cannot run beside each other.
    pub fn changes(&self) -> bool {
        !self.world.timeline.is_empty()
    }
}

/// One condition.
#[derive(Debug)]
pub struct Case<'a> {
    /// Its name.
    pub name: String,
    /// The network.
    pub faulty: &'a FaultyNetwork,
    /// The program.
    pub program: &'a Program,
    headstart: &'a Path,
    urls: Vec<Url>,
}

impl<'a> Case<'a> {
    /// The condition of a program in a place.
    pub fn new(faulty: &'a FaultyNetwork, program: &'a Program, headstart: &'a Path) -> Self {
        let urls = faulty.world.sites.iter().map(|site| Url::new(Scheme::Http, site.name.clone())).collect();
        Self { name: names::of(faulty.fault.name, program.entry.name), faulty, program, headstart, urls }
    }

    /// In words, for a report.
    pub fn about(&self) -> String {
        format!("{}. {} The program: {}.", self.faulty.fault.what, self.faulty.fault.why, self.program.entry.what)
    }

    /// Runs a command of this condition, and sees whether it has fetched the page.
    pub fn time(&self, command: &mut Command, supervisor: Supervisor<'_>) -> anyhow::Result<Ended> {
        // A browser that shows why it found nothing has done well, by its own standards. Headstart's client prints the peer that it
        // reached and no more.
        let own = self.program.entry.origin == Origin::Own;
        let has_page = |out: &[u8]| out.windows(PAGE.len()).any(|part| part == PAGE);
        time_output(command, CUT, supervisor, |out| if own { !out.is_empty() } else { has_page(out) })
    }

    /// The program alone.
    pub fn bare(&self, network: &Network) -> Result<Command, Error> {
        let mut command = self.program.command(&self.urls[0]);
        network.adopt(&mut command)?;
        Ok(command)
    }

    /// The program alone, behind the words of `shell`.
    pub fn bare_behind(&self, network: &Network, shell: &[&str]) -> Result<Command, Error> {
        let mut first = Command::new(shell[0]);
        first.args(&shell[1..]);
        let mut command = self.program.command_behind(first, &self.urls[0]);
        network.adopt(&mut command)?;
        Ok(command)
    }

    /// The program under headstart, behind the words of `shell`, if any.
    pub fn with_headstart(&self, network: &Network, shell: &[&str]) -> Result<Command, Error> {
        let mut run = Command::new(self.headstart);
        run.args(["run", "--private", "--quiet", "--"]).args(shell);
        let mut command = self.program.command_behind(run, &self.urls[0]);
        network.adopt(&mut command)?;
        Ok(command)
    }

    /// The program under headstart, by the user's supervisor, to site `n`.
    pub fn with_usual(&self, network: &Network, n: u32) -> Result<Command, Error> {
        let mut command = self.program.command_behind(usual(self.headstart), &self.urls[n as usize % SITES]);
        network.adopt(&mut command)?;
        Ok(command)
    }
}

/// What a program is put behind every day: `headstart-run`, where it lies beside `headstart`, and else `headstart run`.
pub fn usual(headstart: &Path) -> Command {
    let small = headstart.with_file_name("headstart-run");
    let mut run = Command::new(if small.is_file() { &small } else { headstart });
    if !small.is_file() {
        run.arg("run");
    }
    run.args(["--quiet", "--"]);
    run
}

/// What a run says: the time until the page was there; where there is no page to be had, until the program ended, whatever
/// it made of it.
pub fn value(faulty: &FaultyNetwork, ended: Ended) -> Option<f64> {
    match (ended.how, faulty.hopeless) {
        (How::Cut, _) | (How::Well, false) | (_, true) => Some(ended.millis()),
        (How::Failed, false) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::condition::fault;

    #[test]
    fn virtual_time_knows_where_a_host_hangs_and_where_nobody_can_be_reached() {
        let places: Vec<_> = fault::ALL.iter().map(|f| FaultyNetwork::of(f, 1).unwrap()).collect();
        let named = |which: fn(&FaultyNetwork) -> bool| -> Vec<_> {
            places.iter().filter(|p| which(p)).map(|p| p.fault.name).collect()
        };
        assert_eq!(
            named(|p| p.hangs),
            ["aaaa-lost", "a-lost", "ipv6-black-hole", "first-dead", "dns-first-dead", "dns-dead", "ipv6-leaves"]
        );
        assert_eq!(named(|p| p.hopeless), ["dns-dead"]);
        assert_eq!(named(FaultyNetwork::changes), ["ipv6-leaves", "ipv6-comes"]);
    }

    #[test]
    fn a_run_counts_where_it_did_what_there_was_to_do() {
        let faulty = |name: &str| FaultyNetwork::of(fault::ALL.iter().find(|f| f.name == name).unwrap(), 1).unwrap();
        let ended = |how| Ended { after: Duration::from_millis(30), how };
        let of = |name: &str, how| value(&faulty(name), ended(how));
        assert_eq!([How::Well, How::Failed, How::Cut].map(|h| of("healthy", h)), [Some(30.0), None, Some(30.0)]);
        assert_eq!([How::Well, How::Failed, How::Cut].map(|h| of("dns-dead", h)), [Some(30.0); 3]);
    }
}
