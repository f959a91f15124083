//! The resequencer as a model: flows over two channels that lose packets and keep their order, copies, another end that begins anew.
//! See [`story`].

mod story;

use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn a_packet_is_held_exactly_as_long_as_one_before_it_may_still_come(steps in crate::stories(200)) {
        story::play(&steps);
    }
}
