//! Clients of `headstart serve` that do anything, in stories from proptest; `fuzz/` plays the same stories. See [`http`] and [`http3`].
#![forbid(unsafe_code)]

mod http;
mod http3;

use proptest::prelude::*;

fn steps(most: usize) -> impl Strategy<Value = Vec<[u8; 4]>> {
    proptest::collection::vec(any::<[u8; 4]>(), 1..most)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn answers_over_http1_are_whole_and_in_order_and_nothing_is_held_behind_them(steps in steps(60)) {
        http::http1::story(&steps);
    }

    #[test]
    fn answers_over_http2_keep_to_their_credit_and_nothing_is_held_behind_them(steps in steps(120)) {
        http::http2::story(&steps);
    }

    #[test]
    fn streams_over_http3_are_taken_in_within_bounds(steps in steps(120)) {
        http3::story(&steps);
    }
}
