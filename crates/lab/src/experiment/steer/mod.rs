//! `steer-*`: what a fast channel beside a fat one gains, by every policy of `core::steer` (paper 5).
//!
//! A browser in virtual time ([`crate::sim::Browser`]) loads pages over two channels; under each policy the same pages meet the
//! same worlds. In `ideal-…` conditions the policy sits inside the emulator, as in the paper, and costs nothing; in `tunnel-…`
//! ones packets carry a tunnel's headers, channels are probed, and both ends are those that a host would run.

mod bound;
pub mod calls;
pub mod clicks;
mod ends;
mod fitted;
mod network;
pub mod object;
pub mod pages;
mod play;
mod real;
mod rows;
mod steps;
pub mod sweep;
#[cfg(test)]
mod tests;
pub mod throughput;

/// The baseline of every row.
const FAT: &str = "single-fat";
/// The other channel alone.
const FAST: &str = "single-fast";
/// The paper's best.
const STATE: &str = "pkt-state";
/// Ours.
const OURS: &str = headstart_core::steer::policy::DEFAULT;
/// The bound, and not a policy: see [`bound`].
const BOUND: &str = "pooled";
/// What is measured.
const METRIC: &str = "page load time";

const METHOD: [&str; 6] = [
    "A browser in virtual time asks for each object when what it waits for is there; TLS 1.3, CUBIC from ten segments, everything \
     shares the two channels. Queues of the channels are endless, as Mahimahi's are. A policy decides each packet at the host \
     (up) and at the other end of the channels (down).",
    "`ideal`: the policy is inside the emulator, as in the paper, and knows rates, delays and losses; no byte is added. The paper's \
     rules run as they were published: no queue of their own, nothing put back in order. `value` runs with all that it has: \
     paced fast channel, newer acknowledgements in the place of older ones, order kept at the other end.",
    "`tunnel`: each packet carries 68 bytes more (IPv4, UDP, WireGuard, eight of our own), the inner MTU is 1412, headers of TCP \
     are compressed on the fast channel (by as many bytes as the codec saves, measured in its test), order is kept whatever the \
     policy, and delays and losses, which are told at first, are measured by probes that take part. `single-fat` carries the same headers: what is compared is the \
     policy. The tunnel's own handshake is not in it.",
    "Under a policy by objects each object's connection is bound to its channel, as a proxy would do it: hosts have six \
     connections on either.",
    "`pooled` is what no steering can beat: one channel with the rates of both together and the shorter of their delays, which loses \
     nothing, varies by nothing and carries no header of a tunnel. No host has it; what is between it and an arm is the most that is \
     left undone, and what full packets of responses take over the fat channel is a part of it.",
    "A value is the mean of a page over its worlds. `saved` is the mean over pages of what each saves, in percent. A page is \
     slower if it takes more than 1 % longer than over the fat channel alone.",
];
