//! Values at run time: what a rule computes with, borrowed from the object wherever possible.
//!
//! Guarantees: conversion from JSON is lazy (one node at a time, guided by its declaration), and
//! comparison is metered, so that neither depends on more data than the rule asked for and pays
//! for. Equality across types is false, never an error, except that numbers compare by value.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::net::IpAddr;
use std::ops::Deref;
use std::rc::Rc;

use base64::Engine as _;
use serde_json::Value;

use super::authority::Question;
use super::decl::{ANY, Decl, Merge, Shape};
use super::format::Format;
use super::meter::{Fail, Meter, fail};
use super::quantity::Quantity;
use super::semver::Semver;
use super::time::{self, Instant};
use super::url::Url;
use crate::schema::print;

/// A string, borrowed or shared.
#[derive(Debug, Clone)]
pub(super) enum Str<'a> {
    Borrowed(&'a str),
    Shared(Rc<str>),
}

impl Deref for Str<'_> {
    type Target = str;
    fn deref(&self) -> &str {
        match self {
            Self::Borrowed(s) => s,
            Self::Shared(s) => s,
        }
    }
}

/// A value.
#[derive(Debug, Clone)]
pub(super) enum Val<'a> {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    Str(Str<'a>),
    Bytes(Rc<[u8]>),
    List(List<'a>),
    Map(Map<'a>),
    Timestamp(Instant),
    /// Nanoseconds.
    Duration(i64),
    /// A type, by name.
    Type(&'static str),
    Optional(Option<Rc<Self>>),
    Quantity(Quantity),
    Ip(IpAddr),
    Cidr(IpAddr, u8),
    Url(Rc<Url>),
    Format(&'static Format),
    Semver(Rc<Semver>),
    /// A step of a question about rights.
    Question(Question<'a>),
    /// Data without a schema: only whole comparison is possible.
    Opaque(&'a Value),
}

/// A list: a piece of the object, or computed.
#[derive(Debug, Clone)]
pub(super) struct List<'a> {
    pub(super) items: Items<'a>,
    /// Where the list came from, if that says that it compares and adds as a set or map.
    pub(super) origin: Option<&'a Decl>,
}

#[derive(Debug, Clone)]
pub(super) enum Items<'a> {
    Json(&'a [Value], &'a Decl),
    Vals(Rc<Vec<Val<'a>>>),
}

/// A map: a piece of the object, or computed.
#[derive(Debug, Clone)]
pub(super) enum Map<'a> {
    Json(&'a serde_json::Map<String, Value>, &'a Decl),
    Vals(Rc<Entries<'a>>),
}

/// Computed entries, in the order of their keys; the original key is kept for its type.
pub(super) type Entries<'a> = BTreeMap<Key, (Val<'a>, Val<'a>)>;

/// A map key; numbers of equal value are one key, whatever their type.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Key {
    Bool(bool),
    Number(i128),
    /// The bits of a number between integers, or beyond them.
    Fraction(u64),
    Str(Box<str>),
}

pub(super) type Out<'a> = Result<Val<'a>, Fail>;

impl<'a> Val<'a> {
    /// A computed string.
    pub(super) fn string(s: impl Into<Rc<str>>) -> Self {
        Self::Str(Str::Shared(s.into()))
    }

    /// A computed list.
    pub(super) fn list(items: Vec<Self>) -> Self {
        Self::List(List::of(items))
    }

    /// Perhaps a value.
    pub(super) fn optional(value: Option<Self>) -> Self {
        Self::Optional(value.map(Rc::new))
    }

    /// The value of a JSON node, as its declaration says.
    pub(super) fn of_json(json: &'a Value, decl: &'a Decl) -> Out<'a> {
        if json.is_null() {
            return match decl.nullable {
                true => Ok(Self::Null),
                false => fail("invalid data, got null for schema with nullable=false"),
            };
        }
        match (&decl.shape, json) {
            (Shape::IntOrString, Value::String(s)) => Ok(Self::Str(Str::Borrowed(s))),
            (Shape::IntOrString, Value::Number(n)) if n.is_i64() => {
                Ok(Self::Int(n.as_i64().unwrap_or_default()))
            }
            (Shape::IntOrString, _) => {
                fail("invalid data, expected XIntOrString value to be either a string or integer")
            }
            (Shape::Bool, Value::Bool(b)) => Ok(Self::Bool(*b)),
            (Shape::Bool, other) => mismatch("bool", other),
            (Shape::Int, Value::Number(n)) if n.is_i64() => {
                Ok(Self::Int(n.as_i64().unwrap_or_default()))
            }
            (Shape::Int, other) => mismatch("int", other),
            (Shape::Double, Value::Number(n)) => Ok(Self::Double(n.as_f64().unwrap_or_default())),
            (Shape::Double, other) => mismatch("float", other),
            (Shape::String, Value::String(s)) => Ok(Self::Str(Str::Borrowed(s))),
            (Shape::Bytes, Value::String(s)) => {
                match base64::engine::general_purpose::STANDARD.decode(s) {
                    Ok(bytes) => Ok(Self::Bytes(bytes.into())),
                    Err(e) => fail(format!("Invalid byte formatted string {s}: {e}")),
                }
            }
            (Shape::Duration, Value::String(s)) => match time::parse_format_duration(s) {
                Some(nanos) => Ok(Self::Duration(nanos)),
                None => fail(format!("Invalid duration {s}: not a duration")),
            },
            (Shape::Date, Value::String(s)) => match time::parse_date(s) {
                Some(t) => Ok(Self::Timestamp(t)),
                None => fail(format!("Invalid date formatted string {s}: not a date")),
            },
            (Shape::DateTime, Value::String(s)) => match time::parse_date_time(s) {
                Some(t) => Ok(Self::Timestamp(t)),
                None => fail(format!("Invalid date-time formatted string {s}: not a date-time")),
            },
            (
                Shape::String | Shape::Bytes | Shape::Duration | Shape::Date | Shape::DateTime,
                other,
            ) => mismatch("string", other),
            (Shape::List { items, merge }, Value::Array(array)) => Ok(Self::List(List {
                items: Items::Json(array, items),
                origin: (*merge != Merge::Atomic).then_some(decl),
            })),
            (Shape::List { .. }, _) => {
                fail("invalid data, expected an array for the provided schema with type=array")
            }
            (Shape::Map(_) | Shape::Object(_), Value::Object(map)) => {
                Ok(Self::Map(Map::Json(map, decl)))
            }
            (Shape::Map(_) | Shape::Object(_), _) => {
                fail("invalid data, expected a map for the provided schema with type=object")
            }
            (Shape::Opaque, _) => Ok(Self::Opaque(json)),
            (Shape::Any, json) => Ok(Self::of_data(json)),
        }
    }

    /// The value of JSON that no schema describes.
    pub(super) fn of_data(json: &'a Value) -> Self {
        match json {
            Value::Null => Self::Null,
            Value::Bool(b) => Self::Bool(*b),
            Value::Number(n) => match (n.as_i64(), n.as_u64()) {
                (Some(whole), _) => Self::Int(whole),
                (_, Some(whole)) => Self::Uint(whole),
                _ => Self::Double(n.as_f64().unwrap_or_default()),
            },
            Value::String(s) => Self::Str(Str::Borrowed(s)),
            Value::Array(array) => {
                Self::List(List { items: Items::Json(array, &ANY), origin: None })
            }
            Value::Object(map) => Self::Map(Map::Json(map, &ANY)),
        }
    }

    /// The name of the value's type, as `type()` gives it.
    pub(super) fn type_name(&self) -> &'static str {
        match self {
            Self::Null => "null_type",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Uint(_) => "uint",
            Self::Double(_) => "double",
            Self::Str(_) => "string",
            Self::Bytes(_) => "bytes",
            Self::List(_) => "list",
            Self::Map(_) => "map",
            Self::Timestamp(_) => "google.protobuf.Timestamp",
            Self::Duration(_) => "google.protobuf.Duration",
            Self::Type(_) => "type",
            Self::Optional(_) => "optional_type",
            Self::Quantity(_) => "kubernetes.Quantity",
            Self::Ip(_) => "net.IP",
            Self::Cidr(..) => "net.CIDR",
            Self::Url(_) => "kubernetes.URL",
            Self::Format(_) => "kubernetes.NamedFormat",
            Self::Semver(_) => "kubernetes.Semver",
            Self::Question(question) => question.type_name(),
            Self::Opaque(_) => "unknown",
        }
    }

    /// What `size()` would count, or one for what it cannot: the basis of most prices.
    pub(super) fn size(&self) -> u64 {
        match self {
            Self::Str(s) => s.chars().count() as u64,
            Self::Bytes(b) => b.len() as u64,
            Self::List(l) => l.len() as u64,
            Self::Map(m) => m.len() as u64,
            Self::Optional(Some(v)) => v.size(),
            Self::Ip(IpAddr::V4(_)) | Self::Cidr(IpAddr::V4(_), _) => 4,
            Self::Ip(IpAddr::V6(_)) | Self::Cidr(IpAddr::V6(_), _) => 16,
            _ => 1,
        }
    }

    /// How a message shows the value.
    pub(super) fn show(&self) -> String {
        match self {
            Self::Null => "null".to_owned(),
            Self::Bool(b) => b.to_string(),
            Self::Int(i) => i.to_string(),
            Self::Uint(u) => u.to_string(),
            Self::Double(d) => print::float(*d),
            Self::Str(s) => s.to_string(),
            other => other.type_name().to_owned(),
        }
    }

    /// The map key that the value is, if it may be one.
    pub(super) fn key(&self) -> Option<Key> {
        match self {
            Self::Bool(b) => Some(Key::Bool(*b)),
            Self::Int(i) => Some(Key::Number(i128::from(*i))),
            Self::Uint(u) => Some(Key::Number(i128::from(*u))),
            // A double finds the integer of the same value.
            Self::Double(d) if d.fract() == 0.0 && d.abs() < 1e19 => Some(Key::Number(*d as i128)),
            Self::Double(d) => Some(Key::Fraction(d.to_bits())),
            Self::Str(s) => Some(Key::Str((&**s).into())),
            _ => None,
        }
    }

    /// Whether two values are equal.
    pub(super) fn equals(&self, other: &Self, meter: &mut Meter) -> Result<bool, Fail> {
        meter.work(1)?;
        Ok(match (self, other) {
            (Self::Null, Self::Null) => true,
            (Self::Bool(a), Self::Bool(b)) => a == b,
            (Self::Int(_) | Self::Uint(_) | Self::Double(_), _) => {
                compare_numbers(self, other) == Some(Ordering::Equal)
            }
            (Self::Str(a), Self::Str(b)) => {
                meter.work(a.len().min(b.len()) as u64 / 64)?;
                **a == **b
            }
            (Self::Bytes(a), Self::Bytes(b)) => {
                meter.work(a.len().min(b.len()) as u64 / 64)?;
                a == b
            }
            (Self::List(a), Self::List(b)) => a.equals(b, meter)?,
            (Self::Map(a), Self::Map(b)) => a.equals(b, meter)?,
            (Self::Timestamp(a), Self::Timestamp(b)) => a == b,
            (Self::Duration(a), Self::Duration(b)) => a == b,
            (Self::Type(a), Self::Type(b)) => a == b,
            (Self::Optional(None), Self::Optional(None)) => true,
            (Self::Optional(Some(a)), Self::Optional(Some(b))) => a.equals(b, meter)?,
            (Self::Quantity(a), Self::Quantity(b)) => a.compare(b).is_eq(),
            (Self::Ip(a), Self::Ip(b)) => a == b,
            (Self::Cidr(a, n), Self::Cidr(b, m)) => a == b && n == m,
            (Self::Url(a), Self::Url(b)) => a == b,
            (Self::Format(a), Self::Format(b)) => a.name == b.name,
            (Self::Semver(a), Self::Semver(b)) => a.compare(b).is_eq(),
            (Self::Opaque(a), Self::Opaque(b)) => json_equals(a, b, meter)?,
            _ => false,
        })
    }

    /// How two values of an ordered type compare; nothing for types without an order.
    pub(super) fn compare(&self, other: &Self) -> Result<Option<Ordering>, Fail> {
        Ok(match (self, other) {
            (Self::Bool(a), Self::Bool(b)) => Some(a.cmp(b)),
            (
                Self::Int(_) | Self::Uint(_) | Self::Double(_),
                Self::Int(_) | Self::Uint(_) | Self::Double(_),
            ) => match compare_numbers(self, other) {
                Some(ordering) => Some(ordering),
                None => return fail("NaN values cannot be ordered"),
            },
            (Self::Str(a), Self::Str(b)) => Some((**a).cmp(&**b)),
            (Self::Bytes(a), Self::Bytes(b)) => Some(a.cmp(b)),
            (Self::Timestamp(a), Self::Timestamp(b)) => Some(a.cmp(b)),
            (Self::Duration(a), Self::Duration(b)) => Some(a.cmp(b)),
            _ => None,
        })
    }
}

fn mismatch<'a>(wanted: &str, got: &Value) -> Out<'a> {
    let got = match got {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(n) if n.is_i64() => "int64",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    };
    fail(format!("invalid data, expected {wanted}, got {got}"))
}

fn compare_numbers(a: &Val<'_>, b: &Val<'_>) -> Option<Ordering> {
    enum N {
        Whole(i128),
        Float(f64),
    }
    let read = |v: &Val<'_>| match v {
        Val::Int(i) => Some(N::Whole(i128::from(*i))),
        Val::Uint(u) => Some(N::Whole(i128::from(*u))),
        Val::Double(d) => Some(N::Float(*d)),
        _ => None,
    };
    let whole_to_float = |w: i128, f: f64| {
        // Beyond the range of integers the float decides; within, a cast to i128 is exact.
        if f.is_nan() {
            None
        } else if f >= 1e20 {
            Some(Ordering::Less)
        } else if f <= -1e20 {
            Some(Ordering::Greater)
        } else {
            let floor = f.floor();
            match w.cmp(&(floor as i128)) {
                Ordering::Equal if f > floor => Some(Ordering::Less),
                ordering => Some(ordering),
            }
        }
    };
    match (read(a)?, read(b)?) {
        (N::Whole(a), N::Whole(b)) => Some(a.cmp(&b)),
        (N::Float(a), N::Float(b)) => a.partial_cmp(&b),
        (N::Whole(a), N::Float(b)) => whole_to_float(a, b),
        (N::Float(a), N::Whole(b)) => whole_to_float(b, a).map(Ordering::reverse),
    }
}

/// Whether two pieces of JSON are equal, whatever they are.
pub(super) fn json_equals(a: &Value, b: &Value, meter: &mut Meter) -> Result<bool, Fail> {
    meter.work(1)?;
    match (a, b) {
        (Value::Array(a), Value::Array(b)) => {
            if a.len() != b.len() {
                return Ok(false);
            }
            for (a, b) in a.iter().zip(b) {
                if !json_equals(a, b, meter)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        (Value::Object(a), Value::Object(b)) => {
            if a.len() != b.len() {
                return Ok(false);
            }
            for (k, a) in a {
                match b.get(k) {
                    Some(b) if json_equals(a, b, meter)? => {}
                    _ => return Ok(false),
                }
            }
            Ok(true)
        }
        (Value::String(x), Value::String(y)) => {
            meter.work(x.len().min(y.len()) as u64 / 64)?;
            Ok(x == y)
        }
        (a, b) => Ok(a == b),
    }
}

impl<'a> List<'a> {
    /// A computed list.
    pub(super) fn of(items: Vec<Val<'a>>) -> Self {
        Self { items: Items::Vals(Rc::new(items)), origin: None }
    }

    pub(super) fn len(&self) -> usize {
        match &self.items {
            Items::Json(items, _) => items.len(),
            Items::Vals(items) => items.len(),
        }
    }

    /// The item at an index that is known to exist; null otherwise.
    pub(super) fn get(&self, index: usize) -> Out<'a> {
        match &self.items {
            Items::Json(items, decl) => match items.get(index) {
                Some(json) => Val::of_json(json, decl),
                None => Ok(Val::Null),
            },
            Items::Vals(items) => Ok(items.get(index).cloned().unwrap_or(Val::Null)),
        }
    }

    /// The items in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = Out<'a>> + '_ {
        (0..self.len()).map(|i| self.get(i))
    }

    /// The items as a vector.
    pub(super) fn to_vec(&self) -> Result<Vec<Val<'a>>, Fail> {
        match &self.items {
            Items::Vals(items) => Ok((**items).clone()),
            Items::Json(..) => self.iter().collect(),
        }
    }

    /// Whether an item equals the value.
    pub(super) fn contains(&self, value: &Val<'a>, meter: &mut Meter) -> Result<bool, Fail> {
        for item in self.iter() {
            if item?.equals(value, meter)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn merge(&self) -> &Merge {
        match self.origin.map(|d| &d.shape) {
            Some(Shape::List { merge, .. }) => merge,
            _ => &Merge::Atomic,
        }
    }

    fn equals(&self, other: &Self, meter: &mut Meter) -> Result<bool, Fail> {
        if self.len() != other.len() {
            return Ok(false);
        }
        match self.merge() {
            Merge::Atomic => {
                for i in 0..self.len() {
                    if !self.get(i)?.equals(&other.get(i)?, meter)? {
                        return Ok(false);
                    }
                }
            }
            Merge::Set => {
                let known = self.keyed(meter, |v| v.key())?;
                for item in other.iter() {
                    meter.work(1)?;
                    if !item?.key().is_some_and(|k| known.contains_key(&k)) {
                        return Ok(false);
                    }
                }
            }
            Merge::Map(keys) => {
                let known = self.keyed(meter, |v| map_key(v, keys))?;
                for item in other.iter() {
                    let item = item?;
                    let mine = map_key(&item, keys).and_then(|k| known.get(&k));
                    match mine {
                        Some((_, mine)) if mine.equals(&item, meter)? => {}
                        _ => return Ok(false),
                    }
                }
            }
        }
        Ok(true)
    }

    fn keyed<K: Ord>(
        &self,
        meter: &mut Meter,
        key: impl Fn(&Val<'a>) -> Option<K>,
    ) -> Result<BTreeMap<K, (usize, Val<'a>)>, Fail> {
        let mut out = BTreeMap::new();
        for (i, item) in self.iter().enumerate() {
            meter.work(4)?;
            let item = item?;
            if let Some(k) = key(&item) {
                out.insert(k, (i, item));
            }
        }
        Ok(out)
    }

    /// This list followed by another; sets and maps merge instead.
    pub(super) fn concat(&self, other: &Self, meter: &mut Meter) -> Out<'a> {
        meter.work((self.len() + other.len()) as u64 / 4)?;
        let mut items = self.to_vec()?;
        match self.merge() {
            Merge::Atomic => items.extend(other.to_vec()?),
            Merge::Set => {
                let mut known = self.keyed(meter, |v| v.key())?;
                for item in other.to_vec()? {
                    let Some(k) = item.key() else { continue };
                    if let Entry::Vacant(free) = known.entry(k) {
                        free.insert((items.len(), Val::Null));
                        items.push(item);
                    }
                }
            }
            Merge::Map(keys) => {
                let mut known = self.keyed(meter, |v| map_key(v, keys))?;
                for item in other.to_vec()? {
                    let Some(k) = map_key(&item, keys) else { continue };
                    let at = known.get(&k).map(|(i, _)| *i);
                    match at.and_then(|i| items.get_mut(i)) {
                        Some(slot) => *slot = item,
                        None => {
                            known.insert(k, (items.len(), Val::Null));
                            items.push(item);
                        }
                    }
                }
            }
        }
        Ok(Val::List(List { items: Items::Vals(Rc::new(items)), origin: self.origin }))
    }
}

/// What tells an item of a `map` list apart; an absent key counts as its own value.
fn map_key(item: &Val<'_>, keys: &[String]) -> Option<Vec<Option<Key>>> {
    let Val::Map(map) = item else { return None };
    Some(
        keys.iter().map(|k| map.json_field(k).and_then(|v| v.ok()).and_then(|v| v.key())).collect(),
    )
}

impl<'a> Map<'a> {
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Json(map, _) => map.len(),
            Self::Vals(map) => map.len(),
        }
    }

    fn json_field(&self, name: &str) -> Option<Out<'a>> {
        match self {
            Self::Json(map, decl) => {
                let json = map.get(name)?;
                match &decl.shape {
                    Shape::Map(values) => Some(Val::of_json(json, values)),
                    Shape::Any => Some(Ok(Val::of_data(json))),
                    // In an object, unlike a map, a null field is an absent one.
                    Shape::Object(o) if !json.is_null() => {
                        Some(Val::of_json(json, o.fields.get(name)?))
                    }
                    _ => None,
                }
            }
            Self::Vals(map) => map.get(&Key::Str(name.into())).map(|(_, v)| Ok(v.clone())),
        }
    }

    /// The value under a string key; for objects, the name as CEL writes it.
    pub(super) fn field(&self, name: &str) -> Option<Out<'a>> {
        match self {
            Self::Json(_, Decl { shape: Shape::Object(o), .. }) => {
                let (json, _) = o.visible_field(name)?;
                self.json_field(json)
            }
            _ => self.json_field(name),
        }
    }

    /// The value under any key.
    pub(super) fn get(&self, key: &Val<'a>) -> Option<Out<'a>> {
        match (self, key) {
            (_, Val::Str(name)) => self.field(name),
            (Self::Vals(map), key) => map.get(&key.key()?).map(|(_, v)| Ok(v.clone())),
            (Self::Json(..), _) => None,
        }
    }

    /// The keys and values, in the order of the keys.
    pub(super) fn entries(&self) -> Result<Vec<(Val<'a>, Val<'a>)>, Fail> {
        match self {
            Self::Vals(map) => Ok(map.values().cloned().collect()),
            Self::Json(map, decl) => match &decl.shape {
                Shape::Map(values) => map
                    .iter()
                    .map(|(k, v)| Ok((Val::Str(Str::Borrowed(k)), Val::of_json(v, values)?)))
                    .collect(),
                Shape::Any => Ok(map
                    .iter()
                    .map(|(k, v)| (Val::Str(Str::Borrowed(k)), Val::of_data(v)))
                    .collect()),
                Shape::Object(o) => o
                    .visible
                    .iter()
                    .filter_map(|(name, json)| Some((name, map.get(json)?, o.fields.get(json)?)))
                    .map(|(name, v, decl)| {
                        Ok((Val::Str(Str::Borrowed(name)), Val::of_json(v, decl)?))
                    })
                    .collect(),
                _ => Ok(Vec::new()),
            },
        }
    }

    fn equals(&self, other: &Self, meter: &mut Meter) -> Result<bool, Fail> {
        if self.len() != other.len() {
            return Ok(false);
        }
        if let Self::Json(map, Decl { shape: Shape::Object(o), .. }) = self {
            // Fields that no schema declares take part in comparison too.
            for (name, value) in *map {
                if o.fields.contains_key(name) {
                    continue;
                }
                if let Self::Json(theirs, _) = other
                    && let Some(theirs) = theirs.get(name)
                    && !json_equals(value, theirs, meter)?
                {
                    return Ok(false);
                }
            }
        }
        match self {
            Self::Json(map, _) => {
                for name in map.keys() {
                    meter.work(1)?;
                    let (Some(mine), theirs) = (self.json_field(name), other.json_field(name))
                    else {
                        continue;
                    };
                    let Some(theirs) = theirs.transpose()? else { return Ok(false) };
                    if !mine?.equals(&theirs, meter)? {
                        return Ok(false);
                    }
                }
            }
            Self::Vals(map) => {
                for (key, mine) in map.values() {
                    let Some(theirs) = other.get(key).transpose()? else { return Ok(false) };
                    if !mine.equals(&theirs, meter)? {
                        return Ok(false);
                    }
                }
            }
        }
        Ok(true)
    }
}
