//! The claims of a StatefulSet's pods: made before their pods, kept by default, and owned by whoever
//! takes them along where the retention policy says so.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use super::{Go, KIND, Plan, World};
use crate::Event;
use crate::replicaset::reference;

const POD: (&str, &str) = ("v1", "Pod");

/// A reference to an object of this kind and name, whichever UID it has.
fn names(known: &OwnerReference, kind: (&str, &str), meta: &ObjectMeta) -> bool {
    (&*known.api_version, &*known.kind) == kind && Some(&known.name) == meta.name.as_ref()
}

impl World<'_> {
    /// The names of the volumes of an ordinal's pod that are claims, and of those claims.
    pub(super) fn claims_of(&self, ordinal: i32) -> Vec<(String, String)> {
        let templates = self.spec.volume_claim_templates.iter().flatten();
        let volumes = templates.map(|claim| claim.metadata.name.clone().unwrap_or_default());
        volumes.map(|of| (of.clone(), format!("{of}-{}-{ordinal}", self.name))).collect()
    }

    /// What happens to claims when their pod is scaled away, and when the set is deleted.
    fn taken(&self) -> (bool, bool) {
        let policy = self.spec.persistent_volume_claim_retention_policy.as_ref();
        let scaled = policy.and_then(|policy| policy.when_scaled.as_deref());
        let deleted = policy.and_then(|policy| policy.when_deleted.as_deref());
        (scaled == Some("Delete"), deleted == Some("Delete"))
    }

    /// Plans the claims that an ordinal's pod lacks. It waits for one that still goes.
    pub(super) fn claim(&self, ordinal: i32, plan: &mut Plan) -> Go {
        let mut go = Go::On;
        let pod = format!("{}-{ordinal}", self.name);
        let templates = self.spec.volume_claim_templates.iter().flatten();
        for (template, (_, name)) in templates.zip(self.claims_of(ordinal)) {
            let Some(known) = self.observed.claims.get(&name) else {
                plan.claim.push((self.new_claim(template, name), pod.clone()));
                continue;
            };
            // It is still that of a pod that was scaled away.
            let owned = known.metadata.owner_references.iter().flatten();
            let gone = ObjectMeta { name: Some(pod.clone()), ..ObjectMeta::default() };
            let lives = self.pods.contains_key(&ordinal);
            let stale =
                !lives && self.taken().0 && owned.into_iter().any(|by| names(by, POD, &gone));
            if known.metadata.deletion_timestamp.is_some() {
                let text = format!(
                    "Create Claim {name} for Pod {pod} in StatefulSet {} failed error: pvc {name} is \
                     being deleted",
                    self.name
                );
                plan.events.push(Event::warning("FailedCreate", text));
                go = Go::Wait;
            } else if stale {
                go = Go::Wait;
            }
        }
        go
    }

    fn new_claim(&self, template: &PersistentVolumeClaim, name: String) -> PersistentVolumeClaim {
        let meta = &template.metadata;
        let mut labels = meta.labels.clone().unwrap_or_default();
        labels.extend(self.spec.selector.match_labels.clone().unwrap_or_default());
        let owner = self.taken().1.then(|| vec![reference(KIND, &self.set.metadata)]);
        PersistentVolumeClaim {
            metadata: ObjectMeta {
                name: Some(name),
                namespace: self.set.metadata.namespace.clone(),
                labels: Some(labels),
                annotations: meta.annotations.clone(),
                finalizers: meta.finalizers.clone(),
                owner_references: owner,
                ..ObjectMeta::default()
            },
            spec: template.spec.clone(),
            status: None,
        }
    }

    /// Plans that the claims of a pod have the owners that the policy asks for.
    pub(super) fn own(&self, ordinal: i32, pod: &Arc<Pod>, plan: &mut Plan) {
        for (_, name) in self.claims_of(ordinal) {
            let Some(claim) = self.observed.claims.get(&name) else { continue };
            if let Some(owners) = self.owners(ordinal, pod, claim) {
                plan.own.push((Arc::clone(claim), owners));
            }
        }
    }

    /// The owners that a claim shall have, if it has others.
    fn owners(
        &self,
        ordinal: i32,
        pod: &Pod,
        claim: &PersistentVolumeClaim,
    ) -> Option<Vec<OwnerReference>> {
        let known = claim.metadata.owner_references.clone().unwrap_or_default();
        let (set, pod) = (&self.set.metadata, &pod.metadata);
        let ours = |by: &OwnerReference| names(by, KIND, set) || names(by, POD, pod);
        let live = |by: &OwnerReference| [&set.uid, &pod.uid].contains(&&Some(by.uid.clone()));
        if known.iter().any(|by| ours(by) && !live(by)) {
            // The claim of one that is gone is the garbage collector's.
            return None;
        }
        let mut wanted: Vec<_> = known.iter().filter(|by| !ours(by)).cloned().collect();
        let (scaled, deleted) = self.taken();
        let foreign = wanted.iter().any(|by| by.controller == Some(true));
        if !foreign && (scaled || deleted) {
            let stays = self.in_range(ordinal);
            if deleted && (stays || !scaled) {
                wanted.push(reference(KIND, set));
            }
            if scaled && !stays {
                wanted.push(reference(POD, pod));
            }
        }
        let same = wanted.len() == known.len()
            && wanted.iter().all(|by| {
                known.iter().any(|own| own.uid == by.uid && own.controller == by.controller)
            });
        (!same).then_some(wanted)
    }
}
