//! Where two normalised answers differ, field by field.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::Value;

/// One place where the answers differ; `None` where one of them has nothing.
#[derive(Debug, PartialEq)]
pub(crate) struct Difference {
    /// Dotted, as in `body.metadata.name`.
    pub(crate) path: String,
    pub(crate) upstream: Option<Value>,
    pub(crate) ours: Option<Value>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let show = |value: &Option<Value>| match value {
            Some(value) => shortened(&value.to_string(), 300),
            None => "(nothing)".to_owned(),
        };
        write!(
            f,
            "{}\n    upstream {}\n    ours     {}",
            self.path,
            show(&self.upstream),
            show(&self.ours)
        )
    }
}

/// The first characters of a text.
pub(crate) fn shortened(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// All differences, in order of the fields; the order of lists counts, that of fields does not.
pub(crate) fn differences(upstream: &Value, ours: &Value) -> Vec<Difference> {
    let mut found = Vec::new();
    walk(String::new(), Some(upstream), Some(ours), &mut found);
    found
}

fn walk(path: String, upstream: Option<&Value>, ours: Option<&Value>, found: &mut Vec<Difference>) {
    match (upstream, ours) {
        (Some(Value::Object(left)), Some(Value::Object(right))) => {
            let keys: BTreeSet<&String> = left.keys().chain(right.keys()).collect();
            for key in keys {
                let dot = if path.is_empty() { "" } else { "." };
                walk(format!("{path}{dot}{key}"), left.get(key), right.get(key), found);
            }
        }
        (Some(Value::Array(left)), Some(Value::Array(right))) => {
            for place in 0..left.len().max(right.len()) {
                walk(format!("{path}[{place}]"), left.get(place), right.get(place), found);
            }
        }
        (left, right) if left == right => {}
        (left, right) => {
            found.push(Difference { path, upstream: left.cloned(), ours: right.cloned() });
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn differences_by_path() {
        let check = |left: Value, right: Value, expect: &[&str]| {
            let found = differences(&left, &right);
            let paths: Vec<&str> = found.iter().map(|each| each.path.as_str()).collect();
            assert_eq!(paths, expect);
        };
        check(json!({"a": [1, 2]}), json!({"a": [1, 2]}), &[]);
        check(json!({"a": [1, 2]}), json!({"a": [2, 1]}), &["a[0]", "a[1]"]);
        check(json!({"a": {"b": 1}}), json!({"a": {"c": 1}}), &["a.b", "a.c"]);
        check(json!({"a": null}), json!({}), &["a"]);
        check(json!([]), json!({}), &[""]);
        check(json!(1), json!(1.5), &[""]);
    }
}
