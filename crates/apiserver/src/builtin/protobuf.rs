//! Protobuf messages of built-in types, read into the JSON of the same object, and [`write`]n from it.
//!
//! The facts say which field has which number, and `facts/README.md` how each form is written.
//! Go sends every field that is no pointer, zero or not; what comes out of here still goes through
//! `decode`, which drops the zeros that upstream's JSON leaves out, so that a body in protobuf and
//! one in JSON come to the same. Unknown fields are skipped, as upstream does even if the client
//! asks for strict validation.
//!
//! Values nest no deeper than in JSON bodies. The bare field names in refusals are made from the
//! JSON names, and differ from upstream's where Go spells initials in capitals.

pub(super) mod write;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::{Map, Number, Value};

use super::facts::{Facts, FieldFact, Form, Raw};
use crate::decode::MAX_DEPTH;
use crate::decode::wire::{self, Field, Fields, Payload};

type Object = Map<String, Value>;

const SCHEMA: &str = "apiextensions.v1.JSONSchemaProps";

/// Reads a message of a type, or says what upstream's decoder would complain about.
pub(super) fn message(facts: &Facts, type_: &str, bytes: &[u8]) -> Result<Object, String> {
    let mut object = Object::new();
    Reader { facts, depth: 0 }.message(type_, bytes, &mut object)?;
    Ok(object)
}

struct Reader<'a> {
    facts: &'a Facts,
    depth: usize,
}

impl Reader<'_> {
    /// Runs one level further in.
    fn deeper<T>(&mut self, run: impl FnOnce(&mut Self) -> Result<T, String>) -> Result<T, String> {
        if self.depth == MAX_DEPTH {
            return Err("exceeded max depth".to_owned());
        }
        self.depth += 1;
        let result = run(self);
        self.depth -= 1;
        result
    }

    /// Merges a message into an object: a field that comes twice adds to what was there.
    fn message(&mut self, type_: &str, bytes: &[u8], into: &mut Object) -> Result<(), String> {
        self.deeper(|this| {
            let name = type_.rsplit('.').next().unwrap_or(type_);
            let facts = this.facts;
            let mut sent = Fields::new(name, bytes);
            while let Some(field) = sent.next()? {
                let fact = facts.type_(type_).fields.iter().find(|f| f.pb == Some(field.number));
                if let Some(fact) = fact {
                    this.field(fact, &field, into)?;
                }
            }
            Ok(())
        })
    }

    fn field(
        &mut self,
        fact: &FieldFact,
        sent: &Field<'_>,
        into: &mut Object,
    ) -> Result<(), String> {
        let name = go_name(&fact.name);
        match &fact.form {
            // Its fields stand in the outer object.
            Form::Struct(inner) if fact.inline => self.message(inner, sent.bytes(&name)?, into),
            Form::Struct(inner) => {
                let place =
                    into.entry(fact.name.clone()).or_insert_with(|| Value::Object(Object::new()));
                match place {
                    Value::Object(object) => self.message(inner, sent.bytes(&name)?, object),
                    _ => Ok(()),
                }
            }
            Form::List(item) => {
                let place =
                    into.entry(fact.name.clone()).or_insert_with(|| Value::Array(Vec::new()));
                let Value::Array(items) = place else { return Ok(()) };
                self.deeper(|this| this.item(item, sent, &name, items))
            }
            Form::Map(item) => {
                let place =
                    into.entry(fact.name.clone()).or_insert_with(|| Value::Object(Object::new()));
                let Value::Object(map) = place else { return Ok(()) };
                self.deeper(|this| this.entry(item, sent.bytes(&name)?, map))
            }
            form => {
                let value = self.value(form, sent, &name)?;
                into.insert(fact.name.clone(), value);
                Ok(())
            }
        }
    }

    /// Adds to a list: one item, or numbers that somebody packed.
    fn item(
        &mut self,
        form: &Form,
        sent: &Field<'_>,
        name: &str,
        items: &mut Vec<Value>,
    ) -> Result<(), String> {
        let number = matches!(form, Form::Bool | Form::Int32 | Form::Int64 | Form::Double);
        let Payload::Bytes(mut packed) = sent.payload else {
            items.push(self.value(form, sent, name)?);
            return Ok(());
        };
        if !number {
            items.push(self.value(form, sent, name)?);
            return Ok(());
        }
        while !packed.is_empty() {
            let payload = match form {
                Form::Double => Payload::Fixed64(wire::fixed64(&mut packed)?),
                _ => Payload::Varint(wire::varint(&mut packed)?),
            };
            items.push(self.value(form, &Field { payload, ..*sent }, name)?);
        }
        Ok(())
    }

    /// Adds an entry `{1: key, 2: value}` to a map; what is missing of it is zero.
    fn entry(&mut self, form: &Form, bytes: &[u8], map: &mut Object) -> Result<(), String> {
        let (mut key, mut value) = (String::new(), None);
        let mut fields = Fields::new("Entry", bytes);
        while let Some(field) = fields.next()? {
            match field.number {
                1 => key = wire::text(field.bytes("Key")?),
                2 => value = Some(self.map_value(form, &field)?),
                _ => {}
            }
        }
        // The shape of the type turns null into its zero.
        map.insert(key, value.unwrap_or_default());
        Ok(())
    }

    /// A map cannot hold lists but as messages `{1: item}`.
    fn map_value(&mut self, form: &Form, sent: &Field<'_>) -> Result<Value, String> {
        let Form::List(item) = form else { return self.value(form, sent, "Value") };
        let mut items = Vec::new();
        let mut fields = Fields::new("Items", sent.bytes("Value")?);
        while let Some(field) = fields.next()? {
            if field.number == 1 {
                self.item(item, &field, "Items", &mut items)?;
            }
        }
        Ok(items.into())
    }

    fn value(&mut self, form: &Form, sent: &Field<'_>, name: &str) -> Result<Value, String> {
        Ok(match form {
            Form::Text => wire::text(sent.bytes(name)?).into(),
            Form::Bool => (sent.varint(name)? != 0).into(),
            // Go keeps the low bits, and so the sign.
            Form::Int32 => (sent.varint(name)? as i32).into(),
            Form::Int64 => (sent.varint(name)? as i64).into(),
            Form::Double => match sent.payload {
                Payload::Fixed64(bits) => double(f64::from_bits(bits))?,
                _ => return Err(sent.wrong(name)),
            },
            Form::Bytes => STANDARD.encode(sent.bytes(name)?).into(),
            Form::Time => time(sent.bytes(name)?, "%Y-%m-%dT%H:%M:%SZ")?,
            Form::MicroTime => time(sent.bytes(name)?, "%Y-%m-%dT%H:%M:%S.%6fZ")?,
            Form::Quantity => quantity(sent.bytes(name)?)?,
            Form::IntOrString => int_or_string(sent.bytes(name)?)?,
            Form::Raw(Raw::Object | Raw::Fields | Raw::Any) => self.json(sent.bytes(name)?)?,
            Form::Raw(raw) => self.schema_or(*raw, sent.bytes(name)?)?,
            Form::Struct(inner) => {
                let mut object = Object::new();
                self.message(inner, sent.bytes(name)?, &mut object)?;
                object.into()
            }
            // Nothing of upstream's nests lists or maps without a struct between.
            Form::List(_) | Form::Map(_) => return Err(sent.wrong(name)),
        })
    }

    /// `{1: bytes}`, where the bytes are JSON.
    fn json(&mut self, bytes: &[u8]) -> Result<Value, String> {
        let mut raw: &[u8] = &[];
        let mut fields = Fields::new("RawExtension", bytes);
        while let Some(field) = fields.next()? {
            if field.number == 1 {
                raw = field.bytes("Raw")?;
            }
        }
        if raw.is_empty() {
            return Ok(Value::Null);
        }
        let value = crate::decode::json(raw).map_err(|error| error.to_string())?.value;
        if self.depth + levels(&value) > MAX_DEPTH {
            return Err("exceeded max depth".to_owned());
        }
        Ok(value)
    }

    /// A schema, or what may stand in its place.
    fn schema_or(&mut self, raw: Raw, bytes: &[u8]) -> Result<Value, String> {
        // Only of these is the schema the second field.
        let (schema_at, other_at) = if raw == Raw::SchemaOrBool { (2, 1) } else { (1, 2) };
        let (mut schema, mut allows, mut items) = (None, false, Vec::new());
        let mut fields = Fields::new("JSONSchemaProps", bytes);
        while let Some(field) = fields.next()? {
            if field.number == schema_at {
                let object = schema.get_or_insert_with(Object::new);
                self.message(SCHEMA, field.bytes("Schema")?, object)?;
            } else if field.number == other_at {
                match raw {
                    Raw::SchemaOrBool => allows = field.varint("Allows")? != 0,
                    Raw::SchemaOrStrings => {
                        items.push(wire::text(field.bytes("Property")?).into());
                    }
                    _ => {
                        let form = Form::Struct(SCHEMA.to_owned());
                        items.push(self.value(&form, &field, "JSONSchemas")?);
                    }
                }
            }
        }
        Ok(match schema {
            _ if !items.is_empty() => items.into(),
            Some(schema) => schema.into(),
            None if raw == Raw::SchemaOrBool => allows.into(),
            None => Value::Null,
        })
    }
}

/// How deep a value nests; bodies have been bounded.
fn levels(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(levels).max().unwrap_or(0),
        Value::Object(map) => 1 + map.values().map(levels).max().unwrap_or(0),
        _ => 0,
    }
}

fn double(number: f64) -> Result<Value, String> {
    let refused = || format!("json: unsupported value: {number}");
    Number::from_f64(number).map(Value::Number).ok_or_else(refused)
}

/// `{1: seconds, 2: nanoseconds}`; nothing at all is no time.
fn time(bytes: &[u8], layout: &str) -> Result<Value, String> {
    if bytes.is_empty() {
        return Ok(Value::Null);
    }
    let (mut seconds, mut nanos) = (0_i64, 0_i32);
    let mut fields = Fields::new("Timestamp", bytes);
    while let Some(field) = fields.next()? {
        match field.number {
            1 => seconds = field.varint("Seconds")? as i64,
            2 => nanos = field.varint("Nanos")? as i32,
            _ => {}
        }
    }
    let time = Timestamp::new(seconds, nanos).ok().filter(|time| time.as_second() >= YEAR_ZERO);
    let time = time.ok_or("Time.MarshalJSON: year outside of range [0,9999]")?;
    Ok(time.strftime(layout).to_string().into())
}

/// The first second that RFC 3339 can write, in seconds since 1970.
const YEAR_ZERO: i64 = -62_167_219_200;

/// `{1: text}`.
fn quantity(bytes: &[u8]) -> Result<Value, String> {
    let mut text = String::from("0");
    let mut fields = Fields::new("Quantity", bytes);
    while let Some(field) = fields.next()? {
        if field.number == 1 {
            text = super::scalar::quantity(&wire::text(field.bytes("String_")?))?;
        }
    }
    Ok(text.into())
}

/// `{1: which, 2: number, 3: text}`.
fn int_or_string(bytes: &[u8]) -> Result<Value, String> {
    let (mut which, mut number, mut text) = (0, 0, String::new());
    let mut fields = Fields::new("IntOrString", bytes);
    while let Some(field) = fields.next()? {
        match field.number {
            1 => which = field.varint("Type")? as i64,
            2 => number = field.varint("IntVal")? as i32,
            3 => text = wire::text(field.bytes("StrVal")?),
            _ => {}
        }
    }
    match which {
        0 => Ok(number.into()),
        1 => Ok(text.into()),
        _ => Err("impossible IntOrString.Type".to_owned()),
    }
}

/// A field's name in Go, as far as it follows from the one in JSON.
fn go_name(name: &str) -> String {
    if name == "metadata" {
        return "ObjectMeta".to_owned();
    }
    let mut chars = name.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::facts::facts;
    use super::*;

    /// A field with its length in front.
    fn field(number: usize, content: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        for mut part in [number << 3 | 2, content.len()] {
            while part >= 0x80 {
                out.push((part & 0x7f) as u8 | 0x80);
                part >>= 7;
            }
            out.push(part as u8);
        }
        [&out, content].concat()
    }

    fn read(type_: &str, bytes: &[u8]) -> Result<Value, String> {
        message(facts().unwrap(), type_, bytes).map(Value::Object)
    }

    #[test]
    fn every_form_becomes_its_json() {
        for (type_, bytes, want) in [
            (
                "meta.v1.ObjectMeta",
                field(8, b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
                json!({"creationTimestamp": "1969-12-31T23:59:59Z"}),
            ),
            ("meta.v1.ObjectMeta", field(8, b""), json!({"creationTimestamp": null})),
            (
                "coordination.v1.LeaseSpec",
                field(4, b"\x08\x01\x10\xe8\x07"),
                json!({"renewTime": "1970-01-01T00:00:01.000001Z"}),
            ),
            (
                "core.v1.ServicePort",
                field(4, b"\x08\x01\x10\x00\x1a\x01x"),
                json!({"targetPort": "x"}),
            ),
            (
                "core.v1.ServicePort",
                field(4, b"\x08\x00\x10\x50\x1a\x00"),
                json!({"targetPort": 80}),
            ),
            // Numbers one by one, and packed as upstream never does.
            (
                "core.v1.PodSecurityContext",
                b"\x20\x01\x22\x02\x02\x03".to_vec(),
                json!({"supplementalGroups": [1, 2, 3]}),
            ),
            (
                "core.v1.ResourceRequirements",
                field(1, &[field(1, b"cpu"), field(2, &field(1, b"1.50"))].concat()),
                json!({"limits": {"cpu": "1500m"}}),
            ),
            ("core.v1.ConfigMap", field(2, b""), json!({"data": {"": null}})),
            (
                "core.v1.ConfigMap",
                field(3, &[field(1, b"k"), field(2, b"\x00\xff")].concat()),
                json!({"binaryData": {"k": "AP8="}}),
            ),
            (
                "authorization.v1.SubjectAccessReviewSpec",
                field(
                    5,
                    &[field(1, b"k"), field(2, &[field(1, b"a"), field(1, b"b")].concat())]
                        .concat(),
                ),
                json!({"extra": {"k": ["a", "b"]}}),
            ),
            (
                "apps.v1.ControllerRevision",
                field(2, &field(1, br#"{"a":1.5}"#)),
                json!({"data": {"a": 1.5}}),
            ),
            // A volume's source stands in the volume itself.
            (
                "core.v1.Volume",
                [field(1, b"v"), field(2, &field(2, &field(1, b"Memory")))].concat(),
                json!({"name": "v", "emptyDir": {"medium": "Memory"}}),
            ),
            // What comes twice is merged, as in Go.
            (
                "core.v1.Event",
                [field(2, &field(1, b"Pod")), field(2, &field(3, b"p"))].concat(),
                json!({"involvedObject": {"kind": "Pod", "name": "p"}}),
            ),
            (
                "apiextensions.v1.JSONSchemaProps",
                field(30, b"\x08\x01"),
                json!({"additionalProperties": true}),
            ),
        ] {
            assert_eq!(read(type_, &bytes).unwrap(), want, "{type_}");
        }
    }

    #[test]
    fn what_no_object_can_hold_is_refused() {
        let deep = b"[".repeat(MAX_DEPTH);
        let deep = [deep, b"]".repeat(MAX_DEPTH)].concat();
        for (type_, bytes, want) in [
            ("meta.v1.ObjectMeta", vec![0x08, 1], "proto: wrong wireType = 0 for field Name"),
            ("core.v1.ConfigMap", vec![0x0c], "proto: ConfigMap: wiretype end group for non-group"),
            (
                "meta.v1.ObjectMeta",
                field(8, b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\x7f"),
                "Time.MarshalJSON: year outside of range [0,9999]",
            ),
            (
                "apps.v1.ControllerRevision",
                field(2, &field(1, b"{")),
                "unexpected end of JSON input",
            ),
            ("apps.v1.ControllerRevision", field(2, &field(1, &deep)), "exceeded max depth"),
        ] {
            assert_eq!(read(type_, &bytes).unwrap_err(), want, "{type_}");
        }
        let schema = (0..200).fold(Vec::new(), |inner, _| field(28, &inner));
        let refusal = read("apiextensions.v1.JSONSchemaProps", &schema).unwrap_err();
        assert_eq!(refusal, "exceeded max depth");
    }
}
