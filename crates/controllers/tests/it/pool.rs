//! Pools take machines and give them back, and say why they have as many as they have.

use std::time::Duration;

use api::machine::MachineStatus;
use api::{Incident, InstanceType, Machine, NodePool};
use controllers::Site;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kit::controller::Running;
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use serde_json::{Value, json};

use crate::support::{Cluster, idle, on_a_cluster};

const KIND: &str = "gd-8xh100";

/// A fleet of one instance type; its pool controller runs.
struct Fleet<'a> {
    cluster: &'a Cluster,
    running: Running,
}

impl<'a> Fleet<'a> {
    async fn start(cluster: &'a Cluster) -> Self {
        let definitions: Api<CustomResourceDefinition> = cluster.api();
        for definition in api::definitions() {
            let name = definition.metadata.name.clone().unwrap();
            let apply = PatchParams::apply("test").force();
            definitions.patch(&name, &apply, &Patch::Apply(&definition)).await.unwrap();
        }
        // A real kube-apiserver begins to serve a new kind a moment later.
        cluster.pass(2).await;
        // And has what an earlier test left.
        clear::<NodePool>(cluster).await;
        clear::<Machine>(cluster).await;
        clear::<Incident>(cluster).await;
        clear::<InstanceType>(cluster).await;
        clear::<Node>(cluster).await;
        let events: Api<Event> = Api::namespaced(cluster.client.clone(), "default");
        events.delete_collection(&DeleteParams::default(), &ListParams::default()).await.unwrap();
        for (name, gpus) in [(KIND, 8), ("gd-4xh100", 4)] {
            let expected = json!({"gpuModel": "H100", "gpus": gpus});
            let object = json!({"metadata": {"name": name},
                "spec": {"expected": expected, "acceptance": "quick", "image": "seatrial-1"}});
            cluster.create::<InstanceType>(None, object).await;
        }
        let site = Site { fleet: true, ..Site::default() };
        let running = cluster.start_at(&["pool"], &site).await;
        Self { cluster, running }
    }

    /// m1 serves a pool of one, m2 is its spare.
    async fn of_one_and_a_spare(cluster: &'a Cluster) -> Self {
        let fleet = Self::start(cluster).await;
        for name in ["m1", "m2"] {
            fleet.spare(name, "r1", "l1").await;
        }
        fleet.pool("h100", 1, json!({})).await;
        fleet.settle().await;
        fleet
    }

    /// A machine in production with a ready node: a spare.
    async fn spare(&self, name: &str, rack: &str, leaf: &str) {
        self.machine(name, rack, leaf, "Production").await;
        let meta = json!({"name": name});
        let node: Node = self.cluster.create(None, json!({"metadata": meta})).await;
        let ready = json!({"type": "Ready", "status": "True"});
        self.write::<Node>(name, json!({"status": {"conditions": [ready]}})).await;
        let reference = json!({"name": name, "uid": node.metadata.uid});
        let status = json!({"role": "spare", "node": reference});
        self.write::<Machine>(name, json!({"status": status})).await;
    }

    async fn machine(&self, name: &str, rack: &str, leaf: &str, state: &str) {
        let object = json!({
            "metadata": {"name": name},
            "spec": {
                "instanceType": KIND,
                "place": {"site": "demo", "rack": rack, "slot": 1, "leaf": leaf},
                "bmc": {"address": "https://10.0.0.7", "credential": "bmc"},
                "macs": ["02:00:00:00:00:01"],
            },
        });
        self.cluster.create::<Machine>(None, object).await;
        self.write::<Machine>(name, json!({"status": {"state": state}})).await;
    }

    /// Merges a status into an object.
    async fn write<K>(&self, name: &str, patch: Value)
    where
        K: kube::Resource<DynamicType = ()> + Clone + serde::de::DeserializeOwned + std::fmt::Debug,
    {
        let api: Api<K> = self.cluster.api();
        api.patch_status(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }

    async fn pool(&self, name: &str, target: u32, more: Value) {
        let mut spec = json!({"instanceType": KIND, "tenant": "acme", "targetNodes": target});
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.cluster
            .create::<NodePool>(None, json!({"metadata": {"name": name}, "spec": spec}))
            .await;
    }

    async fn resize(&self, name: &str, target: u32) {
        let api: Api<NodePool> = self.cluster.api();
        let patch = Patch::Merge(json!({"spec": {"targetNodes": target}}));
        api.patch(name, &PatchParams::default(), &patch).await.unwrap();
    }

    /// Does what the machine controller does: who is assigned serves, who is not is a spare.
    async fn settle(&self) {
        loop {
            idle(&self.running).await;
            let machines: Api<Machine> = self.cluster.api();
            let mut moved = false;
            for machine in machines.list(&ListParams::default()).await.unwrap() {
                let status: MachineStatus = machine.status.clone().unwrap_or_default();
                let assigned = machine.spec.assignment.as_ref().map(|a| a.pool.clone());
                if status.pool == assigned || status.state != api::state::State::Production {
                    continue;
                }
                let role = if assigned.is_some() { "member" } else { "spare" };
                let status = json!({"status": {"role": role, "pool": assigned}});
                self.write::<Machine>(machine.name(), status).await;
                moved = true;
            }
            if !moved {
                return;
            }
        }
    }

    /// The machines of a pool.
    async fn members(&self, pool: &str) -> Vec<String> {
        let machines: Api<Machine> = self.cluster.api();
        let all = machines.list(&ListParams::default()).await.unwrap();
        let of = |machine: &Machine| {
            machine.spec.assignment.as_ref().is_some_and(|assigned| assigned.pool == pool)
        };
        all.iter().filter(|machine| of(machine)).map(|machine| machine.name().to_owned()).collect()
    }

    async fn status(&self, pool: &str) -> api::node_pool::NodePoolStatus {
        let pools: Api<NodePool> = self.cluster.api();
        pools.get(pool).await.unwrap().status.unwrap_or_default()
    }

    /// The reasons of both conditions of a pool.
    async fn reasons(&self, pool: &str) -> (String, String) {
        let conditions = self.status(pool).await.conditions;
        let reason =
            |kind| conditions.iter().find(|c| c.type_ == kind).map(|c| c.reason.clone()).unwrap();
        (reason("AtTarget"), reason("Valid"))
    }

    async fn fault(&self, name: &str, machine: &str) {
        let nodes: Api<Node> = self.cluster.api();
        let uid = nodes.get(machine).await.unwrap().metadata.uid;
        let spec = json!({
            "node": machine, "nodeUid": uid, "machine": machine, "cause": "xid/95",
            "by": "seatrial-agent", "evidence": ["XID 95"], "opened": self.cluster.now(),
        });
        let object = json!({"metadata": {"name": name}, "spec": spec});
        self.cluster.create::<Incident>(None, object).await;
    }

    async fn events(&self, reason: &str) -> Vec<(String, String)> {
        let events: Api<Event> = self.cluster.api();
        let all = events.list(&ListParams::default()).await.unwrap();
        let told = all.into_iter().filter(|event| event.reason.as_deref() == Some(reason));
        told.map(|e| (e.regarding.unwrap().name.unwrap(), e.note.unwrap_or_default())).collect()
    }
}

/// Deletes every object of a kind of the whole cluster.
async fn clear<K>(cluster: &Cluster)
where
    K: kube::Resource<DynamicType = ()> + Clone + serde::de::DeserializeOwned + std::fmt::Debug,
{
    let all: Api<K> = cluster.api();
    all.delete_collection(&DeleteParams::default(), &ListParams::default()).await.unwrap();
}

#[test]
fn a_pool_is_filled_and_says_so() {
    on_a_cluster(async |cluster| {
        let fleet = Fleet::start(&cluster).await;
        for name in ["m1", "m2", "m3"] {
            fleet.spare(name, "r1", "l1").await;
        }
        fleet.machine("m4", "r1", "l1", "Test").await;
        fleet.pool("h100", 2, json!({"spares": 1})).await;
        fleet.settle().await;
        assert_eq!(fleet.members("h100").await, ["m1", "m2"]);
        let status = fleet.status("h100").await;
        assert_eq!((status.target, status.current, status.spares), (2, 2, 1));
        assert_eq!((status.why.as_str(), status.until), ("", None));
        assert_eq!(fleet.reasons("h100").await, ("Reached".into(), "Accepted".into()));
        let told = fleet.events("Assigning").await;
        let why = "pool h100 wants one more node (seatrial-pool for pool/h100)".to_owned();
        assert_eq!(told, [("m1".to_owned(), why.clone()), ("m2".to_owned(), why)]);
        assert_eq!(fleet.events("Assigned").await.len(), 2);

        // More than there is: it says what lacks, and promises what is on its way.
        fleet.resize("h100", 4).await;
        fleet.settle().await;
        let status = fleet.status("h100").await;
        assert_eq!((status.current, status.queued, status.spares), (3, 1, 0));
        assert_eq!(status.why, "no proven spare for 1 node; 1 machines are on their way");
        let ahead = status.until.unwrap().duration_since(cluster.now());
        assert!(ahead <= Duration::from_secs(1_650).try_into().unwrap(), "{ahead}");
        assert_eq!(fleet.reasons("h100").await.0, "NoCapacity");
        let metrics = fleet.running.metrics().text();
        for line in ["missing_nodes{pool=\"h100\"} 1", "missing_spares{pool=\"h100\"} 1"] {
            assert!(metrics.contains(&format!("seatrial_pool_{line}")), "{metrics}");
        }
        fleet.running.stop().await;
    });
}

#[test]
fn the_nearest_spare_takes_the_place_of_a_sick_node_before_that_leaves() {
    on_a_cluster(async |cluster| {
        let fleet = Fleet::start(&cluster).await;
        fleet.spare("m1", "r1", "l1").await;
        fleet.spare("m2", "r2", "l2").await;
        fleet.pool("h100", 2, json!({})).await;
        fleet.settle().await;
        fleet.spare("a-far", "r9", "l9").await;
        fleet.spare("z-near", "r3", "l2").await;
        fleet.settle().await;
        fleet.fault("m2-1", "m2").await;
        fleet.settle().await;
        assert_eq!(fleet.members("h100").await, ["m1", "m2", "z-near"]);
        let status = fleet.status("h100").await;
        assert_eq!((status.current, status.prefill, status.spares), (2, 1, 1));
        let told = fleet.events("Assigning").await;
        let why = "takes the place of m2, which is sick; the nearest spare: same leaf \
                   (seatrial-pool for pool/h100)";
        assert!(told.contains(&("z-near".to_owned(), why.to_owned())), "{told:?}");

        // It leaves for triage, and comes back as anybody's.
        fleet.write::<Machine>("m2", json!({"status": {"state": "Triage", "node": null}})).await;
        fleet.settle().await;
        assert_eq!(fleet.members("h100").await, ["m1", "z-near"]);
        assert_eq!(fleet.reasons("h100").await.0, "Reached");
        fleet.running.stop().await;
    });
}

#[test]
fn another_stands_in_for_a_silent_node_that_a_person_studies() {
    on_a_cluster(async |cluster| {
        let fleet = Fleet::of_one_and_a_spare(&cluster).await;
        let machines: Api<Machine> = cluster.api();
        let keep = json!({"metadata": {"annotations": {api::names::HANDS_OFF: "mine"}}});
        machines.patch("m1", &PatchParams::default(), &Patch::Merge(keep)).await.unwrap();
        fleet.settle().await;
        assert_eq!(fleet.members("h100").await, ["m1"], "it serves, studied or not");
        let ready =
            |status| json!({"status": {"conditions": [{"type": "Ready", "status": status}]}});
        fleet.write::<Node>("m1", ready("Unknown")).await;
        fleet.settle().await;
        assert_eq!(fleet.members("h100").await, ["m1", "m2"]);
        assert_eq!(fleet.status("h100").await.current, 1);
        // Back again it is kept still, so the one that stood in leaves.
        fleet.write::<Node>("m1", ready("True")).await;
        fleet.settle().await;
        assert_eq!(fleet.members("h100").await, ["m1"]);
        fleet.running.stop().await;
    });
}

#[test]
fn a_phase_takes_a_node_out_when_its_turn_has_come() {
    on_a_cluster(async |cluster| {
        let fleet = Fleet::of_one_and_a_spare(&cluster).await;
        let nodes: Api<Node> = cluster.api();
        let uid = nodes.get("m1").await.unwrap().metadata.uid;
        let spec = json!({"node": "m1", "nodeUid": uid, "machine": "m1", "cause": "phase/Reboot",
            "by": "ada", "evidence": [], "opened": cluster.now()});
        cluster.create::<Incident>(None, json!({"metadata": {"name": "i"}, "spec": spec})).await;
        fleet.settle().await;
        assert_eq!(fleet.members("h100").await, ["m1"], "it waits for its turn, and serves");
        let mark = json!({api::names::CORDONED_FOR: "i"});
        let patch = json!({"metadata": {"annotations": mark}, "spec": {"unschedulable": true}});
        nodes.patch("m1", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
        fleet.settle().await;
        assert_eq!(fleet.members("h100").await, ["m1", "m2"]);
        fleet.running.stop().await;
    });
}

#[test]
fn a_quota_is_kept_and_said() {
    on_a_cluster(async |cluster| {
        let fleet = Fleet::start(&cluster).await;
        for name in ["m1", "m2", "m3"] {
            fleet.spare(name, "r1", "l1").await;
        }
        fleet.pool("h100", 3, json!({"quota": 2})).await;
        fleet.settle().await;
        assert_eq!(fleet.members("h100").await.len(), 2);
        let status = fleet.status("h100").await;
        assert_eq!((status.queued, status.why.as_str()), (1, "the quota of 2 nodes is used up"));
        assert_eq!(fleet.reasons("h100").await.0, "OverQuota");
        fleet.running.stop().await;
    });
}

#[test]
fn what_is_too_much_leaves_when_nothing_runs_on_it() {
    on_a_cluster(async |cluster| {
        let fleet = Fleet::start(&cluster).await;
        for name in ["m1", "m2"] {
            fleet.spare(name, "r1", "l1").await;
        }
        fleet.pool("h100", 2, json!({})).await;
        fleet.settle().await;
        let namespace = cluster.namespace("pool").await;
        idle(&fleet.running).await;
        for node in ["m1", "m2"] {
            let pod = json!({"metadata": {"name": node}, "spec": {"nodeName": node,
                "containers": [{"name": "c", "image": "i"}]}});
            cluster.create::<Pod>(Some(&namespace), pod).await;
        }
        fleet.resize("h100", 1).await;
        fleet.settle().await;
        assert_eq!(fleet.members("h100").await.len(), 2);
        assert_eq!(
            fleet.status("h100").await.why,
            "1 node too many; they leave once they are idle"
        );
        let pods: Api<Pod> = Api::namespaced(cluster.client.clone(), &namespace);
        let ended = Patch::Merge(json!({"status": {"phase": "Succeeded"}}));
        pods.patch_status("m1", &PatchParams::default(), &ended).await.unwrap();
        fleet.settle().await;
        assert_eq!(fleet.members("h100").await, ["m2"]);
        assert_eq!(fleet.reasons("h100").await.0, "Reached");
        fleet.running.stop().await;
    });
}

#[test]
fn a_type_that_there_is_not_is_named_with_the_nearest_and_nothing_is_taken_away() {
    on_a_cluster(async |cluster| {
        let fleet = Fleet::start(&cluster).await;
        fleet.spare("m1", "r1", "l1").await;
        fleet.pool("odd", 1, json!({"instanceType": "gd-8xh10"})).await;
        fleet.settle().await;
        let why = "spec.instanceType: Unsupported value \"gd-8xh10\": did you mean \"gd-8xh100\"? \
                   (2 types: kubectl get instancetypes)";
        assert_eq!(fleet.status("odd").await.why, why);
        let reasons = ("NotValid".to_owned(), "UnknownInstanceType".to_owned());
        assert_eq!(fleet.reasons("odd").await, reasons);

        // A type that is taken away takes no nodes away.
        fleet.pool("h100", 1, json!({})).await;
        fleet.settle().await;
        let kinds: Api<InstanceType> = cluster.api();
        kinds.delete(KIND, &DeleteParams::default()).await.unwrap();
        fleet.settle().await;
        assert_eq!(fleet.reasons("h100").await.1, "UnknownInstanceType");
        assert_eq!(fleet.members("h100").await, ["m1"]);
        fleet.running.stop().await;
    });
}

#[test]
fn pools_that_want_the_same_spares_share_them() {
    on_a_cluster(async |cluster| {
        let fleet = Fleet::start(&cluster).await;
        let pools = ["p1", "p2", "p3", "p4"];
        for (index, pool) in pools.iter().enumerate() {
            fleet.pool(pool, 2, json!({"tenant": format!("t{index}")})).await;
        }
        fleet.settle().await;
        // All pools look at once at each that appears.
        for name in ["m1", "m2", "m3", "m4", "m5"] {
            fleet.spare(name, "r1", "l1").await;
        }
        fleet.settle().await;
        let mut taken = Vec::new();
        let mut queued = 0;
        for pool in pools {
            taken.extend(fleet.members(pool).await);
            let status = fleet.status(pool).await;
            assert_eq!(status.current + status.queued, 2, "{pool}: {status:?}");
            queued += status.queued;
        }
        taken.sort_unstable();
        assert_eq!(
            (taken, queued),
            (vec!["m1", "m2", "m3", "m4", "m5"].into_iter().map(str::to_owned).collect(), 3)
        );
        let told = fleet.events("Assigned").await;
        assert_eq!(told.len(), 5, "{told:?}");
        fleet.running.stop().await;
    });
}

#[test]
fn machines_of_a_pool_that_is_gone_are_given_back() {
    on_a_cluster(async |cluster| {
        let fleet = Fleet::start(&cluster).await;
        fleet.spare("m1", "r1", "l1").await;
        fleet.pool("h100", 1, json!({})).await;
        fleet.settle().await;
        let pools: Api<NodePool> = cluster.api();
        pools.delete("h100", &DeleteParams::default()).await.unwrap();
        fleet.settle().await;
        assert!(fleet.members("h100").await.is_empty());
        assert_eq!(
            fleet.events("Releasing").await,
            [("m1".to_owned(), "pool h100 is gone (seatrial-pool for pool/h100)".to_owned())]
        );
        fleet.running.stop().await;
    });
}
