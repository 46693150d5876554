//! Certificate signing requests: whose request it is, and who may approve or sign it.
//!
//! The request says who made it, and only the server writes that. `/approval` changes conditions
//! alone and needs the right to `approve` for the signer; `/status` brings the certificate and needs
//! the right to `sign`. What is decided stays decided. Signing itself is a controller's work.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustls::pki_types::CertificateSigningRequestDer;
use rustls::pki_types::pem::PemObject as _;
use serde_json::{Value, json};
use x509_parser::oid_registry::{OID_X509_COMMON_NAME, OID_X509_ORGANIZATION_NAME};
use x509_parser::prelude::{FromDer, X509CertificationRequest};

use super::super::metadata::{keep, text};
use super::super::{Call, Object};
use super::{list_mut, spec_mut};
use crate::auth::MASTERS;
use crate::auth::authz::{Attributes, Decision, Target};
use crate::schema::field::{FieldError, FieldPath};
use crate::status::ApiError;

const GROUP: &str = "certificates.k8s.io";
const CLIENT_SIGNER: &str = "kubernetes.io/kube-apiserver-client";

/// Conditions that decide a request.
const DECISIONS: [&str; 2] = ["Approved", "Denied"];

/// Whom a request is about.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Subject {
    pub(super) common_name: String,
    pub(super) organizations: Vec<String>,
}

/// The subject of a request in PEM.
pub(super) fn subject(pem: &[u8]) -> Option<Subject> {
    let der = CertificateSigningRequestDer::from_pem_slice(pem).ok()?;
    let (_, request) = X509CertificationRequest::from_der(&der).ok()?;
    let mut subject = Subject::default();
    for attribute in request.certification_request_info.subject.iter_attributes() {
        let text = attribute.as_str().unwrap_or_default().to_owned();
        if *attribute.attr_type() == OID_X509_COMMON_NAME {
            subject.common_name = text;
        } else if *attribute.attr_type() == OID_X509_ORGANIZATION_NAME {
            subject.organizations.push(text);
        }
    }
    Some(subject)
}

impl Call<'_> {
    /// Writes into a new request who makes it.
    pub(super) fn sign_in(&self, request: &mut Object) {
        let user = self.user;
        let spec = spec_mut(request);
        for field in ["username", "uid", "groups", "extra"] {
            spec.remove(field);
        }
        for (field, text) in [("username", &user.name), ("uid", &user.uid)] {
            if !text.is_empty() {
                spec.insert(field.to_owned(), text.as_str().into());
            }
        }
        if !user.groups.is_empty() {
            spec.insert("groups".to_owned(), user.groups.clone().into());
        }
        if !user.extra.is_empty() {
            spec.insert("extra".to_owned(), json!(user.extra));
        }
    }

    /// Refuses a request for rights that nobody gets by a certificate.
    pub(super) fn check_subject(&self, request: &Object) -> Result<(), ApiError> {
        let spec = request.get("spec").and_then(Value::as_object);
        let of = |field| spec.map(|spec| text(spec, field)).unwrap_or_default();
        if of("signerName") != CLIENT_SIGNER {
            return Ok(());
        }
        let pem = STANDARD.decode(of("request")).unwrap_or_default();
        let Some(subject) = subject(&pem) else {
            let why = "failed to parse CSR: PEM block type must be CERTIFICATE REQUEST";
            return Err(self.forbidden(request, why));
        };
        if subject.organizations.iter().any(|group| group == MASTERS) {
            let why = format!("use of {CLIENT_SIGNER} signer with {MASTERS} group is not allowed");
            return Err(self.forbidden(request, &why));
        }
        Ok(())
    }

    /// Refuses a decision, or a certificate, by somebody who has no say with the signer.
    pub(super) fn check_signer(&self, live: &Object, request: &Object) -> Result<(), ApiError> {
        let part = self.subresource.as_deref().unwrap_or_default();
        let of = |object: &Object, field: &str| object.get("status").map(|s| s[field].clone());
        let same = |field: &str| of(live, field) == of(request, field);
        let verb = match part {
            "approval" => "approve",
            "status" if !(same("certificate") && same("conditions")) => "sign",
            _ => return Ok(()),
        };
        let spec = live.get("spec").and_then(Value::as_object);
        let signer = spec.map(|spec| text(spec, "signerName")).unwrap_or_default();
        let all = format!("{}/*", signer.split('/').next().unwrap_or_default());
        if [signer, &all].into_iter().any(|name| self.may_act(verb, name)) {
            return Ok(());
        }
        let why = format!("user not permitted to {verb} requests with signerName \"{signer}\"");
        Err(self.forbidden(request, &why))
    }

    fn may_act(&self, verb: &str, signer: &str) -> bool {
        let target = Target::Resource {
            group: GROUP,
            resource: "signers",
            subresource: "",
            namespace: "",
            name: signer,
        };
        let decision = self.server.decide(self.user, &Attributes { verb, target }, None);
        matches!(decision, Decision::Allow { .. })
    }
}

/// Takes of a write what its endpoint may change: nothing of the request itself, conditions through
/// `/approval`, all of the status but decisions through `/status`.
pub(in crate::registry) fn prepare(part: &str, live: &Object, request: &mut Object, now: &str) {
    keep(live, request, "spec");
    let sent = request.get("status").cloned().unwrap_or_else(|| json!({}));
    let status = match part {
        "approval" => {
            let mut status = live.get("status").cloned().unwrap_or_else(|| json!({}));
            status["conditions"] = sent["conditions"].clone();
            status
        }
        "status" => sent,
        _ => {
            keep(live, request, "status");
            return;
        }
    };
    request.insert("status".to_owned(), status);
    let before = live.get("status").map(|s| s["conditions"].clone()).unwrap_or_default();
    let Some(Value::Object(status)) = request.get_mut("status") else { return };
    let conditions = list_mut(status, "conditions");
    if part == "status" {
        restore_decisions(&before, conditions);
    }
    for condition in conditions.iter_mut().filter(|condition| condition.is_object()) {
        if condition["lastUpdateTime"].as_str().unwrap_or_default().is_empty() {
            condition["lastUpdateTime"] = now.into();
        }
        if condition["lastTransitionTime"].as_str().unwrap_or_default().is_empty() {
            let known = before.as_array().into_iter().flatten().find(|known| {
                known["type"] == condition["type"] && known["status"] == condition["status"]
            });
            let since = known.map(|known| known["lastTransitionTime"].clone());
            condition["lastTransitionTime"] =
                since.filter(Value::is_string).unwrap_or_else(|| now.into());
        }
    }
    if conditions.is_empty() {
        status.remove("conditions");
    }
}

/// A client that only brings a certificate may have read the decision in an older form.
fn restore_decisions(before: &Value, conditions: &mut [Value]) {
    for kind in DECISIONS {
        let mut old = before.as_array().into_iter().flatten().filter(|c| c["type"] == kind);
        for condition in conditions.iter_mut().filter(|c| c["type"] == kind) {
            if let Some(old) = old.next() {
                *condition = old.clone();
            }
        }
    }
}

/// What is wrong with a change: what is decided or issued stays.
pub(in crate::registry) fn wrong_change(part: &str, old: &Value, new: &Value) -> Vec<FieldError> {
    let at = FieldPath::root().child("status");
    let of = |request: &Value, kind: &str| -> Vec<Value> {
        let conditions = request["status"]["conditions"].as_array().into_iter().flatten();
        conditions.filter(|condition| condition["type"] == kind).cloned().collect()
    };
    let mut errors = Vec::new();
    let mut forbid = |field: &str, why: String| {
        errors.push(FieldError::forbidden(at.child(field), why));
    };
    for kind in ["Approved", "Denied", "Failed"] {
        if of(new, kind).len() < of(old, kind).len() {
            forbid("conditions", format!("updates may not remove a condition of type \"{kind}\""));
        }
    }
    for kind in DECISIONS.into_iter().filter(|_| part != "approval") {
        let (before, after) = (of(old, kind), of(new, kind));
        if after.len() > before.len() {
            forbid("conditions", format!("updates may not add a condition of type \"{kind}\""));
        } else if after.len() == before.len() && after != before {
            forbid(
                "conditions",
                format!("updates may not modify a condition of type \"{kind}\"\n"),
            );
        }
    }
    let certificate = |request: &Value| request["status"]["certificate"].clone();
    if certificate(old) != certificate(new) {
        if part != "status" {
            forbid("certificate", "updates may not set certificate content".to_owned());
        } else if !certificate(old).as_str().unwrap_or_default().is_empty() {
            let why = "updates may not modify existing certificate content";
            forbid("certificate", why.to_owned());
        }
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(value: Value) -> Object {
        value.as_object().cloned().unwrap()
    }

    #[test]
    fn a_request_tells_whom_it_is_about() {
        let mut parameters = rcgen::CertificateParams::default();
        parameters.distinguished_name.push(rcgen::DnType::CommonName, "zoe");
        parameters.distinguished_name.push(rcgen::DnType::OrganizationName, "devs");
        let key = rcgen::KeyPair::generate().unwrap();
        let pem = parameters.serialize_request(&key).unwrap().pem().unwrap();
        let want = Subject { common_name: "zoe".into(), organizations: vec!["devs".into()] };
        assert_eq!(subject(pem.as_bytes()), Some(want));
        assert_eq!(subject(b"nonsense"), None);
    }

    #[test]
    fn each_endpoint_takes_its_own_part() {
        let live = object(json!({
            "spec": {"signerName": "a/b"},
            "status": {"conditions": [
                {"type": "Approved", "status": "True", "lastTransitionTime": "1", "lastUpdateTime": "1"},
            ]},
        }));
        let sent = || {
            object(json!({
                "spec": {"signerName": "x/y"},
                "status": {"certificate": "c", "conditions": [
                    {"type": "Approved", "status": "True", "reason": "new"},
                    {"type": "Failed", "status": "True"},
                ]},
            }))
        };
        let prepared = |part| {
            let mut request = sent();
            prepare(part, &live, &mut request, "now");
            assert_eq!(request["spec"], live["spec"]);
            request["status"].clone()
        };
        assert_eq!(prepared(""), live["status"]);
        let approval = prepared("approval");
        assert_eq!(approval.get("certificate"), None);
        let times = |c: &Value| (c["lastTransitionTime"].clone(), c["lastUpdateTime"].clone());
        assert_eq!(times(&approval["conditions"][0]), (json!("1"), json!("now")));
        assert_eq!(times(&approval["conditions"][1]), (json!("now"), json!("now")));
        let status = prepared("status");
        assert_eq!(status["certificate"], "c");
        assert_eq!(status["conditions"][0], live["status"]["conditions"][0]);
    }

    #[test]
    fn what_is_decided_or_issued_stays() {
        let with = |kinds: &[&str], certificate: &str| {
            let conditions: Vec<Value> = kinds.iter().map(|k| json!({"type": k})).collect();
            json!({"status": {"conditions": conditions, "certificate": certificate}})
        };
        let check = |part: &str, old: &Value, new: &Value, want: usize| {
            assert_eq!(wrong_change(part, old, new).len(), want, "{part} {old} {new}");
        };
        let none = with(&[], "");
        check("approval", &none, &with(&["Approved"], ""), 0);
        check("status", &none, &with(&["Approved"], ""), 1);
        check("approval", &with(&["Approved"], ""), &none, 1);
        check("status", &with(&["Approved"], ""), &with(&["Approved"], "c"), 0);
        check("approval", &none, &with(&[], "c"), 1);
        check("status", &with(&[], "c"), &with(&[], "d"), 1);
    }
}
