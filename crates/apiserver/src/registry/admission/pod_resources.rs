//! What a pod asks for as a whole, and what it is held to.

use serde_json::Value;

use crate::builtin::sum::{self, Resources};

/// What a pod may ask for as a whole, instead of its containers.
const OF_PODS: [&str; 2] = ["cpu", "memory"];

/// The sum over a pod's containers of their `requests` or `limits`. Containers that run before the
/// others count where they need more than those, sidecars among them as the others do.
pub(super) fn of_containers(spec: &Value, side: &str) -> Resources {
    let of = |container: &Value| sum::resources(&container["resources"][side]);
    let containers = |field: &str| spec[field].as_array().map_or(&[][..], Vec::as_slice);
    let mut total = Resources::new();
    for container in containers("containers") {
        sum::add(&mut total, &of(container));
    }
    let (mut sidecars, mut before) = (Resources::new(), Resources::new());
    for container in containers("initContainers") {
        let mut own = of(container);
        if container["restartPolicy"] == "Always" {
            sum::add(&mut total, &own);
            sum::add(&mut sidecars, &own);
            own = sidecars.clone();
        } else {
            sum::add(&mut own, &sidecars);
        }
        sum::raise(&mut before, &own);
    }
    sum::raise(&mut total, &before);
    let own = sum::resources(&spec["resources"][side]);
    total.extend(own.into_iter().filter(|(name, _)| OF_PODS.contains(&name.as_str())));
    total
}

/// The same with what running the pod costs by itself.
pub(in crate::registry) fn with_overhead(spec: &Value, side: &str) -> Resources {
    let mut total = of_containers(spec, side);
    let mut overhead = sum::resources(&spec["overhead"]);
    if side == "limits" {
        overhead.retain(|name, _| total.contains_key(name));
    }
    sum::add(&mut total, &overhead);
    total
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn containers_that_run_before_count_where_they_need_more() {
        let asks = |cpu: &str| json!({"resources": {"requests": {"cpu": cpu}}});
        let mut sidecar = asks("1");
        sidecar["restartPolicy"] = "Always".into();
        let mut spec = json!({
            "containers": [asks("1"), asks("500m")],
            "initContainers": [sidecar, asks("4")],
        });
        let cpu = |spec: &Value| of_containers(spec, "requests")["cpu"].to_string();
        assert_eq!(cpu(&spec), "5");
        spec["initContainers"] = json!([spec["initContainers"][0]]);
        assert_eq!(cpu(&spec), "2500m");
        spec["resources"] = json!({"requests": {"cpu": "9"}});
        assert_eq!(cpu(&spec), "9");
        spec["overhead"] = json!({"cpu": "1", "memory": "1Gi"});
        assert_eq!(with_overhead(&spec, "requests")["cpu"].to_string(), "10");
        assert!(with_overhead(&spec, "limits").is_empty());
    }
}
