//! Which requests are allowed: checked for each one before anything of it is served.
//!
//! A page of another site must get nothing, whether it names this server itself or has its own name lead here (DNS
//! rebinding): the Host must be a literal of loopback or the address that is served (421, RFC 9110, section 15.5.20), data
//! needs a token that no other page has (401), and what changes something must come from this very page (403). No answer
//! allows other origins (CORS).

use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, StatusCode};
use std::net::SocketAddr;

/// A route.
#[derive(Debug)]
pub struct Route {
    /// Its method.
    pub method: Method,
    /// Its path.
    pub path: &'static str,
    /// What it takes to be served.
    pub needs: Needs,
}

/// What a route takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// A good Host.
    Host,
    /// The token too.
    Token,
    /// The token, and a request by the page itself.
    Origin,
}

impl Route {
    /// One that any program of this host may ask.
    pub const fn public(method: Method, path: &'static str) -> Self {
        Self { method, path, needs: Needs::Host }
    }

    /// One with data: it takes the token.
    pub const fn data(path: &'static str) -> Self {
        Self { method: Method::GET, path, needs: Needs::Token }
    }

    /// One that changes something.
    pub const fn write(path: &'static str) -> Self {
        Self { method: Method::POST, path, needs: Needs::Origin }
    }
}

/// What is checked.
#[derive(Debug)]
pub struct Guard {
    address: SocketAddr,
    token: Option<String>,
    /// Names that this host is asked by, at any port.
    names: Vec<String>,
}

/// A request that is not served: the status, and why.
pub type Refusal = (StatusCode, &'static str);

impl Guard {
    /// Of a server without secrets at `address`, which may also be asked by `names`. A page of another site can make none of them lead here: who owns a name decides
    /// where it leads.
    pub fn named(address: SocketAddr, names: Vec<String>) -> Self {
        Self { address, token: None, names }
    }

    /// Of one whose data takes `token`.
    pub fn with_token(address: SocketAddr, token: String) -> Self {
        Self { address, token: Some(token), names: Vec::new() }
    }

    /// The path of the route that serves this request, or why it is refused. The Host comes first: what it is wrong for learns
    /// not even which paths there are.
    pub fn check(
        &self,
        routes: &'static [Route],
        method: &Method,
        path: &str,
        headers: &HeaderMap,
    ) -> Result<&'static str, Refusal> {
        if !self.is_host(headers) {
            return Err((StatusCode::MISDIRECTED_REQUEST, "wrong Host: use the address that headstart printed\n"));
        }
        let mut here = routes.iter().filter(|route| route.path == path).peekable();
        if here.peek().is_none() {
            return Err((StatusCode::NOT_FOUND, "no such page\n"));
        }
        let reads = |route: &Route| method == Method::HEAD && route.method == Method::GET;
        let Some(route) = here.find(|route| route.method == *method || reads(route)) else {
            return Err((StatusCode::METHOD_NOT_ALLOWED, "method not allowed on this path\n"));
        };
        if route.needs != Needs::Host && !self.has_token(headers) {
            return Err((StatusCode::UNAUTHORIZED, "token missing: open the whole address that headstart printed\n"));
        }
        if route.needs == Needs::Origin && !self.is_own_page(headers) {
            return Err((StatusCode::FORBIDDEN, "only the page itself may request this\n"));
        }
        Ok(route.path)
    }

    /// Headers of every answer.
    pub fn label(&self, headers: &mut HeaderMap) {
        let all = [
            (
                header::CONTENT_SECURITY_POLICY,
                "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
                 base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'",
            ),
            (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
            (header::REFERRER_POLICY, "no-referrer"),
            (header::CACHE_CONTROL, "no-store"),
            (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
            (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        ];
        for (name, value) in all {
            headers.insert(name, HeaderValue::from_static(value));
        }
    }

    fn is_host(&self, headers: &HeaderMap) -> bool {
        let mut all = headers.get_all(header::HOST).iter();
        let (Some(host), None) = (all.next().and_then(|host| host.to_str().ok()), all.next()) else { return false };
        let port = self.address.port();
        let literals = [format!("127.0.0.1:{port}"), format!("[::1]:{port}"), format!("localhost:{port}")];
        let is_own = host
            .parse::<SocketAddr>()
            .is_ok_and(|to| to == self.address || (self.address.ip().is_unspecified() && to.port() == port));
        let name = host.rsplit_once(':').filter(|(_, port)| port.parse::<u16>().is_ok()).map_or(host, |(name, _)| name);
        let is_named = self.names.iter().any(|known| name.eq_ignore_ascii_case(known));
        is_own || is_named || literals.iter().any(|literal| host.eq_ignore_ascii_case(literal))
    }

    fn has_token(&self, headers: &HeaderMap) -> bool {
        let given = headers.get(header::AUTHORIZATION).and_then(|value| value.as_bytes().strip_prefix(b"Bearer "));
        let (Some(token), Some(given)) = (&self.token, given) else { return false };
        // As long for a wrong byte at the end as for one at the beginning.
        given.len() == token.len() && given.iter().zip(token.bytes()).fold(0, |all, (a, b)| all | (a ^ b)) == 0
    }

    fn is_own_page(&self, headers: &HeaderMap) -> bool {
        let text = |name: &HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
        let site = HeaderName::from_static("sec-fetch-site");
        let origin = text(&header::ORIGIN).and_then(|origin| origin.strip_prefix("http://"));
        origin.is_some_and(|origin| Some(origin) == text(&header::HOST)) && text(&site) == Some("same-origin")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUTES: &[Route] = &[Route::public(Method::GET, "/"), Route::data("/data"), Route::write("/write")];

    fn asked(guard: &Guard, method: Method, path: &str, headers: &[(&str, &str)]) -> Result<&'static str, u16> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(HeaderName::from_bytes(name.as_bytes()).unwrap(), HeaderValue::from_str(value).unwrap());
        }
        guard.check(ROUTES, &method, path, &map).map_err(|(status, _)| status.as_u16())
    }

    #[test]
    fn only_literals_of_this_address_are_a_good_host() {
        let guard = Guard::named("127.0.0.1:8000".parse().unwrap(), vec![]);
        for good in ["127.0.0.1:8000", "localhost:8000", "LOCALHOST:8000", "[::1]:8000"] {
            assert_eq!(asked(&guard, Method::GET, "/", &[("host", good)]), Ok("/"), "{good}");
        }
        for bad in
            ["", "127.0.0.1", "127.0.0.1:80", "evil.example:8000", "localhost.evil.example:8000", "10.0.0.1:8000"]
        {
            assert_eq!(asked(&guard, Method::GET, "/", &[("host", bad)]), Err(421), "{bad}");
            assert_eq!(asked(&guard, Method::GET, "/none", &[("host", bad)]), Err(421), "{bad}");
        }
        assert_eq!(asked(&guard, Method::GET, "/", &[]), Err(421));
        assert_eq!(
            asked(&guard, Method::GET, "/", &[("host", "localhost:8000"), ("host", "localhost:8000")]),
            Err(421)
        );
        let elsewhere = Guard::named("192.0.2.1:8000".parse().unwrap(), vec![]);
        assert_eq!(asked(&elsewhere, Method::GET, "/", &[("host", "192.0.2.1:8000")]), Ok("/"));
        assert_eq!(asked(&elsewhere, Method::GET, "/", &[("host", "192.0.2.2:8000")]), Err(421));
        let named = Guard::named("0.0.0.0:8000".parse().unwrap(), vec!["box.example".into()]);
        for good in ["box.example:8000", "BOX.example", "box.example:80", "192.0.2.7:8000"] {
            assert_eq!(asked(&named, Method::GET, "/", &[("host", good)]), Ok("/"), "{good}");
        }
        for bad in ["evil.example:8000", "box.example.evil.example:8000", "box.example:x", ":8000"] {
            assert_eq!(asked(&named, Method::GET, "/", &[("host", bad)]), Err(421), "{bad}");
        }
    }

    #[test]
    fn data_takes_the_token_and_writes_take_the_page_too() {
        let guard = Guard::with_token("127.0.0.1:8000".parse().unwrap(), "secret".into());
        let host = ("host", "127.0.0.1:8000");
        for wrong in ["Bearer secreT", "Bearer secret2", "Bearer ", "secret", "Basic secret"] {
            assert_eq!(asked(&guard, Method::GET, "/data", &[host, ("authorization", wrong)]), Err(401), "{wrong}");
        }
        let token = ("authorization", "Bearer secret");
        assert_eq!(asked(&guard, Method::GET, "/data", &[host, token]), Ok("/data"));
        assert_eq!(asked(&guard, Method::HEAD, "/data", &[host, token]), Ok("/data"));
        let (origin, site) = (("origin", "http://127.0.0.1:8000"), ("sec-fetch-site", "same-origin"));
        assert_eq!(asked(&guard, Method::POST, "/write", &[host, token, origin, site]), Ok("/write"));
        for wrong in [
            &[host, token][..],
            &[host, token, origin],
            &[host, token, site],
            &[host, token, ("origin", "http://evil.example"), site],
            &[host, token, ("origin", "null"), site],
            &[host, token, origin, ("sec-fetch-site", "same-site")],
        ] {
            assert_eq!(asked(&guard, Method::POST, "/write", wrong), Err(403), "{wrong:?}");
        }
        assert_eq!(asked(&guard, Method::POST, "/write", &[host, origin, site]), Err(401));
        assert_eq!(asked(&guard, Method::GET, "/write", &[host, token]), Err(405));
        assert_eq!(asked(&guard, Method::GET, "/other", &[host, token]), Err(404));
        let open = Guard::named("127.0.0.1:8000".parse().unwrap(), vec![]);
        assert_eq!(asked(&open, Method::GET, "/data", &[host, token]), Err(401), "without a token nothing opens it");
    }
}
