//! Any bytes are a super-packet that is cut, or none; what was cut is joined to the very bytes.
#![no_main]

use headstart_core::wire::ip::segments::{Cut, Join, Next};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (Vec<u8>, usize)| {
    let (packet, size) = input;
    let Some(plan) = Cut::plan(&packet, size) else { return };
    let (mut segment, mut open) = (Vec::new(), None::<Join>);
    for n in 0..plan.count() {
        plan.write(n, &mut segment);
        if open.as_mut().is_some_and(|open| open.join(&segment) == Next::Joined) {
            continue;
        }
        if let Some(joined) = open.take() {
            assert!(joined.end().0.len() <= packet.len());
        }
        open = Join::begin(segment.clone()).ok();
    }
});
