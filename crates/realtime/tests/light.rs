//! What a program takes on that embeds this crate: few crates, and neither a database nor a VPN among them.
#![forbid(unsafe_code)]

use std::collections::BTreeSet;
use std::process::Command;

#[test]
fn at_most_sixty_crates_are_below_this_one() {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let words = ["tree", "--locked", "--offline", "-p", "headstart-realtime", "-e", "normal", "--prefix", "none"];
    let output = Command::new(cargo).args(words).current_dir(env!("CARGO_MANIFEST_DIR")).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let names: BTreeSet<&str> = text.lines().map(|line| line.trim_end_matches(" (*)")).collect();
    assert!(names.iter().any(|name| name.starts_with("tokio ")), "{names:?}");
    assert!(names.len() <= 60, "{}: {names:?}", names.len());
    for heavy in ["redb", "boringtun", "hickory-proto", "serde_json"] {
        assert!(!names.iter().any(|name| name.split(' ').next() == Some(heavy)), "{heavy}");
    }
}
