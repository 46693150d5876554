//! Admission policies and their bindings, and what they have in common with webhooks.
//!
//! The expressions of a policy are compiled here as they will be when they run, so that nothing is
//! stored that does not compile.

use std::collections::HashSet;

use serde_json::Value;

use super::form;
use super::place::{At, Errors};
use crate::cel::RESERVED;
use crate::cel::admission::{Environment, Gives};
use crate::schema::names;

pub(super) const FAILURE: &[&str] = &["Fail", "Ignore"];
pub(super) const MATCH: &[&str] = &["Equivalent", "Exact"];
const OPERATIONS: &[&str] = &["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
const SCOPES: &[&str] = &["*", "Cluster", "Namespaced"];
const ACTIONS: &[&str] = &["Audit", "Deny", "Warn"];
const REASONS: &[&str] = &["Forbidden", "Invalid", "RequestEntityTooLarge"];

/// The most conditions of a match, and the most audit annotations of a policy.
const MOST_CONDITIONS: u64 = 64;
const MOST_ANNOTATIONS: usize = 20;

/// The longest expression for the value of an audit annotation, in bytes.
const LONGEST_VALUE: usize = 5 * 1024;

/// A policy.
pub(super) fn policy(old: Option<&Value>, at: &At<'_>, errors: &mut Errors) {
    let spec = at.field("spec");
    one_of(&spec, "failurePolicy", FAILURE, errors);
    if spec.has("paramKind") {
        param_kind(&spec.field("paramKind"), errors);
    }
    let constraints = spec.field("matchConstraints");
    if constraints.value.is_null() {
        constraints.required(errors, "");
    } else {
        match_resources(&constraints, errors);
        if constraints.list("resourceRules").is_empty() {
            constraints.field("resourceRules").required(errors, "");
        }
    }
    let params = spec.has("paramKind");
    let kept = |field: &str| old.is_some_and(|old| old["spec"][field] == *spec.get(field));
    if !(kept("paramKind") && kept("matchConditions")) {
        match_conditions(&spec.field("matchConditions"), params, errors);
    }
    let mut environment = Environment::new(params, !spec.list("variables").is_empty());
    for variable in spec.field("variables").items() {
        compose(&variable, &mut environment, errors);
    }
    if spec.list("validations").is_empty() && spec.list("auditAnnotations").is_empty() {
        let why = "validations or auditAnnotations must contain at least one item";
        spec.field("validations").required(errors, why);
        spec.field("auditAnnotations").required(errors, why);
        return;
    }
    for validation in spec.field("validations").items() {
        self::validation(&validation, &environment, errors);
    }
    let annotations = spec.field("auditAnnotations");
    if spec.list("auditAnnotations").len() > MOST_ANNOTATIONS {
        let why = format!("must not have more than {MOST_ANNOTATIONS} auditAnnotations");
        annotations.invalid(errors, why);
    }
    let name = at.field("metadata").text("name");
    let mut keys = HashSet::new();
    for annotation in annotations.items() {
        audit_annotation(&annotation, name, &environment, errors);
        if !keys.insert(annotation.text("key")) {
            annotation.field("key").duplicate(errors, annotation.text("key"));
        }
    }
}

/// What the server found out about a policy.
pub(super) fn policy_status(_: Option<&Value>, at: &At<'_>, errors: &mut Errors) {
    let status = at.field("status");
    let checked = status.field("typeChecking");
    for warning in checked.field("expressionWarnings").items() {
        for field in ["warning", "fieldRef"] {
            if warning.text(field).trim().is_empty() {
                warning.field(field).required(errors, "");
            }
        }
    }
}

/// A binding of a policy.
pub(super) fn binding(_: Option<&Value>, at: &At<'_>, errors: &mut Errors) {
    let spec = at.field("spec");
    let name = spec.field("policyName");
    match spec.text("policyName") {
        "" => name.required(errors, ""),
        _ => name.must_be(errors, names::subdomain),
    }
    if spec.has("paramRef") {
        param_ref(&spec.field("paramRef"), errors);
    }
    if spec.has("matchResources") {
        match_resources(&spec.field("matchResources"), errors);
    }
    let actions = spec.field("validationActions");
    let mut seen = HashSet::new();
    for action in actions.items() {
        if !ACTIONS.contains(&action.as_text()) {
            action.not_supported(errors, ACTIONS);
        }
        if !seen.insert(action.as_text()) {
            action.duplicate(errors, action.as_text());
        }
    }
    if seen.contains("Deny") && seen.contains("Warn") {
        actions.invalid(errors, "must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)");
    }
    if seen.is_empty() {
        actions.required(errors, "at least one validation action is required");
    }
}

/// It must be there, and be one of these.
fn one_of(at: &At<'_>, field: &str, values: &[&str], errors: &mut Errors) {
    if at.has(field) {
        if_set(at, field, values, errors);
    } else {
        at.field(field).required(errors, "");
    }
}

/// It must be one of these, if it is there.
pub(super) fn if_set(at: &At<'_>, field: &str, values: &[&str], errors: &mut Errors) {
    if at.get(field).as_str().is_some_and(|text| !values.contains(&text)) {
        at.field(field).not_supported(errors, values);
    }
}

fn param_kind(at: &At<'_>, errors: &mut Errors) {
    let version = at.field("apiVersion");
    let said = version.as_text();
    match said.split('/').collect::<Vec<_>>().as_slice() {
        [""] => version.required(errors, ""),
        [_] | [_, _] => {
            let (group, name) = said.split_once('/').unwrap_or(("", said));
            let wrong = names::subdomain(group);
            if !group.is_empty() && !wrong.is_empty() {
                version.invalid_value(errors, group, wrong.join(","));
            }
            let wrong = names::label_1035(name);
            if name.is_empty() {
                version.invalid(errors, "version must be specified");
            } else if !wrong.is_empty() {
                version.invalid_value(errors, name, wrong.join(","));
            }
        }
        _ => version.invalid(errors, format!("unexpected GroupVersion string: {said}")),
    }
    let kind = at.field("kind");
    let wrong = names::label_1035(&kind.as_text().to_lowercase());
    if kind.as_text().is_empty() {
        kind.required(errors, "");
    } else if !wrong.is_empty() {
        let why = format!("may have mixed case, but should otherwise match: {}", wrong.join(","));
        kind.invalid(errors, why);
    }
}

fn param_ref(at: &At<'_>, errors: &mut Errors) {
    const EXCLUSIVE: &str = "name and selector are mutually exclusive";
    let (named, selects) = (!at.text("name").is_empty(), at.has("selector"));
    if named {
        at.field("name").must_be(errors, form::path_segment);
        if selects {
            at.field("name").forbidden(errors, EXCLUSIVE);
        }
    }
    if selects {
        form::selector(&at.field("selector"), errors);
        if named {
            at.field("selector").forbidden(errors, EXCLUSIVE);
        }
    }
    if !named && !selects {
        at.required(errors, "one of name or selector must be specified");
    }
    match at.text("parameterNotFoundAction") {
        "" => at.field("parameterNotFoundAction").required(errors, ""),
        "Deny" | "Allow" => {}
        _ => at.field("parameterNotFoundAction").not_supported(errors, &["Deny", "Allow"]),
    }
}

fn match_resources(at: &At<'_>, errors: &mut Errors) {
    one_of(at, "matchPolicy", MATCH, errors);
    for field in ["namespaceSelector", "objectSelector"] {
        if at.has(field) {
            form::selector(&at.field(field), errors);
        } else {
            at.field(field).required(errors, "");
        }
    }
    for field in ["resourceRules", "excludeResourceRules"] {
        for rule in at.field(field).items() {
            let mut seen = HashSet::new();
            for name in rule.field("resourceNames").items() {
                name.must_be(errors, form::path_segment);
                if !seen.insert(name.as_text()) {
                    name.duplicate(errors, name.as_text());
                }
            }
            self::rule(&rule, errors);
        }
    }
}

pub(super) fn rule(at: &At<'_>, errors: &mut Errors) {
    let wild = |field: &str| at.list(field).len() > 1 && at.list(field).iter().any(|v| v == "*");
    let operations = at.field("operations");
    if at.list("operations").is_empty() {
        operations.required(errors, "");
    }
    if wild("operations") {
        operations.invalid(errors, "if '*' is present, must not specify other operations");
    }
    for operation in operations.items() {
        if !OPERATIONS.contains(&operation.as_text()) {
            operation.not_supported(errors, OPERATIONS);
        }
    }
    for (field, what) in [("apiGroups", "API groups"), ("apiVersions", "API versions")] {
        if at.list(field).is_empty() {
            at.field(field).required(errors, "");
        }
        if wild(field) {
            let why = format!("if '*' is present, must not specify other {what}");
            at.field(field).invalid(errors, why);
        }
    }
    for version in at.field("apiVersions").items() {
        if version.as_text().is_empty() {
            version.required(errors, "");
        }
    }
    resources(&at.field("resources"), errors);
    if_set(at, "scope", SCOPES, errors);
}

fn resources(at: &At<'_>, errors: &mut Errors) {
    let all = at.value.as_array().map_or(&[][..], Vec::as_slice);
    if all.is_empty() {
        at.required(errors, "");
    }
    let (mut of_resource, mut of_part) = (HashSet::new(), HashSet::new());
    let (mut double, mut single, mut bare) = (false, false, false);
    for item in at.items() {
        let text = item.as_text();
        if text.is_empty() {
            item.required(errors, "");
            continue;
        }
        double |= text == "*/*";
        single |= text == "*";
        let Some((resource, part)) = text.split_once('/') else {
            bare = text != "*";
            continue;
        };
        if of_resource.contains(resource) {
            let why = format!("if '{resource}/*' is present, must not specify {text}");
            item.invalid(errors, why);
        }
        if of_part.contains(part) {
            item.invalid(errors, format!("if '*/{part}' is present, must not specify {text}"));
        }
        if part == "*" {
            of_resource.insert(resource.to_owned());
        }
        if resource == "*" {
            of_part.insert(part.to_owned());
        }
    }
    if all.len() > 1 && double {
        at.invalid(errors, "if '*/*' is present, must not specify other resources");
    }
    if single && bare {
        let why = "if '*' is present, must not specify other resources without subresources";
        at.invalid(errors, why);
    }
}

pub(super) fn match_conditions(at: &At<'_>, params: bool, errors: &mut Errors) {
    let environment = Environment::new(params, false);
    if at.value.as_array().is_some_and(|list| list.len() as u64 > MOST_CONDITIONS) {
        at.too_many(errors, MOST_CONDITIONS);
    }
    let mut seen = HashSet::new();
    for condition in at.items() {
        let (expression, name) = (condition.text("expression").trim(), condition.text("name"));
        let place = condition.field("expression");
        if expression.is_empty() {
            place.required(errors, "");
        } else if let Err(why) = environment.compile(expression, Gives::Bool, true) {
            place.invalid_value(errors, expression, why);
        }
        if name.is_empty() {
            condition.field("name").required(errors, "");
        } else {
            condition.field("name").must_be(errors, names::qualified);
            if !seen.insert(name) {
                condition.field("name").duplicate(errors, name);
            }
        }
    }
}

fn compose(at: &At<'_>, environment: &mut Environment, errors: &mut Errors) {
    let name = at.text("name");
    if name.trim().is_empty() {
        at.field("name").required(errors, "name is not specified");
    } else if !is_identifier(name) {
        at.field("name").invalid(errors, "must be a valid CEL identifier");
    }
    let expression = at.field("expression");
    if expression.as_text().trim().is_empty() {
        expression.required(errors, "expression is not specified");
    } else if let Err(why) = environment.compose(name, expression.as_text()) {
        expression.invalid(errors, why);
    }
}

fn is_identifier(name: &str) -> bool {
    let inner = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    !name.starts_with(|c: char| c.is_ascii_digit())
        && name.bytes().all(inner)
        && !RESERVED.contains(&name)
}

fn validation(at: &At<'_>, environment: &Environment, errors: &mut Errors) {
    let expression = at.field("expression");
    if expression.as_text().trim().is_empty() {
        expression.required(errors, "expression is not specified");
    } else if let Err(why) = environment.compile(expression.as_text(), Gives::Bool, true) {
        expression.invalid(errors, why);
    }
    let wording = at.field("messageExpression");
    let is_blank = |text: &str| !text.is_empty() && text.trim().is_empty();
    if is_blank(wording.as_text()) {
        wording.invalid(errors, "must be non-empty if specified");
    } else if !wording.as_text().is_empty()
        && let Err(why) = environment.compile(wording.as_text(), Gives::Text, false)
    {
        wording.invalid(errors, why);
    }
    let message = at.field("message");
    if is_blank(message.as_text()) {
        message.invalid(errors, "must be non-empty if specified");
    } else if message.as_text().trim().contains(['\n', '\r']) {
        message.invalid(errors, "must not contain line breaks");
    }
    if_set(at, "reason", REASONS, errors);
}

fn audit_annotation(at: &At<'_>, name: &str, environment: &Environment, errors: &mut Errors) {
    let key = at.field("key");
    if name.is_empty() {
        key.invalid(errors, "requires metadata.name be non-empty");
    } else {
        let whole = format!("{name}/{}", key.as_text());
        for why in names::qualified(&whole) {
            key.invalid_value(errors, &*whole, why);
        }
    }
    let value = at.field("valueExpression");
    let text = value.as_text().trim();
    if text.is_empty() {
        value.required(errors, "valueExpression is not specified");
    } else if text.len() > LONGEST_VALUE {
        value.required(errors, &format!("must not exceed {LONGEST_VALUE} bytes in length"));
    } else if let Err(why) = environment.compile(text, Gives::TextOrNull, true) {
        value.invalid(errors, why);
    }
}
