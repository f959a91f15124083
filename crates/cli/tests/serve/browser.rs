//! An unmodified browser fetches from `headstart serve` over HTTP/3.

use crate::scene::{Ended, Scratch, Server, found};
use std::path::Path;

/// The page writes down by which protocol it came, and by which its script did.
const PAGE: &str = "<!doctype html><meta charset=utf-8><body><p id=came></p><script src=part.js></script></body>";
const SCRIPT: &str = "const came = kind => performance.getEntriesByType(kind).map(e => e.nextHopProtocol).join(' ');\n\
    document.getElementById('came').textContent = 'page by ' + came('navigation');";

#[test]
#[ignore = "starts a browser: cargo xtask test"]
fn chromium_fetches_over_http3() {
    let Some(chromium) = found("chromium", "chromium") else { return };
    let scratch = Scratch::new();
    std::fs::write(scratch.path("site/index.html"), PAGE).unwrap();
    std::fs::write(scratch.path("site/part.js"), SCRIPT).unwrap();
    let server = Server::start(scratch, &[]);
    // A browser that is starved of its processor when it starts may give up a forced QUIC, and then waits in vain.
    let mut ended = fetched(&chromium, &server, "first");
    for profile in ["second", "third"] {
        if !ended.out.contains("page by") {
            ended = fetched(&chromium, &server, profile);
        }
    }
    assert!(ended.out.contains("page by h3"), "{ended:?}");
}

/// What a browser with a new profile makes of the page.
fn fetched(chromium: &Path, server: &Server, profile: &str) -> Ended {
    let mut command = server.scratch.command(chromium);
    command.args([
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--no-first-run",
        "--disable-background-networking",
    ]);
    command.args(["--disable-component-update", "--disable-extensions", "--disable-sync", "--disable-dev-shm-usage"]);
    command.arg(format!("--origin-to-force-quic-on={}", server.address));
    command.arg(format!("--ignore-certificate-errors-spki-list={}", server.told["key_sha256"].as_str().unwrap()));
    command.arg(format!("--user-data-dir={}", server.scratch.path(profile).display()));
    command.env("XDG_CACHE_HOME", server.scratch.path("cache")).env("XDG_RUNTIME_DIR", server.scratch.path("runtime"));
    Ended::of(command.args(["--timeout=45000", "--dump-dom"]).arg(server.url("")).output().unwrap())
}
