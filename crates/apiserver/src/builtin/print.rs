//! Objects of built-in kinds as upstream prints them in a refusal, and what its converter says of a
//! value of the wrong type.

use serde_json::{Map, Value};

use super::facts::{self, Facts, Form};

/// An object that a patch has made. Maps that the patch went through have their keys sorted; what
/// it left alone has the fields in Go's order.
pub(crate) fn patched(
    api_version: &str,
    kind: &str,
    object: &Map<String, Value>,
    patch: &Value,
) -> String {
    let Ok(facts) = facts::facts() else { return String::new() };
    let form = facts.kind(api_version, kind).map(|name| Form::Struct(name.to_owned()));
    // The outermost map is always one that the patch went through.
    let empty = Value::Object(Map::new());
    let patch = if patch.is_object() { patch } else { &empty };
    fields(facts, form.as_ref(), object, Some(patch))
}

fn child<'a>(facts: &'a Facts, form: Option<&'a Form>, name: &str) -> Option<&'a Form> {
    match form? {
        Form::Struct(type_) => {
            facts.flat(type_).into_iter().find(|field| field.name == name).map(|field| &field.form)
        }
        Form::Map(item) => Some(&**item),
        _ => None,
    }
}

fn fields(
    facts: &Facts,
    form: Option<&Form>,
    map: &Map<String, Value>,
    patch: Option<&Value>,
) -> String {
    let mut names: Vec<&str> = map.keys().map(String::as_str).collect();
    if let (None, Some(Form::Struct(type_))) = (patch, form) {
        let order = facts.flat(type_);
        let place = |name: &&str| order.iter().position(|field| field.name == *name);
        names.sort_by_key(|name| place(name).unwrap_or(usize::MAX));
    }
    let printed = names.into_iter().filter_map(|name| {
        let value = map.get(name)?;
        let patch = patch.and_then(|patch| patch.get(name)).filter(|patch| patch.is_object());
        let printed = print(facts, child(facts, form, name), value, patch);
        Some(format!("{}:{printed}", Value::from(name)))
    });
    format!("{{{}}}", printed.collect::<Vec<_>>().join(","))
}

fn print(facts: &Facts, form: Option<&Form>, value: &Value, patch: Option<&Value>) -> String {
    match (form, value) {
        (Some(Form::Struct(_) | Form::Map(_)), Value::Object(map)) => {
            fields(facts, form, map, patch)
        }
        (Some(Form::List(item)), Value::Array(items)) => {
            let items = items.iter().map(|one| print(facts, Some(item), one, None));
            format!("[{}]", items.collect::<Vec<_>>().join(","))
        }
        (_, value) => value.to_string(),
    }
}

/// What the converter of unstructured objects says of the first value that has the wrong type.
pub(crate) fn unfit(api_version: &str, kind: &str, object: &Map<String, Value>) -> Option<String> {
    let facts = facts::facts().ok()?;
    let type_ = facts.kind(api_version, kind)?;
    in_struct(facts, type_, object)
}

fn in_struct(facts: &Facts, type_: &str, object: &Map<String, Value>) -> Option<String> {
    let fields = facts.flat(type_).into_iter();
    fields.filter_map(|field| complaint(facts, &field.form, object.get(&field.name)?)).next()
}

fn complaint(facts: &Facts, form: &Form, value: &Value) -> Option<String> {
    let found = match value {
        Value::Null => return None,
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "slice",
        Value::Object(_) => "map",
    };
    let convert = |to: &str| {
        let from = match found {
            "slice" => "[]interface {}",
            "map" => "map[string]interface {}",
            from => from,
        };
        (from != to).then(|| format!("cannot convert {from} to {to}"))
    };
    match (form, value) {
        (Form::Text, _) => convert("string"),
        (Form::Bool, _) => convert("bool"),
        (Form::Int32, Value::String(_) | Value::Bool(_)) => convert("int32"),
        (Form::Int64, Value::String(_) | Value::Bool(_)) => convert("int64"),
        (Form::List(item), Value::Array(items)) => {
            items.iter().find_map(|one| complaint(facts, item, one))
        }
        (Form::List(_), _) => Some(format!("cannot restore slice from {found}")),
        (Form::Map(item), Value::Object(map)) => {
            map.values().find_map(|one| complaint(facts, item, one))
        }
        (Form::Map(_), _) => Some(format!("cannot restore map from {found}")),
        (Form::Struct(type_), Value::Object(map)) => in_struct(facts, type_, map),
        (Form::Struct(_), _) => Some(format!("cannot restore struct from: {found}")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn complains(object: &Value, want: Option<&str>) {
        let object = object.as_object().unwrap();
        assert_eq!(unfit("v1", "Pod", object).as_deref(), want);
    }

    #[test]
    fn the_converter_names_both_types() {
        complains(&json!({"spec": {"nodeName": 5}}), Some("cannot convert int64 to string"));
        complains(&json!({"spec": {"containers": {}}}), Some("cannot restore slice from map"));
        complains(&json!({"spec": 5}), Some("cannot restore struct from: int64"));
        complains(&json!({"spec": {"nodeSelector": []}}), Some("cannot restore map from slice"));
        complains(&json!({"spec": {"nodeName": "n"}}), None);
    }

    #[test]
    fn what_a_patch_left_alone_is_printed_in_order() {
        let node = json!({"spec": {"taints": [{"effect": "e", "key": "k"}]},
            "status": {"phase": "p", "capacity": {"cpu": "1"}}});
        let patch = json!({"status": {"capacity": {"cpu": "1"}}});
        assert_eq!(
            patched("v1", "Node", node.as_object().unwrap(), &patch),
            r#"{"spec":{"taints":[{"key":"k","effect":"e"}]},"status":{"capacity":{"cpu":"1"},"phase":"p"}}"#
        );
    }
}
