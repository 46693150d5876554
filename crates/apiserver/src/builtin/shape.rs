//! The schema of a type, for server-side apply and strategic merge patches.
//!
//! It says the shape and how parts merge, and nothing about which values are valid. The one type
//! that contains itself, a CRD's schema, is cut where it does.

use std::collections::BTreeMap;

use super::facts::{Facts, FieldFact, Form, Omit, Raw};
use crate::schema::{Additional, ListType, MapType, Schema, Type};

/// The schema of a type.
pub(super) fn schema(facts: &Facts, type_: &str) -> Schema {
    let type_ = Form::Struct(type_.to_owned());
    Maker { facts, above: Vec::new() }.of(&type_)
}

struct Maker<'a> {
    facts: &'a Facts,
    /// The structs that we are in.
    above: Vec<String>,
}

fn typed(type_: Type) -> Schema {
    Schema { type_: Some(type_), ..Schema::default() }
}

fn formatted(type_: Type, format: &str) -> Schema {
    Schema { format: Some(format.to_owned()), ..typed(type_) }
}

impl Maker<'_> {
    fn of(&mut self, form: &Form) -> Schema {
        match form {
            Form::Text => typed(Type::String),
            Form::Bool => typed(Type::Boolean),
            Form::Int32 => formatted(Type::Integer, "int32"),
            Form::Int64 => formatted(Type::Integer, "int64"),
            Form::Double => formatted(Type::Number, "double"),
            Form::Bytes => formatted(Type::String, "byte"),
            Form::Time | Form::MicroTime => formatted(Type::String, "date-time"),
            // Numbers are admitted too, which the format tells apply.
            Form::Quantity => formatted(Type::String, "quantity"),
            Form::IntOrString => Schema { int_or_string: true, ..Schema::default() },
            // What is in it is nobody's business, apply's neither.
            Form::Raw(Raw::Object | Raw::Fields) => Schema {
                preserve_unknown: true,
                map_type: Some(MapType::Atomic),
                ..typed(Type::Object)
            },
            Form::Raw(_) => Schema { preserve_unknown: true, ..Schema::default() },
            Form::List(item) => {
                Schema { items: Some(Box::new(self.of(item))), ..typed(Type::Array) }
            }
            Form::Map(item) => Schema {
                additional_properties: Some(Additional::Schema(Box::new(self.of(item)))),
                ..typed(Type::Object)
            },
            Form::Struct(name) => self.structure(name),
        }
    }

    fn structure(&mut self, name: &str) -> Schema {
        if self.above.iter().any(|above| above == name) {
            return Schema { preserve_unknown: true, ..typed(Type::Object) };
        }
        self.above.push(name.to_owned());
        let fields = self.facts.flat(name);
        let properties: BTreeMap<String, Schema> =
            fields.iter().map(|field| (field.name.clone(), self.field(field))).collect();
        self.above.pop();
        let required = fields.iter().filter(|f| f.required).map(|f| f.name.clone()).collect();
        let map_type = self.facts.type_(name).atomic.then_some(MapType::Atomic);
        Schema { properties, required, map_type, ..typed(Type::Object) }
    }

    fn field(&mut self, field: &FieldFact) -> Schema {
        let mut schema = self.of(&field.form);
        schema.default = field.default.clone().or_else(|| zero(field));
        schema.list_type =
            field.list.or(schema.type_.filter(|t| *t == Type::Array).map(|_| ListType::Atomic));
        schema.list_map_keys.clone_from(&field.keys);
        schema.map_type = field.map.or(schema.map_type);
        schema.patch_strategy.clone_from(&field.patch);
        schema.patch_merge_key.clone_from(&field.merge_key);
        schema
    }
}

/// What Go's decoder leaves in a field that is always written and was not sent.
fn zero(field: &FieldFact) -> Option<serde_json::Value> {
    if field.ptr || field.omit != Omit::Never {
        return None;
    }
    match field.form {
        Form::Text => Some("".into()),
        Form::Bool => Some(false.into()),
        Form::Int32 | Form::Int64 | Form::Double => Some(0.into()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::facts::facts;
    use super::*;

    #[test]
    fn schemas_say_how_parts_merge() {
        let pod = schema(facts().unwrap(), "core.v1.Pod");
        let spec = &pod.properties["spec"];
        let containers = &spec.properties["containers"];
        assert_eq!(containers.list_type, Some(ListType::Map));
        assert_eq!(containers.list_map_keys, ["name"]);
        assert_eq!(containers.patch_merge_key.as_deref(), Some("name"));
        assert_eq!(spec.properties["nodeSelector"].map_type, Some(MapType::Atomic));
        assert_eq!(spec.properties["volumes"].patch_strategy.as_deref(), Some("merge,retainKeys"));
        let ports = &containers.items.as_ref().unwrap().properties["ports"];
        let port = ports.items.as_ref().unwrap();
        assert_eq!(port.properties["protocol"].default, Some("TCP".into()));
        let crd = schema(facts().unwrap(), "apiextensions.v1.CustomResourceDefinition");
        let text = serde_json::to_string(&crd).unwrap();
        assert!(text.contains("x-kubernetes-preserve-unknown-fields"));
    }
}
