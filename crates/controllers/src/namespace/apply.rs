//! Deleting content, saying how far it is, and letting the namespace go.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Namespace, NamespaceCondition, NamespaceStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kit::controller::{AnyMeta, Context, Delete, Error, Wake, Watch};
use kube::Resource as _;
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::core::{ObjectList, Request};
use plan::namespace::Condition;
use serde_json::Value;

use super::observe::{FINALIZER, resource};
use super::{Namespaces, Plan};
use crate::kinds::Served;

impl Namespaces {
    pub(super) async fn end(&self, context: &Context, plan: &Plan) -> Result<Wake, Error> {
        let name = plan.namespace.metadata.name.as_deref().unwrap_or_default();
        let mut conditions = plan.end.conditions.clone();
        let mut failed = None;
        for kind in plan.kinds.iter().filter(|kind| plan.end.delete.contains(&resource(kind))) {
            if let Err(error) = self.delete_all(context, kind, name).await {
                failed.get_or_insert(error);
            }
        }
        if let Some(error) = &failed {
            fail(&mut conditions, error);
        }
        self.say(context, &plan.namespace, &conditions).await?;
        if let Some(error) = failed {
            return Err(error);
        }
        if plan.end.finalize {
            self.delete_rest(context, &plan.kinds, name).await?;
            finalize(context, &plan.namespace).await?;
        }
        Ok(Wake::Never)
    }

    async fn delete_all(
        &self,
        context: &Context,
        kind: &Served,
        namespace: &str,
    ) -> Result<(), Error> {
        if kind.collection {
            return delete_collection(context, kind, namespace).await;
        }
        let cache = self.opener.open(&Watch::<AnyMeta>::metadata_of(kind.resource.clone()));
        for object in cache.in_namespace(namespace) {
            let how = Delete { uid: object.metadata.uid.clone(), ..Delete::default() };
            context.delete::<AnyMeta>(&kind.resource, &object.metadata, how).await?;
        }
        Ok(())
    }

    /// What nobody watches is deleted now, and nothing may be left of what is watched.
    async fn delete_rest(
        &self,
        context: &Context,
        kinds: &[Served],
        namespace: &str,
    ) -> Result<(), Error> {
        for kind in kinds {
            if kind.is_event() || !kind.watched {
                delete_collection(context, kind, namespace).await?;
                continue;
            }
            let what = || format!("list {}", kind.resource.plural);
            let request = Request::new(AnyMeta::url_path(&kind.resource, Some(namespace)))
                .list_metadata(&ListParams::default().limit(1))
                .map_err(|error| Error::during(what(), kube::Error::BuildRequest(error)))?;
            match context.client().request::<ObjectList<AnyMeta>>(request).await {
                Ok(list) if list.items.is_empty() => {}
                Ok(_) => {
                    return Err(Error::not_ready(format!(
                        "there are {} left",
                        kind.resource.plural
                    )));
                }
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                Err(error) => return Err(Error::during(what(), error)),
            }
        }
        Ok(())
    }

    async fn say(
        &self,
        context: &Context,
        namespace: &Arc<Namespace>,
        conditions: &[Condition],
    ) -> Result<(), Error> {
        let known = namespace.status.as_ref().and_then(|status| status.conditions.clone());
        let known = known.unwrap_or_default();
        let now = context.now();
        let now = jiff::Timestamp::from_second(now.as_second()).unwrap_or(now);
        let condition = |wanted: &Condition| {
            let status = if wanted.holds { "True" } else { "False" };
            let same = known.iter().find(|known| known.type_ == wanted.type_);
            let since = same.filter(|known| known.status == status);
            NamespaceCondition {
                type_: wanted.type_.to_owned(),
                status: status.to_owned(),
                reason: Some(wanted.reason.to_owned()),
                message: Some(wanted.message.clone()),
                last_transition_time: since
                    .map_or(Some(Time(now)), |known| known.last_transition_time.clone()),
            }
        };
        let status = NamespaceStatus {
            phase: Some("Terminating".to_owned()),
            conditions: Some(conditions.iter().map(condition).collect()),
        };
        match context.apply_status(&**namespace, &status).await {
            Err(error) if error.is_not_found() => Ok(()),
            other => other,
        }
    }
}

fn fail(conditions: &mut [Condition], error: &Error) {
    let content = "NamespaceDeletionContentFailure";
    for condition in conditions.iter_mut().filter(|condition| condition.type_ == content) {
        condition.holds = true;
        condition.reason = "ContentDeletionFailed";
        let chain = kit::error::chain(error);
        condition.message = format!("Failed to delete all resource types, 1 remaining: {chain}");
    }
}

async fn delete_collection(context: &Context, kind: &Served, namespace: &str) -> Result<(), Error> {
    let what = || format!("delete all {}", kind.resource.plural);
    let params = DeleteParams::background();
    let request = Request::new(AnyMeta::url_path(&kind.resource, Some(namespace)))
        .delete_collection(&params, &ListParams::default())
        .map_err(|error| Error::during(what(), kube::Error::BuildRequest(error)))?;
    match context.client().request::<Value>(request).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 405) => Ok(()),
        Err(error) => Err(Error::during(what(), error)),
    }
}

/// Takes the content's finalizer from the namespace; with the last one it goes.
async fn finalize(context: &Context, namespace: &Namespace) -> Result<(), Error> {
    let name = namespace.metadata.name.as_deref().unwrap_or_default();
    let mut object = namespace.clone();
    // The status was written a moment ago: the UID says which it is, the revision is older.
    object.metadata.resource_version = None;
    let finalizers = object.spec.get_or_insert_default().finalizers.get_or_insert_default();
    finalizers.retain(|finalizer| finalizer != FINALIZER);
    let what = || format!("finalize namespace {name:?}");
    let body = serde_json::to_vec(&object).map_err(|e| Error::bug("write JSON", e))?;
    let params =
        PostParams { field_manager: Some(context.manager().to_owned()), ..PostParams::default() };
    let request = Request::new(Namespace::url_path(&(), None))
        .replace_subresource("finalize", name, &params, body)
        .map_err(|error| Error::during(what(), kube::Error::BuildRequest(error)))?;
    match context.client().request::<Namespace>(request).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        Err(error) => Err(Error::during(what(), error)),
    }
}
