//! Limit ranges: what they may say of containers, pods and claims.
//!
//! Upstream tells of several resources in no order; here it is theirs.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::amount::{self, nanos};
use super::place::{At, Errors};
use crate::builtin::sum::Quantity;
use crate::schema::names;

const TYPES: &[&str] = &["Pod", "Container", "PersistentVolumeClaim"];

/// What is beyond this is compared in whole amounts; upstream's bound of thousandths.
const MOST_MILLIS: i128 = (i64::MAX / 1000) as i128;

/// A limit range.
pub(super) fn limit_range(_: Option<&Value>, at: &At<'_>, errors: &mut Errors) {
    let spec = at.field("spec");
    let mut seen = BTreeSet::new();
    for limit in spec.field("limits").items() {
        let kind = limit.text("type");
        type_name(&limit.field("type"), errors);
        if !seen.insert(kind.to_owned()) {
            limit.field("type").duplicate(errors, kind);
        }
        item(kind, &limit, errors);
    }
}

fn type_name(at: &At<'_>, errors: &mut Errors) {
    let name = at.as_text();
    let wrong = names::qualified(name);
    if wrong.is_empty() && !name.contains('/') && !TYPES.contains(&name) {
        at.invalid_value(errors, name, "must be a standard limit type or fully qualified");
    }
    for why in wrong {
        at.invalid_value(errors, name, why);
    }
}

fn item(kind: &str, limit: &At<'_>, errors: &mut Errors) {
    let mut bounds: BTreeMap<String, Bounds<'_>> = BTreeMap::new();
    let fields: [(&str, Bound); 5] = [
        ("max", |b| &mut b.max),
        ("min", |b| &mut b.min),
        ("default", |b| &mut b.default),
        ("defaultRequest", |b| &mut b.request),
        ("maxLimitRequestRatio", |b| &mut b.ratio),
    ];
    for (field, bound) in fields {
        let here = limit.field(field);
        let map = here.value.as_object();
        if kind == "Pod" && matches!(field, "default" | "defaultRequest") {
            if map.is_some_and(|map| !map.is_empty()) {
                here.forbidden(errors, "may not be specified when `type` is 'Pod'");
            }
            continue;
        }
        if field == "maxLimitRequestRatio" && kind == "PersistentVolumeClaim" {
            let storage = |side: &str| limit.get(side).get("storage").is_some();
            if !storage("min") && !storage("max") {
                let why =
                    "either minimum or maximum storage value is required, but neither was provided";
                limit.field("limits").required(errors, why);
            }
        }
        for (name, text) in map.into_iter().flatten() {
            let rule = match kind {
                "Pod" | "Container" => amount::container_resource,
                _ => amount::resource_name,
            };
            rule(name, &here.key(name), errors);
            *bound(bounds.entry(name.clone()).or_default()) = text.as_str();
        }
    }
    for (name, bounds) in &bounds {
        bounds.check(name, limit, errors);
    }
}

type Bound = for<'a, 'b> fn(&'a mut Bounds<'b>) -> &'a mut Option<&'b str>;

/// What is said of one resource.
#[derive(Debug, Default)]
struct Bounds<'a> {
    max: Option<&'a str>,
    min: Option<&'a str>,
    default: Option<&'a str>,
    request: Option<&'a str>,
    ratio: Option<&'a str>,
}

impl Bounds<'_> {
    fn check(&self, name: &str, limit: &At<'_>, errors: &mut Errors) {
        // Each: what must not be greater than what, with their names; where it is told, and of which.
        let rules = [
            (self.min, "min", self.max, "max", "min", self.min),
            (self.min, "min", self.request, "default request", "defaultRequest", self.request),
            (self.request, "default request", self.max, "max", "defaultRequest", self.request),
            (
                self.request,
                "default request",
                self.default,
                "default limit",
                "defaultRequest",
                self.request,
            ),
            (self.min, "min", self.default, "default", "default", self.min),
            (self.default, "default", self.max, "max", "default", self.max),
        ];
        for (less, less_name, more, more_name, field, shown) in rules {
            let (Some(less), Some(more)) = (less, more) else { continue };
            if nanos(less) > nanos(more) {
                let why =
                    format!("{less_name} value {less} is greater than {more_name} value {more}");
                limit.field(field).key(name).invalid_value(errors, shown.unwrap_or_default(), why);
            }
        }
        if let Some(ratio) = self.ratio {
            self.check_ratio(ratio, &limit.field("maxLimitRequestRatio").key(name), errors);
        }
        let shared = !name.contains('/') || name.contains("kubernetes.io/");
        let shared = shared && !name.starts_with("hugepages-");
        if let (false, Some(default), Some(request)) = (shared, self.default, self.request)
            && nanos(default) != nanos(request)
        {
            let why = format!(
                "default value {default} must equal to defaultRequest value {request} in {name}"
            );
            limit.field("defaultRequest").key(name).invalid_value(errors, request, why);
        }
    }

    fn check_ratio(&self, ratio: &str, at: &At<'_>, errors: &mut Errors) {
        if nanos(ratio) < nanos("1") {
            at.invalid_value(errors, ratio, format!("ratio {ratio} is less than 1"));
        }
        let (Some(min), Some(max)) = (self.min, self.max) else { return };
        let [asked, min, max] = [ratio, min, max].map(Quantity::read);
        let whole = |q: Quantity| (q.rounded_up().nanos() / 1_000_000_000) as f64;
        let fine = [asked, min, max].iter().all(|q| q.millis() < MOST_MILLIS * 1000);
        let (asked, most) = if fine {
            (asked.millis() as f64 / 1000.0, max.millis() as f64 / min.millis() as f64)
        } else {
            (whole(asked), whole(max) / whole(min))
        };
        if asked > most {
            let why = format!("ratio {ratio} is greater than max/min = {most:.6}");
            at.invalid_value(errors, ratio, why);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn find(item: Value) -> Vec<String> {
        let mut errors = Vec::new();
        let object = json!({"spec": {"limits": [item]}});
        limit_range(None, &At::root(&object), &mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn bounds_agree_with_each_other() {
        assert_eq!(
            find(json!({"type": "Container", "max": {"cpu": "2"}, "min": {"cpu": "1"}})),
            [""; 0]
        );
        assert_eq!(
            find(json!({"type": "Container", "max": {"cpu": "1"}, "min": {"cpu": "2"}})),
            [
                "spec.limits[0].min[cpu]: Invalid value: \"2\": min value 2 is greater than max value 1"
            ]
        );
        let ratio = json!({"type": "Pod", "max": {"cpu": "2"}, "min": {"cpu": "1"}, "maxLimitRequestRatio": {"cpu": "3"}});
        assert_eq!(
            find(ratio),
            [
                "spec.limits[0].maxLimitRequestRatio[cpu]: Invalid value: \"3\": ratio 3 is greater than max/min = 2.000000"
            ]
        );
        assert_eq!(find(json!({"type": "PersistentVolumeClaim"})).len(), 1);
        assert_eq!(find(json!({"type": "Nonsense"})).len(), 1);
        assert_eq!(find(json!({"type": "Pod", "default": {"cpu": "1"}})).len(), 1);
        let pages = json!({"type": "Container", "default": {"x.io/gpu": "2"}, "defaultRequest": {"x.io/gpu": "1"}});
        assert_eq!(find(pages).len(), 1);
    }
}
