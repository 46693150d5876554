//! A key whose holder asks somebody else for its certificate.

use std::fmt;

use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};

use super::PkiError;

/// See the module. ECDSA P-256; never shown.
pub struct PrivateKey(KeyPair);

impl PrivateKey {
    /// A new key.
    ///
    /// # Errors
    /// If there is no randomness.
    pub fn draw() -> Result<Self, PkiError> {
        KeyPair::generate().map(Self).map_err(PkiError::GenerateKey)
    }

    /// A key that was kept as PEM.
    ///
    /// # Errors
    /// If it is none.
    pub fn from_pem(pem: &str) -> Result<Self, PkiError> {
        KeyPair::from_pem(pem).map(Self).map_err(PkiError::ReadKey)
    }

    /// The key as PEM (PKCS #8), for whoever keeps it.
    pub fn to_pem(&self) -> String {
        self.0.serialize_pem()
    }

    /// A request (PKCS #10, PEM) for a certificate of this user in this group, which is how the
    /// Kubernetes API reads common name and organization.
    ///
    /// # Errors
    /// If it cannot be signed.
    pub fn request(&self, user: &str, group: &str) -> Result<String, PkiError> {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::OrganizationName, group);
        params.distinguished_name.push(DnType::CommonName, user);
        let pem = params.serialize_request(&self.0).and_then(|request| request.pem());
        pem.map_err(|source| PkiError::Sign { subject: user.to_owned(), source })
    }
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("PrivateKey").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pki::CertificateRequest;

    #[test]
    fn a_request_says_who_asks_and_is_signed_by_its_key() {
        let key = PrivateKey::from_pem(&PrivateKey::draw().unwrap().to_pem()).unwrap();
        let request = key.request("system:node:n1", "system:nodes").unwrap();
        let read = CertificateRequest::from_pem(request.as_bytes()).unwrap();
        assert_eq!(read.common_name, "system:node:n1");
        assert_eq!(read.organizations, ["system:nodes"]);
        assert!(PrivateKey::from_pem("nonsense").is_err());
        assert_eq!(format!("{key:?}"), "PrivateKey { .. }");
    }
}
