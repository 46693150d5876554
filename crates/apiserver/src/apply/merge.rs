//! Merging an applied configuration into an object, and taking fields out of one.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde_json::{Map, Value};

use super::compare::{fields, items};
use super::path::PathElement;
use super::set::FieldSet;
use super::shape::{Form, ListShape, Shape};

/// The live object with everything that is applied. Nothing is removed; items of lists keep the
/// live order, except where the applied order says otherwise.
pub(super) fn merge(shape: Shape<'_>, live: &Value, applied: &Value) -> Value {
    node(shape, Some(live), Some(applied)).unwrap_or(Value::Null)
}

fn node(shape: Shape<'_>, live: Option<&Value>, applied: Option<&Value>) -> Option<Value> {
    match shape.form(applied.or(live)?) {
        Form::Map if !shape.atomic_map() => {
            let (live, applied) = (fields(live), fields(applied));
            if !(live.is_empty() && applied.is_empty()) {
                return merge_fields(shape, live, applied);
            }
        }
        Form::List if !matches!(shape.list(), ListShape::Atomic) => {
            let (live, applied) = (items(live), items(applied));
            if !(live.is_empty() && applied.is_empty()) {
                return merge_items(shape, live, applied);
            }
        }
        Form::Map | Form::List | Form::Scalar => {}
    }
    applied.or(live).cloned()
}

fn merge_fields(
    shape: Shape<'_>,
    live: &Map<String, Value>,
    applied: &Map<String, Value>,
) -> Option<Value> {
    let mut out = Map::new();
    let new = applied.keys().filter(|name| !live.contains_key(*name));
    for name in live.keys().chain(new) {
        let shape = shape.known_field(name).shape;
        if let Some(value) = node(shape, live.get(name), applied.get(name)) {
            out.insert(name.clone(), value);
        }
    }
    (!out.is_empty()).then_some(Value::Object(out))
}

fn merge_items(shape: Shape<'_>, live: &[Value], applied: &[Value]) -> Option<Value> {
    let live = Indexed::new(shape, live);
    let applied = Indexed::new(shape, applied);
    let merged =
        |element: &PathElement| node(shape.item(), live.unique(element), applied.unique(element));

    // Shared items come in the applied order; each waits for its turn.
    let mut shared: VecDeque<&PathElement> =
        applied.list.iter().map(|(e, _)| e).filter(|e| live.holds(e)).collect();
    let mut done = BTreeSet::new();
    let mut out = Vec::new();
    let (mut l, mut a) = (0, 0);
    loop {
        match (live.list.get(l), applied.list.get(a)) {
            (None, None) => break,
            (Some((element, _)), Some((other, _))) if element == other => {
                out.extend(merged(element));
                done.insert(element);
                shared.pop_front();
                (l, a) = (l + 1, a + 1);
            }
            (Some((element, _)), Some(_))
                if applied.holds(element)
                    && shared.front().is_some_and(|next| *next != element) =>
            {
                l += 1;
            }
            (Some((element, value)), _) if !applied.holds(element) => {
                out.extend(node(shape.item(), Some(value), None));
                l += 1;
            }
            (at_live, at_applied) => {
                if at_live.is_some_and(|(element, _)| done.contains(element)) {
                    l += 1;
                }
                if let Some((element, _)) = at_applied {
                    out.extend(merged(element));
                    done.insert(element);
                    if shared.front() == Some(&element) {
                        shared.pop_front();
                    }
                    a += 1;
                } else if at_live.is_some_and(|(element, _)| !done.contains(element)) {
                    // Every applied item is done, so this cannot be; it must not loop either.
                    l += 1;
                }
            }
        }
    }
    (!out.is_empty()).then_some(Value::Array(out))
}

/// A list's items with their path elements.
struct Indexed<'v> {
    list: Vec<(PathElement, &'v Value)>,
    /// The item of each element; null stands for several, which nothing is merged with.
    unique: BTreeMap<PathElement, &'v Value>,
}

impl<'v> Indexed<'v> {
    fn new(shape: Shape<'_>, items: &'v [Value]) -> Self {
        let list: Vec<_> =
            items.iter().filter_map(|item| Some((shape.item_element(item).ok()?, item))).collect();
        let mut unique = BTreeMap::new();
        for (element, item) in &list {
            unique
                .entry(element.clone())
                .and_modify(|value| *value = &Value::Null)
                .or_insert(*item);
        }
        Self { list, unique }
    }

    fn holds(&self, element: &PathElement) -> bool {
        self.unique.contains_key(element)
    }

    fn unique(&self, element: &PathElement) -> Option<&'v Value> {
        self.unique.get(element).copied()
    }
}

/// The object without the items in the set. What loses all it has becomes null.
pub(super) fn remove(shape: Shape<'_>, value: &Value, set: &FieldSet) -> Value {
    match (shape.form(value), value) {
        (Form::Scalar, scalar) => scalar.clone(),
        (Form::Map, Value::Object(fields)) if !shape.atomic_map() => {
            let kept: Map<_, _> = fields
                .iter()
                .filter_map(|(name, value)| {
                    let element = PathElement::Field(name.clone());
                    let shape = shape.known_field(name).shape;
                    Some((name.clone(), remove_below(shape, value, set, &element)?))
                })
                .collect();
            if kept.is_empty() { Value::Null } else { Value::Object(kept) }
        }
        (Form::List, Value::Array(items)) if !matches!(shape.list(), ListShape::Atomic) => {
            let kept: Vec<_> = items
                .iter()
                .filter_map(|item| match shape.item_element(item) {
                    Ok(element) => remove_below(shape.item(), item, set, &element),
                    Err(_) => Some(item.clone()),
                })
                .collect();
            if kept.is_empty() { Value::Null } else { Value::Array(kept) }
        }
        _ => Value::Null,
    }
}

fn remove_below(
    shape: Shape<'_>,
    value: &Value,
    set: &FieldSet,
    element: &PathElement,
) -> Option<Value> {
    match set.get(element) {
        None => Some(value.clone()),
        Some(entry) if entry.member => None,
        Some(entry) => Some(remove(shape, value, &entry.below)),
    }
}
