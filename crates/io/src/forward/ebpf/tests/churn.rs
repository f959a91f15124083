//! Very many connections: none is missing that is not counted as lost, the kernel keeps little of them, and nothing wakes who measures
//! while nothing happens.
//!
//! `HEADSTART_TEST_CHURN=100000` plays so many in place of five thousand; with `--nocapture` the test says what it has seen.

use super::{Stage, answers, flows};
use crate::clock::Clock;
use crate::forward::ebpf::Watcher;
use headstart_core::time::Duration;
use std::io::Write as _;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::sync::mpsc;

/// How many connections there are, unless the variable says otherwise.
const FEW: u64 = 5000;
/// What all maps may take, in bytes.
const MOST: u64 = 64 << 20;

/// The memory of maps, in bytes, as the kernel counts it: of storage in sockets it counts no entries.
fn memory(maps: &[OwnedFd]) -> u64 {
    let of = |map: &OwnedFd| {
        let text = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", map.as_raw_fd())).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix("memlock:")).unwrap();
        line.trim().parse::<u64>().unwrap()
    };
    maps.iter().map(of).sum()
}

#[test]
fn of_very_many_connections_none_is_missing_and_the_kernel_keeps_little_of_them() {
    let Some((stage, programs)) = Stage::new() else { return };
    let count = std::env::var("HEADSTART_TEST_CHURN").map_or(FEW, |text| text.parse().unwrap());
    // Several, as a pair of ends is not used again at once.
    let ports: Vec<_> = (0..8).map(|_| stage.listen("127.0.0.1:0", drop).port().to_string()).collect();
    let maps = programs.maps();
    let (before, clock) = (memory(&maps), Clock::new());
    let began = clock.now();
    let script = format!(
        "to=({}); for ((n = 0; n < {count}; n++)); do exec 3<>/dev/tcp/127.0.0.1/${{to[n % 8]}}; exec 3>&-; done",
        ports.join(" ")
    );
    let (seen, pid, lost) = stage.run(programs, &script);
    let (told, after) = (flows(&seen).len() as u64, memory(&maps));
    let took = clock.now().since(began).as_secs_f64();
    println!("{told} told and {lost} lost of {count} in {took:.1} s; maps: {before} bytes before, {after} after");
    assert_eq!((told + lost, lost), (count, 0), "the reader keeps up");
    assert!(seen.iter().all(|seen| seen.process.as_ref().is_some_and(|process| process.pid == pid)));
    assert!((1 << 20..=MOST).contains(&before) && after <= MOST, "{before} and {after} bytes");
}

#[test]
fn what_nobody_has_read_in_time_is_counted_to_the_last_connection() {
    let Some((stage, programs)) = Stage::new() else { return };
    let (to, count) = (stage.listen("127.0.0.1:0", drop).port(), 6000);
    let mut command = Command::new("bash");
    let script = format!("for ((n = 0; n < {count}; n++)); do exec 3<>/dev/tcp/127.0.0.1/{to}; exec 3>&-; done");
    command.args(["-c", &script]).stdin(Stdio::null());
    stage.group.adopt(&mut command).unwrap();
    stage.namespace.adopt(&mut command).unwrap();
    assert!(command.status().unwrap().success());
    let (seen, _, lost) = stage.run(programs, "true");
    let told = flows(&seen).len() as u64;
    assert_eq!(told + lost, count, "{told} told, {lost} lost");
    assert!(told > 4000 && lost > 1000, "the ring has room for some: {told} told, {lost} lost");
}

/// How often a thread of this process has gone to sleep.
fn sleeps(thread: i32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/self/task/{thread}/status")).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:")).unwrap();
    line.trim().parse().unwrap()
}

#[test]
fn while_nothing_happens_nothing_wakes_who_measures() {
    let Some((stage, programs)) = Stage::new() else { return };
    let to = stage.listen("127.0.0.1:0", answers).port();
    let mut command = Command::new("bash");
    let script = format!("exec 3<>/dev/tcp/127.0.0.1/{to}; echo open; read -r");
    command.args(["-c", &script]).stdin(Stdio::piped()).stdout(Stdio::piped());
    stage.group.adopt(&mut command).unwrap();
    stage.namespace.adopt(&mut command).unwrap();
    let (stop, far) = UnixStream::pair().unwrap();
    let (tell, told) = mpsc::channel();
    let watching = std::thread::spawn(move || {
        let mut watcher = Watcher::new(programs, Clock::new(), Box::new(drop)).unwrap();
        tell.send(rustix::thread::gettid().as_raw_nonzero().get()).unwrap();
        watcher.run(&far).unwrap();
    });
    let (thread, clock) = (told.recv().unwrap(), Clock::new());
    let mut child = command.spawn().unwrap();
    let is_open = std::io::Read::read(child.stdout.as_mut().unwrap(), &mut [0; 5]);
    assert_eq!(is_open.unwrap(), 5, "a connection is open");
    // It may not be asleep yet.
    let mut before = sleeps(thread);
    loop {
        clock.sleep(Duration::from_millis(200));
        let now = sleeps(thread);
        if std::mem::replace(&mut before, now) == now {
            break;
        }
    }
    clock.sleep(Duration::from_secs(3));
    assert_eq!(sleeps(thread), before, "it has woken up");
    child.stdin.take().unwrap().write_all(b"\n").unwrap();
    child.wait().unwrap();
    while sleeps(thread) == before {
        clock.sleep(Duration::from_millis(5));
    }
    drop(stop);
    watching.join().unwrap();
}
