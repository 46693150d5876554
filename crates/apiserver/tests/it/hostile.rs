//! Hostile input, by the table: every piece is refused in words, soon, and the server lives on.

use std::time::{Duration, Instant};

use apiserver::{MAX_REQUEST_BYTES, Service};
use bytes::Bytes;
use http::{HeaderValue, Request};
use http_body_util::Full;
use serde_json::{Value, json};

use crate::support::{Answer, definition, request, send, server};

/// The longest that one request may take, unoptimised and on a busy machine; most take milliseconds.
const LONGEST: Duration = Duration::from_secs(10);

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const JSON: &str = "application/json";
const YAML: &str = "application/yaml";
const APPLY: &str = "application/apply-patch+yaml";
const JSON_PATCH: &str = "application/json-patch+json";
const MERGE_PATCH: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const RACKS: &str = "/apis/test.seatrial.dev/v1/namespaces/default/racks";

/// An answer is JSON, and a refusal a whole `Status` that agrees with the HTTP status.
#[track_caller]
pub(crate) fn check_form(answer: &Answer, about: &str) {
    let code = answer.code.as_u16();
    let plain =
        answer.headers.get("content-type").is_some_and(|v| v.as_bytes().starts_with(b"text/"));
    if code < 400 || (plain && answer.bytes == "404 page not found\n") {
        return;
    }
    let about = || format!("{about}: {code} {}", String::from_utf8_lossy(&answer.bytes));
    let yaml = answer.headers.get("content-type").is_some_and(|v| v == YAML);
    let status: Value = if yaml {
        serde_saphyr::from_slice(&answer.bytes).unwrap()
    } else {
        serde_json::from_slice(&answer.bytes).unwrap_or_else(|e| panic!("{e}: {}", about()))
    };
    assert_eq!(status["kind"], "Status", "{}", about());
    assert_eq!(status["status"], "Failure", "{}", about());
    assert_eq!(status["code"], code, "{}", about());
    assert!(status["message"].as_str().is_some_and(|m| !m.is_empty()), "{}", about());
    assert!(answer.bytes.len() < 4 * MAX_REQUEST_BYTES, "{} bytes", answer.bytes.len());
}

/// A server with a map and a rack, that hostile requests are sent to.
struct Target {
    service: Service,
    /// What came out otherwise than it should.
    wrong: Vec<String>,
}

impl Drop for Target {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            assert!(self.wrong.is_empty(), "{:#?}", self.wrong);
        }
    }
}

impl Target {
    async fn new() -> Self {
        let service = server().await.service_as_admin();
        let mut target = Self { service, wrong: Vec::new() };
        let rack = json!({
            "apiVersion": "test.seatrial.dev/v1", "kind": "Rack",
            "metadata": {"name": "r"}, "spec": {"servers": 1},
        });
        target.must(201, request("POST", CRDS, JSON, definition().to_string())).await;
        target.must(201, request("POST", RACKS, JSON, rack.to_string())).await;
        let map = json!({"metadata": {"name": "m"}, "data": {"k": "v"}});
        target.must(201, request("POST", MAPS, JSON, map.to_string())).await;
        target
    }

    async fn must(&mut self, code: u16, request: Request<Full<Bytes>>) {
        let answer = send(&mut self.service, request).await;
        assert_eq!(answer.code, code, "{}", answer.json());
    }

    /// Sends, and checks form, time and code; `codes` are those that will do.
    async fn check(&mut self, what: &str, codes: &[u16], request: Request<Full<Bytes>>) {
        println!("{what}");
        let began = Instant::now();
        let answer = send(&mut self.service, request).await;
        let took = began.elapsed();
        println!("  {} after {took:?}", answer.code);
        check_form(&answer, what);
        let said = String::from_utf8_lossy(&answer.bytes);
        let said: String = said.chars().take(300).collect();
        if !codes.contains(&answer.code.as_u16()) || took > LONGEST {
            self.wrong.push(format!("{what}: {took:?}, {} {said}", answer.code));
        }
        // Whatever that was, others are served.
        self.must(200, request_get(&format!("{MAPS}/m"))).await;
    }
}

fn request_get(uri: &str) -> Request<Full<Bytes>> {
    request("GET", uri, JSON, "")
}

fn nested(open: &str, close: &str, depth: usize) -> String {
    open.repeat(depth) + &close.repeat(depth)
}

#[tokio::test]
async fn bodies() {
    let mut target = Target::new().await;
    let deep = 100_000;
    let large = |n: usize| json!({"metadata": {"name": "big"}, "data": {"k": "x".repeat(n)}});
    let over = large(MAX_REQUEST_BYTES).to_string();
    let exact = "x".repeat(MAX_REQUEST_BYTES + 1);
    let map = |rest: &str| format!(r#"{{"metadata":{{"name":"n"}},{rest}}}"#);
    for (what, codes, content, body) in [
        ("nothing", &[400][..], JSON, Bytes::new()),
        ("a space", &[400], JSON, " ".into()),
        ("a NUL", &[400], JSON, "\0".into()),
        ("half an object", &[400], JSON, r#"{"metadata":{"name":"#.into()),
        ("a list", &[400], JSON, "[]".into()),
        ("a string", &[400], JSON, r#""x""#.into()),
        ("two documents", &[400], JSON, r#"{"metadata":{"name":"n"}} {}"#.into()),
        (
            "no UTF-8",
            &[400, 422],
            JSON,
            Bytes::from_static(b"{\"metadata\":{\"name\":\"\xff\xfe\"}}"),
        ),
        ("half a surrogate", &[201, 400, 422], JSON, map(r#""data":{"k":"\ud800"}"#).into()),
        ("a NUL in a name", &[422], JSON, r#"{"metadata":{"name":"a\u0000"}}"#.into()),
        ("a path as name", &[422], JSON, r#"{"metadata":{"name":"../../x"}}"#.into()),
        ("lists 100k deep", &[400], JSON, "[".repeat(deep).into()),
        ("closed lists 100k deep", &[400], JSON, nested("[", "]", deep).into()),
        ("objects 100k deep", &[400], JSON, nested(r#"{"a":"#, "}", deep).into()),
        (
            "depth in a field",
            &[400],
            JSON,
            map(&format!(r#""data":{}"#, nested("[", "]", deep))).into(),
        ),
        (
            "a huge number",
            &[400],
            JSON,
            map(&format!(r#""data":{{"k":{}}}"#, "9".repeat(deep))).into(),
        ),
        ("an infinity", &[400], JSON, map(r#""data":{"k":1e999999}"#).into()),
        ("a number where a map belongs", &[400], JSON, map(r#""data":7"#).into()),
        ("metadata as text", &[400], JSON, r#"{"metadata":"x"}"#.into()),
        ("labels as a list", &[400], JSON, r#"{"metadata":{"name":"n","labels":["x"]}}"#.into()),
        (
            "one key 100k times",
            &[201, 400, 409, 422],
            JSON,
            map(r#""a":1,"#.repeat(deep).trim_end_matches(',')).into(),
        ),
        ("a byte too many", &[413], JSON, exact.into()),
        ("an object too large", &[413], JSON, over.into()),
        ("YAML lists 100k deep", &[400], YAML, "[".repeat(deep).into()),
        ("YAML dashes 100k deep", &[400], YAML, "- ".repeat(deep).into()),
        (
            "YAML of two documents",
            &[400, 201, 422],
            YAML,
            "metadata: {name: two}\n---\nmetadata: {name: three}\n".into(),
        ),
        ("YAML that eats itself", &[400], YAML, "a: &a [*a]\n".into()),
        ("YAML with a tag", &[400, 201, 422], YAML, "metadata: !!binary {name: x}\n".into()),
        ("a type nobody reads", &[415], "text/html", "<html>".into()),
        ("an empty envelope", &[400], PROTOBUF, "k8s\0".into()),
        ("JSON called protobuf", &[400], PROTOBUF, "{}".into()),
        (
            "a length of exabytes",
            &[400],
            PROTOBUF,
            b"k8s\0\x12\xff\xff\xff\xff\xff\xff\xff\x7f".to_vec().into(),
        ),
        (
            "groups 100k deep",
            &[400],
            PROTOBUF,
            [&b"k8s\0"[..], &b"\x2b".repeat(deep)].concat().into(),
        ),
        (
            "another kind",
            &[400],
            JSON,
            r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"n"}}"#.into(),
        ),
    ] {
        target.check(what, codes, request("POST", MAPS, content, body)).await;
    }
}

#[tokio::test]
async fn patches() {
    let mut target = Target::new().await;
    let map = format!("{MAPS}/m");
    let rack = format!("{RACKS}/r");
    let ops = |n: usize, op: &str| format!("[{}]", vec![op; n].join(","));
    let add = r#"{"op":"add","path":"/data/x","value":"y"}"#;
    let copy = r#"{"op":"copy","from":"/data","path":"/data/x"}"#;
    let double = format!(
        r#"[{{"op":"add","path":"/metadata/annotations","value":{{"a":"{}"}}}},{}]"#,
        "x".repeat(1000),
        vec![r#"{"op":"copy","from":"/metadata","path":"/metadata/annotations/a"}"#; 60].join(",")
    );
    let apply_to = |uri: &str| format!("{uri}?fieldManager=x&force=true");
    for (what, codes, uri, content, body) in [
        ("10k operations", &[200][..], map.clone(), JSON_PATCH, ops(10_000, add)),
        ("more operations than anybody needs", &[413], map.clone(), JSON_PATCH, ops(10_001, add)),
        ("copies into itself", &[400, 413, 422], map.clone(), JSON_PATCH, ops(40, copy)),
        ("copies that double", &[400, 413, 422], map.clone(), JSON_PATCH, double),
        ("no list", &[400], map.clone(), JSON_PATCH, "{}".to_owned()),
        (
            "an unknown operation",
            &[400, 422],
            map.clone(),
            JSON_PATCH,
            r#"[{"op":"eat","path":"/"}]"#.to_owned(),
        ),
        (
            "a pointer astray",
            &[400, 422],
            map.clone(),
            JSON_PATCH,
            r#"[{"op":"remove","path":"/data/~2/99999999999999999999"}]"#.to_owned(),
        ),
        (
            "an index beyond all",
            &[400, 422],
            map.clone(),
            JSON_PATCH,
            r#"[{"op":"add","path":"/metadata/finalizers/18446744073709551615","value":"x"}]"#
                .to_owned(),
        ),
        (
            "the root removed",
            &[400, 422],
            map.clone(),
            JSON_PATCH,
            r#"[{"op":"remove","path":""}]"#.to_owned(),
        ),
        (
            "the root replaced by text",
            &[400, 422],
            map.clone(),
            JSON_PATCH,
            r#"[{"op":"replace","path":"","value":"x"}]"#.to_owned(),
        ),
        ("a merge 100k deep", &[400], map.clone(), MERGE_PATCH, nested(r#"{"a":"#, "}", 100_000)),
        ("a merge of text", &[400, 422], map.clone(), MERGE_PATCH, r#""x""#.to_owned()),
        ("a merge of nothing", &[400, 422], map.clone(), MERGE_PATCH, "null".to_owned()),
        (
            "a merge that removes metadata",
            &[200, 400, 422],
            map.clone(),
            MERGE_PATCH,
            r#"{"metadata":null}"#.to_owned(),
        ),
        (
            "a strategic merge with bad directives",
            &[200, 400, 422, 500],
            map.clone(),
            STRATEGIC,
            r#"{"$patch":7,"data":{"$retainKeys":[[[]]]}}"#.to_owned(),
        ),
        ("a strategic merge of a custom kind", &[415], rack.clone(), STRATEGIC, "{}".to_owned()),
        ("apply 100k deep", &[400], apply_to(&map), APPLY, "[".repeat(100_000)),
        (
            "apply of a custom kind 100k deep",
            &[400],
            apply_to(&rack),
            APPLY,
            nested("{a: ", "}", 100_000),
        ),
        ("apply of a list", &[400], apply_to(&map), APPLY, "- a\n- b\n".to_owned()),
        ("apply of nothing", &[400], apply_to(&map), APPLY, String::new()),
        (
            "apply without a manager",
            &[422],
            map.clone(),
            APPLY,
            "apiVersion: v1\nkind: ConfigMap\n".to_owned(),
        ),
        (
            "apply by a manager too long",
            &[422],
            format!("{map}?fieldManager={}", "x".repeat(129)),
            APPLY,
            "apiVersion: v1\nkind: ConfigMap\n".to_owned(),
        ),
        (
            "apply of managed fields",
            &[400],
            apply_to(&map),
            APPLY,
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {managedFields: [{manager: x}]}\n"
                .to_owned(),
        ),
    ] {
        target.check(what, codes, request("PATCH", &uri, content, body)).await;
    }
}

#[tokio::test]
async fn paths_and_queries() {
    let mut target = Target::new().await;
    let long = "x".repeat(1_000_000);
    let many = format!("a in ({})", vec!["b"; 300_000].join(","));
    let terms = vec!["a=b"; 200_000].join(",");
    let encode = |text: &str| {
        form_urlencoded::Serializer::new(String::new()).append_pair("labelSelector", text).finish()
    };
    // Clients in the process may send longer paths than any network front lets through.
    let selector = |text: &str| format!("{MAPS}?{}", encode(text));
    for (what, codes, uri) in [
        ("the root", &[200, 404][..], "/".to_owned()),
        ("slashes", &[200, 404], "//////".to_owned()),
        ("dots", &[400, 404], "/api/v1/../../etc/passwd".to_owned()),
        ("encoded slashes", &[400, 404], format!("{MAPS}/a%2Fb")),
        ("an encoded NUL", &[400, 404], format!("{MAPS}/a%00b")),
        ("no UTF-8", &[400, 404], format!("{MAPS}/%ff%fe")),
        ("half an escape", &[400, 404], format!("{MAPS}/%f")),
        ("many segments", &[404], format!("/api/v1{}", "/a".repeat(5_000))),
        ("a long name", &[404, 414], format!("{MAPS}/{}", "x".repeat(60_000))),
        ("a limit below nothing", &[200, 400, 422], format!("{MAPS}?limit=-9223372036854775808")),
        ("a limit beyond all", &[200, 400], format!("{MAPS}?limit=9223372036854775807")),
        ("a limit beyond numbers", &[400], format!("{MAPS}?limit=99999999999999999999")),
        ("a token of nonsense", &[400], format!("{MAPS}?continue=%21%21")),
        ("a token of nothing", &[400], format!("{MAPS}?limit=1&continue=e30")),
        ("a version of text", &[400], format!("{MAPS}?resourceVersion=abc")),
        ("a version to come", &[504], format!("{MAPS}?resourceVersion=18446744073709551615")),
        ("a version below nothing", &[400], format!("{MAPS}?resourceVersion=-1")),
        (
            "a watch of what is to come",
            &[200, 504],
            format!("{MAPS}?watch=1&resourceVersion=18446744073709551615"),
        ),
        ("a watch of no time", &[200], format!("{MAPS}?watch=1&timeoutSeconds=-1")),
        ("a selector of half an operator", &[400], selector("a in (")),
        ("a selector of parentheses", &[400], selector(&"(".repeat(15_000))),
        ("a selector on nothing", &[400], format!("{MAPS}?fieldSelector=spec.nothing%3Dx")),
        ("a selector on half a field", &[400], format!("{MAPS}?fieldSelector=%3D%3D%3D")),
        (
            "a match unheard of",
            &[400, 422],
            format!("{MAPS}?resourceVersion=1&resourceVersionMatch=Roughly"),
        ),
    ] {
        target.check(what, codes, request_get(&uri)).await;
    }
    // What fits into no URI of the http crate is tried where it can be: on the parsers themselves.
    for (what, text) in [("one word", &long), ("one set", &many), ("terms", &terms)] {
        let began = Instant::now();
        let parsed = apiserver::selector::LabelSelector::parse(text);
        println!("a megabyte of selector, {what}: {}", parsed.is_ok());
        assert!(began.elapsed() < LONGEST, "{what}");
    }
}

#[tokio::test]
async fn headers_and_methods() {
    let mut target = Target::new().await;
    let value = |bytes: &[u8]| HeaderValue::from_bytes(bytes).unwrap();
    for (what, codes, name, bytes) in [
        ("an Accept of nobody's", &[406][..], "accept", &b"text/html"[..]),
        ("an Accept of many", &[406, 200], "accept", &b"a/b;q=0.1,".repeat(5_000)),
        ("an Accept of weights", &[200, 406], "accept", b"application/json;q=NaN,*/*;q=-1"),
        ("an Accept of bytes", &[200, 406], "accept", b"\xff\xfe"),
        ("a table of nothing", &[200, 406], "accept", b"application/json;as=Table;v=;g="),
        ("an audit id of bytes", &[200], "audit-id", b"\xff\xfe"),
        ("a content type of bytes", &[200], "content-type", b"\xff"),
        ("a user agent of bytes", &[200], "user-agent", &b"\xff".repeat(60_000)),
        ("somebody else's name", &[200, 400, 403], "impersonate-user", b"alice"),
        ("an upgrade", &[200, 400], "upgrade", b"websocket"),
    ] {
        let mut request = request_get(MAPS);
        request.headers_mut().insert(name, value(bytes));
        target.check(what, codes, request).await;
    }
    for (method, codes) in [
        ("HEAD", &[200, 405][..]),
        ("OPTIONS", &[404, 405]),
        ("TRACE", &[404, 405]),
        ("CONNECT", &[404, 405]),
        ("PROPFIND", &[404, 405]),
        ("PUT", &[405]),
        ("PATCH", &[405]),
    ] {
        target.check(method, codes, request(method, MAPS, JSON, "{}")).await;
    }
    let delete = |body: &str| request("DELETE", &format!("{MAPS}/none"), JSON, body.to_owned());
    for (what, body) in [
        ("delete options of text", r#""x""#),
        ("delete options unheard of", r#"{"propagationPolicy":"Sideways"}"#),
        ("delete options cut off", r#"{"gracePeriodSeconds":"#),
    ] {
        target.check(what, &[400, 404, 422], delete(body)).await;
    }
}

/// The definition of racks with another schema, and under another name.
fn schema(n: usize, properties: Value) -> Value {
    let mut crd = definition();
    let (plural, kind) = (format!("racks{n}"), format!("Rack{n}"));
    crd["metadata"]["name"] = format!("{plural}.test.seatrial.dev").into();
    crd["spec"]["names"] = json!({"plural": plural, "kind": kind, "singular": kind.to_lowercase()});
    crd["spec"]["versions"][0]["additionalPrinterColumns"] = json!([]);
    crd["spec"]["versions"][0]["subresources"] = json!({"status": {}});
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"] = properties;
    crd
}

#[tokio::test]
async fn rules_and_patterns_of_definitions() {
    let mut target = Target::new().await;
    let text = |rule: &str| {
        json!({"type": "object", "properties": {"a": {"type": "string",
        "x-kubernetes-validations": [{"rule": rule}]}}})
    };
    let list = json!({"type": "array", "items": {"type": "array", "items": {"type": "string"}}});
    let lists = |rule: &str| {
        json!({"type": "object", "properties": {"a": list, "b": list},
        "x-kubernetes-validations": [{"rule": rule}]})
    };
    let pattern = |pattern: &str| {
        json!({"type": "object", "properties": {"a": {"type": "string",
        "pattern": pattern}}})
    };
    // As text: a tree that deep is more than the test's own stack holds.
    let deep = format!(
        r#"{}{{"type":"string"}}{}"#,
        r#"{"type":"object","properties":{"a":"#.repeat(2_000),
        "}}".repeat(2_000)
    );
    let parentheses = format!("{}true{}", "(".repeat(50_000), ")".repeat(50_000));
    let cubic = "self.a.all(x, self.a.all(y, self.b.all(z, x.all(p, y.all(q, p != q)))))";
    for (n, (what, codes, properties)) in [
        ("a rule 50k parentheses deep", &[422][..], text(&parentheses)),
        ("a rule of 100k nots", &[422], text(&format!("{}true", "!".repeat(100_000)))),
        ("a rule of 100k sums", &[422], text(&format!("{}1 > 0", "1+".repeat(100_000)))),
        ("a rule of 100k lists", &[422], text(&nested("[", "]", 100_000))),
        ("a rule of 20k calls", &[422], text(&format!("self{} != ''", ".trim()".repeat(20_000)))),
        (
            "a rule of a megabyte of text",
            &[201, 422],
            text(&format!("self != '{}'", "x".repeat(1_000_000))),
        ),
        ("a rule that multiplies", &[422], lists(cubic)),
        ("a rule that is none", &[422], text("self ==")),
        ("a rule of nothing", &[422], text("")),
        ("a rule of bytes", &[422], text("\u{0}\u{202e}")),
        ("a pattern that explodes", &[201, 422], pattern("(a{1000}){1000}{1000}")),
        ("a pattern that backtracks", &[201], pattern("^(a+)+$")),
        ("a pattern 100k deep", &[422], pattern(&nested("(", ")", 100_000))),
        ("a pattern of half a class", &[422], pattern("[a-")),
        ("a pattern of many words", &[201, 422], pattern(&vec!["(a|b)*c"; 20_000].join("|"))),
        ("a schema 2k deep", &[400, 422], json!("DEEP")),
        ("a schema of references", &[422, 400], json!({"$ref": "#/definitions/x"})),
    ]
    .into_iter()
    .enumerate()
    {
        let body = schema(n, properties).to_string().replace("\"DEEP\"", &deep);
        target.check(what, codes, request("POST", CRDS, JSON, body)).await;
    }
}

#[tokio::test]
async fn rules_that_are_let_through_are_stopped_when_they_run_away() {
    let mut target = Target::new().await;
    let items =
        json!({"type": "array", "maxItems": 30, "items": {"type": "string", "maxLength": 30}});
    for (n, rule) in [
        "self.a.all(x, self.a.all(y, x.size() + y.size() >= 0))",
        "self.a.map(x, self.a.map(y, x + y)).size() >= 0",
        "self.a.all(x, x.matches('^(a+)+$') || true)",
        "self.a.all(x, self.a.filter(y, y == x).size() >= 1)",
    ]
    .into_iter()
    .enumerate()
    {
        let n = n + 100;
        let properties = json!({"type": "object", "properties": {"a": items, "servers": {"type": "integer"}},
            "x-kubernetes-validations": [{"rule": rule}]});
        let crd = schema(n, properties).to_string();
        target.check(rule, &[201, 422], request("POST", CRDS, JSON, crd)).await;
        let object = json!({
            "apiVersion": "test.seatrial.dev/v1", "kind": format!("Rack{n}"),
            "metadata": {"name": "r"},
            "spec": {"servers": 1, "a": vec!["a".repeat(29) + "!"; 30]},
        });
        let uri = format!("/apis/test.seatrial.dev/v1/namespaces/default/racks{n}");
        let body = object.to_string();
        target.check(rule, &[201, 404, 422], request("POST", &uri, JSON, body)).await;
    }
}
