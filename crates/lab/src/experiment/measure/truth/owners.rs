//! Whose connections are: programs that connect and close at once say their own numbers and ports, and each connection is to be
//! said to be of the process that had the port.

use super::super::arm::{EBPF, Stage, Testbed};
use super::super::wire::{WIRED, Wire};
use super::measured;
use crate::experiment::target::Target;
use crate::experiment::{Context, Outcome, Row};
use serde_json::{Value, json};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};

/// What a probe is asked for.
pub const WORKLOAD: &str = "owners";
/// The word for a program that connects by itself.
const ALONE: &str = "alone";
/// Connections of a peer that are open at a time at most.
const MOST_OPEN: usize = 256;
/// What the issues ask for, in per cent: of the forwarder, which finds the process of a port, and of programs in the kernel, which run in it.
const TARGET: Target = Target::AtLeast(99.5);
const TARGET_IN_KERNEL: Target = Target::AtLeast(100.0);

/// How many owners are to be right under an arm.
pub(super) fn target(arm: &str) -> Target {
    if arm == EBPF { TARGET_IN_KERNEL } else { TARGET }
}

/// Programs: so many at a time, so often, each with so many threads that connect so often.
#[derive(Clone, Copy)]
struct Shape {
    name: &'static str,
    about: &'static str,
    numbers: [usize; 4],
}

const SHAPES: [Shape; 4] = [
    shape(
        "one-after-the-other",
        "Three programs at a time; each opens 200 connections, one after the other, and closes each at once.",
        [3, 1, 1, 200],
    ),
    shape("threads", "One program with eight threads that do this, 50 connections each.", [1, 1, 8, 50]),
    shape(
        "short-lived",
        "200 programs one after the other; each opens one connection, closes it and ends.",
        [1, 200, 1, 1],
    ),
    shape("short-lived-together", "The same, four at a time, 50 times.", [4, 50, 1, 1]),
];

/// `numbers`: programs at a time, how often, their threads, the connections of each.
const fn shape(name: &'static str, about: &'static str, numbers: [usize; 4]) -> Shape {
    Shape { name, about, numbers }
}

/// Connects as `words` say (`alone THREADS CONNECTIONS`), or starts programs that do (`TOGETHER TIMES THREADS CONNECTIONS`): each
/// port and the process that had it.
pub fn probe(to: SocketAddr, words: &[String]) -> io::Result<Value> {
    let number = |n: usize| words.get(n).and_then(|word| word.parse().ok()).ok_or(io::ErrorKind::InvalidInput);
    if words.first().is_some_and(|word| word == ALONE) {
        return alone(to, number(1)?, number(2)?);
    }
    let (together, times) = (number(0)?, number(1)?);
    let mut flows = Vec::new();
    for _ in 0..times {
        let words = words.get(2..4).ok_or(io::ErrorKind::InvalidInput)?;
        let program = || {
            let mut program = Command::new(std::env::current_exe()?);
            program.args(["probe", WORKLOAD, &to.to_string(), ALONE]).args(words);
            program.stdout(Stdio::piped()).spawn()
        };
        let programs: Vec<_> = (0..together).map(|_| program()).collect::<io::Result<_>>()?;
        for program in programs {
            let said: Value = serde_json::from_slice(&program.wait_with_output()?.stdout)?;
            flows.extend(said["flows"].as_array().into_iter().flatten().cloned());
        }
    }
    Ok(json!({ "flows": flows }))
}

fn alone(to: SocketAddr, threads: usize, connections: usize) -> io::Result<Value> {
    let connect = move || {
        let port = || Ok(TcpStream::connect(to)?.local_addr()?.port());
        (0..connections).map(|_| port()).collect::<io::Result<Vec<u16>>>()
    };
    let threads: Vec<_> = (0..threads).map(|_| std::thread::spawn(connect)).collect();
    let mut flows = Vec::new();
    for thread in threads {
        let ports = thread.join().map_err(|_| io::Error::other("a thread has died"))??;
        flows.extend(ports.into_iter().map(|port| json!([port, std::process::id()])));
    }
    Ok(json!({ "flows": flows }))
}

/// Takes connections and says nothing. The clients close first, so that no port is used twice.
pub(super) fn serve(listener: &TcpListener) {
    let mut open = VecDeque::new();
    for stream in listener.incoming().map_while(Result::ok) {
        open.push_back(stream);
        if open.len() > MOST_OPEN {
            open.pop_front();
        }
    }
}

/// A row for each shape.
pub fn run(cx: &Context, outcome: &mut Outcome, arm: &str, file: &Path) -> anyhow::Result<()> {
    let wire = Wire::lay()?;
    let stage = Stage::new(Testbed::Wire(&wire), cx.program.clone())?;
    let (mut all, mut right) = (0, 0);
    let wanted: Vec<_> = SHAPES.iter().filter(|shape| cx.wants(shape.name)).collect();
    for (n, shape) in wanted.iter().enumerate() {
        cx.progress.step(n as u64, wanted.len() as u64, shape.name);
        if cx.progress.stop() {
            return Ok(());
        }
        let to = stage.listen(&WIRED.to_string(), serve)?;
        outcome.condition(shape.name, shape.about);
        let numbers = shape.numbers.map(|n| n.to_string());
        let words: Vec<String> = [WORKLOAD.to_owned(), to.to_string()].into_iter().chain(numbers).collect();
        let (said, lines) = measured(&stage, arm, file, &words)?;
        let (flows, correct) = judge(&said, &lines);
        anyhow::ensure!(flows == shape.numbers.iter().product::<usize>(), "{flows} connections were made");
        let share = 100.0 * correct as f64 / flows as f64;
        outcome.rows.push(Row::measured(shape.name, "connections with their owner", "%", arm, share));
        (all, right) = (all + flows, right + correct);
    }
    if all > 0 {
        let share = 100.0 * right as f64 / all as f64;
        outcome.notes.push(target(arm).note(&format!("{arm}, owners right, of {all} connections"), share, "%"));
        outcome.how(
            "Programs on a veth pair without delay, where there is least time to look, connect, close at once and report their \
             port; a connection is right if its line names the process that had the port.",
        );
    }
    Ok(())
}

/// How many connections there were, and of how many the line says whose they were.
pub(super) fn judge(said: &Value, lines: &[Value]) -> (usize, usize) {
    let port = |line: &Value| line["local"].as_str()?.parse::<SocketAddr>().ok().map(|local| u64::from(local.port()));
    let told: BTreeMap<u64, &Value> = lines.iter().filter_map(|line| Some((port(line)?, &line["pid"]))).collect();
    let flows: Vec<&Value> = said["flows"].as_array().into_iter().flatten().collect();
    let is_right =
        |flow: &&&Value| flow[0].as_u64().and_then(|port| told.get(&port)).is_some_and(|pid| **pid == flow[1]);
    (flows.len(), flows.iter().filter(is_right).count())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_that_is_wrong_unknown_or_not_told_is_not_right() {
        let said = json!({ "flows": [[1, 10], [2, 20], [3, 30], [4, 40]] });
        let line = |port: u16, pid: Value| json!({ "local": format!("192.0.2.1:{port}"), "pid": pid });
        let lines = [line(1, json!(10)), line(2, json!(10)), line(3, Value::Null)];
        assert_eq!(judge(&said, &lines), (4, 1));
    }

    #[test]
    fn of_programs_in_the_kernel_every_owner_is_asked_for() {
        assert!(target(EBPF).is_met(100.0) && !target(EBPF).is_met(99.99) && target("ours").is_met(99.5));
    }

    #[test]
    fn each_connection_is_said_with_its_port_and_process() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let said = probe(listener.local_addr().unwrap(), &["alone", "2", "3"].map(str::to_owned)).unwrap();
        let flows = said["flows"].as_array().unwrap();
        assert!(flows.len() == 6 && flows.iter().all(|flow| flow[1] == std::process::id()), "{said}");
    }
}
