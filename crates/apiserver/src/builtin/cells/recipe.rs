//! How a cell comes about, as data, and the few helpers that functions of kinds share.
//!
//! Objects come from the store, where they have their kind's form; a field of another type counts as
//! absent.

use jiff::Timestamp;
use serde_json::Value;

use super::super::selector;
use super::NONE;
use crate::projection::Projection;
use crate::wire::age;

/// How a cell comes about. Paths are dotted.
#[derive(Debug, Clone, Copy)]
pub enum Recipe {
    /// The text at a path; empty if there is none.
    Text(&'static str),
    /// The text at a path, or words where it is absent or empty.
    TextOr(&'static str, &'static str),
    /// The text or number at a path, as text, or words where it is absent.
    Given(&'static str, &'static str),
    /// The number at a path; 0 if there is none.
    Number(&'static str),
    /// The boolean at a path, or what counts where it is absent.
    Flag(&'static str, bool),
    /// How many members the lists and maps at these paths have together.
    Count(&'static [&'static str]),
    /// The texts of a list behind commas, or words where there is none.
    Join(&'static str, &'static str),
    /// One field of a list's items, behind commas.
    JoinField(&'static str, &'static str),
    /// The time since the time at a path, or words where there is none.
    Age(&'static str, &'static str),
    /// Two texts around a slash.
    Pair(&'static str, &'static str),
    /// Two numbers around a slash: so many of so many.
    Ratio(&'static str, &'static str),
    /// The plain map of labels at a path.
    Labels(&'static str),
    /// The label selector at a path.
    Selector(&'static str),
    /// Worked out of these fields.
    Code(fn(&Value) -> Value, &'static [&'static str]),
    /// Worked out of these fields and the time.
    Timed(fn(&Value, Timestamp) -> Value, &'static [&'static str]),
}

impl Recipe {
    /// The cell of an object at a time.
    pub(crate) fn cell(&self, object: &Value, now: Timestamp) -> Value {
        match *self {
            Self::Text(path) => text(object, path).into(),
            Self::TextOr(path, absent) => or(text(object, path), absent).into(),
            Self::Given(path, absent) => given(object, path, absent).into(),
            Self::Number(path) => number(object, path).into(),
            Self::Flag(path, absent) => flag(object, path, absent).into(),
            Self::Count(paths) => {
                paths.iter().map(|path| count(object, path)).sum::<usize>().into()
            }
            Self::Join(path, absent) => {
                let texts: Vec<&str> =
                    list(object, path).iter().filter_map(Value::as_str).collect();
                or(&texts.join(","), absent).into()
            }
            Self::JoinField(path, field) => {
                let items = list(object, path).iter();
                items.map(|item| text(item, field)).collect::<Vec<_>>().join(",").into()
            }
            Self::Age(path, absent) => age_or(text(object, path), absent, now).into(),
            Self::Pair(first, second) => {
                format!("{}/{}", text(object, first), text(object, second)).into()
            }
            Self::Ratio(part, whole) => {
                format!("{}/{}", number(object, part), number(object, whole)).into()
            }
            Self::Labels(path) | Self::Selector(path) => {
                let text = at(object, path).and_then(selector::text).unwrap_or_default();
                or(&text, NONE).into()
            }
            Self::Code(code, _) => code(object),
            Self::Timed(code, _) => code(object, now),
        }
    }

    /// Wants the fields that the cell comes of.
    pub(crate) fn wants(&self, projection: &mut Projection) {
        let mut want = |path: &str| projection.want(path.split('.'));
        match *self {
            Self::Text(path)
            | Self::TextOr(path, _)
            | Self::Given(path, _)
            | Self::Number(path)
            | Self::Flag(path, _)
            | Self::Join(path, _)
            | Self::Age(path, _)
            | Self::Labels(path)
            | Self::Selector(path) => want(path),
            Self::JoinField(path, field) => want(&format!("{path}.{field}")),
            Self::Pair(first, second) | Self::Ratio(first, second) => {
                want(first);
                want(second);
            }
            Self::Count(paths) | Self::Code(_, paths) | Self::Timed(_, paths) => {
                paths.iter().for_each(|path| want(path));
            }
        }
    }
}

/// The value at a dotted path.
pub(super) fn at<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').try_fold(value, |value, name| value.get(name))
}

pub(super) fn text<'a>(value: &'a Value, path: &str) -> &'a str {
    at(value, path).and_then(Value::as_str).unwrap_or_default()
}

pub(super) fn number(value: &Value, path: &str) -> i64 {
    at(value, path).and_then(Value::as_i64).unwrap_or(0)
}

pub(super) fn flag(value: &Value, path: &str, absent: bool) -> bool {
    at(value, path).and_then(Value::as_bool).unwrap_or(absent)
}

/// Whether a field is there and holds something.
pub(super) fn has(value: &Value, path: &str) -> bool {
    at(value, path).is_some_and(|value| !value.is_null())
}

pub(super) fn list<'a>(value: &'a Value, path: &str) -> &'a [Value] {
    at(value, path).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn count(value: &Value, path: &str) -> usize {
    match at(value, path) {
        Some(Value::Array(items)) => items.len(),
        Some(Value::Object(fields)) => fields.len(),
        _ => 0,
    }
}

/// The text, or what stands for an empty one.
pub(super) fn or<'a>(text: &'a str, empty: &'a str) -> &'a str {
    if text.is_empty() { empty } else { text }
}

/// A text or a number as text.
pub(super) fn given(value: &Value, path: &str, absent: &str) -> String {
    match at(value, path) {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Number(number)) => number.to_string(),
        _ => absent.to_owned(),
    }
}

/// The time since, where there is a time.
pub(super) fn age_or(time: &str, absent: &str, now: Timestamp) -> String {
    if time.is_empty() { absent.to_owned() } else { age::age(time, now) }
}

/// The first so many of the texts behind commas, and how many more there are.
pub(super) fn first_of(most: usize, texts: &[String], separator: &str) -> String {
    let shown = texts[..texts.len().min(most)].join(separator);
    match texts.len().saturating_sub(most) {
        0 => shown,
        more => format!("{shown} + {more} more..."),
    }
}
