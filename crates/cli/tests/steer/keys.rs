//! Keys on the command line.

use crate::scene::HEADSTART;
use std::io::Write as _;
use std::process::{Command, Output, Stdio};

fn steer(verb: &str, input: &str) -> Output {
    let mut command = Command::new(HEADSTART);
    command.args(["steer", verb]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

#[test]
fn a_public_key_is_that_of_its_secret_and_what_is_no_key_is_refused() {
    let secret = String::from_utf8(steer("genkey", "").stdout).unwrap();
    assert_eq!(secret.trim().len(), 44);
    let public = |text: &str| steer("pubkey", text);
    let (one, again) = (public(&secret), public(&secret));
    assert!(one.status.success() && one.stdout == again.stdout && one.stdout.len() == 45);
    assert_ne!(one.stdout, secret.as_bytes());
    // RFC 7748, section 6.1: Bob's, in base64.
    let bob = public("XasIfmJKikt54X+Lg4AO5m87sSkmGLb9HC+LJ/+I4Os=\n");
    assert_eq!(String::from_utf8_lossy(&bob.stdout).trim(), "3p7bfXt9wbTTW2HC7OQ1Nz+DQ8hbeGdNrfx+FG+IK08=");
    let wrong = public("no key\n");
    assert!(
        wrong.status.code() == Some(2) && String::from_utf8_lossy(&wrong.stderr).contains("headstart steer genkey")
    );
}
