//! Does what a pool's plan says: status, deeds, events, in this order.

use api::node_pool::NodePoolStatus;
use api::{Machine, NodePool};
use futures::{StreamExt, stream};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kit::controller::{Context, Error, Mood, Note, ObjectKey, Parts, Wake};
use plan::Standing;
use plan::deed::{Because, Deed};
use plan::pool::Act;
use serde_json::json;

use super::{Plan, Pools};
use crate::claim::fenced;
use crate::deed::told;

/// How many machines are assigned at once: one by one, thousands of them would take ten minutes.
const AT_ONCE: usize = 16;

impl Pools {
    pub(super) async fn carry_out(
        &self,
        cx: &Context,
        key: &ObjectKey,
        plan: Plan,
    ) -> Result<Wake, Error> {
        let Plan { pool, made, todo } = plan;
        if let Some(pool) = &pool {
            let status = todo.status.as_ref().or(pool.status.as_ref());
            self.show(&key.name, status);
            if let Some(status) = &todo.status
                && !write_status(cx, pool, status).await?
            {
                return Ok(Wake::Never);
            }
        }
        let stale = made.checked_add(self.rules.fresh).unwrap_or(made);
        let deeds = todo.deeds.into_iter().map(|deed| in_time(cx, &key.name, deed, stale));
        let done: Vec<_> = stream::iter(deeds).buffer_unordered(AT_ONCE).collect().await;
        // Every machine has had its turn before one of them is an error.
        for done in done {
            if !done? {
                return Ok(Wake::At(cx.now()));
            }
        }
        if let Some(pool) = &pool {
            for event in todo.events {
                cx.record::<NodePool>(&(), &pool.metadata, told(&event, &event.reason)).await;
            }
        }
        Ok(Wake::earliest(todo.wake))
    }

    fn show(&self, pool: &str, status: Option<&NodePoolStatus>) {
        let Some(status) = status else { return };
        self.missing.set(pool, status.target.saturating_sub(status.current));
        self.spares.set(pool, status.spares_wanted.saturating_sub(status.spares));
    }
}

/// Writes the status where the pool is still the one that was looked at; says whether it is there.
async fn write_status(
    cx: &Context,
    pool: &NodePool,
    status: &NodePoolStatus,
) -> Result<bool, Error> {
    match cx.swap_status(pool, status, Parts::All).await {
        Err(error) if error.is_not_found() => Ok(false),
        other => other.map(|()| true),
    }
}

/// Does one deed, unless its turn came so late that it must be decided anew; says whether.
async fn in_time(
    cx: &Context,
    pool: &str,
    deed: Deed<Act>,
    stale: Timestamp,
) -> Result<bool, Error> {
    if cx.now() > stale {
        return Ok(false);
    }
    carry_out(cx, pool, &deed).await.map(|()| true)
}

/// Does one deed, unless what it was decided upon no longer holds.
async fn carry_out(cx: &Context, pool: &str, deed: &Deed<Act>) -> Result<(), Error> {
    let (name, assignment) = match &deed.act {
        Act::Assign { machine, assignment } => (machine, Some(assignment)),
        Act::Release { machine } => (machine, None),
    };
    let meta = ObjectMeta { name: Some(name.clone()), ..ObjectMeta::default() };
    let Some(machine) = cx.get::<Machine>(&(), &meta).await? else {
        return Err(Error::not_ready(format!("machine {name} is gone")));
    };
    let standing = Standing {
        machine_uid: machine.metadata.uid.as_deref(),
        generation: machine.metadata.generation,
        ..Standing::default()
    };
    if let Some(broken) = deed.fence.broken(&standing) {
        return Err(Error::not_ready(format!("machine {name}: {broken}")));
    }
    let holder = machine.spec.assignment.as_ref().map(|assigned| assigned.pool.as_str());
    match holder {
        Some(holder) if holder != pool => {
            return Err(Error::not_ready(format!("machine {name} is assigned to pool {holder}")));
        }
        None if assignment.is_none() => return Ok(()),
        _ => {}
    }
    let reason = if assignment.is_some() { "Assigning" } else { "Releasing" };
    cx.record::<Machine>(&(), &machine.metadata, before(reason, &deed.because)).await;
    // At this very revision: of two pools that want the machine, one is refused.
    let assignment = serde_json::to_value(assignment).map_err(|e| Error::bug("write JSON", e))?;
    let patch = fenced(&machine.metadata, json!({}), json!({"spec": {"assignment": assignment}}));
    cx.patch::<Machine>(&machine.metadata, None, &patch).await.map(drop)
}

/// What is told before a deed: who does it, why, and for what.
fn before(reason: &str, because: &Because) -> Note {
    let Because { who, why, origin, .. } = because;
    Note {
        mood: Mood::Normal,
        reason: reason.to_owned(),
        action: "Assign".to_owned(),
        text: format!("{why} ({who} for {origin})"),
    }
}
