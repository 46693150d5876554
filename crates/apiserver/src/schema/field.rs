//! Field paths and field errors, in the words that every Kubernetes client already shows.

use std::fmt;

use serde_json::Value;

use super::print;

/// A path such as `spec.containers[0].env[name]`; the root prints as nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FieldPath(String);

impl FieldPath {
    /// The object itself.
    pub fn root() -> Self {
        Self::default()
    }

    /// The named field below this one.
    #[must_use]
    pub fn child(&self, name: &str) -> Self {
        if self.0.is_empty() { Self(name.to_owned()) } else { Self(format!("{}.{name}", self.0)) }
    }

    /// The list item below this one.
    #[must_use]
    pub fn index(&self, index: usize) -> Self {
        Self(format!("{}[{index}]", self.0))
    }

    /// Whether this is the other path or one below it.
    pub fn is_within(&self, other: &Self) -> bool {
        let rest = self.0.strip_prefix(&other.0);
        other.0.is_empty()
            || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
    }

    /// The printed form, empty for the object itself.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// The map entry below this one.
    #[must_use]
    pub fn key(&self, key: &str) -> Self {
        Self(format!("{}[{key}]", self.0))
    }
}

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() { f.write_str("<nil>") } else { f.write_str(&self.0) }
    }
}

/// What is wrong with a field; the names are the `reason` of a `Status` cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the names are Kubernetes' own")]
pub enum ErrorKind {
    Required,
    Invalid,
    TypeInvalid,
    NotSupported,
    Duplicate,
    Forbidden,
    TooLong,
    TooMany,
    NotFound,
    Internal,
}

impl ErrorKind {
    /// The cause's `reason`, as in `FieldValueRequired`.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Required => "FieldValueRequired",
            Self::Invalid => "FieldValueInvalid",
            Self::TypeInvalid => "FieldValueTypeInvalid",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Duplicate => "FieldValueDuplicate",
            Self::Forbidden => "FieldValueForbidden",
            Self::TooLong => "FieldValueTooLong",
            Self::TooMany => "FieldValueTooMany",
            Self::NotFound => "FieldValueNotFound",
            Self::Internal => "InternalError",
        }
    }

    fn title(self) -> &'static str {
        match self {
            Self::Required => "Required value",
            Self::Invalid | Self::TypeInvalid => "Invalid value",
            Self::NotSupported => "Unsupported value",
            Self::Duplicate => "Duplicate value",
            Self::Forbidden => "Forbidden",
            Self::TooLong => "Too long",
            Self::TooMany => "Too many",
            Self::NotFound => "Not found",
            Self::Internal => "Internal error",
        }
    }
}

/// One thing wrong with one field: a cause of a 422 answer.
#[derive(Debug, Clone, PartialEq)]
pub struct FieldError {
    /// What kind of wrong.
    pub kind: ErrorKind,
    /// Where.
    pub path: FieldPath,
    /// The offending value; printed only for the kinds whose message shows it.
    pub value: Option<Value>,
    /// The words after the value.
    pub detail: String,
}

impl FieldError {
    /// An error of any kind; the shown value is left out where upstream leaves it out.
    pub fn new(kind: ErrorKind, path: FieldPath, value: Option<Value>, detail: &str) -> Self {
        Self { kind, path, value, detail: detail.to_owned() }
    }

    /// A field that must be there and is not.
    pub fn required(path: FieldPath, detail: impl Into<String>) -> Self {
        Self { kind: ErrorKind::Required, path, value: None, detail: detail.into() }
    }

    /// A value that breaks a rule.
    pub fn invalid(path: FieldPath, value: impl Into<Value>, detail: impl Into<String>) -> Self {
        Self { kind: ErrorKind::Invalid, path, value: Some(value.into()), detail: detail.into() }
    }

    /// A value that breaks a rule, printed by the caller: upstream shows its own form of it.
    pub fn invalid_as(path: FieldPath, shown: &str, detail: &str) -> Self {
        let detail = format!("{shown}: {detail}");
        Self { kind: ErrorKind::Invalid, path, value: None, detail }
    }

    /// A field that must not be set as things are.
    pub fn forbidden(path: FieldPath, detail: impl Into<String>) -> Self {
        Self { kind: ErrorKind::Forbidden, path, value: None, detail: detail.into() }
    }

    /// A value that is there twice.
    pub fn duplicate(path: FieldPath, value: impl Into<Value>) -> Self {
        Self { kind: ErrorKind::Duplicate, path, value: Some(value.into()), detail: String::new() }
    }

    /// A value outside a closed list.
    pub fn not_supported<S: AsRef<str>>(
        path: FieldPath,
        value: impl Into<Value>,
        supported: &[S],
    ) -> Self {
        let mut detail = String::new();
        for (i, one) in supported.iter().enumerate() {
            detail.push_str(if i == 0 { "supported values: " } else { ", " });
            detail.push_str(&print::quote(one.as_ref()));
        }
        Self { kind: ErrorKind::NotSupported, path, value: Some(value.into()), detail }
    }

    /// A text longer than the given number of bytes.
    pub fn too_long(path: FieldPath, limit: u64) -> Self {
        let unit = if limit == 1 { "byte" } else { "bytes" };
        let detail = format!("may not be more than {limit} {unit}");
        Self { kind: ErrorKind::TooLong, path, value: None, detail }
    }

    /// A list or map with more entries than the limit.
    pub fn too_many(path: FieldPath, actual: u64, limit: u64) -> Self {
        let unit = if limit == 1 { "item" } else { "items" };
        let detail = format!("must have at most {limit} {unit}");
        Self { kind: ErrorKind::TooMany, path, value: Some(actual.into()), detail }
    }

    /// The message without the path, as a `Status` cause carries it.
    pub fn body(&self) -> String {
        let title = self.kind.title();
        let shown = match self.kind {
            ErrorKind::Required
            | ErrorKind::Forbidden
            | ErrorKind::TooLong
            | ErrorKind::Internal => None,
            _ => self.value.as_ref(),
        };
        let mut out = title.to_owned();
        if let Some(value) = shown {
            out.push_str(": ");
            out.push_str(&print::shown(value));
        }
        if !self.detail.is_empty() {
            out.push_str(": ");
            out.push_str(&self.detail);
        }
        out
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.body())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_path_is_within_itself_and_those_above() {
        let root = FieldPath::root();
        let (a, ab) = (root.child("a"), root.child("ab"));
        assert!(a.is_within(&root) && a.is_within(&a) && a.index(0).is_within(&a));
        assert!(a.child("b").is_within(&a) && !ab.is_within(&a) && !a.is_within(&ab));
    }

    #[test]
    fn errors_read_as_upstream() {
        let path = || FieldPath::root().child("spec").key("a").index(3);
        for (error, expect) in [
            (FieldError::required(path(), ""), "spec[a][3]: Required value"),
            (FieldError::required(path(), "x"), "spec[a][3]: Required value: x"),
            (FieldError::invalid(path(), "q\"", "bad"), r#"spec[a][3]: Invalid value: "q\"": bad"#),
            (FieldError::invalid(FieldPath::root(), 5, "bad"), "<nil>: Invalid value: 5: bad"),
            (
                FieldError::duplicate(path(), json!({"a": 1})),
                r#"spec[a][3]: Duplicate value: {"a":1}"#,
            ),
            (
                FieldError::not_supported(path(), "z", &["a", "b"]),
                r#"spec[a][3]: Unsupported value: "z": supported values: "a", "b""#,
            ),
            (FieldError::too_long(path(), 1), "spec[a][3]: Too long: may not be more than 1 byte"),
            (
                FieldError::too_many(path(), 3, 2),
                "spec[a][3]: Too many: 3: must have at most 2 items",
            ),
            (FieldError::forbidden(path(), "no"), "spec[a][3]: Forbidden: no"),
        ] {
            assert_eq!(error.to_string(), expect);
        }
    }
}
