//! Small messages over TCP that do not wait behind a lost segment (paper 4; docs/decisions/0009), for programs to embed.
//!
//! A [`Session`] is one end; its [`Lane`]s say what a program promises itself of its messages. What is sent when, over which
//! of its connections, is decided by `headstart_core::realtime`; here are only the tasks that read and write. Any stream will
//! do as a connection: TCP, or TLS over it. [`blocking`] is the same without async, `ffi` for C.
#![doc = include_str!("../README.md")]
#![deny(unsafe_code)]

mod backlog;
pub mod blocking;
pub mod doorstep;
mod driver;
mod ending;
#[allow(unsafe_code)]
mod ffi;
pub mod keys;
mod knobs;
mod listener;
pub mod relay;
mod scratch;
mod session;
mod shared;

pub use ending::{Ending, Why};
pub use headstart_core::realtime::{Kind, MAX_MESSAGE, SendError, Sent, State, Stats, technique};
pub use knobs::Knobs;
pub use listener::Listener;
pub use session::{Config, Connection, Lane, Message, Receiver, Sender, Session, SessionError};
