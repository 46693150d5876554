//! Certificates and keys in a directory: made when missing, renewed when they run out.
//!
//! [`Pki`] keeps every certificate as `<name>.crt` next to `<name>.key`, PEM, readable by their
//! owner alone, each replaced atomically. Opening the same name again gives the same credential
//! until less than 30 days of it remain or what it says no longer fits; then it is issued anew. An
//! authority is renewed under its own key, so what it signed before stays valid; its key is never
//! replaced behind anyone's back.
//!
//! Keys are ECDSA P-256, always from the operating system's randomness, and never appear in logs,
//! errors or `Debug` output. There is no revocation: leaves are short-lived instead.

mod issue;
mod key;
mod request;
mod store;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use rcgen::KeyPair;

use crate::clock::Clock;
use crate::ids::ReadRandom;

pub use key::PrivateKey;
pub use request::{CertificateRequest, Usage};

use issue::{Authority, Subject};
use store::Directory;

const DAY: SignedDuration = SignedDuration::from_hours(24);
const RENEW_BEFORE: SignedDuration = SignedDuration::from_hours(30 * 24);

/// Something about certificates or keys failed. No variant carries key material.
#[derive(Debug, thiserror::Error)]
pub enum PkiError {
    /// A file or the directory could not be read or written.
    #[error("{operation} {}", .path.display())]
    File {
        /// What was attempted.
        operation: &'static str,
        /// On which path.
        path: PathBuf,
        /// Why it failed.
        source: std::io::Error,
    },
    /// A key file does not hold a key of ours.
    #[error("parse the private key in {}", .path.display())]
    ParseKey {
        /// The key file.
        path: PathBuf,
        /// What is wrong with it.
        source: rcgen::Error,
    },
    /// A certificate file does not hold one certificate.
    #[error("parse the certificate in {}", .path.display())]
    ParseCertificate {
        /// The certificate file.
        path: PathBuf,
    },
    /// An authority's certificate is there, its key is not; making another would break all trust in
    /// what it has signed.
    #[error("find the private key {} of an authority that already exists", .path.display())]
    FindAuthorityKey {
        /// Where the key should be.
        path: PathBuf,
    },
    /// An authority's certificate and key do not belong together.
    #[error("match the authority's certificate {} with the key next to it", .path.display())]
    MatchAuthorityKey {
        /// The certificate file.
        path: PathBuf,
    },
    /// A name cannot stand in a certificate.
    #[error("use {name:?} as a DNS name or IP address in a certificate")]
    UseName {
        /// The name.
        name: String,
        /// Why not.
        source: rcgen::Error,
    },
    /// A text is no private key.
    #[error("read the private key")]
    ReadKey(#[source] rcgen::Error),
    /// A key pair could not be generated.
    #[error("generate a key pair")]
    GenerateKey(#[source] rcgen::Error),
    /// A certificate could not be signed.
    #[error("sign the certificate of {subject:?}")]
    Sign {
        /// The common name.
        subject: String,
        /// Why not.
        source: rcgen::Error,
    },
    /// A request for a certificate cannot be used.
    #[error("read the certificate request")]
    ReadRequest {
        /// What is wrong with it.
        source: rcgen::Error,
    },
    /// No serial number could be drawn.
    #[error("draw a serial number")]
    DrawSerial(#[source] ReadRandom),
}

/// A directory of certificates and keys. Not meant to be shared by running processes.
#[derive(Clone, Debug)]
pub struct Pki {
    directory: Directory,
    clock: Clock,
}

impl Pki {
    /// Opens `directory`, creating it if need be; `clock` decides what has run out.
    pub fn open(directory: impl Into<PathBuf>, clock: Clock) -> Result<Self, PkiError> {
        Ok(Self { directory: Directory::open(directory.into())?, clock })
    }

    /// The authority kept as `name`, valid for ten years at first.
    pub fn authority(
        &self,
        name: &str,
        common_name: &str,
    ) -> Result<CertificateAuthority, PkiError> {
        let certificate = self.directory.certificate(name)?;
        let key = match (self.directory.key(name)?, &certificate) {
            (Some(key), _) => key,
            (None, None) => {
                let key = KeyPair::generate().map_err(PkiError::GenerateKey)?;
                self.directory.write_key(name, &key)?;
                key
            }
            (None, Some(_)) => {
                return Err(PkiError::FindAuthorityKey { path: self.directory.key_path(name) });
            }
        };
        if certificate.as_ref().is_some_and(|found| !found.is_for(&key)) {
            return Err(PkiError::MatchAuthorityKey {
                path: self.directory.certificate_path(name),
            });
        }
        let now = self.clock.now();
        let kept = certificate.filter(|found| !runs_out(now, found.not_after));
        let certificate = match kept {
            Some(certificate) => certificate,
            None => {
                let certificate = issue::authority(common_name, &key, now)?;
                self.directory.write_certificate(name, &certificate.pem)?;
                certificate
            }
        };
        Authority::new(certificate, key)
            .map(|authority| CertificateAuthority(Arc::new(authority)))
            .map_err(|source| PkiError::Sign { subject: common_name.to_owned(), source })
    }

    /// A server's credential kept as `name`, for these DNS names and IP addresses, for a year.
    pub fn server(
        &self,
        name: &str,
        authority: &CertificateAuthority,
        common_name: &str,
        hosts: &[String],
    ) -> Result<Credential, PkiError> {
        self.leaf(name, authority, &Subject::server(common_name, hosts))
    }

    /// A client's credential kept as `name`: `user` becomes the common name, each group an
    /// organization, which is how a Kubernetes API server reads them. For a year.
    pub fn client(
        &self,
        name: &str,
        authority: &CertificateAuthority,
        user: &str,
        groups: &[String],
    ) -> Result<Credential, PkiError> {
        self.leaf(name, authority, &Subject::client(user, groups))
    }

    /// A key pair without a certificate, kept as `<name>.key` and `<name>.pub`, such as the one that
    /// signs service account tokens. It never runs out.
    pub fn signing_key(&self, name: &str) -> Result<SigningKey, PkiError> {
        let key = match self.directory.key(name)? {
            Some(key) => key,
            None => {
                let key = KeyPair::generate().map_err(PkiError::GenerateKey)?;
                self.directory.write_key(name, &key)?;
                key
            }
        };
        let public_key_pem = key.public_key_pem();
        self.directory.write_public_key(name, &public_key_pem)?;
        Ok(SigningKey { public_key_pem, private_key_pem: key.serialize_pem() })
    }

    fn leaf(
        &self,
        name: &str,
        authority: &CertificateAuthority,
        subject: &Subject<'_>,
    ) -> Result<Credential, PkiError> {
        let now = self.clock.now();
        let key = self.directory.key(name)?;
        if let (Some(key), Some(found)) = (&key, self.directory.certificate(name)?)
            && !runs_out(now, found.not_after)
            && found.is_for(key)
            && authority.0.signed(&found)
            && subject.describes(&found)
        {
            return Ok(Credential { certificate_pem: found.pem, key_pem: key.serialize_pem() });
        }
        let (certificate, key) = authority.0.issue(subject, now)?;
        // A stop between the two leaves a pair that does not match, which is then issued anew.
        self.directory.write_key(name, &key)?;
        self.directory.write_certificate(name, &certificate.pem)?;
        Ok(Credential { certificate_pem: certificate.pem, key_pem: key.serialize_pem() })
    }
}

fn runs_out(now: Timestamp, not_after: Timestamp) -> bool {
    not_after.duration_since(now) < RENEW_BEFORE
}

/// When a certificate runs out; `None` if this is no certificate in PEM.
pub fn not_after(pem: &[u8]) -> Option<Timestamp> {
    let pem = String::from_utf8(pem.to_vec()).ok()?;
    issue::Certificate::from_pem(pem).map(|certificate| certificate.not_after)
}

/// An authority that signs certificates. Clones share one key.
#[derive(Clone)]
pub struct CertificateAuthority(Arc<Authority>);

impl CertificateAuthority {
    /// The authority's certificate, for those who shall trust it.
    pub fn certificate_pem(&self) -> &str {
        &self.0.certificate().pem
    }

    /// Signs a server certificate that is kept nowhere.
    pub fn issue_server(
        &self,
        common_name: &str,
        hosts: &[String],
        now: Timestamp,
    ) -> Result<Credential, PkiError> {
        self.issue(&Subject::server(common_name, hosts), now)
    }

    /// Signs a client certificate that is kept nowhere.
    pub fn issue_client(
        &self,
        user: &str,
        groups: &[String],
        now: Timestamp,
    ) -> Result<Credential, PkiError> {
        self.issue(&Subject::client(user, groups), now)
    }

    fn issue(&self, subject: &Subject<'_>, now: Timestamp) -> Result<Credential, PkiError> {
        let (certificate, key) = self.0.issue(subject, now)?;
        Ok(Credential { certificate_pem: certificate.pem, key_pem: key.serialize_pem() })
    }
}

impl fmt::Debug for CertificateAuthority {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("CertificateAuthority").finish_non_exhaustive()
    }
}

/// A certificate with its private key, both PEM.
#[derive(Clone)]
pub struct Credential {
    /// The certificate.
    pub certificate_pem: String,
    /// The private key, PKCS #8.
    pub key_pem: String,
}

impl fmt::Debug for Credential {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let certificate_pem = &self.certificate_pem;
        out.debug_struct("Credential")
            .field("certificate_pem", certificate_pem)
            .finish_non_exhaustive()
    }
}

/// A key pair without a certificate, both PEM.
#[derive(Clone)]
pub struct SigningKey {
    /// The public key, SPKI.
    pub public_key_pem: String,
    /// The private key, PKCS #8.
    pub private_key_pem: String,
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let public_key_pem = &self.public_key_pem;
        out.debug_struct("SigningKey")
            .field("public_key_pem", public_key_pem)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
