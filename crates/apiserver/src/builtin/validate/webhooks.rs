//! The configurations of admission webhooks.

use std::collections::HashSet;

use serde_json::Value;

use super::admission::{FAILURE, MATCH, if_set, match_conditions, rule};
use super::form;
use super::place::{At, Errors};
use crate::schema::names;

const REVIEWS: &[&str] = &["v1", "v1beta1"];
const REINVOCATION: &[&str] = &["IfNeeded", "Never"];
const SIDE_EFFECTS: &[&str] = &["None", "NoneOnDryRun", "Some", "Unknown"];

/// The configuration of webhooks that may refuse.
pub(super) fn validating_webhooks(old: Option<&Value>, at: &At<'_>, errors: &mut Errors) {
    webhooks(old, at, false, errors);
}

/// The configuration of webhooks that may change what is written.
pub(super) fn mutating_webhooks(old: Option<&Value>, at: &At<'_>, errors: &mut Errors) {
    webhooks(old, at, true, errors);
}

fn webhooks(old: Option<&Value>, at: &At<'_>, mutating: bool, errors: &mut Errors) {
    let before = old.and_then(|old| old["webhooks"].as_array()).map_or(&[][..], Vec::as_slice);
    // What was stored when the rules were laxer may stay as it is.
    let quiet = before.iter().all(|hook| {
        hook["sideEffects"].as_str().is_some_and(|effects| SIDE_EFFECTS[..2].contains(&effects))
    });
    let known = before.iter().all(|hook| {
        let versions = hook["admissionReviewVersions"].as_array().map_or(&[][..], Vec::as_slice);
        versions.is_empty() || versions.iter().any(|v| v.as_str().is_some_and(is_review))
    });
    let mut names = HashSet::new();
    let unique = before.iter().all(|hook| names.insert(hook["name"].as_str().unwrap_or_default()));
    let now = at.list("webhooks");
    let same_conditions = old.is_some()
        && now.len() == before.len()
        && now.iter().zip(before).all(|(a, b)| a["matchConditions"] == b["matchConditions"]);
    let mut names = HashSet::new();
    for hook in at.field("webhooks").items() {
        webhook(&hook, mutating, quiet, same_conditions, errors);
        review_versions(&hook.field("admissionReviewVersions"), known, errors);
        let name = hook.text("name");
        if unique && !name.is_empty() && !names.insert(name) {
            hook.field("name").duplicate(errors, name);
        }
    }
}

fn webhook(at: &At<'_>, mutating: bool, quiet: bool, same_conditions: bool, errors: &mut Errors) {
    qualified_name(&at.field("name"), errors);
    for rule in at.field("rules").items() {
        self::rule(&rule, errors);
    }
    if_set(at, "failurePolicy", FAILURE, errors);
    if_set(at, "matchPolicy", MATCH, errors);
    let effects = if quiet { &SIDE_EFFECTS[..2] } else { SIDE_EFFECTS };
    if at.has("sideEffects") {
        if_set(at, "sideEffects", effects, errors);
    } else {
        let why = format!("must specify one of {}", effects.join(", "));
        at.field("sideEffects").required(errors, &why);
    }
    if at.int("timeoutSeconds").is_some_and(|seconds| !(1..=30).contains(&seconds)) {
        let why = "the timeout value must be between 1 and 30 seconds";
        at.field("timeoutSeconds").invalid(errors, why);
    }
    for field in ["namespaceSelector", "objectSelector"] {
        if at.has(field) {
            form::selector(&at.field(field), errors);
        }
    }
    if mutating {
        if_set(at, "reinvocationPolicy", REINVOCATION, errors);
    }
    let client = at.field("clientConfig");
    match (client.has("url"), client.has("service")) {
        (true, false) => url(&client.field("url"), errors),
        (false, true) => service(&client.field("service"), errors),
        _ => client.required(errors, "exactly one of url or service is required"),
    }
    if !same_conditions {
        match_conditions(&at.field("matchConditions"), false, errors);
    }
}

fn qualified_name(at: &At<'_>, errors: &mut Errors) {
    let name = at.as_text();
    if name.is_empty() {
        return at.required(errors, "");
    }
    let wrong = names::subdomain(name);
    if !wrong.is_empty() {
        at.invalid(errors, wrong.join(","));
    } else if name.split('.').count() < 3 {
        let why = "should be a domain with at least three segments separated by dots";
        at.invalid(errors, why);
    }
}

fn is_review(version: &str) -> bool {
    REVIEWS.contains(&version)
}

fn review_versions(at: &At<'_>, known: bool, errors: &mut Errors) {
    let versions = at.value.as_array().map_or(&[][..], Vec::as_slice);
    if versions.is_empty() {
        return at.required(errors, &format!("must specify one of {}", REVIEWS.join(", ")));
    }
    let mut seen = HashSet::new();
    for version in at.items() {
        if !seen.insert(version.as_text()) {
            version.invalid(errors, "duplicate version");
            continue;
        }
        version.must_be(errors, names::label_1035);
    }
    if known && !seen.into_iter().any(is_review) {
        at.invalid(errors, format!("must include at least one of {}", REVIEWS.join(", ")));
    }
}

fn url(at: &At<'_>, errors: &mut Errors) {
    const FORM: &str = "; desired format: https://host[/path]";
    let text = at.as_text();
    let (rest, fragment) = text.split_once('#').unwrap_or((text, ""));
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (scheme, rest) = match rest.split_once(':') {
        Some((scheme, rest)) if !scheme.contains('/') => (scheme, rest),
        _ => ("", rest),
    };
    let authority = rest.strip_prefix("//").map(|rest| rest.split('/').next().unwrap_or_default());
    let authority = authority.unwrap_or_default();
    let (user, host) = match authority.rsplit_once('@') {
        Some((user, host)) => (Some(user), host),
        None => (None, authority),
    };
    if scheme != "https" {
        let why = format!("'https' is the only allowed URL scheme{FORM}");
        at.invalid_value(errors, scheme, why);
    }
    if host.is_empty() {
        at.invalid_value(errors, "", format!("host must be specified{FORM}"));
    }
    if let Some(user) = user {
        at.invalid_value(errors, user, "user information is not permitted in the URL");
    }
    if !fragment.is_empty() {
        at.invalid_value(errors, fragment, "fragments are not permitted in the URL");
    }
    if !query.is_empty() {
        at.invalid_value(errors, query, "query parameters are not permitted in the URL");
    }
}

fn service(at: &At<'_>, errors: &mut Errors) {
    // Upstream mixes the two up.
    for (field, told) in [("namespace", "name"), ("name", "namespace")] {
        if at.text(field).is_empty() {
            at.field(told).required(errors, "");
        }
    }
    if at.int("port").is_some_and(|port| !(1..=65_535).contains(&port)) {
        let why = format!("port is not valid: {}", form::PORT_RANGE);
        at.field("port").invalid(errors, why);
    }
    let path = at.text("path");
    if path.is_empty() || path == "/" {
        return;
    }
    let place = at.field("path");
    if path == "//" {
        return place.invalid(errors, "segment[0] may not be empty");
    }
    if !path.starts_with('/') {
        place.invalid(errors, "must start with a '/'");
    }
    let mut rest = path.chars();
    rest.next();
    let inner = rest.as_str();
    for (n, step) in inner.strip_suffix('/').unwrap_or(inner).split('/').enumerate() {
        if step.is_empty() {
            place.invalid(errors, format!("segment[{n}] may not be empty"));
        }
        for why in names::subdomain(step).iter().filter(|_| !step.is_empty()) {
            place.invalid(errors, format!("segment[{n}]: {why}"));
        }
    }
}
