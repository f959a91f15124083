//! What telemetry must hold to: names stay here, nothing is lost or twice, no more than was allowed.

use super::*;
use serde_json::Value;
use std::collections::BTreeSet;

fn settings(folder: &Path) -> Settings {
    let (key, most) = (folder.join("site.key"), 1 << 20);
    Settings { folder: folder.join("out"), key, names: false, label: "office".into(), most }
}

fn lines(telemetry: &Telemetry) -> Vec<Value> {
    let read = |path: &PathBuf| fs::read_to_string(path).unwrap();
    let text: String = telemetry.batches().unwrap().iter().map(read).collect();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn tally() -> Tally {
    Tally { resolved: 3, handed_over: 2, spares_taken: 1, ..Tally::default() }
}

#[test]
fn names_are_hashes_of_the_site_unless_they_are_wanted() {
    let folder = tempfile::tempdir().unwrap();
    let (same, other) = (settings(folder.path()), tempfile::tempdir().unwrap());
    let app = |settings: &Settings| {
        let mut telemetry = Telemetry::open(settings).unwrap();
        telemetry.run("secret-browser", &tally());
        assert_eq!(telemetry.end(), None);
        let said = lines(&telemetry).pop().unwrap();
        assert_eq!((&said["kind"], &said["label"], &said["handed_over"]), (&"run".into(), &"office".into(), &2.into()));
        said["app"].as_str().unwrap().to_owned()
    };
    let hashed = app(&same);
    assert!(hashed.len() == 16 && hashed == app(&same), "{hashed}");
    assert_ne!(hashed, app(&settings(other.path())), "another site, another key");
    assert_eq!(app(&Settings { names: true, ..same.clone() }), "secret-browser");
    assert_eq!(fs::metadata(&same.key).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn every_event_is_kept_once_whoever_adds_it_and_batches_become_whole() {
    let folder = tempfile::tempdir().unwrap();
    let settings = settings(folder.path());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut telemetry = Telemetry::open(&settings).unwrap();
                (0..300).for_each(|_| telemetry.run("app", &tally()));
                assert_eq!(telemetry.end(), None);
            });
        }
    });
    let telemetry = Telemetry::open(&settings).unwrap();
    let all = lines(&telemetry);
    let ids: BTreeSet<String> = all.iter().map(|event| event["id"].to_string()).collect();
    assert_eq!((all.len(), ids.len()), (1200, 1200));
    assert!(telemetry.batches().unwrap().len() > 1, "one is whole");
}

/// The folder of a writer that is a process of its own.
const WRITER: &str = "HEADSTART_TEST_TELEMETRY_WRITER";

/// Writes events until it is killed, and says each that is kept; nothing unless it is started by the test below.
#[test]
fn writer() {
    let Some(folder) = std::env::var_os(WRITER) else { return };
    let mut telemetry = Telemetry::open(&settings(Path::new(&folder))).unwrap();
    loop {
        telemetry.run("app", &tally());
        println!("kept");
    }
}

#[test]
fn of_a_writer_that_is_killed_in_mid_stream_every_event_that_it_has_kept_is_there_once() {
    use std::io::{BufRead as _, BufReader};
    let folder = tempfile::tempdir().unwrap();
    for round in 1..=3usize {
        let mut command = std::process::Command::new(std::env::current_exe().unwrap());
        command.args(["telemetry::tests::writer", "--exact", "--nocapture"]).env(WRITER, folder.path());
        let mut child = command.stdout(std::process::Stdio::piped()).spawn().unwrap();
        let mut said = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        // More than a batch in all rounds: it may be killed while one becomes whole.
        let mut kept = said.by_ref().filter(|line| line.ends_with("kept")).take(400 + 7 * round).count();
        child.kill().unwrap();
        child.wait().unwrap();
        kept += said.filter(|line| line.ends_with("kept")).count();
        let telemetry = Telemetry::open(&settings(folder.path())).unwrap();
        let text: String = telemetry.batches().unwrap().iter().map(|path| fs::read_to_string(path).unwrap()).collect();
        let (whole, cut): (Vec<&str>, Vec<&str>) =
            text.lines().partition(|line| serde_json::from_str::<Value>(line).is_ok());
        let events = whole.iter().map(|line| serde_json::from_str::<Value>(line).unwrap()["id"].to_string());
        let ids: BTreeSet<String> = events.collect();
        assert_eq!(ids.len(), whole.len(), "none is there twice");
        // One may have been kept and not said any more, and one cut, in each round.
        let before = fs::read_to_string(folder.path().join("before")).map_or(0, |n| n.parse::<usize>().unwrap());
        assert!((before + kept..=before + kept + 1).contains(&ids.len()), "{before} and {kept}, not {}", ids.len());
        assert!(cut.len() <= round, "{cut:?}");
        fs::write(folder.path().join("before"), ids.len().to_string()).unwrap();
    }
}

#[test]
fn a_line_that_a_killed_process_left_without_an_end_costs_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let mut telemetry = Telemetry::open(&settings(folder.path())).unwrap();
    telemetry.run("app", &tally());
    let file = telemetry.batches().unwrap().pop().unwrap();
    let mut text = fs::read_to_string(&file).unwrap();
    text.push_str("{\"kind\":\"ru");
    fs::write(&file, text).unwrap();
    telemetry.run("app", &tally());
    let text = fs::read_to_string(&file).unwrap();
    let whole: Vec<bool> = text.lines().map(|line| serde_json::from_str::<Value>(line).is_ok()).collect();
    assert_eq!(whole, [true, false, true]);
}

#[test]
fn the_folder_never_takes_more_than_was_allowed_and_says_what_is_missing() {
    let folder = tempfile::tempdir().unwrap();
    let small = Settings { most: 4096, ..settings(folder.path()) };
    let mut telemetry = Telemetry::open(&small).unwrap();
    (0..50).for_each(|_| telemetry.run("app", &tally()));
    let kept = lines(&telemetry).len() as u64;
    assert_eq!((telemetry.end(), kept + telemetry.missing()), (None, 50), "back-pressure is no failure");
    let size: u64 = telemetry.batches().unwrap().iter().map(|path| fs::metadata(path).unwrap().len()).sum();
    assert!(size <= 4096 && kept > 2, "{size} {kept}");
    // A collector takes it away; the next says what is missing, once.
    telemetry.batches().unwrap().iter().for_each(|path| fs::remove_file(path).unwrap());
    telemetry.run("app", &tally());
    telemetry.run("app", &tally());
    let said = lines(&telemetry);
    let kinds: Vec<&str> = said.iter().map(|event| event["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["missing", "run", "run"]);
    assert_eq!((said[0]["count"].as_u64(), telemetry.missing()), (Some(50 - kept), 0));
}

#[test]
fn a_key_that_others_may_read_or_that_is_none_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let settings = settings(folder.path());
    fs::write(&settings.key, "short").unwrap();
    fs::set_permissions(&settings.key, fs::Permissions::from_mode(0o600)).unwrap();
    assert!(Telemetry::open(&settings).unwrap_err().to_string().contains("it does not contain a key"));
    fs::set_permissions(&settings.key, fs::Permissions::from_mode(0o644)).unwrap();
    assert!(Telemetry::open(&settings).unwrap_err().to_string().contains("chmod 600"));
}

#[test]
fn a_batch_that_is_closed_is_whole_and_the_next_event_begins_another() {
    let folder = tempfile::tempdir().unwrap();
    let mut telemetry = Telemetry::open(&settings(folder.path())).unwrap();
    assert_eq!(telemetry.close().unwrap(), Vec::<PathBuf>::new());
    telemetry.run("app", &tally());
    let [whole] = &telemetry.close().unwrap()[..] else { panic!("one batch") };
    assert!(whole.file_name().unwrap().to_str().unwrap().contains('-'), "{whole:?}");
    telemetry.run("app", &tally());
    assert_eq!((telemetry.batches().unwrap().len(), lines(&telemetry).len()), (2, 2));
    let ids: std::collections::BTreeSet<String> =
        lines(&telemetry).iter().map(|event| event["id"].to_string()).collect();
    assert_eq!(ids.len(), 2, "each once");
    assert_eq!(telemetry.close().unwrap().len(), 2);
}
