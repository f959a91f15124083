//! The view of the host in a real browser: what the daemon has changed, and the way back, which takes a second click.

use crate::scene::{Scene, found, inside, run, until};
use headstart_core::time::{Duration, Instant};
use headstart_io::clock::Clock;
use headstart_lab::browser::{BrowserError, Chromium};
use serde_json::Value;
use std::process::Command;

/// What a page needs to be asked: waits until `holds`, a minute at most, and opens the dialog.
const HELPERS: &str = "
    const main = document.querySelector('main');
    const button = (words) => [...document.querySelectorAll('button')].find((one) => one.innerText === words);
    const until = async (holds) => { for (let n = 0; n < 1000 && !holds(); n += 1) await new Promise((go) => setTimeout(go, 50)); return holds(); };
    location.hash = '#host';
    const up = () => document.querySelector('dd')?.innerText.startsWith('up ');
    await until(up);
    const before = main.innerText;
    button('Undo all and stop the daemon').click();
    const asked = document.querySelector('dialog').open ? document.querySelector('dialog').innerText : 'no question';
";

/// The processor time of a process so far, in milliseconds.
fn worked(pid: u64) -> f64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/schedstat")).unwrap_or_default();
    text.split(' ').next().and_then(|ns| ns.parse::<f64>().ok()).unwrap_or_default() / 1e6
}

fn page(chromium: &mut Chromium, url: &str, steps: &str) -> Value {
    let (told, thrown) = chromium.evaluate(url, &format!("(async () => {{ {HELPERS} {steps} }})()")).unwrap();
    assert!(thrown.is_none(), "{thrown:?}");
    serde_json::from_str(told.as_str().unwrap_or_default()).unwrap_or_else(|e| panic!("{e}: {told}"))
}

inside!(the_page_shows_what_the_daemon_has_changed_and_undoes_it_only_when_that_is_confirmed, || {
    let Some(scene) = Scene::new() else { return };
    let Some(()) = found("chromium", "chromium") else { return };
    run(&["ip", "link", "set", "dev", "lo", "up"]);
    scene.teach(3);
    let before = scene.look();
    let profile = scene.path("chromium");
    std::fs::create_dir(&profile).unwrap();
    let mut chromium = match Chromium::start(Command::new("/bin/sh"), "", &profile, &[]) {
        Err(why @ BrowserError::Missing) => return println!("skipped: {why}"),
        other => other.unwrap(),
    };
    let up = scene.says(&["up", "--initcwnd", "--ui", "--json"]);
    let said: Value = serde_json::from_str(&up.out).unwrap_or_else(|e| panic!("{e}: {up:?}"));
    let url = said["ui"].as_str().unwrap();
    until("all peers have a route", || scene.status()["changes"].as_array().unwrap().len() >= 3);
    let changes = scene.status()["changes"].as_array().unwrap().clone();
    let kept = "button('Keep').click(); await new Promise((go) => setTimeout(go, 3000)); \
                return JSON.stringify([before, asked, main.innerText, document.querySelector('dialog').open])";
    let (clock, pid) = (Clock::new(), said["pid"].as_u64().unwrap());
    let share = |since: Instant, before: f64| (worked(pid) - before) / (clock.now() - since).as_secs_f64() / 10.0;
    let (began, before_page) = (clock.now(), worked(pid));
    let told = page(&mut chromium, url, kept);
    let with = share(began, before_page);
    clock.sleep(Duration::from_secs(1));
    let (began, before_pause) = (clock.now(), worked(pid));
    clock.sleep(Duration::from_secs(3));
    // Told and not judged.
    println!("the daemon took {with:.2} % of a core with the page, {:.3} % without", share(began, before_pause));
    let shown = told[0].as_str().unwrap();
    for change in &changes {
        assert!(shown.contains(change.as_str().unwrap()), "{change} in\n{shown}");
    }
    assert!(told[1].as_str().unwrap().contains("Undo all changes and stop the daemon?"), "{told}");
    let still = told[2].as_str().unwrap();
    assert!(told[3] == false && still.contains("What it has changed") && !still.contains("undone"), "{told}");
    assert_eq!(scene.status()["changes"].as_array().unwrap(), &changes, "nothing was undone");

    let undone = "button('Undo').click(); await until(() => main.innerText.includes('the daemon has stopped')); \
                  return JSON.stringify([main.innerText])";
    let told = page(&mut chromium, url, undone);
    let words = format!("{} changes undone, the daemon has stopped", changes.len());
    assert!(told[0].as_str().unwrap().contains(&words), "{words}: {told}");
    drop(chromium);
    until("the daemon and its page have ended", || scene.look()["processes"] == before["processes"]);
    scene.must_be_as(&before, "after the page has undone it");
});
