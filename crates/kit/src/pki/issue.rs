//! What certificates say, and how they are made.
//!
//! rcgen writes them, but its subject holds each attribute once, while a Kubernetes client
//! certificate repeats the organization for every group. Client certificates are therefore signed a
//! second time, with the full subject in place.

use std::net::IpAddr;
use std::time::Duration;

use base64::prelude::{BASE64_STANDARD, Engine};
use jiff::{SignedDuration, Timestamp};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, PublicKeyData, SanType, SerialNumber, SigningKey,
};
use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::prelude::{FromDer, X509Certificate};

use super::{DAY, PkiError};
use crate::ids::Ids;

const AUTHORITY_LIFETIME: SignedDuration = SignedDuration::from_hours(10 * 365 * 24);
const LEAF_LIFETIME: SignedDuration = SignedDuration::from_hours(365 * 24);
/// Peers' clocks may be a little behind.
const BACKDATED: SignedDuration = SignedDuration::from_mins(5);

/// A certificate and what it says, as far as anyone here asks.
#[derive(Debug)]
pub(super) struct Certificate {
    pub(super) pem: String,
    pub(super) not_after: Timestamp,
    public_key: Vec<u8>,
    issuer: Vec<u8>,
    subject: Vec<u8>,
    subject_key: Option<Vec<u8>>,
    authority_key: Option<Vec<u8>>,
    hosts: Vec<String>,
}

impl Certificate {
    pub(super) fn from_pem(pem: String) -> Option<Self> {
        let (_, block) = x509_parser::pem::parse_x509_pem(pem.as_bytes()).ok()?;
        let (_, parsed) = X509Certificate::from_der(&block.contents).ok()?;
        let mut certificate = Self {
            not_after: Timestamp::from_second(parsed.validity.not_after.timestamp()).ok()?,
            public_key: parsed.public_key().subject_public_key.data.to_vec(),
            issuer: parsed.issuer.as_raw().to_vec(),
            subject: parsed.subject.as_raw().to_vec(),
            subject_key: None,
            authority_key: None,
            hosts: Vec::new(),
            pem: String::new(),
        };
        for extension in parsed.extensions() {
            match extension.parsed_extension() {
                ParsedExtension::SubjectKeyIdentifier(id) => {
                    certificate.subject_key = Some(id.0.to_vec());
                }
                ParsedExtension::AuthorityKeyIdentifier(id) => {
                    certificate.authority_key = id.key_identifier.as_ref().map(|id| id.0.to_vec());
                }
                ParsedExtension::SubjectAlternativeName(names) => {
                    certificate.hosts = names.general_names.iter().filter_map(host).collect();
                }
                _ => {}
            }
        }
        certificate.pem = pem;
        Some(certificate)
    }

    /// Whether `key` is this certificate's private key.
    pub(super) fn is_for(&self, key: &KeyPair) -> bool {
        self.public_key == key.der_bytes()
    }
}

fn host(name: &GeneralName<'_>) -> Option<String> {
    match name {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        GeneralName::IPAddress(bytes) => {
            let v4 = <[u8; 4]>::try_from(*bytes).map(IpAddr::from);
            let v6 = <[u8; 16]>::try_from(*bytes).map(IpAddr::from);
            v4.or(v6).ok().map(|address| address.to_string())
        }
        _ => None,
    }
}

/// Whom a leaf certificate is for.
pub(super) struct Subject<'a> {
    common_name: &'a str,
    organizations: &'a [String],
    hosts: &'a [String],
    purpose: ExtendedKeyUsagePurpose,
}

impl<'a> Subject<'a> {
    pub(super) fn server(common_name: &'a str, hosts: &'a [String]) -> Self {
        let purpose = ExtendedKeyUsagePurpose::ServerAuth;
        Self { common_name, organizations: &[], hosts, purpose }
    }

    pub(super) fn client(user: &'a str, groups: &'a [String]) -> Self {
        let purpose = ExtendedKeyUsagePurpose::ClientAuth;
        Self { common_name: user, organizations: groups, hosts: &[], purpose }
    }

    /// Whether `certificate` says the same about the same subject.
    pub(super) fn describes(&self, certificate: &Certificate) -> bool {
        // As a certificate spells them: `::0:1` and `::1` are one address.
        let mut wanted: Vec<String> = self
            .hosts
            .iter()
            .map(|host| host.parse::<IpAddr>().map_or_else(|_| host.clone(), |ip| ip.to_string()))
            .collect();
        let mut found = certificate.hosts.clone();
        wanted.sort_unstable();
        found.sort_unstable();
        wanted == found && certificate.subject == self.der()
    }

    /// The distinguished name: organizations first, as Go writes them.
    fn der(&self) -> Vec<u8> {
        const COMMON_NAME: u8 = 3;
        const ORGANIZATION: u8 = 10;
        let attribute = |kind: u8, value: &str| {
            let oid = der(OBJECT_IDENTIFIER, &[&[0x55, 0x04, kind]]); // 2.5.4.kind
            let value = der(UTF8_STRING, &[value.as_bytes()]);
            der(SET, &[&der(SEQUENCE, &[&oid, &value])])
        };
        let mut names: Vec<Vec<u8>> =
            self.organizations.iter().map(|name| attribute(ORGANIZATION, name)).collect();
        names.push(attribute(COMMON_NAME, self.common_name));
        let names: Vec<&[u8]> = names.iter().map(Vec::as_slice).collect();
        der(SEQUENCE, &names)
    }
}

/// A certificate that may sign others, with its key.
pub(super) struct Authority {
    certificate: Certificate,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    pub(super) fn new(certificate: Certificate, key: KeyPair) -> Result<Self, rcgen::Error> {
        let issuer = Issuer::from_ca_cert_pem(&certificate.pem, key)?;
        Ok(Self { certificate, issuer })
    }

    pub(super) fn certificate(&self) -> &Certificate {
        &self.certificate
    }

    pub(super) fn issuer(&self) -> &Issuer<'static, KeyPair> {
        &self.issuer
    }

    /// Whether this authority, under its present key, issued `certificate`.
    pub(super) fn signed(&self, certificate: &Certificate) -> bool {
        certificate.issuer == self.certificate.subject
            && certificate.authority_key.is_some()
            && certificate.authority_key == self.certificate.subject_key
    }

    /// A certificate for `subject` with a fresh key, never outliving the authority.
    pub(super) fn issue(
        &self,
        subject: &Subject<'_>,
        now: Timestamp,
    ) -> Result<(Certificate, KeyPair), PkiError> {
        let sign = |source| PkiError::Sign { subject: subject.common_name.to_owned(), source };
        let key = KeyPair::generate().map_err(PkiError::GenerateKey)?;
        let not_after = later(now, LEAF_LIFETIME).min(self.certificate.not_after);
        let mut params = params(subject.common_name, now, not_after)?;
        params.subject_alt_names =
            subject.hosts.iter().map(|host| san(host)).collect::<Result<_, _>>()?;
        params.use_authority_key_identifier_extension = true;
        params.is_ca = IsCa::ExplicitNoCa;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![subject.purpose.clone()];
        let draft = params.signed_by(&key, &self.issuer).map_err(sign)?;
        let signed = with_subject(draft.der(), &subject.der(), self.issuer.key()).map_err(sign)?;
        let certificate = Certificate::from_pem(pem(&signed))
            .ok_or(rcgen::Error::CouldNotParseCertificate)
            .map_err(sign)?;
        Ok((certificate, key))
    }
}

/// A self-signed authority.
pub(super) fn authority(
    common_name: &str,
    key: &KeyPair,
    now: Timestamp,
) -> Result<Certificate, PkiError> {
    let sign = |source| PkiError::Sign { subject: common_name.to_owned(), source };
    let mut params = params(common_name, now, later(now, AUTHORITY_LIFETIME))?;
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![
        KeyUsagePurpose::DigitalSignature,
        KeyUsagePurpose::KeyCertSign,
        KeyUsagePurpose::CrlSign,
    ];
    let signed = params.self_signed(key).map_err(sign)?;
    Certificate::from_pem(signed.pem()).ok_or(rcgen::Error::CouldNotParseCertificate).map_err(sign)
}

pub(super) fn params(
    common_name: &str,
    now: Timestamp,
    not_after: Timestamp,
) -> Result<CertificateParams, PkiError> {
    let at = |time: Timestamp| {
        let since_epoch = Duration::from_secs(u64::try_from(time.as_second()).unwrap_or(0));
        rcgen::date_time_ymd(1970, 1, 1) + since_epoch
    };
    let mut serial = [0_u8; 16];
    Ids::system().fill(&mut serial).map_err(PkiError::DrawSerial)?;
    serial[0] = (serial[0] & 0x7f) | 0x40; // positive, and of one length
    let mut params = CertificateParams::default();
    params.not_before = at(now.checked_sub(BACKDATED).unwrap_or(Timestamp::UNIX_EPOCH));
    params.not_after = at(not_after);
    params.serial_number = Some(SerialNumber::from_slice(&serial));
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, common_name);
    Ok(params)
}

/// The calendar ends in the year 9999.
pub(super) fn later(now: Timestamp, lifetime: SignedDuration) -> Timestamp {
    now.checked_add(lifetime).unwrap_or(Timestamp::MAX - DAY)
}

fn san(host: &str) -> Result<SanType, PkiError> {
    match host.parse() {
        Ok(address) => Ok(SanType::IpAddress(address)),
        Err(_) => host
            .try_into()
            .map(SanType::DnsName)
            .map_err(|source| PkiError::UseName { name: host.to_owned(), source }),
    }
}

/// `certificate` with another subject, signed anew by `key`.
pub(super) fn with_subject(
    certificate: &[u8],
    subject: &[u8],
    key: &KeyPair,
) -> Result<Vec<u8>, rcgen::Error> {
    let unreadable = rcgen::Error::CouldNotParseCertificate;
    let (_, parsed) = X509Certificate::from_der(certificate).map_err(|_| unreadable.clone())?;
    // Issuer and subject stand in sequence, so the first match behind the issuer is the subject.
    let body = parsed.tbs_certificate.as_ref();
    let after = |start: usize, part: &[u8]| {
        let rest = body.get(start..).unwrap_or_default();
        rest.windows(part.len()).position(|window| window == part).map(|found| start + found)
    };
    let issuer = parsed.issuer.as_raw();
    let old = parsed.subject.as_raw();
    let start = after(0, issuer)
        .and_then(|found| after(found + issuer.len(), old))
        .ok_or_else(|| unreadable.clone())?;
    let content = contents(body).ok_or(unreadable)?;
    let header = body.len() - content.len();
    let body = der(SEQUENCE, &[&body[header..start], subject, &body[start + old.len()..]]);
    let signature = key.sign(&body)?;
    let signature = der(BIT_STRING, &[&[0], &signature]);
    Ok(der(SEQUENCE, &[&body, ECDSA_WITH_SHA256, &signature]))
}

const BIT_STRING: u8 = 0x03;
const OBJECT_IDENTIFIER: u8 = 0x06;
const UTF8_STRING: u8 = 0x0c;
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;

/// The algorithm identifier of 1.2.840.10045.4.3.2, what rcgen's generated keys sign with.
const ECDSA_WITH_SHA256: &[u8] =
    &[0x30, 0x0a, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02];

/// One DER element with `parts` as its content.
fn der(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    let bytes = length.to_be_bytes();
    let digits = &bytes[bytes.iter().position(|&byte| byte != 0).unwrap_or(bytes.len() - 1)..];
    let mut element = vec![tag];
    if length >= 0x80 {
        element.push(0x80 | digits.len() as u8); // at most eight digits
    }
    element.extend_from_slice(digits);
    parts.iter().for_each(|part| element.extend_from_slice(part));
    element
}

/// What the DER element at the start of `element` holds, if that is all there is.
fn contents(element: &[u8]) -> Option<&[u8]> {
    let (&first, rest) = element.get(1..)?.split_first()?;
    let digits = if first < 0x80 { 0 } else { usize::from(first & 0x7f) };
    rest.get(digits..)
}

pub(super) fn pem(certificate: &[u8]) -> String {
    let text = BASE64_STANDARD.encode(certificate);
    let mut pem = String::from("-----BEGIN CERTIFICATE-----\n");
    let mut rest = text.as_str();
    while !rest.is_empty() {
        let (line, more) = rest.split_at(rest.len().min(64));
        pem.push_str(line);
        pem.push('\n');
        rest = more;
    }
    pem.push_str("-----END CERTIFICATE-----\n");
    pem
}
