//! Views: what a subresource shows of an object, and how a change to the view comes back.
//!
//! `/status` shows the whole object and `strategy` decides what may change; `/scale` shows an
//! `autoscaling/v1` Scale made from the paths that the resource names.

use http::StatusCode;
use serde_json::{Value, json};

use super::metadata::{meta, meta_mut};
use super::{Call, Object};
use crate::builtin::selector;
use crate::dotted::DottedPath;
use crate::resource::{GroupKind, Scale, group_version};
use crate::schema::field::{FieldError, FieldPath};
use crate::status::ApiError;
use crate::wire::Answer;

impl Call<'_> {
    fn scale(&self) -> Result<Option<&Scale>, ApiError> {
        match (self.subresource.as_deref(), &self.resource.scale) {
            (Some("scale"), Some(scale)) => Ok(Some(scale)),
            (Some("scale"), None) => Err(ApiError::no_such_resource()),
            _ => Ok(None),
        }
    }

    pub(super) fn get_scale(&self) -> Result<Answer, ApiError> {
        let stored = self.load(self.name())?.ok_or_else(|| self.not_found())?;
        let object = self.view(&self.present(&stored)?)?;
        Ok(Answer::Other { code: StatusCode::OK, object })
    }

    /// The object as this endpoint shows it.
    pub(super) fn view(&self, live: &Object) -> Result<Object, ApiError> {
        let Some(scale) = self.scale()? else { return Ok(live.clone()) };
        let mut metadata = Object::new();
        for field in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
            if let Some(value) = meta(live).get(field) {
                metadata.insert(field.to_owned(), value.clone());
            }
        }
        let Some(replicas) = number(&scale.spec_replicas, live) else {
            let path = scale.spec_replicas.to_string();
            return Err(ApiError::internal(format!(
                "the spec replicas field {path:?} does not exist"
            )));
        };
        let mut status = Object::new();
        status.insert(
            "replicas".to_owned(),
            number(&scale.status_replicas, live).unwrap_or(0).into(),
        );
        let selector = scale.label_selector.as_ref().and_then(|path| match path.get(live)? {
            Value::Object(_) if self.resource.is_custom() => None,
            selector @ Value::Object(_) => selector::text(selector),
            _ => path.text(live),
        });
        if let Some(selector) = selector.filter(|s| !s.is_empty()) {
            status.insert("selector".to_owned(), selector.into());
        }
        // Go leaves a zero out of the spec but not out of the status.
        let spec = if replicas == 0 { json!({}) } else { json!({"replicas": replicas}) };
        let view = json!({
            "kind": "Scale",
            "apiVersion": "autoscaling/v1",
            "metadata": metadata,
            "spec": spec,
            "status": status,
        });
        super::into_object(view)
    }

    /// The object after its view was changed.
    pub(super) fn merge_view(&self, live: &Object, view: Object) -> Result<Object, ApiError> {
        let Some(scale) = self.scale()? else { return Ok(view) };
        let replicas = view.get("spec").and_then(|s| s.get("replicas")).and_then(Value::as_i64);
        if let Some(negative) = replicas.filter(|n| *n < 0) {
            return Err(self.refuse_replicas(scale, negative));
        }
        let mut object = live.clone();
        scale.spec_replicas.set(&mut object, replicas.unwrap_or(0).into());
        Ok(object)
    }

    /// Of a built-in kind it is the Scale that is wrong, of a custom one the object's own field.
    fn refuse_replicas(&self, scale: &Scale, negative: i64) -> ApiError {
        let (kind, at, why) = if self.resource.is_custom() {
            // The path is the CRD's own, dot in front included.
            let at = FieldPath::root().child(&scale.spec_replicas.to_string());
            (self.resource.group_kind(), at, "should be a non-negative integer")
        } else {
            let kind = GroupKind { group: "autoscaling".to_owned(), kind: "Scale".to_owned() };
            let at = FieldPath::root().child("spec").child("replicas");
            (kind, at, "must be greater than or equal to 0")
        };
        ApiError::invalid(&kind, self.name(), &[FieldError::invalid(at, negative, why)])
    }

    /// An object's answer, as this endpoint shows it.
    pub(super) fn answer_view(&self, code: StatusCode, object: Object) -> Answer {
        match self.view(&object) {
            Ok(view) if self.subresource.as_deref() == Some("scale") => {
                Answer::Other { code, object: view }
            }
            _ => self.answer(code, object),
        }
    }

    /// A Scale in a request names the object it scales.
    pub(super) fn is_scale(&self) -> bool {
        self.subresource.as_deref() == Some("scale")
    }

    /// `apiVersion` and `kind` that a body on this endpoint has.
    pub(super) fn expected_kind(&self) -> (String, String) {
        if self.is_scale() {
            return ("autoscaling/v1".to_owned(), "Scale".to_owned());
        }
        let wanted = self.subresource.as_deref();
        let part = self.resource.subresources.iter().find(|s| Some(s.name.as_str()) == wanted);
        match part.filter(|part| part.kind != self.resource.kind) {
            // Without a version it is one of the resource's own.
            Some(part) if part.version.is_empty() => (self.api_version(), part.kind.clone()),
            Some(part) => (group_version(&part.group, &part.version), part.kind.clone()),
            None => (self.api_version(), self.resource.kind.clone()),
        }
    }
}

/// Who scaled is kept without the time, as upstream does.
pub(super) fn forget_times(object: &mut Object) {
    let entries = meta_mut(object).get_mut("managedFields").and_then(Value::as_array_mut);
    for entry in entries.into_iter().flatten().filter_map(Value::as_object_mut) {
        if entry.get("subresource").is_some_and(|name| name == "scale") {
            entry.remove("time");
        }
    }
}

fn number(path: &DottedPath, object: &Object) -> Option<i64> {
    path.get(object).and_then(Value::as_i64)
}
