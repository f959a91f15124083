//! What other programs see of headstart: metrics, by a real Prometheus; the page, by a real Chromium.

use crate::lab::{Ended, HEADSTART, Lab, Scratch, ended, found, inside, site, supervisors, until, world};
use crate::processes::{ask_to_end, is_alive};
use crate::schema::must_hold;
use headstart_lab::browser::{BrowserError, Chromium};
use headstart_lab::world::Reply;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use serde_json::Value;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, Command, Stdio};

/// Where Prometheus listens, on the loopback of a namespace.
const PROMETHEUS: &str = "127.0.0.1:9090";

/// Runs a program by the shared supervisor.
pub fn run(lab: &Lab, words: &[&str]) -> Ended {
    let mut command = lab.command(HEADSTART);
    command.env_remove("HEADSTART").env("HEADSTART_LINGER", "3600");
    ended(command.args(["run", "--"]).args(words).spawn().unwrap())
}

/// A verb that serves until it is told to stop, and the first line that it prints.
pub fn serving(lab: &Lab, words: &[&str]) -> (Child, String) {
    let mut child = lab.command(HEADSTART).args(words).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    (child, line.trim().to_owned())
}

pub fn stop(child: Child) {
    ask_to_end(child.id());
    let ended = ended(child);
    assert_eq!(ended.code, Some(0), "{ended:?}");
}

pub fn end_supervisors() {
    while let Some(supervisor) = supervisors().first().copied() {
        ask_to_end(supervisor);
        until("the supervisor has ended", || !is_alive(supervisor));
    }
}

/// What curl is answered: the status, and the body.
pub fn asked(lab: &Lab, flags: &[&str], url: &str) -> (u16, String) {
    let mut command = lab.command("curl");
    command.args(["-sS", "--max-time", "60", "-w", "\n%{http_code}"]).args(flags).arg(url);
    let said = ended(command.spawn().unwrap());
    let (body, status) = said.out.rsplit_once('\n').unwrap_or_else(|| panic!("{said:?}"));
    (status.parse().unwrap(), body.to_owned())
}

/// What Prometheus makes of a query.
fn query(lab: &Lab, query: &str) -> Value {
    let url = format!("http://{PROMETHEUS}/api/v1/query");
    let (_, body) = asked(lab, &["-G", "--data-urlencode", &format!("query={query}")], &url);
    let said: Value = serde_json::from_str(&body).unwrap_or_else(|e| panic!("{e}: {body}"));
    assert_eq!(said["status"], "success", "{query}: {said}");
    said["data"]["result"].clone()
}

/// The first number of a query's result; 0 without one.
fn number(lab: &Lab, what: &str) -> f64 {
    query(lab, what)[0]["value"][1].as_str().and_then(|text| text.parse().ok()).unwrap_or_default()
}

/// Prometheus, scraping `address`, with the rules that are shipped and, if they are to be `native`, histograms of that kind.
fn prometheus(lab: &Lab, program: &std::path::Path, address: &str, native: bool) -> Child {
    let rules = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/prometheus");
    let config = format!(
        "global: {{ scrape_interval: 1s, evaluation_interval: 1s }}\n\
         rule_files: [{rules}/rules.yml, {rules}/alerts.yml]\n\
         scrape_configs:\n- job_name: headstart\n  static_configs: [{{ targets: ['{address}'] }}]\n"
    );
    fs::write(lab.scratch.path("prometheus.yml"), config).unwrap();
    let mut command = lab.command(program);
    command.arg(format!("--config.file={}", lab.scratch.path("prometheus.yml").display()));
    let folder = if native {
        command.arg("--enable-feature=native-histograms");
        "tsdb-native"
    } else {
        "tsdb"
    };
    command.arg(format!("--storage.tsdb.path={}", lab.scratch.path(folder).display()));
    command.arg(format!("--web.listen-address={PROMETHEUS}")).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().unwrap()
}

inside!(a_real_prometheus_reads_the_metrics_and_answers_every_query_of_the_dashboard, || {
    let Some(program) = found("prometheus", "prometheus") else { return };
    let (Some(curl), Some(_)) = (found("curl", "curl"), found("promtool", "prometheus")) else { return };
    let lab = Lab::new();
    let visit = |host: &str| run(&lab, &[curl.to_str().unwrap(), "-sS", "--max-time", "5", &format!("http://{host}/")]);
    assert_eq!(visit("www.lab.example").code, Some(0));
    let (metrics, url) = serving(&lab, &["metrics", "--listen", "127.0.0.1:0"]);
    let address = url.strip_prefix("http://").unwrap().strip_suffix("/metrics").unwrap();

    let (_, text) = asked(&lab, &[], &url);
    let mut promtool = Command::new("promtool");
    promtool.args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut promtool = promtool.spawn().unwrap();
    promtool.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let checked = ended(promtool);
    assert!(checked.code == Some(0) && checked.err.is_empty(), "{checked:?}\n{text}");

    let mut scraper = prometheus(&lab, &program, address, false);
    until("Prometheus has scraped twice", || {
        let ready = asked(&lab, &[], &format!("http://{PROMETHEUS}/-/ready")).0 == 200;
        ready && number(&lab, "count_over_time(headstart_up{part=\"supervisor\"}[1m])") >= 2.0
    });
    let attempts = "sum(headstart_connection_attempts_total)";
    let before = number(&lab, attempts);
    assert_eq!(visit("a-lost.lab.example").code, Some(0));
    until("Prometheus has seen the second visit", || number(&lab, attempts) > before);
    for (what, least) in [
        ("up{job=\"headstart\"}", 1.0),
        ("headstart_up{part=\"supervisor\"}", 1.0),
        ("sum(headstart_lookup_wait_seconds_count{program=\"curl\",outcome=\"ok\"})", 2.0),
        ("sum(headstart_handshake_seconds_count{program=\"curl\",outcome=\"ok\"})", 2.0),
        ("sum(headstart_handshake_seconds_bucket{program=\"curl\",outcome=\"ok\",le=\"+Inf\"})", 2.0),
        // The lab's round trip is 10 ms.
        ("1000 * sum(headstart_handshake_seconds_sum{outcome=\"ok\"})", 20.0),
        ("sum(headstart_supervisor_wakeups_total)", 1.0),
    ] {
        assert!(number(&lab, what) >= least, "{what}: {} {}", number(&lab, what), asked(&lab, &[], &url).1);
    }
    let board = ended(lab.command(HEADSTART).args(["metrics", "--print", "dashboard"]).spawn().unwrap());
    let board: Value = serde_json::from_str(&board.out).unwrap();
    let panels = board["panels"].as_array().unwrap();
    let answered = panels.iter().filter(|panel| {
        let result = query(&lab, panel["targets"][0]["expr"].as_str().unwrap());
        result.as_array().is_some_and(|series| !series.is_empty())
    });
    // Those of the daemon and of measurements have no series here.
    assert!(answered.count() >= 15, "{panels:?}");
    let (_, rules) = asked(&lab, &[], &format!("http://{PROMETHEUS}/api/v1/rules"));
    let rules: Value = serde_json::from_str(&rules).unwrap();
    let groups = rules["data"]["groups"].as_array().unwrap();
    let states: Vec<_> = groups.iter().flat_map(|group| group["rules"].as_array().unwrap()).collect();
    assert_eq!(states.len(), 15, "{rules}");
    assert!(states.iter().all(|rule| rule["health"] != "err"), "{rules}");
    scraper.kill().unwrap();
    scraper.wait().unwrap();

    // The same with histograms of another kind, whose buckets are 9 % apart.
    let mut scraper = prometheus(&lab, &program, address, true);
    let handshakes = "headstart_handshake_seconds{program=\"curl\",outcome=\"ok\"}";
    until("Prometheus has scraped native histograms", || {
        let ready = asked(&lab, &[], &format!("http://{PROMETHEUS}/-/ready")).0 == 200;
        ready && number(&lab, &format!("sum(histogram_count({handshakes}))")) >= 2.0
    });
    let mean = number(&lab, &format!("sum(histogram_sum({handshakes})) / sum(histogram_count({handshakes}))"));
    let all = number(&lab, &format!("histogram_quantile(1, sum({handshakes}))"));
    let least = number(&lab, &format!("histogram_quantile(0, sum({handshakes}))"));
    // The lab's round trip is 10 ms, and the mean lies between the bounds of the first and the last bucket.
    assert!(least >= 0.009 && least <= mean && mean <= all, "{least} {mean} {all}");
    scraper.kill().unwrap();
    scraper.wait().unwrap();

    // A thousand scrapes in a row are a few questions to the supervisor.
    let wakeups = || -> u64 {
        let (_, text) = asked(&lab, &[], &url);
        let of = |line: &str| line.strip_prefix("headstart_supervisor_wakeups_total{cause=\"control\"} ")?.parse().ok();
        text.lines().find_map(of).unwrap_or_default()
    };
    let before = wakeups();
    let (status, _) = asked(&lab, &["-o", "/dev/null"], &format!("{url}?[1-1000]"));
    assert_eq!(status, 200);
    let after = wakeups();
    assert!(after - before < 500, "{before} and {after}");
    stop(metrics);
    end_supervisors();
});

#[test]
fn the_rules_and_alerts_pass_their_own_tests() {
    let Some(promtool) = found("promtool", "prometheus") else { return };
    let rules = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/prometheus/rules_test.yml");
    let mut command = Command::new(promtool);
    command.args(["test", "rules", rules]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let said = ended(command.spawn().unwrap());
    assert_eq!(said.code, Some(0), "{said:?}");
}

#[test]
fn a_port_that_is_taken_is_said_and_without_headstart_the_metrics_say_so() {
    let scratch = Scratch::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let says = |words: &[&str]| ended(scratch.headstart(words).spawn().unwrap());
    let said = says(&["metrics", "--listen", &format!("127.0.0.1:{port}")]);
    assert!(said.code == Some(1) && said.err.contains("choose another port"), "{said:?}");
    let said = says(&["ui", "--no-browser", "--port", &port.to_string()]);
    assert!(said.code == Some(1) && said.err.contains("choose another port"), "{said:?}");
    let said = says(&["metrics"]);
    assert!(said.code == Some(0) && said.out.contains("headstart_up{part=\"supervisor\"} 0"), "{said:?}");
}

inside!(the_page_is_for_who_has_the_token_and_comes_by_its_own_address, || {
    let Some(_) = found("curl", "curl") else { return };
    let lab = Lab::new();
    assert_eq!(run(&lab, &["true"]).code, Some(0));
    let (ui, url) = serving(&lab, &["ui", "--no-browser"]);
    let (base, token) = url.split_once("/#").unwrap_or_else(|| panic!("{url}"));
    let bearer = format!("authorization: Bearer {token}");
    let get = |flags: &[&str], path: &str| asked(&lab, flags, &format!("{base}{path}"));
    let (status, page) = get(&["-D", "-"], "/");
    assert_eq!(status, 200);
    for header in ["content-security-policy: default-src 'none'; script-src 'self'", "x-content-type-options: nosniff"]
    {
        assert!(page.contains(header), "{page}");
    }
    assert!(!page.to_ascii_lowercase().contains("access-control"), "no other origin may read: {page}");
    for host in ["evil.example", "localhost.evil.example", "192.0.2.1"] {
        for path in ["/", "/app.js", "/api/events", "/nothing"] {
            let port = base.rsplit(':').next().unwrap();
            let (status, _) = get(&["-H", &format!("Host: {host}:{port}"), "-H", &bearer], path);
            assert_eq!(status, 421, "{host} {path}");
        }
    }
    for path in ["/api/events", "/api/explain?host=www.lab.example", "/api/results", "/api/result?id=0/"] {
        assert_eq!(get(&[], path).0, 401, "{path}");
        assert_eq!(get(&["-H", "authorization: Bearer wrong"], path).0, 401, "{path}");
    }
    let origin = format!("origin: {base}");
    let post = |flags: &[&str]| get(&[&["-X", "POST", "-H", &bearer], flags].concat(), "/api/down").0;
    assert_eq!(post(&[]), 403);
    assert_eq!(post(&["-H", &origin, "-H", "sec-fetch-site: cross-site"]), 403);
    assert_eq!(post(&["-H", "origin: http://evil.example", "-H", "sec-fetch-site: same-origin"]), 403);
    // No daemon is up: what is asked for is refused further on.
    assert_eq!(post(&["-H", &origin, "-H", "sec-fetch-site: same-origin"]), 502);
    assert_eq!(get(&["-H", &bearer], "/api/explain?host=www.lab.example").0, 404);

    // A page that reads nothing holds nothing up, and the page is served on.
    let mut deaf = lab.command("curl");
    deaf.args(["-sN", "--max-time", "60", "-H", &bearer, &format!("{base}/api/events")]);
    let mut deaf = deaf.spawn().unwrap();
    let mut first = [0; 16];
    deaf.stdout.as_mut().unwrap().read_exact(&mut first).unwrap();
    assert_eq!(&first, b"event: snapshot\n");
    assert_eq!(get(&[], "/").0, 200);
    deaf.kill().unwrap();
    deaf.wait().unwrap();
    stop(ui);
    end_supervisors();
});

inside!(a_network_that_breaks_is_told_once_with_what_to_do, || {
    let Some(curl) = found("curl", "curl") else { return };
    // Queries for addresses of IPv4 are swallowed, here and at `a-lost`.
    let mut world = world();
    site(&mut world, "www").a.reply = Reply::Lost;
    let lab = Lab::of(&world);
    // The desktop, as far as it is here: what it is handed.
    let heard = lab.scratch.path("heard");
    let folder = lab.scratch.path("bin");
    fs::create_dir(&folder).unwrap();
    let script = folder.join("notify-send");
    fs::write(&script, format!("#!/bin/sh\necho \"$3: $4\" >> {}\n", heard.display())).unwrap();
    fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    assert_eq!(run(&lab, &["true"]).code, Some(0));
    let mut watch = lab.command(HEADSTART);
    let usual = std::env::var("PATH").unwrap();
    watch.env("PATH", format!("{}:{usual}", folder.display())).args([
        "watch",
        "--interval",
        "0.2",
        "--notify",
        "--json",
    ]);
    let said = lab.scratch.path("said");
    let mut watch = watch.stdout(fs::File::create(&said).unwrap()).spawn().unwrap();
    for host in ["www", "a-lost"] {
        let url = format!("http://{host}.lab.example/");
        assert_eq!(run(&lab, &[curl.to_str().unwrap(), "-sS", &url]).code, Some(0));
    }
    until("something is told", || fs::read_to_string(&said).unwrap().contains('\n'));
    let line = fs::read_to_string(&said).unwrap().lines().next().unwrap().to_owned();
    must_hold("watch", &line);
    let told: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(told["cause"], "silent");
    assert!(told["began"] == true && told["fix"].as_str().is_some_and(|fix| !fix.is_empty()), "{told}");
    until("the desktop shows it", || {
        fs::read_to_string(&heard).is_ok_and(|text| text.contains(told["words"].as_str().unwrap()))
    });
    // It has looked on for a while, which the supervisor counts.
    let looks = || -> u64 {
        let said = ended(lab.command(HEADSTART).arg("metrics").spawn().unwrap());
        let of = |line: &str| line.strip_prefix("headstart_supervisor_wakeups_total{cause=\"control\"} ")?.parse().ok();
        said.out.lines().find_map(of).unwrap_or_default()
    };
    let before = looks();
    until("it has looked on", || looks() >= before + 30);
    watch.kill().unwrap();
    watch.wait().unwrap();
    let text = fs::read_to_string(&heard).unwrap();
    let begun: Vec<_> = text.lines().filter(|line| !line.starts_with("Over")).collect();
    assert!(begun.iter().all(|line| begun.iter().filter(|other| other == &line).count() == 1), "{text}");
    end_supervisors();
});

inside!(a_run_becomes_a_trace_and_an_archive_that_other_tools_open, || {
    let Some(curl) = found("curl", "curl") else { return };
    let lab = Lab::new();
    let traced = |format: &str| -> Value {
        let file = lab.scratch.path(format);
        let mut command = lab.command(HEADSTART);
        command.args(["trace", "--quiet", "--format", format, "-w"]).arg(&file).arg("--").arg(&curl);
        let ran = ended(command.args(["-sS", "http://www.lab.example/"]).spawn().unwrap());
        assert_eq!(ran.code, Some(0), "{ran:?}");
        serde_json::from_slice(&fs::read(&file).unwrap()).unwrap()
    };
    let trace = traced("perfetto");
    let events = trace["traceEvents"].as_array().unwrap();
    let slices = |category: &str| events.iter().filter(|e| e["ph"] == "X" && e["cat"] == category).count();
    assert!(slices("dns") >= 1 && slices("tcp") >= 2, "{trace}");
    assert!(events.iter().any(|e| e["name"] == "process_name" && e["args"]["name"] == "curl"), "{trace}");
    let archive = traced("har");
    let entry = &archive["log"]["entries"][0];
    // The lab's round trip is 10 ms.
    assert!(entry["timings"]["connect"].as_f64() >= Some(10.0) && entry["response"]["status"] == 200, "{archive}");
    let wrong =
        ended(lab.command(HEADSTART).args(["trace", "--format", "har", "-w", "-", "--", "true"]).spawn().unwrap());
    assert!(wrong.code == Some(2) && wrong.err.contains("only pcapng"), "{wrong:?}");
});

inside!(a_run_is_handed_to_a_collector_of_traces_as_spans, || {
    let Some(curl) = found("curl", "curl") else { return };
    let lab = Lab::new();
    let bound = lab.network.on_client(|| std::net::TcpListener::bind("127.0.0.1:0").unwrap());
    let collector = bound.unwrap();
    let url = format!("http://{}/v1/traces", collector.local_addr().unwrap());
    let taken = std::thread::spawn(move || {
        let mut stream = BufReader::new(collector.accept().unwrap().0);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert_ne!(stream.read_line(&mut head).unwrap(), 0, "{head}");
        }
        let length = head.lines().find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
        let mut body = vec![0; length.unwrap()];
        stream.read_exact(&mut body).unwrap();
        stream.get_mut().write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").unwrap();
        (head, body)
    });
    let traced = |url: &str| {
        let mut command = lab.command(HEADSTART);
        command.args(["trace", "--quiet", "--format", "otlp", "--to", url, "--"]).arg(&curl);
        ended(command.args(["-sS", "http://www.lab.example/"]).spawn().unwrap())
    };
    let ran = traced(&url);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let (head, body) = taken.join().unwrap();
    assert!(head.starts_with("POST /v1/traces ") && head.contains("application/x-protobuf"), "{head}");
    let request = <ExportTraceServiceRequest as prost::Message>::decode(&body[..]).unwrap();
    let spans = &request.resource_spans[0].scope_spans[0].spans;
    let named = |name: &str| spans.iter().filter(|span| span.name.starts_with(name)).count();
    assert!(named("curl") == 1 && named("lookup www.lab.example") >= 1 && named("connection ") >= 1, "{spans:?}");
    // The lab's round trip is 10 ms.
    let connect = spans.iter().find(|span| span.name == "TCP connect").unwrap();
    assert!(connect.end_time_unix_nano - connect.start_time_unix_nano >= 10_000_000, "{spans:?}");
    // The collector is gone: the program has run, and it is said that its trace is lost.
    let lost = traced(&url);
    assert!(lost.code == Some(1) && lost.err.contains("sending to 127.0.0.1"), "{lost:?}");
    let wrong = ended(lab.command(HEADSTART).args(["trace", "--to", &url, "--", "true"]).spawn().unwrap());
    assert!(wrong.code == Some(2) && wrong.err.contains("--format otlp"), "{wrong:?}");
});

/// Waits within a page until `found` is true; then what `then` is.
pub fn waited(found: &str, then: &str) -> String {
    format!(
        "new Promise((done) => {{ const look = setInterval(() => {{ \
         if (({found})) {{ clearInterval(look); done({then}); }} }}, 50); \
         setTimeout(() => {{ clearInterval(look); done(document.body.innerText); }}, 60000); }})"
    )
}

inside!(every_view_shows_what_happened_in_a_real_browser, || {
    let (Some(curl), Some(_)) = (found("curl", "curl"), found("chromium", "chromium")) else { return };
    let lab = Lab::new();
    for host in ["www.lab.example", "a-lost.lab.example"] {
        assert_eq!(run(&lab, &[curl.to_str().unwrap(), "-sS", &format!("http://{host}/")]).code, Some(0));
    }
    let (ui, url) = serving(&lab, &["ui", "--no-browser"]);
    let profile = lab.scratch.path("chromium");
    fs::create_dir(&profile).unwrap();
    let mut shell = lab.command("/bin/sh");
    shell.env_remove("XDG_RUNTIME_DIR");
    let mut chromium = match Chromium::start(shell, "", &profile, &[]) {
        Err(why @ BrowserError::Missing) => return println!("skipped: {why}"),
        other => other.unwrap(),
    };
    let text = "document.querySelector('main').innerText";
    for (view, words) in [
        ("now", &["www.lab.example", "a-lost.lab.example", "curl", "connected"][..]),
        ("programs", &["curl", "Cache hits", "Waited for lookups", "how long handshakes took"]),
        ("network", &["IPv4", "IPv6", "in use", "DNS servers", "Known networks: 1.", "Networks in this time"]),
        ("connection/www.lab.example", &["the program asks for addresses", "AAAA query sent", "handed over", "Cached"]),
        ("host", &["No daemon is running", "Supervisor wake-ups"]),
        ("steering", &["No tunnel over two channels"]),
    ] {
        let all = words.iter().map(|word| format!("{text}.includes({word:?})")).collect::<Vec<_>>().join(" && ");
        let steps = format!("location.hash = '#{view}', {}", waited(&all, text));
        let (shown, thrown) = chromium.evaluate(&url, &steps).unwrap();
        let shown = shown.as_str().unwrap_or_default();
        assert!(thrown.is_none() && words.iter().all(|word| shown.contains(word)), "{view}: {thrown:?}\n{shown}");
    }
    // What happens while a page is open comes to it; and nothing that the page asks for leaves the host.
    let hosts = "[...new Set(performance.getEntriesByType('resource').map((one) => new URL(one.name).host))].join()";
    let opened = format!("location.hash = '#now', {}", waited(&format!("{text}.includes('hole.lab.example')"), hosts));
    // It fails: the address is a black hole.
    let mut hole = lab.command(HEADSTART);
    hole.env_remove("HEADSTART").args(["run", "--"]).arg(&curl);
    let hole = hole.args(["-sS", "--max-time", "2", "http://hole.lab.example/"]).spawn().unwrap();
    let (shown, thrown) = chromium.evaluate(&url, &opened).unwrap();
    assert!(thrown.is_none(), "{thrown:?}");
    assert_eq!(shown, url.strip_prefix("http://").unwrap().split('/').next().unwrap());
    ended(hole);
    // The address of a view, however long, is not taken for the token by a page that is loaded again there.
    let again = "(async () => { location.hash = '#connection/www.lab.example'; const before = sessionStorage.getItem('token'); \
                 await import('/app.js?again'); return String(before.length === 24 && before === sessionStorage.getItem('token')); })()";
    let (same, thrown) = chromium.evaluate(&url, again).unwrap();
    assert!(same == "true", "{same} {thrown:?}");
    // Without the token there is nothing to see.
    let bare = url.split('#').next().unwrap();
    let (shown, _) = chromium.evaluate(bare, &waited(&format!("{text}.includes('whole address')"), text)).unwrap();
    assert!(shown.as_str().is_some_and(|shown| shown.contains("whole address") && !shown.contains("curl")), "{shown}");
    drop(chromium);
    stop(ui);
    end_supervisors();
});
