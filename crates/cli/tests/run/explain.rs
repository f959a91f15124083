//! `headstart explain`, end to end: what it says is what happened in the lab.

use crate::lab::{Ended, HEADSTART, Lab, Scratch, ended, found, inside, supervisors, until};
use crate::processes::{ask_to_end, is_alive};
use crate::schema::must_hold;
use serde_json::Value;

/// Runs a program by the shared supervisor.
fn run(lab: &Lab, words: &[&str]) -> Ended {
    let mut command = lab.command(HEADSTART);
    command.env_remove("HEADSTART").env("HEADSTART_LINGER", "3600");
    ended(command.args(["run", "--"]).args(words).spawn().unwrap())
}

fn explain(lab: &Lab, words: &[&str]) -> Ended {
    ended(lab.command(HEADSTART).arg("explain").args(words).spawn().unwrap())
}

fn explained(lab: &Lab, host: &str) -> Value {
    let said = explain(lab, &[host, "--json"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    must_hold("explain", &said.out);
    serde_json::from_str(&said.out).expect("one JSON object")
}

fn end() {
    // One by one: with a supervisor goes whoever keeps the room of its DNS sockets.
    while let Some(supervisor) = supervisors().first().copied() {
        ask_to_end(supervisor);
        until("the supervisor has ended", || !is_alive(supervisor));
    }
}

inside!(a_visit_is_told_from_the_question_to_the_hand_over, || {
    let Some(curl) = found("curl", "curl") else { return };
    let lab = Lab::new();
    assert_eq!(run(&lab, &[curl.to_str().unwrap(), "-sS", "http://www.lab.example/"]).code, Some(0));
    let told = explained(&lab, "www.lab.example");
    assert_eq!((&told["version"], &told["host"]), (&1.into(), &"www.lab.example".into()));
    assert_eq!(told["race"]["app"], "curl");
    let events = told["race"]["events"].as_array().unwrap();
    let mut names = events.iter().map(|event| event["event"].as_str().unwrap());
    for name in ["asked", "query", "answer", "attempt", "handed-over"] {
        assert!(names.any(|n| n == name), "{name} in its place: {told}");
    }
    let times: Vec<f64> = events.iter().map(|event| event["at_ms"].as_f64().unwrap()).collect();
    assert!(times.is_sorted() && told["race"]["began_ago_ms"].as_f64() > Some(0.0), "{told}");
    let cached = told["cached"].as_array().unwrap();
    assert!(cached.len() == 2 && cached.iter().all(|c| c["left_ms"].as_f64() > Some(0.0)), "{told}");
    // The round trip of the lab's link is ten milliseconds.
    let addresses = told["addresses"].as_array().unwrap();
    assert!(addresses.iter().any(|a| a["rtt_ms"].as_f64() >= Some(10.0) && a["has_answered"] == true), "{told}");
    assert_eq!(u32::try_from(told["supervisor"]["pid"].as_u64().unwrap()).unwrap(), supervisors()[0]);

    let text = explain(&lab, &["www.lab.example"]).out;
    for words in ["last race", "for curl", "handed over", "cached:", "IPv6", "not handled", "supervisor"] {
        assert!(text.contains(words), "{words} in {text}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    let address = addresses[0]["address"].as_str().unwrap();
    assert_eq!(explained(&lab, address)["race"]["name"], "www.lab.example", "an address stands for its name");
    end();
});

inside!(calls_that_were_left_alone_are_told_with_the_reason, || {
    let Some(curl) = found("curl", "curl") else { return };
    let lab = Lab::new();
    run(&lab, &[curl.to_str().unwrap(), "-sS", "--max-time", "5", "http://printer.local/"]);
    let told = explained(&lab, "printer.local");
    assert!(told["race"].is_null(), "{told}");
    assert_eq!(told["left_alone"]["local name"], told["left_alone_in_all"]["local name"], "{told}");
    assert!(told["left_alone"]["local name"].as_u64() >= Some(1), "{told}");
    end();
});

inside!(without_knowledge_it_says_so_and_fails, || {
    let lab = Lab::new();
    let alone = explain(&lab, &["www.lab.example"]);
    assert!(alone.code == Some(5) && alone.err.contains("no supervisor"), "{alone:?}");
    assert_eq!(run(&lab, &["true"]).code, Some(0));
    for words in [&["www.lab.example"][..], &["www.lab.example", "--json"]] {
        let nothing = explain(&lab, words);
        assert!(nothing.code == Some(1) && nothing.err.contains("no data about"), "{nothing:?}");
        assert!(nothing.out.is_empty(), "{nothing:?}");
    }
    end();
    assert!(lab.scratch.left_behind().is_empty());
});

#[test]
fn a_private_supervisor_is_nobody_elses_business() {
    let scratch = Scratch::new();
    let run = ended(
        scratch.headstart(["run", "-q", "--private", "--", HEADSTART, "explain", "www.example"]).spawn().unwrap(),
    );
    assert!(run.code == Some(5) && run.err.contains("no supervisor"), "{run:?}");
}
