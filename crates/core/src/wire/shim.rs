//! Messages between the preloaded library and the supervisor: one request, one reply, each a single datagram of a
//! SOCK_SEQPACKET socket. A handed-over connection travels beside its reply as a file descriptor.
//!
//! Requests come from arbitrary programs of the same user, so the supervisor reads them as foreign bytes. The codec
//! allocates only where a list of addresses is read.

use crate::path::Family;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// First byte of every message; a library of another build is answered by silence and passes through.
pub const VERSION: u8 = 1;
/// Longest message either way, in bytes.
pub const MAX_MESSAGE: usize = 1200;
/// Addresses in one reply at most; a message of 64 IPv6 addresses fits.
pub const MAX_ADDRESSES: usize = 64;
/// Longest application name that is kept, in bytes.
pub const MAX_APP: usize = 64;
/// Longest name, in bytes (RFC 1035, section 2.3.4).
pub const MAX_NAME: usize = 255;

/// A call that a program made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// getaddrinfo: the name, the families asked for, the port if a stream to one is wanted.
    Resolve {
        /// Name of the program (its file's name).
        app: String,
        /// The name as the program gave it.
        name: String,
        /// One family, or both.
        family: Option<Family>,
        /// TCP port, where getaddrinfo got a numeric one and SOCK_STREAM: a connection is likely to follow.
        port: Option<u16>,
        /// AI_ADDRCONFIG: leave out families that the host has no address of.
        configured_only: bool,
    },
    /// connect: where to, and what may stand in for the program's socket.
    Connect {
        /// Name of the program.
        app: String,
        /// The address that the program asked for, v4-mapped ones unwrapped.
        to: SocketAddr,
        /// Domain of the program's socket.
        domain: Family,
        /// O_NONBLOCK is set: reply at once.
        nonblocking: bool,
        /// An AF_INET6 socket without IPV6_V6ONLY: a v4-mapped peer may be installed.
        accepts_mapped: bool,
    },
}

/// What the supervisor makes of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The addresses of the name, best first.
    Addresses(Vec<IpAddr>),
    /// The name does not exist: EAI_NONAME.
    NoName,
    /// The name has no address of the family asked for: EAI_NODATA.
    NoData,
    /// No server answered in time: EAI_AGAIN.
    TryAgain,
    /// A socket comes with this message. `connected`, or still under way (EINPROGRESS).
    HandOver {
        /// Whether the handshake is complete.
        connected: bool,
    },
    /// Every attempt failed; the errno of the address that was asked for.
    Failed(i32),
    /// Do what you would do without us.
    Pass(Pass),
}

/// Why a call was left to the C library or the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Pass {
    /// The name is in /etc/hosts.
    HostsFile = 1,
    /// No dot, `.local`, `.onion`, `.localhost`: names that other means than DNS resolve.
    LocalName = 2,
    /// A search domain might apply.
    SearchDomain = 3,
    /// nsswitch.conf names a source that we do not speak.
    NameService = 4,
    /// No name server is configured.
    NoServer = 5,
    /// The name cannot be asked of DNS.
    BadName = 6,
    /// No lookup by headstart gave this address.
    UnknownAddress = 7,
    /// A non-blocking caller, and nothing was under way to the address.
    NothingReady = 8,
    /// The socket cannot stand in for the program's (another family, IPV6_V6ONLY).
    Unsuitable = 9,
    /// Headstart is switched off for this program.
    SwitchedOff = 10,
    /// An option is set on the socket that another one cannot take over.
    SocketOption = 11,
    /// The socket is not new: bound, connected, or on its way.
    NotNew = 12,
    /// The socket is in use under another descriptor, or in another process.
    SharedSocket = 13,
    /// The socket is in an epoll set that cannot be repaired.
    EventSet = 14,
    /// The process that cannot be inspected.
    OutOfReach = 15,
    /// A signal came while the call was waiting.
    Signal = 16,
    /// The supervisor has no descriptors left.
    OutOfDescriptors = 17,
    /// The name has more addresses than one message can hold.
    TooMany = 18,
    /// The program has reached the name and goes to another of its addresses: it means this one.
    Chosen = 19,
    /// The program has so many descriptors open that looking through them takes longer than a connection saves.
    ManyDescriptors = 20,
}

impl Pass {
    /// Every reason, in order.
    pub const ALL: [Self; 20] = [
        Self::HostsFile,
        Self::LocalName,
        Self::SearchDomain,
        Self::NameService,
        Self::NoServer,
        Self::BadName,
        Self::UnknownAddress,
        Self::NothingReady,
        Self::Unsuitable,
        Self::SwitchedOff,
        Self::SocketOption,
        Self::NotNew,
        Self::SharedSocket,
        Self::EventSet,
        Self::OutOfReach,
        Self::Signal,
        Self::OutOfDescriptors,
        Self::TooMany,
        Self::Chosen,
        Self::ManyDescriptors,
    ];

    /// The reason in words, for people.
    pub fn describe(self) -> &'static str {
        match self {
            Self::HostsFile => "name in /etc/hosts",
            Self::LocalName => "local name",
            Self::SearchDomain => "search domain may apply",
            Self::NameService => "other name service configured",
            Self::NoServer => "no name server configured",
            Self::BadName => "not a domain name",
            Self::UnknownAddress => "address that headstart did not look up",
            Self::NothingReady => "non-blocking connect with no connection ready",
            Self::Unsuitable => "socket of another address family",
            Self::SwitchedOff => "switched off",
            Self::SocketOption => "socket option that cannot be copied",
            Self::NotNew => "socket already bound or connected",
            Self::SharedSocket => "socket shared with another descriptor or process",
            Self::EventSet => "socket in an epoll set that cannot be updated",
            Self::OutOfReach => "process that cannot be inspected",
            Self::Signal => "interrupted by a signal",
            Self::OutOfDescriptors => "no file descriptors left",
            Self::TooMany => "more addresses than one message can hold",
            Self::Chosen => "one of several addresses, chosen by the program",
            Self::ManyDescriptors => "program with many open descriptors",
        }
    }
}

/// The bit of an address in the filter that supervisor and library share: addresses whose bit is clear came from no
/// lookup, and their connects need not be asked about. FNV-1a over the address.
pub fn filter_bit(addr: IpAddr) -> usize {
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    let mut eat = |bytes: &[u8]| {
        for b in bytes {
            hash = (hash ^ u64::from(*b)).wrapping_mul(0x0100_0000_01b3);
        }
    };
    match addr {
        IpAddr::V4(a) => eat(&a.octets()),
        IpAddr::V6(a) => eat(&a.octets()),
    }
    // The last byte of an address reaches the bits from 40 on, and hardly any below.
    (hash >> 40) as usize % (FILTER_BYTES * 8)
}

/// Size of the shared filter: one page of 65 536 bits is 8 KiB; 1000 addresses give 1.5 % of needless questions.
pub const FILTER_BYTES: usize = 8192;
/// Where the file that the libraries map says in which mount namespace names are looked up: after the filter and a byte that is
/// not 0 if the run's system calls are trapped too. Eight bytes, as the machine has them: the inode of the namespace.
pub const MOUNTS_AT: usize = FILTER_BYTES + 8;
/// Bytes of that file.
pub const MAPPED_BYTES: usize = MOUNTS_AT + 8;

/// A message being written into a fixed buffer.
struct Writer {
    buf: [u8; MAX_MESSAGE],
    len: usize,
}

impl Writer {
    fn new(kind: u8) -> Self {
        let mut w = Self { buf: [0; MAX_MESSAGE], len: 0 };
        w.byte(VERSION);
        w.byte(kind);
        w
    }
    fn byte(&mut self, b: u8) {
        self.bytes(&[b]);
    }
    fn bytes(&mut self, b: &[u8]) {
        // Every caller bounds what it writes; a message that would not fit is cut and then does not parse.
        let n = b.len().min(MAX_MESSAGE - self.len);
        self.buf[self.len..self.len + n].copy_from_slice(&b[..n]);
        self.len += n;
    }
    fn text(&mut self, s: &str, max: usize) {
        let mut n = s.len().min(max);
        while !s.is_char_boundary(n) {
            n -= 1;
        }
        self.bytes(&(n as u16).to_be_bytes());
        self.bytes(&s.as_bytes()[..n]);
    }
    fn addr(&mut self, addr: IpAddr) {
        match addr {
            IpAddr::V4(a) => {
                self.byte(4);
                self.bytes(&a.octets());
            }
            IpAddr::V6(a) => {
                self.byte(6);
                self.bytes(&a.octets());
            }
        }
    }
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let (head, tail) = self.0.split_at_checked(n)?;
        self.0 = tail;
        Some(head)
    }
    fn byte(&mut self) -> Option<u8> {
        Some(self.take(1)?[0])
    }
    fn u16(&mut self) -> Option<u16> {
        Some(u16::from_be_bytes(self.take(2)?.try_into().ok()?))
    }
    fn text(&mut self, max: usize) -> Option<String> {
        let n = self.u16().filter(|n| usize::from(*n) <= max)?;
        String::from_utf8(self.take(usize::from(n))?.to_vec()).ok()
    }
    fn addr(&mut self) -> Option<IpAddr> {
        Some(match self.byte()? {
            4 => IpAddr::V4(Ipv4Addr::from(<[u8; 4]>::try_from(self.take(4)?).ok()?)),
            6 => IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(self.take(16)?).ok()?)),
            _ => return None,
        })
    }
    fn flag(&mut self) -> Option<bool> {
        match self.byte()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }
    fn end<T>(self, value: T) -> Option<T> {
        self.0.is_empty().then_some(value)
    }
}

fn family_code(family: Option<Family>) -> u8 {
    match family {
        None => 0,
        Some(Family::V4) => 4,
        Some(Family::V6) => 6,
    }
}

fn family_of_code(code: u8) -> Option<Option<Family>> {
    match code {
        0 => Some(None),
        4 => Some(Some(Family::V4)),
        6 => Some(Some(Family::V6)),
        _ => None,
    }
}

/// A message ready to be sent.
pub struct Encoded(Writer);

impl AsRef<[u8]> for Encoded {
    fn as_ref(&self) -> &[u8] {
        &self.0.buf[..self.0.len]
    }
}

impl Request {
    /// Encodes a getaddrinfo. Names over 255 bytes are not names; the caller passes them through.
    pub fn encode(&self) -> Encoded {
        let w = match self {
            Self::Resolve { app, name, family, port, configured_only } => {
                let mut w = Writer::new(1);
                w.text(app, MAX_APP);
                w.text(name, MAX_NAME);
                w.byte(family_code(*family));
                w.bytes(&port.unwrap_or(0).to_be_bytes());
                w.byte(u8::from(*configured_only));
                w
            }
            Self::Connect { app, to, domain, nonblocking, accepts_mapped } => {
                let mut w = Writer::new(2);
                w.text(app, MAX_APP);
                w.addr(to.ip());
                w.bytes(&to.port().to_be_bytes());
                w.byte(family_code(Some(*domain)));
                w.byte(u8::from(*nonblocking));
                w.byte(u8::from(*accepts_mapped));
                w
            }
        };
        Encoded(w)
    }

    /// Reads a request; `None` for anything that is not one.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut r = Reader(bytes);
        if r.byte()? != VERSION {
            return None;
        }
        match r.byte()? {
            1 => {
                let (app, name) = (r.text(MAX_APP)?, r.text(MAX_NAME)?);
                let family = family_of_code(r.byte()?)?;
                let port = Some(r.u16()?).filter(|p| *p != 0);
                let configured_only = r.flag()?;
                r.end(Self::Resolve { app, name, family, port, configured_only })
            }
            2 => {
                let app = r.text(MAX_APP)?;
                let to = SocketAddr::new(r.addr()?, r.u16()?);
                let domain = family_of_code(r.byte()?)??;
                let (nonblocking, accepts_mapped) = (r.flag()?, r.flag()?);
                r.end(Self::Connect { app, to, domain, nonblocking, accepts_mapped })
            }
            _ => None,
        }
    }
}

impl Reply {
    /// Encodes the reply; addresses past [`MAX_ADDRESSES`] are left out.
    pub fn encode(&self) -> Encoded {
        let w = match self {
            Self::Addresses(list) => {
                let mut w = Writer::new(1);
                let list = &list[..list.len().min(MAX_ADDRESSES)];
                w.byte(list.len() as u8);
                list.iter().for_each(|a| w.addr(*a));
                w
            }
            Self::NoName => Writer::new(2),
            Self::NoData => Writer::new(3),
            Self::TryAgain => Writer::new(4),
            Self::HandOver { connected } => {
                let mut w = Writer::new(5);
                w.byte(u8::from(*connected));
                w
            }
            Self::Failed(errno) => {
                let mut w = Writer::new(6);
                w.bytes(&errno.to_be_bytes());
                w
            }
            Self::Pass(reason) => {
                let mut w = Writer::new(7);
                w.byte(*reason as u8);
                w
            }
        };
        Encoded(w)
    }

    /// Reads a reply; `None` for anything that is not one.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut r = Reader(bytes);
        if r.byte()? != VERSION {
            return None;
        }
        let reply = match r.byte()? {
            1 => {
                let n = usize::from(r.byte()?);
                let list = (0..n).map(|_| r.addr()).collect::<Option<Vec<_>>>()?;
                (n > 0 && n <= MAX_ADDRESSES).then_some(Self::Addresses(list))?
            }
            2 => Self::NoName,
            3 => Self::NoData,
            4 => Self::TryAgain,
            5 => Self::HandOver { connected: r.flag()? },
            6 => Self::Failed(i32::from_be_bytes(r.take(4)?.try_into().ok()?)),
            7 => {
                let code = r.byte()?;
                Self::Pass(Pass::ALL.into_iter().find(|p| *p as u8 == code)?)
            }
            _ => return None,
        };
        r.end(reply)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn family() -> impl Strategy<Value = Family> {
        prop_oneof![Just(Family::V4), Just(Family::V6)]
    }
    fn request() -> impl Strategy<Value = Request> {
        prop_oneof![
            (
                "\\PC{0,16}",
                "[a-z.]{1,255}",
                proptest::option::of(family()),
                proptest::option::of(1u16..),
                any::<bool>()
            )
                .prop_map(|(app, name, family, port, configured_only)| Request::Resolve {
                    app,
                    name,
                    family,
                    port,
                    configured_only
                }),
            ("\\PC{0,16}", any::<IpAddr>(), any::<u16>(), family(), any::<bool>(), any::<bool>()).prop_map(
                |(app, ip, port, domain, nonblocking, accepts_mapped)| Request::Connect {
                    app,
                    to: SocketAddr::new(ip, port),
                    domain,
                    nonblocking,
                    accepts_mapped
                }
            ),
        ]
    }
    fn reply() -> impl Strategy<Value = Reply> {
        prop_oneof![
            proptest::collection::vec(any::<IpAddr>(), 1..=MAX_ADDRESSES).prop_map(Reply::Addresses),
            Just(Reply::NoName),
            Just(Reply::NoData),
            Just(Reply::TryAgain),
            any::<bool>().prop_map(|connected| Reply::HandOver { connected }),
            any::<i32>().prop_map(Reply::Failed),
            (0..Pass::ALL.len()).prop_map(|i| Reply::Pass(Pass::ALL[i])),
        ]
    }

    proptest! {
        #[test]
        fn every_request_survives_the_wire(r in request()) {
            prop_assert_eq!(Request::decode(r.encode().as_ref()), Some(r));
        }

        #[test]
        fn every_reply_survives_the_wire(r in reply()) {
            prop_assert_eq!(Reply::decode(r.encode().as_ref()), Some(r));
        }

        #[test]
        fn foreign_bytes_are_no_message_and_no_panic(bytes in proptest::collection::vec(any::<u8>(), 0..MAX_MESSAGE)) {
            let _ = (Request::decode(&bytes), Reply::decode(&bytes));
        }

        #[test]
        fn a_message_cut_short_is_no_message(r in request(), cut in 1usize..20) {
            let encoded = r.encode();
            let bytes = encoded.as_ref();
            prop_assert_eq!(Request::decode(&bytes[..bytes.len().saturating_sub(cut)]), None);
        }
    }

    #[test]
    fn a_text_longer_than_its_bound_is_no_message() {
        let long = "a".repeat(MAX_APP + 1);
        let mut bytes = vec![VERSION, 2, 0, long.len() as u8];
        bytes.extend(long.as_bytes());
        bytes.extend([4, 192, 0, 2, 1, 1, 187, 4, 0, 0]);
        assert_eq!(Request::decode(&bytes), None);
    }

    #[test]
    fn pass_reasons_have_distinct_codes_and_words() {
        let codes: std::collections::BTreeSet<_> = Pass::ALL.iter().map(|p| *p as u8).collect();
        let words: std::collections::BTreeSet<_> = Pass::ALL.iter().map(|p| p.describe()).collect();
        assert_eq!((codes.len(), words.len()), (Pass::ALL.len(), Pass::ALL.len()));
    }

    #[test]
    fn the_filter_has_a_place_for_every_address_and_neighbours_have_others() {
        // FNV-1a of "foob" is 0xdd120e790c2512af (the authors' table).
        assert_eq!(filter_bit(IpAddr::from(*b"foob")), 0x120e);
        let of_v4 = (0..=255).map(|last| IpAddr::from([192, 0, 2, last]));
        let of_v6 = (0..=255).map(|last| IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, last]));
        for addresses in [of_v4.collect::<Vec<_>>(), of_v6.collect()] {
            let bits: std::collections::BTreeSet<_> = addresses.into_iter().map(filter_bit).collect();
            assert!(bits.len() > 250 && bits.iter().all(|bit| *bit < 8 * FILTER_BYTES), "{}", bits.len());
        }
        let everywhere = (0..=255).map(|first| filter_bit(IpAddr::from([first, 0, 2, 1])));
        assert!(everywhere.max() > Some(4 * FILTER_BYTES), "all of it is used");
    }

    #[test]
    fn a_text_that_is_too_long_is_cut_between_characters() {
        let (to, domain) = ("192.0.2.1:443".parse().unwrap(), Family::V4);
        let connect = |app: String| Request::Connect { app, to, domain, nonblocking: false, accepts_mapped: false };
        // The 64th byte would be half of a character.
        let sent = connect(format!("a{}", "é".repeat(40)));
        assert_eq!(Request::decode(sent.encode().as_ref()), Some(connect(format!("a{}", "é".repeat(31)))));
    }

    #[test]
    fn a_message_has_room_for_so_much_and_a_list_is_never_empty_nor_too_long() {
        let mut writer = Writer::new(1);
        (0..2).for_each(|_| writer.bytes(&[7; MAX_MESSAGE - 100]));
        assert_eq!(Encoded(writer).as_ref().len(), MAX_MESSAGE);
        let list = |n: usize| [&[VERSION, 1, n as u8][..], &[4, 192, 0, 2, 1].repeat(n)].concat();
        assert!(matches!(Reply::decode(&list(MAX_ADDRESSES)), Some(Reply::Addresses(_))));
        assert_eq!((Reply::decode(&list(0)), Reply::decode(&list(MAX_ADDRESSES + 1))), (None, None));
    }
}
