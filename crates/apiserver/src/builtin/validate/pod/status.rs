//! What a kubelet may say about a pod.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::super::form;
use super::super::place::{At, Errors};
use super::metadata;
use crate::schema::names;

/// A write to a pod's status.
pub(in super::super) fn status(old: &Value, at: &At<'_>, errors: &mut Errors) {
    let annotations = at.field("metadata");
    let annotations = annotations.field("annotations");
    metadata::kept(&old["metadata"]["annotations"], &annotations, errors);
    metadata::pod_annotations(&annotations, &at.field("spec"), errors);
    let (status, before) = (at.field("status"), &old["status"]);
    conditions(&status.field("conditions"), errors);
    nominated(old, &status, errors);
    if status.int("observedGeneration").is_some_and(|n| n < 0) {
        status.field("observedGeneration").invalid(errors, "must be a non-negative integer");
    }
    if status.get("qosClass") != &before["qosClass"] {
        let shown = status.text("qosClass");
        status.field("qosClass").invalid_value(errors, shown, "field is immutable");
    }
    for list in ["containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"] {
        transitions(&old["spec"], &before[list], &status, list, errors);
    }
    addresses(&status, before, "podIPs", errors);
    let host = status.field("hostIPs");
    if let Some(first) = status.list("hostIPs").first().and_then(|one| one["ip"].as_str())
        && first != status.text("hostIP")
    {
        let first_at = host.index(0);
        first_at.field("ip").invalid(errors, "must be equal to `hostIP`");
    }
    addresses(&status, before, "hostIPs", errors);
}

fn conditions(at: &At<'_>, errors: &mut Errors) {
    for one in at.items() {
        if one.int("observedGeneration").is_some_and(|n| n < 0) {
            one.field("observedGeneration").invalid(errors, "must be a non-negative integer");
        }
        let kind = one.text("type");
        if !["PodScheduled", "Ready", "Initialized"].contains(&kind) {
            for why in names::qualified(kind) {
                one.with("Type", &Value::Null).invalid_value(errors, kind, why);
            }
        }
    }
}

fn nominated(old: &Value, status: &At<'_>, errors: &mut Errors) {
    let (name, here) = (status.text("nominatedNodeName"), status.field("nominatedNodeName"));
    if name.is_empty() || old["status"]["nominatedNodeName"] == name {
        return;
    }
    here.must_be(errors, names::subdomain);
    if old["spec"]["nodeName"].as_str().is_some_and(|node| !node.is_empty()) {
        here.forbidden(errors, "may not be set on pods that are already bound to a node");
    }
}

/// What has ended for good does not run again.
fn transitions(spec: &Value, old: &Value, status: &At<'_>, list: &str, errors: &mut Errors) {
    const WHY: &str = "may not be transitioned to non-terminated state";
    let here = status.field(list);
    let restart = spec["restartPolicy"].as_str().unwrap_or_default();
    let named = |items: Option<&'_ Vec<Value>>| -> BTreeMap<String, Value> {
        let items = items.into_iter().flatten();
        items.filter_map(|one| Some((one["name"].as_str()?.to_owned(), one.clone()))).collect()
    };
    let running = status.list(list).iter().filter(|new| new["state"]["terminated"].is_null());
    let running: BTreeSet<&str> = running.filter_map(|new| new["name"].as_str()).collect();
    let containers = match list {
        "containerStatuses" => named(spec["containers"].as_array()),
        "initContainerStatuses" => named(spec["initContainers"].as_array()),
        _ => BTreeMap::new(),
    };
    for (n, before) in old.as_array().into_iter().flatten().enumerate() {
        let ended = &before["state"]["terminated"];
        let name = before["name"].as_str().unwrap_or_default();
        if ended.is_null() || !running.contains(name) {
            continue;
        }
        let code = ended["exitCode"].as_i64().unwrap_or(0);
        if !containers.get(name).is_some_and(|one| may_run_again(one, restart, code)) {
            let place = here.index(n);
            place.field("state").forbidden(errors, WHY);
        }
    }
}

/// Whether a container that ended with this code is started again.
fn may_run_again(container: &Value, restart: &str, code: i64) -> bool {
    for rule in container["restartPolicyRules"].as_array().into_iter().flatten() {
        let codes = rule["exitCodes"]["values"].as_array();
        let among = codes.into_iter().flatten().any(|one| one.as_i64() == Some(code));
        let applies = if rule["exitCodes"]["operator"] == "In" { among } else { !among };
        if applies && rule["action"] == "Restart" {
            return true;
        }
    }
    match container["restartPolicy"].as_str().unwrap_or(restart) {
        "Always" => true,
        "OnFailure" => code != 0,
        _ => false,
    }
}

/// One address of each family at most.
fn addresses(status: &At<'_>, before: &Value, list: &str, errors: &mut Errors) {
    let here = status.field(list);
    let had = before[list].as_array().into_iter().flatten();
    let had: BTreeSet<&str> = had.filter_map(|one| one["ip"].as_str()).collect();
    for (one, at) in status.list(list).iter().zip(here.items()) {
        let ip = one["ip"].as_str().unwrap_or_default();
        if !had.contains(ip) {
            for why in form::address(ip) {
                at.invalid_value(errors, ip, why);
            }
        }
    }
    let parsed: Vec<_> =
        status.list(list).iter().filter_map(|one| form::address_of(one["ip"].as_str()?)).collect();
    let both = parsed.iter().any(|ip| ip.is_ipv4()) && parsed.iter().any(|ip| ip.is_ipv6());
    if status.list(list).len() > 1 && (!both || status.list(list).len() > 2) {
        let shown = status.list(list).iter().map(|one| format!("{{\"IP\":{}}}", one["ip"]));
        let shown = format!("[{}]", shown.collect::<Vec<_>>().join(","));
        here.invalid_as(errors, &shown, "may specify no more than one IP for each IP family");
    }
}
