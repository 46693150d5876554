//! The one place that hides what two correct servers may choose freely: identities, revisions,
//! times, addresses, hashes, tokens and generated names.
//!
//! Identities and revisions become numbers in order of appearance, so that "the same again" and
//! "another one" stay visible. Nothing else is hidden: what is not masked here is compared.
//! Times before 2026 are taken for the case's own and kept.

use std::sync::LazyLock;

use regex::{Captures, Regex};
use serde_json::{Map, Value, json};

use crate::server::client::Answer;

/// Never compared: they speak of the connection or the moment, not of the answer.
const IGNORED_HEADERS: [&str; 4] = ["connection", "content-length", "date", "transfer-encoding"];

/// Compared by presence.
const PRESENT_HEADERS: [&str; 4] = ["audit-id", "etag", "expires", "last-modified"];

/// Not compared because our server has no priority and fairness: an accepted deviation of every case,
/// named here so that it is not listed a thousand times.
const UNSERVED_HEADERS: [&str; 2] =
    ["x-kubernetes-pf-flowschema-uid", "x-kubernetes-pf-prioritylevel-uid"];

/// Node ports are taken from this range.
const NODE_PORTS: std::ops::RangeInclusive<u64> = 30_000..=32_767;

/// Patterns that are replaced wherever they stand in a string.
static TEXT: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
    vec![
        (
            pattern(
                r"\b20(?:2[6-9]|[3-9]\d)-\d\d-\d\dT\d\d:\d\d:\d\d(?P<f>(?:\.\d+)?)(?:Z|[+-]\d\d:\d\d)",
            ),
            "<time>",
        ),
        (
            pattern(
                r"(?P<before>RV in object meta: |ResourceVersion in record \(|, current: |resource version: \d+ \()\d+",
            ),
            "$before<rv>",
        ),
        (pattern(r"(?P<before>Resource Version: +)\d+"), "$before<rv>"),
        // Objects quoted in messages.
        (pattern(r#"(?P<before>resourceVersion\\*"?: ?\\*")\d+"#), "$before<rv>"),
        (pattern(r"\b(?:127\.0\.0\.1|localhost):\d+"), "<address>"),
        (pattern(r"^10\.96\.\d+\.\d+$"), "<cluster-ip>"),
        (pattern(r"hash=[0-9A-F]+"), "hash=<hash>"),
        (pattern("kube-api-access-[bcdfghjklmnpqrstvwxz2456789]{5}"), "kube-api-access-<suffix>"),
        (pattern(r"\beyJ[\w-]+\.[\w-]+\.[\w-]+"), "<token>"),
    ]
});
static FRACTION: LazyLock<Regex> = LazyLock::new(|| pattern(r":\d\d\.\d+Z$"));
static UID: LazyLock<Regex> =
    LazyLock::new(|| pattern("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"));
static AGE: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"(?P<before>^|^\d+ \()(?:\d+[smh]){1,2}(?P<after>$| ago\)$)"));
/// As `kubectl describe` writes times of this run.
static DATE: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"\b(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d [A-Z][a-z]{2} 20(?:2[6-9]|[3-9]\d) [\d:]{8} [+-]\d{4}",
    )
});
static CLUSTER_IP: LazyLock<Regex> = LazyLock::new(|| pattern(r"\b10\.96\.\d+\.\d+\b"));
static PRINTED_AGE: LazyLock<Regex> = LazyLock::new(|| pattern(r"\b(?:\d+[smh]){1,2}\b"));
static GAP: LazyLock<Regex> = LazyLock::new(|| pattern(r"[ \t]{2,}|\t"));
/// A service's cell names ports of nodes that the server chose.
static NODE_PORT: LazyLock<Regex> = LazyLock::new(|| pattern(r":3[0-2]\d{3}/"));
/// What servers append to `generateName`: no vowels, no digits that look like letters.
static SUFFIX: LazyLock<Regex> = LazyLock::new(|| pattern("^[bcdfghjklmnpqrstvwxz2456789]{5}$"));

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("the patterns above are valid")
}

/// What one server has called things in the course of one case.
#[derive(Default)]
pub(crate) struct Normaliser {
    uids: Vec<String>,
    revisions: Vec<String>,
    /// Generated names and what they are shown as.
    names: Vec<(String, String)>,
}

impl Normaliser {
    /// An answer as one JSON value.
    pub(crate) fn answer(&mut self, answer: &Answer) -> Value {
        let mut headers = Map::new();
        for (name, value) in &answer.headers {
            if IGNORED_HEADERS.contains(&name.as_str()) || UNSERVED_HEADERS.contains(&name.as_str())
            {
                continue;
            }
            let value = if PRESENT_HEADERS.contains(&name.as_str()) {
                "<present>".to_owned()
            } else {
                self.text(value)
            };
            let values = headers.entry(name.clone()).or_insert_with(|| json!([]));
            if let Value::Array(values) = values {
                values.push(value.into());
            }
        }
        let yaml = answer.header("content-type").is_some_and(|kind| kind.contains("yaml"));
        let body = match yaml.then(|| yaml_document(&answer.body)).flatten() {
            Some(value) => self.document(value),
            None => self.body(&answer.body),
        };
        json!({"status": answer.status, "headers": headers, "body": body})
    }

    /// A body: JSON, a stream of JSON documents, text, or something else.
    fn body(&mut self, body: &[u8]) -> Value {
        if let Ok(value) = serde_json::from_slice(body) {
            return self.document(value);
        }
        let documents: Result<Vec<Value>, _> =
            serde_json::Deserializer::from_slice(body).into_iter().collect();
        match (documents, std::str::from_utf8(body)) {
            (Ok(documents), _) => documents.into_iter().map(|each| self.document(each)).collect(),
            (Err(_), Ok(text)) => self.text(text).into(),
            (Err(_), Err(_)) => "<binary>".into(),
        }
    }

    /// What a program printed for people, whose columns are as wide as what stands in them.
    pub(crate) fn transcript(&mut self, text: &str) -> String {
        let text = self.text(text);
        let text = DATE.replace_all(&text, "<time>");
        let text = CLUSTER_IP.replace_all(&text, "<cluster-ip>");
        let text = PRINTED_AGE.replace_all(&text, "<age>");
        GAP.replace_all(&text, "  ").into_owned()
    }

    /// A JSON document: an object, a list or a watch event.
    pub(crate) fn document(&mut self, mut value: Value) -> Value {
        self.mask(&mut value);
        value
    }

    fn mask(&mut self, value: &mut Value) {
        match value {
            Value::String(text) => *text = self.text(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.mask(item)),
            Value::Object(fields) => self.object(fields),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn object(&mut self, fields: &mut Map<String, Value>) {
        self.learn_generated(fields);
        // The revision of a list, a table or a bookmark is the whole server's at that moment.
        if fields.contains_key("items") || fields.contains_key("rows") {
            let meta = fields.get_mut("metadata").and_then(Value::as_object_mut);
            if let Some(revision) = meta.and_then(|meta| meta.get_mut("resourceVersion")) {
                *revision = "<rv>".into();
            }
        } else if fields.get("type").is_some_and(|kind| kind == "BOOKMARK") {
            fields.values_mut().for_each(hide_revisions);
        }
        if let Some(Value::Array(rows)) = fields.get_mut("rows") {
            rows.iter_mut().filter_map(|row| row.get_mut("cells")).for_each(mask_cells);
        }
        if let Some(Value::Array(columns)) = fields.get_mut("columnDefinitions") {
            columns.iter_mut().for_each(mask_prose);
        }
        for (key, value) in fields {
            match (key.as_str(), &mut *value) {
                ("resourceVersion", Value::String(text)) if is_revision(text) => {
                    *text = numbered(&mut self.revisions, text, "rv");
                }
                ("continue", Value::String(text)) if !text.is_empty() => {
                    "<continue>".clone_into(text);
                }
                ("serverAddress", Value::String(text)) => "<address>".clone_into(text),
                ("storageVersionHash", Value::String(text)) => "<hash>".clone_into(text),
                ("nodePort", Value::Number(port))
                    if port.as_u64().is_some_and(|port| NODE_PORTS.contains(&port)) =>
                {
                    *value = "<port>".into();
                }
                ("managedFields", Value::Array(entries)) => {
                    entries.iter_mut().for_each(|entry| self.mask(entry));
                    // Their order tells in which second of the clock each was written.
                    entries.sort_by_cached_key(owner);
                }
                _ => self.mask(value),
            }
        }
    }

    fn learn_generated(&mut self, fields: &Map<String, Value>) {
        let text = |key| fields.get(key).and_then(Value::as_str);
        let (Some(start), Some(name)) = (text("generateName"), text("name")) else { return };
        let known = self.names.iter().any(|(known, _)| known == name);
        if !known && name.strip_prefix(start).is_some_and(|end| SUFFIX.is_match(end)) {
            let shown = format!("{start}<generated:{}>", self.names.len() + 1);
            self.names.push((name.to_owned(), shown));
        }
    }

    fn text(&mut self, text: &str) -> String {
        let uids = &mut self.uids;
        let number = |found: &Captures<'_>| numbered(uids, &found[0], "uid");
        let mut out = UID.replace_all(text, number).into_owned();
        // A time's precision is part of its type.
        let fraction = FRACTION.is_match(&out);
        for (pattern, mask) in TEXT.iter() {
            let mask = if fraction && *mask == "<time>" { "<micro-time>" } else { mask };
            out = pattern.replace_all(&out, mask).into_owned();
        }
        for (name, shown) in &self.names {
            out = out.replace(name, shown);
        }
        out
    }
}

/// What tells entries of `managedFields` apart, besides their time.
fn owner(entry: &Value) -> String {
    let parts = ["operation", "manager", "subresource", "apiVersion"];
    parts.map(|key| entry.get(key).map(Value::to_string).unwrap_or_default()).join(" ")
}

/// YAML is compared by what it says, not by how it is laid out.
fn yaml_document(body: &[u8]) -> Option<Value> {
    let options = serde_saphyr::options! { strict_booleans: true };
    serde_saphyr::from_str_with_options(std::str::from_utf8(body).ok()?, options).ok()
}

fn is_revision(text: &str) -> bool {
    text != "0" && !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn numbered(seen: &mut Vec<String>, text: &str, what: &str) -> String {
    let place = seen.iter().position(|known| known == text).unwrap_or_else(|| {
        seen.push(text.to_owned());
        seen.len() - 1
    });
    format!("<{what}:{}>", place + 1)
}

/// A bookmark as a table has its revision in a row, too.
fn hide_revisions(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                if key == "resourceVersion" {
                    *value = "<rv>".into();
                } else {
                    hide_revisions(value);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(hide_revisions),
        _ => {}
    }
}

/// What a column means each server says in its own words. A definition's words and what is said of a
/// column without any are compared; the corpus's definitions describe their columns in one word.
fn mask_prose(column: &mut Value) {
    let Some(Value::String(text)) = column.get_mut("description") else { return };
    let words = text.is_empty() || text.contains(' ');
    if words && !text.starts_with("Custom resource definition column") {
        "<prose>".clone_into(text);
    }
}

fn mask_cells(cells: &mut Value) {
    for cell in cells.as_array_mut().into_iter().flatten() {
        if let Value::String(text) = cell {
            *text = AGE.replace(text, "$before<age>$after").into_owned();
            *text = NODE_PORT.replace_all(text, ":<port>/").into_owned();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(input: Value, expect: Value) {
        assert_eq!(Normaliser::default().document(input), expect);
    }

    #[test]
    fn identities_are_numbered() {
        let uid = |digit: &str| format!("{0}-1111-1111-1111-111111111111", digit.repeat(8));
        check(
            json!([{"uid": uid("a")}, {"uid": uid("b")}, {"message": format!("not {}", uid("a"))}]),
            json!([{"uid": "<uid:1>"}, {"uid": "<uid:2>"}, {"message": "not <uid:1>"}]),
        );
    }

    #[test]
    fn revisions_of_objects_and_of_the_server() {
        check(
            json!({"metadata": {"resourceVersion": "9"}, "items": [
                {"metadata": {"resourceVersion": "7"}}, {"metadata": {"resourceVersion": "7"}},
                {"metadata": {"resourceVersion": "8"}}, {"metadata": {"resourceVersion": "0"}}]}),
            json!({"metadata": {"resourceVersion": "<rv>"}, "items": [
                {"metadata": {"resourceVersion": "<rv:1>"}},
                {"metadata": {"resourceVersion": "<rv:1>"}},
                {"metadata": {"resourceVersion": "<rv:2>"}},
                {"metadata": {"resourceVersion": "0"}}]}),
        );
        check(
            json!("Too large resource version: 99, current: 12"),
            json!("Too large resource version: 99, current: <rv>"),
        );
        check(
            json!("too old resource version: 1 (345)"),
            json!("too old resource version: 1 (<rv>)"),
        );
    }

    #[test]
    fn objects_quoted_in_messages() {
        let quoted = r#"patch: Invalid value: "{\"resourceVersion\":\"123\"}""#;
        let masked = r#"patch: Invalid value: "{\"resourceVersion\":\"<rv>\"}""#;
        check(json!(quoted), json!(masked));
    }

    #[test]
    fn managed_fields_are_ordered_by_owner() {
        check(
            json!({"managedFields": [{"manager": "b"}, {"manager": "a", "operation": "Update"},
                {"manager": "c", "operation": "Apply"}]}),
            json!({"managedFields": [{"manager": "b"}, {"manager": "c", "operation": "Apply"},
                {"manager": "a", "operation": "Update"}]}),
        );
    }

    #[test]
    fn yaml_is_compared_as_data() {
        let yaml = |text: &str| Answer {
            status: 200,
            headers: vec![("content-type".into(), "application/yaml".into())],
            body: text.into(),
        };
        let normal = |text: &str| Normaliser::default().answer(&yaml(text));
        assert_eq!(normal("a: [x, 'on']\n"), normal("a:\n- x\n- \"on\"\n"));
        assert_ne!(normal("a: 1\n"), normal("a: \"1\"\n"));
    }

    #[test]
    fn times_of_the_run_but_not_of_the_case() {
        check(json!("2031-01-02T03:04:05Z"), json!("<time>"));
        check(json!("2031-01-02T03:04:05.123456Z"), json!("<micro-time>"));
        check(json!("2020-01-02T03:04:05Z"), json!("2020-01-02T03:04:05Z"));
    }

    #[test]
    fn what_is_printed_for_people() {
        let normal = |text: &str| Normaliser::default().transcript(text);
        assert_eq!(normal("NAME      AGE\na  \t     2m3s\n"), "NAME  AGE\na  <age>\n");
        assert_eq!(normal("  Resource Version:  259\n"), "  Resource Version:  <rv>\n");
        assert_eq!(normal("Created:  Tue, 07 Jan 2031 01:02:03 +0000"), "Created:  <time>");
        assert_eq!(
            normal("Started:  Thu, 02 Jan 2020 03:04:05 +0000"),
            "Started:  Thu, 02 Jan 2020 03:04:05 +0000"
        );
        assert_eq!(normal("  resourceVersion: \"12\"\n"), "  resourceVersion: \"<rv>\"\n");
    }

    #[test]
    fn generated_names_and_table_ages() {
        check(
            json!([{"generateName": "a-", "name": "a-bcdfg"}, "x \"a-bcdfg\""]),
            json!([{"generateName": "a-", "name": "a-<generated:1>"}, "x \"a-<generated:1>\""]),
        );
        check(
            json!({"metadata": {"generateName": "a-", "name": "a-aeiou"}}),
            json!({"metadata": {"generateName": "a-", "name": "a-aeiou"}}),
        );
        check(
            json!({"columnDefinitions": [{"description": "What it is."}, {"description": "word"}]}),
            json!({"columnDefinitions": [{"description": "<prose>"}, {"description": "word"}]}),
        );
        check(
            json!({"rows": [{"cells": ["b", "3s", "2m1s", 4]}]}),
            json!({"rows": [{"cells": ["b", "<age>", "<age>", 4]}]}),
        );
        check(
            json!({"rows": [{"cells": ["2 (5m ago)", "3y1d", "80:30123/TCP,53/UDP"]}]}),
            json!({"rows": [{"cells": ["2 (<age> ago)", "3y1d", "80:<port>/TCP,53/UDP"]}]}),
        );
    }

    #[test]
    fn bodies_of_all_kinds() {
        let check = |body: &[u8], expect: Value| {
            assert_eq!(Normaliser::default().body(body), expect);
        };
        check(b"{\"a\":1}\n", json!({"a": 1}));
        check(b"{\"a\":1}\n{\"a\":2}\n", json!([{"a": 1}, {"a": 2}]));
        check(b"ok", json!("ok"));
        check(b"", json!([]));
        check(b"k8s\0\xff", json!("<binary>"));
    }
}
