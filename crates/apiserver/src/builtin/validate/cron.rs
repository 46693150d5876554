//! Jobs that the clock makes.

use api::schedule::Schedule;
use serde_json::Value;

use super::apps::not_negative;
use super::batch::job_spec;
use super::form;
use super::place::{At, Errors};

/// A job that the clock makes.
pub(super) fn cron_job(old: Option<&Value>, at: &At<'_>, errors: &mut Errors) {
    let spec = at.field("spec");
    schedule(old, &spec, errors);
    not_negative(&spec, "startingDeadlineSeconds", errors);
    if old.is_none_or(|old| &old["spec"]["timeZone"] != spec.get("timeZone")) {
        time_zone(&spec.field("timeZone"), errors);
    }
    let concurrency = spec.field("concurrencyPolicy");
    match concurrency.as_text() {
        "" => concurrency.required(errors, ""),
        "Allow" | "Forbid" | "Replace" => {}
        _ => concurrency.not_supported(errors, &["Allow", "Forbid", "Replace"]),
    }
    let template = spec.field("jobTemplate");
    let inner = template.field("spec");
    job_spec(&inner, errors);
    if inner.has("selector") {
        let shown = form::shown_selector(inner.get("selector"));
        let why = "`selector` will be auto-generated";
        inner.field("selector").invalid_as(errors, &shown, why);
    }
    if inner.is_true("manualSelector") {
        inner.field("manualSelector").not_supported(errors, &["nil", "false"]);
    }
    for field in ["successfulJobsHistoryLimit", "failedJobsHistoryLimit"] {
        not_negative(&spec, field, errors);
    }
    let metadata = at.field("metadata");
    if old.is_none() && metadata.text("name").len() > 52 {
        metadata.field("name").invalid(errors, "must be no more than 52 characters");
    }
}

fn schedule(old: Option<&Value>, spec: &At<'_>, errors: &mut Errors) {
    let schedule = spec.field("schedule");
    let text = schedule.as_text();
    if text.is_empty() {
        return schedule.required(errors, "");
    }
    if let Err(why) = Schedule::parse(text) {
        schedule.invalid(errors, why.to_string());
    }
    let had = old.is_some_and(|old| {
        old["spec"]["schedule"].as_str().is_some_and(|text| text.contains("TZ"))
    });
    if text.contains("TZ") && !had {
        let why = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead";
        schedule.invalid(errors, why);
    } else if text.contains("TZ") && spec.has("timeZone") {
        let why = "cannot use both timeZone field and TZ or CRON_TZ in schedule";
        schedule.invalid(errors, why);
    }
}

fn time_zone(at: &At<'_>, errors: &mut Errors) {
    let Some(name) = at.value.as_str() else { return };
    if name.is_empty() {
        return at.invalid(errors, "timeZone must be nil or non-empty string");
    }
    let known = |part: &str| {
        !matches!(part, "." | "..")
            && !part.starts_with('-')
            && (1..=14).contains(&part.len())
            && part.bytes().all(|b| b.is_ascii_alphanumeric() || b".-_+".contains(&b))
    };
    if !name.split('/').all(known) {
        return at.invalid(errors, format!("unknown time zone {name}"));
    }
    if name.eq_ignore_ascii_case("local") {
        let why =
            "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones";
        at.invalid(errors, why);
    }
    if jiff::tz::TimeZone::get(name).is_err() && !name.eq_ignore_ascii_case("local") {
        at.invalid(errors, format!("unknown time zone {name}"));
    }
}
