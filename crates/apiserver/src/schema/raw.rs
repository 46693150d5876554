//! A CRD's schema as the client wrote it: what the checks of a schema look at.
//!
//! The typed [`Schema`](super::Schema) has no room for what a schema must not say; this view has.
//! A missing, null or wrongly typed field reads as an empty one.

use serde_json::{Map, Value};

use super::field::FieldPath;

/// One node of a schema.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Raw<'a>(pub(super) &'a Value);

impl<'a> Raw<'a> {
    /// A field that is there and not null.
    pub(super) fn get(self, key: &str) -> Option<&'a Value> {
        self.0.get(key).filter(|value| !value.is_null())
    }

    pub(super) fn text(self, key: &str) -> &'a str {
        self.get(key).and_then(Value::as_str).unwrap_or_default()
    }

    pub(super) fn flag(self, key: &str) -> bool {
        self.get(key).and_then(Value::as_bool).unwrap_or_default()
    }

    pub(super) fn list(self, key: &str) -> &'a [Value] {
        self.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }

    pub(super) fn texts(self, key: &str) -> impl Iterator<Item = &'a str> {
        self.list(key).iter().filter_map(Value::as_str)
    }

    pub(super) fn map(self, key: &str) -> Option<&'a Map<String, Value>> {
        self.get(key).and_then(Value::as_object).filter(|map| !map.is_empty())
    }

    /// Whether the field holds anything but the empty value of its kind.
    pub(super) fn has(self, key: &str) -> bool {
        match self.get(key) {
            None => false,
            Some(Value::Bool(flag)) => *flag,
            Some(Value::String(text)) => !text.is_empty(),
            Some(Value::Array(items)) => !items.is_empty(),
            Some(Value::Object(map)) => !map.is_empty(),
            Some(Value::Number(_) | Value::Null) => true,
        }
    }

    pub(super) fn ty(self) -> &'a str {
        self.text("type")
    }

    pub(super) fn properties(self) -> impl Iterator<Item = (&'a String, Self)> {
        self.map("properties").into_iter().flatten().map(|(key, value)| (key, Self(value)))
    }

    pub(super) fn property(self, key: &str) -> Option<Self> {
        self.map("properties")?.get(key).map(Self)
    }

    /// The schema of the items, where there is one for all.
    pub(super) fn items(self) -> Option<Self> {
        self.schema("items")
    }

    /// The schema of a map's values.
    pub(super) fn values(self) -> Option<Self> {
        self.schema("additionalProperties")
    }

    /// A field that holds a schema.
    pub(super) fn schema(self, key: &str) -> Option<Self> {
        self.get(key).filter(|value| value.is_object()).map(Self)
    }

    /// The schemas of `allOf`, `anyOf` or `oneOf`, each with its path.
    pub(super) fn all(
        self,
        key: &'static str,
        at: &FieldPath,
    ) -> impl Iterator<Item = (Self, FieldPath)> {
        let at = at.child(key);
        self.list(key).iter().enumerate().map(move |(i, one)| (Self(one), at.index(i)))
    }

    /// Whether the node or one below it, however it stands there, has a property.
    pub(super) fn any(self, holds: &impl Fn(Self) -> bool) -> bool {
        if holds(self) {
            return true;
        }
        let lists = ["items", "allOf", "anyOf", "oneOf"];
        let singles = ["items", "not", "additionalProperties", "additionalItems"];
        let maps = ["properties", "patternProperties", "definitions", "dependencies"];
        lists.iter().any(|key| self.list(key).iter().any(|one| Self(one).any(holds)))
            || singles.iter().any(|key| self.schema(key).is_some_and(|one| one.any(holds)))
            || maps.iter().any(|key| {
                let mut below = self.map(key).into_iter().flatten();
                below.any(|(_, one)| Self(one).any(holds))
            })
    }
}

/// The path and the schema that a simple path such as `.spec.a` or `.spec['a']` leads to.
pub(super) fn follow<'a>(
    path: &str,
    schema: Raw<'a>,
    brackets: bool,
) -> Result<(FieldPath, Raw<'a>), String> {
    const NOWHERE: &str = "does not refer to a valid field";
    let mut at = FieldPath::root();
    let mut schema = schema;
    let mut tokens = tokens(path).into_iter();
    let mut next = || tokens.next();
    while let Some(token) = next() {
        let end = || "unexpected end of JSON path".to_owned();
        let name = match token {
            "[" if !brackets => return Err("array notation is not allowed".to_owned()),
            "[" => {
                let quoted = next().ok_or_else(end)?;
                let inner = quoted.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\''));
                let Some(inner) = inner else {
                    return Err(format!("expected single quoted string but got {quoted}"));
                };
                let close = next().ok_or_else(end)?;
                if close != "]" {
                    return Err(format!("expected ] but got {close}"));
                }
                inner.replace("\\'", "'").replace("\\\\", "\\")
            }
            "." => next().ok_or_else(end)?.to_owned(),
            other => return Err(format!("expected [ or . but got: {other}")),
        };
        if schema.map("properties").is_some() {
            at = at.child(&name);
            schema = schema.property(&name).ok_or(NOWHERE)?;
        } else {
            at = at.key(&name);
            schema = schema.values().ok_or(NOWHERE)?;
        }
    }
    Ok((at, schema))
}

/// Dots, brackets, quoted strings and what is between them.
fn tokens(path: &str) -> Vec<&str> {
    let mut out = Vec::new();
    let mut rest = path;
    while let Some(first) = rest.chars().next() {
        let end = match first {
            '.' | '[' | ']' => 1,
            '\'' => {
                let close = rest.char_indices().skip(1).find(|(at, c)| {
                    *c == '\'' && rest.as_bytes().get(at.wrapping_sub(1)) != Some(&b'\\')
                });
                close.map_or(rest.len(), |(at, _)| at + 1)
            }
            _ => rest.find(['.', '[', ']']).unwrap_or(rest.len()),
        };
        let (token, behind) = rest.split_at(end);
        out.push(token);
        rest = behind;
    }
    out
}
