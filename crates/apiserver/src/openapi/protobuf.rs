//! Version 2 in protobuf, the form in which kubectl and client-go ask for it.
//!
//! The messages are those of `openapiv2/OpenAPIv2.proto` in github.com/google/gnostic-models, the
//! values those of the JSON document. Values of any shape (`Any`) carry their text, which is YAML
//! there; JSON is YAML.

use serde_json::Value;

/// A document in the making.
#[derive(Debug, Default)]
pub(super) struct Protobuf {
    paths: Message,
    definitions: Message,
}

impl Protobuf {
    /// Adds a path with its operations.
    pub(super) fn path(&mut self, path: &str, item: &Value) {
        self.paths.named(2, path, |out| path_item(item, out));
    }

    /// Adds a definition.
    pub(super) fn definition(&mut self, name: &str, definition: &Value) {
        self.definitions.named(1, name, |out| schema(definition, out));
    }

    /// The document, given what it says of itself and how clients prove who they are.
    pub(super) fn finish(self, info: &Value, security: &str, scheme: &Value) -> Vec<u8> {
        let mut out = Message::default();
        out.text(1, "2.0");
        out.message(2, |out| {
            out.field(1, info.get("title"));
            out.field(2, info.get("version"));
        });
        out.bytes(8, &self.paths.0);
        out.bytes(9, &self.definitions.0);
        out.message(12, |out| out.named(1, security, |_| {}));
        out.message(13, |out| {
            out.named(1, security, |out| {
                out.message(2, |out| {
                    for (number, field) in [(1, "type"), (2, "name"), (3, "in"), (4, "description")]
                    {
                        out.field(number, scheme.get(field));
                    }
                });
            });
        });
        out.0
    }
}

fn object(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}

fn array(value: Option<&Value>) -> impl Iterator<Item = &Value> {
    value.and_then(Value::as_array).into_iter().flatten()
}

fn path_item(item: &Value, out: &mut Message) {
    for (number, method) in [(2, "get"), (3, "put"), (4, "post"), (5, "delete"), (8, "patch")] {
        if let Some(described) = item.get(method) {
            out.message(number, |out| operation(described, out));
        }
    }
    for each in array(item.get("parameters")) {
        out.message(9, |out| parameter(each, out));
    }
}

fn operation(operation: &Value, out: &mut Message) {
    out.texts(1, operation.get("tags"));
    out.field(3, operation.get("description"));
    out.field(5, operation.get("operationId"));
    out.texts(6, operation.get("produces"));
    out.texts(7, operation.get("consumes"));
    for each in array(operation.get("parameters")) {
        out.message(8, |out| parameter(each, out));
    }
    out.message(9, |out| {
        for (code, response) in operation.get("responses").into_iter().flat_map(object) {
            // NamedResponseValue, ResponseValue, Response
            out.named(1, code, |out| {
                out.message(1, |out| {
                    out.field(1, response.get("description"));
                    if let Some(answer) = response.get("schema") {
                        out.message(2, |out| out.message(1, |out| schema(answer, out)));
                    }
                });
            });
        }
    });
    out.texts(10, operation.get("schemes"));
    extensions(13, operation, out);
}

/// `ParametersItem`: a `Parameter`, which is a body or one of those that are not.
fn parameter(parameter: &Value, out: &mut Message) {
    let place = parameter.get("in").and_then(Value::as_str).unwrap_or_default();
    out.message(1, |out| match place {
        "body" => out.message(1, |out| {
            out.field(2, parameter.get("name"));
            out.field(3, parameter.get("in"));
            out.field(4, parameter.get("required"));
            if let Some(body) = parameter.get("schema") {
                out.message(5, |out| schema(body, out));
            }
        }),
        // Path and query parameters differ in one field that neither has here.
        _ => out.message(2, |out| {
            let (which, type_, unique) = if place == "path" { (4, 5, 19) } else { (3, 6, 20) };
            out.message(which, |out| {
                out.field(1, parameter.get("required"));
                out.field(2, parameter.get("in"));
                out.field(4, parameter.get("name"));
                out.field(type_, parameter.get("type"));
                out.field(unique, parameter.get("uniqueItems"));
            });
        }),
    });
}

/// The plain fields of a schema.
const SCHEMA: &[(u32, &str)] = &[
    (1, "$ref"),
    (2, "format"),
    (3, "title"),
    (4, "description"),
    (8, "exclusiveMaximum"),
    (10, "exclusiveMinimum"),
    (11, "maxLength"),
    (12, "minLength"),
    (13, "pattern"),
    (14, "maxItems"),
    (15, "minItems"),
    (16, "uniqueItems"),
    (17, "maxProperties"),
    (18, "minProperties"),
];

/// Fields that are numbers with a fraction, even where they have none.
const DOUBLES: &[(u32, &str)] = &[(6, "multipleOf"), (7, "maximum"), (9, "minimum")];

fn schema(value: &Value, out: &mut Message) {
    for (number, field) in SCHEMA {
        out.field(*number, value.get(field));
    }
    for (number, field) in DOUBLES {
        if let Some(value) = value.get(field).and_then(Value::as_f64) {
            out.double(*number, value);
        }
    }
    out.texts(19, value.get("required"));
    for each in array(value.get("enum")) {
        out.message(20, |out| any(each, out));
    }
    match value.get("additionalProperties") {
        Some(Value::Bool(allowed)) => out.message(21, |out| out.flag(2, *allowed)),
        Some(values) => out.message(21, |out| out.message(1, |out| schema(values, out))),
        None => {}
    }
    if value.get("type").is_some() {
        out.message(22, |out| out.field(1, value.get("type")));
    }
    if let Some(items) = value.get("items") {
        out.message(23, |out| out.message(1, |out| schema(items, out)));
    }
    if let Some(properties) = value.get("properties") {
        out.message(25, |out| {
            for (name, property) in object(properties) {
                out.named(1, name, |out| schema(property, out));
            }
        });
    }
    extensions(31, value, out);
}

fn extensions(number: u32, value: &Value, out: &mut Message) {
    for (name, value) in object(value).filter(|(name, _)| name.starts_with("x-")) {
        out.named(number, name, |out| any(value, out));
    }
}

fn any(value: &Value, out: &mut Message) {
    out.text(2, &value.to_string());
}

/// A message on the wire: fields one after the other.
#[derive(Debug, Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(0x80 | (value & 0x7f) as u8);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn key(&mut self, number: u32, wire_type: u32) {
        self.varint(u64::from(number << 3 | wire_type));
    }

    fn bytes(&mut self, number: u32, bytes: &[u8]) {
        self.key(number, 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    fn text(&mut self, number: u32, text: &str) {
        self.bytes(number, text.as_bytes());
    }

    fn texts(&mut self, number: u32, texts: Option<&Value>) {
        for text in array(texts).filter_map(Value::as_str) {
            self.text(number, text);
        }
    }

    fn flag(&mut self, number: u32, flag: bool) {
        self.key(number, 0);
        self.varint(u64::from(flag));
    }

    fn double(&mut self, number: u32, value: f64) {
        self.key(number, 1);
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    /// A text, a flag or a whole number; nothing where there is none.
    fn field(&mut self, number: u32, value: Option<&Value>) {
        match value {
            Some(Value::String(text)) => self.text(number, text),
            Some(Value::Bool(flag)) => self.flag(number, *flag),
            Some(Value::Number(whole)) => {
                self.key(number, 0);
                self.varint(whole.as_i64().unwrap_or_default().cast_unsigned());
            }
            _ => {}
        }
    }

    fn message(&mut self, number: u32, write: impl FnOnce(&mut Self)) {
        let mut inner = Self::default();
        write(&mut inner);
        self.bytes(number, &inner.0);
    }

    /// An entry of a map: {1: name, 2: value}.
    fn named(&mut self, number: u32, name: &str, write: impl FnOnce(&mut Self)) {
        self.message(number, |out| {
            out.text(1, name);
            out.message(2, write);
        });
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_go_where_the_messages_have_them() {
        let mut out = Message::default();
        schema(&json!({"type": "string", "maxLength": 300, "x-a": [1]}), &mut out);
        let want = [
            &[0x58, 0xac, 0x02][..],   // max_length = 300
            &[0xb2, 0x01, 8, 0x0a, 6], // type, value
            b"string",
            &[0xfa, 0x01, 12, 0x0a, 3], // vendor_extension, name
            b"x-a",
            &[0x12, 5, 0x12, 3], // value, yaml
            b"[1]",
        ];
        assert_eq!(out.0, want.concat());
    }
}
