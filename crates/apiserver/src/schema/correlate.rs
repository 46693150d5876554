//! Which old value a new value replaces: what ratcheting compares.
//!
//! Fields correlate by name where the schema knows them, items by their keys in a `map` list;
//! nothing else does. Like upstream, an object with a field outside the schema is never unchanged.

use std::collections::HashMap;

use serde_json::Value;

use super::{ListType, Schema, Type, print};

/// An old value and the schema that both it and its replacement follow.
#[derive(Debug, Clone, Copy)]
pub struct Correlated<'a> {
    schema: &'a Schema,
    old: &'a Value,
}

impl<'a> Correlated<'a> {
    /// The past of a whole value.
    pub fn new(schema: &'a Schema, old: &'a Value) -> Self {
        Self { schema, old }
    }

    /// The past of a field.
    pub fn field(self, key: &str) -> Option<Self> {
        let old = self.old.as_object()?.get(key)?;
        Some(Self { schema: self.schema.field(key)?, old })
    }

    /// The past of a list's items.
    pub fn items(self) -> Items<'a> {
        let mut by_key = HashMap::new();
        let keyed = self.schema.type_ == Some(Type::Array)
            && self.schema.list_type == Some(ListType::Map)
            && !self.schema.list_map_keys.is_empty();
        if keyed
            && let Some(schema) = self.schema.items.as_deref()
            && let Some(items) = self.old.as_array()
        {
            for old in items {
                if let Some(key) = key_of(old, &self.schema.list_map_keys) {
                    by_key.entry(key).or_insert(Self { schema, old });
                }
            }
        }
        Items { keys: &self.schema.list_map_keys, keyed, by_key }
    }

    /// Whether the new value is the old one.
    pub fn equals(self, new: &Value) -> bool {
        match (self.old, new) {
            (Value::Array(old), Value::Array(new)) => {
                let items = self.items();
                old.len() == new.len()
                    && if items.keyed && !new.is_empty() {
                        new.iter().all(|new| items.find(new).is_some_and(|old| old.equals(new)))
                    } else {
                        old == new
                    }
            }
            (Value::Object(old), Value::Object(new)) => {
                old.len() == new.len()
                    && new
                        .iter()
                        .all(|(key, new)| self.field(key).is_some_and(|old| old.equals(new)))
            }
            (old, new) => old == new,
        }
    }
}

/// The old items of a list, by key.
#[derive(Debug)]
pub struct Items<'a> {
    keys: &'a [String],
    keyed: bool,
    by_key: HashMap<String, Correlated<'a>>,
}

impl<'a> Items<'a> {
    /// The past of one new item.
    pub fn find(&self, new: &Value) -> Option<Correlated<'a>> {
        if !self.keyed {
            return None;
        }
        self.by_key.get(&key_of(new, self.keys)?).copied()
    }
}

/// What tells an item apart; `None` where a key is missing.
fn key_of(item: &Value, keys: &[String]) -> Option<String> {
    let item = item.as_object()?;
    let mut out = String::new();
    for key in keys {
        out.push_str(&print::json(item.get(key)?));
        out.push('\n');
    }
    Some(out)
}
