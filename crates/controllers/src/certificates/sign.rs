//! Signs what was approved, if its signer is one of ours and may sign it.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use kit::clock::rfc3339_seconds;
use kit::controller::{Cache, Context, Controller, Error, ObjectKey, Wake, Watch, Wiring};
use kit::pki::{CertificateAuthority, CertificateRequest, Usage};
use kube::api::Patch;
use plan::certificates::{judge, term};
use serde_json::{Value, json};

use super::{GROUP, conditions, has_certificate, read, since};

/// See the module.
pub struct CsrSigning {
    requests: Cache<CertificateSigningRequest>,
    authority: Option<CertificateAuthority>,
}

/// An approved request for a signer of ours.
pub struct Observed {
    request: Arc<CertificateSigningRequest>,
    verdict: Result<CertificateRequest, String>,
}

/// What shall be done about it.
pub enum Plan {
    /// Sign it.
    Sign(Arc<CertificateSigningRequest>, CertificateRequest),
    /// Say why it is not signed.
    Refuse(Arc<CertificateSigningRequest>, String),
}

impl Controller for CsrSigning {
    type Key = ObjectKey;
    type Settings = Option<CertificateAuthority>;
    type Observed = Observed;
    type Plan = Plan;
    const NAME: &'static str = "csrsigning";

    fn wire(authority: Option<CertificateAuthority>, wiring: &mut Wiring<ObjectKey>) -> Self {
        wiring
            .about("Signs approved certificate requests of the cluster's own signers")
            .may(&["update", "patch"], GROUP, &["certificatesigningrequests/status"])
            .may(&["sign"], GROUP, &["signers"]);
        Self { requests: wiring.own(Watch::<CertificateSigningRequest>::all()), authority }
    }

    async fn observe(&self, _: &Context, key: &ObjectKey) -> Result<Option<Observed>, Error> {
        let Some(request) = self.requests.get(key) else { return Ok(None) };
        let set = |type_: &str| since(&request, type_).is_some();
        let waits = set("Approved") && !set("Denied") && !set("Failed");
        if self.authority.is_none() || !waits || has_certificate(&request) {
            return Ok(None);
        }
        let ours =
            [plan::certificates::CLIENT, plan::certificates::KUBELET, plan::certificates::SERVING];
        if !ours.contains(&request.spec.signer_name.as_str()) {
            return Ok(None);
        }
        let verdict = match read(&request) {
            Err(error) => Err(format!("unable to parse csr: {}", kit::error::chain(&error))),
            Ok((sent, asked)) => match judge(&asked) {
                None => return Ok(None),
                Some(verdict) => verdict.map(|()| sent),
            },
        };
        Ok(Some(Observed { request, verdict }))
    }

    fn plan(observed: &Observed) -> Plan {
        let request = Arc::clone(&observed.request);
        match &observed.verdict {
            Ok(sent) => Plan::Sign(request, sent.clone()),
            Err(why) => Plan::Refuse(request, why.clone()),
        }
    }

    async fn apply(&self, context: &Context, _: &ObjectKey, plan: Plan) -> Result<Wake, Error> {
        let (request, status) = match plan {
            Plan::Sign(request, sent) => {
                let Some(authority) = &self.authority else { return Ok(Wake::Never) };
                let usages = request.spec.usages.iter().flatten();
                let usages: Vec<Usage> = usages.filter_map(|usage| usage_of(usage)).collect();
                let lifetime = term(request.spec.expiration_seconds);
                let signed = authority.sign(&sent, &usages, lifetime, context.now());
                let pem = signed.map_err(|error| Error::bug("sign a certificate", error))?;
                (request, json!({"certificate": STANDARD.encode(pem)}))
            }
            Plan::Refuse(request, why) => {
                let now = rfc3339_seconds(context.now());
                let mut all = serde_json::to_value(conditions(&request))
                    .map_err(|error| Error::bug("write JSON", error))?;
                if let Value::Array(all) = &mut all {
                    all.push(json!({
                        "type": "Failed", "status": "True", "reason": "SignerValidationFailed",
                        "message": why, "lastUpdateTime": now, "lastTransitionTime": now,
                    }));
                }
                (request, json!({"conditions": all}))
            }
        };
        let patch = Patch::Merge(json!({
            "metadata": {"uid": request.metadata.uid,
                "resourceVersion": request.metadata.resource_version},
            "status": status,
        }));
        let written = context
            .patch::<CertificateSigningRequest>(&request.metadata, Some("status"), &patch)
            .await;
        match written {
            Err(error) if error.is_not_found() => {}
            other => drop(other?),
        }
        Ok(Wake::Never)
    }
}

fn usage_of(text: &str) -> Option<Usage> {
    match text {
        "digital signature" => Some(Usage::DigitalSignature),
        "key encipherment" => Some(Usage::KeyEncipherment),
        "client auth" => Some(Usage::ClientAuth),
        "server auth" => Some(Usage::ServerAuth),
        _ => None,
    }
}
