//! CustomResourceDefinitions: how one becomes a resource that this server serves.
//!
//! Pure functions over the object: `names` decides whether its names are free, `resource` turns it
//! into a table entry. Conversion webhooks are not served; a CRD that asks for one is refused.

mod names;
mod resource;

pub(crate) use names::establish;
pub(crate) use resource::resource;

use serde_json::{Value, json};

use crate::registry::Object;
use crate::registry::{meta_mut, strings, text};
use crate::schema::crd as rules;
use crate::schema::field::{ErrorKind, FieldError, FieldPath};

/// The finalizer that keeps a CRD until its objects are gone.
pub(crate) const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

/// Fills in what a CRD may leave out.
pub(crate) fn default(object: &mut Object) {
    let Some(Value::Object(spec)) = object.get_mut("spec") else { return };
    if let Some(Value::Object(names)) = spec.get_mut("names") {
        let kind = text(names, "kind").to_owned();
        if !kind.is_empty() {
            if text(names, "singular").is_empty() {
                names.insert("singular".to_owned(), kind.to_lowercase().into());
            }
            if text(names, "listKind").is_empty() {
                names.insert("listKind".to_owned(), format!("{kind}List").into());
            }
        }
    }
    if spec.get("conversion").is_none_or(Value::is_null) {
        spec.insert("conversion".to_owned(), json!({"strategy": "None"}));
    }
}

/// What the server decides when a CRD is born.
pub(crate) fn prepare_create(object: &mut Object) {
    let stored = storage_version(object);
    object.insert(
        "status".to_owned(),
        json!({
            "conditions": null,
            "acceptedNames": {"plural": "", "kind": ""},
            "storedVersions": stored.into_iter().collect::<Vec<_>>(),
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

/// Keeps a CRD that is being deleted until its objects are gone.
pub(crate) fn prepare_delete(object: &mut Object) {
    let metadata = meta_mut(object);
    let mut finalizers: Vec<String> =
        strings(metadata, "finalizers").into_iter().map(str::to_owned).collect();
    if !finalizers.iter().any(|f| f == CLEANUP) {
        finalizers.push(CLEANUP.to_owned());
        metadata.insert("finalizers".to_owned(), finalizers.into());
    }
}

/// Whether the CRD may be served: upstream's rules, and what this server lacks.
pub(crate) fn validate(old: Option<&Value>, object: &Value) -> Vec<FieldError> {
    let mut errors = match old {
        Some(old) => rules::validate_update(object, old),
        None => rules::validate(object),
    };
    if object.pointer("/spec/conversion/strategy").and_then(Value::as_str) == Some("Webhook") {
        let path = FieldPath::root().child("spec").child("conversion").child("strategy");
        errors.push(FieldError::new(
            ErrorKind::Forbidden,
            path,
            None,
            "conversion webhooks are not served by this embedded server; use \"None\", or a kube-apiserver",
        ));
    }
    errors.extend(resource::compile_errors(object));
    errors
}

/// The name of the version in which objects are stored.
fn storage_version(object: &Object) -> Option<String> {
    let versions = object.get("spec")?.get("versions")?.as_array()?;
    let storage = versions.iter().find(|v| v.get("storage") == Some(&Value::Bool(true)))?;
    Some(storage.get("name")?.as_str()?.to_owned())
}
