//! A session as a model: two ends, connections that are lost with what was on them, and programs that take what has come when they
//! like. Whatever the story, once there is a connection again each message of an `Event` or `Ordered` lane has been handed out once,
//! those of an `Ordered` lane in their order, of a `Latest` lane the newest value of each key, and what is kept stays within its bounds.

mod story;

use headstart_core::realtime::Kind;
use headstart_core::realtime::technique::ALL;
use proptest::prelude::*;
use story::{MOST, READ, Session, Step};

fn step() -> impl Strategy<Value = Step> {
    let kind = proptest::sample::select(Kind::ALL.to_vec());
    let send = (0usize..2, kind, 0u64..3, 0..MOST).prop_map(|(end, kind, key, len)| Step::Send(end, kind, key, len));
    let pass = prop_oneof![8 => 0u64..60, 1 => 0u64..3000].prop_map(Step::Pass);
    let carry = (0usize..2, any::<usize>(), 1..READ).prop_map(|(end, nth, most)| Step::Carry(end, nth, most));
    prop_oneof![
        8 => send,
        6 => pass,
        3 => (0usize..2).prop_map(Step::Take),
        2 => Just(Step::Open),
        1 => any::<usize>().prop_map(Step::Lose),
        1 => (0usize..2).prop_map(Step::Restart),
        12 => carry,
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn nothing_is_lost_and_order_is_kept_whatever_happens_to_connections(steps in proptest::collection::vec(step(), 1..150)) {
        let names = ALL.iter().map(|entry| entry.name.replace("-P", "-50"));
        for technique in names.chain(["reduction-50+trigger+echo".to_owned()]) {
            let mut session = Session::new(&technique);
            steps.iter().for_each(|step| session.step(step));
            session.finish();
            session.keeps_its_promises();
        }
    }

    /// The steps of the fuzz target.
    #[test]
    fn nor_in_a_story_that_is_written_in_bytes(steps in crate::stories(300)) {
        let mut session = Session::new("auto");
        steps.iter().for_each(|step| session.step(&Step::of(*step)));
        session.finish();
        session.keeps_its_promises();
    }
}
