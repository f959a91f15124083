//! What is known to be broken, by race and law: how often in ten thousand worlds. The law is held to this, and this goes down:
//! whoever mends one lowers its number.

use super::judge::Law;

/// Race, law, times in ten thousand worlds. What is behind them:
///
/// - `Reaches`: servers that say different things of a name, where the C library happens to believe the better one; programs with
///   250 ms for all addresses but the last, whose only good one is slower and not the last any more.
/// - `InTime`: a program that is told more than bare chooses a slower address (Java: IPv4); what a move lengthens.
/// - `OneSynASecond`: a third is Java's first visit, whose IPv4 sockets are not known yet to be of AF_INET6; the rest are programs that go to an address
///   by a socket of the other kind than was opened for them, or to one whose refusal of a guessed port was just seen. `simultaneous` by design.
const KNOWN: &[(&str, Law, u64)] = &[
    ("adaptive", Law::Reaches, 56),
    ("adaptive", Law::InTime, 25),
    ("adaptive", Law::OneSynASecond, 319),
    ("adaptive", Law::NoStorm, 1),
    ("adaptive", Law::Hints, 1),
    ("happy-eyeballs-v2", Law::Reaches, 55),
    ("happy-eyeballs-v2", Law::InTime, 87),
    ("happy-eyeballs-v2", Law::OneSynASecond, 384),
    ("happy-eyeballs-v2", Law::NoStorm, 1),
    ("happy-eyeballs-v2", Law::Hints, 1),
    ("happy-eyeballs-v3", Law::Reaches, 56),
    ("happy-eyeballs-v3", Law::InTime, 67),
    ("happy-eyeballs-v3", Law::OneSynASecond, 316),
    ("happy-eyeballs-v3", Law::NoStorm, 1),
    ("happy-eyeballs-v3", Law::Hints, 1),
    ("sequential", Law::Reaches, 67),
    ("sequential", Law::OneSynASecond, 172),
    ("simultaneous", Law::Reaches, 53),
    ("simultaneous", Law::InTime, 67),
    ("simultaneous", Law::OneSynASecond, 923),
    ("simultaneous", Law::NoStorm, 1),
];

/// How often `race` may break `law` in so many worlds. In a few worlds, such as one that is played again, not at all.
pub fn allowed(race: &str, law: Law, worlds: u64) -> u64 {
    let known = KNOWN.iter().find(|(name, of, _)| *name == race && *of == law).map_or(0, |(.., times)| *times);
    let expected = known * worlds / super::WORLDS;
    // Other seeds have other luck: four standard deviations.
    let luck = if worlds == super::WORLDS { 0 } else { 4 * expected.isqrt() };
    expected + luck
}
