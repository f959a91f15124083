//! What is measured: the calls, how often, and what they are to cost at most.

use crate::experiment::target::Target;
use headstart_core::time::Duration;
use headstart_io::sys::call_cost::Call;
use std::net::SocketAddrV4;
use std::path::PathBuf;

/// Calls that headstart has nothing to do with.
pub(super) const PASSING: &str = "passes-through";
/// A lookup that the cache answers, and a connect that finds a connection ready.
pub(super) const HANDED: &str = "handed-over";
/// The start of a program.
pub(super) const START: &str = "program-start";

/// 5 us: a connect that passes through.
const PASSING_TARGET: Target = Target::AtMost(5.0);
/// 60 us: a connect that is handed over.
const HANDED_TARGET: Target = Target::AtMost(60.0);
/// 1 ms: the start of a program.
const START_TARGET: Target = Target::AtMost(1000.0);

/// Time to connect ahead: seven times the 0.4 ms of a handshake on the link `lan`.
const PAUSE: Duration = Duration::from_millis(3);
/// Long enough for an idle machine's processors to fall asleep, which then take longer to wake up than the library does.
const LONG_PAUSE: Duration = Duration::from_millis(20);

/// What a target is about.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum About {
    /// What is spent beyond the bare call.
    Extra,
    /// What the call takes.
    Whole,
}

/// Which part of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Lookup,
    Call,
}

/// A series that comes out of a measurement.
#[derive(Clone, Copy, Debug)]
pub(super) struct Metric {
    pub name: &'static str,
    pub part: Part,
    pub target: Option<(About, Target)>,
}

/// Calls that are measured together.
#[derive(Clone, Debug)]
pub(super) struct Measure {
    pub condition: &'static str,
    pub call: Call,
    /// Calls of a block in a full and in a quick run.
    pub times: (usize, usize),
    pub metrics: Vec<Metric>,
}

/// Where the calls go.
pub(super) struct Places {
    /// A name that DNS knows, with a host that answers.
    pub name: String,
    pub port: u16,
    /// An address of that name: known to the supervisor once it has been looked up.
    pub known: SocketAddrV4,
    /// An address that no lookup gives.
    pub unknown: SocketAddrV4,
    /// A program that does nothing.
    pub program: PathBuf,
}

/// Everything, in the order of the tables. What is handed over comes first, so that the name is known afterwards.
pub(super) fn all(places: Places) -> Vec<Measure> {
    let Places { name, port, known, unknown, program } = places;
    let metric = |name, part, target| Metric { name, part, target };
    let passing = |name: &'static str, call: Call, part: Part, target: Option<(About, Target)>| Measure {
        condition: PASSING,
        call,
        times: (1000, 200),
        metrics: vec![metric(name, part, target)],
    };
    let extra = Some((About::Extra, PASSING_TARGET));
    vec![
        Measure {
            condition: HANDED,
            call: Call::Reach { name: name.clone(), port, pause: PAUSE },
            times: (40, 12),
            metrics: vec![
                metric("connect handed over ready", Part::Call, Some((About::Whole, HANDED_TARGET))),
                metric("getaddrinfo answered from the cache", Part::Lookup, None),
            ],
        },
        Measure {
            condition: HANDED,
            call: Call::Reach { name, port, pause: LONG_PAUSE },
            times: (8, 4),
            metrics: vec![metric("connect handed over ready after 20 ms of idleness", Part::Call, None)],
        },
        passing("connect of a UDP socket", Call::ConnectUdp(unknown), Part::Call, extra),
        passing("connect of a UDP socket to a known address", Call::ConnectUdp(known), Part::Call, extra),
        passing("connect of a Unix socket", Call::ConnectUnix, Part::Call, extra),
        passing("connect of a TCP socket to an address from no lookup", Call::ConnectTcp, Part::Call, extra),
        passing("socket", Call::Socket, Part::Call, None),
        passing("getaddrinfo of an address in digits", Call::LookupNumeric, Part::Lookup, None),
        Measure {
            condition: START,
            call: Call::Start(program),
            times: (40, 10),
            metrics: vec![metric("start and end of true(1)", Part::Call, Some((About::Extra, START_TARGET)))],
        },
    ]
}
