//! CustomResourceDefinitions: how one becomes a resource that this server serves.
//!
//! Pure functions over the object: `names` decides whether its names are free, `resource` turns it
//! into a table entry, `conditions` says in its status what became of it. `object` holds the
//! resource's objects against the CRD, `convert` takes them from version to version. Conversion
//! webhooks are not served; a CRD that asks for one is refused.

mod conditions;
mod convert;
mod names;
mod object;
mod resource;

pub(crate) use conditions::Deletion;
pub(crate) use names::{establish, is_established};
pub(crate) use object::validate_object;
pub(crate) use resource::resource;

use serde_json::{Value, json};

use crate::cel::Rules;
use crate::registry::{Object, is_deleting, meta_mut, strings};
use crate::schema::Schema;
use crate::schema::crd as rules;
use crate::schema::field::{FieldError, FieldPath};

/// The finalizer that keeps a CRD until its objects are gone.
pub(crate) const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

/// Fills in what a CRD may leave out.
pub(crate) fn default(object: &mut Value) {
    rules::fill_defaults(object);
}

/// What the server decides when a CRD is born.
pub(crate) fn prepare_create(object: &mut Object) {
    let stored = storage_version(object).map(|stored| vec![stored]);
    object.insert(
        "status".to_owned(),
        json!({
            "conditions": null,
            "acceptedNames": {"plural": "", "kind": ""},
            "storedVersions": stored,
        }),
    );
}

/// Adds a new storage version to those in which objects may lie in the store.
pub(crate) fn prepare_update(live: &Object, object: &mut Object) {
    let Some(stored) = storage_version(object) else { return };
    let status = live.get("status").and_then(Value::as_object).cloned().unwrap_or_default();
    let mut versions: Vec<String> =
        strings(&status, "storedVersions").into_iter().map(str::to_owned).collect();
    if !versions.contains(&stored) {
        versions.push(stored);
        let mut status = status;
        status.insert("storedVersions".to_owned(), versions.into());
        object.insert("status".to_owned(), status.into());
    }
}

/// Marks a CRD as being deleted, which it is once its objects are gone.
pub(crate) fn prepare_delete(object: &mut Object, now: &str) {
    if is_deleting(object) {
        return;
    }
    let metadata = meta_mut(object);
    metadata.insert("deletionTimestamp".to_owned(), now.into());
    let mut finalizers: Vec<String> =
        strings(metadata, "finalizers").into_iter().map(str::to_owned).collect();
    if !finalizers.iter().any(|f| f == CLEANUP) {
        finalizers.push(CLEANUP.to_owned());
        metadata.insert("finalizers".to_owned(), finalizers.into());
    }
    Deletion::Pending.note(object, now);
}

/// Whether the CRD may be served: upstream's rules, and, where those are kept, what this server
/// lacks.
pub(crate) fn validate(is_status: bool, old: Option<&Value>, object: &Value) -> Vec<FieldError> {
    let errors = match old {
        Some(_) if is_status => rules::validate_status(object),
        Some(old) => rules::validate_update(object, old, compile),
        None => rules::validate(object, compile),
    };
    let strategy = object.pointer("/spec/conversion/strategy").and_then(Value::as_str);
    if errors.is_empty() && strategy == Some("Webhook") {
        let path = FieldPath::root().child("spec").child("conversion").child("strategy");
        return vec![FieldError::forbidden(
            path,
            "conversion webhooks are not served by this embedded server; use \"None\", or a \
             kube-apiserver",
        )];
    }
    errors
}

fn compile(schema: &Schema, at: &FieldPath, faults: &[FieldError]) -> Vec<FieldError> {
    Rules::compile(schema, at, faults).err().unwrap_or_default()
}

/// The name of the version in which objects are stored.
fn storage_version(object: &Object) -> Option<String> {
    let versions = object.get("spec")?.get("versions")?.as_array()?;
    let storage = versions.iter().find(|v| v.get("storage") == Some(&Value::Bool(true)))?;
    Some(storage.get("name")?.as_str()?.to_owned())
}
