//! What a pod takes from its node: resources and host ports.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::quantity::millis;

/// Amounts by resource, in thousandths.
pub(super) type Amounts = BTreeMap<String, i128>;

pub(super) fn amounts(quantities: Option<&BTreeMap<String, Quantity>>) -> Amounts {
    let all = quantities.into_iter().flatten();
    all.map(|(name, quantity)| (name.clone(), millis(&quantity.0).unwrap_or(0))).collect()
}

pub(super) fn add(to: &mut Amounts, more: &Amounts) {
    for (name, amount) in more {
        let known = to.entry(name.clone()).or_default();
        *known = known.saturating_add(*amount);
    }
}

fn most(of: &mut Amounts, other: &Amounts) {
    for (name, amount) in other {
        let known = of.entry(name.clone()).or_default();
        *known = (*known).max(*amount);
    }
}

fn requests(container: &Container) -> Amounts {
    amounts(container.resources.as_ref().and_then(|resources| resources.requests.as_ref()))
}

/// What a pod requests: its containers together, or the most that any step of its start needs; the
/// pod's own word counts before that of its containers; the overhead of its runtime is on top.
pub(super) fn of(pod: &Pod) -> Amounts {
    let Some(spec) = &pod.spec else { return Amounts::new() };
    let mut running = Amounts::new();
    spec.containers.iter().for_each(|container| add(&mut running, &requests(container)));
    let (mut starting, mut sidecars) = (Amounts::new(), Amounts::new());
    for container in spec.init_containers.iter().flatten() {
        let mut now = requests(container);
        if container.restart_policy.as_deref() == Some("Always") {
            add(&mut sidecars, &now);
            now.clear();
        }
        add(&mut now, &sidecars);
        most(&mut starting, &now);
    }
    add(&mut running, &sidecars);
    most(&mut running, &starting);
    let own = spec.resources.as_ref().and_then(|resources| resources.requests.as_ref());
    running.extend(amounts(own));
    add(&mut running, &amounts(spec.overhead.as_ref()));
    running
}

/// A port of a node: protocol, address, number. `0.0.0.0` is every address.
pub(super) type Port = (String, String, i32);

pub(super) fn ports(pod: &Pod) -> BTreeSet<Port> {
    let sidecar = |c: &&Container| c.restart_policy.as_deref() == Some("Always");
    let containers = |spec: &PodSpec| {
        let init = spec.init_containers.iter().flatten().filter(sidecar).cloned();
        spec.containers.iter().cloned().chain(init).collect::<Vec<_>>()
    };
    let all = pod.spec.as_ref().map(containers).unwrap_or_default();
    let ports = all.iter().flat_map(|container| container.ports.iter().flatten());
    ports
        .filter_map(|port| {
            let number = port.host_port.filter(|number| *number > 0)?;
            let address = port.host_ip.clone().filter(|address| !address.is_empty());
            let protocol = port.protocol.clone().unwrap_or_else(|| "TCP".to_owned());
            Some((protocol, address.unwrap_or_else(|| "0.0.0.0".to_owned()), number))
        })
        .collect()
}

pub(super) fn collide(a: &Port, b: &Port) -> bool {
    let any = "0.0.0.0";
    (&a.0, a.2) == (&b.0, b.2) && (a.1 == b.1 || a.1 == any || b.1 == any)
}
