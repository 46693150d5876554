//! What stands behind services: endpoints and their slices.

use std::collections::BTreeSet;
use std::net::IpAddr;

use serde_json::Value;

use super::form;
use super::place::{At, Errors};
use super::rule::Rule::{self, Is, Must, Named, OneOf, Own};
use super::rule::Rules;
use super::service::{IMMUTABLE, PROTOCOLS, application, check, port_number};
use crate::schema::names;

static ADDRESS: Rules = &[
    Must("ip", form::address),
    Is("hostname", names::label),
    Is("nodeName", names::subdomain),
    Must("ip", form::endpoint_address),
];

/// Endpoints, as they were before slices.
pub(super) fn endpoints(old: Option<&Value>, at: &At<'_>, errors: &mut Errors) {
    if old.is_some_and(|old| &old["subsets"] == at.get("subsets")) {
        return;
    }
    for subset in at.field("subsets").items() {
        if subset.list("addresses").is_empty() && subset.list("notReadyAddresses").is_empty() {
            subset.required(errors, "must specify `addresses` or `notReadyAddresses`");
        }
        for list in ["addresses", "notReadyAddresses"] {
            for address in subset.field(list).items() {
                check(ADDRESS, &address, errors);
            }
        }
        let many = subset.list("ports").len() > 1;
        for port in subset.field("ports").items() {
            let name: Rules =
                if many { &[Named("name", names::label)] } else { &[Is("name", names::label)] };
            check(name, &port, errors);
            check(
                &[Own(port_number), OneOf("protocol", PROTOCOLS), Own(application)],
                &port,
                errors,
            );
        }
    }
}

/// A slice of a service's endpoints.
pub(super) fn endpoint_slice(old: Option<&Value>, at: &At<'_>, errors: &mut Errors) {
    const PORTS: u64 = 20_000;
    check(&[OneOf("addressType", &["FQDN", "IPv4", "IPv6"])], at, errors);
    check(&[Rule::AtMost("ports", PORTS)], at, errors);
    let mut seen = BTreeSet::new();
    for port in at.field("ports").items() {
        let (name, here) = (port.text("name").to_owned(), port.field("name"));
        if !name.is_empty() {
            here.must_be(errors, names::label);
        }
        if !seen.insert(name.clone()) {
            here.duplicate(errors, name);
        }
        check(&[OneOf("protocol", PROTOCOLS), Own(application)], &port, errors);
    }
    if old.is_none_or(|old| &old["endpoints"] != at.get("endpoints")) {
        slice_endpoints(at, errors);
    }
    if let Some(old) = old
        && &old["addressType"] != at.get("addressType")
    {
        at.field("addressType").invalid(errors, IMMUTABLE);
    }
}

fn slice_endpoints(at: &At<'_>, errors: &mut Errors) {
    const ENDPOINTS: u64 = 1000;
    const ADDRESSES: u64 = 100;
    const LABELS: usize = 16;
    check(&[Rule::AtMost("endpoints", ENDPOINTS)], at, errors);
    for endpoint in at.field("endpoints").items() {
        let addresses = endpoint.field("addresses");
        match endpoint.list("addresses").len() as u64 {
            0 => addresses.required(errors, "must contain at least 1 address"),
            n if n > ADDRESSES => addresses.too_many(errors, ADDRESSES),
            _ => {}
        }
        for address in addresses.items() {
            slice_address(at.text("addressType"), &addresses, &address, errors);
        }
        check(&[Is("nodeName", names::subdomain)], &endpoint, errors);
        let topology = endpoint.field("deprecatedTopology");
        if topology.value.as_object().is_some_and(|map| map.len() > LABELS) {
            topology.too_many(errors, LABELS as u64);
        }
        form::labels(&topology, errors);
        if endpoint.has("hostname") {
            endpoint.field("hostname").must_be(errors, names::label);
        }
        let hints = endpoint.field("hints");
        for (list, form) in [
            ("forZones", names::label_value as fn(&str) -> Vec<String>),
            ("forNodes", names::subdomain),
        ] {
            check_hints(&hints, list, form, errors);
        }
    }
}

fn check_hints(hints: &At<'_>, list: &str, form: fn(&str) -> Vec<String>, errors: &mut Errors) {
    const HINTS: u64 = 8;
    let here = hints.field(list);
    if hints.list(list).len() as u64 > HINTS {
        here.too_many(errors, HINTS);
    }
    let mut seen: BTreeSet<String> = BTreeSet::new();
    for hint in here.items() {
        let name = hint.text("name").to_owned();
        if !seen.insert(name.clone()) {
            hint.field("name").duplicate(errors, name);
        }
        hint.field("name").must_be(errors, form);
    }
}

fn slice_address(kind: &str, list: &At<'_>, at: &At<'_>, errors: &mut Errors) {
    let text = at.as_text();
    match kind {
        "IPv4" | "IPv6" => {
            let Some(address) = form::address_of(text) else {
                return at.must_be(errors, form::address);
            };
            if kind == "IPv6" && address.to_string() != text {
                let why = format!("must be in canonical form (\"{address}\")");
                return at.invalid(errors, why);
            }
            let fits = matches!((kind, address), ("IPv4", IpAddr::V4(_)) | ("IPv6", IpAddr::V6(_)));
            if !fits {
                list.invalid_value(errors, text, format!("must be an {kind} address"));
            }
            at.must_be(errors, form::endpoint_address);
        }
        "FQDN" => domain(at, errors),
        _ => {}
    }
}

fn domain(at: &At<'_>, errors: &mut Errors) {
    let text = at.as_text();
    if text.is_empty() {
        return at.required(errors, "");
    }
    let name = text.strip_suffix('.').unwrap_or(text);
    let wrong = names::subdomain(name);
    if !wrong.is_empty() {
        return at.invalid_value(errors, name, wrong.join(","));
    }
    if !name.contains('.') {
        let why = "should be a domain with at least two segments separated by dots";
        return at.invalid_value(errors, name, why);
    }
    for label in name.split('.') {
        let wrong = names::label(label);
        if !wrong.is_empty() {
            return at.invalid_value(errors, label, wrong.join(","));
        }
    }
}
