use serde_json::json;

use super::*;

fn ok(body: &str) -> Decoded {
    json(body.as_bytes()).unwrap_or_else(|error| panic!("{body}: {error}"))
}

#[test]
fn syntax_errors_have_upstreams_words() {
    for (body, expect) in [
        ("", "unexpected end of JSON input"),
        ("{", "unexpected end of JSON input"),
        ("  [1, ", "unexpected end of JSON input"),
        ("\"a", "unexpected end of JSON input"),
        ("tru", "unexpected end of JSON input"),
        ("1.", "unexpected end of JSON input"),
        ("x", "invalid character 'x' looking for beginning of value"),
        ("'", r"invalid character '\'' looking for beginning of value"),
        ("\u{e9}", "invalid character 'Ã' looking for beginning of value"),
        ("{\"a\":1,}", "invalid character '}' looking for beginning of object key string"),
        ("{a:1}", "invalid character 'a' looking for beginning of object key string"),
        ("{\"a\" 1}", "invalid character '1' after object key"),
        ("{\"a\":1 \"b\"}", "invalid character '\"' after object key:value pair"),
        ("[1 2]", "invalid character '2' after array element"),
        ("[1,]", "invalid character ']' looking for beginning of value"),
        ("{} x", "invalid character 'x' after top-level value"),
        ("01", "invalid character '1' after top-level value"),
        ("-a", "invalid character 'a' in numeric literal"),
        ("1.x", "invalid character 'x' after decimal point in numeric literal"),
        ("1ex", "invalid character 'x' in exponent of numeric literal"),
        ("1e+x", "invalid character 'x' in exponent of numeric literal"),
        ("trux", "invalid character 'x' in literal true (expecting 'e')"),
        ("\"a\nb\"", r"invalid character '\n' in string literal"),
        (r#""\x""#, "invalid character 'x' in string escape code"),
        (r#""\u12g4""#, r"invalid character 'g' in \u hexadecimal character escape"),
    ] {
        let error = json(body.as_bytes()).expect_err(body);
        assert_eq!(error.to_string(), expect, "{body}");
    }
}

#[test]
fn depth_is_bounded() {
    let nest = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    assert!(json(nest(MAX_DEPTH).as_bytes()).is_ok());
    let error = json(nest(MAX_DEPTH + 1).as_bytes()).expect_err("too deep");
    assert_eq!(error.to_string(), "invalid character '[' exceeded max depth");
    assert!(json("[".repeat(3_000_000).as_bytes()).is_err());
    assert!(json("{\"a\":".repeat(1_000_000).as_bytes()).is_err());
    assert!(yaml(nest(1_000_000).as_bytes()).is_err());
    assert!(yaml("- ".repeat(100_000).as_bytes()).is_err());
}

#[test]
fn numbers_are_upstreams() {
    for (literal, expect) in [
        ("1", json!(1)),
        ("-0", json!(0)),
        ("1.0", json!(1.0)),
        ("1e3", json!(1000.0)),
        ("9223372036854775807", json!(9_223_372_036_854_775_807_i64)),
        ("-9223372036854775808", json!(-9_223_372_036_854_775_808_i64)),
        ("9223372036854775808", json!(9_223_372_036_854_775_808.0)),
        ("1e-400", json!(0.0)),
    ] {
        assert_eq!(ok(literal).value, expect, "{literal}");
    }
    let body = br#"{"apiVersion":"ex.io/v1","kind":"Widget","spec":{"a":1e400}}"#;
    let error = json(body).expect_err("too large");
    assert_eq!(
        error.refusal("Widget", body),
        "Widget in version \"v1\" cannot be handled as a Widget: json: cannot unmarshal number \
         1e400 into Go value of type float64"
    );
    let mut value = json!({"a": [1.0, 1.5, -0.0, 1e20], "b": 9_007_199_254_740_993_i64});
    settle_numbers(&mut value);
    assert_eq!(value, json!({"a": [1, 1.5, 0, 1e20], "b": 9_007_199_254_740_993_i64}));
}

#[test]
fn strings_are_upstreams() {
    for (body, expect) in [
        (&b"\"\xff\xc3a\""[..], "\u{fffd}\u{fffd}a"),
        (b"\"\xe2\x82\"", "\u{fffd}\u{fffd}"),
        (br#""\ud83d\ude00""#, "\u{1f600}"),
        (br#""\ud83dx\ude00""#, "\u{fffd}x\u{fffd}"),
        (br#""\ud83d\u0041""#, "\u{fffd}A"),
        (br#""\"\\\/\b\f\n\r\t\u0000""#, "\"\\/\x08\x0c\n\r\t\0"),
    ] {
        assert_eq!(json(body).expect("reads").value, json!(expect));
    }
}

#[test]
fn duplicates_are_named_and_the_last_wins() {
    let body = r#"{"spec":{"a":{"x":1,"x":2},"b":[{"z":1,"z":2}]},"spec":{"q":1},"spec":{"q":2}}"#;
    let decoded = ok(body);
    assert_eq!(decoded.value, json!({"spec": {"q": 2}}));
    assert_eq!(
        decoded.duplicates,
        [
            r#"duplicate field "spec.a.x""#,
            r#"duplicate field "spec.b[0].z""#,
            r#"duplicate field "spec""#
        ]
    );
    let about = TypeMeta { api_version: "ex.io/v1".to_owned(), kind: "Widget".to_owned() };
    assert_eq!(
        strict_refusal(&about, "Widget", &decoded.duplicates),
        r#"Widget in version "v1" cannot be handled as a Widget: strict decoding error: duplicate field "spec.a.x", duplicate field "spec.b[0].z", duplicate field "spec""#
    );
    let many: String = (0..500).map(|i| format!("\"{i}\":1,\"{i}\":2,")).collect();
    assert_eq!(ok(&format!("{{{many}\"a\":1}}")).duplicates.len(), 100);
}

#[test]
fn refusals_are_upstreams() {
    let unrecognized = "the object provided is unrecognized (must be of type Widget): ";
    for (body, expect) in [
        ("", "couldn't get version/kind; json parse error: unexpected end of JSON input (<empty>)"),
        ("{", "couldn't get version/kind; json parse error: unexpected end of JSON input ({)"),
        (
            "x",
            "couldn't get version/kind; json parse error: invalid character 'x' looking for beginning of value (78)",
        ),
        (
            "[]",
            r#"couldn't get version/kind; json parse error: json: cannot unmarshal array into Go value of type struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" } (5b5d)"#,
        ),
        (
            r#"{"apiVersion":5,"kind":"Widget"}"#,
            r#"couldn't get version/kind; json parse error: json: cannot unmarshal number into Go struct field .apiVersion of type string ({"apiVersion":5,"kind":"Widget ...)"#,
        ),
        (
            r#"{"apiVersion":"a/b/c","kind":"Widget"}"#,
            r#"unexpected GroupVersion string: a/b/c ({"apiVersion":"a/b/c","kind":" ...)"#,
        ),
        (
            r#"{"apiVersion":"ex.io/v1"}"#,
            r#"Object 'Kind' is missing in '{"apiVersion":"ex.io/v1"}' ({"apiVersion":"ex.io/v1"})"#,
        ),
        ("null", "Object 'Kind' is missing in 'null' (6e756c6c)"),
    ] {
        let error = json(body.as_bytes())
            .and_then(|decoded| type_meta(&decoded.value, body.as_bytes()))
            .expect_err(body);
        assert_eq!(error.refusal("Widget", body.as_bytes()), format!("{unrecognized}{expect}"));
    }
}

#[test]
fn yaml_becomes_what_upstream_makes_of_it() {
    for (body, expect) in [
        ("a: 1\nb: [x, {c: ~}]\n", json!({"a": 1, "b": ["x", {"c": null}]})),
        ("{\"a\": 1}", json!({"a": 1})),
        ("a: yes\nb: \"yes\"\nc: off", json!({"a": true, "b": "yes", "c": false})),
        ("a: 0x1F\nb: 017\nc: 1e3\nd: .5", json!({"a": 31, "b": 15, "c": 1000.0, "d": 0.5})),
        ("1: a\ntrue: b", json!({"1": "a", "true": "b"})),
        ("a: 2020-01-01\nb: !!str 5", json!({"a": "2020-01-01", "b": "5"})),
        ("a: 1\n---\nb: 2\n", json!({"a": 1})),
        ("a: &x {b: 1}\nc: *x", json!({"a": {"b": 1}, "c": {"b": 1}})),
        ("", json!(null)),
    ] {
        let decoded = yaml(body.as_bytes()).unwrap_or_else(|error| panic!("{body}: {error}"));
        assert_eq!(decoded.value, expect, "{body}");
    }
    let decoded = yaml(b"a: 1\na: 2\n").expect("reads");
    assert_eq!(decoded.value, json!({"a": 2}));
    assert_eq!(
        decoded.duplicates,
        ["yaml: unmarshal errors:\n  line 2: key \"a\" already set in map"]
    );
    let error = yaml(b"a: .inf").expect_err("no such number");
    assert_eq!(error.to_string(), "json: unsupported value: +Inf");
    assert!(yaml(b"a: [").expect_err("open").to_string().starts_with("yaml: "));
}

#[test]
fn yaml_aliases_cannot_explode() {
    let mut body = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for i in 1..12 {
        let before = i - 1;
        let row = format!("*a{before}, ").repeat(10);
        body.push_str(&format!("a{i}: &a{i} [{row}]\n"));
    }
    assert!(yaml(body.as_bytes()).is_err());
}
