//! Services: types, ports, addresses, and what load balancers say.

use std::collections::BTreeSet;

use serde_json::Value;

use super::form;
use super::place::{At, Errors, push};
use super::pod::Pod;
use super::rule::Rule::{On, OneOf, OneOfIfSet, Own};
use super::rule::{self, Context, Rules};
use crate::schema::field::{ErrorKind, FieldError};
use crate::schema::names;

/// What ports speak.
pub(super) const PROTOCOLS: &[&str] = &["SCTP", "TCP", "UDP"];

const FAMILIES: &[&str] = &["IPv4", "IPv6"];

const TYPES: &[&str] = &["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];

/// Says that no update changes it.
pub(super) const IMMUTABLE: &str = "field is immutable";

const IMMUTABLE_IP: &str = "may not change once set";

static PORT: Rules = &[
    Own(port_number),
    OneOf("protocol", PROTOCOLS),
    On("targetPort", |at, _, errors| form::port(at, errors)),
    Own(application),
];

/// What is spoken above the protocol.
pub(super) fn application(at: &At<'_>, _: &Context<'_>, errors: &mut Errors) {
    if at.has("appProtocol") {
        at.field("appProtocol").must_be(errors, names::qualified);
    }
}

/// The number of a port.
pub(super) fn port_number(at: &At<'_>, _: &Context<'_>, errors: &mut Errors) {
    form::port(&at.field("port"), errors);
}

fn is_headless(spec: &Value) -> bool {
    spec["clusterIPs"].as_array().is_some_and(|ips| ips.len() == 1 && ips[0] == "None")
}

/// Holds a struct outside of any pod to its rules.
pub(super) fn check(rules: Rules, at: &At<'_>, errors: &mut Errors) {
    rule::check(rules, at, &Context { pod: &Pod::default() }, errors);
}

/// A service.
pub(super) fn service(old: Option<&Value>, at: &At<'_>, errors: &mut Errors) {
    let spec = at.field("spec");
    if let Some(old) = old {
        kept_addresses(&old["spec"], &spec, errors);
        kept_class(&old["spec"], &spec, errors);
        if needs_check(&old["spec"])
            && needs_check(spec.value)
            && old["spec"]["healthCheckNodePort"] != *spec.get("healthCheckNodePort")
        {
            spec.field("healthCheckNodePort").forbidden(errors, IMMUTABLE);
        }
    }
    let kind = spec.text("type");
    if spec.list("ports").is_empty() && !is_headless(spec.value) && kind != "ExternalName" {
        spec.field("ports").required(errors, "");
    }
    by_type(&spec, errors);
    ports(&spec, errors);
    form::labels(&spec.field("selector"), errors);
    affinity(&spec, errors);
    addresses(old, &spec, errors);
    for ip in spec.field("externalIPs").items() {
        let kept = old.is_some_and(|old| {
            old["spec"]["externalIPs"].as_array().is_some_and(|ips| ips.contains(ip.value))
        });
        let wrong = form::address(ip.as_text());
        if wrong.is_empty() || kept {
            ip.must_be(errors, form::endpoint_address);
        } else {
            ip.must_be(errors, form::address);
        }
    }
    check(&[OneOf("type", TYPES)], &spec, errors);
    port_conflicts(&spec, errors);
    load_balancer(old, at, &spec, errors);
    traffic(&spec, errors);
}

fn by_type(spec: &At<'_>, errors: &mut Errors) {
    match spec.text("type") {
        kind @ ("LoadBalancer" | "NodePort") if is_headless(spec.value) => {
            let why = format!("may not be set to 'None' for {kind} services");
            spec.field("clusterIPs").index(0).invalid(errors, why);
        }
        "ExternalName" => {
            let why = "may not be set for ExternalName services";
            for field in ["clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
                let value = spec.get(field);
                if !value.is_null() && !value.as_array().is_some_and(Vec::is_empty) {
                    spec.field(field).forbidden(errors, why);
                }
            }
            let name = spec.text("externalName");
            let name = name.strip_suffix('.').unwrap_or(name);
            let here = spec.field("externalName");
            if name.is_empty() {
                here.required(errors, "");
            }
            for why in names::subdomain(name).into_iter().filter(|_| !name.is_empty()) {
                here.invalid_value(errors, name, why);
            }
        }
        _ => {}
    }
}

fn ports(spec: &At<'_>, errors: &mut Errors) {
    let many = spec.list("ports").len() > 1;
    let mut seen = BTreeSet::new();
    for port in spec.field("ports").items() {
        let (name, here) = (port.text("name"), port.field("name"));
        if name.is_empty() {
            if many {
                here.required(errors, "");
            }
        } else {
            here.must_be(errors, names::label);
            if !seen.insert(name.to_owned()) {
                here.duplicate(errors, name);
            }
        }
        check(PORT, &port, errors);
    }
}

fn affinity(spec: &At<'_>, errors: &mut Errors) {
    const LONGEST: i64 = 86_400;
    check(&[OneOf("sessionAffinity", &["ClientIP", "None"])], spec, errors);
    let config = spec.field("sessionAffinityConfig");
    match spec.text("sessionAffinity") {
        "ClientIP" => {
            let why = "when session affinity type is ClientIP";
            let client = config.field("clientIP");
            let timeout = client.field("timeoutSeconds");
            if config.value.is_null() {
                config.required(errors, why);
            } else if client.value.is_null() {
                client.required(errors, why);
            } else if timeout.value.is_null() {
                timeout.required(errors, why);
            } else if timeout.value.as_i64().is_some_and(|s| s <= 0 || s > LONGEST) {
                timeout.invalid(errors, format!("must be greater than 0 and less than {LONGEST}"));
            }
        }
        "None" if !config.value.is_null() => {
            config.forbidden(errors, "must not be set when session affinity is None");
        }
        _ => {}
    }
}

fn family_of(text: &str) -> Option<&'static str> {
    form::address_of(text).map(|ip| if ip.is_ipv4() { "IPv4" } else { "IPv6" })
}

pub(super) fn addresses(old: Option<&Value>, spec: &At<'_>, errors: &mut Errors) {
    if spec.text("type") == "ExternalName" {
        return;
    }
    let list = spec.field("clusterIPs");
    let ips: Vec<&str> = spec.list("clusterIPs").iter().filter_map(Value::as_str).collect();
    let first = spec.text("clusterIP");
    match (first.is_empty(), ips.first()) {
        (false, None) => list.required(errors, ""),
        (false, Some(ip)) if *ip != first => {
            list.invalid(errors, "first value must match `clusterIP`");
        }
        (true, Some(_)) => {
            list.invalid(errors, "must be empty when `clusterIP` is not specified");
        }
        _ => {}
    }
    families(spec, errors);
    let mut wrong = false;
    for (n, ip) in list.items().enumerate() {
        if n == 0 && ip.as_text() == "None" {
            if ips.len() > 1 {
                wrong = true;
                list.invalid(errors, "'None' must be the first and only value");
            }
            continue;
        }
        let kept = old.is_some_and(|old| {
            old["spec"]["clusterIPs"].as_array().is_some_and(|ips| ips.contains(ip.value))
        });
        if !kept && !form::address(ip.as_text()).is_empty() {
            wrong = true;
            ip.must_be(errors, form::address);
        }
    }
    if ips.len() > 2 {
        list.invalid(errors, "may only hold up to 2 values");
    }
    if wrong {
        return;
    }
    let kinds: Vec<Option<&str>> = ips.iter().map(|ip| family_of(ip)).collect();
    if ips.len() > 1 && FAMILIES.iter().any(|family| !kinds.contains(&Some(family))) {
        list.invalid(errors, "may specify no more than one IP for each IP family");
    }
    if !is_headless(spec.value) {
        let families = spec.list("ipFamilies").iter().filter_map(Value::as_str);
        for (n, (family, ip)) in families.zip(list.items()).enumerate() {
            if kinds.get(n) != Some(&Some(family)) && FAMILIES.contains(&family) {
                let why = format!("expected an {family} value as indicated by `ipFamilies[{n}]`");
                ip.invalid(errors, why);
            }
        }
    }
}

fn families(spec: &At<'_>, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    for family in spec.field("ipFamilies").items() {
        if !FAMILIES.contains(&family.as_text()) {
            family.not_supported(errors, FAMILIES);
        }
        if !seen.insert(family.as_text().to_owned()) {
            family.duplicate(errors, family.as_text());
        }
    }
    static POLICY: Rules =
        &[OneOfIfSet("ipFamilyPolicy", &["PreferDualStack", "RequireDualStack", "SingleStack"])];
    check(POLICY, spec, errors);
}

fn port_conflicts(spec: &At<'_>, errors: &mut Errors) {
    let of = |port: &At<'_>, field: &str| {
        (port.text("protocol").to_owned(), port.int(field).unwrap_or(0))
    };
    let list = spec.field("ports");
    if spec.text("type") == "ClusterIP" {
        for port in list.items().filter(|port| port.int("nodePort").unwrap_or(0) != 0) {
            port.field("nodePort").forbidden(errors, "may not be used when `type` is 'ClusterIP'");
        }
    }
    let mut seen = BTreeSet::new();
    for port in list.items().filter(|port| port.int("nodePort").unwrap_or(0) != 0) {
        let key = of(&port, "nodePort");
        if !seen.insert(key.clone()) {
            port.field("nodePort").duplicate(errors, key.1);
        }
    }
    let mut seen = BTreeSet::new();
    for port in list.items() {
        let key = of(&port, "port");
        if !seen.insert(key.clone()) {
            let shown = format!(
                "{{\"Name\":\"\",\"Protocol\":\"{}\",\"AppProtocol\":null,\"Port\":{},\
                 \"TargetPort\":0,\"NodePort\":0}}",
                key.0, key.1
            );
            push(errors, FieldError::new(ErrorKind::Duplicate, port.path(), None, &shown));
        }
    }
}

fn load_balancer(old: Option<&Value>, at: &At<'_>, spec: &At<'_>, errors: &mut Errors) {
    const ANNOTATION: &str = "service.beta.kubernetes.io/load-balancer-source-ranges";
    const ONLY: &str = "may only be used when `type` is 'LoadBalancer'";
    let balanced = spec.text("type") == "LoadBalancer";
    let metadata = at.field("metadata");
    let annotations = metadata.field("annotations");
    if spec.list("loadBalancerSourceRanges").is_empty() {
        if let Some(text) = annotations.get(ANNOTATION).as_str() {
            let here = annotations.key(ANNOTATION);
            if !balanced {
                here.forbidden(errors, ONLY);
            }
            let changed =
                old.is_none_or(|old| &old["metadata"]["annotations"][ANNOTATION] != here.value);
            for one in text.trim().split(',').filter(|_| changed && !text.trim().is_empty()) {
                for why in form::network(one.trim()) {
                    here.invalid_value(errors, one.trim(), why);
                }
            }
        }
    } else {
        // Upstream writes the field with a capital here.
        let here = spec.with("LoadBalancerSourceRanges", spec.get("loadBalancerSourceRanges"));
        if !balanced {
            here.forbidden(errors, ONLY);
        }
        for one in here.items() {
            let text = one.as_text().trim();
            for why in form::network(text) {
                one.invalid_value(errors, text, why);
            }
        }
    }
    if spec.has("allocateLoadBalancerNodePorts") && !balanced {
        spec.field("allocateLoadBalancerNodePorts").forbidden(errors, ONLY);
    }
    if balanced && !spec.has("allocateLoadBalancerNodePorts") {
        at.field("allocateLoadBalancerNodePorts").required(errors, "");
    }
    if spec.has("loadBalancerClass") {
        let class = spec.field("loadBalancerClass");
        if balanced {
            class.must_be(errors, names::qualified);
        } else {
            class.forbidden(errors, "may only be used when `type` is 'LoadBalancer'");
        }
    }
}

/// A class stays as long as there is a load balancer.
fn kept_class(before: &Value, spec: &At<'_>, errors: &mut Errors) {
    let balanced = |spec: &Value| spec["type"] == "LoadBalancer";
    if balanced(before)
        && balanced(spec.value)
        && before["loadBalancerClass"] != *spec.get("loadBalancerClass")
    {
        spec.field("loadBalancerClass").invalid(errors, IMMUTABLE_IP);
    }
}

fn is_external(spec: &Value) -> bool {
    let kind = spec["type"].as_str().unwrap_or_default();
    matches!(kind, "LoadBalancer" | "NodePort")
        || kind == "ClusterIP" && spec["externalIPs"].as_array().is_some_and(|ips| !ips.is_empty())
}

fn needs_check(spec: &Value) -> bool {
    spec["type"] == "LoadBalancer" && spec["externalTrafficPolicy"] == "Local"
}

fn traffic(spec: &At<'_>, errors: &mut Errors) {
    let external = spec.field("externalTrafficPolicy");
    if is_external(spec.value) {
        check(&[OneOf("externalTrafficPolicy", &["Cluster", "Local"])], spec, errors);
    } else if !external.as_text().is_empty() {
        external.invalid(errors, "may only be set for externally-accessible services");
    }
    let health = spec.field("healthCheckNodePort");
    let port = health.value.as_i64().unwrap_or(0);
    if !needs_check(spec.value) {
        if port != 0 {
            let why = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` \
                       is 'Local'";
            health.invalid(errors, why);
        }
    } else if port == 0 {
        health.required(errors, "");
    } else if !(1..=65_535).contains(&port) {
        health.invalid(errors, form::PORT_RANGE);
    }
    let internal = spec.field("internalTrafficPolicy");
    if internal.value.is_null()
        && matches!(spec.text("type"), "NodePort" | "LoadBalancer" | "ClusterIP")
    {
        internal.required(errors, "");
    }
    static INTERNAL: Rules = &[
        OneOfIfSet("internalTrafficPolicy", &["Cluster", "Local"]),
        OneOfIfSet("trafficDistribution", &["PreferClose", "PreferSameZone", "PreferSameNode"]),
    ];
    check(INTERNAL, spec, errors);
}

/// Addresses stay, but for the second family's.
fn kept_addresses(before: &Value, spec: &At<'_>, errors: &mut Errors) {
    let named = |spec: &Value| spec["type"] == "ExternalName";
    if named(before) || named(spec.value) {
        return;
    }
    let list = |spec: &Value, field: &str| -> Vec<String> {
        let items = spec[field].as_array().into_iter().flatten().filter_map(Value::as_str);
        items.map(str::to_owned).collect()
    };
    let headless = (is_headless(before), is_headless(spec.value));
    if headless != (true, true) {
        kept(
            list(before, "clusterIPs"),
            list(spec.value, "clusterIPs"),
            spec,
            "clusterIPs",
            errors,
        );
    }
    if headless.0 == headless.1 {
        kept(
            list(before, "ipFamilies"),
            list(spec.value, "ipFamilies"),
            spec,
            "ipFamilies",
            errors,
        );
    }
}

fn kept(old: Vec<String>, new: Vec<String>, spec: &At<'_>, field: &str, errors: &mut Errors) {
    let here = spec.field(field);
    let first = |errors: &mut Errors| {
        here.index(0).invalid_value(errors, here.value.clone(), IMMUTABLE_IP);
    };
    if old.len() == new.len() {
        for (n, (old, new)) in old.iter().zip(&new).enumerate() {
            if old != new {
                here.index(n).invalid_value(errors, here.value.clone(), IMMUTABLE_IP);
            }
        }
    } else if let Some(before) = old.first() {
        match new.first() {
            None => {
                let why = if field == "ipFamilies" {
                    "primary ipFamily can not be unset"
                } else {
                    "primary clusterIP can not be unset"
                };
                here.index(0).invalid_value(errors, here.value.clone(), why);
            }
            Some(after) if after != before => first(errors),
            Some(_) => {}
        }
    }
}

/// A service's status.
pub(super) fn service_status(old: Option<&Value>, at: &At<'_>, errors: &mut Errors) {
    let (spec, status) = (at.field("spec"), at.field("status"));
    let balancer = status.field("loadBalancer");
    let ingress = balancer.field("ingress");
    if spec.text("type") != "LoadBalancer" && !balancer.list("ingress").is_empty() {
        let why = "may only be used when `spec.type` is 'LoadBalancer'";
        return ingress.forbidden(errors, why);
    }
    balancer_ingress(old, &ingress, true, errors);
}

/// Where a load balancer listens.
pub(super) fn balancer_ingress(
    old: Option<&Value>,
    ingress: &At<'_>,
    with_mode: bool,
    errors: &mut Errors,
) {
    let kept = |ip: &str| {
        let before = old.map(|old| &old["status"]["loadBalancer"]["ingress"]);
        let before = before.and_then(Value::as_array);
        before.into_iter().flatten().any(|one| one["ip"].as_str() == Some(ip))
    };
    for one in ingress.items() {
        let ip = one.text("ip");
        if !ip.is_empty() && !kept(ip) {
            one.field("ip").must_be(errors, form::address);
        }
        let mode = one.field("ipMode");
        if with_mode {
            match (mode.value.is_null(), ip.is_empty()) {
                (true, false) => mode.required(errors, "must be specified when `ip` is set"),
                (false, true) => {
                    mode.forbidden(errors, "may not be specified when `ip` is not set")
                }
                (false, false) if !["Proxy", "VIP"].contains(&mode.as_text()) => {
                    mode.not_supported(errors, &["Proxy", "VIP"]);
                }
                _ => {}
            }
        }
        let host = one.field("hostname");
        if !host.as_text().is_empty() {
            host.must_be(errors, names::subdomain);
            if form::address_of(host.as_text()).is_some() {
                host.invalid(errors, "must be a DNS name, not an IP address");
            }
        }
    }
}
