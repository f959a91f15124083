//! Small messages over TCP that do not wait behind a lost segment (paper 4; docs/decisions/0009), for programs to embed.
//!
//! A [`Session`] is one end; its [`Lane`]s say what a program promises itself of its messages. What is sent when, over which
//! of its connections, is decided by `headstart_core::realtime`; here are only the tasks that read and write. Any stream will
//! do as a connection: TCP, or TLS over it. [`blocking`] is the same without async, `ffi` for C.
#![doc = include_str!("../README.md")]
#![deny(unsafe_code)]

pub mod admission;
mod backlog;
pub mod blocking;
mod driver;
mod ending;
#[allow(unsafe_code)]
mod ffi;
pub mod keys;
mod listener;
pub mod observe;
pub mod relay;
mod scratch;
mod session;
mod shared;
mod tcp_options;
mod vigil;

pub use driver::Connection;
pub use ending::{Ending, Why};
pub use headstart_core::realtime::{Kind, MAX_MESSAGE, SendError, Sent, State, Stats, technique};
pub use listener::Listener;
pub use session::{Config, Lane, Message, Receiver, Sender, Session, SessionError};
pub use tcp_options::TcpOptions;
