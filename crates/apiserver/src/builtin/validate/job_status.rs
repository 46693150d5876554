//! What a controller may say about a job: counts, conditions, and what cannot be taken back.

use serde_json::Value;

use super::apps::not_negative;
use super::place::{At, Errors};

/// A job's status.
pub(super) fn job_status(old: Option<&Value>, at: &At<'_>, errors: &mut Errors) {
    let (spec, status) = (at.field("spec"), at.field("status"));
    for field in ["active", "succeeded", "failed", "ready", "terminating"] {
        not_negative(&status, field, errors);
    }
    let conditions = status.field("conditions");
    let is = |kind: &str| {
        status.list("conditions").iter().any(|one| one["type"] == kind && one["status"] == "True")
    };
    let (complete, failed) = (is("Complete"), is("Failed"));
    let mut clash = |wrong: bool, why: &str| {
        if wrong {
            conditions.invalid_unshown(errors, why);
        }
    };
    clash(complete && failed, "cannot set Complete=True and Failed=true conditions");
    clash(
        complete && is("FailureTarget"),
        "cannot set Complete=True and FailureTarget=true conditions",
    );
    let ended = status.field("completionTime");
    if status.has("completionTime") && !complete {
        let why = "cannot set completionTime when there is no Complete=True condition";
        ended.invalid(errors, why);
    }
    if !status.has("completionTime") && complete {
        ended.required(errors, "completionTime is required for Complete jobs");
    }
    if status.has("startTime")
        && status.text("completionTime") < status.text("startTime")
        && status.has("completionTime")
    {
        ended.invalid(errors, "must be equal to or after `startTime`");
    }
    let mut clash = |wrong: bool, why: &str| {
        if wrong {
            conditions.invalid_unshown(errors, why);
        }
    };
    clash(
        failed && !is("FailureTarget"),
        "cannot set Failed=True condition without the FailureTarget=true condition",
    );
    clash(
        complete && !is("SuccessCriteriaMet"),
        "cannot set Complete=True condition without the SuccessCriteriaMet=true condition",
    );
    finished(&spec, &status, complete || failed, errors);
    let mut clash = |wrong: bool, why: &str| {
        if wrong {
            conditions.invalid_unshown(errors, why);
        }
    };
    let met = is("SuccessCriteriaMet");
    clash(met && failed, "cannot set SuccessCriteriaMet=True and Failed=true conditions");
    clash(
        met && is("FailureTarget"),
        "cannot set SuccessCriteriaMet=True and FailureTarget=true conditions",
    );
    if let Some(old) = old {
        status_update(&old["status"], &spec, &status, errors);
    }
}

fn finished(spec: &At<'_>, status: &At<'_>, finished: bool, errors: &mut Errors) {
    let count = |field: &str| status.int(field).unwrap_or(0);
    if finished && count("active") > 0 {
        status.field("active").invalid(errors, "active>0 is invalid for finished job");
    }
    if finished && !status.has("startTime") {
        status.field("startTime").required(errors, "startTime is required for finished job");
    }
    let indexed = spec.text("completionMode") == "Indexed";
    if !status.text("completedIndexes").is_empty() && !indexed {
        let why = "cannot set non-empty completedIndexes when non-indexed completion mode";
        status.field("completedIndexes").invalid(errors, why);
    }
    if status.has("failedIndexes") && !spec.has("backoffLimitPerIndex") {
        let why = "cannot set non-null failedIndexes when backoffLimitPerIndex is null";
        status.field("failedIndexes").invalid(errors, why);
    }
    if finished && count("terminating") > 0 {
        status.field("terminating").invalid(errors, "terminating>0 is invalid for finished job");
    }
    if status.has("ready") && count("ready") > count("active") {
        status.field("ready").invalid(errors, "cannot set more ready pods than active");
    }
}

fn status_update(before: &Value, spec: &At<'_>, status: &At<'_>, errors: &mut Errors) {
    let is = |list: Option<&Vec<Value>>, kind: &str| {
        list.into_iter().flatten().any(|one| one["type"] == kind && one["status"] == "True")
    };
    let (old, new) = (before["conditions"].as_array(), status.get("conditions").as_array());
    let conditions = status.field("conditions");
    for kind in ["Failed", "Complete", "FailureTarget"] {
        if is(old, kind) && !is(new, kind) {
            let why = format!("cannot disable the terminal {kind}=True condition");
            conditions.invalid_unshown(errors, &why);
        }
    }
    // An indexed job whose size is its parallelism can be made smaller.
    let elastic = spec.text("completionMode") == "Indexed"
        && spec.int("completions") == spec.int("parallelism");
    for field in ["failed", "succeeded"] {
        let count = status.int(field).unwrap_or(0);
        if (field == "failed" || !elastic) && count < before[field].as_i64().unwrap_or(0) {
            let why = format!("cannot decrease the {field} counter");
            status.field(field).invalid_value(errors, count, why);
        }
    }
    let ended = status.field("completionTime");
    if !ended.value.is_null()
        && !before["completionTime"].is_null()
        && ended.value != &before["completionTime"]
    {
        ended.invalid(errors, "field is immutable");
    }
    let started = &before["startTime"];
    let resumed = |one: &Value| one["type"] == "Suspended" && one["status"] == "False";
    let resumes = is(old, "Suspended") && new.into_iter().flatten().any(resumed);
    if !resumes
        && !started.is_null()
        && started != status.get("startTime")
        && !spec.is_true("suspend")
    {
        let why = "startTime cannot be removed for unsuspended job";
        status.field("startTime").required(errors, why);
    }
    if is(old, "SuccessCriteriaMet") && !is(new, "SuccessCriteriaMet") {
        conditions.invalid_unshown(errors, "cannot disable the SuccessCriteriaMet=True condition");
    }
}
