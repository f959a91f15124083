//! The programs: how each looks up a name and connects, as its source or a trace of it says. None knows whether it runs
//! bare or under headstart.
//!
//! | client | lookup | connects |
//! |---|---|---|
//! | blocking | getaddrinfo | one by one, blocking |
//! | limited | getaddrinfo | one by one, not blocking, each given up after its limit (CPython's `create_connection`) |
//! | curl 7.88 | getaddrinfo | one by one in each family; the second family 200 ms later, or when the first has failed |
//! | Go | its own resolver | as curl with 300 ms; the limit of 30 s shared out over the addresses of a list (`net.Dialer`) |
//! | Node 20 | getaddrinfo | families in turn, each given up after 250 ms but the last |
//! | Java | getaddrinfo, IPv4 first | one by one, blocking, sockets of AF_INET6 |
//! | Chromium | getaddrinfo | as curl with 300 ms |
//! | musl | its own resolver | one by one, blocking |

use super::resolver::{glibc, go, musl};
use super::sim::{Either, Os, Outcome, Wait, first, ms};
use super::world::Client;
use headstart_core::path::Family;
use headstart_core::time::Duration;
use std::net::IpAddr;
use std::pin::pin;

/// One visit: who was reached, if anybody was.
pub async fn visit(os: &Os, client: Client) -> Option<IpAddr> {
    let list = match client {
        Client::Go => go(os).await,
        Client::Musl => musl(os).await,
        _ => match os.resolve() {
            Some(call) => match call.await {
                Outcome::Resolved(list) => list,
                _ => glibc(os).await,
            },
            None => glibc(os).await,
        },
    };
    if let Some(told) = os.0.borrow_mut().told.last_mut() {
        told.clone_from(&list);
    }
    match client {
        Client::Blocking | Client::Musl => one_by_one(os, &list, Style::BLOCKING, None).await,
        Client::Limited(limit) => one_by_one(os, &list, Style::WAITS_NOT, Some(Limit::Each(ms(limit)))).await,
        Client::Curl => eyeballs(os, &list, ms(200), None).await,
        Client::Go => eyeballs(os, &list, ms(300), Some(Limit::Shared(ms(30_000)))).await,
        Client::Chromium => eyeballs(os, &list, ms(300), None).await,
        Client::Node => one_by_one(os, &in_turn(&list), Style::WAITS_NOT, Some(Limit::AllButLast(ms(250)))).await,
        Client::Java => {
            let mut list = list;
            list.sort_by_key(IpAddr::is_ipv6);
            let mapped = os.0.borrow().world.families.1;
            one_by_one(os, &list, Style { blocking: true, mapped }, None).await
        }
    }
}

#[derive(Clone, Copy)]
struct Style {
    blocking: bool,
    /// Its sockets are of AF_INET6, IPv4 addresses mapped.
    mapped: bool,
}

impl Style {
    const BLOCKING: Self = Self { blocking: true, mapped: false };
    const WAITS_NOT: Self = Self { blocking: false, mapped: false };
}

/// How long a connect may take.
#[derive(Clone, Copy)]
enum Limit {
    Each(Duration),
    AllButLast(Duration),
    /// What is left of all of it, shared out; never less than 2 s.
    Shared(Duration),
}

async fn one_by_one(os: &Os, list: &[IpAddr], style: Style, limit: Option<Limit>) -> Option<IpAddr> {
    let began = os.now();
    for (n, to) in list.iter().enumerate() {
        let left = list.len() - n;
        let time = match limit {
            Some(Limit::Each(time)) => Some(time),
            Some(Limit::AllButLast(time)) => Some(time).filter(|_| left > 1),
            Some(Limit::Shared(all)) => {
                let rest = all.saturating_sub(os.now() - began);
                if rest.is_zero() {
                    return None;
                }
                Some((rest / left as u32).max(ms(2000)).min(rest))
            }
            None => None,
        };
        let domain = if style.mapped { Family::V6 } else { Family::of(*to) };
        let mut call = os.connect(*to, domain, style.blocking);
        let outcome = match time {
            None => Some(call.await),
            Some(time) => match first(&mut call, &mut os.sleep(time)).await {
                Either::First(outcome) => Some(outcome),
                Either::Second(_) => None,
            },
        };
        if outcome == Some(Outcome::Tcp(Ok(()))) {
            return Some(*to);
        }
    }
    None
}

/// Both families at a time, each one by one: the one of the list's head first, the other after `delay` or when the first
/// has nothing left.
async fn eyeballs(os: &Os, list: &[IpAddr], delay: Duration, limit: Option<Limit>) -> Option<IpAddr> {
    let head = Family::of(*list.first()?);
    let (ours, others): (Vec<_>, Vec<_>) = list.iter().partition(|a| Family::of(**a) == head);
    let mut one = pin!(one_by_one(os, &ours, Style::WAITS_NOT, limit));
    let mut timer: Wait = os.sleep(delay);
    let early = match first(&mut one, &mut timer).await {
        Either::First(Some(to)) => return Some(to),
        Either::First(None) => true,
        Either::Second(_) => false,
    };
    let mut other = pin!(one_by_one(os, &others, Style::WAITS_NOT, limit));
    if early {
        return other.await;
    }
    match first(&mut one, &mut other).await {
        Either::First(Some(to)) | Either::Second(Some(to)) => Some(to),
        Either::First(None) => other.await,
        Either::Second(None) => one.await,
    }
}

/// Families in turn, beginning with the head's.
fn in_turn(list: &[IpAddr]) -> Vec<IpAddr> {
    let head = list.first().map(|a| Family::of(*a));
    let (ours, others): (Vec<IpAddr>, Vec<IpAddr>) = list.iter().partition(|a| Some(Family::of(**a)) == head);
    let (mut ours, mut others) = (ours.into_iter(), others.into_iter());
    let mut turns = Vec::new();
    for _ in 0..list.len() {
        turns.extend(ours.next());
        turns.extend(others.next());
    }
    turns
}
