//! Each act, as a write that names what it was decided upon: a UID, or the revision just read.

use api::ledger::Grant;
use api::request::{Outcome, Request};
use api::{Incident, Ledger, Machine, names};
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kit::clock::rfc3339_seconds;
use kit::controller::{Context, Delete, Error, ObjectKey, Parts};
use kube::Api;
use kube::api::{DeleteParams, EvictParams, Patch, Preconditions};
use plan::budget;
use plan::node::{Act, Clothes, Reported};
use serde_json::{Value, json};

use super::apply::{Fresh, Plan, tell};
use super::{Nodes, says, seen};

/// How often a write to the ledger is tried again that another came before.
const LEDGER_TRIES: usize = 8;

/// A node that the fence has found to be there.
fn there(node: Option<Node>) -> Result<Node, Error> {
    node.ok_or_else(|| Error::not_ready("the node is gone"))
}

/// What pins a write to the revision that was read.
fn pinned(metadata: &ObjectMeta) -> Value {
    json!({"uid": metadata.uid, "resourceVersion": metadata.resource_version})
}

impl Nodes {
    pub(super) async fn act(
        &self,
        context: &Context,
        key: &ObjectKey,
        plan: &Plan,
        act: &Act,
        fresh: Fresh,
    ) -> Result<(), Error> {
        match act {
            Act::OpenIncident { name, spec } => {
                match context.create(&Incident::new(name, spec.clone())).await {
                    Err(error) if error.already_exists() => Ok(()),
                    other => other.map(drop),
                }
            }
            Act::Cordon { incident, reason } => {
                cordon(context, &there(fresh.node)?, incident, reason).await
            }
            Act::Uncordon { incident } => uncordon(context, &there(fresh.node)?, incident).await,
            Act::TakeGrant { grant } => self.take_grant(context, grant).await,
            Act::ReturnGrant { node_uid, left_by } => {
                self.return_grant(context, node_uid, left_by.as_deref()).await
            }
            Act::Evict { namespace, name, uid, now } => {
                let pod = ObjectMeta {
                    namespace: Some(namespace.clone()),
                    name: Some(name.clone()),
                    uid: Some(uid.clone()),
                    ..ObjectMeta::default()
                };
                if *now {
                    kill(context, pod).await
                } else {
                    self.evict(context, key, plan, pod).await
                }
            }
            Act::Ask(request) => ask(context, fresh.machine, request).await,
            Act::Withdraw { id } => withdraw(context, fresh.machine, id).await,
            Act::Report(reported) => report(context, &there(fresh.node)?.metadata, reported).await,
            Act::ClearPhase { condition, why } => {
                clear(context, plan, &there(fresh.node)?, condition, why).await
            }
            Act::Dress(clothes) => dress(context, &there(fresh.node)?, clothes).await,
        }
    }

    async fn take_grant(&self, context: &Context, grant: &Grant) -> Result<(), Error> {
        self.rewrite_ledger(context, |ledger| {
            let own = grant.pool.as_deref().and_then(|pool| self.pool_limit(pool));
            let census = self.memory().census();
            budget::grant(ledger, &census, grant, own)
                .map_err(|denied| Error::not_ready(denied.to_string()))
        })
        .await
    }

    async fn return_grant(
        &self,
        context: &Context,
        node_uid: &str,
        left_by: Option<&str>,
    ) -> Result<(), Error> {
        if let Some(incident) = left_by {
            over(context, incident).await?;
        }
        self.rewrite_ledger(context, |ledger| Ok(budget::give_back(ledger, node_uid, left_by)))
            .await
    }

    /// Writes what follows from the stored ledger, and anew if another came before.
    async fn rewrite_ledger(
        &self,
        context: &Context,
        change: impl Fn(&Ledger) -> Result<api::ledger::LedgerStatus, Error>,
    ) -> Result<(), Error> {
        let _turn = self.ledger_turn.lock().await;
        let named = ObjectMeta { name: Some(names::LEDGER.to_owned()), ..ObjectMeta::default() };
        for _ in 0..LEDGER_TRIES {
            let Some(ledger) = context.get::<Ledger>(&(), &named).await? else {
                return Err(Error::not_ready(format!("there is no ledger {:?}", names::LEDGER)));
            };
            let status = change(&ledger)?;
            if ledger.status.as_ref().unwrap_or(&Default::default()) == &status {
                return Ok(());
            }
            match context.swap_status(&ledger, &status, Parts::All).await {
                Err(error) if error.is_conflict() => {}
                other => return other,
            }
        }
        Err(Error::not_ready("others keep writing the ledger"))
    }

    /// By the eviction API, so that disruption budgets of pods count. One that keeps its pod is waited
    /// for; it does not keep the other pods of the node.
    async fn evict(
        &self,
        context: &Context,
        key: &ObjectKey,
        plan: &Plan,
        pod: ObjectMeta,
    ) -> Result<(), Error> {
        let (namespace, name) = (pod.namespace.unwrap_or_default(), pod.name.unwrap_or_default());
        let before = self.memory().allowances();
        let pods: Api<Pod> = Api::namespaced(context.client().clone(), &namespace);
        let only = Preconditions { uid: pod.uid, resource_version: None };
        let params = EvictParams {
            delete_options: Some(DeleteParams {
                preconditions: Some(only),
                ..DeleteParams::default()
            }),
            ..EvictParams::default()
        };
        let why = match pods.evict(&name, &params).await {
            // Gone, or another pod has its name.
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => return Ok(()),
            Err(kube::Error::Api(status)) if status.code == 429 => status.message.clone(),
            other => {
                return other.map(drop).map_err(|e| Error::during(format!("evict {name:?}"), e));
            }
        };
        let again = {
            let mut memory = self.memory();
            memory.keep(&namespace, &key.name);
            memory.allowances() != before
        };
        tell(context, plan, says::kept(&format!("{namespace}/{name}"), &why)).await;
        self.call(again.then(|| key.name.clone()));
        Ok(())
    }
}

async fn kill(context: &Context, pod: ObjectMeta) -> Result<(), Error> {
    let how = Delete { uid: pod.uid.clone(), grace_seconds: Some(0), ..Delete::default() };
    match context.delete::<Pod>(&(), &pod, how).await {
        // Another pod has its name.
        Err(error) if error.is_conflict() => Ok(()),
        other => other.map(drop),
    }
}

async fn cordon(context: &Context, node: &Node, incident: &str, reason: &str) -> Result<(), Error> {
    if seen::is_unschedulable(node) {
        return Err(Error::not_ready("the node is cordoned already"));
    }
    let mut metadata = pinned(&node.metadata);
    metadata["annotations"] = json!({names::CORDONED_FOR: incident, names::CORDON_REASON: reason});
    let patch = json!({"metadata": metadata, "spec": {"unschedulable": true}});
    context.patch::<Node>(&node.metadata, None, &Patch::Merge(patch)).await.map(drop)
}

/// Refuses while an incident is open, as the API has it: a cache may not know it yet.
async fn over(context: &Context, incident: &str) -> Result<(), Error> {
    let named = ObjectMeta { name: Some(incident.to_owned()), ..ObjectMeta::default() };
    let stored: Option<Incident> = context.get(&(), &named).await?;
    let open = |i: &Incident| i.status.as_ref().is_none_or(|status| status.closed.is_none());
    match stored.is_some_and(|stored| open(&stored)) {
        true => Err(Error::not_ready(format!("incident {incident} is open"))),
        false => Ok(()),
    }
}

/// Takes our cordon back: one with the mark of this incident, which is over, and which nobody has set
/// again since.
async fn uncordon(context: &Context, node: &Node, incident: &str) -> Result<(), Error> {
    let annotations = node.metadata.annotations.as_ref();
    let marked = annotations.and_then(|all| all.get(names::CORDONED_FOR));
    let Some(marked) = marked else { return Ok(()) };
    let unschedulable = seen::is_unschedulable(node);
    if marked != incident || (unschedulable && !seen::cordon_is(node, context.manager())) {
        return Err(Error::not_ready("the cordon is not ours"));
    }
    over(context, incident).await?;
    let mut metadata = pinned(&node.metadata);
    metadata["annotations"] =
        json!({names::CORDONED_FOR: Value::Null, names::CORDON_REASON: Value::Null});
    let patch = json!({"metadata": metadata, "spec": {"unschedulable": Value::Null}});
    context.patch::<Node>(&node.metadata, None, &Patch::Merge(patch)).await.map(drop)
}

/// Writes a request whole into a machine, unless another stands there that is not answered.
async fn ask(context: &Context, machine: Option<Machine>, request: &Request) -> Result<(), Error> {
    let machine = machine.ok_or_else(|| Error::not_ready("the machine is gone"))?;
    let mut wanted = serde_json::to_value(request).map_err(|e| Error::bug("write JSON", e))?;
    if let Some(standing) = &machine.spec.request {
        if standing.id == request.id {
            return Ok(());
        }
        let answer = machine.status.as_ref().and_then(|status| status.answer.as_ref());
        let answered = answer.is_some_and(|a| a.id == standing.id && a.outcome != Outcome::Running);
        if !answered && !plan::node::is_idle_test(standing) {
            return Err(Error::not_ready(format!("request {} is not answered", standing.id)));
        }
        // A merge removes only what it names.
        let old = serde_json::to_value(standing).map_err(|e| Error::bug("write JSON", e))?;
        if let (Some(wanted), Some(old)) = (wanted.as_object_mut(), old.as_object()) {
            for field in old.keys() {
                wanted.entry(field.clone()).or_insert(Value::Null);
            }
        }
    }
    set_request(context, &machine, wanted).await
}

async fn withdraw(context: &Context, machine: Option<Machine>, id: &str) -> Result<(), Error> {
    match machine {
        Some(machine) if machine.spec.request.as_ref().is_some_and(|there| there.id == id) => {
            set_request(context, &machine, Value::Null).await
        }
        _ => Ok(()),
    }
}

async fn set_request(context: &Context, machine: &Machine, to: Value) -> Result<(), Error> {
    let patch = json!({"metadata": pinned(&machine.metadata), "spec": {"request": to}});
    context.patch::<Machine>(&machine.metadata, None, &Patch::Merge(patch)).await.map(drop)
}

async fn report(context: &Context, node: &ObjectMeta, what: &Reported) -> Result<(), Error> {
    let condition = json!({
        "type": what.kind,
        "status": if what.holds { "True" } else { "False" },
        "reason": what.reason,
        "message": what.message,
        "lastTransitionTime": rfc3339_seconds(what.since),
    });
    let patch = json!({"metadata": {"uid": node.uid}, "status": {"conditions": [condition]}});
    context.patch::<Node>(node, Some("status"), &Patch::Strategic(patch)).await.map(drop)
}

/// Takes back the condition that asked for a phase, unless it has been asked for anew since.
async fn clear(
    context: &Context,
    plan: &Plan,
    node: &Node,
    condition: &str,
    why: &str,
) -> Result<(), Error> {
    let all = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let now = all.into_iter().find(|there| there.type_ == condition);
    let now = now.map(|there| seen::reported(there, &node.metadata));
    let seen = plan.node.as_ref().and_then(|node| node.condition(condition));
    let Some(now) = now.filter(|now| now.holds) else { return Ok(()) };
    if seen.is_none_or(|seen| (&seen.reason, seen.since) != (&now.reason, now.since)) {
        return Err(Error::not_ready(format!("{condition} was asked for anew")));
    }
    let cleared = json!({
        "type": condition,
        "status": "False",
        "reason": now.reason,
        "message": why,
        "lastTransitionTime": rfc3339_seconds(context.now()),
    });
    let patch = json!({"metadata": pinned(&node.metadata), "status": {"conditions": [cleared]}});
    context.patch::<Node>(&node.metadata, Some("status"), &Patch::Strategic(patch)).await.map(drop)
}

/// Brings our labels and taints, and the pool's, to what they shall be, and leaves those of others as
/// they are.
async fn dress(context: &Context, node: &Node, clothes: &Clothes) -> Result<(), Error> {
    let mut metadata = json!({"uid": node.metadata.uid, "labels": clothes.labels});
    let annotations = node.metadata.annotations.as_ref();
    let from_pool = clothes.from_pool.text();
    if annotations.and_then(|all| all.get(names::FROM_POOL)) != from_pool.as_ref() {
        metadata["annotations"] = json!({names::FROM_POOL: from_pool});
    }
    let mut patch = json!({"metadata": metadata});
    let old = node.spec.as_ref().and_then(|spec| spec.taints.clone()).unwrap_or_default();
    let taints = clothes.taints(old.clone());
    if taints != old {
        // The list is written whole, so nobody may have changed it since.
        patch["metadata"]["resourceVersion"] = json!(node.metadata.resource_version);
        patch["spec"] = json!({"taints": taints});
    }
    context.patch::<Node>(&node.metadata, None, &Patch::Merge(patch)).await.map(drop)
}
