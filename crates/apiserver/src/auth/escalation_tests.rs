use serde::Deserialize;
use serde_json::{Value, json};

use super::*;

fn rules(value: Value) -> Vec<PolicyRule> {
    Vec::deserialize(value).unwrap()
}

fn on(verbs: &[&str], groups: &[&str], resources: &[&str]) -> Value {
    json!({"verbs": verbs, "apiGroups": groups, "resources": resources})
}

#[test]
fn held_rules_cover_what_they_allow() {
    let check = |held: Value, wanted: Value, expect: bool| {
        let (held_rules, wanted_rules) = (rules(held.clone()), rules(wanted.clone()));
        let held_rules: Vec<&PolicyRule> = held_rules.iter().collect();
        let covered = rules_cover(&held_rules, &wanted_rules).is_ok();
        assert_eq!(covered, expect, "{held} covers {wanted}");
    };
    let pods = || on(&["get"], &[""], &["pods"]);
    check(json!([pods()]), json!([pods()]), true);
    check(json!([pods()]), json!([]), true);
    check(json!([]), json!([pods()]), false);
    check(json!([]), json!([on(&[], &[""], &["pods"])]), true);
    // Several rules together cover one.
    check(
        json!([
            on(&["get"], &[""], &["a", "b"]),
            on(&["list"], &[""], &["a"]),
            on(&["list"], &[""], &["b"])
        ]),
        json!([on(&["get", "list"], &[""], &["a", "b"])]),
        true,
    );
    check(
        json!([on(&["get"], &[""], &["a", "b"]), on(&["list"], &[""], &["a"])]),
        json!([on(&["get", "list"], &[""], &["a", "b"])]),
        false,
    );
    // All of a list is not all there is.
    check(json!([on(&["get"], &["x"], &["a"])]), json!([on(&["get"], &["*"], &["a"])]), false);
    check(json!([on(&["get"], &["*"], &["a"])]), json!([on(&["get"], &["x", "y"], &["a"])]), true);
    check(json!([on(&["get"], &[""], &["a"])]), json!([on(&["*"], &[""], &["a"])]), false);
    check(json!([on(&["*"], &["*"], &["*"])]), json!([on(&["*"], &["*"], &["*"])]), true);
    check(json!([on(&["*"], &["*"], &["*"])]), json!([on(&["get"], &["x"], &["a/b"])]), true);
    check(
        json!([on(&["get"], &["x"], &["*/scale"])]),
        json!([on(&["get"], &["x"], &["a/scale"])]),
        true,
    );
    check(
        json!([on(&["get"], &["x"], &["a/scale"])]),
        json!([on(&["get"], &["x"], &["*/scale"])]),
        false,
    );
    check(
        json!([on(&["get"], &["x"], &["*/scale"])]),
        json!([on(&["get"], &["x"], &["a"])]),
        false,
    );
    // Names narrow.
    let named = |names: &[&str]| {
        let mut rule = pods();
        rule["resourceNames"] = json!(names);
        rule
    };
    check(json!([pods()]), json!([named(&["a"])]), true);
    check(json!([named(&["a"])]), json!([pods()]), false);
    check(json!([named(&["a"]), named(&["b"])]), json!([named(&["a", "b"])]), true);
    check(json!([named(&["a"])]), json!([named(&["a", "b"])]), false);
    // URLs.
    let urls = |urls: &[&str]| json!({"verbs": ["get"], "nonResourceURLs": urls});
    check(json!([urls(&["/a/*"])]), json!([urls(&["/a/b", "/a/*", "/a/b/*"])]), true);
    check(json!([urls(&["/a/*"])]), json!([urls(&["/a"])]), false);
    check(json!([urls(&["*"])]), json!([urls(&["/a"])]), true);
    check(json!([on(&["*"], &["*"], &["*"])]), json!([urls(&["/a"])]), false);
}

#[test]
fn refusals_list_what_is_missing() {
    let user = User {
        name: "alice".to_owned(),
        groups: ["dev", "ops", "system:authenticated"].map(str::to_owned).to_vec(),
        ..User::default()
    };
    let wanted = rules(json!([
        on(&["get", "create"], &["", "apps"], &["pods", "nodes"]),
        {"verbs": ["*"], "nonResourceURLs": ["/x", "/api"]},
        {"verbs": ["get"], "apiGroups": [""], "resources": ["a"], "resourceNames": ["n2", "n1"]},
    ]));
    let listed = "user \"alice\" (groups=[\"dev\" \"ops\" \"system:authenticated\"]) is attempting \
         to grant RBAC permissions not currently held:\n\
         {APIGroups:[\"\"], Resources:[\"a\"], ResourceNames:[\"n1\"], Verbs:[\"get\"]}\n\
         {APIGroups:[\"\"], Resources:[\"a\"], ResourceNames:[\"n2\"], Verbs:[\"get\"]}\n\
         {APIGroups:[\"\"], Resources:[\"nodes\"], Verbs:[\"get\" \"create\"]}\n\
         {APIGroups:[\"\"], Resources:[\"pods\"], Verbs:[\"get\" \"create\"]}\n\
         {APIGroups:[\"apps\"], Resources:[\"nodes\"], Verbs:[\"get\" \"create\"]}\n\
         {APIGroups:[\"apps\"], Resources:[\"pods\"], Verbs:[\"get\" \"create\"]}\n\
         {NonResourceURLs:[\"/api\"], Verbs:[\"*\"]}\n\
         {NonResourceURLs:[\"/x\"], Verbs:[\"*\"]}";
    let missing = |name| Unresolved::Missing { kind: "ClusterRole", name };
    let check = |unresolved: &[Unresolved<'_>], resource: &str, ending: &str| {
        let message = confirm_no_escalation(&user, &[], &wanted, unresolved, resource).unwrap_err();
        assert_eq!(message, format!("{listed}{ending}"));
    };
    check(&[], "clusterroles", "");
    check(
        &[missing("nope"), missing("nope")],
        "clusterroles",
        "; resolution errors: [clusterroles.rbac.authorization.k8s.io \"nope\" not found]",
    );
    check(
        &[missing("nope"), missing("nope3")],
        "rolebindings",
        "; resolution errors: [[rolebindings.rbac.authorization.k8s.io \"nope\" not found, \
         rolebindings.rbac.authorization.k8s.io \"nope3\" not found]]",
    );
    let all =
        rules(json!([on(&["*"], &["*"], &["*"]), {"verbs": ["*"], "nonResourceURLs": ["*"]}]));
    let held: Vec<&PolicyRule> = all.iter().collect();
    assert_eq!(confirm_no_escalation(&user, &held, &wanted, &[missing("nope")], "roles"), Ok(()));
}

#[test]
fn breakdowns_are_bounded() {
    let many: Vec<String> = (0..100_000).map(|i| format!("x{i}")).collect();
    let huge = PolicyRule {
        verbs: many.clone(),
        api_groups: many.clone(),
        resources: many.clone(),
        resource_names: many.clone(),
        non_resource_urls: many,
    };
    let wide = PolicyRule { verbs: vec!["*".to_owned()], ..huge.clone() };
    assert_eq!(rules_cover(&[&wide], std::slice::from_ref(&huge)), Err(Uncovered::TooMany));
    let user = User::default();
    let message = confirm_no_escalation(&user, &[], &[huge], &[], "roles").unwrap_err();
    assert!(message.ends_with("than can be checked"), "{message}");
}
