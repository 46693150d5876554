//! Certificate signing requests: approved for nodes that may have them, signed, forgotten.
//!
//! Four controllers, each with its own rights: who approves does not sign. Machines that join by a token
//! of the boot service have an approver of their own, who looks whose token it was. The private key is the
//! site's; without it nothing is signed.

mod approve;
mod clean;
mod join;
mod sign;

pub use approve::CsrApproving;
pub use clean::CsrCleaner;
pub use join::JoinApproving;
pub use sign::CsrSigning;

use jiff::Timestamp;
use k8s_openapi::api::certificates::v1::{
    CertificateSigningRequest, CertificateSigningRequestCondition,
};
use kit::clock::rfc3339_seconds;
use kit::controller::{Context, Error};
use kit::pki::{CertificateRequest, PkiError};
use plan::certificates::Asked;
use serde_json::json;

use crate::claim::fenced;

const GROUP: &str = "certificates.k8s.io";

fn conditions(request: &CertificateSigningRequest) -> &[CertificateSigningRequestCondition] {
    let status = request.status.as_ref();
    status.and_then(|status| status.conditions.as_deref()).unwrap_or_default()
}

/// When a condition was set, if it holds.
fn since(request: &CertificateSigningRequest, type_: &str) -> Option<Timestamp> {
    let holds = |c: &&CertificateSigningRequestCondition| c.type_ == type_ && c.status != "False";
    let found = conditions(request).iter().find(holds)?;
    let time = found.last_update_time.as_ref().or(found.last_transition_time.as_ref());
    let created = request.metadata.creation_timestamp.as_ref();
    Some(time.or(created).map_or(Timestamp::UNIX_EPOCH, |time| time.0))
}

fn has_certificate(request: &CertificateSigningRequest) -> bool {
    let certificate = request.status.as_ref().and_then(|status| status.certificate.as_ref());
    certificate.is_some_and(|bytes| !bytes.0.is_empty())
}

/// Writes what was decided of a request, where it is still as it was looked at. One that is gone needs
/// no decision.
async fn decide(
    context: &Context,
    request: &CertificateSigningRequest,
    type_: &str,
    reason: &str,
    message: &str,
) -> Result<(), Error> {
    let now = rfc3339_seconds(context.now());
    let decided = json!({
        "type": type_, "status": "True", "reason": reason, "message": message,
        "lastUpdateTime": now, "lastTransitionTime": now,
    });
    let meta = &request.metadata;
    let patch = fenced(meta, json!({}), json!({"status": {"conditions": [decided]}}));
    match context.patch::<CertificateSigningRequest>(meta, Some("approval"), &patch).await {
        Err(error) if error.is_not_found() => Ok(()),
        other => other.map(drop),
    }
}

/// The request as it was sent, its signature verified, and what it asks for.
fn read(request: &CertificateSigningRequest) -> Result<(CertificateRequest, Asked), PkiError> {
    let spec = &request.spec;
    let sent = CertificateRequest::from_pem(&spec.request.0)?;
    let asked = Asked {
        signer: spec.signer_name.clone(),
        user: spec.username.clone().unwrap_or_default(),
        common_name: sent.common_name.clone(),
        organizations: sent.organizations.clone(),
        dns: sent.dns.len(),
        addresses: sent.addresses.len(),
        emails: sent.emails.len(),
        uris: sent.uris.len(),
        usages: spec.usages.clone().unwrap_or_default(),
    };
    Ok((sent, asked))
}
