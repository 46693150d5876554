use serde_json::json;

use super::*;
use crate::schema::{coerce, lists, metadata, prune};

fn parse(schema: &Value) -> Schema {
    serde_json::from_value(schema.clone()).expect("a schema")
}

fn texts(errors: &[FieldError]) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

/// Everything that a custom resource's body goes through, but for CEL.
fn create(schema: &Schema, mut object: Value) -> Vec<String> {
    let root = FieldPath::root();
    prune::prune(schema, &mut object);
    prune::drop_nulls(schema, &mut object);
    if let Err(error) = coerce::embedded(schema, &mut object, false, &root) {
        return vec![format!("Case in version \"v1\" cannot be handled as a Case: {error}")];
    }
    let mut errors = validate(schema, &object, &root);
    errors.extend(metadata::validate_embedded(schema, &object, &root));
    errors.extend(lists::validate(schema, &object, &root));
    texts(&errors)
}

/// The answers of kube-apiserver 1.35.4 to values against schemas, as recorded.
#[test]
fn errors_are_those_of_the_reference() {
    let mut rows = 0;
    for line in include_str!("corpus.jsonl").lines() {
        let row: Value = serde_json::from_str(line).expect("a row");
        let schema = parse(&json!({"type": "object", "properties": {"spec": row["schema"]}}));
        let expect: Vec<String> =
            serde_json::from_value(row["errors"].clone()).expect("a list of errors");
        assert_eq!(create(&schema, json!({"spec": row["value"]})), expect, "{line}");
        rows += 1;
    }
    assert!(rows > 80);
}

#[test]
fn unchanged_faults_are_let_through() {
    let schema = parse(&json!({"type": "object", "properties": {
        "a": {"type": "string", "maxLength": 1},
        "o": {"type": "object", "properties": {"x": {"type": "integer"}, "y": {"type": "integer"}},
            "required": ["x"]},
        "m": {"type": "object", "additionalProperties": {"type": "integer"}},
        "atomic": {"type": "array", "items": {"type": "integer"}},
        "map": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
            "items": {"type": "object", "properties": {"k": {"type": "string"}, "v": {"type": "integer"}}}},
        "one": {"type": "object", "properties": {"p": {"type": "string"}},
            "allOf": [{"properties": {"p": {"enum": ["good"]}}}]},
        "kind": {"type": "string", "enum": ["A"]}
    }}));
    for (old, new, expect) in [
        (json!({"a": "long"}), json!({"a": "long"}), 0),
        (json!({"a": "long"}), json!({"a": "longer"}), 1),
        (json!({}), json!({"a": "long"}), 1),
        (json!({"o": {"y": "bad"}}), json!({"o": {"y": "bad"}}), 0),
        // The field did not change, the object around it did.
        (json!({"o": {"y": "bad"}}), json!({"o": {"y": "bad", "x": 1}}), 0),
        (json!({"o": {"y": "bad", "x": 1}}), json!({"o": {"y": "bad"}}), 1),
        (json!({"m": {"k": "bad"}}), json!({"m": {"k": "bad", "l": 1}}), 0),
        (json!({"m": {"k": "bad"}}), json!({"m": {"k": "bad", "l": "bad"}}), 1),
        (json!({"atomic": ["bad"]}), json!({"atomic": ["bad"]}), 0),
        (json!({"atomic": ["bad"]}), json!({"atomic": ["bad", 1]}), 1),
        (
            json!({"map": [{"k": "a", "v": "bad"}]}),
            json!({"map": [{"k": "b"}, {"k": "a", "v": "bad"}]}),
            0,
        ),
        (json!({"map": [{"k": "a", "v": "bad"}]}), json!({"map": [{"k": "b", "v": "bad"}]}), 1),
        (json!({"one": {"p": "bad"}}), json!({"one": {"p": "bad"}}), 0),
        (json!({"kind": "B", "a": "x"}), json!({"kind": "B", "a": "y"}), 1),
    ] {
        let errors = validate_update(&schema, &new, &old, &FieldPath::root());
        assert_eq!(errors.len(), expect, "{old} to {new}: {:?}", texts(&errors));
    }
}

#[test]
fn a_part_of_an_object_is_placed() {
    let schema = parse(&json!({"type": "object", "properties": {"a": {"type": "string"}}}));
    let at = FieldPath::root().child("status");
    assert_eq!(
        texts(&validate(&schema, &json!({"a": 1}), &at)),
        [r#"status.a: Invalid value: "integer": a in body must be of type string: "integer""#]
    );
    assert_eq!(
        texts(&validate(&schema, &json!("x"), &FieldPath::root())),
        [r#"<nil>: Invalid value: "string":  in body must be of type object: "string""#]
    );
}

#[test]
fn forbidden_properties_and_repeated_items_are_told() {
    let schema = parse(&json!({"type": "object", "properties": {
        "l": {"type": "array", "uniqueItems": true}}, "additionalProperties": false}));
    assert_eq!(
        texts(&validate(
            &schema,
            &json!({"l": [1, {"a": 1}, {"a": 1}], "x": 1}),
            &FieldPath::root()
        )),
        [
            r#"<nil>: Invalid value: "x": .x in body is a forbidden property"#,
            r#"l: Invalid value: "": l in body shouldn't contain duplicates"#,
        ]
    );
}

#[test]
fn blocking_errors_stand_for_the_rules() {
    let at = FieldPath::root().child("a");
    assert_eq!(blocking(&[FieldError::invalid(at.clone(), 1, "x")]), None);
    let error = blocking(&[FieldError::required(at, "")]).expect("blocks");
    assert_eq!(
        error.to_string(),
        "<nil>: Invalid value: null: some validation rules were not checked because the object was \
         invalid; correct the existing errors to complete validation"
    );
}

#[test]
fn hostile_pairs_are_bounded() {
    let schema = parse(&json!({"type": "array", "items": {"type": "string"}}));
    let many = Value::Array(vec![json!(1); 100_000]);
    assert_eq!(validate(&schema, &many, &FieldPath::root()).len(), MAX_ERRORS);
    let wide = json!({"type": "array", "items": {"anyOf": vec![json!({"minimum": 5}); 1_000]}});
    let errors = validate(&parse(&wide), &many, &FieldPath::root());
    assert!(texts(&errors).last().is_some_and(|last| last.contains("too large")));
}
