//! Objects as they come, held against what a kube-apiserver made of them.

use serde_json::{Value, json};

const NOW: &str = "2026-01-02T03:04:05Z";

#[track_caller]
fn check(sent: Value, expect: Value) {
    let Value::Object(object) = sent else { panic!("an object") };
    let (api_version, kind) = (object["apiVersion"].clone(), object["kind"].clone());
    let (api_version, kind) = (api_version.as_str().unwrap(), kind.as_str().unwrap());
    let shaped = super::shape(api_version, kind, object, NOW).unwrap();
    assert_eq!(shaped.unknown, [""; 0]);
    let again = super::shape(api_version, kind, shaped.object.clone(), NOW).unwrap();
    assert_eq!(again.object, shaped.object, "defaults settle at once");
    let got = Value::Object(shaped.object);
    assert_eq!(got, expect, "{got:#}");
}

/// A pod's spec around one container, with every default.
fn pod_spec(container: &Value) -> Value {
    let mut filled = json!({
        "resources": {}, "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File", "imagePullPolicy": "IfNotPresent",
    });
    for (key, value) in container.as_object().unwrap() {
        filled[key] = value.clone();
    }
    json!({
        "containers": [filled], "restartPolicy": "Always", "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst", "securityContext": {}, "schedulerName": "default-scheduler",
    })
}

#[test]
fn a_pod_gets_its_defaults() {
    let mut spec = pod_spec(&json!({
        "name": "c", "image": "i:1",
        "resources": {"limits": {"cpu": "2", "memory": "1Gi"},
                      "requests": {"cpu": "500m", "memory": "1Gi"}},
        "ports": [{"containerPort": 80, "protocol": "TCP"}],
        "livenessProbe": {"httpGet": {"path": "/", "port": 80, "scheme": "HTTP"},
            "timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3},
        "env": [{"name": "a", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "x"}}}],
    }));
    spec["enableServiceLinks"] = true.into();
    spec["volumes"] = json!([{"name": "v", "emptyDir": {}},
        {"name": "s", "secret": {"secretName": "s", "defaultMode": 420}}]);
    check(
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {
        "volumes": [{"name": "v"}, {"name": "s", "secret": {"secretName": "s"}}],
        "containers": [{"name": "c", "image": "i:1",
            "resources": {"limits": {"cpu": 2, "memory": "1024Mi"}, "requests": {"cpu": 0.5}},
            "ports": [{"containerPort": 80}],
            "livenessProbe": {"httpGet": {"port": 80}},
            "env": [{"name": "a", "valueFrom": {"fieldRef": {"fieldPath": "x"}}}],
        }]}}),
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": spec,
            "status": {}}),
    );
}

#[test]
fn a_deployment_gets_its_defaults() {
    let container = json!({"name": "c", "image": "i", "imagePullPolicy": "Always"});
    check(
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"}, "spec": {
            "selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": {"labels": {"a": "b"}},
                "spec": {"containers": [{"name": "c", "image": "i"}]}}}}),
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"},
            "spec": {
                "replicas": 1, "selector": {"matchLabels": {"a": "b"}},
                "template": {"metadata": {"labels": {"a": "b"}}, "spec": pod_spec(&container)},
                "strategy": {"type": "RollingUpdate",
                    "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"}},
                "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600},
            "status": {}}),
    );
}

#[test]
fn a_service_gets_its_defaults() {
    check(
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"},
            "spec": {"ports": [{"port": 80}], "sessionAffinity": "ClientIP"}}),
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"},
            "spec": {"ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}],
                "type": "ClusterIP", "sessionAffinity": "ClientIP",
                "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 10800}},
                "internalTrafficPolicy": "Cluster"},
            "status": {"loadBalancer": {}}}),
    );
}

#[test]
fn a_job_gets_its_defaults_and_its_template_none_of_a_pods_own() {
    let job = |spec: Value| json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "a"}, "spec": spec});
    let mut expect = job(json!({
        "parallelism": 1, "completions": 1, "backoffLimit": 6, "manualSelector": false,
        "completionMode": "NonIndexed", "suspend": false,
        "podReplacementPolicy": "TerminatingOrFailed",
        "template": {"metadata": {"labels": {"l": "m"}}, "spec": pod_spec(
            &json!({"name": "c", "image": "i:1", "resources": {"limits": {"cpu": "1"}}}))},
    }));
    expect["spec"]["template"]["spec"]["restartPolicy"] = "Never".into();
    expect["metadata"]["labels"] = json!({"l": "m"});
    expect["status"] = json!({});
    check(
        job(json!({"template": {"metadata": {"labels": {"l": "m"}}, "spec": {
            "restartPolicy": "Never",
            "containers": [{"name": "c", "image": "i:1", "resources": {"limits": {"cpu": "1"}}}]}}})),
        expect,
    );
}

#[test]
fn a_secrets_texts_become_data() {
    check(
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"},
            "data": {"a": "eA==", "b": "eA=="}, "stringData": {"a": "hi", "c": ""}}),
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"},
            "data": {"a": "aGk=", "b": "eA==", "c": ""}, "type": "Opaque"}),
    );
}
