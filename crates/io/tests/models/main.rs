//! The journal of changes beside a model of what it must know, in stories from proptest; `fuzz/` plays the same stories. See [`journal`].
#![forbid(unsafe_code)]

mod journal;

use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn whatever_becomes_of_a_copy_every_change_is_known(steps in proptest::collection::vec(any::<[u8; 4]>(), 1..60)) {
        journal::play(&steps);
    }
}
