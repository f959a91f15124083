//! `realtime send` and `receive`: by themselves, through a relay that is killed meanwhile, and behind a weak WLAN.

use crate::scene::{Folder, HEADSTART, Running, inside, until};
use crate::schema::must_hold;
use headstart_io::sys::netlink::{LOOPBACK, Netlink};
use serde_json::Value;
use std::process::Command;

/// A receiver, and where it listens (which it says on standard error where it prints JSON).
fn receiver(folder: &Folder) -> (Running, String) {
    let said = folder.path("said");
    let words = ["realtime", "receive", "--listen", "127.0.0.1:0", "--json"];
    let receiver = Running::start(Command::new(HEADSTART).args(words).stderr(std::fs::File::create(&said).unwrap()));
    let mut at = String::new();
    until("the receiver listens", || {
        let text = std::fs::read_to_string(&said).unwrap();
        at = text.lines().next().and_then(|line| line.split_whitespace().last()).unwrap_or_default().to_owned();
        text.ends_with('\n')
    });
    (receiver, at)
}

fn counts(summary: &str) -> [Option<u64>; 4] {
    let summary: Value = serde_json::from_str(summary).unwrap();
    ["streams", "received", "missing", "doubled"].map(|name| summary[name].as_u64())
}

#[test]
fn streams_arrive_whole_and_both_sides_say_what_that_took() {
    let folder = Folder::new();
    for technique in ["plain", "auto", "reduction-50+trigger+echo"] {
        let (mut receiver, at) = receiver(&folder);
        let words = ["realtime", "send", &at, "--technique", technique, "--streams", "2", "--interval", "1", "--json"];
        let output = Command::new(HEADSTART).args(words).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        must_hold("realtime-send", std::str::from_utf8(&output.stdout).unwrap());
        let sent: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!((sent["sent"].as_u64(), sent["arrived"].as_bool()), (Some(120), Some(true)), "{sent}");
        let summary = receiver.line();
        must_hold("realtime-receive", &summary);
        assert_eq!(counts(&summary), [2, 120, 0, 0].map(Some), "{summary}");
        assert!(receiver.ended());
        let summary: Value = serde_json::from_str(&summary).unwrap();
        assert!(summary["mean_ms"].as_f64().is_some_and(|ms| ms >= 0.0), "{summary}");
    }
}

inside!(what_a_relay_and_sessions_through_it_have_done_is_in_the_metrics, || {
    Netlink::open().unwrap().up(LOOPBACK).unwrap();
    let folder = Folder::new();
    let (mut receiver, to) = receiver(&folder);
    let mut relay = Running::headstart(folder.serve("127.0.0.1:0", "127.0.0.1:*"));
    let at = relay.address(2);
    let metrics = || String::from_utf8(Command::new(HEADSTART).arg("metrics").output().unwrap().stdout).unwrap();
    let value = |text: &str, series: &str| -> Option<f64> {
        text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' ')?.parse().ok())
    };
    let both = "headstart_up{part=\"messages\"}";
    until("relay and receiver can be asked", || value(&metrics(), both) == Some(2.0));
    // Long enough to be asked meanwhile: 60 messages a stream.
    let mut words =
        ["realtime", "send", &to, "--streams", "2", "--interval", "50", "--json"].map(str::to_owned).to_vec();
    words.extend(folder.through(&at));
    let mut sender = Running::headstart(words);
    // Whoever asks too often is refused for a moment, so all must be in one answer.
    let at_least_one = |text: &str, series: &str| value(text, series).is_some_and(|told| told >= 1.0);
    until("both ends tell of their session", || {
        let text = metrics();
        let of = |what: &str| at_least_one(&text, &format!("headstart_{what}}}"));
        of("message_sessions{program=\"realtime send\"")
            && of("message_sessions_begun_total{program=\"realtime receive\"")
            && of("messages_total{program=\"realtime send\",direction=\"sent\"")
            && of("messages_total{program=\"realtime receive\",direction=\"received\"")
    });
    assert!(sender.ended());
    assert_eq!(counts(&receiver.line()), [2, 120, 0, 0].map(Some));
    until("the relay reports how many requests it has granted and refused", || {
        let text = metrics();
        at_least_one(&text, "headstart_relay_answers_total{answer=\"granted\"}")
            && at_least_one(&text, "headstart_relay_connections_total")
            && value(&text, "headstart_relay_answers_total{answer=\"refused\"}") == Some(0.0)
    });
});

#[test]
fn no_message_is_lost_or_doubled_when_the_relay_process_is_killed_and_started_again() {
    let folder = Folder::new();
    let (mut receiver, to) = receiver(&folder);
    let mut relay = Running::headstart(folder.serve("127.0.0.1:0", "127.0.0.1:*"));
    let at = relay.address(2);
    let mut words =
        ["realtime", "send", &to, "--streams", "5", "--interval", "10", "--json"].map(str::to_owned).to_vec();
    words.extend(folder.through(&at));
    let mut sender = Running::headstart(words);
    for _ in 0..2 {
        // Somewhere in the midst, or on a slow machine after it: wherever that is, nothing may be lost.
        let mut ended = || sender.child.try_wait().unwrap().is_some();
        until("the relay has a connection to the receiver", || connections_to(&to) > 0 || ended());
        relay.kill();
        relay = Running::headstart(folder.serve(&at, "127.0.0.1:*"));
        assert_eq!(relay.address(2), at);
    }
    let summary = receiver.line();
    assert_eq!(counts(&summary), [5, 300, 0, 0].map(Some), "{summary}");
    let sent: Value = serde_json::from_str(&sender.line()).unwrap();
    assert_eq!(sent["arrived"].as_bool(), Some(true), "{sent}");
    assert!(sender.ended());
}

/// Established connections whose remote end is `to`, by the kernel's list.
fn connections_to(to: &str) -> usize {
    let port: u16 = to.rsplit(':').next().unwrap().parse().unwrap();
    let remote = format!("0100007F:{port:04X}");
    let list = std::fs::read_to_string("/proc/net/tcp").unwrap();
    list.lines().filter(|line| line.split_whitespace().nth(2) == Some(&remote) && line.contains(" 01 ")).count()
}

inside!(a_relay_stands_between_a_sender_behind_a_weak_wlan_and_a_receiver, || {
    let folder = Folder::new();
    if crate::scene::found("ip", "iproute2").is_none() {
        return;
    }
    // The outer lab's client is where relay and receiver are; the inner one's is the sender, with the outer as its router.
    let serve = folder.serve("0.0.0.0:7601", "127.0.0.1:7602").join(" ");
    let through = folder.through("$gateway:7601").join(" ");
    let out = folder.path("out").display().to_string();
    let send = format!(
        "gateway=$(ip -4 route show default | cut -d ' ' -f 3); \
         {HEADSTART} realtime send 127.0.0.1:7602 --technique auto --json {through}"
    );
    std::fs::write(folder.path("send"), send).unwrap();
    let script = format!(
        "{HEADSTART} realtime receive --json > {out} & receive=$!; {HEADSTART} {serve} > {out}.relay & relay=$!; \
         while ! [ -s {out}.relay ]; do sleep 0.05; done; \
         {HEADSTART} lab shell --link wlan-weak -- sh {}; sent=$?; \
         wait $receive; kill $relay; exit $sent",
        folder.path("send").display()
    );
    let output =
        Command::new(HEADSTART).args(["lab", "shell", "--link", "lan", "--", "sh", "-c", &script]).output().unwrap();
    let sent = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{sent}\n{}", String::from_utf8_lossy(&output.stderr));
    let sent: Value = serde_json::from_str(&sent).unwrap();
    assert_eq!((sent["sent"].as_u64(), sent["arrived"].as_bool()), (Some(60), Some(true)), "{sent}");
    let summary = std::fs::read_to_string(&out).unwrap();
    assert_eq!(counts(&summary), [1, 60, 0, 0].map(Some), "{summary}");
});
