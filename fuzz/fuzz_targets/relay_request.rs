//! Any bytes are a request to a relay, a destination, a pattern, a message of SOCKS, or an error; what is read reads back.
//!
//! Requests come from whoever has a key of the relay's, SOCKS from any program of a host.
#![no_main]

use headstart_core::realtime::access::{Access, Destination, Host, Pattern};
use headstart_core::realtime::preface::Request;
use headstart_core::wire::socks;
use libfuzzer_sys::fuzz_target;
use std::net::Ipv4Addr;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(Some((request, _))) = Request::decode(bytes) {
        let mut again = Vec::new();
        request.encode(&mut again);
        assert_eq!(Request::decode(&again), Ok(Some((request, again.len()))));
    }
    for len in [socks::greeting(bytes), socks::request(bytes).map(|read| read.map(|(_, _, len)| len))] {
        if let Ok(Some(len)) = len {
            assert!(len <= bytes.len().min(socks::MAX_MESSAGE));
        }
    }
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Some((pattern, to)) = text.split_once(' ') else { return };
    let (Ok(pattern), Ok(to)) = (pattern.parse::<Pattern>(), to.parse::<Destination>()) else { return };
    assert_eq!(to.to_string().parse::<Destination>().as_ref(), Ok(&to));
    let list = Access::new(vec![pattern]);
    let address = match to.host {
        Host::Address(address) => address,
        Host::Name(_) => Ipv4Addr::LOCALHOST.into(),
    };
    assert!(!list.allows(&to, address) || list.may_resolve(&to));
});
