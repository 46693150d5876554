use serde_json::json;

use super::super::rbac::RbacKind;
use super::*;

fn user(name: &str, groups: &[&str]) -> User {
    User {
        name: name.to_owned(),
        groups: groups.iter().map(|&group| group.to_owned()).collect(),
        ..User::default()
    }
}

/// `group/resource/subresource/namespace/name`, or a path.
fn target(text: &str) -> Target<'_> {
    match text.split('|').collect::<Vec<_>>().as_slice() {
        &[group, resource, subresource, namespace, name] => {
            Target::Resource { group, resource, subresource, namespace, name }
        }
        _ => Target::Path(text),
    }
}

#[test]
fn refusals_read_as_upstreams() {
    let check = |name: &str, verb: &str, at: &str, reason: &str, expect: &str| {
        let attributes = Attributes { verb, target: target(at) };
        assert_eq!(forbidden_message(&user(name, &[]), &attributes, reason), expect);
    };
    check(
        "alice",
        "list",
        "probe.example.com|widgets||x|",
        "",
        "widgets.probe.example.com is forbidden: User \"alice\" cannot list resource \"widgets\" \
         in API group \"probe.example.com\" in the namespace \"x\"",
    );
    check(
        "alice",
        "get",
        "|nodes|||n1",
        "",
        "nodes \"n1\" is forbidden: User \"alice\" cannot get resource \"nodes\" in API group \"\" \
         at the cluster scope",
    );
    check(
        "alice",
        "get",
        "probe.example.com|widgets|status||w",
        "",
        "widgets.probe.example.com \"w\" is forbidden: User \"alice\" cannot get resource \
         \"widgets/status\" in API group \"probe.example.com\" at the cluster scope",
    );
    check(
        "system:anonymous",
        "get",
        "/metrics",
        "",
        "forbidden: User \"system:anonymous\" cannot get path \"/metrics\"",
    );
    check(
        "<b>&",
        "get",
        "/<i>",
        "RBAC: <x>",
        "forbidden: User \"&lt;b&gt;&amp;\" cannot get path \"/&lt;i&gt;\": RBAC: <x>",
    );
}

#[test]
fn masters_need_no_rules() {
    let attributes = Attributes { verb: "delete", target: target("|nodes|||") };
    let decide =
        |groups: &[&str]| authorize(&user("a", groups), &attributes, &RbacIndex::default());
    assert_eq!(decide(&["x", MASTERS]), Decision::Allow { reason: String::new() });
    assert_eq!(decide(&["x"]), Decision::NoOpinion { reason: String::new() });
}

#[test]
fn reasons_name_the_binding_or_what_it_lacks() {
    let mut rbac = RbacIndex::default();
    let mut apply = |kind, namespace: &str, name: &str, object| {
        rbac.apply(kind, namespace, name, &object).unwrap();
    };
    let role = json!({"rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]});
    apply(RbacKind::ClusterRole, "", "reader", role);
    let binding = |role_kind: &str, role: &str, subject: serde_json::Value| json!({"roleRef": {"kind": role_kind, "name": role}, "subjects": [subject]});
    let alice = json!({"kind": "User", "name": "alice"});
    let everywhere = binding("ClusterRole", "reader", json!({"kind": "Group", "name": "dev"}));
    apply(RbacKind::ClusterRoleBinding, "", "devs", everywhere);
    apply(RbacKind::ClusterRoleBinding, "", "gap1", binding("ClusterRole", "nope", alice.clone()));
    apply(RbacKind::ClusterRoleBinding, "", "gap2", binding("ClusterRole", "nope", alice.clone()));
    apply(RbacKind::RoleBinding, "default", "gap3", binding("Role", "nope3", alice));
    let account =
        binding("ClusterRole", "reader", json!({"kind": "ServiceAccount", "name": "bot"}));
    apply(RbacKind::RoleBinding, "x", "bots", account);

    let check = |name: &str, groups: &[&str], at: &str, allowed: bool, expect: &str| {
        let attributes = Attributes { verb: "get", target: target(at) };
        let reason = expect.to_owned();
        let expect =
            if allowed { Decision::Allow { reason } } else { Decision::NoOpinion { reason } };
        assert_eq!(authorize(&user(name, groups), &attributes, &rbac), expect);
    };
    check(
        "bob",
        &["ops", "dev"],
        "|pods||x|",
        true,
        "RBAC: allowed by ClusterRoleBinding \"devs\" of ClusterRole \"reader\" to Group \"dev\"",
    );
    check(
        "system:serviceaccount:x:bot",
        &[],
        "|pods||x|",
        true,
        "RBAC: allowed by RoleBinding \"bots/x\" of ClusterRole \"reader\" to ServiceAccount \"bot/x\"",
    );
    check("system:serviceaccount:x:bot", &[], "|pods|||", false, "");
    check("system:serviceaccount:y:bot", &[], "|pods||x|", false, "");
    check(
        "alice",
        &[],
        "|pods||x|",
        false,
        "RBAC: clusterrole.rbac.authorization.k8s.io \"nope\" not found",
    );
    check(
        "alice",
        &[],
        "|pods||default|",
        false,
        "RBAC: [clusterrole.rbac.authorization.k8s.io \"nope\" not found, \
         role.rbac.authorization.k8s.io \"nope3\" not found]",
    );
}
