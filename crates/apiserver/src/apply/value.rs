//! JSON values as server-side apply sees them: compared by meaning, printed the way Go prints.
//!
//! Numbers compare by value (`1` equals `1.0`), all kinds of values have one total order, and the
//! texts match what clients of a kube-apiserver read in error messages and path elements. Recursion
//! follows the value; callers bound its depth.

use std::cmp::Ordering;

use serde_json::{Map, Number, Value};

use crate::schema::print;

/// A value with the total order that path elements are sorted by.
#[derive(Debug, Clone)]
pub struct Ordered(pub Value);

impl Ord for Ordered {
    fn cmp(&self, other: &Self) -> Ordering {
        compare(&self.0, &other.0)
    }
}

impl PartialOrd for Ordered {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Ordered {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Ordered {}

/// Whether two values mean the same.
pub(super) fn equal(a: &Value, b: &Value) -> bool {
    compare(a, b) == Ordering::Equal
}

/// Whether two values mean the same but for what is at this path of fields, or is not.
pub(super) fn equal_but(a: &Value, b: &Value, path: &[&str]) -> bool {
    let ([field, below @ ..], Value::Object(a), Value::Object(b)) = (path, a, b) else {
        return path.is_empty() || equal(a, b);
    };
    let others = |map: &Map<String, Value>| map.len() - usize::from(map.contains_key(*field));
    let same = |(name, value): (&String, &Value)| {
        name == field || b.get(name).is_some_and(|other| equal(value, other))
    };
    others(a) == others(b)
        && a.iter().all(same)
        && match (a.get(*field), b.get(*field)) {
            (Some(a), Some(b)) => equal_but(a, b, below),
            (None, None) => true,
            _ => below.is_empty(),
        }
}

/// Numbers, strings, booleans, lists, maps, null: in this order, and within a kind by content.
pub(super) fn compare(a: &Value, b: &Value) -> Ordering {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => compare_numbers(a, b),
        (Value::String(a), Value::String(b)) => a.cmp(b),
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        (Value::Array(a), Value::Array(b)) => compare_all(a.iter().zip(b), a.len(), b.len()),
        (Value::Object(a), Value::Object(b)) => {
            // Key order must not depend on how the map iterates.
            let (mut a, mut b) = (Vec::from_iter(a), Vec::from_iter(b));
            a.sort_unstable_by_key(|(key, _)| *key);
            b.sort_unstable_by_key(|(key, _)| *key);
            a.iter()
                .zip(&b)
                .map(|(a, b)| a.0.cmp(b.0).then_with(|| compare(a.1, b.1)))
                .find(|order| order.is_ne())
                .unwrap_or_else(|| a.len().cmp(&b.len()))
        }
        (a, b) => rank(a).cmp(&rank(b)),
    }
}

fn compare_all<'v>(
    mut pairs: impl Iterator<Item = (&'v Value, &'v Value)>,
    a_len: usize,
    b_len: usize,
) -> Ordering {
    pairs
        .find_map(|(a, b)| Some(compare(a, b)).filter(|order| order.is_ne()))
        .unwrap_or_else(|| a_len.cmp(&b_len))
}

fn rank(value: &Value) -> u8 {
    match value {
        Value::Number(_) => 0,
        Value::String(_) => 1,
        Value::Bool(_) => 2,
        Value::Array(_) => 3,
        Value::Object(_) => 4,
        Value::Null => 5,
    }
}

/// Exact, so that the order stays transitive where an `f64` cannot hold the integer.
fn compare_numbers(a: &Number, b: &Number) -> Ordering {
    match (integer(a), integer(b)) {
        (Some(a), Some(b)) => a.cmp(&b),
        (Some(a), None) => compare_integer_to_float(a, float(b)),
        (None, Some(b)) => compare_integer_to_float(b, float(a)).reverse(),
        (None, None) => float(a).partial_cmp(&float(b)).unwrap_or(Ordering::Equal),
    }
}

fn compare_integer_to_float(integer: i128, float: f64) -> Ordering {
    // The conversion saturates, and every integer that JSON holds is far inside an i128.
    let whole = float.trunc();
    integer.cmp(&(whole as i128)).then_with(|| whole.partial_cmp(&float).unwrap_or(Ordering::Equal))
}

fn integer(number: &Number) -> Option<i128> {
    number.as_i128()
}

fn float(number: &Number) -> f64 {
    number.as_f64().unwrap_or(0.0)
}

/// A JSON string with nothing escaped that JSON lets stand.
pub(super) fn write_json_string(out: &mut String, text: &str) {
    out.push_str(&Value::from(text).to_string());
}

fn number_text(number: &Number) -> String {
    match integer(number) {
        Some(integer) => integer.to_string(),
        None => float_text(float(number)),
    }
}

/// The shortest digits that read back the same, with an exponent only for the very large and small.
fn float_text(float: f64) -> String {
    let size = float.abs();
    if size == 0.0 || (1e-6..1e21).contains(&size) {
        return float.to_string();
    }
    let text = format!("{float:e}");
    if text.contains("e-") { text } else { text.replacen('e', "e+", 1) }
}

/// A value inside a path, as in `[name="a"]`.
pub(super) fn path_text(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(b) => b.to_string(),
        Value::Number(number) => number_text(number),
        Value::String(text) => print::quote(text),
        Value::Array(items) => {
            let items: Vec<_> = items.iter().map(path_text).collect();
            format!("[{}]", items.join(","))
        }
        Value::Object(map) => {
            map.iter().map(|(key, value)| format!("{key}={}", path_text(value))).collect()
        }
    }
}

/// What Go's `%#v` makes of a decoded value.
pub(super) fn syntax(value: &Value) -> String {
    match value {
        Value::Null => "interface {}(nil)".to_owned(),
        Value::String(text) => print::quote(text),
        Value::Bool(_) | Value::Number(_) => print::plain(value),
        Value::Array(items) => {
            let items: Vec<_> = items.iter().map(syntax).collect();
            format!("[]interface {{}}{{{}}}", items.join(", "))
        }
        Value::Object(map) => {
            let mut fields: Vec<_> =
                map.iter().map(|(k, v)| format!("{}:{}", print::quote(k), syntax(v))).collect();
            fields.sort_unstable();
            format!("map[string]interface {{}}{{{}}}", fields.join(", "))
        }
    }
}

/// Go's name for the type that a value decodes to.
pub(super) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if integer(number).is_some() => "int64",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// Whether maps and lists nest more than `limit` deep. It needs no stack of its own.
pub(super) fn deeper_than(value: &Value, limit: usize) -> bool {
    let mut left = vec![(value, 0)];
    while let Some((value, depth)) = left.pop() {
        if depth > limit {
            return true;
        }
        match value {
            Value::Array(items) => left.extend(items.iter().map(|item| (item, depth + 1))),
            Value::Object(map) => left.extend(map.values().map(|item| (item, depth + 1))),
            _ => {}
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_compare_by_meaning() {
        let ascending = [
            json!(-1),
            json!(1),
            json!(1.5),
            json!(9_007_199_254_740_993_i64),
            json!(1e300),
            json!("a"),
            json!("b"),
            json!(false),
            json!(true),
            json!([]),
            json!([1]),
            json!([2]),
            json!({}),
            json!({"a": 1}),
            json!(null),
        ];
        for (i, a) in ascending.iter().enumerate() {
            for (j, b) in ascending.iter().enumerate() {
                assert_eq!(compare(a, b), i.cmp(&j), "{a} against {b}");
            }
        }
        assert!(equal(&json!(1), &json!(1.0)));
        assert!(!equal(&json!(9_007_199_254_740_993_i64), &json!(9_007_199_254_740_992.0)));
    }

    #[test]
    fn texts_are_gos() {
        let check = |value: Value, as_json: &str, in_path: &str, as_syntax: &str| {
            assert_eq!(print::json(&value), as_json);
            assert_eq!(path_text(&value), in_path);
            assert_eq!(syntax(&value), as_syntax);
        };
        check(json!("a<\n\"é"), r#""a\u003c\n\"é""#, r#""a<\n\"é""#, r#""a<\n\"é""#);
        check(json!(2.0), "2", "2", "2");
        check(json!(1e21), "1e+21", "1e+21", "1e+21");
        check(json!(-0.5), "-0.5", "-0.5", "-0.5");
        check(
            json!({"b": [1, null], "a": "x"}),
            r#"{"a":"x","b":[1,null]}"#,
            r#"a="x"b=[1,null]"#,
            r#"map[string]interface {}{"a":"x", "b":[]interface {}{1, interface {}(nil)}}"#,
        );
        assert_eq!(print::plain(&json!({"b": [1, null], "a": "x"})), "map[a:x b:[1 <nil>]]");
    }

    #[test]
    fn depth_is_measured() {
        let mut value = json!(1);
        for _ in 0..10 {
            value = json!([value]);
        }
        assert!(!deeper_than(&value, 10));
        assert!(deeper_than(&value, 9));
    }
}
