//! CONNECT (RFC 9110, section 9.3.6): a tunnel through the proxy, whose object is all that comes back through it.

use super::body::Body;
use super::{ProxyState, Refusal};
use crate::seat::Seat;
use hyper::body::Incoming;
use hyper::{Request, Response, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use std::sync::Arc;

/// Where a tunnel is to lead.
fn place(uri: &Uri) -> Result<(String, u16), Refusal> {
    let bad = || Refusal(StatusCode::BAD_REQUEST, "CONNECT takes HOST:PORT\n".into());
    let (host, port) = uri.host().zip(uri.port_u16()).ok_or_else(bad)?;
    if host.is_empty() || port == 0 || uri.scheme().is_some() {
        return Err(bad());
    }
    Ok((host.to_owned(), port))
}

/// Opens a tunnel. `place` is the client's among those that are open at once; the tunnel takes it along.
pub async fn connect(
    shared: &Arc<ProxyState>,
    of_client: Arc<Seat>,
    mut request: Request<Incoming>,
) -> Result<Response<Body>, Refusal> {
    let (host, port) = place(request.uri())?;
    let to = format!("{host}:{port}");
    let key = shared.guess.key(&to);
    let channel = shared.choose(&to, &shared.guess.object(key, request.headers()));
    let unreachable = |why| Refusal::unreachable(&to, &why);
    let addresses = shared.ways.resolve(&host, port).await.map_err(unreachable)?;
    let (_, mut server) = shared.ways.connect(channel, &addresses).await.map_err(unreachable)?;
    let upgraded = hyper::upgrade::on(&mut request);
    let shared = shared.clone();
    tokio::spawn(async move {
        let _place = of_client;
        let Ok(client) = upgraded.await else { return };
        let copied = tokio::io::copy_bidirectional(&mut TokioIo::new(client), &mut server).await;
        if let Ok((_, came)) = copied {
            shared.guess.learn(key, came);
        }
    });
    Ok(Response::new(Body::Text(Default::default())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tunnel_leads_to_a_host_and_a_port() {
        let of = |uri: &str| place(&uri.parse().unwrap()).ok();
        assert_eq!(of("a.example:443"), Some(("a.example".into(), 443)));
        assert_eq!(of("[2001:db8::1]:443"), Some(("[2001:db8::1]".into(), 443)));
        for bad in ["a.example", "http://a.example:443/", "/", "a.example:0"] {
            assert_eq!(of(bad), None, "{bad}");
        }
    }
}
