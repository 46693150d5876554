//! Services, what stands behind them, and the ways to them.

use std::collections::BTreeSet;

use serde_json::Value;

use super::recipe::{Recipe, first_of, given, has, list, number, or, text};
use super::{Kind, NONE, UNKNOWN, UNSET};

use Recipe::{Code, Given, Join, Labels, Selector, Text};

/// So many addresses or ports are named, the others counted.
const SHOWN: usize = 3;

pub(super) const KINDS: &[Kind] = &[
    (
        "v1 Service",
        &[
            ("Type", Text("spec.type"), "How it can be reached."),
            (
                "Cluster-IP",
                Code(cluster_ip, &["spec.clusterIPs"]),
                "Its address inside the cluster.",
            ),
            (
                "External-IP",
                Code(
                    external_ip,
                    &["spec.type", "spec.externalIPs", "spec.externalName", "status.loadBalancer"],
                ),
                "Its addresses outside the cluster.",
            ),
            (
                "Port(s)",
                Code(service_ports, &["spec.ports"]),
                "Its ports, node ports and protocols.",
            ),
            ("Selector", Labels("spec.selector"), "Labels by which it knows its pods."),
        ],
    ),
    (
        "v1 Endpoints",
        &[("Endpoints", Code(endpoints, &["subsets"]), "Addresses and ports behind the service.")],
    ),
    (
        "discovery.k8s.io/v1 EndpointSlice",
        &[
            ("AddressType", Text("addressType"), "What its addresses are."),
            ("Ports", Code(slice_ports, &["ports"]), "Ports of every endpoint."),
            (
                "Endpoints",
                Code(slice_endpoints, &["endpoints.addresses"]),
                "Addresses of the endpoints.",
            ),
        ],
    ),
    (
        "networking.k8s.io/v1 Ingress",
        &[
            ("Class", Given("spec.ingressClassName", NONE), "The class that says who serves it."),
            ("Hosts", Code(hosts, &["spec.rules.host"]), "Names that requests are sent to."),
            ("Address", Code(ingress, &["status.loadBalancer.ingress"]), "Where it listens."),
            ("Ports", Code(ingress_ports, &["spec.tls"]), "Ports it listens on."),
        ],
    ),
    (
        "networking.k8s.io/v1 IngressClass",
        &[
            ("Controller", Text("spec.controller"), "Who serves ingresses of this class."),
            ("Parameters", Code(parameters, &["spec.parameters"]), "The object that says how."),
        ],
    ),
    (
        "networking.k8s.io/v1 NetworkPolicy",
        &[("Pod-Selector", Selector("spec.podSelector"), "Labels of the pods that it is for.")],
    ),
    (
        "networking.k8s.io/v1 IPAddress",
        &[("ParentRef", Code(parent, &["spec.parentRef"]), "What the address belongs to.")],
    ),
    (
        "networking.k8s.io/v1 ServiceCIDR",
        &[("CIDRs", Join("spec.cidrs", ""), "Ranges that addresses are taken from.")],
    ),
];

fn cluster_ip(service: &Value) -> Value {
    let first = list(service, "spec.clusterIPs").first().and_then(Value::as_str);
    first.unwrap_or(NONE).into()
}

fn external_ip(service: &Value) -> Value {
    let own = list(service, "spec.externalIPs").iter().filter_map(Value::as_str);
    let own: Vec<&str> = own.collect();
    let given = own.join(",");
    match text(service, "spec.type") {
        "ClusterIP" | "NodePort" => or(&given, NONE).into(),
        "LoadBalancer" => {
            let balancer = balancer(service);
            match (balancer.is_empty(), given.is_empty()) {
                (false, false) => format!("{balancer},{given}").into(),
                (false, true) => balancer.into(),
                (true, _) => or(&given, "<pending>").into(),
            }
        }
        "ExternalName" => text(service, "spec.externalName").into(),
        _ => UNKNOWN.into(),
    }
}

/// The addresses or else names of the load balancer, each once, in order of their text.
fn balancer(object: &Value) -> String {
    let ingress = list(object, "status.loadBalancer.ingress").iter();
    let found = ingress.map(|point| or(text(point, "ip"), text(point, "hostname")));
    let found: BTreeSet<&str> = found.filter(|text| !text.is_empty()).collect();
    found.into_iter().collect::<Vec<_>>().join(",")
}

fn service_ports(service: &Value) -> Value {
    let ports = list(service, "spec.ports").iter().map(|port| {
        let (number_, protocol) = (number(port, "port"), text(port, "protocol"));
        match number(port, "nodePort") {
            node @ 1.. => format!("{number_}:{node}/{protocol}"),
            _ => format!("{number_}/{protocol}"),
        }
    });
    or(&ports.collect::<Vec<_>>().join(","), NONE).into()
}

fn endpoints(object: &Value) -> Value {
    let subsets = list(object, "subsets");
    if subsets.is_empty() {
        return NONE.into();
    }
    let mut found = Vec::new();
    for subset in subsets {
        let addresses = list(subset, "addresses").iter().map(|address| text(address, "ip"));
        let ports = list(subset, "ports");
        if ports.is_empty() {
            found.extend(addresses.clone().map(str::to_owned));
        }
        for port in ports {
            let port = number(port, "port");
            found.extend(addresses.clone().map(|ip| match ip.contains(':') {
                true => format!("[{ip}]:{port}"),
                false => format!("{ip}:{port}"),
            }));
        }
    }
    first_of(SHOWN, &found, ",").into()
}

fn slice_ports(slice: &Value) -> Value {
    let ports = list(slice, "ports").iter();
    let texts: Vec<String> = ports
        .map(|port| match has(port, "port") {
            true => number(port, "port").to_string(),
            false => given(port, "name", "*"),
        })
        .collect();
    or(&first_of(SHOWN, &texts, ","), UNSET).into()
}

fn slice_endpoints(slice: &Value) -> Value {
    let endpoints = list(slice, "endpoints").iter();
    let addresses = endpoints.flat_map(|endpoint| list(endpoint, "addresses"));
    let texts: Vec<String> = addresses.filter_map(Value::as_str).map(str::to_owned).collect();
    or(&first_of(SHOWN, &texts, ","), UNSET).into()
}

/// The hosts of the first rules. What is more is counted in rules, whether they name one or not.
fn hosts(ingress: &Value) -> Value {
    let rules = list(ingress, "spec.rules");
    let named = rules.iter().enumerate().filter(|(_, rule)| !text(rule, "host").is_empty());
    let shown: Vec<(usize, &str)> =
        named.map(|(n, rule)| (n, text(rule, "host"))).take(SHOWN).collect();
    let Some((last, _)) = shown.last() else { return "*".into() };
    let texts: Vec<&str> = shown.iter().map(|(_, host)| *host).collect();
    let texts = texts.join(",");
    if shown.len() == SHOWN && rules.len() > last + 1 {
        return format!("{texts} + {} more...", rules.len() - SHOWN).into();
    }
    texts.into()
}

fn ingress(ingress: &Value) -> Value {
    balancer(ingress).into()
}

fn ingress_ports(ingress: &Value) -> Value {
    if list(ingress, "spec.tls").is_empty() { "80" } else { "80, 443" }.into()
}

fn parameters(class: &Value) -> Value {
    let Some(parameters) = class.pointer("/spec/parameters").filter(|p| !p.is_null()) else {
        return NONE.into();
    };
    let group = match parameters.get("apiGroup").and_then(Value::as_str) {
        Some(group) => format!(".{group}"),
        None => String::new(),
    };
    format!("{}{group}/{}", text(parameters, "kind"), text(parameters, "name")).into()
}

fn parent(address: &Value) -> Value {
    let Some(parent) = address.pointer("/spec/parentRef").filter(|p| !p.is_null()) else {
        return NONE.into();
    };
    let mut out = text(parent, "resource").to_lowercase();
    let group = text(parent, "group").to_lowercase();
    if !group.is_empty() {
        out = format!("{out}.{group}");
    }
    let namespace = text(parent, "namespace");
    if !namespace.is_empty() {
        out = format!("{out}/{namespace}");
    }
    format!("{out}/{}", text(parent, "name")).into()
}
