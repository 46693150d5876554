use serde_json::json;

use super::*;

const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const NAME_PART: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

fn texts(errors: &[FieldError]) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

#[test]
fn new_metadata_is_judged_as_upstream() {
    let invalid = |path: &str, value: &str, words: &str| {
        format!("metadata.{path}: Invalid value: {value}: {words}")
    };
    let long = "x".repeat(64);
    for (meta, expect) in [
        (json!({"name": "a"}), vec![]),
        (json!({"name": "A_b"}), vec![invalid("name", "\"A_b\"", SUBDOMAIN)]),
        (
            json!({"generateName": "A_", "name": "A_x"}),
            vec![
                invalid("generateName", "\"A_\"", SUBDOMAIN),
                invalid("name", "\"A_x\"", SUBDOMAIN),
            ],
        ),
        (json!({}), vec!["metadata.name: Required value: name or generateName is required".into()]),
        (
            json!({"name": "a", "namespace": "b"}),
            vec!["metadata.namespace: Forbidden: not allowed on this type".into()],
        ),
        (
            json!({"name": "a", "generation": -1}),
            vec![invalid("generation", "-1", "must be greater than or equal to 0")],
        ),
        (
            json!({"name": "a", "labels": {"a b": "c d"}, "annotations": {"X/y": "", "x y": "z"}}),
            vec![
                invalid("labels", "\"a b\"", NAME_PART),
                invalid("labels", "\"c d\"", VALUE),
                invalid("annotations", "\"x y\"", NAME_PART),
            ],
        ),
        (
            json!({"name": "a", "labels": {"a": long}}),
            vec![invalid("labels", &format!("\"{long}\""), "must be no more than 63 bytes")],
        ),
        (
            json!({"name": "a", "annotations": {"a": "x".repeat(256 * 1024)}}),
            vec!["metadata.annotations: Too long: may not be more than 262144 bytes".into()],
        ),
        (
            json!({"name": "a", "finalizers": ["orphan", "foregroundDeletion"]}),
            vec![invalid(
                "finalizers",
                r#"["orphan","foregroundDeletion"]"#,
                "finalizer orphan and foregroundDeletion cannot be both set",
            )],
        ),
        (
            json!({"name": "a", "ownerReferences": [{"apiVersion": "", "kind": "", "name": "", "uid": ""}]}),
            vec![
                invalid("ownerReferences.apiVersion", "\"\"", "version must not be empty"),
                invalid("ownerReferences.kind", "\"\"", "must not be empty"),
                invalid("ownerReferences.name", "\"\"", "must not be empty"),
                invalid("ownerReferences.uid", "\"\"", "must not be empty"),
            ],
        ),
        (
            json!({"name": "a", "ownerReferences": [{"apiVersion": "v1", "kind": "Event", "name": "a", "uid": "u"}]}),
            vec![invalid(
                "ownerReferences",
                r#"{"apiVersion":"v1","kind":"Event","name":"a","uid":"u"}"#,
                "/v1, Kind=Event is disallowed from being an owner",
            )],
        ),
        (
            json!({"name": "a", "ownerReferences": [
                {"apiVersion": "v1", "kind": "A", "name": "a", "uid": "u", "controller": true},
                {"apiVersion": "v1", "kind": "B", "name": "b", "uid": "u", "controller": true}]}),
            vec![invalid(
                "ownerReferences",
                r#"[{"apiVersion":"v1","kind":"A","name":"a","uid":"u","controller":true},{"apiVersion":"v1","kind":"B","name":"b","uid":"u","controller":true}]"#,
                "Only one reference can have Controller set to true. Found \"true\" in references for A/a and B/b",
            )],
        ),
        (
            json!({"name": "a", "managedFields": [{"operation": "Foo", "fieldsType": "X", "manager": "m".repeat(200)}]}),
            vec![
                invalid("managedFields[0].operation", "\"Foo\"", "must be `Apply` or `Update`"),
                invalid("managedFields[0].fieldsType", "\"X\"", "must be `FieldsV1`"),
                "metadata.managedFields[0].manager: Too long: may not be more than 128 bytes"
                    .into(),
            ],
        ),
    ] {
        let at = FieldPath::root().child("metadata");
        let errors = validate(&meta, false, NameRule::Subdomain, &at);
        assert_eq!(texts(&errors), expect, "{meta}");
    }
}

#[test]
fn namespaced_objects_need_a_namespace() {
    let at = FieldPath::root().child("metadata");
    let of = |meta| texts(&validate(&meta, true, NameRule::Subdomain, &at));
    assert_eq!(of(json!({"name": "a"})), ["metadata.namespace: Required value"]);
    assert_eq!(
        of(json!({"name": "a", "namespace": "a.b"})),
        ["metadata.namespace: Invalid value: \"a.b\": must not contain dots"]
    );
    assert!(of(json!({"name": "a", "namespace": "b"})).is_empty());
}

#[test]
fn changed_metadata_is_judged_as_upstream() {
    let old = json!({"name": "a", "namespace": "n", "uid": "u", "resourceVersion": "5",
        "generation": 3, "creationTimestamp": "2026-01-02T03:04:05Z"});
    let immutable = |field: &str, value: &str| {
        vec![format!("metadata.{field}: Invalid value: {value}: field is immutable")]
    };
    for (field, value, expect) in [
        ("name", json!("b"), immutable("name", "\"b\"")),
        ("namespace", json!("b"), immutable("namespace", "\"b\"")),
        ("uid", json!("b"), immutable("uid", "\"b\"")),
        ("creationTimestamp", json!(null), immutable("creationTimestamp", "null")),
        (
            "deletionTimestamp",
            json!("2026-01-02T03:04:05Z"),
            immutable("deletionTimestamp", "\"2026-01-02T03:04:05Z\""),
        ),
        ("deletionGracePeriodSeconds", json!(5), immutable("deletionGracePeriodSeconds", "5")),
        (
            "generation",
            json!(2),
            vec!["metadata.generation: Invalid value: 2: must not be decremented".into()],
        ),
        (
            "resourceVersion",
            json!(""),
            vec![
                "metadata.resourceVersion: Invalid value: \"\": must be specified for an update"
                    .into(),
            ],
        ),
        ("labels", json!({"a": "b"}), vec![]),
    ] {
        let mut new = old.clone();
        new[field] = value;
        let at = FieldPath::root().child("metadata");
        assert_eq!(texts(&validate_update(&new, &old, &at)), expect, "{field}");
    }
}

#[test]
fn a_dying_object_takes_no_new_finalizers() {
    let meta = |finalizers: &[&str]| json!({"resourceVersion": "5", "deletionTimestamp": "2026-01-02T03:04:05Z", "finalizers": finalizers});
    let at = FieldPath::root().child("metadata");
    let errors = validate_update(&meta(&["a/b", "x/c", "x/b"]), &meta(&["a/b"]), &at);
    assert_eq!(
        texts(&errors),
        [
            "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{\"x/b\", \"x/c\"}"
        ]
    );
    assert!(validate_update(&meta(&[]), &meta(&["a/b"]), &at).is_empty());
}
