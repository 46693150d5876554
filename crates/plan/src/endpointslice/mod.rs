//! The EndpointSlices of a Service: which pods stand behind it, at which addresses and ports.
//!
//! Slices are per family of addresses and set of ports, hold at most [`MOST`] endpoints, and are
//! changed as little as may be: an endpoint stays in its slice, new ones fill what has room. Hints for
//! topology are not given.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{ObjectReference, Pod, Service};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointConditions, EndpointPort, EndpointSlice};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use crate::{pod, replicaset};

/// Most endpoints in a slice, as upstream.
pub const MOST: usize = 100;
/// The label with the Service's name.
pub const SERVICE: &str = "kubernetes.io/service-name";
/// The label that tells whose slices they are.
pub const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
/// The value of [`MANAGED_BY`]: upstream's, since clients select by it.
pub const MANAGER: &str = "endpointslice-controller.k8s.io";
const HEADLESS: &str = "service.kubernetes.io/headless";

/// All that the decision rests on.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// The Service, which has a selector.
    pub service: Service,
    /// The pods that it selects.
    pub pods: Vec<Arc<Pod>>,
    /// The zones of nodes, by name.
    pub zones: BTreeMap<String, String>,
    /// The Service's slices that are ours.
    pub slices: Vec<EndpointSlice>,
}

/// What shall be done.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// Slices to make.
    pub create: Vec<EndpointSlice>,
    /// Slices as they shall be.
    pub update: Vec<EndpointSlice>,
    /// Slices that are empty or of ports that are no more.
    pub delete: Vec<EndpointSlice>,
}

/// What slices differ in: the family, and the ports as text, which orders them.
type Kind = (&'static str, String);

/// Decides.
pub fn plan(observed: &Observed) -> Plan {
    let mut plan = Plan::default();
    let mut wanted = wanted(observed);
    let mut slices: BTreeMap<Kind, Vec<EndpointSlice>> = BTreeMap::new();
    for slice in &observed.slices {
        let kind = families(&observed.service)
            .into_iter()
            .find(|family| *family == slice.address_type)
            .map(|family| (family, text(slice.ports.as_deref().unwrap_or_default())));
        match kind.filter(|kind| wanted.contains_key(kind)) {
            Some(kind) => slices.entry(kind).or_default().push(slice.clone()),
            None => plan.delete.push(slice.clone()),
        }
    }
    for (kind, (ports, endpoints)) in &mut wanted {
        let known = slices.remove(kind).unwrap_or_default();
        fill(observed, kind.0, ports, endpoints, known, &mut plan);
    }
    plan
}

type Wanted = BTreeMap<Kind, (Vec<EndpointPort>, BTreeMap<String, Endpoint>)>;

fn wanted(observed: &Observed) -> Wanted {
    let mut wanted = Wanted::new();
    for family in families(&observed.service) {
        for pod in &observed.pods {
            let Some(endpoint) = endpoint(observed, pod, family) else { continue };
            let ports = ports(&observed.service, pod);
            let uid = pod.metadata.uid.clone().unwrap_or_default();
            let entry = wanted.entry((family, text(&ports)));
            entry.or_insert_with(|| (ports, BTreeMap::new())).1.insert(uid, endpoint);
        }
        // A Service without pods has one slice that says so.
        if !wanted.keys().any(|(known, _)| *known == family) {
            wanted.insert((family, text(&[])), Default::default());
        }
    }
    wanted
}

/// Keeps endpoints where they are, fills up what changes, and makes slices for the rest.
fn fill(
    observed: &Observed,
    family: &str,
    ports: &[EndpointPort],
    endpoints: &mut BTreeMap<String, Endpoint>,
    known: Vec<EndpointSlice>,
    plan: &mut Plan,
) {
    let none = endpoints.is_empty();
    let blank = blank(&observed.service, family, ports);
    let mut kept: Vec<(EndpointSlice, EndpointSlice)> = Vec::new();
    for old in known {
        let mut new = old.clone();
        new.metadata.labels.clone_from(&blank.metadata.labels);
        new.metadata.owner_references.clone_from(&blank.metadata.owner_references);
        let uid = |e: &Endpoint| e.target_ref.as_ref().and_then(|target| target.uid.clone());
        let still = old.endpoints.iter().filter_map(uid);
        new.endpoints = still.filter_map(|uid| endpoints.remove(&uid)).collect();
        kept.push((old, new));
    }
    let mut rest = std::mem::take(endpoints).into_values().peekable();
    for (_, new) in &mut kept {
        while new.endpoints.len() < MOST
            && let Some(endpoint) = rest.next()
        {
            new.endpoints.push(endpoint);
        }
    }
    let mut one_stays = false;
    for (old, new) in kept {
        if new.endpoints.is_empty() && (!none || one_stays) {
            plan.delete.push(old);
        } else {
            one_stays = true;
            if new != old {
                plan.update.push(new);
            }
        }
    }
    while rest.peek().is_some() || (none && !one_stays) {
        one_stays = true;
        let endpoints = rest.by_ref().take(MOST).collect();
        plan.create.push(EndpointSlice { endpoints, ..blank.clone() });
    }
}

fn families(service: &Service) -> BTreeSet<&'static str> {
    let spec = service.spec.as_ref();
    let all = spec.and_then(|spec| spec.ip_families.as_ref());
    all.into_iter()
        .flatten()
        .filter_map(|family| match family.as_str() {
            "IPv4" => Some("IPv4"),
            "IPv6" => Some("IPv6"),
            _ => None,
        })
        .collect()
}

fn text(ports: &[EndpointPort]) -> String {
    serde_json::to_string(ports).unwrap_or_default()
}

fn blank(service: &Service, family: &str, ports: &[EndpointPort]) -> EndpointSlice {
    let name = service.metadata.name.clone().unwrap_or_default();
    let mut labels = service.metadata.labels.clone().unwrap_or_default();
    labels.remove(HEADLESS);
    let address = service.spec.as_ref().and_then(|spec| spec.cluster_ip.as_deref());
    if matches!(address, None | Some("" | "None")) {
        labels.insert(HEADLESS.to_owned(), String::new());
    }
    labels.insert(SERVICE.to_owned(), name.clone());
    labels.insert(MANAGED_BY.to_owned(), MANAGER.to_owned());
    EndpointSlice {
        metadata: ObjectMeta {
            generate_name: Some(format!("{name}-")),
            namespace: service.metadata.namespace.clone(),
            labels: Some(labels),
            owner_references: Some(vec![replicaset::reference(
                ("v1", "Service"),
                &service.metadata,
            )]),
            ..ObjectMeta::default()
        },
        address_type: family.to_owned(),
        endpoints: Vec::new(),
        ports: (!ports.is_empty()).then(|| ports.to_vec()),
    }
}

/// The pod's endpoint; none before it has an address, and none after it has ended.
fn endpoint(observed: &Observed, pod: &Pod, family: &str) -> Option<Endpoint> {
    let (spec, service) = (pod.spec.as_ref()?, observed.service.spec.as_ref()?);
    if pod::is_finished(pod) {
        return None;
    }
    let of_family = |address: &IpAddr| address.is_ipv6() == (family == "IPv6");
    let addresses = pod.status.as_ref()?.pod_ips.iter().flatten();
    let addresses: Vec<_> = addresses
        .filter_map(|known| known.ip.parse().ok())
        .filter(of_family)
        .map(|address| address.to_string())
        .collect();
    if addresses.is_empty() {
        return None;
    }
    let always = service.publish_not_ready_addresses == Some(true);
    let serving = pod::ready_since(pod).is_some();
    let terminating = pod::is_terminating(pod);
    let node_name = spec.node_name.clone();
    let named = spec.subdomain.is_some() && spec.subdomain == observed.service.metadata.name;
    Some(Endpoint {
        addresses,
        conditions: Some(EndpointConditions {
            ready: Some(always || (serving && !terminating)),
            serving: Some(serving),
            terminating: Some(terminating),
        }),
        hostname: spec.hostname.clone().filter(|name| named && !name.is_empty()),
        target_ref: Some(ObjectReference {
            kind: Some("Pod".to_owned()),
            namespace: pod.metadata.namespace.clone(),
            name: pod.metadata.name.clone(),
            uid: pod.metadata.uid.clone(),
            ..ObjectReference::default()
        }),
        zone: node_name.as_ref().and_then(|node| observed.zones.get(node)).cloned(),
        node_name,
        ..Endpoint::default()
    })
}

/// The Service's ports as this pod has them; a name that it lacks is left out.
fn ports(service: &Service, pod: &Pod) -> Vec<EndpointPort> {
    let ports = service.spec.as_ref().and_then(|spec| spec.ports.as_ref());
    let all = ports.into_iter().flatten().filter_map(|port| {
        let protocol = port.protocol.clone().unwrap_or_else(|| "TCP".to_owned());
        let number = match &port.target_port {
            None => port.port,
            Some(IntOrString::Int(0)) => port.port,
            Some(IntOrString::Int(number)) => *number,
            Some(IntOrString::String(name)) => named(pod, name, &protocol)?,
        };
        Some(EndpointPort {
            name: Some(port.name.clone().unwrap_or_default()),
            port: Some(number),
            protocol: Some(protocol),
            app_protocol: port.app_protocol.clone(),
        })
    });
    all.collect()
}

fn named(pod: &Pod, name: &str, protocol: &str) -> Option<i32> {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let mut ports = containers.flat_map(|container| container.ports.iter().flatten());
    let same = ports.find(|port| {
        port.name.as_deref() == Some(name) && port.protocol.as_deref().unwrap_or("TCP") == protocol
    });
    same.map(|port| port.container_port)
}

#[cfg(test)]
mod tests;
