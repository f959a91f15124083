//! An unmodified browser fetches from `headstart serve` over HTTP/3, across an emulated link in namespaces.

use crate::scene::{Ended, HEADSTART, Scratch, found};

/// The page writes down by which protocol it came, and by which its script did.
const PAGE: &str = "<!doctype html><meta charset=utf-8><body><p id=came></p><script src=part.js></script></body>";
const SCRIPT: &str = "const came = kind => performance.getEntriesByType(kind).map(e => e.nextHopProtocol).join(' ');\n\
    document.getElementById('came').textContent = 'page by ' + came('navigation');";

/// Inside the outer lab's client: a server, and a browser behind a link of 100 Mbit/s and 30 ms. One that is starved of its
/// processor when it starts may give up a forced QUIC, and then waits in vain: so it has six tries, each with a new
/// profile and more patience.
const RUN: &str = r#"
"$HEADSTART_BIN" serve --listen 198.18.0.2:8443 --json "$HOME/site" > "$HOME/told" &
server=$!
while ! [ -s "$HOME/told" ]; do kill -0 $server || exit 9; sleep 0.05; done
export KEY=$(sed 's/.*"key_sha256":"\([^"]*\)".*/\1/' "$HOME/told")
"$HEADSTART_BIN" lab shell --link rate=100mbit,delay=15ms -- sh -c '
  for patience in 10000 15000 20000 30000 40000 50000; do
    "$CHROMIUM" --headless=new --no-sandbox --disable-gpu --no-first-run --disable-background-networking \
      --disable-component-update --disable-extensions --disable-sync --disable-dev-shm-usage \
      --origin-to-force-quic-on=198.18.0.2:8443 --ignore-certificate-errors-spki-list="$KEY" \
      --user-data-dir="$HOME/profile-$patience" --timeout=$patience --dump-dom https://198.18.0.2:8443/ > "$HOME/dom"
    cat "$HOME/dom"
    grep -q "page by" "$HOME/dom" && break
  done
'
kill $server
wait $server
"#;

#[test]
#[ignore = "needs network namespaces and starts a browser: cargo xtask test"]
fn chromium_fetches_over_http3() {
    let Some(chromium) = found("chromium", "chromium") else { return };
    let scratch = Scratch::new();
    std::fs::write(scratch.path("site/index.html"), PAGE).unwrap();
    std::fs::write(scratch.path("site/part.js"), SCRIPT).unwrap();
    let mut command = scratch.command(HEADSTART);
    command.env("HEADSTART_BIN", HEADSTART).env("CHROMIUM", chromium).env_remove("HEADSTART_LAB_BLOCK");
    command.env("XDG_CACHE_HOME", scratch.path("cache")).env("XDG_RUNTIME_DIR", scratch.path("runtime"));
    let ended = Ended::of(command.args(["lab", "shell", "--link", "lan", "--", "sh", "-c", RUN]).output().unwrap());
    assert!(ended.out.contains("page by h3"), "{ended:?}");
}
