//! Operations and definitions as Swagger 2.0 writes them.

use serde_json::{Map, Value, json};

use super::paths::{Operation, Parameter, PathItem};
use super::v3::{common, meaning, shared};
use crate::builtin;

type Object = Map<String, Value>;

/// Where definitions stand in a document of version 2.
pub(super) const REFERENCE: &str = "#/definitions/";

/// A path with its operations.
pub(super) fn path_item(item: &PathItem) -> Value {
    let shared = shared(&item.operations);
    let mut out: Object = (item.operations.iter())
        .map(|each| (each.method.to_owned(), operation(each, &shared)))
        .collect();
    if !shared.is_empty() {
        out.insert("parameters".to_owned(), shared.iter().map(parameter).collect());
    }
    out.into()
}

fn operation(operation: &Operation, shared: &[Parameter]) -> Value {
    let mut out = common(operation);
    out.insert("consumes".to_owned(), operation.consumes.into());
    out.insert("produces".to_owned(), operation.produces.clone().into());
    out.insert("schemes".to_owned(), json!(["https"]));
    let mut parameters = Vec::new();
    if let Some(body) = &operation.body {
        let mut parameter =
            json!({"name": "body", "in": "body", "schema": reference(&body.definition)});
        if body.required {
            parameter["required"] = true.into();
        }
        parameters.push(parameter);
    }
    let own = operation.parameters.iter().filter(|p| !shared.contains(p));
    parameters.extend(own.map(parameter));
    if !parameters.is_empty() {
        out.insert("parameters".to_owned(), parameters.into());
    }
    let mut responses = Object::new();
    for (code, definition) in &operation.answers {
        let response = json!({"description": meaning(*code), "schema": reference(definition)});
        responses.insert(code.to_string(), response);
    }
    responses.insert("401".to_owned(), json!({"description": meaning(401)}));
    out.insert("responses".to_owned(), responses.into());
    out.into()
}

fn reference(definition: &str) -> Value {
    json!({"$ref": format!("{REFERENCE}{definition}")})
}

fn parameter(parameter: &Parameter) -> Value {
    let mut out = json!({
        "name": parameter.name,
        "in": if parameter.in_path { "path" } else { "query" },
        "type": parameter.type_,
        "uniqueItems": true,
    });
    if parameter.in_path {
        out["required"] = true.into();
    }
    out
}

/// Rewrites a definition from version 3: no defaults, no alternatives, references with neighbours.
pub(super) fn schema(value: &mut Value) {
    let Some(schema) = value.as_object_mut() else { return };
    schema.remove("default");
    schema.remove("nullable");
    let wrapped = schema.get("allOf").and_then(Value::as_array).and_then(|all| match &all[..] {
        [one] => one.get("$ref").cloned(),
        _ => None,
    });
    if let Some(reference) = wrapped {
        schema.remove("allOf");
        schema.insert("$ref".to_owned(), reference);
    }
    if let Some(Value::String(reference)) = schema.get_mut("$ref")
        && let Some(name) = reference.strip_prefix(builtin::REFERENCE)
    {
        *reference = format!("{REFERENCE}{name}");
    }
    // Quantities and int-or-strings, whose clients of this version expect strings.
    if schema.remove("oneOf").is_some() {
        schema.insert("type".to_owned(), "string".into());
    }
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        properties.values_mut().for_each(self::schema);
    }
    for below in ["items", "additionalProperties"] {
        if let Some(below) = schema.get_mut(below) {
            self::schema(below);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_lose_what_version_2_has_no_words_for() {
        let of = |name: &str| {
            let mut definition = builtin::definition(name).unwrap();
            schema(&mut definition);
            definition
        };
        assert_eq!(
            of("io.k8s.apimachinery.pkg.util.intstr.IntOrString"),
            json!({"type": "string", "format": "int-or-string"})
        );
        let service = of("io.k8s.api.core.v1.Service");
        assert_eq!(service["properties"]["spec"], reference("io.k8s.api.core.v1.ServiceSpec"));
        let port = of("io.k8s.api.core.v1.ServicePort");
        assert!(port["properties"]["protocol"].get("default").is_none());
        let ports = of("io.k8s.api.core.v1.ServiceSpec");
        assert_eq!(
            ports["properties"]["ports"]["items"],
            reference("io.k8s.api.core.v1.ServicePort")
        );
    }
}
