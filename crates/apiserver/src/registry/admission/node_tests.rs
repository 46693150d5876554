use super::*;
use serde_json::json;

fn object(value: Value) -> Object {
    value.as_object().cloned().unwrap()
}

fn mirror() -> Value {
    json!({
        "metadata": {
            "name": "p", "annotations": {"kubernetes.io/config.mirror": "x"},
            "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u", "controller": true}],
        },
        "spec": {"nodeName": "n", "containers": [{"name": "c"}]},
    })
}

#[test]
fn a_kubelet_shows_what_it_runs_and_nothing_more() {
    let check = |at: &str, value: Value, want: Option<&str>| {
        let mut pod = mirror();
        if !at.is_empty() {
            *pod.pointer_mut(at).unwrap() = value;
        }
        let got = wrong_mirror("n", &object(pod));
        assert_eq!(got.is_some(), want.is_some(), "{got:?}");
        assert!(got.unwrap_or_default().contains(want.unwrap_or_default()));
    };
    check("", Value::Null, None);
    check("/metadata/annotations", json!({}), Some("can only create mirror pods"));
    check("/spec/nodeName", json!("m"), Some("spec.nodeName set to itself"));
    check("/metadata/ownerReferences", json!([]), Some("with an owner reference"));
    check("/metadata/ownerReferences/0/name", json!("m"), Some("with an owner reference"));
    check("/metadata/ownerReferences/0/controller", json!(false), Some("controller owner"));
    let volumes = json!([{"name": "c", "envFrom": [{"configMapRef": {"name": "m"}}]}]);
    check("/spec/containers", volumes, Some("reference configmaps"));
}

#[test]
fn labels_that_steer_work_are_not_a_kubelets() {
    for fine in [
        "example.com/a",
        "a",
        "kubernetes.io/hostname",
        "node.kubernetes.io/x",
        "sub.kubelet.kubernetes.io/x",
    ] {
        assert!(is_kubelets(fine), "{fine}");
    }
    for not in [
        "node-restriction.kubernetes.io/x",
        "a.node-restriction.kubernetes.io/x",
        "node-role.kubernetes.io/control-plane",
        "k8s.io/x",
        "x.k8s.io/y",
    ] {
        assert!(!is_kubelets(not), "{not}");
    }
}

#[test]
fn a_kubelet_keeps_off_taints_and_owners_and_other_nodes() {
    let node = |spec: Value, metadata: Value| {
        let mut node = json!({"metadata": {"name": "n"}, "spec": spec});
        for (key, value) in metadata.as_object().unwrap() {
            node["metadata"][key] = value.clone();
        }
        object(node)
    };
    let live = node(json!({"taints": [{"key": "a"}]}), json!({}));
    let check = |after: &Object, want: Option<&str>| {
        let got = wrong_node("n", Attempt::Update { live: &live, object: after });
        assert_eq!(got.is_some(), want.is_some(), "{got:?}");
        assert!(got.unwrap_or_default().contains(want.unwrap_or_default()));
    };
    check(&live, None);
    check(&node(json!({}), json!({})), Some("modify taints"));
    let owned = json!({"ownerReferences": [{"name": "x"}]});
    check(&node(json!({"taints": [{"key": "a"}]}), owned), Some("modify ownerReferences"));
    let labelled = json!({"labels": {"node-role.kubernetes.io/x": ""}});
    check(&node(json!({"taints": [{"key": "a"}]}), labelled), Some("modify labels"));
    assert!(wrong_node("m", Attempt::Create(&live)).unwrap().contains("modify node \"n\""));
}

#[test]
fn of_a_claim_only_its_size_is_told() {
    let live = object(json!({"spec": {"a": 1}, "status": {"phase": "Bound"}}));
    let grown = object(
        json!({"spec": {"a": 1}, "status": {"phase": "Bound", "capacity": {"storage": "2Gi"}}}),
    );
    let changed = object(json!({"spec": {"a": 2}, "status": {"phase": "Bound"}}));
    let update = |object| Attempt::Update { live: &live, object };
    assert_eq!(wrong_claim("n", "status", update(&grown)), None);
    assert!(wrong_claim("n", "status", update(&changed)).is_some());
    assert!(wrong_claim("n", "", update(&grown)).is_some());
}
