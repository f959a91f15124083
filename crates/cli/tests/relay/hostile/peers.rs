//! Peers of a session, by the processes of `realtime send` and `receive`, that are killed and come back, never answer, stand still, echo, or
//! are behind a relay that died: a sender always ends by itself, and says that it failed; nothing begins in its middle.

use crate::attack::Attack;
use crate::scene::{Folder, HEADSTART, Running};
use headstart_core::time::{Duration, Instant};
use headstart_io::clock::Clock;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::process::Command;

/// Thirty seconds of patience, and as long as the slowest machine may take.
const PATIENCE: Duration = Duration::from_secs(120);
/// What a sender has to say: 500 messages in five seconds.
const MUCH: [&str; 6] = ["--messages", "500", "--interval", "10", "--technique", "auto"];

/// A receiver on `listen`, and where that is.
fn receiver(folder: &Folder, listen: &str) -> (Running, String) {
    let said = folder.path("said");
    let words = ["realtime", "receive", "--listen", listen, "--json"];
    let receiver = Running::start(Command::new(HEADSTART).args(words).stderr(std::fs::File::create(&said).unwrap()));
    let mut at = String::new();
    crate::scene::until("the receiver listens", || {
        let text = std::fs::read_to_string(&said).unwrap();
        at = text.lines().next().and_then(|line| line.split_whitespace().last()).unwrap_or_default().to_owned();
        text.ends_with('\n')
    });
    (receiver, at)
}

fn sender(folder: &Folder, to: &str, more: &[String]) -> Running {
    let errors = std::fs::File::create(folder.path("errors")).unwrap();
    Running::start(Command::new(HEADSTART).args(["realtime", "send", to]).args(MUCH).args(more).stderr(errors))
}

/// Waits until the sender ends: rows that it did, and that it did not claim success.
fn fails(attack: &'static str, folder: &Folder, mut sender: Running) {
    let clock = Clock::new();
    let mut ended = None;
    while ended.is_none() && clock.now().since(Instant::ZERO) < PATIENCE {
        clock.sleep(Duration::from_millis(20));
        ended = sender.child.try_wait().unwrap();
    }
    let row = Attack { attack, listener: "realtime receive" };
    row.at_most("senders that never end", 0.0, f64::from(ended.is_none()));
    row.at_most("senders that report success", 0.0, f64::from(ended.is_some_and(|ended| ended.success())));
    let errors = std::fs::read_to_string(folder.path("errors")).unwrap();
    assert!(errors.starts_with("headstart: "), "it says why: {errors}");
}

/// Waits so long that something was confirmed; whatever was, nothing may be lost in silence.
fn is_under_way() {
    Clock::new().sleep(Duration::from_millis(1500));
}

#[test]
fn a_receiver_that_is_killed_and_started_again_begins_nothing_in_its_middle() {
    let attack = "a receiver that is killed and started again on its port";
    let folder = Folder::new();
    let (first, at) = receiver(&folder, "127.0.0.1:0");
    let sender = sender(&folder, &at, &[]);
    is_under_way();
    first.kill();
    let (mut second, at) = receiver(&folder, &at);
    fails(attack, &folder, sender);
    // The next session is whole, and the first that it has.
    let sent = Command::new(HEADSTART).args(["realtime", "send", &at, "--messages", "60", "--interval", "1"]).output();
    assert!(sent.unwrap().status.success());
    let summary: Value = serde_json::from_str(&second.line()).unwrap();
    let [received, missing, doubled] = ["received", "missing", "doubled"].map(|name| summary[name].as_u64().unwrap());
    let row = Attack { attack, listener: "realtime receive" };
    row.at_most("messages of a session that it does not know", 0.0, received as f64 - 60.0);
    assert_eq!((received, missing, doubled), (60, 0, 0), "{summary}");
    assert!(second.ended());
}

#[test]
fn a_server_that_echoes_is_no_receiver() {
    let folder = Folder::new();
    let echo = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = echo.local_addr().unwrap().to_string();
    // Ends with the process of the tests.
    std::thread::spawn(move || {
        for stream in echo.incoming().flatten() {
            std::thread::spawn(move || {
                let (mut from, mut to) = (stream.try_clone().unwrap(), stream);
                let mut bytes = [0; 4096];
                while let Ok(length @ 1..) = from.read(&mut bytes) {
                    let _ = to.write_all(&bytes[..length]);
                }
            });
        }
    });
    let sender = sender(&folder, &at, &[]);
    fails("a server that echoes", &folder, sender);
}

#[test]
#[ignore = "takes half a minute: cargo xtask test"]
fn a_server_that_says_nothing_is_no_receiver() {
    let folder = Folder::new();
    // The kernel accepts for it.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let sender = sender(&folder, &silent.local_addr().unwrap().to_string(), &[]);
    fails("a server that says nothing", &folder, sender);
    drop(silent);
}

#[test]
#[ignore = "takes half a minute: cargo xtask test"]
fn a_receiver_that_stands_still_is_given_up() {
    let folder = Folder::new();
    let (receiver, at) = receiver(&folder, "127.0.0.1:0");
    let sender = sender(&folder, &at, &[]);
    is_under_way();
    kill_process(Pid::from_child(&receiver.child), Signal::STOP).unwrap();
    fails("a receiver that stands still", &folder, sender);
}

#[test]
#[ignore = "takes half a minute: cargo xtask test"]
fn a_relay_that_dies_and_stays_dead_ends_what_went_through_it() {
    let folder = Folder::new();
    let (_receiver, to) = receiver(&folder, "127.0.0.1:0");
    let mut relay = Running::headstart(folder.serve("127.0.0.1:0", "127.0.0.1:*"));
    let at = relay.address(2);
    let sender = sender(&folder, &to, &folder.through(&at));
    is_under_way();
    relay.kill();
    fails("a relay that dies and stays dead", &folder, sender);
}
