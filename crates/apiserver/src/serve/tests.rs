//! Over real connections: what peers get to see, and that no peer keeps anything for ever.

use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures::future::BoxFuture;
use http::StatusCode;
use http_body::Frame;
use http_body_util::BodyExt;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use kit::clock::Clock;
use kit::pki::{CertificateAuthority, Credential, Pki};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::*;
use crate::auth::authn::{Authenticator, Credentials};
use crate::auth::certificate::{ClientCertificates, PeerCertificates};

/// Nothing here takes this long unless it hangs.
const PATIENCE: Duration = Duration::from_secs(20);
/// What a test waits out on purpose.
const SHORT: Duration = Duration::from_millis(150);

/// Answers with what it knows of the request; some paths misbehave.
#[derive(Clone)]
struct Echo {
    authenticator: Arc<Authenticator>,
    clock: Clock,
}

impl Service<Request<Incoming>> for Echo {
    type Response = Response<Answer>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Incoming>) -> Self::Future {
        let this = self.clone();
        if request.uri().path() == "/panic/call" {
            panic!("secret");
        }
        Box::pin(async move { Ok(this.answer(request).await) })
    }
}

impl Echo {
    async fn answer(&self, request: Request<Incoming>) -> Response<Answer> {
        let remote = request.extensions().get::<RemoteAddress>().unwrap().0;
        let draining = request.extensions().get::<Draining>().unwrap().clone();
        let credentials = Credentials {
            certificates: request.extensions().get::<PeerCertificates>(),
            authorization: request.headers().get("authorization").map(|value| value.as_bytes()),
            audiences: None,
        };
        let user = self.authenticator.authenticate(&credentials, self.clock.now());
        match request.uri().path() {
            "/panic/future" => panic!("secret"),
            "/panic/body" => Response::new(Answer::Panic),
            "/never" => std::future::pending().await,
            "/watch" => Response::new(Answer::Watch(Box::pin(draining.begun()), false)),
            "/remote" => Response::new(Answer::Text(Some(remote.ip().to_string()))),
            _ => match user {
                Ok(found) => Response::new(Answer::Text(Some(found.user.name))),
                Err(_) => {
                    let mut response = Response::new(Answer::Text(None));
                    *response.status_mut() = StatusCode::UNAUTHORIZED;
                    response
                }
            },
        }
    }
}

enum Answer {
    Text(Option<String>),
    /// One line, then nothing until the server drains.
    Watch(Pin<Box<dyn Future<Output = ()> + Send>>, bool),
    Panic,
}

impl Body for Answer {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match &mut *self {
            Self::Text(text) => Poll::Ready(text.take().map(|text| Ok(Frame::data(text.into())))),
            Self::Watch(_, began) if !*began => {
                *began = true;
                Poll::Ready(Some(Ok(Frame::data("ADDED\n".into()))))
            }
            Self::Watch(end, _) => end.as_mut().poll(context).map(|()| None),
            Self::Panic => panic!("secret"),
        }
    }
}

struct Server {
    address: SocketAddr,
    authority: CertificateAuthority,
    other: CertificateAuthority,
    clock: Clock,
    counters: Arc<Counters>,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<Result<(), TlsError>>,
    _directory: tempfile::TempDir,
}

fn roots(authority: &CertificateAuthority) -> Arc<RootCertStore> {
    let mut roots = RootCertStore::empty();
    let pem = authority.certificate_pem().as_bytes();
    roots.add(CertificateDer::from_pem_slice(pem).unwrap()).unwrap();
    Arc::new(roots)
}

impl Server {
    async fn start(limits: Limits) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let clock = Clock::system();
        let pki = Pki::open(directory.path(), clock.clone()).unwrap();
        let authority = pki.authority("ca", "ca").unwrap();
        let other = pki.authority("other", "other").unwrap();
        let hosts = ["localhost".to_owned(), "127.0.0.1".to_owned()];
        let own = pki.server("server", &authority, "server", &hosts).unwrap();
        let tls = TlsConfig::from_pem(
            &own.certificate_pem,
            &own.key_pem,
            Some(authority.certificate_pem()),
        );
        let authenticator = Authenticator {
            client_certificates: Some(ClientCertificates::new(roots(&authority)).unwrap()),
            anonymous: true,
            ..Authenticator::default()
        };
        let service = Echo { authenticator: Arc::new(authenticator), clock: clock.clone() };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let counters = Arc::new(Counters::default());
        let (stop, stopped) = oneshot::channel();
        let stopped = async { stopped.await.unwrap() };
        let served = Arc::clone(&counters);
        let task = tokio::spawn(serve(listener, tls.unwrap(), service, limits, served, stopped));
        let stop = Some(stop);
        Self { address, authority, other, clock, counters, stop, task, _directory: directory }
    }

    async fn tls(&self, protocol: &str, client: Option<&Credential>) -> TlsStream<TcpStream> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots(&self.authority));
        let mut config = match client {
            None => builder.with_no_client_auth(),
            Some(client) => {
                let pem = client.certificate_pem.as_bytes();
                let certificate = CertificateDer::from_pem_slice(pem).unwrap();
                let key = PrivateKeyDer::from_pem_slice(client.key_pem.as_bytes()).unwrap();
                builder.with_client_auth_cert(vec![certificate], key).unwrap()
            }
        };
        if !protocol.is_empty() {
            config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
        }
        let stream = TcpStream::connect(self.address).await.unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap()
    }

    async fn http1(&self, client: Option<&Credential>) -> http1::SendRequest<String> {
        let stream = self.tls("http/1.1", client).await;
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        sender
    }

    async fn http2(&self, client: Option<&Credential>) -> http2::SendRequest<String> {
        let stream = self.tls("h2", client).await;
        let executor = TokioExecutor::new();
        let (sender, connection) = http2::handshake(executor, TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        sender
    }

    fn begin_shutdown(&mut self) {
        self.stop.take().unwrap().send(()).unwrap();
    }

    async fn stopped(self) {
        timeout(PATIENCE, self.task).await.unwrap().unwrap().unwrap();
    }
}

fn get(path: &str) -> Request<String> {
    let uri = format!("https://localhost{path}");
    Request::get(uri).header("host", "localhost").body(String::new()).unwrap()
}

async fn read(response: Response<Incoming>) -> (StatusCode, String) {
    let status = response.status();
    let body = timeout(PATIENCE, response.into_body().collect()).await.unwrap().unwrap();
    (status, String::from_utf8(body.to_bytes().to_vec()).unwrap())
}

/// Completes when the server has closed the connection, whatever it wrote before.
async fn until_closed(stream: &mut (impl AsyncReadExt + Unpin)) -> Vec<u8> {
    let mut seen = Vec::new();
    // How a connection ends, with a close or a reset, is not at issue.
    let _ = timeout(PATIENCE, stream.read_to_end(&mut seen)).await.expect("connection stays open");
    seen
}

#[tokio::test]
async fn both_protocols_know_the_peer() {
    let server = Server::start(Limits::default()).await;
    let now = server.clock.now();
    let good = server.authority.issue_client("alice", &[], now).unwrap();
    let foreign = server.other.issue_client("mallory", &[], now).unwrap();
    let cases = [
        (None, StatusCode::OK, "system:anonymous"),
        (Some(&good), StatusCode::OK, "alice"),
        (Some(&foreign), StatusCode::UNAUTHORIZED, ""),
    ];
    for (client, status, body) in cases {
        let expect = (status, body.to_owned());
        let mut first = server.http1(client).await;
        let mut second = server.http2(client).await;
        for _ in 0..2 {
            assert_eq!(read(first.send_request(get("/")).await.unwrap()).await, expect);
            second.ready().await.unwrap();
            assert_eq!(read(second.send_request(get("/")).await.unwrap()).await, expect);
            first.ready().await.unwrap();
        }
        let remote = read(second.send_request(get("/remote")).await.unwrap()).await;
        assert_eq!(remote, (StatusCode::OK, "127.0.0.1".to_owned()));
    }
    assert_eq!(server.counters.connections(), 6);
    assert_eq!(server.counters.handshake_failures(), 0);
}

/// Presents a certificate with a key that is not its own.
#[derive(Debug)]
struct Thief(Arc<rustls::sign::CertifiedKey>);

impl rustls::client::ResolvesClientCert for Thief {
    fn resolve(
        &self,
        _: &[&[u8]],
        _: &[rustls::SignatureScheme],
    ) -> Option<Arc<rustls::sign::CertifiedKey>> {
        Some(Arc::clone(&self.0))
    }

    fn has_certs(&self) -> bool {
        true
    }
}

#[tokio::test]
async fn a_certificate_without_its_key_is_no_handshake() {
    let server = Server::start(Limits::default()).await;
    let now = server.clock.now();
    let stolen = server.authority.issue_client("alice", &[], now).unwrap();
    let own = server.authority.issue_client("mallory", &[], now).unwrap();
    let certificate = CertificateDer::from_pem_slice(stolen.certificate_pem.as_bytes()).unwrap();
    let key = PrivateKeyDer::from_pem_slice(own.key_pem.as_bytes()).unwrap();
    let key = rustls::crypto::ring::sign::any_supported_type(&key).unwrap();
    let thief = Thief(Arc::new(rustls::sign::CertifiedKey::new(vec![certificate], key)));
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        let failures = server.counters.handshake_failures();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[version])
            .unwrap()
            .with_root_certificates(roots(&server.authority))
            .with_client_cert_resolver(Arc::new(Thief(Arc::clone(&thief.0))));
        let stream = TcpStream::connect(server.address).await.unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        // With TLS 1.3 the client is done before the server has judged.
        if let Ok(mut stream) = TlsConnector::from(Arc::new(config)).connect(name, stream).await {
            assert_eq!(until_closed(&mut stream).await, b"");
        }
        while server.counters.handshake_failures() == failures {
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test]
async fn a_peer_that_negotiates_nothing_gets_http1() {
    let server = Server::start(Limits::default()).await;
    let mut stream = server.tls("", None).await;
    stream.write_all(b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await.unwrap();
    let answer = String::from_utf8(until_closed(&mut stream).await).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(answer.contains("system:anonymous"), "{answer}");
}

#[tokio::test]
async fn a_panic_costs_its_own_request_only() {
    let server = Server::start(Limits::default()).await;
    let mut sender = server.http2(None).await;
    for path in ["/panic/call", "/panic/future"] {
        let (status, body) = read(sender.send_request(get(path)).await.unwrap()).await;
        assert_eq!(status, StatusCode::INTERNAL_SERVER_ERROR);
        let body: serde_json::Value = serde_json::from_str(&body).unwrap();
        assert_eq!(body["kind"], "Status");
        assert_eq!(body["reason"], "InternalError");
        assert!(!body.to_string().contains("secret"));
    }
    let cut_off = sender.send_request(get("/panic/body")).await;
    if let Ok(response) = cut_off {
        assert!(response.into_body().collect().await.is_err());
    }
    let (status, _) = read(sender.send_request(get("/")).await.unwrap()).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(server.counters.panics(), 3);
}

#[tokio::test]
async fn plain_http_is_told_so() {
    let check = async |handshake: Duration, sent: &[u8], expect: &str| {
        let server = Server::start(Limits { handshake, ..Limits::default() }).await;
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        stream.write_all(sent).await.unwrap();
        if handshake == PATIENCE {
            stream.shutdown().await.unwrap();
        }
        let answer = String::from_utf8(until_closed(&mut stream).await).unwrap();
        assert_eq!(answer, expect, "{}", String::from_utf8_lossy(sent));
        // The counter follows the close.
        while server.counters.handshake_failures() == 0 {
            tokio::task::yield_now().await;
        }
    };
    let told = "HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n";
    check(PATIENCE, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", told).await;
    check(PATIENCE, b"POST /api HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", told).await;
    check(PATIENCE, b"SSH-2.0-OpenSSH\r\n", "").await;
    // Slower than a handshake may be, or nothing at all.
    check(SHORT, b"GE", "").await;
    check(SHORT, b"", "").await;
    check(SHORT, b"\x16\x03\x01", "").await;
}

#[tokio::test]
async fn slow_headers_and_silent_peers_are_dropped() {
    let limits = Limits { header: SHORT, idle: SHORT, ..Limits::default() };
    let server = Server::start(limits).await;
    let check = async |protocol: &str, sent: &[u8]| {
        let mut stream = server.tls(protocol, None).await;
        stream.write_all(sent).await.unwrap();
        until_closed(&mut stream).await;
    };
    check("http/1.1", b"").await;
    check("http/1.1", b"GET / HTTP/1.1\r\nhost: x\r\nx-slow: ").await;
    check("http/1.1", b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await;
    check("h2", b"").await;
    check("h2", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await;
    // Half a header frame.
    check(
        "h2",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0\0\0\x20\x01\0\0\0\0\x01\x82",
    )
    .await;
}

#[tokio::test]
async fn a_request_in_progress_is_not_silence() {
    let limits = Limits { idle: SHORT, ..Limits::default() };
    let mut server = Server::start(limits).await;
    let mut first = server.http1(None).await;
    let mut second = server.http2(None).await;
    let mut watches = Vec::new();
    for response in [
        first.send_request(get("/watch")).await.unwrap(),
        second.send_request(get("/watch")).await.unwrap(),
    ] {
        let mut body = response.into_body();
        assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), "ADDED\n");
        watches.push(body);
    }
    for watch in &mut watches {
        let silent = timeout(SHORT * 4, watch.frame()).await;
        assert!(silent.is_err(), "the watch ended");
    }
    // Nor was the connection asked to close.
    let response = second.send_request(get("/")).await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    server.begin_shutdown();
    for watch in watches {
        let rest = timeout(PATIENCE, watch.collect()).await.unwrap().unwrap();
        assert_eq!(rest.to_bytes(), "");
    }
    server.stopped().await;
}

#[tokio::test]
async fn oversized_headers_are_refused() {
    let limits = Limits { header_lines: 20, header_bytes: 16 * 1024, ..Limits::default() };
    let server = Server::start(limits).await;
    let long = || get_with(1, 20 * 1024);
    let many = || get_with(30, 1);
    let fine = || get_with(10, 1024);
    let mut sender = server.http1(None).await;
    assert_eq!(sender.send_request(fine()).await.unwrap().status(), StatusCode::OK);
    for request in [long(), many()] {
        let mut sender = server.http1(None).await;
        let status = sender.send_request(request).await.unwrap().status();
        assert_eq!(status, StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE);
    }
    let mut sender = server.http2(None).await;
    assert_eq!(sender.send_request(fine()).await.unwrap().status(), StatusCode::OK);
    // Over HTTP/2 the peer may know the limit and not even try.
    if let Ok(response) = sender.send_request(long()).await {
        assert_eq!(response.status(), StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE);
    }
}

fn get_with(lines: usize, bytes: usize) -> Request<String> {
    let mut request = get("/");
    for line in 0..lines {
        let name = http::HeaderName::try_from(format!("x-{line}")).unwrap();
        request.headers_mut().insert(name, "y".repeat(bytes).parse().unwrap());
    }
    request
}

#[tokio::test]
async fn connections_beyond_the_limit_wait_their_turn() {
    let server = Server::start(Limits { connections: 1, ..Limits::default() }).await;
    let mut first = server.http1(None).await;
    assert_eq!(first.send_request(get("/")).await.unwrap().status(), StatusCode::OK);
    let second = async { server.http1(None).await.send_request(get("/")).await };
    let mut second = std::pin::pin!(second);
    assert!(timeout(SHORT, second.as_mut()).await.is_err(), "served beyond the limit");
    drop(first);
    let response = timeout(PATIENCE, second).await.unwrap().unwrap();
    assert_eq!(response.status(), StatusCode::OK);
}

#[tokio::test]
async fn shutdown_cuts_off_what_does_not_end() {
    let mut server = Server::start(Limits { drain: SHORT, ..Limits::default() }).await;
    let idle = server.http2(None).await;
    let silent = TcpStream::connect(server.address).await.unwrap();
    let mut sender = server.http1(None).await;
    let endless = tokio::spawn(sender.send_request(get("/never")));
    while server.counters.connections() < 3 {
        tokio::task::yield_now().await;
    }
    server.begin_shutdown();
    let address = server.address;
    server.stopped().await;
    assert!(timeout(PATIENCE, endless).await.unwrap().unwrap().is_err());
    assert!(TcpStream::connect(address).await.is_err());
    drop((idle, silent));
}

#[tokio::test]
async fn unusable_certificates_are_named() {
    let error = |result: Result<TlsConfig, TlsError>| result.err().unwrap().to_string();
    let broken = "-----BEGIN CERTIFICATE-----\n*\n-----END CERTIFICATE-----\n";
    assert_eq!(error(TlsConfig::from_pem(broken, "", None)), "read the server certificate as PEM");
    assert_eq!(error(TlsConfig::from_pem("", "", None)), "read the server key as PEM");
    let authorities = TlsConfig::from_pem("", "", Some(broken));
    assert_eq!(error(authorities), "read the client authorities as PEM");
}
