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
    "A browser in virtual time requests each object when its dependencies have loaded; TLS 1.3, CUBIC from ten segments, \
     everything shares the two channels. Queues of the channels are endless, as Mahimahi's are. A policy decides each packet at \
     the host (up) and at the other end of the channels (down).",
    "`ideal`: the policy is inside the emulator, as in the paper, and knows rates, delays and losses; no byte is added. The \
     paper's rules run as published: without a queue of their own and without reordering. `value` runs with all its parts: paced \
     fast channel, newer acknowledgements in the place of older ones, order kept at the other end.",
    "`tunnel`: each packet carries 68 bytes more (IPv4, UDP, WireGuard, eight of headstart's), the inner MTU is 1412, headers of \
     TCP are compressed on the fast channel (by as many bytes as the codec saves, measured in its test), order is kept whatever \
     the policy, and delays and losses, configured at first, are measured by probes, which count too. `single-fat` carries the \
     same headers, so only policies are compared. The tunnel's own handshake does not count.",
    "Under a policy by objects each object's connection is bound to its channel, as by a proxy: hosts have six connections on each.",
    "`pooled` is a bound that no steering can beat: one channel with the sum of both rates and the shorter delay, without loss, \
     jitter or tunnel headers. No host has it; the difference between it and an arm is the most that could still be gained, and \
     includes the time of full response packets over the fat channel.",
    "A value is the mean of a page over its worlds. `saved` is the mean over pages of what each saves, in percent. A page is \
     slower if it takes more than 1 % longer than over the fat channel alone.",
];
