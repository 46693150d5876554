//! Structural schemas: what a kind's objects look like.
//!
//! One type serves custom resources (read from a CRD's `openAPIV3Schema`) and built-in kinds (made
//! from the table of facts): validation, pruning, defaulting, server-side apply and CEL all read it.
//! It guarantees nothing about a schema that was merely deserialised: [`structural`] says whether a
//! CRD's schema may be served. `$ref` does not exist here; a schema is a finite tree.

pub mod coerce;
pub mod convert;
pub mod correlate;
pub mod crd;
pub mod default;
mod default_check;
pub mod field;
pub mod format;
pub mod jsonpath;
pub mod lists;
pub mod metadata;
pub mod names;
pub mod openapi;
pub mod pattern;
pub mod print;
pub mod prune;
mod raw;
pub mod structural;
pub mod validate;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One node of a structural schema, with OpenAPI v3's own field names.
///
/// The tree says the shape (`type`, `properties`, `items`, the `x-kubernetes-*` marks); `all_of`,
/// `any_of`, `one_of` and `not` hold value validations only, as Kubernetes demands.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[expect(missing_docs, reason = "the names are OpenAPI's own")]
pub struct Schema {
    /// `object`, `array`, `string`, `integer`, `number` or `boolean`; absent for int-or-string and
    /// for nodes that only validate values.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub type_: Option<Type>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub format: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub example: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub external_docs: Option<Value>,
    #[serde(skip_serializing_if = "is_false")]
    pub nullable: bool,

    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub properties: BTreeMap<String, Self>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub additional_properties: Option<Additional>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub items: Option<Box<Self>>,

    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub required: Vec<String>,
    #[serde(rename = "enum", skip_serializing_if = "Vec::is_empty")]
    pub enum_: Vec<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pattern: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub minimum: Option<serde_json::Number>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub maximum: Option<serde_json::Number>,
    #[serde(skip_serializing_if = "is_false")]
    pub exclusive_minimum: bool,
    #[serde(skip_serializing_if = "is_false")]
    pub exclusive_maximum: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub multiple_of: Option<serde_json::Number>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_length: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_length: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_items: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_items: Option<u64>,
    #[serde(skip_serializing_if = "is_false")]
    pub unique_items: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_properties: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_properties: Option<u64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub all_of: Vec<Self>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub any_of: Vec<Self>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub one_of: Vec<Self>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not: Option<Box<Self>>,

    /// Unknown fields at and below this node are kept instead of pruned.
    #[serde(rename = "x-kubernetes-preserve-unknown-fields", skip_serializing_if = "is_false")]
    pub preserve_unknown: bool,
    /// The node is a whole Kubernetes object: `apiVersion`, `kind` and `metadata` are validated.
    #[serde(rename = "x-kubernetes-embedded-resource", skip_serializing_if = "is_false")]
    pub embedded_resource: bool,
    #[serde(rename = "x-kubernetes-int-or-string", skip_serializing_if = "is_false")]
    pub int_or_string: bool,
    /// How a list merges: absent means atomic.
    #[serde(rename = "x-kubernetes-list-type", skip_serializing_if = "Option::is_none")]
    pub list_type: Option<ListType>,
    /// The fields that tell the items of a `map` list apart.
    #[serde(rename = "x-kubernetes-list-map-keys", skip_serializing_if = "Vec::is_empty")]
    pub list_map_keys: Vec<String>,
    /// How an object merges: absent means granular.
    #[serde(rename = "x-kubernetes-map-type", skip_serializing_if = "Option::is_none")]
    pub map_type: Option<MapType>,
    /// The field that tells list items apart in a strategic merge patch; built-in kinds only.
    #[serde(rename = "x-kubernetes-patch-merge-key", skip_serializing_if = "Option::is_none")]
    pub patch_merge_key: Option<String>,
    /// `merge`, `replace`, `retainKeys` or two of them joined by a comma; built-in kinds only.
    #[serde(rename = "x-kubernetes-patch-strategy", skip_serializing_if = "Option::is_none")]
    pub patch_strategy: Option<String>,
    /// CEL rules on the value of this node.
    #[serde(rename = "x-kubernetes-validations", skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<Rule>,
}

impl Schema {
    /// The schema of a field: its property's, or that of the map's values.
    pub fn field(&self, key: &str) -> Option<&Self> {
        match (self.properties.get(key), &self.additional_properties) {
            (Some(property), _) => Some(property),
            (None, Some(Additional::Schema(schema))) => Some(schema),
            _ => None,
        }
    }
}

/// The JSON type of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "the names say it")]
pub enum Type {
    Object,
    Array,
    String,
    Integer,
    Number,
    Boolean,
}

impl Type {
    /// The name in a schema.
    pub fn name(self) -> &'static str {
        match self {
            Self::Object => "object",
            Self::Array => "array",
            Self::String => "string",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Boolean => "boolean",
        }
    }
}

/// `additionalProperties`: a schema for the values of a map, or a plain yes or no.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Additional {
    /// `true` admits any value, `false` none.
    Any(bool),
    /// Every value follows this schema.
    Schema(Box<Schema>),
}

/// `x-kubernetes-list-type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ListType {
    /// Replaced as a whole.
    Atomic,
    /// Scalars, each present once, owned one by one.
    Set,
    /// Objects told apart by the fields in `x-kubernetes-list-map-keys`.
    Map,
}

/// `x-kubernetes-map-type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MapType {
    /// Replaced as a whole.
    Atomic,
    /// Merged field by field.
    Granular,
}

/// One entry of `x-kubernetes-validations`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[expect(missing_docs, reason = "the names are OpenAPI's own")]
pub struct Rule {
    /// The CEL expression; `self` is the value, `oldSelf` the stored one.
    pub rule: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message_expression: Option<String>,
    /// `FieldValueInvalid` (the default), `FieldValueForbidden`, `FieldValueRequired` or
    /// `FieldValueDuplicate`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Where the error points, relative to the rule's node, as in `.spec.a`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field_path: Option<String>,
    /// The rule runs on create too, with `oldSelf` an optional.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub optional_old_self: Option<bool>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_false(b: &bool) -> bool {
    !b
}
