//! Pairs of channels: the paper's, and what it varies (sections 4.1 and 4.3).

/// A fat channel and a fast one.
#[derive(Clone, Copy, Debug)]
pub struct Network {
    /// Its name behind `ideal-` or `tunnel-`.
    pub name: &'static str,
    /// As a text of `headstart_link`.
    pub fat: &'static str,
    pub fast: &'static str,
    pub about: &'static str,
}

/// 1500 Mbit/s and 30 ms beside 2 Mbit/s and 5 ms: section 4.1.
pub const BASE: Network = Network {
    name: "base",
    fat: "rate=1500mbit,delay=15ms,queue=infinite",
    fast: FAST,
    about: "1500 Mbit/s, 30 ms beside 2 Mbit/s, 5 ms: section 4.1",
};

const FAT: &str = "rate=1500mbit,delay=15ms,queue=infinite";
const FAST: &str = "rate=2mbit,delay=2500us,queue=infinite";

const fn fat(name: &'static str, fat: &'static str, about: &'static str) -> Network {
    Network { name, fat, fast: FAST, about }
}

const fn fast(name: &'static str, fast: &'static str, about: &'static str) -> Network {
    Network { name, fat: FAT, fast, about }
}

/// What the sweep goes through.
pub const SWEEP: [Network; 15] = [
    BASE,
    fat(
        "fat-1000mbit",
        "rate=1000mbit,delay=15ms,queue=infinite",
        "as base, with the fat channel of which 2 Mbit/s are the 0.2 % of the abstract",
    ),
    fat("fat-rtt-50", "rate=1500mbit,delay=25ms,queue=infinite", "as base, the fat channel 50 ms: Fig. 5a"),
    fat("fat-rtt-100", "rate=1500mbit,delay=50ms,queue=infinite", "as base, the fat channel 100 ms: Fig. 5a"),
    fat("fat-rtt-150", "rate=1500mbit,delay=75ms,queue=infinite", "as base, the fat channel 150 ms: Fig. 5a"),
    fat(
        "fat-60mbit",
        "rate=60mbit,delay=25ms,queue=infinite",
        "as base, the fat channel 60 Mbit/s and 50 ms, as LTE has it; ours",
    ),
    fat(
        "fat-jitter",
        "rate=1500mbit,delay=uniform:15ms:25ms,queue=infinite",
        "as base, the fat channel 15 to 25 ms one way; ours",
    ),
    fast("fast-rtt-10", "rate=2mbit,delay=5ms,queue=infinite", "as base, the fast channel 10 ms: Fig. 5b"),
    fast("fast-rtt-20", "rate=2mbit,delay=10ms,queue=infinite", "as base, the fast channel 20 ms: Fig. 5b"),
    fast(
        "fast-rtt-30",
        "rate=2mbit,delay=15ms,queue=infinite",
        "as base, the fast channel as slow as the fat one; ours",
    ),
    fast("fast-500kbit", "rate=500kbit,delay=2500us,queue=infinite", "as base, the fast channel 0.5 Mbit/s: Fig. 5c"),
    fast("fast-1mbit", "rate=1mbit,delay=2500us,queue=infinite", "as base, the fast channel 1 Mbit/s: Fig. 5c"),
    fast("fast-5mbit", "rate=5mbit,delay=2500us,queue=infinite", "as base, the fast channel 5 Mbit/s: Fig. 5c"),
    fast("fast-10mbit", "rate=10mbit,delay=2500us,queue=infinite", "as base, the fast channel 10 Mbit/s: Fig. 5c"),
    fast(
        "fast-loss",
        "rate=2mbit,delay=2500us,queue=infinite,loss=1%",
        "as base, one packet in a hundred is lost on the fast channel; ours",
    ),
];
