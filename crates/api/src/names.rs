//! Labels, annotations, taints, finalizers and managers: every name that is not a kind.
//!
//! Topology follows Kubernetes' conventions where one exists (`topology.kubernetes.io`); our own
//! labels live under the group's name. Each name has one writer, stated beside it.

/// Kubernetes' label for the region of a node. Written by the node controller.
pub const REGION: &str = "topology.kubernetes.io/region";
/// Kubernetes' label for the zone of a node; our site. Written by the node controller.
pub const ZONE: &str = "topology.kubernetes.io/zone";
/// Kubernetes' label for the hardware class of a node. Written by the node controller.
pub const INSTANCE_TYPE: &str = "node.kubernetes.io/instance-type";
/// The row of racks a machine stands in. Written by the node controller.
pub const ROW: &str = "fleet.seatrial.dev/row";
/// The rack a machine stands in. Written by the node controller.
pub const RACK: &str = "fleet.seatrial.dev/rack";
/// The slot of the rack, counted from the bottom. Written by the node controller.
pub const SLOT: &str = "fleet.seatrial.dev/slot";
/// The leaf switch of the backend network. Written by the node controller.
pub const LEAF: &str = "fleet.seatrial.dev/leaf";
/// The NVLink domain, where the machine is part of one. Written by the node controller.
pub const NVLINK_DOMAIN: &str = "fleet.seatrial.dev/nvlink-domain";
/// `gpu` or `cpu`. Written by the node controller.
pub const CLASS: &str = "fleet.seatrial.dev/class";
/// The lifecycle state of the machine below a node, in lower case. Written by the node controller.
pub const STATE: &str = "fleet.seatrial.dev/state";
/// The role of a machine in production: `member` or `spare`. Written by the node controller.
pub const ROLE: &str = "fleet.seatrial.dev/role";
/// The pool a node belongs to. Written by the node controller.
pub const POOL: &str = "fleet.seatrial.dev/pool";
/// The tenant a node serves. Written by the node controller.
pub const TENANT: &str = "fleet.seatrial.dev/tenant";
/// The machine below a node. Written when the node joins.
pub const MACHINE: &str = "fleet.seatrial.dev/machine";
/// The boot image a node runs. Written when the node joins.
pub const IMAGE: &str = "fleet.seatrial.dev/image";

/// How a pod may be treated when its node must be freed; see [`crate::treatment`]. Written by the
/// pod's owner.
pub const TREATMENT: &str = "fleet.seatrial.dev/treatment";

/// Why the node controller cordoned a node: the name of the incident. A cordon without it is a
/// person's, and never touched. Written by the node controller.
pub const CORDONED_FOR: &str = "fleet.seatrial.dev/cordoned-for";
/// A sentence that stands beside a cordon. Written by whoever cordons.
pub const CORDON_REASON: &str = "fleet.seatrial.dev/cordon-reason";
/// Forbids automatic repair of a node or machine; the value says why. Written by people.
pub const HANDS_OFF: &str = "fleet.seatrial.dev/hands-off";

/// Which of a node's labels and taints its pool wants, so that they go when it no longer does. Written by
/// the node controller.
pub const FROM_POOL: &str = "fleet.seatrial.dev/from-pool";
/// The taint of nodes that are not in production: nothing but tests runs there.
pub const TAINT_STATE: &str = "fleet.seatrial.dev/not-in-production";
/// The taint of spares: booted, proven, and kept free.
pub const TAINT_SPARE: &str = "fleet.seatrial.dev/spare";

/// Keeps a machine's object until its hardware has been wiped and switched off.
pub const FINALIZER: &str = "fleet.seatrial.dev/release";
/// On a machine that never answers again: lets its object go without the wipe. Written by people.
pub const FORCE_RELEASE: &str = "fleet.seatrial.dev/force-release";

/// The namespace that our own parts run in.
pub const NAMESPACE: &str = "seatrial-system";
/// The namespace of the service accounts as which the agents of machines speak, one per machine and
/// of its name.
pub const MACHINES: &str = "seatrial-machines";
/// What the user of a machine's agent is called, before the machine's name.
pub const MACHINE_USER: &str = "system:serviceaccount:seatrial-machines:";
/// The group of all of them.
pub const MACHINE_GROUP: &str = "system:serviceaccounts:seatrial-machines";
/// The group of the tokens by which machines join.
pub const JOINING_GROUP: &str = "system:bootstrappers:seatrial:machines";
/// The name of the one [`crate::Ledger`].
pub const LEDGER: &str = "fleet";

/// The names under which our parts write (field managers) and speak (event reporters).
pub mod manager {
    /// The fleet lifecycle controller: the only writer of a machine's lifecycle.
    pub const MACHINE: &str = "seatrial-machine";
    /// The node lifecycle controller: incidents, cordons, grants, requests to machines.
    pub const NODE: &str = "seatrial-node";
    /// The pool controller: which machine serves which pool.
    pub const POOL: &str = "seatrial-pool";
    /// The breaker's watch over correlated faults.
    pub const BREAKER: &str = "seatrial-breaker";
    /// The agent on a machine: inventory, conditions, results of tasks.
    pub const AGENT: &str = "seatrial-agent";
    /// Whoever finds by comparison that a node is slow: peers, fabric, lease monitor.
    pub const MONITOR: &str = "seatrial-monitor";

    /// All of them.
    pub const ALL: [&str; 6] = [MACHINE, NODE, POOL, BREAKER, AGENT, MONITOR];
}
