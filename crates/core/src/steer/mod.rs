//! A fat channel and a fast channel together: which of the two a packet takes (paper 5; docs/decisions/0017).
//!
//! [`Steerer`] is the mechanism, one at each end and for one direction: packets in, packets with their channel out.
//! [`policy::Policy`] is the policy, [`policy::ALL`] the registry: one channel alone, the paper's rules as it has them, and
//! ours. [`Resequencer`] is the other end's half: no packet overtakes another of its flow. [`End`] joins both in one end of a tunnel:
//! what may pass, in which frames, within which caps. [`frame`] and [`compress`] are what stands before a packet in a tunnel;
//! [`packet`] is what is read of one. What never happens here: a packet is sent, a clock is read.
//!
//! *Channel*, *fat* and *fast* as in the architecture: fat has the bandwidth (eMBB), fast the low latency (URLLC).

pub mod apart;
pub mod cap;
pub mod channel;
pub mod compress;
pub mod end;
mod flow;
pub mod frame;
mod loss;
pub mod object;
mod outlet;
pub mod packet;
pub mod policy;
mod prefix;
mod probe;
mod queue;
mod rescue;
mod resequencer;
mod steerer;
mod tally;

pub use cap::{Cap, Use};
pub use channel::{Channel, ChannelSettings};
pub use end::End;
pub use flow::Flow;
pub use outlet::{Apart, Order, Output};
pub use packet::{Facts, FlowKey, Kind};
pub use prefix::Prefix;
pub use probe::ProbeSettings;
pub use resequencer::{Arrived, Held, Resequencer};
pub use steerer::{Input, Settings, Steerer};
pub use tally::{Reason, Tally};
