//! StatefulSets: pods with names and claims that stay, made, updated and deleted in order.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::{ControllerRevision, StatefulSet};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use kit::controller::{
    Cache, Context, Controller, Error, Mood, Note, ObjectKey, Wake, Watch, Wiring,
};
use kube::api::Patch;
use plan::statefulset::{KIND, Observed, claim_prefixes, has_revision, parse, revision_name};
use serde_json::json;

use crate::claim::fenced;
use crate::pods::{Keeper, Pods, keepers, tell};
use crate::revisions;

/// See the module.
pub struct StatefulSets {
    sets: Cache<StatefulSet>,
    pods: Pods,
    claims: Cache<PersistentVolumeClaim>,
    revisions: Cache<ControllerRevision>,
}

/// A StatefulSet, and what shall be done about it.
pub struct Plan {
    set: Box<StatefulSet>,
    todo: plan::statefulset::Plan,
}

impl Keeper for StatefulSet {
    const KIND: (&'static str, &'static str) = KIND;

    fn selector(&self) -> LabelSelector {
        self.spec.as_ref().map(|spec| spec.selector.clone()).unwrap_or_default()
    }

    /// Only pods with names of ours are ours, whatever labels others have.
    fn may_keep(&self, pod: &Pod) -> bool {
        let parsed = pod.metadata.name.as_deref().and_then(parse);
        parsed.map(|(set, _)| set) == self.metadata.name.as_deref()
    }

    fn told(&self, action: &str, pod: &ObjectMeta, error: Option<&str>) -> String {
        let pod = pod.name.as_deref().unwrap_or_default();
        let set = self.metadata.name.as_deref().unwrap_or_default();
        match error {
            None => format!("{action} Pod {pod} in StatefulSet {set} successful"),
            Some(error) => format!("{action} Pod {pod} in StatefulSet {set} failed error: {error}"),
        }
    }
}

impl Controller for StatefulSets {
    type Key = ObjectKey;
    type Settings = ();
    type Observed = Observed;
    type Plan = Plan;
    const NAME: &'static str = "statefulset";

    fn wire((): (), wiring: &mut Wiring<ObjectKey>) -> Self {
        wiring
            .about("Keeps the named pods of StatefulSets, with their claims, in order")
            .may(&["create", "delete", "patch"], "", &["pods"])
            .may(&["create", "patch"], "", &["persistentvolumeclaims"])
            .may(&["update"], "", &["pods/finalizers"])
            .may(&["get"], "apps", &["statefulsets"])
            .may(&["patch"], "apps", &["statefulsets/status"])
            .may(&["update"], "apps", &["statefulsets/finalizers"])
            .records_events();
        revisions::rights(wiring);
        let sets = wiring.own(Watch::<StatefulSet>::all());
        let all = sets.clone();
        let pods = wiring.watch(Watch::<Pod>::all(), move |pod: &Pod| keepers(&all, &pod.metadata));
        let all = sets.clone();
        let revisions = wiring.watch(Watch::<ControllerRevision>::all(), move |revision| {
            keepers::<StatefulSet>(&all, &revision.metadata)
        });
        let all = sets.clone();
        let claims = wiring.watch(
            Watch::<PersistentVolumeClaim>::all().when_metadata(),
            move |claim: &PersistentVolumeClaim| {
                let name = claim.metadata.name.as_deref().unwrap_or_default();
                let mut sets =
                    all.in_namespace(claim.metadata.namespace.as_deref().unwrap_or_default());
                sets.retain(|set| claim_prefixes(set).any(|prefix| name.starts_with(&prefix)));
                sets.iter().map(|set| ObjectKey::of(&set.metadata)).collect::<Vec<_>>()
            },
        );
        Self { sets, pods: Pods::new(pods), claims, revisions }
    }

    async fn observe(&self, cx: &Context, key: &ObjectKey) -> Result<Option<Observed>, Error> {
        let Some(set) = self.sets.get(key) else { return Ok(None) };
        let revisions = revisions::claimed(cx, &self.revisions, &*set).await?;
        let pods = self.pods.claimed(cx, &*set, true).await?;
        let taken = || self.revisions.get(&ObjectKey::new(&key.namespace, revision_name(&set)));
        let collides = !has_revision(&set, &revisions) && taken().is_some();
        let prefixes: Vec<String> = claim_prefixes(&set).collect();
        let mut claims = BTreeMap::new();
        if !prefixes.is_empty() {
            for claim in self.claims.in_namespace(&key.namespace) {
                let name = claim.metadata.name.clone().unwrap_or_default();
                if prefixes.iter().any(|prefix| name.starts_with(prefix)) {
                    claims.insert(name, claim);
                }
            }
        }
        let set = (*set).clone();
        Ok(Some(Observed { set, pods, claims, revisions, collides, now: cx.now() }))
    }

    fn plan(observed: &Observed) -> Plan {
        Plan { set: Box::new(observed.set.clone()), todo: plan::statefulset::plan(observed) }
    }

    async fn apply(&self, cx: &Context, _: &ObjectKey, plan: Plan) -> Result<Wake, Error> {
        let Plan { set, todo } = plan;
        revisions::apply(cx, todo.revisions).await?;
        for event in todo.events {
            tell(cx, &*set, "Create", event).await;
        }
        for (claim, pod) in &todo.claim {
            make_claim(cx, &set, claim, pod).await?;
        }
        for (claim, owners) in &todo.own {
            let owners = json!({"ownerReferences": owners});
            let patch = fenced(&claim.metadata, owners, json!({}));
            cx.patch::<PersistentVolumeClaim>(&claim.metadata, None, &patch).await?;
        }
        for (pod, labels) in &todo.label {
            let patch = Patch::Merge(json!({
                "metadata": {"uid": pod.metadata.uid, "labels": labels},
            }));
            cx.patch::<Pod>(&pod.metadata, None, &patch).await?;
        }
        let pods: Vec<&Pod> = todo.create.iter().collect();
        let (_, made) = self.pods.create(cx, &*set, &pods).await;
        let deleted = self.pods.delete(cx, &*set, &todo.delete).await;
        match cx.apply_status(&*set, &todo.status).await {
            // It was deleted meanwhile.
            Err(error) if error.is_not_found() => return Ok(Wake::Never),
            other => other?,
        }
        made.and(deleted)?;
        Ok(Wake::earliest(todo.wake))
    }
}

async fn make_claim(
    cx: &Context,
    set: &StatefulSet,
    claim: &PersistentVolumeClaim,
    pod: &str,
) -> Result<(), Error> {
    let made = cx.create::<PersistentVolumeClaim>(claim).await;
    let name = claim.metadata.name.as_deref().unwrap_or_default();
    let of = set.metadata.name.as_deref().unwrap_or_default();
    let (mood, reason, text) = match &made {
        Ok(_) => {
            let text = format!("Create Claim {name} Pod {pod} in StatefulSet {of} success");
            (Mood::Normal, "SuccessfulCreate", text)
        }
        Err(error) => {
            let error = kit::error::chain(error);
            let text = format!(
                "Create Claim {name} for Pod {pod} in StatefulSet {of} failed error: {error}"
            );
            (Mood::Warning, "FailedCreate", text)
        }
    };
    let note = Note { mood, reason: reason.to_owned(), action: "Create".to_owned(), text };
    cx.record::<StatefulSet>(&(), &set.metadata, note).await;
    made.map(drop)
}
