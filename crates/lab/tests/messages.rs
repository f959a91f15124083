//! `realtime-tail` over the kernel's own TCP, in namespaces. Lower bounds of times hold on any machine; upper bounds are not
//! tested.
#![forbid(unsafe_code)]

use headstart_lab::experiment::{Context, Outcome, Row, Speeds, realtime_tail};
use headstart_lab::netns::inside;

fn run(condition: &str) -> Outcome {
    let conditions = Some(vec![condition.to_owned()]);
    let cx = Context { quick: true, speeds: Speeds::Namespaces, conditions, ..Context::new(3) };
    realtime_tail::ENTRY.start(&cx).unwrap_or_else(|e| panic!("{e:#}"))
}

fn row<'a>(outcome: &'a Outcome, condition: &str, metric: &str, arm: &str) -> &'a Row {
    let is = |row: &&Row| row.condition == condition && row.metric == metric && row.arm == arm;
    outcome.rows.iter().find(is).unwrap_or_else(|| panic!("no row {condition}, {metric}, {arm}"))
}

#[test]
#[ignore = "needs network namespaces: cargo xtask test"]
fn messages_over_the_kernels_tcp_take_the_way_at_least_and_are_counted() {
    inside("messages_over_the_kernels_tcp_take_the_way_at_least_and_are_counted", || {
        let outcome = run("clean");
        for arm in ["plain-again", "reduction-50", "trigger", "echo", "hedge", "auto", "udp-redundant"] {
            let of = |metric| row(&outcome, "clean-modern-netns", metric, arm);
            assert!(of("message delay, p95").ours >= 10.0 && of("message delay, p95").baseline >= Some(10.0), "{arm}");
            assert!(of("age of information, p95").ours >= 10.0, "{arm}");
            // A machine that stands still has TCP put many messages into a segment; datagrams stay as they are.
            let packets = of("packets a message").ours;
            assert!(packets > if arm == "udp-redundant" { 0.999 } else { 0.05 }, "{arm}: {packets}");
        }
        assert!(outcome.samples.iter().all(|series| series.values.len() == 8), "four links, two streams each");
    });
}

#[test]
#[ignore = "needs network namespaces: cargo xtask test"]
fn on_a_busy_machine_all_is_measured() {
    inside("on_a_busy_machine_all_is_measured", || {
        let outcome = run("busy");
        for arm in ["auto", "plain-again", "udp-redundant"] {
            assert!(row(&outcome, "busy-modern-netns", "message delay, p95", arm).ours >= 10.0, "{arm}");
        }
    });
}
