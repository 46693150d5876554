//! Request bodies: JSON, YAML where a client may send it, and the envelope of protobuf bodies.
//!
//! The reader guarantees what a kube-apiserver's does: the last of several equal fields wins and
//! each repetition is reported by its path; a number without a point that fits an `i64` is an
//! integer and any other a float; broken UTF-8 becomes U+FFFD; refusals carry Go's words. It is
//! stricter in one thing: values nest at most [`MAX_DEPTH`] levels, not 10,000, so that the object,
//! its managed fields and a list around them stay readable within serde_json's own 128 levels.
//!
//! YAML is read as YAML 1.1 as far as the library goes (`yes` and `on` are booleans, `017` is 15).
//! Error texts of the YAML parser are the library's own, behind upstream's `yaml: ` prefix.

mod json;
pub(crate) mod wire;
mod yaml;

use serde_json::{Number, Value};

use crate::schema::print;

/// How deep objects and arrays may nest.
pub const MAX_DEPTH: usize = 100;

/// A body that was read.
#[derive(Debug, Clone, PartialEq)]
pub struct Decoded {
    /// The value; of equal fields the last.
    pub value: Value,
    /// The strict decoding errors, such as `duplicate field "spec.a"`: at most 100, each once.
    pub duplicates: Vec<String>,
}

/// Why a body cannot be read; the texts are what clients see.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum DecodeError {
    /// The body is not JSON.
    #[error("{0}")]
    ParseJson(String),
    /// A number that no float can hold, in a body that is otherwise fine.
    #[error("json: cannot unmarshal number {literal} into Go value of type float64")]
    ReadNumber {
        /// The number as sent.
        literal: String,
        /// What the body says of itself, as far as it does.
        about: TypeMeta,
    },
    /// The body is no protobuf message in upstream's envelope.
    #[error("{0}")]
    ParseProtobuf(String),
    /// The body is not YAML.
    #[error("yaml: {0}")]
    ParseYaml(String),
    /// A YAML number that JSON cannot say.
    #[error("json: unsupported value: {0}")]
    ConvertYaml(String),
    /// The body's top is no object, or `apiVersion` or `kind` is no string.
    #[error("couldn't get version/kind; json parse error: json: cannot unmarshal {0}")]
    ReadTypeMeta(String),
    /// The `apiVersion` has more than one slash.
    #[error("unexpected GroupVersion string: {0}")]
    ReadGroupVersion(String),
    /// The body does not name its kind.
    #[error("Object 'Kind' is missing in '{0}'")]
    FindKind(String),
}

/// What an object says it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TypeMeta {
    /// `group/version`, or the version alone for the core group.
    pub api_version: String,
    /// The kind.
    pub kind: String,
}

impl DecodeError {
    /// The message of the 400 answer to a body that should have held an object of a kind.
    pub fn refusal(&self, kind: &str, body: &[u8]) -> String {
        match self {
            Self::ReadNumber { about, .. } if !about.kind.is_empty() => {
                let version = about.api_version.rsplit('/').next().unwrap_or_default();
                mismatch(&about.kind, version, kind, self)
            }
            Self::ParseJson(_) => unrecognized(
                kind,
                &format!("couldn't get version/kind; json parse error: {self}"),
                body,
            ),
            _ => unrecognized(kind, &self.to_string(), body),
        }
    }
}

/// What clients are warned of: of a complaint of several lines, the first says only that others
/// follow.
pub(crate) fn warnings(problem: &str) -> Vec<String> {
    let skipped = usize::from(problem.contains('\n'));
    problem.lines().skip(skipped).map(|line| line.trim().to_owned()).collect()
}

/// The message of the 400 answer to duplicate and unknown fields under strict field validation.
pub fn strict_refusal(about: &TypeMeta, kind: &str, problems: &[String]) -> String {
    let version = about.api_version.rsplit('/').next().unwrap_or_default();
    let why = format!("strict decoding error: {}", problems.join(", "));
    mismatch(&about.kind, version, kind, &why)
}

pub(crate) fn mismatch(
    found: &str,
    version: &str,
    kind: &str,
    why: impl std::fmt::Display,
) -> String {
    format!("{found} in version {} cannot be handled as a {kind}: {why}", print::quote(version))
}

fn unrecognized(kind: &str, why: &str, body: &[u8]) -> String {
    format!(
        "the object provided is unrecognized (must be of type {kind}): {why} ({})",
        summary(body)
    )
}

/// The start of a body, as hexadecimal digits unless it looks like an object.
fn summary(body: &[u8]) -> String {
    let Some(first) = body.first() else {
        return "<empty>".to_owned();
    };
    let start = body.get(..30).unwrap_or(body);
    let mut out = if *first == b'{' {
        String::from_utf8_lossy(start).into_owned()
    } else {
        start.iter().map(|byte| format!("{byte:02x}")).collect()
    };
    if start.len() < body.len() {
        out.push_str(" ...");
    }
    out
}

/// Reads a JSON body.
pub fn json(body: &[u8]) -> Result<Decoded, DecodeError> {
    json::decode(body, json::Again::Replaces)
}

/// Reads a JSON body as of a built-in kind: of equal fields that hold objects both count.
pub(crate) fn json_of_built_in(body: &[u8]) -> Result<Decoded, DecodeError> {
    json::decode(body, json::Again::Merges)
}

/// Reads a YAML body: the first document of it. JSON is YAML, and read as JSON.
pub fn yaml(body: &[u8]) -> Result<Decoded, DecodeError> {
    if body.trim_ascii_start().first() == Some(&b'{')
        && let Ok(decoded) = json(body)
    {
        return Ok(decoded);
    }
    yaml::decode(body)
}

/// Opens the envelope of a protobuf body: what it says that it is, and the object's message.
pub(crate) fn protobuf(body: &[u8]) -> Result<(TypeMeta, &[u8]), DecodeError> {
    wire::envelope(body).map_err(DecodeError::ParseProtobuf)
}

/// What the body says it is; an error where a kube-apiserver cannot tell either.
pub fn type_meta(value: &Value, body: &[u8]) -> Result<TypeMeta, DecodeError> {
    const TARGET: &str = "struct { APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; \
                          Kind string \"json:\\\"kind,omitempty\\\"\" }";
    let text = |field: &str| match value.get(field) {
        None | Some(Value::Null) => Ok(String::new()),
        Some(Value::String(text)) => Ok(text.clone()),
        Some(other) => Err(DecodeError::ReadTypeMeta(format!(
            "{} into Go struct field .{field} of type string",
            go_kind(other)
        ))),
    };
    if !matches!(value, Value::Object(_) | Value::Null) {
        let what = format!("{} into Go value of type {TARGET}", go_kind(value));
        return Err(DecodeError::ReadTypeMeta(what));
    }
    let about = TypeMeta { api_version: text("apiVersion")?, kind: text("kind")? };
    if about.api_version.matches('/').count() > 1 {
        return Err(DecodeError::ReadGroupVersion(about.api_version));
    }
    if about.kind.is_empty() {
        return Err(DecodeError::FindKind(String::from_utf8_lossy(body).into_owned()));
    }
    Ok(about)
}

/// The JSON type in the words of Go's decoder.
pub(crate) fn go_kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Makes whole floats integers, as writing to the store and reading back does upstream.
pub fn settle_numbers(value: &mut Value) {
    match value {
        Value::Number(number) => {
            if let Some(float) = number.as_f64()
                && number.is_f64()
                && let Some(whole) = whole(float)
            {
                *number = Number::from(whole);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(settle_numbers),
        Value::Object(map) => map.values_mut().for_each(settle_numbers),
        _ => {}
    }
}

fn whole(float: f64) -> Option<i64> {
    const BEYOND: f64 = 9_223_372_036_854_775_808.0;
    // The cast is exact: whole, and within the range of an i64.
    (float.fract() == 0.0 && (-BEYOND..BEYOND).contains(&float)).then_some(float as i64)
}

/// The path of the field being read, and the repetitions found so far.
#[derive(Debug, Default)]
struct Repetitions {
    path: String,
    found: Vec<String>,
    seen: std::collections::HashSet<String>,
}

impl Repetitions {
    const LIMIT: usize = 100;

    fn enter_key(&mut self, key: &str) -> usize {
        let mark = self.path.len();
        if mark > 0 {
            self.path.push('.');
        }
        self.path.push_str(key);
        mark
    }

    fn enter_index(&mut self, index: usize) -> usize {
        let mark = self.path.len();
        self.path.push_str(&format!("[{index}]"));
        mark
    }

    fn leave(&mut self, mark: usize) {
        self.path.truncate(mark);
    }

    /// Notes that the field at the current path was there before; the text says so.
    fn note(&mut self, text: impl FnOnce(&str) -> String) {
        if self.found.len() < Self::LIMIT && self.seen.insert(self.path.clone()) {
            self.found.push(text(&self.path));
        }
    }
}

#[cfg(test)]
mod tests;
