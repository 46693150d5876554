//! The defaults that the table of facts names but cannot say: those that need a parser, the time,
//! or another part of the object. A Secret's `stringData`, which nobody reads back, is here too.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Map, Value, json};

use super::defaults::Kind;

type Object = Map<String, Value>;

fn text<'a>(object: &'a Object, field: &str) -> &'a str {
    object.get(field).and_then(Value::as_str).unwrap_or_default()
}

fn filled(object: &Object, field: &str) -> bool {
    object.get(field).and_then(Value::as_object).is_some_and(|map| !map.is_empty())
}

/// Defaults of a struct, wherever it stands.
pub(super) fn structure(type_: &str, object: &mut Object, now: &str) {
    let pull = |object: &mut Object, policy: &str, image: &str| {
        if text(object, policy).is_empty() {
            let value = if is_latest(text(object, image)) { "Always" } else { "IfNotPresent" };
            object.insert(policy.to_owned(), value.into());
        }
    };
    match type_ {
        "core.v1.Container" | "core.v1.EphemeralContainerCommon" => {
            pull(object, "imagePullPolicy", "image");
        }
        "core.v1.LimitRangeItem" if text(object, "type") == "Container" => bounds(object),
        "core.v1.ImageVolumeSource" => pull(object, "pullPolicy", "reference"),
        "resource.v1.DeviceTaint" if text(object, "timeAdded").is_empty() => {
            object.insert("timeAdded".to_owned(), now.into());
        }
        "core.v1.PodSpec" => {
            mirror_account(object);
            let on_host = object.get("hostNetwork") == Some(&Value::Bool(true));
            for field in ["containers", "initContainers"].into_iter().filter(|_| on_host) {
                let containers = object.get_mut(field).and_then(Value::as_array_mut);
                for container in containers.into_iter().flatten() {
                    let ports = container.get_mut("ports").and_then(Value::as_array_mut);
                    ports.into_iter().flatten().for_each(host_port);
                }
            }
        }
        "core.v1.PodStatus" => first_of_list(object, "podIP", |ip| json!([{"ip": ip}]), "podIPs"),
        _ => {}
    }
}

/// A container gets the most that it may have, and asks for what it gets, or else for the least.
fn bounds(limit: &mut Object) {
    for (into, from) in
        [("default", "max"), ("defaultRequest", "default"), ("defaultRequest", "min")]
    {
        let from = limit.get(from).and_then(Value::as_object).cloned().unwrap_or_default();
        let into = limit.entry(into).or_insert_with(|| json!({}));
        for (name, amount) in from {
            if let Some(into) = into.as_object_mut() {
                into.entry(name).or_insert(amount);
            }
        }
    }
    for field in ["default", "defaultRequest"] {
        if !filled(limit, field) {
            limit.remove(field);
        }
    }
}

/// A field that was there before there could be several has the first of the list.
fn first_of_list(object: &mut Object, one: &str, list: fn(&str) -> Value, several: &str) {
    let value = text(object, one).to_owned();
    let wanted = list(&value);
    if !value.is_empty() && object.get(several).and_then(|l| l.get(0)) != wanted.get(0) {
        object.insert(several.to_owned(), wanted);
    }
}

/// The account has an old name and a new one; either sets both.
fn mirror_account(spec: &mut Object) {
    let account = match text(spec, "serviceAccountName") {
        "" => text(spec, "serviceAccount"),
        name => name,
    };
    if !account.is_empty() {
        let account: Value = account.into();
        spec.insert("serviceAccountName".to_owned(), account.clone());
        spec.insert("serviceAccount".to_owned(), account);
    }
}

/// On the host's network a container's port is the host's.
fn host_port(port: &mut Value) {
    let Some(port) = port.as_object_mut() else { return };
    if port.get("hostPort").is_none_or(Value::is_null)
        && let Some(number) = port.get("containerPort").cloned()
    {
        port.insert("hostPort".to_owned(), number);
    }
}

/// An address of a load balancer takes what is for it from the network, if nobody says otherwise.
fn mode_of_balancers(service: &mut Object) {
    if service.get("spec").is_none_or(|spec| spec["type"] != "LoadBalancer") {
        return;
    }
    let status = service.get_mut("status");
    let ingress = status.and_then(|status| status.pointer_mut("/loadBalancer/ingress"));
    for one in ingress.and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(one) = one.as_object_mut()
            && !text(one, "ip").is_empty()
        {
            one.entry("ipMode").or_insert_with(|| "VIP".into());
        }
    }
}

/// Defaults that hold in one kind only.
pub(super) fn kind(of: &Kind<'_>, object: &mut Object) {
    match of.name {
        "batch/v1 Job" => label_as_template(object),
        "v1 Service" => mode_of_balancers(object),
        "v1 ReplicationController" => {
            let labels = template_labels(object);
            if let (Some(labels), Some(Value::Object(spec))) = (labels, object.get_mut("spec"))
                && !filled(spec, "selector")
            {
                spec.insert("selector".to_owned(), labels);
            }
            label_as_template(object);
        }
        "apps/v1 DaemonSet" => {
            let Some(Value::Object(metadata)) = object.get_mut("metadata") else { return };
            let annotations = metadata.entry("annotations").or_insert_with(|| json!({}));
            if let Some(annotations) = annotations.as_object_mut() {
                let count = "deprecated.daemonset.template.generation";
                annotations.entry(count).or_insert_with(|| "0".into());
            }
        }
        "apps/v1 StatefulSet" => {
            let Some(Value::Object(spec)) = object.get_mut("spec") else { return };
            let claims = spec.get_mut("volumeClaimTemplates").and_then(Value::as_array_mut);
            for claim in claims.into_iter().flatten().filter_map(Value::as_object_mut) {
                claim.insert("apiVersion".to_owned(), "v1".into());
                claim.insert("kind".to_owned(), "PersistentVolumeClaim".into());
            }
        }
        "v1 Namespace" => {
            let Some(Value::Object(metadata)) = object.get_mut("metadata") else { return };
            let name = text(metadata, "name").to_owned();
            if !name.is_empty() {
                let labels = metadata.entry("labels").or_insert_with(|| json!({}));
                labels["kubernetes.io/metadata.name"] = name.into();
            }
        }
        "v1 Secret" => {
            let Some(Value::Object(texts)) = object.remove("stringData") else { return };
            let data = object.entry("data").or_insert_with(|| json!({}));
            for (key, text) in texts {
                data[key] = BASE64.encode(text.as_str().unwrap_or_default()).into();
            }
        }
        "v1 Pod" => {
            let Some(Value::Object(spec)) = object.get_mut("spec") else { return };
            requests_from_limits(spec);
            for field in ["containers", "initContainers"] {
                let containers = spec.get_mut(field).and_then(Value::as_array_mut);
                let containers = containers.into_iter().flatten();
                containers.filter_map(Value::as_object_mut).for_each(requests_from_limits);
            }
        }
        _ => {}
    }
}

fn template_labels(object: &Object) -> Option<Value> {
    let labels = object.get("spec")?.get("template")?.get("metadata")?.get("labels")?;
    Some(labels.clone())
}

/// An object without labels takes those of its template.
fn label_as_template(object: &mut Object) {
    let labels = template_labels(object);
    if let (Some(labels), Some(Value::Object(metadata))) = (labels, object.get_mut("metadata"))
        && !filled(metadata, "labels")
    {
        metadata.insert("labels".to_owned(), labels);
    }
}

/// Who names a limit and no request wants as much.
fn requests_from_limits(of: &mut Object) {
    let Some(Value::Object(resources)) = of.get_mut("resources") else { return };
    let Some(Value::Object(limits)) = resources.get("limits").cloned() else { return };
    let requests = resources.entry("requests").or_insert_with(|| json!({}));
    let Value::Object(requests) = requests else { return };
    for (name, limit) in limits {
        requests.entry(name).or_insert(limit);
    }
}

/// Whether an image's tag is `latest`, be it because it has neither tag nor digest. A text that is
/// no reference has no tag.
fn is_latest(image: &str) -> bool {
    let (name, digest) = image.split_once('@').map_or((image, None), |(n, d)| (n, Some(d)));
    let last = name.rfind('/').map_or(0, |n| n + 1);
    let (path, tag) = match name[last..].find(':') {
        Some(n) => (&name[..last + n], Some(&name[last + n + 1..])),
        None => (name, None),
    };
    let host_end =
        path.find('/').filter(|n| path[..*n].contains(['.', ':']) || &path[..*n] == "localhost");
    let repository = &path[host_end.map_or(0, |n| n + 1)..];
    let part = |part: &str| {
        let odd = |b: u8| !(b.is_ascii_lowercase() || b.is_ascii_digit());
        !part.is_empty()
            && !part.bytes().next().is_some_and(odd)
            && !part.bytes().next_back().is_some_and(odd)
            && part.bytes().all(|b| !odd(b) || matches!(b, b'.' | b'_' | b'-'))
    };
    repository.split('/').all(part)
        && match tag {
            Some(tag) => tag == "latest",
            None => digest.is_none(),
        }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latest_is_what_has_no_other_tag() {
        for (image, expect) in [
            ("nginx", true),
            ("nginx:latest", true),
            ("nginx:1.2", false),
            ("reg.example.com:5000/a/b", true),
            ("reg.example.com:5000/a/b:v1", false),
            ("a/b@sha256:0123", false),
            ("a/b:latest@sha256:0123", true),
            ("", false),
            ("Nginx", false),
            ("a//b", false),
        ] {
            assert_eq!(is_latest(image), expect, "{image}");
        }
    }
}
