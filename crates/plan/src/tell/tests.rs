use super::*;
use crate::catalogue::Catalogue;
use api::names;
use api::{Breaker, Incident, Ledger, Machine, NodePool};
use k8s_openapi::api::core::v1::{Node, Pod};
use serde_json::{Value, json};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).unwrap()
}

fn read<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn machine(name: &str, rack: &str, leaf: &str, status: Value) -> Machine {
    read(json!({
        "apiVersion": "fleet.seatrial.dev/v1alpha1", "kind": "Machine",
        "metadata": {"name": name, "uid": name},
        "spec": {"instanceType": "gd", "place": {"site": "s", "rack": rack, "slot": 7, "leaf": leaf},
            "bmc": {"address": "https://b", "credential": "c"}, "macs": []},
        "status": status,
    }))
}

fn member(name: &str, leaf: &str) -> Machine {
    let status = json!({"state": "Production", "role": "member", "pool": "h100", "tenant": "acme"});
    let mut machine = machine(name, "r2", leaf, status);
    machine.spec.assignment = Some(read(json!({"pool": "h100", "tenant": "acme", "since": at(0)})));
    machine
}

fn incident(name: &str, machine: &str, opened: i64, status: Value) -> Incident {
    read(json!({
        "apiVersion": "fleet.seatrial.dev/v1alpha1", "kind": "Incident",
        "metadata": {"name": name},
        "spec": {"node": machine, "nodeUid": "u", "machine": machine, "cause": "xid/95",
            "by": "seatrial-agent", "part": "GPU-3", "opened": at(opened),
            "evidence": ["GPU 3 reported XID 95 (uncontained memory error)", "Memory of the GPU is broken."]},
        "status": status,
    }))
}

fn node(name: &str, cordoned: bool, annotations: Value, conditions: Value) -> Node {
    read(json!({"metadata": {"name": name, "annotations": annotations},
        "spec": {"unschedulable": cordoned}, "status": {"conditions": conditions}}))
}

fn pod(name: &str, treatment: Option<&str>, ends: Option<i64>) -> Pod {
    let labels = treatment.map(|t| json!({"fleet.seatrial.dev/treatment": t}));
    read(json!({"metadata": {"name": name, "namespace": "team", "labels": labels,
        "deletionTimestamp": ends.map(at)}}))
}

fn pool_object(status: Value) -> NodePool {
    read(json!({
        "apiVersion": "fleet.seatrial.dev/v1alpha1", "kind": "NodePool",
        "metadata": {"name": "h100", "generation": 1},
        "spec": {"instanceType": "gd", "tenant": "acme", "targetNodes": 2, "maxUnavailable": 2},
        "status": status,
    }))
}

fn leaf_breaker() -> Breaker {
    read(json!({
        "apiVersion": "fleet.seatrial.dev/v1alpha1", "kind": "Breaker",
        "metadata": {"name": "leaf-l1"},
        "spec": {"common": "leaf", "value": "l1"},
        "status": {"openings": 2, "open": true, "since": at(88), "nodes": ["r2-s07", "r2-s09"],
            "why": "2 nodes of leaf l1 fell ill within minutes"},
    }))
}

struct Story {
    node: Option<Node>,
    machines: Vec<Machine>,
    incidents: Vec<Incident>,
    pods: Vec<Pod>,
    pool: Option<NodePool>,
    breakers: Vec<Breaker>,
    ledger: Option<Ledger>,
    told: Vec<(Timestamp, String, String)>,
}

impl Story {
    fn plain(machine: Machine) -> Self {
        Self {
            node: None,
            machines: vec![machine],
            incidents: Vec::new(),
            pods: Vec::new(),
            pool: None,
            breakers: Vec::new(),
            ledger: None,
            told: Vec::new(),
        }
    }

    #[track_caller]
    fn check(&self, expected: &str) {
        let catalogue = Catalogue::load(&[]).unwrap();
        let said = why(&Facts {
            now: at(100),
            name: "r2-s07",
            node: self.node.as_ref(),
            machine: self.machines.first(),
            machines: &self.machines,
            incidents: &self.incidents,
            pods: &self.pods,
            pool: self.pool.as_ref(),
            breakers: &self.breakers,
            ledger: self.ledger.as_ref(),
            told: &self.told,
            catalogue: &catalogue,
        });
        let said = said.to_string();
        assert_eq!(said, expected, "\n{said}");
        assert!(said.lines().all(|line| line.chars().count() <= WIDTH), "{said}");
    }
}

#[test]
fn a_fault_is_told_with_all_that_is_known() {
    let mut story = Story::plain(member("r2-s07", "l1"));
    story.machines.push(member("r2-s08", "l1"));
    story.node = Some(node("r2-s07", true, json!({}), json!([])));
    story.pool = Some(pool_object(json!({"target": 2, "current": 2})));
    story.pods =
        vec![pod("train-42-3", Some("graceful"), Some(148)), pod("train-42-4", None, None)];
    let policy = Catalogue::load(&[]).unwrap().row("xid/95").unwrap().policy.clone();
    let status = json!({"stage": "Draining", "policy": policy, "rung": 0, "why": "pods leave"});
    story.incidents = vec![incident("r2-s07-1", "r2-s07", 88, status)];
    for n in 0..3 {
        let solved = json!({"stage": "Closed", "end": "Solved", "closed": at(240)});
        story.incidents.push(incident(&format!("other-{n}"), "r9-s01", 0, solved));
    }
    story.ledger = Some(read(json!({
        "apiVersion": "fleet.seatrial.dev/v1alpha1", "kind": "Ledger", "metadata": {"name": "fleet"},
        "spec": {"fleet": {"nodes": 20}},
        "status": {"grants": [{"node": "r2-s07", "nodeUid": "u", "incident": "r2-s07-1",
            "kind": "repair", "pool": "h100", "rack": "r2", "since": at(90)}]},
    })));
    let note = "takes the place of r2-s07, which is sick (seatrial-pool for pool/h100)";
    story.told = vec![(at(92), "r2-s08".to_owned(), note.to_owned())];
    story.check(
        "r2-s07 is out of service: GPU 3 reported XID 95 (uncontained memory error) 12 s ago.\n  \
         evidence    Memory of the GPU is broken; the first such on GPU-3 in 30 days\n  \
         doing       draining 2 pods (train-42-3, ends within 48 s; train-42-4, is waited for)\n  \
         cover       spare r2-s08 (same leaf) took its place in pool h100 4 s after the fault\n  \
         next        back in service in about 3 min, as the median of the 3 like it that were cured; if a\n              \
         GPU reset does not help: a reboot\n  \
         asked by    fault catalogue row xid/95, reported by seatrial-agent; budget pool/h100: 1 of 2 out\n              \
         on purpose; incident r2-s07-1",
    );
}

#[test]
fn a_wave_is_one_thing() {
    let mut story = Story::plain(member("r2-s07", "l1"));
    story.node = Some(node("r2-s07", true, json!({}), json!([])));
    let status = json!({"stage": "Open", "why": "breaker leaf-l1 is open"});
    story.incidents = vec![incident("r2-s07-1", "r2-s07", 88, status)];
    story.breakers = vec![leaf_breaker()];
    story.check(
        "r2-s07 is out of service: GPU 3 reported XID 95 (uncontained memory error) 12 s ago.\n  \
         evidence    Memory of the GPU is broken; the first such on GPU-3 in 30 days\n  \
         doing       breaker leaf-l1 is open\n  \
         wave        2 nodes of leaf l1 fell ill within minutes at 08:01:28 (12 s ago); none of them was\n              \
         touched; breaker leaf-l1 is open: look, then reset it with kubectl patch breaker\n              \
         leaf-l1 --type=merge -p '{\"spec\":{\"acknowledged\":2,\"by\":\"YOU\"}}'\n  \
         next        back in service once a test has proven the cure\n  \
         asked by    fault catalogue row xid/95, reported by seatrial-agent; incident r2-s07-1",
    );
}

#[test]
fn a_machine_on_its_way_says_where_it_is() {
    let status = json!({
        "state": "Test", "since": at(40), "why": "quick test", "deadline": at(7_240), "attempts": 2,
        "operation": {"id": "o", "effect": {"chore": "TestQuick"}, "why": "runs the quick test",
            "since": at(80), "deadline": at(1_880)},
        "history": [{"at": at(40), "what": "Test", "why": "wiped and flashed"}],
    });
    Story::plain(machine("r2-s07", "r2", "l1", status)).check(
        "r2-s07 is not in service; its machine has been in Test for 60 s: quick test.\n  \
         evidence    entered Test 60 s ago: wiped and flashed\n  \
         doing       runs the quick test, for 20 s, 29 min left; try 2\n  \
         next        overdue in 119 min, if it has not moved on by then",
    );
    let status = json!({"state": "RMA", "since": at(40), "why": "waits for the vendor"});
    Story::plain(machine("r2-s07", "r2", "l1", status)).check(
        "r2-s07 is not in service; its machine has been in RMA for 60 s: waits for the vendor.\n  \
         next        a person must act",
    );
}

#[test]
fn a_node_without_an_incident_says_how_it_stands() {
    let ready = json!([{"type": "Ready", "status": "True"}]);
    let mut story = Story::plain(member("r2-s07", "l1"));
    story.node = Some(node("r2-s07", false, json!({}), ready.clone()));
    story.check("r2-s07 is in service: it serves pool h100 of tenant acme.\n  evidence    idle");
    story.node =
        Some(node("r2-s07", true, json!({names::CORDON_REASON: "new cables"}), ready.clone()));
    story.pods = vec![pod("a", None, None)];
    story.check(
        "r2-s07 takes no new work: a person cordoned it (new cables).\n  evidence    1 pod runs",
    );
    story.node = Some(node("r2-s07", false, json!({names::HANDS_OFF: "under study"}), ready));
    story.check(
        "r2-s07 is not repaired automatically: a person forbade it (under study).\n  \
         evidence    1 pod runs",
    );
    let silent = json!([{"type": "Ready", "status": "Unknown", "lastTransitionTime": at(70),
        "message": "Kubelet stopped posting node status."}]);
    story.node = Some(node("r2-s07", false, json!({}), silent));
    story.check(
        "r2-s07 has not been ready for 30 s: Kubelet stopped posting node status.\n  \
         evidence    1 pod runs",
    );
}

#[test]
fn a_pool_says_what_lacks_and_until_when() {
    let status = json!({"observedGeneration": 1, "target": 4, "current": 2, "inProgress": 1,
        "queued": 1, "spares": 0, "sparesWanted": 3, "until": at(1_900),
        "why": "no proven spare for 1 node; 2 machines are on their way"});
    let machines = [member("r2-s07", "l1"), member("r2-s08", "l1")];
    let open = incident("i", "r2-s07", 40, json!({"stage": "Open"}));
    let said = pool(at(100), &pool_object(status), &machines, &[open], &[leaf_breaker()]);
    assert_eq!(
        said.to_string(),
        "Pool h100 serves 2 of 4 nodes: no proven spare for 1 node; 2 machines are on their way.\n  \
         nodes       2 serve, 1 on the way in, 1 without a machine\n  \
         sick        r2-s07 (xid/95, 60 s)\n  \
         spares      0 of 3 to cover failures 99.9 % of the time\n  \
         next        expected at target in 30 min\n  \
         wave        2 nodes of leaf l1 fell ill within minutes at 08:01:28 (12 s ago); none of them was\n              \
         touched; breaker leaf-l1 is open: look, then reset it with kubectl patch breaker\n              \
         leaf-l1 --type=merge -p '{\"spec\":{\"acknowledged\":2,\"by\":\"YOU\"}}'\n  \
         asked by    tenant acme, type gd",
    );
}

#[test]
fn what_a_verb_would_disturb_is_counted() {
    let machine = member("r2-s07", "l1");
    let pods = [pod("train-41-0", None, None), pod("train-41-1", Some("now"), None)];
    let status = json!({"target": 2, "current": 2, "spares": 1});
    let fleet = [machine.clone()];
    let would = blast("r2-s07", &pods, Some(&machine), &fleet, Some(&pool_object(status)), None);
    assert_eq!((would.pods, would.waiting), (2, 1));
    assert_eq!(
        would.to_string(),
        "r2-s07 runs 2 pods of tenant acme (train-41-0, train-41-1); 1 may not be interrupted, 1 may \
         be killed.\nIt serves pool h100: 2 of 2 nodes serve, 1 spare would fit."
    );
    assert_eq!(blast("x", &[], None, &[], None, None).to_string(), "x runs no pod of a user.");
}

#[test]
fn a_history_is_one_line_after_the_other() {
    let status = json!({"state": "Production", "history": [
        {"at": at(90), "what": "ResetGpu", "why": "XID 95"},
        {"at": at(10), "what": "Production", "why": "passed"},
    ]});
    let status_of_incident = json!({"stage": "Closed", "end": "Solved", "closed": at(95),
        "why": "proven", "timeline": [{"at": at(85), "what": "drains"}]});
    let lines = history(
        &machine("r2-s07", "r2", "l1", status),
        &[incident("i", "r2-s07", 80, status_of_incident)],
    );
    let told: Vec<String> = lines.iter().map(|l| format!("{} {}", l.what, l.story)).collect();
    assert_eq!(
        told,
        [
            "Production passed",
            "xid/95 seatrial-agent reports: GPU 3 reported XID 95 (uncontained memory error)",
            "xid/95 drains",
            "ResetGpu XID 95",
            "xid/95 Solved: proven",
        ]
    );
}

#[test]
fn a_fleet_fits_one_screen_and_says_what_waits_for_a_person() {
    let ready = json!([{"type": "Ready", "status": "True"}]);
    let well = member("r2-s07", "leaf-2a");
    let broken = machine("r2-s08", "r2", "leaf-2a", json!({"state": "RMA"}));
    let nodes = [node("r2-s07", true, json!({}), ready)];
    let pools = [pool_object(json!({"target": 2, "current": 1, "why": "no machine is free.",
        "spares": 0, "sparesWanted": 1}))];
    let incidents = [
        incident("a", "r2-s07", 0, json!({"stage": "Draining"})),
        incident("b", "r2-s08", 0, json!({"stage": "Closed"})),
    ];
    let all = overview(at(9), &[well.clone(), broken], &nodes, &pools, &incidents, &[]);
    assert_eq!((all.calls(), all.incidents.len()), (1, 1));
    assert_eq!(
        all.told(at(9)).to_string(),
        "1 of 2 machines in production; 1 thing waits for a person.\n  \
         machines    1 Production, 1 RMA\n  \
         nodes       1 of 1 Ready, 1 cordoned\n  \
         pools       h100 1 of 2 (no machine is free)\n  \
         spares      0 of 1\n  \
         incidents   1 open: r2-s07 xid/95 (Draining, 9 s)\n  \
         breakers    none open\n  \
         waiting     r2-s08 (RMA): seatrial machine describe NAME"
    );
    let sound = overview(at(9), &[well], &nodes, &[], &[], &[]);
    assert_eq!(sound.calls(), 0);
    assert_eq!(sound.told(at(9)).sentence, "1 of 1 machine in production.");
}
