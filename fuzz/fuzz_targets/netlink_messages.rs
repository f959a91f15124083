//! Any bytes are a route, a rule, a memory of a connection, or an error; routes and rules survive being written, unknown parts
//! included, and a route that is narrowed says what it was asked to say.
#![no_main]

use headstart_core::wire::netlink::{Route, Rule};
use headstart_core::wire::tcp_metrics::{Remembered, family_id};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = (Remembered::decode(bytes), family_id(bytes));
    if let Ok(route) = Route::decode(bytes) {
        assert_eq!(Route::decode(&route.encode()), Ok(route.clone()), "a route reads back as another");
        let narrow = route.narrowed([192, 0, 2, 1].into(), 18515, 72, 20);
        assert_eq!((narrow.table(), narrow.initcwnd()), (18515, Some(20)));
    }
    if let Ok(rule) = Rule::decode(bytes) {
        assert_eq!(Rule::decode(&rule.encode()), Ok(rule), "a rule reads back as another");
    }
});
