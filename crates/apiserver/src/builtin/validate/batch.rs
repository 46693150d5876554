//! Jobs: how many pods there are, when they count as failed, and what of a job stays as it is.

use std::collections::BTreeSet;

use serde_json::Value;

use super::apps::{not_negative, selects_template};
use super::form;
use super::place::{At, Errors};
use super::pod;
use crate::schema::names;
use crate::schema::print;

const LABELS: [(&str, bool); 4] = [
    ("controller-uid", true),
    ("job-name", false),
    ("batch.kubernetes.io/controller-uid", true),
    ("batch.kubernetes.io/job-name", false),
];

/// A job.
pub(super) fn job(old: Option<&Value>, at: &At<'_>, errors: &mut Errors) {
    generated_selector(at, errors);
    whole_spec(&at.field("spec"), errors);
    indexed_names(at, errors);
    if let Some(old) = old {
        // Upstream asks again.
        whole_spec(&at.field("spec"), errors);
        job_update(&old["spec"], &at.field("spec"), errors);
    }
}

fn whole_spec(spec: &At<'_>, errors: &mut Errors) {
    job_spec(spec, errors);
    let selector = spec.field("selector");
    if selector.value.is_null() {
        selector.required(errors, "");
    } else {
        form::selector(&selector, errors);
    }
    if form::is_usable(selector.value) {
        selects_template(spec, errors);
    }
}

/// The selector is the one that the server has made, and the template has what it looks for.
fn generated_selector(at: &At<'_>, errors: &mut Errors) {
    let spec = at.field("spec");
    if spec.is_true("manualSelector") || !spec.has("selector") {
        return;
    }
    let own = at.field("metadata");
    let template = spec.field("template");
    let metadata = template.field("metadata");
    let labels = metadata.field("labels");
    for (label, is_uid) in LABELS {
        let wanted = own.text(if is_uid { "uid" } else { "name" });
        match labels.get(label).as_str() {
            None => labels.key(label).required(errors, &format!("must be '{wanted}'")),
            Some(text) if text != wanted => {
                let why = format!("must be '{wanted}'");
                labels.key(label).invalid_value(errors, labels.value.clone(), why);
            }
            Some(_) => {}
        }
    }
    let made: serde_json::Map<String, Value> = LABELS
        .iter()
        .map(|(label, uid)| {
            ((*label).to_owned(), own.text(if *uid { "uid" } else { "name" }).into())
        })
        .collect();
    let selector = spec.get("selector");
    if form::is_usable(selector) && !form::selects(selector, &made.into()) {
        let shown = form::shown_selector(selector);
        spec.field("selector").invalid_as(errors, &shown, "`selector` not auto-generated");
    }
}

/// Every pod of an indexed job has a host name made of the job's.
fn indexed_names(at: &At<'_>, errors: &mut Errors) {
    let (spec, metadata) = (at.field("spec"), at.field("metadata"));
    let completions = spec.int("completions").unwrap_or(0);
    if spec.text("completionMode") == "Indexed" && completions > 0 {
        let longest = format!("{}-{}", metadata.text("name"), completions - 1);
        if !names::label(&longest).is_empty() {
            let why = format!("will not able to create pod with invalid DNS label: {longest}");
            metadata.field("name").invalid(errors, why);
        }
    }
}

/// What a job asks for; also in the template of a cron job.
pub(super) fn job_spec(spec: &At<'_>, errors: &mut Errors) {
    for field in [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ] {
        not_negative(spec, field, errors);
    }
    if spec.has("maxFailedIndexes") && !spec.has("backoffLimitPerIndex") {
        let why = "when maxFailedIndexes is specified";
        spec.field("backoffLimitPerIndex").required(errors, why);
    }
    if spec.has("managedBy") {
        let manager = spec.field("managedBy");
        form::domain_path(&manager, errors);
        if manager.as_text().len() > 63 {
            manager.too_long(errors, 63);
        }
    }
    completion_mode(spec, errors);
    if spec.has("podFailurePolicy") {
        failure_policy(spec, errors);
    }
    if spec.has("successPolicy") {
        success_policy(spec, errors);
    }
    let replacement = spec.field("podReplacementPolicy");
    let known: &[&str] =
        if spec.has("podFailurePolicy") { &["Failed"] } else { &["Failed", "TerminatingOrFailed"] };
    if !replacement.value.is_null() && !known.contains(&replacement.as_text()) {
        replacement.not_supported(errors, known);
    }
    pod::template(&spec.field("template"), errors);
    restart_policy(spec, errors);
}

fn restart_policy(spec: &At<'_>, errors: &mut Errors) {
    let template = spec.field("template");
    let pod = template.field("spec");
    let policy = pod.field("restartPolicy");
    match policy.as_text() {
        "" | "Always" => policy.required(errors, "valid values: \"OnFailure\", \"Never\""),
        "OnFailure" if spec.has("podFailurePolicy") => {
            policy
                .invalid(errors, "only \"Never\" is supported when podFailurePolicy is specified");
        }
        "OnFailure" | "Never" => {}
        _ => policy.not_supported(errors, &["OnFailure", "Never"]),
    }
}

fn completion_mode(spec: &At<'_>, errors: &mut Errors) {
    const MANY: i64 = 100_000;
    const FEWER: i64 = 10_000;
    let mode = spec.field("completionMode");
    if !mode.value.is_null() && !["NonIndexed", "Indexed"].contains(&mode.as_text()) {
        mode.not_supported(errors, &["NonIndexed", "Indexed"]);
    }
    let (completions, parallelism) = (spec.int("completions"), spec.int("parallelism"));
    let failed = spec.int("maxFailedIndexes");
    let over =
        |field: &str, why: String, errors: &mut Errors| spec.field(field).invalid(errors, why);
    if mode.as_text() == "Indexed" {
        if completions.is_none() {
            spec.field("completions").required(errors, "when completion mode is Indexed");
        }
        if parallelism.is_some_and(|n| n > MANY) {
            let why =
                format!("must be less than or equal to {MANY} when completion mode is Indexed");
            over("parallelism", why, errors);
        }
        if completions.zip(failed).is_some_and(|(all, failed)| failed > all) {
            let why = "must be less than or equal to completions".to_owned();
            over("maxFailedIndexes", why, errors);
        }
        if failed.is_some_and(|n| n > MANY) {
            over("maxFailedIndexes", format!("must be less than or equal to {MANY}"), errors);
        }
        if completions.is_some_and(|n| n > MANY) && spec.has("backoffLimitPerIndex") {
            if failed.is_none() {
                let why = format!("must be specified when completions is above {MANY}");
                spec.field("maxFailedIndexes").required(errors, &why);
            }
            for (field, value) in [("parallelism", parallelism), ("maxFailedIndexes", failed)] {
                if value.is_some_and(|n| n > FEWER) {
                    let why = format!(
                        "must be less than or equal to {FEWER} when completions are above {MANY} \
                         and used with backoff limit per index"
                    );
                    over(field, why, errors);
                }
            }
        }
    } else if matches!(mode.as_text(), "" | "NonIndexed") {
        for field in ["backoffLimitPerIndex", "maxFailedIndexes"] {
            if spec.has(field) {
                over(field, "requires indexed completion mode".to_owned(), errors);
            }
        }
    }
}

/// The sentence that lists what may be said.
fn valid(values: &[&str]) -> String {
    let quoted: Vec<String> = values.iter().map(|value| print::quote(value)).collect();
    format!("valid values: [{}]", quoted.join(" "))
}

fn one_of(at: &At<'_>, values: &[&str], errors: &mut Errors) {
    match at.as_text() {
        "" => at.required(errors, &valid(values)),
        text if values.contains(&text) => {}
        _ => at.not_supported(errors, values),
    }
}

fn failure_policy(spec: &At<'_>, errors: &mut Errors) {
    const RULES: u64 = 20;
    const ACTIONS: &[&str] = &["Count", "FailIndex", "FailJob", "Ignore"];
    let policy = spec.field("podFailurePolicy");
    let pod = &spec.get("template")["spec"];
    let containers = ["containers", "initContainers"].map(|list| pod[list].as_array());
    let containers = containers.into_iter().flatten().flatten();
    let known: BTreeSet<&str> = containers.filter_map(|one| one["name"].as_str()).collect();
    let rules = policy.field("rules");
    if policy.list("rules").len() as u64 > RULES {
        rules.too_many(errors, RULES);
    }
    for rule in rules.items() {
        let action = rule.field("action");
        if action.as_text() == "FailIndex" {
            if !spec.has("backoffLimitPerIndex") {
                action.invalid(errors, "requires the backoffLimitPerIndex to be set");
            }
        } else {
            one_of(&action, ACTIONS, errors);
        }
        if rule.has("onExitCodes") {
            exit_codes(&known, &rule.field("onExitCodes"), errors);
        }
        let conditions = rule.field("onPodConditions");
        if rule.list("onPodConditions").len() as u64 > RULES {
            conditions.too_many(errors, RULES);
        }
        for condition in conditions.items() {
            condition.field("type").must_be(errors, names::qualified);
            one_of(&condition.field("status"), &["False", "True", "Unknown"], errors);
        }
        match (rule.has("onExitCodes"), !rule.list("onPodConditions").is_empty()) {
            (true, true) => {
                let why = "specifying both OnExitCodes and OnPodConditions is not supported";
                rule.invalid_unshown(errors, why);
            }
            (false, false) => {
                let why = "specifying one of OnExitCodes and OnPodConditions is required";
                rule.invalid_unshown(errors, why);
            }
            _ => {}
        }
    }
}

fn exit_codes(known: &BTreeSet<&str>, at: &At<'_>, errors: &mut Errors) {
    const CODES: u64 = 255;
    one_of(&at.field("operator"), &["In", "NotIn"], errors);
    let name = at.get("containerName").as_str();
    if name.is_some_and(|name| !known.contains(name)) {
        let why = "must be one of the container or initContainer names in the pod template";
        at.field("containerName").invalid(errors, why);
    }
    let values = at.field("values");
    let codes: Vec<i64> = at.list("values").iter().filter_map(Value::as_i64).collect();
    if codes.is_empty() {
        values.invalid_value(errors, serde_json::json!([]), "at least one value is required");
    } else if codes.len() as u64 > CODES {
        values.too_many(errors, CODES);
    }
    let mut seen = BTreeSet::new();
    for (n, code) in codes.iter().enumerate() {
        if *code == 0 && at.text("operator") == "In" {
            values.index(n).invalid(errors, "must not be 0 for the In operator");
        }
        if !seen.insert(code) {
            values.index(n).duplicate(errors, *code);
        }
    }
    if !codes.is_sorted() {
        values.invalid(errors, "must be ordered");
    }
}

fn success_policy(spec: &At<'_>, errors: &mut Errors) {
    const RULES: u64 = 20;
    let policy = spec.field("successPolicy");
    if spec.text("completionMode") != "Indexed" {
        let shown = policy.list("rules").iter().map(|rule| {
            format!(
                "{{\"SucceededIndexes\":{},\"SucceededCount\":{}}}",
                rule["succeededIndexes"], rule["succeededCount"]
            )
        });
        let shown = format!("{{\"Rules\":[{}]}}", shown.collect::<Vec<_>>().join(","));
        return policy.invalid_as(errors, &shown, "requires indexed completion mode");
    }
    let rules = policy.field("rules");
    if policy.list("rules").is_empty() {
        let why = "at least one rules must be specified when the successPolicy is specified";
        rules.required(errors, why);
    }
    if policy.list("rules").len() as u64 > RULES {
        rules.too_many(errors, RULES);
    }
    let all = spec.int("completions").unwrap_or(0);
    for rule in rules.items() {
        let (count, indexes) = (rule.int("succeededCount"), rule.get("succeededIndexes").as_str());
        if count.is_none() && indexes.is_none() {
            let why = "at least one of succeededCount or succeededIndexes must be specified";
            rule.required(errors, why);
        }
        let mut total = 0;
        if let Some(text) = indexes {
            match index_count(text, all) {
                Ok(n) => total = n,
                Err(why) => {
                    let why = format!("error parsing succeededIndexes: {why}");
                    rule.field("succeededIndexes").invalid(errors, why);
                }
            }
        }
        let Some(count) = count else { continue };
        not_negative(&rule, "succeededCount", errors);
        let here = rule.field("succeededCount");
        if count > all {
            let why = format!(
                "must be less than or equal to {all} (the number of specified completions)"
            );
            here.invalid(errors, why);
        }
        if indexes.is_some() && count > total {
            let why = format!(
                "must be less than or equal to {total} (the number of indexes in the specified \
                 succeededIndexes field)"
            );
            here.invalid(errors, why);
        }
    }
}

/// How many indexes a text such as `1,3-5` names.
fn index_count(text: &str, completions: i64) -> Result<i64, String> {
    let number = |part: &str| {
        let bad = |_| {
            let shown = print::quote(part);
            format!("cannot convert string to integer for index: {shown}")
        };
        part.parse::<i64>().map_err(bad)
    };
    let (mut total, mut last) = (0, None);
    for part in text.split(',').filter(|_| !text.is_empty()) {
        let limits: Vec<&str> = part.split('-').collect();
        if limits.len() > 2 {
            let shown = print::quote(part);
            return Err(format!(
                "the fragment {shown} violates the requirement that an index interval can have at most two parts separated by '-'"
            ));
        }
        let first = number(limits[0])?;
        if first >= completions {
            return Err(format!("too large index: {}", print::quote(limits[0])));
        }
        if let Some(last) = last.filter(|last| first <= *last) {
            return Err(format!("non-increasing order, previous: {last}, current: {first}"));
        }
        let end = match limits.get(1) {
            None => first,
            Some(end) => {
                let text = *end;
                let end = number(text)?;
                if end >= completions {
                    return Err(format!("too large index: {}", print::quote(text)));
                }
                if end <= first {
                    return Err(format!("non-increasing order, previous: {first}, current: {end}"));
                }
                end
            }
        };
        total += end - first + 1;
        last = Some(end);
    }
    Ok(total)
}

/// What of a job stays as it is once it is there.
fn job_update(before: &Value, spec: &At<'_>, errors: &mut Errors) {
    let changed = |field: &str| &before[field] != spec.get(field);
    if changed("completions") {
        let here = spec.field("completions");
        if spec.text("completionMode") != "Indexed" {
            here.invalid(errors, "field is immutable");
        } else if spec.has("completions") && spec.int("completions") != spec.int("parallelism") {
            here.invalid(errors, "can only be modified in tandem with spec.parallelism");
        }
    }
    if changed("selector") {
        let shown = form::shown_selector(spec.get("selector"));
        spec.field("selector").invalid_as(errors, &shown, "field is immutable");
    }
    if template_changed(before, spec) {
        spec.field("template").invalid(errors, "field is immutable");
    }
    for field in
        ["completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy"]
    {
        if changed(field) {
            spec.field(field).invalid(errors, "field is immutable");
        }
    }
}

/// A suspended job that has not begun may still be told where its pods run.
fn template_changed(before: &Value, spec: &At<'_>) -> bool {
    let (mut old, mut new) = (before["template"].clone(), spec.get("template").clone());
    if before["suspend"] == true {
        for template in [&mut old, &mut new] {
            if let Some(pod) = template.get_mut("spec").and_then(Value::as_object_mut) {
                for field in ["nodeSelector", "tolerations", "schedulingGates"] {
                    pod.remove(field);
                }
                let affinity = pod.get_mut("affinity").and_then(Value::as_object_mut);
                let empty = affinity.is_some_and(|affinity| {
                    affinity.remove("nodeAffinity");
                    affinity.is_empty()
                });
                if empty {
                    pod.remove("affinity");
                }
            }
            if let Some(metadata) = template.get_mut("metadata").and_then(Value::as_object_mut) {
                metadata.remove("labels");
                metadata.remove("annotations");
            }
        }
    }
    old != new
}
