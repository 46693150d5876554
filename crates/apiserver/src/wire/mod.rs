//! What goes over the wire: bodies, media types, and the forms an answer can take.
//!
//! Nothing here knows the store or the rules; it turns finished answers into bytes.

pub(crate) mod age;
pub(crate) mod body;
pub(crate) mod negotiate;
mod present;
mod table;

use bytes::{BufMut, Bytes, BytesMut};
use futures::stream::{BoxStream, StreamExt};
use http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderValue, Response, StatusCode};
use serde_json::{Map, Value, json};

use self::body::ResponseBody;
use self::negotiate::{Encoding, Form};
pub(crate) use self::present::Presenter;
pub(crate) use self::table::Include;
use crate::builtin;
use crate::status::ApiError;
use crate::stored::Stored;

/// What a verb came to, before it is written in the form that the client accepts.
pub(crate) enum Answer {
    /// An object as it lies in the store.
    Stored { code: StatusCode, stored: Stored },
    /// An object of the request's own kind.
    Object { code: StatusCode, object: Map<String, Value> },
    /// An object of another kind, such as a Scale.
    Other { code: StatusCode, object: Map<String, Value> },
    /// A page of a list.
    List(List),
    /// A watch.
    Watch(BoxStream<'static, Bytes>),
    /// A `Status` of success.
    Status(Value),
    /// There is nothing to say.
    Nothing,
}

/// A page of a list.
#[derive(Debug, Default)]
pub(crate) struct List {
    pub(crate) items: Vec<Stored>,
    pub(crate) revision: u64,
    pub(crate) continue_token: Option<String>,
    pub(crate) remaining: Option<usize>,
}

impl List {
    fn metadata(&self) -> Value {
        let mut metadata = json!({"resourceVersion": self.revision.to_string()});
        if let Some(token) = &self.continue_token {
            metadata["continue"] = token.as_str().into();
        }
        if let Some(remaining) = self.remaining {
            metadata["remainingItemCount"] = remaining.into();
        }
        metadata
    }
}

/// Writes a verb's answer.
pub(crate) fn respond(
    answer: Answer,
    presenter: &Presenter,
) -> Result<Response<ResponseBody>, ApiError> {
    let form = presenter.form();
    let mut out = BytesMut::new();
    let code = match answer {
        Answer::Stored { code, stored } => {
            presenter.check_object()?;
            presenter.write(&stored, &mut out)?;
            code
        }
        Answer::Object { code, object } => {
            presenter.check_object()?;
            presenter.write_object(Value::Object(object), &mut out)?;
            code
        }
        Answer::Other { code, object } => {
            present::plain(&Value::Object(object), &mut out)?;
            code
        }
        Answer::Status(status) => {
            present::plain(&status, &mut out)?;
            StatusCode::OK
        }
        Answer::List(list) => {
            presenter.write_list(&list, &mut out)?;
            StatusCode::OK
        }
        Answer::Nothing => {
            let mut response = Response::new(ResponseBody::Full(Bytes::new()));
            *response.status_mut() = StatusCode::NO_CONTENT;
            let keep = HeaderValue::from_static("no-cache, private");
            response.headers_mut().insert(CACHE_CONTROL, keep);
            return Ok(response);
        }
        Answer::Watch(stream) => {
            let stream = match form.encoding {
                Encoding::Protobuf => stream.map(|frame| events_as_protobuf(&frame)).boxed(),
                Encoding::Json | Encoding::Yaml => stream,
            };
            let body = ResponseBody::Stream(stream);
            return Ok(response(StatusCode::OK, form.encoding.stream_type(), body));
        }
    };
    out.put_u8(b'\n');
    encode(code, out.freeze(), form)
}

/// JSON bytes in the encoding that the client accepts.
fn encode(code: StatusCode, json: Bytes, form: Form) -> Result<Response<ResponseBody>, ApiError> {
    let body = match form.encoding {
        Encoding::Json => json,
        Encoding::Yaml => yaml(&json)?,
        Encoding::Protobuf => protobuf(&json)?,
    };
    Ok(response(code, form.encoding.content_type(), ResponseBody::Full(body)))
}

fn yaml(json: &[u8]) -> Result<Bytes, ApiError> {
    let value: Value = serde_json::from_slice(json).map_err(ApiError::internal)?;
    serde_saphyr::to_string(&value).map(Bytes::from).map_err(ApiError::internal)
}

fn protobuf(json: &[u8]) -> Result<Bytes, ApiError> {
    let value: Value = serde_json::from_slice(json).map_err(ApiError::internal)?;
    builtin::to_protobuf(&value).map(Bytes::from).map_err(ApiError::internal)
}

/// A frame of a watch, whose events are lines. One that has no message cannot come about: only kinds
/// that have one are watched so.
fn events_as_protobuf(frame: &[u8]) -> Bytes {
    let lines = frame.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let events = lines.filter_map(|line| {
        let event: Value = serde_json::from_slice(line).ok()?;
        builtin::event_to_protobuf(&event).ok()
    });
    events.flatten().collect()
}

/// A document that is not a resource's: discovery, version.
pub(crate) fn document(value: &Value, form: Form) -> Result<Response<ResponseBody>, ApiError> {
    encode(StatusCode::OK, Bytes::from(format!("{value}\n")), form)
}

/// A JSON document under a media type of its own.
pub(crate) fn document_as(content_type: &'static str, value: &Value) -> Response<ResponseBody> {
    response(StatusCode::OK, content_type, ResponseBody::Full(Bytes::from(format!("{value}\n"))))
}

/// Plain text.
pub(crate) fn text(text: impl Into<Bytes>) -> Response<ResponseBody> {
    response(StatusCode::OK, "text/plain; charset=utf-8", ResponseBody::Full(text.into()))
}

/// Bytes that are made as they are sent.
pub(crate) fn bytes(
    chunks: impl Iterator<Item = Bytes> + Send + 'static,
) -> Response<ResponseBody> {
    let body = ResponseBody::Stream(futures::stream::iter(chunks).boxed());
    response(StatusCode::OK, "application/octet-stream", body)
}

/// The answer for a path that nobody knows.
pub(crate) fn no_page() -> Response<ResponseBody> {
    let mut response = guarded(text("404 page not found\n"));
    *response.status_mut() = StatusCode::NOT_FOUND;
    response
}

/// The answer to one request too many.
pub(crate) fn too_many() -> Response<ResponseBody> {
    let mut response = guarded(text("Too many requests, please try again later.\n"));
    *response.status_mut() = StatusCode::TOO_MANY_REQUESTS;
    response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(1));
    response
}

/// A refusal.
pub(crate) fn refuse(error: &ApiError, form: Form) -> Response<ResponseBody> {
    let json = Bytes::from(format!("{}\n", error.to_value()));
    let fallback = json.clone();
    let mut response = encode(error.code, json, form)
        .unwrap_or_else(|_| response(error.code, "application/json", ResponseBody::Full(fallback)));
    if let Some(seconds) = error.retry_after() {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    if error.echoes() { guarded(response) } else { response }
}

/// Forbids browsers to guess what an answer is.
pub(crate) fn guarded(mut response: Response<ResponseBody>) -> Response<ResponseBody> {
    response.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

fn response(
    code: StatusCode,
    content_type: &'static str,
    body: ResponseBody,
) -> Response<ResponseBody> {
    let mut response = Response::new(body);
    *response.status_mut() = code;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    response
}
