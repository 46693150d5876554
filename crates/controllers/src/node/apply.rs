//! Carries a plan out, in the order that `plan::deed` prescribes: the status by compare-and-swap, then
//! each deed if its fence still holds, and what is to be told.

use std::sync::Arc;

use api::incident::{IncidentStatus, Stage};
use api::ledger::Kind;
use api::{Incident, Machine};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kit::controller::{Class, Context, Error, Note, ObjectKey, Parts, Wake};
use plan::deed::Deed;
use plan::node::{Act, NodeSeen};

use super::{Nodes, Observed, says};
use crate::deed::told;

/// A budget that denies a node, and since when its incident is open.
pub(super) type Denial = ((Kind, plan::budget::Denied), Timestamp);

/// What is to be done, and about what.
pub struct Plan {
    pub(super) plan: plan::deed::Plan<Act, IncidentStatus>,
    pub(super) node: Option<NodeSeen>,
    pub(super) machine: Arc<Machine>,
    pub(super) incident: Option<Arc<Incident>>,
    /// When what it rests on was seen.
    made: Timestamp,
    /// The stage of the incident, if that was just written over the one that was looked at.
    written: Option<Stage>,
    /// What must not be in a plan and is.
    wrong: Vec<String>,
    pub(super) denied: Option<Denial>,
    pub(super) freed: u64,
}

impl Plan {
    pub(super) fn of(observed: &Observed) -> Self {
        let view = observed.view();
        let plan = plan::node::plan(&view);
        let denied = plan::node::denied(&view).zip(view.incident.map(|i| i.spec.opened));
        Self {
            wrong: plan::lint::node(&view, &plan),
            plan,
            node: observed.node.clone(),
            machine: Arc::clone(&observed.machine),
            incident: observed.incident.clone(),
            made: observed.now,
            written: None,
            denied,
            freed: observed.freed,
        }
    }
}

impl Nodes {
    pub(super) async fn carry_out(
        &self,
        context: &Context,
        key: &ObjectKey,
        mut plan: Plan,
    ) -> Result<Wake, Error> {
        if !plan.wrong.is_empty() {
            return Err(Error::new(Class::Bug, format!("the plan is unsound: {:?}", plan.wrong)));
        }
        let written = plan.plan.status.take();
        if let (Some(status), Some(incident)) = (&written, &plan.incident) {
            self.in_time(context, &plan)?;
            // A conflict drops the plan: another is made of what is there now.
            context.swap_status(&**incident, status, Parts::All).await?;
            plan.written = Some(status.stage);
        }
        let done = self.do_all(context, key, &plan).await;
        // A transition that was written down is told, whatever became of what follows from it.
        if done.is_ok() || written.is_some() {
            for event in &plan.plan.events {
                tell(context, &plan, told(event, &event.reason)).await;
            }
        }
        done?;
        Ok(plan.plan.wake.map_or(Wake::Never, Wake::At))
    }

    async fn do_all(&self, context: &Context, key: &ObjectKey, plan: &Plan) -> Result<(), Error> {
        for deed in &plan.plan.deeds {
            self.in_time(context, plan)?;
            self.deed(context, key, plan, deed).await?;
        }
        Ok(())
    }

    /// Whoever carries a plan out may have been stopped for a while; an old plan is dropped.
    fn in_time(&self, context: &Context, plan: &Plan) -> Result<(), Error> {
        let old = plan.made.checked_add(self.rules.fresh).unwrap_or(Timestamp::MAX);
        if old < context.now() {
            return Err(Error::not_ready("the plan is old; plans anew"));
        }
        Ok(())
    }

    async fn deed(
        &self,
        context: &Context,
        key: &ObjectKey,
        plan: &Plan,
        deed: &Deed<Act>,
    ) -> Result<(), Error> {
        let fresh = self.fresh(context, plan, deed).await?;
        if let Some(broken) = deed.fence.broken(&fresh.standing()) {
            return Err(Error::not_ready(format!("{}: {broken}", says::act(&deed.act))));
        }
        if let Some(note) = says::because(deed) {
            tell(context, plan, note).await;
        }
        self.act(context, key, plan, &deed.act, fresh).await
    }

    /// How things stand now, as far as the fence asks: from the API for whatever has an effect, and
    /// from the caches for what only writes down what is so, and names the UID. A cordon is an effect on
    /// the node alone. Nothing is asked twice: of a wave, each request is paid for by those behind it.
    async fn fresh(
        &self,
        context: &Context,
        plan: &Plan,
        deed: &Deed<Act>,
    ) -> Result<Fresh, Error> {
        let writes_down =
            matches!(deed.act, Act::Report(_) | Act::Dress { .. } | Act::OpenIncident { .. });
        let machine = async {
            let fence = &deed.fence;
            if writes_down || matches!(deed.act, Act::Cordon { .. }) {
                Ok(self.machines.get(&ObjectKey::of(&plan.machine.metadata)).map(|m| (*m).clone()))
            } else if fence.machine_uid.is_some() || fence.generation.is_some() {
                context.get::<Machine>(&(), &plan.machine.metadata).await
            } else {
                Ok(None)
            }
        };
        let node = async {
            match &plan.node {
                Some(seen) if writes_down => {
                    Ok(self.nodes.get(&ObjectKey::cluster(&seen.name)).map(|node| (*node).clone()))
                }
                Some(seen) => context.get::<Node>(&(), &node_meta(seen)).await,
                None => Ok(None),
            }
        };
        let incident = async {
            let (Some(_), Some(incident)) = (&deed.fence.incident, &plan.incident) else {
                return Ok(None);
            };
            if plan.written.is_some() {
                return Ok(plan.written);
            }
            if writes_down {
                return Ok(Some(stage(incident)));
            }
            let stored = context.get::<Incident>(&(), &incident.metadata).await?;
            let same = |stored: &Incident| stored.metadata.uid == incident.metadata.uid;
            Ok(stored.filter(same).as_ref().map(stage))
        };
        let (machine, node, incident) = futures::try_join!(machine, node, incident)?;
        Ok(Fresh { machine, node, incident })
    }
}

fn stage(incident: &Incident) -> Stage {
    incident.status.as_ref().map(|status| status.stage).unwrap_or_default()
}

/// What the API says now.
pub(super) struct Fresh {
    pub(super) machine: Option<Machine>,
    pub(super) node: Option<Node>,
    incident: Option<Stage>,
}

impl Fresh {
    fn standing(&self) -> plan::Standing<'_> {
        let machine = self.machine.as_ref().map(|machine| &machine.metadata);
        let node = self.node.as_ref();
        let info = node.and_then(|node| node.status.as_ref()?.node_info.as_ref());
        plan::Standing {
            machine_uid: machine.and_then(|metadata| metadata.uid.as_deref()),
            generation: machine.and_then(|metadata| metadata.generation),
            node_uid: node.and_then(|node| node.metadata.uid.as_deref()),
            boot: info.map(|info| info.boot_id.as_str()),
            last_reset: None,
            incident: self.incident,
            shows: None,
        }
    }
}

pub(super) fn node_meta(seen: &NodeSeen) -> ObjectMeta {
    ObjectMeta {
        name: Some(seen.name.clone()),
        uid: Some(seen.uid.clone()),
        ..ObjectMeta::default()
    }
}

/// Tells it of the node, or of the machine where there is no node.
pub(super) async fn tell(context: &Context, plan: &Plan, note: Note) {
    match &plan.node {
        Some(seen) => context.record::<Node>(&(), &node_meta(seen), note).await,
        None => context.record::<Machine>(&(), &plan.machine.metadata, note).await,
    }
}
