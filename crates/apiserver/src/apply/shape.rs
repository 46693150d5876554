//! How each node of an object merges, read from its schema.
//!
//! A [`Shape`] answers, for one node: map, list or scalar; merged item by item or replaced whole;
//! and what shape the nodes below have. Where the schema is silent the shape is deduced from the
//! value: maps merge field by field, lists are replaced. The type and metadata of an object (at the
//! root and at embedded resources) have a shape of their own, whatever the schema says of them.

use std::sync::LazyLock;

use serde_json::{Map, Value};

use super::path::PathElement;
use super::set::{Entry, FieldSet};
use super::value;
use crate::schema::{Additional, ListType, MapType, Schema, Type, print};

/// The shape of one node.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape<'s> {
    kind: Kind<'s>,
    /// The node is a whole Kubernetes object.
    object: bool,
}

#[derive(Debug, Clone, Copy)]
enum Kind<'s> {
    /// Any value; maps are granular, lists atomic.
    Deduced,
    /// Any value; maps and lists are atomic.
    Atomic,
    /// As the schema says; with unknown fields kept here, or anywhere above.
    Schema(&'s Schema, Unknown),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unknown {
    Kept,
    Refused,
}

/// What a value is taken for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Map,
    List,
    Scalar,
}

/// The scalars that a node admits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scalar {
    Numeric,
    String,
    Boolean,
    Any,
}

/// How the items of a list are told apart.
#[derive(Debug, Clone, Copy)]
pub(super) enum ListShape<'s> {
    Atomic,
    Set,
    Map(&'s [String]),
}

/// A field of a map.
#[derive(Debug, Clone, Copy)]
pub(super) struct Field<'s> {
    pub(super) shape: Shape<'s>,
    /// The schema names the field, rather than admit any.
    pub(super) named: bool,
}

impl<'s> Shape<'s> {
    /// A whole object of a kind with this schema, or with none.
    pub(super) fn object(schema: Option<&'s Schema>) -> Self {
        Self {
            object: true,
            ..schema.map_or(Self::of(Kind::Deduced), |s| Self::schema(s, Unknown::Refused))
        }
    }

    fn of(kind: Kind<'s>) -> Self {
        Self { kind, object: false }
    }

    fn schema(schema: &'s Schema, above: Unknown) -> Self {
        let unknown = if schema.preserve_unknown { Unknown::Kept } else { above };
        Self { kind: Kind::Schema(schema, unknown), object: schema.embedded_resource }
    }

    /// The only form that the schema admits; `None` when it admits all.
    fn only(self) -> Option<Form> {
        let Kind::Schema(schema, _) = self.kind else { return None };
        Some(match schema.type_? {
            Type::Object => Form::Map,
            Type::Array => Form::List,
            Type::String | Type::Integer | Type::Number | Type::Boolean => Form::Scalar,
        })
    }

    /// What the value is here; `None` when it could be anything, as null is where all is admitted.
    pub(super) fn deduce(self, value: &Value) -> Option<Form> {
        self.only().or(match value {
            Value::Null => None,
            Value::Object(_) => Some(Form::Map),
            Value::Array(_) => Some(Form::List),
            Value::Bool(_) | Value::Number(_) | Value::String(_) => Some(Form::Scalar),
        })
    }

    /// What the value is treated as here.
    pub(super) fn form(self, value: &Value) -> Form {
        self.deduce(value).unwrap_or(Form::Map)
    }

    pub(super) fn scalar(self) -> Scalar {
        let Kind::Schema(schema, _) = self.kind else { return Scalar::Any };
        match (schema.type_, schema.format.as_deref()) {
            (Some(Type::Integer | Type::Number), _) => Scalar::Numeric,
            (Some(Type::Boolean), _) => Scalar::Boolean,
            (Some(Type::String), None | Some("" | "byte")) => Scalar::String,
            _ => Scalar::Any,
        }
    }

    /// Whether a map here is replaced as a whole.
    pub(super) fn atomic_map(self) -> bool {
        match self.kind {
            Kind::Deduced => false,
            Kind::Atomic => true,
            Kind::Schema(schema, _) => schema.map_type == Some(MapType::Atomic),
        }
    }

    pub(super) fn list(self) -> ListShape<'s> {
        match self.kind {
            Kind::Schema(schema, _) => match schema.list_type {
                None | Some(ListType::Atomic) => ListShape::Atomic,
                Some(ListType::Map) if !schema.list_map_keys.is_empty() => {
                    ListShape::Map(&schema.list_map_keys)
                }
                Some(ListType::Set | ListType::Map) => ListShape::Set,
            },
            Kind::Deduced | Kind::Atomic => ListShape::Atomic,
        }
    }

    /// The shape of a list's items.
    pub(super) fn item(self) -> Self {
        match self.kind {
            Kind::Schema(Schema { items: Some(items), .. }, unknown) => {
                Self::schema(items, unknown)
            }
            _ => Self::of(Kind::Atomic),
        }
    }

    /// The field of a map; `None` when the schema does not admit it.
    pub(super) fn field(self, name: &str) -> Option<Field<'s>> {
        if self.object
            && let Some(schema) = object_field(name)
        {
            return Some(Field { shape: Self::schema(schema, Unknown::Refused), named: true });
        }
        if let Kind::Schema(schema, unknown) = self.kind
            && let Some(property) = schema.properties.get(name)
        {
            return Some(Field { shape: Self::schema(property, unknown), named: true });
        }
        self.element().map(|shape| Field { shape, named: false })
    }

    /// The field of a map that is there, so it has some shape even if the schema has none.
    pub(super) fn known_field(self, name: &str) -> Field<'s> {
        self.field(name).unwrap_or(Field { shape: Self::of(Kind::Deduced), named: false })
    }

    /// The shape of the fields that the schema does not name.
    fn element(self) -> Option<Self> {
        let (schema, unknown) = match self.kind {
            Kind::Deduced | Kind::Atomic => return Some(Self::of(self.kind)),
            Kind::Schema(schema, unknown) => (schema, unknown),
        };
        match &schema.additional_properties {
            Some(Additional::Schema(values)) => Some(Self::schema(values, unknown)),
            Some(Additional::Any(true)) => Some(Self::of(Kind::Deduced)),
            Some(Additional::Any(false)) => None,
            None => {
                let free = unknown == Unknown::Kept || self.has_no_properties(schema);
                free.then(|| Self::of(Kind::Deduced))
            }
        }
    }

    fn has_no_properties(self, schema: &Schema) -> bool {
        schema.properties.is_empty() && !self.object
    }

    /// Whether a map here has no named fields and values of any kind, so that no schema change can
    /// concern it.
    fn free_map(self) -> bool {
        match self.kind {
            Kind::Deduced => !self.object,
            Kind::Atomic => false,
            Kind::Schema(schema, _) => {
                self.has_no_properties(schema)
                    && self.element().is_some_and(|element| match element.kind {
                        Kind::Deduced => true,
                        Kind::Atomic => false,
                        Kind::Schema(..) => {
                            element.only() == Some(Form::Scalar) && element.scalar() == Scalar::Any
                                || element.only().is_none()
                        }
                    })
            }
        }
    }

    /// The path element of a list's item.
    pub(super) fn item_element(self, item: &Value) -> Result<PathElement, ItemError> {
        match self.list() {
            ListShape::Atomic => Err(ItemError::Atomic),
            ListShape::Set => match item {
                Value::Object(_) => Err(ItemError::MapInSet),
                Value::Array(_) => Err(ItemError::ListInSet),
                Value::Null => Err(ItemError::NullInSet),
                scalar => Ok(PathElement::Value(value::Ordered(scalar.clone()))),
            },
            ListShape::Map(keys) => {
                let fields = match item {
                    Value::Object(fields) => fields,
                    Value::Null => return Err(ItemError::NullInMapList),
                    _ => return Err(ItemError::NoMapInMapList),
                };
                let present: Vec<_> = keys
                    .iter()
                    .filter_map(|key| Some((key.clone(), self.key_value(fields, key)?)))
                    .collect();
                if present.is_empty() {
                    let keys: Vec<_> = keys.iter().map(|key| print::quote(key)).collect();
                    return Err(ItemError::NoKeys(keys.join(" ")));
                }
                Ok(PathElement::key(present))
            }
        }
    }

    /// The item's value for a key field, or the schema's default.
    fn key_value(self, item: &Map<String, Value>, key: &str) -> Option<Value> {
        item.get(key).cloned().or_else(|| match self.item().kind {
            Kind::Schema(schema, _) => schema.properties.get(key)?.default.clone(),
            Kind::Deduced | Kind::Atomic => None,
        })
    }

    /// The set with every named field on the way to a member made a member itself.
    pub(super) fn with_named_fields(self, set: &FieldSet) -> FieldSet {
        self.named_below(set, true)
    }

    /// `known` is false below elements that the shape has no place for.
    fn named_below(self, set: &FieldSet, known: bool) -> FieldSet {
        let mut out = FieldSet::default();
        let map = known && self.only().is_none_or(|form| form == Form::Map);
        let list = known && self.only().is_none_or(|form| form == Form::List);
        for (element, entry) in set.entries() {
            let (shape, named) = match element {
                PathElement::Field(name) if map => {
                    self.field(name).map_or((None, false), |field| (Some(field.shape), field.named))
                }
                PathElement::Key(_) if list => (Some(self.item()), false),
                _ => (None, false),
            };
            let below = shape.unwrap_or(self).named_below(&entry.below, shape.is_some());
            let member = entry.member || named && !entry.below.is_empty();
            out.put(element.clone(), Entry { member, below });
        }
        out
    }

    /// The set with paths below what has become atomic replaced by the atomic node itself.
    pub(super) fn reconcile(self, set: &FieldSet) -> FieldSet {
        let mut out = FieldSet::default();
        for (element, entry) in set.entries() {
            let shape = match (element, self.only().unwrap_or(Form::Map)) {
                (PathElement::Field(name), Form::Map) => self.field(name).map(|field| field.shape),
                (_, Form::Map) => self.element(),
                (_, Form::List) => Some(self.item()),
                (_, Form::Scalar) => None,
            };
            let entry = shape.map_or_else(|| entry.clone(), |shape| shape.reconcile_entry(entry));
            out.put(element.clone(), entry);
        }
        out
    }

    fn reconcile_entry(self, entry: &Entry) -> Entry {
        if entry.below.is_empty() {
            return entry.clone();
        }
        let atomic = match self.only().unwrap_or(Form::Map) {
            Form::Scalar => return entry.clone(),
            Form::Map if self.free_map() => return entry.clone(),
            Form::Map => self.atomic_map(),
            Form::List => matches!(self.list(), ListShape::Atomic),
        };
        if atomic {
            return Entry { member: true, below: FieldSet::default() };
        }
        Entry { member: entry.member, below: self.reconcile(&entry.below) }
    }
}

/// Why an item has no path element. The texts are what clients read.
#[derive(Debug, thiserror::Error)]
pub(super) enum ItemError {
    #[error("invalid indexing of non-associative list")]
    Atomic,
    #[error("associative list without keys has an element that's a map type")]
    MapInSet,
    #[error("not supported: associative list with lists as elements")]
    ListInSet,
    #[error("associative list without keys has an element that's an explicit null")]
    NullInSet,
    #[error("associative list with keys may not have a null element")]
    NullInMapList,
    #[error("associative list with keys may not have non-map elements")]
    NoMapInMapList,
    #[error(
        "associative list with keys has an element that omits all key fields [{0}] (and doesn't have default values for any key fields)"
    )]
    NoKeys(String),
}

/// The fields that every Kubernetes object has.
fn object_field(name: &str) -> Option<&'static Schema> {
    match name {
        "apiVersion" | "kind" => Some(&STRING),
        "metadata" => Some(&OBJECT_META),
        _ => None,
    }
}

/// The schema of `metadata`, for kinds that have one below their root, such as pod templates.
pub fn object_meta() -> &'static Schema {
    &OBJECT_META
}

static STRING: LazyLock<Schema> = LazyLock::new(|| typed(Type::String));

static OBJECT_META: LazyLock<Schema> = LazyLock::new(|| {
    let strings = || Schema {
        additional_properties: Some(Additional::Schema(Box::new(typed(Type::String)))),
        ..typed(Type::Object)
    };
    let time = || Schema { format: Some("date-time".to_owned()), ..typed(Type::String) };
    let list = |list_type, items| Schema {
        list_type: Some(list_type),
        items: Some(Box::new(items)),
        ..typed(Type::Array)
    };
    let required = || Schema { default: Some("".into()), ..typed(Type::String) };
    let owner = Schema {
        map_type: Some(MapType::Atomic),
        ..fields([
            ("apiVersion", required()),
            ("blockOwnerDeletion", typed(Type::Boolean)),
            ("controller", typed(Type::Boolean)),
            ("kind", required()),
            ("name", required()),
            ("uid", required()),
        ])
    };
    fields([
        ("annotations", strings()),
        ("creationTimestamp", time()),
        ("deletionGracePeriodSeconds", typed(Type::Integer)),
        ("deletionTimestamp", time()),
        ("finalizers", list(ListType::Set, typed(Type::String))),
        ("generateName", typed(Type::String)),
        ("generation", typed(Type::Integer)),
        ("labels", strings()),
        ("managedFields", list(ListType::Atomic, typed(Type::Object))),
        ("name", typed(Type::String)),
        ("namespace", typed(Type::String)),
        (
            "ownerReferences",
            Schema { list_map_keys: vec!["uid".to_owned()], ..list(ListType::Map, owner) },
        ),
        ("resourceVersion", typed(Type::String)),
        ("selfLink", typed(Type::String)),
        ("uid", typed(Type::String)),
    ])
});

fn typed(type_: Type) -> Schema {
    Schema { type_: Some(type_), ..Schema::default() }
}

fn fields<const N: usize>(properties: [(&str, Schema); N]) -> Schema {
    Schema {
        properties: properties.map(|(name, schema)| (name.to_owned(), schema)).into(),
        ..typed(Type::Object)
    }
}
