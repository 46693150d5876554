//! What the collector does: follow kinds, and treat objects.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kit::controller::{AnyMeta, Change, Context, Delete, Error, Mood, Note, Watch};
use kube::Resource;
use kube::api::{ApiResource, PropagationPolicy};
use plan::gc::{Action, Item, Kind, Place, Propagation};
use serde_json::{Value, json};

use super::{Followed, GarbageCollector, Key};
use crate::kinds::Served;

impl GarbageCollector {
    /// Follows exactly these kinds; forgets the objects of the others.
    pub(super) fn follow(&self, kinds: Vec<Served>) {
        let mut wanted: BTreeMap<Kind, Served> = BTreeMap::new();
        for served in kinds {
            let kind = Kind::new(served.resource.group.clone(), served.resource.kind.clone());
            wanted.insert(kind, served);
        }
        let known: Vec<(Kind, Served)> =
            self.kinds().iter().map(|(kind, f)| (kind.clone(), f.served.clone())).collect();
        for (kind, served) in known {
            if wanted.get(&kind) == Some(&served) {
                wanted.remove(&kind);
                continue;
            }
            self.kinds().remove(&kind);
            self.opener.close(&Watch::<AnyMeta>::metadata_of(served.resource));
            let gone = self.graph().of_kind(&kind);
            for uid in gone {
                let again = self.graph().remove(&uid);
                again.into_iter().for_each(|uid| self.adder.add(Key::Object(uid)));
            }
        }
        for (kind, served) in wanted {
            let watch = Watch::<AnyMeta>::metadata_of(served.resource.clone());
            let cache = self.opener.open(&watch);
            let (graph, adder, of) = (Arc::clone(&self.graph), self.adder.clone(), kind.clone());
            cache.on_change(move |change: &Change<AnyMeta>| {
                let mut graph = graph.lock().unwrap_or_else(PoisonError::into_inner);
                let mut again = std::collections::BTreeSet::new();
                let uid = |object: &Arc<AnyMeta>| object.metadata.uid.clone();
                let (old, new) = (change.old.as_ref().and_then(uid), change.new.as_ref());
                // One of the same name may have taken its place.
                if let Some(old) = old.filter(|old| new.and_then(uid).as_ref() != Some(old)) {
                    again.extend(graph.remove(&old));
                }
                if let Some(new) = new {
                    again.extend(graph.put(item(&of, &new.metadata)));
                }
                drop(graph);
                again.into_iter().for_each(|uid| adder.add(Key::Object(uid)));
            });
            self.kinds().insert(kind.clone(), Followed { served, cache });
            let again = self.graph().owned_by_kind(&kind);
            again.into_iter().for_each(|uid| self.adder.add(Key::Object(uid)));
        }
    }

    pub(super) async fn treat(
        &self,
        context: &Context,
        key: &Key,
        plan: plan::gc::Plan,
    ) -> Result<(), Error> {
        let Key::Object(uid) = key else { return Ok(()) };
        let item = self.graph().get(uid).cloned();
        for reference in plan.misplaced {
            let Some((item, resource)) = item.as_ref().and_then(|item| self.with_resource(item))
            else {
                continue;
            };
            let identity = format!(
                "[{}/{}, namespace: {}, name: {}, uid: {}]",
                reference.api_version,
                reference.kind,
                item.place.namespace,
                reference.name,
                reference.uid
            );
            let note = Note {
                mood: Mood::Warning,
                reason: "OwnerRefInvalidNamespace".to_owned(),
                action: "Collect".to_owned(),
                text: format!(
                    "ownerRef {identity} does not exist in namespace \"{}\"",
                    item.place.namespace
                ),
            };
            context.record::<AnyMeta>(&resource, &metadata(item), note).await;
        }
        for action in plan.actions {
            self.act(context, action).await?;
        }
        Ok(())
    }

    async fn act(&self, context: &Context, action: Action) -> Result<(), Error> {
        let target = match &action {
            Action::Delete(item, _) | Action::KeepOwners(item, _) | Action::Finish(item, _) => item,
        };
        // A kind that is no longer served takes its objects with it.
        let Some((item, resource)) = self.with_resource(target) else { return Ok(()) };
        let patch = |field: &str, value: Value| {
            let mut metadata = json!({"uid": item.uid, "resourceVersion": item.resource_version});
            metadata[field] = value;
            json!({"metadata": metadata})
        };
        match &action {
            Action::Delete(_, propagation) => {
                let how = Delete {
                    uid: Some(item.uid.clone()),
                    resource_version: Some(item.resource_version.clone()),
                    propagation: Some(match propagation {
                        Propagation::Background => PropagationPolicy::Background,
                        Propagation::Foreground => PropagationPolicy::Foreground,
                        Propagation::Orphan => PropagationPolicy::Orphan,
                    }),
                    grace_seconds: None,
                };
                context.delete::<AnyMeta>(&resource, &metadata(item), how).await.map(drop)
            }
            Action::KeepOwners(_, owners) => {
                let owners =
                    serde_json::to_value(owners).map_err(|e| Error::bug("write JSON", e))?;
                merge(context, &resource, item, &patch("ownerReferences", owners)).await
            }
            Action::Finish(_, finalizer) => {
                let rest: Vec<&String> =
                    item.finalizers.iter().filter(|known| known != finalizer).collect();
                merge(context, &resource, item, &patch("finalizers", json!(rest))).await
            }
        }
    }

    fn with_resource<'a>(&self, item: &'a Item) -> Option<(&'a Item, ApiResource)> {
        Some((item, self.kinds().get(&item.kind)?.served.resource.clone()))
    }
}

async fn merge(
    context: &Context,
    resource: &ApiResource,
    item: &Item,
    patch: &Value,
) -> Result<(), Error> {
    let what = || format!("patch {} {:?}", resource.kind, item.place.name);
    let namespace = Some(item.place.namespace.as_str()).filter(|namespace| !namespace.is_empty());
    let params = kube::api::PatchParams {
        field_manager: Some(context.manager().to_owned()),
        ..kube::api::PatchParams::default()
    };
    let request = kube::core::Request::new(AnyMeta::url_path(resource, namespace))
        .patch_metadata(&item.place.name, &params, &kube::api::Patch::Merge(patch))
        .map_err(|error| Error::during(what(), kube::Error::BuildRequest(error)))?;
    match context.client().request::<Value>(request).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        Err(error) => Err(Error::during(what(), error)),
    }
}

fn item(kind: &Kind, metadata: &ObjectMeta) -> Item {
    Item {
        kind: kind.clone(),
        place: Place {
            namespace: metadata.namespace.clone().unwrap_or_default(),
            name: metadata.name.clone().unwrap_or_default(),
        },
        uid: metadata.uid.clone().unwrap_or_default(),
        resource_version: metadata.resource_version.clone().unwrap_or_default(),
        owners: metadata.owner_references.clone().unwrap_or_default(),
        finalizers: metadata.finalizers.clone().unwrap_or_default(),
        deleting: metadata.deletion_timestamp.is_some(),
    }
}

fn metadata(item: &Item) -> ObjectMeta {
    ObjectMeta {
        name: Some(item.place.name.clone()),
        namespace: Some(item.place.namespace.clone()).filter(|namespace| !namespace.is_empty()),
        uid: Some(item.uid.clone()),
        ..ObjectMeta::default()
    }
}
