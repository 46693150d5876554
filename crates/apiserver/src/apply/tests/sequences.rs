//! What each kind of write leaves behind.

use super::*;

#[test]
fn apply_creates_changes_and_removes() {
    let mut w = Story::new();
    w.apply(by("a"), spec(json!({"a": "1", "obj": {"x": "1"}})));
    w.expect(
        json!({"a": "1", "obj": {"x": "1"}}),
        &[("a Apply @1", owns(json!({"f:a": {}, "f:obj": {"f:x": {}}})))],
    );
    let before = w.object.clone();
    w.apply(by("a"), spec(json!({"a": "1", "obj": {"x": "1"}})));
    assert_eq!(w.object, before, "the same again changes nothing, times included");
    w.apply(by("a"), spec(json!({"a": "2"})));
    w.expect(json!({"a": "2"}), &[("a Apply @3", owns(json!({"f:a": {}})))]);
    w.apply(by("a"), json!({}));
    w.expect(Value::Null, &[]);
}

#[test]
fn conflicts_are_about_values() {
    let mut w = Story::new();
    w.apply(by("a"), spec(json!({"a": "1", "b": 1})));
    let check = |w: &mut Story, by: By<'_>, fields: Value, message: &str| {
        let error = w.try_apply(by, spec(fields)).unwrap_err();
        assert_eq!(error.to_string(), message);
    };
    check(
        &mut w,
        by("b"),
        json!({"a": "2", "b": 2}),
        "Apply failed with 2 conflicts: conflicts with \"a\":\n- .spec.a\n- .spec.b",
    );
    // Agreeing makes an owner, though one that changed nothing, and so has no time.
    w.apply(by("b"), spec(json!({"a": "1"})));
    w.expect(
        json!({"a": "1", "b": 1}),
        &[
            ("b Apply", owns(json!({"f:a": {}}))),
            ("a Apply @1", owns(json!({"f:a": {}, "f:b": {}}))),
        ],
    );
    // What one of two owners stops applying stays.
    w.apply(by("a"), spec(json!({"b": 1})));
    w.expect(
        json!({"a": "1", "b": 1}),
        &[("b Apply", owns(json!({"f:a": {}}))), ("a Apply @1", owns(json!({"f:b": {}})))],
    );
    w.apply(by("b").force(), spec(json!({"a": "1", "b": 7})));
    w.expect(json!({"a": "1", "b": 7}), &[("b Apply @5", owns(json!({"f:a": {}, "f:b": {}})))]);
    w.patch(by("u"), spec(json!({"b": 8})));
    w.patch(by("s").status(), json!({"status": {"s": "x"}}));
    check(
        &mut w,
        by("c"),
        json!({"b": 9}),
        "Apply failed with 1 conflict: conflict with \"u\" using d.io/v1: .spec.b",
    );
    let error = w.try_apply(by("c").status(), json!({"status": {"s": "y"}})).unwrap_err();
    let Error::Conflicts(conflicts) = error else { panic!("{error}") };
    assert_eq!(
        Vec::from_iter(conflicts.causes()),
        [(
            "conflict with \"s\" with subresource \"status\" using d.io/v1".to_owned(),
            ".status.s".to_owned()
        )]
    );
}

#[test]
fn conflicts_are_grouped_by_manager() {
    let mut w = Story::new();
    w.apply(by("a"), spec(json!({"a": "1", "items": [{"name": "n", "v": "1"}]})));
    w.patch(by("u"), spec(json!({"b": 1, "set": ["x"]})));
    let error = w
        .try_apply(by("c"), spec(json!({"a": "2", "b": 2, "items": [{"name": "n", "v": "2"}]})))
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "Apply failed with 3 conflicts: conflicts with \"a\":\n- .spec.a\n\
         - .spec.items[name=\"n\"].v\nconflicts with \"u\" using d.io/v1:\n- .spec.b"
    );
}

#[test]
fn updates_take_what_they_change() {
    let mut w = Story::new();
    w.put(by("u"), spec(json!({"a": "1", "b": 1, "obj": {"x": "1"}})));
    let all = json!({".": {}, "f:a": {}, "f:b": {}, "f:obj": {".": {}, "f:x": {}}});
    w.expect(json!({"a": "1", "b": 1, "obj": {"x": "1"}}), &[("u Update @1", owns(all))]);
    w.patch(by("v"), spec(json!({"a": "2"})));
    let rest = json!({".": {}, "f:b": {}, "f:obj": {".": {}, "f:x": {}}});
    w.expect(
        json!({"a": "2", "b": 1, "obj": {"x": "1"}}),
        &[("u Update @1", owns(rest)), ("v Update @2", owns(json!({"f:a": {}})))],
    );
    // Removing takes from all, and makes nobody an owner.
    w.patch(by("v"), spec(json!({"obj": null})));
    w.expect(
        json!({"a": "2", "b": 1}),
        &[
            ("u Update @1", owns(json!({".": {}, "f:b": {}}))),
            ("v Update @2", owns(json!({"f:a": {}}))),
        ],
    );
    let before = w.object.clone();
    w.patch(by("x"), spec(json!({"a": "2"})));
    assert_eq!(w.object, before);
    // No name is a name too.
    w.patch(by(""), spec(json!({"a": "3", "b": 2})));
    w.expect(
        json!({"a": "3", "b": 2}),
        &[
            ("u Update @1", owns(json!({}))),
            ("unknown Update @5", owns(json!({"f:a": {}, "f:b": {}}))),
        ],
    );
}

#[test]
fn lists_merge_by_their_kind() {
    let mut w = Story::new();
    w.apply(
        by("a"),
        spec(json!({
            "set": ["a", "b", "c"],
            "items": [{"name": "x", "v": "1"}, {"name": "y", "v": "1"}],
            "list": ["1", "2"],
        })),
    );
    w.apply(
        by("b"),
        spec(json!({
            "set": ["d", "b"],
            "items": [{"name": "z", "tags": ["t"]}, {"name": "y", "w": "1"}],
        })),
    );
    w.expect(
        json!({
            "set": ["a", "d", "b", "c"],
            "items": [
                {"name": "x", "v": "1"},
                {"name": "z", "tags": ["t"]},
                {"name": "y", "v": "1", "w": "1"},
            ],
            "list": ["1", "2"],
        }),
        &[
            (
                "a Apply @1",
                owns(json!({
                    "f:items": {
                        "k:{\"name\":\"x\"}": {".": {}, "f:name": {}, "f:v": {}},
                        "k:{\"name\":\"y\"}": {".": {}, "f:name": {}, "f:v": {}},
                    },
                    "f:list": {},
                    "f:set": {"v:\"a\"": {}, "v:\"b\"": {}, "v:\"c\"": {}},
                })),
            ),
            (
                "b Apply @2",
                owns(json!({
                    "f:items": {
                        "k:{\"name\":\"y\"}": {".": {}, "f:name": {}, "f:w": {}},
                        "k:{\"name\":\"z\"}": {
                            ".": {}, "f:name": {}, "f:tags": {"v:\"t\"": {}},
                        },
                    },
                    "f:set": {"v:\"b\"": {}, "v:\"d\"": {}},
                })),
            ),
        ],
    );
    w.apply(by("a"), spec(json!({"set": ["c"], "items": [{"name": "y"}]})));
    assert_eq!(
        *w.spec(),
        json!({
            "set": ["d", "b", "c"],
            "items": [{"name": "z", "tags": ["t"]}, {"name": "y", "w": "1"}],
        })
    );
    let error = w.try_apply(by("c"), spec(json!({"items": [{"name": "y", "w": "2"}]})));
    assert!(matches!(error, Err(Error::Conflicts(_))));
}

#[test]
fn order_follows_the_last_to_apply() {
    let check = |live: &[&str], applied: &[&str], expect: &[&str]| {
        let mut w = Story::new();
        w.apply(by("a"), spec(json!({"set": live})));
        w.apply(by("b"), spec(json!({"set": applied})));
        assert_eq!(w.spec()["set"], json!(expect), "{live:?} and {applied:?}");
    };
    check(&["a", "b", "c"], &[], &["a", "b", "c"]);
    check(&["a", "b", "c"], &["b"], &["a", "b", "c"]);
    check(&["a", "b", "c"], &["c", "a"], &["b", "c", "a"]);
    check(
        &["a", "b", "c", "d", "e"],
        &["e", "x", "b", "y", "a"],
        &["c", "d", "e", "x", "b", "y", "a"],
    );
    check(&["a", "b"], &["x", "a", "y"], &["x", "a", "b", "y"]);
}

#[test]
fn a_default_key_is_a_key() {
    let mut w = Story::new();
    w.apply(by("a"), spec(json!({"ports": [{"port": 80}, {"port": 80, "protocol": "UDP"}]})));
    w.apply(by("b"), spec(json!({"ports": [{"port": 80, "protocol": "TCP", "host": "h"}]})));
    assert_eq!(
        w.spec()["ports"],
        json!([{"port": 80, "protocol": "TCP", "host": "h"}, {"port": 80, "protocol": "UDP"}])
    );
}

#[test]
fn atomic_fields_have_owners_as_a_whole() {
    let mut w = Story::new();
    w.apply(by("a"), spec(json!({"atom": {"x": "1", "y": "2"}, "list": ["1"]})));
    for fields in [json!({"atom": {"x": "1"}}), json!({"list": []})] {
        assert!(matches!(w.try_apply(by("b"), spec(fields)), Err(Error::Conflicts(_))));
    }
    w.apply(by("b").force(), spec(json!({"atom": {"x": "1"}})));
    w.expect(
        json!({"atom": {"x": "1"}, "list": ["1"]}),
        &[("a Apply @1", owns(json!({"f:list": {}}))), ("b Apply @4", owns(json!({"f:atom": {}})))],
    );
}

#[test]
fn removal_spares_what_others_own() {
    let mut w = Story::new();
    let items = |fields: Value| json!({"items": [fields]});
    w.apply(
        by("a"),
        spec(json!({"items": [{"name": "n", "v": "1"}], "labels": {"k": "1"}, "obj": {"x": "1"}})),
    );
    w.patch(by("u"), spec(json!({"labels": {"m": "1"}, "obj": {"y": "1"}})));
    w.apply(by("b"), spec(items(json!({"name": "n", "w": "2"}))));
    w.apply(by("a"), json!({}));
    w.expect(
        json!({"items": [{"name": "n", "w": "2"}], "labels": {"m": "1"}, "obj": {"y": "1"}}),
        &[
            (
                "b Apply @3",
                owns(json!({"f:items": {
                    "k:{\"name\":\"n\"}": {".": {}, "f:name": {}, "f:w": {}},
                }})),
            ),
            ("u Update @2", owns(json!({"f:labels": {"f:m": {}}, "f:obj": {"f:y": {}}}))),
        ],
    );
    // An item goes with its last owner; what others own inside does not hold it.
    w.patch(by("u"), spec(items(json!({"name": "n", "v": "3", "w": "2"}))));
    w.apply(by("b"), json!({}));
    assert_eq!(w.spec()["items"], Value::Null);
}

#[test]
fn metadata_has_its_own_shape() {
    let mut w = Story::new();
    let owner = |name: &str| json!({"apiVersion": "v1", "kind": "C", "name": name, "uid": "u"});
    w.apply(
        by("a"),
        json!({"metadata": {
            "labels": {"l": "1"}, "finalizers": ["x/a"], "ownerReferences": [owner("o")],
        }}),
    );
    w.apply(by("b"), json!({"metadata": {"labels": {"m": "1"}, "finalizers": ["x/b"]}}));
    let object = w.object.as_ref().unwrap();
    assert_eq!(object["metadata"]["finalizers"], json!(["x/a", "x/b"]));
    assert_eq!(
        w.managers(),
        [
            (
                "a Apply @1".to_owned(),
                json!({"f:metadata": {
                    "f:finalizers": {"v:\"x/a\"": {}},
                    "f:labels": {"f:l": {}},
                    "f:ownerReferences": {"k:{\"uid\":\"u\"}": {}},
                }})
            ),
            (
                "b Apply @2".to_owned(),
                json!({"f:metadata": {
                    "f:finalizers": {"v:\"x/b\"": {}}, "f:labels": {"f:m": {}},
                }})
            ),
        ]
    );
    let error =
        w.try_apply(by("b"), json!({"metadata": {"ownerReferences": [owner("p")]}})).unwrap_err();
    assert_eq!(
        error.to_string(),
        "Apply failed with 1 conflict: conflict with \"a\": .metadata.ownerReferences[uid=\"u\"]"
    );
}

#[test]
fn reset_fields_have_no_owner() {
    let mut w = Story::new();
    w.apply(by("a"), json!({"spec": {"a": "1"}, "status": {"s": "1"}}));
    w.apply(by("c").status(), json!({"spec": {"a": "9"}, "status": {"s": "2"}}));
    assert_eq!(
        w.managers(),
        [
            ("a Apply @1".to_owned(), owns(json!({"f:a": {}}))),
            ("c Apply /status @2".to_owned(), json!({"f:status": {"f:s": {}}})),
        ]
    );
}

#[test]
fn versions_share_paths_and_appliers() {
    let mut w = Story::new();
    w.apply(by("a"), spec(json!({"a": "1", "b": 1})));
    w.patch(by("u"), spec(json!({"flag": true})));
    w.object.as_mut().unwrap()["apiVersion"] = "d.io/v2".into();
    w.apply(by("a").v2(), spec(json!({"a": "1"})));
    w.patch(by("u").v2(), spec(json!({"flag": false})));
    w.expect(
        json!({"a": "1", "flag": false}),
        &[
            ("a Apply d.io/v2 @3", owns(json!({"f:a": {}}))),
            ("u Update d.io/v2 @4", owns(json!({"f:flag": {}}))),
        ],
    );
    // A version that is gone takes its entries along.
    w.v2 = None;
    w.object.as_mut().unwrap()["apiVersion"] = "d.io/v1".into();
    w.patch(by("x"), spec(json!({"b": 2})));
    w.expect(
        json!({"a": "1", "b": 2, "flag": false}),
        &[("x Update @5", owns(json!({"f:b": {}})))],
    );
}

#[test]
fn a_field_that_turned_atomic_is_owned_whole() {
    let mut w = Story::new();
    w.apply(by("a"), spec(json!({"obj": {"x": "1"}, "set": ["x"]})));
    let spec_schema = w.schema.properties.get_mut("spec").unwrap();
    let mut field = |name: &str| spec_schema.properties.get_mut(name).unwrap().clone();
    let (mut obj, mut set) = (field("obj"), field("set"));
    obj.map_type = Some(crate::schema::MapType::Atomic);
    set.list_type = None;
    spec_schema.properties.extend([("obj".to_owned(), obj), ("set".to_owned(), set)]);
    w.patch(by("u"), spec(json!({"a": "1"})));
    w.expect(
        json!({"a": "1", "obj": {"x": "1"}, "set": ["x"]}),
        &[
            ("a Apply @1", owns(json!({"f:obj": {}, "f:set": {}}))),
            ("u Update @2", owns(json!({"f:a": {}}))),
        ],
    );
}

#[test]
fn clients_may_rewrite_the_managers() {
    let entry = |manager: &str, fields: Value| {
        json!({
            "manager": manager, "operation": "Update", "apiVersion": "d.io/v1",
            "time": "1970-01-01T00:00:09Z", "fieldsType": "FieldsV1", "fieldsV1": fields,
        })
    };
    let mut w = Story::new();
    w.put(by("u"), spec(json!({"a": "1"})));
    let stored = w.managers();
    let with = |entries: Value| json!({"metadata": {"managedFields": entries}});
    let mut broken = entry("z", json!({}));
    broken["operation"] = "Guess".into();
    let mut timeless = entry("z", json!({}));
    timeless["time"] = "yesterday".into();
    for ignored in
        [json!([broken]), json!([timeless]), json!([entry("z", json!({"a": {}}))]), json!("?")]
    {
        w.patch(by("u"), with(ignored));
        assert_eq!(w.managers(), stored);
    }
    w.patch(by("u").status(), with(json!([entry("z", owns(json!({"f:a": {}})))])));
    assert_eq!(w.managers(), stored, "a subresource cannot");
    w.patch(by("u"), with(json!([entry("z", owns(json!({"f:a": {}})))])));
    w.expect(json!({"a": "1"}), &[("z Update @9", owns(json!({"f:a": {}})))]);
    for reset in [json!([]), json!([{}])] {
        w.patch(by("u"), with(json!([entry("z", owns(json!({"f:a": {}})))])));
        w.patch(by("u"), with(reset));
        w.expect(json!({"a": "1"}), &[]);
    }
    // Off is off, until somebody applies.
    w.patch(by("u"), spec(json!({"a": "2"})));
    w.expect(json!({"a": "2"}), &[]);
    w.apply(by("a"), spec(json!({"b": 1})));
    w.expect(
        json!({"a": "2", "b": 1}),
        &[
            ("a Apply @13", owns(json!({"f:b": {}}))),
            ("before-first-apply Update @13", owns(json!({".": {}, "f:a": {}}))),
        ],
    );
}

#[test]
fn old_updaters_become_ancient() {
    let mut w = Story::new();
    w.put(by("u00"), spec(json!({"labels": {"k00": "1"}})));
    for i in 1..13 {
        let key = format!("k{i:02}");
        w.patch(by(&format!("u{i:02}")), spec(json!({"labels": {key: "1"}})));
    }
    let managers = w.managers();
    assert_eq!(managers.len(), 10);
    let ancient = json!({
        ".": {},
        "f:labels": {".": {}, "f:k00": {}, "f:k01": {}, "f:k02": {}, "f:k03": {}},
    });
    assert_eq!(managers[0], ("ancient-changes Update @4".to_owned(), owns(ancient)));
    assert_eq!(managers[9].0, "u12 Update @13");
}

#[test]
fn client_side_apply_moves_to_server_side() {
    let annotation = "kubectl.kubernetes.io/last-applied-configuration";
    let applied = r#"{"apiVersion":"d.io/v1","kind":"W","spec":{"a":"1","b":1}}"#;
    let story = || {
        let mut w = Story::new();
        w.put(
            by("kubectl-client-side-apply"),
            json!({
                "metadata": {"annotations": {annotation: applied}}, "spec": {"a": "1", "b": 2},
            }),
        );
        w
    };
    let mut w = story();
    w.apply(by("kubectl"), spec(json!({"a": "<2>"})));
    let object = w.object.clone().unwrap();
    assert_eq!(
        object["metadata"]["annotations"][annotation],
        "{\"apiVersion\":\"d.io/v1\",\"kind\":\"W\",\"metadata\":{\"name\":\"w\"},\
         \"spec\":{\"a\":\"\\u003c2\\u003e\"}}\n"
    );
    assert_eq!(w.managers()[0], ("kubectl Apply @2".to_owned(), owns(json!({"f:a": {}}))));

    // What changed since is a conflict, as is everything for another manager.
    let message =
        "Apply failed with 1 conflict: conflict with \"kubectl-client-side-apply\" using d.io/v1";
    let error = story().try_apply(by("kubectl"), spec(json!({"a": "2", "b": 3}))).unwrap_err();
    assert_eq!(error.to_string(), format!("{message}: .spec.b"));
    let error = story().try_apply(by("flux"), spec(json!({"a": "2"}))).unwrap_err();
    assert_eq!(error.to_string(), format!("{message}: .spec.a"));
}

#[test]
fn what_cannot_be_applied() {
    let check = |fields: Value, message: &str| {
        let error = Story::new().try_apply(by("a"), fields).unwrap_err().to_string();
        let typed = "failed to create typed patch object (/w; d.io/v1, Kind=W): ";
        assert_eq!(error.strip_prefix(typed).unwrap_or(&error), message);
    };
    check(json!({"apiVersion": "d.io/v2"}), "invalid object type: d.io/v2, Kind=W");
    check(json!({"apiVersion": "v1", "kind": "X"}), "invalid object type: /v1, Kind=X");
    check(json!({"apiVersion": "a/b/c"}), "invalid object type: /, Kind=");
    check(json!({"metadata": {"managedFields": []}}), "metadata.managedFields must be nil");
    check(json!({"metadata": {"x": 1}}), ".metadata.x: field not declared in schema");
    check(json!({"spec": 5}), ".spec: expected map, got &{5}");
    check(
        spec(json!({"a": [1, {"b": 1.5}], "b": {"x": 1}, "flag": 5})),
        "errors:\n  .spec.a: expected string, got &value.valueUnstructured{Value:[]interface {}\
         {1, map[string]interface {}{\"b\":1.5}}}\n  .spec.b: expected numeric (int or float), \
         got map[string]interface {}\n  .spec.flag: expected boolean, got &{5}",
    );
    check(spec(json!({"nope": 1})), ".spec.nope: field not declared in schema");
    check(spec(json!({"set": "x"})), ".spec.set: expected list, got &{x}");
    check(spec(json!({"set": ["a", "a"]})), ".spec.set: duplicate entries for key [=\"a\"]");
    check(
        spec(json!({"set": ["a", null]})),
        ".spec.set: element 1: associative list without keys has an element that's an explicit null",
    );
    check(
        spec(json!({"items": [{"name": "x"}, {"name": "x"}]})),
        ".spec.items: duplicate entries for key [name=\"x\"]",
    );
    check(
        spec(json!({"items": [{"v": "1"}]})),
        ".spec.items: element 0: associative list with keys has an element that omits all key \
         fields [\"name\"] (and doesn't have default values for any key fields)",
    );
    check(
        spec(json!({"ports": [{"port": 80}, {"port": 80, "protocol": "TCP"}]})),
        ".spec.ports: duplicate entries for key [port=80,protocol=\"TCP\"]",
    );
    check(
        spec(json!({"items": [{"name": 5}]})),
        ".spec.items[name=5].name: expected string, got &value.valueUnstructured{Value:5}",
    );
}

#[test]
fn null_is_a_value() {
    let mut w = Story::new();
    w.apply(by("a"), spec(json!({"a": null, "obj": {"x": null}, "set": null})));
    w.expect(
        json!({"a": null, "obj": {"x": null}, "set": null}),
        &[("a Apply @1", owns(json!({"f:a": {}, "f:obj": {"f:x": {}}, "f:set": {}})))],
    );
}

#[test]
fn depth_is_bounded() {
    let mut deep = json!(1);
    for _ in 0..2 * MAX_DEPTH {
        deep = json!({"d": deep});
    }
    let mut w = Story::new();
    assert!(matches!(
        w.try_apply(by("a"), spec(json!({"free": deep.clone()}))),
        Err(Error::TooDeep)
    ));
    w.put(by("u"), spec(json!({"free": deep})));
    assert!(w.managers().is_empty(), "stored, but not tracked");
}

#[test]
fn what_is_always_there_is_nobodys() {
    let empty = json!({"apiVersion": "v1", "kind": "C", "metadata": {}, "spec": {"list": null}});
    let cx = Context {
        api_version: "v1",
        kind: "C",
        schema: None,
        other_versions: &[],
        empty: Some(&empty),
        reset_fields: &FieldSet::default(),
        manager: "u",
        subresource: "",
        now: Timestamp::UNIX_EPOCH,
    };
    let new = json!({
        "apiVersion": "v1", "kind": "C", "metadata": {"name": "c"},
        "spec": {"list": ["1"], "map": {"x": [1]}},
    });
    let created = update(&cx, None, new);
    assert_eq!(
        created["metadata"]["managedFields"][0]["fieldsV1"],
        json!({"f:spec": {"f:list": {}, "f:map": {".": {}, "f:x": {}}}})
    );
}

#[test]
fn times_stay_where_nothing_else_changed() {
    let mut w = Story::new();
    w.apply(by("a"), json!({"spec": {"a": "1"}}));
    let live = w.object.clone().unwrap();
    // The applied status is reset by the endpoint after the merge.
    w.apply(by("a"), json!({"spec": {"a": "1"}, "status": {"s": "1"}}));
    let mut new = w.object.unwrap();
    assert_ne!(new["metadata"], live["metadata"]);
    let applied = new.clone();
    keep_times(&live, &mut new);
    assert_eq!(new, applied, "the status is a change");
    new.as_object_mut().unwrap().remove("status");
    keep_times(&live, &mut new);
    assert_eq!(new, live);
}
