//! A JSON object as a built-in kind: what Go's decoder and encoder make of it.
//!
//! Reading and writing back is one step: fields that the kind does not have are dropped and told,
//! nulls and empty values vanish where upstream leaves them out, structs that are no pointers are
//! written even if nothing was sent, and scalars take their canonical spelling. A value of the wrong
//! JSON type is refused in the words of Go's decoder; the facts do not know the names of Go's string
//! types, so that those texts say `string`.
//!
//! Recursion follows the input, which `crate::decode` has bounded.

use serde_json::{Map, Value};

use super::facts::{Facts, FieldFact, Form, Omit, Raw};
use super::scalar;
use crate::decode::go_kind;

type Object = Map<String, Value>;

const SCHEMA: &str = "apiextensions.v1.JSONSchemaProps";

/// An object in its kind's own form.
#[derive(Debug)]
pub(super) struct Typed {
    pub(super) object: Object,
    /// Paths of the fields that the kind does not have, sorted.
    pub(super) unknown: Vec<String>,
}

/// Gives an object the form of a type, or says what Go's decoder would complain about.
pub(super) fn typed(facts: &Facts, type_: &str, object: Object) -> Result<Typed, String> {
    let forgets_empty = !type_.starts_with("apiextensions.");
    let mut decoder = Decoder { facts, path: String::new(), unknown: Vec::new(), forgets_empty };
    let object = decoder.object(type_, object, &Place { owner: go_name(type_), field: "" })?;
    decoder.unknown.sort_unstable();
    Ok(Typed { object, unknown: decoder.unknown })
}

/// Where a value stands, as Go's decoder names it: the innermost struct, and the fields down to it.
struct Place<'a> {
    owner: &'a str,
    field: &'a str,
}

impl Place<'_> {
    fn wrong(&self, found: &str, wanted: &str) -> String {
        let Self { owner, field } = self;
        format!(
            "json: cannot unmarshal {found} into Go struct field {owner}.{field} of type {wanted}"
        )
    }
}

struct Decoder<'a> {
    facts: &'a Facts,
    /// Where we are, as people name it.
    path: String,
    unknown: Vec<String>,
    /// Upstream stores most kinds as protobuf, where an empty list is none; CRDs as JSON.
    forgets_empty: bool,
}

impl Decoder<'_> {
    fn at<T>(&mut self, step: &str, run: impl FnOnce(&mut Self) -> T) -> T {
        let mark = self.path.len();
        if mark > 0 && !step.starts_with('[') {
            self.path.push('.');
        }
        self.path.push_str(step);
        let result = run(self);
        self.path.truncate(mark);
        result
    }

    fn object(
        &mut self,
        type_: &str,
        mut sent: Object,
        place: &Place<'_>,
    ) -> Result<Object, String> {
        let mut out = Object::new();
        for field in self.facts.flat(type_) {
            let value = sent.remove(&field.name).unwrap_or_default();
            let below = match place.field {
                "" => field.name.clone(),
                above => format!("{above}.{}", field.name),
            };
            let below = Place { owner: go_name(type_), field: &below };
            let value = self.at(&field.name, |this| this.field(field, value, &below))?;
            if let Some(value) = value {
                out.insert(field.name.clone(), value);
            }
        }
        for (key, _) in sent {
            let path = self.at(&key, |this| this.path.clone());
            self.unknown.push(path);
        }
        Ok(out)
    }

    /// A field as it is written, if it is.
    fn field(
        &mut self,
        field: &FieldFact,
        value: Value,
        place: &Place<'_>,
    ) -> Result<Option<Value>, String> {
        let never = field.omit == Omit::Never;
        if value.is_null() {
            if field.ptr {
                return Ok(never.then_some(Value::Null));
            }
            return Ok(match (&field.form, field.omit) {
                (_, Omit::Zero) => None,
                // Structs are never empty.
                (Form::Struct(name), _) => Some(self.object(name, Object::new(), place)?.into()),
                (Form::Time | Form::MicroTime | Form::Raw(_), _) => Some(Value::Null),
                (Form::Quantity, _) => Some("0".into()),
                (Form::IntOrString, _) => Some(0.into()),
                (_, Omit::Empty) => None,
                (Form::Text, Omit::Never) => Some("".into()),
                (Form::Bool, Omit::Never) => Some(false.into()),
                (Form::Int32 | Form::Int64 | Form::Double, Omit::Never) => Some(0.into()),
                (Form::Bytes | Form::List(_) | Form::Map(_), Omit::Never) => Some(Value::Null),
            });
        }
        let value = self.value(&field.form, value, place)?;
        if never && self.forgets_empty && matches!(field.form, Form::List(_) | Form::Map(_)) {
            return Ok(Some(if is_empty(&field.form, &value) { Value::Null } else { value }));
        }
        // An empty list sent here turns the tracking of fields off; whoever tracks takes it away.
        let asked = self.path == "metadata.managedFields";
        let keep = field.ptr || never || asked || !is_empty(&field.form, &value);
        Ok(keep.then_some(value))
    }

    fn value(&mut self, form: &Form, value: Value, place: &Place<'_>) -> Result<Value, String> {
        let wrong = |value: &Value| Err(place.wrong(go_kind(value), &go_type(form)));
        Ok(match (form, value) {
            (Form::Struct(name), Value::Object(sent)) => self.object(name, sent, place)?.into(),
            (Form::List(item), Value::Array(sent)) => {
                let mut out = Vec::with_capacity(sent.len());
                for (n, value) in sent.into_iter().enumerate() {
                    let step = format!("[{n}]");
                    out.push(self.at(&step, |this| this.item(item, value, place))?);
                }
                out.into()
            }
            (Form::Map(item), Value::Object(sent)) => {
                let mut out = Object::new();
                for (key, value) in sent {
                    let value = self.at(&key, |this| this.item(item, value, place))?;
                    out.insert(key, value);
                }
                out.into()
            }
            (Form::Text, value @ Value::String(_)) | (Form::Bool, value @ Value::Bool(_)) => value,
            (Form::Int32, Value::Number(number)) => {
                integer(&number, i32::MIN.into(), i32::MAX.into(), place, "int32")?
            }
            (Form::Int64, Value::Number(number)) => {
                integer(&number, i64::MIN, i64::MAX, place, "int64")?
            }
            (Form::Double, mut value @ Value::Number(_)) => {
                crate::decode::settle_numbers(&mut value);
                value
            }
            (Form::Bytes, Value::String(text)) => scalar::base64(&text)?.into(),
            (Form::Time, Value::String(text)) => scalar::time(&text)?.into(),
            (Form::MicroTime, Value::String(text)) => scalar::micro_time(&text)?.into(),
            (Form::Time | Form::MicroTime, value) => {
                return Err(place.wrong(go_kind(&value), "string"));
            }
            (Form::Quantity, Value::String(text)) => scalar::quantity(&text)?.into(),
            (Form::Quantity, value) => scalar::quantity(&value.to_string())?.into(),
            (Form::IntOrString, value @ Value::String(_)) => value,
            (Form::IntOrString, Value::Number(number)) => {
                integer(&number, i32::MIN.into(), i32::MAX.into(), place, "int32")?
            }
            (Form::IntOrString, value) => return Err(place.wrong(go_kind(&value), "int32")),
            (Form::Raw(raw), value) => self.raw(*raw, value, place)?,
            (_, value) => return wrong(&value),
        })
    }

    /// An item of a list or a value of a map; null is the type's zero.
    fn item(&mut self, form: &Form, value: Value, place: &Place<'_>) -> Result<Value, String> {
        if !value.is_null() {
            return self.value(form, value, place);
        }
        Ok(match form {
            Form::Text => "".into(),
            Form::Bool => false.into(),
            Form::Int32 | Form::Int64 | Form::Double | Form::IntOrString => 0.into(),
            Form::Quantity => "0".into(),
            Form::Struct(name) => self.object(name, Object::new(), place)?.into(),
            _ => Value::Null,
        })
    }

    fn raw(&mut self, raw: Raw, value: Value, place: &Place<'_>) -> Result<Value, String> {
        let schema = Form::Struct(SCHEMA.to_owned());
        match (raw, value) {
            (Raw::Object | Raw::Fields | Raw::Any, value) => Ok(value),
            (_, value @ Value::Object(_)) => self.value(&schema, value, place),
            (Raw::SchemaOrBool, value @ Value::Bool(_)) => Ok(value),
            (Raw::SchemaOrBool, _) => Err("boolean or JSON schema expected".to_owned()),
            (Raw::SchemaOrArray, value @ Value::Array(_)) => {
                self.value(&Form::List(Box::new(schema)), value, place)
            }
            (Raw::SchemaOrStrings, value @ Value::Array(_)) => {
                self.value(&Form::List(Box::new(Form::Text)), value, place)
            }
            _ => Ok(Value::Null),
        }
    }
}

fn integer(
    number: &serde_json::Number,
    least: i64,
    most: i64,
    place: &Place<'_>,
    wanted: &str,
) -> Result<Value, String> {
    match number.as_i64().filter(|n| (least..=most).contains(n)) {
        Some(whole) => Ok(whole.into()),
        None => Err(place.wrong(&format!("number {number}"), wanted)),
    }
}

/// Whether Go leaves the value out of a field that is written only if it is not empty.
pub(super) fn is_empty(form: &Form, value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty() && matches!(form, Form::Text | Form::Bytes),
        Value::Bool(flag) => !flag,
        Value::Number(number) => number.as_f64() == Some(0.0) && !matches!(form, Form::IntOrString),
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty() && matches!(form, Form::Map(_)),
    }
}

/// The bare name of a type, as Go's decoder names the struct around a field.
fn go_name(type_: &str) -> &str {
    type_.rsplit('.').next().unwrap_or(type_)
}

/// A type as Go prints it.
fn go_type(form: &Form) -> String {
    match form {
        Form::Text | Form::Time | Form::MicroTime => "string".to_owned(),
        Form::Bool => "bool".to_owned(),
        Form::Int32 | Form::IntOrString => "int32".to_owned(),
        Form::Int64 => "int64".to_owned(),
        Form::Double => "float64".to_owned(),
        Form::Bytes => "[]uint8".to_owned(),
        Form::Quantity => "resource.Quantity".to_owned(),
        Form::Raw(_) => "runtime.RawExtension".to_owned(),
        Form::List(item) => format!("[]{}", go_type(item)),
        Form::Map(item) if **item == Form::Quantity => "v1.ResourceList".to_owned(),
        Form::Map(item) => format!("map[string]{}", go_type(item)),
        Form::Struct(name) => {
            let (package, name) = name.rsplit_once('.').unwrap_or(("", name));
            format!("{}.{name}", go_name(package))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::facts::facts;
    use super::*;

    fn decode(kind: &str, value: Value) -> Result<(Value, Vec<String>), String> {
        let Value::Object(object) = value else { panic!("an object") };
        typed(facts().unwrap(), kind, object).map(|t| (t.object.into(), t.unknown))
    }

    #[test]
    fn objects_take_the_form_in_which_go_writes_them() {
        for (kind, sent, expect, unknown) in [
            (
                "core.v1.ConfigMap",
                json!({"metadata": {"name": "a", "Name": "b"}, "data": {"a": null, "b": ""},
                       "immutable": false, "binaryData": {}, "x": 1}),
                json!({"metadata": {"name": "a"}, "data": {"a": "", "b": ""}, "immutable": false}),
                vec!["metadata.Name", "x"],
            ),
            (
                "core.v1.Service",
                json!({"spec": {"ports": [{"port": 80, "foo": 1, "nodePort": 0}], "selector": null}}),
                json!({"metadata": {}, "spec": {"ports": [{"port": 80, "targetPort": 0}]},
                       "status": {"loadBalancer": {}}}),
                vec!["spec.ports[0].foo"],
            ),
            (
                "rbac.v1.Role",
                json!({"metadata": {"creationTimestamp": null, "managedFields": []}, "rules": []}),
                json!({"metadata": {"managedFields": []}, "rules": null}),
                vec![],
            ),
            (
                "coordination.v1.Lease",
                json!({"spec": {"renewTime": "2026-01-02T03:04:05.000000+01:00"}}),
                json!({"metadata": {}, "spec": {"renewTime": "2026-01-02T02:04:05.000000Z"}}),
                vec![],
            ),
            (
                "apps.v1.Deployment",
                json!({}),
                json!({"metadata": {}, "spec": {"selector": null, "strategy": {},
                       "template": {"metadata": {}, "spec": {"containers": null}}}, "status": {}}),
                vec![],
            ),
        ] {
            let got = decode(kind, sent).unwrap();
            assert_eq!(got, (expect, unknown.into_iter().map(str::to_owned).collect()), "{kind}");
        }
    }

    #[test]
    fn wrong_types_are_told_as_by_go() {
        for (kind, sent, expect) in [
            (
                "core.v1.ConfigMap",
                json!({"data": {"a": 5}}),
                "json: cannot unmarshal number into Go struct field ConfigMap.data of type string",
            ),
            (
                "core.v1.ConfigMap",
                json!({"data": []}),
                "json: cannot unmarshal array into Go struct field ConfigMap.data of type map[string]string",
            ),
            (
                "core.v1.Pod",
                json!({"metadata": {"name": 5}}),
                "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.name of type string",
            ),
            (
                "apps.v1.Deployment",
                json!({"spec": {"replicas": "3"}}),
                "json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32",
            ),
            (
                "apps.v1.Deployment",
                json!({"spec": {"replicas": 5_000_000_000_i64}}),
                "json: cannot unmarshal number 5000000000 into Go struct field DeploymentSpec.spec.replicas of type int32",
            ),
            (
                "core.v1.Pod",
                json!({"spec": {"containers": {}}}),
                "json: cannot unmarshal object into Go struct field PodSpec.spec.containers of type []v1.Container",
            ),
            ("core.v1.Secret", json!({"data": {"a": "!"}}), "illegal base64 data at input byte 0"),
            (
                "core.v1.Service",
                json!({"spec": {"ports": [{"targetPort": true}]}}),
                "json: cannot unmarshal bool into Go struct field ServicePort.spec.ports.targetPort of type int32",
            ),
        ] {
            assert_eq!(decode(kind, sent).unwrap_err(), expect);
        }
    }
}
