//! Every setting, column by column. A new one is one entry here and one line in [`ALL`].

use super::setting::{Kind, Setting};
use headstart_core::connect::race;

/// The race of connections.
pub static RACE: Setting = Setting {
    key: "connect.race",
    kind: Kind::Choice(races),
    default: race::DEFAULT,
    what: "The race that orders lookups and connections (`headstart list races`).",
    source: "docs/decisions/0004",
};

/// How long answers are kept.
pub static CACHE_LIFETIME: Setting = Setting {
    key: "connect.cache-lifetime",
    kind: Kind::Text(|text| crate::run::lifetime(text).map(drop)),
    default: "ttl",
    what: "How long DNS answers are kept: \"ttl\", \"off\", or seconds such as \"3600s\" (paper 1).",
    source: "RFC 1035, section 3.2.1: an answer holds for its TTL",
};

/// Share of races that learn.
pub static EXPLORE: Setting = Setting {
    key: "connect.explore",
    kind: Kind::Share,
    default: "0.05",
    what: "Share of races that also try the family they would not need, to learn how fast it is.",
    source: "docs/decisions/0004",
};

/// How programs are reached.
pub static VIA: Setting = Setting {
    key: "connect.via",
    kind: Kind::Choice(|| vec!["auto", "preload", "seccomp"]),
    default: "auto",
    what: "How a program is reached: by a preloaded library, by its system calls (seccomp), or both (auto).",
    source: "docs/decisions/0003 and 0006",
};

/// How long the supervisor stays.
pub static LINGER: Setting = Setting {
    key: "connect.linger",
    kind: Kind::Whole { least: 0, most: 31_536_000 },
    default: "600",
    what: "How long a user's supervisor stays after the last run, in seconds.",
    source: "docs/decisions/0007: most answers hold no longer",
};

/// Whether initial windows are learned.
pub static INITCWND: Setting = Setting {
    key: "cwnd.initcwnd",
    kind: Kind::Flag,
    default: "false",
    what: "`headstart up` gives routes to known peers an initial window learned from past TCP connections.",
    source: "off: a larger first flight may hurt others on a small link",
};

/// The largest initial window.
pub static INITCWND_MOST: Setting = Setting {
    key: "cwnd.initcwnd-most",
    kind: Kind::Whole { least: 10, most: 200 },
    default: "32",
    what: "The largest initial window that is given, in segments (10 is the kernel's own: RFC 6928).",
    source: "ours; 200 is the bound of paper 2's window",
};

/// The share of the remembered window.
pub static INITCWND_SHARE: Setting = Setting {
    key: "cwnd.initcwnd-share",
    kind: Kind::Share,
    default: "0.5",
    what: "Which share of the remembered window a connection starts with.",
    source: "RFC 9959 (careful resume): at most half of the saved window",
};

/// The oldest memory that counts.
pub static INITCWND_AGE: Setting = Setting {
    key: "cwnd.initcwnd-age",
    kind: Kind::Whole { least: 1, most: 86_400 },
    default: "3600",
    what: "The oldest memory of a path that counts, in seconds.",
    source: "RFC 9040, section 6: shared state must age; an hour is ours",
};

/// The most routes.
pub static INITCWND_PEERS: Setting = Setting {
    key: "cwnd.initcwnd-peers",
    kind: Kind::Whole { least: 1, most: 4096 },
    default: "256",
    what: "The most peers that are given a window at once; those used last come first.",
    source: "ours: a table that a person can read",
};

/// How often windows are learned anew.
pub static INITCWND_REFRESH: Setting = Setting {
    key: "cwnd.initcwnd-refresh",
    kind: Kind::Whole { least: 1, most: 86_400 },
    default: "60",
    what: "How often the kernel is asked anew, in seconds.",
    source: "ours: one wake-up a minute",
};

/// Whether small segments are bundled.
pub static BUNDLE: Setting = Setting {
    key: "realtime.bundle",
    kind: Kind::Flag,
    default: "false",
    what: "`headstart up` has small TCP segments carry the one or two before them again while these are not acknowledged.",
    source: "off: it hides losses from congestion control (docs/decisions/0014)",
};

/// The file of the tunnel.
pub static TUNNEL: Setting = Setting {
    key: "steer.tunnel",
    kind: Kind::Text(|_| Ok(())),
    default: "",
    what: "The file of the tunnel over two channels that `headstart up` opens (none if empty); as with --steer.",
    source: "off: a tunnel needs a gateway (docs/guide/steering.md)",
};

/// Which columns are on.
pub static PROFILE: Setting = Setting {
    key: "host.profile",
    kind: Kind::Choice(|| vec![SEPARATE, ALL_COLUMNS]),
    default: SEPARATE,
    what: "Which columns `headstart up` switches on: each by its own setting (separate), or all that work here (all).",
    source: "docs/decisions/0023",
};

/// Each column by its own setting.
pub const SEPARATE: &str = "separate";
/// Every column, but for what a setting says otherwise.
pub const ALL_COLUMNS: &str = "all";

/// Our routing table.
pub static TABLE: Setting = Setting {
    key: "host.table",
    kind: Kind::Whole { least: 1, most: 4_294_967_295 },
    default: "18515",
    what: "The number of headstart's routing table. Nobody else's routes may be in it.",
    source: "ours: 0x4853, \"HS\"",
};

/// Our rules' priority.
pub static PRIORITY: Setting = Setting {
    key: "host.rule-priority",
    kind: Kind::Whole { least: 1, most: 32_765 },
    default: "32765",
    what: "The priority of headstart's first routing rule; rules of later columns take the nine before it.",
    source: "docs/decisions/0010: right before the main table, so that everybody else's rules come first",
};

/// Who may ask the daemon.
pub static GROUP: Setting = Setting {
    key: "host.group",
    kind: Kind::Text(group),
    default: "",
    what: "A group whose members may ask the daemon for its status (none if empty). Only its owner and root may stop it.",
    source: "ours",
};

/// All of them, in the order of the file.
pub const ALL: &[&Setting] = &[
    &RACE,
    &CACHE_LIFETIME,
    &EXPLORE,
    &VIA,
    &LINGER,
    &INITCWND,
    &INITCWND_MOST,
    &INITCWND_SHARE,
    &INITCWND_AGE,
    &INITCWND_PEERS,
    &INITCWND_REFRESH,
    &BUNDLE,
    &TUNNEL,
    &PROFILE,
    &TABLE,
    &PRIORITY,
    &GROUP,
];

fn races() -> Vec<&'static str> {
    race::ALL.iter().filter(|entry| !entry.lab_only).map(|entry| entry.name).collect()
}

/// Whether a group could have this name (useradd(8)); whether it does is only known where it is used.
fn group(name: &str) -> Result<(), String> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    if name.chars().all(allowed) { Ok(()) } else { Err(format!("{name:?} is no name of a group")) }
}
