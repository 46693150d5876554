//! Addresses and node ports of services: given by the request that writes the service.
//!
//! What is taken is read from the stored services, so nothing has to be repaired or handed back.
//! One write of a service runs at a time (`ApiServer::addresses`), from the choice until it is
//! stored; the server is the only one that writes. Only IPv4 is given out.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use serde_json::{Value, json};

use super::metadata::{keep, meta, text};
use super::{Call, Object, into_object, keys, read_failed};
use crate::builtin::validate;
use crate::schema::field::{ErrorKind, FieldError, FieldPath};
use crate::status::ApiError;
use crate::stored::Stored;

/// The first address of the network that services have, 10.96.0.0/16; kubeadm's default.
const NETWORK: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 0);

/// How many addresses the network has.
const ADDRESSES: u32 = 1 << 16;

/// Ports of nodes that services may have; upstream's default.
const PORTS: std::ops::RangeInclusive<i64> = 30_000..=32_767;

/// What other services have.
#[derive(Debug, Default)]
struct Taken {
    addresses: BTreeSet<String>,
    ports: BTreeSet<i64>,
}

impl Call<'_> {
    /// Gives a service what it needs; `live` is the one that it replaces.
    pub(super) fn allocate(
        &self,
        live: Option<&Object>,
        object: &mut Object,
    ) -> Result<(), ApiError> {
        if !self.resource.is("", "services") || self.subresource.is_some() {
            return Ok(());
        }
        if let Some(live) = live {
            keep_allocated(live, object);
        }
        normalise(live, object);
        self.families(live, object)?;
        let taken = self.others(text(meta(object), "name"))?;
        self.give_address(live, object, &taken)?;
        self.give_ports(live, object, &taken)
    }

    fn refuse(&self, object: &Object, errors: &[FieldError]) -> ApiError {
        let name = text(meta(object), "name");
        ApiError::invalid(&self.resource.group_kind(), name, errors)
    }

    /// What the other services have.
    fn others(&self, name: &str) -> Result<Taken, ApiError> {
        let own = self.key(name);
        let range = keys::range(&self.resource, None);
        let page = self.server.store().list(&range, None, None).map_err(read_failed)?;
        let mut taken = Taken::default();
        for entry in page.entries.iter().filter(|entry| entry.key != own) {
            let stored = Stored::from_entry(entry).map_err(ApiError::internal)?;
            let service = into_object(stored.to_value().map_err(ApiError::internal)?)?;
            let Some(spec) = service.get("spec") else { continue };
            taken.addresses.extend(list(spec, "clusterIPs"));
            let ports = spec["ports"].as_array().into_iter().flatten();
            taken.ports.extend(ports.filter_map(node_port).map(|(_, port)| port));
            if let Some(port) = spec["healthCheckNodePort"].as_i64() {
                taken.ports.insert(port);
            }
        }
        Ok(taken)
    }

    /// Says which families of addresses a service has.
    fn families(&self, live: Option<&Object>, object: &mut Object) -> Result<(), ApiError> {
        let old = live.map(|live| Value::Object(live.clone()));
        let whole = Value::Object(object.clone());
        let Some(Value::Object(spec)) = object.get_mut("spec") else { return Ok(()) };
        if text(spec, "type") == "ExternalName" {
            return Ok(());
        }
        let headless = text(spec, "clusterIP") == "None";
        let bare = headless && spec.get("selector").is_none_or(|s| s == &json!({}));
        if spec.get("ipFamilyPolicy").is_none_or(Value::is_null) {
            let before = old.as_ref().map(|old| &old["spec"]["ipFamilyPolicy"]);
            let policy = match before.and_then(Value::as_str) {
                Some(before) => before,
                None if bare => "RequireDualStack",
                None => "SingleStack",
            };
            spec.insert("ipFamilyPolicy".to_owned(), policy.into());
        }
        let errors = validate::service_addresses(old.as_ref(), &whole);
        if !errors.is_empty() {
            return Err(self.refuse(object, &errors));
        }
        let errors = choose_families(spec, bare);
        if errors.is_empty() { Ok(()) } else { Err(self.refuse(object, &errors)) }
    }

    fn give_address(
        &self,
        live: Option<&Object>,
        object: &mut Object,
        taken: &Taken,
    ) -> Result<(), ApiError> {
        let Some(spec) = object.get("spec") else { return Ok(()) };
        let had = live.and_then(|live| live.get("spec")).map(|spec| list(spec, "clusterIPs"));
        let ips = list(spec, "clusterIPs");
        if spec["type"] == "ExternalName" || ips.first().is_some_and(|ip| ip == "None") {
            return Ok(());
        }
        let Some(asked) = ips.first().filter(|ip| !ip.is_empty()) else {
            let seed =
                format!("{}/{}", text(meta(object), "namespace"), text(meta(object), "name"));
            let Some(free) = free_address(&seed, taken) else {
                let why = "failed to allocate a serviceIP: range is full";
                return Err(ApiError::internal(why));
            };
            if let Some(Value::Object(spec)) = object.get_mut("spec") {
                spec.insert("clusterIP".to_owned(), free.clone().into());
                spec.insert("clusterIPs".to_owned(), json!([free]));
            }
            return Ok(());
        };
        if had.is_some_and(|had| had.contains(asked)) {
            return Ok(());
        }
        let why = match asked.parse::<Ipv4Addr>() {
            Ok(ip) if !is_ours(ip) => "the provided network does not match the current range",
            Ok(_) if taken.addresses.contains(asked) => "provided IP is already allocated",
            _ => return Ok(()),
        };
        let at = FieldPath::root().child("spec").child("clusterIPs");
        let why = format!("failed to allocate IP {asked}: {why}");
        let error = FieldError::invalid(at, ips, why);
        Err(self.refuse(object, &[error]))
    }

    fn give_ports(
        &self,
        live: Option<&Object>,
        object: &mut Object,
        taken: &Taken,
    ) -> Result<(), ApiError> {
        let had: BTreeSet<i64> = live
            .and_then(|live| live.get("spec")?.get("ports")?.as_array())
            .map(|ports| ports.iter().filter_map(node_port).map(|(_, port)| port).collect())
            .unwrap_or_default();
        let Some(Value::Object(spec)) = object.get_mut("spec") else { return Ok(()) };
        let kind = text(spec, "type").to_owned();
        if !matches!(kind.as_str(), "NodePort" | "LoadBalancer") {
            return Ok(());
        }
        let wanted = kind == "NodePort"
            || spec.get("allocateLoadBalancerNodePorts") != Some(&Value::Bool(false));
        let check = kind == "LoadBalancer"
            && text(spec, "externalTrafficPolicy") == "Local"
            && spec.get("healthCheckNodePort").is_none_or(|port| port == 0);
        let ports = spec.get_mut("ports").and_then(Value::as_array_mut);
        let mut used = taken.ports.clone();
        let asked = ports.iter().flat_map(|ports| ports.iter()).filter_map(node_port);
        used.extend(asked.map(|(_, port)| port));
        let mut errors = Vec::new();
        // The same port in two protocols is the same port of the node.
        let mut same: BTreeMap<i64, i64> = BTreeMap::new();
        let mut claimed: BTreeSet<i64> = BTreeSet::new();
        for (n, port) in ports.into_iter().flatten().enumerate() {
            let number = port["port"].as_i64().unwrap_or_default();
            if let Some((_, asked)) = node_port(port) {
                let twin = same.get(&number) == Some(&asked);
                let again = !claimed.insert(asked) && !twin;
                same.entry(number).or_insert(asked);
                let why = if again {
                    "provided port is already allocated"
                } else if had.contains(&asked) {
                    continue;
                } else if !PORTS.contains(&asked) {
                    "provided port is not in the valid range. The range of valid ports is 30000-32767"
                } else if taken.ports.contains(&asked) {
                    "provided port is already allocated"
                } else {
                    continue;
                };
                let at = FieldPath::root().child("spec").child("ports").index(n);
                errors.push(FieldError::invalid(at.child("nodePort"), asked, why));
            } else if wanted {
                let twin = same.get(&number).copied();
                let Some(given) = twin.or_else(|| free_port(&used)) else {
                    let why = "failed to allocate a nodePort: range is full";
                    return Err(ApiError::internal(why));
                };
                used.insert(given);
                same.insert(number, given);
                claimed.insert(given);
                port["nodePort"] = given.into();
            }
        }
        if let (true, Some(given)) = (check, free_port(&used)) {
            spec.insert("healthCheckNodePort".to_owned(), given.into());
        }
        // Upstream tells the first and stops.
        errors.truncate(1);
        if errors.is_empty() { Ok(()) } else { Err(self.refuse(object, &errors)) }
    }
}

fn list(spec: &Value, field: &str) -> Vec<String> {
    let items = spec[field].as_array().into_iter().flatten().filter_map(Value::as_str);
    items.map(str::to_owned).collect()
}

fn node_port(port: &Value) -> Option<(String, i64)> {
    let number = port["nodePort"].as_i64().filter(|number| *number != 0)?;
    Some((port["protocol"].as_str().unwrap_or("TCP").to_owned(), number))
}

fn is_ours(ip: Ipv4Addr) -> bool {
    u32::from(ip).wrapping_sub(u32::from(NETWORK)) < ADDRESSES
}

/// A free address, from a place on that the name says, so that services rarely ask for the same.
/// The first addresses are left to those who ask for them by number.
fn free_address(seed: &str, taken: &Taken) -> Option<String> {
    const RESERVED: u32 = 256;
    const LAST: u32 = ADDRESSES - 1;
    let span = LAST - RESERVED;
    let hash = seed
        .bytes()
        .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    let high = (0..span).map(|n| RESERVED + (hash.wrapping_add(n) % span));
    high.chain(2..RESERVED)
        .map(|n| Ipv4Addr::from(u32::from(NETWORK) + n).to_string())
        .find(|ip| !taken.addresses.contains(ip))
}

/// A free port of the nodes, in any protocol.
fn free_port(used: &BTreeSet<i64>) -> Option<i64> {
    PORTS.into_iter().find(|port| !used.contains(port))
}

/// The policy and the families that follow from it and from the addresses.
fn choose_families(spec: &mut Object, bare: bool) -> Vec<FieldError> {
    let at = |field: &str| FieldPath::root().child("spec").child(field);
    let single = text(spec, "ipFamilyPolicy") == "SingleStack";
    let policy = spec.get("ipFamilyPolicy").cloned().unwrap_or_default();
    let whole = Value::Object(spec.clone());
    let (ips, mut families) = (list(&whole, "clusterIPs"), list(&whole, "ipFamilies"));
    let mut errors = Vec::new();
    let mut refuse = |field: &str, value: Value, why: &str| {
        errors.push(FieldError::new(ErrorKind::Invalid, at(field), Some(value), why));
    };
    if single && ips.len() == 2 {
        refuse(
            "ipFamilyPolicy",
            policy.clone(),
            "must be 'RequireDualStack' or 'PreferDualStack' when multiple cluster IPs are specified",
        );
    }
    if single && families.len() == 2 {
        refuse(
            "ipFamilyPolicy",
            policy.clone(),
            "must be 'RequireDualStack' or 'PreferDualStack' when multiple IP families are specified",
        );
    }
    let mut wrong = Vec::new();
    for (n, ip) in ips.iter().enumerate().take_while(|(_, ip)| *ip != "None") {
        if n < families.len() {
            continue;
        }
        if ip.contains(':') {
            let here = at("clusterIPs").index(n);
            let why = "IPv6 is not configured on this cluster";
            wrong.push(FieldError::invalid(here, ips.clone(), why));
        } else {
            families.push("IPv4".to_owned());
        }
    }
    errors.append(&mut wrong);
    if !errors.is_empty() {
        return errors;
    }
    if bare {
        if families.is_empty() {
            families.push("IPv4".to_owned());
        }
        if families.len() < 2 && !single {
            let other = if families[0] == "IPv4" { "IPv6" } else { "IPv4" };
            families.push(other.to_owned());
        }
    } else {
        if policy == "RequireDualStack" {
            let why = "this cluster is not configured for dual-stack services";
            errors.push(FieldError::invalid(at("ipFamilyPolicy"), policy, why));
        }
        for (n, family) in families.iter().enumerate().filter(|(_, family)| *family == "IPv6") {
            let here = at("ipFamilies").index(n);
            errors.push(FieldError::invalid(
                here,
                family.clone(),
                "not configured on this cluster",
            ));
        }
        if families.is_empty() {
            families.push("IPv4".to_owned());
        }
    }
    spec.insert("ipFamilies".to_owned(), families.into());
    errors
}

/// The one address and the list of addresses say the same.
fn normalise(live: Option<&Object>, object: &mut Object) {
    let before = live.and_then(|live| live.get("spec")?.as_object()).cloned().unwrap_or_default();
    let Some(Value::Object(spec)) = object.get_mut("spec") else { return };
    let same_list = before.get("clusterIPs") == spec.get("clusterIPs");
    let none = spec.get("clusterIPs").and_then(Value::as_array).is_none_or(Vec::is_empty);
    let one = text(spec, "clusterIP").to_owned();
    if live.is_none() {
        if !one.is_empty() && none {
            spec.insert("clusterIPs".to_owned(), json!([one]));
        }
        return;
    }
    let had = text(&before, "clusterIP");
    if had == one {
        if none {
            keep(&before, spec, "clusterIPs");
        }
    } else if same_list {
        if !had.is_empty() && one.is_empty() {
            spec.remove("clusterIPs");
        } else {
            spec.insert("clusterIPs".to_owned(), json!([one]));
        }
    }
}

/// An update that leaves out what the server gave keeps it.
fn keep_allocated(live: &Object, object: &mut Object) {
    let Some(Value::Object(before)) = live.get("spec") else { return };
    let Some(Value::Object(spec)) = object.get_mut("spec") else { return };
    let addressed = |spec: &Object| text(spec, "type") != "ExternalName";
    if addressed(before) && addressed(spec) {
        if text(spec, "clusterIP").is_empty() {
            keep(before, spec, "clusterIP");
        }
        if spec.get("clusterIPs").and_then(Value::as_array).is_none_or(Vec::is_empty) {
            keep(before, spec, "clusterIPs");
        }
    }
    let ported = |spec: &Object| matches!(text(spec, "type"), "NodePort" | "LoadBalancer");
    if ported(before) && ported(spec) {
        let had: Vec<Value> =
            before.get("ports").and_then(Value::as_array).cloned().unwrap_or_default();
        let ports = spec.get_mut("ports").and_then(Value::as_array_mut);
        let Some(ports) = ports else { return };
        let used: BTreeSet<(String, i64)> = ports.iter().filter_map(node_port).collect();
        let had: BTreeMap<&str, &Value> =
            had.iter().map(|old| (old["name"].as_str().unwrap_or_default(), old)).collect();
        for port in ports.iter_mut().filter(|port| node_port(port).is_none()) {
            let twin = had.get(port["name"].as_str().unwrap_or_default());
            if let Some((protocol, number)) = twin.and_then(|old| node_port(old))
                && !used.contains(&(protocol, number))
            {
                port["nodePort"] = number.into();
            }
        }
    }
    let checked = |spec: &Object| {
        text(spec, "type") == "LoadBalancer" && text(spec, "externalTrafficPolicy") == "Local"
    };
    if checked(before)
        && checked(spec)
        && spec.get("healthCheckNodePort").is_none_or(|port| port == 0)
    {
        keep(before, spec, "healthCheckNodePort");
    }
}

/// Drops what only the type that a service had needs, where the update left it as it was.
pub(super) fn drop_of_old_type(live: &Object, object: &mut Object) {
    let Some(Value::Object(before)) = live.get("spec") else { return };
    let Some(Value::Object(spec)) = object.get_mut("spec") else { return };
    let kind = |spec: &Object| text(spec, "type").to_owned();
    let (old, new) = (kind(before), kind(spec));
    let same = |spec: &Object, field: &str| before.get(field) == spec.get(field);
    let ports = |kind: &str| matches!(kind, "NodePort" | "LoadBalancer");
    if old != "ExternalName" && new == "ExternalName" {
        let unchanged = same(spec, "clusterIP") && same(spec, "clusterIPs");
        if unchanged {
            spec.remove("clusterIP");
            spec.remove("clusterIPs");
        }
        for field in ["ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy"] {
            if same(spec, field) {
                spec.remove(field);
            }
        }
    }
    if ports(&old) && !ports(&new) {
        let given = |spec: &Object| -> Vec<Option<(String, i64)>> {
            let ports = spec.get("ports").and_then(Value::as_array);
            ports.into_iter().flatten().map(node_port).collect()
        };
        if given(before) == given(spec) {
            let ports = spec.get_mut("ports").and_then(Value::as_array_mut);
            for port in ports.into_iter().flatten().filter_map(Value::as_object_mut) {
                port.remove("nodePort");
            }
        }
    }
    let external = |kind: &str, spec: &Object| {
        ports(kind)
            || kind == "ClusterIP"
                && spec.get("externalIPs").and_then(Value::as_array).is_some_and(|l| !l.is_empty())
    };
    if old == "LoadBalancer" && new != "LoadBalancer" {
        for field in ["allocateLoadBalancerNodePorts", "loadBalancerClass", "healthCheckNodePort"] {
            if same(spec, field) {
                spec.remove(field);
            }
        }
    }
    if external(&old, before) && !external(&new, spec) && same(spec, "externalTrafficPolicy") {
        spec.remove("externalTrafficPolicy");
    }
    if new != "LoadBalancer" {
        object.insert("status".to_owned(), json!({"loadBalancer": {}}));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_given_once() {
        let mut taken = Taken::default();
        for _ in 0..3 {
            let ip = free_address("ns/a", &taken).unwrap();
            assert!(is_ours(ip.parse().unwrap()), "{ip}");
            assert!(taken.addresses.insert(ip));
        }
        assert!(!is_ours(Ipv4Addr::new(10, 97, 0, 0)) && !is_ours(Ipv4Addr::new(10, 95, 0, 0)));
    }

    #[test]
    fn a_full_range_gives_nothing() {
        let mut taken = Taken::default();
        for n in 0..ADDRESSES {
            taken.addresses.insert(Ipv4Addr::from(u32::from(NETWORK) + n).to_string());
        }
        assert_eq!(free_address("ns/a", &taken), None);
        let all = PORTS.collect();
        assert_eq!(free_port(&all), None);
    }

    #[test]
    fn an_update_keeps_what_was_given() {
        let live = json!({"spec": {"type": "NodePort", "clusterIP": "10.96.1.1",
            "clusterIPs": ["10.96.1.1"], "ports": [{"name": "a", "port": 80, "nodePort": 30001}]}});
        let mut new = json!({"spec": {"type": "NodePort", "ports": [{"name": "a", "port": 81}]}});
        keep_allocated(live.as_object().unwrap(), new.as_object_mut().unwrap());
        assert_eq!(new["spec"]["clusterIP"], "10.96.1.1");
        assert_eq!(new["spec"]["ports"][0]["nodePort"], 30001);
        new["spec"]["type"] = "ClusterIP".into();
        drop_of_old_type(live.as_object().unwrap(), new.as_object_mut().unwrap());
        assert_eq!(new["spec"]["ports"][0].get("nodePort"), None);
    }
}
