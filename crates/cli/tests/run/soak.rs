//! The soak: many programs under one supervisor while the network breaks and mends, for as long as `cargo xtask soak` says
//! (otherwise a few seconds, to show that it works). Nothing may be lost: whatever a program wants, it gets, since there
//! is always one way that works. And nothing may grow: neither memory nor descriptors, of the supervisor and of a
//! `headstart run` that lives all the time.

use crate::lab::{HEADSTART, Lab, found, inside, python, site, supervisors, until, world};
use crate::processes::{ask_to_end, is_alive};
use headstart_core::time::{Duration, Instant};
use headstart_io::clock::Clock;
use headstart_io::sys::netlink::{Netlink, Route, Via};
use headstart_lab::world::{Fate, Reply};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::IpAddr;
use std::process::{Child, Command, Stdio};

/// Minutes, by `cargo xtask soak`.
const MINUTES: &str = "HEADSTART_SOAK_MINUTES";
/// Without that.
const SHORT: Duration = Duration::from_secs(6);
/// Programs at once.
const AT_ONCE: usize = 3;
/// How long the network is broken, and how long it is whole.
const SPELL: Duration = Duration::from_millis(1500);
/// What a process may grow after the first fifth: caches and histories fill up to their bounds, allocators keep what they
/// have had. What leaks grows with each of the thousands of programs.
const GROWTH_KIB: u64 = 4096;
/// A supervisor that has nothing to do must not be woken in this time; it begins after everything learned is written.
const IDLE: Duration = Duration::from_secs(10);
/// What is kept to learn how patient a server is ends after 20 s, and what was learned is written 30 s later.
const SETTLED: Duration = Duration::from_secs(75);

/// What a process holds.
#[derive(Clone, Copy, Debug, Default)]
struct Held {
    resident_kib: u64,
    descriptors: usize,
}

fn status(pid: u32, field: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

fn held(pid: u32) -> Held {
    let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count);
    Held { resident_kib: status(pid, "VmRSS"), descriptors }
}

fn shared(lab: &Lab, words: &[&str]) -> Command {
    let mut command = lab.command(HEADSTART);
    command.env_remove("HEADSTART").env("HEADSTART_LINGER", "3600").args(["run", "--quiet", "--"]).args(words);
    command
}

/// A way to break the network that leaves one way open, and to mend it.
#[derive(Clone, Copy)]
enum Fault {
    /// What happens to it, and how.
    Site(&'static str, fn(&mut headstart_lab::world::Site)),
    /// As `Site`, and whoever is connected is reset, however it connected: the lab takes the address from its host.
    Cuts(&'static str, fn(&mut headstart_lab::world::Site)),
    Routes,
}

const FAULTS: [Fault; 6] = [
    Fault::Site("IPv6 is a black hole", |www| www.v6[0].fate = Fate::BlackHole),
    Fault::Cuts("IPv6 refuses", |www| www.v6[0].fate = Fate::Refuses),
    Fault::Routes,
    Fault::Site("AAAA is lost", |www| www.aaaa.reply = Reply::Lost),
    Fault::Site("AAAA fails", |www| www.aaaa.reply = Reply::ServFail),
    Fault::Cuts("IPv4 refuses", |www| www.v4[0].fate = Fate::Refuses),
];

impl Fault {
    fn name(self) -> &'static str {
        match self {
            Fault::Site(name, _) | Fault::Cuts(name, _) => name,
            Fault::Routes => "no route for IPv6",
        }
    }
}

fn set(lab: &Lab, fault: Fault, broken: bool) {
    match fault {
        Fault::Site(_, change) | Fault::Cuts(_, change) => {
            let mut www = site(&mut world(), "www").clone();
            if broken {
                change(&mut www);
            }
            lab.network.set_site(www).unwrap();
        }
        // Another way to notice a change than by losing packets: the kernel tells.
        Fault::Routes => {
            let (all, gateway) = (IpAddr::from([0u16; 8]), lab.network.on_client(gateway).unwrap());
            if let Some((gateway, interface)) = gateway.filter(|_| broken) {
                ROUTE.set(Some((gateway, interface)));
                let delete = || Netlink::open()?.delete_route(all, 0, Via::Gateway(gateway, interface));
                lab.network.on_client(delete).unwrap().unwrap();
            } else if let Some((gateway, interface)) = ROUTE.take() {
                let add = || Netlink::open()?.route(all, 0, Via::Gateway(gateway, interface));
                lab.network.on_client(add).unwrap().unwrap();
            }
        }
    }
}

thread_local! {
    /// The IPv6 route that was taken away.
    static ROUTE: std::cell::Cell<Option<(IpAddr, u32)>> = const { std::cell::Cell::new(None) };
}

fn gateway() -> Option<(IpAddr, u32)> {
    let far = IpAddr::from([0x2001, 0xdb8, 0xffff, 0, 0, 0, 0, 1]);
    let Route { interface, gateway, .. } = Netlink::open().unwrap().route_to(far).unwrap()?;
    Some((gateway?, interface))
}

/// A program that lives all the time and visits on demand, and with it its `headstart run`.
struct Resident {
    child: Child,
    answers: BufReader<std::process::ChildStdout>,
}

impl Resident {
    fn start(lab: &Lab) -> Self {
        let mut child = shared(lab, &[HEADSTART, "client"]).stdin(Stdio::piped()).spawn().unwrap();
        let answers = BufReader::new(child.stdout.take().unwrap());
        Self { child, answers }
    }

    /// Whether it has reached the site.
    fn visit(&mut self) -> bool {
        writeln!(self.child.stdin.as_mut().unwrap(), "www.lab.example 80").unwrap();
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        line.contains("\"peer\"")
    }
}

inside!(many_programs_are_served_by_one_supervisor_and_nothing_is_lost_and_nothing_grows, || {
    let (Some(curl), Some(python)) = (found("curl", "curl"), python()) else { return };
    let minutes = std::env::var(MINUTES).ok().and_then(|n| n.parse::<f64>().ok());
    let length = minutes.map_or(SHORT, |minutes| Duration::from_secs_f64(60.0 * minutes));
    let lab = Lab::new();
    let script =
        "import sys, urllib.request as u; sys.stdout.write(u.urlopen(sys.argv[1], timeout=60).read().decode())";
    let page = "http://www.lab.example/";
    let programs: [Vec<&str>; 4] = [
        vec![curl.to_str().unwrap(), "-sS", page],
        vec![&python, "-c", script, page],
        vec![HEADSTART, "client", "www.lab.example"],
        vec!["true"],
    ];
    // The page goes on with the family and the address of its visitor, which may be either.
    let right = |which: usize, out: &str| match which {
        0 | 1 => out.starts_with("host: www.lab.example\n") && out.ends_with('\n'),
        2 => out.trim().parse::<IpAddr>().is_ok(),
        _ => out.is_empty(),
    };
    for (which, words) in programs.iter().enumerate() {
        let bare = lab.bare(words);
        assert!(bare.code == Some(0) && right(which, &bare.out), "{bare:?}");
    }

    let mut resident = Resident::start(&lab);
    assert!(resident.visit(), "the first visit");
    let supervisor = supervisors()[0];
    let run = resident.child.id();
    let clock = Clock::new();
    let end = clock.now() + length;
    let (mut running, mut done, mut lost) = (Vec::<(usize, Child, Instant)>::new(), [0u64; 5], Vec::new());
    let (mut change_at, mut changes, mut at_first) = (clock.now(), 0usize, None);
    while clock.now() < end || !running.is_empty() {
        let now = clock.now();
        let (due, broken) = (now >= change_at, changes.is_multiple_of(2));
        let fault = FAULTS[changes / 2 % FAULTS.len()];
        // Nobody is to be in the middle of a page when connections are cut: then a program is lost, and it would be alone.
        // What was opened ahead for others is cut all the same, and must not be handed to them.
        let waits = due && broken && matches!(fault, Fault::Cuts(..)) && !running.is_empty();
        if due && !waits {
            set(&lab, fault, broken);
            (changes, change_at) = (changes + 1, now + SPELL);
            done[4] += 1;
            if !resident.visit() {
                lost.push(format!("the resident program did not get through: {}", fault.name()));
            }
        }
        while now < end && running.len() < AT_ONCE && !waits {
            let which = done.iter().sum::<u64>() as usize + running.len();
            let which = which % programs.len();
            running.push((which, shared(&lab, &programs[which]).spawn().unwrap(), now));
        }
        let mut going = Vec::new();
        for (which, mut child, since) in running.drain(..) {
            if child.try_wait().unwrap().is_none() {
                assert!(now - since < Duration::from_secs(300), "{:?} hangs", programs[which]);
                going.push((which, child, since));
                continue;
            }
            let ended = child.wait_with_output().unwrap();
            let out = String::from_utf8_lossy(&ended.stdout).into_owned();
            if !ended.status.success() || !right(which, &out) {
                let said = String::from_utf8_lossy(&ended.stderr).into_owned();
                lost.push(format!(
                    "{:?}, since {} of '{}': {}, {out:?}, {said:?}",
                    programs[which],
                    if changes.is_multiple_of(2) { "the end" } else { "the beginning" },
                    FAULTS[changes.saturating_sub(1) / 2 % FAULTS.len()].name(),
                    ended.status,
                ));
            }
            done[which] += 1;
        }
        running = going;
        if at_first.is_none() && now + length * 4 / 5 >= end {
            at_first = Some((held(supervisor), held(run), done.iter().sum::<u64>()));
        }
        clock.sleep(Duration::from_millis(2));
    }
    if !changes.is_multiple_of(2) {
        set(&lab, FAULTS[changes / 2 % FAULTS.len()], false);
    }
    let (supervisor_first, run_first, programs_first) = at_first.unwrap();
    assert!(is_alive(supervisor) && supervisors() == [supervisor], "the supervisor is the one that it was");
    // Spare connections and lookups end by themselves.
    until("descriptors are given back", || held(supervisor).descriptors <= supervisor_first.descriptors);
    let (supervisor_last, run_last) = (held(supervisor), held(run));
    let mut woken = None;
    if minutes.is_some() {
        clock.sleep(SETTLED);
        let before = status(supervisor, "voluntary_ctxt_switches");
        clock.sleep(IDLE);
        woken = Some(status(supervisor, "voluntary_ctxt_switches") - before);
    }
    println!(
        "soak: {} s, {} programs (curl {}, python {}, client {}, true {}, resident {}), {changes} changes of the network, {} \
         lost; after {programs_first} programs and at the end: supervisor {supervisor_first:?} {supervisor_last:?}, run \
         {run_first:?} {run_last:?}; woken while idle: {woken:?}",
        length.as_secs(),
        done.iter().sum::<u64>(),
        done[0],
        done[1],
        done[2],
        done[3],
        done[4],
        lost.len()
    );
    drop(resident.child.stdin.take());
    until("the resident program ends", || resident.child.try_wait().unwrap().is_some());
    ask_to_end(supervisor);
    until("the supervisor has ended", || !is_alive(supervisor));
    assert!(lost.is_empty(), "{lost:#?}");
    assert!(run_last.descriptors <= run_first.descriptors, "{run_first:?} {run_last:?}");
    for (first, last) in [(supervisor_first, supervisor_last), (run_first, run_last)] {
        assert!(last.resident_kib <= first.resident_kib + GROWTH_KIB, "{first:?} {last:?}");
    }
    assert!(woken.is_none_or(|n| n == 0), "woken {woken:?} times with nothing to do");
});
