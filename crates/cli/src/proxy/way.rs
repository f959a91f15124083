//! The ways out of the host: connections that leave by a channel's interface or from its address.
//!
//! A channel over which nothing could be reached is left to the other one for a while, as a tunnel would do it.

use headstart_core::steer::Channel;
use headstart_core::time::{Duration, Instant};
use headstart_io::clock::Clock;
use headstart_io::sys::netlink::Netlink;
use headstart_io::sys::socket_option::bind_to_device;
use headstart_realtime::relay::Destination;
use headstart_realtime::relay::access::{Access, Host};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;

/// How long an attempt is waited for before the next begins beside it: the Connection Attempt Delay of RFC 8305, section 8.
const DELAY: std::time::Duration = std::time::Duration::from_millis(250);
/// How long the chosen channel is given before the other one is tried beside it. Ours: a SYN that was lost comes again after a second.
const SOON: std::time::Duration = std::time::Duration::from_millis(1_500);
/// How long anything may take to be reached at all.
const AT_LAST: std::time::Duration = std::time::Duration::from_secs(20);
/// For how long a channel that has failed is left. Ours.
const SHUNNED: Duration = Duration::from_secs(10);
/// For how long what was sent may go unacknowledged, in milliseconds. Ours.
const UNHEARD: u32 = 10_000;
/// The longest name of an interface: IFNAMSIZ less its end.
const LONGEST_NAME: usize = 15;

/// Where a channel leaves the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bound {
    /// By this interface alone.
    Interface(String),
    /// From this address; routes by source are the host's affair.
    Address(IpAddr),
}

impl FromStr for Bound {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(address) = text.parse::<IpAddr>() {
            // One address has one form: both channels are compared.
            return Ok(Self::Address(address.to_canonical()));
        }
        let is_name = !text.is_empty()
            && text.len() <= LONGEST_NAME
            && text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'/' && byte != b':');
        if is_name {
            Ok(Self::Interface(text.into()))
        } else {
            Err("must be an IP address or an interface name".into())
        }
    }
}

impl Bound {
    /// What is not there now, in words. It may come: a modem that is plugged in, a network that is joined.
    pub fn absent(&self) -> Option<String> {
        match self {
            Self::Interface(name) => {
                let is_there = Netlink::open().and_then(|mut netlink| netlink.index(name)).is_ok();
                (!is_there).then(|| format!("unknown interface `{name}`"))
            }
            Self::Address(own) => {
                let is_there = std::net::UdpSocket::bind((*own, 0)).is_ok();
                (!is_there).then(|| format!("{own} is not an address of this host"))
            }
        }
    }

    /// A connection to one of `all`, in their order.
    async fn connect(&self, all: &[SocketAddr]) -> io::Result<TcpStream> {
        let ours = |to: &&SocketAddr| match self {
            Self::Interface(_) => true,
            Self::Address(own) => own.is_ipv4() == to.is_ipv4(),
        };
        let mut attempts = JoinSet::new();
        for (n, to) in all.iter().filter(ours).enumerate() {
            let (bound, to, after) = (self.clone(), *to, DELAY * n as u32);
            attempts.spawn(async move {
                tokio::time::sleep(after).await;
                bound.attempt(to).await
            });
        }
        let mut failed = io::Error::new(
            io::ErrorKind::AddrNotAvailable,
            "no address in an address family that the channel supports",
        );
        while let Some(attempt) = attempts.join_next().await {
            match attempt.unwrap_or_else(|e| Err(io::Error::other(e))) {
                Ok(stream) => return Ok(stream),
                Err(why) => failed = why,
            }
        }
        Err(failed)
    }

    async fn attempt(&self, to: SocketAddr) -> io::Result<TcpStream> {
        let socket = if to.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        match self {
            Self::Interface(name) => bind_to_device(&socket, name)?,
            Self::Address(own) => socket.bind(SocketAddr::new(*own, 0))?,
        }
        let stream = socket.connect(to).await?;
        stream.set_nodelay(true)?;
        // On a channel that has died nothing else would end it for a quarter of an hour.
        let _ = rustix::net::sockopt::set_tcp_user_timeout(&stream, UNHEARD);
        Ok(stream)
    }
}

/// Both channels.
pub struct Ways {
    ways: [Bound; 2],
    /// Until when a channel is left.
    left: Mutex<[Instant; 2]>,
    clock: Clock,
    /// What may be reached of private networks and of this host, where other hosts may ask.
    private: Option<Access>,
}

impl Ways {
    /// The fat channel and the fast one. With `private`, listed users ask, who may be on other hosts: of private networks and of this host's
    /// own addresses they reach what that allows.
    pub fn new(ways: [Bound; 2], private: Option<Access>) -> Self {
        Self { ways, left: Mutex::new([Instant::ZERO; 2]), clock: Clock::new(), private }
    }

    /// Where `host` is, as far as it may be reached through a proxy: what is this host's own is not, since it is open here to
    /// programs that trust every client on this host.
    pub async fn resolve(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let all: Vec<SocketAddr> = tokio::net::lookup_host((host, port)).await?.collect();
        let others: Vec<SocketAddr> = all.iter().copied().filter(|to| is_of_others(to.ip())).collect();
        if others.is_empty() && !all.is_empty() {
            return Err(refused("destination is an address of the proxy host itself"));
        }
        let allowed: Vec<SocketAddr> = others.iter().copied().filter(|to| self.is_allowed(host, *to)).collect();
        if allowed.is_empty() && !others.is_empty() {
            return Err(refused(
                "destination is private or the proxy host's own; its operator may add --allow HOST:PORT",
            ));
        }
        Ok(allowed)
    }

    /// Whether other hosts may have a connection to this address of `host`.
    fn is_allowed(&self, host: &str, to: SocketAddr) -> bool {
        let Some(access) = &self.private else { return true };
        if !is_private(to.ip()) && !is_own(to.ip()) {
            return true;
        }
        let by_name = host.parse::<IpAddr>().is_err().then(|| format!("{host}:{}", to.port()).parse().ok()).flatten();
        let by_address = Destination { host: Host::Address(to.ip().to_canonical()), port: to.port() };
        access.allows(&by_name.unwrap_or(by_address), to.ip().to_canonical())
    }

    /// A connection over `channel`, or over the other one if that does not lead there.
    pub async fn connect(&self, channel: Channel, all: &[SocketAddr]) -> io::Result<(Channel, TcpStream)> {
        let first = self.usable(channel);
        let both = async {
            let chosen = self.ways[first.index()].connect(all);
            let mut chosen = std::pin::pin!(chosen);
            let failed = tokio::select! {
                done = &mut chosen => match done {
                    Ok(stream) => return Ok((first, stream)),
                    Err(why) => Some(why),
                },
                () = tokio::time::sleep(SOON) => None,
            };
            let second = first.other();
            let other = self.ways[second.index()].connect(all);
            let Some(why) = failed else {
                return tokio::select! {
                    Ok(stream) = &mut chosen => Ok((first, stream)),
                    Ok(stream) = other => {
                        self.leave(first);
                        Ok((second, stream))
                    }
                    else => Err(io::Error::from(io::ErrorKind::HostUnreachable)),
                };
            };
            // A refusal is the server's, and the same over both.
            if why.kind() == io::ErrorKind::ConnectionRefused {
                return Err(why);
            }
            let stream = other.await.map_err(|_| why)?;
            self.leave(first);
            Ok((second, stream))
        };
        tokio::time::timeout(AT_LAST, both).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }

    /// `channel`, or the other one while that one leads nowhere.
    pub fn usable(&self, channel: Channel) -> Channel {
        if self.is_left(channel) && !self.is_left(channel.other()) { channel.other() } else { channel }
    }

    fn is_left(&self, channel: Channel) -> bool {
        let left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        self.clock.now() < left[channel.index()]
    }

    fn leave(&self, channel: Channel) {
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        left[channel.index()] = self.clock.now() + SHUNNED;
    }
}

fn refused(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, why)
}

/// Whether an address is of a private network: RFC 1918, RFC 6598 (carriers' own), RFC 4193, what is on a link or a site (RFC 3879)
/// alone, and IPv6 addresses that a translator takes to one of these (RFC 6052, RFC 3056).
fn is_private(ip: IpAddr) -> bool {
    match ip.to_canonical() {
        IpAddr::V4(v4) => {
            let [a, b, ..] = v4.octets();
            v4.is_private() || v4.is_link_local() || (a == 100 && b & 0xc0 == 64)
        }
        IpAddr::V6(v6) => {
            let is_of_site = v6.segments()[0] & 0xffc0 == 0xfec0;
            let within = translated(v6).into_iter().flatten().any(|v4| is_private(v4.into()) || v4.is_loopback());
            v6.is_unique_local() || v6.is_unicast_link_local() || is_of_site || within
        }
    }
}

/// The IPv4 address in one of NAT64's well-known prefix (64:ff9b::/96) or of 6to4 (2002::/16). In a network's own prefix (64:ff9b:1::/48, RFC
/// 8215) it may be in four places: where is known to the network alone (RFC 6052, section 2.2).
fn translated(v6: Ipv6Addr) -> [Option<Ipv4Addr>; 4] {
    let b = v6.octets();
    let at = |places: [usize; 4]| Some(Ipv4Addr::from(places.map(|place| b[place])));
    match v6.segments() {
        [0x64, 0xff9b, 0, 0, 0, 0, ..] => [at([12, 13, 14, 15]), None, None, None],
        [0x64, 0xff9b, 1, ..] => [[6, 7, 9, 10], [7, 9, 10, 11], [9, 10, 11, 12], [12, 13, 14, 15]].map(at),
        [0x2002, ..] => [at([2, 3, 4, 5]), None, None, None],
        _ => [None; 4],
    }
}

/// Whether an interface of this host has the address. If that is unknown, it counts as its own.
fn is_own(ip: IpAddr) -> bool {
    let length = Netlink::open().and_then(|mut netlink| netlink.prefix_length(ip.to_canonical()));
    length.map_or(true, |length| length.is_some())
}

fn is_of_others(ip: IpAddr) -> bool {
    let ip = ip.to_canonical();
    !(ip.is_loopback() || ip.is_unspecified() || ip.is_multicast())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_addresses_are_known_in_every_form_and_public_ones_through_a_translator_are_none() {
        let private = [
            "10.0.0.1",
            "::ffff:10.0.0.1",
            "64:ff9b::a00:1",
            "2002:c0a8:101::1",
            "fec0::1",
            "fd00::1",
            "64:ff9b::7f00:1",
            // 10.1.2.3 behind 48, 56, 64 and 96 bits of a network's own prefix.
            "64:ff9b:1:a01:2:300::",
            "64:ff9b:1:a:1:203::",
            "64:ff9b:1:0:a:102:300:0",
            "64:ff9b:1::a01:203",
            "64:ff9b:1::7f00:1",
        ];
        for ip in private {
            assert!(is_private(ip.parse().unwrap()), "{ip}");
        }
        for ip in ["192.0.2.1", "2001:db8::1", "64:ff9b::c000:201", "64:ff9b:1::cb00:7150", "2002:c000:201::1"] {
            assert!(!is_private(ip.parse().unwrap()), "{ip}");
        }
    }

    #[test]
    fn a_channel_is_an_interface_or_an_address() {
        assert_eq!("wwan0".parse(), Ok(Bound::Interface("wwan0".into())));
        assert_eq!("192.0.2.7".parse(), Ok(Bound::Address("192.0.2.7".parse().unwrap())));
        assert_eq!("fd77::2".parse(), Ok(Bound::Address("fd77::2".parse().unwrap())));
        assert_eq!("::ffff:192.0.2.7".parse::<Bound>(), "192.0.2.7".parse());
        for bad in ["", "a name", "an/other", "longer-than-names-are"] {
            assert!(bad.parse::<Bound>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn an_interface_that_is_not_there_is_noticed_and_an_address_is_left_to_the_host() {
        let is_absent = |text: &str| text.parse::<Bound>().unwrap().absent();
        assert_eq!(is_absent("nowhere0"), Some("unknown interface `nowhere0`".to_owned()));
        assert_eq!(is_absent("192.0.2.7"), Some("192.0.2.7 is not an address of this host".to_owned()));
        assert_eq!((is_absent("lo"), is_absent("127.0.0.1")), (None, None));
    }

    #[test]
    fn what_is_private_is_for_other_hosts_only_by_a_rule() {
        let rules = ["10.1.0.0/16:443", "desk.example:22"].map(|rule| rule.parse().unwrap());
        let ways = |private| Ways::new([0, 1].map(|n| Bound::Address(IpAddr::from([192, 0, 2, n]))), private);
        let (open, guarded) = (ways(None), ways(Some(Access::new(rules.into()))));
        let at = |text: &str| text.parse::<SocketAddr>().unwrap();
        for private in
            ["10.2.3.4:443", "192.168.0.1:80", "172.16.9.9:443", "169.254.1.1:80", "100.64.1.1:80", "[fd00::1]:80"]
        {
            assert!(!guarded.is_allowed("a.example", at(private)), "{private}");
            assert!(open.is_allowed("a.example", at(private)), "{private}: programs of this host reach it anyway");
        }
        for public in ["203.0.113.80:80", "[2001:db8::1]:443", "100.128.1.1:80"] {
            assert!(guarded.is_allowed("a.example", at(public)), "{public}");
        }
        assert!(
            guarded.is_allowed("10.1.2.3", at("10.1.2.3:443")) && !guarded.is_allowed("10.1.2.3", at("10.1.2.3:80"))
        );
        assert!(guarded.is_allowed("Desk.example", at("192.168.0.9:22")));
        assert!(!guarded.is_allowed("other.example", at("192.168.0.9:22")));
    }

    #[test]
    fn what_is_this_hosts_own_is_not_for_others_whatever_it_is_written_as() {
        for own in ["127.0.0.1", "127.9.9.9", "::1", "0.0.0.0", "::", "::ffff:127.0.0.1", "224.0.0.1", "ff02::1"] {
            assert!(!is_of_others(own.parse().unwrap()), "{own}");
        }
        assert!(is_of_others("203.0.113.80".parse().unwrap()) && is_of_others("2001:db8::1".parse().unwrap()));
    }
}
