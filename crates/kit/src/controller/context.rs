//! What a controller acts with: its client, its clock, and the few ways in which it writes.
//!
//! Every write goes under the controller's own manager name: a server-side apply, a swap of what was
//! looked at, or a create, a delete or a patch that names the UID it is meant for. What the API answers to a write is in the
//! caches before the next reconcile.

use std::borrow::Cow;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions, PropagationPolicy};
use kube::core::Request;
use kube::{Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::cache::Watchable;
use super::error::{Class, Error};
use super::events::{Note, Recorder};
use super::metrics::Metrics;
use super::reflector::Reflectors;
use super::swap::{self, Parts};
use crate::clock::Clock;
use crate::ids::Ids;

/// See the module. Cheap to clone.
#[derive(Clone)]
pub struct Context {
    pub(super) client: Client,
    pub(super) clock: Clock,
    pub(super) ids: Ids,
    pub(super) manager: String,
    pub(super) name: &'static str,
    pub(super) metrics: Metrics,
    pub(super) reflectors: Reflectors,
    pub(super) recorder: Recorder,
}

/// What a delete insists on.
#[derive(Clone, Debug, Default)]
pub struct Delete {
    /// Only the object with this UID.
    pub uid: Option<String>,
    /// Only the object at this revision.
    pub resource_version: Option<String>,
    /// What becomes of what it owns.
    pub propagation: Option<PropagationPolicy>,
    /// How long a pod may take, in seconds.
    pub grace_seconds: Option<u32>,
}

impl Context {
    /// The time, the same for all.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// The clock.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Names and numbers.
    pub fn ids(&self) -> &Ids {
        &self.ids
    }

    /// The client, which acts as this controller.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The same, acting by another client and under another manager's name: for a process that
    /// stands for many.
    #[must_use]
    pub fn acting_by(&self, client: Client, manager: &str) -> Self {
        Self { client, manager: manager.to_owned(), ..self.clone() }
    }

    /// The field manager's name.
    pub fn manager(&self) -> &str {
        &self.manager
    }

    /// Applies all that we want of an object; what we no longer name, we give up.
    ///
    /// # Errors
    /// What the API answered. An object whose UID is named and is another's is a conflict.
    pub async fn apply<K>(&self, object: &K) -> Result<K, Error>
    where
        K: Watchable<DynamicType: Default> + Serialize,
    {
        let mut body = body_of(object)?;
        if let Some(metadata) = body.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("managedFields");
        }
        self.patch::<K>(object.meta(), None, &Patch::Apply(body)).await
    }

    /// Applies a status, unless the object has it already.
    ///
    /// # Errors
    /// What the API answered; an object that was deleted and made again since is a conflict.
    pub async fn apply_status<K, S>(&self, object: &K, status: &S) -> Result<(), Error>
    where
        K: Watchable<DynamicType: Default> + Serialize,
        S: Serialize + ?Sized,
    {
        let wanted = value_of(status)?;
        if value_of(object)?.get("status") == Some(&wanted) {
            return Ok(());
        }
        let body = json!({
            "apiVersion": K::api_version(&K::DynamicType::default()),
            "kind": K::kind(&K::DynamicType::default()),
            "metadata": {"name": object.meta().name, "uid": object.meta().uid},
            "status": wanted,
        });
        self.patch::<K>(object.meta(), Some("status"), &Patch::Apply(body)).await.map(drop)
    }

    /// Puts parts of a status in the place of those that were seen, where the object is still at the
    /// revision that was looked at. Nothing is written where they stand already.
    ///
    /// # Errors
    /// What the API answered; an object that has changed since is a conflict.
    pub async fn swap_status<K, S>(
        &self,
        seen: &K,
        status: &S,
        parts: Parts<'_>,
    ) -> Result<(), Error>
    where
        K: Watchable<DynamicType: Default> + Serialize,
        S: Serialize + ?Sized,
    {
        let Value::Object(wanted) = value_of(status)? else {
            return Err(Error::new(Class::Bug, "a status that is no map"));
        };
        let Some(patch) = swap::patch(&value_of(seen)?, wanted, parts) else { return Ok(()) };
        let patch = serde_json::from_value(patch).map_err(|e| Error::bug("write a patch", e))?;
        self.patch::<K>(seen.meta(), Some("status"), &Patch::Json(patch)).await.map(drop)
    }

    /// Patches an object or one of its subresources.
    ///
    /// # Errors
    /// What the API answered.
    pub async fn patch<K>(
        &self,
        object: &ObjectMeta,
        subresource: Option<&str>,
        patch: &Patch<Value>,
    ) -> Result<K, Error>
    where
        K: Watchable<DynamicType: Default>,
    {
        let name = object.name.as_deref().unwrap_or_default();
        let params = match patch {
            Patch::Apply(_) => PatchParams::apply(&self.manager).force(),
            _ => PatchParams { field_manager: Some(self.manager.clone()), ..Default::default() },
        };
        let request = self.request::<K>(&K::DynamicType::default(), object);
        let request = match subresource {
            None => request.patch(name, &params, patch),
            Some(subresource) => request.patch_subresource(subresource, name, &params, patch),
        };
        let what = format!("patch {} {name:?}", K::kind(&K::DynamicType::default()));
        self.send(request, &what).await
    }

    /// Creates an object.
    ///
    /// # Errors
    /// What the API answered; [`Error::already_exists`] if the name is taken.
    pub async fn create<K>(&self, object: &K) -> Result<K, Error>
    where
        K: Watchable<DynamicType: Default> + Serialize,
    {
        let body =
            serde_json::to_vec(&body_of(object)?).map_err(|e| Error::bug("write JSON", e))?;
        let params =
            PostParams { field_manager: Some(self.manager.clone()), ..PostParams::default() };
        let kind = K::DynamicType::default();
        let request = self.request::<K>(&kind, object.meta()).create(&params, body);
        let what = format!(
            "create {} {:?}",
            K::kind(&kind),
            object.meta().name.as_deref().unwrap_or_default()
        );
        self.send(request, &what).await
    }

    /// Deletes an object of a kind. One that is gone is no error; says whether it was there.
    ///
    /// # Errors
    /// What the API answered; a precondition that does not hold is a conflict.
    pub async fn delete<K>(
        &self,
        kind: &K::DynamicType,
        object: &ObjectMeta,
        how: Delete,
    ) -> Result<bool, Error>
    where
        K: Resource,
    {
        let preconditions = (how.uid.is_some() || how.resource_version.is_some())
            .then_some(Preconditions { uid: how.uid, resource_version: how.resource_version });
        let params = DeleteParams {
            propagation_policy: how.propagation,
            grace_period_seconds: how.grace_seconds,
            preconditions,
            ..DeleteParams::default()
        };
        let name = object.name.as_deref().unwrap_or_default();
        let request = self.request::<K>(kind, object).delete(name, &params);
        let what = || format!("delete {} {name:?}", K::kind(kind));
        let request = request.map_err(|e| Error::during(what(), kube::Error::BuildRequest(e)))?;
        match self.client.request_text(request).await {
            Ok(_) => Ok(true),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(false),
            Err(error) => Err(Error::during(what(), error)),
        }
    }

    /// Reads an object from the API itself, for the few decisions that a cache is too old for.
    ///
    /// # Errors
    /// What the API answered, but that there is no such object.
    pub async fn get<K>(
        &self,
        kind: &K::DynamicType,
        object: &ObjectMeta,
    ) -> Result<Option<K>, Error>
    where
        K: Resource + DeserializeOwned,
    {
        let name = object.name.as_deref().unwrap_or_default();
        let what = || format!("get {} {name:?}", K::kind(kind));
        let request = self
            .request::<K>(kind, object)
            .get(name, &kube::api::GetParams::default())
            .map_err(|e| Error::during(what(), kube::Error::BuildRequest(e)))?;
        match self.client.request::<K>(request).await {
            Ok(found) => Ok(Some(found)),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
            Err(error) => Err(Error::during(what(), error)),
        }
    }

    /// Shows as a metric how many of something are in a state: `incidents`, `Draining`.
    pub fn count(&self, what: &'static str, state: &'static str, number: usize) {
        self.metrics.counted(self.name, what, state, number);
    }

    /// Records an Event. Events are a courtesy: one that cannot be written is logged and forgotten.
    pub async fn record<K: Resource>(
        &self,
        kind: &K::DynamicType,
        object: &ObjectMeta,
        note: Note,
    ) {
        let about = reference::<K>(kind, object);
        self.recorder.record(&self.client, about, note, self.now()).await;
    }

    /// Records an Event that must be there before something is done outside the API.
    ///
    /// # Errors
    /// What the API answered: then it must not be done.
    pub async fn tell<K: Resource>(
        &self,
        kind: &K::DynamicType,
        object: &ObjectMeta,
        note: Note,
    ) -> Result<(), Error> {
        let about = reference::<K>(kind, object);
        let told = self.recorder.write(&self.client, &about, &note, self.now()).await;
        told.map_err(|error| Error::during("record an event", error))?;
        self.metrics.told(self.name);
        Ok(())
    }

    /// Counts something that is done outside the API, just before it is done.
    pub fn count_effect(&self) {
        self.metrics.effect(self.name);
    }

    fn request<K: Resource>(&self, kind: &K::DynamicType, object: &ObjectMeta) -> Request {
        Request::new(K::url_path(kind, object.namespace.as_deref()))
    }

    async fn send<K: Watchable>(
        &self,
        request: Result<http::Request<Vec<u8>>, kube::core::request::Error>,
        what: &str,
    ) -> Result<K, Error> {
        let request = request.map_err(|e| Error::during(what, kube::Error::BuildRequest(e)))?;
        let answer = self.client.request::<K>(request).await;
        let answer = answer.map_err(|e| Error::during(what, e))?;
        // What lost its last finalizer may be gone already, and nobody would tell the cache again.
        let meta = answer.meta();
        let kept = meta.finalizers.as_ref().is_some_and(|all| !all.is_empty());
        if kept || meta.deletion_timestamp.is_none() {
            self.reflectors.note(&answer);
        }
        Ok(answer)
    }
}

fn reference<K: Resource>(kind: &K::DynamicType, object: &ObjectMeta) -> ObjectReference {
    ObjectReference {
        api_version: Some(K::api_version(kind).into_owned()),
        kind: Some(K::kind(kind).into_owned()),
        name: object.name.clone(),
        namespace: object.namespace.clone(),
        uid: object.uid.clone(),
        ..ObjectReference::default()
    }
}

fn value_of<T: Serialize + ?Sized>(value: &T) -> Result<Value, Error> {
    serde_json::to_value(value).map_err(|e| Error::bug("write JSON", e))
}

/// The object as JSON, with the kind that some types leave out.
fn body_of<K>(object: &K) -> Result<Value, Error>
where
    K: Watchable<DynamicType: Default> + Serialize,
{
    let kind = K::DynamicType::default();
    let mut body = value_of(object)?;
    if let Some(fields) = body.as_object_mut() {
        let set = |text: Cow<'_, str>| Value::String(text.into_owned());
        fields.insert("apiVersion".to_owned(), set(K::api_version(&kind)));
        fields.insert("kind".to_owned(), set(K::kind(&kind)));
    }
    Ok(body)
}
