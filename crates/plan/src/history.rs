//! Revisions of a template of pods, kept as ControllerRevisions for `kubectl rollout undo`.
//!
//! A revision is found by the template that it holds and never by its name, so that revisions which
//! kube-controller-manager made are known; the hash in the names of new ones is our own, since nobody
//! computes it.

use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::apimachinery::pkg::runtime::RawExtension;
use serde_json::{Value, json};

use crate::deployment::hash;
use crate::replicaset::reference;

/// What has a history.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Owner<'a> {
    /// Its version and kind.
    pub(crate) kind: (&'static str, &'static str),
    pub(crate) meta: &'a ObjectMeta,
    pub(crate) template: &'a PodTemplateSpec,
    /// How often a name was taken.
    pub(crate) collisions: Option<i32>,
    /// The label of a revision that holds its hash.
    pub(crate) label: &'static str,
}

/// What shall become of revisions, in this order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Changes {
    /// To be made.
    pub create: Option<Box<ControllerRevision>>,
    /// To have another number, since it is the newest again.
    pub renumber: Option<(ControllerRevision, i64)>,
    /// No longer needed.
    pub delete: Vec<ControllerRevision>,
}

/// The template that a revision holds.
pub(crate) fn template(revision: &ControllerRevision) -> Option<PodTemplateSpec> {
    let data = revision.data.as_ref()?.0.get("spec")?.get("template")?;
    serde_json::from_value(data.clone()).ok()
}

/// The newest revision that holds a template.
pub(crate) fn find<'a>(
    revisions: &'a [ControllerRevision],
    wanted: &PodTemplateSpec,
) -> Option<&'a ControllerRevision> {
    let holds = |revision: &&ControllerRevision| {
        revision.metadata.deletion_timestamp.is_none()
            && template(revision).as_ref() == Some(wanted)
    };
    revisions.iter().filter(holds).max_by_key(|revision| revision.revision)
}

impl Owner<'_> {
    /// The name of the revision of the template.
    pub(crate) fn name(&self) -> String {
        let name = self.meta.name.as_deref().unwrap_or_default();
        format!("{name}-{}", hash(self.template, self.collisions))
    }

    /// Makes the template's revision the newest.
    pub(crate) fn changes(&self, revisions: &[ControllerRevision]) -> Changes {
        let known = find(revisions, self.template);
        let others = revisions.iter().filter(|other| known.is_none_or(|known| *other != known));
        let next = others.map(|other| other.revision).max().unwrap_or(0).saturating_add(1);
        match known {
            None => Changes { create: Some(Box::new(self.birth(next))), ..Changes::default() },
            Some(known) if known.revision < next => {
                Changes { renumber: Some((known.clone(), next)), ..Changes::default() }
            }
            Some(_) => Changes::default(),
        }
    }

    fn birth(&self, revision: i64) -> ControllerRevision {
        let mut template = serde_json::to_value(self.template).unwrap_or_default();
        if let Some(fields) = template.as_object_mut() {
            // Whoever undoes applies it as a patch.
            fields.insert("$patch".to_owned(), Value::from("replace"));
        }
        let labels = self.template.metadata.as_ref().and_then(|meta| meta.labels.clone());
        let mut labels = labels.unwrap_or_default();
        labels.insert(self.label.to_owned(), hash(self.template, self.collisions));
        ControllerRevision {
            metadata: ObjectMeta {
                name: Some(self.name()),
                namespace: self.meta.namespace.clone(),
                labels: Some(labels),
                annotations: self.meta.annotations.clone(),
                owner_references: Some(vec![reference(self.kind, self.meta)]),
                ..ObjectMeta::default()
            },
            data: Some(RawExtension(json!({"spec": {"template": template}}))),
            revision,
        }
    }
}

/// The revisions beyond a limit, oldest first, but those that are in use.
pub(crate) fn surplus(
    revisions: &[ControllerRevision],
    limit: Option<i32>,
    in_use: impl Fn(&ControllerRevision) -> bool,
) -> Vec<ControllerRevision> {
    let limit = usize::try_from(limit.unwrap_or(10)).unwrap_or(0);
    let mut old: Vec<_> = revisions.iter().filter(|revision| !in_use(revision)).collect();
    old.retain(|revision| revision.metadata.deletion_timestamp.is_none());
    old.sort_by_key(|revision| revision.revision);
    old.truncate(old.len().saturating_sub(limit));
    old.into_iter().cloned().collect()
}
