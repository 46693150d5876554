//! Dotted paths to a field, as scale subresources and selectable fields name them: `.spec.replicas`.
//!
//! Field names only: no lists, no filters. Printer columns take JSONPath instead.

use std::fmt;

use serde_json::{Map, Value};

/// A path to one field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DottedPath(Vec<String>);

impl DottedPath {
    /// Reads `.a.b` or `a.b`; `None` for a path without a name in every place.
    pub fn parse(text: &str) -> Option<Self> {
        let names: Vec<String> =
            text.strip_prefix('.').unwrap_or(text).split('.').map(str::to_owned).collect();
        names.iter().all(|name| !name.is_empty()).then_some(Self(names))
    }

    /// The names on the way, from the outside in.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    /// The field's value.
    pub fn get<'a>(&self, object: &'a Map<String, Value>) -> Option<&'a Value> {
        let (first, rest) = self.0.split_first()?;
        rest.iter().try_fold(object.get(first)?, |value, name| value.get(name))
    }

    /// The field's value as a selector compares it: scalars only.
    pub fn text(&self, object: &Map<String, Value>) -> Option<String> {
        match self.get(object)? {
            Value::String(text) => Some(text.clone()),
            Value::Number(number) => Some(number.to_string()),
            Value::Bool(flag) => Some(flag.to_string()),
            _ => None,
        }
    }

    /// Sets the field, making the objects on the way that are not there.
    pub fn set(&self, object: &mut Map<String, Value>, value: Value) {
        let Some((last, way)) = self.0.split_last() else { return };
        let mut at = object;
        for name in way {
            let next = at.entry(name.clone()).or_insert(Value::Null);
            if !next.is_object() {
                *next = Value::Object(Map::new());
            }
            let Value::Object(next) = next else { return };
            at = next;
        }
        at.insert(last.clone(), value);
    }
}

impl fmt::Display for DottedPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|name| write!(f, ".{name}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn paths_read_and_write_one_field() {
        let path = DottedPath::parse(".spec.replicas").unwrap();
        assert_eq!(path.to_string(), ".spec.replicas");
        let mut object = Map::new();
        assert_eq!(path.get(&object), None);
        path.set(&mut object, 3.into());
        assert_eq!(Value::Object(object.clone()), json!({"spec": {"replicas": 3}}));
        assert_eq!(path.text(&object).as_deref(), Some("3"));
        assert!(DottedPath::parse(".a..b").is_none());
    }
}
