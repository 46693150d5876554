//! JSON patch and JSON merge patch; strategic merge patch for built-in kinds.
//!
//! Pure functions from an object and a patch to an object. What the result must obey is checked by
//! whoever asked.

mod strategic;

pub(crate) use strategic::strategic;

use http::StatusCode;
use serde_json::{Map, Value};

use crate::decode;
use crate::status::ApiError;

type Object = Map<String, Value>;

/// The most operations that one JSON patch may hold; upstream's limit.
const MAX_OPERATIONS: usize = 10_000;

/// A parsed RFC 6902 patch.
pub(crate) struct JsonPatch(json_patch::Patch);

impl JsonPatch {
    pub(crate) fn parse(body: &[u8]) -> Result<Self, ApiError> {
        let decoded = decode::json(body).map_err(|e| ApiError::bad_request(e.to_string()))?;
        let patch: json_patch::Patch = serde_json::from_value(decoded.value)
            .map_err(|e| ApiError::bad_request(format!("error decoding patch: {e}")))?;
        if patch.0.len() > MAX_OPERATIONS {
            return Err(ApiError::too_many_operations(patch.0.len(), MAX_OPERATIONS));
        }
        Ok(Self(patch))
    }

    pub(crate) fn apply(&self, object: &Object) -> Result<Object, ApiError> {
        let mut value = Value::Object(object.clone());
        json_patch::patch(&mut value, &self.0)
            .map_err(|e| ApiError::unprocessable(e.to_string()))?;
        into_object(value)
    }
}

/// RFC 7386.
pub(crate) fn merge(object: &Object, patch: &Value) -> Result<Object, ApiError> {
    if !patch.is_object() {
        return Err(ApiError::bad_request("a merge patch must be an object"));
    }
    let mut value = Value::Object(object.clone());
    json_patch::merge(&mut value, patch);
    into_object(value)
}

fn into_object(value: Value) -> Result<Object, ApiError> {
    match value {
        Value::Object(object) => Ok(object),
        _ => Err(ApiError::unprocessable("the patch makes the object something else")),
    }
}

impl ApiError {
    /// 422 for a patch that does not fit its object.
    fn unprocessable(_why: impl Into<String>) -> Self {
        Self::generic(
            StatusCode::UNPROCESSABLE_ENTITY,
            "Invalid",
            "the server rejected our request due to an error in our request",
        )
    }

    fn too_many_operations(found: usize, limit: usize) -> Self {
        Self::generic(
            StatusCode::PAYLOAD_TOO_LARGE,
            "RequestEntityTooLarge",
            &format!(
                "Request entity too large: The allowed maximum operations in a JSON patch is {limit}, got {found}"
            ),
        )
    }
}
