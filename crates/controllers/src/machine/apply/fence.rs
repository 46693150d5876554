//! Whether a deed may still be done, by what the API and the BMC say at this moment.

use api::{Incident, Machine};
use k8s_openapi::api::core::v1::Node;
use kit::controller::{Context, Error};
use kube::api::ObjectMeta;
use metal::redfish::Bmcs;
use plan::Standing;
use plan::machine::Heard;

use super::{Deed, Plan, not_done};
use crate::machine::Machines;
use crate::node::seen;

impl Machines {
    /// The machine as it is now, if the deed's fence holds.
    pub(super) async fn fenced(
        &self,
        context: &Context,
        bmcs: &Bmcs,
        plan: &Plan,
        deed: &Deed,
    ) -> Result<Machine, Error> {
        let fence = &deed.fence;
        let gone = || not_done("the machine's object is gone");
        // BMCs are slow: what the API says is asked last, so that it is as fresh as can be.
        let mut last_reset = None;
        if fence.last_reset.is_some() {
            match self.hear(context, bmcs, &plan.machine).await? {
                Heard::Answer { last_reset: said, .. } => last_reset = said,
                Heard::Error(why) => return Err(not_done(why)),
                Heard::Silence => return Err(not_done("the BMC does not answer")),
            }
        }
        let machine: Machine = context.get(&(), &plan.machine.metadata).await?.ok_or_else(gone)?;
        let mut node: Option<Node> = None;
        if let (Some(_), Some(joined)) = (&fence.node_uid, &plan.node) {
            node = context.get(&(), &named(&joined.name)).await?;
        }
        let shown = fence.shown.as_ref().zip(node.as_ref());
        let shows = shown.and_then(|(meant, node)| seen::shows(node, &meant.condition));
        let mut incident = None;
        if let Some(name) = &fence.incident {
            let found: Option<Incident> = context.get(&(), &named(name)).await?;
            incident = found.map(|found| found.status.unwrap_or_default().stage);
        }
        let agent = machine.status.as_ref().and_then(|status| status.agent.as_ref());
        let standing = Standing {
            machine_uid: machine.metadata.uid.as_deref(),
            generation: machine.metadata.generation,
            node_uid: node.as_ref().and_then(|node| node.metadata.uid.as_deref()),
            boot: agent.map(|agent| agent.boot.as_str()),
            last_reset: last_reset.as_deref(),
            incident,
            shows,
        };
        match fence.broken(&standing) {
            None => Ok(machine),
            Some(why) => Err(not_done(format!("not done: {why}"))),
        }
    }
}

fn named(name: &str) -> ObjectMeta {
    ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() }
}
