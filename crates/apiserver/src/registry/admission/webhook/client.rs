//! One question to one webhook: a connection, a POST, an answer.
//!
//! Guarantees: the question ends with its time, whatever the other side does, and takes no more
//! memory than the longest answer that is read. Nothing outlives it: a connection serves one question
//! and is driven by whoever asks, so that the server keeps no task and no pool. Failures are told in
//! the words of Go's HTTP client, which those who operate webhooks know.

use std::fmt;
use std::io;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{Request, StatusCode, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{CertificateError, ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// The longest answer that is read, in bytes: an object as large as any, encoded in a patch.
const LONGEST_ANSWER: usize = 8 << 20;

/// What a webhook's certificate is held against.
#[derive(Clone)]
pub(super) struct Trust(Arc<ClientConfig>);

impl fmt::Debug for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Trust")
    }
}

impl Trust {
    /// The authorities of a bundle (PEM in base64), or the system's where there is none.
    pub(super) fn of(bundle: &str) -> Result<Self, String> {
        if bundle.is_empty() {
            static SYSTEM: OnceLock<Result<Trust, String>> = OnceLock::new();
            return SYSTEM.get_or_init(Self::of_system).clone();
        }
        let pem = STANDARD.decode(bundle).map_err(|error| format!("read caBundle: {error}"))?;
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(&pem) {
            let certificate = certificate.map_err(|error| format!("read caBundle: {error}"))?;
            roots.add(certificate).map_err(|error| format!("trust caBundle: {error}"))?;
        }
        if roots.is_empty() {
            return Err(
                "unable to load root certificates: unable to parse bytes as PEM block".to_owned()
            );
        }
        Self::in_roots(roots)
    }

    fn of_system() -> Result<Self, String> {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        Self::in_roots(roots)
    }

    fn in_roots(roots: RootCertStore) -> Result<Self, String> {
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let builder = builder.with_safe_default_protocol_versions().map_err(|e| e.to_string())?;
        Ok(Self(Arc::new(builder.with_root_certificates(roots).with_no_client_auth())))
    }
}

/// Where a question goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Endpoint {
    /// What is dialled: an address or a name, and a port.
    pub(super) address: (String, u16),
    /// The name that the certificate must have.
    pub(super) server_name: String,
    /// The host and port of the URL.
    pub(super) authority: String,
    pub(super) path: String,
}

impl Endpoint {
    /// That of a URL.
    pub(super) fn of_url(url: &str) -> Result<Self, String> {
        let uri: http::Uri = url.parse().map_err(|error| format!("Unparsable URL: {error}"))?;
        let authority = uri.authority().ok_or("Unparsable URL: no host")?;
        let host = authority.host().trim_start_matches('[').trim_end_matches(']');
        Ok(Self {
            address: (host.to_owned(), authority.port_u16().unwrap_or(443)),
            server_name: host.to_owned(),
            authority: authority.as_str().to_owned(),
            path: uri.path().to_owned(),
        })
    }

    /// The URL as failures name it.
    pub(super) fn url(&self, timeout: Duration) -> String {
        format!("https://{}{}?timeout={}s", self.authority, self.path, timeout.as_secs())
    }
}

/// Asks; an error is the whole sentence of what went wrong.
pub(super) async fn ask(
    endpoint: &Endpoint,
    trust: &Trust,
    timeout: Duration,
    question: Vec<u8>,
) -> Result<Bytes, String> {
    let post = |why: &str| format!("Post \"{}\": {why}", endpoint.url(timeout));
    match tokio::time::timeout(timeout, exchange(endpoint, trust, timeout, question)).await {
        Err(_) => Err(post("context deadline exceeded")),
        Ok(Err(Failure::Transport(why))) => Err(post(&why)),
        Ok(Err(Failure::Answer(why))) => Err(why),
        Ok(Ok(answer)) => Ok(answer),
    }
}

enum Failure {
    /// Nothing was answered.
    Transport(String),
    /// What was answered is no answer.
    Answer(String),
}

async fn exchange(
    endpoint: &Endpoint,
    trust: &Trust,
    timeout: Duration,
    question: Vec<u8>,
) -> Result<Bytes, Failure> {
    let (host, port) = &endpoint.address;
    let stream = TcpStream::connect((host.as_str(), *port))
        .await
        .map_err(|error| Failure::Transport(not_connected(host, *port, &error)))?;
    let name = ServerName::try_from(endpoint.server_name.clone())
        .map_err(|error| Failure::Transport(error.to_string()))?;
    let stream = TlsConnector::from(Arc::clone(&trust.0))
        .connect(name, stream)
        .await
        .map_err(|error| Failure::Transport(not_trusted(&error)))?;
    let broken = |error: hyper::Error| Failure::Transport(not_answered(&error));
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(broken)?;
    let request = Request::post(format!("{}?timeout={}s", endpoint.path, timeout.as_secs()))
        .header(header::HOST, &endpoint.authority)
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::ACCEPT, "application/json, */*")
        .header(header::USER_AGENT, "seatrial-admission")
        .body(Full::new(Bytes::from(question)))
        .map_err(|error| Failure::Transport(error.to_string()))?;
    let answer = async {
        let response = sender.send_request(request).await.map_err(broken)?;
        let status = response.status();
        let body = Limited::new(response.into_body(), LONGEST_ANSWER).collect().await;
        let body = body.map_err(|error| Failure::Transport(error.to_string()))?.to_bytes();
        if status.is_success() { Ok(body) } else { Err(Failure::Answer(refused(status, &body))) }
    };
    // The connection is driven by this very future, and goes with it.
    let mut connection = std::pin::pin!(connection);
    let mut answer = std::pin::pin!(answer);
    tokio::select! {
        biased;
        answer = &mut answer => answer,
        ended = &mut connection => match ended {
            Err(error) => Err(broken(error)),
            // The other side has said all; what it said is still to be read.
            Ok(()) => answer.await,
        },
    }
}

fn not_connected(host: &str, port: u16, error: &io::Error) -> String {
    let at = if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
    match error.kind() {
        io::ErrorKind::ConnectionRefused => format!("dial tcp {at}: connect: connection refused"),
        io::ErrorKind::HostUnreachable => format!("dial tcp {at}: connect: no route to host"),
        io::ErrorKind::NetworkUnreachable => {
            format!("dial tcp {at}: connect: network is unreachable")
        }
        io::ErrorKind::TimedOut => format!("dial tcp {at}: i/o timeout"),
        _ if error.raw_os_error().is_none() => {
            format!("dial tcp: lookup {host}: no such host")
        }
        _ => format!("dial tcp {at}: {error}"),
    }
}

fn not_trusted(error: &io::Error) -> String {
    let tls = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match tls {
        Some(rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer)) => {
            "tls: failed to verify certificate: x509: certificate signed by unknown authority"
                .to_owned()
        }
        Some(rustls::Error::InvalidCertificate(why)) => {
            format!("tls: failed to verify certificate: {why}")
        }
        Some(other) => format!("tls: {other}"),
        None if error.kind() == io::ErrorKind::UnexpectedEof => "EOF".to_owned(),
        None => error.to_string(),
    }
}

fn not_answered(error: &hyper::Error) -> String {
    if error.is_incomplete_message() { "EOF".to_owned() } else { error.to_string() }
}

/// What a client of Kubernetes says of a status that is no success.
fn refused(status: StatusCode, body: &[u8]) -> String {
    match status {
        StatusCode::NOT_FOUND => "the server could not find the requested resource".to_owned(),
        StatusCode::UNAUTHORIZED => {
            "the server has asked for the client to provide credentials".to_owned()
        }
        _ => {
            let text = String::from_utf8_lossy(&body[..body.len().min(2048)]);
            format!(
                "an error on the server ({:?}) has prevented the request from succeeding",
                text.trim()
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_become_endpoints() {
        let endpoint = Endpoint::of_url("https://[::1]:9443/a/b").unwrap();
        assert_eq!(endpoint.address, ("::1".to_owned(), 9443));
        assert_eq!(endpoint.url(Duration::from_secs(3)), "https://[::1]:9443/a/b?timeout=3s");
        assert_eq!(Endpoint::of_url("https://a.b").unwrap().address, ("a.b".to_owned(), 443));
        assert!(Endpoint::of_url("/a").is_err());
    }

    #[test]
    fn bundles_without_a_certificate_are_told() {
        assert!(Trust::of("%").unwrap_err().starts_with("read caBundle"));
        assert!(Trust::of("Cg==").unwrap_err().contains("PEM"));
    }
}
