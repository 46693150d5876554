//! An object as we want it, ready to be printed or applied.
//!
//! All are applied under one manager's name: what a later version no longer wants of an object goes,
//! and what others have set in it stays.

use kube::api::{Patch, PatchParams};
use kube::core::Request;
use kube::{Client, Resource};
use serde::Serialize;
use serde_json::{Map, Value};

/// What every object of an installation carries, so that it is found again.
const LABELS: [(&str, &str); 2] =
    [("app.kubernetes.io/name", "seatrial"), ("app.kubernetes.io/managed-by", "seatrial-install")];

/// The selector of these labels.
pub(crate) const SELECTOR: &str =
    "app.kubernetes.io/name=seatrial,app.kubernetes.io/managed-by=seatrial-install";

/// Who applies.
const MANAGER: &str = "seatrial";

/// See the module.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Document {
    /// The object.
    value: Value,
    /// The path of its kind's objects.
    collection: String,
    name: String,
}

/// What applying did to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// It was not there.
    Created,
    /// It was another.
    Changed,
    /// It was so already.
    None,
}

/// The API refuses an object.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ApplyError {
    #[error("cannot write {what} to the API")]
    Write { what: String, source: Box<kube::Error> },
    #[error("cannot read {what} from the API")]
    Read { what: String, source: Box<kube::Error> },
    #[error("cannot delete {what}")]
    Delete { what: String, source: Box<kube::Error> },
    #[error("the definition {name} is not accepted")]
    NotEstablished { name: String, source: Box<kube::runtime::wait::Error> },
}

impl Document {
    /// The document of an object.
    ///
    /// # Errors
    /// None, unless the object cannot be JSON.
    pub(crate) fn of<K>(object: &K) -> Result<Self, serde_json::Error>
    where
        K: Resource<DynamicType = ()> + Serialize,
    {
        let meta = object.meta();
        Ok(Self {
            value: serde_json::to_value(object)?,
            collection: K::url_path(&(), meta.namespace.as_deref()),
            name: meta.name.clone().unwrap_or_default(),
        })
    }

    /// The object.
    pub(crate) fn value(&self) -> &Value {
        &self.value
    }

    /// Whether it lies in a namespace.
    pub(crate) fn is_namespaced(&self) -> bool {
        self.value.pointer("/metadata/namespace").is_some()
    }

    /// The path of its kind's objects, and its name.
    pub(crate) fn place(&self) -> (&str, &str) {
        (&self.collection, &self.name)
    }

    /// As kubectl names it: `clusterrole/seatrial:agent`
    pub(crate) fn what(&self) -> String {
        let kind = self.value.get("kind").and_then(Value::as_str).unwrap_or_default();
        format!("{}/{}", kind.to_lowercase(), self.name)
    }

    /// The same as part of an installation, whoever applies it: `uninstall` finds it by its labels.
    #[must_use]
    pub(crate) fn installed(self) -> Self {
        self.labelled(&LABELS)
    }

    /// The same with these labels beside its own.
    #[must_use]
    pub(crate) fn labelled(mut self, labels: &[(&str, &str)]) -> Self {
        let metadata = self.value.get_mut("metadata").and_then(Value::as_object_mut);
        if let Some(metadata) = metadata {
            let own = metadata.entry("labels").or_insert_with(|| Map::new().into());
            if let Some(own) = own.as_object_mut() {
                own.extend(labels.iter().map(|(k, v)| ((*k).to_owned(), (*v).into())));
            }
        }
        self
    }

    /// Makes the object as the document says.
    ///
    /// # Errors
    /// What the API answered.
    pub(crate) async fn apply(&self, client: &Client) -> Result<Value, ApplyError> {
        let apply = PatchParams::apply(MANAGER).force();
        let patch = Patch::Apply(&self.value);
        let write = |source| ApplyError::Write { what: self.what(), source: Box::new(source) };
        let request = Request::new(&self.collection).patch(&self.name, &apply, &patch);
        let request = request.map_err(|error| write(kube::Error::BuildRequest(error)))?;
        client.request(request).await.map_err(write)
    }

    /// The same, and says what that did.
    ///
    /// # Errors
    /// What the API answered.
    pub(crate) async fn settle(&self, client: &Client) -> Result<Change, ApplyError> {
        let before = self.find(client).await?;
        let after = self.apply(client).await?;
        let revision = |object: &Value| object.pointer("/metadata/resourceVersion").cloned();
        Ok(match before {
            None => Change::Created,
            Some(before) if revision(&before) == revision(&after) => Change::None,
            Some(_) => Change::Changed,
        })
    }

    async fn find(&self, client: &Client) -> Result<Option<Value>, ApplyError> {
        let read = |source| ApplyError::Read { what: self.what(), source: Box::new(source) };
        let request = Request::new(&self.collection).get(&self.name, &Default::default());
        let request = request.map_err(|error| read(kube::Error::BuildRequest(error)))?;
        match client.request(request).await {
            Ok(found) => Ok(Some(found)),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
            Err(error) => Err(read(error)),
        }
    }
}
