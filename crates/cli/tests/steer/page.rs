//! The view of steering in a real browser, with traffic in the tunnel, and with one channel gone.

use crate::scene::{BODY, Scene, fetched, inside, until};
use crate::schema::must_hold;
use headstart_lab::browser::{BrowserError, Chromium};
use rustix::process::Signal;
use serde_json::Value;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command};

/// The tables of the view once `holds` says that they show what they are to, a minute at most: [table, row, cell].
fn tables(chromium: &mut Chromium, url: &str, holds: &str) -> Value {
    let steps = format!(
        "(async () => {{
            location.hash = '#steering';
            const read = () => [...document.querySelectorAll('main table')].map((one) => [...one.tBodies[0].rows].map((row) => [...row.cells].map((cell) => cell.innerText)));
            const main = document.querySelector('main');
            const holds = (tables) => {holds};
            for (let n = 0; n < 1000 && !holds(read()); n += 1) await new Promise((go) => setTimeout(go, 50));
            return JSON.stringify({{ tables: read(), text: main.innerText }});
        }})()"
    );
    let (told, thrown) = chromium.evaluate(url, &steps).unwrap();
    assert!(thrown.is_none(), "{thrown:?}");
    serde_json::from_str(told.as_str().unwrap_or_default()).unwrap_or_else(|e| panic!("{e}: {told}"))
}

/// The page, and its address.
fn served(scene: &Scene) -> (Child, String) {
    let mut child = scene.headstart(false, &["ui", "--no-browser"]).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    (child, line.trim().to_owned())
}

inside!(the_page_shows_both_channels_the_decisions_and_a_failover, || {
    let Some(mut scene) = Scene::new() else { return };
    let lo = Command::new("ip").args(["link", "set", "dev", "lo", "up"]).status();
    assert!(lo.is_ok_and(|status| status.success()));
    scene.up("pkt-state", &[]);
    let profile = tempfile::tempdir().unwrap();
    let mut chromium = match Chromium::start(Command::new("/bin/sh"), "", profile.path(), &[]) {
        Err(why @ BrowserError::Missing) => return println!("skipped: {why}"),
        other => other.unwrap(),
    };
    let (mut ui, url) = served(&scene);
    let log = profile.path().join("steer.sqlog");
    let mut logging =
        scene.headstart(false, &["steer", "log", "--interval", "0.1", log.to_str().unwrap()]).spawn().unwrap();
    assert_eq!(fetched(scene.fetch("/")), format!("200 {BODY}"));
    let before = scene.status(false);
    let told = tables(&mut chromium, &url, "tables[0]?.length === 2 && tables[1]?.length > 0");
    let after = scene.status(false);
    assert!(told["text"].as_str().unwrap().contains("steer0, policy pkt-state"), "{told}");
    for (n, channel) in ["fat", "fast"].into_iter().enumerate() {
        let row = &told["tables"][0][n];
        assert_eq!([&row[0], &row[1]], [channel, "up"], "{told}");
        // What the daemon told before and after holds what the page has shown meanwhile.
        let packets: u64 = row[5].as_str().unwrap().replace(',', "").parse().unwrap();
        let of = |status: &Value| status["steering"]["channels"][n]["packets"].as_u64().unwrap();
        assert!((of(&before)..=of(&after)).contains(&packets), "{channel}: {packets} {before} {after}");
        assert!(row[3].as_str().unwrap().ends_with(" ms") && row[7].as_str().unwrap().ends_with(" %"), "{row}");
    }
    let whys: Vec<_> = after["steering"]["reasons"].as_array().unwrap().iter().map(|one| &one["why"]).collect();
    let rows = told["tables"][1].as_array().unwrap();
    assert!(rows.iter().all(|row| whys.contains(&&row[0])), "{told} {after}");

    scene.plug("fast", false);
    // A tunnel that has rested for long, as beside a slow browser, looks at its channels when it is used.
    assert_eq!(fetched(scene.fetch("/small")), "200 100");
    until("the channel is known to be dead", || !scene.alive(false)[1]);
    let told = tables(&mut chromium, &url, "tables[0]?.[1]?.[1] === 'down'");
    let states: Vec<_> = (0..2).map(|n| told["tables"][0][n][1].as_str().unwrap()).collect();
    assert_eq!(states, ["up", "down"], "{told}");
    // The daemon has counted it, a page that is opened afterwards says so.
    let counted = scene.status(false)["steering"]["failovers"].as_u64().unwrap();
    assert!(counted >= 1 && told["text"].as_str().unwrap().contains(&format!("Failovers\n{counted}")), "{told}");
    drop(chromium);
    // The same as events of qlog: packets by reason, and the channel that was given up.
    let records = || -> Vec<Value> {
        let text = std::fs::read_to_string(&log).unwrap_or_default();
        let lines = text.lines().filter(|line| line.ends_with('}'));
        lines.map(|line| serde_json::from_str(line.trim_start_matches('\u{1e}')).unwrap()).collect()
    };
    let is_lost = |one: &Value| {
        one["name"] == "steer:channel_updated" && one["data"]["channel"] == "fast" && one["data"]["alive"] == false
    };
    until("the log has the lost channel", || records().iter().any(is_lost));
    records().iter().for_each(|record| must_hold("qlog-steer", &record.to_string()));
    let steered = records()
        .iter()
        .filter(|one| one["name"] == "steer:packets_steered")
        .filter_map(|one| one["data"]["packets"].as_u64())
        .sum::<u64>();
    assert!(steered > 0, "{:?}", records());
    let pid = rustix::process::Pid::from_raw(i32::try_from(logging.id()).unwrap()).unwrap();
    rustix::process::kill_process(pid, Signal::INT).unwrap();
    assert!(logging.wait().unwrap().success());
    let pid = rustix::process::Pid::from_raw(i32::try_from(ui.id()).unwrap()).unwrap();
    rustix::process::kill_process(pid, Signal::INT).unwrap();
    assert!(ui.wait().unwrap().success());
});
