//! Other keys under which the newest entries are found: an index in memory.
//!
//! It follows from the entries alone, so it is built when a store learns how to name them, kept with
//! each write, and never made to last. It knows the present only; history is read by key.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;

use crate::{Alias, Entry, KeyRange};

/// See the module. The default names nothing.
#[derive(Debug, Default)]
pub(crate) struct Aliases {
    alias: Option<Alias>,
    /// Each alias with the key of its entry.
    keys: BTreeMap<Bytes, Bytes>,
}

impl Aliases {
    pub(crate) fn of<'a>(alias: Alias, entries: impl Iterator<Item = &'a Arc<Entry>>) -> Self {
        let named = entries.filter_map(|entry| Some((alias(entry)?, entry.key.clone())));
        Self { alias: Some(alias), keys: named.collect() }
    }

    /// The alias of an entry.
    pub(crate) fn name(&self, entry: &Entry) -> Option<Bytes> {
        self.alias.and_then(|alias| alias(entry))
    }

    /// Takes in that an entry took another's place under their key.
    pub(super) fn replace(&mut self, old: Option<&Arc<Entry>>, new: Option<&Arc<Entry>>) {
        let old = old.and_then(|entry| Some((self.name(entry)?, &entry.key)));
        let new = new.and_then(|entry| Some((self.name(entry)?, &entry.key)));
        if old == new {
            return;
        }
        if let Some((alias, key)) = old
            && self.keys.get(&alias) == Some(key)
        {
            self.keys.remove(&alias);
        }
        if let Some((alias, key)) = new {
            self.keys.insert(alias, key.clone());
        }
    }

    /// The keys of the entries whose aliases lie in a range, in order of these.
    pub(super) fn keys(&self, range: &KeyRange) -> impl Iterator<Item = &Bytes> {
        self.keys.range::<[u8], _>(range.bounds()).map(|(_, key)| key)
    }
}
