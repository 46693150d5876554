use super::*;

/// The recorded CRDs have rules whose expressions are fine.
fn no_rules(_: &Schema, _: &FieldPath, _: &[FieldError]) -> Vec<FieldError> {
    Vec::new()
}

fn texts(errors: &[FieldError]) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

/// The answers of kube-apiserver 1.35.4 to new CRDs, as recorded.
#[test]
fn errors_are_those_of_the_reference() {
    let mut rows = 0;
    for line in include_str!("corpus.jsonl").lines() {
        let mut row: Value = serde_json::from_str(line).expect("a row");
        let expect: Vec<String> = serde_json::from_value(row["errors"].take()).expect("errors");
        let mut crd = row["crd"].take();
        // The server ignores the status of what is created.
        crd["status"] = json!({});
        fill_defaults(&mut crd);
        let found = texts(&validate(&crd, no_rules));
        // One message shows the whole schema in a form of upstream's own.
        let shows_schema = |text: &String| text.contains("{\"ID\":");
        if let Some(expect) = expect.iter().find(|text| shows_schema(text)) {
            let tail = expect.rsplit_once("}: ").map(|(_, tail)| tail);
            assert_eq!(found.len(), 1, "{line}");
            assert_eq!(found[0].rsplit_once("}: ").map(|(_, tail)| tail), tail, "{line}");
        } else {
            assert_eq!(found, expect, "{line}");
        }
        rows += 1;
    }
    assert!(rows > 80);
}

fn stored() -> Value {
    let mut crd = json!({
        "metadata": {"name": "things.x.io", "resourceVersion": "5", "uid": "u"},
        "spec": {
            "group": "x.io", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object"}}}]
        },
        "status": {"conditions": [{"type": "Established", "status": "True"}]}
    });
    fill_defaults(&mut crd);
    crd
}

#[test]
fn defaults_name_what_is_left_out() {
    let crd = stored();
    assert_eq!(crd["spec"]["names"]["singular"], "thing");
    assert_eq!(crd["spec"]["names"]["listKind"], "ThingList");
    assert_eq!(crd["spec"]["conversion"], json!({"strategy": "None"}));
    assert_eq!(crd["status"]["storedVersions"], json!(["v1"]));
    for mut odd in [json!(null), json!([]), json!({"spec": 5}), json!({"spec": {"versions": {}}})] {
        fill_defaults(&mut odd);
        assert!(!validate(&odd, no_rules).is_empty());
    }
}

#[test]
fn updates_keep_what_must_stay() {
    let immutable = |path: &str, value: &str| {
        vec![format!("{path}: Invalid value: \"{value}\": field is immutable")]
    };
    for (pointer, value, established, expect) in [
        ("/spec/scope", "Cluster", true, immutable("spec.scope", "Cluster")),
        ("/spec/scope", "Cluster", false, vec![]),
        ("/spec/names/kind", "Other", true, immutable("spec.names.kind", "Other")),
        ("/spec/names/plural", "others", true, immutable("spec.names.plural", "others")),
        ("/spec/group", "y.io", true, immutable("spec.group", "y.io")),
        (
            "/spec/versions/0/name",
            "v2",
            true,
            vec![
                "status.storedVersions: Invalid value: [\"v1\"]: must have the storage version v2"
                    .to_owned(),
                "status.storedVersions[0]: Invalid value: \"v1\": missing from spec.versions; v1 was \
                 previously a storage version, and must remain in spec.versions until a storage \
                 migration ensures no data remains persisted in v1 and removes v1 from \
                 status.storedVersions"
                    .to_owned(),
            ],
        ),
    ] {
        let mut old = stored();
        if !established {
            old["status"]["conditions"] = json!([]);
        }
        let mut new = old.clone();
        *new.pointer_mut(pointer).expect("is there") = value.into();
        assert_eq!(texts(&validate_update(&new, &old, no_rules)), expect, "{pointer}");
    }
}

#[test]
fn a_wrongly_typed_schema_is_refused() {
    let mut crd = stored();
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"] =
        json!({"type": "object", "properties": {"a": {"type": "string", "minLength": -1}}});
    let errors = texts(&validate(&crd, no_rules));
    assert!(errors.len() == 1 && errors[0].contains("cannot be read"), "{errors:?}");
}

/// As deep as a body may nest, on a stack as small as a worker's.
#[test]
fn deep_schemas_fit_the_stack() {
    let wraps: [fn(Value) -> Value; 4] = [
        |below| json!({"type": "object", "additionalProperties": below}),
        |below| json!({"type": "array", "items": below}),
        |below| json!({"type": "object", "properties": {"a": below}}),
        |below| json!({"allOf": [below]}),
    ];
    for (wrap, depth) in wraps.into_iter().zip([90, 90, 45, 45]) {
        let deep = (0..depth).fold(json!({"type": "string", "default": "x"}), |it, _| wrap(it));
        let mut crd = stored();
        crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"] =
            json!({"type": "object", "properties": {"spec": deep}});
        validate(&crd, no_rules);
    }
}
