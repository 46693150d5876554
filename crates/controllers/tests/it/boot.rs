//! The boot service against a cluster: who is told what, once, whoever asks or dies meanwhile.

use std::sync::Arc;

use api::machine::{Agent, Bmc, MachineSpec, MachineStatus, Place};
use api::state::State;
use api::{Machine, names};
use bytes::Bytes;
use controllers::Site;
use controllers::boot::{Addresses, Desk, joining};
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kit::controller::Running;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use metal::boot::{Claim, Identity, JoinToken, Manifest, NotGiven};
use serde_json::{Value, json};
use tower::ServiceExt as _;

use crate::certificates::{ask, request};
use crate::crash::{Between, Mishap};
use crate::fleet::Fleet;
use crate::support::{Cluster, idle, on_a_cluster};

const URL: &str = "http://boot.test";
const MAC: &str = "02:00:00:00:01:01";
const SECRET: &str = "0123456789abcdef0123456789abcdef";
const OTHER: &str = "ffffffffffffffffffffffffffffffff";
const ALL: [&str; 4] = ["boot", "joinapproving", "csrsigning", "tokencleaner"];

/// A boot service, and a machine with what runs on it.
struct Service {
    cluster: Cluster,
    desk: Desk,
}

impl Service {
    async fn new(cluster: Cluster) -> Self {
        let cluster = Fleet::new(cluster).await.cluster;
        for binding in joining() {
            cluster.apply::<ClusterRoleBinding>(None, &binding).await;
        }
        Self { cluster, desk: desk() }
    }

    fn site(&self, desk: &Desk) -> Site {
        let authority = Some(self.cluster.authority());
        Site { boots: Some(desk.clone()), authority, ..Fleet::site() }
    }

    async fn start(&self) -> Running {
        self.cluster.start_at(&ALL, &self.site(&self.desk)).await
    }

    async fn machine(&self, name: &str, macs: &[&str]) {
        let spec = MachineSpec {
            instance_type: "h100".to_owned(),
            image: Some(format!("image-of-{name}")),
            place: Place {
                site: "s".to_owned(),
                rack: "r1".to_owned(),
                slot: 1,
                ..Place::default()
            },
            bmc: Bmc { address: "https://bmc".to_owned(), credential: "bmc".to_owned() },
            macs: macs.iter().map(|mac| (*mac).to_owned()).collect(),
            ..MachineSpec::default()
        };
        let object = Machine::new(name, spec);
        self.machines().create(&PostParams::default(), &object).await.unwrap();
    }

    /// The machine is in a state, and its agent has said which boot runs.
    async fn runs(&self, name: &str, state: State, boot: &str) {
        let agent = Agent {
            boot: boot.to_owned(),
            image: "i".to_owned(),
            kernel: None,
            since: self.cluster.now(),
        };
        let status = MachineStatus { state, agent: Some(agent), ..MachineStatus::default() };
        let patch = Patch::Merge(json!({"status": status}));
        let params = PatchParams::default();
        self.machines().patch_status(name, &params, &patch).await.unwrap();
    }

    fn machines(&self) -> Api<Machine> {
        self.cluster.api()
    }

    async fn status(&self, name: &str) -> MachineStatus {
        self.machines().get(name).await.unwrap().status.unwrap_or_default()
    }

    async fn enrol(&self, boot: &str, secret: &str) -> Result<Identity, NotGiven> {
        metal::boot::enrol(&self.desk.exchange(), URL, &claim(boot, secret)).await
    }

    async fn join(&self, boot: &str, secret: &str) -> Result<JoinToken, NotGiven> {
        metal::boot::join(&self.desk.exchange(), URL, &claim(boot, secret)).await
    }

    /// The tokens to join that there are.
    async fn tokens(&self) -> Vec<Secret> {
        let secrets: Api<Secret> = Api::namespaced(self.cluster.client.clone(), "kube-system");
        let bootstrap = ListParams::default().fields("type=bootstrap.kubernetes.io/token");
        secrets.list(&bootstrap).await.unwrap().items
    }

    /// The reasons of what was told of a machine, sorted.
    async fn told(&self, name: &str) -> Vec<String> {
        let events: Api<Event> = self.cluster.api();
        let all = events.list(&ListParams::default()).await.unwrap().items;
        let of = |event: &Event| event.regarding.as_ref().and_then(|about| about.name.clone());
        let ours = all.into_iter().filter(|event| of(event).as_deref() == Some(name));
        let mut reasons: Vec<String> = ours.filter_map(|event| event.reason).collect();
        reasons.sort_unstable();
        reasons
    }

    /// What became of a request for a certificate: its conditions, and whether it was issued.
    async fn verdict(&self, name: &str) -> (Vec<String>, bool) {
        let requests: Api<CertificateSigningRequest> = self.cluster.api();
        let status = requests.get(name).await.unwrap().status.unwrap_or_default();
        let conditions = status.conditions.unwrap_or_default();
        (conditions.into_iter().map(|c| c.type_).collect(), status.certificate.is_some())
    }
}

fn desk() -> Desk {
    Desk::new(Addresses {
        service: URL.to_owned(),
        api: "https://api.test".to_owned(),
        images: "http://images.test/".to_owned(),
        arguments: vec!["quiet".to_owned()],
    })
}

fn claim(boot: &str, secret: &str) -> Claim {
    Claim { mac: MAC.to_owned(), boot: boot.to_owned(), secret: secret.to_owned() }
}

async fn manifest(desk: &Desk, mac: &str) -> (u16, String) {
    let url = format!("{URL}/boot/v1/manifest?mac={mac}");
    let request = http::Request::get(url).body(Bytes::new()).unwrap();
    let answer = desk.exchange().oneshot(request).await.unwrap();
    (answer.status().as_u16(), String::from_utf8(answer.body().to_vec()).unwrap())
}

/// A machine whose boot `b1` has enrolled and is in production.
fn with_a_machine(test: impl AsyncFnOnce(Service, Running)) {
    let test = async |cluster| {
        let service = Service::new(cluster).await;
        service.machine("m1", &[MAC]).await;
        let running = service.start().await;
        service.enrol("b1", SECRET).await.unwrap();
        service.runs("m1", State::Production, "b1").await;
        idle(&running).await;
        test(service, running).await;
    };
    on_a_cluster(test);
}

#[test]
fn a_machine_is_known_by_each_of_its_addresses() {
    on_a_cluster(async |cluster| {
        let service = Service::new(cluster).await;
        let starting = manifest(&service.desk, MAC).await;
        assert!(starting.0 == 503 && starting.1.contains("does not know"), "{starting:?}");
        let running = service.start().await;
        assert_eq!(manifest(&service.desk, MAC).await.0, 404);
        service.machine("m1", &[MAC, "02:00:00:00:01:02"]).await;
        service.machine("m2", &["02:00:00:00:01:02", "02:00:00:00:01:03"]).await;
        idle(&running).await;
        for (mac, name) in [(MAC, "m1"), ("020000000102", "m1"), ("02-00-00-00-01-03", "m2")] {
            let (status, body) = manifest(&service.desk, mac).await;
            assert_eq!(status, 200, "{body}");
            let manifest: Manifest = serde_json::from_str(&body).unwrap();
            assert_eq!(manifest.machine, name);
            assert_eq!(manifest.kernel, format!("http://images.test/image-of-{name}/vmlinuz"));
            assert_eq!((&*manifest.service, &*manifest.api), (URL, "https://api.test"));
        }
        // What is no longer described is no longer answered.
        service.machines().delete("m1", &Default::default()).await.unwrap();
        idle(&running).await;
        assert_eq!(manifest(&service.desk, MAC).await.0, 404);
        let (_, body) = manifest(&service.desk, "020000000102").await;
        assert_eq!(serde_json::from_str::<Manifest>(&body).unwrap().machine, "m2");
        running.stop().await;
    });
}

#[test]
fn a_machine_without_image_waits_for_its_type() {
    on_a_cluster(async |cluster| {
        let service = Service::new(cluster).await;
        service.machine("m1", &[MAC]).await;
        let none = Patch::Merge(json!({"spec": {"image": null}}));
        service.machines().patch("m1", &PatchParams::default(), &none).await.unwrap();
        let running = service.start().await;
        let (status, why) = manifest(&service.desk, MAC).await;
        assert!(status == 503 && why.contains("no InstanceType h100"), "{why}");
        running.stop().await;
    });
}

#[test]
fn the_first_to_ask_for_a_boot_is_that_boot() {
    on_a_cluster(async |cluster| {
        let service = Service::new(cluster).await;
        service.machine("m1", &[MAC]).await;
        let running = service.start().await;
        let identity = service.enrol("b1", SECRET).await.unwrap();
        let recorded = service.status("m1").await.enrolment.unwrap();
        assert_eq!(recorded.boot, "b1");
        assert!(recorded.proof.len() == 64 && !recorded.proof.contains(SECRET));
        // The answer may have been lost: it is told again, and nothing is recorded anew.
        let again = service.enrol("b1", SECRET).await.unwrap();
        assert_eq!(again.machine, "m1");
        let refused = service.enrol("b1", OTHER).await.unwrap_err();
        assert!(refused.why.starts_with("403") && refused.why.contains("another secret"));
        assert_eq!(service.status("m1").await.enrolment, Some(recorded));
        assert_eq!(service.told("m1").await, ["Enrolled"]);

        // It is the machine's own account, which goes with its machine.
        let machine = service.cluster.showing(&identity.token).await;
        let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
        let request = http::Request::post("/apis/authentication.k8s.io/v1/selfsubjectreviews")
            .header("content-type", "application/json")
            .body(serde_json::to_vec(&review).unwrap())
            .unwrap();
        let review: Value = machine.request(request).await.unwrap();
        let user = review["status"]["userInfo"]["username"].as_str().unwrap();
        assert_eq!(user, format!("{}m1", names::MACHINE_USER));
        let groups = review["status"]["userInfo"]["groups"].as_array().unwrap();
        assert!(groups.contains(&json!(names::MACHINE_GROUP)), "{groups:?}");
        let accounts: Api<ServiceAccount> =
            Api::namespaced(service.cluster.client.clone(), names::MACHINES);
        let account = accounts.get("m1").await.unwrap();
        let owner = &account.metadata.owner_references.unwrap()[0];
        assert_eq!((&*owner.kind, &*owner.name), ("Machine", "m1"));

        // Another boot takes over, and the boot before it is told nothing any more.
        service.enrol("b2", OTHER).await.unwrap();
        assert_eq!(service.status("m1").await.enrolment.unwrap().boot, "b2");
        assert!(service.enrol("b2", SECRET).await.is_err());
        running.stop().await;
    });
}

#[test]
fn a_token_is_good_for_one_certificate_of_its_own_node() {
    with_a_machine(async |service, running| {
        service.machine("m2", &["02:00:00:00:01:02"]).await;
        let token = service.join("b1", SECRET).await.unwrap();
        let given = service.status("m1").await.enrolment.unwrap().token.unwrap();
        assert!(token.token.starts_with(&given.id) && given.count == 1);
        assert_eq!(given.expires, token.expires);
        let secret = &service.tokens().await[0];
        let data = secret.data.as_ref().unwrap();
        let text = |key: &str| String::from_utf8(data[key].0.clone()).unwrap();
        assert_eq!(text("description"), "machine m1, boot b1");
        assert_eq!(text("auth-extra-groups"), names::JOINING_GROUP);

        let joining = service.cluster.showing(&token.token).await;
        let other = ask(&joining, &request("system:node:m2", "system:nodes")).await;
        let admin = ask(&joining, &request("system:node:m1", "system:masters")).await;
        let own = ask(&joining, &request("system:node:m1", "system:nodes")).await;
        idle(&running).await;
        assert_eq!(service.verdict(&other).await, (vec!["Denied".to_owned()], false));
        assert_eq!(service.verdict(&admin).await, (vec!["Denied".to_owned()], false));
        assert_eq!(service.verdict(&own).await, (vec!["Approved".to_owned()], true));
        let spent = service.status("m1").await.admission.unwrap();
        assert_eq!(spent.token, given.id);
        let second = ask(&joining, &request("system:node:m1", "system:nodes")).await;
        idle(&running).await;
        assert_eq!(service.verdict(&second).await, (vec!["Denied".to_owned()], false));
        assert_eq!(service.told("m1").await, ["Enrolled", "JoinTokenGiven", "Joins"]);
        // It may do nothing else.
        let secrets: Api<Secret> = Api::namespaced(joining.clone(), "kube-system");
        assert!(secrets.list(&ListParams::default()).await.is_err());
        running.stop().await;
    })
}

#[test]
fn a_lost_answer_costs_a_machine_minutes_and_strands_it_never() {
    with_a_machine(async |service, running| {
        let mut tokens = Vec::new();
        for count in 1..=3 {
            let token = service.join("b1", SECRET).await.unwrap();
            let spent = service.join("b1", SECRET).await.unwrap_err();
            assert!(spent.why.starts_with("409"), "{spent}");
            let wait = spent.after.map(|after| after.as_secs());
            assert_eq!(wait, (count < 3).then_some(180), "{count}: {spent}");
            assert_eq!(service.tokens().await.len(), 1, "one is good at a time");
            service.cluster.pass(181).await;
            service.cluster.until(&running, async || service.tokens().await.is_empty()).await;
            let late = service.cluster.showing(&token.token).await;
            let requests: Api<CertificateSigningRequest> = Api::all(late);
            let refused = requests.list(&ListParams::default()).await.unwrap_err();
            assert!(matches!(&refused, kube::Error::Api(s) if s.code == 401), "{refused}");
            tokens.push(token.token);
        }
        tokens.dedup();
        assert_eq!(tokens.len(), 3, "no two are alike");
        let spent = service.join("b1", SECRET).await.unwrap_err();
        assert!(spent.why.contains("a new boot gets another") && spent.after.is_none(), "{spent}");
        service.enrol("b2", OTHER).await.unwrap();
        service.runs("m1", State::Production, "b2").await;
        idle(&running).await;
        service.join("b2", OTHER).await.unwrap();
        running.stop().await;
    })
}

#[test]
fn who_may_not_join_is_given_nothing() {
    with_a_machine(async |service, running| {
        let refused = async |boot: &str, secret: &str, says: &str| {
            let refused = service.join(boot, secret).await.unwrap_err();
            assert!(refused.why.starts_with("403") && refused.why.contains(says), "{refused}");
        };
        refused("b1", OTHER, "another secret").await;
        refused("b0", SECRET, "does not run this boot").await;
        // A boot that has reported, and never enrolled: the agent's word alone is nothing.
        service.runs("m1", State::Production, "b9").await;
        idle(&running).await;
        refused("b9", SECRET, "has not enrolled").await;
        for state in [State::Onboard, State::SeaTrial, State::Zap, State::Test, State::Triage] {
            service.runs("m1", state, "b1").await;
            idle(&running).await;
            refused("b1", SECRET, "not in Production").await;
        }
        assert_eq!(service.tokens().await, []);
        assert_eq!(service.told("m1").await, ["Enrolled"]);
        // A token that was given before the machine left production is good for nothing after it.
        service.runs("m1", State::Production, "b1").await;
        idle(&running).await;
        let token = service.join("b1", SECRET).await.unwrap();
        service.runs("m1", State::Triage, "b1").await;
        let joining = service.cluster.showing(&token.token).await;
        let late = ask(&joining, &request("system:node:m1", "system:nodes")).await;
        idle(&running).await;
        assert_eq!(service.verdict(&late).await, (vec!["Denied".to_owned()], false));
        running.stop().await;
    })
}

#[test]
fn of_many_askers_at_two_replicas_one_is_given_a_token() {
    with_a_machine(async |service, running| {
        let second = desk();
        let replica = service.cluster.start_at(&["boot"], &service.site(&second)).await;
        let (first, second) = (service.desk.exchange(), second.exchange());
        let asks = (0..20).map(|nth| {
            let exchange = if nth % 2 == 0 { &first } else { &second };
            async move { metal::boot::join(exchange, URL, &claim("b1", SECRET)).await }
        });
        let answers = futures::future::join_all(asks).await;
        let given = answers.iter().filter(|answer| answer.is_ok()).count();
        assert_eq!(given, 1, "{answers:?}");
        for answer in answers.iter().filter_map(|answer| answer.as_ref().err()) {
            assert!(answer.why.starts_with("409") && answer.after.is_some(), "{answer}");
        }
        assert_eq!(service.tokens().await.len(), 1);
        replica.stop().await;
        running.stop().await;
    })
}

/// Wherever the service dies, or whichever answer to it is lost, at most one token is good, what was
/// given stands in the Machine before it is told, and the machine joins within the tokens' time.
fn nothing_is_given_twice(mishap: Mishap) {
    on_a_cluster(async |cluster| {
        let service = Arc::new(Service::new(cluster).await);
        for after in 0.. {
            let name = format!("m{after}");
            service.machine(&name, &[MAC]).await;
            service.runs(&name, State::Production, "b1").await;
            let between = Between::new(after, mishap);
            let (desk, through) = (desk(), |client: Client| between.client(client));
            let site = service.site(&desk);
            let running = service.cluster.start_through(&["boot"], &site, through).await;
            idle(&running).await;
            let first = try_to_join(&desk).await;
            running.stop().await;
            let recorded = service.status(&name).await.enrolment.and_then(|e| e.token);
            let tokens = service.tokens().await;
            assert!(tokens.is_empty() || recorded.is_some(), "{after}: it was made unrecorded");
            assert!(first.is_err() || recorded.is_some(), "{after}: it was told unrecorded");

            let running = service.start().await;
            if first.is_err() {
                let mut then = try_to_join(&service.desk).await;
                if let Err(NotGiven { after: Some(wait), .. }) = then {
                    service.cluster.pass(wait.as_secs() + 1).await;
                    then = try_to_join(&service.desk).await;
                }
                then.unwrap();
            }
            service.cluster.pass(200).await;
            service.cluster.until(&running, async || service.tokens().await.is_empty()).await;
            service.machines().delete(&name, &Default::default()).await.unwrap();
            idle(&running).await;
            running.stop().await;
            if !between.came() {
                assert!(after >= 5, "{after} writes are not the whole story");
                return;
            }
        }
    });
}

/// Enrols and asks for a token, as a machine does: what fails by the way is asked once more.
async fn try_to_join(desk: &Desk) -> Result<JoinToken, NotGiven> {
    let (exchange, claim) = (desk.exchange(), claim("b1", SECRET));
    if metal::boot::enrol(&exchange, URL, &claim).await.is_err() {
        metal::boot::enrol(&exchange, URL, &claim).await?;
    }
    metal::boot::join(&exchange, URL, &claim).await
}

#[test]
fn nothing_is_given_twice_wherever_the_service_dies() {
    nothing_is_given_twice(Mishap::Death);
}

#[test]
fn nothing_is_given_twice_whichever_answer_is_lost() {
    nothing_is_given_twice(Mishap::LostAnswer);
}
