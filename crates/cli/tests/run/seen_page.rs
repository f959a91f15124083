//! The page of `headstart ui` in a real Chromium, on screens of every size: views of messages and of the lab, and rules of
//! accessibility for all views.

use crate::lab::{HEADSTART, Lab, Scratch, ended, found, inside};
use crate::seen::{asked, end_supervisors, run, serving, stop, waited};
use headstart_lab::browser::{BrowserError, Chromium, Screen};
use headstart_lab::experiment::{self, Claims, Context, Speeds};
use headstart_lab::report;
use serde_json::Value;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};

const MAIN: &str = "document.querySelector('main').innerText";

/// A run of a small experiment in virtual time, as `headstart lab run` writes it.
fn experiment(folder: &Path, seed: u64) {
    let entry = experiment::find("connect-model").unwrap();
    let conditions = Some(vec!["healthy".to_owned()]);
    let cx = Context { quick: true, speeds: Speeds::Virtual, conditions, ..Context::new(seed) };
    let mut outcome = entry.start(&cx).unwrap();
    outcome.extent = Some(experiment::Extent::of(&cx, None, std::time::Duration::from_secs(1)));
    report::write(folder, &outcome, &Claims::built_in().unwrap()).unwrap();
}

/// A browser on the client.
pub fn browser(lab: &Lab) -> Option<Chromium> {
    let profile = lab.scratch.path("chromium");
    fs::create_dir(&profile).unwrap();
    let mut shell = lab.command("/bin/sh");
    shell.env_remove("XDG_RUNTIME_DIR");
    match Chromium::start(shell, "", &profile, &[]) {
        Err(why @ BrowserError::Missing) => {
            println!("skipped: {why}");
            None
        }
        other => Some(other.unwrap()),
    }
}

/// A session of small messages over loopback: who receives, and who sends for a long time.
fn messages(lab: &Lab) -> [Child; 2] {
    let mut receiver = lab.command(HEADSTART);
    receiver.args(["realtime", "receive", "--listen", "127.0.0.1:0"]);
    let mut receiver = receiver.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(receiver.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let to = line.trim().strip_prefix("listening on ").unwrap_or_else(|| panic!("{line}"));
    let mut sender = lab.command(HEADSTART);
    sender.args(["realtime", "send", to, "--technique", "hedge", "--streams", "1000000"]);
    [receiver, sender.stdout(Stdio::null()).spawn().unwrap()]
}

fn end(children: [Child; 2]) {
    for mut child in children {
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

/// What a view shows when it shows all of these words.
pub fn shown(chromium: &mut Chromium, url: &str, view: &str, words: &[&str]) -> String {
    let all = words.iter().map(|word| format!("{MAIN}.includes({word:?})")).collect::<Vec<_>>().join(" && ");
    let steps = format!("location.hash = '#{view}', {}", waited(&all, MAIN));
    let (shown, thrown) = chromium.evaluate(url, &steps).unwrap();
    let shown = shown.as_str().unwrap_or_default().to_owned();
    assert!(thrown.is_none() && words.iter().all(|word| shown.contains(word)), "{view}: {thrown:?}\n{shown}");
    shown
}

inside!(sessions_of_messages_are_shown_while_they_run, || {
    let Some(_) = found("chromium", "chromium") else { return };
    let lab = Lab::new();
    let both = messages(&lab);
    let (ui, url) = serving(&lab, &["ui", "--no-browser"]);
    let Some(mut chromium) = browser(&lab) else { return };
    let words = ["realtime send", "realtime receive", "hedge", "127.0.0.1:", "Time saved", "clean"];
    shown(&mut chromium, &url, "messages", &words);
    // Both sides are told, and counts go up while one looks.
    let counts = "[...document.querySelectorAll('.card dd')].map((one) => Number(one.textContent.replaceAll(',', '')))";
    let twice = format!(
        "location.hash = '#messages', {}.then((first) => new Promise((done) => setInterval(() => {{ \
         const now = {counts}; if (now[1] > first[1] && now[2] > first[2]) done(JSON.stringify([first, now])); }}, 100)))",
        waited(&format!("{counts}[1] > 5 && {counts}[2] > 5"), counts)
    );
    let (counted, thrown) = chromium.evaluate(&url, &twice).unwrap();
    let counted: Value = serde_json::from_str(counted.as_str().unwrap_or_default()).unwrap_or_default();
    assert!(thrown.is_none() && counted[1][0] == 2, "two sessions: {thrown:?} {counted}");
    end(both);
    let none = shown(&mut chromium, &url, "messages", &["No session"]);
    assert!(!none.contains("hedge"), "{none}");
    drop(chromium);
    stop(ui);
});

inside!(results_of_the_lab_are_listed_shown_and_compared_row_by_row, || {
    let (Some(_), Some(_)) = (found("chromium", "chromium"), found("curl", "curl")) else { return };
    let lab = Lab::new();
    let results = lab.scratch.path("results");
    experiment(&results.join("monday"), 1);
    experiment(&results.join("tuesday"), 2);
    fs::create_dir(results.join("cut")).unwrap();
    fs::write(results.join("cut/result.json"), "{").unwrap();
    let (ui, url) = serving(&lab, &["ui", "--no-browser", "--results", results.to_str().unwrap()]);
    let Some(mut chromium) = browser(&lab) else { return };
    let list = shown(&mut chromium, &url, "lab", &["monday", "tuesday", "connect-model", "virtual time", "damaged"]);
    assert!(list.contains("valid"), "{list}");
    let one = shown(&mut chromium, &url, "lab/0%252Fmonday", &["seed 1", "healthy", "95 % interval", "Compare with"]);
    // The file says what is shown.
    let file: Value = serde_json::from_slice(&fs::read(results.join("monday/result.json")).unwrap()).unwrap();
    let row = file["rows"].as_array().unwrap().iter().find(|row| row["interval"].is_array()).unwrap();
    let (lo, hi) = (row["interval"][0].as_f64().unwrap(), row["interval"][1].as_f64().unwrap());
    let said = format!("{lo:.2} to {hi:.2}");
    assert!(one.contains(&said) && one.contains(row["metric"].as_str().unwrap()), "{said}\n{one}");
    let words = ["seed 1", "seed 2", "Rows of both runs", "AFTER", "no difference seen"];
    let words = words.map(|word| if word == "AFTER" { "after / before" } else { word });
    shown(&mut chromium, &url, "lab/0%252Fmonday|0%252Ftuesday", &words);
    shown(&mut chromium, &url, "lab/0%252Fnowhere", &["no such result"]);
    // Nothing but what was found below the folder is read, whatever is asked for.
    let (base, token) = url.split_once("/#").unwrap();
    let bearer = format!("authorization: Bearer {token}");
    for id in ["0/../chromium", "0/%2e%2e", "1/", ""] {
        let (status, said) = asked(&lab, &["-H", &bearer, "--path-as-is"], &format!("{base}/api/result?id={id}"));
        assert_eq!((status, said.as_str()), (404, "no such result"), "{id}");
    }
    drop(chromium);
    stop(ui);
});

#[test]
fn a_folder_of_results_that_is_not_there_is_an_error_of_usage() {
    let scratch = Scratch::new();
    let said = ended(scratch.headstart(["ui", "--no-browser", "--results", "/nowhere"]).spawn().unwrap());
    assert!(said.code == Some(2) && said.err.contains("/nowhere"), "{said:?}");
}

/// The rules of axe-core, from npm; none, and a line that says so, where they are not there.
fn axe() -> Option<String> {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/npm/node_modules/axe-core/axe.min.js");
    let read = fs::read_to_string(file);
    if read.is_err() {
        println!("skipped: axe-core is not there: npm install --prefix target/npm axe-core@4.14.1");
    }
    read.ok()
}

inside!(no_view_breaks_a_rule_of_accessibility_on_any_screen, || {
    let (Some(curl), Some(_)) = (found("curl", "curl"), found("chromium", "chromium")) else { return };
    let Some(axe) = axe() else { return };
    let lab = Lab::new();
    let results = lab.scratch.path("results");
    experiment(&results.join("monday"), 1);
    experiment(&results.join("tuesday"), 2);
    for host in ["www.lab.example", "a-lost.lab.example"] {
        assert_eq!(run(&lab, &[curl.to_str().unwrap(), "-sS", &format!("http://{host}/")]).code, Some(0));
    }
    let both = messages(&lab);
    let (ui, url) = serving(&lab, &["ui", "--no-browser", "--results", results.to_str().unwrap()]);
    let Some(mut chromium) = browser(&lab) else { return };
    let views = serde_json::json!([
        ["now", "www.lab.example"],
        ["programs", "curl"],
        ["network", "in use"],
        ["connection/www.lab.example", "handed over"],
        ["host", "No daemon is running"],
        ["steering", "No tunnel"],
        ["messages", "realtime send"],
        ["lab", "monday"],
        ["lab/0%252Fmonday", "95 % interval"],
        ["lab/0%252Fmonday|0%252Ftuesday", "Rows of both runs"],
    ]);
    let steps = format!(
        "{axe};\n(async () => {{ const broken = []; for (const [view, words] of {views}) {{ location.hash = '#' + view; \
         for (let n = 0; n < 600 && !{MAIN}.includes(words); n += 1) await new Promise((go) => setTimeout(go, 100)); \
         if (!{MAIN}.includes(words)) broken.push(view + ' does not show ' + words); \
         const {{ violations }} = await axe.run(document, {{ resultTypes: ['violations'] }}); \
         for (const one of violations) broken.push(view + ': ' + one.id + ': ' + one.nodes.map((node) => node.html).join(' ').slice(0, 500)); \
         const wide = document.scrollingElement.scrollWidth; \
         if (wide > innerWidth) broken.push(view + ' is ' + wide + ' pixels wide on a screen of ' + innerWidth); }} \
         return JSON.stringify(broken); }})()"
    );
    for (width, dark) in [(1280, false), (375, true), (3840, false)] {
        let screen = Screen { width, height: 900, dark };
        let (broken, thrown) = chromium.evaluate_on(Some(screen), &url, &steps).unwrap();
        assert!(thrown.is_none() && broken == "[]", "{screen:?}: {thrown:?}\n{broken}");
    }
    end(both);
    drop(chromium);
    stop(ui);
    end_supervisors();
});
