//! The types of built-in kinds as definitions of an OpenAPI v3 document, without descriptions.
//!
//! The table of facts says all of it but a dozen types that are no structs in JSON.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::facts::{Facts, FieldFact, Form, Omit, Raw, facts};
use crate::resource::group_version;

type Object = Map<String, Value>;

/// Where definitions stand in a document of version 3.
pub(crate) const REFERENCE: &str = "#/components/schemas/";

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";
const EXTENSIONS: &str = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1";

/// The definition's name of a built-in kind.
pub(crate) fn definition_name(api_version: &str, kind: &str) -> Option<String> {
    let facts = facts().ok()?;
    name(facts, facts.kind(api_version, kind)?)
}

/// A definition by its name.
pub(crate) fn definition(name: &str) -> Option<Value> {
    if let Some(special) = special(name) {
        return Some(special);
    }
    let facts = facts().ok()?;
    let (package, kind) = name.rsplit_once('.')?;
    let (prefix, _) = facts.packages.iter().find(|(_, full)| *full == package)?;
    let type_ = format!("{prefix}.{kind}");
    facts.has_type(&type_).then(|| structure(facts, &type_))
}

fn name(facts: &Facts, type_: &str) -> Option<String> {
    let (prefix, kind) = type_.rsplit_once('.')?;
    Some(format!("{}.{kind}", facts.packages.get(prefix)?))
}

/// Types that are written as something else than a struct.
fn special(name: &str) -> Option<Value> {
    Some(match name {
        "io.k8s.apimachinery.pkg.apis.meta.v1.Time"
        | "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime" => {
            json!({"type": "string", "format": "date-time"})
        }
        "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1"
        | "io.k8s.apimachinery.pkg.apis.meta.v1.Patch"
        | "io.k8s.apimachinery.pkg.runtime.RawExtension" => json!({"type": "object"}),
        "io.k8s.apimachinery.pkg.api.resource.Quantity" => {
            json!({"oneOf": [{"type": "string"}, {"type": "number"}]})
        }
        "io.k8s.apimachinery.pkg.util.intstr.IntOrString" => {
            json!({"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]})
        }
        "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSON"
        | "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrBool"
        | "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrArray"
        | "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrStringArray" =>
        {
            json!({})
        }
        "io.k8s.apimachinery.pkg.version.Info" => info(),
        _ => return None,
    })
}

/// What `/version` answers.
fn info() -> Value {
    let required = [
        "major",
        "minor",
        "gitVersion",
        "gitCommit",
        "gitTreeState",
        "buildDate",
        "goVersion",
        "compiler",
        "platform",
    ];
    let optional =
        ["emulationMajor", "emulationMinor", "minCompatibilityMajor", "minCompatibilityMinor"];
    let properties: Object =
        (required.iter().map(|f| (*f, json!({"type": "string", "default": ""}))))
            .chain(optional.iter().map(|f| (*f, json!({"type": "string"}))))
            .map(|(name, schema)| (name.to_owned(), schema))
            .collect();
    json!({"type": "object", "required": required, "properties": properties})
}

fn structure(facts: &Facts, type_: &str) -> Value {
    let fields = facts.flat(type_);
    let mut out = Object::new();
    out.insert("type".to_owned(), "object".into());
    let required: Vec<&str> =
        fields.iter().filter(|f| f.required).map(|f| f.name.as_str()).collect();
    if !required.is_empty() {
        out.insert("required".to_owned(), required.into());
    }
    if !fields.is_empty() {
        let properties: Object =
            fields.iter().map(|f| (f.name.clone(), field(facts, f).into())).collect();
        out.insert("properties".to_owned(), properties.into());
    }
    let fact = facts.type_(type_);
    if fact.atomic {
        out.insert("x-kubernetes-map-type".to_owned(), "atomic".into());
    }
    if let Some(unions) = &fact.unions {
        out.insert("x-kubernetes-unions".to_owned(), unions.clone());
    }
    let kinds = kinds(facts, type_);
    if !kinds.is_empty() {
        out.insert("x-kubernetes-group-version-kind".to_owned(), kinds.into());
    }
    out.into()
}

/// The kinds that a type stands for, ordered by group.
fn kinds(facts: &Facts, type_: &str) -> Vec<Value> {
    let one = |group: &str, version: &str, kind: &str| json!({"group": group, "version": version, "kind": kind});
    if let Some(kind) = type_.strip_prefix("meta.v1.") {
        return match kind {
            // Every group has its own.
            "DeleteOptions" | "WatchEvent" => {
                let versions: BTreeMap<(&str, &str), ()> = (facts.groups.iter())
                    .flat_map(|g| g.versions.iter().map(|v| ((g.name.as_str(), v.as_str()), ())))
                    .collect();
                versions.keys().map(|(group, version)| one(group, version, kind)).collect()
            }
            "APIGroup" | "APIGroupList" | "APIResourceList" | "APIVersions" | "Status" => {
                vec![one("", "v1", kind)]
            }
            _ => Vec::new(),
        };
    }
    let mut out = Vec::new();
    for group in &facts.groups {
        for version in &group.versions {
            let version_name = group_version(&group.name, version);
            let kinds = facts.kinds_of(&version_name);
            let named = kinds.filter(|(_, of)| *of == type_);
            out.extend(named.map(|(kind, _)| one(&group.name, version, kind)));
        }
    }
    out
}

fn field(facts: &Facts, field: &FieldFact) -> Object {
    let mut out = form(facts, &field.form);
    let zero = if zero_is_declared(field) { zero(&field.form) } else { None };
    if let Some(default) = field.declared.clone().or(zero) {
        out.insert("default".to_owned(), default);
    }
    if !field.enum_.is_empty() {
        let inner = ["items", "additionalProperties"].into_iter().find(|i| out.contains_key(*i));
        let holder = match inner.and_then(|inner| out.get_mut(inner)) {
            Some(Value::Object(inner)) => inner,
            _ => &mut out,
        };
        holder.insert("enum".to_owned(), field.enum_.clone().into());
    }
    let mut mark = |name: &str, value: Value| {
        out.insert(format!("x-kubernetes-{name}"), value);
    };
    if let Some(list) = field.list {
        mark("list-type", json!(list));
    }
    if !field.keys.is_empty() {
        mark("list-map-keys", field.keys.clone().into());
    }
    if let Some(map) = field.map {
        mark("map-type", json!(map));
    }
    if let Some(patch) = &field.patch {
        mark("patch-strategy", patch.clone().into());
    }
    if let Some(key) = &field.merge_key {
        mark("patch-merge-key", key.clone().into());
    }
    wrapped(out)
}

/// A reference has no neighbours in version 3; what stands beside one goes around it.
pub(crate) fn wrapped(mut schema: Object) -> Object {
    if schema.len() > 1
        && let Some(reference) = schema.remove("$ref")
    {
        schema.insert("allOf".to_owned(), json!([{"$ref": reference}]));
    }
    schema
}

fn zero_is_declared(field: &FieldFact) -> bool {
    let always = field.omit == Omit::Never || matches!(field.form, Form::Struct(_));
    always && !field.ptr && !matches!(field.form, Form::List(_) | Form::Map(_))
}

fn zero(form: &Form) -> Option<Value> {
    Some(match form {
        Form::Text => "".into(),
        Form::Bool => false.into(),
        Form::Int32 | Form::Int64 | Form::Double => 0.into(),
        Form::Struct(_) => json!({}),
        _ => return None,
    })
}

/// What a field, an item or a map's value is, without its default.
fn form(facts: &Facts, form: &Form) -> Object {
    let reference = |name: String| -> Object {
        [("$ref".to_owned(), Value::from(format!("{REFERENCE}{name}")))].into_iter().collect()
    };
    let typed = |type_: &str, format: &str| -> Object {
        let mut out = Object::new();
        out.insert("type".to_owned(), type_.into());
        if !format.is_empty() {
            out.insert("format".to_owned(), format.into());
        }
        out
    };
    match form {
        Form::Text => typed("string", ""),
        Form::Bool => typed("boolean", ""),
        Form::Int32 => typed("integer", "int32"),
        Form::Int64 => typed("integer", "int64"),
        Form::Double => typed("number", "double"),
        Form::Bytes => typed("string", "byte"),
        Form::Time => reference(format!("{META}.Time")),
        Form::MicroTime => reference(format!("{META}.MicroTime")),
        Form::Quantity => reference("io.k8s.apimachinery.pkg.api.resource.Quantity".to_owned()),
        Form::IntOrString => {
            reference("io.k8s.apimachinery.pkg.util.intstr.IntOrString".to_owned())
        }
        Form::Raw(raw) => reference(match raw {
            Raw::Object => "io.k8s.apimachinery.pkg.runtime.RawExtension".to_owned(),
            Raw::Fields => format!("{META}.FieldsV1"),
            Raw::Any => format!("{EXTENSIONS}.JSON"),
            Raw::SchemaOrBool => format!("{EXTENSIONS}.JSONSchemaPropsOrBool"),
            Raw::SchemaOrArray => format!("{EXTENSIONS}.JSONSchemaPropsOrArray"),
            Raw::SchemaOrStrings => format!("{EXTENSIONS}.JSONSchemaPropsOrStringArray"),
        }),
        Form::List(item) => {
            let mut out = typed("array", "");
            out.insert("items".to_owned(), value(facts, item).into());
            out
        }
        Form::Map(item) => {
            let mut out = typed("object", "");
            out.insert("additionalProperties".to_owned(), value(facts, item).into());
            out
        }
        Form::Struct(type_) => reference(name(facts, type_).unwrap_or_else(|| type_.clone())),
    }
}

/// An item of a list or a value of a map.
fn value(facts: &Facts, item: &Form) -> Object {
    let mut out = form(facts, item);
    if let Some(zero) = zero(item) {
        out.insert("default".to_owned(), zero);
    }
    wrapped(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_that_is_referred_to_has_a_definition() {
        let facts = facts().unwrap();
        for type_ in facts.type_names() {
            let text = definition(&name(facts, type_).unwrap()).unwrap().to_string();
            for found in text.split(REFERENCE).skip(1) {
                let name = found.split('"').next().unwrap();
                assert!(definition(name).is_some(), "{type_} refers to {name}");
            }
        }
        assert!(definition("io.k8s.api.core.v1.Nothing").is_none());
        assert!(definition("nothing").is_none());
    }

    #[test]
    fn fields_are_as_upstream_publishes_them() {
        let port = definition("io.k8s.api.core.v1.ServicePort").unwrap();
        assert_eq!(
            port["properties"]["protocol"],
            json!({"type": "string", "default": "TCP", "enum": ["SCTP", "TCP", "UDP"]})
        );
        assert_eq!(port["properties"]["port"]["default"], 0);
        assert_eq!(port["required"], json!(["port"]));
        let spec = definition("io.k8s.api.core.v1.ServiceSpec").unwrap();
        assert!(spec["properties"]["type"].get("default").is_none());
        let ports = &spec["properties"]["ports"];
        assert_eq!(ports["x-kubernetes-list-map-keys"], json!(["port", "protocol"]));
        assert_eq!(ports["items"]["default"], json!({}));
    }
}
