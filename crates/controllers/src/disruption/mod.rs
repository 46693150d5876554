//! Disruption budgets say how many of their pods may be evicted; the server's eviction obeys.
//!
//! The status is written at the revision that was looked at, since evictions write it too.

mod scale;

use std::sync::Arc;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::{Pod, ReplicationController};
use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kit::clock::rfc3339_seconds;
use kit::controller::conditions::{self, Wanted};
use kit::controller::{Cache, Context, Controller, Error, ObjectKey, Wake, Watch, Wiring};
use kube::api::Patch;
use kube::core::{Selector, SelectorExt};
use plan::disruption::{Bound, Member, Plan};
use serde_json::{Map, Value, json};

/// See the module.
pub struct Disruption {
    budgets: Cache<PodDisruptionBudget>,
    pods: Cache<Pod>,
    replica_sets: Cache<ReplicaSet>,
    deployments: Cache<Deployment>,
    stateful_sets: Cache<StatefulSet>,
    replication_controllers: Cache<ReplicationController>,
}

/// A budget and what there is to know about it.
pub struct Observed {
    budget: Arc<PodDisruptionBudget>,
    facts: plan::disruption::Observed,
}

/// Whether a budget is about a pod. One without a selector is about none.
fn selects(budget: &PodDisruptionBudget, pod: &ObjectMeta) -> bool {
    let selector = budget.spec.as_ref().and_then(|spec| spec.selector.clone());
    let selector = selector.and_then(|selector| Selector::try_from(selector).ok());
    let none = Default::default();
    selector.is_some_and(|selector| selector.matches(pod.labels.as_ref().unwrap_or(&none)))
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|c| c.type_ == "Ready" && c.status == "True")
}

/// Keys of all budgets in the namespace of an object.
fn budgets_beside(
    budgets: &Cache<PodDisruptionBudget>,
) -> impl Fn(&ObjectMeta) -> Vec<ObjectKey> + Clone + Send + Sync + 'static {
    let budgets = budgets.clone();
    move |object| {
        let beside = budgets.in_namespace(object.namespace.as_deref().unwrap_or_default());
        beside.iter().map(|budget| ObjectKey::of(&budget.metadata)).collect()
    }
}

impl Controller for Disruption {
    type Key = ObjectKey;
    type Settings = ();
    type Observed = Observed;
    type Plan = (Arc<PodDisruptionBudget>, Plan);
    const NAME: &'static str = "disruption";

    fn wire((): (), wiring: &mut Wiring<ObjectKey>) -> Self {
        wiring
            .about("Counts how many pods of each disruption budget may be evicted")
            .may(&["patch"], "policy", &["poddisruptionbudgets/status"])
            .may(&["get"], "*", &["*/scale"]);
        let budgets = wiring.own(Watch::<PodDisruptionBudget>::all());
        let all = budgets.clone();
        let matters = |pod: &Pod| {
            let owners = pod.metadata.owner_references.clone();
            (
                pod.metadata.labels.clone(),
                owners,
                is_ready(pod),
                pod.metadata.deletion_timestamp.is_some(),
            )
        };
        let pods = Watch::<Pod>::all().when(move |old, new| matters(old) != matters(new));
        let pods = wiring.watch(pods, move |pod| {
            let beside = all.in_namespace(pod.metadata.namespace.as_deref().unwrap_or_default());
            let about = beside.into_iter().filter(|budget| selects(budget, &pod.metadata));
            about.map(|budget| ObjectKey::of(&budget.metadata)).collect::<Vec<_>>()
        });
        let beside = budgets_beside(&budgets);
        let keys = beside.clone();
        let replica_sets = wiring
            .watch(Watch::<ReplicaSet>::all().when_generation(), move |set| keys(&set.metadata));
        let keys = beside.clone();
        let deployments = wiring
            .watch(Watch::<Deployment>::all().when_generation(), move |it| keys(&it.metadata));
        let keys = beside.clone();
        let stateful_sets = wiring
            .watch(Watch::<StatefulSet>::all().when_generation(), move |it| keys(&it.metadata));
        let controllers = Watch::<ReplicationController>::all().when_generation();
        let replication_controllers = wiring.watch(controllers, move |it| beside(&it.metadata));
        Self { budgets, pods, replica_sets, deployments, stateful_sets, replication_controllers }
    }

    async fn observe(&self, context: &Context, key: &ObjectKey) -> Result<Option<Observed>, Error> {
        let Some(budget) = self.budgets.get(key) else { return Ok(None) };
        if budget.metadata.deletion_timestamp.is_some() {
            return Ok(None);
        }
        let mut pods = self.pods.in_namespace(&key.namespace);
        pods.retain(|pod| selects(&budget, &pod.metadata));
        let spec = budget.spec.clone().unwrap_or_default();
        let bound = match (spec.max_unavailable, spec.min_available) {
            (Some(most), _) => Some(Bound::MaxUnavailable(most)),
            (None, Some(least)) => Some(Bound::MinAvailable(least)),
            (None, None) => None,
        };
        let scale = match &bound {
            Some(bound) if bound.needs_scale() => self.scale_of(context, &pods).await?,
            _ => Ok(0),
        };
        let member = |pod: &Arc<Pod>| Member {
            name: pod.metadata.name.clone().unwrap_or_default(),
            ready: is_ready(pod),
            deleting: pod.metadata.deletion_timestamp.is_some(),
        };
        let disrupted = budget.status.iter().flat_map(|s| s.disrupted_pods.iter().flatten());
        let facts = plan::disruption::Observed {
            bound,
            pods: pods.iter().map(member).collect(),
            scale,
            disrupted: disrupted.map(|(name, since)| (name.clone(), since.0)).collect(),
            now: context.now(),
        };
        Ok(Some(Observed { budget, facts }))
    }

    fn plan(observed: &Observed) -> (Arc<PodDisruptionBudget>, Plan) {
        (Arc::clone(&observed.budget), plan::disruption::plan(&observed.facts))
    }

    async fn apply(
        &self,
        context: &Context,
        _: &ObjectKey,
        (budget, plan): (Arc<PodDisruptionBudget>, Plan),
    ) -> Result<Wake, Error> {
        let before = budget.status.clone().unwrap_or_default();
        let wanted = status(&budget, &before, &plan, context);
        let asleep = Wake::earliest(plan.next);
        if Some(&wanted) == budget.status.as_ref() {
            return Ok(asleep);
        }
        let mut body = serde_json::to_value(&wanted).map_err(|e| Error::bug("write JSON", e))?;
        // A merge removes only what it names.
        let gone =
            before.disrupted_pods.iter().flatten().map(|(name, _)| (name.clone(), Value::Null));
        let mut disrupted: Map<String, Value> = gone.collect();
        let kept = plan.disrupted.iter();
        disrupted.extend(kept.map(|(name, since)| (name.clone(), json!(rfc3339_seconds(*since)))));
        if let Some(fields) = body.as_object_mut() {
            fields.insert("disruptedPods".to_owned(), Value::Object(disrupted));
        }
        let patch = json!({
            "metadata": {"resourceVersion": budget.metadata.resource_version},
            "status": body,
        });
        let patch = Patch::Merge(patch);
        let written =
            context.patch::<PodDisruptionBudget>(&budget.metadata, Some("status"), &patch).await;
        match written {
            Err(error) if error.is_not_found() => Ok(Wake::Never),
            other => other.map(|_| asleep),
        }
    }
}

/// What the status shall be.
fn status(
    budget: &PodDisruptionBudget,
    before: &PodDisruptionBudgetStatus,
    plan: &Plan,
    context: &Context,
) -> PodDisruptionBudgetStatus {
    let mut status = before.clone();
    let (allowed, reason, message) = match &plan.counts {
        Ok(counts) => {
            status.current_healthy = counts.current;
            status.desired_healthy = counts.desired;
            status.expected_pods = counts.expected;
            let kept = plan.disrupted.iter().map(|(name, since)| (name.clone(), Time(*since)));
            status.disrupted_pods = Some(kept.collect())
                .filter(|pods: &std::collections::BTreeMap<_, _>| !pods.is_empty());
            let enough = counts.allowed > 0;
            let reason = if enough { "SufficientPods" } else { "InsufficientPods" };
            (counts.allowed, reason, String::new())
        }
        Err(why) => (0, "SyncFailed", why.clone()),
    };
    status.disruptions_allowed = allowed;
    status.observed_generation = budget.metadata.generation;
    let wanted = Wanted {
        type_: "DisruptionAllowed".to_owned(),
        status: (allowed > 0).into(),
        reason: reason.to_owned(),
        message,
    };
    let list = status.conditions.get_or_insert_default();
    conditions::set(list, wanted, budget.metadata.generation, context.now());
    status
}
