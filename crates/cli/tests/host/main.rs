//! `headstart up` and the way back, end to end: the built command, the kernel's own routes, rules, tables and values, in
//! namespaces that the test makes. Whatever happens to the daemon, the host is afterwards as it was before, byte for byte.
#![forbid(unsafe_code)]

#[path = "../attack/mod.rs"]
mod attack;
mod bad_input;
mod bundle;
mod columns;
mod hostile;
mod initcwnd;
mod kernel;
mod loops;
mod measure;
mod others;
mod page;
mod page_view;
mod record;
mod scene;
#[path = "../verbs/schema.rs"]
mod schema;
mod torture;
mod unit;
