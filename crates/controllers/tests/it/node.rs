//! Nodes that fall ill are taken out, repaired, proven and brought back; whatever happens in between.

use api::condition::Node as Condition;
use api::incident::{End, Stage};
use api::request::Ask;
use api::{NodePool, names};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Event, Namespace, Node, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kit::controller::Running;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;

use crate::fleet::{Fleet, XID_95};
use crate::support::{idle, on_a_cluster};

fn in_a_fleet(test: impl AsyncFnOnce(Fleet)) {
    on_a_cluster(async |cluster| test(Fleet::new(cluster).await).await);
}

/// No plan was refused and nothing panicked.
fn assert_sound(running: &Running) {
    assert_eq!(running.metrics().reconciles("node", "bug"), 0);
    assert_eq!(running.metrics().panics("node"), 0);
}

/// Whether a node's silence is reported.
fn is_silent(node: &Node) -> bool {
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    { conditions }.any(|c| c.type_ == "NodeSilent" && c.status == "True")
}

#[test]
fn a_fault_is_drained_mended_proven_and_over() {
    in_a_fleet(async |mut fleet| {
        let running = fleet.start(&["node", "disruption"]).await;
        fleet.ledger(1).await;
        fleet.join("n1", "leaf-1").await;
        fleet.join("n2", "leaf-2").await;
        let space = fleet.cluster.namespace("work").await;
        idle(&running).await;
        for (name, treatment) in
            [("w", "wait"), ("g", "graceful"), ("k", "now"), ("web", "graceful")]
        {
            fleet.pod(&space, name, "n1", treatment).await;
        }
        let budget = json!({"metadata": {"name": "web"}, "spec": {"minAvailable": 1,
            "selector": {"matchLabels": {"app": "web"}}}});
        fleet.cluster.create::<PodDisruptionBudget>(Some(&space), budget).await;
        idle(&running).await;
        assert_eq!(fleet.says("n1", "Active").await.2, "4 pods of users run");
        assert_eq!(fleet.says("n1", "InService").await.1, "Serving");
        let worn = fleet.node("n1").await.metadata.labels.unwrap();
        assert_eq!(worn.get(names::POOL).map(String::as_str), Some("train"));

        fleet.strike("n1", XID_95, "boot-1").await;
        idle(&running).await;
        let incidents = fleet.incidents().await;
        let [incident] = &incidents[..] else { panic!("{incidents:?}") };
        let name = incident.metadata.name.clone().unwrap();
        assert_eq!((incident.spec.cause.as_str(), incident.spec.by.as_str()), ("xid/95", "agent"));
        assert_eq!(fleet.cordon("n1").await, (true, Some(name.clone())));
        assert_eq!(fleet.says("n1", "InService").await.1, "WaitingForSettling");
        assert!(fleet.granted().await.is_empty());

        fleet.cluster.pass(16).await;
        idle(&running).await;
        assert_eq!(fleet.granted().await, ["n1"]);
        let pods: Api<Pod> = Api::namespaced(fleet.cluster.client.clone(), &space);
        let ends = async |name: &str| {
            let pod = pods.get_opt(name).await.unwrap();
            pod.map(|pod| pod.metadata.deletion_timestamp.is_some())
        };
        assert_eq!(ends("k").await, None, "killed");
        assert_eq!(ends("g").await, Some(true), "asked to end");
        assert_eq!(ends("w").await, Some(false), "waited for");
        assert_eq!(ends("web").await, Some(false), "kept by its budget");

        fleet.pod(&space, "web-2", "n2", "wait").await;
        let label = Patch::Merge(json!({"metadata": {"labels": {"app": "web"}}}));
        pods.patch("web-2", &PatchParams::default(), &label).await.unwrap();
        idle(&running).await;
        assert_eq!(ends("web").await, Some(true), "its budget allows it now");
        assert_eq!(fleet.asked("n1").await, None, "work is still there");
        pods.delete("w", &DeleteParams::default()).await.unwrap();
        fleet.end_pods().await;
        idle(&running).await;
        let asked = fleet.asked("n1").await.unwrap();
        assert_eq!((asked.ask, asked.target.as_deref()), (Ask::ResetGpu, Some("GPU-3")));
        assert_eq!((asked.by.as_str(), asked.boot.as_deref()), ("seatrial-node", Some("boot-1")));

        fleet.live(&running, 20).await;
        assert_eq!(fleet.done("n1"), [Ask::ResetGpu, Ask::Test]);
        fleet.assert_at_rest("n1").await;
        let incident = &fleet.incidents().await[0];
        assert_eq!(incident.status.as_ref().unwrap().end, Some(End::Solved));
        let events = fleet.cluster.api::<Event>().list(&Default::default()).await.unwrap();
        let about = |event: &Event| event.involved_object.name.as_deref() == Some("n1");
        let told: Vec<String> =
            events.into_iter().filter(about).filter_map(|event| event.reason).collect();
        for reason in [
            "OpenIncident",
            "Cordon",
            "TakeGrant",
            "Evict",
            "PodKept",
            "Ask",
            "Solved",
            "Uncordon",
            "ReturnGrant",
        ] {
            assert!(told.iter().any(|one| one == reason), "{reason} is not in {told:?}");
        }
        assert_sound(&running);
        running.stop().await;
    });
}

#[test]
fn who_waits_for_budget_goes_on_when_it_is_returned() {
    in_a_fleet(async |mut fleet| {
        let running = fleet.start(&["node"]).await;
        fleet.ledger(1).await;
        for name in ["n1", "n2", "n3"] {
            fleet.join(name, name).await;
        }
        fleet.strike("n1", XID_95, "boot-1").await;
        idle(&running).await;
        fleet.cluster.pass(20).await;
        idle(&running).await;
        for name in ["n2", "n3"] {
            fleet.strike(name, XID_95, "boot-1").await;
        }
        fleet.cluster.pass(20).await;
        idle(&running).await;
        assert_eq!(fleet.granted().await, ["n1"]);
        let (_, reason, message) = fleet.says("n2", "InService").await;
        assert_eq!(
            (reason.as_str(), message.as_str()),
            ("WaitingForBudget", "budget fleet: 1 of 1 are out")
        );
        let waiting = "what=\"nodes\",state=\"WaitingForBudget\"} 2";
        assert!(running.metrics().text().contains(waiting), "{}", running.metrics().text());
        fleet.live(&running, 60).await;
        for name in ["n1", "n2", "n3"] {
            assert_eq!(fleet.done(name), [Ask::ResetGpu, Ask::Test]);
            fleet.assert_at_rest(name).await;
        }
        assert_sound(&running);
        running.stop().await;
    });
}

#[test]
fn without_a_ledger_nothing_is_taken_out_and_a_new_one_frees_who_waits() {
    in_a_fleet(async |mut fleet| {
        let running = fleet.start(&["node"]).await;
        fleet.join("n1", "leaf-1").await;
        fleet.strike("n1", XID_95, "boot-1").await;
        idle(&running).await;
        fleet.cluster.pass(3_600).await;
        idle(&running).await;
        assert_eq!(fleet.says("n1", "InService").await.1, "WaitingForBudget");
        assert!(running.metrics().text().contains("what=\"ledger\",state=\"Missing\"} 1"));
        fleet.ledger(1).await;
        fleet.live(&running, 20).await;
        fleet.assert_at_rest("n1").await;
        assert!(running.metrics().text().contains("what=\"ledger\",state=\"Missing\"} 0"));
        assert_sound(&running);
        running.stop().await;
    });
}

#[test]
fn what_a_person_cordoned_or_keeps_hands_off_is_left_alone() {
    in_a_fleet(async |mut fleet| {
        let running = fleet.start(&["node"]).await;
        fleet.ledger(5).await;
        for name in ["cordoned", "kept", "taken"] {
            fleet.join(name, name).await;
        }
        fleet.set_cordon("cordoned", Some(true)).await;
        let nodes: Api<Node> = fleet.cluster.api();
        let keep = Patch::Merge(json!({"metadata": {"annotations": {names::HANDS_OFF: "mine"}}}));
        nodes.patch("kept", &PatchParams::default(), &keep).await.unwrap();
        idle(&running).await;
        for name in ["cordoned", "kept", "taken"] {
            fleet.strike(name, XID_95, "boot-1").await;
        }
        idle(&running).await;
        assert!(fleet.cordon("taken").await.1.is_some());
        // While we are away a person takes over: uncordons and cordons anew. Our mark is still there.
        running.stop().await;
        fleet.set_cordon("taken", None).await;
        fleet.set_cordon("taken", Some(true)).await;
        let running = fleet.start(&["node"]).await;
        fleet.live(&running, 60).await;
        assert_eq!(fleet.cordon("cordoned").await, (true, None));
        assert_eq!(fleet.says("cordoned", "InService").await.1, "CordonedByPerson");
        assert_eq!(fleet.cordon("kept").await, (false, None));
        assert_eq!(fleet.says("kept", "InService").await.1, "HandsOff");
        assert!(fleet.cordon("taken").await.0, "the person's");
        assert!(fleet.done.is_empty(), "{:?}", fleet.done);
        let incidents = fleet.incidents().await;
        let ends: Vec<_> = incidents.iter().map(|i| i.status.as_ref().unwrap().end).collect();
        assert_eq!(ends, [Some(End::Withdrawn)]);
        assert!(fleet.granted().await.is_empty());

        fleet.set_cordon("taken", None).await;
        fleet.set_cordon("cordoned", None).await;
        let give = json!({"metadata": {"annotations": {names::HANDS_OFF: null}}});
        nodes.patch("kept", &PatchParams::default(), &Patch::Merge(give)).await.unwrap();
        fleet.live(&running, 60).await;
        for name in ["cordoned", "kept", "taken"] {
            assert_eq!(fleet.done(name), [Ask::ResetGpu, Ask::Test], "{name}");
            fleet.assert_at_rest(name).await;
        }
        assert_sound(&running);
        running.stop().await;
    });
}

#[test]
fn a_pending_phase_waits_until_the_node_is_idle_and_an_immediate_one_does_not() {
    in_a_fleet(async |mut fleet| {
        let running = fleet.start(&["node"]).await;
        fleet.ledger(5).await;
        for name in ["n1", "n2"] {
            fleet.join(name, name).await;
        }
        let space = fleet.cluster.namespace("work").await;
        for name in ["n1", "n2"] {
            fleet.pod(&space, &format!("on-{name}"), name, "wait").await;
        }
        idle(&running).await;
        let (pending, now) = (Condition::PendingPhase.name(), Condition::ImmediatePhase.name());
        fleet.condition("n1", pending, true, "Reboot", "new kernel").await;
        fleet.condition("n2", now, true, "Reboot", "it must").await;
        fleet.live(&running, 60).await;
        assert_eq!(fleet.done("n1"), [], "busy");
        assert_eq!(fleet.cordon("n1").await, (false, None));
        assert_eq!(fleet.done("n2"), [Ask::Reboot, Ask::Test]);
        let (status, reason, why) = fleet.says("n2", now).await;
        assert_eq!((status.as_str(), reason.as_str()), ("False", "Reboot"), "{why}");
        fleet.assert_at_rest("n2").await;

        let pods: Api<Pod> = Api::namespaced(fleet.cluster.client.clone(), &space);
        let at_once = DeleteParams::default().grace_period(0);
        pods.delete("on-n1", &at_once).await.unwrap();
        fleet.live(&running, 60).await;
        assert_eq!(fleet.done("n1"), [Ask::Reboot, Ask::Test]);
        fleet.assert_at_rest("n1").await;
        fleet.live(&running, 600).await;
        assert_eq!(fleet.done("n1").len() + fleet.done("n2").len(), 4, "once, not again");

        fleet.condition("n1", pending, true, "Polish", "shine").await;
        idle(&running).await;
        let (status, _, why) = fleet.says("n1", pending).await;
        assert_eq!(status, "False");
        assert!(why.contains("there is no phase \"Polish\"; there are Reboot"), "{why}");
        assert_sound(&running);
        running.stop().await;
    });
}

#[test]
fn evidence_of_another_boot_is_stale() {
    in_a_fleet(async |mut fleet| {
        let running = fleet.start(&["node"]).await;
        fleet.ledger(5).await;
        fleet.join("n1", "leaf-1").await;
        fleet.strike("n1", XID_95, "boot-0").await;
        fleet.live(&running, 60).await;
        assert!(fleet.incidents().await.is_empty());

        fleet.strike("n1", XID_95, "boot-1").await;
        idle(&running).await;
        assert_eq!(fleet.incidents().await.len(), 1);
        fleet.boot("n1", "boot-2").await;
        fleet.live(&running, 60).await;
        let ended = fleet.incidents().await[0].status.clone().unwrap();
        assert_eq!(ended.end, Some(End::Vanished), "{}", ended.why);
        assert!(fleet.done.is_empty());
        fleet.assert_at_rest("n1").await;
        assert_sound(&running);
        running.stop().await;
    });
}

#[test]
fn what_no_step_helps_is_handed_over() {
    in_a_fleet(async |mut fleet| {
        let running = fleet.start(&["node"]).await;
        fleet.ledger(5).await;
        fleet.join("n1", "leaf-1").await;
        fleet.fails = Some(Ask::Test);
        fleet.strike("n1", XID_95, "boot-1").await;
        fleet.live(&running, 120).await;
        let steps = [
            Ask::ResetGpu,
            Ask::Test,
            Ask::Reboot,
            Ask::Test,
            Ask::PowerCycle,
            Ask::Test,
            Ask::Test,
            Ask::Triage,
        ];
        assert_eq!(fleet.done("n1"), steps);
        let targets: Vec<_> = fleet.done["n1"].iter().map(|r| r.target.as_deref()).collect();
        let quick = Some("quick");
        assert_eq!(
            targets,
            [Some("GPU-3"), quick, None, quick, None, quick, Some("diagnose"), None],
            "nothing of a request stays in the next"
        );
        let ended = fleet.incidents().await[0].status.clone().unwrap();
        assert_eq!((ended.stage, ended.end), (Stage::Closed, Some(End::HandedOver)));
        assert!(fleet.granted().await.is_empty());
        assert_sound(&running);
        running.stop().await;
    });
}

#[test]
fn an_idle_node_is_tested_until_work_arrives() {
    in_a_fleet(async |fleet| {
        let rules = plan::Rules::default();
        let site = controllers::Site { fleet: true, rules, ..controllers::Site::default() };
        let running = fleet.cluster.start_at(&["node"], &site).await;
        fleet.ledger(5).await;
        fleet.join("n1", "leaf-1").await;
        idle(&running).await;
        assert_eq!(fleet.asked("n1").await, None);
        fleet.cluster.pass(3_700).await;
        idle(&running).await;
        let asked = fleet.asked("n1").await.unwrap();
        assert_eq!((asked.ask, asked.target.as_deref()), (Ask::Test, Some("idle")));
        assert_eq!(fleet.cordon("n1").await, (false, None), "it stays free for work");
        fleet.pod("default", "work", "n1", "wait").await;
        idle(&running).await;
        assert_eq!(fleet.asked("n1").await, None, "work goes before the test");
        fleet.cluster.pass(7_200).await;
        idle(&running).await;
        assert_eq!(fleet.asked("n1").await, None, "busy");
        assert!(fleet.incidents().await.is_empty());
        assert_sound(&running);
        running.stop().await;
    });
}

#[test]
fn hands_off_in_the_middle_gives_back_what_was_taken() {
    in_a_fleet(async |mut fleet| {
        let running = fleet.start(&["node"]).await;
        fleet.ledger(1).await;
        fleet.join("n1", "leaf-1").await;
        fleet.strike("n1", XID_95, "boot-1").await;
        idle(&running).await;
        fleet.cluster.pass(16).await;
        idle(&running).await;
        assert!(fleet.asked("n1").await.is_some());
        assert_eq!(fleet.granted().await, ["n1"]);
        let nodes: Api<Node> = fleet.cluster.api();
        let hands = |why: Option<&str>| {
            Patch::Merge(json!({"metadata": {"annotations": {names::HANDS_OFF: why}}}))
        };
        nodes.patch("n1", &PatchParams::default(), &hands(Some("mine"))).await.unwrap();
        idle(&running).await;
        assert_eq!(fleet.asked("n1").await, None);
        assert!(fleet.granted().await.is_empty());
        assert!(fleet.cordon("n1").await.0, "no new work for a sick node");
        fleet.live(&running, 60).await;
        assert!(fleet.done.is_empty());
        nodes.patch("n1", &PatchParams::default(), &hands(None)).await.unwrap();
        fleet.rest(&running).await;
        assert_eq!(fleet.done("n1"), [Ask::ResetGpu, Ask::Test]);
        fleet.assert_at_rest("n1").await;
        assert_eq!(fleet.incidents().await.len(), 1);
        assert_sound(&running);
        running.stop().await;
    });
}

#[test]
fn a_machine_that_is_gone_leaves_no_incident_and_no_grant() {
    in_a_fleet(async |fleet| {
        let running = fleet.start(&["node"]).await;
        fleet.ledger(1).await;
        fleet.join("n1", "leaf-1").await;
        fleet.strike("n1", XID_95, "boot-1").await;
        idle(&running).await;
        fleet.cluster.pass(16).await;
        idle(&running).await;
        assert_eq!(fleet.granted().await, ["n1"]);
        let machines: Api<api::Machine> = fleet.cluster.api();
        machines.delete("n1", &DeleteParams::default()).await.unwrap();
        fleet.cluster.api::<Node>().delete("n1", &DeleteParams::default()).await.unwrap();
        idle(&running).await;
        let ended = fleet.incidents().await[0].status.clone().unwrap();
        assert_eq!(ended.end, Some(End::NodeGone));
        assert!(fleet.granted().await.is_empty());
        assert_sound(&running);
        running.stop().await;
    });
}

#[test]
fn a_silent_node_is_rebooted_and_one_that_reboots_is_not_called_silent() {
    in_a_fleet(async |mut fleet| {
        let all = ["node", "silence", "nodelifecycle", "breaker"];
        let running = fleet.start(&all).await;
        fleet.ledger(8).await;
        for name in ["n1", "n2", "n3", "n4"] {
            fleet.join(name, "leaf-1").await;
        }
        idle(&running).await;
        // Three reboot at once and are silent meanwhile: nobody answers for them yet.
        for name in ["n2", "n3", "n4"] {
            fleet
                .condition(name, Condition::ImmediatePhase.name(), true, "Reboot", "it must")
                .await;
        }
        for _ in 0..6 {
            fleet.boot("n1", "boot-1").await;
            fleet.cluster.pass(20).await;
            idle(&running).await;
        }
        assert!(fleet.breakers().await.is_empty(), "{:?}", fleet.breakers().await);
        for name in ["n2", "n3", "n4"] {
            assert_eq!(fleet.says(name, "Ready").await.0, "Unknown");
            assert!(!is_silent(&fleet.node(name).await), "{name}");
        }
        while fleet.answer().await {
            idle(&running).await;
        }
        // Now one falls silent by itself.
        for _ in 0..4 {
            for name in ["n2", "n3", "n4"] {
                let boot = fleet.node(name).await.status.unwrap().node_info.unwrap().boot_id;
                fleet.boot(name, &boot).await;
            }
            fleet.cluster.pass(20).await;
            idle(&running).await;
        }
        let asked = fleet.asked("n1").await.unwrap();
        assert_eq!((asked.ask, asked.boot.as_deref()), (Ask::Reboot, Some("boot-1")));
        let incidents = fleet.incidents().await;
        let mine: Vec<_> = incidents.iter().filter(|i| i.spec.node == "n1").collect();
        assert_eq!(mine[0].spec.cause, "node/heartbeat-lost");
        fleet.answer().await;
        idle(&running).await;
        assert!(!is_silent(&fleet.node("n1").await), "it speaks again");
        fleet.rest(&running).await;
        assert_eq!(fleet.done("n1"), [Ask::Reboot, Ask::Test]);
        assert_sound(&running);
        running.stop().await;
    });
}

/// Time passes while the kubelets of these nodes live, and these agents.
async fn pass(fleet: &Fleet, running: &Running, nodes: &[&str], agents: &[&str], minutes: u32) {
    let leases: Api<Lease> = Api::namespaced(fleet.cluster.client.clone(), names::MACHINES);
    for _ in 0..3 * minutes {
        for node in nodes {
            fleet.boot(node, "boot-1").await;
        }
        for agent in agents {
            let owner = json!({"apiVersion": "fleet.seatrial.dev/v1alpha1", "kind": "Machine",
                "name": agent, "uid": fleet.machine(agent).await.metadata.uid});
            let owner = serde_json::from_value(owner).unwrap();
            let minute = std::time::Duration::from_secs(60);
            kit::pulse::renew(&leases, owner, minute, fleet.cluster.now()).await.unwrap();
        }
        fleet.cluster.pass(20).await;
        idle(running).await;
    }
}

#[test]
fn an_agent_that_is_silent_beside_its_kubelet_is_a_fault_until_it_speaks() {
    in_a_fleet(async |fleet| {
        let running = fleet.start(&["node", "silence", "nodelifecycle", "breaker"]).await;
        let space = json!({"metadata": {"name": names::MACHINES}});
        let spaces: Api<Namespace> = fleet.cluster.api();
        if spaces.get_opt(names::MACHINES).await.unwrap().is_none() {
            fleet.cluster.create::<Namespace>(None, space).await;
        }
        fleet.ledger(0).await;
        let nodes = ["n1", "n2"];
        for name in nodes {
            fleet.join(name, "leaf-1").await;
        }
        pass(&fleet, &running, &nodes, &nodes, 1).await;
        pass(&fleet, &running, &nodes, &["n2"], 2).await;
        assert!(!is_silent(&fleet.node("n1").await), "it may be quiet for so long");
        pass(&fleet, &running, &nodes, &["n2"], 2).await;
        let (status, reason, message) = fleet.says("n1", "NodeSilent").await;
        assert_eq!((status.as_str(), reason.as_str()), ("True", "AgentSilent"));
        assert!(message.contains("its agent has been silent for 180 s"), "{message}");
        assert!(!is_silent(&fleet.node("n2").await));
        let incidents = fleet.incidents().await;
        let causes: Vec<_> = incidents.iter().map(|i| (&*i.spec.node, &*i.spec.cause)).collect();
        assert_eq!(causes, [("n1", "node/agent-silent")]);

        pass(&fleet, &running, &nodes, &nodes, 1).await;
        assert!(!is_silent(&fleet.node("n1").await), "it speaks again");
        let events: Api<Event> = fleet.cluster.api();
        let events = events.list(&Default::default()).await.unwrap();
        let told = |reason: &str| events.iter().any(|e| e.reason.as_deref() == Some(reason));
        assert!(told("AgentSilent") && told("AgentHeard"));

        // Who hears nobody calls nobody silent.
        pass(&fleet, &running, &nodes, &[], 10).await;
        assert!(!is_silent(&fleet.node("n1").await));
        assert_sound(&running);
        running.stop().await;
    });
}

#[test]
fn a_node_wears_what_its_pool_wants_for_as_long_as_it_does() {
    in_a_fleet(async |fleet| {
        let running = fleet.start(&["node"]).await;
        fleet.ledger(1).await;
        let taint = json!({"key": "dedicated", "value": "train", "effect": "NoSchedule"});
        let spec = json!({"instanceType": "h100", "tenant": "acme", "targetNodes": 1,
            "labels": {"team": "search", names::RACK: "elsewhere"}, "taints": [taint]});
        let pool = json!({"metadata": {"name": "train"}, "spec": spec});
        fleet.cluster.create::<NodePool>(None, pool).await;
        fleet.join("n1", "leaf-1").await;
        let worn = async |label: &str| {
            let labels = fleet.node("n1").await.metadata.labels.unwrap_or_default();
            labels.get(label).cloned()
        };
        let tainted = async || {
            let taints = fleet.node("n1").await.spec.and_then(|spec| spec.taints);
            taints.unwrap_or_default().iter().any(|taint| taint.key == "dedicated")
        };
        fleet.cluster.until(&running, async || tainted().await).await;
        assert_eq!(worn("team").await.as_deref(), Some("search"));
        assert_ne!(worn(names::RACK).await.as_deref(), Some("elsewhere"));

        let pools: Api<NodePool> = fleet.cluster.api();
        let less = json!({"spec": {"labels": {"team": null, "tier": "gold"}, "taints": null}});
        pools.patch("train", &PatchParams::default(), &Patch::Merge(less)).await.unwrap();
        fleet.cluster.until(&running, async || !tainted().await).await;
        assert_eq!(worn("team").await, None);
        assert_eq!(worn("tier").await.as_deref(), Some("gold"));
        idle(&running).await;
        assert_sound(&running);
        running.stop().await;
    });
}
