//! Every setting, column by column. A new one is one entry here and one line in [`ALL`].

use super::setting::{Setting, SettingType};
use headstart_core::connect::cache::Lifetime;
use headstart_core::connect::race;

/// Whether `run` prints no summary line.
pub static QUIET: Setting = Setting {
    key: "run.quiet",
    kind: SettingType::Flag,
    default: "false",
    what: "Do not print the summary line of `headstart run`; as with --quiet and HEADSTART_QUIET=1.",
    source: "our choice",
};

/// The race of connections.
pub static RACE: Setting = Setting {
    key: "connect.race",
    kind: SettingType::Choice(races),
    default: race::DEFAULT,
    what: "Strategy for ordering DNS lookups and connection attempts (`headstart list races`).",
    source: "docs/decisions/0004",
};

/// How long answers are kept.
pub static CACHE_LIFETIME: Setting = Setting {
    key: "connect.cache-lifetime",
    kind: SettingType::Text(|text| Lifetime::parse(text).map(drop).map_err(Into::into)),
    default: "ttl",
    what: "How long DNS answers are cached: \"ttl\", \"off\", or seconds such as \"3600s\" (paper 1).",
    source: "RFC 1035, section 3.2.1: an answer is valid for its TTL",
};

/// Share of races that learn.
pub static EXPLORE: Setting = Setting {
    key: "connect.explore",
    kind: SettingType::Share,
    default: "0.05",
    what: "Share of connections that also try the other address family, to learn how fast it is.",
    source: "docs/decisions/0004",
};

/// How programs are reached.
pub static VIA: Setting = Setting {
    key: "connect.via",
    kind: SettingType::Choice(|| vec!["auto", "preload", "seccomp"]),
    default: "auto",
    what: "How headstart hooks into a program: a preloaded library, system calls (seccomp), or both (auto).",
    source: "docs/decisions/0003 and 0006",
};

/// How long the supervisor stays.
pub static LINGER: Setting = Setting {
    key: "connect.linger",
    kind: SettingType::Whole { least: 0, most: 31_536_000 },
    default: "600",
    what: "How long the supervisor keeps running after the last run, in seconds.",
    source: "docs/decisions/0007: most DNS answers expire sooner",
};

/// Whether initial windows are learned.
pub static INITCWND: Setting = Setting {
    key: "cwnd.initcwnd",
    kind: SettingType::Flag,
    default: "false",
    what: "`headstart up` sets the initial congestion window of known peers from past TCP connections.",
    source: "off: a larger first flight may hurt other traffic on a small link",
};

/// Who sets initial windows.
pub static INITCWND_VIA: Setting = Setting {
    key: "cwnd.initcwnd-via",
    kind: SettingType::Choice(|| vec!["routes", "ebpf"]),
    default: "routes",
    what: "What sets initial windows: a route for each peer, or one program in the kernel (eBPF) that also uses the prefix of a peer, \
           sees each connection's round trip, halves after a loss, and repeats lost SYNs sooner.",
    source: "docs/decisions/0103: routes need no more than CAP_NET_ADMIN",
};

/// The largest initial window.
pub static INITCWND_MOST: Setting = Setting {
    key: "cwnd.initcwnd-most",
    kind: SettingType::Whole { least: 10, most: 200 },
    default: "32",
    what: "Largest initial window to set, in segments (the kernel default is 10: RFC 6928).",
    source: "our choice; 200 is the limit in paper 2",
};

/// The share of the remembered window.
pub static INITCWND_SHARE: Setting = Setting {
    key: "cwnd.initcwnd-share",
    kind: SettingType::Share,
    default: "0.5",
    what: "Share of the saved window that a new connection starts with.",
    source: "RFC 9959 (careful resume): at most half of the saved window",
};

/// The oldest memory that counts.
pub static INITCWND_AGE: Setting = Setting {
    key: "cwnd.initcwnd-age",
    kind: SettingType::Whole { least: 1, most: 86_400 },
    default: "3600",
    what: "Maximum age of a saved window, in seconds.",
    source: "RFC 9040, section 6: shared state must age; one hour is our choice",
};

/// The most routes.
pub static INITCWND_PEERS: Setting = Setting {
    key: "cwnd.initcwnd-peers",
    kind: SettingType::Whole { least: 1, most: 4096 },
    default: "256",
    what: "Maximum number of peers with a saved window; the most recently used come first.",
    source: "our choice: a routing table that stays readable",
};

/// How often windows are learned anew.
pub static INITCWND_REFRESH: Setting = Setting {
    key: "cwnd.initcwnd-refresh",
    kind: SettingType::Whole { least: 1, most: 86_400 },
    default: "60",
    what: "How often to read new windows from the kernel, in seconds.",
    source: "our choice: one wake-up a minute",
};

/// Whether small segments are bundled.
pub static BUNDLE: Setting = Setting {
    key: "realtime.bundle",
    kind: SettingType::Flag,
    default: "false",
    what: "`headstart up` lets small TCP segments repeat the one or two unacknowledged segments before them.",
    source: "off: it hides losses from congestion control (docs/decisions/0014)",
};

/// The file of the tunnel.
pub static TUNNEL: Setting = Setting {
    key: "steer.tunnel",
    kind: SettingType::Text(|_| Ok(())),
    default: "",
    what: "Tunnel file for `headstart up --steer`; empty for no tunnel.",
    source: "off: a tunnel needs a gateway (docs/guide/steering.md)",
};

/// Which columns are on.
pub static PROFILE: Setting = Setting {
    key: "host.profile",
    kind: SettingType::Choice(|| vec![SEPARATE, ALL_COLUMNS]),
    default: SEPARATE,
    what: "What `headstart up` enables: each feature by its own setting (separate), or all that work on this host (all).",
    source: "docs/decisions/0023",
};

/// Each column by its own setting.
pub const SEPARATE: &str = "separate";
/// Every column, but for what a setting says otherwise.
pub const ALL_COLUMNS: &str = "all";

/// Our routing table.
pub static TABLE: Setting = Setting {
    key: "host.table",
    kind: SettingType::Whole { least: 1, most: 4_294_967_295 },
    default: "18515",
    what: "Number of headstart's routing table. No other program may use this table.",
    source: "our choice: 0x4853, \"HS\"",
};

/// Our rules' priority.
pub static PRIORITY: Setting = Setting {
    key: "host.rule-priority",
    kind: SettingType::Whole { least: 1, most: 32_765 },
    default: "32765",
    what: "Priority of headstart's first routing rule; its other rules use the nine priorities before it.",
    source: "docs/decisions/0010: just before the main table, so that all other rules come first",
};

/// The group that may ask the daemon.
pub static GROUP: Setting = Setting {
    key: "host.group",
    kind: SettingType::Text(group),
    default: "",
    what: "Group whose members may read the daemon's status and all that it measures; empty for none. Only its owner and root may stop it.",
    source: "our choice",
};

/// Where telemetry is written.
pub static TELEMETRY_FOLDER: Setting = Setting {
    key: "telemetry.folder",
    kind: SettingType::Text(|_| Ok(())),
    default: "",
    what: "Folder for telemetry (JSON Lines), to be collected by other programs; empty for none. Nothing is sent by headstart.",
    source: "off: what programs do is their user's business (docs/decisions/0101)",
};

/// The key of hashed names.
pub static TELEMETRY_KEY_FILE: Setting = Setting {
    key: "telemetry.key-file",
    kind: SettingType::Text(|_| Ok(())),
    default: "",
    what: "File with the key for hashing names (32 hexadecimal digits), the same on all hosts of a site; empty for a key of this host.",
    source: "our choice",
};

/// Whether telemetry has names.
pub static TELEMETRY_NAMES: Setting = Setting {
    key: "telemetry.names",
    kind: SettingType::Flag,
    default: "false",
    what: "Telemetry has the names of programs, hosts and addresses instead of their hashes.",
    source: "off: hashes are enough to compare",
};

/// What this host's place is called.
pub static TELEMETRY_LABEL: Setting = Setting {
    key: "telemetry.label",
    kind: SettingType::Text(|_| Ok(())),
    default: "",
    what: "Label for this host in telemetry, such as its operator or office; reports group by it.",
    source: "our choice",
};

/// How much telemetry may wait.
pub static TELEMETRY_MOST_MB: Setting = Setting {
    key: "telemetry.most-mb",
    kind: SettingType::Whole { least: 1, most: 100_000 },
    default: "64",
    what: "Most disk space for uncollected telemetry of this host, in MiB. Beyond it, events are counted and not kept.",
    source: "our choice: about 200,000 events",
};

/// All of them, in the order of the file.
pub const ALL: &[&Setting] = &[
    &QUIET,
    &RACE,
    &CACHE_LIFETIME,
    &EXPLORE,
    &VIA,
    &LINGER,
    &INITCWND,
    &INITCWND_VIA,
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
    &TELEMETRY_FOLDER,
    &TELEMETRY_KEY_FILE,
    &TELEMETRY_NAMES,
    &TELEMETRY_LABEL,
    &TELEMETRY_MOST_MB,
];

fn races() -> Vec<&'static str> {
    race::ALL.iter().filter(|entry| !entry.lab_only).map(|entry| entry.name).collect()
}

/// Whether a group could have this name (useradd(8)); whether it does is only known where it is used.
fn group(name: &str) -> Result<(), String> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    if name.chars().all(allowed) { Ok(()) } else { Err(format!("must be the name of a group (got {name:?})")) }
}
