//! Strategic merge patch: a merge patch that knows which lists merge, and by which key.
//!
//! The schema of a built-in kind says it (`x-kubernetes-patch-merge-key` and `-strategy`). Without a
//! schema for a field, lists are replaced, as in a merge patch.

use serde_json::{Map, Value};

use crate::decode;
use crate::sabotage::Sabotage;
use crate::schema::{Additional, Schema, print};
use crate::status::ApiError;

type Object = Map<String, Value>;

const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM: &str = "$deleteFromPrimitiveList/";
const ELEMENT_ORDER: &str = "$setElementOrder/";

/// Applies a strategic merge patch.
pub(crate) fn strategic(
    object: &Object,
    patch: &Value,
    schema: Option<&Schema>,
) -> Result<Object, ApiError> {
    let Value::Object(patch) = patch else {
        return Err(ApiError::bad_request("a strategic merge patch must be an object"));
    };
    merge_map(object, patch, schema)
}

/// Upstream has no name for what is wrong inside a patch.
fn broken(message: impl Into<String>) -> ApiError {
    ApiError::unexplained(message)
}

/// The refusal of a directive that should hold a list.
fn no_list(found: &Value) -> ApiError {
    broken(format!("expected a []interface {{}}, but received a {}", decode::go_kind(found)))
}

fn field<'a>(schema: Option<&'a Schema>, name: &str) -> Option<&'a Schema> {
    let schema = schema?;
    schema.properties.get(name).or(match &schema.additional_properties {
        Some(Additional::Schema(values)) => Some(values),
        _ => None,
    })
}

fn has_strategy(schema: Option<&Schema>, wanted: &str) -> bool {
    let strategy = schema.and_then(|s| s.patch_strategy.as_deref()).unwrap_or_default();
    strategy.split(',').any(|s| s == wanted)
}

fn merge_map(live: &Object, patch: &Object, schema: Option<&Schema>) -> Result<Object, ApiError> {
    match patch.get(DIRECTIVE).map(|v| v.as_str().unwrap_or_default()) {
        Some("replace") => return Ok(without_directives(patch)),
        Some("delete") => return Ok(Object::new()),
        Some("merge") | None => {}
        Some(other) => {
            let map = print::plain(&Value::Object(patch.clone()));
            return Err(broken(format!("unknown patch type: {other} in map: {map}")));
        }
    }
    let mut out = live.clone();
    if let Some(retained) = patch.get(RETAIN_KEYS) {
        let Some(retained) = retained.as_array() else {
            return Err(no_list(retained));
        };
        out.retain(|key, _| retained.iter().any(|r| r == key));
    }
    for (key, value) in patch {
        if let Some(list) = key.strip_prefix(DELETE_FROM) {
            delete_from(&mut out, list, value)?;
            continue;
        }
        if key.starts_with('$') {
            continue;
        }
        let below = field(schema, key);
        match value {
            Value::Null => {
                out.remove(key);
            }
            Value::Object(change) if !has_strategy(below, "replace") => {
                let before = out.get(key).and_then(Value::as_object);
                let before = before.cloned().unwrap_or_default();
                out.insert(key.clone(), merge_map(&before, change, below)?.into());
            }
            Value::Array(change)
                if has_strategy(below, "merge") && !Sabotage::ReplacedLists.is_planted() =>
            {
                let before = out.get(key).and_then(Value::as_array).cloned().unwrap_or_default();
                let order = patch.get(&format!("{ELEMENT_ORDER}{key}"));
                let list = merge_list(&before, change, order, below)?;
                out.insert(key.clone(), list.into());
            }
            value => {
                out.insert(key.clone(), clean(value));
            }
        }
    }
    // An order may come alone: the list keeps its items and changes their places.
    for (key, order) in patch {
        let Some(list) = key.strip_prefix(ELEMENT_ORDER) else { continue };
        if patch.contains_key(list) {
            continue;
        }
        if let Some(Value::Array(before)) = out.get(list) {
            let below = field(schema, list);
            let list_value = merge_list(&before.clone(), &[], Some(order), below)?;
            out.insert(list.to_owned(), list_value.into());
        }
    }
    Ok(out)
}

fn delete_from(out: &mut Object, list: &str, values: &Value) -> Result<(), ApiError> {
    let Some(values) = values.as_array() else {
        return Err(no_list(values));
    };
    if let Some(Value::Array(items)) = out.get_mut(list) {
        items.retain(|item| !values.contains(item));
    }
    Ok(())
}

/// What tells two items of a list apart: the merge key's value, or the item itself.
fn identity<'a>(item: &'a Value, key: Option<&str>) -> Option<&'a Value> {
    match key {
        Some(key) => item.get(key),
        None => Some(item),
    }
}

fn merge_list(
    live: &[Value],
    patch: &[Value],
    order: Option<&Value>,
    schema: Option<&Schema>,
) -> Result<Vec<Value>, ApiError> {
    let key = schema.and_then(|s| s.patch_merge_key.as_deref());
    let item_schema = schema.and_then(|s| s.items.as_deref());
    let directive = |item: &Value| item.get(DIRECTIVE).and_then(Value::as_str).map(str::to_owned);
    if patch.iter().any(|item| directive(item).as_deref() == Some("replace")) {
        let kept = patch.iter().filter(|item| directive(item).as_deref() != Some("replace"));
        return Ok(kept.map(clean).collect());
    }
    let mut out = live.to_vec();
    for item in patch {
        let Some(id) = identity(item, key).cloned() else {
            let key = key.unwrap_or_default();
            let item = print::plain(item);
            return Err(broken(format!("map: {item} does not contain declared merge key: {key}")));
        };
        let same = |other: &Value| identity(other, key) == Some(&id);
        if directive(item).as_deref() == Some("delete") {
            out.retain(|other| !same(other));
            continue;
        }
        match (out.iter_mut().find(|other| same(other)), item) {
            (Some(Value::Object(before)), Value::Object(change)) => {
                *before = merge_map(before, change, item_schema)?;
            }
            (Some(before), item) => *before = clean(item),
            (None, item) => out.push(clean(item)),
        }
    }
    // A patch that names no order means its own.
    match order {
        Some(order) => in_order(out, live, order, key),
        None => in_order(out, live, &patch.into(), key),
    }
}

/// Puts the items that the client knows into its order, and the others where they were between them.
fn in_order(
    items: Vec<Value>,
    live: &[Value],
    order: &Value,
    key: Option<&str>,
) -> Result<Vec<Value>, ApiError> {
    let Some(order) = order.as_array() else {
        return Err(no_list(order));
    };
    let place = |item: &Value, list: &[Value]| {
        let id = identity(item, key);
        list.iter().position(|other| identity(other, key) == id)
    };
    let (mut known, others): (Vec<Value>, Vec<Value>) =
        items.into_iter().partition(|item| place(item, order).is_some());
    known.sort_by_key(|item| place(item, order));
    let mut out = Vec::with_capacity(known.len() + others.len());
    let (mut known, mut others) = (known.into_iter().peekable(), others.into_iter().peekable());
    while let (Some(mine), Some(other)) = (known.peek(), others.peek()) {
        let other_first = match (place(other, live), place(mine, live)) {
            (Some(other), Some(mine)) => other < mine,
            _ => false,
        };
        out.extend(if other_first { others.next() } else { known.next() });
    }
    out.extend(known);
    out.extend(others);
    Ok(out)
}

/// A value without the directives in it.
fn clean(value: &Value) -> Value {
    match value {
        Value::Object(map) => without_directives(map).into(),
        Value::Array(items) => {
            let kept = items.iter().filter(|i| i.get(DIRECTIVE).is_none_or(|d| d != "delete"));
            kept.map(clean).collect::<Vec<_>>().into()
        }
        value => value.clone(),
    }
}

fn without_directives(map: &Object) -> Object {
    let kept = map.iter().filter(|(key, value)| !key.starts_with('$') && !value.is_null());
    kept.map(|(key, value)| (key.clone(), clean(value))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn schema() -> Schema {
        serde_json::from_value(json!({"properties": {
            "list": {"type": "array", "x-kubernetes-patch-strategy": "merge",
                "x-kubernetes-patch-merge-key": "name",
                "items": {"type": "object", "properties": {
                    "args": {"type": "array"}}}},
            "names": {"type": "array", "x-kubernetes-patch-strategy": "merge"},
            "atomic": {"type": "array"},
            "whole": {"type": "object", "x-kubernetes-patch-strategy": "replace"},
        }}))
        .unwrap()
    }

    #[track_caller]
    fn check(live: Value, patch: Value, want: Value) {
        let got = strategic(live.as_object().unwrap(), &patch, Some(&schema())).unwrap();
        assert_eq!(Value::Object(got), want, "{live} with {patch}");
    }

    #[test]
    fn lists_merge_as_the_schema_says() {
        check(
            json!({"list": [{"name": "a", "x": 1}, {"name": "b", "x": 2}]}),
            json!({"list": [{"name": "b", "x": 3}, {"name": "c"}]}),
            json!({"list": [{"name": "a", "x": 1}, {"name": "b", "x": 3}, {"name": "c"}]}),
        );
        check(
            json!({"list": [{"name": "a"}, {"name": "b"}]}),
            json!({"list": [{"name": "a", "$patch": "delete"}]}),
            json!({"list": [{"name": "b"}]}),
        );
        check(
            json!({"list": [{"name": "a"}]}),
            json!({"list": [{"$patch": "replace"}, {"name": "z"}]}),
            json!({"list": [{"name": "z"}]}),
        );
        check(json!({"atomic": [1, 2]}), json!({"atomic": [3]}), json!({"atomic": [3]}));
        check(json!({"names": ["a"]}), json!({"names": ["b", "a"]}), json!({"names": ["b", "a"]}));
        check(
            json!({"names": ["a", "b"]}),
            json!({"$deleteFromPrimitiveList/names": ["a"]}),
            json!({"names": ["b"]}),
        );
    }

    #[test]
    fn orders_are_kept() {
        check(
            json!({"list": [{"name": "s"}, {"name": "a"}, {"name": "b"}]}),
            json!({"$setElementOrder/list": [{"name": "b"}, {"name": "a"}, {"name": "n"}],
                   "list": [{"name": "n"}]}),
            json!({"list": [{"name": "s"}, {"name": "b"}, {"name": "a"}, {"name": "n"}]}),
        );
    }

    #[test]
    fn maps_merge_replace_and_retain() {
        check(
            json!({"m": {"a": 1, "b": 2}}),
            json!({"m": {"a": null, "c": 3}}),
            json!({"m": {"b": 2, "c": 3}}),
        );
        check(
            json!({"m": {"a": 1}}),
            json!({"m": {"$patch": "replace", "c": 3}}),
            json!({"m": {"c": 3}}),
        );
        check(json!({"whole": {"a": 1}}), json!({"whole": {"b": 2}}), json!({"whole": {"b": 2}}));
        check(
            json!({"m": {"a": 1, "b": 2}}),
            json!({"m": {"$retainKeys": ["b", "c"], "c": 3}}),
            json!({"m": {"b": 2, "c": 3}}),
        );
    }

    #[test]
    fn an_item_without_its_key_is_refused() {
        let live = json!({"list": []});
        let error =
            strategic(live.as_object().unwrap(), &json!({"list": [{"x": 1}]}), Some(&schema()));
        assert!(error.unwrap_err().message.contains("merge key: name"));
    }
}
