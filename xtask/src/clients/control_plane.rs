//! Upstream's kube-controller-manager and kube-scheduler on the embedded server alone.
//!
//! The kubelet is played by hand: a node, its status, and the status of the pods on it.

use anyhow::{Context, Result, ensure};

use super::session::Session;

const NODE: &str = r#"
apiVersion: v1
kind: Node
metadata: {name: n1, labels: {kubernetes.io/hostname: n1, kubernetes.io/os: linux}}
---
apiVersion: coordination.k8s.io/v1
kind: Lease
metadata: {name: n1, namespace: kube-node-lease}
spec: {holderIdentity: n1, leaseDurationSeconds: 40}
"#;

const NODE_STATUS: &str = r#"{"status": {
  "capacity": {"cpu": "16", "memory": "64Gi", "pods": "110"},
  "allocatable": {"cpu": "16", "memory": "64Gi", "pods": "110"},
  "addresses": [{"type": "InternalIP", "address": "192.0.2.7"}],
  "nodeInfo": {"kubeletVersion": "v1.35.4", "operatingSystem": "linux", "architecture": "amd64"},
  "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}]}}"#;

const WORKLOADS: &str = r#"
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: c, image: registry.example/web, ports: [{containerPort: 80}]}]}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80}]}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web}
spec: {minAvailable: 2, selector: {matchLabels: {app: web}}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: once}
spec:
  template:
    metadata: {labels: {app: once}}
    spec: {restartPolicy: Never, containers: [{name: c, image: registry.example/once}]}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent}
spec:
  selector: {matchLabels: {app: agent}}
  template:
    metadata: {labels: {app: agent}}
    spec: {containers: [{name: c, image: registry.example/agent}]}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  serviceName: db
  replicas: 1
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec: {containers: [{name: c, image: registry.example/db}]}
---
apiVersion: v1
kind: Secret
metadata: {name: old-token, annotations: {kubernetes.io/service-account.name: default}}
type: kubernetes.io/service-account-token
"#;

const READY: &str = r#"{"status": {"phase": "Running", "podIP": "10.0.0.1",
  "podIPs": [{"ip": "10.0.0.1"}], "conditions": [{"type": "Ready", "status": "True"}]}}"#;

/// A pod's way from a Deployment to a node and away again, and what a cluster has besides.
pub(crate) fn check(session: &mut Session) -> Result<()> {
    session.start_controllers()?;
    session.until_get("serviceaccount default -o name", "serviceaccount/default")?;
    session.until_get("configmap kube-root-ca.crt -o name", "configmap/kube-root-ca.crt")?;
    node(session)?;
    session.create(WORKLOADS)?;
    scheduled(session)?;
    ready(session)?;
    tokens(session)?;
    deleted(session)
}

fn node(session: &Session) -> Result<()> {
    session.create(NODE)?;
    session.patch_status("node/n1", NODE_STATUS)?;
    // The manager has taken the taint away that a new node carries.
    session.until_get("node n1 -o jsonpath={.spec.taints}", "")
}

/// The manager makes the pods, the scheduler gives each a node.
fn scheduled(session: &Session) -> Result<()> {
    for (app, nodes) in [("web", "n1 n1 n1"), ("once", "n1"), ("agent", "n1"), ("db", "n1")] {
        let words = format!("pods -l app={app} -o jsonpath={{.items[*].spec.nodeName}}");
        session.until_get(&words, nodes)?;
    }
    session.until_get("replicasets -l app=web -o jsonpath={.items[*].spec.replicas}", "3")
}

/// What the kubelet says reaches those who wait for it.
fn ready(session: &Session) -> Result<()> {
    for pod in pods(session, "web")? {
        session.patch_status(&pod, READY)?;
    }
    for pod in pods(session, "once")? {
        session.patch_status(&pod, r#"{"status": {"phase": "Succeeded"}}"#)?;
    }
    session.until_get("deployment web -o jsonpath={.status.availableReplicas}", "3")?;
    let budget = "{.status.currentHealthy}/{.status.desiredHealthy}/{.status.disruptionsAllowed}";
    session.until_get(&format!("pdb web -o jsonpath={budget}"), "3/2/1")?;
    let complete = "{.status.conditions[?(@.type==\"Complete\")].status}/{.status.succeeded}";
    session.until_get(&format!("job once -o jsonpath={complete}"), "True/1")?;
    let endpoints = "{.items[*].endpoints[*].conditions.ready}";
    let slices = "endpointslices -l kubernetes.io/service-name=web";
    session.until_get(&format!("{slices} -o jsonpath={endpoints}"), "true true true")
}

/// A token that the manager signs with the server's key opens the server.
fn tokens(session: &Session) -> Result<()> {
    let words = "secret old-token -o go-template={{.data.token|base64decode}}";
    let token = std::cell::RefCell::new(String::new());
    session.until("the Secret has no token", || {
        let said = session.kubectl(&format!("get {words}"))?;
        ensure!(said.starts_with("ey"), "its token is `{said}`");
        *token.borrow_mut() = said;
        Ok(())
    })?;
    let config = session.dir.join("account.kubeconfig");
    let text = session.kubectl("config view --raw --minify -o json")?;
    let mut config_json: serde_json::Value = serde_json::from_str(&text)?;
    let user = config_json.pointer_mut("/users/0/user").context("no user in the kubeconfig")?;
    *user = serde_json::json!({"token": token.into_inner()});
    std::fs::write(&config, config_json.to_string())?;
    let flag = format!("--kubeconfig={}", config.display());
    let name = session.kubectl(&format!("{flag} auth whoami -o jsonpath={{..username}}"))?;
    ensure!(name == "system:serviceaccount:default:default", "the token is {name}'s");
    Ok(())
}

/// Deletes cascade, and a namespace goes with everything in it.
fn deleted(session: &Session) -> Result<()> {
    session.kubectl("delete deployment web --timeout=60s")?;
    let marked = "pods -l app=web -o go-template={{range.items}}{{if.metadata.deletionTimestamp}}x\
                  {{end}}{{end}}";
    session.until_get(marked, "xxx")?;
    // Only the node may say that its pods have ended.
    session.kubectl("delete pods -l app=web --force --grace-period=0 --timeout=60s")?;
    session.until_get("replicasets -l app=web -o name", "")?;
    session.kubectl("create namespace gone")?;
    session.kubectl("-n gone create configmap m")?;
    session.kubectl("-n gone create deployment d --image=registry.example/d")?;
    session.until_get("-n gone pods -l app=d -o jsonpath={.items[*].spec.nodeName}", "n1")?;
    session.kubectl("delete namespace gone --wait=false")?;
    session.kubectl("-n gone delete pods --all --force --grace-period=0 --timeout=60s")?;
    session.kubectl("wait namespace gone --for=delete --timeout=60s").map(drop)
}

fn pods(session: &Session, app: &str) -> Result<Vec<String>> {
    let names = session.kubectl(&format!("get pods -l app={app} -o name"))?;
    Ok(names.lines().map(str::to_owned).collect())
}
