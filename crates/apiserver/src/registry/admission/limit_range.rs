//! LimitRanger: what containers get that ask for nothing, and the bounds that containers, pods and
//! claims of a namespace are held to.
//!
//! Upstream tells of several broken bounds in no order; here it is that of their names.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::super::metadata::meta_mut;
use super::super::{Call, Object, is_deleting};
use super::pod_resources::of_containers;
use crate::builtin::sum::{self, Quantity, Resources};
use crate::sabotage::Sabotage;
use crate::status::ApiError;

const ANNOTATION: &str = "kubernetes.io/limit-ranger";

/// Where thousandths would not fit 63 bits, upstream compares whole amounts.
const MOST_MILLIS: i128 = (i64::MAX / 1000) as i128 * 1000;

impl Call<'_> {
    /// The limit ranges that count here.
    fn limit_ranges(&self) -> Result<Vec<Object>, ApiError> {
        let table = self.server.table();
        let Some(resource) = table.get("", "limitranges") else { return Ok(Vec::new()) };
        self.server.read_all_in(resource, self.namespace.as_deref())
    }

    /// Gives containers what they do not ask for themselves.
    pub(super) fn default_resources(&self, pod: &mut Object) -> Result<(), ApiError> {
        for range in self.limit_ranges()? {
            if Sabotage::NoLimitDefaults.is_planted() {
                break;
            }
            complete(&range, pod);
        }
        Ok(())
    }

    /// Holds a pod or a claim to the bounds of its namespace.
    pub(super) fn check_limits(
        &self,
        live: Option<&Object>,
        object: &Object,
    ) -> Result<(), ApiError> {
        let pod = match (self.resource.plural.as_str(), self.subresource.as_deref()) {
            ("pods", None) if live.is_none() => true,
            ("pods", Some("resize")) => true,
            ("persistentvolumeclaims", None) => false,
            _ => return Ok(()),
        };
        if live.is_some_and(is_deleting) {
            return Ok(());
        }
        let spec = object.get("spec").unwrap_or(&Value::Null);
        for range in self.limit_ranges()? {
            let mut wrong = Vec::new();
            for limit in limits(&range) {
                if pod {
                    check_pod(limit, spec, &mut wrong);
                } else if limit["type"] == "PersistentVolumeClaim" {
                    check_claim(limit, spec, &mut wrong);
                }
            }
            if !wrong.is_empty() {
                return Err(self.forbidden(object, &aggregate(wrong)));
            }
        }
        Ok(())
    }
}

fn limits(range: &Object) -> &[Value] {
    range.get("spec").and_then(|spec| spec["limits"].as_array()).map_or(&[], Vec::as_slice)
}

/// Several errors in one sentence, each told once.
fn aggregate(errors: Vec<String>) -> String {
    let mut seen = BTreeSet::new();
    let mut errors: Vec<String> =
        errors.into_iter().filter(|error| seen.insert(error.clone())).collect();
    match errors.len() {
        1 => errors.remove(0),
        _ => format!("[{}]", errors.join(", ")),
    }
}

/// Fills in what a range gives to containers, and notes it in the pod.
fn complete(range: &Object, pod: &mut Object) {
    let (mut requests, mut most) = (Object::new(), Object::new());
    for limit in limits(range).iter().filter(|limit| limit["type"] == "Container") {
        for (into, field) in [(&mut requests, "defaultRequest"), (&mut most, "default")] {
            into.extend(limit[field].as_object().cloned().unwrap_or_default());
        }
    }
    let mut notes = Vec::new();
    for (field, called) in [("containers", "container"), ("initContainers", "init container")] {
        let containers = pod.get_mut("spec").and_then(|spec| spec.get_mut(field));
        for container in containers.and_then(Value::as_array_mut).into_iter().flatten() {
            let name = container["name"].as_str().unwrap_or_default().to_owned();
            for (side, word, given) in
                [("limits", "limit", &most), ("requests", "request", &requests)]
            {
                let set = fill(container, side, given);
                if !set.is_empty() {
                    notes.push((side, format!("{} {word} for {called} {name}", set.join(", "))));
                }
            }
            // Requests are told before limits.
            let count = notes.len();
            if count >= 2 && notes[count - 2].0 == "limits" && notes[count - 1].0 == "requests" {
                notes.swap(count - 2, count - 1);
            }
        }
    }
    if notes.is_empty() {
        return;
    }
    let notes: Vec<String> = notes.into_iter().map(|(_, note)| note).collect();
    let annotations = meta_mut(pod).entry("annotations").or_insert_with(|| json!({}));
    if !annotations.is_object() {
        *annotations = json!({});
    }
    annotations[ANNOTATION] = format!("LimitRanger plugin set: {}", notes.join("; ")).into();
}

/// Sets what a container does not say on one side, and tells which.
fn fill<'a>(container: &mut Value, side: &str, given: &'a Object) -> Vec<&'a str> {
    let missing = |name: &String| container["resources"][side].get(name).is_none();
    let set: Vec<&String> = given.keys().filter(|name| missing(name)).collect();
    if !container["resources"].is_object() && !set.is_empty() {
        container["resources"] = json!({});
    }
    for name in &set {
        container["resources"][side][name.as_str()] = given[name.as_str()].clone();
    }
    let mut set: Vec<&str> = set.into_iter().map(String::as_str).collect();
    set.sort_unstable();
    set
}

fn check_pod(limit: &Value, spec: &Value, wrong: &mut Vec<String>) {
    match limit["type"].as_str().unwrap_or_default() {
        "Container" => {
            let containers = ["containers", "initContainers"].into_iter();
            for container in containers.filter_map(|f| spec[f].as_array()).flatten() {
                let side = |side: &str| sum::resources(&container["resources"][side]);
                check(limit, &side("requests"), &side("limits"), wrong);
            }
        }
        "Pod" => {
            let side = |side: &str| of_containers(spec, side);
            check(limit, &side("requests"), &side("limits"), wrong);
        }
        _ => {}
    }
}

/// Claims ask, and have no limits.
fn check_claim(limit: &Value, spec: &Value, wrong: &mut Vec<String>) {
    let requests = sum::resources(&spec["resources"]["requests"]);
    let bounds = Bounds { of: "PersistentVolumeClaim", requests: &requests, limits: None };
    for (name, min) in sum::resources(&limit["min"]) {
        wrong.extend(bounds.least(&name, min));
    }
    for (name, max) in sum::resources(&limit["max"]) {
        wrong.extend(bounds.most_asked(&name, max));
    }
}

fn check(limit: &Value, requests: &Resources, limits: &Resources, wrong: &mut Vec<String>) {
    let of = limit["type"].as_str().unwrap_or_default();
    let bounds = Bounds { of, requests, limits: Some(limits) };
    let rules: [(&str, Rule<'_>); 3] =
        [("min", Bounds::least), ("max", Bounds::most), ("maxLimitRequestRatio", Bounds::ratio)];
    for (field, rule) in rules {
        for (name, bound) in sum::resources(&limit[field]) {
            wrong.extend(rule(&bounds, &name, bound));
        }
    }
}

type Rule<'a> = fn(&Bounds<'a>, &str, Quantity) -> Option<String>;

/// What is held to bounds.
struct Bounds<'a> {
    /// What kind of thing it is.
    of: &'a str,
    requests: &'a Resources,
    limits: Option<&'a Resources>,
}

impl Bounds<'_> {
    fn of(&self, name: &str) -> (Option<Quantity>, Option<Quantity>) {
        let limit = self.limits.and_then(|limits| limits.get(name));
        (self.requests.get(name).copied(), limit.copied())
    }

    fn least(&self, name: &str, bound: Quantity) -> Option<String> {
        let (request, limit) = self.of(name);
        let rule = format!("minimum {name} usage per {} is {bound}", self.of);
        let Some(asked) = request else {
            return Some(format!("{rule}.  No request is specified"));
        };
        let [asks, held, least] = comparable(request, limit, bound);
        match limit {
            _ if asks < least => Some(format!("{rule}, but request is {asked}")),
            Some(limit) if held < least => Some(format!("{rule}, but limit is {limit}")),
            _ => None,
        }
    }

    fn most(&self, name: &str, bound: Quantity) -> Option<String> {
        let (request, limit) = self.of(name);
        let rule = format!("maximum {name} usage per {} is {bound}", self.of);
        let Some(limited) = limit else {
            return Some(format!("{rule}.  No limit is specified"));
        };
        let [asks, held, most] = comparable(request, limit, bound);
        match request {
            _ if held > most => Some(format!("{rule}, but limit is {limited}")),
            Some(request) if asks > most => Some(format!("{rule}, but request is {request}")),
            _ => None,
        }
    }

    fn most_asked(&self, name: &str, bound: Quantity) -> Option<String> {
        let (request, _) = self.of(name);
        let rule = format!("maximum {name} usage per {} is {bound}", self.of);
        let Some(asked) = request else {
            return Some(format!("{rule}.  No request is specified"));
        };
        let [asks, _, most] = comparable(request, None, bound);
        (asks > most).then(|| format!("{rule}, but request is {asked}"))
    }

    fn ratio(&self, name: &str, bound: Quantity) -> Option<String> {
        let (request, limit) = self.of(name);
        let rule = format!("{name} max limit to request ratio per {} is {bound}", self.of);
        let [asks, held, _] = comparable(request, limit, bound);
        if asks == 0 {
            return Some(format!("{rule}, but no request is specified or request is 0"));
        }
        if held == 0 {
            return Some(format!("{rule}, but no limit is specified or limit is 0"));
        }
        let ratio = held as f64 / asks as f64;
        (ratio * 1000.0 > bound.millis() as f64)
            .then(|| format!("{rule}, but provided ratio is {ratio:.6}"))
    }
}

/// Request, limit and bound as numbers that compare: in thousandths where those fit.
fn comparable(request: Option<Quantity>, limit: Option<Quantity>, bound: Quantity) -> [i128; 3] {
    let all = [request.unwrap_or_default(), limit.unwrap_or_default(), bound];
    if all.iter().all(|one| one.millis() <= MOST_MILLIS) {
        return all.map(Quantity::millis);
    }
    all.map(|one| one.rounded_up().nanos() / 1_000_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(value: Value) -> Object {
        value.as_object().cloned().unwrap()
    }

    #[test]
    fn containers_get_what_they_do_not_say() {
        let range = object(json!({"spec": {"limits": [{
            "type": "Container",
            "default": {"cpu": "2", "memory": "1Gi"}, "defaultRequest": {"cpu": "1"},
        }]}}));
        let mut pod = object(json!({"metadata": {}, "spec": {
            "containers": [{"name": "a"}, {"name": "b", "resources": {"limits": {"cpu": "9"}}}],
            "initContainers": [{"name": "i", "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "1", "memory": "1"}}}],
        }}));
        complete(&range, &mut pod);
        assert_eq!(
            pod["metadata"]["annotations"][ANNOTATION],
            "LimitRanger plugin set: cpu request for container a; cpu, memory limit for container a; \
             cpu request for container b; memory limit for container b"
        );
        let first = json!({"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "1"}});
        assert_eq!(pod["spec"]["containers"][0]["resources"], first);
        assert_eq!(pod["spec"]["containers"][1]["resources"]["limits"]["cpu"], "9");
    }

    #[track_caller]
    fn check_one(limit: Value, resources: Value, want: &[&str]) {
        let mut wrong = Vec::new();
        let spec = json!({"containers": [{"resources": resources}]});
        check_pod(&limit, &spec, &mut wrong);
        assert_eq!(wrong, want);
    }

    #[test]
    fn bounds_are_held_with_upstreams_words() {
        let of = |field: &str, bound: &str| json!({"type": "Container", field: {"cpu": bound}});
        let asks = |request: &str, limit: &str| json!({"requests": {"cpu": request}, "limits": {"cpu": limit}});
        check_one(of("min", "1"), asks("1", "1"), &[]);
        check_one(
            of("min", "1"),
            json!({}),
            &["minimum cpu usage per Container is 1.  No request is specified"],
        );
        check_one(
            of("min", "1"),
            asks("500m", "2"),
            &["minimum cpu usage per Container is 1, but request is 500m"],
        );
        check_one(
            of("max", "1"),
            json!({}),
            &["maximum cpu usage per Container is 1.  No limit is specified"],
        );
        check_one(
            of("max", "1"),
            asks("1", "2"),
            &["maximum cpu usage per Container is 1, but limit is 2"],
        );
        check_one(
            of("maxLimitRequestRatio", "1500m"),
            asks("1", "2"),
            &[
                "cpu max limit to request ratio per Container is 1500m, but provided ratio is 2.000000",
            ],
        );
        let pod = json!({"type": "Pod", "max": {"memory": "1Gi"}});
        let resources = json!({"limits": {"memory": "2Gi"}});
        check_one(pod, resources, &["maximum memory usage per Pod is 1Gi, but limit is 2Gi"]);
    }

    #[test]
    fn errors_are_told_once() {
        assert_eq!(aggregate(vec!["a".into()]), "a");
        assert_eq!(aggregate(vec!["a".into(), "b".into(), "a".into()]), "[a, b]");
    }
}
