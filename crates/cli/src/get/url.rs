//! What is to be fetched, from where.

use crate::exit::{Usage, without_user};
use hyper::Uri;

/// The URL of a file.
#[derive(Clone, Debug)]
pub struct Url {
    /// All of it.
    pub uri: Uri,
    /// The host: a name or an address, without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
}

impl std::str::FromStr for Url {
    type Err = Usage;

    fn from_str(text: &str) -> Result<Self, Usage> {
        let refuse = |why: &str| Usage(format!("{:?} cannot be fetched: {why}", without_user(text)));
        if text.split_once("://").is_some_and(|(_, rest)| rest.is_empty() || rest.starts_with(['/', ':', '?'])) {
            return Err(refuse("it has no host name"));
        }
        if !text.contains("://") {
            return Err(refuse("it must begin with https://"));
        }
        if text.contains(char::is_whitespace) {
            return Err(refuse("write a space as %20"));
        }
        if !text.is_ascii() {
            return Err(refuse(
                "write non-ASCII host names as xn--… (punycode), and other non-ASCII characters as %XX",
            ));
        }
        let uri: Uri = text.parse().map_err(|why| refuse(&format!("{why}")))?;
        match uri.scheme_str() {
            Some("https") => {}
            Some(other) => return Err(refuse(&format!("only https is supported, not {other}"))),
            None => return Err(refuse("it must begin with https://")),
        }
        let authority = uri.authority().map_or("", |authority| authority.as_str());
        if authority.contains('@') {
            return Err(refuse("user names in URLs are not supported"));
        }
        let host = uri.host().unwrap_or_default();
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        if rustls::pki_types::ServerName::try_from(host.as_str()).is_err() {
            return Err(refuse(&format!("{host:?} is not a valid host name")));
        }
        // What follows the last colon outside of brackets is a port, or nothing that may be left out.
        let said = authority.rsplit(']').next().unwrap_or_default().rsplit_once(':').map_or("", |(_, port)| port);
        if !said.is_empty() && uri.port_u16().is_none() {
            return Err(refuse(&format!("{said:?} is not a valid port: write a number up to 65535")));
        }
        let port = uri.port_u16().unwrap_or(443);
        Ok(Self { uri, host, port })
    }
}

impl std::fmt::Display for Url {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.uri.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_host_port_and_file() {
        let url: Url = "https://[::1]:8443/a%20b?q".parse().unwrap();
        assert_eq!((&url.host[..], url.port, url.uri.path()), ("::1", 8443, "/a%20b"));
        let url: Url = "https://www.example.org".parse().unwrap();
        assert_eq!((&url.host[..], url.port, url.uri.path()), ("www.example.org", 443, "/"));
        for wrong in ["https://127.0.0.1:99999/", "https://[::1]:65536/", "https://www.example.org:443x/"] {
            assert!(wrong.parse::<Url>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_cannot_be_fetched_is_refused_with_the_reason() {
        for (text, why) in [
            ("http://x/", "only https"),
            ("www.example.org/x", "cannot be fetched"),
            ("/x", "must begin with https://"),
            ("https://me@x/", "user names in URLs"),
            ("https://x y/", "cannot be fetched"),
            ("https://ä.example/", "cannot be fetched"),
            ("", "cannot be fetched"),
        ] {
            let Usage(told) = text.parse::<Url>().unwrap_err();
            assert!(told.contains(why), "{text:?}: {told}");
        }
        for text in [
            "https://me:hunter2@x/",
            "me:hunter2@x/",
            "http://me:hunter2@x",
            "https://me:hunter2@[x/",
            "https://a:hunter2 @x",
        ] {
            let Usage(told) = text.parse::<Url>().unwrap_err();
            assert!(!told.contains("hunter2"), "{told}");
        }
    }
}
