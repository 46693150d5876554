//! What the server decides about a few built-in kinds when they are born or change, beyond shape
//! and defaults: pods get a phase and a quality of service, jobs the labels that tie their pods to
//! them, claims and volumes a phase. What the cluster as a whole adds is for `admission`.

use serde_json::{Value, json};

use super::Object;
use super::metadata::{meta, meta_mut, text};

/// A pod begins as Pending, in the class that its requests put it in.
pub(super) fn pod(object: &mut Object) {
    let class = quality_of_service(object);
    object.insert("status".to_owned(), json!({"phase": "Pending", "qosClass": class}));
}

/// A pod with scheduling gates says that it waits for them.
pub(super) fn held_back(object: &mut Object) {
    let gates = object.get("spec").and_then(|spec| spec.get("schedulingGates")?.as_array());
    if gates.is_none_or(Vec::is_empty) {
        return;
    }
    let born = meta(object).get("creationTimestamp").cloned();
    if let Some(Value::Object(status)) = object.get_mut("status") {
        let waits = json!([{
            "type": "PodScheduled", "status": "False", "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates",
            "lastProbeTime": null, "lastTransitionTime": born,
        }]);
        status.insert("conditions".to_owned(), waits);
    }
}

/// A claim begins as Pending. Sources that no cluster without extensions knows are dropped, and of
/// the two fields that name one, either sets both.
pub(super) fn claim(object: &mut Object) {
    object.insert("status".to_owned(), json!({"phase": "Pending"}));
    let Some(Value::Object(spec)) = object.get_mut("spec") else { return };
    if let Some(source) = spec.get("dataSource") {
        let known = matches!(
            (source["apiGroup"].as_str().unwrap_or_default(), source["kind"].as_str()),
            ("", Some("PersistentVolumeClaim"))
                | ("snapshot.storage.k8s.io", Some("VolumeSnapshot"))
        );
        if !known {
            spec.remove("dataSource");
        }
    }
    match (spec.get("dataSource").cloned(), spec.get("dataSourceRef").cloned()) {
        (Some(source), None) => {
            spec.insert("dataSourceRef".to_owned(), source);
        }
        (None, Some(source)) if source.get("namespace").is_none_or(|n| n == "") => {
            spec.insert("dataSource".to_owned(), source);
        }
        _ => {}
    }
}

/// Daemon sets count the changes of their template in an annotation.
pub(super) fn template_generation(live: Option<&Object>, object: &mut Object) {
    const COUNT: &str = "deprecated.daemonset.template.generation";
    let template = |object: &Object| object.get("spec").map(|spec| spec["template"].clone());
    let count = match live {
        None => 1,
        Some(live) => {
            let annotations = meta(live).get("annotations").cloned().unwrap_or_default();
            let before = annotations[COUNT].as_str().and_then(|text| text.parse::<u64>().ok());
            let changed = template(live) != template(object);
            before.unwrap_or(0).saturating_add(changed.into())
        }
    };
    let annotations = meta_mut(object).entry("annotations").or_insert_with(|| json!({}));
    annotations[COUNT] = count.to_string().into();
}

/// A job without labels has its template's.
pub(super) fn label_as_template(object: &mut Object) {
    let bare = meta(object).get("labels").is_none_or(|labels| labels == &json!({}));
    let labels = object.get("spec").map(|spec| spec["template"]["metadata"]["labels"].clone());
    if let Some(labels @ Value::Object(_)) = labels.filter(|_| bare) {
        meta_mut(object).insert("labels".to_owned(), labels);
    }
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
    // Labels that the job has from its template are the template's, these included.
    let shared = own.is_some_and(|own| own != json!({}) && own == *template);
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
    fn jobs_are_told_apart_by_uid() {
        let mut job_ = json!({"metadata": {"name": "j", "uid": "u"}, "spec": {"template": {}}});
        job(job_.as_object_mut().unwrap());
        let label = "batch.kubernetes.io/controller-uid";
        assert_eq!(job_["spec"]["selector"]["matchLabels"][label], "u");
        assert_eq!(job_["spec"]["template"]["metadata"]["labels"]["job-name"], "j");
        label_as_template(job_.as_object_mut().unwrap());
        assert_eq!(job_["metadata"]["labels"]["job-name"], "j");
        let mut own = json!({"spec": {"manualSelector": true}});
        job(own.as_object_mut().unwrap());
        assert_eq!(own, json!({"spec": {"manualSelector": true}}));
    }
}
