//! Kinds of the cluster as a whole: nodes, namespaces, classes, budgets, certificates.

use std::collections::BTreeSet;

use serde_json::Value;

use super::amount;
use super::apps::{at_most_all, count_or_percent, not_negative};
use super::form;
use super::place::{At, Errors, push};
use super::pod::{Pod, tolerations};
use super::rule::Context;
use crate::schema::field::{ErrorKind, FieldError};
use crate::schema::names;

const IMMUTABLE: &str = "field is immutable";

/// A node.
pub(super) fn node(old: Option<&Value>, at: &At<'_>, errors: &mut Errors) {
    let (metadata, spec) = (at.field("metadata"), at.field("spec"));
    taints(&metadata.with("taints", spec.get("taints")), errors);
    resources(at, errors);
    pod_networks(&spec, errors);
    if old.is_some() {
        node_status(old, at, errors);
    }
}

fn resources(at: &At<'_>, errors: &mut Errors) {
    let status = at.field("status");
    for side in ["capacity", "allocatable"] {
        let here = status.field(side);
        for name in here.value.as_object().into_iter().flat_map(|map| map.keys()) {
            // Upstream tells them as fields and not as keys.
            amount::quantity(name, &here.field(name), errors);
        }
    }
}

/// A node that is there, be it its status that is written.
pub(super) fn node_status(old: Option<&Value>, at: &At<'_>, errors: &mut Errors) {
    let (metadata, spec, status) = (at.field("metadata"), at.field("spec"), at.field("status"));
    resources(at, errors);
    let Some(old) = old else { return };
    let addresses = status.list("addresses");
    let mut seen = BTreeSet::new();
    for (n, address) in addresses.iter().enumerate() {
        if !seen.insert((address["type"].as_str(), address["address"].as_str())) {
            let shown =
                format!("{{\"Type\":{},\"Address\":{}}}", address["type"], address["address"]);
            let here = status.field("addresses");
            let path = here.index(n).path();
            push(errors, FieldError::new(ErrorKind::Duplicate, path, None, &shown));
        }
    }
    let before = &old["spec"];
    let networks = |spec: &Value| spec["podCIDRs"].as_array().cloned().unwrap_or_default();
    let (had, has) = (networks(before), networks(spec.value));
    let why = "node updates may not change podCIDR except from \"\" to valid";
    if !had.is_empty() {
        let changed = if had.len() == has.len() {
            had.iter().zip(&has).filter(|(had, has)| had != has).count()
        } else {
            1
        };
        for _ in 0..changed {
            spec.field("podCIDRs").forbidden(errors, why);
        }
    }
    let provider = before["providerID"].as_str().unwrap_or_default();
    if !provider.is_empty() && provider != spec.text("providerID") {
        let why = "node updates may not change providerID except from \"\" to valid";
        spec.field("providerID").forbidden(errors, why);
    }
    taints(&metadata.with("taints", spec.get("taints")), errors);
}

fn pod_networks(spec: &At<'_>, errors: &mut Errors) {
    let list = spec.field("podCIDRs");
    for network in list.items() {
        network.must_be(errors, form::network);
    }
    let all: Vec<_> =
        spec.list("podCIDRs").iter().filter_map(|one| form::network_of(one.as_str()?)).collect();
    let both = all.iter().any(|(ip, _)| ip.is_ipv4()) && all.iter().any(|(ip, _)| ip.is_ipv6());
    let count = spec.list("podCIDRs").len();
    if count > 1 && (!both || count > 2) {
        list.invalid(errors, "may specify no more than one CIDR for each IP family");
    }
}

fn taints(at: &At<'_>, errors: &mut Errors) {
    const EFFECTS: &[&str] = &["NoSchedule", "PreferNoSchedule", "NoExecute"];
    let mut seen: BTreeSet<(String, String)> = BTreeSet::new();
    for taint in at.items() {
        let (key, effect) = (taint.text("key"), taint.field("effect"));
        taint.field("key").must_be(errors, names::qualified);
        let wrong = names::label_value(taint.text("value"));
        if !wrong.is_empty() {
            taint.field("value").invalid(errors, wrong.join(";"));
        }
        match effect.as_text() {
            "" => effect.required(errors, ""),
            text if EFFECTS.contains(&text) => {}
            _ => effect.not_supported(errors, EFFECTS),
        }
        let pair = (key.to_owned(), effect.as_text().to_owned());
        if seen.contains(&pair) {
            let time = taint.get("timeAdded");
            let shown = format!(
                "{{\"Key\":{},\"Value\":{},\"Effect\":{},\"TimeAdded\":{time}}}: taints must be \
                 unique by key and effect pair",
                Value::from(key),
                Value::from(taint.text("value")),
                Value::from(effect.as_text()),
            );
            push(errors, FieldError::new(ErrorKind::Duplicate, taint.path(), None, &shown));
        } else {
            seen.insert(pair);
        }
    }
}

/// A namespace's status.
pub(super) fn namespace_status(_: Option<&Value>, at: &At<'_>, errors: &mut Errors) {
    let (metadata, status) = (at.field("metadata"), at.field("status"));
    let (phase, why) = if metadata.has("deletionTimestamp") {
        ("Terminating", "may only be 'Terminating' if `deletionTimestamp` is not empty")
    } else {
        ("Active", "may only be 'Active' if `deletionTimestamp` is empty")
    };
    if status.text("phase") != phase {
        status.with("Phase", &Value::Null).invalid_value(errors, status.text("phase"), why);
    }
}

/// What only `/finalize` may set.
pub(super) fn namespace_finalize(_: Option<&Value>, at: &At<'_>, errors: &mut Errors) {
    let spec = at.field("spec");
    for finalizer in spec.field("finalizers").items() {
        finalizer.must_be(errors, names::qualified);
        let name = finalizer.as_text();
        if !name.contains('/') && !["kubernetes", "orphan", "foregroundDeletion"].contains(&name) {
            let why = "name is neither a standard finalizer name nor is it fully qualified";
            finalizer.invalid(errors, why);
        }
    }
}

/// A disruption budget.
pub(super) fn budget(_: Option<&Value>, at: &At<'_>, errors: &mut Errors) {
    let spec = at.field("spec");
    if spec.has("minAvailable") && spec.has("maxUnavailable") {
        let selector = match spec.get("selector") {
            Value::Null => "null".to_owned(),
            selector => form::shown_selector(selector),
        };
        let shown = format!(
            "{{\"MinAvailable\":{},\"Selector\":{selector},\"MaxUnavailable\":{},\
             \"UnhealthyPodEvictionPolicy\":{}}}",
            spec.get("minAvailable"),
            spec.get("maxUnavailable"),
            spec.get("unhealthyPodEvictionPolicy"),
        );
        spec.invalid_as(errors, &shown, "minAvailable and maxUnavailable cannot be both set");
    }
    for field in ["minAvailable", "maxUnavailable"] {
        if spec.has(field) {
            count_or_percent(&spec.field(field), errors);
            at_most_all(&spec.field(field), errors);
        }
    }
    form::selector(&spec.field("selector"), errors);
    let policy = spec.field("unhealthyPodEvictionPolicy");
    if !policy.value.is_null() && !["AlwaysAllow", "IfHealthyBudget"].contains(&policy.as_text()) {
        policy.not_supported(errors, &["AlwaysAllow", "IfHealthyBudget"]);
    }
}

/// A disruption budget's status.
pub(super) fn budget_status(_: Option<&Value>, at: &At<'_>, errors: &mut Errors) {
    let status = at.field("status");
    conditions(&status.field("conditions"), errors);
    for field in ["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"] {
        not_negative(&status, field, errors);
    }
}

/// Conditions of the common form.
fn conditions(at: &At<'_>, errors: &mut Errors) {
    const REASON: u64 = 1024;
    const MESSAGE: u64 = 32 * 1024;
    let mut seen = BTreeSet::new();
    for one in at.items() {
        let kind = one.text("type").to_owned();
        if !seen.insert(kind.clone()) {
            one.field("type").duplicate(errors, kind);
        }
        one.field("type").must_be(errors, names::qualified);
        if !["False", "True", "Unknown"].contains(&one.text("status")) {
            one.field("status").not_supported(errors, &["False", "True", "Unknown"]);
        }
        if one.int("observedGeneration").is_some_and(|n| n < 0) {
            let why = "must be greater than or equal to zero";
            one.field("observedGeneration").invalid(errors, why);
        }
        if !one.has("lastTransitionTime") {
            one.field("lastTransitionTime").required(errors, "");
        }
        let reason = one.field("reason");
        if reason.as_text().is_empty() {
            reason.required(errors, "");
        } else {
            reason.must_be(errors, condition_reason);
            if reason.as_text().len() as u64 > REASON {
                reason.too_long(errors, REASON);
            }
        }
        if one.text("message").len() as u64 > MESSAGE {
            one.field("message").too_long(errors, MESSAGE);
        }
    }
}

fn condition_reason(text: &str) -> Vec<String> {
    let inner = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b',' | b':');
    let bytes = text.as_bytes();
    let first = bytes.first().is_some_and(u8::is_ascii_alphabetic);
    let last = bytes.last().is_some_and(|b| b.is_ascii_alphanumeric() || *b == b'_');
    if first && last && text.bytes().all(inner) {
        return Vec::new();
    }
    vec!["a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric characters or '_,:', and must end with an alphanumeric character or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex used for validation is '[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?')".to_owned()]
}

/// The classes that a cluster has from the start, with their values.
const SYSTEM_CLASSES: [(&str, i64); 2] =
    [("system-node-critical", 2_000_001_000), ("system-cluster-critical", 2_000_000_000)];

/// A priority class.
pub(super) fn priority_class(old: Option<&Value>, at: &At<'_>, errors: &mut Errors) {
    const HIGHEST: i64 = 1_000_000_000;
    let value = at.int("value").unwrap_or(0);
    let metadata = at.field("metadata");
    if let Some(old) = old {
        if old["value"].as_i64().unwrap_or(0) != value {
            at.field("value").forbidden(errors, "may not be changed in an update.");
        }
        if &old["preemptionPolicy"] != at.get("preemptionPolicy") {
            at.field("preemptionPolicy").invalid(errors, IMMUTABLE);
        }
        return;
    }
    let name = metadata.text("name");
    if name.starts_with("system-") {
        let known = SYSTEM_CLASSES.iter().find(|(known, _)| *known == name);
        let why = match known {
            None => Some(format!("{name} is not a known system priority class")),
            Some((_, right)) if *right != value => {
                Some(format!("value of {name} PriorityClass must be {right}"))
            }
            Some(_) if at.is_true("globalDefault") => {
                Some(format!("globalDefault of {name} PriorityClass must be false"))
            }
            Some(_) => None,
        };
        if let Some(why) = why {
            let why = format!(
                "priority class names with 'system-' prefix are reserved for system use only. \
                 error: {why}"
            );
            metadata.field("name").forbidden(errors, why);
        }
    } else if value > HIGHEST {
        let why = format!("maximum allowed value of a user defined priority is {HIGHEST}");
        at.field("value").forbidden(errors, why);
    }
    let policy = at.field("preemptionPolicy");
    if !policy.value.is_null() && !["PreemptLowerPriority", "Never"].contains(&policy.as_text()) {
        policy.not_supported(errors, &["PreemptLowerPriority", "Never"]);
    }
}

/// A class of container runtimes.
pub(super) fn runtime_class(old: Option<&Value>, at: &At<'_>, errors: &mut Errors) {
    if let Some(old) = old {
        if &old["handler"] != at.get("handler") {
            at.field("handler").invalid(errors, IMMUTABLE);
        }
        return;
    }
    at.field("handler").must_be(errors, names::label);
    if at.has("overhead") {
        let overhead = at.field("overhead");
        let limits = serde_json::json!({"limits": overhead.get("podFixed")});
        let pod = Pod::default();
        amount::requirements(&overhead.instead(&limits), &Context { pod: &pod }, errors);
    }
    if at.has("scheduling") {
        let scheduling = at.field("scheduling");
        form::labels(&scheduling.field("nodeSelector"), errors);
        tolerations(&scheduling.field("tolerations"), errors);
    }
}

/// A class of storage.
pub(super) fn storage_class(old: Option<&Value>, at: &At<'_>, errors: &mut Errors) {
    if let Some(old) = old {
        for field in ["parameters", "provisioner", "reclaimPolicy"] {
            if &old[field] != at.get(field) {
                let why = format!("updates to {field} are forbidden.");
                at.field(field).forbidden(errors, why);
            }
        }
        if &old["volumeBindingMode"] != at.get("volumeBindingMode") {
            at.field("volumeBindingMode").invalid(errors, IMMUTABLE);
        }
        return;
    }
    let provisioner = at.field("provisioner");
    if provisioner.as_text().is_empty() {
        provisioner.required(errors, "");
    } else {
        for why in form::qualified_any_case(provisioner.as_text()) {
            provisioner.invalid_value(errors, provisioner.as_text().to_lowercase(), why);
        }
    }
    for key in at.map("parameters").into_iter().flat_map(|map| map.keys()) {
        if key.is_empty() {
            at.field("parameters").invalid_value(errors, "", "field can not be empty.");
        }
    }
    let reclaim = at.field("reclaimPolicy");
    if !["", "Delete", "Retain"].contains(&reclaim.as_text()) {
        reclaim.not_supported(errors, &["Delete", "Retain"]);
    }
    let binding = at.field("volumeBindingMode");
    if binding.value.is_null() {
        binding.required(errors, "");
    } else if !["Immediate", "WaitForFirstConsumer"].contains(&binding.as_text()) {
        binding.not_supported(errors, &["Immediate", "WaitForFirstConsumer"]);
    }
}

/// What a certificate may be for, sorted.
const USAGES: &[&str] = &[
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
];

/// A request for a certificate; its spec is not looked at again once it is there.
pub(super) fn certificate_request(old: Option<&Value>, at: &At<'_>, errors: &mut Errors) {
    use base64::Engine as _;
    if old.is_some() {
        return;
    }
    let spec = at.field("spec");
    let request = spec.field("request");
    let bytes = base64::engine::general_purpose::STANDARD.decode(request.as_text());
    let text = bytes.ok().and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_default();
    if !text.contains("-----BEGIN CERTIFICATE REQUEST-----")
        && !text.contains("-----BEGIN NEW CERTIFICATE REQUEST-----")
    {
        request.invalid(errors, "PEM block type must be CERTIFICATE REQUEST");
    }
    if spec.list("usages").is_empty() {
        spec.field("usages").required(errors, "");
    }
    let usages = spec.field("usages");
    for usage in usages.items().filter(|usage| !USAGES.contains(&usage.as_text())) {
        usage.not_supported(errors, USAGES);
    }
    let mut seen = BTreeSet::new();
    for usage in usages.items() {
        if !seen.insert(usage.as_text().to_owned()) {
            usage.duplicate(errors, usage.as_text());
        }
    }
    let signer = spec.field("signerName");
    if signer.as_text() == "kubernetes.io/legacy-unknown" {
        signer.invalid(errors, "the legacy signerName is not allowed via this API version");
    } else {
        signer_name(&signer, errors);
    }
    if spec.int("expirationSeconds").is_some_and(|seconds| seconds < 600) {
        let why = "may not specify a duration less than 600 seconds (10 minutes)";
        spec.field("expirationSeconds").invalid(errors, why);
    }
}

/// `example.com/name`.
fn signer_name(at: &At<'_>, errors: &mut Errors) {
    const PATH: usize = 253 + 63 + 1 + 253;
    let name = at.as_text();
    if name.is_empty() {
        return at.required(errors, "");
    }
    let parts: Vec<&str> = name.split('/').collect();
    let [domain, path] = parts.as_slice() else {
        let why = "must be a fully qualified domain and path of the form 'example.com/signer-name'";
        return at.invalid(errors, why);
    };
    let wrong = names::subdomain(domain);
    for why in &wrong {
        let why = format!("validating label {}: {why}", crate::schema::print::quote(domain));
        at.invalid_value(errors, *domain, why);
    }
    if wrong.is_empty() && !domain.contains('.') {
        let why = "should be a domain with at least two segments separated by dots";
        at.invalid_value(errors, name, why);
    }
    for why in names::subdomain(path) {
        at.invalid_value(errors, name, format!("validating path: {why}"));
    }
    if name.len() > PATH {
        at.too_long(errors, PATH as u64);
    }
}
