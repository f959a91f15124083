//! What is known to be broken, by race and law: how often in ten thousand worlds. The law is held to this, and this goes down:
//! whoever mends one lowers its number.

use super::judge::Law;

/// Race, law, times in ten thousand worlds. What is behind them:
///
/// - `Reaches`: late answers (a program that was told one family alone fails with it), lookups given up after 5 s where the C
///   library waits longer, questions to several servers at once (musl), addresses tried from a socket that the claim cannot use.
/// - `InTime`: the first server dead (1 s), several addresses of which one refuses and one of the other family is slow, programs
///   that begin with IPv4 where an attempt to IPv6 is under way already.
/// - `OneSynASecond`: the program's own connect beside an attempt of ours that it cannot be given; `simultaneous` by design.
/// - `NoStorm`: every connect that fails begins a race over all addresses.
const KNOWN: &[(&str, Law, u64)] = &[
    ("adaptive", Law::Reaches, 547),
    ("adaptive", Law::InTime, 353),
    ("adaptive", Law::OneSynASecond, 449),
    ("adaptive", Law::NoStorm, 54),
    ("adaptive", Law::Hints, 1),
    ("happy-eyeballs-v2", Law::Reaches, 546),
    ("happy-eyeballs-v2", Law::InTime, 392),
    ("happy-eyeballs-v2", Law::OneSynASecond, 346),
    ("happy-eyeballs-v2", Law::NoStorm, 54),
    ("happy-eyeballs-v2", Law::Hints, 1),
    ("happy-eyeballs-v3", Law::Reaches, 544),
    ("happy-eyeballs-v3", Law::InTime, 371),
    ("happy-eyeballs-v3", Law::OneSynASecond, 243),
    ("happy-eyeballs-v3", Law::NoStorm, 54),
    ("happy-eyeballs-v3", Law::Hints, 1),
    ("sequential", Law::Reaches, 356),
    ("sequential", Law::OneSynASecond, 460),
    ("sequential", Law::NoStorm, 62),
    ("simultaneous", Law::Reaches, 365),
    ("simultaneous", Law::InTime, 269),
    ("simultaneous", Law::OneSynASecond, 1365),
    ("simultaneous", Law::NoStorm, 60),
];

/// How often `race` may break `law` in so many worlds. In a few worlds, such as one that is played again, not at all.
pub fn allowed(race: &str, law: Law, worlds: u64) -> u64 {
    let known = KNOWN.iter().find(|(name, of, _)| *name == race && *of == law).map_or(0, |(.., times)| *times);
    let expected = known * worlds / super::WORLDS;
    // Other seeds have other luck: four standard deviations.
    let luck = if worlds == super::WORLDS { 0 } else { 4 * expected.isqrt() };
    expected + luck
}
