//! Carries a plan out, in the order and under the fences that [`plan::deed`] prescribes.

mod bmc;
mod fence;

use std::sync::Arc;

use api::machine::MachineStatus;
use api::names::FINALIZER;
use api::request::Power;
use api::{Machine, names};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kit::controller::{Class, Context, Delete, Error, Mood, Note, ObjectKey, Parts, Wake};
use kube::ResourceExt;
use kube::api::{ObjectMeta, Patch};
use metal::redfish::Bmcs;
use plan::Because;
use plan::machine::{Act, Joined};
use serde_json::json;

use super::memory::switches_on;
use super::{Machines, Observed};
use crate::deed::told;

/// Fields of the status that agent, boot service and approver of joins write: what is not named in an
/// apply stays theirs.
const OF_OTHERS: [&str; 6] = ["agent", "inventory", "firmware", "report", "enrolment", "admission"];

/// What shall be done about a machine, and what it was decided upon.
pub struct Plan {
    machine: Arc<Machine>,
    node: Option<Joined>,
    allowed: u32,
    /// Until when it may be carried out.
    until: Timestamp,
    whole: plan::Plan<Act, MachineStatus>,
}

impl Plan {
    pub(super) fn of(observed: &Observed) -> Self {
        let until = observed.now.checked_add(observed.rules.fresh).unwrap_or(Timestamp::MAX);
        Self {
            machine: Arc::clone(&observed.machine),
            node: observed.node.clone(),
            allowed: observed.power_ons.allowed,
            until,
            whole: plan::machine::plan(&observed.facts()),
        }
    }

    /// An error once it is too old to be carried out.
    fn fresh(&self, context: &Context) -> Result<(), Error> {
        if context.now() <= self.until {
            return Ok(());
        }
        Err(Error::not_ready("the plan is old; plans anew"))
    }
}

type Deed = plan::Deed<Act>;

impl Machines {
    pub(super) async fn carry_out(
        &self,
        context: &Context,
        key: &ObjectKey,
        mut plan: Plan,
    ) -> Result<Wake, Error> {
        let Some(bmcs) = &self.bmcs else { return Ok(Wake::Never) };
        let machine = Arc::clone(&plan.machine);
        if is_new(&machine) {
            // The write brings the key back.
            return hold(context, &machine).await.map(|()| Wake::Never);
        }
        plan.fresh(context)?;
        if let Some(status) = plan.whole.status.take()
            && !self.write(context, &machine, &status, plan.allowed).await?
        {
            self.again.add(key.clone());
            return Ok(Wake::Never);
        }
        let mut done = Ok(());
        for deed in std::mem::take(&mut plan.whole.deeds) {
            done = self.act(context, bmcs, &plan, deed).await;
            if done.is_err() {
                break;
            }
        }
        // They tell what the status says, which is written whatever became of the deeds.
        for event in plan.whole.events {
            let note = told(&event, "Lifecycle");
            context.record::<Machine>(&(), &machine.metadata, note).await;
        }
        done?;
        Ok(plan.whole.wake.map_or(Wake::Never, Wake::At))
    }

    /// Writes the status over the one that was observed; a conflict drops the plan. Says whether
    /// there was room for what begins with it.
    async fn write(
        &self,
        context: &Context,
        machine: &Machine,
        status: &MachineStatus,
        allowed: u32,
    ) -> Result<bool, Error> {
        let (name, rack) = (machine.name(), &machine.spec.place.rack);
        let begins = switches_on(status) && !machine.status.as_ref().is_some_and(switches_on);
        if begins && !self.memory().claim(name, rack, allowed) {
            return Ok(false);
        }
        let written = write_status(context, machine, status).await;
        if begins && written.is_err() {
            let is = self.machines.get(&ObjectKey::cluster(name));
            let freed = self.memory().unclaim(name, is.as_deref(), rack);
            freed.into_iter().for_each(|name| self.again.add(ObjectKey::cluster(name)));
        }
        written.map(|()| true)
    }

    async fn act(
        &self,
        context: &Context,
        bmcs: &Bmcs,
        plan: &Plan,
        deed: Deed,
    ) -> Result<(), Error> {
        plan.fresh(context)?;
        let machine = &plan.machine;
        let metadata = &machine.metadata;
        match &deed.act {
            // Disturbs nothing, so it is neither fenced nor told.
            Act::ReadBmc => self.ask(context, bmcs, machine).await,
            Act::Power { power, operation } => {
                let fresh = self.fenced(context, bmcs, plan, &deed).await?;
                let standing = fresh.status.as_ref().and_then(|status| status.operation.as_ref());
                if standing.is_none_or(|standing| standing.id != *operation) {
                    return Err(Error::not_ready("another operation stands in the status"));
                }
                let what = format!("the BMC is told: {}", words(*power));
                tell(context, metadata, "Power", &what, &deed.because).await?;
                plan.fresh(context)?;
                self.power(context, bmcs, machine, *power).await
            }
            Act::DeleteNode { name } => {
                let object = ObjectMeta { name: Some(name.clone()), ..ObjectMeta::default() };
                if context.get::<Node>(&(), &object).await?.is_none() {
                    return Ok(());
                }
                self.fenced(context, bmcs, plan, &deed).await?;
                let what = format!("node {name} is deleted");
                tell(context, metadata, "NodeDeleted", &what, &deed.because).await?;
                let uid = deed.fence.node_uid.clone();
                context.delete::<Node>(&(), &object, Delete { uid, ..Delete::default() }).await?;
                Ok(())
            }
            Act::Release => {
                let fresh = self.fenced(context, bmcs, plan, &deed).await?;
                let what = "its object may go";
                tell(context, metadata, "Released", what, &deed.because).await?;
                release(context, &fresh).await
            }
        }
    }
}

/// Nobody has made sure yet that the object stays until its hardware is released.
fn is_new(machine: &Machine) -> bool {
    let ours = machine.finalizers().iter().any(|name| name == FINALIZER);
    machine.metadata.deletion_timestamp.is_none() && !ours
}

async fn hold(context: &Context, machine: &Machine) -> Result<(), Error> {
    let mut finalizers = machine.finalizers().to_vec();
    finalizers.push(FINALIZER.to_owned());
    set_finalizers(context, machine, &finalizers).await
}

async fn release(context: &Context, machine: &Machine) -> Result<(), Error> {
    let others = machine.finalizers().iter().filter(|name| *name != FINALIZER);
    set_finalizers(context, machine, &others.cloned().collect::<Vec<_>>()).await
}

async fn set_finalizers(
    context: &Context,
    machine: &Machine,
    finalizers: &[String],
) -> Result<(), Error> {
    let metadata = &machine.metadata;
    let patch = Patch::Merge(json!({"metadata": {
        "uid": metadata.uid, "resourceVersion": metadata.resource_version, "finalizers": finalizers,
    }}));
    context.patch::<Machine>(metadata, None, &patch).await.map(drop)
}

async fn write_status(
    context: &Context,
    machine: &Machine,
    status: &MachineStatus,
) -> Result<(), Error> {
    context.swap_status(machine, status, Parts::Except(&OF_OTHERS)).await
}

/// Writes the Event of a deed; without it the deed is not done.
async fn tell(
    context: &Context,
    machine: &ObjectMeta,
    reason: &str,
    what: &str,
    because: &Because,
) -> Result<(), Error> {
    let Because { who, why, evidence, origin } = because;
    let mut text = format!("{what}; why: {why}; asked by {who} for {origin}");
    if !evidence.is_empty() {
        text = format!("{text}; seen: {}", evidence.join("; "));
    }
    let note = Note {
        mood: Mood::Normal,
        reason: reason.to_owned(),
        action: "Lifecycle".to_owned(),
        text,
    };
    context.tell::<Machine>(&(), machine, note).await
}

/// A BMC that does not do what it is told is no failure of ours: the machine is looked at anew.
fn not_done(why: impl std::fmt::Display) -> Error {
    Error::new(Class::NotReady, why.to_string())
}

const fn words(power: Power) -> &'static str {
    match power {
        Power::On => "switch on",
        Power::Off => "switch off",
        Power::GracefulRestart => "restart",
        Power::ForceRestart => "restart by force",
        Power::Cycle => "cycle the power",
    }
}

/// The Secret of a machine's credential.
fn secret(machine: &Machine) -> ObjectMeta {
    ObjectMeta {
        name: Some(machine.spec.bmc.credential.clone()),
        namespace: Some(names::NAMESPACE.to_owned()),
        ..ObjectMeta::default()
    }
}
