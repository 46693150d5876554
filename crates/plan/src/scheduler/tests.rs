//! Tables of pods and nodes.

use serde_json::{Value, json};

use super::*;

fn node(name: &str, more: Value) -> Arc<Node> {
    let mut node = json!({
        "metadata": {"name": name, "labels": {"zone": name}},
        "status": {"allocatable": {
            "cpu": "4", "memory": "8Gi", "pods": "3", "nvidia.com/gpu": "2",
        }},
    });
    node["spec"] = more;
    Arc::new(serde_json::from_value(node).unwrap())
}

fn pod(name: &str, cpu: &str, spec: Value) -> Arc<Pod> {
    let mut pod = json!({
        "metadata": {"name": name, "uid": name},
        "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]},
    });
    for (key, value) in spec.as_object().unwrap() {
        pod["spec"][key] = value.clone();
    }
    Arc::new(serde_json::from_value(pod).unwrap())
}

fn decide(nodes: &[Arc<Node>], pods: &[Arc<Pod>]) -> Vec<(String, Result<String, String>)> {
    let observed = Observed { nodes: nodes.to_vec(), pods: pods.to_vec() };
    let name = |verdict: &Verdict| verdict.pod.metadata.name.clone().unwrap();
    plan(&observed).into_iter().map(|verdict| (name(&verdict), verdict.node)).collect()
}

#[test]
fn every_filter_has_its_sentence() {
    let taint = |effect: &str| json!({"taints": [{"key": "k", "value": "v", "effect": effect}]});
    let terms = |term: Value| {
        json!({"affinity": {"nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]},
        }}})
    };
    let expression = |op: &str, values: &[&str]| {
        terms(json!({"matchExpressions": [{"key": "zone", "operator": op, "values": values}]}))
    };
    let gpus = |n: &str| json!({"containers": [{"name": "c", "resources": {"requests": {"nvidia.com/gpu": n}}}]});
    let selector = "1 node(s) didn't match Pod's node affinity/selector";
    let tainted = "1 node(s) had untolerated taint(s)";
    let rows = [
        (json!({}), json!({}), "1", None),
        (json!({}), json!({}), "5", Some("1 Insufficient cpu")),
        (json!({}), gpus("2"), "1", None),
        (json!({}), gpus("3"), "1", Some("1 Insufficient nvidia.com/gpu")),
        (json!({"unschedulable": true}), json!({}), "1", Some("1 node(s) were unschedulable")),
        (taint("NoSchedule"), json!({}), "1", Some(tainted)),
        (taint("NoExecute"), json!({}), "1", Some(tainted)),
        (taint("PreferNoSchedule"), json!({}), "1", None),
        (taint("NoSchedule"), json!({"tolerations": [{"key": "k", "value": "v"}]}), "1", None),
        (taint("NoSchedule"), json!({"tolerations": [{"operator": "Exists"}]}), "1", None),
        (taint("NoSchedule"), json!({"tolerations": [{"key": "k"}]}), "1", Some(tainted)),
        (json!({}), json!({"nodeSelector": {"zone": "a"}}), "1", None),
        (json!({}), json!({"nodeSelector": {"zone": "b"}}), "1", Some(selector)),
        (json!({}), expression("In", &["a", "b"]), "1", None),
        (json!({}), expression("NotIn", &["a"]), "1", Some(selector)),
        (json!({}), expression("Exists", &[]), "1", None),
        (json!({}), expression("DoesNotExist", &[]), "1", Some(selector)),
        (json!({}), expression("Gt", &["1"]), "1", Some(selector)),
        (json!({}), terms(json!({})), "1", Some(selector)),
    ];
    for (on, wants, cpu, expected) in rows {
        let found = decide(&[node("a", on)], &[pod("p", cpu, wants.clone())]).remove(0).1;
        let sentence = |reason| Err(format!("0/1 nodes are available: {reason}."));
        assert_eq!(found, expected.map_or(Ok("a".to_owned()), sentence), "{wants}");
    }
    let none = decide(&[], &[pod("p", "1", json!({}))]).remove(0).1;
    assert_eq!(none, Err("no nodes available to schedule pods".to_owned()));
    let both = [node("a", json!({})), node("b", json!({"unschedulable": true}))];
    let text = decide(&both, &[pod("p", "5", json!({}))]).remove(0).1.unwrap_err();
    let expected = "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) were unschedulable.";
    assert_eq!(text, expected);
}

#[test]
fn what_is_taken_is_taken_and_the_first_come_by_priority() {
    let nodes = [node("a", json!({}))];
    let pods = [
        pod("held", "1", json!({"nodeName": "a"})),
        pod("late", "3", json!({"priority": 1})),
        pod("first", "3", json!({"priority": 10})),
        pod("gated", "0", json!({"schedulingGates": [{"name": "g"}]})),
        pod("else", "0", json!({"schedulerName": "other"})),
    ];
    let short = "0/1 nodes are available: 1 Insufficient cpu.";
    let expected = [("first", Ok("a")), ("late", Err(short))];
    let expected = expected
        .map(|(name, node)| (name.to_owned(), node.map(str::to_owned).map_err(str::to_owned)));
    assert_eq!(decide(&nodes, &pods), expected);
}

#[test]
fn ports_and_the_number_of_pods_are_limits() {
    let port = json!({"containers": [{"name": "c", "ports": [
        {"containerPort": 80, "hostPort": 80},
    ]}]});
    let nodes = [node("a", json!({}))];
    let found = decide(&nodes, &[pod("p", "1", port.clone()), pod("q", "1", port)]);
    let text = found[1].1.clone().unwrap_err();
    assert!(
        text.contains("1 node(s) didn't have free ports for the requested pod ports"),
        "{text}"
    );
    let four: Vec<_> = ["a", "b", "c", "d"].map(|name| pod(name, "0", json!({}))).into();
    let text = decide(&nodes, &four)[3].1.clone().unwrap_err();
    assert_eq!(text, "0/1 nodes are available: 1 Too many pods.");
}

#[test]
fn pods_of_one_owner_spread_and_what_is_not_known_is_refused() {
    let owned = |name: &str| {
        let mut pod = Arc::unwrap_or_clone(pod(name, "1", json!({})));
        pod.metadata.owner_references = Some(vec![crate::replicaset::reference(
            ("apps/v1", "ReplicaSet"),
            &Default::default(),
        )]);
        Arc::new(pod)
    };
    let nodes = [node("a", json!({})), node("b", json!({}))];
    let found = decide(&nodes, &[owned("p"), owned("q")]);
    assert_eq!((found[0].1.as_deref(), found[1].1.as_deref()), (Ok("a"), Ok("b")));
    let claims = json!({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]});
    let text = decide(&nodes, &[pod("p", "1", claims)]).remove(0).1.unwrap_err();
    assert!(text.contains("does not know persistent volume claims"), "{text}");
}

#[test]
fn the_start_of_a_pod_may_need_more_than_its_run() {
    let amount = |cpu: &str| json!({"requests": {"cpu": cpu}});
    let pod = pod(
        "p",
        "1",
        json!({
            "initContainers": [
                {"name": "side", "restartPolicy": "Always", "resources": amount("1")},
                {"name": "init", "resources": amount("3")},
            ],
            "overhead": {"cpu": "100m"},
        }),
    );
    assert_eq!(request::of(&pod)["cpu"], 4100);
}
