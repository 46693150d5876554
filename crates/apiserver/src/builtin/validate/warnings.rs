//! What clients are warned of though it is allowed: settings without effect, or hidden ones.

use std::collections::BTreeSet;

use serde_json::Value;

use super::amount;
use super::place::At;
use crate::schema::print;

/// Where a kind keeps the template of its pods.
const TEMPLATES: &[(&str, &str, &[&str])] = &[
    ("", "replicationcontrollers", &["spec", "template"]),
    ("apps", "daemonsets", &["spec", "template"]),
    ("apps", "deployments", &["spec", "template"]),
    ("apps", "replicasets", &["spec", "template"]),
    ("apps", "statefulsets", &["spec", "template"]),
    ("batch", "cronjobs", &["spec", "jobTemplate", "spec", "template"]),
    ("batch", "jobs", &["spec", "template"]),
];

/// The warnings for an object that is written; an update is warned of where it changed the spec.
pub(super) fn of(group: &str, resource: &str, old: Option<&Value>, new: &Value) -> Vec<String> {
    let root = At::root(new);
    if old.is_some_and(|old| old["spec"] == new["spec"]) {
        return Vec::new();
    }
    let mut warnings = Vec::new();
    match (group, resource) {
        ("", "resourcequotas") if old.is_none() => {
            warnings = super::quota::warnings(&root.field("spec"));
        }
        ("", "services") => service(&root.field("spec"), &mut warnings),
        ("", "pods") => pod(&root.field("spec"), &mut warnings),
        _ => {
            let found = TEMPLATES.iter().find(|(g, r, _)| (*g, *r) == (group, resource));
            if let Some((.., path)) = found {
                below(&root, path, &mut warnings);
            }
        }
    }
    warnings
}

fn below(at: &At<'_>, path: &[&str], warnings: &mut Vec<String>) {
    match path.split_first() {
        Some((step, rest)) => below(&at.field(step), rest, warnings),
        None => pod(&at.field("spec"), warnings),
    }
}

fn service(spec: &At<'_>, warnings: &mut Vec<String>) {
    let external = !spec.list("externalIPs").is_empty();
    let headless = spec.list("clusterIPs").first().is_some_and(|ip| ip == "None");
    let mut warn = |wrong: bool, text: &str| {
        if wrong {
            warnings.push(text.to_owned());
        }
    };
    let balancer = !spec.text("loadBalancerIP").is_empty();
    warn(headless && balancer, "spec.loadBalancerIP is ignored for headless services");
    warn(headless && external, "spec.externalIPs is ignored for headless services");
    warn(
        headless && spec.text("sessionAffinity") != "None",
        "spec.SessionAffinity is ignored for headless services",
    );
    let by_name = spec.text("type") == "ExternalName";
    warn(by_name && external, "spec.externalIPs is ignored when spec.type is \"ExternalName\"");
    warn(
        !by_name && !spec.text("externalName").is_empty(),
        "spec.externalName is ignored when spec.type is not \"ExternalName\"",
    );
    warn(
        spec.text("trafficDistribution") == "PreferClose",
        "spec.trafficDistribution: \"PreferClose\" is deprecated; use \"PreferSameZone\"",
    );
}

fn pod(spec: &At<'_>, warnings: &mut Vec<String>) {
    for list in ["initContainers", "containers"] {
        for container in spec.field(list).items() {
            fractions(&container, warnings);
            hidden_variables(&container, warnings);
        }
    }
    if spec.int("terminationGracePeriodSeconds").is_some_and(|seconds| seconds < 0) {
        let at = spec.field("terminationGracePeriodSeconds").path();
        let why = "must be >= 0; negative values are invalid and will be treated as 1";
        warnings.push(format!("{at}: {why}"));
    }
}

/// Bytes are whole.
fn fractions(container: &At<'_>, warnings: &mut Vec<String>) {
    let resources = container.field("resources");
    for name in ["memory", "ephemeral-storage"] {
        for side in ["limits", "requests"] {
            let amounts = resources.field(side);
            let text = amounts.text(name);
            if amount::nanos(text) % 1_000_000_000 != 0 {
                let (at, shown) = (amounts.key(name).path(), print::quote(text));
                let why = "is invalid, must be an integer";
                warnings.push(format!("{at}: fractional byte value {shown} {why}"));
            }
        }
    }
}

fn hidden_variables(container: &At<'_>, warnings: &mut Vec<String>) {
    let mut seen = BTreeSet::new();
    for variable in container.field("env").items() {
        let name = variable.text("name").to_owned();
        let reference = format!("$({name})");
        let value = variable.text("value");
        let extends =
            !variable.has("valueFrom") && value != reference && value.contains(&reference);
        let shown = print::quote(&name);
        if !seen.insert(name) && !extends {
            let why = "which may be dropped when using apply";
            warnings
                .push(format!("{}: hides previous definition of {shown}, {why}", variable.path()));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_hidden_or_ignored_is_told() {
        let pod = json!({"spec": {"containers": [{"env": [{"name": "A"}, {"name": "A"}],
            "resources": {"limits": {"memory": "1500m"}}}]}});
        assert_eq!(
            of("", "pods", None, &pod),
            [
                "spec.containers[0].resources.limits[memory]: fractional byte value \"1500m\" is invalid, must be an integer",
                "spec.containers[0].env[1]: hides previous definition of \"A\", which may be dropped when using apply",
            ]
        );
        assert!(of("", "pods", Some(&pod), &pod).is_empty());
        let service = json!({"spec": {"type": "ClusterIP", "externalName": "a"}});
        assert_eq!(of("", "services", None, &service).len(), 1);
    }
}
