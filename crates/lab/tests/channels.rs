//! Two emulated channels with real packets: the kernel's Multipath TCP over both, and our tunnel.

use headstart_lab::experiment::{self, Context, Outcome, Row, Speeds};
use headstart_lab::inside;

fn quick(condition: &str) -> Outcome {
    let cx = Context {
        quick: true,
        speeds: Speeds::Namespaces,
        conditions: Some(vec![condition.into()]),
        ..Context::new(1)
    };
    experiment::find("steer-object").unwrap().start(&cx).unwrap()
}

fn row<'a>(outcome: &'a Outcome, metric: &str, arm: &str) -> &'a Row {
    let is = |row: &&Row| row.metric.starts_with(metric) && row.arm == arm;
    outcome.rows.iter().find(is).unwrap_or_else(|| panic!("no row {metric}, {arm}: {:?}", outcome.notes))
}

const SHARE: &str = "share of bytes";

inside!(multipath_tcp_carries_bytes_over_both_channels_and_tcp_over_one, || {
    let outcome = quick("ideal-document");
    // The kernel itself may say a word on an interface that nobody uses.
    let beside = row(&outcome, SHARE, "single-fat").ours;
    assert!(beside < 0.5, "{beside}");
    if let Some(why) = outcome.notes.iter().find(|note| note.starts_with("The arm `")) {
        return println!("skipped: {why}");
    }
    assert_eq!(row(&outcome, "connections with a second subflow", "mptcp").ours, 100.0);
    let share = row(&outcome, SHARE, "mptcp").ours;
    // Two handshakes are one part in a hundred and more of 110 KB.
    assert!((1.0..99.0).contains(&share), "{share}");
    // A second subflow takes a round trip of the first one, and then some.
    assert!(row(&outcome, "until the request", "mptcp").ratio.is_some(), "{:?}", outcome.rows);
});

inside!(a_document_comes_through_the_real_tunnel_by_each_policy, || {
    let outcome = quick("tunnel-document");
    let share = |arm| row(&outcome, SHARE, arm).ours;
    // Probes are on either channel.
    assert!(
        share("single-fat") < 20.0 && share("single-fast") > 80.0,
        "{} {}",
        share("single-fat"),
        share("single-fast")
    );
    assert!(share("pkt-state") > share("single-fat"), "{} {}", share("pkt-state"), share("single-fat"));
    for arm in ["single-fast", "pkt-state", "value"] {
        let row = row(&outcome, "document load time", arm);
        assert!(row.metric.ends_with("mean") && row.ratio.is_some(), "{row:?}");
    }
});
