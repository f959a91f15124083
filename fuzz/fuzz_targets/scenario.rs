//! Any text as a scenario: it is read or refused with a line, and what is read has ways for all its flows.
#![no_main]

use headstart_lab::scenario::{Scenario, routes::Routes};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    match Scenario::read("fuzz", text, &mut |name| Err(format!("no file {name}"))) {
        Ok(scenario) => {
            let routes = Routes::of(&scenario).expect("routes of what was read");
            for flow in &scenario.flows {
                routes.ends(&scenario, flow).expect("a way for every flow");
            }
        }
        Err(e) => assert!(e.line >= 1 && !e.reason.is_empty()),
    }
});
