//! JSON patch and JSON merge patch; strategic merge patch for built-in kinds.
//!
//! Pure functions from an object and a patch to an object. What the result must obey is checked by
//! whoever asked.

mod json;
mod strategic;

pub(crate) use json::JsonPatch;
pub(crate) use strategic::strategic;

use serde_json::{Map, Value};

use crate::status::ApiError;

/// RFC 7386.
pub(crate) fn merge(
    object: &Map<String, Value>,
    patch: &Value,
) -> Result<Map<String, Value>, ApiError> {
    if !patch.is_object() {
        return Err(ApiError::bad_request("a merge patch must be an object"));
    }
    let mut value = Value::Object(object.clone());
    json_patch::merge(&mut value, patch);
    into_object(value)
}

fn into_object(value: Value) -> Result<Map<String, Value>, ApiError> {
    match value {
        Value::Object(object) => Ok(object),
        _ => Err(ApiError::rejected()),
    }
}
