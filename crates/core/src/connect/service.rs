//! What an HTTPS record (RFC 9460) is good for below a program that knows nothing of it: addresses, and no more.
//!
//! The program that connects here is some TCP client on port 443. What it speaks is unknown, and it has made up its mind about
//! name and port. So of all that such records say, this is used:
//!
//! - **hints** (`ipv4hint`, `ipv6hint`) of a record whose target is the name itself: where the name's own addresses are
//!   expected anyway, only sooner;
//! - the addresses of an **alias** (AliasMode), as far as the server has sent them along.
//!
//! Both only *stand in* for what A and AAAA say: a hint until the record of its family has been answered (RFC 9460,
//! section 7.3), an alias where there is no address of that family. What never happens here: another port is
//! connected to (a record with a `port` but 443 is passed over); a record is used that is not for all clients (`mandatory` with
//! anything beyond addresses, port and ALPN; `no-default-alpn`); an alternative endpoint under another
//! name is used, since only a client that knows of it can tell whether it is meant. That a record has `ech` is kept
//! for any reader, and changes nothing: a TCP handshake encrypts no name.

use crate::wire::record::{Service, key};
use std::net::IpAddr;

/// The only port that HTTPS records are asked for: for others they are under another name (RFC 9460, section 9.1).
pub(super) const PORT: u16 = 443;

/// An address that stands in for what is not known of A and AAAA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StandIn {
    pub addr: IpAddr,
    /// A guess at what the record of its family will say; otherwise an alias's address, which says more than that.
    pub is_hint: bool,
}

/// The addresses of `services` that any TCP client may be sent to on [`PORT`], best first.
pub(super) fn stand_ins(services: &[Service]) -> impl Iterator<Item = StandIn> + '_ {
    services.iter().filter(|s| s.is_alias() || is_plain(s)).flat_map(|s| {
        let v6 = s.ipv6hint.iter().copied().map(IpAddr::from);
        let hints = v6.chain(s.ipv4hint.iter().copied().map(IpAddr::from));
        let alias = s.addresses.iter().copied().filter(|_| s.is_alias());
        hints.map(|addr| StandIn { addr, is_hint: true }).chain(alias.map(|addr| StandIn { addr, is_hint: false }))
    })
}

/// Whether this is the name's own service, as every client may use it.
fn is_plain(service: &Service) -> bool {
    let known = [key::ALPN, key::PORT, key::IPV4_HINT, key::IPV6_HINT];
    service.target.is_none()
        && service.port.is_none_or(|p| p == PORT)
        && !service.no_default_alpn
        && service.mandatory.iter().all(|k| known.contains(k))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain() -> Service {
        let (v4, v6) = ([192, 0, 2, 1].into(), [0x2001, 0xdb8, 0, 0, 0, 0, 0, 1].into());
        Service { priority: 1, ipv4hint: vec![v4], ipv6hint: vec![v6], ..Service::default() }
    }
    fn count(service: Service) -> usize {
        stand_ins(&[service]).count()
    }

    #[test]
    fn hints_of_the_names_own_service_stand_in_whatever_protocols_it_offers() {
        let all: Vec<_> = stand_ins(&[plain()]).map(|s| (s.addr.is_ipv6(), s.is_hint)).collect();
        assert_eq!(all, [(true, true), (false, true)]);
        assert_eq!(count(Service { alpn: vec!["h2".into(), "h3".into()], ech: true, port: Some(443), ..plain() }), 2);
        assert_eq!(count(Service { mandatory: vec![key::ALPN, key::IPV4_HINT], ..plain() }), 2);
    }

    //= RFC 9460#8
    #[test]
    fn what_only_a_client_that_knows_of_it_could_use_is_passed_over() {
        assert_eq!(count(Service { port: Some(8443), ..plain() }), 0, "another port");
        assert_eq!(count(Service { target: Some("svc.example".into()), ..plain() }), 0, "another endpoint");
        assert_eq!(count(Service { no_default_alpn: true, ..plain() }), 0, "HTTP/3 alone, for instance");
        assert_eq!(count(Service { mandatory: vec![key::ALPN, 5], ..plain() }), 0, "not without ECH");
        assert_eq!(count(Service { mandatory: vec![4242], ..plain() }), 0, "not without whatever that is");
    }

    #[test]
    fn an_alias_stands_in_with_its_addresses() {
        let pool = IpAddr::from([192, 0, 2, 9]);
        let alias = Service { target: Some("pool.example".into()), addresses: vec![pool], ..Service::default() };
        assert_eq!(stand_ins(&[alias]).collect::<Vec<_>>(), [StandIn { addr: pool, is_hint: false }]);
        assert_eq!(count(Service { addresses: vec![pool], ..plain() }), 2, "no alias, no addresses of a target");
    }
}
