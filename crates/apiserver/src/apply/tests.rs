//! Sequences of writes, each with the object and the managers that a kube-apiserver leaves.

mod properties;
mod sequences;

use serde_json::{Value, json};

use super::*;

/// A kind with one field of every way to merge.
fn schema() -> Schema {
    let text = json!({"type": "string"});
    serde_json::from_value(json!({
        "type": "object",
        "properties": {
            "metadata": {"type": "object"},
            "spec": {
                "type": "object",
                "properties": {
                    "a": text, "b": {"type": "integer"}, "flag": {"type": "boolean"},
                    "obj": {"type": "object", "properties": {"x": text, "y": text}},
                    "atom": {
                        "type": "object",
                        "x-kubernetes-map-type": "atomic",
                        "properties": {"x": text, "y": text},
                    },
                    "labels": {"type": "object", "additionalProperties": text},
                    "set": {"type": "array", "x-kubernetes-list-type": "set", "items": text},
                    "list": {"type": "array", "items": text},
                    "items": {
                        "type": "array",
                        "x-kubernetes-list-type": "map",
                        "x-kubernetes-list-map-keys": ["name"],
                        "items": {
                            "type": "object",
                            "required": ["name"],
                            "properties": {
                                "name": text, "v": text, "w": text,
                                "tags": {
                                    "type": "array",
                                    "x-kubernetes-list-type": "set",
                                    "items": text,
                                },
                            },
                        },
                    },
                    "ports": {
                        "type": "array",
                        "x-kubernetes-list-type": "map",
                        "x-kubernetes-list-map-keys": ["port", "protocol"],
                        "items": {
                            "type": "object",
                            "properties": {
                                "port": {"type": "integer"},
                                "protocol": {"type": "string", "default": "TCP"},
                                "host": text,
                            },
                        },
                    },
                    "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                },
            },
            "status": {"type": "object", "properties": {"s": text}},
        },
    }))
    .unwrap()
}

/// An object of that kind, written step by step. Every write happens a second after the last.
struct Story {
    schema: Schema,
    v2: Option<Schema>,
    object: Option<Value>,
    seconds: i64,
}

/// The parts of a write that most writes share.
#[derive(Clone, Copy)]
struct By<'a> {
    manager: &'a str,
    api_version: &'a str,
    subresource: &'a str,
    force: bool,
}

fn by(manager: &str) -> By<'_> {
    By { manager, api_version: "d.io/v1", subresource: "", force: false }
}

impl By<'_> {
    fn force(self) -> Self {
        Self { force: true, ..self }
    }

    fn v2(self) -> Self {
        Self { api_version: "d.io/v2", ..self }
    }

    fn status(self) -> Self {
        Self { subresource: "status", ..self }
    }
}

impl Story {
    fn new() -> Self {
        Self { schema: schema(), v2: Some(schema()), object: None, seconds: 0 }
    }

    fn with<T>(&mut self, by: By<'_>, write: impl FnOnce(&Context<'_>, Option<&Value>) -> T) -> T {
        self.seconds += 1;
        let reset: &[&str] = if by.subresource == "status" { &["spec"] } else { &["status"] };
        let reset = FieldSet::of_fields([reset]);
        let v1 = ("d.io/v1", Some(&self.schema));
        let v2: Vec<_> = self.v2.iter().map(|schema| ("d.io/v2", Some(schema))).collect();
        let second = by.api_version == "d.io/v2";
        let cx = Context {
            api_version: by.api_version,
            kind: "W",
            schema: if second { self.v2.as_ref() } else { Some(&self.schema) },
            other_versions: if second { &[v1] } else { &v2 },
            empty: None,
            reset_fields: &reset,
            manager: by.manager,
            subresource: by.subresource,
            now: Timestamp::from_second(self.seconds).unwrap(),
        };
        write(&cx, self.object.as_ref())
    }

    fn try_apply(&mut self, by: By<'_>, fields: Value) -> Result<(), Error> {
        let applied = whole(by.api_version, fields);
        let object = self.with(by, |cx, live| apply(cx, live, &applied, by.force))?;
        self.object = Some(object);
        Ok(())
    }

    fn apply(&mut self, by: By<'_>, fields: Value) {
        self.try_apply(by, fields).unwrap();
    }

    /// Replaces the object, with the identity it has.
    fn put(&mut self, by: By<'_>, fields: Value) {
        let new = whole(by.api_version, fields);
        self.object = Some(self.with(by, |cx, live| update(cx, live, new)));
    }

    /// Writes a JSON merge patch.
    fn patch(&mut self, by: By<'_>, patch: Value) {
        let mut new = self.object.clone().unwrap();
        merge_patch(&mut new, &patch);
        self.object = Some(self.with(by, |cx, live| update(cx, live, new)));
    }

    fn spec(&self) -> &Value {
        &self.object.as_ref().unwrap()["spec"]
    }

    fn decode(&self) -> Managers {
        let entries = managers::entries(self.object.as_ref().unwrap()).unwrap_or_default();
        Managers::decode(entries).unwrap()
    }

    /// Manager, operation, second and fields of every entry; with version and subresource where
    /// they are not the usual.
    fn managers(&self) -> Vec<(String, Value)> {
        let entries = managers::entries(self.object.as_ref().unwrap()).unwrap_or_default();
        let short = |entry: &Value| {
            let text = |key: &str| entry[key].as_str().unwrap_or_default();
            let mut head = format!("{} {}", text("manager"), text("operation"));
            if text("apiVersion") != "d.io/v1" {
                head += &format!(" {}", text("apiVersion"));
            }
            if !text("subresource").is_empty() {
                head += &format!(" /{}", text("subresource"));
            }
            if let Some(time) = entry["time"].as_str() {
                head += &format!(" @{}", time.parse::<Timestamp>().unwrap().as_second());
            }
            assert_eq!(entry["fieldsType"], "FieldsV1");
            (head, entry["fieldsV1"].clone())
        };
        entries.iter().map(short).collect()
    }

    #[track_caller]
    fn expect(&self, spec: Value, managers: &[(&str, Value)]) {
        assert_eq!(*self.spec(), spec);
        let managers: Vec<_> =
            managers.iter().map(|(head, fields)| ((*head).to_owned(), fields.clone())).collect();
        assert_eq!(self.managers(), managers);
    }
}

fn whole(api_version: &str, mut fields: Value) -> Value {
    let object = fields.as_object_mut().unwrap();
    object.entry("apiVersion").or_insert_with(|| api_version.into());
    object.entry("kind").or_insert_with(|| "W".into());
    let metadata = object.entry("metadata").or_insert_with(|| json!({}));
    metadata["name"] = "w".into();
    fields
}

fn merge_patch(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    let target = target.as_object_mut().unwrap();
    for (key, value) in patch {
        if value.is_null() {
            target.remove(key);
        } else {
            merge_patch(target.entry(key).or_insert(Value::Null), value);
        }
    }
}

fn spec(fields: Value) -> Value {
    json!({"spec": fields})
}

fn owns(fields: Value) -> Value {
    json!({"f:spec": fields})
}
