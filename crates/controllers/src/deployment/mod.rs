//! Deployments: one ReplicaSet for each template of pods, and a safe way from one to the next.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kit::controller::{
    Cache, Context, Controller, Delete, Error, Mood, Note, ObjectKey, Wake, Watch, Wiring,
    controller_of,
};
use kube::api::Patch;
use plan::claim::{Claim, claim, controller, selects};
use plan::deployment::{Change, KIND, Observed, current, set_name};
use plan::replicaset::reference;
use serde_json::json;

use crate::claim::{adopt, fenced, release};

const REVISION: &str = "deployment.kubernetes.io/revision";

/// See the module.
pub struct Deployments {
    deployments: Cache<Deployment>,
    sets: Cache<ReplicaSet>,
    pods: Cache<Pod>,
}

/// What shall be done about a Deployment.
pub struct Plan {
    deployment: Box<Deployment>,
    todo: plan::deployment::Plan,
}

impl Controller for Deployments {
    type Key = ObjectKey;
    type Settings = ();
    type Observed = Observed;
    type Plan = Plan;
    const NAME: &'static str = "deployment";

    fn wire((): (), wiring: &mut Wiring<ObjectKey>) -> Self {
        wiring
            .about("Rolls Deployments out by way of their ReplicaSets")
            .may(&["get", "patch"], "apps", &["deployments"])
            .may(&["patch"], "apps", &["deployments/status"])
            .may(&["update"], "apps", &["deployments/finalizers"])
            .may(&["create", "patch", "delete"], "apps", &["replicasets"])
            .records_events();
        let deployments = wiring.own(Watch::<Deployment>::all());
        let all = deployments.clone();
        let sets = wiring.watch(Watch::<ReplicaSet>::all(), move |set: &ReplicaSet| {
            if controller(&set.metadata).is_some() {
                return controller_of::<Deployment, _>(set).into_iter().collect::<Vec<_>>();
            }
            let namespace = set.metadata.namespace.as_deref().unwrap_or_default();
            let owners = all.in_namespace(namespace).into_iter().filter(|deployment| {
                let spec = deployment.spec.as_ref();
                spec.is_some_and(|spec| selects(&spec.selector, set.metadata.labels.as_ref()))
            });
            owners.map(|deployment| ObjectKey::of(&deployment.metadata)).collect()
        });
        // Recreate waits for the last pod of a set; a pod's own changes are the set's to see.
        let known = sets.clone();
        let ended =
            |old: &Pod, new: &Pod| plan::pod::is_finished(old) != plan::pod::is_finished(new);
        let pods = wiring.watch(Watch::<Pod>::all().when(ended), move |pod: &Pod| {
            let set = controller_of::<ReplicaSet, _>(pod).and_then(|key| known.get(&key));
            set.and_then(|set| controller_of::<Deployment, _>(&*set))
        });
        Self { deployments, sets, pods }
    }

    async fn observe(&self, cx: &Context, key: &ObjectKey) -> Result<Option<Observed>, Error> {
        let Some(deployment) = self.deployments.get(key) else { return Ok(None) };
        let sets = self.claimed(cx, &deployment).await?;
        let owner = |pod: &Arc<Pod>| controller(&pod.metadata).map(|by| by.uid.clone());
        let pods = self.pods.in_namespace(&key.namespace).into_iter();
        let running: BTreeSet<_> =
            pods.filter(|pod| !plan::pod::is_finished(pod)).filter_map(|pod| owner(&pod)).collect();
        let collides = current(&deployment, &sets.iter().collect::<Vec<_>>()).is_none()
            && self.sets.get(&ObjectKey::new(&key.namespace, set_name(&deployment))).is_some();
        let deployment = Arc::unwrap_or_clone(deployment);
        Ok(Some(Observed { deployment, sets, running, collides, now: cx.now() }))
    }

    fn plan(observed: &Observed) -> Plan {
        Plan {
            deployment: Box::new(observed.deployment.clone()),
            todo: plan::deployment::plan(observed),
        }
    }

    async fn apply(&self, cx: &Context, _: &ObjectKey, plan: Plan) -> Result<Wake, Error> {
        let Plan { deployment, todo } = plan;
        if let Some(set) = &todo.create {
            let made = cx.create::<ReplicaSet>(set).await;
            let made = match made {
                Ok(made) => made,
                Err(error) => {
                    not_made(cx, &deployment, set, &error).await;
                    return Err(error);
                }
            };
            scaled(cx, &deployment, &made, 0, made.spec.as_ref().and_then(|s| s.replicas)).await;
        }
        for change in &todo.change {
            self.change(cx, &deployment, change).await?;
        }
        for set in &todo.delete {
            let how = Delete {
                uid: set.metadata.uid.clone(),
                resource_version: set.metadata.resource_version.clone(),
                ..Delete::default()
            };
            cx.delete::<ReplicaSet>(&(), &set.metadata, how).await?;
        }
        if let Some(revision) = &todo.revision {
            let patch = Patch::Merge(json!({
                "metadata": {
                    "uid": deployment.metadata.uid,
                    "annotations": {REVISION: revision},
                },
            }));
            cx.patch::<Deployment>(&deployment.metadata, None, &patch).await?;
        }
        match cx.apply_status(&*deployment, &todo.status).await {
            // It was deleted meanwhile.
            Err(error) if error.is_not_found() => Ok(Wake::Never),
            other => other.map(|()| Wake::earliest(todo.wake)),
        }
    }
}

impl Deployments {
    /// The Deployment's own sets, after adopting and releasing.
    async fn claimed(
        &self,
        cx: &Context,
        deployment: &Deployment,
    ) -> Result<Vec<ReplicaSet>, Error> {
        let meta = &deployment.metadata;
        let selector = deployment.spec.as_ref().map(|spec| spec.selector.clone());
        let selector = selector.unwrap_or_default();
        let mut sets = Vec::new();
        for set in self.sets.in_namespace(meta.namespace.as_deref().unwrap_or_default()) {
            match claim(meta, &selector, &set.metadata) {
                Claim::Foreign => {}
                Claim::Ours => sets.push(Arc::unwrap_or_clone(set)),
                Claim::Release => {
                    release::<ReplicaSet>(cx, &set.metadata, meta.uid.as_deref()).await?;
                }
                Claim::Adopt => {
                    // What the cache has not seen deleted must not adopt.
                    let now = cx.get::<Deployment>(&(), meta).await?.map(|now| now.metadata);
                    if !now.is_some_and(|now| is_same(&now, meta)) {
                        return Err(Error::not_ready("the Deployment is gone or ends"));
                    }
                    sets.push(adopt(cx, &set.metadata, reference(KIND, meta)).await?);
                }
            }
        }
        Ok(sets)
    }

    async fn change(
        &self,
        cx: &Context,
        deployment: &Deployment,
        change: &Change,
    ) -> Result<(), Error> {
        let Change { set, replicas, min_ready, annotations } = change;
        let spec = json!({"replicas": replicas, "minReadySeconds": min_ready});
        let patch =
            fenced(&set.metadata, json!({"annotations": annotations}), json!({"spec": spec}));
        let before = set.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
        let changed = cx.patch::<ReplicaSet>(&set.metadata, None, &patch).await?;
        scaled(cx, deployment, &changed, before, Some(*replicas)).await;
        Ok(())
    }
}

fn is_same(now: &ObjectMeta, meta: &ObjectMeta) -> bool {
    now.uid == meta.uid && now.deletion_timestamp.is_none()
}

/// Says that a set was resized, if it was.
async fn scaled(
    cx: &Context,
    deployment: &Deployment,
    set: &ReplicaSet,
    from: i32,
    to: Option<i32>,
) {
    let to = to.unwrap_or(1);
    if from == to {
        return;
    }
    let name = set.metadata.name.as_deref().unwrap_or_default();
    let way = if to > from { "up" } else { "down" };
    let note = Note {
        mood: Mood::Normal,
        reason: "ScalingReplicaSet".to_owned(),
        action: "Scale".to_owned(),
        text: format!("Scaled {way} replica set {name} from {from} to {to}"),
    };
    cx.record::<Deployment>(&(), &deployment.metadata, note).await;
}

/// Says that the set of a new template cannot be made.
async fn not_made(cx: &Context, deployment: &Deployment, set: &ReplicaSet, error: &Error) {
    let name = set.metadata.name.as_deref().unwrap_or_default();
    let chain = kit::error::chain(error).to_string();
    let note = Note {
        mood: Mood::Warning,
        reason: "ReplicaSetCreateError".to_owned(),
        action: "Create".to_owned(),
        text: format!("Failed to create new replica set {name:?}: {chain}"),
    };
    cx.record::<Deployment>(&(), &deployment.metadata, note).await;
}
