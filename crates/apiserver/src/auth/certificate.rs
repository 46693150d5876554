//! Client certificates: what the connection presented, whether our authority vouches for it, and
//! whom it names.
//!
//! The TLS handshake takes any certificate whose key the peer holds; only here is it verified, so
//! that a certificate nobody trusts is answered with 401 instead of a broken handshake. The verdict
//! is kept with the connection for a minute: verification costs more than most requests.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{VerifierBuilderError, WebPkiClientVerifier};
use sha2::{Digest, Sha256};
use x509_parser::oid_registry::{
    OID_X509_COMMON_NAME, OID_X509_ORGANIZATION_NAME, Oid, asn1_rs::oid,
};
use x509_parser::prelude::{FromDer, X509Certificate};

use super::User;

/// What Kubernetes certificates carry a user's UID in.
const OID_UID: Oid<'static> = oid!(1.3.6.1.4.1.57683.2);
const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";
const VERDICT_LIFETIME: SignedDuration = SignedDuration::from_secs(60);

/// Why a certificate is not accepted. Clients are told nothing of it.
#[derive(Clone, Debug, thiserror::Error)]
pub enum CertificateError {
    /// Our authority does not vouch for it, now, for this purpose.
    #[error("verify the client certificate")]
    Verify(#[source] rustls::Error),
    /// The certificate's subject is unreadable.
    #[error("read the client certificate's subject: {0}")]
    ReadSubject(&'static str),
}

/// The certificates that a connection's peer presented and whose key it holds, its own first.
/// Whether to trust them is [`ClientCertificates`]' decision. Clones share the verdict.
#[derive(Clone, Debug)]
pub struct PeerCertificates(Arc<Peer>);

#[derive(Debug)]
struct Peer {
    chain: Vec<CertificateDer<'static>>,
    verdict: Mutex<Option<Verdict>>,
}

#[derive(Clone, Debug)]
struct Verdict {
    until: Timestamp,
    result: Result<Option<User>, CertificateError>,
}

impl PeerCertificates {
    /// A chain as the handshake left it.
    pub fn new(chain: Vec<CertificateDer<'static>>) -> Self {
        Self(Arc::new(Peer { chain, verdict: Mutex::new(None) }))
    }

    /// The chain of a client in this process, which needs no handshake to be believed that it holds
    /// the key. `None` if the text holds no certificate in PEM.
    pub fn of_this_process(pem: &str) -> Option<Self> {
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
        chain.ok().filter(|chain| !chain.is_empty()).map(Self::new)
    }
}

/// The authority that vouches for client certificates.
#[derive(Clone, Debug)]
pub struct ClientCertificates(Arc<dyn ClientCertVerifier>);

impl ClientCertificates {
    /// Trusts what any of `authorities` signed.
    pub fn new(authorities: Arc<RootCertStore>) -> Result<Self, VerifierBuilderError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        WebPkiClientVerifier::builder_with_provider(authorities, provider).build().map(Self)
    }

    /// The user that the certificate names; none if it names nobody.
    pub fn authenticate(
        &self,
        peer: &PeerCertificates,
        now: Timestamp,
    ) -> Result<Option<User>, CertificateError> {
        let mut kept = peer.0.verdict.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(verdict) = kept.as_ref().filter(|verdict| now < verdict.until) {
            return verdict.result.clone();
        }
        let (result, not_after) = match self.judge(&peer.0.chain, now) {
            Ok((user, not_after)) => (Ok(user), not_after),
            Err(error) => (Err(error), Timestamp::MAX),
        };
        let until = now.checked_add(VERDICT_LIFETIME).unwrap_or(now).min(not_after);
        *kept = Some(Verdict { until, result: result.clone() });
        result
    }

    fn judge(
        &self,
        chain: &[CertificateDer<'static>],
        now: Timestamp,
    ) -> Result<(Option<User>, Timestamp), CertificateError> {
        let Some((own, intermediates)) = chain.split_first() else {
            return Ok((None, Timestamp::MAX));
        };
        let since_epoch = Duration::from_secs(u64::try_from(now.as_second()).unwrap_or(0));
        self.0
            .verify_client_cert(own, intermediates, UnixTime::since_unix_epoch(since_epoch))
            .map_err(CertificateError::Verify)?;
        let (_, certificate) =
            X509Certificate::from_der(own).map_err(|_| CertificateError::ReadSubject("not DER"))?;
        let not_after = Timestamp::from_second(certificate.validity().not_after.timestamp());
        Ok((user(&certificate, own)?, not_after.unwrap_or(Timestamp::MAX)))
    }
}

/// Common name, organizations and UID, as user, groups and UID.
fn user(certificate: &X509Certificate<'_>, der: &[u8]) -> Result<Option<User>, CertificateError> {
    let mut user = User::default();
    let mut uids = Vec::new();
    for attribute in certificate.subject().iter_attributes() {
        let kind = attribute.attr_type();
        if ![&OID_X509_COMMON_NAME, &OID_X509_ORGANIZATION_NAME, &OID_UID].contains(&kind) {
            continue;
        }
        let unreadable = |_| CertificateError::ReadSubject("an attribute is not text");
        let text = attribute.as_str().map_err(unreadable)?.to_owned();
        if *kind == OID_X509_COMMON_NAME {
            user.name = text; // the last one counts
        } else if *kind == OID_X509_ORGANIZATION_NAME {
            user.groups.push(text);
        } else {
            uids.push(text);
        }
    }
    if user.name.is_empty() {
        return Ok(None);
    }
    user.uid = match uids.as_mut_slice() {
        [] => String::new(),
        [uid] if !uid.is_empty() => std::mem::take(uid),
        [_] => return Err(CertificateError::ReadSubject("the UID is empty")),
        _ => return Err(CertificateError::ReadSubject("there is more than one UID")),
    };
    let mut id = "X509SHA256=".to_owned();
    for byte in Sha256::digest(der) {
        // Writing to a String cannot fail.
        let _ = write!(id, "{byte:02x}");
    }
    user.extra = BTreeMap::from([(CREDENTIAL_ID.to_owned(), vec![id])]);
    Ok(Some(user))
}
