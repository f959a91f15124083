//! What is known to be broken, by race and law: how often in ten thousand worlds. The law is held to this, and this goes down:
//! whoever mends one lowers its number.

use super::judge::Law;

/// Race, law, times in ten thousand worlds. What is behind them:
///
/// - `Reaches`: answers later than 2 s where what came first fails and the program does not wait in its connect.
/// - `InTime`: one server dead (1 s), several addresses of which one refuses and one of the other family is slow.
/// - Since decision 0067 (2026-11-24) a few more of each: a socket is given another family after 7 s of silence and not after 1.5, and a
///   second server is asked sooner, whose word may be another.
/// - `OneSynASecond`: the program's own connect beside an attempt of ours that it cannot be given; `simultaneous` by design.
const KNOWN: &[(&str, Law, u64)] = &[
    ("adaptive", Law::Reaches, 133),
    ("adaptive", Law::InTime, 98),
    ("adaptive", Law::OneSynASecond, 280),
    ("adaptive", Law::NoStorm, 2),
    ("adaptive", Law::Hints, 1),
    ("happy-eyeballs-v2", Law::Reaches, 137),
    ("happy-eyeballs-v2", Law::InTime, 153),
    ("happy-eyeballs-v2", Law::OneSynASecond, 335),
    ("happy-eyeballs-v2", Law::NoStorm, 3),
    ("happy-eyeballs-v2", Law::Hints, 1),
    ("happy-eyeballs-v3", Law::Reaches, 141),
    ("happy-eyeballs-v3", Law::InTime, 115),
    ("happy-eyeballs-v3", Law::OneSynASecond, 212),
    ("happy-eyeballs-v3", Law::NoStorm, 3),
    ("happy-eyeballs-v3", Law::Hints, 1),
    ("sequential", Law::Reaches, 109),
    ("sequential", Law::OneSynASecond, 246),
    ("simultaneous", Law::Reaches, 113),
    ("simultaneous", Law::InTime, 102),
    ("simultaneous", Law::OneSynASecond, 1126),
    ("simultaneous", Law::NoStorm, 4),
];

/// How often `race` may break `law` in so many worlds. In a few worlds, such as one that is played again, not at all.
pub fn allowed(race: &str, law: Law, worlds: u64) -> u64 {
    let known = KNOWN.iter().find(|(name, of, _)| *name == race && *of == law).map_or(0, |(.., times)| *times);
    let expected = known * worlds / super::WORLDS;
    // Other seeds have other luck: four standard deviations.
    let luck = if worlds == super::WORLDS { 0 } else { 4 * expected.isqrt() };
    expected + luck
}
