//! Documents over their life: made once, changed with their CRD, bounded.

use std::sync::{Arc, LazyLock};

use http::Request;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::*;
use crate::resource::{Origin, Resource, Version};
use crate::schema::Schema;

fn custom(kind: &str, schema: Value) -> Resource {
    let schema: Schema = serde_json::from_value(schema).unwrap();
    let plural = format!("{}s", kind.to_lowercase());
    Resource {
        group: "example.com".to_owned(),
        singular: kind.to_lowercase(),
        kind: kind.to_owned(),
        list_kind: format!("{kind}List"),
        short_names: Vec::new(),
        categories: Vec::new(),
        namespaced: true,
        verbs: ["create", "delete", "get", "list", "patch", "update"].map(str::to_owned).into(),
        scale: None,
        subresources: Vec::new(),
        storage: 0,
        versions: vec![Version {
            name: "v1".to_owned(),
            served: true,
            schema: LazyLock::new(Box::new(move || Some(Arc::new(schema)))),
            rules: None,
            columns: Vec::new(),
            finished: None,
            selectable: std::collections::BTreeMap::new(),
            deprecation: None,
        }],
        origin: Origin::Custom {
            definition: format!("{plural}.example.com"),
            revised: false,
            terminating: false,
        },
        plural,
        alias: None,
    }
}

fn table(schema: Value) -> Table {
    let mut table = crate::builtin::table().unwrap();
    table.insert(custom("Thing", schema));
    table
}

fn parts(path: &str, headers: &[(&str, &str)]) -> Parts {
    let mut request = Request::get(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(()).unwrap().into_parts().0
}

fn get(
    documents: &Documents,
    table: &Table,
    path: &str,
    headers: &[(&str, &str)],
) -> (u16, http::HeaderMap, Bytes) {
    let now: Timestamp = "2026-01-02T03:04:05Z".parse().unwrap();
    let response = answer(documents, table, now, &parts(path, headers)).unwrap();
    let (head, body) = response.into_parts();
    let ResponseBody::Full(bytes) = body else { panic!("documents do not stream") };
    (head.status.as_u16(), head.headers, bytes)
}

fn url(documents: &Documents, table: &Table, page: &str) -> String {
    let (_, _, index) = get(documents, table, "/openapi/v3", &[]);
    let index: Value = serde_json::from_slice(&index).unwrap();
    index["paths"][page]["serverRelativeURL"].as_str().unwrap_or_default().to_owned()
}

const THINGS: &str = "apis/example.com/v1";

#[test]
fn a_hash_changes_with_its_definition_and_with_no_other() {
    let documents = Documents::default();
    let one = table(json!({"type": "object", "properties": {"a": {"type": "string"}}}));
    let two = table(json!({"type": "object", "properties": {"b": {"type": "string"}}}));
    let before = [url(&documents, &one, THINGS), url(&documents, &one, "api/v1")];
    assert_eq!(before, [url(&documents, &one, THINGS), url(&documents, &one, "api/v1")]);
    let after = [url(&documents, &two, THINGS), url(&documents, &two, "api/v1")];
    assert_ne!(before[0], after[0]);
    assert_eq!(before[1], after[1]);
    // The old URL leads to the new one, which may be kept for ever.
    let (code, headers, _) = get(&documents, &two, &before[0], &[]);
    assert_eq!((code, headers[LOCATION].to_str().unwrap()), (301, after[0].as_str()));
    let (code, headers, body) = get(&documents, &two, &after[0], &[]);
    assert_eq!((code, headers[CACHE_CONTROL].to_str().unwrap()), (200, "public, immutable"));
    assert_eq!(headers[EXPIRES], "Sat, 02 Jan 2027 03:04:05 UTC");
    let document: Value = serde_json::from_slice(&body).unwrap();
    let thing = &document["components"]["schemas"]["com.example.v1.Thing"];
    assert_eq!(thing["properties"]["b"], json!({"type": "string"}));
    // The CRD goes, and its page with it.
    let none = crate::builtin::table().unwrap();
    assert_eq!(url(&documents, &none, THINGS), "");
    assert_eq!(get(&documents, &none, &after[0], &[]).0, 404);
}

#[test]
fn bodies_come_as_the_client_wants_them() {
    let documents = Documents::default();
    let table = table(json!({"type": "object"}));
    let page = "/openapi/v3/apis/example.com/v1";
    let (_, headers, whole) = get(&documents, &table, page, &[]);
    let tag = headers[ETAG].to_str().unwrap();
    for (sent, want) in [
        (("if-none-match", tag), (304, 0)),
        (("if-none-match", "\"x\""), (200, whole.len())),
        (("range", "bytes=0-8"), (206, 9)),
        (("range", "bytes=5-"), (206, whole.len() - 5)),
        (("range", "bytes=9-5"), (200, whole.len())),
        (("accept", "application/yaml"), (406, 0)),
        (("accept", "text/html, application/*;q=0.1"), (200, whole.len())),
    ] {
        let (code, _, body) = get(&documents, &table, page, &[sent]);
        assert_eq!((code, body.len()), want, "{sent:?}");
    }
    let (_, headers, short) = get(&documents, &table, page, &[("accept-encoding", "br, gzip")]);
    assert_eq!(headers[CONTENT_ENCODING], "gzip");
    assert!(short.starts_with(&[0x1f, 0x8b]) && short.len() * 3 < whole.len());
}

#[test]
fn every_reference_leads_somewhere() {
    let documents = Documents::default();
    let table = table(json!({"type": "object", "x-kubernetes-embedded-resource": true}));
    let pages = document::Page::all(&table);
    let paths = pages.keys().map(|page| (format!("/openapi/v3/{page}"), "/components/schemas"));
    for (path, place) in paths.chain([("/openapi/v2".to_owned(), "/definitions")]) {
        let (_, _, body) = get(&documents, &table, &path, &[]);
        let text = String::from_utf8(body.to_vec()).unwrap();
        let document: Value = serde_json::from_str(&text).unwrap();
        let definitions = document.pointer(place).unwrap();
        for reference in text.split("\"$ref\":\"#").skip(1) {
            let name = reference.split('"').next().unwrap().trim_start_matches(place);
            assert!(definitions.get(&name[1..]).is_some(), "{path} lacks {name}");
        }
    }
}

/// Schemas that are larger than what is kept: hashes stay, bytes are made anew.
#[test]
fn large_definitions_do_not_stay_in_memory() {
    let limits = cache::Limits { kept: 64 * 1024, text: 100 * 1024 };
    let documents = Documents::within(limits);
    let mut table = Table::default();
    for i in 0..4_u64 {
        // Digits of a multiplication, which compress badly.
        let noise: String = (0..3_000_u64)
            .map(|n| format!("{:x}", (n + i).wrapping_mul(0x9e37_79b9_7f4a_7c15)))
            .collect();
        let mut resource = custom("Thing", json!({"type": "object", "description": noise}));
        resource.group = format!("g{i}.example.com");
        table.insert(resource);
    }
    let first = url(&documents, &table, "apis/g0.example.com/v1");
    for i in 0..4 {
        let page = format!("apis/g{i}.example.com/v1");
        let (code, _, body) = get(&documents, &table, &url(&documents, &table, &page), &[]);
        assert!(code == 200 && body.len() > 45_000, "{page}");
        assert!(documents.kept() <= limits.kept, "{}", documents.kept());
    }
    assert_eq!(url(&documents, &table, "apis/g0.example.com/v1"), first);
    let (code, _, body) = get(&documents, &table, "/openapi/v2", &[]);
    // Past the limit, schemas are left out: one has it, and three would be 130 kB more.
    assert!(code == 200 && body.len() < 200 * 1024, "{}", body.len());
    assert!(documents.kept() <= limits.kept, "{}", documents.kept());
}
