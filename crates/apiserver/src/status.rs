//! `metav1.Status`: how the API says no (and, after a delete, yes).
//!
//! One constructor per kind of answer, so that code, reason, message and details agree with what a
//! kube-apiserver says. An [`ApiError`] is data: nothing here writes to the wire.

use http::StatusCode;
use serde_json::{Map, Value, json};

use crate::resource::{GroupKind, GroupResource};
use crate::schema::field::FieldError;

/// A refused request: everything a client sees of it.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct ApiError {
    /// The HTTP status.
    pub code: StatusCode,
    /// The machine-readable reason, such as `AlreadyExists`; empty for a few.
    pub reason: &'static str,
    /// The sentence people read.
    pub message: String,
    details: Option<Box<Map<String, Value>>>,
    retry_after: Option<u32>,
    continue_token: Option<String>,
    echoes: bool,
}

impl ApiError {
    fn new(code: StatusCode, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            reason,
            message: message.into(),
            details: None,
            retry_after: None,
            continue_token: None,
            echoes: false,
        }
    }

    fn detail(mut self, key: &str, value: impl Into<Value>) -> Self {
        let value = value.into();
        if value != json!("") {
            self.details.get_or_insert_default().insert(key.to_owned(), value);
        }
        self
    }

    fn about(self, resource: &GroupResource, name: &str) -> Self {
        self.detail("name", name)
            .detail("group", &*resource.group)
            .detail("kind", &*resource.resource)
    }

    /// Adds a cause to the details.
    #[must_use]
    pub fn cause(mut self, reason: &str, message: &str, field: &str) -> Self {
        let mut cause = Map::new();
        for (key, text) in [("reason", reason), ("message", message), ("field", field)] {
            if !text.is_empty() {
                cause.insert(key.to_owned(), text.into());
            }
        }
        let details = self.details.get_or_insert_default();
        let causes = details.entry("causes").or_insert_with(|| json!([]));
        if let Some(causes) = causes.as_array_mut() {
            causes.push(cause.into());
        }
        self
    }

    /// 400: the request makes no sense as sent.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "BadRequest", message)
    }

    /// 401: a credential was sent and is not valid.
    pub fn unauthorized() -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "Unauthorized", "Unauthorized")
    }

    /// 403 for a resource request; `message` is the whole sentence.
    pub fn forbidden(resource: &GroupResource, name: &str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "Forbidden", message).about(resource, name)
    }

    /// 403 for a path that names no resource.
    pub fn forbidden_path(message: impl Into<String>) -> Self {
        let mut error = Self::new(StatusCode::FORBIDDEN, "Forbidden", message);
        error.details = Some(Box::default());
        error
    }

    /// 404: there is no such object.
    pub fn not_found(resource: &GroupResource, name: &str) -> Self {
        Self::new(StatusCode::NOT_FOUND, "NotFound", format!("{resource} \"{name}\" not found"))
            .about(resource, name)
    }

    /// 404: there is no such resource, or the method means nothing on this path.
    pub fn no_such_resource() -> Self {
        Self::new(
            StatusCode::NOT_FOUND,
            "NotFound",
            "the server could not find the requested resource",
        )
        .with_empty_details()
    }

    pub(crate) fn with_empty_details(mut self) -> Self {
        self.details = Some(Box::default());
        self
    }

    /// 405: the resource does not know this verb.
    pub fn method_not_allowed(resource: &GroupResource, verb: &str) -> Self {
        Self::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "MethodNotAllowed",
            format!("{verb} is not supported on resources of kind \"{resource}\""),
        )
        .detail("group", &*resource.group)
        .detail("kind", &*resource.resource)
    }

    /// 405: the path exists, but not for this method.
    pub fn no_such_method() -> Self {
        Self::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "MethodNotAllowed",
            "the server does not allow this method on the requested resource",
        )
        .with_empty_details()
    }

    /// 406: the path answers in none of the forms that the client accepts.
    pub fn no_representation(available: &str) -> Self {
        Self::new(
            StatusCode::NOT_ACCEPTABLE,
            "NotAcceptable",
            format!("406: Not Acceptable\n\nAvailable representations: {available}"),
        )
        .with_empty_details()
    }

    /// 406: the view that the client asks for does not fit the object.
    pub fn no_such_view(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_ACCEPTABLE, "NotAcceptable", message)
    }

    /// 406: no representation that the client accepts.
    pub fn not_acceptable(accepted: &str) -> Self {
        Self::new(
            StatusCode::NOT_ACCEPTABLE,
            "NotAcceptable",
            format!("only the following media types are accepted: {accepted}"),
        )
    }

    /// 409: the name is taken.
    pub fn already_exists(resource: &GroupResource, name: &str) -> Self {
        Self::new(
            StatusCode::CONFLICT,
            "AlreadyExists",
            format!("{resource} \"{name}\" already exists"),
        )
        .about(resource, name)
    }

    /// 409: the object is not what the client thinks it is.
    pub fn conflict(resource: &GroupResource, name: &str, why: &str) -> Self {
        Self::new(
            StatusCode::CONFLICT,
            "Conflict",
            format!("Operation cannot be fulfilled on {resource} \"{name}\": {why}"),
        )
        .about(resource, name)
    }

    /// 409: somebody wrote in between.
    pub fn modified(resource: &GroupResource, name: &str) -> Self {
        Self::conflict(
            resource,
            name,
            "the object has been modified; please apply your changes to the latest version and try again",
        )
    }

    /// 409 of server-side apply: other managers own the fields. `causes` pairs message and field.
    pub fn apply_conflict(
        message: &str,
        causes: impl IntoIterator<Item = (String, String)>,
    ) -> Self {
        let error = Self::new(StatusCode::CONFLICT, "Conflict", message);
        causes.into_iter().fold(error, |error, (message, field)| {
            error.cause("FieldManagerConflict", &message, &field)
        })
    }

    /// 410: the revision is no longer kept.
    pub fn expired(message: impl Into<String>) -> Self {
        Self::new(StatusCode::GONE, "Expired", message)
    }

    /// 413: the body is larger than the server reads.
    pub fn body_too_large(limit: usize) -> Self {
        Self::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "RequestEntityTooLarge",
            format!("Request entity too large: limit is {limit}"),
        )
    }

    /// 415: a body in a form that this endpoint does not read.
    pub fn unsupported_media_type(accepted: &str) -> Self {
        Self::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "UnsupportedMediaType",
            format!(
                "the body of the request was in an unknown format - accepted media types include: {accepted}"
            ),
        )
    }

    /// 415 for a patch whose type nobody knows.
    pub fn unknown_patch_type() -> Self {
        Self::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "UnsupportedMediaType",
            "415: Unsupported Media Type",
        )
        .with_empty_details()
    }

    /// 422: the object breaks its kind's rules. There is at least one error.
    pub fn invalid(kind: &GroupKind, name: &str, errors: &[FieldError]) -> Self {
        // The sentence says each thing once; the causes keep what upstream finds twice.
        let mut sentences: Vec<String> = Vec::new();
        for sentence in errors.iter().map(ToString::to_string) {
            if !sentences.contains(&sentence) {
                sentences.push(sentence);
            }
        }
        let list = match sentences.as_slice() {
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        let error = Self::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            "Invalid",
            format!("{kind} \"{name}\" is invalid: {list}"),
        )
        .detail("name", name)
        .detail("group", &*kind.group)
        .detail("kind", &*kind.kind);
        errors
            .iter()
            .fold(error, |error, e| error.cause(e.kind.reason(), &e.body(), &e.path.to_string()))
    }

    /// 429: the server will not do this now; ask again after the given seconds, or after 0 whenever
    /// something may have changed.
    pub fn too_many_requests(message: &str, retry_after_seconds: u32) -> Self {
        let error = Self::new(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests", message);
        if retry_after_seconds == 0 {
            return error.with_empty_details();
        }
        let mut error = error.detail("retryAfterSeconds", retry_after_seconds);
        error.retry_after = Some(retry_after_seconds);
        error
    }

    /// 500: our fault, or the disk's.
    pub fn internal(message: impl std::fmt::Display) -> Self {
        Self::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "InternalError",
            format!("Internal error occurred: {message}"),
        )
        .cause("", &message.to_string(), "")
    }

    /// 504: the client asks for a revision that has not happened yet.
    pub fn future_revision(asked: u64, current: u64) -> Self {
        let mut error = Self::new(
            StatusCode::GATEWAY_TIMEOUT,
            "Timeout",
            format!("Timeout: Too large resource version: {asked}, current: {current}"),
        )
        .cause("ResourceVersionTooLarge", "Too large resource version", "")
        .detail("retryAfterSeconds", 1);
        error.retry_after = Some(1);
        error
    }

    /// What somebody else refuses in the server's name; a reason that the API does not have is left
    /// out.
    pub(crate) fn of_others(
        code: StatusCode,
        reason: &str,
        message: String,
        details: Option<Map<String, Value>>,
    ) -> Self {
        const REASONS: [&str; 17] = [
            "Unauthorized",
            "Forbidden",
            "NotFound",
            "AlreadyExists",
            "Conflict",
            "Gone",
            "Invalid",
            "ServerTimeout",
            "Timeout",
            "TooManyRequests",
            "BadRequest",
            "MethodNotAllowed",
            "NotAcceptable",
            "RequestEntityTooLarge",
            "UnsupportedMediaType",
            "InternalError",
            "ServiceUnavailable",
        ];
        let reason = REASONS.into_iter().find(|known| *known == reason).unwrap_or_default();
        let mut error = Self::new(code, reason, message);
        error.details = details.map(Box::new);
        error
    }

    /// A refusal without details: code, reason and sentence.
    pub fn generic(code: StatusCode, reason: &'static str, message: &str) -> Self {
        Self::new(code, reason, message)
    }

    /// 500 without a reason, which is how upstream passes on an error that it has no name for.
    pub fn unexplained(message: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "", message)
    }

    /// Adds the token with which a client may go on inconsistently.
    #[must_use]
    pub fn with_continue(mut self, token: String) -> Self {
        self.continue_token = Some(token);
        self
    }

    /// Marks a sentence that repeats what the request said.
    #[must_use]
    pub fn echoing(mut self) -> Self {
        self.echoes = true;
        self
    }

    /// Whether no browser may guess the type of the answer, because its sentence repeats what the
    /// request said.
    pub fn echoes(&self) -> bool {
        self.echoes
    }

    /// Seconds for the `Retry-After` header.
    pub fn retry_after(&self) -> Option<u32> {
        self.retry_after
    }

    /// The `Status` object.
    pub fn to_value(&self) -> Value {
        let mut status = json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "code": self.code.as_u16(),
        });
        if !self.reason.is_empty() {
            status["reason"] = self.reason.into();
        }
        if let Some(token) = &self.continue_token {
            status["metadata"]["continue"] = token.as_str().into();
        }
        if let Some(details) = &self.details {
            status["details"] = Value::Object((**details).clone());
        }
        status
    }
}

/// The `Status` that answers a finished delete.
pub fn deleted(resource: &GroupResource, name: &str, uid: &str) -> Value {
    let mut details = Map::new();
    for (key, text) in
        [("name", name), ("group", &resource.group), ("kind", &resource.resource), ("uid", uid)]
    {
        if !text.is_empty() {
            details.insert(key.to_owned(), text.into());
        }
    }
    json!({
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": details,
    })
}
