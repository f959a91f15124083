//! getaddrinfo(3): whether the supervisor may answer it, and the answer as the C library would give it.
//!
//! The list is made by the C library itself, one numeric address at a time, and chained: ports, socket types and
//! memory are its own, and its freeaddrinfo (which frees node by node, as POSIX demands for sublists) needs no wrapping.

use crate::ask::{Came, Line, Patience, Received};
use crate::{original, session, waits};
use headstart_core::path::Family;
use headstart_core::wire::shim::{Reply, Request};
use std::ffi::{CStr, CString, c_char, c_int};
use std::net::IpAddr;
use std::ptr;

/// Longest wait for an answer: the supervisor gives up a lookup when the C library would, after 45 s with three servers. Its end
/// ends the wait. getaddrinfo does not report signals.
const PATIENCE: Patience = Patience::Seconds(60);

/// Flags that change nothing for us. With any other (AI_CANONNAME, AI_V4MAPPED, AI_IDN …) the C library answers.
const FLAGS_UNDERSTOOD: c_int = libc::AI_ADDRCONFIG | libc::AI_NUMERICSERV;

/// Asks the supervisor: `None` to leave it to the C library. `frame`: where the caller's stack is.
///
/// # Safety
/// As getaddrinfo(3).
pub(crate) unsafe fn ask(
    node: *const c_char,
    service: *const c_char,
    hints: *const libc::addrinfo,
    res: *mut *mut libc::addrinfo,
    frame: usize,
) -> Option<waits::Handle> {
    let session = session::current()?;
    if node.is_null() || res.is_null() || session.has_own_rules() {
        return None;
    }
    // SAFETY: `node` is not null (above), so it is a C string.
    let name = unsafe { CStr::from_ptr(node) }.to_str().ok().filter(|n| is_hostname(n))?;
    // SAFETY: `hints` is null or valid.
    let hint = unsafe { hints.as_ref() };
    // getaddrinfo(3): what no hints mean, but for AI_V4MAPPED, which says nothing where no family is named.
    let flags = hint.map_or(libc::AI_ADDRCONFIG, |h| h.ai_flags);
    let family = match hint.map_or(libc::AF_UNSPEC, |h| h.ai_family) {
        libc::AF_UNSPEC => None,
        libc::AF_INET => Some(Family::V4),
        libc::AF_INET6 => Some(Family::V6),
        _ => return None,
    };
    if flags & !FLAGS_UNDERSTOOD != 0 {
        return None;
    }
    let stream = hint.is_some_and(|h| h.ai_socktype == libc::SOCK_STREAM);
    // SAFETY: `service` is null or a C string.
    let port = unsafe { port(service) };
    let request = Request::Resolve {
        app: session.app.clone(),
        name: name.to_owned(),
        family,
        port: port.filter(|_| stream),
        configured_only: flags & libc::AI_ADDRCONFIG != 0,
    };
    let line = Line::open(session)?;
    line.send(&request)?;
    waits::begin(line, PATIENCE, None, frame)
}

/// The answer, after the wait for it: `None` to leave it to the C library.
///
/// # Safety
/// As getaddrinfo(3).
pub(crate) unsafe fn take(
    question: waits::Handle,
    came: Came,
    service: *const c_char,
    hints: *const libc::addrinfo,
    res: *mut *mut libc::addrinfo,
) -> Option<c_int> {
    let (wait, _) = waits::end(question)?;
    let reply = match wait.line.receive(came)? {
        Received::Reply(reply, _) => reply,
        // The C library starts over.
        Received::Interrupted | Received::TimedOut => return None,
    };
    // SAFETY: `service` and `hints` are the caller's.
    let failure = |code| Some(unsafe { failure_of_service(service, hints) }.unwrap_or(code));
    match reply {
        // SAFETY: `service`, `hints` and `res` are the caller's.
        Reply::Addresses(list) => unsafe { chain(&list, service, hints, res) },
        Reply::NoName => failure(libc::EAI_NONAME),
        Reply::NoData => failure(libc::EAI_NODATA),
        Reply::TryAgain => failure(libc::EAI_AGAIN),
        Reply::HandOver { .. } | Reply::Failed(_) | Reply::Pass(_) => None,
    }
}

/// What is wrong with `service`: the C library says that before it looks for the name.
///
/// # Safety
/// As getaddrinfo(3).
unsafe fn failure_of_service(service: *const c_char, hints: *const libc::addrinfo) -> Option<c_int> {
    if service.is_null() {
        return None;
    }
    // SAFETY: `addrinfo` is plain data; all zeroes is what null hints mean, but for flags.
    let mut hint = unsafe { hints.as_ref().copied().unwrap_or_else(|| std::mem::zeroed()) };
    hint.ai_flags &= libc::AI_NUMERICSERV;
    let mut list = ptr::null_mut();
    // SAFETY: a C string, valid hints, a valid place for the result. No name: nothing is looked up but the service.
    let code = unsafe { original::getaddrinfo(ptr::null(), service, &hint, &mut list) };
    if !list.is_null() {
        // SAFETY: a list of the C library's making.
        unsafe { libc::freeaddrinfo(list) };
    }
    (code == libc::EAI_SERVICE).then_some(code)
}

/// Whether `name` may be a name of DNS: neither an address in any of its spellings nor empty.
fn is_hostname(name: &str) -> bool {
    let last = name.trim_end_matches('.').rsplit('.').next().unwrap_or_default();
    let spelled_address = last.starts_with(|c: char| c.is_ascii_digit()) || name.contains([':', '%']);
    !last.is_empty() && name.is_ascii() && !spelled_address
}

/// The port that a service string gives in digits.
///
/// # Safety
/// `service` null or a C string.
unsafe fn port(service: *const c_char) -> Option<u16> {
    if service.is_null() {
        return None;
    }
    // SAFETY: not null (above).
    unsafe { CStr::from_ptr(service) }.to_str().ok()?.parse().ok().filter(|p| *p != 0)
}

/// Writes the chained list of `addresses` to `res`.
///
/// # Safety
/// As getaddrinfo(3).
unsafe fn chain(
    addresses: &[IpAddr],
    service: *const c_char,
    hints: *const libc::addrinfo,
    res: *mut *mut libc::addrinfo,
) -> Option<c_int> {
    // SAFETY: `addrinfo` is plain data; all zeroes is what null hints mean, but for the flags set below.
    let mut hint = unsafe { hints.as_ref().copied().unwrap_or_else(|| std::mem::zeroed()) };
    // What glibc's nodes say: the flags of the hints; without hints, the defaults that getaddrinfo(3) names.
    let said = if hints.is_null() { libc::AI_V4MAPPED | libc::AI_ADDRCONFIG } else { hint.ai_flags };
    // Which families are configured was settled by the lookup.
    hint.ai_flags = (hint.ai_flags & !libc::AI_ADDRCONFIG) | libc::AI_NUMERICHOST;
    let (mut head, mut tail): (*mut libc::addrinfo, *mut libc::addrinfo) = (ptr::null_mut(), ptr::null_mut());
    for addr in addresses {
        let mut part = ptr::null_mut();
        let text = CString::new(addr.to_string()).ok()?;
        // SAFETY: C strings, valid hints, a valid place for the result.
        let code = unsafe { original::getaddrinfo(text.as_ptr(), service, &hint, &mut part) };
        if code != 0 || part.is_null() {
            if !head.is_null() {
                // SAFETY: `head` is a list of the C library's making.
                unsafe { libc::freeaddrinfo(head) };
            }
            return None;
        }
        if head.is_null() {
            head = part;
        } else {
            // SAFETY: `tail` is the last node of the list so far.
            unsafe { (*tail).ai_next = part };
        }
        tail = part;
        // SAFETY: nodes of a list of the C library's making, which no other code has seen yet.
        while let Some(node) = unsafe { tail.as_mut() } {
            node.ai_flags = said;
            if node.ai_next.is_null() {
                break;
            }
            tail = node.ai_next;
        }
    }
    if head.is_null() {
        return None;
    }
    // SAFETY: `res` is valid for a write.
    unsafe { *res = head };
    Some(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_in_every_spelling_are_not_names() {
        for address in ["192.0.2.1", "2001:db8::1", "fe80::1%eth0", "127.1", "0x7f.1", "1", "", "."] {
            assert!(!is_hostname(address), "{address}");
        }
        for name in ["example.org", "example.org.", "a", "4chan.example", "xn--bcher-kva.example"] {
            assert!(is_hostname(name), "{name}");
        }
        assert!(!is_hostname("bücher.example"), "IDN is the C library's");
    }

    #[test]
    fn the_list_is_in_our_order_with_the_programs_port_and_one_free_frees_it() {
        let list: Vec<IpAddr> = vec!["192.0.2.7".parse().unwrap(), "2001:db8::7".parse().unwrap()];
        // SAFETY: plain data.
        let mut hints: libc::addrinfo = unsafe { std::mem::zeroed() };
        hints.ai_socktype = libc::SOCK_STREAM;
        let mut res = ptr::null_mut();
        // SAFETY: C strings and valid pointers.
        let code = unsafe { chain(&list, c"443".as_ptr(), &hints, &mut res) };
        assert_eq!(code, Some(0));
        let mut families = Vec::new();
        let mut node = res;
        // SAFETY: a list of the C library's making.
        while let Some(n) = unsafe { node.as_ref() } {
            // SAFETY: port is at the same place in sockaddr_in and sockaddr_in6.
            let port = unsafe { (*n.ai_addr.cast::<libc::sockaddr_in>()).sin_port };
            families.push((n.ai_family, u16::from_be(port), n.ai_socktype));
            node = n.ai_next;
        }
        assert_eq!(families, [(libc::AF_INET, 443, libc::SOCK_STREAM), (libc::AF_INET6, 443, libc::SOCK_STREAM)]);
        // SAFETY: as made above.
        unsafe { libc::freeaddrinfo(res) };
    }
}
