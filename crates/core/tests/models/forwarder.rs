//! A stream through the forwarder as a model: a program's TCP that is played by the rules, a peer's socket, packets that are lost, doubled and
//! overtaken between. See [`story`].

mod story;

use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn what_one_side_says_the_other_hears_whatever_becomes_of_packets(steps in crate::stories(200)) {
        story::play(&steps);
    }
}
