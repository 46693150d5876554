//! Reads a few fields of an object's JSON and skips the rest.
//!
//! Parsing a whole object costs an allocation for every string in it; most readers look at a few of
//! them. A [`Projection`] names the fields that are wanted, and what it reads looks to its reader as
//! the whole object does, but for the fields that nobody named.

use std::fmt;

use serde::Deserialize as _;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// The fields that are wanted of an object, and of the objects in it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Projection {
    /// Everything.
    Whole,
    /// These fields; a list is read item by item, and what is neither object nor list is kept.
    Fields(Vec<(String, Self)>),
}

impl Projection {
    /// No field.
    pub(crate) fn nothing() -> Self {
        Self::Fields(Vec::new())
    }

    /// Wants the field at a path, with all that is in it; the empty path is the object itself.
    pub(crate) fn want<'a>(&mut self, path: impl IntoIterator<Item = &'a str>) {
        let mut here = self;
        for name in path {
            let Self::Fields(fields) = here else { return };
            let place = fields.iter().position(|(known, _)| known == name).unwrap_or_else(|| {
                fields.push((name.to_owned(), Self::nothing()));
                fields.len() - 1
            });
            here = &mut fields[place].1;
        }
        *here = Self::Whole;
    }

    /// Reads what is wanted of the JSON.
    pub(crate) fn read(&self, json: &[u8]) -> serde_json::Result<Value> {
        let mut json = serde_json::Deserializer::from_slice(json);
        let value = self.deserialize(&mut json)?;
        json.end()?;
        Ok(value)
    }
}

impl<'de> DeserializeSeed<'de> for &Projection {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        match self {
            Projection::Whole => Value::deserialize(deserializer),
            Projection::Fields(fields) => deserializer.deserialize_any(Reader { of: self, fields }),
        }
    }
}

struct Reader<'a> {
    of: &'a Projection,
    fields: &'a [(String, Projection)],
}

impl<'de> Visitor<'de> for Reader<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(found) = access.next_key_seed(Name(self.fields))? {
            match found {
                Some((name, part)) => {
                    object.insert(name.clone(), access.next_value_seed(part)?);
                }
                None => {
                    access.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(Value::Object(object))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = access.next_element_seed(self.of)? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }
}

/// Finds a field's name among those that are wanted.
struct Name<'a>(&'a [(String, Projection)]);

impl<'a, 'de> DeserializeSeed<'de> for Name<'a> {
    type Value = Option<&'a (String, Projection)>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'a> Visitor<'_> for Name<'a> {
    type Value = Option<&'a (String, Projection)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a field's name")
    }

    fn visit_str<E>(self, name: &str) -> Result<Self::Value, E> {
        Ok(self.0.iter().find(|(known, _)| known == name))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(paths: &[&str], json: &str) -> Value {
        let mut projection = Projection::nothing();
        for path in paths {
            projection.want(path.split('.'));
        }
        projection.read(json.as_bytes()).unwrap()
    }

    #[test]
    fn wanted_fields_are_read_and_others_not() {
        let object =
            r#"{"a": {"b": 1, "c": [{"d": "x", "e": 2}, {"d": "y"}, 3]}, "f": null, "g": 1.5}"#;
        for (paths, want) in [
            (&[][..], json!({})),
            (&["a.b"], json!({"a": {"b": 1}})),
            (&["a.c.d"], json!({"a": {"c": [{"d": "x"}, {"d": "y"}, 3]}})),
            (
                &["a", "a.b", "f"],
                json!({"a": {"b": 1, "c": [{"d": "x", "e": 2}, {"d": "y"}, 3]}, "f": null}),
            ),
            (&["g.h", "f.i", "none.of.it"], json!({"g": 1.5, "f": null})),
        ] {
            assert_eq!(read(paths, object), want, "{paths:?}");
        }
        assert_eq!(Projection::Whole.read(b"[1]").unwrap(), json!([1]));
    }

    #[test]
    fn what_is_no_json_is_an_error() {
        let mut projection = Projection::nothing();
        projection.want(["a"]);
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        for text in ["", "{", "{\"a\":}", "{} {}", &deep] {
            assert!(projection.read(text.as_bytes()).is_err());
        }
    }
}
