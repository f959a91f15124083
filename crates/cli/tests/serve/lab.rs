//! `serve` and `get` across an emulated link, in namespaces: what the first fetch teaches, later ones begin with.

use crate::scene::{Ended, HEADSTART, Scratch};
use serde_json::Value;

/// Inside the outer lab's client: a server, and behind a link of 100 Mbit/s and 50 ms (`average` without its loss)
/// fetches of it, one after the other.
const SCRIPT: &str = r#"
"$HEADSTART_BIN" serve --listen 198.18.0.2:8443 --json --write-cert "$HOME/cert.pem" "$HOME/site" > "$HOME/told" &
server=$!
while ! [ -s "$HOME/told" ]; do kill -0 $server || exit 9; sleep 0.05; done
"$HEADSTART_BIN" lab shell --link rate=100mbit,delay=25ms -- sh -c '
  for n in 1 2 3; do
    "$HEADSTART_BIN" get --json -q --http 3 --ca "$HOME/cert.pem" -o /dev/null https://198.18.0.2:8443/file.bin
  done
  "$HEADSTART_BIN" get --json -q --http 3 --times 2 --ca "$HOME/cert.pem" -o /dev/null https://198.18.0.2:8443/small.bin
'
kill $server
wait $server
"#;

#[test]
#[ignore = "needs network namespaces: cargo xtask test"]
fn later_fetches_begin_with_what_the_first_has_taught() {
    let scratch = Scratch::new();
    scratch.file("file.bin", 1_000_000);
    scratch.file("small.bin", 1000);
    let mut command = scratch.command(HEADSTART);
    command.env("HEADSTART_BIN", HEADSTART).env_remove("HEADSTART_LAB_BLOCK");
    let ended = Ended::of(command.args(["lab", "shell", "--link", "lan", "--", "sh", "-c", SCRIPT]).output().unwrap());
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let told: Vec<Value> = ended.out.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(told.len(), 5, "{ended:?}");
    let remembered = |told: &Value| {
        let start = told["start"].as_str().unwrap();
        start.split("remembered=").nth(1).and_then(|rest| rest.split(' ').next()?.parse::<u64>().ok()).unwrap()
    };
    assert_eq!(remembered(&told[0]), 0, "{told:?}");
    // The server takes in what a fetch has taught when it hears that it is over, which may be behind the next one's beginning.
    assert!(told[1..3].iter().any(|told| remembered(told) > 0), "{told:?}");
    // 50 ms there and back: none is faster than its path.
    assert!(told.iter().all(|told| told["total_ms"].as_f64().unwrap() >= 50.0), "{told:?}");
    assert!(told[..3].iter().all(|told| told["bytes"] == 1_000_000 && told["protocol"] == "HTTP/3"), "{told:?}");
}
