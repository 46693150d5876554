//! What one object uses up, of which a quota may bound some.
//!
//! Upstream's evaluators as data: pods, services and claims have rules of their own, and of
//! everything else one is one. Not counted here: the devices of resource claims by class.

use serde_json::Value;

use super::super::Object;
use crate::builtin::sum::{self, Quantity, Resources};
use crate::resource::Resource;

/// Resources whose objects were counted by their plain name before there was `count/`.
const BY_NAME: [&str; 4] = ["configmaps", "resourcequotas", "replicationcontrollers", "secrets"];

/// What is never counted: what is not stored, and events.
const UNCOUNTED: [(&str, &str); 3] =
    [("", "bindings"), ("", "events"), ("events.k8s.io", "events")];

/// How objects of a resource are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Counting {
    Pods,
    Services,
    Claims,
    /// One is one.
    Objects,
}

/// How a resource is counted, if it is.
pub(super) fn counting(resource: &Resource) -> Option<Counting> {
    let (group, plural) = (resource.group.as_str(), resource.plural.as_str());
    if !resource.namespaced || UNCOUNTED.contains(&(group, plural)) {
        return None;
    }
    Some(match (group, plural) {
        ("", "pods") => Counting::Pods,
        ("", "services") => Counting::Services,
        ("", "persistentvolumeclaims") => Counting::Claims,
        _ => Counting::Objects,
    })
}

/// The name under which objects of a resource are counted.
fn count_name(resource: &Resource) -> String {
    let group = resource.storage_group();
    match group {
        "" => format!("count/{}", resource.plural),
        group => format!("count/{}.{group}", resource.plural),
    }
}

/// Whether an amount of this name is one that objects of the resource use up.
pub(super) fn bounds(resource: &Resource, counting: Counting, name: &str) -> bool {
    if name == count_name(resource) {
        return true;
    }
    match counting {
        Counting::Pods => {
            let measured = name
                .strip_prefix("requests.")
                .or_else(|| name.strip_prefix("limits."))
                .unwrap_or(name);
            let pages = name.strip_prefix("requests.").unwrap_or(name).starts_with("hugepages-");
            name == "pods"
                || matches!(measured, "cpu" | "memory" | "ephemeral-storage")
                || pages
                || is_extended(name)
        }
        Counting::Services => {
            matches!(name, "services" | "services.nodeports" | "services.loadbalancers")
        }
        Counting::Claims => {
            let of_class = name.split_once(CLASS).map_or(name, |(_, name)| name);
            matches!(of_class, "persistentvolumeclaims" | "requests.storage")
        }
        Counting::Objects => {
            resource.group.is_empty() && name == resource.plural && BY_NAME.contains(&name)
        }
    }
}

/// Between a storage class and what is counted of its claims.
const CLASS: &str = ".storageclass.storage.k8s.io/";

/// Whether this bounds requests for what a plugin of the kubelet brings, such as GPUs.
fn is_extended(name: &str) -> bool {
    let native = !name.contains('/') || name.contains("kubernetes.io/");
    let native = native && !name.starts_with("requests.deviceclass.resource.kubernetes.io/");
    !native && name.starts_with("requests.")
}

/// What an object uses up.
pub(super) fn usage(resource: &Resource, counting: Counting, object: &Object) -> Resources {
    let mut used = Resources::from([(count_name(resource), Quantity::count(1))]);
    let null = Value::Null;
    let part = |name: &str| object.get(name).unwrap_or(&null);
    let (spec, status) = (part("spec"), part("status"));
    match counting {
        Counting::Pods => {
            if !matches!(status["phase"].as_str(), Some("Succeeded" | "Failed")) {
                used.extend(pod(spec));
            }
        }
        Counting::Services => used.extend(service(spec)),
        Counting::Claims => used.extend(claim(object, spec, status)),
        Counting::Objects => {
            if resource.group.is_empty() && BY_NAME.contains(&resource.plural.as_str()) {
                used.insert(resource.plural.clone(), Quantity::count(1));
            }
        }
    }
    used
}

fn pod(spec: &Value) -> Resources {
    let requests = super::super::admission::with_overhead(spec, "requests");
    let limits = super::super::admission::with_overhead(spec, "limits");
    let mut used = measured(&requests, &limits);
    used.insert("pods".to_owned(), Quantity::count(1));
    used
}

/// What requests and limits come to, by the names that quotas have for it.
pub(super) fn measured(requests: &Resources, limits: &Resources) -> Resources {
    let mut used = Resources::new();
    for (name, amount) in requests {
        let plain = matches!(name.as_str(), "cpu" | "memory" | "ephemeral-storage")
            || name.starts_with("hugepages-");
        if plain {
            used.insert(name.clone(), *amount);
        }
        let asked = format!("requests.{name}");
        if plain || is_extended(&asked) {
            used.insert(asked, *amount);
        }
    }
    for (name, amount) in limits {
        if matches!(name.as_str(), "cpu" | "memory" | "ephemeral-storage") {
            used.insert(format!("limits.{name}"), *amount);
        }
    }
    used
}

fn service(spec: &Value) -> Resources {
    let ports = spec["ports"].as_array().map_or(&[][..], Vec::as_slice);
    let all = ports.len();
    let (balancers, nodes) = match spec["type"].as_str() {
        Some("NodePort") => (0, all),
        // Ports that nobody names are given only where that is asked for.
        Some("LoadBalancer") if spec["allocateLoadBalancerNodePorts"] == false => {
            (1, ports.iter().filter(|p| p["nodePort"].as_i64().unwrap_or(0) != 0).count())
        }
        Some("LoadBalancer") => (1, all),
        _ => (0, 0),
    };
    Resources::from([
        ("services".to_owned(), Quantity::count(1)),
        ("services.loadbalancers".to_owned(), Quantity::count(balancers)),
        ("services.nodeports".to_owned(), Quantity::count(nodes)),
    ])
}

fn claim(object: &Object, spec: &Value, status: &Value) -> Resources {
    let asked = spec["resources"]["requests"]["storage"].as_str().map(Quantity::read);
    let given = status["allocatedResources"]["storage"].as_str().map(Quantity::read);
    let storage = asked.map(|asked| given.filter(|given| *given > asked).unwrap_or(asked));
    let mut used = Resources::from([("persistentvolumeclaims".to_owned(), Quantity::count(1))]);
    if let Some(storage) = storage {
        used.insert("requests.storage".to_owned(), storage.rounded_up());
    }
    let old_name = object
        .get("metadata")
        .and_then(|m| m["annotations"]["volume.beta.kubernetes.io/storage-class"].as_str());
    let class = old_name.or(spec["storageClassName"].as_str()).unwrap_or_default();
    if !class.is_empty() {
        let of_class: Vec<(String, Quantity)> =
            used.iter().map(|(name, amount)| (format!("{class}{CLASS}{name}"), *amount)).collect();
        used.extend(of_class);
    }
    used
}

/// Why a pod cannot be counted: containers that do not say what a quota bounds.
pub(super) fn unsaid(bounded: &[&str], spec: &Value) -> Option<String> {
    const MUST: [&str; 6] =
        ["cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"];
    let whole = |side: &str| spec["resources"][side].as_object().is_some_and(|m| !m.is_empty());
    if whole("requests") || whole("limits") {
        return None;
    }
    let containers = ["containers", "initContainers"].into_iter();
    let containers: Vec<(&str, Resources)> = containers
        .filter_map(|field| spec[field].as_array())
        .flatten()
        .map(|container| {
            let side = |side: &str| sum::resources(&container["resources"][side]);
            let said = measured(&side("requests"), &side("limits"));
            (container["name"].as_str().unwrap_or_default(), said)
        })
        .collect();
    let mut missing = Vec::new();
    let mut must: Vec<&str> = MUST.into_iter().filter(|name| bounded.contains(name)).collect();
    must.sort_unstable();
    for name in must {
        let silent = containers.iter().filter(|(_, said)| !said.contains_key(name));
        let mut silent: Vec<&str> = silent.map(|(container, _)| *container).collect();
        silent.sort_unstable();
        if !silent.is_empty() {
            missing.push(format!("{name} for: {}", silent.join(",")));
        }
    }
    (!missing.is_empty()).then(|| format!("must specify {}", missing.join("; ")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(used: &Resources, want: Value) {
        assert_eq!(sum::written(used), want);
    }

    #[test]
    fn pods_use_what_they_ask_for_and_are_held_to() {
        let spec = json!({"containers": [{"name": "c", "resources": {
            "requests": {"cpu": "1", "nvidia.com/gpu": "8", "hugepages-2Mi": "4Mi"},
            "limits": {"cpu": "2", "nvidia.com/gpu": "8"},
        }}]});
        check(
            &pod(&spec),
            json!({
                "pods": "1", "cpu": "1", "requests.cpu": "1", "limits.cpu": "2",
                "requests.nvidia.com/gpu": "8", "hugepages-2Mi": "4Mi",
                "requests.hugepages-2Mi": "4Mi",
            }),
        );
        assert_eq!(unsaid(&["cpu", "pods"], &spec), None);
        let why = unsaid(&["limits.cpu", "memory"], &spec);
        assert_eq!(why.as_deref(), Some("must specify memory for: c"));
    }

    #[test]
    fn services_use_ports_by_their_type() {
        let of = |spec: Value| service(&spec)["services.nodeports"].to_string();
        let ports = json!([{"port": 1, "nodePort": 30000}, {"port": 2}]);
        assert_eq!(of(json!({"type": "ClusterIP", "ports": ports})), "0");
        assert_eq!(of(json!({"type": "NodePort", "ports": ports})), "2");
        let quiet =
            json!({"type": "LoadBalancer", "ports": ports, "allocateLoadBalancerNodePorts": false});
        assert_eq!(of(quiet), "1");
    }

    #[test]
    fn claims_use_storage_also_of_their_class() {
        let object = Object::new();
        let spec =
            json!({"storageClassName": "gold", "resources": {"requests": {"storage": "1Gi"}}});
        let status = json!({"allocatedResources": {"storage": "2Gi"}});
        check(
            &claim(&object, &spec, &status),
            json!({
                "persistentvolumeclaims": "1", "requests.storage": "2Gi",
                "gold.storageclass.storage.k8s.io/persistentvolumeclaims": "1",
                "gold.storageclass.storage.k8s.io/requests.storage": "2Gi",
            }),
        );
    }
}
