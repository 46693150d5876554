//! The YAML reader: the first document, within budgets, as the JSON value upstream converts it to.

use std::fmt;

use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use serde_saphyr::Spanned;
use serde_saphyr::options::DuplicateKeyPolicy;

use super::{DecodeError, Decoded, MAX_DEPTH, Repetitions};
use crate::schema::print;

/// Without aliases a body has at most about one node a byte; with them no more is worth reading.
fn max_nodes(body: &[u8]) -> usize {
    body.len().saturating_add(1_000)
}

/// The library's frames are large: the deepest body takes about 3 MiB of them unoptimised.
const STACK: usize = 32 << 20;

/// Reads on a thread of its own, because the caller's stack may not hold [`MAX_DEPTH`] levels.
pub(super) fn decode(body: &[u8]) -> Result<Decoded, DecodeError> {
    let failed = |_| DecodeError::ParseYaml("the reader could not run".to_owned());
    std::thread::scope(|scope| {
        let reader = std::thread::Builder::new()
            .name("yaml".to_owned())
            .stack_size(STACK)
            .spawn_scoped(scope, || read(body));
        reader.map_err(|_| ()).and_then(|reader| reader.join().map_err(|_| ())).map_err(failed)?
    })
}

fn read(body: &[u8]) -> Result<Decoded, DecodeError> {
    let Ok(text) = std::str::from_utf8(body) else {
        return Err(DecodeError::ParseYaml("invalid leading UTF-8 octet".to_owned()));
    };
    let mut budget = serde_saphyr::Budget::default();
    budget.max_depth = MAX_DEPTH + 1;
    budget.flow_nesting_limit = MAX_DEPTH + 1;
    budget.max_nodes = max_nodes(body);
    budget.max_events = 2 * max_nodes(body);
    budget.max_aliases = 1_000;
    budget.max_anchors = 1_000;
    budget.max_total_scalar_bytes = 16 << 20;
    let options = serde_saphyr::options! {
        budget: Some(budget),
        duplicate_keys: DuplicateKeyPolicy::LastWins,
        legacy_octal_numbers: true,
        non_finite_float_policy: serde_saphyr::options::NonFiniteFloatPolicy::PassThrough,
        with_snippet: false,
    };
    let mut repetitions = Repetitions::default();
    let mut not_finite = None;
    let mut value = None;
    let result = serde_saphyr::with_deserializer_from_str_with_options(text, options, |document| {
        let node = Node { repetitions: &mut repetitions, not_finite: &mut not_finite, depth: 0 };
        value = Some(node.deserialize(document)?);
        Ok(())
    });
    if let Some(what) = not_finite {
        return Err(DecodeError::ConvertYaml(what));
    }
    match (value, result) {
        (Some(value), _) => {
            let duplicates = if repetitions.found.is_empty() {
                Vec::new()
            } else {
                vec![format!("yaml: unmarshal errors:\n{}", repetitions.found.join("\n"))]
            };
            Ok(Decoded { value, duplicates })
        }
        (None, Err(error)) => Err(DecodeError::ParseYaml(error.to_string())),
        (None, Ok(())) => Ok(Decoded { value: Value::Null, duplicates: Vec::new() }),
    }
}

struct Node<'a> {
    repetitions: &'a mut Repetitions,
    not_finite: &'a mut Option<String>,
    depth: usize,
}

impl Node<'_> {
    fn below(&mut self) -> Node<'_> {
        Node { repetitions: self.repetitions, not_finite: self.not_finite, depth: self.depth + 1 }
    }
}

impl<'de> DeserializeSeed<'de> for Node<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        if self.depth > MAX_DEPTH {
            return Err(D::Error::custom("exceeded max depth"));
        }
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Node<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a YAML node")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        match i64::try_from(value) {
            Ok(value) => Ok(value.into()),
            // Beyond an i64 upstream goes on with a float.
            Err(_) => Ok(Number::from_f64(value as f64).map_or(Value::Null, Value::Number)),
        }
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        match Number::from_f64(value) {
            Some(number) => Ok(Value::Number(number)),
            None => {
                self.not_finite.get_or_insert_with(|| print::float(value));
                Ok(Value::Null)
            }
        }
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut items: A) -> Result<Value, A::Error> {
        let mut out = Vec::new();
        loop {
            let mark = self.repetitions.enter_index(out.len());
            let item = items.next_element_seed(self.below())?;
            self.repetitions.leave(mark);
            match item {
                Some(item) => out.push(item),
                None => return Ok(Value::Array(out)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut entries: A) -> Result<Value, A::Error> {
        let mut out = Map::new();
        while let Some(Spanned { value: Key(key), referenced: place, .. }) = entries.next_key()? {
            let mark = self.repetitions.enter_key(&key);
            if out.contains_key(&key) {
                let key = print::quote(&key);
                self.repetitions
                    .note(|_| format!("  line {}: key {key} already set in map", place.line()));
            }
            let value = entries.next_value_seed(self.below())?;
            self.repetitions.leave(mark);
            out.insert(key, value);
        }
        Ok(Value::Object(out))
    }
}

/// A mapping key; scalars that are no strings become their text.
struct Key(String);

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut repetitions = Repetitions::default();
        let mut not_finite = None;
        // A key that nests is refused below; the depth keeps even that short.
        let node = Node {
            repetitions: &mut repetitions,
            not_finite: &mut not_finite,
            depth: MAX_DEPTH - 1,
        };
        match node.deserialize(deserializer)? {
            Value::String(text) => Ok(Self(text)),
            Value::Bool(flag) => Ok(Self(flag.to_string())),
            Value::Number(number) => Ok(Self(number.to_string())),
            other => Err(D::Error::custom(format!("unsupported map key: {other}"))),
        }
    }
}
