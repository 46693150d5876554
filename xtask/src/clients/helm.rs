//! Helm: a chart with a definition and hooks is installed, upgraded, rolled back and removed.

use std::path::Path;

use anyhow::{Context, Result, ensure};

use super::session::{Session, output};
use crate::tool;
use crate::upstream::{self, Part};

const HELM: Part = Part { module: "helm", program: "helm", package: "helm.sh/helm/v3/cmd/helm" };

/// The chart, beside this file.
const CHART: &str = "xtask/src/clients/chart";

/// A release's whole life.
pub(crate) fn check(session: &mut Session) -> Result<()> {
    let helm = upstream::part(&HELM)?;
    let chart = tool::root().join(CHART);
    let chart = chart.to_str().context("the path of the chart is no UTF-8")?;
    session.until_get("serviceaccount default -o name", "serviceaccount/default")?;
    type_(session, &helm, &["install", "r", chart, "--wait", "--timeout=60s"])?;
    expect(session, "4", "1")?;
    type_(session, &helm, &["upgrade", "r", chart, "--set=servers=8", "--wait"])?;
    expect(session, "8", "2")?;
    let refused = type_(session, &helm, &["upgrade", "r", chart, "--set=servers=65"]);
    ensure!(refused.is_err(), "a Rack of 65 servers was accepted");
    type_(session, &helm, &["rollback", "r", "1", "--wait"])?;
    // The hook of a rollback is that of the revision that it goes back to.
    expect(session, "4", "1")?;
    let history = type_(session, &helm, &["history", "r", "-o", "json"])?;
    let history: serde_json::Value = serde_json::from_str(&history)?;
    let states: Vec<_> = history
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|each| each["status"].as_str())
        .collect();
    let expected = ["superseded", "superseded", "failed", "deployed"];
    ensure!(states == expected, "the releases are {states:?}");
    type_(session, &helm, &["uninstall", "r", "--wait"])?;
    session.until_get("racks,configmaps -l app.kubernetes.io/managed-by=Helm -o name", "")?;
    // Definitions stay, as Helm means it.
    session.until_get(
        "crd racks.helm.test -o name",
        "customresourcedefinition.apiextensions.k8s.io/racks.helm.test",
    )
}

fn expect(session: &Session, servers: &str, hook: &str) -> Result<()> {
    session.until_get("rack r -o jsonpath={.spec.servers}", servers)?;
    session.until_get("configmap r -o jsonpath={.data.servers}", servers)?;
    session.until_get("configmap r-hook -o jsonpath={.data.revision}", hook)
}

fn type_(session: &Session, helm: &Path, words: &[&str]) -> Result<String> {
    output(session.command(helm).args(words))
}
