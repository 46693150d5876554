//! Patches after which an object is no longer what it was, and how they are refused.
//!
//! Upstream's words depend on the patch: a strategic one is shown as Go prints a map, of the others
//! what they made is shown. Whether a patch may be made at all is decided elsewhere.

use http::StatusCode;
use serde_json::Value;

use super::update::Change;
use super::{Call, Object};
use crate::builtin;
use crate::decode;
use crate::resource::GroupKind;
use crate::schema::field::{FieldError, FieldPath};
use crate::schema::print;
use crate::status::ApiError;

impl Call<'_> {
    /// The refusal of a patch that makes something else of the object.
    pub(super) fn changed_kind(
        &self,
        said: &decode::TypeMeta,
        object: &Object,
        change: &Change,
    ) -> ApiError {
        if !self.resource.is_custom() || self.is_scale() {
            let refused = self.check_kind(said, &Value::Object(object.clone()));
            let refused = refused.err().unwrap_or_else(ApiError::no_such_resource);
            // An object of another kind is first read as what it says it is.
            let known = builtin::empty(&said.api_version, &said.kind).is_some();
            let now = self.server.now();
            let read = builtin::shape(&said.api_version, &said.kind, object.clone(), &now);
            return match read {
                Err(why) if known => self.unfit(object, change, self.mishandled(&why)),
                _ => self.unfit(object, change, refused),
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

    /// The refusal of a patch after which the object does not decode. The patch is what is wrong,
    /// not an object of a kind: neither kind nor name are told.
    pub(super) fn unfit(&self, object: &Object, change: &Change, error: ApiError) -> ApiError {
        if error.code != StatusCode::BAD_REQUEST {
            return error;
        }
        let why = error.message.split_once(" cannot be handled as a ");
        let why = why.and_then(|(_, rest)| rest.split_once(": "));
        let why = why.map_or(&*error.message, |(_, why)| why);
        let (api_version, kind) = self.expected_kind();
        // Another converter reads what strategic patches make.
        let converter = match change {
            Change::Strategic(..) => builtin::print::unfit(&api_version, &kind, object),
            _ => None,
        };
        let patched = |patch| builtin::print::patched(&api_version, &kind, object, patch);
        let (shown, why) = match (change, converter) {
            (Change::Strategic(patch, _), Some(why)) => (print::plain(patch), why),
            (Change::Strategic(patch, _), None) if why.starts_with("strict decoding error") => {
                (print::plain(patch), why.to_owned())
            }
            _ if self.resource.is_custom() => {
                (Value::Object(object.clone()).to_string(), why.to_owned())
            }
            (Change::Merge(patch, _), _) => (patched(patch), why.to_owned()),
            _ => (patched(&Value::Null), why.to_owned()),
        };
        let error = FieldError::invalid(FieldPath::root().child("patch"), shown, why);
        ApiError::invalid(&GroupKind { group: String::new(), kind: String::new() }, "", &[error])
    }
}
