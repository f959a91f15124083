//! SOCKS version 5 from the proxy's side (RFC 1928): read what a program asks for, say what it gets.
//!
//! One method, no authentication, and one command, CONNECT: it is for programs of this host. Foreign bytes: whatever comes is
//! a message, not enough of one, or an error; nothing panics.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const VERSION: u8 = 5;
const NO_AUTHENTICATION: u8 = 0;
const NONE_ACCEPTABLE: u8 = 0xff;
const CONNECT: u8 = 1;
const IPV4: u8 = 1;
const NAME: u8 = 3;
const IPV6: u8 = 4;

/// Bytes that a greeting or a request never exceeds: 255 methods, or a name of 255 bytes.
pub const MAX_MESSAGE: usize = 262;

/// The host that a program asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Host {
    /// A name, as the program wrote it.
    Name(String),
    /// An address.
    Address(IpAddr),
}

/// Why bytes are not what they should be, and the answer to the program before the connection is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SocksError {
    /// Another version, or another protocol.
    #[error("not SOCKS version 5: set the program to SOCKS5 (curl: --socks5-hostname)")]
    Version,
    /// The program insists on authentication.
    #[error("the program requires authentication: leave its user name and password for the proxy empty")]
    Authentication,
    /// BIND, UDP ASSOCIATE, or none.
    #[error("SOCKS command {0} is not supported: only CONNECT (TCP) is")]
    Command(u8),
    /// An address that does not read.
    #[error("the request has no valid host and port")]
    Address,
}

impl SocksError {
    /// The answer to the program (RFC 1928, sections 3 and 6); nothing, if it does not speak this protocol.
    pub fn reply(self) -> Vec<u8> {
        match self {
            Self::Version => Vec::new(),
            Self::Authentication => vec![VERSION, NONE_ACCEPTABLE],
            Self::Command(_) => reply(Reply::NoCommand),
            Self::Address => reply(Reply::NoAddress),
        }
    }
}

/// Reads a greeting; its length if it is complete.
pub fn greeting(bytes: &[u8]) -> Result<Option<usize>, SocksError> {
    match bytes {
        [] | [VERSION] => Ok(None),
        [VERSION, count, methods @ ..] => {
            let Some(methods) = methods.get(..usize::from(*count)) else { return Ok(None) };
            if !methods.contains(&NO_AUTHENTICATION) {
                return Err(SocksError::Authentication);
            }
            Ok(Some(2 + methods.len()))
        }
        _ => Err(SocksError::Version),
    }
}

/// The answer to a greeting: without authentication.
pub const WELCOME: [u8; 2] = [VERSION, NO_AUTHENTICATION];

/// Reads a request: host, port and its length, if it is complete.
pub fn request(bytes: &[u8]) -> Result<Option<(Host, u16, usize)>, SocksError> {
    let [version, rest @ ..] = bytes else { return Ok(None) };
    if *version != VERSION {
        return Err(SocksError::Version);
    }
    let [command, _, kind, rest @ ..] = rest else { return Ok(None) };
    if *command != CONNECT {
        return Err(SocksError::Command(*command));
    }
    let (host, rest) = match *kind {
        IPV4 => match rest.split_first_chunk::<4>() {
            Some((address, rest)) => (Host::Address(Ipv4Addr::from(*address).into()), rest),
            None => return Ok(None),
        },
        IPV6 => match rest.split_first_chunk::<16>() {
            Some((address, rest)) => (Host::Address(Ipv6Addr::from(*address).into()), rest),
            None => return Ok(None),
        },
        NAME => {
            let Some((length, rest)) = rest.split_first() else { return Ok(None) };
            let Some((name, rest)) = rest.split_at_checked(usize::from(*length)) else { return Ok(None) };
            let name = std::str::from_utf8(name).ok().filter(|name| !name.is_empty()).ok_or(SocksError::Address)?;
            (Host::Name(name.to_owned()), rest)
        }
        _ => return Err(SocksError::Address),
    };
    let Some((port, rest)) = rest.split_first_chunk::<2>() else { return Ok(None) };
    Ok(Some((host, u16::from_be_bytes(*port), bytes.len() - rest.len())))
}

/// What became of a request (RFC 1928, section 6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// What follows is the stream.
    Succeeded,
    /// Something failed.
    Failed,
    /// It is not allowed.
    NotAllowed,
    /// The host cannot be reached.
    Unreachable,
    /// Not CONNECT.
    NoCommand,
    /// No host that could be connected to.
    NoAddress,
}

/// A reply; the address that the stream comes from is left out.
pub fn reply(what: Reply) -> Vec<u8> {
    let code = match what {
        Reply::Succeeded => 0,
        Reply::Failed => 1,
        Reply::NotAllowed => 2,
        Reply::Unreachable => 4,
        Reply::NoCommand => 7,
        Reply::NoAddress => 8,
    };
    // The unspecified address and port zero: nowhere.
    vec![VERSION, code, 0, IPV4, 0, 0, 0, 0, 0, 0]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_program_asks_for_a_name_and_two_kinds_of_addresses() {
        assert_eq!(greeting(&[5, 2, 2, 0, 9]), Ok(Some(4)));
        let mut name = vec![5, 1, 0, 3, 11];
        name.extend_from_slice(b"example.org\x01\xbbrest");
        assert_eq!(request(&name), Ok(Some((Host::Name("example.org".into()), 443, 18))));
        assert_eq!(
            request(&[5, 1, 0, 1, 10, 0, 0, 1, 0, 22]),
            Ok(Some((Host::Address("10.0.0.1".parse().unwrap()), 22, 10)))
        );
        let mut six = vec![5, 1, 0, 4];
        six.extend_from_slice(&Ipv6Addr::LOCALHOST.octets());
        six.extend_from_slice(&[0, 22]);
        assert_eq!(request(&six), Ok(Some((Host::Address("::1".parse().unwrap()), 22, 22))));
    }

    #[test]
    fn half_a_message_is_waited_for() {
        let whole = [5, 1, 0, 3, 1, b'a', 0, 22];
        for half in 0..whole.len() {
            assert_eq!(request(&whole[..half]), Ok(None));
        }
        for half in [&[][..], &[5], &[5, 3], &[5, 3, 0, 1]] {
            assert_eq!(greeting(half), Ok(None));
        }
        assert_eq!(greeting(&[5, 3, 0, 1, 2, 9]), Ok(Some(5)), "and then it is all there");
    }

    #[test]
    fn what_is_not_served_is_refused_with_the_reason_of_the_protocol() {
        assert_eq!(greeting(b"GET /"), Err(SocksError::Version));
        assert_eq!(greeting(&[5, 1, 2]), Err(SocksError::Authentication));
        assert_eq!(SocksError::Authentication.reply(), [5, 255]);
        assert_eq!(request(&[5, 3, 0, 1]), Err(SocksError::Command(3)));
        assert_eq!(SocksError::Command(3).reply()[1], 7);
        assert_eq!(request(&[5, 1, 0, 9]), Err(SocksError::Address));
        assert_eq!(request(&[5, 1, 0, 3, 0]), Err(SocksError::Address));
        assert_eq!(reply(Reply::Succeeded).len(), 10);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused_and_no_length_is_beyond_them(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            if let Ok(Some(len)) = greeting(&bytes) {
                prop_assert!(len <= bytes.len().min(MAX_MESSAGE));
            }
            let mut bytes = bytes;
            if let Some(first) = bytes.first_mut() {
                *first = VERSION;
            }
            if let Ok(Some((_, _, len))) = request(&bytes) {
                prop_assert!(len <= bytes.len().min(MAX_MESSAGE));
            }
        }
    }
}
