//! `AdmissionReview`: the question that a webhook is sent, and its answer.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::StatusCode;
use serde_json::{Value, json};

use super::super::intent::{Form, Intent};
use crate::auth::User;
use crate::status::ApiError;

/// The question about a request in a form.
pub(super) fn question(
    intent: &Intent,
    form: &Form,
    user: &User,
    version: &str,
    uid: &str,
) -> Value {
    let mut request = intent.request(form, user);
    request.insert("uid".to_owned(), uid.into());
    request.insert("object".to_owned(), intent.in_form(&intent.object, form));
    request.insert("oldObject".to_owned(), intent.in_form(&intent.old, form));
    json!({
        "kind": "AdmissionReview",
        "apiVersion": format!("admission.k8s.io/{version}"),
        "request": request,
    })
}

/// What a webhook answers.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Answer {
    pub(super) allowed: bool,
    /// Why not.
    status: Value,
    /// A JSON patch, as text.
    pub(super) patch: Vec<u8>,
    pub(super) patch_type: String,
    pub(super) warnings: Vec<String>,
    pub(super) annotations: Vec<(String, String)>,
}

impl Answer {
    /// Reads an answer to the question with this id; an error says what is wrong with it.
    pub(super) fn read(
        body: &[u8],
        version: &str,
        uid: &str,
        mutating: bool,
    ) -> Result<Self, String> {
        let invalid = |why: String| format!("received invalid webhook response: {why}");
        let review: Value = serde_json::from_slice(body).map_err(|error| {
            format!("failed to call webhook: couldn't get version/kind; json parse error: {error}")
        })?;
        let response = &review["response"];
        if !response.is_object() {
            return Err(invalid("webhook response was absent".to_owned()));
        }
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let patch = STANDARD
            .decode(text(&response["patch"]))
            .map_err(|error| format!("failed to call webhook: {error}"))?;
        let patch_type = response["patchType"].as_str();
        if version == "v1" {
            let got = text(&response["uid"]);
            if got != uid {
                return Err(invalid(format!("expected response.uid={uid:?}, got {got:?}")));
            }
            let wanted = ("admission.k8s.io/v1".to_owned(), "AdmissionReview".to_owned());
            let said = (text(&review["apiVersion"]), text(&review["kind"]));
            if said != wanted {
                return Err(invalid(format!(
                    "expected webhook response of {}, got {}",
                    go_kind(&wanted.0, &wanted.1),
                    go_kind(&said.0, &said.1)
                )));
            }
            let wrong = match (mutating, patch.is_empty(), patch_type) {
                (true, false, None) => {
                    Some("webhook returned response.patch but not response.patchType")
                }
                (true, true, Some(_)) => {
                    Some("webhook returned response.patchType but not response.patch")
                }
                (true, _, Some("")) => Some("webhook returned invalid response.patchType of \"\""),
                (false, false, _) => Some("validating webhook may not return response.patch"),
                (false, _, Some(_)) => Some("validating webhook may not return response.patchType"),
                _ => None,
            };
            if let Some(wrong) = wrong {
                return Err(invalid(wrong.to_owned()));
            }
        }
        let warnings = response["warnings"].as_array().into_iter().flatten();
        let annotations = response["auditAnnotations"].as_object().into_iter().flatten();
        Ok(Self {
            allowed: response["allowed"] == true,
            status: response["status"].clone(),
            patch: if mutating { patch } else { Vec::new() },
            patch_type: patch_type.unwrap_or("JSONPatch").to_owned(),
            warnings: warnings.filter_map(Value::as_str).map(str::to_owned).collect(),
            annotations: annotations
                .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
                .collect(),
        })
    }

    /// The refusal that the webhook wants.
    pub(super) fn refusal(&self, hook: &str) -> ApiError {
        let text = |field: &str| self.status[field].as_str().unwrap_or_default();
        let code = self.status["code"].as_u64().and_then(|code| u16::try_from(code).ok());
        let code = code.and_then(|code| StatusCode::from_u16(code).ok());
        let code = code.filter(|code| code.as_u16() >= 400).unwrap_or(StatusCode::BAD_REQUEST);
        let denied = format!("admission webhook {hook:?} denied the request");
        let message = match (text("message"), text("reason")) {
            ("", "") => format!("{denied} without explanation"),
            ("", reason) => format!("{denied}: {reason}"),
            (message, _) => format!("{denied}: {message}"),
        };
        let details = self.status["details"].as_object().cloned();
        ApiError::of_others(code, text("reason"), message, details)
    }
}

/// A kind in a version as Go prints one.
fn go_kind(api_version: &str, kind: &str) -> String {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    format!("{group}/{version}, Kind={kind}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(response: &Value, mutating: bool) -> Result<Answer, String> {
        let review = json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1",
            "response": response});
        Answer::read(review.to_string().as_bytes(), "v1", "1", mutating)
    }

    #[test]
    fn answers_are_held_to_their_form() {
        let patch = STANDARD.encode("[]");
        let fine = json!({"uid": "1", "allowed": true, "patch": patch, "patchType": "JSONPatch"});
        assert_eq!(read(&fine, true).unwrap().patch, b"[]");
        let why = |response: Value, mutating| read(&response, mutating).unwrap_err();
        assert!(why(json!({"uid": "2"}), true).ends_with("expected response.uid=\"1\", got \"2\""));
        assert!(why(fine, false).ends_with("validating webhook may not return response.patch"));
        assert!(why(Value::Null, true).ends_with("webhook response was absent"));
        let typeless = json!({"uid": "1", "patch": patch});
        assert!(why(typeless, true).ends_with("response.patch but not response.patchType"));
        let other = br#"{"kind": "Status", "apiVersion": "v1", "response": {"uid": "1"}}"#;
        let other = Answer::read(other, "v1", "1", true).unwrap_err();
        assert!(other.ends_with(
            "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got /v1, Kind=Status"
        ));
    }

    #[test]
    fn a_refusal_says_what_the_webhook_says() {
        let denied = |status: Value| {
            read(&json!({"uid": "1", "allowed": false, "status": status}), false)
                .unwrap()
                .refusal("a.b.c")
        };
        let error = denied(json!({"code": 403, "message": "no", "reason": "Forbidden"}));
        assert_eq!((error.code.as_u16(), error.reason), (403, "Forbidden"));
        assert_eq!(error.message, "admission webhook \"a.b.c\" denied the request: no");
        let error = denied(json!({"code": 200}));
        assert_eq!(error.code.as_u16(), 400);
        assert!(error.message.ends_with("without explanation"));
    }
}
