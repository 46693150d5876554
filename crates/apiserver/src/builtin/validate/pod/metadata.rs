//! What annotations of a pod must say, and where they must agree with fields.

use std::collections::BTreeSet;

use serde_json::Value;

use super::super::form;
use super::super::place::{At, Errors};
use super::each_container;
use crate::schema::metadata::ANNOTATIONS_LIMIT;

const MIRROR: &str = "kubernetes.io/config.mirror";
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";
const SECCOMP: &str = "seccomp.security.alpha.kubernetes.io/pod";
const CONTAINER_SECCOMP: &str = "container.seccomp.security.alpha.kubernetes.io/";
const APP_ARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";

/// Annotations of a template: their keys and their size.
pub(super) fn annotations(at: &At<'_>, errors: &mut Errors) {
    let mut size = 0;
    for (key, value) in at.value.as_object().into_iter().flatten() {
        size += (key.len() + value.as_str().map_or(0, str::len)) as u64;
        for why in form::qualified_any_case(key) {
            at.invalid_value(errors, key.as_str(), why);
        }
    }
    if size > ANNOTATIONS_LIMIT {
        at.too_long(errors, ANNOTATIONS_LIMIT);
    }
}

/// Annotations that mean something to a pod.
pub(super) fn pod_annotations(at: &At<'_>, spec: &At<'_>, errors: &mut Errors) {
    let Some(map) = at.value.as_object() else { return };
    if map.contains_key(MIRROR) && spec.text("nodeName").is_empty() {
        let why = "must set spec.nodeName if mirror pod annotation is set";
        at.key(MIRROR).invalid(errors, why);
    }
    if let Some(cost) = map.get(DELETION_COST).and_then(Value::as_str)
        && !is_cost(cost)
    {
        at.key(DELETION_COST).invalid(errors, "must be a 32bit integer");
    }
    if map.contains_key(SECCOMP) {
        seccomp(&at.field(SECCOMP), errors);
    }
    for key in map.keys().filter(|key| key.starts_with(CONTAINER_SECCOMP)) {
        seccomp(&at.field(key), errors);
    }
    let mut names = BTreeSet::new();
    each_container(spec, |container| {
        names.insert(container.text("name").to_owned());
    });
    for (key, profile) in map {
        let Some(name) = key.strip_prefix(APP_ARMOR) else { continue };
        if !names.contains(name) {
            at.key(key).invalid_value(errors, name, "container not found");
        }
        let profile = profile.as_str().unwrap_or_default();
        if !matches!(profile, "" | "runtime/default" | "unconfined")
            && !profile.starts_with("localhost/")
        {
            let shown = crate::schema::print::quote(profile);
            at.key(key).invalid(errors, format!("invalid AppArmor profile name: {shown}"));
        }
    }
}

/// Whole, of 32 bits, and without a sign or zeros in front that change nothing.
fn is_cost(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    text.parse::<i32>().is_ok()
        && !text.starts_with('+')
        && (digits == "0" && !text.starts_with('-') || !digits.starts_with('0'))
}

fn seccomp(at: &At<'_>, errors: &mut Errors) {
    match at.as_text() {
        "runtime/default" | "docker/default" | "unconfined" => {}
        text => match text.strip_prefix("localhost/") {
            Some(path) => {
                for why in form::descending(path) {
                    at.invalid_value(errors, path, why);
                }
            }
            None => at.invalid(errors, "must be a valid seccomp profile"),
        },
    }
}

/// Annotations and fields that say the same thing must agree.
pub(super) fn profiles(annotations: &Value, spec: &At<'_>, errors: &mut Errors) {
    let Some(map) = annotations.as_object().filter(|map| !map.is_empty()) else { return };
    let text = |key: &str| map.get(key).and_then(Value::as_str);
    let own = spec.field("securityContext");
    if own.has("seccompProfile")
        && let Some(said) = text(SECCOMP)
    {
        agrees(said, &own.field("seccompProfile"), "seccomp", errors);
    }
    each_container(spec, |container| {
        let context = container.field("securityContext");
        let key = format!("{CONTAINER_SECCOMP}{}", container.text("name"));
        if context.has("seccompProfile")
            && let Some(said) = text(&key)
        {
            agrees(said, &context.field("seccompProfile"), "seccomp", errors);
        }
    });
    if spec.get("os")["name"] == "windows" {
        return;
    }
    each_container(spec, |container| {
        let context = container.field("securityContext");
        let inherited = own.get("appArmorProfile");
        let profile = context.get("appArmorProfile");
        let profile = if profile.is_null() { inherited } else { profile };
        let key = format!("{APP_ARMOR}{}", container.text("name"));
        if !profile.is_null()
            && let Some(said) = text(&key)
        {
            agrees(said, &context.with("appArmorProfile", profile), "apparmor", errors);
        }
    });
}

fn agrees(said: &str, profile: &At<'_>, what: &str, errors: &mut Errors) {
    let differs = format!("{what} type in annotation and field must match");
    let right = match profile.text("type") {
        "Unconfined" => said == "unconfined",
        "RuntimeDefault" => {
            said == "runtime/default" || what == "seccomp" && said == "docker/default"
        }
        "Localhost" => match said.strip_prefix("localhost/") {
            Some(path) => {
                if profile.get("localhostProfile").as_str() != Some(path) {
                    let why = format!("{what} profile in annotation and field must match");
                    profile.field("localhostProfile").forbidden(errors, why);
                }
                true
            }
            None => false,
        },
        _ => true,
    };
    if !right {
        profile.field("type").forbidden(errors, differs);
    }
}

/// Annotations that no update may touch.
pub(super) fn kept(old: &Value, at: &At<'_>, errors: &mut Errors) {
    let new = at.value.as_object();
    let old = old.as_object();
    for (key, before) in old.into_iter().flatten() {
        if new.and_then(|new| new.get(key)) == Some(before) {
            continue;
        }
        if key.starts_with(APP_ARMOR) {
            at.key(key).forbidden(errors, "may not remove or update AppArmor annotations");
        }
        if key == MIRROR {
            at.key(key).forbidden(errors, "may not remove or update mirror pod annotation");
        }
    }
    for key in new.into_iter().flat_map(|new| new.keys()) {
        if old.is_some_and(|old| old.contains_key(key)) {
            continue;
        }
        if key.starts_with(APP_ARMOR) {
            at.key(key).forbidden(errors, "may not add AppArmor annotations");
        }
        if key == MIRROR {
            at.key(key).forbidden(errors, "may not add mirror pod annotation");
        }
    }
}
