//! What the server decides about a few built-in kinds when they are born or change, beyond shape
//! and defaults: pods get a phase, a quality of service and a priority, jobs the labels that tie
//! their pods to them, nodes the taint that keeps pods off until they are ready, volumes a phase,
//! requests for certificates the name of who made them. Addresses of services are not given out.

use serde_json::{Map, Value, json};

use super::Object;
use super::metadata::{meta, meta_mut, text};
use crate::auth::User;

/// A pod begins as Pending, in the class that its requests put it in.
pub(super) fn pod(object: &mut Object) {
    let class = quality_of_service(object);
    object.insert("status".to_owned(), json!({"phase": "Pending", "qosClass": class}));
    if let Some(Value::Object(spec)) = object.get_mut("spec") {
        // What a cluster without a default PriorityClass gives to pods that name none.
        spec.entry("priority").or_insert_with(|| 0.into());
        spec.entry("preemptionPolicy").or_insert_with(|| "PreemptLowerPriority".into());
        tolerate_outages(spec);
    }
}

/// A pod that says nothing about it stays five minutes on a node that is out of reach.
fn tolerate_outages(spec: &mut Object) {
    const SECONDS: u32 = 300;
    let mut tolerations =
        spec.get("tolerations").and_then(Value::as_array).cloned().unwrap_or_default();
    for key in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        let covers = |toleration: &Value| {
            let any_key = toleration["key"].as_str().unwrap_or_default().is_empty();
            let any_effect = toleration["effect"].as_str().unwrap_or_default().is_empty();
            (any_key || toleration["key"] == key)
                && (any_effect || toleration["effect"] == "NoExecute")
        };
        if !tolerations.iter().any(covers) {
            tolerations.push(json!({
                "key": key, "operator": "Exists", "effect": "NoExecute",
                "tolerationSeconds": SECONDS,
            }));
        }
    }
    spec.insert("tolerations".to_owned(), tolerations.into());
}

/// Guaranteed if every container's cpu and memory are limited and requested alike, BestEffort if
/// nobody asks for anything, Burstable otherwise.
fn quality_of_service(pod: &Object) -> &'static str {
    const COUNTED: [&str; 2] = ["cpu", "memory"];
    let spec = pod.get("spec");
    let containers: Vec<&Value> = ["containers", "initContainers"]
        .iter()
        .filter_map(|field| spec?.get(*field)?.as_array())
        .flatten()
        .collect();
    let amount = |container: &Value, side: &str, name: &str| -> Option<String> {
        let amount = container.get("resources")?.get(side)?.get(name)?.as_str()?;
        (amount != "0").then(|| amount.to_owned())
    };
    let any = |side: &str| {
        containers.iter().any(|c| COUNTED.iter().any(|name| amount(c, side, name).is_some()))
    };
    if !any("requests") && !any("limits") {
        return "BestEffort";
    }
    let guaranteed = containers.iter().all(|c| {
        COUNTED.iter().all(|name| {
            let limit = amount(c, "limits", name);
            limit.is_some() && limit == amount(c, "requests", name)
        })
    });
    if guaranteed { "Guaranteed" } else { "Burstable" }
}

/// No pod is to run on a node that has not said it is ready.
pub(super) fn node(object: &mut Object) {
    const NOT_READY: &str = "node.kubernetes.io/not-ready";
    let spec = object.entry("spec").or_insert_with(|| json!({}));
    let there = spec["taints"].as_array().into_iter().flatten().any(|t| t["key"] == NOT_READY);
    if !there && spec.is_object() {
        let mut taints = spec["taints"].as_array().cloned().unwrap_or_default();
        taints.push(json!({"key": NOT_READY, "effect": "NoSchedule"}));
        spec["taints"] = taints.into();
    }
}

/// A request for a certificate says who made it.
pub(super) fn certificate_request(object: &mut Object, user: &User) {
    let Some(Value::Object(spec)) = object.get_mut("spec") else { return };
    let who = json!({
        "username": user.name, "uid": user.uid, "groups": user.groups, "extra": user.extra,
    });
    let Value::Object(who) = who else { return };
    for (field, value) in who {
        let empty = value.as_str().is_some_and(str::is_empty)
            || value.as_array().is_some_and(Vec::is_empty)
            || value.as_object().is_some_and(Map::is_empty);
        if empty {
            spec.remove(&field);
        } else {
            spec.insert(field, value);
        }
    }
}

/// A service without an address of its own says of which families its pods' addresses are: of both
/// where it selects no pods.
pub(super) fn headless(object: &mut Object) {
    let Some(Value::Object(spec)) = object.get_mut("spec") else { return };
    if text(spec, "clusterIP") != "None" || text(spec, "type") == "ExternalName" {
        return;
    }
    let selects = spec.get("selector").and_then(Value::as_object).is_some_and(|s| !s.is_empty());
    let policy = if selects { "SingleStack" } else { "RequireDualStack" };
    let policy = spec.entry("ipFamilyPolicy").or_insert_with(|| policy.into()).clone();
    let families = spec.entry("ipFamilies").or_insert_with(|| json!(["IPv4"]));
    if let Value::Array(families) = families
        && families.len() == 1
        && !selects
        && policy != "SingleStack"
    {
        families.push(if families[0] == "IPv4" { "IPv6" } else { "IPv4" }.into());
    }
    spec.entry("clusterIPs").or_insert_with(|| json!(["None"]));
}

/// A volume waits for somebody to look after it, since it was made.
pub(super) fn volume(object: &mut Object) {
    let created = meta(object).get("creationTimestamp").cloned().unwrap_or_default();
    let status = json!({"phase": "Pending", "lastPhaseTransitionTime": created});
    object.insert("status".to_owned(), status);
}

/// A job's pods are found by labels that no other job has; the job's UID makes them so. A job with
/// `manualSelector` brings its own.
pub(super) fn job(object: &mut Object) {
    let (name, uid) = (text(meta(object), "name").to_owned(), text(meta(object), "uid").to_owned());
    let labels = [
        ("batch.kubernetes.io/controller-uid", &uid),
        ("batch.kubernetes.io/job-name", &name),
        ("controller-uid", &uid),
        ("job-name", &name),
    ];
    let own = meta(object).get("labels").cloned();
    let Some(Value::Object(spec)) = object.get_mut("spec") else { return };
    if spec.get("manualSelector") == Some(&Value::Bool(true)) {
        return;
    }
    let selector = spec.entry("selector").or_insert_with(|| json!({}));
    if selector.is_null() {
        *selector = json!({});
    }
    selector["matchLabels"]["batch.kubernetes.io/controller-uid"] = uid.clone().into();
    let template = spec.entry("template").or_insert_with(|| json!({}));
    let Some(template) = template.as_object_mut() else { return };
    let template = meta_mut(template).entry("labels").or_insert_with(|| json!({}));
    // A job that brings no labels of its own has those of its template, these included.
    let shared = own.is_none_or(|own| own == json!({}) || own == *template);
    for (label, value) in labels {
        template[label] = value.clone().into();
    }
    let labels = template.clone();
    if shared {
        meta_mut(object).insert("labels".to_owned(), labels);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(resources: Value, want: &str) {
        let mut pod_ = json!({"spec": {"containers": [{"resources": resources}]}});
        let object = pod_.as_object_mut().unwrap();
        pod(object);
        assert_eq!(pod_["status"]["qosClass"], want, "{resources}");
        assert_eq!(pod_["spec"]["priority"], 0);
    }

    #[test]
    fn pods_are_classed_by_what_they_ask_for() {
        let both = json!({"cpu": "1", "memory": "1Gi"});
        check(json!({}), "BestEffort");
        check(json!({"requests": {"cpu": "1"}}), "Burstable");
        check(json!({"requests": both, "limits": both}), "Guaranteed");
        check(
            json!({"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "1"}}),
            "Burstable",
        );
    }

    #[test]
    fn outages_are_tolerated_unless_the_pod_says_otherwise() {
        let tolerated = |given: Value| {
            let mut spec = Object::new();
            spec.insert("tolerations".to_owned(), given);
            tolerate_outages(&mut spec);
            spec["tolerations"].as_array().map_or(0, Vec::len)
        };
        assert_eq!(tolerated(json!([])), 2);
        assert_eq!(tolerated(json!([{"operator": "Exists"}])), 1);
        assert_eq!(tolerated(json!([{"key": "node.kubernetes.io/unreachable"}])), 2);
        assert_eq!(tolerated(json!([{"key": "other", "effect": "NoSchedule"}])), 3);
    }

    #[test]
    fn headless_services_name_their_families() {
        let families = |spec: Value| {
            let mut service = json!({"spec": spec});
            headless(service.as_object_mut().unwrap());
            (service["spec"]["ipFamilies"].clone(), service["spec"]["ipFamilyPolicy"].clone())
        };
        let selecting = json!({"clusterIP": "None", "selector": {"a": "b"}});
        assert_eq!(families(selecting), (json!(["IPv4"]), json!("SingleStack")));
        let all = json!({"clusterIP": "None"});
        assert_eq!(families(all), (json!(["IPv4", "IPv6"]), json!("RequireDualStack")));
        let six =
            json!({"clusterIP": "None", "ipFamilyPolicy": "SingleStack", "ipFamilies": ["IPv6"]});
        assert_eq!(families(six), (json!(["IPv6"]), json!("SingleStack")));
        assert_eq!(families(json!({"type": "ClusterIP"})), (json!(null), json!(null)));
    }

    #[test]
    fn nobody_asks_for_a_certificate_in_anothers_name() {
        let user = User { name: "eve".to_owned(), ..User::default() };
        let mut request = json!({"spec": {"username": "admin", "groups": ["system:masters"]}});
        certificate_request(request.as_object_mut().unwrap(), &user);
        assert_eq!(request, json!({"spec": {"username": "eve"}}));
    }

    #[test]
    fn jobs_are_told_apart_by_uid() {
        let mut job_ = json!({"metadata": {"name": "j", "uid": "u"}, "spec": {"template": {}}});
        job(job_.as_object_mut().unwrap());
        let label = "batch.kubernetes.io/controller-uid";
        assert_eq!(job_["spec"]["selector"]["matchLabels"][label], "u");
        assert_eq!(job_["spec"]["template"]["metadata"]["labels"]["job-name"], "j");
        assert_eq!(job_["metadata"]["labels"]["job-name"], "j");
        let mut own = json!({"spec": {"manualSelector": true}});
        job(own.as_object_mut().unwrap());
        assert_eq!(own, json!({"spec": {"manualSelector": true}}));
    }

    #[test]
    fn a_node_is_tainted_once() {
        let mut node_ = json!({});
        node(node_.as_object_mut().unwrap());
        node(node_.as_object_mut().unwrap());
        assert_eq!(node_["spec"]["taints"].as_array().unwrap().len(), 1);
    }
}
