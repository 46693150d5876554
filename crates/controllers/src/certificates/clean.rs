//! Forgets requests that have had their time.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use kit::controller::{Cache, Context, Controller, Delete, Error, ObjectKey, Wake, Watch, Wiring};
use plan::certificates::{Fate, forgotten};

use super::{GROUP, conditions, has_certificate, since};

/// See the module.
pub struct CsrCleaner(Cache<CertificateSigningRequest>);

/// A request and its end.
pub struct Observed {
    request: Arc<CertificateSigningRequest>,
    fate: Fate,
    now: Timestamp,
}

/// What shall be done about it.
pub enum Plan {
    /// It stays, until then if that is known.
    Keep(Option<Timestamp>),
    /// It goes.
    Delete(Arc<CertificateSigningRequest>),
}

impl Controller for CsrCleaner {
    type Key = ObjectKey;
    type Settings = ();
    type Observed = Observed;
    type Plan = Plan;
    const NAME: &'static str = "csrcleaner";

    fn wire((): (), wiring: &mut Wiring<ObjectKey>) -> Self {
        wiring.about("Deletes certificate requests that have had their time").may(
            &["delete"],
            GROUP,
            &["certificatesigningrequests"],
        );
        Self(wiring.own(Watch::<CertificateSigningRequest>::all()))
    }

    async fn observe(&self, context: &Context, key: &ObjectKey) -> Result<Option<Observed>, Error> {
        let Some(request) = self.0.get(key) else { return Ok(None) };
        let bytes = request.status.as_ref().and_then(|status| status.certificate.as_ref());
        let created = request.metadata.creation_timestamp.as_ref();
        let fate = Fate {
            created: created.map_or(Timestamp::UNIX_EPOCH, |time| time.0),
            issued: since(&request, "Approved").filter(|_| has_certificate(&request)),
            refused: since(&request, "Denied").or(since(&request, "Failed")),
            pending: conditions(&request).is_empty(),
            expires: bytes.and_then(|bytes| kit::pki::not_after(&bytes.0)),
        };
        Ok(Some(Observed { request, fate, now: context.now() }))
    }

    fn plan(observed: &Observed) -> Plan {
        match forgotten(&observed.fate) {
            Some(end) if end <= observed.now => Plan::Delete(Arc::clone(&observed.request)),
            end => Plan::Keep(end),
        }
    }

    async fn apply(&self, context: &Context, _: &ObjectKey, plan: Plan) -> Result<Wake, Error> {
        let request = match plan {
            Plan::Keep(end) => return Ok(Wake::earliest(end)),
            Plan::Delete(request) => request,
        };
        let how = Delete { uid: request.metadata.uid.clone(), ..Delete::default() };
        context.delete::<CertificateSigningRequest>(&(), &request.metadata, how).await?;
        Ok(Wake::Never)
    }
}
