//! Pod security standards: what the labels of a namespace demand of its pods.
//!
//! A namespace enforces a level, warns of one, and has the audit log told of one, each as it was in
//! some version. Pods are refused; what makes pods is only warned of. The checks stand in a table, of
//! which those of the baseline come first.

mod checks;

use std::collections::BTreeMap;

use serde_json::Value;

use self::checks::violations;
use super::super::metadata::{meta, text};
use super::super::{Call, Object};
use super::Operation;
use crate::resource::GroupKind;
use crate::schema::field::{FieldError, FieldPath};
use crate::status::ApiError;

const PREFIX: &str = "pod-security.kubernetes.io/";

/// The most pods that are looked at when a namespace becomes stricter; upstream's number.
const MOST_PODS: usize = 3000;

/// Where a kind keeps the template of its pods.
const TEMPLATES: &[(&str, &str, &str)] = &[
    ("", "podtemplates", "/template"),
    ("", "replicationcontrollers", "/spec/template"),
    ("apps", "daemonsets", "/spec/template"),
    ("apps", "deployments", "/spec/template"),
    ("apps", "replicasets", "/spec/template"),
    ("apps", "statefulsets", "/spec/template"),
    ("batch", "cronjobs", "/spec/jobTemplate/spec/template"),
    ("batch", "jobs", "/spec/template"),
];

/// Parts of a pod through which it does not become another.
const HARMLESS: [&str; 8] =
    ["exec", "attach", "binding", "eviction", "log", "portforward", "proxy", "status"];

/// How strict a level is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    Privileged,
    Baseline,
    Restricted,
}

/// A level as it was in a version of Kubernetes: 1 and this minor number, or the newest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Standard {
    level: Level,
    minor: Option<u32>,
}

impl std::fmt::Display for Standard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let level = match self.level {
            Level::Privileged => "privileged",
            Level::Baseline => "baseline",
            Level::Restricted => "restricted",
        };
        match self.minor {
            Some(minor) => write!(f, "{level}:v1.{minor}"),
            None => write!(f, "{level}:latest"),
        }
    }
}

/// What a namespace demands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Demands {
    enforce: Standard,
    audit: Standard,
    warn: Standard,
}

impl Demands {
    /// Reads the labels of a namespace; what cannot be read is told, and enforced at its strictest.
    fn of(labels: &Value) -> (Self, Vec<FieldError>) {
        let none = Standard { level: Level::Privileged, minor: None };
        let mut demands = Self { enforce: none, audit: none, warn: none };
        let mut errors = Vec::new();
        let label = |name: &str| labels[format!("{PREFIX}{name}")].as_str();
        let mut explicit = false;
        for (mode, standard, otherwise) in [
            ("enforce", &mut demands.enforce, Level::Restricted),
            ("audit", &mut demands.audit, Level::Privileged),
            ("warn", &mut demands.warn, Level::Privileged),
        ] {
            let mut wrong = |name: &str, value: &str, why: &str| {
                let at = FieldPath::root().child("metadata").child("labels");
                let at = at.key(&format!("{PREFIX}{name}"));
                errors.push(FieldError::invalid(at, value, why));
            };
            if let Some(said) = label(mode) {
                let level = level(said);
                explicit |= mode == "enforce" && level.is_some();
                standard.level = level.unwrap_or(otherwise);
                if level.is_none() {
                    wrong(mode, said, "must be one of privileged, baseline, restricted");
                }
            }
            let name = format!("{mode}-version");
            if let Some(said) = label(&name) {
                match version(said) {
                    Some(minor) => standard.minor = minor,
                    None => wrong(&name, said, "must be \"latest\" or \"v1.x\""),
                }
            }
        }
        if label("warn").is_none() && explicit && demands.enforce.level > demands.warn.level {
            demands.warn.level = demands.enforce.level;
            if label("warn-version").is_none() {
                demands.warn.minor = demands.enforce.minor;
            }
        }
        (demands, errors)
    }
}

fn level(text: &str) -> Option<Level> {
    match text {
        "privileged" => Some(Level::Privileged),
        "baseline" => Some(Level::Baseline),
        "restricted" => Some(Level::Restricted),
        _ => None,
    }
}

/// A version; the inner nothing is the newest.
fn version(text: &str) -> Option<Option<u32>> {
    if text == "latest" {
        return Some(None);
    }
    let digits = text.strip_prefix("v1.")?;
    let plain = digits == "0" || !digits.starts_with('0');
    (plain && digits.bytes().all(|b| b.is_ascii_digit())).then(|| digits.parse().ok().map(Some))?
}

impl Call<'_> {
    /// Holds pods, and what makes them, to what their namespace demands.
    pub(super) fn hold_to_standards(
        &mut self,
        operation: Operation,
        live: Option<&Object>,
        object: Option<&Object>,
    ) -> Result<(), ApiError> {
        let written = matches!(operation, Operation::Create | Operation::Update);
        let Some(object) = object.filter(|_| written) else { return Ok(()) };
        let part = self.subresource.as_deref().unwrap_or_default();
        if self.resource.is("", "namespaces") && part.is_empty() {
            return self.check_demands(live, object);
        }
        if self.resource.is("", "pods") {
            let same = live.is_some_and(|live| !is_significant(live, object));
            if HARMLESS.contains(&part) || same {
                return Ok(());
            }
            return self.hold_pod(&Value::Object(object.clone()), Some(object));
        }
        let own = (self.resource.group.as_str(), self.resource.plural.as_str());
        let template = TEMPLATES.iter().find(|(group, plural, _)| (*group, *plural) == own);
        match template.filter(|_| part.is_empty()) {
            Some((.., pointer)) => {
                let object = Value::Object(object.clone());
                let Some(template) = object.pointer(pointer) else { return Ok(()) };
                self.hold_pod(template, None)
            }
            None => Ok(()),
        }
    }

    /// Holds a pod to the standards; without an object to refuse it is only warned of.
    fn hold_pod(&mut self, pod: &Value, refusable: Option<&Object>) -> Result<(), ApiError> {
        let Some(namespace) = self.namespace.as_deref() else { return Ok(()) };
        let Some(namespace) = self.server.read("", "namespaces", None, namespace)? else {
            return Ok(());
        };
        let labels = meta(&namespace).get("labels").unwrap_or(&Value::Null);
        if labels.as_object().is_none_or(|all| !all.keys().any(|key| key.starts_with(PREFIX))) {
            return Ok(());
        }
        let (demands, errors) = Demands::of(labels);
        let mut note = |key: &str, value: String| {
            self.annotations.push((format!("{PREFIX}{key}"), value));
        };
        if !errors.is_empty() {
            note("error", format!("Failed to parse policy: {}", aggregate(&errors)));
        }
        let mut refusal = None;
        if let Some(object) = refusable {
            note("enforce-policy", demands.enforce.to_string());
            if let Some(found) = violations(demands.enforce, pod).detail() {
                let why = format!("violates PodSecurity \"{}\": {found}", demands.enforce);
                refusal = Some((object, why));
            }
        }
        if let Some(found) = violations(demands.audit, pod).detail() {
            let told = format!("would violate PodSecurity \"{}\": {found}", demands.audit);
            note("audit-violations", told);
        }
        if let Some((object, why)) = refusal {
            return Err(self.forbidden(object, &why));
        }
        if let Some(found) = violations(demands.warn, pod).detail() {
            self.warnings.push(format!("would violate PodSecurity \"{}\": {found}", demands.warn));
        }
        Ok(())
    }

    /// The labels of a namespace must say something; who makes it stricter is told of its pods.
    fn check_demands(&mut self, live: Option<&Object>, object: &Object) -> Result<(), ApiError> {
        let labels = |object: &Object| meta(object).get("labels").cloned().unwrap_or_default();
        let (demands, errors) = Demands::of(&labels(object));
        let before = live.map(|live| Demands::of(&labels(live)));
        let known = before.as_ref().is_some_and(|(_, before)| *before == errors);
        if !errors.is_empty() && !known {
            let kind = GroupKind { group: String::new(), kind: "Namespace".to_owned() };
            return Err(ApiError::invalid(&kind, text(meta(object), "name"), &errors));
        }
        let Some((before, _)) = before else { return Ok(()) };
        let (new, old) = (demands.enforce, before.enforce);
        let laxer = new.minor == old.minor && new.level <= old.level;
        if new == old || new.level == Level::Privileged || laxer {
            return Ok(());
        }
        self.warn_of_pods(text(meta(object), "name"), new)
    }

    fn warn_of_pods(&mut self, namespace: &str, standard: Standard) -> Result<(), ApiError> {
        let table = self.server.table();
        let Some(pods) = table.get("", "pods") else { return Ok(()) };
        let pods = self.server.read_all_in(pods, Some(namespace))?;
        if pods.len() > MOST_PODS {
            self.warnings.push(format!(
                "new PodSecurity enforce level only checked against the first {MOST_PODS} of {} existing pods",
                pods.len()
            ));
        }
        let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for pod in pods.into_iter().take(MOST_PODS).map(Value::Object) {
            if let Some(reason) = violations(standard, &pod).reason() {
                let name = pod["metadata"]["name"].as_str().unwrap_or_default().to_owned();
                found.entry(reason).or_default().push(name);
            }
        }
        if found.is_empty() {
            return Ok(());
        }
        self.warnings.push(format!(
            "existing pods in namespace \"{namespace}\" violate the new PodSecurity enforce level \"{standard}\""
        ));
        let mut told: Vec<String> = found
            .into_iter()
            .map(|(reason, names)| {
                let first = names.iter().min().cloned().unwrap_or_default();
                match names.len() - 1 {
                    0 => format!("{first}: {reason}"),
                    1 => format!("{first} (and 1 other pod): {reason}"),
                    more => format!("{first} (and {more} other pods): {reason}"),
                }
            })
            .collect();
        told.sort();
        self.warnings.extend(told);
        Ok(())
    }
}

fn aggregate(errors: &[FieldError]) -> String {
    match errors {
        [one] => one.to_string(),
        several => {
            let all: Vec<String> = several.iter().map(ToString::to_string).collect();
            format!("[{}]", all.join(", "))
        }
    }
}

/// Whether an update changes what the checks look at; most of a pod never changes.
fn is_significant(live: &Object, object: &Object) -> bool {
    let spec = |object: &Object, field: &str| -> Vec<(Value, Value)> {
        let list = object.get("spec").and_then(|spec| spec.get(field)).and_then(Value::as_array);
        let containers = list.into_iter().flatten();
        containers.map(|one| (one["name"].clone(), one["image"].clone())).collect()
    };
    let differs = |field: &str| spec(live, field) != spec(object, field);
    let annotations = |object: &Object| -> Vec<(String, Value)> {
        let all = meta(object).get("annotations").and_then(Value::as_object);
        let watched = ["container.seccomp.", "seccomp.", "container.apparmor."];
        let all = all.into_iter().flatten();
        let all = all.filter(|(key, _)| watched.iter().any(|start| key.starts_with(start)));
        all.map(|(key, value)| (key.clone(), value.clone())).collect()
    };
    ["containers", "initContainers", "ephemeralContainers"].into_iter().any(differs)
        || annotations(live) != annotations(object)
}
