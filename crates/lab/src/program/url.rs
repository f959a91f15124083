//! What is fetched: a scheme, a host, a port and a path.

use std::fmt;

/// A protocol that pages are fetched by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// HTTP over TCP, port 80.
    Http,
    /// HTTP over TLS, port 443.
    Https,
    /// A repository over SSH, port 22.
    Ssh,
}

impl Scheme {
    /// As in a URL.
    pub fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
            Self::Ssh => "ssh",
        }
    }

    /// The port that a URL without one means.
    pub fn default_port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
            Self::Ssh => 22,
        }
    }
}

/// A page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    /// How it is fetched.
    pub scheme: Scheme,
    /// The host: a name, or an address (IPv6 without brackets).
    pub host: String,
    /// The port.
    pub port: u16,
    /// The path, from its `/` on.
    pub path: String,
}

impl Url {
    /// The front page of `host` at the scheme's own port.
    pub fn new(scheme: Scheme, host: impl Into<String>) -> Self {
        Self { scheme, host: host.into(), port: scheme.default_port(), path: "/".into() }
    }

    /// The page at `path` of the same host; `path` begins with `/`.
    pub fn at(self, path: impl Into<String>) -> Self {
        Self { path: path.into(), ..self }
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { scheme, host, port, path } = self;
        let host = if host.contains(':') { format!("[{host}]") } else { host.clone() };
        if *port == scheme.default_port() {
            write!(f, "{}://{host}{path}", scheme.name())
        } else {
            write!(f, "{}://{host}:{port}{path}", scheme.name())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_written_as_programs_take_it() {
        assert_eq!(Url::new(Scheme::Http, "www.lab.example").to_string(), "http://www.lab.example/");
        assert_eq!(Url::new(Scheme::Https, "2001:db8::1").to_string(), "https://[2001:db8::1]/");
        let other = Url { port: 8080, ..Url::new(Scheme::Http, "www.lab.example") };
        assert_eq!(other.to_string(), "http://www.lab.example:8080/");
        assert_eq!(other.at("/a/b").to_string(), "http://www.lab.example:8080/a/b");
    }
}
