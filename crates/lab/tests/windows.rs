//! `window-*` over the kernel: quinn's endpoints and the kernel's own CUBIC, in namespaces. Lower bounds of times hold
//! on any machine; upper bounds are not tested, nor is anything compared that a busy machine may turn round.
#![forbid(unsafe_code)]

use headstart_lab::experiment::{self, Context, Outcome, Row, Speeds};
use headstart_lab::netns::inside;

fn run(experiment: &str, condition: &str) -> Outcome {
    let conditions = Some(vec![condition.to_owned()]);
    let cx = Context { quick: true, speeds: Speeds::Namespaces, conditions, ..Context::new(3) };
    experiment::find(experiment).unwrap().start(&cx).unwrap_or_else(|e| panic!("{e:#}"))
}

fn row<'a>(outcome: &'a Outcome, condition: &str, metric: &str, arm: &str) -> &'a Row {
    let is = |row: &&Row| row.condition == condition && row.metric.starts_with(metric) && row.arm == arm;
    outcome.rows.iter().find(is).unwrap_or_else(|| panic!("no row {condition}, {metric}, {arm}: {:?}", outcome.rows))
}

const RULES: [&str; 4] = ["history-unbounded", "history-average", "careful-resume", "careful-wireless"];

#[test]
#[ignore = "needs network namespaces: cargo xtask test"]
fn quic_shares_a_bottleneck_with_the_kernels_cubic() {
    inside("quic_shares_a_bottleneck_with_the_kernels_cubic", || {
        let outcome = run("window-dumbbell", "good-1");
        // 1 MB at 100 Mbit/s, after a handshake and a question of 38 ms each.
        for arm in RULES {
            let latency = row(&outcome, "good-1-netns", "latency of 1 MB", arm);
            assert!(latency.ours >= 2.0 * 38.0 + 80.0 && latency.baseline >= Some(2.0 * 38.0 + 80.0), "{latency:?}");
            let others = row(&outcome, "good-1-netns", "goodput of others", arm);
            assert!(others.ours > 0.0 && others.baseline > Some(0.0) && others.ours <= 100.0, "{others:?}");
        }
        let doubts = format!("{:?}", outcome.why_invalid);
        assert!(!doubts.contains("goes by"), "every background flow is CUBIC's: {doubts}");
        assert_eq!(row(&outcome, "good-1-netns", "latency of 1 MB", RULES[0]).claim.as_deref(), Some("P2.4"));
        assert!(outcome.conditions.iter().any(|c| c.about.contains("of the kernel's TCP (CUBIC)")));
    });
}

#[test]
#[ignore = "needs network namespaces: cargo xtask test"]
fn what_was_learned_of_one_network_of_the_kernel_is_known_in_the_next() {
    inside("what_was_learned_of_one_network_of_the_kernel_is_known_in_the_next", || {
        let outcome = run("window-stale", "slower-10");
        for arm in RULES {
            // 1 MB at 10 Mbit/s.
            let latency = row(&outcome, "slower-10-netns", "latency of 1 MB", arm);
            assert!(latency.ours >= 2.0 * 38.0 + 800.0, "{latency:?}");
        }
        // Half a megabyte at once into a queue of a tenth of that: only what is remembered of the first can do this.
        let drops = row(&outcome, "slower-10-netns", "drops", RULES[0]);
        assert!(drops.ours > drops.baseline.unwrap(), "{drops:?}");
    });
}
