//! The one generic handler: create, read, write, delete and watch for every kind alike.
//!
//! A [`Call`] is a request that has been authenticated, authorized and resolved against the resource
//! table. Each verb is a file; what differs between kinds comes from the [`Resource`] or from
//! `strategy`. The only write loop is `write::commit`: nothing else puts an object into the store.

mod admission;
mod admit;
mod allocate;
mod binding;
mod birth;
pub(crate) mod by_node;
mod create;
mod delete;
mod eviction;
mod grant;
mod keys;
mod kubelet;
mod metadata;
mod misfit;
mod pod_parts;
pub(crate) mod quota;
mod read;
mod review;
mod scale;
pub(crate) mod strategy;
mod token_request;
mod update;
mod watch;

use std::sync::Arc;

use http::{HeaderMap, StatusCode};
use serde_json::{Map, Value};
use store::{Compare, Op, Revision, Test, Txn};

use crate::auth::User;
use crate::decode;
use crate::request::{Query, Verb};
use crate::resource::{GroupResource, Resource, Version, group_version};
use crate::server::ApiServer;
use crate::status::ApiError;
use crate::stored::{self, Index, Stored};
use crate::wire::Answer;

use self::quota::Change;
use self::review::Review;
use self::strategy::Strategy;

pub(crate) use admission::{Policies, Webhooks};
pub(crate) use keys::{core as core_key, object as key, prefix};
pub(crate) use metadata::{is_deleting, meta, meta_mut, strings, text};

/// An object as JSON.
pub(crate) type Object = Map<String, Value>;

/// A request on a resource, ready to be carried out.
pub(crate) struct Call<'a> {
    pub(crate) server: &'a ApiServer,
    pub(crate) user: &'a User,
    pub(crate) resource: Arc<Resource>,
    /// The requested version: an index into the resource's versions.
    pub(crate) version: usize,
    pub(crate) namespace: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) subresource: Option<String>,
    pub(crate) query: Query,
    pub(crate) headers: HeaderMap,
    pub(crate) body: bytes::Bytes,
    /// Sentences for `Warning` headers.
    pub(crate) warnings: Vec<String>,
    /// Lists at the top of the object that were sent empty and are stored as none; whoever sent them owns
    /// them all the same.
    pub(crate) emptied: Vec<String>,
    /// What the audit log is told of the request besides, by key.
    pub(crate) annotations: Vec<(String, String)>,
    /// Whether what follows from a write is done here; the server's own writes are followed by
    /// whoever made them.
    pub(crate) followed: bool,
}

impl<'a> Call<'a> {
    /// Services are written one at a time, so that no two are given the same address.
    async fn hold_addresses(&self) -> Option<tokio::sync::MutexGuard<'a, ()>> {
        let server: &'a ApiServer = self.server;
        let is_service = self.resource.is("", "services");
        if is_service { Some(server.addresses().lock().await) } else { None }
    }
}

impl Call<'_> {
    /// Carries the request out.
    pub(crate) async fn run(&mut self, verb: Verb) -> Result<Answer, ApiError> {
        if self.is_passed_on() {
            self.admit_connect().await?;
            return self.pass_on();
        }
        self.server.expire().await;
        let writes = matches!(verb, Verb::Create | Verb::Update | Verb::Patch);
        let _addresses = if writes { self.hold_addresses().await } else { None };
        match verb {
            Verb::Get => self.get(),
            Verb::List => self.list(),
            Verb::Watch => self.watch(),
            Verb::Create if self.subresource.is_some() => self.create_part().await,
            Verb::Create if self.resource.is("", "bindings") => self.bind().await,
            Verb::Create => match Review::of(&self.resource) {
                Some(review) => self.review(review),
                None => self.create().await,
            },
            Verb::Update => self.replace().await,
            Verb::Patch => self.patch().await,
            Verb::Delete => self.delete().await,
            Verb::DeleteCollection => self.delete_collection().await,
        }
    }

    /// What is created at an object.
    async fn create_part(&mut self) -> Result<Answer, ApiError> {
        match (self.resource.plural.as_str(), self.subresource.as_deref()) {
            ("serviceaccounts", Some("token")) => self.request_token().await,
            ("pods", Some("binding")) => self.bind().await,
            ("pods", Some("eviction")) => Box::pin(self.evict()).await,
            _ => Err(ApiError::no_such_method()),
        }
    }

    pub(crate) fn version(&self) -> &Version {
        &self.resource.versions[self.version]
    }

    /// `apiVersion` of objects in the requested version.
    pub(crate) fn api_version(&self) -> String {
        group_version(&self.resource.group, &self.version().name)
    }

    fn group_resource(&self) -> GroupResource {
        self.resource.group_resource()
    }

    /// The object's name from the path; a path without one has no verb that asks.
    fn name(&self) -> &str {
        self.name.as_deref().unwrap_or_default()
    }

    fn not_found(&self) -> ApiError {
        ApiError::not_found(&self.group_resource(), self.name())
    }

    fn key(&self, name: &str) -> bytes::Bytes {
        keys::object(&self.resource, self.namespace.as_deref(), name)
    }

    /// The stored object of this name, if there is one.
    fn load(&self, name: &str) -> Result<Option<Stored>, ApiError> {
        let entry = self.server.store().get(&self.key(name), None).map_err(read_failed)?;
        entry.map(|entry| Stored::from_entry(&entry).map_err(ApiError::internal)).transpose()
    }

    /// A stored object as the requested version shows it.
    fn present(&self, stored: &Stored) -> Result<Object, ApiError> {
        let mut object = stored.to_value().map_err(ApiError::internal)?;
        self.resource.show(self.version, &mut object);
        into_object(object)
    }

    /// The object as reading it back from the store will show it.
    fn settled(&self, object: Object) -> Result<Object, ApiError> {
        let mut object = Value::Object(object);
        decode::settle_numbers(&mut object);
        if self.version != self.resource.storage || self.resource.alias.is_some() {
            self.resource.store(&mut object);
            self.resource.show(self.version, &mut object);
        }
        into_object(object)
    }

    /// The bytes to store for an object that may be in any served version.
    fn encode(&self, object: &Object) -> Result<bytes::Bytes, ApiError> {
        let storage = self.resource.storage_api_version();
        if object.get("apiVersion").and_then(Value::as_str) == Some(&storage) {
            let index = index_of(&self.resource, object);
            return stored::encode(object, &index).map_err(ApiError::internal);
        }
        let mut object = Value::Object(object.clone());
        self.resource.store(&mut object);
        let object = into_object(object)?;
        stored::encode(&object, &index_of(&self.resource, &object)).map_err(ApiError::internal)
    }

    /// Writes an object where `expected` still stands (`None`: where nothing does). `Ok(None)` means
    /// that somebody else was quicker.
    async fn put(
        &self,
        name: &str,
        object: &Object,
        expected: Option<Revision>,
    ) -> Result<Option<Revision>, ApiError> {
        let key = self.key(name);
        let value = self.encode(object)?;
        let lease = match Strategy::of(&self.resource).lives {
            Some(ttl) => Some(self.server.lease(ttl).await?),
            None => None,
        };
        let put = Op::Put { key: key.clone(), value, lease };
        self.commit(key, expected, put, Some(object)).await
    }

    /// Removes an object where `expected` still stands.
    async fn remove(&self, name: &str, expected: Revision) -> Result<Option<Revision>, ApiError> {
        let key = self.key(name);
        self.commit(key.clone(), Some(expected), Op::delete(key), None).await
    }

    async fn commit(
        &self,
        key: bytes::Bytes,
        expected: Option<Revision>,
        op: Op,
        object: Option<&Object>,
    ) -> Result<Option<Revision>, ApiError> {
        let unchanged = match expected {
            Some(revision) => Test::Modified(Compare::Equal, revision),
            None => Test::Absent,
        };
        let mut txn = Txn::new().when(key.clone(), unchanged).then(op);
        let held = self.hold_quotas().await?;
        if let Some(held) = held.as_ref().filter(|held| held.any()) {
            let old = self.server.store().get(&key, None).map_err(read_failed)?;
            if expected.is_some() && old.as_ref().map(|old| old.modified) != expected {
                return Ok(None);
            }
            let old = match old.filter(|_| expected.is_some()) {
                Some(old) => {
                    Some(self.present(&Stored::from_entry(&old).map_err(ApiError::internal)?)?)
                }
                None => None,
            };
            txn = self.charge_quotas(held, &key, Change { old: old.as_ref(), new: object }, txn)?;
        }
        let outcome = self.server.store().commit(txn).await.map_err(write_failed)?;
        drop(held);
        if !outcome.succeeded {
            return Ok(None);
        }
        if object.is_some() && self.subresource.is_none() && self.resource.is("", "resourcequotas")
        {
            self.recount(&key).await?;
        }
        if self.followed {
            // Boxed: what follows from a write may itself write.
            Box::pin(self.server.committed(&self.resource)).await;
        }
        Ok(Some(outcome.revision))
    }

    /// An object's answer, in the requested version.
    fn answer(&self, code: StatusCode, mut object: Object) -> Answer {
        object.insert("apiVersion".to_owned(), self.api_version().into());
        object.insert("kind".to_owned(), self.resource.kind.clone().into());
        Answer::Object { code, object }
    }
}

/// What selectors may look at in an object.
fn index_of(resource: &Resource, object: &Object) -> Index {
    let labels = object
        .get("metadata")
        .and_then(|m| m.get("labels"))
        .and_then(Value::as_object)
        .map(|labels| {
            labels
                .iter()
                .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
                .collect()
        })
        .unwrap_or_default();
    // The storage version's fields, by their paths, which an alias shares: those of
    // other served versions are read from the object.
    let fields = resource
        .storage_version()
        .selectable
        .values()
        .filter_map(|field| Some((field.path.to_string(), field.text(object)?)))
        .collect();
    Index { labels, fields }
}

fn into_object(value: Value) -> Result<Object, ApiError> {
    match value {
        Value::Object(object) => Ok(object),
        _ => Err(no_object()),
    }
}

fn fields(value: &Value) -> Result<&Object, ApiError> {
    value.as_object().ok_or_else(no_object)
}

fn no_object() -> ApiError {
    ApiError::internal("an object in the store is damaged: not an object")
}

/// An answer for a read that the store refused.
fn read_failed(error: store::Error) -> ApiError {
    match error {
        store::Error::Compacted { .. } => ApiError::expired(
            "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter.",
        ),
        store::Error::Future { asked, current } => ApiError::future_revision(asked.0, current.0),
        error => ApiError::internal(error),
    }
}

/// An answer for a write that the store refused.
fn write_failed(error: store::Error) -> ApiError {
    tracing::error!(%error, "write failed");
    ApiError::internal(error)
}
