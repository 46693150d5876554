//! Operations as OpenAPI 3.0 writes them.

use serde_json::{Map, Value, json};

use super::paths::{Gvk, Operation, Parameter, PathItem};
use crate::builtin::REFERENCE;

type Object = Map<String, Value>;

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

/// The parameters that all operations of a path have, which are said once.
pub(super) fn shared(operations: &[Operation]) -> Vec<Parameter> {
    let Some((first, others)) = operations.split_first() else { return Vec::new() };
    let in_all = |p: &&Parameter| others.iter().all(|o| o.parameters.contains(p));
    first.parameters.iter().filter(in_all).copied().collect()
}

/// What both versions say of an operation in the same words.
pub(super) fn common(operation: &Operation) -> Object {
    let mut out = Object::new();
    out.insert("tags".to_owned(), json!([operation.tag]));
    out.insert("operationId".to_owned(), operation.id.as_str().into());
    if let Some((action, Gvk { group, version, kind })) = &operation.action {
        out.insert("x-kubernetes-action".to_owned(), (*action).into());
        let kind = json!({"group": group, "version": version, "kind": kind});
        out.insert("x-kubernetes-group-version-kind".to_owned(), kind);
    }
    out
}

/// What an answer's code means.
pub(super) fn meaning(code: u16) -> &'static str {
    match code {
        201 => "Created",
        202 => "Accepted",
        401 => "Unauthorized",
        _ => "OK",
    }
}

fn operation(operation: &Operation, shared: &[Parameter]) -> Value {
    let mut out = common(operation);
    let own: Vec<Value> =
        operation.parameters.iter().filter(|p| !shared.contains(p)).map(parameter).collect();
    if !own.is_empty() {
        out.insert("parameters".to_owned(), own.into());
    }
    if let Some(body) = &operation.body {
        let mut request = json!({"content": content(operation.consumes, &body.definition)});
        if body.required {
            request["required"] = true.into();
        }
        out.insert("requestBody".to_owned(), request);
    }
    let mut responses = Object::new();
    for (code, definition) in &operation.answers {
        let content = content(&operation.produces, definition);
        let response = json!({"description": meaning(*code), "content": content});
        responses.insert(code.to_string(), response);
    }
    responses.insert("401".to_owned(), json!({"description": meaning(401)}));
    out.insert("responses".to_owned(), responses.into());
    out.into()
}

fn content(media_types: &[&str], definition: &str) -> Value {
    let schema = json!({"schema": {"$ref": format!("{REFERENCE}{definition}")}});
    media_types.iter().map(|m| ((*m).to_owned(), schema.clone())).collect::<Object>().into()
}

fn parameter(parameter: &Parameter) -> Value {
    let mut out = json!({
        "name": parameter.name,
        "in": if parameter.in_path { "path" } else { "query" },
        "schema": {"type": parameter.type_, "uniqueItems": true},
    });
    if parameter.in_path {
        out["required"] = true.into();
    }
    out
}
