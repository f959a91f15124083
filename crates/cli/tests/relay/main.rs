//! `headstart relay` and `headstart realtime`, end to end: the built command, unmodified programs, the kernel's own TCP; what
//! needs a network is in the lab's namespaces. Nothing here is about speed.
#![forbid(unsafe_code)]

#[path = "../attack/mod.rs"]
mod attack;
mod bad_input;
mod hostile;
mod many;
mod messages;
mod programs;
mod scene;
#[path = "../verbs/schema.rs"]
mod schema;
