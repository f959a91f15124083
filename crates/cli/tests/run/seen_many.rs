//! The page of `headstart ui` with more connections than it shows: each has a line of its own, whatever it is named, and what is
//! drawn is what is in sight.

use crate::lab::{HEADSTART, Lab, found, inside, python, supervisors};
use crate::seen::{end_supervisors, serving, stop};
use crate::seen_page::browser;
use headstart_core::time::{Duration, Instant};
use headstart_io::clock::Clock;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::Value;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::process::{Child, Stdio};

/// Lines of each list, at most.
const MOST: usize = 1000;
/// A page draws a list of lines, not a thousand of them: elements of the whole document, at most.
const ELEMENTS: u64 = 1200;

/// Connections that are open, more than there are lines: a few more, or as many as the environment says.
fn open() -> usize {
    std::env::var("HEADSTART_TEST_OPEN").ok().map_or(MOST + 10, |number| number.parse().unwrap())
}

/// Opens connections to one name, as a few processes do, says so, and holds them until its input ends.
const HOLD: &str = "
import os, resource, socket, sys
from concurrent.futures import ThreadPoolExecutor
n, port, each = int(sys.argv[1]), int(sys.argv[2]), 400
def hold(n):
    with ThreadPoolExecutor(16) as pool:
        return list(pool.map(lambda _: socket.create_connection(('www.lab.example', port)), range(n)))
heard, open_, children = os.pipe(), os.pipe(), 0
for first in range(0, n, each):
    children += 1
    if os.fork() == 0:
        os.close(heard[1])
        held = hold(min(each, n - first))
        os.write(open_[1], b'x')
        os.read(heard[0], 1)
        os._exit(0)
os.close(open_[1])
for _ in range(children): assert os.read(open_[0], 1)
print('open', flush=True)
sys.stdin.read()
os.close(heard[1])
for _ in range(children): os.wait()
";

/// Scrolls both lists from their beginning to their end, a frame a step: the lines that came into sight, the elements of the document at
/// most, how far its layout shifted, what the lists say of themselves, and how long frames took.
const SCROLLED: &str = "(async () => {
    location.hash = '#now';
    const lists = () => [...document.querySelectorAll('[role=table]')];
    const full = () => lists().length === 2 && lists().every((list) => list.getAttribute('aria-rowcount') === '1001');
    for (let n = 0; n < 1000 && !full(); n += 1) await new Promise((go) => setTimeout(go, 50));
    const said = document.querySelector('main').innerText;
    const paint = performance.getEntriesByName('first-contentful-paint')[0]?.startTime;
    const loaded = [...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')];
    const wire = loaded.filter((one) => !one.name.includes('/api/')).reduce((n, one) => n + one.transferSize, 0);
    const moved = [];
    let shift = 0;
    const note = (one) => {
        shift += one.value;
        one.sources.forEach(({ node, previousRect: from, currentRect: to }) => moved.push(`${node?.nodeName} ${node?.className} ${from.x},${from.y} to ${to.x},${to.y}`));
    };
    new PerformanceObserver((all) => all.getEntries().filter((one) => !one.hadRecentInput).forEach(note)).observe({ type: 'layout-shift', buffered: true });
    const frame = () => new Promise(requestAnimationFrame);
    const [frames, reached] = [[], []];
    let [elements, last] = [0, await frame()];
    for (const list of lists()) {
        list.scrollIntoView();
        const seen = new Set();
        for (let top = 0; top < list.scrollHeight; top += 180) {
            list.scrollTop = top;
            const now = await frame();
            frames.push(now - last);
            last = now;
            for (const line of list.querySelectorAll('[role=rowgroup]:last-child [role=row]')) if (line.innerText.trim()) seen.add(line.getAttribute('aria-rowindex'));
            elements = Math.max(elements, document.querySelectorAll('*').length);
        }
        reached.push(seen.size);
    }
    return JSON.stringify({ said, reached, elements, shift, moved, paint, wire, frames: frames.sort((a, b) => a - b) });
})()";

/// The processor time of a process so far, in milliseconds.
fn worked(pid: u32) -> f64 {
    let text = fs::read_to_string(format!("/proc/{pid}/schedstat")).unwrap_or_default();
    text.split(' ').next().and_then(|ns| ns.parse::<f64>().ok()).unwrap_or_default() / 1e6
}

/// The program that holds connections, run by headstart with these flags, once it has them all.
fn holding(lab: &Lab, flags: &[&str], port: u16) -> Option<Child> {
    let mut command = lab.command(HEADSTART);
    command.env_remove("HEADSTART").env("HEADSTART_LINGER", "3600").arg("run").args(flags).arg("--").arg(python()?);
    command.args(["-c", HOLD, &open().to_string(), &port.to_string()]).stdin(Stdio::piped()).stderr(Stdio::inherit());
    let mut child = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line.trim(), "open", "{flags:?}");
    Some(child)
}

inside!(a_thousand_connections_to_one_name_have_a_line_each_and_a_page_draws_those_in_sight, || {
    let (Some(_), Some(_)) = (found("chromium", "chromium"), python()) else { return };
    let hard = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: hard, maximum: hard }).unwrap();
    let lab = Lab::new();
    let listener = lab.network.on_servers(|| TcpListener::bind(("::", 0)).unwrap()).unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || listener.incoming().collect::<Vec<_>>());
    let both = [&[][..], &["--measure"]].map(|flags| holding(&lab, flags, port).unwrap());
    let (ui, url) = serving(&lab, &["ui", "--no-browser"]);
    let Some(mut chromium) = browser(&lab) else { return };
    let clock = Clock::new();
    let supervisor = supervisors()[0];
    let share =
        |since: Instant, before: f64| (worked(supervisor) - before) / (clock.now() - since).as_secs_f64() / 10.0;
    let (began, before) = (clock.now(), worked(supervisor));
    let (told, thrown) = chromium.evaluate(&url, SCROLLED).unwrap();
    let with = share(began, before);
    let told: Value = serde_json::from_str(told.as_str().unwrap_or_default()).unwrap_or_default();
    assert!(thrown.is_none() && told.is_object(), "{thrown:?} {told}");
    assert_eq!(told["reached"], serde_json::json!([MOST, MOST]), "{told}");
    let said = told["said"].as_str().unwrap();
    let all = open();
    let of_all = format!("1,000 of {},{:03} open connections", all / 1000, all % 1000);
    for words in ["The latest 1,000. Earlier ones are not shown.", &of_all, "www.lab.example"] {
        assert!(said.contains(words), "{words}: {said}");
    }
    let elements = told["elements"].as_u64().unwrap();
    assert!(elements < ELEMENTS, "{elements} elements");
    let shift = told["shift"].as_f64().unwrap();
    assert!(shift < 0.01, "the layout shifted by {shift}: {}", told["moved"]);
    let frames: Vec<f64> = told["frames"].as_array().unwrap().iter().filter_map(Value::as_f64).collect();
    let at = |share: usize| frames[(frames.len() - 1) * share / 100];
    // Told and not judged: the machine may be busy.
    let (median, most, slowest) = (at(50), at(95), at(100));
    println!(
        "{elements} elements, layout shift {shift}, {} frames: median {median:.1} ms, 95 % {most:.1} ms, slowest {slowest:.1} ms",
        frames.len()
    );
    drop(chromium);
    // The page is gone; what it has asked for last is answered by then.
    clock.sleep(Duration::from_secs(1));
    let (began, before) = (clock.now(), worked(supervisor));
    clock.sleep(Duration::from_secs(3));
    let without = share(began, before);
    println!(
        "first paint {} ms, {} bytes, supervisor {with:.2} % of a core with the page, {without:.3} % without",
        told["paint"], told["wire"]
    );
    for mut holder in both {
        drop(holder.stdin.take());
        assert!(holder.wait().unwrap().success());
    }
    stop(ui);
    end_supervisors();
});
