//! JSON of built-in objects, written as the protobuf message of the same object.
//!
//! What stands in the JSON is written and nothing else: Go writes every field that is no pointer, zero
//! or not, and reads what is absent as zero, so both come to the same object. Fields that protobuf does
//! not have are left out, as upstream's own encoder does.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::Value;

use super::{Object, SCHEMA};
use crate::builtin::facts::{Facts, FieldFact, Form, Raw};
use crate::decode::wire::PREFIX;

/// A message of a type. An error names the field that its type cannot hold.
pub(in crate::builtin) fn message(
    facts: &Facts,
    type_: &str,
    object: &Object,
) -> Result<Vec<u8>, String> {
    let mut out = Message::default();
    Writer { facts }.fields(type_, object, &mut out)?;
    Ok(out.0)
}

/// A message in the envelope by which clients tell what it is.
pub(in crate::builtin) fn envelope(api_version: &str, kind: &str, message: &[u8]) -> Vec<u8> {
    let mut about = Message::default();
    about.bytes(1, api_version.as_bytes());
    about.bytes(2, kind.as_bytes());
    let mut unknown = Message::default();
    unknown.bytes(1, &about.0);
    unknown.bytes(2, message);
    // Neither encoded nor typed otherwise; Go writes both all the same.
    unknown.bytes(3, b"");
    unknown.bytes(4, b"");
    [PREFIX, unknown.0.as_slice()].concat()
}

/// An event of a watch about an object in its envelope, behind its length.
pub(in crate::builtin) fn event(kind: &str, object: &[u8]) -> Vec<u8> {
    let mut raw = Message::default();
    raw.bytes(1, object);
    let mut event = Message::default();
    event.bytes(1, kind.as_bytes());
    event.bytes(2, &raw.0);
    let length = u32::try_from(event.0.len()).unwrap_or(u32::MAX);
    [&length.to_be_bytes(), event.0.as_slice()].concat()
}

/// A message that grows field by field.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push((number & 0x7f) as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }

    fn number(&mut self, field: u32, number: u64) {
        self.varint(u64::from(field) << 3);
        self.varint(number);
    }

    fn fixed64(&mut self, field: u32, bits: u64) {
        self.varint(u64::from(field) << 3 | 1);
        self.0.extend_from_slice(&bits.to_le_bytes());
    }

    fn bytes(&mut self, field: u32, bytes: &[u8]) {
        self.varint(u64::from(field) << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    /// A message within this one.
    fn nested(
        &mut self,
        field: u32,
        fill: impl FnOnce(&mut Self) -> Result<(), String>,
    ) -> Result<(), String> {
        let mut inner = Self::default();
        fill(&mut inner)?;
        self.bytes(field, &inner.0);
        Ok(())
    }
}

struct Writer<'a> {
    facts: &'a Facts,
}

impl Writer<'_> {
    fn fields(&self, type_: &str, object: &Object, out: &mut Message) -> Result<(), String> {
        for fact in &self.facts.type_(type_).fields {
            let Some(number) = fact.pb else { continue };
            self.field(fact, number, object, out).map_err(|wrong| format!("{type_}.{wrong}"))?;
        }
        Ok(())
    }

    fn field(
        &self,
        fact: &FieldFact,
        number: u32,
        object: &Object,
        out: &mut Message,
    ) -> Result<(), String> {
        // Its fields stand in the outer object.
        if let (Form::Struct(inner), true) = (&fact.form, fact.inline) {
            return out.nested(number, |out| self.fields(inner, object, out));
        }
        let Some(value) = object.get(&fact.name).filter(|value| !value.is_null()) else {
            return Ok(());
        };
        let wrong = || format!("{} cannot hold {value}", fact.name);
        match (&fact.form, value) {
            (Form::List(item), Value::Array(items)) => {
                items.iter().try_for_each(|value| self.value(item, number, value, out))
            }
            (Form::Map(item), Value::Object(map)) => map.iter().try_for_each(|(key, value)| {
                out.nested(number, |out| {
                    out.bytes(1, key.as_bytes());
                    self.map_value(item, value, out)
                })
            }),
            (Form::List(_) | Form::Map(_), _) => Err(wrong()),
            (form, value) => self.value(form, number, value, out),
        }
    }

    /// A map cannot hold lists but as messages `{1: item}`.
    fn map_value(&self, form: &Form, value: &Value, out: &mut Message) -> Result<(), String> {
        match (form, value) {
            (Form::List(item), Value::Array(items)) => out.nested(2, |out| {
                items.iter().try_for_each(|value| self.value(item, 1, value, out))
            }),
            (Form::List(_), Value::Null) => out.nested(2, |_| Ok(())),
            (form, value) => self.value(form, 2, value, out),
        }
    }

    fn value(
        &self,
        form: &Form,
        number: u32,
        value: &Value,
        out: &mut Message,
    ) -> Result<(), String> {
        let wrong = || format!("{value} is no {form:?}");
        match (form, value) {
            // Zero, in a list or a map of what Go has no pointers to.
            (Form::Text | Form::Bytes | Form::Struct(_), Value::Null) => out.bytes(number, b""),
            (Form::Text, Value::String(text)) => out.bytes(number, text.as_bytes()),
            (Form::Bool, Value::Bool(bool)) => out.number(number, u64::from(*bool)),
            (Form::Int32 | Form::Int64, value) => {
                // A negative number is as long as its complement.
                out.number(number, value.as_i64().ok_or_else(wrong)? as u64);
            }
            (Form::Double, value) => {
                out.fixed64(number, value.as_f64().ok_or_else(wrong)?.to_bits());
            }
            (Form::Bytes, Value::String(text)) => {
                out.bytes(number, &STANDARD.decode(text).map_err(|_| wrong())?);
            }
            (Form::Time | Form::MicroTime, Value::String(text)) => {
                let time: Timestamp = text.parse().map_err(|_| wrong())?;
                out.nested(number, |out| {
                    out.number(1, time.as_second() as u64);
                    out.number(2, u64::from(time.subsec_nanosecond().unsigned_abs()));
                    Ok(())
                })?;
            }
            (Form::Quantity, Value::String(text)) => out.nested(number, |out| {
                out.bytes(1, text.as_bytes());
                Ok(())
            })?,
            (Form::IntOrString, value) => out.nested(number, |out| {
                match value {
                    Value::String(text) => {
                        out.number(1, 1);
                        out.bytes(3, text.as_bytes());
                    }
                    value => {
                        out.number(1, 0);
                        out.number(2, value.as_i64().ok_or_else(wrong)? as u64);
                    }
                }
                Ok(())
            })?,
            (Form::Raw(Raw::Object | Raw::Fields | Raw::Any), value) => {
                out.nested(number, |out| {
                    out.bytes(1, value.to_string().as_bytes());
                    Ok(())
                })?;
            }
            (Form::Raw(raw), value) => {
                out.nested(number, |out| self.schema_or(*raw, value, out))?
            }
            (Form::Struct(inner), Value::Object(object)) => {
                out.nested(number, |out| self.fields(inner, object, out))?;
            }
            _ => return Err(wrong()),
        }
        Ok(())
    }

    /// A schema, or what may stand in its place.
    fn schema_or(&self, raw: Raw, value: &Value, out: &mut Message) -> Result<(), String> {
        // Only of these is the schema the second field.
        let (schema_at, other_at) = if raw == Raw::SchemaOrBool { (2, 1) } else { (1, 2) };
        match value {
            Value::Object(schema) => {
                if raw == Raw::SchemaOrBool {
                    out.number(other_at, 1);
                }
                out.nested(schema_at, |out| self.fields(SCHEMA, schema, out))
            }
            Value::Bool(allows) => {
                out.number(other_at, u64::from(*allows));
                Ok(())
            }
            Value::Array(items) => items.iter().try_for_each(|item| match item {
                Value::String(text) => {
                    out.bytes(other_at, text.as_bytes());
                    Ok(())
                }
                item => self.value(&Form::Struct(SCHEMA.to_owned()), other_at, item, out),
            }),
            other => Err(format!("{other} is no schema")),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::builtin::facts::facts;

    /// What is written is read again as the same.
    #[test]
    fn what_is_written_is_read() {
        for (type_, object) in [
            (
                "core.v1.Pod",
                json!({"metadata": {"name": "p", "labels": {"a": "b", "c": ""}, "generation": 3,
                    "creationTimestamp": "2026-01-01T00:00:00Z", "managedFields": [{"manager": "m",
                        "time": "1969-12-31T23:59:59Z", "fieldsV1": {"f:a": {}}}]},
                    "spec": {"containers": [{"name": "c", "args": ["", "x"], "resources":
                        {"limits": {"cpu": "1500m"}}, "livenessProbe": {"httpGet": {"port": "http"}},
                        "ports": [{"containerPort": 80}]}],
                        "volumes": [{"name": "v", "emptyDir": {}}, {"name": "w", "secret": {"secretName": "s"}}],
                        "terminationGracePeriodSeconds": 0, "hostNetwork": false, "priority": -5},
                    "status": {}}),
            ),
            (
                "core.v1.ConfigMap",
                json!({"binaryData": {"k": "AP8="}, "data": {"a": ""}, "immutable": true}),
            ),
            (
                "coordination.v1.Lease",
                json!({"spec": {"renewTime": "2026-01-01T00:00:01.000001Z", "leaseDurationSeconds": 40}}),
            ),
            ("authorization.v1.SubjectAccessReview", json!({"spec": {"extra": {"k": ["a", "b"]}}})),
            ("core.v1.Service", json!({"spec": {"ports": [{"port": 1, "targetPort": 8080}]}})),
            ("apps.v1.ControllerRevision", json!({"data": {"a": [1, 1.5, null]}, "revision": 7})),
            (
                "apiextensions.v1.JSONSchemaProps",
                json!({"additionalProperties": true, "items": {"type": "string"}, "multipleOf": 0.5,
                    "default": [1], "properties": {"x": {"maximum": 3.0}}}),
            ),
            (
                "meta.v1.Status",
                json!({"code": 404, "details": {"causes": [{"field": "f"}]}, "metadata": {}}),
            ),
        ] {
            let written = message(facts().unwrap(), type_, object.as_object().unwrap()).unwrap();
            let mut read = super::super::message(facts().unwrap(), type_, &written).unwrap();
            // Structs that are no pointers are written for the fields within them.
            read.retain(|key, value| object.get(key).is_some() || *value != json!({}));
            assert_eq!(Value::Object(read), object, "{type_}");
        }
    }

    #[test]
    fn what_a_type_cannot_hold_is_named() {
        let written = message(
            facts().unwrap(),
            "core.v1.ConfigMap",
            json!({"data": [1]}).as_object().unwrap(),
        );
        assert_eq!(written.unwrap_err(), "core.v1.ConfigMap.data cannot hold [1]");
    }

    #[test]
    fn an_event_stands_behind_its_length() {
        let object = envelope("v1", "ConfigMap", b"");
        assert!(object.starts_with(b"k8s\0\x0a\x0f\x0a\x02v1\x12\x09ConfigMap\x12\0\x1a\0\x22\0"));
        let event = event("ADDED", &object);
        let (length, rest) = event.split_first_chunk::<4>().unwrap();
        assert_eq!(u32::from_be_bytes(*length) as usize, rest.len());
    }
}
