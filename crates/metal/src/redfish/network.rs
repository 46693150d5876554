//! BMCs over sockets and TLS.
//!
//! BMCs make their own certificates and change them at will, so any is accepted here, and only here:
//! the network of BMCs must be one that only the control plane reaches. The handshake is still
//! checked, so that the peer owns the certificate that it shows.

use super::session::MOST_BODY;
use crate::exchange::{Exchange, Unreachable};
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};
use std::sync::Arc;
use std::time::Duration;
use tower::util::BoxCloneSyncService;

/// How long a connection may take to open.
const CONNECT: Duration = Duration::from_secs(5);
/// How long an idle connection is kept: BMCs have few.
const IDLE: Duration = Duration::from_secs(30);

/// TLS cannot be set up.
#[derive(Debug, thiserror::Error)]
#[error("TLS for BMCs cannot be set up: {0}")]
pub struct Unusable(#[from] rustls::Error);

/// An exchange through sockets.
pub(super) fn exchange() -> Result<Exchange, Unusable> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyCertificate(provider)))
        .with_no_client_auth();
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_connect_timeout(Some(CONNECT));
    let connector = hyper_rustls::HttpsConnectorBuilder::new()
        .with_tls_config(tls)
        .https_or_http()
        .enable_http1()
        .wrap_connector(tcp);
    let client = Client::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(IDLE)
        .pool_max_idle_per_host(1)
        .build(connector);
    Ok(BoxCloneSyncService::new(tower::service_fn(move |request| send(client.clone(), request))))
}

async fn send(
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    request: Request<Bytes>,
) -> Result<Response<Bytes>, Unreachable> {
    let host = request.uri().authority().map(ToString::to_string).unwrap_or_default();
    let lost = |error: &dyn std::error::Error| Unreachable {
        host: host.clone(),
        why: kit::error::chain(error).to_string(),
    };
    let answer = client.request(request.map(Full::new)).await.map_err(|error| lost(&error))?;
    let (parts, body) = answer.into_parts();
    let body = Limited::new(body, MOST_BODY).collect().await.map_err(|error| lost(&*error))?;
    Ok(Response::from_parts(parts, body.to_bytes()))
}

/// Accepts every certificate; see the module.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
