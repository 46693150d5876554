//! Machines are taken through their lives: by what BMC and agent say, through crashes, lost answers
//! and other people's resets, and never by a second reset.

mod hardware;

use api::machine::MachineStatus;
use api::request::Outcome;
use api::state::{Role, State};
use api::{InstanceType, Machine, Rack};
use controllers::Site;
use k8s_openapi::api::core::v1::{Event, Namespace, Node, Secret};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kit::controller::Running;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::runtime::wait::{await_condition, conditions::is_crd_established};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use std::time::Duration;

use self::hardware::{Hardware, Mood};
use crate::support::{Cluster, idle, on_a_cluster};

const SYSTEM: &str = "seatrial-system";

/// A site with hardware of a test's own.
struct Fleet {
    cluster: Cluster,
    hardware: Hardware,
    site: Site,
}

impl Fleet {
    async fn new(cluster: Cluster) -> Self {
        let definitions: Api<CustomResourceDefinition> = cluster.api();
        for definition in api::definitions() {
            let name = definition.name_any();
            let apply = PatchParams::apply("test").force();
            definitions.patch(&name, &apply, &Patch::Apply(&definition)).await.unwrap();
            await_condition(definitions.clone(), &name, is_crd_established()).await.unwrap();
        }
        if cluster.api::<Namespace>().get_opt(SYSTEM).await.unwrap().is_none() {
            cluster.create::<Namespace>(None, json!({"metadata": {"name": SYSTEM}})).await;
        }
        let hardware = Hardware::default();
        let rules = plan::Rules { accept: Duration::from_secs(2), ..plan::Rules::default() };
        let site = Site { fleet: true, bmcs: Some(hardware.bmcs()), rules, ..Site::default() };
        let fleet = Self { cluster, hardware, site };
        fleet.secret("good", "secret").await;
        fleet
    }

    async fn secret(&self, name: &str, password: &str) {
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": name},
            "stringData": {"username": "root", "password": password},
        });
        let secrets: Api<Secret> = Api::namespaced(self.cluster.client.clone(), SYSTEM);
        let apply = PatchParams::apply("test").force();
        secrets.patch(name, &apply, &Patch::Apply(secret)).await.unwrap();
    }

    async fn start(&self) -> Running {
        self.cluster.start_at(&["machine"], &self.site).await
    }

    /// A described machine, with hardware that is off; its name.
    async fn machine(&self, certified: u32, change: impl FnOnce(&mut Value)) -> String {
        let kind = json!({
            "metadata": {"generateName": "h100-"},
            "spec": {"image": "img", "expected": {"gpus": 8}, "acceptance": "quick"},
        });
        let kind: InstanceType = self.cluster.create(None, kind).await;
        let mut object = json!({
            "metadata": {"generateName": "m-"},
            "spec": {
                "instanceType": kind.name_any(),
                "place": {"site": "here", "rack": kind.name_any(), "slot": 1},
                "bmc": {"address": format!("http://bmcs/{}", kind.name_any()), "credential": "good"},
                "macs": ["02:00:00:00:00:01"],
                "certified": certified,
            },
        });
        change(&mut object);
        self.hardware.add(object["spec"]["bmc"]["address"].as_str().unwrap());
        let machine: Machine = self.cluster.create(None, object).await;
        machine.name_any()
    }

    /// The technician has looked.
    async fn certify(&self, name: &str) {
        let certify = Patch::Merge(json!({"spec": {"certified": 1}}));
        let machines: Api<Machine> = self.cluster.api();
        machines.patch(name, &PatchParams::default(), &certify).await.unwrap();
    }

    async fn get(&self, name: &str) -> Machine {
        self.cluster.api::<Machine>().get(name).await.unwrap()
    }

    async fn status(&self, name: &str) -> MachineStatus {
        self.get(name).await.status.unwrap_or_default()
    }

    /// The agents of these machines do what there is to do.
    async fn agents(&self, names: &[&String]) {
        for name in names {
            let Some(machine) = self.cluster.api::<Machine>().get_opt(name).await.unwrap() else {
                continue;
            };
            let said = self.hardware.agent(&machine, self.cluster.now());
            let Some(said) = said else { continue };
            let body = json!({
                "apiVersion": "fleet.seatrial.dev/v1alpha1", "kind": "Machine",
                "metadata": {"name": name}, "status": said,
            });
            let apply = PatchParams::apply("seatrial-agent").force();
            let machines: Api<Machine> = self.cluster.api();
            machines.patch_status(name, &apply, &Patch::Apply(body)).await.unwrap();
        }
    }

    /// Lets agents work until something holds.
    async fn until(&self, running: &Running, names: &[&String], holds: impl AsyncFn() -> bool) {
        self.cluster
            .until(running, async || {
                self.agents(names).await;
                holds().await
            })
            .await;
    }

    /// Time passes until something holds.
    async fn wait(&self, running: &Running, name: &String, holds: impl Fn(&MachineStatus) -> bool) {
        for _ in 0..600 {
            self.agents(&[name]).await;
            idle(running).await;
            if holds(&self.status(name).await) {
                return;
            }
            self.cluster.pass(1).await;
        }
        panic!("it never came to be: {:#?}", self.status(name).await);
    }

    async fn produce(&self, running: &Running, name: &String) {
        self.until(running, &[name], async || self.status(name).await.state == State::Production)
            .await;
    }

    async fn node(&self, machine: &str) -> Node {
        let labels = json!({"fleet.seatrial.dev/machine": machine});
        let node = json!({"metadata": {"generateName": "n-", "labels": labels}});
        self.cluster.create(None, node).await
    }

    /// Notes of the Events about a machine with a reason, oldest first.
    async fn events(&self, name: &str, reason: &str) -> Vec<String> {
        let events: Api<Event> = Api::namespaced(self.cluster.client.clone(), "default");
        let all = events.list(&ListParams::default()).await.unwrap();
        let about = |event: &Event| {
            event.involved_object.name.as_deref() == Some(name)
                && event.reason.as_deref() == Some(reason)
        };
        all.items.into_iter().filter(about).filter_map(|event| event.message).collect()
    }

    /// Leaves nothing behind on a cluster that others use.
    async fn clean(&self, running: Running, names: &[&String]) {
        running.stop().await;
        let machines: Api<Machine> = self.cluster.api();
        for name in names {
            let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
            let _ = machines.patch(name, &PatchParams::default(), &free).await;
            let _ = machines.delete(name, &DeleteParams::default()).await;
        }
        let nodes: Api<Node> = self.cluster.api();
        let ours = ListParams::default().labels("fleet.seatrial.dev/machine");
        for node in nodes.list(&ours).await.unwrap() {
            let machine = node.labels()["fleet.seatrial.dev/machine"].clone();
            if names.contains(&&machine) {
                nodes.delete(&node.name_any(), &DeleteParams::default()).await.unwrap();
            }
        }
    }
}

fn on_a_fleet(test: impl AsyncFnOnce(Fleet)) {
    on_a_cluster(async |cluster| test(Fleet::new(cluster).await).await);
}

#[test]
fn a_certified_machine_comes_to_production_by_itself() {
    on_a_fleet(async |fleet| {
        let running = fleet.start().await;
        let name = fleet.machine(0, |_| {}).await;
        fleet.until(&running, &[&name], async || fleet.get(&name).await.status.is_some()).await;
        idle(&running).await;
        let machine = fleet.get(&name).await;
        assert_eq!(machine.finalizers(), ["fleet.seatrial.dev/release"]);
        let status = machine.status.unwrap();
        assert_eq!(status.state, State::Onboard);
        assert!(status.why.contains("certify"), "{}", status.why);
        assert!(fleet.hardware.told(&machine.spec.bmc.address).is_empty());

        fleet.certify(&name).await;
        fleet.produce(&running, &name).await;
        idle(&running).await;
        let status = fleet.status(&name).await;
        let path: Vec<&str> = status.history.iter().rev().map(|entry| &*entry.what).collect();
        assert_eq!(path, ["Onboard", "SeaTrial", "Zap", "Test", "Production"]);
        assert_eq!(status.role, Role::Spare);
        assert_eq!(status.tests[0].test, "quick");
        assert!(status.agent.is_some() && status.inventory.is_some(), "the agent's own stays");
        let told = fleet.hardware.told(&machine.spec.bmc.address);
        assert_eq!(told, ["On"], "what boots on the first voyage wipes too");
        let told = fleet.events(&name, "Power").await;
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told.iter().all(|note| note.contains("asked by seatrial-machine for state/")));
        assert_eq!(fleet.events(&name, "EnteredProduction").await.len(), 1);
        assert_eq!(running.metrics().effects("machine"), (1, 1));

        let node = fleet.node(&name).await;
        fleet.until(&running, &[&name], async || fleet.status(&name).await.node.is_some()).await;
        assert_eq!(fleet.status(&name).await.node.unwrap().uid, node.uid().unwrap());
        fleet.clean(running, &[&name]).await;
    });
}

/// As `kubectl edit --subresource=status` leaves it: a field has an owner besides the controller.
#[test]
fn what_another_wrote_into_a_status_does_not_outlast_the_next_state() {
    on_a_fleet(async |fleet| {
        let running = fleet.start().await;
        let name = fleet.machine(1, |_| {}).await;
        fleet.produce(&running, &name).await;
        let edit = Patch::Merge(json!({"status": {"pool": "another", "tenant": "nobody"}}));
        let machines: Api<Machine> = fleet.cluster.api();
        machines.patch_status(&name, &PatchParams::default(), &edit).await.unwrap();
        let boot = fleet.status(&name).await.agent.unwrap().boot;
        let request = json!({"id": "give-back", "ask": "Zap", "by": "ada", "why": "it is another's",
            "boot": boot, "at": fleet.cluster.now().to_string()});
        let ask = Patch::Merge(json!({"spec": {"request": request}}));
        machines.patch(&name, &PatchParams::default(), &ask).await.unwrap();
        let answered = async || fleet.status(&name).await.answer.is_some();
        fleet.until(&running, &[&name], answered).await;
        fleet.produce(&running, &name).await;
        idle(&running).await;
        let status = fleet.status(&name).await;
        assert_eq!((status.pool, status.tenant, status.role), (None, None, Role::Spare));
        fleet.clean(running, &[&name]).await;
    });
}

/// The controller dies after it has written what it will do: before the BMC was told, and after.
#[test]
fn a_crash_around_a_deed_makes_no_second_reset() {
    on_a_fleet(async |fleet| {
        for mood in [Mood::HangsBefore, Mood::HangsAfter] {
            let running = fleet.start().await;
            let name = fleet.machine(0, |_| {}).await;
            let address = fleet.get(&name).await.spec.bmc.address;
            fleet.hardware.at_the_next_reset(&address, mood);
            fleet.certify(&name).await;
            fleet.hardware.until_hanging(&address).await;
            drop(running);
            let operation = fleet.status(&name).await.operation.unwrap();
            assert!(operation.told.is_some());

            let running = fleet.start().await;
            fleet.wait(&running, &name, |status| status.progress.booted.is_some()).await;
            assert_eq!(fleet.hardware.told(&address), ["On"], "{mood:?}");
            let status = fleet.status(&name).await;
            assert_eq!(status.progress.booted, Some(operation.id), "the same operation");
            fleet.clean(running, &[&name]).await;
        }
    });
}

#[test]
fn a_command_whose_answer_is_lost_is_not_repeated() {
    on_a_fleet(async |fleet| {
        let running = fleet.start().await;
        let name = fleet.machine(0, |_| {}).await;
        let address = fleet.get(&name).await.spec.bmc.address;
        fleet.hardware.at_the_next_reset(&address, Mood::LosesTheAnswer);
        fleet.certify(&name).await;
        fleet.wait(&running, &name, |status| status.state == State::Production).await;
        assert_eq!(fleet.hardware.told(&address), ["On"]);
        let failed = fleet.events(&name, "PowerFailed").await;
        assert_eq!(failed.len(), 1, "{failed:?}");
        fleet.clean(running, &[&name]).await;
    });
}

/// Between decision and deed somebody presses the button: the reset that was decided is not done.
#[test]
fn a_machine_that_another_has_reset_is_left_alone() {
    on_a_fleet(async |fleet| {
        let name = fleet.machine(1, |_| {}).await;
        let address = fleet.get(&name).await.spec.bmc.address;
        fleet.hardware.press(&address);
        // It is read to decide, and once more before the deed.
        fleet.hardware.press_at_look(&address, 2);
        let running = fleet.start().await;
        fleet.wait(&running, &name, |status| status.progress.booted.is_some()).await;
        assert!(fleet.hardware.told(&address).is_empty());
        fleet.clean(running, &[&name]).await;
    });
}

#[test]
fn a_request_for_a_boot_that_is_over_is_refused() {
    on_a_fleet(async |fleet| {
        let running = fleet.start().await;
        let name = fleet.machine(1, |_| {}).await;
        fleet.produce(&running, &name).await;
        fleet.node(&name).await;
        fleet.until(&running, &[&name], async || fleet.status(&name).await.node.is_some()).await;
        let address = fleet.get(&name).await.spec.bmc.address;
        let before = fleet.hardware.told(&address).len();
        let machines: Api<Machine> = fleet.cluster.api();
        let ask = async |id: &str, boot: &str| {
            let request = json!({"id": id, "ask": "Reboot", "by": "ada", "why": "it is slow",
                "boot": boot, "evidence": ["p99 is 3 s"], "at": fleet.cluster.now().to_string()});
            let patch = Patch::Merge(json!({"spec": {"request": request}}));
            machines.patch(&name, &PatchParams::default(), &patch).await.unwrap();
            fleet
                .until(&running, &[&name], async || {
                    let answer = fleet.status(&name).await.answer;
                    answer.is_some_and(|a| a.id == id && a.outcome != Outcome::Running)
                })
                .await;
            fleet.status(&name).await.answer.unwrap()
        };
        let answer = ask("old", "another").await;
        assert_eq!(answer.outcome, Outcome::Refused);
        assert_eq!(fleet.hardware.told(&address).len(), before);
        let boot = fleet.status(&name).await.agent.unwrap().boot;
        let answer = ask("new", &boot).await;
        assert_eq!(answer.outcome, Outcome::Succeeded, "{}", answer.why);
        assert_eq!(fleet.hardware.told(&address)[before..], ["GracefulRestart"]);
        let told = fleet.events(&name, "Power").await;
        let whole = "why: it is slow; asked by ada for new; seen: p99 is 3 s";
        assert!(told.iter().any(|note| note.contains(whole)), "{told:?}");
        fleet.clean(running, &[&name]).await;
    });
}

/// A node that was silent speaks again after its reboot was written down, and before the BMC is told.
#[test]
fn a_reboot_for_what_the_node_no_longer_shows_is_not_done() {
    on_a_fleet(async |fleet| {
        let running = fleet.start().await;
        let name = fleet.machine(1, |_| {}).await;
        fleet.produce(&running, &name).await;
        let node = fleet.node(&name).await.name_any();
        fleet.until(&running, &[&name], async || fleet.status(&name).await.node.is_some()).await;
        let nodes: Api<Node> = fleet.cluster.api();
        let show = async |status: &str, reason: &str| {
            let said = json!({"type": "NodeSilent", "status": status, "reason": reason});
            let patch = Patch::Strategic(json!({"status": {"conditions": [said]}}));
            nodes.patch_status(&node, &PatchParams::default(), &patch).await.unwrap();
        };
        let address = fleet.get(&name).await.spec.bmc.address;
        let before = fleet.hardware.told(&address).len();
        let machines: Api<Machine> = fleet.cluster.api();
        let boot = fleet.status(&name).await.agent.unwrap().boot;
        let ask = async |id: &str| {
            let request = json!({"id": id, "ask": "Reboot", "by": "node", "why": "it is silent",
                "shown": {"condition": "NodeSilent", "reason": "LeaseLost"},
                "boot": boot, "at": fleet.cluster.now().to_string()});
            let patch = Patch::Merge(json!({"spec": {"request": request}}));
            machines.patch(&name, &PatchParams::default(), &patch).await.unwrap();
        };
        for (id, status, reason) in [("gone", "False", "LeaseLost"), ("other", "True", "Other")] {
            show(status, reason).await;
            ask(id).await;
            let begun = |status: &MachineStatus| {
                let operation = status.operation.as_ref();
                operation.is_some_and(|operation| operation.request.as_deref() == Some(id))
            };
            fleet.wait(&running, &name, begun).await;
            // Longer than it takes to be told once more.
            for _ in 0..10 {
                idle(&running).await;
                fleet.cluster.pass(1).await;
            }
            assert_eq!(fleet.hardware.told(&address).len(), before, "{id}");
            let free = Patch::Merge(json!({"spec": {"request": null}}));
            machines.patch(&name, &PatchParams::default(), &free).await.unwrap();
            fleet.wait(&running, &name, |status| status.operation.is_none()).await;
        }
        show("True", "LeaseLost").await;
        ask("shown").await;
        let done = |status: &MachineStatus| {
            let answer = status.answer.as_ref();
            answer.is_some_and(|a| a.id == "shown" && a.outcome == Outcome::Succeeded)
        };
        fleet.wait(&running, &name, done).await;
        assert_eq!(fleet.hardware.told(&address)[before..], ["GracefulRestart"]);
        fleet.clean(running, &[&name]).await;
    });
}

#[test]
fn a_silent_bmc_is_waited_for() {
    on_a_fleet(async |fleet| {
        let running = fleet.start().await;
        let name = fleet.machine(0, |_| {}).await;
        let address = fleet.get(&name).await.spec.bmc.address;
        fleet.hardware.silence(&address, true);
        fleet.certify(&name).await;
        fleet.wait(&running, &name, |status| status.bmc_lost.is_some()).await;
        let status = fleet.status(&name).await;
        assert!(status.why.contains("does not answer"), "{}", status.why);
        let reachable = status.conditions.iter().find(|c| c.type_ == "BmcReachable").unwrap();
        assert_eq!(reachable.status, "False");
        fleet.hardware.silence(&address, false);
        fleet.wait(&running, &name, |status| status.state == State::Production).await;
        assert_eq!(fleet.status(&name).await.bmc_lost, None);
        fleet.clean(running, &[&name]).await;
    });
}

#[test]
fn a_credential_that_is_wrong_is_named() {
    on_a_fleet(async |fleet| {
        let running = fleet.start().await;
        let credential = |name: &'static str| {
            move |object: &mut Value| object["spec"]["bmc"]["credential"] = name.into()
        };
        fleet.secret("bad", "wrong").await;
        let none = fleet.machine(1, credential("nobodys")).await;
        let bad = fleet.machine(1, credential("bad")).await;
        let says = |text: &'static str| move |status: &MachineStatus| status.why.contains(text);
        fleet.wait(&running, &none, says("there is no Secret seatrial-system/nobodys")).await;
        fleet.wait(&running, &bad, says("refuses the password of user \"root\"")).await;
        fleet.secret("bad", "secret").await;
        fleet.wait(&running, &bad, |status| status.state == State::Production).await;
        fleet.clean(running, &[&none, &bad]).await;
    });
}

#[test]
fn a_deleted_machine_is_switched_off_before_its_object_goes() {
    on_a_fleet(async |fleet| {
        let running = fleet.start().await;
        let name = fleet.machine(1, |_| {}).await;
        fleet.produce(&running, &name).await;
        let node = fleet.node(&name).await.name_any();
        let address = fleet.get(&name).await.spec.bmc.address;
        fleet.until(&running, &[&name], async || fleet.status(&name).await.node.is_some()).await;
        let machines: Api<Machine> = fleet.cluster.api();
        machines.delete(&name, &DeleteParams::default()).await.unwrap();
        let serves = |status: &MachineStatus| status.why.contains("while its node serves");
        fleet.wait(&running, &name, serves).await;
        assert!(!fleet.hardware.told(&address).contains(&"ForceOff".to_owned()));

        fleet.cluster.api::<Node>().delete(&node, &DeleteParams::default()).await.unwrap();
        for _ in 0..60 {
            idle(&running).await;
            if machines.get_opt(&name).await.unwrap().is_none() {
                break;
            }
            fleet.cluster.pass(1).await;
        }
        assert!(machines.get_opt(&name).await.unwrap().is_none(), "released");
        assert_eq!(fleet.hardware.told(&address).last().unwrap(), "ForceOff");
        assert_eq!(fleet.events(&name, "Released").await.len(), 1);
        fleet.clean(running, &[&name]).await;
    });
}

#[test]
fn a_node_whose_machine_leaves_production_is_deleted() {
    on_a_fleet(async |fleet| {
        let running = fleet.start().await;
        let name = fleet.machine(1, |_| {}).await;
        fleet.produce(&running, &name).await;
        let node = fleet.node(&name).await.name_any();
        let request = json!({"id": "broken", "ask": "RMA", "by": "ada", "why": "it smokes",
            "at": fleet.cluster.now().to_string()});
        let patch = Patch::Merge(json!({"spec": {"request": request}}));
        let machines: Api<Machine> = fleet.cluster.api();
        machines.patch(&name, &PatchParams::default(), &patch).await.unwrap();
        fleet.wait(&running, &name, |status| status.progress.cycled.is_some()).await;
        let status = fleet.status(&name).await;
        assert_eq!((status.state, status.node), (State::Rma, None));
        assert!(fleet.cluster.api::<Node>().get_opt(&node).await.unwrap().is_none());
        assert_eq!(fleet.events(&name, "NodeDeleted").await.len(), 1);
        fleet.clean(running, &[&name]).await;
    });
}

/// Plans are made side by side, and still no more are switched on than the rack allows.
#[test]
fn a_rack_is_switched_on_a_few_at_a_time() {
    on_a_fleet(async |fleet| {
        let rack: Rack = {
            let rack = json!({"metadata": {"generateName": "r-"},
                "spec": {"site": "here", "slots": 8, "powerOns": 2}});
            fleet.cluster.create(None, rack).await
        };
        let mut names = Vec::new();
        for _ in 0..6 {
            let place = |object: &mut Value| {
                object["spec"]["place"]["rack"] = rack.name_any().into();
            };
            names.push(fleet.machine(1, place).await);
        }
        let running = fleet.start().await;
        let names: Vec<&String> = names.iter().collect();
        let mut most = 0;
        for turn in 0.. {
            assert!(turn < 100, "they never came to production");
            idle(&running).await;
            let (mut on, mut ready) = (0, 0);
            for name in &names {
                let status = fleet.status(name).await;
                let effect = status.operation.map(|operation| operation.effect);
                on += usize::from(matches!(effect, Some(api::request::Effect::Power(_))));
                ready += usize::from(status.state == State::Production);
            }
            most = most.max(on);
            if ready == names.len() {
                break;
            }
            fleet.agents(&names).await;
        }
        assert_eq!(most, 2);
        fleet.clean(running, &names).await;
    });
}

#[test]
fn without_a_way_to_bmcs_nothing_is_done() {
    on_a_fleet(async |mut fleet| {
        fleet.site.bmcs = None;
        let running = fleet.start().await;
        let name = fleet.machine(1, |_| {}).await;
        idle(&running).await;
        assert_eq!(fleet.get(&name).await.status, None);
        fleet.clean(running, &[&name]).await;
    });
}
