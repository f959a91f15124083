//! `headstart run`, end to end: the built command, unmodified programs, the kernel's own TCP, in the lab's namespaces.
//!
//! What needs a network runs inside (see [`lab`]); the rest runs where the tests run. Everything a program does through
//! headstart is compared with what it does without. Nothing is sent outside namespaces made here, and no upper bound of
//! a time is tested but where the program alone would take many times as long.
#![forbid(unsafe_code)]

mod ahead;
#[path = "../attack/mod.rs"]
mod attack;
mod content;
mod coverage;
mod descriptors;
mod endings;
mod exchanged;
mod explain;
mod ftp;
mod history;
mod holders;
mod hostile;
mod inbound;
mod inbound_datagrams;
mod inertness;
mod interposition;
mod kernel;
mod lab;
mod large;
mod late;
mod measure;
mod measured;
mod names;
mod one_supervisor;
mod phone;
mod processes;
#[path = "../verbs/schema.rs"]
mod schema;
mod seen;
mod seen_many;
mod seen_page;
mod seen_paint;
mod seen_screens;
mod sessions;
mod side_by_side;
mod small;
mod soak;
mod stub;
mod supervisor_gone;
mod system_calls;
mod telemetry;
mod unnoticed;
mod written;
