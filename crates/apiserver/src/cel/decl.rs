//! A schema node as CEL knows it: its shape, the names of its fields, and how big its values get.
//!
//! Guarantees: fields that CEL cannot see (unknown types, names that cannot be escaped) are kept
//! with their shape, so that whole objects still compare, but are marked invisible. Sizes follow
//! `maxItems`, `maxLength` and `maxProperties`, or else what fits into one request.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use crate::schema::{Additional, ListType, Schema, Type};

/// The largest request that is ever read, in bytes; sizes without a declared limit follow from it.
pub(super) const MAX_REQUEST_BYTES: u64 = 3 * 1024 * 1024;

/// A declared node.
#[derive(Debug)]
pub(super) struct Decl {
    pub(super) shape: Shape,
    pub(super) nullable: bool,
    /// The most elements, entries or characters of a value; zero for scalars and objects.
    pub(super) max_elements: u64,
    /// The fewest bytes of JSON for a value.
    pub(super) min_size: u64,
}

/// The declaration of data that no schema describes beforehand.
pub(super) static ANY: LazyLock<Decl> = LazyLock::new(|| Decl {
    shape: Shape::Any,
    nullable: true,
    max_elements: MAX_REQUEST_BYTES - 2,
    min_size: 0,
});

/// What values of a node look like.
#[derive(Debug)]
pub(super) enum Shape {
    IntOrString,
    Bool,
    Int,
    Double,
    String,
    /// A string of base64.
    Bytes,
    Date,
    DateTime,
    Duration,
    List {
        items: Arc<Decl>,
        merge: Merge,
    },
    Map(Arc<Decl>),
    Object(Object),
    /// Something CEL does not look into.
    Opaque,
    /// Whatever the JSON says: data that no schema describes beforehand.
    Any,
}

/// How two lists of a node are compared and added.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Merge {
    Atomic,
    Set,
    Map(Vec<String>),
}

/// The fields of an object.
#[derive(Debug, Default)]
pub(super) struct Object {
    /// By the name in JSON.
    pub(super) fields: BTreeMap<String, Arc<Decl>>,
    /// From the name in CEL to the name in JSON, for the fields that CEL sees.
    pub(super) visible: BTreeMap<String, String>,
}

impl Object {
    /// The field with this name in CEL.
    pub(super) fn visible_field(&self, name: &str) -> Option<(&str, &Arc<Decl>)> {
        let json = self.visible.get(name)?;
        Some((json, self.fields.get(json)?))
    }
}

impl Decl {
    /// The declaration of a schema; `resource` for the root of a whole Kubernetes object.
    pub(super) fn of(schema: &Schema, resource: bool) -> Arc<Self> {
        Arc::new(Self::build(schema, resource))
    }

    /// Whether CEL sees values of the node at all.
    pub(super) fn is_visible(&self) -> bool {
        match &self.shape {
            Shape::Opaque => false,
            Shape::List { items, .. } => items.is_visible(),
            Shape::Map(values) => values.is_visible(),
            _ => true,
        }
    }

    /// How often values of this size fit into one request.
    pub(super) fn max_cardinality(&self) -> u64 {
        MAX_REQUEST_BYTES / (self.min_size + 1)
    }

    fn build(schema: &Schema, resource: bool) -> Self {
        let (shape, max_elements, min_size) = Self::measure(schema, resource);
        Self { shape, nullable: schema.nullable, max_elements, min_size }
    }

    fn measure(schema: &Schema, resource: bool) -> (Shape, u64, u64) {
        let in_request = MAX_REQUEST_BYTES - 2;
        if schema.int_or_string {
            let max = schema.max_length.map_or(in_request, |n| n.saturating_mul(4));
            return (Shape::IntOrString, max, 1);
        }
        match schema.type_ {
            Some(Type::Boolean) => (Shape::Bool, 0, 4),
            Some(Type::Number) => (Shape::Double, 0, 1),
            Some(Type::Integer) => (Shape::Int, 0, 1),
            Some(Type::String) => match schema.format.as_deref() {
                Some("byte") => (Shape::Bytes, schema.max_length.unwrap_or(in_request), 2),
                Some("duration") => (Shape::Duration, 32, 3),
                Some("date") => (Shape::Date, 12, 12),
                Some("date-time") => (Shape::DateTime, 32, 21),
                _ => {
                    let longest =
                        schema.enum_.iter().filter_map(|v| v.as_str()).map(|s| s.len() as u64);
                    let max = match (schema.max_length, schema.enum_.is_empty()) {
                        // A character may take four bytes.
                        (Some(n), _) => n.saturating_mul(4),
                        (None, false) => longest.max().unwrap_or(0),
                        (None, true) => in_request,
                    };
                    (Shape::String, max, 2)
                }
            },
            Some(Type::Array) => {
                let Some(items) = &schema.items else { return (Shape::Opaque, 0, 0) };
                let items = Self::of(items, items.embedded_resource);
                let max = schema.max_items.unwrap_or(in_request / (items.min_size + 1));
                let merge = match schema.list_type {
                    Some(ListType::Set) => Merge::Set,
                    Some(ListType::Map) => Merge::Map(schema.list_map_keys.clone()),
                    _ => Merge::Atomic,
                };
                (Shape::List { items, merge }, max, 2)
            }
            Some(Type::Object) => {
                if let Some(Additional::Schema(values)) = &schema.additional_properties {
                    let values = Self::of(values, values.embedded_resource);
                    let max = schema.max_properties.unwrap_or(in_request / (values.min_size + 6));
                    return (Shape::Map(values), max, 2);
                }
                Self::object(schema, resource)
            }
            None => (Shape::Opaque, 0, 0),
        }
    }

    fn object(schema: &Schema, resource: bool) -> (Shape, u64, u64) {
        let mut object = Object::default();
        for (name, property) in &schema.properties {
            object.fields.insert(name.clone(), Self::of(property, property.embedded_resource));
        }
        if resource {
            object.add_type_and_metadata();
        }
        let mut min_size = 2;
        for (name, decl) in &object.fields {
            if !decl.is_visible() {
                continue;
            }
            if let Some(escaped) = escape(name) {
                object.visible.insert(escaped, name.clone());
            }
            let defaulted = schema.properties.get(name).is_some_and(|p| p.default.is_some());
            if schema.required.contains(name) && !defaulted {
                min_size += name.len() as u64 + decl.min_size + 4;
            }
        }
        (Shape::Object(object), 0, min_size)
    }
}

impl Object {
    /// `apiVersion`, `kind`, `metadata.name` and `metadata.generateName` can be read on every
    /// resource, and no other metadata can.
    fn add_type_and_metadata(&mut self) {
        let string = || {
            Arc::new(Decl {
                shape: Shape::String,
                nullable: false,
                max_elements: MAX_REQUEST_BYTES - 2,
                min_size: 2,
            })
        };
        let is_string = |d: Option<&Arc<Decl>>| d.is_some_and(|d| matches!(d.shape, Shape::String));
        let metadata_declared = self.fields.get("metadata").is_some_and(|m| match &m.shape {
            Shape::Object(o) => {
                is_string(o.fields.get("name")) && is_string(o.fields.get("generateName"))
            }
            _ => false,
        });
        if metadata_declared
            && is_string(self.fields.get("kind"))
            && is_string(self.fields.get("apiVersion"))
        {
            return;
        }
        let mut metadata = Self::default();
        for name in ["name", "generateName"] {
            metadata.fields.insert(name.to_owned(), string());
            metadata.visible.insert(name.to_owned(), name.to_owned());
        }
        let metadata =
            Decl { shape: Shape::Object(metadata), nullable: false, max_elements: 0, min_size: 2 };
        self.fields.insert("metadata".to_owned(), Arc::new(metadata));
        self.fields.insert("kind".to_owned(), string());
        self.fields.insert("apiVersion".to_owned(), string());
    }
}

/// Names that CEL reads otherwise: no variable may have them, and a field is escaped.
pub(crate) const RESERVED: [&str; 21] = [
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// A field's name as a CEL identifier, or nothing if it cannot be one.
pub(super) fn escape(name: &str) -> Option<String> {
    if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    if RESERVED.contains(&name) {
        return Some(format!("__{name}__"));
    }
    let mut out = String::with_capacity(name.len());
    let mut rest = name.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '_' if rest.peek() == Some(&'_') => {
                rest.next();
                out.push_str("__underscores__");
            }
            '.' => out.push_str("__dot__"),
            '-' => out.push_str("__dash__"),
            '/' => out.push_str("__slash__"),
            c if c.is_ascii_alphanumeric() || c == '_' => out.push(c),
            _ => return None,
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_escape_as_kubernetes_says() {
        let cases = [
            ("a", Some("a")),
            ("namespace", Some("__namespace__")),
            ("a-b", Some("a__dash__b")),
            ("a.b/c", Some("a__dot__b__slash__c")),
            ("a__b", Some("a__underscores__b")),
            ("a___b", Some("a__underscores___b")),
            ("1a", None),
            ("a b", None),
            ("", None),
            ("é", None),
        ];
        for (name, expect) in cases {
            assert_eq!(escape(name).as_deref(), expect, "{name}");
        }
    }

    #[test]
    fn sizes_follow_the_limits() {
        let schema: Schema = serde_json::from_str(
            r#"{"type":"array","maxItems":7,"items":{"type":"object","required":["ab"],
                "properties":{"ab":{"type":"string","maxLength":5}}}}"#,
        )
        .unwrap();
        let decl = Decl::of(&schema, false);
        assert_eq!(decl.max_elements, 7);
        let Shape::List { items, .. } = &decl.shape else { panic!("a list") };
        assert_eq!(items.min_size, 2 + 2 + 2 + 4);
    }
}
