//! Requests for certificates that others hold the keys of (PKCS #10, RFC 2986).
//!
//! A request is read only if its own signature holds: whoever sent it has the key. What it asks for
//! is for the caller to judge; what is signed is its subject, its names and its key, and nothing
//! else that it says.

use std::net::IpAddr;

use jiff::{SignedDuration, Timestamp};
use rcgen::{
    CertificateSigningRequestParams, ExtendedKeyUsagePurpose, IsCa, KeyUsagePurpose, PublicKey,
    SanType,
};
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::prelude::FromDer;

use super::issue::{later, params, pem, with_subject};
use super::{CertificateAuthority, PkiError};

/// A longer request is refused unread.
const LONGEST: usize = 64 << 10;

/// What a certificate may be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Usage {
    /// `digital signature`
    DigitalSignature,
    /// `key encipherment`
    KeyEncipherment,
    /// `client auth`
    ClientAuth,
    /// `server auth`
    ServerAuth,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct CertificateRequest {
    /// The subject's common name; empty if it has none.
    pub common_name: String,
    /// The subject's organizations.
    pub organizations: Vec<String>,
    /// DNS names.
    pub dns: Vec<String>,
    /// IP addresses.
    pub addresses: Vec<IpAddr>,
    /// E-mail addresses.
    pub emails: Vec<String>,
    /// URIs.
    pub uris: Vec<String>,
    subject: Vec<u8>,
    names: Vec<SanType>,
    key: PublicKey,
}

impl CertificateRequest {
    /// Reads a request and verifies its signature.
    ///
    /// # Errors
    /// If it is no PEM block with one request, asks for an extension that nobody signs here, or is
    /// not signed by its own key.
    pub fn from_pem(text: &[u8]) -> Result<Self, PkiError> {
        let unreadable = |source| PkiError::ReadRequest { source };
        let broken = rcgen::Error::CouldNotParseCertificationRequest;
        let text = text.get(..).filter(|text| text.len() <= LONGEST);
        let text = text.ok_or_else(|| unreadable(broken.clone()))?;
        let block = x509_parser::pem::parse_x509_pem(text);
        let (_, block) = block.map_err(|_| unreadable(broken.clone()))?;
        let (_, parsed) = X509CertificationRequest::from_der(&block.contents)
            .map_err(|_| unreadable(broken.clone()))?;
        let der = block.contents.as_slice().into();
        let verified = CertificateSigningRequestParams::from_der(&der).map_err(unreadable)?;
        let subject = &parsed.certification_request_info.subject;
        let text = |attribute: &x509_parser::x509::AttributeTypeAndValue<'_>| {
            attribute.as_str().map(str::to_owned).map_err(|_| unreadable(broken.clone()))
        };
        let mut request = Self {
            common_name: subject
                .iter_common_name()
                .last()
                .map(text)
                .transpose()?
                .unwrap_or_default(),
            organizations: subject.iter_organization().map(text).collect::<Result<_, _>>()?,
            dns: Vec::new(),
            addresses: Vec::new(),
            emails: Vec::new(),
            uris: Vec::new(),
            subject: subject.as_raw().to_vec(),
            names: verified.params.subject_alt_names,
            key: verified.public_key,
        };
        for name in &request.names {
            match name {
                SanType::DnsName(name) => request.dns.push(name.as_str().to_owned()),
                SanType::IpAddress(address) => request.addresses.push(*address),
                SanType::Rfc822Name(name) => request.emails.push(name.as_str().to_owned()),
                SanType::URI(name) => request.uris.push(name.as_str().to_owned()),
                _ => return Err(unreadable(rcgen::Error::UnsupportedExtension)),
            }
        }
        Ok(request)
    }
}

impl CertificateAuthority {
    /// Signs what a request asks for, for these usages, never beyond the authority's own end. The
    /// certificate is PEM.
    ///
    /// # Errors
    /// If it cannot be signed.
    pub fn sign(
        &self,
        request: &CertificateRequest,
        usages: &[Usage],
        lifetime: SignedDuration,
        now: Timestamp,
    ) -> Result<String, PkiError> {
        let sign = |source| PkiError::Sign { subject: request.common_name.clone(), source };
        let not_after = later(now, lifetime).min(self.0.certificate().not_after);
        let mut params = params(&request.common_name, now, not_after)?;
        params.subject_alt_names = request.names.clone();
        params.use_authority_key_identifier_extension = true;
        params.is_ca = IsCa::ExplicitNoCa;
        for usage in usages {
            match usage {
                Usage::DigitalSignature => {
                    params.key_usages.push(KeyUsagePurpose::DigitalSignature)
                }
                Usage::KeyEncipherment => params.key_usages.push(KeyUsagePurpose::KeyEncipherment),
                Usage::ClientAuth => {
                    params.extended_key_usages.push(ExtendedKeyUsagePurpose::ClientAuth);
                }
                Usage::ServerAuth => {
                    params.extended_key_usages.push(ExtendedKeyUsagePurpose::ServerAuth);
                }
            }
        }
        let issuer = self.0.issuer();
        let draft = params.signed_by(&request.key, issuer).map_err(sign)?;
        let signed = with_subject(draft.der(), &request.subject, issuer.key()).map_err(sign)?;
        Ok(pem(&signed))
    }
}
