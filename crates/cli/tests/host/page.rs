//! `up --ui`: the page is there as long as the daemon is, and no longer.

use crate::scene::{Scene, found, inside, run, until};
use rustix::process::Signal;

/// Whether the page answers, with its token.
fn answers(url: &str) -> bool {
    let (base, token) = url.split_once("/#").unwrap_or_else(|| panic!("{url}"));
    let bearer = format!("authorization: Bearer {token}");
    let mut curl = std::process::Command::new("curl");
    curl.args(["-sf", "--max-time", "60", "-o", "/dev/null", "-H", &bearer, &format!("{base}/api/results")]);
    curl.status().unwrap().success()
}

inside!(the_page_ends_with_the_daemon_however_that_ends, || {
    let Some(scene) = Scene::new() else { return };
    let Some(()) = found("curl", "curl") else { return };
    run(&["ip", "link", "set", "dev", "lo", "up"]);
    scene.teach(1);
    let before = scene.look();
    let up = scene.says(&["up", "--initcwnd", "--ui", "--json"]);
    assert_eq!(up.code, Some(0), "{up:?}");
    let said: serde_json::Value = serde_json::from_str(&up.out).unwrap();
    let url = said["ui"].as_str().unwrap();
    assert!(url.starts_with("http://127.0.0.1:") && answers(url), "{url}");
    assert_eq!(scene.says(&["down"]).code, Some(0));
    until("the page has ended", || !answers(url));
    scene.must_be_as(&before, "after down");

    let up = scene.says(&["up", "--initcwnd", "--ui", "--json"]);
    let said: serde_json::Value = serde_json::from_str(&up.out).unwrap();
    let (url, pid) = (said["ui"].as_str().unwrap(), said["pid"].as_i64().unwrap());
    assert!(answers(url));
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    rustix::process::kill_process(pid, Signal::KILL).unwrap();
    until("the page of a killed daemon has ended", || !answers(url));
    assert_eq!(scene.says(&["recover"]).code, Some(0));
    scene.must_be_as(&before, "after recover");
});
