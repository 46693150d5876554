//! What a pod of a StatefulSet is made of: its name, its place in the network, its claims.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{PersistentVolumeClaimVolumeSource, Pod, PodTemplateSpec, Volume};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::{INDEX_LABEL, KIND, NAME_LABEL, REVISION_LABEL, World};
use crate::replicaset::reference;

/// The labels by which a pod is known.
pub(super) fn identity(set: &str, ordinal: i32) -> BTreeMap<String, String> {
    let name = (NAME_LABEL.to_owned(), format!("{set}-{ordinal}"));
    [name, (INDEX_LABEL.to_owned(), ordinal.to_string())].into()
}

impl World<'_> {
    /// The pod of an ordinal; of the earlier template, if the update is not to reach it.
    pub(super) fn birth(&self, ordinal: i32) -> Pod {
        let strategy = self.spec.update_strategy.as_ref();
        let kept = match strategy.and_then(|strategy| strategy.rolling_update.as_ref()) {
            Some(_) => self.partition(),
            None if self.rolls() => {
                let status = self.set.status.as_ref();
                status.and_then(|status| status.current_replicas).unwrap_or(0)
            }
            None => 0,
        };
        let early = ordinal < self.start.saturating_add(kept);
        let (revision, template) = if early { &self.current } else { &self.update };
        let PodTemplateSpec { metadata, spec } = template.clone();
        let template = metadata.unwrap_or_default();
        let name = format!("{}-{ordinal}", self.name);
        let mut labels = template.labels.unwrap_or_default();
        labels.extend(identity(self.name, ordinal));
        labels.insert(REVISION_LABEL.to_owned(), (*revision).to_owned());
        let mut spec = spec.unwrap_or_default();
        spec.hostname = Some(name.clone());
        spec.subdomain = self.spec.service_name.clone().filter(|service| !service.is_empty());
        let claims = self.claims_of(ordinal);
        if !claims.is_empty() {
            let others = spec.volumes.take().unwrap_or_default();
            let others =
                others.into_iter().filter(|volume| claims.iter().all(|(of, _)| *of != volume.name));
            let own = claims.iter().map(|(of, claim)| Volume {
                name: of.clone(),
                persistent_volume_claim: Some(PersistentVolumeClaimVolumeSource {
                    claim_name: claim.clone(),
                    read_only: None,
                }),
                ..Volume::default()
            });
            spec.volumes = Some(own.chain(others).collect());
        }
        Pod {
            metadata: ObjectMeta {
                name: Some(name),
                namespace: self.set.metadata.namespace.clone(),
                labels: Some(labels),
                annotations: template.annotations,
                finalizers: template.finalizers,
                owner_references: Some(vec![reference(KIND, &self.set.metadata)]),
                ..ObjectMeta::default()
            },
            spec: Some(spec),
            status: None,
        }
    }
}
