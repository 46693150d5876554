use serde_json::json;

use super::super::authz::{Decision, authorize};
use super::*;

fn user(name: &str) -> User {
    User { name: name.to_owned(), ..User::default() }
}

fn resource<'a>(verb: &'a str, group: &'a str, path: &'a str, name: &'a str) -> Attributes<'a> {
    let (resource, subresource) = path.split_once('/').unwrap_or((path, ""));
    let namespace = "";
    Attributes { verb, target: Target::Resource { group, resource, subresource, namespace, name } }
}

#[test]
fn rules_match_resources() {
    let check = |rule: Value, verb: &str, group: &str, path: &str, name: &str, expect: bool| {
        let parsed = PolicyRule::deserialize(&rule).unwrap();
        let attributes = resource(verb, group, path, name);
        assert_eq!(parsed.allows(&attributes), expect, "{rule} {verb} {group}/{path} {name}");
    };
    let pods = json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]});
    check(pods.clone(), "get", "", "pods", "p", true);
    check(pods.clone(), "list", "", "pods", "", false);
    check(pods.clone(), "get", "apps", "pods", "p", false);
    check(pods.clone(), "get", "", "pods/log", "p", false);
    check(pods, "get", "", "podss", "p", false);
    let all = json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]});
    check(all.clone(), "patch", "apps", "deployments/scale", "d", true);
    check(all, "get", "", "pods", "", true);
    let log = json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods/log"]});
    check(log.clone(), "get", "", "pods/log", "p", true);
    check(log.clone(), "get", "", "pods/logs", "p", false);
    check(log, "get", "", "pods", "p", false);
    let scale = json!({"verbs": ["get"], "apiGroups": ["apps"], "resources": ["*/scale"]});
    check(scale.clone(), "get", "apps", "deployments/scale", "d", true);
    check(scale.clone(), "get", "apps", "deployments/status", "d", false);
    check(scale.clone(), "get", "apps", "deployments", "d", false);
    check(scale, "get", "apps", "deployments/x/scale", "d", false);
    let named = json!({
        "verbs": ["get", "list"], "apiGroups": [""], "resources": ["secrets"],
        "resourceNames": ["a", "b"],
    });
    check(named.clone(), "get", "", "secrets", "b", true);
    check(named.clone(), "list", "", "secrets", "a", true);
    check(named.clone(), "list", "", "secrets", "", false);
    check(named, "get", "", "secrets", "*", false);
    let empty = json!({"verbs": null, "apiGroups": null, "resources": []});
    check(empty, "get", "", "pods", "", false);
}

#[test]
fn rules_match_paths() {
    let check = |patterns: &[&str], path: &str, expect: bool| {
        let rule = json!({"verbs": ["get"], "nonResourceURLs": patterns});
        let rule = PolicyRule::deserialize(&rule).unwrap();
        let allows = |verb| rule.allows(&Attributes { verb, target: Target::Path(path) });
        assert_eq!(allows("get"), expect, "{patterns:?} {path}");
        assert!(!allows("post"));
    };
    check(&["/healthz"], "/healthz", true);
    check(&["/healthz"], "/healthz/etcd", false);
    check(&["/x", "/healthz/*"], "/healthz/etcd", true);
    check(&["/healthz/*"], "/healthz", false);
    check(&["/api*"], "/apis/apps", true);
    check(&["/api**"], "/apis", true);
    check(&["*"], "/", true);
    check(&["/a*b"], "/axb", false);
    check(&[], "/", false);
}

#[test]
fn the_index_follows_the_objects() {
    let mut rbac = RbacIndex::default();
    let allowed = |rbac: &RbacIndex, name: &str, namespace: &'static str| {
        let attributes = Attributes {
            verb: "get",
            target: Target::Resource {
                group: "",
                resource: "pods",
                subresource: "",
                namespace,
                name: "p",
            },
        };
        matches!(authorize(&user(name), &attributes, rbac), Decision::Allow { .. })
    };
    let role = json!({"rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]});
    let bound = |names: &[&str]| {
        let subjects: Vec<_> =
            names.iter().map(|name| json!({"kind": "User", "name": name})).collect();
        json!({"roleRef": {"kind": "Role", "name": "reader"}, "subjects": subjects})
    };
    let ns = "x";
    rbac.apply(RbacKind::RoleBinding, ns, "b", &bound(&["alice", "alice", "bob"])).unwrap();
    assert!(!allowed(&rbac, "alice", ns));
    rbac.apply(RbacKind::Role, ns, "reader", &role).unwrap();
    assert!(allowed(&rbac, "alice", ns));
    assert!(allowed(&rbac, "bob", ns));
    assert!(!allowed(&rbac, "alice", "y"));
    assert!(!allowed(&rbac, "alice", ""));
    rbac.apply(RbacKind::RoleBinding, ns, "b", &bound(&["bob"])).unwrap();
    assert!(!allowed(&rbac, "alice", ns));
    assert!(allowed(&rbac, "bob", ns));
    // What cannot be read grants nothing, instead of what it granted before.
    rbac.apply(RbacKind::Role, ns, "reader", &json!({"rules": [{"verbs": "get"}]})).unwrap_err();
    assert!(!allowed(&rbac, "bob", ns));
    rbac.apply(RbacKind::Role, ns, "reader", &role).unwrap();
    assert!(allowed(&rbac, "bob", ns));
    rbac.remove(RbacKind::RoleBinding, ns, "b");
    rbac.remove(RbacKind::RoleBinding, ns, "b");
    assert!(!allowed(&rbac, "bob", ns));
    rbac.remove(RbacKind::Role, ns, "reader");
    assert!(rbac.roles.is_empty() && rbac.bindings.is_empty());
}

#[test]
fn service_accounts_belong_to_a_namespace() {
    let check = |namespace: &str, own: Option<&str>, name: &str, expect: bool| {
        let mut rbac = RbacIndex::default();
        let kind =
            if namespace.is_empty() { RbacKind::ClusterRoleBinding } else { RbacKind::RoleBinding };
        let mut subject = json!({"kind": "ServiceAccount", "name": "bot"});
        if let Some(own) = own {
            subject["namespace"] = json!(own);
        }
        let role = json!({"rules": null});
        rbac.apply(RbacKind::ClusterRole, "", "r", &role).unwrap();
        let binding =
            json!({"roleRef": {"kind": "ClusterRole", "name": "r"}, "subjects": [subject]});
        rbac.apply(kind, namespace, "b", &binding).unwrap();
        assert_eq!(rbac.grants(&user(name), namespace).count() == 1, expect, "{name}");
    };
    check("x", None, "system:serviceaccount:x:bot", true);
    check("x", Some(""), "system:serviceaccount:x:bot", true);
    check("x", Some("y"), "system:serviceaccount:y:bot", true);
    check("x", Some("y"), "system:serviceaccount:x:bot", false);
    check("", Some("y"), "system:serviceaccount:y:bot", true);
    check("", None, "system:serviceaccount::bot", false);
    check("x", None, "bot", false);
}

/// What a kube-apiserver lets its first users do, by the rules it starts with.
#[test]
fn bootstrap_rules_allow_what_they_should() {
    let facts: Value =
        serde_json::from_str(include_str!("../../facts/bootstrap-rbac.json")).unwrap();
    let mut rbac = RbacIndex::default();
    for object in facts["items"].as_array().unwrap() {
        let kind = match object["kind"].as_str().unwrap() {
            "ClusterRole" => RbacKind::ClusterRole,
            "ClusterRoleBinding" => RbacKind::ClusterRoleBinding,
            "Role" => RbacKind::Role,
            "RoleBinding" => RbacKind::RoleBinding,
            other => panic!("{other}"),
        };
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or("");
        let name = object["metadata"]["name"].as_str().unwrap();
        rbac.apply(kind, namespace, name, object).unwrap();
    }
    let check = |name: &str, groups: &[&str], attributes: &Attributes<'_>, expect: bool| {
        let groups = groups.iter().map(|&group| group.to_owned()).collect();
        let user = User { name: name.to_owned(), groups, ..User::default() };
        let allowed = matches!(authorize(&user, attributes, &rbac), Decision::Allow { .. });
        assert_eq!(allowed, expect, "{user:?} {attributes:?}");
    };
    let path = |path| Attributes { verb: "get", target: Target::Path(path) };
    let in_kube_system = |verb, name| Attributes {
        verb,
        target: Target::Resource {
            group: "",
            resource: "configmaps",
            subresource: "",
            namespace: "kube-system",
            name,
        },
    };
    let (known, unknown) = (["system:authenticated"], ["system:unauthenticated"]);
    check("a", &known, &path("/apis/apps/v1"), true);
    check("system:anonymous", &unknown, &path("/apis"), false);
    check("system:anonymous", &unknown, &path("/version"), true);
    check("a", &known, &path("/metrics"), false);
    check(
        "a",
        &known,
        &resource("create", "authorization.k8s.io", "selfsubjectaccessreviews", ""),
        true,
    );
    check("a", &known, &resource("list", "", "pods", ""), false);
    let scheduler = "system:kube-scheduler";
    check(scheduler, &known, &resource("create", "", "pods/binding", "p"), true);
    check(scheduler, &known, &resource("delete", "", "nodes", "n"), false);
    let manager = "system:kube-controller-manager";
    check(manager, &known, &in_kube_system("get", "extension-apiserver-authentication"), true);
    let collector = "system:serviceaccount:kube-system:generic-garbage-collector";
    check(collector, &known, &resource("delete", "example.com", "widgets", "w"), true);
    assert!(rbac.grants(&user(collector), "").all(|grant| grant.is_ok()));
}
