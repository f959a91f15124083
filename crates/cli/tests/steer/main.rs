//! A tunnel over two channels between namespaces: the host's end by `headstart up --steer`, the network's by `headstart
//! gateway`, curl, Chromium, iperf3 and a call through it, and channels that are pulled; and the proxy that picks a channel for each object.

#[path = "../attack/mod.rs"]
mod attack;
mod hostile;
mod keys;
mod page;
mod programs;
mod proxy;
mod scene;
#[path = "../verbs/schema.rs"]
mod schema;
mod tunnel;
