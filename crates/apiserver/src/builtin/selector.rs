//! The selectors of built-in kinds as text, as a Scale and the table form show them.

use serde_json::{Map, Value};

/// The text of a `LabelSelector` or of a plain map of labels; nothing for what is neither.
pub(crate) fn text(selector: &Value) -> Option<String> {
    let selector = selector.as_object()?;
    if selector.values().all(Value::is_string) {
        return Some(join(equalities(selector)));
    }
    let labels = selector.get("matchLabels").and_then(Value::as_object);
    let mut terms = labels.map(equalities).unwrap_or_default();
    let expressions = selector.get("matchExpressions").and_then(Value::as_array);
    for expression in expressions.into_iter().flatten() {
        let key = expression.get("key")?.as_str()?;
        let values = expression.get("values").and_then(Value::as_array);
        let mut values: Vec<&str> =
            values.into_iter().flatten().filter_map(Value::as_str).collect();
        values.sort_unstable();
        let values = values.join(",");
        let term = match expression.get("operator")?.as_str()? {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "Exists" => key.to_owned(),
            "DoesNotExist" => format!("!{key}"),
            _ => return None,
        };
        terms.push((key.to_owned(), term));
    }
    Some(join(terms))
}

/// A term per label, behind its key.
fn equalities(labels: &Map<String, Value>) -> Vec<(String, String)> {
    let texts = labels.iter().filter_map(|(key, value)| Some((key, value.as_str()?)));
    texts.map(|(key, value)| (key.clone(), format!("{key}={value}"))).collect()
}

fn join(mut terms: Vec<(String, String)>) -> String {
    terms.sort_by(|(a, _), (b, _)| a.cmp(b));
    terms.into_iter().map(|(_, term)| term).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn selectors_are_written_by_key() {
        for (selector, expect) in [
            (json!({"b": "1", "a": "2"}), Some("a=2,b=1")),
            (json!({}), Some("")),
            (json!({"matchLabels": {"b": "1"}}), Some("b=1")),
            (
                json!({"matchLabels": {"b": "1"}, "matchExpressions": [
                    {"key": "c", "operator": "NotIn", "values": ["y", "x"]},
                    {"key": "a", "operator": "In", "values": ["x"]},
                    {"key": "d", "operator": "DoesNotExist"},
                    {"key": "e", "operator": "Exists"}]}),
                Some("a in (x),b=1,c notin (x,y),!d,e"),
            ),
            (json!("text"), None),
        ] {
            assert_eq!(text(&selector).as_deref(), expect, "{selector}");
        }
    }
}
