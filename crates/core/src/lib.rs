//! The floor that decides: every decision of headstart, as pure state machines.
//!
//! Nothing here does input or output, reads a clock, starts a thread or draws a random number that it was not seeded
//! for. Time, answers, results and seeds come in as arguments; what to send and when to wake comes out, so the
//! simulator, the namespaces of the lab and the supervisor on a real host run exactly the same decisions.
//!
//! Columns: [`connect`], [`cwnd`], `forward`, [`realtime`], [`steer`]; none imports another. Of no column, and for each:
//! [`path`] (knowledge of a network, a family, a peer), [`wire`] (bytes to meaning and back, without state),
//! [`machine`], [`lookout`], [`time`], [`timing`] and [`choice`] (messages about unknown names).
#![forbid(unsafe_code)]

pub mod choice;
pub mod connect;
pub mod cwnd;
#[cfg(feature = "dns")]
pub mod forward;
pub mod lookout;
pub mod machine;
pub mod path;
pub mod realtime;
pub mod steer;
pub mod time;
pub mod timing;
pub mod wire;
