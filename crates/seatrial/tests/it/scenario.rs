//! `up --scenario`: a training job outlives a broken node and a killed control plane, pools grow or say
//! why not. The site is small; the file is what the large one is.

use std::path::Path;

use serde_json::Value;

use crate::support::{run, seatrial};
use crate::up::Site;

const SMALL: &str = r#"
about: nine ranks on ten nodes
site: {nodes: 10, cpuNodes: 2, racks: 2}
pools:
  train: {instanceType: gd-8xh100ib-i128, tenant: acme, targetNodes: 9, spares: 1}
  services: {instanceType: cd-gp-a192-genoa, tenant: acme, targetNodes: 1, spares: 1}
job:
  apiVersion: batch/v1
  kind: Job
  metadata:
    name: train
    namespace: acme
    annotations: {sim.seatrial.dev/checkpoint-every: 5m}
  spec:
    completionMode: Indexed
    completions: 9
    parallelism: 9
    podReplacementPolicy: Failed
    podFailurePolicy:
      rules: [{action: Ignore, onPodConditions: [{type: DisruptionTarget, status: "True"}]}]
    template:
      metadata: {labels: {fleet.seatrial.dev/treatment: graceful}}
      spec:
        restartPolicy: Never
        nodeSelector: {fleet.seatrial.dev/pool: train}
        containers: [{name: rank, image: train, resources: {limits: {nvidia.com/gpu: 8}}}]
script:
- train: {}
- wait: 10m
- break: {fault: gpu-ecc, where: beside-a-spare}
- grow: {pool: services, by: 1}
- grow: {pool: train, by: 10}
"#;

const PROGRESS: &str = "/api/v1/namespaces/acme/configmaps/train-progress";

/// What the job says of itself.
fn progress(site: &Site) -> Value {
    let text = site.get(PROGRESS)["data"]["progress.json"].clone();
    serde_json::from_str(text.as_str().unwrap()).unwrap()
}

fn scenario(directory: &Path, text: &str) -> String {
    let path = directory.join("small.yaml");
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn a_job_goes_on_from_its_checkpoint_on_the_nearest_spare_though_everything_is_killed() {
    let directory = tempfile::tempdir().unwrap();
    let file = scenario(directory.path(), SMALL);
    let data = directory.path().join("data");
    let mut site = Site::start(&data, &["--scenario", &file, "--listen", "127.0.0.1:0"]);
    // It broke, and nothing was done about it yet.
    let heard = site.until_said(|said| said["name"] == "fault");
    let broken = heard.last().unwrap()["subject"].as_str().unwrap().to_owned();
    site.kill();
    drop(site);

    let mut site = Site::start(&data, &["--until-ready"]);
    let heard = site.until("account");
    let acts: Vec<&Value> = heard.iter().filter(|said| said["event"] == "act").collect();
    let of = |name: &str| acts.iter().find(|act| act["name"] == name).unwrap()["about"].to_string();
    assert!(acts.iter().all(|act| act["name"] != "training"), "it trains still: {acts:?}");
    assert!(of("fault").contains("gpu-ecc"), "{acts:?}");
    assert!(of("training again").contains("(same leaf)"), "{acts:?}");
    assert!(of("grow services").contains("1 more serve"), "{acts:?}");
    assert!(of("grow train").contains("no proven spare for"), "{acts:?}");
    let mut lines = acts.iter().filter_map(|act| act["about"].as_str());
    assert!(lines.all(|about| about.chars().count() <= 60), "{acts:?}");
    let account = heard.last().unwrap()["text"].as_str().unwrap();
    for cause in ["stopped once", "detection", "settling", "reschedule", "redone work"] {
        assert!(account.contains(cause), "{cause}: {account}");
    }
    assert!(account.contains(&format!("took the place of {broken}")), "{account}");
    assert!(account.lines().all(|line| line.chars().count() <= 100), "{account}");
    site.ended();

    // The site is started once more to be asked: the script is over and is not played again.
    let mut site = Site::start(&data, &[]);
    let heard = site.until("account");
    assert!(heard.iter().all(|said| said["event"] != "act"), "{heard:?}");
    let after = progress(&site);
    assert_eq!(after["stopped"], 1);
    assert_eq!(after["stops"][0]["lost"][0]["node"], broken.as_str());
    // It had trained for 10 minutes when it was stopped: a checkpoint every 5.
    assert!(after["kept"].as_f64() >= Some(300.0), "a checkpoint was lost: {after}");
    let kubeconfig = site.kubeconfig();
    let told = seatrial(&["job", "why", "acme/train", "--kubeconfig"]).arg(&kubeconfig).output();
    let told = String::from_utf8(told.unwrap().stdout).unwrap();
    assert!(told.starts_with("acme/train (9 ranks, 72 GPUs) computes: "), "{told}");
    let unknown = seatrial(&["job", "why", "tran", "--kubeconfig"]).arg(&kubeconfig).output();
    let unknown = String::from_utf8(unknown.unwrap().stderr).unwrap();
    assert!(unknown.contains("did you mean \"train\"?"), "{unknown}");
}

#[test]
fn a_scenario_that_cannot_be_is_refused_before_anything_starts() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let data = data.to_str().unwrap();
    let file = scenario(directory.path(), &SMALL.replace("gpu-ecc", "gpu-ec"));
    for (name, says) in [
        ("supercomputr", "did you mean \"supercomputer\"?"),
        (file.as_str(), "script[2].break.fault: "),
        ("/nowhere/to/be.yaml", "cannot use /nowhere/to/be.yaml"),
    ] {
        let refused = run(&["up", "--data-dir", data, "--scenario", name]);
        let error = String::from_utf8(refused.stderr).unwrap();
        assert!(!refused.status.success() && error.contains(says), "{error}");
    }
}
