//! Certificates, protocols, and a handshake that takes any client certificate.
//!
//! A peer must hold the key of what it presents; whether anyone vouches for it is asked per request
//! (see [`ClientCertificates`](crate::auth::certificate::ClientCertificates)), so that a stale
//! certificate is answered with a 401 that clients understand instead of a TLS alert.

use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    DigitallySignedStruct, DistinguishedName, RootCertStore, ServerConfig, SignatureScheme,
};
use tokio_rustls::TlsAcceptor;

/// What the server presents, and whose client certificates it asks for.
pub struct TlsConfig {
    /// The server's certificate, its intermediates after it.
    pub certificates: Vec<CertificateDer<'static>>,
    /// The certificate's private key.
    pub key: PrivateKeyDer<'static>,
    /// The authorities named to clients; without them no client certificate is asked for.
    pub client_authorities: Option<Arc<RootCertStore>>,
}

/// The server cannot present what it was given.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A PEM text is not what it should be.
    #[error("read the {what} as PEM")]
    ReadPem {
        /// Which one.
        what: &'static str,
        /// Why not.
        source: pem::Error,
    },
    /// An authority's certificate cannot be trusted as one.
    #[error("trust a client authority")]
    TrustAuthority(#[source] rustls::Error),
    /// Certificate and key do not make a server.
    #[error("set up TLS")]
    Configure(#[source] rustls::Error),
}

impl TlsConfig {
    /// Reads PEM texts; `client_authorities` may hold several certificates.
    pub fn from_pem(
        certificates: &str,
        key: &str,
        client_authorities: Option<&str>,
    ) -> Result<Self, TlsError> {
        let all = |what, text: &str| {
            CertificateDer::pem_slice_iter(text.as_bytes())
                .collect::<Result<Vec<_>, _>>()
                .map_err(|source| TlsError::ReadPem { what, source })
        };
        let client_authorities = client_authorities
            .map(|text| {
                let mut roots = RootCertStore::empty();
                for certificate in all("client authorities", text)? {
                    roots.add(certificate).map_err(TlsError::TrustAuthority)?;
                }
                Ok(Arc::new(roots))
            })
            .transpose()?;
        Ok(Self {
            certificates: all("server certificate", certificates)?,
            key: PrivateKeyDer::from_pem_slice(key.as_bytes())
                .map_err(|source| TlsError::ReadPem { what: "server key", source })?,
            client_authorities,
        })
    }

    pub(super) fn acceptor(self) -> Result<TlsAcceptor, TlsError> {
        let provider = Arc::new(ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(TlsError::Configure)?;
        let builder = match self.client_authorities {
            Some(authorities) => builder.with_client_cert_verifier(Arc::new(AnyCertificate {
                subjects: authorities.subjects(),
                provider,
            })),
            None => builder.with_no_client_auth(),
        };
        let mut config =
            builder.with_single_cert(self.certificates, self.key).map_err(TlsError::Configure)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(TlsAcceptor::from(Arc::new(config)))
    }
}

/// Checks that the peer holds the key, and nothing about the certificate.
#[derive(Debug)]
struct AnyCertificate {
    subjects: Vec<DistinguishedName>,
    provider: Arc<CryptoProvider>,
}

impl ClientCertVerifier for AnyCertificate {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &self.subjects
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
