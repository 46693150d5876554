//! Sets of field paths, and their `fieldsV1` form.
//!
//! A set is a tree: an entry is a member, or has members below it, or both. Membership of a path
//! says nothing about the paths above or below it, except in [`FieldSet::without`]. No entry is
//! there without reason: an empty set has no entries.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry as Slot;

use serde_json::{Map, Value, json};

use super::path::{ParseElement, PathElement};

/// A set of field paths.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FieldSet {
    entries: BTreeMap<PathElement, Entry>,
}

/// What a set says about one step: whether the path ending here is in it, and which below.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) member: bool,
    pub(super) below: FieldSet,
}

/// A `fieldsV1` that is no set of fields.
#[derive(Debug, thiserror::Error)]
pub enum DecodeFields {
    /// A key is no path element.
    #[error(transparent)]
    Element(#[from] ParseElement),
    /// Something other than an object.
    #[error("expected an object of fields")]
    NotAnObject,
    /// More levels than an object may have.
    #[error("fields nest more than {0} levels deep")]
    TooDeep(usize),
}

impl Entry {
    fn is_empty(&self) -> bool {
        !self.member && self.below.is_empty()
    }
}

impl FieldSet {
    /// Whether no path is in the set.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// A set of paths of plain field names, such as `["metadata", "labels"]`.
    pub fn of_fields<'p>(paths: impl IntoIterator<Item = &'p [&'p str]>) -> Self {
        let mut set = Self::default();
        for path in paths {
            let path: Vec<_> = path.iter().map(|f| PathElement::Field((*f).to_owned())).collect();
            set.insert(&path);
        }
        set
    }

    /// Adds a path. The whole object (the empty path) is never in a set.
    pub fn insert(&mut self, path: &[PathElement]) {
        let Some((last, above)) = path.split_last() else { return };
        let parent = above.iter().fold(self, |set, element| set.at(element));
        parent.entries.entry(last.clone()).or_default().member = true;
    }

    fn at(&mut self, element: &PathElement) -> &mut Self {
        &mut self.entries.entry(element.clone()).or_default().below
    }

    /// Puts an entry, unless it says nothing.
    pub(super) fn put(&mut self, element: PathElement, entry: Entry) {
        if !entry.is_empty() {
            self.entries.insert(element, entry);
        }
    }

    pub(super) fn get(&self, element: &PathElement) -> Option<&Entry> {
        self.entries.get(element)
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = (&PathElement, &Entry)> {
        self.entries.iter()
    }

    /// Whether the path is in the set.
    pub fn contains(&self, path: &[PathElement]) -> bool {
        let Some((last, above)) = path.split_last() else { return false };
        above
            .iter()
            .try_fold(self, |set, element| set.get(element).map(|entry| &entry.below))
            .and_then(|set| set.get(last))
            .is_some_and(|entry| entry.member)
    }

    /// The paths in either set.
    #[must_use]
    pub fn union(mut self, other: &Self) -> Self {
        for (element, entry) in &other.entries {
            match self.entries.entry(element.clone()) {
                Slot::Vacant(slot) => {
                    slot.insert(entry.clone());
                }
                Slot::Occupied(mut slot) => {
                    let mine = slot.get_mut();
                    mine.member |= entry.member;
                    mine.below = std::mem::take(&mut mine.below).union(&entry.below);
                }
            }
        }
        self
    }

    /// The paths in both sets.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        self.combine(|element, mine| {
            let Some(entry) = other.get(element) else { return Entry::default() };
            Entry {
                member: mine.member && entry.member,
                below: mine.below.intersection(&entry.below),
            }
        })
    }

    /// The paths in this set that are not in the other, path by path.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        self.combine(|element, mine| match other.get(element) {
            None => mine.clone(),
            Some(entry) => Entry {
                member: mine.member && !entry.member,
                below: mine.below.difference(&entry.below),
            },
        })
    }

    /// The paths in this set that are neither in the other nor below one of its paths.
    #[must_use]
    pub fn without(&self, other: &Self) -> Self {
        self.combine(|element, mine| match other.get(element) {
            None => mine.clone(),
            Some(entry) if entry.member => Entry::default(),
            Some(entry) => Entry { member: mine.member, below: mine.below.without(&entry.below) },
        })
    }

    fn combine(&self, entry: impl Fn(&PathElement, &Entry) -> Entry) -> Self {
        let mut out = Self::default();
        for (element, mine) in &self.entries {
            out.put(element.clone(), entry(element, mine));
        }
        out
    }

    /// All paths: those that end at a level before those that go on below it.
    pub fn paths(&self) -> Vec<Vec<PathElement>> {
        let mut out = Vec::new();
        self.collect(&mut Vec::new(), &mut out);
        out
    }

    fn collect(&self, above: &mut Vec<PathElement>, out: &mut Vec<Vec<PathElement>>) {
        for (element, _) in self.entries.iter().filter(|(_, entry)| entry.member) {
            let mut path = above.clone();
            path.push(element.clone());
            out.push(path);
        }
        for (element, entry) in &self.entries {
            above.push(element.clone());
            entry.below.collect(above, out);
            above.pop();
        }
    }

    /// The `fieldsV1` object.
    pub fn to_fields_v1(&self) -> Value {
        let mut out = Map::new();
        for (element, entry) in &self.entries {
            let mut below = entry.below.to_fields_v1();
            if entry.member && !entry.below.is_empty() {
                // A member with members below says so itself; a leaf is the empty object.
                below["."] = json!({});
            }
            out.insert(element.to_key(), below);
        }
        Value::Object(out)
    }

    /// Reads a `fieldsV1` object of at most `levels` levels. Elements of unknown kinds are dropped.
    pub fn from_fields_v1(fields: &Value, levels: usize) -> Result<Self, DecodeFields> {
        Ok(Self::decode(fields, levels, levels)?.below)
    }

    fn decode(fields: &Value, left: usize, levels: usize) -> Result<Entry, DecodeFields> {
        let fields = match fields {
            Value::Object(fields) => fields,
            Value::Null => return Ok(Entry { member: true, below: Self::default() }),
            _ => return Err(DecodeFields::NotAnObject),
        };
        let Some(left) = left.checked_sub(1) else { return Err(DecodeFields::TooDeep(levels)) };
        let mut out = Entry::default();
        for (key, value) in fields {
            if key == "." {
                out.member = true;
            } else if let Some(element) = PathElement::from_key(key)? {
                out.below.put(element, Self::decode(value, left, levels)?);
            }
        }
        out.member |= out.below.is_empty();
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(fields: Value) -> FieldSet {
        FieldSet::from_fields_v1(&fields, 20).unwrap()
    }

    #[test]
    fn algebra() {
        let a = || set(json!({"f:a": {".": {}, "f:x": {}}, "f:b": {}, "f:c": {"f:y": {}}}));
        let b = set(json!({"f:a": {"f:x": {}, "f:z": {}}, "f:c": {}}));
        let check = |got: FieldSet, expect: Value| assert_eq!(got.to_fields_v1(), expect);
        check(
            a().union(&b),
            json!({"f:a": {".": {}, "f:x": {}, "f:z": {}}, "f:b": {}, "f:c": {".": {}, "f:y": {}}}),
        );
        check(a().intersection(&b), json!({"f:a": {"f:x": {}}}));
        check(a().difference(&b), json!({"f:a": {}, "f:b": {}, "f:c": {"f:y": {}}}));
        check(a().without(&b), json!({"f:a": {}, "f:b": {}}));
        check(a().difference(&a()), json!({}));
    }

    #[test]
    fn paths_come_level_by_level() {
        let set = set(json!({
            "f:a": {".": {}, "k:{\"name\":\"n\"}": {"f:v": {}}},
            "f:b": {"v:1": {}},
            "f:c": {},
        }));
        let paths: Vec<String> =
            set.paths().iter().map(|path| path.iter().map(ToString::to_string).collect()).collect();
        assert_eq!(paths, [".a", ".c", ".a[name=\"n\"].v", ".b[=1]"]);
    }

    #[test]
    fn fields_v1_that_is_none() {
        assert_eq!(set(json!({"r:later": {}, "f:a": null, ".": {}})), set(json!({"f:a": {}})));
        assert!(FieldSet::from_fields_v1(&json!({"f:a": 1}), 20).is_err());
        assert!(FieldSet::from_fields_v1(&json!({"a": {}}), 20).is_err());
        assert!(FieldSet::from_fields_v1(&json!({"f:a": {"f:b": {}}}), 2).is_err());
        assert!(FieldSet::from_fields_v1(&json!({"f:a": {"f:b": {}}}), 3).is_ok());
    }

    #[test]
    fn keys_sort_by_value() {
        let set = set(json!({"k:{\"p\":443}": {}, "k:{\"p\":80}": {}, "f:z": {}}));
        let keys: Vec<_> = set.entries().map(|(element, _)| element.to_key()).collect();
        assert_eq!(keys, ["f:z", "k:{\"p\":80}", "k:{\"p\":443}"]);
    }
}
