//! `/ephemeralcontainers` and `/resize`: the two parts of a running pod's spec that may change, each
//! through an endpoint of its own that takes nothing else.

use serde_json::Value;

use super::Object;
use super::metadata::{keep, meta, meta_mut};
use crate::schema::field::{FieldError, FieldPath};

/// What a write to these endpoints leaves alone in the metadata.
const METADATA: [&str; 4] = ["labels", "annotations", "finalizers", "ownerReferences"];

/// Takes only the ephemeral containers.
pub(super) fn prepare_ephemeral(live: &Object, pod: &mut Object) {
    let sent = pod.get("spec").and_then(|spec| spec.get("ephemeralContainers")).cloned();
    keep_rest(live, pod);
    if let Some(Value::Object(spec)) = pod.get_mut("spec") {
        match sent {
            Some(sent) => spec.insert("ephemeralContainers".to_owned(), sent),
            None => spec.remove("ephemeralContainers"),
        };
    }
}

/// Takes only what each container asks for, and how it takes a change of that.
pub(super) fn prepare_resize(live: &Object, pod: &mut Object) {
    let sent = pod.get("spec").cloned().unwrap_or_default();
    let of = |spec: &Value, field: &str| spec[field].as_array().cloned().unwrap_or_default();
    let before = live.get("spec").cloned().unwrap_or_default();
    let names = |containers: &[Value]| -> Vec<Value> {
        containers.iter().map(|c| c["name"].clone()).collect()
    };
    // Other containers are refused by the rules that no update may break.
    if ["containers", "initContainers"]
        .iter()
        .any(|field| names(&of(&before, field)) != names(&of(&sent, field)))
    {
        return;
    }
    keep_rest(live, pod);
    for field in ["containers", "initContainers"] {
        let containers = pod.get_mut("spec").and_then(|spec| spec.get_mut(field));
        let containers = containers.and_then(Value::as_array_mut).into_iter().flatten();
        for (own, sent) in containers.zip(of(&sent, field)) {
            let (Some(own), Some(sent)) = (own.as_object_mut(), sent.as_object()) else { continue };
            keep(sent, own, "resources");
            keep(sent, own, "resizePolicy");
        }
    }
}

fn keep_rest(live: &Object, pod: &mut Object) {
    for field in ["spec", "status"] {
        keep(live, pod, field);
    }
    for field in METADATA {
        keep(meta(live), meta_mut(pod), field);
    }
}

/// What is wrong with a change of the ephemeral containers: those that are there stay as they are.
pub(super) fn wrong_ephemeral(old: &Value, new: &Value) -> Vec<FieldError> {
    let of =
        |pod: &Value| pod["spec"]["ephemeralContainers"].as_array().cloned().unwrap_or_default();
    let (before, after) = (of(old), of(new));
    let at = FieldPath::root().child("spec").child("ephemeralContainers");
    let mut errors = Vec::new();
    for container in &before {
        let name = container["name"].as_str().unwrap_or_default();
        match after.iter().position(|other| other["name"] == container["name"]) {
            None => errors.push(FieldError::forbidden(
                at.clone(),
                format!("existing ephemeral containers \"{name}\" may not be removed\n"),
            )),
            Some(n) if after[n] != *container => errors.push(FieldError::forbidden(
                at.clone(),
                format!("existing ephemeral containers \"{name}\" may not be changed\n"),
            )),
            Some(_) => {}
        }
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn object(value: Value) -> Object {
        value.as_object().cloned().unwrap()
    }

    #[test]
    fn each_endpoint_takes_its_own_fields() {
        let live = object(json!({"metadata": {"labels": {"a": "b"}}, "spec": {
            "nodeName": "n", "containers": [{"name": "c", "image": "i", "resources": {}}],
        }}));
        let sent = object(json!({"metadata": {"labels": {}}, "spec": {
            "ephemeralContainers": [{"name": "d"}],
            "containers": [{"name": "c", "image": "j", "resources": {"limits": {"cpu": "1"}}}],
        }}));
        let mut debugged = sent.clone();
        prepare_ephemeral(&live, &mut debugged);
        assert_eq!(debugged["metadata"], live["metadata"]);
        assert_eq!(debugged["spec"]["containers"], live["spec"]["containers"]);
        assert_eq!(debugged["spec"]["ephemeralContainers"][0]["name"], "d");
        let mut resized = sent;
        prepare_resize(&live, &mut resized);
        assert_eq!(resized["spec"]["containers"][0]["image"], "i");
        assert_eq!(resized["spec"]["containers"][0]["resources"]["limits"]["cpu"], "1");
        assert!(resized["spec"].get("ephemeralContainers").is_none());
    }

    #[test]
    fn ephemeral_containers_are_there_for_good() {
        let pod = |containers: Value| json!({"spec": {"ephemeralContainers": containers}});
        let check = |before: Value, after: Value, want: usize| {
            assert_eq!(wrong_ephemeral(&pod(before), &pod(after)).len(), want);
        };
        check(json!([]), json!([{"name": "a"}]), 0);
        check(json!([{"name": "a"}]), json!([{"name": "a"}, {"name": "b"}]), 0);
        check(json!([{"name": "a"}]), json!([]), 1);
        check(json!([{"name": "a"}]), json!([{"name": "a", "image": "x"}]), 1);
    }
}
