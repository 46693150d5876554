//! The table of facts as read from `facts/builtin.json`; `facts/README.md` says what its keys mean.
//!
//! It is read once, on first use, and checked: every type that is named exists, and every type
//! expression is one that this server knows.

use std::collections::{BTreeMap, HashMap};
use std::sync::LazyLock;

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::schema::{ListType, MapType};

const FACTS: &str = include_str!("../../facts/builtin.json");

static TABLE: LazyLock<Result<Facts, String>> = LazyLock::new(|| {
    let facts: Facts = serde_json::from_str(FACTS).map_err(|e| e.to_string())?;
    facts.check()?;
    Ok(facts)
});

/// The facts, or what is wrong with them.
pub(super) fn facts() -> Result<&'static Facts, &'static str> {
    TABLE.as_ref().map_err(String::as_str)
}

/// What upstream knows about its own kinds.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Facts {
    /// In discovery's order.
    pub(super) groups: Vec<GroupFact>,
    /// By group version, then plural.
    pub(super) resources: BTreeMap<String, BTreeMap<String, ResourceFact>>,
    /// By the prefix of a type's name: the prefix of its name in OpenAPI.
    pub(super) packages: BTreeMap<String, String>,
    /// By group version, then kind: the type's name.
    kinds: BTreeMap<String, BTreeMap<String, String>>,
    types: HashMap<String, TypeFact>,
    /// By `<group version> <kind>`, then path.
    pub(super) kind_defaults: HashMap<String, HashMap<String, Value>>,
    pub(super) rules: Vec<RuleFact>,
}

#[derive(Debug, Deserialize)]
pub(super) struct GroupFact {
    pub(super) name: String,
    pub(super) versions: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ResourceFact {
    pub(super) kind: String,
    pub(super) singular: String,
    #[serde(default)]
    pub(super) namespaced: bool,
    pub(super) verbs: Vec<String>,
    #[serde(default)]
    pub(super) short_names: Vec<String>,
    #[serde(default)]
    pub(super) categories: Vec<String>,
    #[serde(default)]
    pub(super) selectors: Vec<String>,
    #[serde(default)]
    pub(super) columns: Vec<ColumnFact>,
    #[serde(default)]
    pub(super) subresources: BTreeMap<String, SubresourceFact>,
}

#[derive(Debug, Deserialize)]
pub(super) struct ColumnFact {
    pub(super) name: String,
    #[serde(rename = "type")]
    pub(super) type_: String,
    #[serde(default)]
    pub(super) format: String,
    #[serde(default)]
    pub(super) priority: i64,
}

#[derive(Debug, Deserialize)]
pub(super) struct SubresourceFact {
    /// `<group version> <kind>`, where it is not the resource's.
    pub(super) kind: Option<String>,
    pub(super) verbs: Vec<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct TypeFact {
    /// Server-side apply owns it as a whole.
    pub(super) atomic: bool,
    /// What OpenAPI says of fields of which one is meant to be set.
    pub(super) unions: Option<Value>,
    pub(super) fields: Vec<FieldFact>,
}

/// A field of a struct.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct FieldFact {
    /// The JSON name; empty for inline structs.
    #[serde(default)]
    pub(super) name: String,
    #[serde(default)]
    pub(super) inline: bool,
    #[serde(rename = "type")]
    pub(super) form: Form,
    #[serde(default)]
    pub(super) ptr: bool,
    #[serde(default)]
    pub(super) omit: Omit,
    /// The number of the field in protobuf, if it is there at all.
    pub(super) pb: Option<u32>,
    pub(super) list: Option<ListType>,
    #[serde(default)]
    pub(super) keys: Vec<String>,
    pub(super) map: Option<MapType>,
    pub(super) patch: Option<String>,
    pub(super) merge_key: Option<String>,
    #[serde(default)]
    pub(super) required: bool,
    #[serde(default, rename = "enum")]
    pub(super) enum_: Vec<String>,
    pub(super) default: Option<Value>,
    /// The default that OpenAPI declares, where it is not the zero value that follows from the rest.
    pub(super) declared: Option<Value>,
}

/// When a field is left out of JSON.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Omit {
    /// When empty; a struct never is.
    #[default]
    Empty,
    /// When zero, structs included.
    Zero,
    /// Always written.
    Never,
}

/// A default that depends on other fields of the same struct.
#[derive(Debug, Deserialize)]
pub(super) struct RuleFact {
    #[serde(rename = "type")]
    pub(super) type_: Option<String>,
    pub(super) kind: Option<String>,
    pub(super) path: Option<String>,
    #[serde(default)]
    pub(super) when: BTreeMap<String, Vec<Value>>,
    /// Applies only where no field of the type is set.
    #[serde(default)]
    pub(super) none: bool,
    #[serde(default)]
    pub(super) set: Map<String, Value>,
    #[serde(default)]
    pub(super) copy: BTreeMap<String, String>,
    #[serde(default)]
    pub(super) clear: Vec<String>,
}

/// What a field holds.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(super) enum Form {
    Text,
    Bool,
    Int32,
    Int64,
    Double,
    Bytes,
    Time,
    MicroTime,
    Quantity,
    IntOrString,
    /// Any JSON value, kept as it is.
    Raw(Raw),
    List(Box<Self>),
    Map(Box<Self>),
    Struct(String),
}

/// The kinds of raw JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Raw {
    /// An object of any kind.
    Object,
    /// The set of fields in `managedFields`.
    Fields,
    Any,
    SchemaOrBool,
    SchemaOrArray,
    SchemaOrStrings,
}

impl TryFrom<String> for Form {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        if let Some(item) = text.strip_prefix("[]") {
            return Ok(Self::List(Box::new(Self::try_from(item.to_owned())?)));
        }
        if let Some(item) = text.strip_prefix("map[string]") {
            return Ok(Self::Map(Box::new(Self::try_from(item.to_owned())?)));
        }
        Ok(match text.as_str() {
            "string" => Self::Text,
            "bool" => Self::Bool,
            "int32" => Self::Int32,
            "int64" => Self::Int64,
            "double" => Self::Double,
            "bytes" => Self::Bytes,
            "strings" => Self::List(Box::new(Self::Text)),
            "time" => Self::Time,
            "microtime" => Self::MicroTime,
            "quantity" => Self::Quantity,
            "intorstring" => Self::IntOrString,
            "object" => Self::Raw(Raw::Object),
            "fields" => Self::Raw(Raw::Fields),
            "any" => Self::Raw(Raw::Any),
            "schemaorbool" => Self::Raw(Raw::SchemaOrBool),
            "schemaorarray" => Self::Raw(Raw::SchemaOrArray),
            "schemaorstrings" => Self::Raw(Raw::SchemaOrStrings),
            name if name.contains('.') => Self::Struct(text),
            other => return Err(format!("{other} is no type")),
        })
    }
}

impl Form {
    /// The name of the struct in it, be it an item's.
    fn named(&self) -> Option<&str> {
        match self {
            Self::Struct(name) => Some(name),
            Self::List(item) | Self::Map(item) => item.named(),
            _ => None,
        }
    }
}

impl Facts {
    fn check(&self) -> Result<(), String> {
        let fields = self.types.values().flat_map(|t| &t.fields);
        let named = fields.filter_map(|field| field.form.named());
        let kinds = self.kinds.values().flat_map(BTreeMap::values).map(String::as_str);
        let absent = named.chain(kinds).find(|name| !self.types.contains_key(*name));
        absent.map_or(Ok(()), |name| Err(format!("{name} is used and not there")))
    }

    /// The name of a kind's type.
    pub(super) fn kind(&self, api_version: &str, kind: &str) -> Option<&str> {
        self.kinds.get(api_version)?.get(kind).map(String::as_str)
    }

    /// The fields of a type; none for a name that the check would have refused.
    pub(super) fn type_(&self, name: &str) -> &TypeFact {
        const NONE: &TypeFact = &TypeFact { atomic: false, unions: None, fields: Vec::new() };
        self.types.get(name).unwrap_or(NONE)
    }

    /// Whether there is a type of this name.
    pub(super) fn has_type(&self, name: &str) -> bool {
        self.types.contains_key(name)
    }

    /// The kinds of a group version and their types.
    pub(super) fn kinds_of(&self, api_version: &str) -> impl Iterator<Item = (&str, &str)> {
        let kinds = self.kinds.get(api_version).into_iter().flatten();
        kinds.map(|(kind, type_)| (kind.as_str(), type_.as_str()))
    }

    /// The names of all types.
    #[cfg(test)]
    pub(super) fn type_names(&self) -> impl Iterator<Item = &str> {
        self.types.keys().map(String::as_str)
    }

    /// The type's fields and those of its inline structs, as they stand in the JSON object.
    pub(super) fn flat<'a>(&'a self, name: &str) -> Vec<&'a FieldFact> {
        let mut out = Vec::new();
        for field in &self.type_(name).fields {
            match &field.form {
                Form::Struct(inner) if field.inline => out.extend(self.flat(inner)),
                _ => out.push(field),
            }
        }
        out
    }

    /// The field at a dotted path below a type.
    pub(super) fn at(&self, name: &str, path: &str) -> Option<&FieldFact> {
        let (first, rest) = path.split_once('.').unwrap_or((path, ""));
        let field = self.flat(name).into_iter().find(|field| field.name == first)?;
        match &field.form {
            _ if rest.is_empty() => Some(field),
            Form::Struct(inner) => self.at(inner, rest),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_facts_are_whole() {
        let facts = facts().unwrap();
        assert_eq!(facts.kind("v1", "Pod"), Some("core.v1.Pod"));
        assert!(facts.flat("core.v1.Volume").iter().any(|f| f.name == "emptyDir"));
        let field = facts.at("core.v1.Node", "spec.unschedulable").unwrap();
        assert_eq!(field.form, Form::Bool);
        assert!(facts.at("core.v1.Node", "spec.nothing").is_none());
        assert!(Form::try_from("complex".to_owned()).is_err());
    }
}
