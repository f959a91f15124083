//! Chromium, driven over the DevTools protocol: a page load in a fresh context, and all that it says of it.
//!
//! The program is Debian's, without a window, with a profile of its own that is gone afterwards. It runs where the command
//! that it is given runs: in the lab's client, bare or under `headstart run`. What is read off is what Chromium measures
//! itself: navigation timing, the load event, the first and the largest contentful paint, and each request with its phases.

mod har;
mod protocol;

pub use protocol::ProtocolError;

use protocol::Pipe;
use serde_json::{Value, json};
use std::io;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// The Debian package, and the program in it.
pub const PROGRAM: &str = "chromium";

/// A load that has no load event after so long has none: two minutes, as long as Linux tries to connect.
const LONGEST_LOAD: Duration = Duration::from_secs(120);

/// Why there is no browser, or no load.
#[derive(Debug, thiserror::Error)]
pub enum BrowserError {
    /// The program is not there.
    #[error("chromium is not installed: apt-get install --no-install-recommends chromium")]
    Missing,
    /// It could not be started.
    #[error("starting Chromium: {0}")]
    Start(#[from] io::Error),
    /// It was started, and something went wrong with it.
    #[error(transparent)]
    Protocol(#[from] ProtocolError),
    /// It could not open the page at all.
    #[error("Chromium cannot open {url}: {reason}")]
    Navigation {
        /// The page.
        url: String,
        /// What it says.
        reason: String,
    },
}

/// What a page load came to. Times are milliseconds since the navigation began.
#[derive(Clone, Debug, PartialEq)]
pub struct BrowserLoad {
    /// The load event had begun: what users of `onLoad` mean.
    pub load: f64,
    /// DOMContentLoaded.
    pub content_loaded: f64,
    /// The first byte of the document.
    pub first_byte: f64,
    /// The first contentful paint: text or an image could be seen (W3C, Paint Timing). It may come after the load event and is waited for, for
    /// sixty frames (a second where the processor is idle); none if there is nothing to be seen by then.
    pub first_paint: Option<f64>,
    /// The largest contentful paint; none if nothing was painted.
    pub largest_paint: Option<f64>,
    /// The requests, in the order of their beginning.
    pub requests: Vec<Request>,
}

/// One request of a page load. Times are milliseconds since the navigation began; phases are none where a connection was
/// used again, or where nothing was sent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Request {
    /// Its address.
    pub url: String,
    /// Its method.
    pub method: String,
    /// Status of the answer; none if there was none.
    pub status: Option<u16>,
    /// The protocol, as Chromium calls it: `http/1.1`, `h2`, `h3`.
    pub protocol: String,
    /// Type of the answer.
    pub mime: String,
    /// The address of the server.
    pub address: Option<String>,
    /// It began.
    pub began: f64,
    /// It ended; none if it never did.
    pub end: Option<f64>,
    /// Bytes on the wire.
    pub bytes: f64,
    /// Looking up the name took so long.
    pub dns: Option<f64>,
    /// Connecting took so long, TLS included.
    pub connect: Option<f64>,
    /// TLS took so long.
    pub tls: Option<f64>,
    /// From the request's having been sent to the first byte of the answer.
    pub wait: Option<f64>,
    /// The answer took so long to arrive.
    pub receive: Option<f64>,
    /// Why there was no answer.
    pub failed: Option<String>,
}

/// What a page is shown on.
#[derive(Clone, Copy, Debug)]
pub struct Screen {
    /// Its width in pixels of style sheets.
    pub width: u32,
    /// Its height.
    pub height: u32,
    /// Its user wants dark pages.
    pub dark: bool,
}

/// A running Chromium. It ends, with all its processes, when this is dropped.
pub struct Chromium {
    child: Child,
    pipe: Pipe,
}

impl Chromium {
    /// Starts it by `command`, which runs `/bin/sh` where Chromium is to run (and through `headstart run`, if it is to), with
    /// nothing but what `sh` itself is told to come. `key_hash` is that of the authority that it is to believe,
    /// `profile` a private folder that no other browser uses and that its maker removes. The origins `over_quic`
    /// (`host:port`) are asked over HTTP/3 from the first request on, all others never.
    pub fn start(
        mut command: Command,
        key_hash: &str,
        profile: &Path,
        over_quic: &[String],
    ) -> Result<Self, BrowserError> {
        let found =
            std::env::var_os("PATH").is_some_and(|p| std::env::split_paths(&p).any(|d| d.join(PROGRAM).is_file()));
        if !found {
            return Err(BrowserError::Missing);
        }
        // Descriptors 3 and 4 are the pipe; what Chromium would say or ask otherwise goes nowhere.
        command.arg("-c").arg("exec \"$0\" \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>/dev/null").arg(PROGRAM);
        command.args([
            "--headless=new",
            "--remote-debugging-pipe",
            "--no-sandbox",
            "--no-first-run",
            "--disable-gpu",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-default-apps",
            "--disable-extensions",
            "--disable-sync",
            "--disable-dev-shm-usage",
            "--disable-features=OptimizationHints,MediaRouter,Translate",
            // The screen of the lab's recordings, by which their pages choose among images.
            "--window-size=1920,1200",
        ]);
        command.arg(format!("--ignore-certificate-errors-spki-list={key_hash}"));
        if over_quic.is_empty() {
            command.arg("--disable-quic");
        } else {
            command.arg("--enable-quic").arg(format!("--origin-to-force-quic-on={}", over_quic.join(",")));
        }
        command.arg(format!("--user-data-dir={}", profile.display())).arg("about:blank");
        // Not the user's own settings.
        for variable in ["HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"] {
            command.env(variable, profile);
        }
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        let (Some(to), Some(from)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(BrowserError::Start(io::Error::other("it has no pipes")));
        };
        let pipe = Pipe::new(to, from)?;
        Ok(Self { child, pipe })
    }

    /// What it calls itself.
    pub fn version(&mut self) -> Result<String, BrowserError> {
        let said = self.pipe.call(None, "Browser.getVersion", json!({}))?;
        Ok(said["product"].as_str().unwrap_or_default().to_owned())
    }

    /// Loads `url` in a context of its own: nothing is cached, no connection open.
    pub fn load(&mut self, url: &str) -> Result<BrowserLoad, BrowserError> {
        let context = self.pipe.call(None, "Target.createBrowserContext", json!({ "disposeOnDetach": true }))?;
        let context = context["browserContextId"].clone();
        let loaded = self.load_in(&context, url);
        let ended = self.pipe.call(None, "Target.disposeBrowserContext", json!({ "browserContextId": context }));
        self.pipe.forget();
        let loaded = loaded?;
        ended?;
        Ok(loaded)
    }

    /// Opens `url` in a context of its own and evaluates a JavaScript expression there, which may be a promise; what comes of
    /// it, or null with what the page said if it threw.
    pub fn evaluate(&mut self, url: &str, expression: &str) -> Result<(Value, Option<String>), BrowserError> {
        self.evaluate_on(None, url, expression)
    }

    /// The same on a screen.
    pub fn evaluate_on(
        &mut self,
        screen: Option<Screen>,
        url: &str,
        expression: &str,
    ) -> Result<(Value, Option<String>), BrowserError> {
        let (context, session) = self.opened(screen, "", url)?;
        let what = json!({ "expression": expression, "awaitPromise": true, "returnByValue": true });
        let mut said = self.pipe.call(Some(&session), "Runtime.evaluate", what)?;
        self.pipe.call(None, "Target.disposeBrowserContext", json!({ "browserContextId": context }))?;
        self.pipe.forget();
        let thrown = said["exceptionDetails"]["exception"]["description"].as_str().map(str::to_owned);
        Ok((said["result"]["value"].take(), thrown))
    }

    /// What `url` looks like on `screen` once `expression`, which may be a promise, has come to something: a PNG in base64, `scale` times as
    /// large as the screen, and what it has come to. `first` is run before the page's own scripts.
    pub fn picture(
        &mut self,
        (screen, scale): (Screen, f64),
        url: &str,
        first: &str,
        expression: &str,
    ) -> Result<(String, Value), BrowserError> {
        let (context, session) = self.opened(Some(screen), first, url)?;
        let what = json!({ "expression": expression, "awaitPromise": true, "returnByValue": true });
        let mut said = self.pipe.call(Some(&session), "Runtime.evaluate", what)?;
        let clip = json!({ "x": 0, "y": 0, "width": screen.width, "height": screen.height, "scale": scale });
        let mut taken =
            self.pipe.call(Some(&session), "Page.captureScreenshot", json!({ "format": "png", "clip": clip }))?;
        self.pipe.call(None, "Target.disposeBrowserContext", json!({ "browserContextId": context }))?;
        self.pipe.forget();
        let picture = taken["data"].take().as_str().unwrap_or_default().to_owned();
        Ok((picture, said["result"]["value"].take()))
    }

    /// `url`, loaded on a screen in a context of its own, after `first` was run in it: the context, and the session in which the page is
    /// talked to.
    fn opened(&mut self, screen: Option<Screen>, first: &str, url: &str) -> Result<(Value, String), BrowserError> {
        let context = self.pipe.call(None, "Target.createBrowserContext", json!({ "disposeOnDetach": true }))?;
        let context = context["browserContextId"].clone();
        let session = self.tab(&context)?;
        self.pipe.call(Some(&session), "Page.enable", json!({}))?;
        if !first.is_empty() {
            let what = json!({ "source": first });
            self.pipe.call(Some(&session), "Page.addScriptToEvaluateOnNewDocument", what)?;
        }
        if let Some(Screen { width, height, dark }) = screen {
            let metrics = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
            self.pipe.call(Some(&session), "Emulation.setDeviceMetricsOverride", metrics)?;
            let scheme = json!({ "name": "prefers-color-scheme", "value": if dark { "dark" } else { "light" } });
            self.pipe.call(Some(&session), "Emulation.setEmulatedMedia", json!({ "features": [scheme] }))?;
        }
        self.go(&session, url)?;
        let loaded = |event: &Value| event["method"] == "Page.loadEventFired" && event["sessionId"] == session.as_str();
        while !loaded(&self.pipe.event("load the page", LONGEST_LOAD)?) {}
        Ok((context, session))
    }

    /// An empty tab; the session in which it is talked to.
    fn tab(&mut self, context: &Value) -> Result<String, BrowserError> {
        let what = json!({ "url": "about:blank", "browserContextId": context });
        let target = self.pipe.call(None, "Target.createTarget", what)?;
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        let session = self.pipe.call(None, "Target.attachToTarget", attach)?;
        Ok(session["sessionId"].as_str().unwrap_or_default().to_owned())
    }

    fn go(&mut self, session: &str, url: &str) -> Result<(), BrowserError> {
        self.pipe.forget();
        let navigated = self.pipe.call(Some(session), "Page.navigate", json!({ "url": url }))?;
        match navigated["errorText"].as_str().filter(|said| !said.is_empty()) {
            Some(said) => Err(BrowserError::Navigation { url: url.into(), reason: said.into() }),
            None => Ok(()),
        }
    }

    fn load_in(&mut self, context: &Value, url: &str) -> Result<BrowserLoad, BrowserError> {
        let session = self.tab(context)?;
        self.pipe.call(Some(&session), "Page.enable", json!({}))?;
        self.pipe.call(Some(&session), "Network.enable", json!({}))?;
        self.go(&session, url)?;
        let (pipe, session) = (&mut self.pipe, Some(session.as_str()));
        let mut seen = Seen::default();
        loop {
            let event = pipe.event("load the page", LONGEST_LOAD)?;
            if event["sessionId"].as_str() != session {
                continue;
            }
            seen.note(&event);
            if event["method"] == "Page.loadEventFired" {
                break;
            }
        }
        let measured = pipe.call(
            session,
            "Runtime.evaluate",
            json!({ "expression": MEASURES, "awaitPromise": true, "returnByValue": true }),
        )?;
        // What had begun before the load event and ends after it has ended by now, or is left without an end.
        while let Some(event) = pipe.try_event() {
            seen.note(&event);
        }
        let measured = &measured["result"]["value"];
        let number = |name: &str| measured[name].as_f64();
        Ok(BrowserLoad {
            load: number("load").unwrap_or_default(),
            content_loaded: number("content").unwrap_or_default(),
            first_byte: number("first").unwrap_or_default(),
            first_paint: number("seen"),
            largest_paint: number("paint"),
            requests: seen.finish(),
        })
    }
}

impl Drop for Chromium {
    fn drop(&mut self) {
        // Asked to, it takes its processes and its files along.
        if self.pipe.call(None, "Browser.close", json!({})).is_err() {
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
    }
}

/// What the page itself is asked, after the load event, so that asking costs the load nothing: the event's end is awaited, since it is
/// under way when it is heard of, and the first paint, since a page may be empty until its scripts have run: for sixty frames, which take
/// longer where the processor is busy, as painting does, or ten seconds if there are none.
const MEASURES: &str = "new Promise(function(done){setTimeout(function(){\
var n=performance.getEntriesByType('navigation')[0],p=null,s=null;\
try{new PerformanceObserver(function(l){l.getEntries().forEach(function(e){p=e.startTime})})\
.observe({type:'largest-contentful-paint',buffered:true})}catch(e){}\
function tell(){done({load:n.loadEventStart,content:n.domContentLoadedEventStart,first:n.responseStart,paint:p,seen:s})}\
try{new PerformanceObserver(function(l){l.getEntriesByName('first-contentful-paint').forEach(function(e){\
s=e.startTime;setTimeout(tell,50)})}).observe({type:'paint',buffered:true})}catch(e){}\
var frames=60;(function next(){s!==null||(frames--?requestAnimationFrame(next):tell())})();setTimeout(tell,10000)\
},0)})";

/// What the events of a load have told so far.
#[derive(Default)]
struct Seen {
    /// Monotonic seconds at which the first request was sent.
    origin: Option<f64>,
    requests: Vec<(String, Request)>,
}

impl Seen {
    fn since(&self, seconds: &Value) -> f64 {
        (seconds.as_f64().unwrap_or_default() - self.origin.unwrap_or_default()) * 1e3
    }

    fn find(&mut self, id: &Value) -> Option<&mut Request> {
        let id = id.as_str()?;
        self.requests.iter_mut().rev().find(|(known, _)| known == id).map(|(_, r)| r)
    }

    fn note(&mut self, event: &Value) {
        let params = &event["params"];
        match event["method"].as_str().unwrap_or_default() {
            "Network.requestWillBeSent" => {
                self.origin = self.origin.or(params["timestamp"].as_f64());
                let began = self.since(&params["timestamp"]);
                // A redirect: the same number goes on to another address.
                let redirected = &params["redirectResponse"];
                if redirected.is_object() {
                    let origin = self.origin.unwrap_or_default();
                    if let Some(before) = self.find(&params["requestId"]) {
                        answered(before, redirected, origin);
                        before.end = Some(began);
                    }
                }
                let url = params["request"]["url"].as_str().unwrap_or_default();
                if url.starts_with("http") {
                    let method = params["request"]["method"].as_str().unwrap_or_default().to_owned();
                    let request = Request { url: url.to_owned(), method, began, ..Request::default() };
                    self.requests.push((params["requestId"].as_str().unwrap_or_default().to_owned(), request));
                }
            }
            "Network.responseReceived" => {
                let origin = self.origin.unwrap_or_default();
                if let Some(request) = self.find(&params["requestId"]) {
                    answered(request, &params["response"], origin);
                }
            }
            "Network.loadingFinished" => {
                let end = self.since(&params["timestamp"]);
                let bytes = params["encodedDataLength"].as_f64();
                if let Some(request) = self.find(&params["requestId"]) {
                    request.end = Some(end);
                    request.bytes = bytes.unwrap_or_default();
                }
            }
            "Network.loadingFailed" => {
                let end = self.since(&params["timestamp"]);
                let why = params["errorText"].as_str().unwrap_or_default().to_owned();
                if let Some(request) = self.find(&params["requestId"]) {
                    (request.end, request.failed) = (Some(end), Some(why));
                }
            }
            _ => {}
        }
    }

    fn finish(self) -> Vec<Request> {
        let finished = self.requests.into_iter().map(|(_, mut request)| {
            if let (Some(end), Some(receive)) = (request.end, request.receive) {
                // So far it holds when the first byte came.
                request.receive = Some((end - receive).max(0.0));
            }
            request
        });
        finished.collect()
    }
}

/// What a response says of itself and of its phases (`Network.ResourceTiming`: milliseconds since `requestTime`, -1 for
/// what did not happen).
fn answered(request: &mut Request, response: &Value, origin: f64) {
    let text = |name: &str| response[name].as_str().unwrap_or_default().to_owned();
    request.status = response["status"].as_u64().and_then(|s| u16::try_from(s).ok());
    (request.protocol, request.mime) = (text("protocol"), text("mimeType"));
    request.address = response["remoteIPAddress"].as_str().map(|a| a.trim_matches(['[', ']']).to_owned());
    let timing = &response["timing"];
    let span = |from: &str, to: &str| {
        let (from, to) = (timing[from].as_f64()?, timing[to].as_f64()?);
        (from >= 0.0 && to >= from).then_some(to - from)
    };
    request.dns = span("dnsStart", "dnsEnd");
    request.connect = span("connectStart", "connectEnd");
    request.tls = span("sslStart", "sslEnd");
    request.wait = span("sendEnd", "receiveHeadersEnd");
    let began = (timing["requestTime"].as_f64().unwrap_or_default() - origin) * 1e3;
    request.receive = timing["receiveHeadersEnd"].as_f64().map(|headers| began + headers);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_become_requests_with_their_phases() {
        let mut seen = Seen::default();
        let sent = |at: f64, url: &str, redirect: Value| json!({"method": "Network.requestWillBeSent", "params": {"requestId": "1", "timestamp": at, "request": {"url": url, "method": "GET"}, "redirectResponse": redirect}});
        let timing = json!({"requestTime": 10.0, "dnsStart": 0.0, "dnsEnd": 5.0, "connectStart": 5.0, "connectEnd": 25.0, "sslStart": 15.0, "sslEnd": 25.0, "sendEnd": 26.0, "receiveHeadersEnd": 46.0});
        let response = json!({"status": 302, "protocol": "http/1.1", "mimeType": "text/html", "remoteIPAddress": "[2001:db8::1]", "timing": timing});
        seen.note(&sent(10.0, "https://a/", Value::Null));
        seen.note(&sent(10.05, "https://b/", response.clone()));
        seen.note(&json!({"method": "Network.responseReceived", "params": {"requestId": "1", "response": {"status": 200, "timing": {"requestTime": 10.05, "dnsStart": -1, "dnsEnd": -1, "sendEnd": 1.0, "receiveHeadersEnd": 11.0}}}}));
        seen.note(&json!({"method": "Network.loadingFinished", "params": {"requestId": "1", "timestamp": 10.1, "encodedDataLength": 1234}}));
        seen.note(&sent(10.2, "data:text/plain,x", Value::Null));
        let requests = seen.finish();
        let [first, second] = &requests[..] else { panic!("{requests:?}") };
        assert_eq!(
            (first.status, first.dns, first.connect, first.tls, first.wait),
            (Some(302), Some(5.0), Some(20.0), Some(10.0), Some(20.0))
        );
        assert_eq!((first.address.as_deref(), first.began), (Some("2001:db8::1"), 0.0));
        assert_eq!((second.status, second.dns, second.wait, second.bytes), (Some(200), None, Some(10.0), 1234.0));
        assert!(
            (second.receive.unwrap() - 39.0).abs() < 1e-6 && (second.end.unwrap() - 100.0).abs() < 1e-6,
            "{second:?}"
        );
    }

    #[test]
    fn events_of_any_shape_are_borne() {
        let mut seen = Seen::default();
        for method in [
            "Network.requestWillBeSent",
            "Network.responseReceived",
            "Network.loadingFinished",
            "Network.loadingFailed",
        ] {
            for params in
                [Value::Null, json!([]), json!({"requestId": 5, "timestamp": "x"}), json!({"response": {"timing": 3}})]
            {
                seen.note(&json!({ "method": method, "params": params }));
            }
        }
        assert!(seen.finish().is_empty());
    }
}
