//! Which fields an object has, and which differ between two objects.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde_json::{Map, Value};

use super::path::PathElement;
use super::set::{Entry, FieldSet};
use super::shape::{Form, ListShape, Shape};
use super::value;

/// The fields that an object mentions: leaves, items, and the fields that the schema does not name.
pub(super) fn fields_of(shape: Shape<'_>, value: &Value) -> FieldSet {
    let mut root = Entry::default();
    mention(shape, value, &mut root);
    root.below
}

fn mention(shape: Shape<'_>, value: &Value, entry: &mut Entry) {
    match shape.form(value) {
        Form::Scalar => entry.member = true,
        Form::List => match shape.list() {
            ListShape::Atomic => entry.member = true,
            ListShape::Set | ListShape::Map(_) => {
                if let Value::Array(items) = value {
                    mention_items(shape, items, entry);
                }
            }
        },
        Form::Map if shape.atomic_map() => entry.member = true,
        Form::Map => {
            let Value::Object(fields) = value else { return };
            for (name, value) in fields {
                let field = shape.known_field(name);
                let mut below = Entry::default();
                mention(field.shape, value, &mut below);
                below.member |=
                    !field.named || value.is_null() || value.as_object().is_some_and(Map::is_empty);
                entry.below.put(PathElement::Field(name.clone()), below);
            }
        }
    }
}

fn mention_items(shape: Shape<'_>, items: &[Value], entry: &mut Entry) {
    for (element, values) in by_element(shape, items) {
        let mut below = Entry { member: true, below: FieldSet::default() };
        // Items that share a key are owned together.
        if let [one] = *values {
            mention(shape.item(), one, &mut below);
        }
        entry.below.put(element, below);
    }
}

/// The items of a list by their path element. Items that have none are left out.
fn by_element<'v>(shape: Shape<'_>, items: &'v [Value]) -> BTreeMap<PathElement, Vec<&'v Value>> {
    let mut out: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for item in items {
        if let Ok(element) = shape.item_element(item) {
            out.entry(element).or_default().push(item);
        }
    }
    out
}

/// What changed from one object to another. No path is in two of the sets.
#[derive(Debug, Clone, Default)]
pub(super) struct Comparison {
    pub(super) removed: FieldSet,
    pub(super) modified: FieldSet,
    pub(super) added: FieldSet,
}

impl Comparison {
    pub(super) fn of(shape: Shape<'_>, old: &Value, new: &Value) -> Self {
        let mut walk = Walk { path: Vec::new(), found: Self::default() };
        walk.node(shape, Some(old), Some(new));
        walk.found
    }

    /// The comparison, blind to these fields and all below them.
    pub(super) fn without(self, fields: &FieldSet) -> Self {
        Self {
            removed: self.removed.without(fields),
            modified: self.modified.without(fields),
            added: self.added.without(fields),
        }
    }
}

struct Walk {
    path: Vec<PathElement>,
    found: Comparison,
}

impl Walk {
    fn node(&mut self, shape: Shape<'_>, old: Option<&Value>, new: Option<&Value>) {
        let whole = match (old, new) {
            (None, None) => return,
            (Some(one), None) | (None, Some(one)) => self.form(shape, shape.form(one), old, new),
            (Some(old_value), Some(new_value)) => {
                // A value that changed its type is compared as either.
                if shape.deduce(old_value) != shape.deduce(new_value) {
                    self.form(shape, shape.form(old_value), old, new);
                }
                self.form(shape, shape.form(new_value), old, new)
            }
        };
        match (old, new) {
            _ if whole => {}
            (None, _) => self.found.added.insert(&self.path),
            (_, None) => self.found.removed.insert(&self.path),
            _ => {}
        }
    }

    /// Compares as this form; tells whether the node was compared as a whole.
    fn form(
        &mut self,
        shape: Shape<'_>,
        form: Form,
        old: Option<&Value>,
        new: Option<&Value>,
    ) -> bool {
        match form {
            Form::Map => {
                let (old_fields, new_fields) = (fields(old), fields(new));
                let empty = old_fields.is_empty() && new_fields.is_empty();
                if !shape.atomic_map() && !empty {
                    self.fields(shape, old_fields, new_fields);
                    return false;
                }
            }
            Form::List => {
                let (old_items, new_items) = (items(old), items(new));
                let empty = old_items.is_empty() && new_items.is_empty();
                if !matches!(shape.list(), ListShape::Atomic) && !empty {
                    self.items(shape, old_items, new_items);
                    return false;
                }
            }
            Form::Scalar => {}
        }
        match (old, new) {
            (None, _) => self.found.added.insert(&self.path),
            (_, None) => self.found.removed.insert(&self.path),
            (Some(old), Some(new)) if !value::equal(old, new) => {
                self.found.modified.insert(&self.path);
            }
            _ => {}
        }
        true
    }

    fn below(&mut self, element: PathElement, visit: impl FnOnce(&mut Self)) {
        self.path.push(element);
        visit(self);
        self.path.pop();
    }

    fn fields(&mut self, shape: Shape<'_>, old: &Map<String, Value>, new: &Map<String, Value>) {
        let gone = old.keys().filter(|name| !new.contains_key(*name));
        for name in gone.chain(new.keys()) {
            self.below(PathElement::Field(name.clone()), |walk| {
                walk.node(shape.known_field(name).shape, old.get(name), new.get(name));
            });
        }
    }

    fn items(&mut self, shape: Shape<'_>, old: &[Value], new: &[Value]) {
        let (mut old, new) = (by_element(shape, old), by_element(shape, new));
        for (element, new) in new {
            let old = old.remove(&element).unwrap_or_default();
            self.below(element, |walk| walk.item(shape.item(), &old, &new));
        }
        for (element, old) in old {
            self.below(element, |walk| walk.item(shape.item(), &old, &[]));
        }
    }

    /// Compares the items of one key. More than one are compared, and owned, as a whole.
    fn item(&mut self, shape: Shape<'_>, old: &[&Value], new: &[&Value]) {
        match (old, new) {
            ([] | [_], [] | [_]) => {
                self.node(shape, old.first().copied(), new.first().copied());
            }
            ([_, _, ..], [_, _, ..]) => {
                let same =
                    old.len() == new.len() && old.iter().zip(new).all(|(a, b)| value::equal(a, b));
                if !same {
                    self.found.modified.insert(&self.path);
                }
            }
            ([_, _, ..], new) => {
                self.node(shape, None, new.first().copied());
                self.found.removed.insert(&self.path);
            }
            (old, [_, _, ..]) => {
                self.node(shape, old.first().copied(), None);
                self.found.added.insert(&self.path);
            }
        }
    }
}

static NO_FIELDS: LazyLock<Map<String, Value>> = LazyLock::new(Map::new);

/// The fields of a map; none for anything else.
pub(super) fn fields(value: Option<&Value>) -> &Map<String, Value> {
    value.and_then(Value::as_object).unwrap_or(&NO_FIELDS)
}

/// The items of a list; none for anything else.
pub(super) fn items(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}
