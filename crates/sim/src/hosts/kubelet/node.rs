//! What a kubelet says of its node.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::inventory::Inventory;
use api::names;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    DaemonEndpoint, Node, NodeAddress, NodeCondition, NodeDaemonEndpoints, NodeSpec, NodeStatus,
    NodeSystemInfo,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use serde_json::{Value, json};

use crate::datacentre::Running;

/// The port on which a kubelet would answer.
const PORT: i32 = 10_250;

/// Upstream's default for the most pods of a node.
const PODS: &str = "110";

/// What a kubelet is ready with, in upstream's words: type, whether it holds, reason, message.
const CONDITIONS: [(&str, &str, &str, &str); 4] = [
    (
        "MemoryPressure",
        "False",
        "KubeletHasSufficientMemory",
        "kubelet has sufficient memory available",
    ),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
];

/// What a kubelet knows of its node.
#[derive(Clone, Debug)]
pub(in crate::hosts) struct Facts {
    pub(in crate::hosts) name: String,
    /// Which machine of the site it is; addresses follow from that.
    pub(in crate::hosts) index: usize,
    pub(in crate::hosts) running: Running,
    pub(in crate::hosts) registered: bool,
    pub(in crate::hosts) inventory: Inventory,
    pub(in crate::hosts) node: Option<Arc<Node>>,
    pub(in crate::hosts) now: Timestamp,
}

/// What a kubelet tells the API.
#[derive(Debug)]
pub(in crate::hosts) enum Plan {
    Nothing,
    Create(Box<Node>),
    Update {
        meta: Box<ObjectMeta>,
        /// Labels and provider, where they differ.
        described: Option<Value>,
        status: Option<Value>,
    },
}

pub(in crate::hosts) fn plan(facts: &Facts) -> Plan {
    let Some(node) = &facts.node else {
        // As upstream's, it joins once per start; a node that is deleted afterwards stays away.
        return if facts.registered {
            Plan::Nothing
        } else {
            Plan::Create(Box::new(joining(facts)))
        };
    };
    let there = node.status.as_ref();
    let shown = there.and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    let healthy = |(type_, status, ..): &(&str, &str, &str, &str)| {
        shown.iter().any(|c| c.type_ == *type_ && c.status == *status)
    };
    let boot = there.and_then(|status| status.node_info.as_ref()).map(|info| info.boot_id.as_str());
    let capacity = there.and_then(|status| status.capacity.clone());
    let same = boot == Some(&facts.running.boot)
        && capacity.as_ref() == Some(&capacities(&facts.inventory))
        && CONDITIONS.iter().all(healthy);
    let labels = labels(facts);
    let have = node.metadata.labels.as_ref();
    let labelled =
        labels.iter().all(|(key, value)| have.and_then(|have| have.get(key)) == Some(value));
    let described = (!labelled).then(|| json!({"metadata": {"labels": labels}}));
    let status = (!same).then(|| {
        let mut status = status(facts, shown);
        // What is not there must be said to be gone.
        let gone = capacity.into_iter().flatten().map(|(name, _)| name);
        let gone = gone.filter(|name| !capacities(&facts.inventory).contains_key(name));
        for name in gone.collect::<Vec<_>>() {
            status["capacity"][&name] = Value::Null;
            status["allocatable"][&name] = Value::Null;
        }
        json!({"metadata": {"uid": node.metadata.uid}, "status": status})
    });
    if described.is_none() && status.is_none() && facts.registered {
        return Plan::Nothing;
    }
    Plan::Update { meta: Box::new(node.metadata.clone()), described, status }
}

fn joining(facts: &Facts) -> Node {
    let status = serde_json::from_value::<NodeStatus>(status(facts, &[])).unwrap_or_default();
    Node {
        metadata: ObjectMeta {
            name: Some(facts.name.clone()),
            labels: Some(labels(facts)),
            ..ObjectMeta::default()
        },
        spec: Some(NodeSpec {
            provider_id: Some(format!("seatrial:///{}", facts.name)),
            ..NodeSpec::default()
        }),
        status: Some(status),
    }
}

/// The labels that a kubelet sets itself; all others are the node controller's.
fn labels(facts: &Facts) -> BTreeMap<String, String> {
    let image = facts.running.image.as_str();
    let label = |(key, value): (&str, &str)| (key.to_owned(), label_value(value));
    [
        ("kubernetes.io/hostname", facts.name.as_str()),
        ("kubernetes.io/os", "linux"),
        ("kubernetes.io/arch", "amd64"),
        (names::MACHINE, &facts.name),
        (names::IMAGE, image),
    ]
    .into_iter()
    .map(label)
    .collect()
}

/// A text as a label's value: what is not allowed becomes a dash, and the end is cut off.
fn label_value(text: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' };
    let value: String = text.chars().map(plain).take(63).collect();
    value.trim_matches(|c: char| !c.is_ascii_alphanumeric()).to_owned()
}

fn capacities(inventory: &Inventory) -> BTreeMap<String, Quantity> {
    let mut all = BTreeMap::from([
        ("cpu".to_owned(), quantity(inventory.cores, 1_000, &["", "k", "M"])),
        ("memory".to_owned(), quantity(inventory.memory_gib, 1_024, &["Gi", "Ti", "Pi"])),
        ("pods".to_owned(), Quantity(PODS.to_owned())),
    ]);
    if inventory.gpus > 0 {
        all.insert("nvidia.com/gpu".to_owned(), Quantity(inventory.gpus.to_string()));
    }
    all
}

/// A quantity in the form that the API keeps: with the largest unit that leaves it whole.
fn quantity(mut number: u32, base: u32, units: &[&str]) -> Quantity {
    let mut units = units.iter();
    let mut unit = units.next();
    while number > 0
        && number.is_multiple_of(base)
        && let Some(larger) = units.next()
    {
        number /= base;
        unit = Some(larger);
    }
    Quantity(format!("{number}{}", unit.copied().unwrap_or_default()))
}

fn status(facts: &Facts, shown: &[NodeCondition]) -> Value {
    let second = Timestamp::from_second(facts.now.as_second()).unwrap_or(facts.now);
    let conditions = CONDITIONS.iter().map(|(type_, status, reason, message)| {
        let since = shown.iter().find(|c| c.type_ == *type_ && c.status == *status);
        let since = since.and_then(|c| c.last_transition_time.clone());
        NodeCondition {
            type_: (*type_).to_owned(),
            status: (*status).to_owned(),
            reason: Some((*reason).to_owned()),
            message: Some((*message).to_owned()),
            last_heartbeat_time: Some(Time(second)),
            last_transition_time: Some(since.unwrap_or(Time(second))),
        }
    });
    let address = |type_: &str, address: String| NodeAddress { address, type_: type_.to_owned() };
    let capacity = capacities(&facts.inventory);
    let status = NodeStatus {
        addresses: Some(vec![
            address("InternalIP", host_address(facts.index)),
            address("Hostname", facts.name.clone()),
        ]),
        allocatable: Some(capacity.clone()),
        capacity: Some(capacity),
        conditions: Some(conditions.collect()),
        daemon_endpoints: Some(NodeDaemonEndpoints {
            kubelet_endpoint: Some(DaemonEndpoint { port: PORT }),
        }),
        node_info: Some(NodeSystemInfo {
            architecture: "amd64".to_owned(),
            boot_id: facts.running.boot.clone(),
            container_runtime_version: "simulated://1.0".to_owned(),
            kernel_version: facts.running.kernel.clone(),
            kube_proxy_version: String::new(),
            kubelet_version: "v1.35.0+simulated".to_owned(),
            machine_id: facts.name.clone(),
            operating_system: "linux".to_owned(),
            os_image: facts.running.image.clone(),
            system_uuid: facts.name.clone(),
            swap: None,
        }),
        ..NodeStatus::default()
    };
    serde_json::to_value(status).unwrap_or_default()
}

/// The address of a machine: the site's network is 10.64.0.0/10.
pub(in crate::hosts) fn host_address(index: usize) -> String {
    let index = index % (64 << 16);
    format!("10.{}.{}.{}", 64 + (index >> 16), (index >> 8) & 255, index & 255)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts() -> Facts {
        Facts {
            name: "r1-s03".to_owned(),
            index: 300,
            running: Running {
                boot: "b1".to_owned(),
                image: "registry.local/node:1.2+a".to_owned(),
                kernel: "6.8".to_owned(),
                since: Timestamp::UNIX_EPOCH,
                manifest: String::new(),
            },
            registered: false,
            inventory: Inventory { gpus: 8, cores: 96, memory_gib: 2_048, ..Inventory::default() },
            node: None,
            now: Timestamp::UNIX_EPOCH,
        }
    }

    /// What the node looks like after the plan.
    fn done(plan: Plan) -> Facts {
        let Plan::Create(mut node) = plan else { panic!("{plan:?}") };
        node.metadata.uid = Some("u1".to_owned());
        Facts { node: Some(Arc::from(node)), registered: true, ..facts() }
    }

    fn told(plan: Plan) -> (bool, Value) {
        match plan {
            Plan::Nothing => (false, Value::Null),
            Plan::Create(_) => panic!("{plan:?}"),
            Plan::Update { described, status, .. } => {
                (described.is_some(), status.unwrap_or_default()["status"].clone())
            }
        }
    }

    #[test]
    fn it_joins_once_and_then_says_only_what_is_new() {
        let joined = done(plan(&facts()));
        let node = joined.node.clone().unwrap();
        let labels = node.metadata.labels.as_ref().unwrap();
        assert_eq!(labels[names::MACHINE], "r1-s03");
        assert_eq!(labels[names::IMAGE], "registry.local-node-1.2-a");
        let status = node.status.as_ref().unwrap();
        assert_eq!(status.capacity.as_ref().unwrap()["nvidia.com/gpu"].0, "8");
        assert_eq!(status.addresses.as_ref().unwrap()[0].address, "10.64.1.44");
        assert!(matches!(plan(&joined), Plan::Nothing));
        let gone = Facts { node: None, ..joined.clone() };
        assert!(matches!(plan(&gone), Plan::Nothing), "a node that was deleted stays away");

        let mut rebooted = joined.clone();
        rebooted.running.boot = "b2".to_owned();
        rebooted.running.image = "other".to_owned();
        rebooted.inventory.gpus = 0;
        let (described, status) = told(plan(&rebooted));
        assert!(described);
        assert_eq!(status["nodeInfo"]["bootID"], "b2");
        assert_eq!(status["capacity"]["nvidia.com/gpu"], Value::Null);
        assert!(status["capacity"].as_object().unwrap().contains_key("nvidia.com/gpu"));
    }

    #[test]
    fn quantities_are_as_the_api_keeps_them() {
        for (gib, want) in [(0, "0Gi"), (1_000, "1000Gi"), (1_024, "1Ti"), (3_072, "3Ti")] {
            assert_eq!(quantity(gib, 1_024, &["Gi", "Ti", "Pi"]).0, want);
        }
        for (cores, want) in [(96, "96"), (1_000, "1k"), (1_024, "1024")] {
            assert_eq!(quantity(cores, 1_000, &["", "k", "M"]).0, want);
        }
    }

    #[test]
    fn a_kubelet_that_is_heard_again_is_ready_again() {
        let mut marked = done(plan(&facts()));
        let mut node = (*marked.node.unwrap()).clone();
        for condition in node.status.as_mut().unwrap().conditions.as_mut().unwrap() {
            condition.status = "Unknown".to_owned();
        }
        marked.node = Some(Arc::new(node));
        let (described, status) = told(plan(&marked));
        assert!(!described);
        let ready = status["conditions"].as_array().unwrap().iter().find(|c| c["type"] == "Ready");
        assert_eq!(ready.unwrap()["status"], "True");
    }
}
