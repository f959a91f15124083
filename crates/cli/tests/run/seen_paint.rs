//! What the page of `headstart ui` costs to open: bytes over the wire, what its first paint waits for, and when that comes, beside the
//! smallest page that the same server has.

use crate::lab::{Lab, ended, found, inside};
use crate::seen::{end_supervisors, run, serving, stop};
use crate::seen_page::browser;
use headstart_lab::browser::Chromium;
use headstart_lab::experiment::{Row, Series};
use headstart_lab::stats::{Pairing, Statistic};
use serde_json::Value;

/// Bytes over the wire, at most: the page, and its first data.
const MOST: f64 = 250_000.0;
/// Loads of each page, in turn.
const LOADS: usize = 15;

/// What the browser tells of a load, once it has painted and shows data if the page has any.
const LOADED: &str = "(async () => {
    const painted = () => performance.getEntriesByName('first-contentful-paint')[0]?.startTime;
    const main = document.querySelector('main');
    for (let n = 0; n < 600 && (painted() === undefined || main && !main.innerText.includes('curl')); n += 1) await new Promise((go) => setTimeout(go, 100));
    const all = [...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')];
    const events = all.find((one) => one.name.includes('/api/events'));
    return JSON.stringify({
        paint: painted(), requests: all.length, wire: all.reduce((n, one) => n + one.transferSize, 0), seen: Boolean(events),
        blocking: all.filter((one) => one.renderBlockingStatus === 'blocking' && one.initiatorType !== 'navigation').map((one) => new URL(one.name).pathname).sort(),
        hosts: [...new Set(all.map((one) => new URL(one.name).host))],
    });
})()";

fn loaded(chromium: &mut Chromium, url: &str) -> Value {
    let (told, thrown) = chromium.evaluate(url, LOADED).unwrap();
    assert!(thrown.is_none(), "{thrown:?}");
    serde_json::from_str(told.as_str().unwrap_or_default()).unwrap_or_else(|why| panic!("{why}: {told}"))
}

inside!(the_page_paints_before_its_programs_run_and_is_small, || {
    let (Some(curl), Some(_)) = (found("curl", "curl"), found("chromium", "chromium")) else { return };
    let lab = Lab::new();
    for host in ["www.lab.example", "a-lost.lab.example"] {
        assert_eq!(run(&lab, &[curl.to_str().unwrap(), "-sS", &format!("http://{host}/")]).code, Some(0));
    }
    let (ui, url) = serving(&lab, &["ui", "--no-browser"]);
    let (base, token) = url.split_once("/#").unwrap();
    let bearer = format!("authorization: Bearer {token}");
    let Some(mut chromium) = browser(&lab) else { return };
    let smallest = format!("{base}/licences.txt");
    let (mut ours, mut least) = (Vec::new(), Vec::new());
    let mut last = Value::Null;
    for _ in 0..LOADS {
        least.push(loaded(&mut chromium, &smallest)["paint"].as_f64().unwrap());
        last = loaded(&mut chromium, &url);
        ours.push(last["paint"].as_f64().unwrap());
    }
    assert_eq!(
        last["blocking"],
        serde_json::json!(["/style.css", "/uplot.css"]),
        "what the first paint waits for: {last}"
    );
    assert_eq!(last["hosts"], serde_json::json!([base.strip_prefix("http://").unwrap()]), "{last}");
    // A stream under way has no size yet: its first event is asked for on its own, and what comes later are changes.
    let words = ["-sN", "--max-time", "2", "-H", &bearer, &format!("{base}/api/events")];
    let first = ended(lab.command("curl").args(words).spawn().unwrap()).out.len() as f64;
    let wire = last["wire"].as_f64().unwrap() + first;
    assert!(wire <= MOST && wire > 50_000.0, "{wire} bytes: {last}");
    // Told and not judged: the machine may be busy.
    let series = |arm: &str, values: Vec<f64>| Series::new("loopback", "first paint", "ms", arm, values);
    let (ours, least) = (series("page", ours), series("text file", least));
    let row = Row::compare(&ours, &least, Statistic::Median, Pairing::Paired, 1).unwrap();
    let interval = row.interval.map_or([0.0; 2], |interval| [interval.lo, interval.hi]);
    println!(
        "first paint: median {:.0} ms of {LOADS}, {:.0} ms of a text file of the same server, ratio {:.2} (95 %: {:.2} to {:.2}); \
         {} requests, {wire:.0} bytes with the first data of {first:.0}",
        row.ours,
        row.baseline.unwrap_or_default(),
        row.ratio.unwrap_or_default(),
        interval[0],
        interval[1],
        last["requests"],
    );
    drop(chromium);
    stop(ui);
    end_supervisors();
});
