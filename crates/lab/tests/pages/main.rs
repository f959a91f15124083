//! Pages replayed in namespaces: to curl byte for byte, and to Chromium.
//!
//! Nothing is sent outside namespaces made here; a program that is missing is told of and left out. Of times only what
//! holds on any machine is tested.
#![forbid(unsafe_code)]

mod recorder;

use headstart_lab::browser::{BrowserError, BrowserLoad, Chromium};
use headstart_lab::condition::page::Families;
use headstart_lab::netns::inside;
use headstart_lab::page::recording::{self, Exchange};
use headstart_lab::page::{Dependency, Page, Protocol, content, synthetic};
use headstart_lab::server::recorder::roots_of;
use headstart_lab::server::stage::Stage;
use headstart_lab::socket_loader;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

const LINK: &str = "rate=100mbit,delay=5ms";

/// A page of the generator that is not large, all of it over `protocol`.
fn small(protocol: Protocol) -> Page {
    let fits = |p: &Page| (20..40).contains(&p.objects.len()) && p.bytes() < 1_000_000;
    let mut page = (0..).map(synthetic::page).find(fits).unwrap();
    page.objects.iter_mut().for_each(|o| o.protocol = protocol);
    page
}

fn shell(stage: &Stage) -> Command {
    stage.network().command("/bin/sh").unwrap()
}

/// Chromium on the stage; none, with a word, if it is not installed.
fn chromium(stage: &Stage, folder: &Path) -> Option<Chromium> {
    let over_quic = stage.over_quic();
    let profile = folder.join("profile");
    std::fs::create_dir(&profile).unwrap();
    match Chromium::start(shell(stage), &stage.trust().key_hash, &profile, over_quic) {
        Ok(chromium) => Some(chromium),
        Err(e @ BrowserError::Missing) => {
            println!("skipped: {e}");
            None
        }
        Err(e) => panic!("{e}"),
    }
}

/// A load. A browser that is starved of its processor may give up a QUIC that it was told to speak: it has some tries.
fn loaded(chromium: &mut Chromium, url: &str) -> BrowserLoad {
    for _ in 0..8 {
        match chromium.load(url) {
            Ok(load) => return load,
            Err(BrowserError::Navigation { reason, .. }) if reason.contains("QUIC") => {}
            Err(e) => panic!("{url}: {e}"),
        }
    }
    panic!("{url}: QUIC was given up eight times");
}

#[test]
#[ignore = "needs network namespaces: cargo xtask test"]
fn curl_gets_every_object_of_a_page_byte_for_byte() {
    inside("curl_gets_every_object_of_a_page_byte_for_byte", || {
        if Command::new("curl").arg("--version").output().is_err() {
            return println!("skipped: curl is not installed");
        }
        for (protocol, version) in [(Protocol::Http1, "1.1"), (Protocol::Http2, "2")] {
            let folder = tempfile::tempdir().unwrap();
            let page = small(protocol);
            let stage = Stage::of_contents(&page, LINK, Families::Alike, 1, folder.path()).unwrap();
            let names: Vec<String> = (0..page.hosts.len()).map(|i| format!("n{}.lab.example", i + 1)).collect();
            let all: Vec<Exchange> = content::exchanges(&page, &names);
            for exchange in &all {
                let url = format!("https://{}{}", exchange.host(), String::from_utf8_lossy(exchange.target()));
                let mut curl = stage.network().command("curl").unwrap();
                curl.args(["--silent", "--show-error", "--raw", "--write-out", "%{stderr}%{http_version}", "--cacert"]);
                let got = curl.arg(&stage.trust().certificate).arg(&url).output().unwrap();
                let said = String::from_utf8_lossy(&got.stderr).into_owned();
                assert!(got.status.success() && said == version, "{url}: {said}");
                assert!(got.stdout == exchange.response.body, "{url}: other bytes");
            }
            assert_eq!((stage.served().answered, stage.served().missing), (all.len() as u64, 0));
        }
    });
}

#[test]
#[ignore = "needs network namespaces: cargo xtask test"]
fn chromium_loads_every_object_of_a_page_and_says_when() {
    inside("chromium_loads_every_object_of_a_page_and_says_when", || {
        for (protocol, name) in [(Protocol::Http1, "http/1.1"), (Protocol::Http2, "h2"), (Protocol::Http3, "h3")] {
            let folder = tempfile::tempdir().unwrap();
            let page = small(protocol);
            let stage = Stage::of_contents(&page, LINK, Families::Alike, 1, folder.path()).unwrap();
            let Some(mut chromium) = chromium(&stage, folder.path()) else { return };
            let load = loaded(&mut chromium, stage.url());
            // A round trip each for DNS, TCP, TLS and the document, at least; QUIC needs one less.
            let least = if protocol == Protocol::Http3 { 30.0 } else { 40.0 };
            assert!(load.load >= least && load.first_byte > 0.0 && load.content_loaded <= load.load, "{load:?}");
            let document = &load.requests[0];
            // Pages of the generator may begin with a redirect.
            assert!(matches!(document.status, Some(200 | 302)) && document.protocol == name, "{document:?}");
            assert!(
                load.requests.iter().any(|r| r.status == Some(200) && r.mime == "text/html"),
                "{:?}",
                load.requests
            );
            let connect = if protocol == Protocol::Http3 { 10.0 } else { 20.0 };
            assert!(document.connect.is_some_and(|c| c >= connect) && document.tls.is_some(), "{document:?}");
            // What is asked for after the load event may be missing; the rest was asked for, in each fresh context anew.
            assert!(load.requests.len() > page.objects.len() / 2, "{} of {}", load.requests.len(), page.objects.len());
            assert_eq!(load.har("page")["log"]["entries"].as_array().unwrap().len(), load.requests.len());
            let served = stage.served();
            let strange: Vec<_> = served.unanswered.iter().filter(|u| !u.ends_with("/favicon.ico")).collect();
            assert!(strange.is_empty(), "{strange:?}");
        }
    });
}

#[test]
#[ignore = "needs network namespaces: cargo xtask test"]
fn the_first_paint_is_when_something_can_be_seen_before_the_load_event_or_after() {
    inside("the_first_paint_is_when_something_can_be_seen_before_the_load_event_or_after", || {
        let folder = tempfile::tempdir().unwrap();
        let mut chromium = match Chromium::start(Command::new("/bin/sh"), "", folder.path(), &[]) {
            Ok(chromium) => chromium,
            Err(e @ BrowserError::Missing) => return println!("skipped: {e}"),
            Err(e) => panic!("{e}"),
        };
        // Pages in their addresses: no server is asked.
        let mut load = |html: &str| chromium.load(&format!("data:text/html,{html}")).unwrap();
        // A script holds up what follows it.
        let held = load("<script>var t=performance.now();while(performance.now()-t<400);</script><p>late</p>");
        assert!(held.first_paint.is_some_and(|paint| paint >= 400.0), "{held:?}");
        // Nothing is there before the load event is over, and for ten frames more.
        let after = "<body></body><script>onload=function(){var n=10;(function next(){\
                     n--?requestAnimationFrame(next):document.body.textContent='late'})()}</script>";
        let after = load(after);
        assert!(after.first_paint.is_some_and(|paint| paint > after.load), "{after:?}");
        let nothing = load("<body></body>");
        assert_eq!(nothing.first_paint, None, "not zero: {nothing:?}");
    });
}

#[test]
#[ignore = "needs network namespaces: cargo xtask test"]
fn the_loader_over_sockets_loads_every_object_and_obeys_what_they_wait_for() {
    inside("the_loader_over_sockets_loads_every_object_and_obeys_what_they_wait_for", || {
        for protocol in [Protocol::Http1, Protocol::Http2, Protocol::Http3] {
            let folder = tempfile::tempdir().unwrap();
            let page = small(protocol);
            let stage = Stage::of_contents(&page, LINK, Families::Alike, 1, folder.path()).unwrap();
            let names: Vec<String> = (0..page.hosts.len()).map(|i| format!("n{}.lab.example", i + 1)).collect();
            let requests = socket_loader::requests(&page, content::exchanges(&page, &names).iter());
            let roots = roots_of(&stage.trust().certificate).unwrap();
            let load = || socket_loader::load(&page, Dependency::Structure, requests, roots);
            let load = stage.network().on_client(load).unwrap().unwrap();
            for (n, (object, timing)) in page.objects.iter().zip(&load.objects).enumerate() {
                assert!(!timing.failed && timing.wanted <= timing.sent && timing.sent <= timing.end, "{n}: {timing:?}");
                let parent = object.structure.parent().map(|p| load.objects[p]);
                assert!(parent.is_none_or(|p| p.sent <= timing.wanted), "{n}: {timing:?} {parent:?}");
            }
            // A round trip each for DNS, TCP, TLS and the document, at least; QUIC needs one less.
            assert!(load.time.as_millis() >= if protocol == Protocol::Http3 { 30 } else { 40 }, "{:?}", load.time);
            assert_eq!((stage.served().answered, stage.served().missing), (page.objects.len() as u64, 0), "{protocol}");
            let hosts: BTreeSet<usize> = page.objects.iter().map(|o| o.host).collect();
            let fits = if protocol != Protocol::Http1 {
                load.connections == hosts.len()
            } else {
                load.connections >= hosts.len()
            };
            assert!(fits, "{protocol}: {} connections to {} hosts", load.connections, hosts.len());
        }
    });
}

#[test]
#[ignore = "needs network namespaces: cargo xtask test"]
fn recordings_are_answered_nearly_always() {
    let Some(data) = std::env::var_os("HEADSTART_PAGES") else {
        return println!("skipped: HEADSTART_PAGES names no folder with page data");
    };
    inside("recordings_are_answered_nearly_always", || {
        let recorded = Path::new(&data).join("recorded");
        let manifest: serde_json::Value =
            serde_json::from_slice(&std::fs::read(recorded.join("manifest.json")).unwrap()).unwrap();
        let mut less = Vec::new();
        for (name, about) in manifest.as_object().unwrap() {
            let folder = tempfile::tempdir().unwrap();
            let (exchanges, _) = recording::read(&recorded.join(name)).unwrap();
            let root = about["root"].as_str().unwrap();
            let page = recording::page(name, &exchanges, root, Protocol::Http1).unwrap();
            let network = (LINK, Families::Alike, 1);
            let stage = Stage::of_recording(&page, exchanges, root, network, folder.path()).unwrap();
            let Some(mut chromium) = chromium(&stage, folder.path()) else { return };
            let load = loaded(&mut chromium, stage.url());
            let served = stage.served();
            let missing: Vec<_> = served.unanswered.iter().filter(|u| !u.ends_with("/favicon.ico")).collect();
            println!(
                "{name}: {:.0} ms, {} requests, {} answered, {} of {} recorded; missing {missing:?}",
                load.load,
                load.requests.len(),
                served.answered,
                served.answered,
                page.objects.len()
            );
            let share = served.answered as f64 / (served.answered + missing.len() as u64) as f64;
            if share < 0.95 {
                less.push(format!("{name}: {share:.3}; {missing:?}"));
            }
        }
        assert!(less.is_empty(), "{less:#?}");
    });
}
