//! kwok's fake nodes beside upstream's controllers: pods that run and end by themselves.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::session::{Session, output};
use crate::upstream::{self, Part};

const KWOK: Part = Part { module: "kwok", program: "kwok", package: "sigs.k8s.io/kwok/cmd/kwok" };

/// kwok refuses to start without these.
const CONFIG: &str = "\
apiVersion: config.kwok.x-k8s.io/v1alpha1
kind: KwokConfiguration
options: {nodeLeaseParallelism: 4, nodePlayStageParallelism: 4, podPlayStageParallelism: 4}
";

/// What kwok's nodes and pods do, in its module.
const STAGES: &[&str] = &["node/fast", "node/heartbeat-with-lease", "pod/fast"];

const NODES: u32 = 4;

const WORKLOADS: &str = r#"
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 20
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: c, image: registry.example/web}]}
---
apiVersion: batch/v1
kind: Job
metadata: {name: sum}
spec:
  completions: 6
  parallelism: 3
  template:
    spec: {restartPolicy: Never, containers: [{name: c, image: registry.example/sum}]}
"#;

/// Twenty pods run, a Job completes, and all go when their owner goes.
pub(crate) fn check(session: &mut Session) -> Result<()> {
    session.start_controllers()?;
    let kwok = upstream::part(&KWOK)?;
    let config = session.dir.join("kwok.yaml");
    fs::write(&config, stages()?)?;
    let flags = [
        format!("--kubeconfig={}", session.kubeconfig.display()),
        format!("--config={}", config.display()),
        "--manage-all-nodes=true".to_owned(),
        "--node-lease-duration-seconds=40".to_owned(),
    ];
    session.spawn("kwok", &kwok, &flags)?;
    session.until_get("serviceaccount default -o name", "serviceaccount/default")?;
    let mut nodes = String::new();
    for index in 0..NODES {
        write!(
            nodes,
            "---\n{{apiVersion: v1, kind: Node, metadata: {{name: fake-{index}, labels: \
             {{kubernetes.io/os: linux}}}}, status: {{allocatable: {{cpu: 32, memory: 256Gi, pods: \
             110}}, capacity: {{cpu: 32, memory: 256Gi, pods: 110}}}}}}\n"
        )?;
    }
    session.create(&nodes)?;
    session.kubectl("wait nodes --all --for=condition=Ready --timeout=90s")?;
    session.create(WORKLOADS)?;
    session.kubectl("rollout status deployment/web --timeout=90s")?;
    session.kubectl("wait job/sum --for=condition=Complete --timeout=90s")?;
    let phases = "{.items[*].status.phase}";
    session
        .until_get(&format!("pods -l app=web -o jsonpath={phases}"), &["Running"; 20].join(" "))?;
    session.until_get("job sum -o jsonpath={.status.succeeded}", "6")?;
    session.kubectl("set image deployment/web c=registry.example/web:2")?;
    session.kubectl("rollout status deployment/web --timeout=90s")?;
    session.kubectl("delete deployment/web job/sum --cascade=foreground --timeout=90s")?;
    session.until_get("pods -o name", "")
}

/// The configuration and the stages that come with kwok, as one file.
fn stages() -> Result<String> {
    let mut text = CONFIG.to_owned();
    let module = module()?;
    for stage in STAGES {
        let dir = module.join("kustomize/stage").join(stage);
        let entries = fs::read_dir(&dir).with_context(|| format!("cannot read {dir:?}"))?;
        let mut files = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<PathBuf>>>()?;
        files.sort();
        for file in files.iter().filter(|file| is_stage(file)) {
            text.push_str("\n---\n");
            text.push_str(&fs::read_to_string(file)?);
        }
    }
    Ok(text)
}

fn is_stage(file: &Path) -> bool {
    let name = file.file_name().unwrap_or_default();
    name != "kustomization.yaml" && file.extension().is_some_and(|extension| extension == "yaml")
}

/// Where Go keeps kwok's sources; fetched if they are not there.
fn module() -> Result<PathBuf> {
    let mut download = Command::new("go");
    download.args(["mod", "download", "-json", "sigs.k8s.io/kwok"]);
    download.current_dir(upstream::workspace().join("tools/kwok"));
    let said: serde_json::Value = serde_json::from_str(&output(&mut download)?)?;
    let dir = said["Dir"].as_str().context("go mod download names no directory")?;
    Ok(PathBuf::from(dir))
}
