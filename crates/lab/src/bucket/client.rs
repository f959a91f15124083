//! How `object_store` reaches a store: HTTP/1.1 by hyper and rustls with ring, as everything here, and with the authorities of the host.
//!
//! An answer is read to its end here, so that one that is cut short counts as a request that failed, which is made again.

use async_trait::async_trait;
use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::header::IF_NONE_MATCH;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use object_store::client::{
    ClientConfigKey, ClientOptions, HttpClient, HttpConnector as Connect, HttpError, HttpErrorKind, HttpRequest,
    HttpRequestBody, HttpResponse, HttpService,
};
use rustls::crypto::CryptoProvider;
use rustls::{ClientConfig, RootCertStore};
use std::error::Error;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// A connection that is not open after this long has failed.
const TO_CONNECT: Duration = Duration::from_secs(5);
/// So long nothing may come.
const PATIENCE: Duration = Duration::from_secs(30);
/// Of an answer: a result has at most 256 MiB.
const MOST_BYTES: usize = 257 << 20;

/// What a list is called in XML.
const LIST: &[u8] = b"ListBucketResult";

/// Makes clients.
#[derive(Debug)]
pub struct Connector;

impl Connect for Connector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let mut tcp = HttpConnector::new();
        tcp.set_connect_timeout(Some(TO_CONNECT));
        tcp.set_nodelay(true);
        tcp.enforce_http(false);
        let plain = options.get_config_value(&ClientConfigKey::AllowHttp).is_some_and(|allowed| allowed == "true");
        let ring = rustls::crypto::ring::default_provider;
        let tls = match HttpsConnectorBuilder::new().with_provider_and_native_roots(ring()) {
            // A host without authorities reaches a store without encryption all the same.
            Err(_) if plain => HttpsConnectorBuilder::new().with_tls_config(without_authorities(ring())?),
            tls => tls.map_err(failed)?,
        };
        let tls = if plain { tls.https_or_http() } else { tls.https_only() };
        let connector = tls.enable_http1().wrap_connector(tcp);
        Ok(HttpClient::new(Service(Client::builder(TokioExecutor::new()).build(connector))))
    }
}

fn failed(why: impl Error + Send + Sync + 'static) -> object_store::Error {
    object_store::Error::Generic { store: "S3", source: Box::new(why) }
}

/// Trusts no authority: no certificate is valid.
fn without_authorities(provider: CryptoProvider) -> object_store::Result<ClientConfig> {
    let config = ClientConfig::builder_with_provider(Arc::new(provider)).with_safe_default_protocol_versions();
    Ok(config.map_err(failed)?.with_root_certificates(RootCertStore::empty()).with_no_client_auth())
}

#[derive(Debug)]
struct Service(Client<HttpsConnector<HttpConnector>, HttpRequestBody>);

#[async_trait]
impl HttpService for Service {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        // The crate does not repeat a write that may have been obeyed; of these the second is refused.
        let is_once = request.headers().contains_key(IF_NONE_MATCH);
        let is_lost = |why: &HttpError| matches!(why.kind(), HttpErrorKind::Interrupted | HttpErrorKind::Timeout);
        self.exchange(request)
            .await
            .map_err(|why| if is_once && is_lost(&why) { HttpError::new(HttpErrorKind::Request, why) } else { why })
    }
}

impl Service {
    async fn exchange(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let is_list = request.uri().query().is_some_and(|query| query.contains("list-type="));
        let late = |why| HttpError::new(HttpErrorKind::Timeout, why);
        let answer = timeout(PATIENCE, self.0.request(request)).await.map_err(late)?;
        let (head, mut body) = answer.map_err(|why| HttpError::new(kind(&why), why))?.into_parts();
        let mut bytes = Vec::new();
        while let Some(frame) = timeout(PATIENCE, body.frame()).await.map_err(late)? {
            let frame = frame.map_err(|why| HttpError::new(HttpErrorKind::Interrupted, why))?;
            bytes.extend_from_slice(frame.data_ref().map_or(&[][..], |data| data));
            if bytes.len() > MOST_BYTES {
                let why = format!("the answer is larger than {} MiB", MOST_BYTES >> 20);
                return Err(HttpError::new_boxed(HttpErrorKind::Decode, why.into()));
            }
        }
        // The crate takes the page of a captive portal for a list of nothing.
        if is_list && head.status.is_success() && !bytes.windows(LIST.len()).any(|part| part == LIST) {
            return Err(HttpError::new_boxed(HttpErrorKind::Decode, "the answer is no list of a bucket".into()));
        }
        Ok(HttpResponse::from_parts(head, Bytes::from(bytes).into()))
    }
}

/// What of a request failed: it decides whether it is made again.
fn kind(why: &hyper_util::client::legacy::Error) -> HttpErrorKind {
    if why.is_connect() {
        // A store with another certificate has it the next time, too.
        return if is_of_tls(why) { HttpErrorKind::Unknown } else { HttpErrorKind::Connect };
    }
    match why.source().and_then(|why| why.downcast_ref::<hyper::Error>()) {
        Some(why) if why.is_canceled() => HttpErrorKind::Request,
        // Whether it was obeyed is not known.
        Some(why) if why.is_incomplete_message() || why.is_closed() => HttpErrorKind::Interrupted,
        Some(why) if why.is_timeout() => HttpErrorKind::Timeout,
        // A connection that was reset.
        Some(why) if why.source().is_some_and(<dyn Error>::is::<io::Error>) => HttpErrorKind::Interrupted,
        _ => HttpErrorKind::Unknown,
    }
}

/// Whether it is about the store's certificate, or else about TLS. What an `io::Error` was made of is not its source.
fn is_of_tls(why: &(dyn Error + 'static)) -> bool {
    let inner = why.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
    why.is::<rustls::Error>() || inner.is_some_and(|inner| is_of_tls(inner)) || why.source().is_some_and(is_of_tls)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_of_tls_is_found_in_what_was_made_of_it_and_a_refusal_is_none() {
        let certificate = rustls::Error::InvalidCertificate(rustls::CertificateError::UnknownIssuer);
        let twice = io::Error::other(io::Error::new(io::ErrorKind::InvalidData, certificate.clone()));
        assert!(is_of_tls(&certificate) && is_of_tls(&twice));
        let refused = io::Error::other(io::Error::from(io::ErrorKind::ConnectionRefused));
        assert!(!is_of_tls(&refused));
    }
}
