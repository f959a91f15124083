//! A request in absolute form (RFC 9112, section 3.2.2): asked of its server over the channel of its object.

use super::body::{Body, Passing};
use super::{ProxyState, Refusal, forget_the_hop};
use headstart_core::steer::Channel;
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{HOST, HeaderValue, VIA};
use hyper::{Method, Request, Response, StatusCode, Uri, Version};
use hyper_util::rt::TokioIo;
use std::sync::Arc;

/// The port of `http`.
const PORT: u16 = 80;

/// A request that is ready for its server.
struct Asked {
    request: Request<Incoming>,
    host: String,
    port: u16,
    /// Host and port, without a name and a password.
    authority: String,
}

fn refused(status: StatusCode, why: &str) -> Refusal {
    Refusal(status, format!("{why}\n"))
}

/// Where a URI leads: host, port, and both in a line.
fn place(uri: &Uri) -> Result<(String, u16, String), Refusal> {
    let bad = |why| refused(StatusCode::BAD_REQUEST, why);
    match uri.scheme_str() {
        Some("http") => {}
        Some("https") => return Err(bad("https requests must use CONNECT")),
        Some(_) => return Err(bad("this proxy supports only http URLs")),
        None => return Err(bad("this is a proxy: send a full URL, as in GET http://server.example/")),
    }
    let host = uri.host().filter(|host| !host.is_empty()).ok_or_else(|| bad("the request has no server name"))?;
    let authority = uri.authority().map_or("", |authority| authority.as_str());
    let said = authority.rsplit(']').next().unwrap_or_default().rsplit_once(':').map_or("", |(_, port)| port);
    if !said.is_empty() && uri.port_u16().is_none() {
        return Err(bad("the request names a port above 65535"));
    }
    let port = uri.port_u16().unwrap_or(PORT);
    let authority = if port == PORT { host.to_owned() } else { format!("{host}:{port}") };
    Ok((host.to_owned(), port, authority))
}

/// The request as its server is to see it.
fn prepare(name: &str, mut request: Request<Incoming>) -> Result<Asked, Refusal> {
    let (host, port, authority) = place(request.uri())?;
    if request.headers().get_all(VIA).iter().any(|via| via.to_str().is_ok_and(|via| via.contains(name))) {
        return Err(refused(
            StatusCode::LOOP_DETECTED,
            "loop detected: this request already passed through this proxy",
        ));
    }
    let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
    *request.uri_mut() = path.parse().map_err(|_| refused(StatusCode::BAD_REQUEST, "the request has no path"))?;
    let version = if request.version() == Version::HTTP_10 { "1.0" } else { "1.1" };
    *request.version_mut() = Version::HTTP_11;
    let headers = request.headers_mut();
    forget_the_hop(headers);
    let of_host = HeaderValue::from_str(&authority);
    headers.insert(HOST, of_host.map_err(|_| refused(StatusCode::BAD_REQUEST, "the request has no server name"))?);
    if let Ok(via) = HeaderValue::from_str(&format!("{version} {name}")) {
        headers.append(VIA, via);
    }
    Ok(Asked { request, host, port, authority })
}

/// A URL for the log, without the user and password that it may have.
fn shown(uri: &Uri) -> String {
    let url = uri.to_string();
    let has_user = uri.authority().is_some_and(|authority| authority.as_str().contains('@'));
    if has_user { crate::exit::without_user(&url).into_owned() } else { url }
}

/// Has a request answered.
pub async fn fetch(shared: &Arc<ProxyState>, request: Request<Incoming>) -> Result<Response<Body>, Refusal> {
    let (url, shown) = (request.uri().to_string(), shown(request.uri()));
    let is_get = request.method() == Method::GET;
    let Asked { mut request, host, port, authority } = prepare(&shared.name, request)?;
    let key = shared.guess.key(&url);
    let channel = shared.ways.usable(shared.choose(&shown, &shared.guess.object(key, request.headers())));
    while let Some(mut connection) = shared.pool.take(channel, &authority).await {
        match connection.try_send_request(request).await {
            Ok(response) => {
                return Ok(passing(shared, response, is_get.then_some(key), (channel, authority, connection)));
            }
            // Its server closed it in the meantime, and has heard nothing: the next one.
            Err(mut failed) => match failed.take_message() {
                Some(unsent) => request = unsent,
                None => return Err(refused(StatusCode::BAD_GATEWAY, &format!("{authority}: {}", failed.into_error()))),
            },
        }
    }
    let unreachable = |why| Refusal::unreachable(&authority, &why);
    let addresses = shared.ways.resolve(&host, port).await.map_err(unreachable)?;
    let (channel, stream) = shared.ways.connect(channel, &addresses).await.map_err(unreachable)?;
    let failed = |why: hyper::Error| refused(StatusCode::BAD_GATEWAY, &format!("{authority}: {why}"));
    let (mut connection, driver) = http1::handshake(TokioIo::new(stream)).await.map_err(failed)?;
    tokio::spawn(driver);
    let response = connection.send_request(request).await.map_err(failed)?;
    Ok(passing(shared, response, is_get.then_some(key), (channel, authority, connection)))
}

/// The answer as the client is to see it.
fn passing(
    shared: &Arc<ProxyState>,
    mut response: Response<Incoming>,
    key: Option<u64>,
    connection: (Channel, String, SendRequest<Incoming>),
) -> Response<Body> {
    forget_the_hop(response.headers_mut());
    if let Ok(via) = HeaderValue::from_str(&format!("1.1 {}", shared.name)) {
        response.headers_mut().append(VIA, via);
    }
    *response.version_mut() = Version::HTTP_11;
    // What is not modified, partial or an error says nothing of the object's size.
    let learn = key.filter(|_| response.status() == StatusCode::OK);
    let body = |inner| {
        Body::Passing(Passing {
            inner,
            bytes: 0,
            ended: false,
            learn,
            shared: shared.clone(),
            connection: Some(connection),
        })
    };
    response.map(body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_has_urls_without_passwords() {
        let of = |url: &str| shown(&url.parse().unwrap());
        assert_eq!(of("http://me:hunter2@host/x"), "http://…@host/x");
        assert_eq!(of("http://host/@types/node"), "http://host/@types/node");
    }

    #[test]
    fn a_request_names_its_server() {
        let of = |uri: &str| place(&uri.parse().unwrap()).map_err(|Refusal(status, why)| (status.as_u16(), why));
        assert_eq!(of("http://a.example/x?y"), Ok(("a.example".into(), 80, "a.example".into())));
        assert_eq!(of("http://u:p@a.example:8080/"), Ok(("a.example".into(), 8080, "a.example:8080".into())));
        assert_eq!(of("http://[2001:db8::1]:81/"), Ok(("[2001:db8::1]".into(), 81, "[2001:db8::1]:81".into())));
        for (uri, why) in
            [("/x", "this is a proxy"), ("https://a.example/", "CONNECT"), ("ftp://a.example/", "only http")]
        {
            let (status, told) = of(uri).unwrap_err();
            assert!(status == 400 && told.contains(why), "{uri}: {told}");
        }
    }
}
