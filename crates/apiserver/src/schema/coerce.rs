//! Metadata takes its typed form: what `ObjectMeta` does not have is dropped, what has the wrong
//! type is refused, empty values vanish and times are whole seconds in UTC.
//!
//! This holds for the object's own metadata and for that of embedded objects. For objects read back
//! from the store, malformed fields can be dropped instead of refused.

use jiff::Timestamp;
use serde_json::{Map, Value};

use super::field::{FieldError, FieldPath};
use super::{Schema, print};
use crate::decode::go_kind;

/// The type of a metadata field.
enum Kind {
    /// A string, by its Go type.
    Text(&'static str),
    Whole,
    Flag,
    Time,
    Texts,
    TextMap,
    /// Objects with the given fields, by their Go type.
    Objects(&'static str, &'static [(&'static str, Self)]),
    /// Raw JSON.
    Raw,
}

const OBJECT_META: &[(&str, Kind)] = &[
    ("annotations", Kind::TextMap),
    ("creationTimestamp", Kind::Time),
    ("deletionGracePeriodSeconds", Kind::Whole),
    ("deletionTimestamp", Kind::Time),
    ("finalizers", Kind::Texts),
    ("generateName", Kind::Text("string")),
    ("generation", Kind::Whole),
    ("labels", Kind::TextMap),
    ("managedFields", Kind::Objects("ManagedFieldsEntry", MANAGED_FIELDS)),
    ("name", Kind::Text("string")),
    ("namespace", Kind::Text("string")),
    ("ownerReferences", Kind::Objects("OwnerReference", OWNER)),
    ("resourceVersion", Kind::Text("string")),
    ("selfLink", Kind::Text("string")),
    ("uid", Kind::Text("types.UID")),
];

const OWNER: &[(&str, Kind)] = &[
    ("apiVersion", Kind::Text("string")),
    ("blockOwnerDeletion", Kind::Flag),
    ("controller", Kind::Flag),
    ("kind", Kind::Text("string")),
    ("name", Kind::Text("string")),
    ("uid", Kind::Text("types.UID")),
];

const MANAGED_FIELDS: &[(&str, Kind)] = &[
    ("apiVersion", Kind::Text("string")),
    ("fieldsType", Kind::Text("string")),
    ("fieldsV1", Kind::Raw),
    ("manager", Kind::Text("string")),
    ("operation", Kind::Text("v1.ManagedFieldsOperationType")),
    ("subresource", Kind::Text("string")),
    ("time", Kind::Time),
];

/// The metadata in its typed form and the fields that it does not have, or the decoder's complaint.
pub fn object_meta(meta: &Value) -> Result<(Map<String, Value>, Vec<String>), String> {
    let mut unknown = Vec::new();
    let Some(fields) = meta.as_object() else {
        return if meta.is_null() {
            Ok((Map::new(), unknown))
        } else {
            Err(mismatch(go_kind(meta), "Go value", "v1.ObjectMeta"))
        };
    };
    let place = Place { object: "ObjectMeta", fields: "", path: "" };
    let typed = object(fields, OBJECT_META, &place, &mut unknown)?;
    Ok((typed, unknown))
}

/// Gives an object's own metadata its typed form; says which fields were unknown, as
/// `metadata.foo`.
pub fn own(target: &mut Value) -> Result<Vec<String>, String> {
    let Some(meta) = target.get_mut("metadata") else {
        return Ok(Vec::new());
    };
    let (typed, unknown) = object_meta(meta)?;
    *meta = Value::Object(typed);
    Ok(unknown.into_iter().map(|path| format!("metadata.{path}")).collect())
}

/// As [`own`], but drops what has the wrong type.
pub fn own_leniently(target: &mut Value) {
    if let Some(meta) = target.get_mut("metadata") {
        *meta = Value::Object(leniently(meta));
    }
}

fn leniently(meta: &Value) -> Map<String, Value> {
    let mut out = Map::new();
    for (key, value) in meta.as_object().into_iter().flatten() {
        let mut single = Map::new();
        single.insert(key.clone(), value.clone());
        if let Ok((typed, _)) = object_meta(&Value::Object(single)) {
            out.extend(typed);
        }
    }
    out
}

/// Gives the metadata of embedded objects its typed form; says which fields were unknown, sorted.
/// With `drop_invalid`, what has the wrong type is dropped and nothing is refused.
pub fn embedded(
    schema: &Schema,
    target: &mut Value,
    drop_invalid: bool,
    at: &FieldPath,
) -> Result<Vec<String>, Box<FieldError>> {
    let mut coercer = Coercer { drop_invalid, unknown: Vec::new() };
    coercer.below(schema, target, at, schema.embedded_resource)?;
    coercer.unknown.sort_unstable();
    Ok(coercer.unknown)
}

/// As [`embedded`], for a value that is an object itself.
pub(super) fn whole(
    schema: &Schema,
    target: &mut Value,
    drop_invalid: bool,
    at: &FieldPath,
) -> Result<(), Box<FieldError>> {
    Coercer { drop_invalid, unknown: Vec::new() }.below(schema, target, at, true)
}

struct Coercer {
    drop_invalid: bool,
    unknown: Vec<String>,
}

impl Coercer {
    fn below(
        &mut self,
        schema: &Schema,
        target: &mut Value,
        at: &FieldPath,
        is_object: bool,
    ) -> Result<(), Box<FieldError>> {
        match target {
            Value::Object(map) => {
                if is_object {
                    self.object(map, at)?;
                }
                for (key, value) in map {
                    let Some(below) = schema.field(key) else {
                        continue;
                    };
                    if value.is_object() || value.is_array() {
                        let known = schema.properties.contains_key(key);
                        let at = if known { at.child(key) } else { at.key(key) };
                        self.below(below, value, &at, below.embedded_resource)?;
                    }
                }
            }
            Value::Array(items) => {
                if let Some(below) = &schema.items {
                    for (i, item) in items.iter_mut().enumerate() {
                        if item.is_object() || item.is_array() {
                            self.below(below, item, &at.index(i), below.embedded_resource)?;
                        }
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn object(
        &mut self,
        map: &mut Map<String, Value>,
        at: &FieldPath,
    ) -> Result<(), Box<FieldError>> {
        for field in ["apiVersion", "kind"] {
            let Some(value) = map.get(field).filter(|value| !value.is_string()) else {
                continue;
            };
            if !self.drop_invalid {
                let error = FieldError::invalid(at.child(field), value.clone(), "must be a string");
                return Err(Box::new(error));
            }
            map.remove(field);
        }
        let Some(meta) = map.get_mut("metadata") else {
            return Ok(());
        };
        let at = at.child("metadata");
        match object_meta(meta) {
            Ok((typed, unknown)) => {
                *meta = Value::Object(typed);
                self.unknown.extend(unknown.into_iter().map(|path| format!("{at}.{path}")));
            }
            Err(_) if self.drop_invalid => {
                if meta.is_object() {
                    *meta = Value::Object(leniently(meta));
                }
            }
            Err(error) => return Err(Box::new(FieldError::invalid(at, meta.clone(), error))),
        }
        Ok(())
    }
}

/// Where in the metadata a field stands, as Go's decoder and as people name it.
struct Place<'a> {
    object: &'a str,
    /// The fields above, each followed by a dot.
    fields: &'a str,
    /// The path above, followed by a dot unless empty.
    path: &'a str,
}

impl Place<'_> {
    fn wrong(&self, found: &str, field: &str, wanted: &str) -> String {
        let field = format!("Go struct field {}.{}{field}", self.object, self.fields);
        mismatch(found, &field, wanted)
    }
}

fn mismatch(found: &str, into: &str, wanted: &str) -> String {
    format!("json: cannot unmarshal {found} into {into} of type {wanted}")
}

fn object(
    fields: &Map<String, Value>,
    kinds: &[(&str, Kind)],
    place: &Place<'_>,
    unknown: &mut Vec<String>,
) -> Result<Map<String, Value>, String> {
    let mut out = Map::new();
    for (key, value) in fields {
        match kinds.iter().find(|(name, _)| name == key) {
            None => unknown.push(format!("{}{key}", place.path)),
            Some(_) if value.is_null() => {}
            Some((_, kind)) => {
                if let Some(value) = typed(key, value, kind, place, unknown)? {
                    out.insert(key.clone(), value);
                }
            }
        }
    }
    Ok(out)
}

/// The typed form of a field; `None` for an empty one.
fn typed(
    key: &str,
    value: &Value,
    kind: &Kind,
    place: &Place<'_>,
    unknown: &mut Vec<String>,
) -> Result<Option<Value>, String> {
    let wrong = |value: &Value, wanted: &str| Err(place.wrong(go_kind(value), key, wanted));
    let keep = |value: Value, empty: bool| Ok((!empty).then_some(value));
    match kind {
        Kind::Raw => keep(value.clone(), false),
        Kind::Text(name) => match value {
            // Owners are written out in full.
            Value::String(text) => {
                keep(value.clone(), text.is_empty() && place.object != "OwnerReference")
            }
            other => wrong(other, name),
        },
        Kind::Flag => match value {
            Value::Bool(_) => keep(value.clone(), false),
            other => wrong(other, "bool"),
        },
        Kind::Whole => match value {
            Value::Number(number) => {
                let float = number.as_f64().filter(|float| float.fract() == 0.0);
                let whole = number.as_i64().or_else(|| float.map(|float| float as i64));
                match whole {
                    Some(whole) => keep(whole.into(), whole == 0 && key == "generation"),
                    None => {
                        let found = format!("number {}", print::json(value));
                        Err(place.wrong(&found, key, "int64"))
                    }
                }
            }
            other => wrong(other, "int64"),
        },
        Kind::Time => match value {
            Value::String(text) => time(text).map(Some),
            other => wrong(other, "string"),
        },
        Kind::Texts => match value {
            Value::Array(items) => {
                if let Some(item) = items.iter().find(|item| !item.is_string() && !item.is_null()) {
                    return wrong(item, "string");
                }
                let items: Vec<_> = items.iter().map(text_or_empty).collect();
                keep(Value::Array(items.clone()), items.is_empty())
            }
            other => wrong(other, "[]string"),
        },
        Kind::TextMap => match value {
            Value::Object(map) => {
                if let Some(item) = map.values().find(|item| !item.is_string() && !item.is_null()) {
                    return wrong(item, "string");
                }
                let map = map.iter().map(|(key, item)| (key.clone(), text_or_empty(item)));
                let map: Map<_, _> = map.collect();
                let empty = map.is_empty();
                keep(Value::Object(map), empty)
            }
            other => wrong(other, "map[string]string"),
        },
        Kind::Objects(name, kinds) => {
            let Some(items) = value.as_array() else {
                return wrong(value, &format!("[]v1.{name}"));
            };
            let mut out = Vec::new();
            for (i, item) in items.iter().enumerate() {
                let nothing = Map::new();
                let item = match item {
                    Value::Object(item) => item,
                    Value::Null => &nothing,
                    other => return wrong(other, &format!("v1.{name}")),
                };
                let fields = format!("{}{key}.", place.fields);
                let path = format!("{}{key}[{i}].", place.path);
                let below = Place { object: name, fields: &fields, path: &path };
                let mut typed = object(item, kinds, &below, unknown)?;
                if *name == "OwnerReference" {
                    for field in ["apiVersion", "kind", "name", "uid"] {
                        typed.entry(field).or_insert_with(|| "".into());
                    }
                }
                out.push(Value::Object(typed));
            }
            let empty = out.is_empty();
            keep(Value::Array(out), empty)
        }
    }
}

fn text_or_empty(value: &Value) -> Value {
    if value.is_null() { "".into() } else { value.clone() }
}

/// A time in the form that the server writes.
fn time(text: &str) -> Result<Value, String> {
    let shape = text.len() >= 20
        && matches!(text.as_bytes().get(10), Some(b'T'))
        && (text.ends_with('Z') || text.as_bytes().get(text.len() - 3) == Some(&b':'));
    match text.parse::<Timestamp>() {
        Ok(time) if shape => Ok(time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string().into()),
        _ => Err(format!(
            "parsing time {0} as \"2006-01-02T15:04:05Z07:00\": cannot parse {0} as \"2006\"",
            print::quote(text)
        )),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn metadata_takes_its_typed_form() {
        let meta = json!({
            "name": "a", "namespace": "", "labels": {"a": null, "b": "c"}, "annotations": {},
            "foo": 1, "generation": 0, "creationTimestamp": "2026-01-02T03:04:05.678+01:00",
            "deletionTimestamp": null, "finalizers": [],
            "ownerReferences": [{"kind": "K", "bar": 2}], "deletionGracePeriodSeconds": 30.0,
            "managedFields": [{"manager": "m", "fieldsV1": {"f:a": {}}, "time": "2026-01-02T03:04:05Z"}],
        });
        let (typed, unknown) = object_meta(&meta).expect("fine");
        assert_eq!(unknown, ["foo", "ownerReferences[0].bar"]);
        assert_eq!(
            Value::Object(typed),
            json!({
                "name": "a", "labels": {"a": "", "b": "c"},
                "creationTimestamp": "2026-01-02T02:04:05Z",
                "ownerReferences": [{"apiVersion": "", "kind": "K", "name": "", "uid": ""}],
                "deletionGracePeriodSeconds": 30,
                "managedFields": [{"manager": "m", "fieldsV1": {"f:a": {}}, "time": "2026-01-02T03:04:05Z"}],
            })
        );
    }

    #[test]
    fn wrong_types_are_told_as_by_go() {
        for (meta, expect) in [
            (json!("x"), "string into Go value of type v1.ObjectMeta"),
            (json!({"name": 5}), "number into Go struct field ObjectMeta.name of type string"),
            (json!({"uid": true}), "bool into Go struct field ObjectMeta.uid of type types.UID"),
            (
                json!({"labels": []}),
                "array into Go struct field ObjectMeta.labels of type map[string]string",
            ),
            (
                json!({"labels": {"a": 5}}),
                "number into Go struct field ObjectMeta.labels of type string",
            ),
            (
                json!({"finalizers": "a"}),
                "string into Go struct field ObjectMeta.finalizers of type []string",
            ),
            (
                json!({"finalizers": [{}]}),
                "object into Go struct field ObjectMeta.finalizers of type string",
            ),
            (
                json!({"generation": 1.5}),
                "number 1.5 into Go struct field ObjectMeta.generation of type int64",
            ),
            (
                json!({"ownerReferences": {}}),
                "object into Go struct field ObjectMeta.ownerReferences of type []v1.OwnerReference",
            ),
            (
                json!({"ownerReferences": [{"name": 1}]}),
                "number into Go struct field OwnerReference.ownerReferences.name of type string",
            ),
            (
                json!({"creationTimestamp": 1}),
                "number into Go struct field ObjectMeta.creationTimestamp of type string",
            ),
            (
                json!({"managedFields": [{"time": 5}]}),
                "number into Go struct field ManagedFieldsEntry.managedFields.time of type string",
            ),
        ] {
            let error = object_meta(&meta).expect_err("wrong");
            assert_eq!(error, format!("json: cannot unmarshal {expect}"), "{meta}");
        }
        let error = object_meta(&json!({"creationTimestamp": "x"})).expect_err("no time");
        assert!(error.starts_with("parsing time \"x\" as"), "{error}");
        let mut object = json!({"metadata": {"name": 5, "labels": {"a": "b"}, "zz": 1}});
        own_leniently(&mut object);
        assert_eq!(object, json!({"metadata": {"labels": {"a": "b"}}}));
    }
}
