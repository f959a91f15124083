//! Small messages over TCP that do not wait behind a lost segment (paper 4).
//!
//! [`Messenger`] is the mechanism: one end of a session, over one or several connections that its caller opens.
//! [`technique::Technique`] is the policy, [`technique::ALL`] the registry: the paper's three methods and their combinations
//! as they were published, and ours. [`bundle`] is apart from these: it changes the packets of programs that know nothing of
//! it. When to send what on which connection is decided here; nothing here sends.

pub mod access;
pub mod bundle;
pub mod frame;
mod gauge;
mod inbox;
pub mod lane;
mod messenger;
mod outgoing;
pub mod preface;
pub mod state;
pub mod technique;

pub use frame::{FrameError, Hello, MAX_MESSAGE, SessionId};
pub use inbox::Delivered;
pub use lane::{Kind, LaneId, MAX_LANES, WINDOW};
pub use messenger::{Connection, Input, MAX_CONNECTIONS, Messenger, Output, SendError, Sent, Settings, Stats};
pub use state::State;
