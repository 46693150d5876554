//! Approves the certificates of machines that join: one per token, for the machine's own node.

use std::sync::Arc;

use api::Machine;
use api::machine::Admission;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use kit::controller::{
    Cache, Class, Context, Controller, Error, Mood, Note, ObjectKey, Parts, Wake, Watch, Wiring,
};
use kube::api::ObjectMeta;
use plan::boot::{Admit, admit, is_ours, node_of};
use plan::certificates::Asked;
use serde_json::json;

use super::{GROUP, decide, has_certificate, read, since};

/// See the module. Requests of other tokens are left to [`CsrApproving`](super::CsrApproving).
pub struct JoinApproving(Cache<CertificateSigningRequest>);

/// A request that nobody has decided, and the machine that has the name of its node, as the API has
/// it: another process may have given the token a moment ago.
pub struct Observed {
    request: Arc<CertificateSigningRequest>,
    asked: Asked,
    machine: Option<Machine>,
}

/// What shall be done about it.
pub struct Plan {
    request: Arc<CertificateSigningRequest>,
    machine: Option<Machine>,
    verdict: Admit,
}

impl Controller for JoinApproving {
    type Key = ObjectKey;
    type Settings = ();
    type Observed = Observed;
    type Plan = Plan;
    const NAME: &'static str = "joinapproving";

    fn wire((): (), wiring: &mut Wiring<ObjectKey>) -> Self {
        wiring
            .about("Approves one certificate per token of a machine that joins")
            .concurrency(16)
            .may(&["update", "patch"], GROUP, &["certificatesigningrequests/approval"])
            .may(&["approve"], GROUP, &["signers"])
            .may(&["get"], api::GROUP, &["machines"])
            .may(&["patch"], api::GROUP, &["machines/status"])
            .records_events();
        Self(wiring.own(Watch::<CertificateSigningRequest>::all()))
    }

    async fn observe(&self, context: &Context, key: &ObjectKey) -> Result<Option<Observed>, Error> {
        let Some(request) = self.0.get(key) else { return Ok(None) };
        let spec = &request.spec;
        let user = spec.username.as_deref().unwrap_or_default();
        let decided = ["Approved", "Denied", "Failed"].iter().any(|d| since(&request, d).is_some());
        let groups = spec.groups.as_deref().unwrap_or_default();
        if decided || has_certificate(&request) || !is_ours(user, groups) {
            return Ok(None);
        }
        // One that cannot be read asks for nothing that could be allowed.
        let asked = read(&request).map(|(_, asked)| asked).unwrap_or_default();
        let machine = match node_of(&asked).filter(|name| !name.is_empty()) {
            None => None,
            Some(name) => {
                let object = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
                context.get::<Machine>(&(), &object).await?
            }
        };
        Ok(Some(Observed { request, asked, machine }))
    }

    fn plan(observed: &Observed) -> Plan {
        let Observed { request, asked, machine } = observed;
        let uid = request.metadata.uid.as_deref().unwrap_or_default();
        let verdict = admit(asked, uid, machine.as_ref());
        Plan { request: Arc::clone(request), machine: machine.clone(), verdict }
    }

    async fn apply(&self, context: &Context, _: &ObjectKey, plan: Plan) -> Result<Wake, Error> {
        let Plan { request, machine, verdict } = plan;
        let (type_, reason, message) = match verdict {
            Admit::Deny(why) => ("Denied", "NotItsToken", why),
            Admit::Approve => ("Approved", "MachineJoins", APPROVED.to_owned()),
            Admit::Spend(admission) => {
                let machine = machine
                    .ok_or_else(|| Error::new(Class::Bug, "a token is spent on no machine"))?;
                spend(context, &machine, &admission, &request).await?;
                ("Approved", "MachineJoins", APPROVED.to_owned())
            }
        };
        decide(context, &request, type_, reason, &message).await?;
        Ok(Wake::Never)
    }
}

const APPROVED: &str = "The token was given to this machine's boot, and is spent on this request.";

/// Writes down what the token is spent on, where the machine is still the one that was looked at.
async fn spend(
    context: &Context,
    machine: &Machine,
    admission: &Admission,
    request: &CertificateSigningRequest,
) -> Result<(), Error> {
    let status = json!({"admission": admission});
    context.swap_status(machine, &status, Parts::Only(&["admission"])).await?;
    let name = request.metadata.name.as_deref().unwrap_or_default();
    let note = Note {
        mood: Mood::Normal,
        reason: "Joins".to_owned(),
        action: "Join".to_owned(),
        text: format!("token {} is spent on the certificate request {name}", admission.token),
    };
    context.tell::<Machine>(&(), &machine.metadata, note).await
}
