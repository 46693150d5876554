//! Ingresses, their classes, and network policies.

use std::net::IpAddr;

use serde_json::Value;

use super::form;
use super::place::{At, Errors};
use super::service;
use crate::schema::names;

/// An ingress.
pub(super) fn ingress(old: Option<&Value>, at: &At<'_>, errors: &mut Errors) {
    const CLASS: &str = "kubernetes.io/ingress.class";
    let spec = at.field("spec");
    if spec.list("rules").is_empty() && !spec.has("defaultBackend") {
        let shown = if spec.has("rules") { "[]" } else { "null" };
        spec.invalid_as(errors, shown, "either `defaultBackend` or `rules` must be specified");
    }
    if spec.has("defaultBackend") {
        backend(&spec.field("defaultBackend"), errors);
    }
    for rule in spec.field("rules").items() {
        ingress_rule(&rule, errors);
    }
    for tls in spec.field("tls").items() {
        for host in tls.field("hosts").items() {
            host_name(&host, errors);
        }
        if !tls.text("secretName").is_empty() {
            tls.field("secretName").must_be(errors, names::subdomain);
        }
    }
    let class = spec.field("ingressClassName");
    if !class.value.is_null() {
        class.must_be(errors, names::subdomain);
    }
    let metadata = at.field("metadata");
    let said = metadata.get("annotations")[CLASS].as_str();
    if let Some(said) = said.filter(|_| old.is_none() && !class.value.is_null())
        && said != class.as_text()
    {
        let annotations = at.field("annotations");
        let why = "must match `ingressClassName` when both are specified";
        annotations.field(CLASS).invalid_value(errors, said, why);
    }
}

fn host_name(at: &At<'_>, errors: &mut Errors) {
    if at.as_text().contains('*') {
        at.must_be(errors, form::wildcard_domain);
    } else {
        at.must_be(errors, names::subdomain);
    }
}

fn ingress_rule(at: &At<'_>, errors: &mut Errors) {
    let host = at.field("host");
    if !host.as_text().is_empty() {
        if form::address_of(host.as_text()).is_some() {
            host.invalid(errors, "must be a DNS name, not an IP address");
        }
        host_name(&host, errors);
    }
    if !at.has("http") {
        return;
    }
    let http = at.field("http");
    if http.list("paths").is_empty() {
        http.field("paths").required(errors, "");
    }
    for path in http.field("paths").items() {
        ingress_path(&path, errors);
    }
}

fn ingress_path(at: &At<'_>, errors: &mut Errors) {
    const SEQUENCES: [&str; 6] = ["//", "/./", "/../", "%2f", "%2F", ""];
    const ENDINGS: [&str; 2] = ["/..", "/."];
    let (kind, path) = (at.field("pathType"), at.field("path"));
    let text = path.as_text();
    match kind.as_text() {
        _ if kind.value.is_null() => return kind.required(errors, "pathType must be specified"),
        "Exact" | "Prefix" => {
            if !text.starts_with('/') {
                path.invalid_value(errors, text, "must be an absolute path");
            }
            for bad in SEQUENCES.iter().filter(|bad| !bad.is_empty() && text.contains(**bad)) {
                path.invalid(errors, format!("must not contain '{bad}'"));
            }
            for bad in ENDINGS.iter().filter(|bad| text.ends_with(**bad)) {
                path.invalid(errors, format!("cannot end with '{bad}'"));
            }
        }
        "ImplementationSpecific" => {
            if !text.is_empty() && !text.starts_with('/') {
                path.invalid(errors, "must be an absolute path");
            }
        }
        _ => kind.not_supported(errors, &["Exact", "ImplementationSpecific", "Prefix"]),
    }
    backend(&at.field("backend"), errors);
}

fn backend(at: &At<'_>, errors: &mut Errors) {
    let service = at.field("service");
    match (at.has("resource"), at.has("service")) {
        (true, true) => {
            at.invalid_value(errors, "", "cannot set both resource and service backends");
        }
        (true, false) => reference(&at.field("resource"), errors),
        (false, false) => {
            at.invalid_value(errors, "", "resource or service backend is required");
        }
        (false, true) => {
            match service.text("name") {
                "" => service.field("name").required(errors, ""),
                _ => service.field("name").must_be(errors, names::label_1035),
            }
            let port = service.field("port");
            let (name, number) = (port.text("name"), port.int("number").unwrap_or(0));
            if !name.is_empty() && number != 0 {
                at.invalid_value(errors, "", "cannot set both port name & port number");
            } else if !name.is_empty() {
                port.field("name").must_be(errors, form::port_name);
            } else if number != 0 {
                form::port(&port.field("number"), errors);
            } else {
                at.required(errors, "port name or number is required");
            }
        }
    }
}

fn reference(at: &At<'_>, errors: &mut Errors) {
    if at.has("apiGroup") {
        at.field("apiGroup").must_be(errors, names::subdomain);
    }
    for field in ["kind", "name"] {
        match at.text(field) {
            "" => at.field(field).required(errors, ""),
            _ => at.field(field).must_be(errors, form::path_segment),
        }
    }
}

/// An ingress's status.
pub(super) fn ingress_status(old: Option<&Value>, at: &At<'_>, errors: &mut Errors) {
    let status = at.field("status");
    let balancer = status.field("loadBalancer");
    service::balancer_ingress(old, &balancer.field("ingress"), false, errors);
}

/// A class of ingresses.
pub(super) fn ingress_class(old: Option<&Value>, at: &At<'_>, errors: &mut Errors) {
    const LONGEST: u64 = 250;
    let spec = at.field("spec");
    let controller = spec.field("controller");
    if old.is_some_and(|old| &old["spec"]["controller"] != controller.value) {
        controller.invalid(errors, "field is immutable");
    }
    if controller.as_text().len() as u64 > LONGEST {
        controller.too_long(errors, LONGEST);
    }
    form::domain_path(&controller, errors);
    if !spec.has("parameters") {
        return;
    }
    let parameters = spec.field("parameters");
    reference(&parameters, errors);
    let (scope, namespace) = (parameters.field("scope"), parameters.field("namespace"));
    match scope.as_text() {
        "" => scope.required(errors, ""),
        "Namespace" => match namespace.as_text() {
            "" => {
                namespace.required(errors, "`parameters.scope` is set to 'Namespace'");
            }
            _ => namespace.must_be(errors, names::label),
        },
        "Cluster" => {
            if !namespace.value.is_null() {
                namespace.forbidden(errors, "`parameters.scope` is set to 'Cluster'");
            }
        }
        _ => scope.not_supported(errors, &["Cluster", "Namespace"]),
    }
}

/// A network policy.
pub(super) fn network_policy(_: Option<&Value>, at: &At<'_>, errors: &mut Errors) {
    let spec = at.field("spec");
    form::selector(&spec.field("podSelector"), errors);
    for (direction, peers) in [("ingress", "from"), ("egress", "to")] {
        for rule in spec.field(direction).items() {
            for port in rule.field("ports").items() {
                policy_port(&port, errors);
            }
            for peer in rule.field(peers).items() {
                policy_peer(&peer, errors);
            }
        }
    }
    let types = spec.field("policyTypes");
    if spec.list("policyTypes").len() > 2 {
        types.invalid(errors, "may not specify more than two policyTypes");
    }
    for kind in types.items() {
        if !["Ingress", "Egress"].contains(&kind.as_text()) {
            kind.not_supported(errors, &["Ingress", "Egress"]);
        }
    }
}

fn policy_port(at: &At<'_>, errors: &mut Errors) {
    let (protocol, port, end) = (at.field("protocol"), at.field("port"), at.field("endPort"));
    if !protocol.value.is_null() && !["TCP", "UDP", "SCTP"].contains(&protocol.as_text()) {
        protocol.not_supported(errors, &["TCP", "UDP", "SCTP"]);
    }
    let last = end.value.as_i64();
    match port.value {
        Value::Null => {
            if last.is_some() {
                end.invalid(errors, "may not be specified when `port` is not specified");
            }
        }
        Value::String(_) => {
            if last.is_some() {
                end.invalid(errors, "may not be specified when `port` is non-numeric");
            }
            port.must_be(errors, form::port_name);
        }
        number => {
            form::port(&port, errors);
            let Some(last) = last else { return };
            if last < number.as_i64().unwrap_or(0) {
                let why = "must be greater than or equal to `port`";
                end.invalid_value(errors, number.clone(), why);
            }
            if !(1..=65_535).contains(&last) {
                end.invalid(errors, form::PORT_RANGE);
            }
        }
    }
}

fn policy_peer(at: &At<'_>, errors: &mut Errors) {
    let mut peers = 0;
    for field in ["podSelector", "namespaceSelector"] {
        if at.has(field) {
            peers += 1;
            form::selector(&at.field(field), errors);
        }
    }
    if at.has("ipBlock") {
        peers += 1;
        ip_block(&at.field("ipBlock"), errors);
    }
    if peers == 0 {
        at.required(errors, "must specify a peer");
    } else if peers > 1 && at.has("ipBlock") {
        at.forbidden(errors, "may not specify both ipBlock and another peer");
    }
}

fn ip_block(at: &At<'_>, errors: &mut Errors) {
    let cidr = at.field("cidr");
    if cidr.as_text().is_empty() {
        cidr.required(errors, "");
    }
    cidr.must_be(errors, form::network);
    let Some(whole) = form::network_of(cidr.as_text()) else { return };
    for except in at.field("except").items() {
        except.must_be(errors, form::network);
        let Some(part) = form::network_of(except.as_text()) else { continue };
        if !holds(whole, part) {
            except.invalid(errors, "must be a strict subset of `cidr`");
        }
    }
}

/// Whether one network is part of another and not the whole of it.
fn holds((address, length): (IpAddr, u32), (part, longer): (IpAddr, u32)) -> bool {
    let bits = |ip: IpAddr| match ip {
        IpAddr::V4(v4) => (u128::from(u32::from(v4)) << 96, 32),
        IpAddr::V6(v6) => (u128::from(v6), 128),
    };
    let ((whole, size), (part, part_size)) = (bits(address), bits(part));
    let shared = |n: u128| if length == 0 { 0 } else { n >> (128 - length) };
    size == part_size && length < longer && shared(whole) == shared(part)
}
