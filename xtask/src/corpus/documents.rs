//! OpenAPI documents compared whole: every path, operation and definition that our server publishes,
//! in version 2 and in each document of version 3, with what upstream publishes under the same name.
//!
//! Descriptions are left out and only counted: upstream's sentences are not ours to hold. What only
//! upstream has is counted too: those are the resources that we do not serve. `EXPLAINED` holds the
//! differences that are accepted. Custom resources are compared by the cases of `openapi.yaml`.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use serde_json::{Map, Value};

use super::compare::differences;
use crate::server::Server;

/// How many differences are shown.
const SHOWN: usize = 40;

/// Parts of documents that may differ, and why.
const EXPLAINED: &[(&str, &str)] = &[
    (
        "meta.v1.DeleteOptions x-kubernetes-group-version-kind",
        "upstream lists versions that it knows and does not serve; we list those of our table",
    ),
    (
        "meta.v1.WatchEvent x-kubernetes-group-version-kind",
        "upstream lists versions that it knows and does not serve; we list those of our table",
    ),
];

/// Media types that upstream reads or writes and we may not; not compared.
const ENCODINGS: [&str; 2] = ["protobuf", "cbor"];

/// Compares all documents and fails if any difference is not explained.
pub(crate) fn compare(upstream: &Server, ours: &Server) -> Result<()> {
    let mut tally = Tally::default();
    let paths = get(ours, "/openapi/v3")?;
    let paths = paths.get("paths").and_then(Value::as_object).context("the index has no paths")?;
    for path in paths.keys() {
        let path = format!("/openapi/v3/{path}");
        tally.add(&path, get(upstream, &path)?, get(ours, &path)?);
    }
    tally.add("/openapi/v2", get(upstream, "/openapi/v2")?, get(ours, "/openapi/v2")?);
    tally.report();
    ensure!(tally.unexplained.is_empty(), "{} differences", tally.unexplained.len());
    Ok(())
}

fn get(server: &Server, path: &str) -> Result<Value> {
    let token = server.tokens.get("admin").context("no user is named admin")?;
    let headers = [("authorization".to_owned(), format!("Bearer {token}"))];
    let answer = server.client.open("GET", path, &headers, None)?.finish()?;
    ensure!(answer.status == 200, "{path}: {}", answer.status);
    serde_json::from_slice(&answer.body).with_context(|| format!("{path} is no JSON"))
}

/// What the comparison came to.
#[derive(Default)]
struct Tally {
    documents: usize,
    /// Paths and definitions that both have.
    parts: usize,
    only_upstream: usize,
    explained: BTreeMap<&'static str, usize>,
    unexplained: Vec<String>,
    /// Sentences that are upstream's, that differ, and that only upstream has.
    sentences: [usize; 3],
}

impl Tally {
    fn add(&mut self, name: &str, mut upstream: Value, mut ours: Value) {
        self.documents += 1;
        resolve(&mut upstream);
        resolve(&mut ours);
        for place in ["/paths", "/components/schemas", "/definitions"] {
            let empty = Map::new();
            let of = |document: &'_ Value| document.pointer(place).cloned();
            let (Some(Value::Object(theirs)), own) = (of(&upstream), of(&ours)) else { continue };
            let own = own.as_ref().and_then(Value::as_object).unwrap_or(&empty);
            self.only_upstream += theirs.keys().filter(|key| !own.contains_key(*key)).count();
            for (key, part) in own {
                self.parts += 1;
                let theirs = theirs.get(key).cloned().unwrap_or_default();
                if place != "/paths" {
                    count(&theirs, part, &mut self.sentences);
                }
                self.part(&format!("{name} {key}"), theirs, part.clone());
            }
        }
    }

    fn part(&mut self, name: &str, mut theirs: Value, mut ours: Value) {
        plain(&mut theirs, false);
        plain(&mut ours, false);
        for difference in differences(&theirs, &ours) {
            let shown = format!("{name} {difference}");
            match EXPLAINED.iter().find(|(part, _)| shown.contains(part)) {
                Some((_, reason)) => *self.explained.entry(reason).or_default() += 1,
                None => self.unexplained.push(shown),
            }
        }
    }

    fn report(&self) {
        let [same, other, absent] = self.sentences;
        eprintln!(
            "{} OpenAPI documents, {} paths and definitions: {} differences\n\
             only upstream has {} paths and definitions\n\
             descriptions of definitions and fields: {same} the same, {other} others, {absent} only upstream's",
            self.documents,
            self.parts,
            self.unexplained.len(),
            self.only_upstream,
        );
        for (reason, times) in &self.explained {
            eprintln!("accepted {times} times: {reason}");
        }
        for difference in self.unexplained.iter().take(SHOWN) {
            eprintln!("{difference}");
        }
    }
}

/// Puts shared parameters where they are referred to, and parameters in order.
fn resolve(document: &mut Value) {
    let shared = document.get("parameters").cloned().unwrap_or_default();
    if let Some(paths) = document.get_mut("paths") {
        put(paths, &shared);
    }
}

fn put(value: &mut Value, shared: &Value) {
    match value {
        Value::Object(fields) => {
            for (key, below) in fields {
                put(below, shared);
                if let (true, Value::Array(parameters)) = (key == "parameters", below) {
                    parameters.sort_by_key(|p| p.get("name").map(ToString::to_string));
                }
            }
        }
        Value::Array(items) => {
            for item in items {
                let reference = item.get("$ref").and_then(Value::as_str);
                let name = reference.and_then(|r| r.strip_prefix("#/parameters/"));
                match name.and_then(|name| shared.get(name)) {
                    Some(parameter) => *item = parameter.clone(),
                    None => put(item, shared),
                }
            }
        }
        _ => {}
    }
}

/// Takes away descriptions, what only they made necessary, and encodings. Below `properties`, keys
/// are names.
fn plain(value: &mut Value, names: bool) {
    match value {
        Value::Object(fields) => {
            if !names {
                fields.retain(|key, value| key != "description" || !value.is_string());
                fields.retain(|key, _| !ENCODINGS.iter().any(|e| key.contains(e)));
            }
            for (key, below) in &mut *fields {
                plain(below, !names && key == "properties");
                if let (false, "required", Value::Array(required)) = (names, key.as_str(), below) {
                    required.sort_by_key(ToString::to_string);
                }
            }
            if let (false, 1, Some(Value::Array(all))) = (names, fields.len(), fields.get("allOf"))
                && let [one] = &all[..]
            {
                *value = one.clone();
            }
        }
        Value::Array(items) => {
            items.retain(|i| !i.as_str().is_some_and(|i| ENCODINGS.iter().any(|e| i.contains(e))));
            items.iter_mut().for_each(|item| plain(item, false));
        }
        _ => {}
    }
}

fn count(theirs: &Value, ours: &Value, sentences: &mut [usize; 3]) {
    let one = |theirs: &Value, ours: &Value, sentences: &mut [usize; 3]| match (
        theirs.get("description"),
        ours.get("description"),
    ) {
        (Some(a), Some(b)) => sentences[usize::from(a != b)] += 1,
        (Some(_), None) => sentences[2] += 1,
        (None, _) => {}
    };
    one(theirs, ours, sentences);
    for (name, ours) in ours.get("properties").and_then(Value::as_object).into_iter().flatten() {
        if let Some(theirs) = theirs.get("properties").and_then(|p| p.get(name)) {
            one(theirs, ours, sentences);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn sentences_do_not_count_and_structure_does() {
        for (theirs, ours, want) in [
            (json!({"type": "string", "description": "x"}), json!({"type": "string"}), 0),
            (json!({"description": "x", "allOf": [{"$ref": "#/a"}]}), json!({"$ref": "#/a"}), 0),
            (json!({"allOf": [{"$ref": "#/a"}], "default": {}}), json!({"$ref": "#/a"}), 1),
            (
                json!({"properties": {"description": {"type": "string"}}}),
                json!({"properties": {}}),
                1,
            ),
            (json!({"produces": ["a", "x/cbor"]}), json!({"produces": ["a"]}), 0),
        ] {
            let mut tally = Tally::default();
            tally.part("a ", theirs.clone(), ours);
            assert_eq!(tally.unexplained.is_empty(), want == 0, "{theirs}");
        }
    }

    #[test]
    fn shared_parameters_are_put_in_place() {
        let mut document = json!({
            "parameters": {"a-1": {"name": "a"}},
            "paths": {"/x": {"parameters": [{"name": "b"}, {"$ref": "#/parameters/a-1"}]}},
        });
        resolve(&mut document);
        assert_eq!(document["paths"]["/x"]["parameters"], json!([{"name": "a"}, {"name": "b"}]));
    }
}
