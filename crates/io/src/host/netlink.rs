//! Requests to the kernel in plain netlink messages: rtnetlink(7) and generic netlink, with the payloads of
//! `headstart_core::wire`. Each request is acknowledged, each dump ends; each error names what was asked for.
//!
//! Beside [`crate::sys::netlink`], which builds the lab's networks out of typed messages: what is copied from a host must
//! keep what no type knows.

use headstart_core::wire::netlink::{Attribute, Malformed, Route, Rule, encode};
use headstart_core::wire::tcp_metrics::{self, Remembered};
use netlink_sys::protocols::{NETLINK_GENERIC, NETLINK_ROUTE};
use netlink_sys::{Socket, SocketAddr};
use std::io;

/// RTM_NEWROUTE and the three after it (rtnetlink.h).
const NEW_ROUTE: u16 = 24;
const DEL_ROUTE: u16 = 25;
const GET_ROUTE: u16 = 26;
/// RTM_NEWRULE and the two after it.
const NEW_RULE: u16 = 32;
const DEL_RULE: u16 = 33;
const GET_RULE: u16 = 34;
/// NLM_F_REQUEST, NLM_F_ACK, NLM_F_EXCL, NLM_F_CREATE, NLM_F_DUMP (netlink.h).
const REQUEST: u16 = 1;
const ACK: u16 = 4;
const EXCLUSIVE: u16 = 0x200;
const CREATE: u16 = 0x400;
const DUMP: u16 = 0x300;
/// NLMSG_ERROR, NLMSG_DONE (netlink.h).
const ERROR: u16 = 2;
const DONE: u16 = 3;
/// GENL_ID_CTRL (genetlink.h).
const CONTROL: u16 = 16;
/// Length of `struct nlmsghdr`.
const HEADER: usize = 16;
/// How often a dump that others disturbed is asked for again.
const MOST_DUMPS: usize = 5;
/// NLM_F_DUMP_INTR (netlink.h): the table changed under the dump.
const INTERRUPTED: u16 = 0x10;

/// What was asked of the kernel, and what it said.
#[derive(Debug, thiserror::Error)]
#[error("{what}: {source}")]
pub struct KernelError {
    what: String,
    source: io::Error,
}

impl KernelError {
    /// An error of `what`.
    pub fn new(what: impl Into<String>, source: impl Into<io::Error>) -> Self {
        Self { what: what.into(), source: source.into() }
    }

    fn is(&self, errno: &[rustix::io::Errno]) -> bool {
        self.source.raw_os_error().is_some_and(|n| errno.iter().any(|e| e.raw_os_error() == n))
    }

    /// Whether the right to do it is missing (CAP_NET_ADMIN).
    pub fn is_not_permitted(&self) -> bool {
        self.source.kind() == io::ErrorKind::PermissionDenied
    }

    /// Whether it was there already.
    pub fn is_there(&self) -> bool {
        self.is(&[rustix::io::Errno::EXIST])
    }

    /// Whether what was to be removed, or the interface that it was on, is not there.
    pub fn is_missing(&self) -> bool {
        use rustix::io::Errno;
        self.is(&[Errno::SRCH, Errno::NOENT, Errno::NODEV, Errno::ADDRNOTAVAIL, Errno::NETUNREACH])
    }

    /// Whether this kernel has no such thing: a family that was left out or switched off.
    pub fn is_unsupported(&self) -> bool {
        use rustix::io::Errno;
        self.is(&[Errno::OPNOTSUPP, Errno::AFNOSUPPORT])
    }
}

/// The kernel of the network namespace that the calling thread was in when this was opened.
#[derive(Debug)]
pub struct Kernel {
    route: Socket,
    generic: Option<(Socket, Option<u16>)>,
    sequence: u32,
}

impl Kernel {
    /// Opens a socket. Needs no privilege; changes do.
    pub fn open() -> Result<Self, KernelError> {
        Ok(Self { route: socket(NETLINK_ROUTE)?, generic: None, sequence: 0 })
    }

    /// Every route of a family, in all tables. None where the kernel has no such family.
    pub fn routes(&mut self, family: u8) -> Result<Vec<Route>, KernelError> {
        let what = || format!("listing the routes of family {family}");
        let all = self.dump(GET_ROUTE, &[family, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], what())?;
        // A dump of a family that is not there answers for all others.
        let read = all.iter().map(|bytes| Route::decode(bytes)).collect::<Result<Vec<_>, _>>();
        let routes = read.map_err(|e| malformed(what(), e))?;
        Ok(routes.into_iter().filter(|route| route.family() == family).collect())
    }

    /// Every rule of a family, in order.
    pub fn rules(&mut self, family: u8) -> Result<Vec<Rule>, KernelError> {
        let what = || format!("listing the rules of family {family}");
        let all = match self.dump(GET_RULE, &[family, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], what()) {
            Err(e) if e.is_unsupported() => return Ok(Vec::new()),
            all => all?,
        };
        let rules = all.iter().map(|bytes| Rule::decode(bytes)).collect::<Result<Vec<_>, _>>();
        let rules = rules.map_err(|e| malformed(what(), e))?;
        Ok(rules.into_iter().filter(|rule| rule.family() == family).collect())
    }

    /// Adds a route that must not be there yet.
    pub fn add_route(&mut self, route: &Route, what: &str) -> Result<(), KernelError> {
        self.ask(NEW_ROUTE, CREATE | EXCLUSIVE, &route.encode(), format!("adding the route {what}"))
    }

    /// Removes a route; one that another program made is not found.
    pub fn delete_route(&mut self, route: &Route, what: &str) -> Result<(), KernelError> {
        self.ask(DEL_ROUTE, 0, &route.encode(), format!("removing the route {what}"))
    }

    /// Adds a rule that must not be there yet.
    pub fn add_rule(&mut self, rule: &Rule, what: &str) -> Result<(), KernelError> {
        self.ask(NEW_RULE, CREATE | EXCLUSIVE, &rule.encode(), format!("adding the rule {what}"))
    }

    /// Removes a rule; one that another program made is not found.
    pub fn delete_rule(&mut self, rule: &Rule, what: &str) -> Result<(), KernelError> {
        self.ask(DEL_RULE, 0, &rule.encode(), format!("removing the rule {what}"))
    }

    /// What is remembered of past TCP connections. Nothing where the kernel keeps no such memory.
    pub fn remembered(&mut self) -> Result<Vec<Remembered>, KernelError> {
        let what = || "reading the metrics of past connections (tcp_metrics)".to_owned();
        let Some(id) = self.metrics_family()? else { return Ok(Vec::new()) };
        let payload = [tcp_metrics::GET, tcp_metrics::VERSION, 0, 0];
        let all = self.dump_on(true, id, &payload, what())?;
        let read = all.iter().map(|bytes| Remembered::decode(bytes)).collect::<Result<Vec<_>, _>>();
        Ok(read.map_err(|e| malformed(what(), e))?.into_iter().flatten().collect())
    }

    /// Whether the kernel keeps memories of past TCP connections.
    pub fn remembers(&mut self) -> Result<bool, KernelError> {
        Ok(self.metrics_family()?.is_some())
    }

    fn metrics_family(&mut self) -> Result<Option<u16>, KernelError> {
        if let Some((_, Some(id))) = self.generic {
            return Ok(Some(id));
        }
        let what = || "asking for the family tcp_metrics".to_owned();
        let name = [tcp_metrics::FAMILY.as_bytes(), b"\0"].concat();
        let head = [tcp_metrics::GET_FAMILY, 1, 0, 0];
        let payload = [head.as_slice(), &encode(&[Attribute::new(tcp_metrics::FAMILY_NAME, name)])].concat();
        let mut answers = Vec::new();
        self.generic()?;
        match self.exchange(true, CONTROL, REQUEST | ACK, &payload, &mut answers) {
            Ok(_) => {}
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(KernelError::new(what(), e)),
        }
        let id = answers.iter().find_map(|bytes| tcp_metrics::family_id(bytes).transpose());
        let id = id.transpose().map_err(|e| malformed(what(), e))?;
        if let Some((_, known)) = &mut self.generic {
            *known = id;
        }
        Ok(id)
    }

    fn generic(&mut self) -> Result<(), KernelError> {
        if self.generic.is_none() {
            self.generic = Some((socket(NETLINK_GENERIC)?, None));
        }
        Ok(())
    }

    fn ask(&mut self, kind: u16, flags: u16, payload: &[u8], what: String) -> Result<(), KernelError> {
        let asked = self.exchange(false, kind, REQUEST | ACK | flags, payload, &mut Vec::new());
        asked.map(drop).map_err(|e| KernelError::new(what, e))
    }

    fn dump(&mut self, kind: u16, payload: &[u8], what: String) -> Result<Vec<Vec<u8>>, KernelError> {
        self.dump_on(false, kind, payload, what)
    }

    fn dump_on(&mut self, generic: bool, kind: u16, payload: &[u8], what: String) -> Result<Vec<Vec<u8>>, KernelError> {
        for _ in 0..MOST_DUMPS {
            let mut found = Vec::new();
            match self.exchange(generic, kind, REQUEST | DUMP, payload, &mut found) {
                Ok(true) => return Ok(found),
                Ok(false) => {}
                Err(e) => return Err(KernelError::new(what, e)),
            }
        }
        Err(KernelError::new(what, io::Error::other("it changes faster than it can be read")))
    }

    /// Sends one request and gathers what is answered until it ends; whether the answer is whole.
    fn exchange(
        &mut self,
        generic: bool,
        kind: u16,
        flags: u16,
        payload: &[u8],
        answers: &mut Vec<Vec<u8>>,
    ) -> io::Result<bool> {
        self.sequence = self.sequence.wrapping_add(1);
        let sequence = self.sequence;
        let socket = match &self.generic {
            Some((socket, _)) if generic => socket,
            _ => &self.route,
        };
        let mut message = Vec::with_capacity(HEADER + payload.len());
        message.extend_from_slice(&u32::try_from(HEADER + payload.len()).unwrap_or(u32::MAX).to_ne_bytes());
        message.extend_from_slice(&kind.to_ne_bytes());
        message.extend_from_slice(&flags.to_ne_bytes());
        message.extend_from_slice(&sequence.to_ne_bytes());
        message.extend_from_slice(&[0; 4]);
        message.extend_from_slice(payload);
        socket.send(&message, 0)?;
        let mut whole = true;
        loop {
            let (bytes, _) = socket.recv_from_full()?;
            let mut rest = bytes.as_slice();
            while let Some(head) = rest.first_chunk::<HEADER>() {
                let [a, b, c, d, k, l, f, g, s, t, u, v, ..] = *head;
                let length = usize::try_from(u32::from_ne_bytes([a, b, c, d])).unwrap_or(usize::MAX);
                let (kind, flags) = (u16::from_ne_bytes([k, l]), u16::from_ne_bytes([f, g]));
                let Some(body) = rest.get(HEADER..length) else {
                    return Err(io::Error::other("the kernel's answer was cut"));
                };
                rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
                if u32::from_ne_bytes([s, t, u, v]) != sequence {
                    continue;
                }
                whole &= flags & INTERRUPTED == 0;
                match kind {
                    ERROR | DONE => {
                        let code = body.first_chunk::<4>().map_or(0, |code| i32::from_ne_bytes(*code));
                        let refused = || io::Error::from_raw_os_error(code.saturating_neg());
                        return if code < 0 { Err(refused()) } else { Ok(whole) };
                    }
                    _ => answers.push(body.to_vec()),
                }
            }
        }
    }
}

fn socket(protocol: isize) -> Result<Socket, KernelError> {
    let open = || {
        let mut socket = Socket::new(protocol)?;
        socket.bind_auto()?;
        socket.connect(&SocketAddr::new(0, 0))?;
        // An error without the request that it is about: shorter answers.
        let _ = socket.set_cap_ack(true);
        Ok(socket)
    };
    open().map_err(|e: io::Error| KernelError::new("opening a netlink socket", e))
}

fn malformed(what: String, e: Malformed) -> KernelError {
    KernelError::new(what, io::Error::other(e))
}

#[cfg(test)]
mod tests {
    use super::*;
    use headstart_core::wire::netlink::{AF_INET, AF_INET6};

    #[test]
    fn anybody_may_read_routes_rules_and_memories() {
        let mut kernel = Kernel::open().unwrap();
        for family in [AF_INET, AF_INET6] {
            assert!(kernel.routes(family).unwrap().iter().all(|route| route.destination().is_some()));
            kernel.rules(family).unwrap();
        }
        if kernel.remembers().unwrap() {
            kernel.remembered().unwrap();
        }
    }
}
