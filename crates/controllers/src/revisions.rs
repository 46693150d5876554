//! What all do that keep revisions of their template: claim them, make them, let them go.

use k8s_openapi::api::apps::v1::ControllerRevision;
use kit::controller::{Cache, Context, Delete, Error, Wiring};
use plan::claim::{Claim, claim};
use plan::history::Changes;
use plan::replicaset::reference;
use serde_json::json;

use crate::claim::{adopt, fenced, release};
use crate::pods::{Keeper, may_adopt};

/// What is needed beside the watch.
pub(crate) fn rights<K: kit::controller::Key>(wiring: &mut Wiring<K>) {
    wiring.may(&["create", "patch", "delete"], "apps", &["controllerrevisions"]);
}

/// An owner's revisions, after adopting and releasing.
pub(crate) async fn claimed<K: Keeper>(
    cx: &Context,
    cache: &Cache<ControllerRevision>,
    owner: &K,
) -> Result<Vec<ControllerRevision>, Error> {
    let (meta, selector) = (owner.meta(), owner.selector());
    let mut revisions = Vec::new();
    for revision in cache.in_namespace(meta.namespace.as_deref().unwrap_or_default()) {
        match claim(meta, &selector, &revision.metadata) {
            Claim::Foreign => {}
            Claim::Ours => revisions.push((*revision).clone()),
            Claim::Release => {
                let uid = meta.uid.as_deref();
                release::<ControllerRevision>(cx, &revision.metadata, uid).await?;
            }
            Claim::Adopt => {
                may_adopt::<K>(cx, meta).await?;
                let owner = reference(K::KIND, meta);
                revisions.push(adopt(cx, &revision.metadata, owner).await?);
            }
        }
    }
    Ok(revisions)
}

/// Carries out what a plan says of revisions.
pub(crate) async fn apply(cx: &Context, changes: Changes) -> Result<(), Error> {
    if let Some(revision) = &changes.create {
        cx.create::<ControllerRevision>(revision).await?;
    }
    if let Some((revision, number)) = &changes.renumber {
        let patch = fenced(&revision.metadata, json!({}), json!({"revision": number}));
        cx.patch::<ControllerRevision>(&revision.metadata, None, &patch).await?;
    }
    for revision in &changes.delete {
        let how = Delete {
            uid: revision.metadata.uid.clone(),
            resource_version: revision.metadata.resource_version.clone(),
            ..Delete::default()
        };
        cx.delete::<ControllerRevision>(&(), &revision.metadata, how).await?;
    }
    Ok(())
}
