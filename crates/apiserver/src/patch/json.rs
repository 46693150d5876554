//! JSON patch, RFC 6902, with the leniencies of the library that upstream uses.
//!
//! Two of them: `replace` of a member that is not there adds it, and a negative index counts from a
//! list's end. Every failure to apply is one and the same 422.

use http::StatusCode;
use json_patch::{Patch, PatchOperation};
use serde_json::{Map, Value};

use super::into_object;
use crate::decode;
use crate::sabotage::Sabotage;
use crate::status::ApiError;

/// The most operations that one JSON patch may hold; upstream's limit.
const MAX_OPERATIONS: usize = 10_000;

/// A patch whose operations have not been looked at yet.
pub(crate) struct JsonPatch(Vec<Value>);

impl JsonPatch {
    pub(crate) fn parse(body: &[u8]) -> Result<Self, ApiError> {
        let bad = |why: String| ApiError::bad_request(format!("error decoding patch: {why}"));
        let operations = match decode::json(body).map_err(|e| bad(e.to_string()))?.value {
            Value::Array(operations) => operations,
            other => {
                let kind = decode::go_kind(&other);
                return Err(bad(format!(
                    "json: cannot unmarshal {kind} into Go value of type []handlers.jsonPatchOp"
                )));
            }
        };
        if operations.len() > MAX_OPERATIONS {
            return Err(ApiError::generic(
                StatusCode::PAYLOAD_TOO_LARGE,
                "RequestEntityTooLarge",
                &format!(
                    "Request entity too large: The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {}",
                    operations.len()
                ),
            ));
        }
        Ok(Self(operations))
    }

    /// What is wrong with the fields of operations, for those who want to know.
    pub(crate) fn unknown_fields(&self) -> Vec<String> {
        const KNOWN: [&str; 4] = ["op", "path", "from", "value"];
        let of = |(n, operation): (usize, &Value)| {
            let fields = operation.as_object().into_iter().flat_map(Map::keys);
            let unknown = fields.filter(|field| !KNOWN.contains(&field.as_str()));
            let told = unknown.map(|field| format!("json patch unknown field \"[{n}].{field}\""));
            told.collect::<Vec<_>>()
        };
        self.0.iter().enumerate().flat_map(of).collect()
    }

    pub(crate) fn apply(
        &self,
        object: &Map<String, Value>,
    ) -> Result<Map<String, Value>, ApiError> {
        let mut value = Value::Object(object.clone());
        for operation in &self.0 {
            if operation["op"] == "test" && Sabotage::NoPatchTests.is_planted() {
                continue;
            }
            let operation = lenient(operation, &value).ok_or_else(ApiError::rejected)?;
            json_patch::patch(&mut value, &Patch(vec![operation]))
                .map_err(|_| ApiError::rejected())?;
        }
        into_object(value)
    }
}

/// The operation as RFC 6902 would have it said of this document.
fn lenient(operation: &Value, document: &Value) -> Option<PatchOperation> {
    let mut operation = operation.clone();
    let path = operation.get("path")?.as_str()?.to_owned();
    // The empty path is the document itself and has no parent.
    let (parent, last) = path.rsplit_once('/').unwrap_or_default();
    match document.pointer(parent).filter(|_| !path.is_empty()) {
        Some(Value::Array(items)) => {
            if let Some(from_end) = last.strip_prefix('-').and_then(|n| n.parse::<usize>().ok()) {
                let index = items.len().checked_sub(from_end)?;
                operation["path"] = format!("{parent}/{index}").into();
            }
        }
        Some(Value::Object(_)) if operation["op"] == "replace" => operation["op"] = "add".into(),
        _ => {}
    }
    serde_json::from_value(operation).ok()
}

impl ApiError {
    /// 422 for a patch that does not fit its object.
    pub(super) fn rejected() -> Self {
        Self::generic(
            StatusCode::UNPROCESSABLE_ENTITY,
            "Invalid",
            "the server rejected our request due to an error in our request",
        )
        .with_empty_details()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[track_caller]
    fn check(document: Value, patch: Value, want: Option<Value>) {
        let patch_ = JsonPatch::parse(patch.to_string().as_bytes()).unwrap();
        let got = patch_.apply(document.as_object().unwrap()).ok().map(Value::Object);
        assert_eq!(got, want, "{document} with {patch}");
    }

    #[test]
    fn operations_apply_with_upstreams_leniency() {
        let document = || json!({"a": {"b": 1}, "l": [1, 2, 3]});
        check(
            document(),
            json!([{"op": "replace", "path": "/a/c", "value": 2}]),
            Some(json!({"a": {"b": 1, "c": 2}, "l": [1, 2, 3]})),
        );
        check(
            document(),
            json!([{"op": "remove", "path": "/l/-1"}]),
            Some(json!({"a": {"b": 1}, "l": [1, 2]})),
        );
        check(
            document(),
            json!([{"op": "add", "path": "/l/-", "value": 4}]),
            Some(json!({"a": {"b": 1}, "l": [1, 2, 3, 4]})),
        );
        check(document(), json!([{"op": "remove", "path": "/a/x"}]), None);
        check(document(), json!([{"op": "test", "path": "/a/b", "value": 2}]), None);
        check(document(), json!([{"op": "frobnicate", "path": "/a"}]), None);
        check(document(), json!([{"op": "remove", "path": "/l/-9"}]), None);
    }

    #[test]
    fn a_patch_must_be_a_short_list() {
        assert_eq!(JsonPatch::parse(b"{}").err().map(|e| e.code.as_u16()), Some(400));
        let long = format!("[{}]", vec!["{}"; MAX_OPERATIONS + 1].join(","));
        assert_eq!(JsonPatch::parse(long.as_bytes()).err().map(|e| e.code.as_u16()), Some(413));
    }
}
