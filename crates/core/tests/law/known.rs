//! What is known to be broken, by race and law: how often in ten thousand worlds. The law is held to this, and this goes down:
//! whoever mends one lowers its number.

use super::judge::Law;

/// Race, law, times in ten thousand worlds. What is behind them:
///
/// - `Reaches`: answers later than 2 s where what came first fails and the program does not wait in its connect.
/// - `InTime`: one server dead (1 s), several addresses of which one refuses and one of the other family is slow.
/// - `OneSynASecond`: the program's own connect beside an attempt of ours that it cannot be given; `simultaneous` by design.
const KNOWN: &[(&str, Law, u64)] = &[
    ("adaptive", Law::Reaches, 126),
    ("adaptive", Law::InTime, 91),
    ("adaptive", Law::OneSynASecond, 255),
    ("adaptive", Law::NoStorm, 1),
    ("adaptive", Law::Hints, 1),
    ("happy-eyeballs-v2", Law::Reaches, 130),
    ("happy-eyeballs-v2", Law::InTime, 146),
    ("happy-eyeballs-v2", Law::OneSynASecond, 310),
    ("happy-eyeballs-v2", Law::NoStorm, 1),
    ("happy-eyeballs-v2", Law::Hints, 1),
    ("happy-eyeballs-v3", Law::Reaches, 129),
    ("happy-eyeballs-v3", Law::InTime, 102),
    ("happy-eyeballs-v3", Law::OneSynASecond, 192),
    ("happy-eyeballs-v3", Law::NoStorm, 1),
    ("happy-eyeballs-v3", Law::Hints, 1),
    ("sequential", Law::Reaches, 91),
    ("sequential", Law::OneSynASecond, 234),
    ("simultaneous", Law::Reaches, 103),
    ("simultaneous", Law::InTime, 99),
    ("simultaneous", Law::OneSynASecond, 1075),
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
