//! Objects as upstream's typed clients send them: protobuf in an envelope.
//!
//! The table of facts gives numbers and forms (`crates/apiserver/facts/README.md`); like Go, it
//! writes every field that is no pointer, be it zero. What comes out is checked by the reference
//! server, which answers with what it read. An object that its kind cannot hold is a mistake in the
//! case, and said. Deliberately not the reader of the server under test.

use std::collections::HashMap;
use std::sync::LazyLock;

use anyhow::{Context, Result, bail};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::{Map, Value};

const FACTS: &str = include_str!("../../../crates/apiserver/facts/builtin.json");

#[derive(Deserialize)]
struct Facts {
    kinds: HashMap<String, HashMap<String, String>>,
    types: HashMap<String, Type>,
}

#[derive(Deserialize)]
struct Type {
    fields: Vec<Field>,
}

#[derive(Deserialize)]
struct Field {
    #[serde(default)]
    name: String,
    #[serde(default)]
    inline: bool,
    #[serde(rename = "type")]
    form: String,
    #[serde(default)]
    ptr: bool,
    pb: Option<u64>,
}

static TABLE: LazyLock<Result<Facts, String>> =
    LazyLock::new(|| serde_json::from_str(FACTS).map_err(|error| error.to_string()));

/// The body of a request that sends this object, which names its `apiVersion` and `kind`.
pub(crate) fn encode(object: &Value) -> Result<Vec<u8>> {
    let facts = TABLE.as_ref().map_err(|error| anyhow::anyhow!("{error}"))?;
    let text = |field: &str| object.get(field).and_then(Value::as_str).unwrap_or_default();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let type_ = match kind {
        "DeleteOptions" => "meta.v1.DeleteOptions",
        _ => facts
            .kinds
            .get(api_version)
            .and_then(|kinds| kinds.get(kind))
            .with_context(|| format!("the facts know no {api_version} {kind}"))?,
    };
    let object = object.as_object().context("a protobuf body is an object")?;
    let message = facts.message(type_, object).with_context(|| kind.to_owned())?;
    let mut about = Vec::new();
    bytes(&mut about, 1, api_version.as_bytes());
    bytes(&mut about, 2, kind.as_bytes());
    let mut out = b"k8s\0".to_vec();
    bytes(&mut out, 1, &about);
    bytes(&mut out, 2, &message);
    bytes(&mut out, 3, b"");
    bytes(&mut out, 4, b"");
    Ok(out)
}

impl Facts {
    fn fields(&self, type_: &str) -> Result<&[Field]> {
        Ok(&self.types.get(type_).with_context(|| format!("no type {type_}"))?.fields)
    }

    fn message(&self, type_: &str, object: &Map<String, Value>) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        for field in self.fields(type_)? {
            let Some(number) = field.pb else { continue };
            if field.inline {
                bytes(&mut out, number, &self.message(&field.form, object)?);
                continue;
            }
            let value = object.get(&field.name).filter(|value| !value.is_null());
            if value.is_none() && field.ptr {
                continue;
            }
            self.field(&mut out, number, &field.form, value.unwrap_or(&Value::Null))
                .with_context(|| field.name.clone())?;
        }
        Ok(out)
    }

    /// A field; null is its zero.
    fn field(&self, out: &mut Vec<u8>, number: u64, form: &str, value: &Value) -> Result<()> {
        if let Some(item) = form.strip_prefix("[]") {
            for value in value.as_array().into_iter().flatten() {
                self.field(out, number, item, value)?;
            }
            return Ok(());
        }
        if let Some(item) = form.strip_prefix("map[string]") {
            for (key, value) in value.as_object().into_iter().flatten() {
                let mut entry = Vec::new();
                bytes(&mut entry, 1, key.as_bytes());
                self.field(&mut entry, 2, item, value)?;
                bytes(out, number, &entry);
            }
            return Ok(());
        }
        match form {
            "bool" | "int32" | "int64" => {
                let negative = || value.as_i64().map(|n| n as u64);
                let whole = value.as_bool().map(u64::from).or_else(negative).unwrap_or(0);
                varint(out, number << 3);
                varint(out, whole);
            }
            "double" => {
                varint(out, number << 3 | 1);
                out.extend(value.as_f64().unwrap_or(0.0).to_le_bytes());
            }
            // A nil slice is left out.
            "bytes" if value.is_null() => {}
            _ => bytes(out, number, &self.delimited(form, value)?),
        }
        Ok(())
    }

    /// What is written with its length in front.
    fn delimited(&self, form: &str, value: &Value) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        let text = value.as_str().unwrap_or_default();
        match form {
            "string" => return Ok(text.into()),
            "bytes" => return STANDARD.decode(text).context("base64"),
            "strings" => {
                for value in value.as_array().into_iter().flatten() {
                    bytes(&mut out, 1, value.as_str().unwrap_or_default().as_bytes());
                }
            }
            "time" | "microtime" if value.is_null() => {}
            "time" | "microtime" => {
                let (seconds, nanos) = instant(text)?;
                self.field(&mut out, 1, "int64", &seconds.into())?;
                self.field(&mut out, 2, "int32", &nanos.into())?;
            }
            "quantity" => {
                let number = value.as_number().map(ToString::to_string);
                bytes(&mut out, 1, number.as_deref().unwrap_or(text).as_bytes());
            }
            "intorstring" => {
                self.field(&mut out, 1, "int32", &i32::from(value.is_string()).into())?;
                self.field(&mut out, 2, "int32", value)?;
                bytes(&mut out, 3, text.as_bytes());
            }
            "object" | "fields" | "any" if value.is_null() => {}
            "object" | "fields" | "any" => bytes(&mut out, 1, value.to_string().as_bytes()),
            "schemaorbool" | "schemaorarray" | "schemaorstrings" => {
                let at = if form == "schemaorbool" { 2 } else { 1 };
                match value {
                    Value::Object(_) => {
                        self.field(&mut out, at, "apiextensions.v1.JSONSchemaProps", value)?;
                    }
                    Value::Bool(_) => self.field(&mut out, 1, "bool", value)?,
                    Value::Array(_) if form == "schemaorstrings" => {
                        self.field(&mut out, 2, "[]string", value)?;
                    }
                    _ => self.field(&mut out, 2, "[]apiextensions.v1.JSONSchemaProps", value)?,
                }
            }
            name => {
                let none = Map::new();
                out = self.message(name, value.as_object().unwrap_or(&none))?;
            }
        }
        Ok(out)
    }
}

fn varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn bytes(out: &mut Vec<u8>, number: u64, bytes: &[u8]) {
    varint(out, number << 3 | 2);
    varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Seconds since 1970 and nanoseconds of a time like `2020-01-02T03:04:05.678901Z`.
fn instant(text: &str) -> Result<(i64, i64)> {
    let mut parts = text.trim_end_matches('Z').split(['-', 'T', ':', '.']);
    let mut number = || -> Result<i64> {
        let part = parts.next().unwrap_or("0");
        part.parse().with_context(|| format!("{text} is no time"))
    };
    let (year, month, day) = (number()?, number()?, number()?);
    let (hour, minute, second) = (number()?, number()?, number()?);
    let fraction = text.trim_end_matches('Z').split_once('.').map_or("", |(_, f)| f);
    let nanos = format!("{fraction:0<9}").parse().with_context(|| format!("{text} is no time"))?;
    if !(1..=12).contains(&month) || !text.ends_with('Z') {
        bail!("{text} is no time of UTC");
    }
    // Days since 1970, with years that begin in March so that leap days come last.
    let year = if month <= 2 { year - 1 } else { year };
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let days = era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468;
    Ok((((days * 24 + hour) * 60 + minute) * 60 + second, nanos))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn times_are_counted_from_1970() {
        assert_eq!(instant("1970-01-01T00:00:00Z").unwrap(), (0, 0));
        assert_eq!(instant("2020-02-29T12:00:01.5Z").unwrap(), (1_582_977_601, 500_000_000));
        assert_eq!(instant("1969-12-31T23:59:59Z").unwrap(), (-1, 0));
        assert!(instant("yesterday").is_err());
    }

    #[test]
    fn a_message_holds_the_zeros_of_what_is_no_pointer() {
        let body = encode(&json!({"apiVersion": "v1", "kind": "DeleteOptions",
            "gracePeriodSeconds": -1, "dryRun": ["All"]}));
        let want = b"k8s\0\x0a\x13\x0a\x02v1\x12\x0dDeleteOptions\x12\x10\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x2a\x03All\x1a\0\x22\0";
        assert_eq!(body.unwrap(), want);
        let body = encode(&json!({"apiVersion": "autoscaling/v1", "kind": "Scale"})).unwrap();
        // The spec and its replicas are there.
        assert!(body.windows(4).any(|part| part == b"\x12\x02\x08\0"));
        assert!(encode(&json!({"apiVersion": "v1", "kind": "Nothing"})).is_err());
    }
}
