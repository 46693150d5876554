//! Patches after which an object is no longer what it was, and how they are refused.
//!
//! Upstream's words depend on the patch: a strategic one is shown as Go prints a map, of the others
//! what they made is shown. Whether a patch may be made at all is decided elsewhere.

use http::StatusCode;
use serde_json::Value;

use super::{Call, Object};
use crate::builtin;
use crate::decode;
use crate::resource::GroupKind;
use crate::schema::field::{FieldError, FieldPath};
use crate::status::ApiError;

impl Call<'_> {
    /// The refusal of a patch that makes something else of the object.
    pub(super) fn changed_kind(&self, said: &decode::TypeMeta, object: &Object) -> ApiError {
        if !self.resource.is_custom() || self.is_scale() {
            let refused = self.check_kind(said, &Value::Object(object.clone()));
            let refused = refused.err().unwrap_or_else(ApiError::no_such_resource);
            // An object of another kind is first read as what it says it is.
            let known = builtin::empty(&said.api_version, &said.kind).is_some();
            let now = self.server.now();
            let read = builtin::shape(&said.api_version, &said.kind, object.clone(), &now);
            return match read {
                Err(why) if known => self.unfit(object, self.mishandled(&why)),
                _ => self.unfit(object, refused),
            };
        }
        let (api_version, kind) = self.expected_kind();
        let mut errors = Vec::new();
        for (field, said, expected) in
            [("apiVersion", &said.api_version, &api_version), ("kind", &said.kind, &kind)]
        {
            if said != expected {
                let at = FieldPath::root().child(field);
                errors.push(FieldError::invalid(at, said.clone(), format!("must be {expected}")));
            }
        }
        let group = said.api_version.split_once('/').map_or("", |(group, _)| group);
        let sent = GroupKind { group: group.to_owned(), kind: said.kind.clone() };
        ApiError::invalid(&sent, self.name(), &errors)
    }

    /// A patch that makes an object which does not decode is refused as a whole.
    pub(super) fn unfit(&self, object: &Object, error: ApiError) -> ApiError {
        let shown = if self.resource.is_custom() {
            Value::Object(object.clone()).to_string()
        } else {
            as_go_prints(object)
        };
        misfit(&shown, error, str::to_owned)
    }
}

/// The refusal of a patch after which an object does not decode, in the given words. The patch is what
/// is wrong, not an object of a kind: neither kind nor name are told.
pub(super) fn misfit(shown: &str, error: ApiError, words: fn(&str) -> String) -> ApiError {
    if error.code != StatusCode::BAD_REQUEST {
        return error;
    }
    let why = error.message.split_once(" cannot be handled as a ");
    let why = why.and_then(|(_, rest)| rest.split_once(": "));
    let why = words(why.map_or(&*error.message, |(_, why)| why));
    let error = FieldError::invalid(FieldPath::root().child("patch"), shown, &why);
    ApiError::invalid(&GroupKind { group: String::new(), kind: String::new() }, "", &[error])
}

/// A complaint of Go's decoder as upstream's converter has it, which reads what strategic patches make.
pub(super) fn converted(why: &str) -> String {
    let read = || {
        let (found, wanted) = why.strip_prefix("json: cannot unmarshal ")?.split_once(" into ")?;
        let (_, wanted) = wanted.rsplit_once(" of type ")?;
        // A kind of value, and its type.
        let (kind, type_) = match found.split(' ').next()? {
            "object" => ("map", "map[string]interface {}"),
            "array" => ("slice", "[]interface {}"),
            "number" if found.contains('.') => ("float64", "float64"),
            "number" => ("int64", "int64"),
            other => (other, other),
        };
        Some(if wanted.starts_with("[]") {
            format!("cannot restore slice from {kind}")
        } else if wanted.starts_with("map[") {
            format!("cannot restore map from {kind}")
        } else if wanted.contains('.') {
            format!("cannot restore struct from: {kind}")
        } else {
            format!("cannot convert {type_} to {wanted}")
        })
    };
    read().unwrap_or_else(|| why.to_owned())
}

/// A built-in kind's object as upstream shows it: metadata in the order of Go's fields.
fn as_go_prints(object: &Object) -> String {
    const MANAGED: [&str; 7] =
        ["manager", "operation", "apiVersion", "time", "fieldsType", "fieldsV1", "subresource"];
    const ORDER: [&str; 14] = [
        "name",
        "generateName",
        "namespace",
        "uid",
        "resourceVersion",
        "generation",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "labels",
        "annotations",
        "ownerReferences",
        "finalizers",
        "managedFields",
    ];
    let join = |fields: Vec<(&str, String)>| {
        let fields = fields.into_iter().map(|(name, value)| format!("\"{name}\":{value}"));
        format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
    };
    let managed = |entry: &Value| {
        join(MANAGED.iter().filter_map(|f| Some((*f, entry.get(f)?.to_string()))).collect())
    };
    let print = |name: &str, value: &Value| match (name, value) {
        ("managedFields", Value::Array(entries)) => {
            format!("[{}]", entries.iter().map(managed).collect::<Vec<_>>().join(","))
        }
        (_, value) => value.to_string(),
    };
    let fields = object.iter().map(|(name, value)| match (name.as_str(), value) {
        ("metadata", Value::Object(metadata)) => {
            let present = ORDER.iter().filter_map(|f| Some((*f, print(f, metadata.get(*f)?))));
            ("metadata", join(present.collect()))
        }
        (name, value) => (name, value.to_string()),
    });
    join(fields.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn complaints_are_the_converters() {
        let decoder = |found: &str, wanted: &str| {
            converted(&format!(
                "json: cannot unmarshal {found} into Go struct field X.y of type {wanted}"
            ))
        };
        for (found, wanted, expect) in [
            ("number", "string", "cannot convert int64 to string"),
            ("number 1.5", "int32", "cannot convert float64 to int32"),
            ("bool", "string", "cannot convert bool to string"),
            ("object", "string", "cannot convert map[string]interface {} to string"),
            ("object", "[]v1.Container", "cannot restore slice from map"),
            ("string", "map[string]string", "cannot restore map from string"),
            ("array", "v1.PodSpec", "cannot restore struct from: slice"),
        ] {
            assert_eq!(decoder(found, wanted), expect);
        }
        assert_eq!(converted("unknown field"), "unknown field");
    }
}
