//! Quantities and the resources they are of: which names there are, and what may be asked for.
//!
//! Quantities arrive in the form in which the server writes them.

use std::collections::BTreeSet;

use super::place::{At, Errors, Form, push};
use super::rule::{Context, NEGATIVE};
use crate::schema::names;

/// A billionth, which is the finest that a quantity tells apart.
const UNIT: i128 = 1_000_000_000;

const NATIVE: &str = "kubernetes.io/";

const HUGE_PAGES: &str = "hugepages-";

/// Resources that are counted, not measured.
const COUNTED: &[&str] = &[
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "services.nodeports",
    "services.loadbalancers",
];

/// Resources that need no domain in front, besides the counted ones.
const STANDARD: &[&str] = &[
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "storage",
    "requests.storage",
];

/// What a container may ask for without a domain.
const OF_CONTAINERS: &[&str] = &["cpu", "memory", "ephemeral-storage"];

/// A quantity in billionths; what is beyond 128 bits counts as the largest.
pub(in crate::builtin) fn nanos(text: &str) -> i128 {
    let (negative, text) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let mut amount: i128 = 0;
    for digit in whole.bytes() {
        amount = amount.saturating_mul(10).saturating_add((digit - b'0').into());
    }
    amount = amount.saturating_mul(UNIT);
    let mut place = UNIT;
    for digit in fraction.bytes() {
        place /= 10;
        amount = amount.saturating_add(i128::from(digit.saturating_sub(b'0')) * place);
    }
    let scaled = scale(amount, suffix);
    if negative { -scaled } else { scaled }
}

fn scale(amount: i128, suffix: &str) -> i128 {
    let binary = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"].iter().position(|s| *s == suffix);
    if let Some(step) = binary {
        return amount.saturating_mul(1 << ((step + 1) * 10));
    }
    let letters = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
    let power = match letters.iter().position(|letter| *letter == suffix) {
        Some(n) => n as i32 * 3 - 9,
        None => suffix.trim_start_matches(['e', 'E']).parse::<i32>().unwrap_or(0),
    };
    let factor = 10i128.checked_pow(power.unsigned_abs()).unwrap_or(i128::MAX);
    if power < 0 { amount / factor } else { amount.saturating_mul(factor) }
}

/// An amount in billionths as the server writes a decimal quantity.
pub(super) fn shown(nanos: i128) -> String {
    let text = if nanos % UNIT == 0 {
        (nanos / UNIT).to_string()
    } else if nanos % 1_000_000 == 0 {
        format!("{}m", nanos / 1_000_000)
    } else {
        format!("{nanos}n")
    };
    crate::builtin::quantity::canonical(&text).unwrap_or(text)
}

/// A quantity must not be below zero, and what is counted must be whole.
pub(super) fn quantity(name: &str, at: &At<'_>, errors: &mut Errors) {
    let amount = nanos(at.as_text());
    if amount < 0 {
        at.invalid(errors, NEGATIVE);
    }
    let counted = COUNTED.contains(&name) || name.contains('/') && !name.contains(NATIVE);
    if counted && amount % UNIT != 0 {
        at.invalid(errors, "must be an integer");
    }
}

/// The name of a resource, told where it stands.
pub(super) fn resource_name(name: &str, at: &At<'_>, errors: &mut Errors) {
    let wrong = names::qualified(name);
    let quota_pages = name.strip_prefix("requests.").unwrap_or_default().starts_with(HUGE_PAGES);
    if wrong.is_empty()
        && !name.contains('/')
        && !STANDARD.contains(&name)
        && !COUNTED.contains(&name)
        && !name.starts_with(HUGE_PAGES)
        && !quota_pages
    {
        at.invalid_value(errors, name, "must be a standard resource type or fully qualified");
    }
    for why in wrong {
        at.invalid_value(errors, name, why);
    }
}

/// The name of a resource that a container may ask for.
pub(super) fn container_resource(name: &str, at: &At<'_>, errors: &mut Errors) {
    resource_name(name, at, errors);
    if !name.contains('/') {
        if !OF_CONTAINERS.contains(&name) && !name.starts_with(HUGE_PAGES) {
            at.invalid_value(errors, name, "must be a standard resource for containers");
        }
    } else if !name.contains(NATIVE)
        && (name.starts_with("requests.")
            || !names::qualified(&format!("requests.{name}")).is_empty())
    {
        at.invalid_value(errors, name, "doesn't follow extended resource name standard");
    }
}

/// The name of a resource that a pod as a whole may ask for.
fn pod_resource(name: &str, at: &At<'_>, errors: &mut Errors) {
    let before = errors.len();
    resource_name(name, at, errors);
    if errors.len() == before && !matches!(name, "cpu" | "memory") && !name.starts_with(HUGE_PAGES)
    {
        let supported = ["cpu", "hugepages-", "memory"];
        push(errors, crate::schema::field::FieldError::not_supported(at.path(), name, &supported));
    }
}

/// What a container asks for and is held to.
pub(super) fn requirements(at: &At<'_>, context: &Context<'_>, errors: &mut Errors) {
    sides(at, container_resource, errors);
    claims(&at.field("claims"), context, errors);
}

/// What a pod as a whole asks for and is held to.
pub(super) fn pod_requirements(at: &At<'_>, context: &Context<'_>, errors: &mut Errors) {
    if at.has("claims") {
        at.field("claims").forbidden(errors, "claims may not be set for Resources at pod-level");
    }
    sides(at, pod_resource, errors);
    claims(&at.field("claims"), context, errors);
}

fn sides(at: &At<'_>, name_rule: fn(&str, &At<'_>, &mut Errors), errors: &mut Errors) {
    let (limits, requests) = (at.field("limits"), at.field("requests"));
    let (mut measured, mut pages) = (false, false);
    for (side, is_request) in [(&limits, false), (&requests, true)] {
        for name in side.value.as_object().into_iter().flat_map(|map| map.keys()) {
            let here = side.key(name);
            name_rule(name, &here, errors);
            quantity(name, &here, errors);
            if is_request {
                against_limit(name, side, &limits, errors);
            }
            if let Some(size) = name.strip_prefix(HUGE_PAGES) {
                pages = true;
                let size = nanos(size);
                if size <= 0 || nanos(here.as_text()) % size != 0 {
                    let why =
                        format!("{} is not positive integer multiple of {name}", here.as_text());
                    here.invalid(errors, why);
                }
            }
            measured |= matches!(name.as_str(), "cpu" | "memory");
        }
    }
    if pages && !measured {
        at.forbidden(errors, "HugePages require cpu or memory");
    }
}

/// A request is at most the limit; what cannot be shared is asked for as a whole.
fn against_limit(name: &str, requests: &At<'_>, limits: &At<'_>, errors: &mut Errors) {
    let shared = (!name.contains('/') || name.contains(NATIVE)) && !name.starts_with(HUGE_PAGES);
    let (request, limit) = (requests.text(name), limits.text(name));
    if limit.is_empty() {
        if !shared {
            limits.required(errors, "Limit must be set for non overcommitable resources");
        }
        return;
    }
    let (asked, most) = (nanos(request), nanos(limit));
    if asked != most && !shared {
        let why = format!("must be equal to {name} limit of {limit}");
        requests.invalid_value(errors, request, why);
    } else if asked > most {
        let why = format!("must be less than or equal to {name} limit of {limit}");
        requests.invalid_value(errors, request, why);
    }
}

/// Claims are of the pod, and each is named once.
fn claims(at: &At<'_>, context: &Context<'_>, errors: &mut Errors) {
    let mut seen: BTreeSet<String> = BTreeSet::new();
    for claim in at.items() {
        let (name, request) = (claim.text("name"), claim.text("request"));
        if name.is_empty() {
            claim.required(errors, "");
            continue;
        }
        if seen.contains(name) {
            claim.duplicate(errors, name);
        } else {
            let mut key = name.to_owned();
            if !request.is_empty() {
                claim.field("request").must_be(errors, names::label as Form);
                key = format!("{name}/{request}");
            }
            if seen.contains(&key) {
                claim.duplicate(errors, key.as_str());
            } else if request.is_empty() {
                let parts = format!("{name}/");
                let from = seen.range(parts.clone()..);
                for _ in from.take_while(|one| one.starts_with(&parts)) {
                    claim.duplicate(errors, name);
                }
            }
            seen.insert(key);
        }
        let known = &context.pod.claims;
        if !known.contains(name) {
            let names: Vec<&str> = known.iter().copied().collect();
            let why = match names.as_slice() {
                [] => "must be one of the names in pod.spec.resourceClaims which is empty".into(),
                names => format!(
                    "must be one of the names in pod.spec.resourceClaims: {}",
                    names.join(", ")
                ),
            };
            claim.not_found(errors, name, &why);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_compare_by_their_amount() {
        for (one, other) in
            [("1", "1000m"), ("1Gi", "1024Mi"), ("1500m", "1.5"), ("1e3", "1k"), ("0", "-0")]
        {
            assert_eq!(nanos(one), nanos(other), "{one} {other}");
        }
        assert!(nanos("1Gi") > nanos("1G"));
        assert!(nanos("-1") < 0);
        assert!(nanos(&"9".repeat(1000)) > 0);
        assert!(nanos("1e99") > nanos("1E"));
    }
}
