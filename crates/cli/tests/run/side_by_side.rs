//! Several at once: two runs in one lab, and a run inside a run.

use crate::lab::{HEADSTART, Lab, compiled, ended, found, inside};

inside!(two_runs_at_once_do_not_meet, || {
    let lab = Lab::new();
    let Some(program) = compiled(&lab.scratch, "inert.c", &[]) else { return };
    let start = || {
        let mut command = lab.command(HEADSTART);
        command.args(["run", "--"]).arg(&program).arg("threads");
        command.spawn().unwrap()
    };
    for run in [start(), start()].map(ended) {
        assert_eq!((run.code, run.out.as_str()), (Some(0), "failures: 0\n"), "{run:?}");
        assert!(run.err.contains("ready after"), "{run:?}");
    }
    assert!(lab.scratch.left_behind().is_empty());
});

inside!(a_run_inside_a_run_is_served_once, || {
    let Some(curl) = found("curl", "curl") else { return };
    let lab = Lab::new();
    let inner = lab.scratch.path("inner.json");
    let words = [HEADSTART, "run", "--summary", inner.to_str().unwrap(), "--", curl.to_str().unwrap(), "-sS"];
    let words: Vec<_> = words.into_iter().chain(["http://www.lab.example/"]).collect();
    let outer = lab.ours(&words);
    assert!(outer.code == Some(0) && outer.out.contains("host: www.lab.example"), "{outer:?}");
    let inner: serde_json::Value = serde_json::from_slice(&std::fs::read(inner).unwrap()).unwrap();
    assert_eq!((&inner["resolved"], &outer.summary["resolved"]), (&1.into(), &0.into()), "{inner} {outer:?}");
    let passed = |summary: &serde_json::Value| {
        summary["not_handled"].as_object().unwrap().values().filter_map(|n| n.as_u64()).sum::<u64>()
    };
    assert!(passed(&inner) <= 1, "nothing is asked twice: {inner}");
    assert!(lab.scratch.left_behind().is_empty());
});
