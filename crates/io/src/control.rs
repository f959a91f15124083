//! The control connection: what a run, or `headstart explain`, and a supervisor say to each other, and the descriptors
//! that go along. Each message is one datagram of a `SOCK_SEQPACKET` socket: a line that names program and version, by
//! which supervisors of other versions are distinguished, then one JSON value.
//!
//! The connection of a run lives as long as the run: its end tells either side that the other has ended.

use headstart_core::connect::Tally;
use headstart_core::connect::explain::{Explanation, FamilyReport, RaceReport};
use headstart_core::connect::memory::Program;
use headstart_core::path::NetworkId;
use headstart_core::path::record::NetworkRecord;
use headstart_core::timing::Timed;
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recv, recvmsg, sendmsg,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// What both sides must agree on: the version, and a number that counts up when messages change between versions.
pub const VERSION: &str = concat!("headstart ", env!("CARGO_PKG_VERSION"), " control 4");
/// Bytes of a message at most; below the kernel's default bound of a datagram (net.core.wmem_default, 208 KiB).
pub const MAX_MESSAGE: usize = 128 * 1024;
/// Runs that an account names at most: their commands, [shortened](short) and each character escaped, take a third of a
/// message, and what is known of a host most of the rest.
pub const MAX_RUNS_LISTED: usize = 4;
/// Runs that an observation names at most. It is a file, so that they may be more than an account's.
pub const MAX_RUNS_OBSERVED: usize = 200;
/// Descriptors that come with one message at most.
const MAX_DESCRIPTORS: usize = 8;

/// What a supervisor is asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {
    /// Serve a run on these descriptors, until it ends. Answered by [`Reply::Registered`].
    Run {
        /// The program and its arguments, [shortened](short), for people.
        command: Vec<String>,
        /// How the program is reached, for people.
        via: String,
        /// The process that registers it.
        pid: u32,
        /// What the descriptors that come along are, in order.
        descriptors: Vec<Descriptor>,
    },
    /// Further descriptors of this connection's run. Not answered.
    Add {
        /// What they are, in order.
        descriptors: Vec<Descriptor>,
    },
    /// What is known of a host. Answered by [`Reply::Explained`].
    Explain {
        /// Its name or address.
        host: String,
    },
    /// What was learned, written as the JSON of [`History`] into the file that comes along. Answered by
    /// [`Reply::Remembered`].
    Remember {
        /// The file: [`Descriptor::Report`].
        descriptors: Vec<Descriptor>,
    },
    /// Forget what was learned of a program, of a host, or everything. Answered by [`Reply::Forgotten`].
    Forget {
        /// The program.
        app: Option<String>,
        /// The host.
        host: Option<String>,
    },
    /// What this connection's run has gained so far. Answered by [`Reply::Summary`].
    Summarise,
    /// What is going on, written as the JSON of [`Observation`] into the file that comes along. Answered by
    /// [`Reply::Observed`].
    Observe {
        /// The file: [`Descriptor::Report`].
        descriptors: Vec<Descriptor>,
        /// The latest races that are reported, at most.
        races: usize,
        /// Of these, only what has changed since an observation that said so ([`Observation::changes`]); 0 for all.
        after: u64,
        /// Whether the history is included.
        history: bool,
    },
}

/// A descriptor of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Descriptor {
    /// The socket on which preloaded libraries connect. Comes together with the filter.
    PreloadListener,
    /// The filter of known addresses that preloaded libraries have mapped, open for writing.
    PreloadFilter,
    /// Where system calls of the program arrive (seccomp_unotify(2)). Comes together with the calls outstanding and the duty.
    SeccompListener,
    /// The file in which the supervisor notes calls that it has not answered, for the watchdog.
    Outstanding,
    /// Held while the supervisor answers system calls; the watchdog answers them when it is closed.
    Duty,
    /// A file that is to be written to, for what does not fit into a message.
    Report,
    /// The program (pidfd_open(2)): a run whose `headstart run` was killed goes on until it ends.
    Program,
}

/// What a supervisor answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Reply {
    /// The run is being served.
    Registered,
    /// What this connection's run has gained.
    Summary(Box<Summary>),
    /// What is known of a host.
    Explained(Box<Account>),
    /// What was learned is in the file.
    Remembered {
        /// What went wrong with the store, in lines for people.
        notes: Vec<String>,
    },
    /// What is going on is in the file.
    Observed,
    /// It is forgotten.
    Forgotten {
        /// Records that there were of it on disk.
        records: usize,
    },
    /// It cannot be done.
    Refused(String),
}

/// What a run has gained and what it cost.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// The counters of the connector.
    pub tally: Tally,
    /// Processes that have asked anything.
    pub processes: usize,
    /// Connects that were trapped as system calls.
    pub connects_heard: u64,
    /// DNS messages that were ignored meanwhile: malformed, forged or late.
    pub ignored_messages: u64,
    /// What went wrong with the store, unless another run got it: lines for people.
    pub notes: Vec<String>,
}

/// What was learned.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct History {
    /// Programs, the one used last first.
    pub programs: Vec<Program>,
    /// Networks, the one used last first.
    pub networks: Vec<NetworkRecord>,
    /// The network that the host is on, if that is known.
    pub here: Option<NetworkId>,
}

/// What is going on at a supervisor: for pages and monitors. What is counted is counted since it began.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Observation {
    /// Its process.
    pub pid: u32,
    /// How long it has been there, in milliseconds.
    pub up_ms: f64,
    /// The runs that it serves, at most [`MAX_RUNS_OBSERVED`] of them.
    pub runs: Vec<Registered>,
    /// Runs that are not among those.
    pub runs_omitted: usize,
    /// The counters of the connector, over all runs.
    pub tally: Tally,
    /// How long programs waited, and how long handshakes took.
    pub timings: Vec<Timed>,
    /// How often it has woken up, by cause.
    pub wakeups: BTreeMap<String, u64>,
    /// DNS messages that were ignored: malformed, forged or late.
    pub ignored_messages: u64,
    /// The address families, as this network has them.
    pub families: Vec<FamilyReport>,
    /// The servers that are asked for names.
    pub resolvers: Vec<String>,
    /// The latest races, the last first, as far as they have changed since what was asked for.
    pub races: Vec<RaceReport>,
    /// How often races have changed.
    pub changes: u64,
    /// What was learned, if it was asked for.
    pub history: Option<History>,
}

/// A supervisor: its process, the runs that it serves and what it knows of a host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Account {
    /// Its process.
    pub pid: u32,
    /// How long it has been there.
    pub up_ms: f64,
    /// The runs that it serves, at most [`MAX_RUNS_LISTED`] of them.
    pub runs: Vec<Registered>,
    /// What it knows of the host; `None` if nothing.
    pub explanation: Option<Explanation>,
}

/// A run that is being served.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Registered {
    /// The program and its arguments, [shortened](short).
    pub command: Vec<String>,
    /// How the program is reached.
    pub via: String,
    /// The process of its `headstart run`.
    pub pid: u32,
}

/// Why a message was not received.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// Nothing is there to be read, or nothing came in time.
    #[error("the supervisor does not answer")]
    Nothing,
    /// The other side has hung up.
    #[error("the supervisor closed the connection")]
    HungUp,
    /// The other side is of another version.
    #[error("the running supervisor is version {0:?}, this program is {VERSION:?}")]
    OtherVersion(String),
    /// Not a headstart message.
    #[error("malformed message: {0}")]
    Malformed(String),
    /// The supervisor will not.
    #[error("the supervisor refuses: {0}")]
    Refused(String),
    /// A system call failed.
    #[error("the control connection failed: {0}")]
    Io(#[from] std::io::Error),
}

impl From<Errno> for ControlError {
    fn from(e: Errno) -> Self {
        match e {
            Errno::AGAIN | Errno::INTR => Self::Nothing,
            Errno::PIPE | Errno::CONNRESET | Errno::NOTCONN => Self::HungUp,
            e => Self::Io(e.into()),
        }
    }
}

/// As much of a command line as people need to recognise it. A whole one may be many times as long as a message: execve(2)
/// allows 2 MiB.
pub fn short(command: &[String]) -> Vec<String> {
    const MAX_WORDS: usize = 16;
    const MAX_CHARS: usize = 100;
    command.iter().take(MAX_WORDS).map(|word| word.chars().take(MAX_CHARS).collect()).collect()
}

/// The bytes of `message`.
pub fn encode(message: &impl Serialize) -> Result<Vec<u8>, ControlError> {
    let mut bytes = format!("{VERSION}\n").into_bytes();
    serde_json::to_writer(&mut bytes, message).map_err(|e| ControlError::Malformed(e.to_string()))?;
    if bytes.len() > MAX_MESSAGE {
        return Err(ControlError::Malformed(format!("{} bytes are too many for one message", bytes.len())));
    }
    Ok(bytes)
}

/// The message in `bytes`.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, ControlError> {
    /// A longer one is not a headstart version.
    const MAX_VERSION: usize = 100;
    let Some(end) = bytes.iter().take(MAX_VERSION).position(|b| *b == b'\n') else {
        return Err(ControlError::Malformed("it has no version".into()));
    };
    if &bytes[..end] != VERSION.as_bytes() {
        return Err(ControlError::OtherVersion(String::from_utf8_lossy(&bytes[..end]).into_owned()));
    }
    serde_json::from_slice(&bytes[end + 1..]).map_err(|e| ControlError::Malformed(e.to_string()))
}

/// Sends a message; `flags` say whether to wait for room.
pub fn send(
    socket: impl AsFd,
    message: &impl Serialize,
    descriptors: &[BorrowedFd<'_>],
    flags: SendFlags,
) -> Result<(), ControlError> {
    let bytes = encode(message)?;
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(ControlError::Malformed(format!("{} descriptors are too many for one message", descriptors.len())));
    }
    sendmsg(socket, &[IoSlice::new(&bytes)], &mut control, flags | SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Receives a message and what came along; `flags` say whether to wait for one.
pub fn receive<T: DeserializeOwned>(socket: impl AsFd, flags: RecvFlags) -> Result<(T, Vec<OwnedFd>), ControlError> {
    // With TRUNC the kernel tells how long it is.
    let (_, len) = recv(&socket, &mut [0u8; 0], flags | RecvFlags::PEEK | RecvFlags::TRUNC)?;
    let mut bytes = vec![0; len.clamp(1, MAX_MESSAGE)];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let got = recvmsg(socket, &mut [IoSliceMut::new(&mut bytes)], &mut control, flags | RecvFlags::CMSG_CLOEXEC)?;
    let mut descriptors = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(list) = message {
            descriptors.extend(list);
        }
    }
    if got.bytes == 0 {
        return Err(ControlError::HungUp);
    }
    if got.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC) {
        return Err(ControlError::Malformed("it is too long".into()));
    }
    Ok((decode(&bytes[..got.bytes.min(bytes.len())])?, descriptors))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    fn pair() -> (OwnedFd, OwnedFd) {
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap()
    }

    #[test]
    fn the_event_of_returned_addresses_keeps_its_name_on_the_wire() {
        let event = headstart_core::connect::timeline::Event::Returned { addresses: vec![] };
        let written = serde_json::to_value(&event).unwrap();
        assert_eq!(written, serde_json::json!({ "event": "told", "addresses": [] }));
        assert_eq!(serde_json::from_value::<headstart_core::connect::timeline::Event>(written).unwrap(), event);
    }

    #[test]
    fn a_message_arrives_with_its_descriptors_and_the_end_is_told() {
        let (here, there) = pair();
        let request = Request::Add { descriptors: vec![Descriptor::Program] };
        send(&here, &request, &[here.as_fd()], SendFlags::empty()).unwrap();
        let (got, descriptors) = receive::<Request>(&there, RecvFlags::empty()).unwrap();
        assert_eq!((got, descriptors.len()), (request, 1));
        assert!(matches!(receive::<Request>(&there, RecvFlags::DONTWAIT), Err(ControlError::Nothing)));
        drop((here, descriptors));
        assert!(matches!(receive::<Request>(&there, RecvFlags::empty()), Err(ControlError::HungUp)));
    }

    #[test]
    fn a_summary_is_the_same_after_the_journey() {
        let mut tally = Tally { queries: 3, ..Tally::default() };
        tally.passed.insert(headstart_core::wire::shim::Pass::LocalName, 2);
        let reply = Reply::Summary(Box::new(Summary {
            tally,
            processes: 1,
            connects_heard: 5,
            ignored_messages: 4,
            notes: vec!["x".into()],
        }));
        assert_eq!(decode::<Reply>(&encode(&reply).unwrap()).unwrap(), reply);
    }

    #[test]
    fn the_longest_commands_leave_an_account_room_for_what_is_known() {
        // U+0001 is written as six bytes, the most that any character takes.
        let command = short(&vec!["\u{1}".repeat(5000); 5000]);
        let runs = vec![Registered { command, via: "auto".into(), pid: u32::MAX }; MAX_RUNS_LISTED];
        let account = Account { pid: u32::MAX, up_ms: f64::MAX, runs, explanation: None };
        let bytes = encode(&Reply::Explained(Box::new(account))).unwrap();
        assert!(bytes.len() < MAX_MESSAGE / 3, "{} bytes", bytes.len());
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_a_message_or_none(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..200)) {
            let _ = decode::<Request>(&bytes);
            let _ = decode::<Request>(&[VERSION.as_bytes(), b"\n", &bytes].concat());
        }

        #[test]
        fn any_request_reads_back(command in proptest::collection::vec(".{0,20}", 0..5), pid: u32, host in ".{0,40}") {
            let descriptors = vec![Descriptor::PreloadListener, Descriptor::PreloadFilter];
            let run = Request::Run { command, via: "auto".into(), pid, descriptors };
            for request in [run, Request::Explain { host }, Request::Summarise, Request::Observe { descriptors: vec![Descriptor::Report], races: 9, after: 7, history: true }] {
                proptest::prop_assert_eq!(decode::<Request>(&encode(&request).unwrap()).unwrap(), request);
            }
        }
    }

    #[test]
    fn another_version_is_recognised_and_anything_else_is_refused() {
        assert!(
            matches!(decode::<Reply>(b"headstart 9.9 control 7\n\xff"), Err(ControlError::OtherVersion(v)) if v.contains("9.9"))
        );
        let half = &encode(&Reply::Registered).unwrap()[..VERSION.len() + 5];
        for bytes in [&b""[..], b"GET / HTTP/1.1", &[0xff; 300], half] {
            assert!(matches!(decode::<Reply>(bytes), Err(ControlError::Malformed(_))), "{bytes:?}");
        }
        assert!(encode(&Reply::Refused("x".repeat(MAX_MESSAGE))).is_err());
    }
}
