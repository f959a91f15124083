//! What fuzzing has found is tried again by every run of the tests: each input in `fuzz/seeds` goes through the very source of its
//! fuzz target, built once with the rest, without libFuzzer.
//!
//! Here because the command sees every crate: every parser that has a target. An input that breaks one
//! is printed; nothing is written.
#![forbid(unsafe_code)]
// A target is a program of its own where libFuzzer plays it, and says so.
#![allow(unused_attributes)]

// `use libfuzzer_sys::fuzz_target`, as the targets have it, finds the macro below.
extern crate self as libfuzzer_sys;

#[path = "../../../xtask/src/fuzz/seeds.rs"]
mod seeds;

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

/// A module and a test for each target.
macro_rules! targets {
    ($($name:ident),* $(,)?) => {
        #[path = "../../../fuzz/fuzz_targets"]
        #[allow(clippy::all, reason = "sources of another workspace, which has no such lints")]
        mod target {
            $(pub mod $name;)*
        }

        /// Every target that is replayed.
        const ALL: &[&str] = &[$(stringify!($name)),*];

        $(
            #[test]
            fn $name() {
                replay(stringify!($name), target::$name::check);
            }
        )*
    };
}

targets![
    bundle_packet,
    control_message,
    cwnd_record,
    daemon_message,
    dns_answer,
    dns_relay,
    engine_message,
    forwarded_packets,
    forwarder_story,
    har,
    history_record,
    host_journal,
    http3_story,
    http_head,
    http_request,
    http_story,
    journal_story,
    link_spec,
    link_trace,
    netlink_messages,
    page_spec,
    queued_packets,
    realtime_frame,
    recording,
    relay_request,
    resequencer_story,
    scenario,
    session_story,
    shim_message,
    sockaddr,
    steer_apart,
    steer_frame,
    steer_object,
    steer_packet,
    super_packet,
    tcp_segments,
];

/// libFuzzer's macro, as far as it makes a value out of bytes: the body becomes a function of them.
macro_rules! fuzz_target {
    (|$bytes:ident: &[u8]| $body:expr) => {
        pub fn check($bytes: &[u8]) {
            $body
        }
    };
    (|$value:ident: $kind:ty| $body:expr) => {
        pub fn check(bytes: &[u8]) {
            use arbitrary::{Arbitrary, Unstructured};
            fn body($value: $kind) {
                $body
            }
            if bytes.len() >= <$kind as Arbitrary>::size_hint(0).0
                && let Ok(value) = <$kind as Arbitrary>::arbitrary_take_rest(Unstructured::new(bytes))
            {
                body(value);
            }
        }
    };
}
pub(crate) use fuzz_target;

fn fuzz() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz")
}

/// Feeds a target all of its seeds.
fn replay(target: &str, check: fn(&[u8])) {
    let file = fuzz().join("seeds").join(target);
    let bytes =
        fs::read(&file).unwrap_or_else(|e| panic!("{}: {e}; `cargo xtask fuzz --keep` writes it", file.display()));
    let inputs = seeds::unpack(&bytes).unwrap_or_else(|| panic!("{} is cut short", file.display()));
    assert!(!inputs.is_empty(), "{} holds nothing", file.display());
    for (n, input) in inputs.iter().enumerate() {
        let borne = catch_unwind(AssertUnwindSafe(|| check(input)));
        assert!(borne.is_ok(), "{target} breaks on its seed {n}: {}", input.escape_ascii());
    }
}

#[test]
fn every_fuzz_target_is_replayed_and_nothing_else_has_seeds() {
    let names = |folder: &str| {
        let files = fs::read_dir(fuzz().join(folder)).unwrap().map(|file| file.unwrap().path());
        let mut names: Vec<_> = files.map(|file| file.file_stem().unwrap().to_str().unwrap().to_owned()).collect();
        names.sort();
        names
    };
    assert_eq!(names("fuzz_targets"), ALL, "a line for each target in `targets!`");
    assert_eq!(names("seeds"), ALL);
    let readme = fs::read_to_string(fuzz().join("README.md")).unwrap();
    for target in ALL {
        assert!(readme.contains(&format!("\n| `{target}` |")), "{target} has no line in fuzz/README.md");
    }
}

#[test]
fn an_input_that_breaks_a_target_fails() {
    let broken = catch_unwind(|| replay("sockaddr", |bytes| assert!(bytes.is_empty())));
    assert!(broken.is_err());
}
